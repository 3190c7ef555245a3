"""The trace format in plain Python: slow, short, and the oracle that the native reader is compared with.

Invariants: `scan_blocks` and `read_blocks` give what their namesakes in tailrace._native give, for every file
that keeps docs/trace-format.md and for every damaged one that the tests think of; nothing here is shared with the C++
code.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from tailrace.analyzer.store import schema
from tailrace.analyzer.store.mounts import Mount
from tailrace.errors import TraceError

FORMAT_VERSION = 2
Place = tuple[int, int]
"""Offset and bytes of a member."""

_TRAILER_BYTES = 8
_MOST_RAW_BYTES = 16 << 20
_LIMITS = {schema.INT32: 2**31, schema.INT64: 2**63}
_WHOLE = re.compile(r"-?[0-9]+")
_TIME = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?")


class _Fault(Exception):
    """What is wrong, without the place."""


@dataclass(frozen=True)
class _Number:
    """A number as it is spelled, since its spelling is what the format defines."""

    text: str


# ---- frames ----


def scan_blocks(path: str, start_offset: int = 0, most: int = 0) -> tuple[list[tuple[int, int, bytes]], int, str, str]:
    """Find the blocks of a file, at most `most` unless 0: (offset, member bytes, header JSON) each; torn bytes; cause
    and problem, or ""."""
    data = _contents(path)
    blocks: list[tuple[int, int, bytes]] = []
    at, cause, problem = start_offset, "", ""
    while at < len(data) and not cause and not (most and len(blocks) == most):
        header = _frame(data, at)
        if header is None:
            if at == 0 and not _short(data) and not _is_ours(data, at):
                cause, problem = "foreign", "not a file of tailrace"
                break
            at = _next_frame(data, at + 1)
            continue
        version = header.get("v")
        if isinstance(version, int) and version > FORMAT_VERSION:
            cause, problem = "version", f"the block has format version {version}"
            break
        length = _member_bytes(data, at, header)
        if length is None:
            at = _next_frame(data, at + 1)
            continue
        if _is_possible(header):
            blocks.append((at, length, _payload(data, at)))
        else:
            problem = problem or "the header's counts contradict each other"
        at += length
    reached = at if most and len(blocks) == most else len(data)
    torn = max(0, reached - start_offset) - sum(length for _, length, _ in blocks)
    return blocks, torn, cause, problem


def gaps(paths: Iterable[str]) -> list[tuple[Any, ...]]:
    """(host, pid, start, seg, the numbers of its blocks) of each segment of which the files lack a block that was
    written before another one."""
    numbers: dict[tuple[Any, ...], set[int]] = {}
    for path in paths:
        for _, _, text in scan_blocks(path)[0]:
            header = json.loads(text.decode("utf-8", "replace"), strict=False)
            segment = tuple(header[key] for key in ("host", "pid", "start", "seg"))
            numbers.setdefault(segment, set()).add(header["block"])
    return [(*key, *sorted(found)) for key, found in numbers.items() if found != set(range(len(found)))]


def _contents(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise TraceError(f"{path}: can't be opened: {error.strerror}") from error


def _short(data: bytes) -> bool:
    return len(data) < 16 and b"\x1f\x8b\x08".startswith(data[:3])


def _payload(data: bytes, at: int) -> bytes:
    (length,) = struct.unpack_from("<H", data, at + 14)
    return data[at + 16 : at + 16 + length]


def _frame(data: bytes, at: int) -> dict[str, Any] | None:
    """The header of the block that starts at `at`, or None when none does."""
    if not _is_ours(data, at) or len(data) < at + 12 + struct.unpack_from("<H", data, at + 10)[0]:
        return None
    checked = re.fullmatch(rb'(.*),"crc":"(.{8})"}', _payload(data, at), re.DOTALL)
    if checked and checked[2] != b"%08x" % zlib.crc32(checked[1]):
        return None
    try:
        header = json.loads(_payload(data, at).decode("utf-8", "replace"), strict=False)
    except ValueError:
        return None
    return header if isinstance(header, dict) else None


def _is_ours(data: bytes, at: int) -> bool:
    if len(data) < at + 16 or data[at : at + 4] != b"\x1f\x8b\x08\x04" or data[at + 12 : at + 14] != b"TR":
        return False
    extra, length = struct.unpack_from("<H", data, at + 10)[0], struct.unpack_from("<H", data, at + 14)[0]
    return bool(extra == length + 4)


def _next_frame(data: bytes, at: int) -> int:
    while (at := data.find(b"\x1f\x8b\x08\x04", at)) >= 0:
        if data[at + 12 : at + 14] == b"TR" and data[at + 16 : at + 17] == b"{":
            return at
        at += 1
    return len(data)


def _member_bytes(data: bytes, at: int, header: dict[str, Any]) -> int | None:
    """The length of a block, or None when it does not reach its end."""
    counts = [header.get(key) for key in ("v", "comp", "raw", "lines", "events")]
    if not all(isinstance(count, int) and count >= 0 for count in counts):
        return None
    (extra,) = struct.unpack_from("<H", data, at + 10)
    length: int = 12 + extra + header["comp"] + _TRAILER_BYTES
    if at + length > len(data):
        return None
    (size,) = struct.unpack_from("<I", data, at + length - 4)
    return length if size == header["raw"] & 0xFFFFFFFF else None


def _is_possible(header: dict[str, Any]) -> bool:
    comp, raw, lines, events = (header[key] for key in ("comp", "raw", "lines", "events"))
    return bool(raw <= _MOST_RAW_BYTES and raw <= (comp + 1) * 1032 and events <= lines and events * 16 <= raw)


def inflate(path: str, place: Place) -> tuple[dict[str, Any], bytes]:
    """The header and the JSON lines of one block. Raises TraceError when it is damaged."""
    offset, length = place
    data = _contents(path)
    header = _frame(data, offset)
    if header is None or _member_bytes(data, offset, header) != length:
        raise TraceError(f"{path}: block at byte {offset}: there is no block of tailrace of {length} bytes")
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    start = offset + length - _TRAILER_BYTES - header["comp"]
    try:
        raw = stream.decompress(data[start : start + header["comp"]])
    except zlib.error as error:
        raise TraceError(f"{path}: block at byte {offset}: {error}") from error
    if not stream.eof or stream.unused_data or len(raw) != header["raw"]:
        raise TraceError(f"{path}: block at byte {offset}: its deflate stream is not of the promised length")
    if zlib.crc32(raw) != struct.unpack_from("<I", data, offset + length - _TRAILER_BYTES)[0]:
        raise TraceError(f"{path}: block at byte {offset}: its bytes do not match their checksum")
    return header, raw


# ---- lines ----


def complete(line: dict[str, Any]) -> dict[str, Any]:
    """The args of an event line of version 2, with what it leaves out as told by other fields; no nulls."""
    args = line["args"] if isinstance(line.get("args"), dict) else {}
    told: dict[str, Any] = {}
    if _is_whole(args.get("errno")):
        told["ret"] = _Number("-1") if isinstance(args["errno"], _Number) else -1
    if _is_whole(args.get("size")):
        if not _is_whole(args.get("calls")):
            told = {"count": args["size"], "ret": args["size"], **told}
        name = str(line.get("name"))
        told["dir"] = "w" if "write" in name else "r" if "read" in name else None
    return {key: value for key, value in {**told, **args}.items() if value is not None}


def _is_whole(value: Any) -> bool:
    if isinstance(value, _Number):
        return _WHOLE.fullmatch(value.text) is not None
    return isinstance(value, int) and not isinstance(value, bool)


@dataclass
class _Block:
    """What the lines of a block are read against."""

    version: int
    host: str
    start: str
    mounts: Sequence[Mount]
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)
    stacks: dict[str, str] = field(default_factory=dict)

    def name(self, kind: str, args: dict[str, Any]) -> None:
        if not isinstance(args.get("name"), str) or not isinstance(args.get("value"), str):
            raise _Fault(f"{kind} lacks its name or value")
        if kind == "FH":
            self.files[args["value"]] = args
        elif kind == "ST":
            self.stacks[args["value"]] = args["name"]
        else:
            self.hosts[args["value"]] = args["name"]

    def stack(self, value: Any) -> str | None:
        if value is not None and not isinstance(value, str):
            raise _Fault("a string is expected")
        return self.stacks.get(value) if value is not None else None

    def file(self, args: dict[str, Any], key: str) -> dict[str, Any] | None:
        value = args.get(key)
        if value is not None and not isinstance(value, str):
            raise _Fault("a string is expected")
        return self.files.get(value) if value is not None else None

    def identity(self, file: dict[str, Any] | None) -> str | None:
        if file is None or file.get("type") in ("none", "anon"):
            return None
        dev, ino, btime = file.get("dev"), file.get("ino"), file.get("btime")
        kind = file.get("type")
        if not (isinstance(kind, str) and kind) and dev is None:
            return f"path:{file['name']}"
        if not isinstance(dev, str) or not isinstance(ino, _Number):
            return None
        born = btime.text if isinstance(btime, _Number) else ""
        file_system = _file_system(self.mounts, self.host, dev, file["name"])
        if file_system:
            return f"{file_system}::{ino.text}:{born}"
        machine = next((row[3] for row in self.mounts if row[:2] == (self.host, "")), self.host)
        return f"{machine}:{dev}:{ino.text}:{born}"


def _file_system(mounts: Sequence[Mount], host: str, dev: str, path: str) -> str:
    rows = sorted((row for row in mounts if row[1]), key=lambda row: -len(row[2].encode()))
    if any(row[0] == host for row in rows):
        return next((row[3] for row in rows if row[:2] == (host, dev)), "")
    if not dev.startswith("0:"):
        return ""
    under = (row[3] for row in rows if row[2] == "/" or path == row[2] or path.startswith(row[2] + "/"))
    return next(under, "")


def _clean(value: Any) -> Any:
    """`value` without the lone surrogates that JSON's escapes can make."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    return value


