"""Offsets that follow on: what a compacted block leaves out of a line, and puts back (docs/trace-format.md).

    ..."fhash":"F","offset":4096,"size":4096...    ..."fhash":"F","offset":4096,"size":4096...
    ..."fhash":"F","offset":8192,"size":4096... -> ..."fhash":"F","follows":1,"size":4096...

Invariant: `with_offsets(without_offsets(text)) == text` for every text in which no line has `follows`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

VERSION = 2
"""The first version of the format in which a line may leave out an offset."""
_FOLLOWS = b'"follows":1'
_ACCESS = re.compile(
    rb'"fhash":"([^"]*)"(?:,"fhash2":"[^"]*")?,("offset":(-?[0-9]{1,18})|"follows":1)'
    rb'(?:,"count":(?:[0-9]+|null))?,"size":([0-9]{1,18})[,}]'
)
"""As the core writes an access. Where a quote is inside of a value, a backslash precedes it."""
_FILE = re.compile(rb'"value":"([^"]*)"')


def without_offsets(text: bytes) -> bytes:
    """The lines of a block, without the offsets that follow on."""

    def leave_out(written: re.Match[bytes], end: int | None) -> tuple[bytes | None, int | None]:
        if written[3] is None:
            return None, end
        offset = int(written[3])
        return _FOLLOWS if offset == end else None, offset

    return _rewritten(text, leave_out)


def with_offsets(text: bytes) -> bytes:
    """The lines of a block, each with its offset."""

    def put_back(written: re.Match[bytes], end: int | None) -> tuple[bytes | None, int | None]:
        if written[3] is not None:
            return None, int(written[3])
        return None if end is None else b'"offset":%d' % end, end

    return _rewritten(text, put_back)


def _rewritten(text: bytes, change: Callable[[re.Match[bytes], int | None], tuple[bytes | None, int | None]]) -> bytes:
    """change(the match, where the last access of its file ended): what it puts there (None: nothing), and the access's
    offset (None: unknown)."""

    def lines() -> Iterator[bytes]:
        ends: dict[bytes, int] = {}
        for line in text.splitlines(keepends=True):  # of bytes: at \n and \r, which JSON escapes in a value
            found = _ACCESS.search(line)
            if found is None:
                if line.startswith(b'{"name":"FH"') and (named := _FILE.search(line)):
                    ends.pop(named[1], None)
                yield line
                continue
            put, offset = change(found, ends.get(found[1]))
            if offset is not None:
                ends[found[1]] = offset + int(found[4])
            yield line if put is None else line[: found.start(2)] + put + line[found.end(2) :]

    return b"".join(lines())
