"""Lines of totals divided among ranges of sizes, durations and time, which group_sums.cc does not do.

    line -> calls by powers of two, or bursts -> ranges of time -> groups as `_native.sum_files` gives them

A line of totals (docs/trace-format.md) tells its calls by powers of two of sizes and durations, so counts by these are
exact; sums are of the whole line, whose range is unknown (null). In time it is divided into its pieces, the bursts of
accesses, where these are of its function alone; within a piece it is spread evenly.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from tailrace.analyzer.store import schema
from tailrace.analyzer.store.group_keys import (
    COLUMN,
    HISTOGRAMS,
    MOST_RANGES,
    POWERS,
    WIDTHS,
    Key,
    histogram_of,
    time_of,
)

if TYPE_CHECKING:
    from tailrace.analyzer.store.loader import ColumnTotals, Group, Row, Values

SINGLE = ("lines", [(0, 1)], False)
SEVERAL = ("lines", [(2, 2**63 - 1)], False)
"""Conditions for the lines that are not divided, and for those that are."""
_DAMAGED = (ValueError, TypeError, LookupError)
_NO_SUMS = dict.fromkeys(schema.EACH - {"ts"})
_ONCE = ((0, 0.0, 1.0),)
_Line = dict[str, Any]
"""A line by its columns."""


class _Part(NamedTuple):
    """Calls of a line: how many, whether the line counts here, and the power of two that they are in."""

    line: _Line
    calls: int
    counts: bool
    power: int | None = None


def groups_of(
    lines: Iterable[Row], names: Sequence[str], keys: Sequence[Key], values: Sequence[str], gathered: Sequence[str]
) -> list[Group]:
    """Lines of totals as groups, one a range that a line is in. names: the columns of a line, those of the keys,
    `values`, `gathered` and `lines` among them."""
    histogram, time = histogram_of(keys), time_of(keys)
    slot = keys.index(time) if time is not None else 0
    found: list[Group] = []
    for row in lines:
        for part in _by_histogram(dict(zip(names, row, strict=True)), histogram):
            own = [part.power if key is histogram else _range(part.line, key) for key in keys]
            for piece in _by_pieces(part) if time is not None else (part,):
                for at, before, after in _times(piece.line, time) if time is not None else _ONCE:
                    place = tuple(own) if time is None else (*own[:slot], at, *own[slot + 1 :])
                    begins = before == 0.0  # all but sums counts where calls begin
                    columns = [_totals(piece.line[name], piece.calls, before, after) for name in values]
                    listed = [_listed(piece.line[name] if begins else None) for name in gathered]
                    found.append((place, piece.calls if begins else 0, int(piece.counts and begins), columns, listed))
    return found


def _totals(value: int | None, calls: int, before: float, after: float) -> ColumnTotals:
    """What a part of calls has of a column from `before` to `after` of its time, 0 to 1."""
    if value is None:
        return 0, 0, 0, None, None
    # Of the sums up to here, so that the parts of a call add up to it; a float is exact at both ends.
    here = (value if after == 1.0 else int(value * after)) - int(value * before)
    return (here, value, calls, value, value) if before == 0.0 else (here, 0, 0, None, None)


def _listed(value: str | int | None) -> Values:
    if isinstance(value, int):
        return array("q", [value]).tobytes(), array("q", [1]).tobytes()
    return [] if value is None else [value]


def _range(line: _Line, key: Key) -> Any:
    """The least value of the range that a line is in; null of what it has only sums of."""
    value = line[key.column]
    if key.kind == COLUMN:
        return value
    if value is None or key.column in schema.EACH or (key.kind == POWERS and value < 0):
        return None
    return value // key.width * key.width if key.kind == WIDTHS else 1 << value.bit_length() - 1 if value else 0


def _by_histogram(line: _Line, key: Key | None) -> list[_Part]:
    """A line as its sums without a key, and its calls by power of two without sums."""
    if key is None:
        return [_Part(line, line["lines"], True)]
    nothing = line | _NO_SUMS
    found = [_Part(line, 0, True)]
    with suppress(*_DAMAGED):
        numbers = json.loads(line[HISTOGRAMS[key.column]] or "[]")
        for digits, calls in zip(numbers[::2], numbers[1::2], strict=True):
            found.append(_Part(nothing, int(calls), False, 1 << min(int(digits), 63) - 1 if digits > 0 else 0))
    return found


def _by_pieces(part: _Part) -> list[_Part]:
    """A line as its pieces, where they are of its calls alone."""
    line, found = part.line, list[_Part]()
    with suppress(*_DAMAGED):
        pieces = json.loads(line["pieces"] or "[]")[1:]  # behind the unit of their ranges
        end = line["ts"]
        for gap, span, calls, moved, busy in (map(int, piece[:5]) for piece in pieces):
            if not all(0 <= number < 1 << 63 for number in (gap, span, calls, moved, busy)):
                break
            of = {"ts": end + gap, "span": span, "calls": calls, "size": moved, "dur": busy}
            if found and "count" in line:  # what each piece asked for is not known, only their sum
                of["count"] = 0
            found.append(_Part(line | of, calls, not found))
            end += gap + span
    # A line of single-character calls has more calls than lines; the pieces count the calls.
    is_whole = part.calls == line["calls"] == sum(one.calls for one in found)
    return found if is_whole and line["size"] == sum(one.line["size"] for one in found) else [part]


def _times(line: _Line, key: Key) -> Iterator[tuple[int, float, float]]:
    """The ranges of time that a line covers, and from which to which part of its time."""
    begin = line["ts"] - key.origin
    took = max(line["dur"] or 0 if line["span"] is None else line["span"], 0)
    first = begin // key.width
    last = min(max((begin + took - 1) // key.width, first), first + MOST_RANGES)  # more are of a damaged line
    for at in range(first, last + 1):
        before = 0.0 if at == first else (at * key.width - begin) / took
        yield at, before, 1.0 if at == last else ((at + 1) * key.width - begin) / took
