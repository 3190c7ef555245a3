"""What tracing costs the traced program: time added to each call, to the process and to its start; bytes; memory.

    python tests/bench/overhead.py [--quick] [--one-core] [--json FILE]

    compile reads.c -> rounds of (native, tailrace, peers) -> differences to native of the same round -> tables

Why that is fair: all variants run the same binary on the same files, one after the other in each round, each round in
another order, so that a machine that slows down slows all of them. What a tracer adds is its time less the native time
of the same round. `process` is the wall time from posix_spawn to wait, with all that a tracer does at start and exit
(finding its settings, compressing, writing); `cpu` is the processor time of the same and of what works for the tracer
beside it (tailrace's sealer, from its start to its end); `loop` is the time from before the first call to behind the
last, taken by the program itself. No interpreter is started inside any of them. Events are counted in what each tracer
wrote (peers.py). With --one-core the program, and what works beside it, share one core.
"""

import argparse
import json
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TypeVar

import peers
from rich.console import Console
from rich.table import Table

from tailrace.integrations import launcher

Name = TypeVar("Name")
NATIVE, OURS = "native", "tailrace"
MEASURES = ("loop", "process", "cpu")


@dataclass(frozen=True)
class Case:
    """One kind of call. `events` of the names `names` are to be recorded for each of `calls`."""

    kind: str
    title: str
    path: str
    names: tuple[str, ...]
    calls: int
    rounds: int
    events: int = 1


CASES = (
    Case("read", "read of 4 KiB from the page cache", "data", ("read",), 200_000, 9),
    Case("threads", "the same by two threads", "data", ("read",), 200_000, 7),
    Case("write", "write of 128 bytes", "written", ("write",), 200_000, 7),
    Case("open", "open and close, 1000 files", "files", ("open", "open64", "openat", "close"), 20_000, 7, events=2),
    Case("stat", "stat, 1000 files", "files", ("stat", "stat64", "__xstat", "newfstatat", "fstatat"), 100_000, 7),
)
START, MEMORY = "start", "memory"
START_ROUNDS = 200
DATA_BYTES = 4 << 20
FILES = 1000  # as in reads.c


@dataclass
class Figure:
    """One measure over the rounds, ns a call (of `start`: ns a process).

    For native its own times; for a tracer what it added to native in the same round. of_minima: its least time less
    native's least, which neighbours on the machine move least; times_ours: its of_minima by tailrace's.
    """

    min: float
    median: float
    max: float
    of_minima: float | None = None
    times_ours: float | None = None


@dataclass
class Result:
    """What one variant measured in one case.

    events: the smallest number in any round's trace, None without a reader; expected: the number of calls made.
    """

    case: str
    variant: str
    rounds: int
    figures: dict[str, Figure]
    expected: int = 0
    events: int | None = None
    bytes_per_event: float | None = None
    fault: str | None = None


@dataclass
class Samples:
    """One variant's rounds, in order: measure -> ns; bytes of trace; events in it. A fault ends them."""

    times: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in MEASURES})
    sizes: list[int] = field(default_factory=list)
    events: list[int | None] = field(default_factory=list)
    fault: str | None = None


# ---- running a program ----


class ProgramFailed(Exception):
    """A program did not end with exit code 0; its text has the cause."""


@dataclass(frozen=True)
class Run:
    """A program's run: wall time from spawn to wait, processor time of all its threads, what it printed."""

    wall_ns: float
    cpu_ns: float
    printed: str


