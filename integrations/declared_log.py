"""The log of the declared DAG: a workflow manager's tasks and dependencies as JSON lines (docs/declared-dag.md).

    DeclaredLog      appends lines while the workflow runs
    declared_line    one line

Invariants: each writer process has its own file; each line is one write to a descriptor opened with O_APPEND, so a
reader sees complete lines at any time. A failure (full disk, missing directory) never stops the workflow: it is
logged once, and `lost` counts the lines. The reader of these files is tailrace.analyzer.store.declared_tables.
"""

import json
import logging
import os
import re
import socket
import threading
import time
from pathlib import Path
from typing import Any

_log = logging.getLogger("tailrace.declared")

# The keys that docs/declared-dag.md requires, by type of line; others may be added.
REQUIRED_KEYS = {
    "workflow": ("workflow", "manager", "version", "t_ns", "config"),
    "task": ("workflow", "stage", "task", "kind", "name", "deps", "inputs", "outputs"),
    "wait": ("workflow", "task", "awaited"),
    "try": ("workflow", "task", "try", "t_launch_ns"),
    "end": ("workflow", "task", "t_end_ns", "status", "tries"),
}
END_STATUSES = ("done", "failed", "timeout", "killed", "canceled", "dep_failed", "memoized")


def declared_line(type_: str, /, **keys: Any) -> str:
    """A declared line without its newline. Keys whose value is None are omitted. Raises TypeError for a missing key."""
    given = {key: value for key, value in keys.items() if value is not None}
    missing = [key for key in REQUIRED_KEYS[type_] if key not in given]
    if missing:
        raise TypeError(f"a declared line of type {type_!r} needs {', '.join(missing)}")
    return json.dumps({"type": type_, **given}, separators=(",", ":"), default=str)


class DeclaredLog:
    """Appends declared lines. Thread-safe; a forked child opens its own file."""

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
        """The file of this process; None before its first line."""
        return self._path if self._pid == os.getpid() else None

    def write(self, type_: str, /, **keys: Any) -> None:
        """Appends a line of type `type_`. Keys whose value is None are omitted. Raises TypeError for a missing key."""
        line = declared_line(type_, **keys) + "\n"
        if self._lock_pid != os.getpid():  # another thread may have held it at fork
            self._lock, self._lock_pid = threading.Lock(), os.getpid()
        try:
            self._append(line.encode("utf-8", "replace"))
        except OSError as error:
            self._lose(error)

    def close(self) -> None:
        """Closes the file. The next line opens it again."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
            self._descriptor = None

    def _append(self, line: bytes) -> None:
        with self._lock:
            descriptor = self._open()
            line = b"\n" * self._torn + line
            written = os.write(descriptor, line)
            # Disk full: the next line starts with a newline, so only this one is lost once there is room again.
            self._torn = written != len(line)
            if self._torn:
                raise OSError(f"only {written} of {len(line)} bytes were written")

    def _open(self) -> int:
        if self._pid != os.getpid() or self._path is None:
            self._descriptor, self._pid, self._torn = None, os.getpid(), False
            host = re.sub(r"[^A-Za-z0-9._]", "_", socket.gethostname())
            self._path = self._directory / f"{self._manager}-{host}-{self._pid}-{time.time_ns():x}.jsonl"
        if self._descriptor is None:
            # A Flux shell creates the run directory without this folder.
            if self._directory.parent.is_dir():
                self._directory.mkdir(mode=0o700, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._descriptor = os.open(self._path, flags, 0o600)
        return self._descriptor

    def _lose(self, error: OSError) -> None:
        self.lost += 1
        if self.lost == 1:
            where = self._path or self._directory
            _log.warning("tailrace: can't write the declared DAG to %s: %s; the workflow continues", where, error)
