"""What tracing costs a whole command, as its user starts it: `tailrace run -- COMMAND` beside the bare command.

    python tests/bench/commands.py [--rounds N] [--json FILE] [--only CASE ...]

    prepare a case -> rounds of (bare, traced), in changing order -> ratios of the same round -> table

`wall` is from spawn to wait; `cpu` is the processor time of all processes, with the launcher and what it does meanwhile
and afterwards (Python's own start included). The share of the wall time that the launcher alone takes is in the row
`launch`: `tailrace run -- true` beside `true`. A case that has many rounds takes the ratio of each; the table has the
median and the quartiles. Runs are compared with what the bare command wrote: a command whose output differs is a fault.
"""

import argparse
import hashlib
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median, quantiles

import overhead
import peers
from rich.console import Console
from rich.table import Table

import tailrace

BARE, TRACED = "bare", "traced"
SOURCES = 50
"""C files of the `make` case, beside the one with main()."""
SHORT_PROCESSES = 10_000


@dataclass(frozen=True)
class Case:
    """One command. `prepare` fills an empty directory, in which it then runs; `clean` undoes what a run made."""

    name: str
    title: str
    command: tuple[str, ...]
    rounds: int
    prepare: Callable[[Path], None] = lambda place: None
    clean: Callable[[Path], None] = lambda place: None
    compare: bool = True


@dataclass
class Result:
    """One case's rounds. Times in s by variant; trace: of the last round."""

    case: str
    title: str
    wall: dict[str, list[float]] = field(default_factory=lambda: {BARE: [], TRACED: []})
    cpu: dict[str, list[float]] = field(default_factory=lambda: {BARE: [], TRACED: []})
    events: int = 0
    lost: int = 0
    trace_files: int = 0
    trace_bytes: int = 0
    fault: str | None = None


