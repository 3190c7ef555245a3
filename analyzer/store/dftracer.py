"""Reads DFTracer's files (1.x and 2.x; .pfw or any gzip form) with the columns of tailrace. A slower path: plain
Python.

Invariants: one file is read as one block, since DFTracer's files have no index. Times are us in the files and ns in the
columns. Names are looked up by hash. DFTracer 1.x has 16-bit hashes; where a file gives one hash to two names, events
with that hash have no path (a missing name is better than a false one) and are counted as `ambiguous`. DFTracer records
no identities, so `file` is "path:" and the name. `size` is derived from the return values of the calls.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path

import pyarrow as pa

from tailrace.analyzer.store import schema
from tailrace.analyzer.util.formatting import clean
from tailrace.analyzer.util.types import Document
from tailrace.errors import TraceError

_EVENT, _META = frozenset({"X", 1}), frozenset({"M", 4})
_READS = re.compile(r"p?readv?(2|64|64v2)?|fread(_unlocked)?|recv|read_chk")
_WRITES = re.compile(r"p?writev?(2|64|64v2)?|fwrite(_unlocked)?|send")
_ELEMENTS = frozenset({"fread", "fwrite", "fread_unlocked", "fwrite_unlocked"})
_SNIFF_LINES = 8


@dataclass
class Summary:
    """The contents of one file: events, their range in ns since the epoch, and the unusable parts by cause."""

    events: int = 0
    t0_ns: int = 0
    t1_ns: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    raw_bytes: int = 0
    host: str = ""
    pid: int = 0
    losses: dict[tuple[str, str], int] = field(default_factory=dict)
    """(cause, unit) -> count."""


@dataclass
class _File:
    """The names of hashes in a file's metadata; None where two names share a hash."""

    names: dict[tuple[str, str], str | None] = field(default_factory=dict)
    summary: Summary = field(default_factory=Summary)

    def define(self, args: Document, kind: str) -> None:
        key, name = (kind, str(args.get("value"))), str(args.get("name"))
        self.names[key] = name if self.names.get(key, name) == name else None

    def name(self, kind: str, value: object) -> str | None:
        return self.names.get((kind, str(value))) if value is not None else None


def sniff(path: Path) -> bool:
    """Whether the file has DFTracer's form: JSON lines with name, cat, pid and ph, after an optional `[`."""
    try:
        lines = [line for _, line in zip(range(_SNIFF_LINES), _lines(path, {}), strict=False)]
        events = [line for line in map(_object, lines) if line is not None]
    except OSError:
        return False
    return bool(events) and all({"name", "cat", "ph", "pid"} <= event.keys() for event in events)


def summarize(path: Path) -> Summary:
    """Reads the whole file once. Raises TraceError when it can't be read at all."""
    file, events = _load(path)
    summary = file.summary
    starts = [_ns(event.get("ts")) for event in events]
    summary.events = len(events)
    if events:
        summary.t0_ns = min(starts)
        ends = (start + _ns(event.get("dur")) for start, event in zip(starts, events, strict=True))
        summary.t1_ns = _clamped(max(ends))
        summary.pid = _clamped(_integer(events[0].get("pid")) or 0)
        summary.host = file.name("HH", _args(events[0]).get("hhash")) or ""
    for event in events:
        way, moved = _moved(event)
        summary.read_bytes += moved or 0 if way == "r" else 0
        summary.written_bytes += moved or 0 if way == "w" else 0
        value = _args(event).get("fhash")
        if value is not None and file.names.get(("FH", str(value)), "") is None:
            summary.losses["ambiguous", "events"] = summary.losses.get(("ambiguous", "events"), 0) + 1
    summary.read_bytes, summary.written_bytes = _clamped(summary.read_bytes), _clamped(summary.written_bytes)
    return summary


def read(path: Path, columns: Sequence[str], promised_events: int) -> pa.RecordBatch:
    """All events of the file as a batch of `schema.arrow_schema(columns)`.

    Raises TraceError when it can't be read, or has another number of events than the catalogue.
    """
    file, events = _load(path)
    if len(events) != promised_events:
        raise TraceError(f"{path}: has {len(events)} events, the catalogue says {promised_events}; open the run again")
    specs = [schema.column(name) for name in columns]
    arrays = []
    for spec in specs:
        plain = pa.string() if spec.kind == schema.TEXT else spec.arrow
        arrays.append(pa.array([_value(spec, event, file) for event in events], plain).cast(spec.arrow))
    return pa.record_batch(arrays, schema=schema.arrow_schema(columns))