def timed_run(command: Sequence[str], variables: Mapping[str, str], output: Path) -> Run:
    """Runs `command` with exactly these variables. Raises ProgramFailed when its exit code is not 0."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    errors = output.with_suffix(".err")
    actions = [(os.POSIX_SPAWN_OPEN, 1, str(output), flags, 0o600), (os.POSIX_SPAWN_OPEN, 2, str(errors), flags, 0o600)]
    argv, env = list(command), dict(variables)
    start = time.perf_counter_ns()
    pid = os.posix_spawn(argv[0], argv, env, file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    wall_ns = time.perf_counter_ns() - start
    code = os.waitstatus_to_exitcode(status)
    if code != 0:
        said = errors.read_text(errors="replace").strip().splitlines()
        raise ProgramFailed(f"ended with {code}" + (f": {said[-1]}" if said else ""))
    return Run(wall_ns, (usage.ru_utime + usage.ru_stime) * 1e9, output.read_text())


def turns(names: Sequence[Name], round_number: int) -> list[Name]:
    """The variants in the order of this round."""
    # Shuffled, not rotated: what a program leaves behind in the caches costs the next, and that must not be the same.
    return random.Random(round_number).sample(names, len(names))


def compile_c(source: Path, target: Path, *options: str) -> Path:
    """Compiles C with `cc`."""
    subprocess.run(["cc", "-O2", "-pthread", *options, "-o", str(target), str(source)], check=True)
    return target


def prepare(scratch: Path) -> None:
    """Puts reads.c's binary and the files that it works on into `scratch`."""
    compile_c(Path(__file__).with_name("reads.c"), scratch / "reads")
    (scratch / "data").write_bytes(os.urandom(DATA_BYTES))
    (scratch / "files").mkdir()
    for number in range(FILES):
        (scratch / "files" / str(number)).write_bytes(b"x")


@contextmanager
def trace_directory(scratch: Path) -> Iterator[Path]:
    """An empty directory for a trace; it and what tailrace keeps for it in memory are gone afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="trace-", dir=scratch))
    try:
        yield directory
    finally:
        # Every process of the trace has ended and sealed its own; this takes the emptied folder of journals away.
        launcher.seal(directory)
        shutil.rmtree(directory)


# ---- the cost of a call ----


def measure_case(case: Case, tracers: Sequence[peers.Tracer], scratch: Path) -> list[Result]:
    """Runs a case's rounds and reduces them to one result a variant, native first."""
    by_name = {tracer.name: tracer for tracer in tracers}
    samples = {name: Samples() for name in (NATIVE, *by_name)}
    command = [str(scratch / "reads"), case.kind, str(scratch / case.path), str(case.calls)]
    timed_run(command, peers.plain_environment(), scratch / "out")  # warms the page cache
    for number in range(case.rounds):
        for name in turns(list(samples), number):
            if samples[name].fault is None:
                _run_once(case, by_name.get(name), command, samples[name], scratch)
    return _reduce(case.kind, samples, case.calls * case.events)


def _run_once(case: Case, tracer: peers.Tracer | None, command: list[str], into: Samples, scratch: Path) -> None:
    variables = peers.plain_environment()
    with trace_directory(scratch) as directory:
        if tracer is not None:
            variables = tracer.variables(directory, case.calls, variables)
        try:
            run, cpu_ns = _run_beside(tracer, command, directory, variables, scratch)
        except ProgramFailed as failure:
            into.fault = str(failure)
            return
        for name, total_ns in (("loop", int(run.printed)), ("process", run.wall_ns), ("cpu", cpu_ns)):
            into.times[name].append(total_ns / case.calls)
        if tracer is not None:
            into.sizes.append(peers.trace_bytes(directory))  # before a reader puts its own files there
            into.events.append(tracer.count(directory, case.names))


def _run_beside(
    tracer: peers.Tracer | None, command: list[str], directory: Path, variables: Mapping[str, str], scratch: Path
) -> tuple[Run, float]:
    """The run, and its processor time with that of what worked for the tracer beside it."""
    if tracer is None:
        run = timed_run(command, variables, scratch / "out")
        return run, run.cpu_ns
    with tracer.beside(directory, variables) as account:
        run = timed_run(command, variables, scratch / "out")
    return run, run.cpu_ns + float(account.get("processor_ns", 0))


