"""Offsets that follow on: what a compacted block leaves out of a line, and puts back (docs/trace-format.md).

    ..."fhash":"F","offset":4096,"size":4096...    ..."fhash":"F","offset":4096,"size":4096...
    ..."fhash":"F","offset":8192,"size":4096... -> ..."fhash":"F","follows":1,"size":4096...

Invariant: `with_offsets(without_offsets(text)) == text` for every text in which no line has `follows`.

Of the 11 bytes of a read's line 4 are its offset, and no deflate stream avoids them (libdeflate's best level and zopfli
end at 10.6). The sealer's own lines keep it, so that a line of a fresh trace can be read by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

VERSION = 2
"""The first version of the format in which a line may leave out an offset."""
_FOLLOWS = b'"follows":1'
_OFFSET = re.compile(rb'[{,]("offset":(-?[0-9]{1,18})|"follows":1)[,}]')
_HASH = re.compile(rb'"fhash":"([^"]*)"')
_SIZE = re.compile(rb'"size":([0-9]{1,18})[,}]')
"""As the core writes them. Inside of a value a backslash precedes each quote."""
_FILE = re.compile(rb'"value":"([^"]*)"')


def without_offsets(text: bytes) -> bytes:
    """The lines of a block, without the offsets that follow on."""

    def leave_out(offset: int | None, end: int | None) -> tuple[bytes | None, int | None]:
        if offset is None:
            return None, end
        return _FOLLOWS if offset == end else None, offset

    return _rewritten(text, leave_out)


def with_offsets(text: bytes) -> bytes:
    """The lines of a block, each with its offset."""

    def put_back(offset: int | None, end: int | None) -> tuple[bytes | None, int | None]:
        if offset is not None:
            return None, offset
        return None if end is None else b'"offset":%d' % end, end

    return _rewritten(text, put_back)


_Change = Callable[[int | None, int | None], tuple[bytes | None, int | None]]
"""The offset on the line (None: `follows`), and where the last access of its file ended -> what is put there (None:
nothing), and the access's offset (None: unknown)."""


def _rewritten(text: bytes, change: _Change) -> bytes:
    def lines() -> Iterator[bytes]:
        ends: dict[bytes, int] = {}
        for line in text.splitlines(keepends=True):  # of bytes: at \n and \r, which JSON escapes in a value
            written = _OFFSET.search(line)
            file, size = (_HASH.search(line), _SIZE.search(line)) if written else (None, None)
            if written is None or file is None or size is None:
                if line.startswith(b'{"name":"FH"') and (named := _FILE.search(line)):
                    ends.pop(named[1], None)
                yield line
                continue
            put, offset = change(None if written[2] is None else int(written[2]), ends.get(file[1]))
            if offset is not None:
                ends[file[1]] = offset + int(size[1])
            yield line if put is None else line[: written.start(1)] + put + line[written.end(1) :]

    return b"".join(lines())
