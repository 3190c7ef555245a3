"""The log of the declared DAG: a workflow manager's tasks and dependencies as JSON lines (docs/declared-dag.md).

    manager's threads ── write() ──► pending ── a thread, every 50 ms; flush(); close() ──► lines in one write ──► file
    declared_line    one line
    declared_file    a file of a task's line
    error_text       the error of a task's end

Invariants: each writer process has its own file; lines are written whole, to a descriptor opened with O_APPEND, so a
reader sees complete lines at any time. Where the run's names are hashed, those of the lines are
(hashed_declarations.py), and a process without the key writes none. No thread that adds lines waits for the disk. A
failure (full disk, missing directory) never stops the workflow: it is logged once, and `lost` counts the lines. What a
killed process wrote in its last 50 ms is lost. The reader of these files is tailrace.analyzer.store.declared_tables.

A thread of its own writes, since a write gives up Python's lock, which a busy kernel of Parsl gets back after up to 5
ms.
"""

import importlib
import json
import logging
import os
import re
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from tailrace import hashed_names
from tailrace.errors import UsageError
from tailrace.integrations.hashed_declarations import hashed

orjson: Any
try:
    orjson = importlib.import_module("orjson")
except ImportError:  # json takes 20 times as long, in which no thread of the manager runs
    orjson = None

_log = logging.getLogger("tailrace.declared")

# The keys that docs/declared-dag.md requires, by type of line; others may be added.
REQUIRED_KEYS = {
    "workflow": ("workflow", "manager", "version", "t_ns", "config"),
    "task": ("workflow", "stage", "task", "kind", "name", "deps", "inputs", "outputs"),
    "plan": ("workflow", "task", "deps", "inputs", "outputs"),
    "wait": ("workflow", "task", "awaited"),
    "try": ("workflow", "task", "try", "t_launch_ns"),
    "end": ("workflow", "task", "t_end_ns", "status", "tries"),
}
_REQUIRED = {type_: frozenset(keys) for type_, keys in REQUIRED_KEYS.items()}
_LONGEST_ERROR = 2000
END_STATUSES = ("done", "failed", "timeout", "killed", "canceled", "dep_failed", "memoized")

_INTERVAL_S = 0.05
_MOST_PENDING = 10_000
"""Lines; a thread that adds one more writes them all itself, so that memory stays bounded."""
_IDLE_S = 1.0

_AS_JSON = orjson and orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS
_encode_any = json.JSONEncoder(separators=(",", ":"), default=str).encode


def _encode(line: Mapping[str, Any]) -> bytes:
    if orjson is not None:
        with suppress(TypeError):  # integers of more than 64 bits, keys that are no text, surrogates
            return orjson.dumps(line, default=str, option=_AS_JSON)
    return _encode_any(line).encode("utf-8", "replace")


def declared_line(type_: str, /, **keys: Any) -> str:
    """A declared line without its newline. Keys whose value is None are omitted. Raises TypeError for a missing key."""
    return _encode(_given(type_, keys)).decode()


def _given(type_: str, keys: Mapping[str, Any]) -> dict[str, Any]:
    given = {"type": type_}
    for key, value in keys.items():
        if value is not None:
            given[key] = value
    if not _REQUIRED[type_] <= given.keys():
        missing = [key for key in REQUIRED_KEYS[type_] if key not in given]
        raise TypeError(f"a declared line of type {type_!r} needs {', '.join(missing)}")
    return given


_Line = bytes | Callable[[], bytes]
_Of = TypeVar("_Of")
FilePath = str | os.PathLike[str]


def error_text(error: object) -> str:
    """An exception as the value of `error`, with the name of its class; anything else as it is in words."""
    words = str(error)
    if isinstance(error, BaseException):
        words = ": ".join(filter(None, (type(error).__name__, words)))
    return words[:_LONGEST_ERROR]


def declared_file(path: FilePath, url: str | None = None) -> dict[str, str]:
    """The keys of a file: its absolute path, with the links in its folder resolved, as in the trace."""
    given = Path(os.path.abspath(os.fspath(path)))  # noqa: PTH100 (pathlib keeps "..")
    name = str(_resolved(given.parent) / given.name)
    return {"path": name, "url": f"file://{name}" if url is None else url}


def of_path(path: str, by_path: Mapping[str, _Of]) -> "_Of | None":
    """What a mapping has for a path, or for the nearest folder that it is in: a task may declare a folder that it
    fills, and another one a file of it."""
    while path:
        found = by_path.get(path)
        if found is not None:
            return found
        path = path.rpartition("/")[0]
    return None


@lru_cache(maxsize=4096)
def _resolved(folder: Path) -> Path:
    # Cached per folder: in a traced program every readlink is an event.
    return folder.resolve()