# ---- lines ----


def _load(path: Path) -> tuple[_File, list[Document]]:
    file = _File()
    events = []
    losses = file.summary.losses
    try:
        for text in _lines(path, losses):
            file.summary.raw_bytes += len(text) + 1
            line = _object(text)
            if line is None:
                if text.strip(b" \t\r,[]"):
                    losses["not_json", "lines"] = losses.get(("not_json", "lines"), 0) + 1
            elif line.get("ph") in _META and line.get("name") in ("FH", "HH"):
                file.define(_args(line), str(line["name"]))
            elif line.get("ph") in _EVENT:
                events.append(line)
    except OSError as error:
        raise TraceError(f"{path}: can't be read: {error}") from error
    return file, events


def _lines(path: Path, losses: dict[tuple[str, str], int]) -> Iterator[bytes]:
    """The lines of a plain or gzipped file; a truncated gzip stream ends them and is counted as torn."""
    with path.open("rb") as plain:
        packed = plain.read(2) == b"\x1f\x8b"
    with gzip.open(path) if packed else path.open("rb") as stream:
        try:
            yield from (line.rstrip(b"\n") for line in stream)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            losses["torn", "files"] = 1


def _object(text: bytes) -> Document | None:
    try:
        line = json.loads(text.decode("utf-8", "replace").strip().rstrip(","), strict=False)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) else None


def _args(event: Document) -> Document:
    args = event.get("args")
    return args if isinstance(args, dict) else {}


# ---- columns ----


def _integer(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return int(value)
    except (ValueError, OverflowError):
        return None


def _ns(value: object) -> int:
    """us as ns; 0 for a value that is no number."""
    if isinstance(value, float) and isfinite(value):
        return _clamped(round(value * 1000))
    return _clamped(value * 1000) if isinstance(value, int) and not isinstance(value, bool) else 0


def _clamped(value: int, limit: int = 2**63) -> int:
    """`value`, clamped to the range of its column."""
    return min(max(value, -limit), limit - 1)


def _moved(event: Document) -> tuple[str | None, int | None]:
    """The direction of a call and its bytes; fread and fwrite return a number of elements."""
    name, args = str(event.get("name")), _args(event)
    way = "r" if _READS.fullmatch(name) else "w" if _WRITES.fullmatch(name) else None
    if way is None:
        return None, None
    done = max(_integer(args.get("ret")) or 0, 0)
    return way, done * (_integer(args.get("size")) or 1) if name in _ELEMENTS else done


def _count(event: Document) -> int | None:
    args = _args(event)
    count = _integer(args.get("count"))
    if count is None or event.get("name") not in _ELEMENTS:
        return count
    return count * (_integer(args.get("size")) or 1)


def _path(event: Document, file: _File) -> str | None:
    return file.name("FH", _args(event).get("fhash"))


def _identity(event: Document, file: _File) -> str | None:
    path = _path(event, file)
    return None if path is None else f"path:{path}"


_DERIVED: dict[str, Callable[[Document, _File], object]] = {
    "name": lambda event, file: str(event.get("name")),
    "cat": lambda event, file: str(event.get("cat")),
    "ts": lambda event, file: _ns(event.get("ts")),
    "dur": lambda event, file: _ns(event.get("dur")),
    "host": lambda event, file: file.name("HH", _args(event).get("hhash")) or "",
    "pid": lambda event, file: _integer(event.get("pid")) or 0,
    "start": lambda event, file: None,
    "tid": lambda event, file: _integer(event.get("tid")) or 0,
    "path": _path,
    "file": _identity,
    "size": lambda event, file: _moved(event)[1],
    "count": lambda event, file: _count(event),
    "dir": lambda event, file: _moved(event)[0],
    "calls": lambda event, file: 1,
    "ftype": lambda event, file: None,
    "path2": lambda event, file: None,
    "file2": lambda event, file: None,
    "object": lambda event, file: None,
}


def _value(column: schema.Column, event: Document, file: _File) -> str | int | None:
    derived = _DERIVED.get(column.name)
    value = _args(event).get(column.name) if derived is None else derived(event, file)
    if column.kind == schema.TEXT:
        return clean(value) if isinstance(value, str) else None
    whole = _integer(value)
    return None if whole is None else _clamped(whole, 2**31 if column.kind == schema.INT32 else 2**63)
