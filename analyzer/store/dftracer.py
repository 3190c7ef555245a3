"""Reads DFTracer's files (1.x and 2.x; .pfw or any gzip form) with the columns of tailrace. A slower path: plain
Python.

Invariants: one file is read as one block, since DFTracer's files have no index; what is kept of it are its columns, and
not more of them than there is memory for (util/memory.py), whatever it inflates to. Times are us in the files and ns in
the columns. Names are looked up by hash. DFTracer 1.x has 16-bit hashes; where a file gives one hash to two names,
events with that hash have no path (a missing name is better than a false one) and are counted as `ambiguous`. DFTracer
records no identities, so `file` is "path:" and the name. `size` is derived from the return values of the calls.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.analyzer.store import schema
from tailrace.analyzer.util.formatting import clean
from tailrace.analyzer.util.lazy import lazy
from tailrace.analyzer.util.memory import Budget
from tailrace.analyzer.util.types import Document
from tailrace.errors import TraceError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
else:
    np = lazy("numpy")
    pa = lazy("pyarrow")

_EVENT, _META = ("X", 1), ("M", 4)
_READS = re.compile(r"p?readv?(2|64|64v2)?|fread(_unlocked)?|recv|read_chk")
_WRITES = re.compile(r"p?writev?(2|64|64v2)?|fwrite(_unlocked)?|send")
_ELEMENTS = frozenset({"fread", "fwrite", "fread_unlocked", "fwrite_unlocked"})
_SNIFF_LINES = 8
_LINE_BYTES = 1 << 20
"""A longer line is none of DFTracer's."""
_MOST_RATIO, _MOST_RATIO_BYTES = 200, 64 << 20
"""A file that inflates to more than so many times its size, and to more than so many bytes, is no trace: each of its
lines has times of its own."""
_ROW_BYTES = 12
"""Of one value of a column while it is read, and of its copy in the batch."""
_TEXT_BYTES = 200
"""Of a name in a table, without its characters."""


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

    budget: Budget
    names: dict[tuple[str, str], str | None] = field(default_factory=dict)

    def define(self, args: Document, kind: str) -> None:
        key, name = (kind, str(args.get("value"))), str(args.get("name"))
        if key not in self.names:
            self.budget.take(len(name) + len(key[1]) + _TEXT_BYTES)
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
    """Reads the whole file. Raises TraceError when it can't be read at all, or its names are more than there is memory
    for."""
    file, summary = _names(path), Summary()
    first: Document | None = None
    for event in _events(path, summary):
        start, end = _ns(event.get("ts")), _ns(event.get("ts")) + _ns(event.get("dur"))
        if first is None:
            first, summary.t0_ns, summary.t1_ns = event, start, end
            summary.pid = _clamped(_integer(event.get("pid")) or 0)
            summary.host = file.name("HH", _args(event).get("hhash")) or ""
        summary.events += 1
        summary.t0_ns, summary.t1_ns = min(summary.t0_ns, start), max(summary.t1_ns, end)
        way, moved = _moved(event)
        summary.read_bytes += moved or 0 if way == "r" else 0
        summary.written_bytes += moved or 0 if way == "w" else 0
        value = _args(event).get("fhash")
        if value is not None and file.names.get(("FH", str(value)), "") is None:
            summary.losses["ambiguous", "events"] = summary.losses.get(("ambiguous", "events"), 0) + 1
    summary.t1_ns = _clamped(summary.t1_ns)
    summary.read_bytes, summary.written_bytes = _clamped(summary.read_bytes), _clamped(summary.written_bytes)
    return summary


def read(path: Path, columns: Sequence[str], promised_events: int) -> pa.RecordBatch:
    """All events of the file as a batch of `schema.arrow_schema(columns)`.

    Raises TraceError when it can't be read, has another number of events than the catalogue, or more than there is
    memory for.
    """
    file = _names(path)
    parts = [_Part(schema.column(name), file.budget) for name in columns]
    file.budget.take(promised_events * len(parts) * _ROW_BYTES)
    count = 0
    for event in _events(path, Summary()):
        count += 1
        if count <= promised_events:
            for part in parts:
                part.add(_value(part.spec, event, file))
    if count != promised_events:
        raise TraceError(f"{path}: has {count} events, the catalogue says {promised_events}; open the run again")
    return pa.record_batch([part.finish() for part in parts], schema=schema.arrow_schema(columns))


