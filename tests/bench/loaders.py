"""The case of Table I of DFTracer's paper: PyTorch's DataLoader, whose workers read while the trainer computes.

    python tests/bench/loaders.py [--python PYTHON] [--rounds N] [--files N] [--epochs N]

For each start method and tracer: the calls on the data files that the trace has, of those that strace sees; the
fetches (the program's own annotations, through the tracer's module), of those that were made; the program's time.
DFTracer is looked for in $DFTRACER_PYTHON's packages. torch must be importable by PYTHON or with Debian's packages.

Why that is fair: both tracers take every file and call with name, size and offset; the program is the same but for
the module of its annotations; what a trace lacks because the program died is lacking for its user, too.
"""

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy
import peers
from rich.console import Console
from rich.table import Table

PROGRAM = Path(__file__).resolve().parent.parent / "support" / "torch_loader.py"
DEBIAN_PACKAGES = "/usr/lib/python3/dist-packages"
METHODS = ("fork", "spawn", "forkserver")
CALLS = ("open", "read", "lseek", "close")
WORKERS = 4
NAMES = {"openat": "open", "open64": "open", "lseek64": "lseek"}
"""The names of strace and DFTracer -> those of `CALLS`."""


@dataclass
class Captured:
    """What one round has: calls by name, fetches, the exit status, seconds of the loop, and of processor time of all
    processes, the tracer's among them, but those that a forkserver started: no one waits for them here."""

    calls: Counter[str] = field(default_factory=Counter)
    fetches: int = 0
    status: int = 0
    loop: float = 0.0
    processor: float = 0.0


@dataclass(frozen=True)
class Case:
    """The program and its data."""

    python: str
    data: Path
    files: int
    epochs: int

    def words(self, interface: str, method: str, log: Path) -> list[str]:
        words = (self.python, PROGRAM, interface, self.data, method, self.files, self.epochs, WORKERS, 0, log)
        return [str(word) for word in words]

    def run(self, words: list[str], log: Path, env: dict[str, str]) -> Captured:
        before = os.times()
        done = subprocess.run(words, env=env, cwd=log.parent, check=False, capture_output=True, timeout=300)
        after = os.times()
        spent = sum(getattr(after, of) - getattr(before, of) for of in ("children_user", "children_system"))
        found = Captured(status=done.returncode, processor=spent)
        with suppress(OSError, ValueError):
            found.loop = json.loads(log.read_text())["seconds"]
        return found

    def is_data(self, path: object) -> bool:
        return str(path).startswith(f"{self.data}/")


