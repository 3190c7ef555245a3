"""Blocks of a compaction (compaction.py): which go together, the new one made of them, and its comparison with them.

    blocks of a file --units--> units --compressed--> new blocks; difference(new block, old blocks)

A unit becomes a block of the new files: blocks of one segment that follow each other, as long as one header can say of
all of them what theirs say; or it is a block that is kept as it is.

Invariants: the blocks of a process stay in their order, as far as a header's facts depend on it. A new block has the
lines of the old ones, in their order, without names that a line before has given already.

Blocks end at 4 MiB of text: 20,000 lines in one stream are 0.6 % smaller than 4,000, and a block is the least that a
query reads.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace import _native
from tailrace.analyzer.store import headers, offsets
from tailrace.analyzer.store.headers import Header
from tailrace.analyzer.util.lazy import lazy
from tailrace.analyzer.util.types import Document
from tailrace.errors import TraceError

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy("pyarrow")

_RAW_BYTES = 4 << 20
"""Of a merged block, about: 20,000 lines. Beyond that a stream gets no smaller."""
_MOST_HEADER_BYTES = 60 << 10
_COUNTS = ("raw", "lines", "events", "read", "written")
_MERGED = {
    *(
        "v",
        "comp",
        "crc",
        "t0",
        "t1",
        "host",
        "pid",
        "start",
        "run",
        "mono",
        "seg",
        "epoch",
        "slots",
        "block",
        "joined",
        "contexts",
        "ledger",
    ),
    *_COUNTS,
    *("totals", "uncounted", "lost", "sealing", "self_sealing", "stacks"),
}
"""Keys of headers that are merged."""
_LAST_ONLY = {"process", "exit", "reaped", "untraced"}
"""Keys that hold as of the block's time, so only the last block of a merged one may have them."""


@dataclass(frozen=True)
class Block:
    """A block of the originals. about: what is known of its header, `header` with all that is in it. until: the time
    that its process had reached in the file."""

    path: str
    about: Header
    header: Document
    until: int

    @property
    def place(self) -> tuple[int, int]:
        return self.about.offset, self.about.member_bytes

    @property
    def segment(self) -> tuple[object, ...]:
        """Equal for the blocks of a segment."""
        return (*process_of(self.about), self.header.get("seg"))

    @property
    def copied(self) -> tuple[object, ...]:
        """Equal for the copies of a block (docs/trace-format.md)."""
        about = self.about
        return (*process_of(about), about.sealed, about.member_bytes, about.t0, about.t1)


def process_of(about: Header) -> tuple[str, int, str]:
    """Equal for the blocks of a process."""
    return about.host, about.pid, about.start


@dataclass(frozen=True)
class Unit:
    """Blocks that become one. kept: it is one, and stays as it is."""

    blocks: tuple[Block, ...]
    kept: bool = False


@dataclass(frozen=True)
class Made:
    """A block of the new files. of: the originals. problem: why they are kept as they are."""

    member: bytes
    of: tuple[Block, ...]
    problem: str = ""


# ---- units ----


def units(blocks: Sequence[Block], copies: dict[tuple[object, ...], int]) -> list[Unit]:
    """The blocks of a file as units, each at the place of its last block."""
    units: list[list[Block]] = []
    open_units: dict[tuple[object, ...], list[Block]] = {}
    for block in blocks:
        unit = open_units.pop(block.segment, None)
        if unit is None or copies[block.copied] > 1 or not _go_together(unit, block):
            units.append([block])
        else:
            units.append([*unit, block])
            unit.clear()
        if copies[block.copied] == 1:
            open_units[block.segment] = units[-1]
    return [Unit(tuple(unit), copies[unit[0].copied] > 1) for unit in units if unit]


def _go_together(unit: Sequence[Block], block: Block) -> bool:
    last, header = unit[-1].header, block.header
    known = last.keys() <= _MERGED and header.keys() <= _MERGED | _LAST_ONLY
    same = all(last.get(key) == header.get(key) for key in ("v", "run", "contexts"))
    number = unit[-1].about.number
    follows = block.about.number == (None if number is None else number + block.about.joined)
    return known and same and follows and sum(one.about.raw for one in (*unit, block)) <= _RAW_BYTES


# ---- blocks ----


def _read(path: str, place: tuple[int, int]) -> bytes:
    with Path(path).open("rb") as file:
        return os.pread(file.fileno(), place[1], place[0])


def _lines_of(path: str, place: tuple[int, int]) -> bytes:
    """The lines of a block, each with its offset. Raises OSError, TraceError."""
    inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        text = inflater.decompress(_read(path, place))
    except zlib.error as error:
        raise TraceError(f"{path}: block at byte {place[0]}: {error}") from error
    if not inflater.eof or inflater.unused_data:
        raise TraceError(f"{path}: block at byte {place[0]}: its deflate stream is not of the promised length")
    return offsets.with_offsets(text)


_NAMES = (b'{"name":"FH",', b'{"name":"HH",', b'{"name":"ST",')


