"""How fast a trace becomes a frame: tailrace's analyzer, and the peers' readers on their traces of the same program.

    python tests/bench/load.py [--events N] [--quick] [--json FILE]

    reads.c traced as TASKS processes of STAGES stages -> each step in a Python of its own, in rounds -> table

Why that is fair: every reader gets what its own tracer wrote of the same calls, from the page cache, and may use all
processors. It runs the same eight steps where its trace has the data, and the rows that it returns are counted, which
detects a reader that drops rows. Imports are not timed. The peak is of resident memory, less what the process used
before the step.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

import overhead
import peers
from rich.console import Console
from rich.table import Table

from tailrace.integrations import launcher

STAGES, TASKS = 5, 10

# Runs in any Python: `directory` is given, `rows` is what the step returned.
PROGRAM = """
import json, pathlib, sys, time
directory, pids = sys.argv[1], json.loads(sys.argv[2])
def status(key):
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))
{imports}
before = status("VmRSS:")
start = time.perf_counter_ns()
{body}
wall_ns = time.perf_counter_ns() - start
print(json.dumps({{"wall_ns": wall_ns, "rows": rows, "peak_bytes": max(status("VmHWM:") - before, 0)}}))
"""

OUR_COLUMNS = ["name", "cat", "pid", "ts", "dur", "path", "offset", "size"]
DFTRACER_COLUMNS = ["name", "cat", "pid", "ts", "dur", "fhash", "args.offset", "args.ret"]


@dataclass(frozen=True)
class Step:
    """Something to time.

    share: of all events, what it has to return; None when it returns no rows. stale: files of the trace's directory
    that are removed before it. in_process: its work, and so its memory, is that of its own process.
    """

    reader: str
    title: str
    python: str
    imports: str
    body: str
    share: float | None
    stale: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    in_process: bool = True


@dataclass
class Loaded:
    """A step's rounds. rows: the fewest of any round; expected: what the trace holds."""

    reader: str
    step: str
    expected: int | None
    wall_ns: list[int] = field(default_factory=list)
    peak_bytes: list[int] = field(default_factory=list)
    rows: int | None = None
    fault: str | None = None


# ---- the steps ----


def our_steps() -> list[Step]:
    """tailrace's: the catalogue, all events, one stage's."""
    imports = "import pandas, pyarrow, tailrace, tailrace.analyzer.run"
    load = f"rows = len(tailrace.open(directory).read(columns={OUR_COLUMNS}%s))"

    def step(title: str, body: str, share: float | None, stale: tuple[str, ...] = ()) -> Step:
        return Step("tailrace", title, sys.executable, imports, body, share, stale)

    return [
        step("catalogue: build", "tailrace.open(directory); rows = 0", None, ("tailrace.db",)),
        step("catalogue: open", "tailrace.open(directory); rows = 0", None),
        step("8 columns", load % "", 1.0),
        step("8 columns of one stage of five", load % ", stage='stage-1'", 1 / STAGES),
        step("all columns", "rows = len(tailrace.open(directory).read())", 1.0),
    ]


def dftracer_steps() -> list[Step]:
    """dftracer-utils': the index, which its frames need, all events, those of a stage's processes."""
    python = os.environ.get("DFTRACER_PYTHON", sys.executable)
    if not _imports(python, "import dftracer.utils, pandas"):
        return []
    indexer = Path(python).with_name("dftracer_index")
    build = f"subprocess.run([{str(indexer)!r}, '-d', directory, '--force'], check=True, capture_output=True); rows = 0"
    load = f"rows = len(TraceViewer(directory)%s.select(*{DFTRACER_COLUMNS}).collect().to_pandas())"
    where = ".filter(' or '.join(f'pid == {pid}' for pid in pids))"

    def step(title: str, body: str, share: float | None) -> Step:
        imports = "import subprocess, pandas\nfrom dftracer.utils import TraceViewer"
        return Step("dftracer-utils", title, python, imports, body, share, in_process=share is not None)

    return [
        step("index: build", build, None),
        step("8 columns", load % "", 1.0),
        step("8 columns of one stage of five (by pid)", load % where, 1 / STAGES),
    ]


def darshan_steps() -> list[Step]:
    """PyDarshan's: all DXT segments."""
    python = os.environ.get("PYDARSHAN_PYTHON", sys.executable)
    prefix = os.environ.get("DARSHAN_PREFIX")
    variables = (("LD_LIBRARY_PATH", f"{prefix}/lib"),) if prefix else ()
    if not _imports(python, "import darshan, pandas", dict(variables)):
        return []
    body = """
frames = []
for log in sorted(pathlib.Path(directory).rglob("*.darshan")):
    report = darshan.DarshanReport(str(log), read_all=False)
    report.mod_read_all_dxt_records("DXT_POSIX", dtype="pandas")
    for record in report.records["DXT_POSIX"]:
        frames += [record[key].assign(file=record["id"]) for key in ("read_segments", "write_segments")]
rows = len(pandas.concat(frames, ignore_index=True))
"""
    title = "DXT: 5 columns and the file"
    return [Step("pydarshan", title, python, "import darshan, pandas", body, 1.0, variables=variables)]