def _reduce(case: str, samples: Mapping[str, Samples], expected: int) -> list[Result]:
    native = samples[NATIVE].times
    results = []
    for name, own in samples.items():
        result = Result(case, name, len(own.times["process"]), {}, expected, fault=own.fault)
        for measure, values in own.times.items():
            if values:
                result.figures[measure] = _figure(values, None if name == NATIVE else native[measure])
        counted = [number for number in own.events if number is not None]
        result.events = min(counted) if counted else None
        # By round: a tracer may lose events in one and not in another.
        per_event = [size / number for size, number in zip(own.sizes, own.events, strict=True) if number]
        result.bytes_per_event = median(per_event) if per_event else None
        results.append(result)
    ours = next(result for result in results if result.variant == OURS)
    for result in results:
        for measure, figure in result.figures.items():
            own_cost = ours.figures[measure].of_minima if measure in ours.figures else None
            if figure.of_minima is not None and own_cost is not None and own_cost > 0:
                figure.times_ours = figure.of_minima / own_cost
    return results


def _figure(values: Sequence[float], native: Sequence[float] | None) -> Figure:
    if native is None:
        return Figure(min(values), median(values), max(values))
    # A variant that failed has fewer rounds than native.
    added = [mine - base for mine, base in zip(values, native, strict=False)]
    return Figure(min(added), median(added), max(added), of_minima=min(values) - min(native))


# ---- the cost of a start ----


def measure_start(tracers: Sequence[peers.Tracer], rounds: int, scratch: Path) -> list[Result]:
    """The time of /bin/true under each tracer, and with a preloaded library that does nothing; ns a process."""
    source = scratch / "nothing.c"
    source.write_text("int nothing_at_all;\n")
    library = compile_c(source, scratch / "libnothing.so", "-shared", "-fPIC")
    plain = peers.plain_environment()
    program = str(Path(shutil.which("true") or "/bin/true").resolve())
    with trace_directory(scratch) as directory:
        by_name: dict[str, peers.Tracer | None] = {NATIVE: None, "nothing": None}
        variants = {NATIVE: plain, "nothing": {**plain, "LD_PRELOAD": str(library)}}
        places = dict.fromkeys(variants, directory)
        for tracer in tracers:
            by_name[tracer.name] = tracer
            places[tracer.name] = directory / tracer.name
            places[tracer.name].mkdir()
            variants[tracer.name] = tracer.variables(places[tracer.name], 1000, plain)
        samples = {name: Samples() for name in variants}
        for number in range(rounds):
            for name in turns(list(variants), number):
                if samples[name].fault is not None:
                    continue
                try:
                    run, cpu_ns = _run_beside(by_name[name], [program], places[name], variants[name], scratch)
                except ProgramFailed as failure:
                    samples[name].fault = str(failure)
                    continue
                samples[name].times["process"].append(run.wall_ns)
                samples[name].times["cpu"].append(cpu_ns)
        for place in places.values():
            launcher.seal(place)
    return _reduce(START, samples, 0)


# ---- memory ----


def measure_memory(tracers: Sequence[peers.Tracer], calls: int, scratch: Path) -> Table | None:
    """Peak of resident memory of the read case, MiB: native, and what each tracer adds. None without GNU time.

    GNU time forks from a small process; the peak of a process that was spawned from a large one begins with that one's.
    """
    gnu_time = shutil.which("time")
    if gnu_time is None:
        return None
    table = Table(title=f"resident memory, MiB ({calls:,} reads, one thread)", title_justify="left", padding=(0, 0))
    table.add_column("", no_wrap=True)
    table.add_column("peak", justify="right")
    table.add_column("added", justify="right")
    native = 0.0
    for tracer in (None, *tracers):
        with trace_directory(scratch) as directory:
            plain = peers.plain_environment()
            variables = plain if tracer is None else tracer.variables(directory, calls, plain)
            preload = [f"LD_PRELOAD={variables.pop('LD_PRELOAD')}"] if "LD_PRELOAD" in variables else []
            report = scratch / "memory"
            command = [gnu_time, "-f", "%M", "-o", str(report), "env", *preload]
            command += [str(scratch / "reads"), "read", str(scratch / "data"), str(calls)]
            _run_beside(tracer, command, directory, variables, scratch)
            peak = int(report.read_text()) / 1024
            native = native or peak
            name = NATIVE if tracer is None else tracer.name
            table.add_row(name, f"{peak:.1f}", "" if tracer is None else f"{peak - native:.1f}")
    return table