def _parse(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line.decode("utf-8", "replace"), strict=False, parse_int=_Number, parse_float=_Number)
    except (ValueError, RecursionError) as error:
        raise _Fault(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise _Fault("a line must be an object")
    cleaned: dict[str, Any] = _clean(value)
    return cleaned


def _whole(value: Any) -> int:
    if not isinstance(value, _Number) or not _WHOLE.fullmatch(value.text):
        raise _Fault("a whole number is expected")
    return int(value.text)


def _time_ns(value: Any) -> int:
    found = _TIME.fullmatch(value.text) if isinstance(value, _Number) else None
    if found is None:
        raise _Fault("a time is expected")
    sign, us, rest = found.groups()
    ns = int(us) * 1000 + int((rest or "").ljust(3, "0")[:3])
    return -ns if sign else ns


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    _whole(value)
    return str(value.text)


def _list(value: Any) -> str | None:
    """A list of whole numbers and such lists, without blanks."""

    def spelled(item: Any) -> str:
        if isinstance(item, list):
            return f"[{','.join(map(spelled, item))}]"
        _whole(item)
        return str(item.text)

    if value is not None and not isinstance(value, list):
        raise _Fault("a list is expected")
    return None if value is None else spelled(value)


def _clamped(value: int, limit: int = 2**63) -> int:
    """`value`, clamped to the range of its column."""
    return min(max(value, -limit), limit - 1)


def _block_bytes(file: dict[str, Any]) -> int | None:
    known = _clamped(_whole(file["blksize"])) if isinstance(file.get("blksize"), _Number) else 0
    return known if known > 0 else None


def _default(value: Any, default: Any) -> Any:
    return default if value is None else value


LISTS = ("sizes", "durs", "pieces", "dims", "chunk", "slab")
_DERIVED: dict[str, Callable[[dict[str, Any], dict[str, Any], _Block], Any]] = {
    "ts": lambda line, args, block: _clamped(_time_ns(line["ts"]))
    + _clamped(_whole(_default(args.get("ns"), _Number("0")))),
    "dur": lambda line, args, block: _time_ns(line["dur"]) if line.get("dur") is not None else 0,
    "host": lambda line, args, block: block.hosts.get(args.get("hhash", ""), block.host),
    "start": lambda line, args, block: block.start,
    "path": lambda line, args, block: (block.file(args, "fhash") or {}).get("name", args.get("path")),
    "file": lambda line, args, block: block.identity(block.file(args, "fhash")),
    "ftype": lambda line, args, block: (block.file(args, "fhash") or {}).get("type"),
    "blksize": lambda line, args, block: _block_bytes(block.file(args, "fhash") or {}),
    "path2": lambda line, args, block: (block.file(args, "fhash2") or {}).get("name"),
    "file2": lambda line, args, block: block.identity(block.file(args, "fhash2")),
    "stack": lambda line, args, block: block.stack(args.get("stack")),
    "calls": lambda line, args, block: _whole(args["calls"]) if args.get("calls") is not None else 1,
    "lines": lambda line, args, block: _whole(args["lines"]) if args.get("lines") is not None else 1,
    **{name: lambda line, args, block, name=name: _list(args.get(name)) for name in LISTS},
}
_TOP = frozenset({"name", "cat", "pid", "tid"})


def _value(column: schema.Column, line: dict[str, Any], block: _Block) -> Any:
    args = line["args"] if isinstance(line.get("args"), dict) else {}
    if column.name in ("ret", "count", "dir") and block.version >= 2:
        args = complete(line)
    if column.name in _DERIVED:
        value = _DERIVED[column.name](line, args, block)
    else:
        value = (line if column.name in _TOP else args).get(column.name)
        if column.kind == schema.TEXT:
            value = _text(value)
        elif value is not None:
            value = _whole(value)
    if value is None or column.kind == schema.TEXT:
        return value
    return _clamped(value, _LIMITS[column.kind])


def read_blocks(
    path: str, blocks: Iterable[Place], columns: Sequence[str] | None = None, mounts: Sequence[Mount] = ()
) -> pa.RecordBatch:
    """Read blocks of one file into a batch of `schema.arrow_schema(columns)`; None takes all columns and tags.

    Raises TraceError, with the file and the offset, when a block is damaged or contradicts its header.
    """
    events: list[tuple[dict[str, Any], _Block]] = []
    rows: list[dict[str, Any]] = []
    specs = [schema.column(name) for name in columns] if columns is not None else list(schema.COLUMNS)
    for place in blocks:
        header, raw = inflate(path, place)
        try:
            events = list(_events(header, raw, mounts))
            if columns is None:
                specs = _with_tags(specs, events)
            rows.extend({spec.name: _value(spec, line, block) for spec in specs} for line, block in events)
        except _Fault as fault:
            raise TraceError(f"{path}: block at byte {place[0]}: {fault}") from fault
    arrays = [pa.array([row.get(s.name) for row in rows], _plain_type(s)).cast(s.arrow) for s in specs]
    return pa.record_batch(arrays, schema=schema.arrow_schema(spec.name for spec in specs))


def _plain_type(column: schema.Column) -> pa.DataType:
    return pa.string() if column.kind == schema.TEXT else column.arrow


def _with_tags(specs: list[schema.Column], events: list[tuple[dict[str, Any], _Block]]) -> list[schema.Column]:
    known = {spec.name for spec in specs[len(schema.COLUMNS) :]}
    for line, _ in events:
        args = line.get("args")
        known.update(key for key in (args if isinstance(args, dict) else ()) if key[:4] == "tag." and len(key) > 4)
    return [*schema.COLUMNS, *(schema.column(name) for name in sorted(known, key=str.encode))]


def _follow(args: dict[str, Any], block: _Block, ends: dict[str, int]) -> None:
    """Puts the offset into a line that says that it follows on from the one before on its file."""
    fhash = args.get("fhash")
    if not isinstance(fhash, str) or fhash not in block.files or not _is_whole(args.get("size")):
        return
    if _is_whole(args.get("follows")) and "offset" not in args and fhash in ends:
        args["offset"] = _Number(str(ends[fhash]))
    if _is_whole(args.get("offset")):
        ends[fhash] = _clamped(_clamped(int(args["offset"].text)) + _clamped(int(args["size"].text)))


def _events(header: dict[str, Any], raw: bytes, mounts: Sequence[Mount]) -> Iterable[tuple[dict[str, Any], _Block]]:
    """The event lines of a block, each with the names as they are known when it comes."""
    block = _Block(header["v"], str(header.get("host", "")), str(header.get("start", "")), mounts)
    lines = raw.removesuffix(b"\n").split(b"\n") if raw else []
    count = 0
    ends: dict[str, int] = {}
    for number, text in enumerate(lines, 1):
        line = _parse(text)
        if line.get("ph") == "M" and line.get("name") in ("FH", "HH", "ST") and isinstance(line.get("args"), dict):
            names = (dict(block.files), dict(block.hosts), dict(block.stacks))
            block = _Block(block.version, block.host, block.start, mounts, *names)
            block.name(line["name"], line["args"])
            if line["name"] != "ST":
                ends.pop(line["args"]["value"], None)
        if line.get("ph") != "X":
            continue
        if block.version >= 2 and isinstance(line.get("args"), dict):
            _follow(line["args"], block, ends)
        if any(line.get(key) is None for key in ("name", "cat", "ts", "pid", "tid")):
            raise _Fault(f"line {number}: an event lacks one of name, cat, ts, pid, tid")
        count += 1
        yield line, block
    for what, found in (("lines", len(lines)), ("events", count)):
        if header[what] != found:
            raise _Fault(f"the header promises {header[what]} {what}, the block has {found}")