def _imports(python: str, code: str, variables: dict[str, str] | None = None) -> bool:
    env = {**peers.plain_environment(), **(variables or {})}
    return subprocess.run([python, "-c", code], env=env, capture_output=True, check=False).returncode == 0


# ---- traces ----


def write_trace(tracer: peers.Tracer, directory: Path, calls: int, scratch: Path) -> list[int]:
    """Traces TASKS processes that make `calls` reads in all; returns the pids of one stage's processes."""
    directory.mkdir()
    pids = []
    each = calls // TASKS
    for task in range(TASKS):
        stage = task % STAGES
        own = directory
        if tracer.name == overhead.OURS:
            tracer = peers.tailrace_tracers(f"workflow=bench,stage=stage-{stage},task={task},job=4711")[0]
        elif tracer.name == "darshan-dxt":
            own = directory / str(task)  # its log has one name
            own.mkdir()
        env = tracer.variables(own, each, peers.plain_environment())
        command = [str(scratch / "reads"), "read", str(scratch / "data"), str(each)]
        with (
            tracer.beside(own, env),
            subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL) as process,
        ):
            pass
        if stage == 1:
            pids.append(process.pid)
    return pids


def measure(steps: Sequence[tuple[Step, Path, list[int], int]], rounds: int) -> list[Loaded]:
    """Runs the steps in rounds. Each with its trace, the pids of a stage, and the events of the trace."""
    results = [
        Loaded(step.reader, step.title, None if step.share is None else round(events * step.share))
        for step, _, _, events in steps
    ]
    for _ in range(rounds):
        for (step, directory, pids, _), result in zip(steps, results, strict=True):
            if result.fault is None:
                _run_step(step, directory, pids, result)
    return results


def _run_step(step: Step, directory: Path, pids: list[int], into: Loaded) -> None:
    for name in step.stale:
        (directory / name).unlink(missing_ok=True)
    code = PROGRAM.format(imports=step.imports, body=step.body)
    env = {**peers.plain_environment(), **dict(step.variables)}
    command = [step.python, "-c", code, str(directory), json.dumps(pids)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        into.fault = (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
        return
    found = json.loads(done.stdout.splitlines()[-1])
    into.wall_ns.append(found["wall_ns"])
    if step.in_process:
        into.peak_bytes.append(found["peak_bytes"])
    if into.expected is not None:
        into.rows = found["rows"] if into.rows is None else min(into.rows, found["rows"])


# ---- for people ----


def table_of(results: Sequence[Loaded], events: int, rounds: int) -> Table:
    """One row a step."""
    table = Table(title=f"loading a trace of {events:,} reads ({rounds} rounds)", title_justify="left")
    for heading in ("reader", "step"):
        table.add_column(heading, no_wrap=True)
    for heading in ("s: min", "median", "max", "M rows/s", "peak MiB", "rows", "of"):
        table.add_column(heading, justify="right")
    for result in results:
        expected = "" if result.expected is None else f"{result.expected:,}"
        if not result.wall_ns:
            table.add_row(result.reader, result.step, "", "", "", "", "", result.fault or "", expected)
            continue
        times = [value / 1e9 for value in (min(result.wall_ns), median(result.wall_ns), max(result.wall_ns))]
        cells = [f"{value:.3f}" for value in times]
        cells.append(f"{result.rows / times[0] / 1e6:.2f}" if result.rows else "")
        cells.append(f"{max(result.peak_bytes) / 2**20:.0f}" if result.peak_bytes else "")
        cells.append(result.fault or ("" if result.rows is None else f"{result.rows:,}"))
        table.add_row(result.reader, result.step, *cells, expected)
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures how fast traces are loaded, with the peers that are here.")
    parser.add_argument("--events", type=int, default=1_000_000, help="reads in the trace (default 1,000,000)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="100,000 events, two rounds: does it work?")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers there")
    parser.add_argument("--dir", type=Path, help="where the traces lie meanwhile (default: $TMPDIR)")
    options = parser.parse_args()
    calls, rounds = (100_000, 2) if options.quick else (options.events // TASKS * TASKS, options.rounds)

    console = Console(width=None if sys.stdout.isatty() else 140)
    about = overhead.machine()
    tracers = {tracer.name: tracer for tracer in peers.find_tracers()[0]}
    wanted = {"tailrace": our_steps(), "dftracer": dftracer_steps(), "darshan-dxt": darshan_steps()}
    with tempfile.TemporaryDirectory(prefix="tailrace-load-", dir=options.dir) as made:
        scratch = Path(made).resolve()
        overhead.prepare(scratch)
        steps: list[tuple[Step, Path, list[int], int]] = []
        for name, found in wanted.items():
            if name not in tracers or not found:
                console.print(f"{name}: absent, {'its tracer' if name not in tracers else 'its reader'} is not here")
                continue
            pids = write_trace(tracers[name], scratch / name, calls, scratch)
            launcher.seal(scratch / name)  # takes tailrace's emptied folder of journals away
            steps += [(step, scratch / name, pids, calls) for step in found]
        results = measure(steps, rounds)
    console.print(table_of(results, calls, rounds))
    if options.json:
        numbers = {"machine": about, "events": calls, "results": [asdict(result) for result in results]}
        options.json.write_text(json.dumps(numbers, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