class DeclaredLog:
    """Appends declared lines. Thread-safe; a forked child opens its own file."""

    def __init__(self, run_dir: str | Path, manager: str) -> None:
        self.lost = 0
        self._directory = Path(run_dir) / "declared"
        self._manager = manager
        self._descriptor: int | None = None
        self._path_pid = 0
        self._path: Path | None = None
        self._torn = False
        self._names: hashed_names.HashedNames | None = None
        self._refused: UsageError | None = None
        try:
            self._names = hashed_names.of_run(run_dir)
        except UsageError as error:
            self._refused = error
        self._begin_process()

    def _begin_process(self) -> None:
        """Forgets what belongs to the parent: its lines, its thread, and locks that others of its threads may hold."""
        self._pid = os.getpid()
        self._pending: deque[_Line] = deque()
        self._lock = threading.Lock()
        self._wake, self._close = threading.Event(), threading.Event()
        self._writer: threading.Thread | None = None

    @property
    def path(self) -> Path | None:
        """The file of this process; None before its first line is written."""
        return self._path if self._path_pid == os.getpid() else None

    def write(self, type_: str, /, **keys: Any) -> None:
        """Adds a line of type `type_`, to be written soon. Keys whose value is None are omitted. Raises TypeError for
        a missing key."""
        self.add(type_, keys)

    def add(self, type_: str, keys: Mapping[str, Any]) -> None:
        """`write` of keys that are a mapping."""
        if line := self._encoded(_given(type_, keys)):
            self._add(line)

    def add_later(self, type_: str, keys: Callable[[], Mapping[str, Any]]) -> None:
        """Adds a line whose keys are asked for when it is written, so that it can take what comes until then."""
        self._add(lambda: self._encoded(_given(type_, keys())))

    def _add(self, line: _Line) -> None:
        if self._pid != os.getpid():
            self._begin_process()
        self._pending.append(line)
        if not self._wake.is_set():
            self._wake.set()
        if self._writer is None:
            self._start_writer()
        elif len(self._pending) > _MOST_PENDING:
            self.flush()

    def recorded(self, keys: Mapping[str, Any]) -> Mapping[str, Any]:
        """The keys with their values as a line has them."""
        return keys if self._names is None else hashed(keys, self._names)

    def flush(self) -> None:
        """Writes all lines added so far."""
        if self._pid != os.getpid():
            return
        with self._lock:
            # As many as there are now: other threads may go on adding.
            waiting = [self._pending.popleft() for _ in range(len(self._pending))]
            lines = [line() if callable(line) else line for line in waiting]
            self._append([line for line in lines if line])

    def close(self) -> None:
        """Writes all lines and closes the file. The next line opens it again."""
        if self._pid != os.getpid():
            # A child that has no lines yet, and must not wait for its parent's threads.
            return
        writer = self._writer
        if writer is not None:
            # A thread that still runs at the process's end can't seal its records.
            self._close.set()
            self._wake.set()
            writer.join()
            self._close.clear()
        self.flush()
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
            self._descriptor = None

    def _start_writer(self) -> None:
        with self._lock:
            if self._writer is not None:
                return
            self._writer = threading.Thread(target=self._write_pending, name="tailrace-declared", daemon=True)
            try:
                self._writer.start()
                return
            except RuntimeError:  # the interpreter is ending
                self._writer = None
        self.flush()

    def _write_pending(self) -> None:
        """The writer thread. It ends at close(), and when there was nothing to write for a while; a later line starts
        another."""
        while self._wake.wait(_IDLE_S) or not self._retire():
            self._wake.clear()
            closing = self._close.wait(_INTERVAL_S)
            self.flush()
            if closing and self._retire():
                return

    def _retire(self) -> bool:
        with self._lock:
            writer, self._writer = self._writer, None
            # write() adds its line before it looks for a writer.
            if self._pending:
                self._writer = writer
            return self._writer is None

    def _encoded(self, line: dict[str, Any]) -> bytes:
        """The line, b"" when it can't be written."""
        if self._refused is not None:
            self._lose(self._refused)
            return b""
        try:
            return _encode(self.recorded(line)) + b"\n"
        except (TypeError, ValueError, RecursionError) as error:
            self._lose(error)
            return b""

    def _append(self, lines: Sequence[bytes]) -> None:
        """Writes whole lines. What a full disk refuses is lost, line by line. Lock held."""
        if not lines:
            return
        # After a torn line the next one begins with a newline, so that only the torn one is lost.
        data = b"\n" * self._torn + b"".join(lines)
        try:
            written = os.write(self._open(), data)
        except OSError as error:
            whole = 0
            self._lose(error)
        else:
            whole = data[:written].count(b"\n") - self._torn
            self._torn = written > 0 and not data[:written].endswith(b"\n")
            if written == len(data):
                return
            self._lose(OSError(f"only {written} of {len(data)} bytes were written"))
        for line in lines[whole + 1 :]:
            self._append([line])

    def _open(self) -> int:
        if self._path_pid != self._pid:
            self._descriptor, self._path, self._path_pid, self._torn = None, None, self._pid, False
        if self._descriptor is None:
            path = self._path
            if path is None:
                host = re.sub(r"[^A-Za-z0-9._]", "_", socket.gethostname())
                path = self._directory / f"{self._manager}-{host}-{self._pid}-{time.time_ns():x}.jsonl"
            # A Flux shell creates the run directory without this folder.
            if self._directory.parent.is_dir():
                self._directory.mkdir(mode=0o700, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._descriptor = os.open(path, flags, 0o600)
            # Another thread may read the file as soon as it knows its name.
            self._path = path
        return self._descriptor

    def _lose(self, error: Exception) -> None:
        self.lost += 1
        if self.lost == 1:
            where = self._path or self._directory
            _log.warning("tailrace: can't write the declared DAG to %s: %s; the workflow continues", where, error)
