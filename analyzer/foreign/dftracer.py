"""DFTracer's traces, of versions 0 to 2 (.pfw, .pfw.gz; core/native/dftracer.h reads them).

Invariants: a name is looked up by its hash in its own file, then in the others of the trace, since a process's file may
use a name that its parent's defined. libc's functions have the names that the core gives them (`open64` is `open`,
`waitpid` is PROCESS's `wait`). Aggregated events are lines of totals without a file, whose time is their interval.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tailrace import _native
from tailrace.analyzer.foreign.importer import Format, Imported, name_in, walk
from tailrace.analyzer.util.losses import Loss
from tailrace.base import memory
from tailrace.errors import TraceError

_ENDINGS = (".pfw.gz", ".pfw")
_UNITS = {"not_json": "lines", "torn": "files", "counters": "lines", "unknown": "lines"}
"""Cause -> unit, where it is not events."""


def files(path: Path) -> list[Path]:
    """The trace's files. One of another kind is among them, to be named as a loss, where one is DFTracer's."""
    found = walk(path, _ENDINGS)
    return found if any(map(_is_ours, found)) else []


def _is_ours(path: Path) -> bool:
    try:
        return _native.is_dftracer(path)
    except TraceError:
        return True  # it is DFTracer's by its name, and will be named with what is wrong


def convert(root: Path, paths: list[Path], target: Path) -> Imported:
    """Writes the trace files; two passes over each file, several files at once."""
    imported = Imported()
    names = _native.DFTracerNames(memory.left() // 2)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        scans = [(path, pool.submit(_scan, names, path)) for path in paths]
        scanned = []
        for path, scan in scans:
            try:
                if (file := scan.result()) is None:
                    problem = f"{path}: not a file of a known tracer"
                    imported.losses.append(Loss(name_in(root, path), "foreign", "files", 1, problem))
                    continue
                names.add(file)
                scanned.append((path, file))
            except TraceError as error:
                imported.add_unreadable(root, path, str(error))
        made = [target / f"dftracer.{number}.pfw.gz" for number in range(len(scanned))]
        jobs = [pool.submit(names.convert, file, place) for (_, file), place in zip(scanned, made, strict=True)]
        for (path, _), place, job in zip(scanned, made, jobs, strict=True):
            try:
                _, losses = job.result()
                imported.losses += [
                    Loss(name_in(root, path), cause, _UNITS.get(cause, "events"), count)
                    for cause, count in losses.items()
                ]
            except TraceError as error:
                place.unlink(missing_ok=True)
                imported.add_unreadable(root, path, str(error))
    return imported


def _scan(names: _native.DFTracerNames, path: Path) -> _native.DFTracerFile | None:
    return names.scan(path) if _native.is_dftracer(path) else None


FORMAT = Format("dftracer", "a trace of DFTracer", files, convert)