_MAKEFILE = """\
objects := $(patsubst %.c,%.o,$(wildcard *.c))
program: $(objects)
\tcc -o $@ $(objects)
%.o: %.c
\tcc -O1 -c $<
"""
_PART = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int part_{number}(int x) {{ return x * {number} + (int)strlen("{number}"); }}
"""


def _write_sources(place: Path) -> None:
    """A program of many small files, as `make` builds them."""
    for number in range(SOURCES):
        (place / f"part_{number}.c").write_text(_PART.format(number=number))
    declared = "\n".join(f"int part_{number}(int);" for number in range(SOURCES))
    called = " + ".join(f"part_{number}(1)" for number in range(SOURCES))
    (place / "main.c").write_text(f"#include <stdio.h>\n{declared}\nint main(void) {{ return {called} == 0; }}\n")
    (place / "Makefile").write_text(_MAKEFILE)


def _remove_built(place: Path) -> None:
    for path in (*place.glob("*.o"), place / "program"):
        path.unlink(missing_ok=True)


def _write_numbers(place: Path) -> None:
    generator = random.Random(1)
    (place / "numbers").write_text("".join(f"{generator.random()}\n" for _ in range(1_000_000)))


def _write_tree(place: Path) -> None:
    for folder in range(50):
        (place / "tree" / str(folder)).mkdir(parents=True)
        for number in range(40):
            (place / "tree" / str(folder) / str(number)).write_bytes(bytes(20_000))


_LOOP = f"i=0; while [ $i -lt {SHORT_PROCESSES} ]; do /bin/true; i=$((i+1)); done"

CASES = (
    Case("launch", "true (what starting `tailrace run` costs)", ("true",), 15),
    Case("find", "find / -xdev", ("find", "/", "-xdev"), 3, compare=False),
    Case("make", f"make of {SOURCES + 1} files", ("make", "-s"), 5, _write_sources, _remove_built),
    Case("numpy", "python -c 'import numpy'", (sys.executable, "-c", "import numpy"), 9),
    Case("trues", f"{SHORT_PROCESSES:,} x /bin/true", ("sh", "-c", _LOOP), 3),
    Case("sort", "sort of 1,000,000 lines", ("sort", "-o", "sorted", "numbers"), 5, _write_numbers),
    Case("tar", "tar of 2,000 files of 20 kB", ("tar", "cf", "tree.tar", "tree"), 5, _write_tree),
)


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _timed(command: Sequence[str], place: Path) -> tuple[float, float, str]:
    """Wall and processor time in s, and the digest of what the command printed."""
    with tempfile.TemporaryFile() as output:
        cpu, start = _children_cpu(), time.perf_counter()
        done = subprocess.run(command, cwd=place, stdout=output, stderr=subprocess.PIPE, check=False, text=True)
        wall = time.perf_counter() - start
        spent = _children_cpu() - cpu
        # find / meets files that are gone again, and says so.
        if done.returncode != 0 and command[-3:] != ("find", "/", "-xdev"):
            raise overhead.ProgramFailed(f"{command[0]} ended with {done.returncode}: {done.stderr.strip()[-200:]}")
        output.seek(0)
        return wall, spent, hashlib.sha256(output.read()).hexdigest()


def _measure(case: Case, rounds: int, scratch: Path) -> Result:
    result = Result(case.name, case.title)
    place = scratch / case.name
    place.mkdir()
    case.prepare(place)
    ours = shutil.which("tailrace", path=str(Path(sys.executable).parent)) or "tailrace"
    _timed(case.command, place)  # warms the page cache
    for number in range(rounds):
        printed = {}
        for variant in overhead.turns([BARE, TRACED], number):
            case.clean(place)
            run = scratch / f"run-{case.name}-{number}"
            launcher = (ours, "run", "-q", "-o", str(run), "--", *case.command)
            wall, cpu, printed[variant] = _timed(case.command if variant == BARE else launcher, place)
            result.wall[variant].append(wall)
            result.cpu[variant].append(cpu)
            if variant == TRACED:
                _take_trace(result, run, last=number == rounds - 1)
        if case.compare and printed[BARE] != printed[TRACED]:
            result.fault = "the traced command printed something else"
    shutil.rmtree(place)
    return result


def _take_trace(result: Result, run: Path, *, last: bool) -> None:
    if last:
        files = list((run / "trace").iterdir())
        result.trace_files, result.trace_bytes = len(files), sum(path.stat().st_size for path in files)
        told = tailrace.open(run).info()
        result.events = told["events"]
        result.lost = sum(loss["count"] for loss in told["losses"] if loss["unit"] == "events")
    shutil.rmtree(run)


def _ratio(result: Result, measure: str) -> str:
    samples = getattr(result, measure)
    ratios = [traced / bare for bare, traced in zip(samples[BARE], samples[TRACED], strict=True)]
    if len(ratios) < 3:
        return f"{median(ratios):.2f}"
    low, middle, high = quantiles(ratios, n=4, method="inclusive")
    return f"{middle:.2f} [{low:.2f}, {high:.2f}]"


def table_of(results: Sequence[Result]) -> Table:
    """A row a case: times of the bare command, ratios of traced to bare, what the trace took."""
    table = Table(title="Whole commands: traced / untraced", title_justify="left", padding=(0, 0), pad_edge=False)
    for heading in ("", "bare s", "traced s", "wall ratio", "cpu ratio", "events", "lost", "files", "bytes", "B/event"):
        table.add_column(heading, justify="left" if not heading else "right", no_wrap=True)
    for result in results:
        size = f"{result.trace_bytes / result.events:.1f}" if result.events else ""
        table.add_row(
            result.fault or result.title,
            f"{median(result.wall[BARE]):.3f}",
            f"{median(result.wall[TRACED]):.3f}",
            _ratio(result, "wall"),
            _ratio(result, "cpu"),
            f"{result.events:,}",
            f"{result.lost:,}",
            f"{result.trace_files:,}",
            f"{result.trace_bytes:,}",
            size,
        )
    return table


def main() -> int:
    names = [case.name for case in CASES]
    parser = argparse.ArgumentParser(description="Measures what tracing costs whole commands.")
    parser.add_argument("--rounds", type=int, help="of each case (default: by case, 3 to 15)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers there")
    parser.add_argument("--dir", type=Path, help="where files and runs lie meanwhile (default: $TMPDIR)")
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="CASE", help=", ".join(names))
    options = parser.parse_args()

    console = Console(width=None if sys.stdout.isatty() else 160)
    results = []
    os.environ.update(peers.plain_environment())
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-", dir=options.dir) as made:
        for case in CASES:
            if case.name in options.only:
                with console.status(case.title):
                    results.append(_measure(case, options.rounds or case.rounds, Path(made).resolve()))
    console.print(table_of(results))
    if options.json:
        numbers = {"machine": overhead.machine(), "results": [asdict(result) for result in results]}
        options.json.write_text(json.dumps(numbers, indent=1) + "\n")
    return int(any(result.fault for result in results))


if __name__ == "__main__":
    sys.exit(main())
