"""Another tracer's trace as a run directory of ours: made once, kept in the user's cache, or where the user wants it.

    find(path) -> Found -> cached() -> CACHE/foreign-PATH-STATE/{run.json, trace/*.pfw.gz}
                        -> convert(directory)

Invariants: the trace itself is never written to. A kept run is published by rename when it is complete, and never
changed; its name has the state of all files of the trace (size, mtime, inode), so one that changed is converted again,
and it says itself what it consists of, so one that is not whole any more is made again.
What could not be read is in run.json (`foreign.losses`), and so in `run.losses`.

Rejected: a reader for each format, with which every question goes through Python objects, without catalogue and edge
table, and each command has exceptions of its own; access points into a single gzip member (zran), since each line would
still be parsed in another form.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import pwd
import shutil
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import tailrace
from tailrace import _native
from tailrace.analyzer.foreign.formats import FORMATS
from tailrace.analyzer.foreign.importer import Format, Imported
from tailrace.base import ownership
from tailrace.errors import RunError

VERSION = 1
"""Of what all formats share: kept runs of another one are converted again."""
_KEEP_DAYS = 30
_PREFIX = "foreign-"
_WHOLE = "whole"
"""The file of a kept run that says what its other files were when it was complete."""
_temporary: dict[str, Path] = {}
"""Runs that serve this process only, where the user has no private cache."""


@dataclass(frozen=True)
class Found:
    """A trace of another tracer."""

    path: Path
    format: Format
    files: tuple[Path, ...]

    def state(self) -> str:
        """Equal for an unchanged trace and conversion."""
        rows: list[object] = [VERSION, self.format.name, self.format.version, tailrace.__version__]
        for file in self.files:
            status = file.stat()
            rows.append((os.fsencode(file).hex(), status.st_size, status.st_mtime_ns, status.st_ino))
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:24]


def find(path: Path) -> Found | None:
    """The trace at a path (a file or a directory); None where it is of no format that is known."""
    for one in FORMATS:
        if files := one.files(path):
            return Found(path, one, tuple(files))
    return None


def cached(found: Found) -> Path:
    """The run directory that the trace was, or is now, converted into. Raises TailraceError."""
    try:
        state, place = found.state(), hashlib.sha256(os.fsencode(found.path.resolve())).hexdigest()[:24]
    except OSError as error:
        raise RunError(f"{found.path}: it changed while it was read: {error}") from error
    cache = ownership.private_cache()
    if cache is None:
        return _for_this_process(found, state)
    kept = cache / f"{_PREFIX}{place}-{state}"
    if _is_whole(kept):
        with suppress(OSError):
            os.utime(kept)
        return kept
    _prune(cache, f"{_PREFIX}{place}-")
    made = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}", dir=cache))
    try:
        _write(found, made)
        (made / _WHOLE).write_text(_parts(made), encoding="utf-8")
        if not _is_whole(kept):
            _remove(kept, cache)
        with suppress(OSError):  # another process was first
            made.rename(kept)
    except OSError as error:
        raise RunError(f"{found.path}: the converted trace can't be written to {cache}: {error}") from error
    finally:
        shutil.rmtree(made, ignore_errors=True)
    if not _is_whole(kept):
        raise RunError(f"{found.path}: the converted trace can't be kept as {kept}: remove that")
    return kept


def _is_whole(kept: Path) -> bool:
    try:
        return (kept / _WHOLE).read_text(encoding="utf-8") == _parts(kept)
    except (OSError, ValueError):
        return False


def _remove(kept: Path, cache: Path) -> None:
    """Removes a kept run at once for everybody."""
    aside = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}", dir=cache))
    with suppress(FileNotFoundError):
        kept.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def _parts(run: Path) -> str:
    """Equal as long as no file of a kept run was changed. Bits that change on the disk are found in blocks by their
    checksums, when they are read; run.json has none."""
    files = [file.lstat() for file in sorted((run / "trace").iterdir())]
    rows = [(status.st_ino, status.st_size, status.st_mtime_ns) for status in files]
    return json.dumps([hashlib.sha256((run / "run.json").read_bytes()).hexdigest(), rows])


def convert(found: Found, directory: Path) -> None:
    """Converts the trace into a new run directory. Raises TailraceError; then there is none."""
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    except OSError as error:
        raise RunError(f"{directory}: can't be made: {error.strerror or error}") from error
    try:
        _write(found, made)
        made.rename(directory)
    except OSError as error:
        raise RunError(f"{directory}: can't be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _for_this_process(found: Found, state: str) -> Path:
    if state not in _temporary:
        made = Path(tempfile.mkdtemp(prefix="tailrace-foreign-"))
        atexit.register(shutil.rmtree, made, ignore_errors=True)
        _write(found, made)
        _temporary[state] = made
    return _temporary[state]


def _prune(cache: Path, of_this: str) -> None:
    """Removes what has not been used for long, and of this trace what is of an earlier state."""
    now = time.time()
    for path in cache.iterdir():
        if not path.name.startswith((_PREFIX, f".{_PREFIX}")):
            continue
        # A reader of the earlier state may be at work.
        days = 1 if path.name.startswith((of_this, ".")) else _KEEP_DAYS
        with suppress(OSError):
            if path.lstat().st_mtime < now - days * 86400:
                shutil.rmtree(path, ignore_errors=True)


# ---- the run directory ----


def _write(found: Found, directory: Path) -> None:
    trace = directory / "trace"
    trace.mkdir()
    (directory / "declared").mkdir()
    imported = found.format.convert(found.path, list(found.files), trace)
    spans = [span for file in sorted(trace.iterdir()) for span in _spans(file)]
    description = _description(found, imported, min(spans, default=0))
    (directory / "run.json").write_text(json.dumps(description), encoding="utf-8")


def _spans(file: Path) -> list[int]:
    """The begins of the blocks of a trace file."""
    blocks, *_ = _native.scan_blocks(file)
    begins = [json.loads(text)["t0"] for _, _, text in blocks]
    return [begin for begin in begins if begin]


def _description(found: Found, imported: Imported, begin_ns: int) -> dict[str, Any]:
    """run.json (schemas/run.schema.json). What only the traced machine knew is absent in all formats."""
    owner = found.files[0].stat().st_uid
    try:
        user = pwd.getpwuid(owner).pw_name
    except KeyError:
        user = str(owner)
    begin = datetime.fromtimestamp(begin_ns / 1e9, timezone.utc)
    return {
        "format": 1,
        "run_id": hashlib.sha256(found.state().encode()).hexdigest()[:32],
        "created": begin.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "command": imported.command,
        "cwd": imported.cwd,
        "tags": imported.tags,
        "user": user,
        "uid": owner,
        "host": imported.host or "unknown",
        "kernel": "",
        "boot_id": None,
        "cpu": {"model": "", "count": 1},
        "clock_error_ns": None,
        "versions": {"tailrace": tailrace.__version__},
        "mounts": [],
        "restarts": [],
        "foreign": {
            "format": found.format.name,
            "title": found.format.title,
            "source": os.fsencode(found.path.absolute()).decode("utf-8", "backslashreplace"),
            "files": len(found.files),
            "losses": [asdict(loss) for loss in imported.losses],
            "notes": imported.notes,
        },
    }
