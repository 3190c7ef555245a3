"""The tracers that the benchmarks compare, and how each is asked for the same: every call, as an event of its own.

    find_tracers() -> tracers that are here, and why the others are not

Why that is fair: each tracer gets the settings that make it keep all events and write them as it does for its own
analyzer; they read the same file, write to the same file system, and their events are counted in what they wrote, so
a tracer that drops some is seen. Only tailrace carries tags, and it carries them here: workflow, stage, task, job.
Peers are looked for, never fetched:

    DFTracer   the wheel in $DFTRACER_PYTHON's site-packages, else in this Python's
    Darshan    $DARSHAN_PREFIX/lib/libdarshan.so, else on $LD_LIBRARY_PATH; bin/darshan-dxt-parser counts its events
    Recorder   $RECORDER_PREFIX/lib/librecorder.so; bin/recorder2text counts its events
"""

import gzip
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tailrace.integrations import environment, launcher

TAGS = "workflow=bench-2026-11-20,stage=search,task=17,job=4711"
_DXT_SEGMENT_BYTES = 64
"""Memory that DXT is given a call; it takes 40 bytes, and a buffer that grows by doubling."""

Variables = Mapping[str, str]
Account = dict[str, Any]


@contextmanager
def node_sealer(directory: Path, variables: Variables) -> Iterator[Account]:
    """tailrace's sealer while the block runs, as `tailrace run` has one; what it counted is there once it has ended."""
    account: Account = {}
    sealer = launcher.NodeSealer(directory, variables)
    try:
        yield account
    finally:
        account.update(sealer.finish())


@dataclass(frozen=True)
class Tracer:
    """One way to trace a program.

    Attributes:
        name: as the tables have it.
        setting: what was asked of it, for people.
        variables: (trace directory, calls that will be made, plain environment) -> environment of the traced program.
        count: (trace directory, names of calls) -> events of these names in the trace; None when no reader is here.
        beside: (trace directory, environment) -> what works for the tracer while the program runs. It yields a dict
            that has `processor_ns`, what that took, once the block has ended.
    """

    name: str
    setting: str
    variables: Callable[[Path, int, Variables], dict[str, str]]
    count: Callable[[Path, Sequence[str]], int | None]
    beside: Callable[[Path, Variables], AbstractContextManager[Account]] = lambda directory, variables: nullcontext({})


def plain_environment() -> dict[str, str]:
    """What every program of the benchmarks is started with, traced or not."""
    kept = ("PATH", "HOME", "LANG", "USER", "LOGNAME", "TMPDIR")
    return {name: os.environ[name] for name in kept if name in os.environ}


def trace_bytes(directory: Path) -> int:
    """The size of all files below `directory`."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def find_tracers() -> tuple[list[Tracer], dict[str, str]]:
    """The tracers that are here, tailrace first, and name -> reason of those that are not."""
    found, absent = tailrace_tracers(), dict[str, str]()
    for name, finder in (("dftracer", _dftracer), ("darshan", _darshan), ("recorder", _recorder)):
        tracers = finder()
        if isinstance(tracers, str):
            absent[name] = tracers
        else:
            found += tracers
    return found, absent


_CALLS = re.compile(rb'"calls":(\d+)')


def _count_calls(files: Sequence[Path], names: Sequence[str]) -> int:
    """The calls of these names; a line of tailrace's may stand for several."""
    needles = [f'"name":"{name}",'.encode() for name in names]
    found = 0
    for path in files:
        with gzip.open(path, "rb") as lines:
            for line in lines:
                if any(needle in line for needle in needles):
                    several = _CALLS.search(line)
                    found += int(several[1]) if several else 1
    return found


# ---- tailrace ----


def tailrace_tracers(tags: str = TAGS) -> list[Tracer]:
    """tailrace as `tailrace run` has it, the same in totals, and without a sealer; with these tags."""

    def variables(detail: str) -> Callable[[Path, int, Variables], dict[str, str]]:
        def of_run(directory: Path, calls: int, plain: Variables) -> dict[str, str]:
            (directory / "trace").mkdir(exist_ok=True)
            return {**environment.task_environment(directory, tags, plain), "TAILRACE_DETAIL": detail}

        return of_run

    def count(directory: Path, names: Sequence[str]) -> int:
        return _count_calls(sorted((directory / "trace").glob("*.pfw.gz")), names)

    full, totals = variables("full"), variables("totals")
    return [
        Tracer("tailrace", "as `tailrace run` sets it, its sealer beside; four tags", full, count, node_sealer),
        Tracer("tailrace-totals", "the same with --detail totals", totals, count, node_sealer),
        Tracer("tailrace-alone", "without a sealer: each process seals for itself", full, count),
    ]


# ---- DFTracer ----


