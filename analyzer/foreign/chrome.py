"""Traces in Chrome's trace event format, as Perfetto, PyTorch and many others write it: JSON, plain or gzipped.

    https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU

Invariants: complete events (X), pairs of begin and end (B, E, innermost first, by thread) and instants (i, I, R) are
events; counters, flows, asynchronous and object events are counted as left out. A begin without its end has no duration
to give and is left out. Files, offsets and bytes are taken from args of the names that our columns have. The file is
read as a whole, where there is memory for it.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeGuard

from tailrace import _native
from tailrace.analyzer.foreign import calls
from tailrace.analyzer.foreign.importer import Format, Imported, is_regular, name_in
from tailrace.analyzer.util.losses import Loss
from tailrace.analyzer.util.types import Document
from tailrace.base import memory
from tailrace.base.text import clean
from tailrace.errors import TraceError

_ENDINGS = (".json", ".json.gz")
_HEAD_BYTES = 1 << 16
_MEMORY_RATIO = 24
"""Of JSON as Python's objects to its text."""
_MOST = 2**53
_MOST_NS = 2**63
_MOST_PID = 2**31
_NUMBER = re.compile("-?[0-9.e+]+")
_TAG_BYTES = 1024
"""Of a tag's value (docs/trace-format.md)."""
_INSTANTS = ("i", "I", "R")
_PATHS = ("path", "file", "fname", "filename", "file_name")
_SIZES = ("size", "bytes")
_TAGS = ("workflow", "stage", "task", "job", "rank")


def files(path: Path) -> list[Path]:
    """The file, if it begins like a trace. A directory is none: its JSON files are of any kind."""
    if not path.name.endswith(_ENDINGS) or not is_regular(path):
        return []
    try:
        with _opened(path) as file:
            head = file.read(_HEAD_BYTES).lstrip()
    except (OSError, EOFError, zlib.error):
        return []
    is_list = head.startswith(b"[") and b'"ph"' in head
    return [path] if is_list or (head.startswith(b"{") and b'"traceEvents"' in head) else []


def _opened(path: Path) -> Any:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path) if packed else path.open("rb")


def convert(root: Path, paths: list[Path], target: Path) -> Imported:
    """Writes one trace file."""
    (path,) = paths
    imported = Imported()
    _Trace(_native.ForeignWriter(target / "chrome.0.pfw.gz"), path, imported).write(_events(path))
    return imported


def _events(path: Path) -> list[object]:
    most = memory.left() // 2 // _MEMORY_RATIO
    try:
        with _opened(path) as file:
            text = file.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(f"{path}: can't be read: {error}") from error
    if len(text) > most:
        why = "reading it takes more than half of the memory that is left: read it where there is more"
        raise TraceError(f"{path}: {why}")
    try:
        value = json.loads(text.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError) as error:
        value = _unclosed(text, path, error)
    found = value.get("traceEvents") if isinstance(value, dict) else value
    if not isinstance(found, list):
        raise TraceError(f"{path}: it has no list of traceEvents")
    return found


def _unclosed(text: bytes, path: Path, error: Exception) -> object:
    """A list without its closing bracket, which the format allows."""
    try:
        return json.loads(text.decode("utf-8", "replace").rstrip().rstrip(",") + "]", strict=False)
    except (ValueError, RecursionError):
        raise TraceError(f"{path}: it is not JSON: {error}") from error