class _Part:
    """A column while it is read."""

    def __init__(self, spec: schema.Column, budget: Budget) -> None:
        self.spec = spec
        self._budget = budget
        self._texts: dict[str, int] = {}
        self._values = array("i" if spec.kind == schema.TEXT else "q")
        self._absent = bytearray()

    def add(self, value: str | int | None) -> None:
        self._absent.append(value is None)
        self._values.append(self._number(value) if isinstance(value, str) else value or 0)

    def _number(self, text: str) -> int:
        if text not in self._texts:
            self._budget.take(len(text) + _TEXT_BYTES)
            self._texts[text] = len(self._texts)
        return self._texts[text]

    def finish(self) -> pa.Array:
        absent = np.frombuffer(self._absent, dtype=np.bool_)
        values = np.frombuffer(self._values, dtype=self._values.typecode)
        if self.spec.kind == schema.TEXT:
            return pa.DictionaryArray.from_arrays(pa.array(values, mask=absent), pa.array(self._texts, pa.string()))
        return pa.array(values.astype(self.spec.arrow.to_pandas_dtype()), self.spec.arrow, mask=absent)


# ---- lines ----


def _names(path: Path) -> _File:
    """The names of the whole file, read first: a name may follow the first event with its hash."""
    file = _File(Budget(path))
    for text in _readable_lines(path, {}):
        line = _object(text) if b"FH" in text or b"HH" in text else None
        if line is not None and _is_name(line):
            file.define(_args(line), str(line["name"]))
    return file


def _is_name(line: Document) -> bool:
    return line.get("ph") in _META and line.get("name") in ("FH", "HH")


def _events(path: Path, summary: Summary) -> Iterator[Document]:
    """The events in turn; counts lines and what is unusable in `summary`."""
    losses = summary.losses
    for text in _readable_lines(path, losses):
        summary.raw_bytes += len(text) + 1
        line = _object(text)
        if line is None:
            if text.strip(b" \t\r,[]"):
                losses["not_json", "lines"] = losses.get(("not_json", "lines"), 0) + 1
        elif not _is_name(line) and line.get("ph") in _EVENT:
            yield line


def _readable_lines(path: Path, losses: dict[tuple[str, str], int]) -> Iterator[bytes]:
    try:
        yield from _lines(path, losses)
    except OSError as error:
        raise TraceError(f"{path}: can't be read: {error}") from error


def _lines(path: Path, losses: dict[tuple[str, str], int]) -> Iterator[bytes]:
    """The lines of a plain or gzipped file; a truncated gzip stream ends them and is counted as torn. Of a line that is
    too long comes the first part, which is no JSON. Raises TraceError for a file that inflates to too much."""
    with path.open("rb") as plain:
        packed = plain.read(2) == b"\x1f\x8b"
        most = max(_MOST_RATIO_BYTES, os.fstat(plain.fileno()).st_size * _MOST_RATIO)
    with gzip.open(path) if packed else path.open("rb") as stream:
        try:
            done, is_rest = 0, False
            while line := stream.readline(_LINE_BYTES):
                done += len(line)
                if done > most:
                    raise TraceError(f"{path}: it inflates to more than {_MOST_RATIO} times its size: no trace does")
                if not is_rest:
                    yield line.rstrip(b"\n")
                is_rest = not line.endswith(b"\n")
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
    "lines": lambda event, file: 1,
    **{name: lambda event, file: None for name in ("span", "last", "followed", "sizes", "durs", "pieces")},
}


def _value(column: schema.Column, event: Document, file: _File) -> str | int | None:
    derived = _DERIVED.get(column.name)
    value = _args(event).get(column.name) if derived is None else derived(event, file)
    if column.kind == schema.TEXT:
        return clean(value) if isinstance(value, str) else None
    whole = _integer(value)
    return None if whole is None else _clamped(whole, 2**31 if column.kind == schema.INT32 else 2**63)
