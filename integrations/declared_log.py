"""The declared DAG: what a workflow manager knows of its tasks, appended as JSON lines (docs/declared-dag.md).

One file a writer process, each line in one write to a descriptor opened with O_APPEND, so that a reader sees whole
lines at any time and no two writers share a file. A failure (full disk, directory gone) is said once and the lines
counted in `lost`: declaring must never stop a workflow. Who reads a manager's history afterwards publishes a whole file
instead (`publish`), which may be done again.
"""

import json
import logging
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_log = logging.getLogger("tailrace.declared")

# What docs/declared-dag.md asks of a line, by type; further keys are free.
REQUIRED_KEYS = {
    "workflow": ("workflow", "manager", "version", "t_ns", "config"),
    "task": ("workflow", "stage", "task", "kind", "name", "deps", "inputs", "outputs"),
    "try": ("workflow", "task", "try", "t_launch_ns"),
    "end": ("workflow", "task", "t_end_ns", "status", "tries"),
}
END_STATUSES = ("done", "failed", "memoized", "dep_failed", "canceled")


def declared_line(type_: str, /, **keys: Any) -> str:
    """A declared line without its end; a key whose value is None is left out. Raises TypeError for a missing key."""
    given = {key: value for key, value in keys.items() if value is not None}
    missing = [key for key in REQUIRED_KEYS[type_] if key not in given]
    if missing:
        raise TypeError(f"a declared line of type {type_!r} needs {', '.join(missing)}")
    return json.dumps({"type": type_, **given}, separators=(",", ":"), default=str)


def publish(path: Path, lines: Iterable[str]) -> None:
    """Makes `path` a declared file of these lines, or replaces it by one, whole at every moment. Its folder is made
    where a shell that made the run had nothing to declare. Raises OSError.
    """
    scratch = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    path.parent.mkdir(mode=0o700, exist_ok=True)
    try:
        scratch.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", errors="replace")
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


class DeclaredLog:
    """A writer of declared lines. Thread-safe; a forked child gets a file of its own."""

    def __init__(self, run_dir: str | Path, manager: str) -> None:
        self.lost = 0
        self._directory = Path(run_dir) / "declared"
        self._manager = manager
        self._lock = threading.Lock()
        self._lock_pid = os.getpid()
        self._descriptor: int | None = None
        self._pid = 0
        self._path: Path | None = None
        self._torn = False

    @property
    def path(self) -> Path | None:
        """The file that this process writes; None before its first line."""
        return self._path if self._pid == os.getpid() else None

    def write(self, type_: str, /, **keys: Any) -> None:
        """Appends a line of type `type_`; a key whose value is None is left out. Raises TypeError for a missing key."""
        line = declared_line(type_, **keys) + "\n"
        if self._lock_pid != os.getpid():  # another thread of our parent's may have held the lock when it forked us
            self._lock, self._lock_pid = threading.Lock(), os.getpid()
        try:
            self._append(line.encode("utf-8", "replace"))
        except OSError as error:
            self._lose(error)

    def close(self) -> None:
        """Closes the file. A line that is written afterwards opens it again."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
            self._descriptor = None

    def _append(self, line: bytes) -> None:
        with self._lock:
            descriptor = self._open()
            line = b"\n" * self._torn + line
            written = os.write(descriptor, line)
            # The disk is full: the next line begins anew, so that only this one is lost when there is room again.
            self._torn = written != len(line)
            if self._torn:
                raise OSError(f"only {written} of {len(line)} bytes could be written")

    def _open(self) -> int:
        if self._pid != os.getpid() or self._path is None:
            self._descriptor, self._pid, self._torn = None, os.getpid(), False
            host = re.sub(r"[^A-Za-z0-9._]", "_", socket.gethostname())
            self._path = self._directory / f"{self._manager}-{host}-{self._pid}-{time.time_ns():x}.jsonl"
        if self._descriptor is None:
            # Of a run that a Flux shell has made.
            if self._directory.parent.is_dir():
                self._directory.mkdir(mode=0o700, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._descriptor = os.open(self._path, flags, 0o666)
        return self._descriptor

    def _lose(self, error: OSError) -> None:
        self.lost += 1
        if self.lost == 1:
            where = self._path or self._directory
            _log.warning("tailrace: can't write the declared DAG to %s: %s; the workflow goes on", where, error)