def dftracer_package() -> Path | None:
    """Where the package dftracer lies in the site-packages of $DFTRACER_PYTHON or this Python."""
    python = os.environ.get("DFTRACER_PYTHON", sys.executable)
    code = "import importlib.util as u; s = u.find_spec('dftracer'); print(next(iter(s.submodule_search_locations)))"
    answer = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return Path(answer.stdout.strip()) if answer.returncode == 0 else None


def _dftracer() -> list[Tracer] | str:
    package = dftracer_package()
    library = package / "lib64/libdftracer_preload.so" if package else None
    if library is None or not library.is_file():
        return "no package dftracer in $DFTRACER_PYTHON or this Python"

    def variables(metadata: str) -> Callable[[Path, int, Variables], dict[str, str]]:
        return lambda directory, calls, plain: {
            **plain,
            "DFTRACER_ENABLE": "1",
            "DFTRACER_INIT": "PRELOAD",
            "DFTRACER_LOG_FILE": str(directory / "trace"),
            "DFTRACER_DATA_DIR": "all",
            "DFTRACER_INC_METADATA": metadata,
            "DFTRACER_TRACE_COMPRESSION": "1",
            "LD_PRELOAD": str(library),
        }

    def count(directory: Path, names: Sequence[str]) -> int:
        return _count_calls(sorted(directory.glob("*.pfw.gz")), names)

    return [
        Tracer("dftracer", "all files, metadata (file, size, offset), compressed", variables("1"), count),
        Tracer("dftracer-bare", "all files, no metadata (no file, size, offset), compressed", variables("0"), count),
    ]


# ---- Darshan ----


def _darshan_library() -> Path | None:
    prefix = os.environ.get("DARSHAN_PREFIX")
    places = [f"{prefix}/lib"] if prefix else os.environ.get("LD_LIBRARY_PATH", "").split(":")
    return next((path for path in (Path(place) / "libdarshan.so" for place in places if place) if path.is_file()), None)


def _darshan() -> list[Tracer] | str:
    library = _darshan_library()
    if library is None:
        return "no libdarshan.so in $DARSHAN_PREFIX/lib or on $LD_LIBRARY_PATH"
    parser = library.parent.parent / "bin/darshan-dxt-parser"

    def variables(directory: Path, calls: int, plain: Variables) -> dict[str, str]:
        dxt_records = calls * _DXT_SEGMENT_BYTES // 1024 + 64
        # Beside the trace, not in it: it's no part of its size.
        config = directory.with_name(directory.name + ".conf")
        config.write_text(
            f"MOD_ENABLE DXT_POSIX\nMAX_RECORDS 2048 POSIX\nMAX_RECORDS {dxt_records} DXT_POSIX\n"
            f"MODMEM {dxt_records // 1024 + 4}\nNAMEMEM 2\n"
        )
        return {
            **plain,
            "DARSHAN_ENABLE_NONMPI": "1",
            "DARSHAN_CONFIG_PATH": str(config),
            "DARSHAN_LOGFILE": str(directory / "log.darshan"),
            "LD_PRELOAD": str(library),
        }

    def count(directory: Path, names: Sequence[str]) -> int | None:
        log = directory / "log.darshan"
        if not parser.is_file():
            return None
        if not log.is_file():
            return 0
        with subprocess.Popen([parser, log], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            rows = (line.split() for line in process.stdout)
            return sum(len(row) > 2 and row[0] == "X_POSIX" and row[2] in names for row in rows)

    return [Tracer("darshan-dxt", "DXT with memory for all calls (its default keeps 52,426)", variables, count)]


# ---- Recorder ----


def _recorder() -> list[Tracer] | str:
    prefix = os.environ.get("RECORDER_PREFIX")
    library = Path(prefix) / "lib/librecorder.so" if prefix else None
    if library is None or not library.is_file():
        return "no librecorder.so in $RECORDER_PREFIX/lib"
    reader = library.parent.parent / "bin/recorder2text"

    def variables(directory: Path, calls: int, plain: Variables) -> dict[str, str]:
        return {
            **plain,
            "RECORDER_WITH_NON_MPI": "1",
            "RECORDER_TRACES_DIR": str(directory),
            "LD_PRELOAD": str(library),
        }

    def count(directory: Path, names: Sequence[str]) -> int | None:
        if not reader.is_file():
            return None
        found = 0
        for version in sorted(directory.rglob("VERSION")):
            subprocess.run([reader, version.parent], capture_output=True, check=False)
            for text in sorted((version.parent / "_text").glob("*.txt")):
                rows = (line.split(maxsplit=3) for line in text.read_text(errors="replace").splitlines())
                found += sum(len(row) > 2 and row[2] in names for row in rows)
        return found

    return [Tracer("recorder", "its defaults, without MPI", variables, count)]