def _together(unit: Sequence[Block]) -> bytes:
    """The lines of the blocks, without names that are known already. Raises OSError, TraceError."""
    if len(unit) == 1:
        return _lines_of(unit[0].path, unit[0].place)
    known: dict[bytes, bytes] = {}
    lines: list[bytes] = []
    for block in unit:
        for line in _lines_of(block.path, block.place).splitlines(keepends=True):
            if line.startswith(_NAMES):
                key = line[:12] + line.partition(b'"value":"')[2].partition(b'"')[0]
                if known.get(key) == line:
                    continue
                known[key] = line
            lines.append(line)
    return b"".join(lines)


def compressed(unit: Unit, level: int, keep_offsets: bool) -> list[Made]:
    """The new block of a unit; the old ones where that is not smaller or can't be. Raises OSError."""
    problem = ""
    if not unit.kept:
        try:
            text = _together(unit.blocks)
            _rows([(block.path, [block.place]) for block in unit.blocks])  # a block that no reader takes is kept
            if not keep_offsets and unit.blocks[0].header["v"] == offsets.VERSION:
                text = offsets.without_offsets(text)
            member = _framed(_merged(unit.blocks), text, _deflated(text, level))
            if len(member) < sum(block.about.member_bytes for block in unit.blocks):
                return [Made(member, unit.blocks)]
        except (TraceError, UnicodeEncodeError) as error:
            problem = str(error)
    kept = [Made(_read(block.path, block.place), (block,)) for block in unit.blocks]
    return [replace(kept[0], problem=problem), *kept[1:]]


def _deflated(text: bytes, level: int) -> bytes:
    try:
        from deflate import deflate_compress
    except ImportError:
        deflater = zlib.compressobj(zlib.Z_BEST_COMPRESSION, zlib.DEFLATED, -zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL + 1)
        return deflater.compress(text) + deflater.flush()
    return bytes(deflate_compress(text, level))


def _merged(unit: Sequence[Block]) -> Document:
    """The header of blocks that become one, but for what depends on its text."""
    found = [block.about for block in unit]
    header = {key: value for block in unit for key, value in block.header.items() if key != "crc"}
    for key in ("events", "read", "written"):
        header[key] = sum(getattr(one, key) for one in found)
    for key in ("totals", "uncounted"):
        if key in header:
            header[key] = [sum(pair) for pair in zip(*(getattr(one, key) for one in found), strict=True)]
    if "block" in header and len(unit) > 1:
        header["joined"] = sum(one.joined for one in found)
    for key in ("sealing", "self_sealing"):
        if key in header:
            header[key] = sum(getattr(one, f"{key}_ns") for one in found)
    if "stacks" in header:
        header["stacks"] = sum(one.stacks for one in found)
    if "lost" in header:
        header["lost"] = dict(sum((Counter(one.lost) for one in found), Counter()))
    timed = [one for one in found if one.events] or found[-1:]
    return {**header, "t0": min(one.t0 for one in timed), "t1": max(one.t1 for one in timed)}


def _framed(header: Document, text: bytes, stream: bytes) -> bytes:
    """One gzip member (docs/trace-format.md, "Block header"). Raises TraceError when the header is too long."""
    figures = {"comp": len(stream), "raw": len(text), "lines": text.count(b"\n")}
    payload = json.dumps({**header, **figures}, ensure_ascii=False, separators=(",", ":")).encode()[:-1]
    payload += b',"crc":"%08x"}' % zlib.crc32(payload)
    if len(payload) > _MOST_HEADER_BYTES:
        raise TraceError("the header of the merged block would be too long")
    extra = b"TR" + struct.pack("<H", len(payload)) + payload
    start = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff" + struct.pack("<H", len(extra)) + extra
    return start + stream + struct.pack("<II", zlib.crc32(text), len(text))


# ---- verification ----


def difference(path: str, place: tuple[int, int], of: tuple[Block, ...]) -> str:
    """In what a block of the new files differs from its originals; "" where it doesn't. Raises OSError."""
    what = f"the new block of {of[0].path}, byte {of[0].about.offset}"
    if len(of) == 1 and _read(path, place) == _read(of[0].path, of[0].place):
        return ""
    try:
        if _lines_of(path, place) != _together(of):
            return f"{what} has other lines"
        if not _are_same(_rows([(path, [place])]), _rows([(block.path, [block.place]) for block in of])):
            return f"{what} has other events"
        size = struct.unpack_from("<H", _read(path, place), 14)[0]
        new = headers.parse(*place, _read(path, place)[16 : 16 + size])
    except TraceError as error:
        return f"{what} can't be read: {error}"
    for name in ("events", "read", "written"):
        if getattr(new, name) != sum(getattr(block.about, name) for block in of):
            return f"{what} has another sum of {name}"
    return ""


def _rows(parts: list[tuple[str, list[tuple[int, int]]]]) -> pa.RecordBatch:
    """All columns of the events, as the readers of a run get them. Raises TraceError."""
    return pa.record_batch(_native.read_files(parts))


def _are_same(one: pa.RecordBatch, other: pa.RecordBatch) -> bool:
    """Whether all values are equal, whatever the order in their dictionaries is."""

    def plain(column: pa.Array) -> pa.Array:
        return column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column

    columns = zip(one.columns, other.columns, strict=True)
    return one.schema.equals(other.schema) and all(
        first.equals(second) or plain(first).equals(plain(second)) for first, second in columns
    )
