"""How fast a trace becomes an answer: tailrace's analyzer, the peers' readers on their traces of the same program, and
DuckDB on tailrace's lines and on a store's Parquet.

    python tests/bench/load.py [--events N] [--quick] [--only READER...] [--keep DIR] [--json FILE]

    reads.c traced as TASKS processes, one of them a stage of its own -> each step in a Python of its own -> table

Why that is fair: every reader gets what its own tracer wrote of the same calls, from the page cache, and may use all
processors. It runs the same steps where its trace has the data, and the rows that it returns or counts are compared
with the calls made, which detects a reader that drops rows. Imports are not timed, but for the steps that are commands.
The peak is of resident memory, less what the process used before the step.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

import overhead
import peers
from rich.console import Console
from rich.table import Table

from tailrace.integrations import launcher

STAGES, TASKS = 9, 100
"""The stages of all tasks but the first, which is the stage SMALL: 1% of the events."""
SMALL = "small"

# Runs in any Python: `directory` is given, `rows` is what the step returned.
PROGRAM = """
import json, os, pathlib, sys, time
directory, pids = sys.argv[1], json.loads(sys.argv[2])
def status(key):
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))
{imports}
before = status("VmRSS:")
def cpu():
    return sum(os.times()[:4])  # with that of children
start, cpu_before = time.perf_counter_ns(), cpu()
{body}
wall_ns, cpu_ns = time.perf_counter_ns() - start, round((cpu() - cpu_before) * 1e9)
peak = max(status("VmHWM:") - before, 0)
print(json.dumps({{"wall_ns": wall_ns, "cpu_ns": cpu_ns, "rows": rows, "peak_bytes": peak}}))
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
    cpu_ns: list[int] = field(default_factory=list)
    peak_bytes: list[int] = field(default_factory=list)
    rows: int | None = None
    fault: str | None = None


# ---- the steps ----


def our_steps() -> list[Step]:
    """tailrace's: the catalogue, commands, totals, all events, one stage's."""
    imports = "import pandas, pyarrow, tailrace, tailrace.analyzer.run"
    load = f"rows = len(tailrace.open(directory).read(columns={OUR_COLUMNS}%s))"
    totals = "rows = int(tailrace.open(directory).totals(%s, ['count', 'sum:dur']%s)['count'].sum())"

    def step(title: str, body: str, share: float | None, stale: tuple[str, ...] = (), in_process: bool = True) -> Step:
        return Step("tailrace", title, sys.executable, imports, body, share, stale, in_process=in_process)

    def command(*words: str) -> Step:
        program = [sys.executable, "-m", "tailrace.cli.main", words[0]]
        body = f"subprocess.run([*{program}, directory, *{list(words[1:])}], check=True, capture_output=True); rows = 0"
        title = f"`tailrace {' '.join(words)}`"
        return Step("tailrace", title, sys.executable, "import subprocess", body, None, in_process=False)

    return [
        step("catalogue: build", "tailrace.open(directory); rows = 0", None, ("tailrace.db",)),
        step("catalogue: open", "tailrace.open(directory); rows = 0", None),
        command("info"),
        command("query", "--by", "stage"),
        command("query", "--by", "stage,name", "--agg", "count", "--agg", "sum:dur"),
        step("by stage and name: count, sum of times", totals % ("['stage', 'name']", ""), 1.0),
        step("8 columns", load % "", 1.0),
        step("8 columns of 1%: a stage", load % f", stage={SMALL!r}", 1 / TASKS),
        step("by name in 1%: a stage", totals % ("['name']", f", stage={SMALL!r}"), 1 / TASKS),
        step("all columns", "rows = len(tailrace.open(directory).read())", 1.0),
    ]