def environment(*paths: Path | str) -> dict[str, str]:
    """This process's, with Debian's packages first: their numpy fits their torch."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([DEBIAN_PACKAGES, *map(str, paths)])}


def untraced(case: Case, method: str, folder: Path) -> Captured:
    return case.run(case.words("none", method, folder / "log"), folder / "log", environment())


def by_strace(case: Case, method: str, folder: Path) -> Captured:
    """The truth."""
    traced = "trace=openat,read,lseek,close"
    words = ["strace", "-ff", "-qq", "-yy", "-s", "0", "-e", traced, "-o", str(folder / "strace")]
    found = case.run([*words, *case.words("none", method, folder / "log")], folder / "log", environment())
    for log in folder.glob("strace.*"):
        for line in log.read_text(errors="replace").splitlines():
            if f"<{case.data}/" in line:
                name = line.partition("(")[0]
                found.calls[NAMES.get(name, name)] += 1
    found.fetches = case.files * case.epochs
    return found


def by_tailrace(case: Case, method: str, folder: Path) -> Captured:
    tailrace = str(Path(sys.executable).with_name("tailrace"))
    words = [tailrace, "run", "-q", "-o", str(folder / "run"), "--"]
    log = folder / "log"
    found = case.run([*words, *case.words("tailrace.dftracer", method, log)], log, environment())
    paths: dict[str, str] = {}
    events: list[dict[str, Any]] = []
    for file in sorted((folder / "run" / "trace").glob("*.pfw.gz")):
        with gzip.open(file) as lines:
            for line in map(json.loads, lines):
                if line["name"] == "FH":
                    paths[line["args"]["value"]] = line["args"]["name"]
                elif line["ph"] == "X":
                    events.append(line)
    for event in events:
        if case.is_data(paths.get(event["args"].get("fhash"))):
            found.calls[NAMES.get(event["name"], event["name"])] += 1
        found.fetches += event["cat"] == "APP" and event["name"] == "fetch" and "open" not in event["args"]
    return found


def by_dftracer(case: Case, method: str, folder: Path, mode: str) -> Captured:
    package = peers.dftracer_package()
    assert package is not None
    traces = folder / "dftracer"
    traces.mkdir()
    env = {
        **environment(package.parent),
        "DFTRACER_ENABLE": "1",
        "DFTRACER_INIT": mode,
        "DFTRACER_INC_METADATA": "1",
        "DFTRACER_DATA_DIR": "all",
        "DFTRACER_LOG_FILE": str(traces / "trace"),
        **({"LD_PRELOAD": str(package / "lib64/libdftracer_preload.so")} if mode == "PRELOAD" else {}),
    }
    found = case.run(case.words("dftracer.python", method, folder / "log"), folder / "log", env)
    lines = list(_dftracer_lines(traces))
    paths = {e["args"]["value"]: e["args"]["name"] for e in lines if e["name"] == "FH"}
    for event in lines:
        if case.is_data(paths.get(event.get("args", {}).get("fhash"))):
            found.calls[NAMES.get(event["name"], event["name"])] += 1
        found.fetches += event["name"] == "fetch"
    return found


def _dftracer_lines(folder: Path) -> Iterator[dict[str, Any]]:
    """All that can be read of its files, the last of which may end in the middle."""
    for trace in folder.iterdir():
        rest, text = trace.read_bytes(), b""
        while rest[:2] == b"\x1f\x8b":
            inflater = zlib.decompressobj(31)
            with suppress(zlib.error):
                text += inflater.decompress(rest)
            rest = inflater.unused_data
        for line in (text or rest).splitlines():
            with suppress(ValueError):
                yield json.loads(line)


WAYS: dict[str, Any] = {
    "untraced": untraced,
    "tailrace": by_tailrace,
    "DFTracer, PRELOAD": lambda *given: by_dftracer(*given, "PRELOAD"),
    "DFTracer, FUNCTION": lambda *given: by_dftracer(*given, "FUNCTION"),
}


def rounds_of(case: Case, method: str, rounds: int, ways: list[str]) -> dict[str, list[Captured]]:
    """Every way in turn, so that what changes on the machine changes for all."""
    found: dict[str, list[Captured]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way in ways:
            with tempfile.TemporaryDirectory() as folder:
                found[way].append(WAYS[way](case, method, Path(folder)))
    return found


def share(found: list[int], truth: int) -> str:
    """The least and the most of the rounds."""
    low, high = min(found), max(found)
    text = f"{low}" if low == high else f"{low} to {high}"
    return f"{text} of {truth}"


def rows_of(method: str, truth: Captured, found: dict[str, list[Captured]]) -> Iterator[list[str]]:
    base = {name: statistics.median(getattr(one, name) for one in found["untraced"]) for name in ("loop", "processor")}
    for way, rounds in found.items():
        times = {name: statistics.median(getattr(one, name) for one in rounds) for name in base}
        counts = ["", ""]
        if way != "untraced":
            calls = [sum(one.calls[name] for name in CALLS) for one in rounds]
            counts = [
                share(calls, sum(truth.calls[name] for name in CALLS)),
                share([one.fetches for one in rounds], truth.fetches),
            ]
        more = {name: f" ({times[name] / base[name] - 1:+.0%})" if counts[0] else "" for name in base}
        cost = [f"{times[name]:.2f} s{more[name]}" for name in base]
        died = sorted({one.status for one in rounds} - {0})
        if method == "forkserver":
            cost[1] = ""
        yield [method, way, *counts, *cost, ", ".join(f"status {status}" for status in died)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Compares what tracers capture of PyTorch's DataLoader.")
    parser.add_argument("--python", default=sys.executable, help="the interpreter (default: this one)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is run")
    parser.add_argument("--files", type=int, default=64, help="data files, 1 MiB each")
    parser.add_argument("--epochs", type=int, default=3)
    options = parser.parse_args()
    ways = [way for way in WAYS if not way.startswith("DFTracer") or peers.dftracer_package()]
    table = Table("start method", "tracer", "calls on data files", "fetches", "loop", "processor time", "ends with")
    with tempfile.TemporaryDirectory() as folder:
        case = Case(options.python, Path(folder).resolve(), options.files, options.epochs)
        for number in range(options.files):
            numpy.savez(case.data / f"{number}.npz", x=numpy.random.default_rng(number).random((256, 512)))
        for method in METHODS:
            with tempfile.TemporaryDirectory() as logs:
                truth = by_strace(case, method, Path(logs))
            for row in rows_of(method, truth, rounds_of(case, method, options.rounds, ways)):
                table.add_row(*row)
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