# ---- for people ----


def table_of(title: str, results: Sequence[Result], unit_ns: float, digits: int) -> Table:
    """One row a variant; the native row holds times, the others what was added to them."""
    measures = [measure for measure in MEASURES if any(measure in result.figures for result in results)]
    table = Table(title=title, title_justify="left", padding=(0, 0), pad_edge=False)
    table.add_column("", no_wrap=True)
    for measure in measures:
        for heading in (f"{measure}: min", "median", "max", "of min", "x ours"):
            table.add_column(heading, justify="right")
    for heading in ("B/event", "events"):
        table.add_column(heading, justify="right")
    for result in results:
        cells = [cell for measure in measures for cell in _cells(result.figures.get(measure), unit_ns, digits)]
        size = "" if result.bytes_per_event is None else f"{result.bytes_per_event:.1f}"
        table.add_row(result.variant, *cells, size, result.fault or _share(result))
    return table


def _cells(figure: Figure | None, unit_ns: float, digits: int) -> list[str]:
    if figure is None:
        return [""] * 5
    times = [figure.min, figure.median, figure.max, figure.of_minima]
    ratio = "" if figure.times_ours is None else f"{figure.times_ours:.1f}"
    return [*("" if value is None else f"{value / unit_ns:.{digits}f}" for value in times), ratio]


def _share(result: Result) -> str:
    if result.variant == NATIVE or not result.expected:
        return ""
    return "?" if result.events is None else f"{result.events / result.expected:.1%}"


def machine() -> dict[str, object]:
    """Where and with what this was measured."""
    return {
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_at_start": os.getloadavg()[0],
        "date": time.strftime("%Y-%m-%d"),
    }


def measure(
    console: Console, tracers: Sequence[peers.Tracer], asked: set[str], quick: bool, scratch: Path
) -> list[Result]:
    """All that was asked for, each table shown when it is there."""
    results: list[Result] = []
    prepare(scratch)
    for full in CASES:
        if full.kind not in asked:
            continue
        case = replace(full, calls=full.calls // 10, rounds=3) if quick else full
        with console.status(case.title):
            found = measure_case(case, tracers, scratch)
        title = f"{case.title}: ns a call, added to native ({case.calls:,} calls, {case.rounds} rounds)"
        console.print(table_of(title, found, 1, 0))
        results += found
    if MEMORY in asked:
        memory = measure_memory(tracers, CASES[0].calls, scratch)
        console.print(memory or "memory: not measured, GNU time is absent")
    if START in asked:
        rounds = 20 if quick else START_ROUNDS
        with console.status("process start"):
            found = measure_start(tracers, rounds, scratch)
        console.print(table_of(f"/bin/true: ms a process, added to native ({rounds} rounds)", found, 1e6, 2))
        results += found
    return results


def main() -> int:
    kinds = [*(case.kind for case in CASES), MEMORY, START]
    parser = argparse.ArgumentParser(description="Measures what tracing costs, with the peers that are here.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the calls, three rounds: does it work?")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers there")
    parser.add_argument("--dir", type=Path, help="where the files and traces lie meanwhile (default: $TMPDIR)")
    parser.add_argument("--only", nargs="+", choices=kinds, default=kinds, metavar="CASE", help=", ".join(kinds))
    parser.add_argument("--one-core", action="store_true", help="all on one core")
    options = parser.parse_args()
    if options.one_core:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    console = Console(width=None if sys.stdout.isatty() else 160)
    about = machine()
    tracers, absent = peers.find_tracers()
    for tracer in tracers:
        console.print(f"{tracer.name}: {tracer.setting}")
    for name, reason in absent.items():
        console.print(f"{name}: absent, {reason}")
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-", dir=options.dir) as made:
        results = measure(console, tracers, set(options.only), options.quick, Path(made).resolve())
    if options.json:
        settings = {tracer.name: tracer.setting for tracer in tracers}
        numbers = {"machine": about, "settings": settings, "absent": absent, "results": [asdict(r) for r in results]}
        options.json.write_text(json.dumps(numbers, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