class _Trace:
    """One file's events."""

    def __init__(self, writer: _native.ForeignWriter, path: Path, imported: Imported) -> None:
        self._writer, self._path, self._imported = writer, path, imported
        self._left: Counter[str] = Counter()
        self._open: dict[tuple[int, int], list[Document]] = defaultdict(list)
        self._names: dict[int, str] = {}
        self._pids, self._tids = _Numbers(), _Numbers()

    def write(self, events: list[object]) -> None:
        """Writes all events."""
        documents = [event for event in events if isinstance(event, dict)]
        self._pids.number(event.get("pid") for event in documents)
        self._tids.number(event.get("tid") for event in documents)
        self._names.update(self._pids.texts())
        for event in documents:
            if (event.get("ph"), event.get("name")) == ("M", "process_name") and (
                name := _text(_args(event).get("name"))
            ):
                self._names[self._pids.of(event.get("pid"))] = name
        for event in documents:
            self._one(event)
        self._left["unknown"] += len(events) - len(documents)
        self._left["unfinished"] += sum(map(len, self._open.values()))
        for cause, count in sorted(self._left.items()):
            if count:
                name = name_in(self._path, self._path)
                self._imported.losses.append(Loss(name, cause, "lines", count, name if cause == "damaged" else ""))
        self._writer.finish()

    def _one(self, event: Document) -> None:
        phase = event.get("ph")
        thread = self._pids.of(event.get("pid")), self._tids.of(event.get("tid"))
        if phase == "X":
            self._put(event, _ns(event.get("ts")), _ns(event.get("dur", 0)))
        elif phase == "B":
            self._open[thread].append(event)
        elif phase == "E":
            if not self._open[thread]:
                self._left["unfinished"] += 1
                return
            begun = self._open[thread].pop()
            begin, end = _ns(begun.get("ts")), _ns(event.get("ts"))
            merged = {**begun, "args": {**_args(begun), **_args(event)}}
            self._put(merged, begin, None if begin is None or end is None else max(end - begin, 0))
        elif phase in _INSTANTS:
            self._put(event, _ns(event.get("ts")), 0)
        elif phase == "C":
            self._left["counters"] += 1
        elif phase != "M":
            self._left["unknown"] += 1

    def _put(self, event: Document, begin: int | None, duration: int | None) -> None:
        if begin is None or duration is None or begin + duration >= _MOST_NS:
            self._left["damaged"] += 1
            return
        pid, tid, args = self._pids.of(event.get("pid")), self._tids.of(event.get("tid")), _args(event)
        name = self._names.get(pid, "")
        process = self._writer.process("unknown", pid, "", json.dumps({"exe": name}) if name else "")
        path = next((args[key] for key in _PATHS if isinstance(args.get(key), str) and args[key]), None)
        size = next((args[key] for key in _SIZES if _is_count(args.get(key))), None)
        called, category = _text(event.get("name")), _text(event.get("cat")) or "APP"
        known = calls.known().get(called) if category in ("POSIX", "STDIO") else None
        way = args.get("dir") if args.get("dir") in ("r", "w", "rw") else None
        if way is None and size is not None:
            way = "w" if "write" in called.lower() else "r" if "read" in called.lower() else ""
        tags = {key: text for key in _TAGS if (text := _tag(args.get(key)))}
        self._writer.event(
            process,
            known[0] if known else called,
            known[1] if known else category,
            tid,
            begin,
            duration,
            self._writer.file(clean(path)) if isinstance(path, str) else -1,
            offset=_count(args.get("offset")),
            size=_count(size),
            count=_count(args.get("count")),
            ret=_signed(args.get("ret")),
            errno=_count(args.get("errno")),
            dir=str(way or ""),
            context=self._writer.context(*calls.context(**tags)) if tags else 0,
        )


def _args(event: Document) -> Document:
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST


def _count(value: object) -> int | None:
    return value if _is_count(value) else None


def _signed(value: object) -> int | None:
    """A result: -1 of a call that failed."""
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MOST else None


def _text(value: object) -> str:
    """A name; "" of what is none."""
    return clean(str(value)) if isinstance(value, str | int | float) else ""


def _tag(value: object) -> str:
    """A tag's value, as long as the format allows."""
    text = _text(value) if isinstance(value, str | int) else ""
    return text.encode()[:_TAG_BYTES].decode("utf-8", "ignore")


def _ns(value: object) -> int | None:
    """us as ns, None for what is no time."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _MOST:
        return None
    return max(round(value * 1000), 0)


def _is_pid(text: str) -> bool:
    return re.fullmatch("[0-9]{1,10}", text) is not None and int(text) < _MOST_PID


class _Numbers:
    """pids or tids as numbers. A text, or a number that no process has (pthread_self's), gets one that is not in the
    trace, so that two of them stay two."""

    def __init__(self) -> None:
        self._of: dict[str, int] = {}

    def number(self, values: Iterable[object]) -> None:
        """Gives each of the values its number."""
        wanted = dict.fromkeys(str(value) for value in values if isinstance(value, str | int | float))
        taken = {int(text) for text in wanted if _is_pid(text)}
        free = (number for number in range(1, _MOST_PID) if number not in taken)
        for text in wanted:
            self._of[text] = int(text) if _is_pid(text) else next(free)

    def of(self, value: object) -> int:
        """The number of one of the values; 0 where it is none."""
        return self._of.get(str(value), 0) if isinstance(value, str | int | float) else 0

    def texts(self) -> dict[int, str]:
        """The values that are texts, by their numbers."""
        return {number: clean(text) for text, number in self._of.items() if not _NUMBER.fullmatch(text)}


FORMAT = Format("chrome", "a trace in Chrome's JSON format", files, convert, version=2)