def duckdb_steps() -> list[Step]:
    """DuckDB's, on the lines of tailrace's trace, and on a store that has its events."""
    if not _imports(sys.executable, "import duckdb"):
        return []
    types = "{'name': 'VARCHAR', 'cat': 'VARCHAR', 'ph': 'VARCHAR', 'pid': 'BIGINT', 'ts': 'BIGINT', 'dur': 'DOUBLE', "
    types += "'args': 'STRUCT(ns BIGINT, fhash VARCHAR, \"offset\" BIGINT, size BIGINT, stage VARCHAR)'}"
    lines = f"""read_json('DIRECTORY/trace/*.gz', format='newline_delimited', columns={types}) where ph = 'X'"""
    parquet = "read_parquet('DIRECTORY/data/**/events.parquet')"
    of_lines = 'name, cat, pid, ts, dur, args.fhash, args."offset", args.size'
    of_parquet = 'name, cat, pid, ts, dur, path, "offset", size'

    def steps(reader: str, table: str, stage: str, and_: str, columns: str) -> list[Step]:
        def step(title: str, query: str, rows: str, share: float) -> Step:
            body = f"found = duckdb.sql({query!r}.replace('DIRECTORY', directory)){rows}"
            return Step(reader, title, sys.executable, "import duckdb, pandas", body, share)

        fetched = ".fetchall(); rows = sum(row[-2] for row in found)"
        framed = ".df(); rows = len(found)"
        small = f" {and_} {stage} = '{SMALL}'"
        totals = f"count(*), sum(dur) from {table}"
        by_stage = f"select {stage}, name, {totals} group by all"
        by_name = f"select name, {totals}{small} group by all"
        return [
            step("by stage and name: count, sum of times", by_stage, fetched, 1.0),
            step("8 columns", f"select {columns} from {table}", framed, 1.0),
            step("8 columns of 1%: a stage", f"select {columns} from {table}{small}", framed, 1 / TASKS),
            step("by name in 1%: a stage", by_name, fetched, 1 / TASKS),
        ]

    program = [sys.executable, "-m", "tailrace.cli.main", "index", "--events"]
    trace = "directory.replace('duckdb-parquet', 'tailrace')"
    build = f"shutil.rmtree(directory, True); subprocess.run([*{program}, directory, {trace}], check=True,"
    build += " capture_output=True); rows = 0"
    index = Step(
        "duckdb-parquet",
        "`tailrace index --events`",
        sys.executable,
        "import shutil, subprocess",
        build,
        None,
        in_process=False,
    )
    return [
        *steps("duckdb-lines", lines, "args.stage", "and", of_lines),
        index,
        *steps("duckdb-parquet", parquet, "stage", "where", of_parquet),
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
    totals = (
        "rows = int(TraceViewer(directory)%s.group_by(%s).agg('count', 'sum:dur').collect().to_pandas()['count'].sum())"
    )

    def step(title: str, body: str, share: float | None) -> Step:
        imports = "import subprocess, pandas\nfrom dftracer.utils import TraceViewer"
        return Step("dftracer-utils", title, python, imports, body, share, in_process=share is not None)

    return [
        step("index: build", build, None),
        step("by pid and name: count, sum of times", totals % ("", "'pid', 'name'"), 1.0),
        step("8 columns", load % "", 1.0),
        step("8 columns of 1%: a pid", load % where, 1 / TASKS),
        step("by name in 1%: a pid", totals % (where, "'name'"), 1 / TASKS),
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
    """Traces TASKS processes that make `calls` reads in all; returns the pids of the stage SMALL."""
    directory.mkdir()
    pids = []
    each = calls // TASKS
    for task in range(TASKS):
        stage = f"stage-{task % STAGES}" if task else SMALL
        own = directory
        if tracer.name == overhead.OURS:
            tracer = peers.tailrace_tracers(f"workflow=bench,stage={stage},task={task},job=4711")[0]
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
        if stage == SMALL:
            pids.append(process.pid)
    return pids


def trace(tracer: peers.Tracer, directory: Path, calls: int, scratch: Path) -> list[int]:
    """`write_trace` where there is none yet; returns the same."""
    pids = directory.with_name(directory.name + ".pids")
    if not pids.is_file():
        found = write_trace(tracer, directory, calls, scratch)
        launcher.seal(directory)  # takes tailrace's emptied folder of journals away
        pids.write_text(json.dumps(found))
    known: list[int] = json.loads(pids.read_text())
    return known


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
    into.cpu_ns.append(found["cpu_ns"])
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
    for heading in ("s: min", "median", "max", "cpu: min", "M rows/s", "peak MiB", "rows", "of"):
        table.add_column(heading, justify="right")
    for result in results:
        expected = "" if result.expected is None else f"{result.expected:,}"
        if not result.wall_ns:
            table.add_row(result.reader, result.step, "", "", "", "", "", "", result.fault or "", expected)
            continue
        times = [value / 1e9 for value in (min(result.wall_ns), median(result.wall_ns), max(result.wall_ns))]
        cells = [f"{value:.3f}" for value in (*times, min(result.cpu_ns) / 1e9)]
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
    parser.add_argument("--only", nargs="+", metavar="READER", help="tailrace, duckdb-lines, dftracer, darshan-dxt")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="write the traces there, or take those that are there")
    parser.add_argument("--dir", type=Path, help="where the traces lie meanwhile (default: $TMPDIR)")
    options = parser.parse_args()
    calls, rounds = (100_000, 2) if options.quick else (options.events // TASKS * TASKS, options.rounds)

    console = Console(width=None if sys.stdout.isatty() else 160)
    about = overhead.machine()
    tracers = {tracer.name: tracer for tracer in peers.find_tracers()[0]}
    wanted = {
        "tailrace": our_steps(),
        "duckdb-lines": duckdb_steps(),
        "dftracer": dftracer_steps(),
        "darshan-dxt": darshan_steps(),
    }
    with nullcontext(options.keep) if options.keep else tempfile.TemporaryDirectory(dir=options.dir) as made:
        scratch = Path(made).resolve()
        if not (scratch / "reads").exists():
            scratch.mkdir(exist_ok=True)
            overhead.prepare(scratch)
        steps: list[tuple[Step, Path, list[int], int]] = []
        for name, found in wanted.items():
            if options.only and name not in options.only:
                continue
            source = "tailrace" if name.startswith("duckdb") else name
            if source not in tracers or not found:
                console.print(f"{name}: absent, {'its tracer' if source not in tracers else 'its reader'} is not here")
                continue
            pids = trace(tracers[source], scratch / source, calls, scratch)
            for step in found:
                place = scratch / ("duckdb-parquet" if step.reader == "duckdb-parquet" else source)
                steps.append((step, place, pids, calls))
        results = measure(steps, rounds)
    console.print(table_of(results, calls, rounds))
    if options.json:
        numbers = {"machine": about, "events": calls, "results": [asdict(result) for result in results]}
        options.json.write_text(json.dumps(numbers, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
