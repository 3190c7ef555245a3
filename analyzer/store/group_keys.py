"""What totals are grouped by: columns, ranges of a column's values, ranges of time.

    parse("size:log2") -> Key -> widened(frame) -> frame with the key as a column -> query.py groups by it

A key is a column of the frame that `widened` makes: a column of events; the number of the power of two, or of the
width, that a value is in; the number of the time range. Time ranges share a call that covers several of them: sums are
divided by the time in each, in whole units that add up to the call's; all else counts where the call begins.

A line of totals (docs/trace-format.md) tells its calls by powers of two of sizes and durations, so counts by these are
exact; sums are of the whole line, whose range is unknown (null). In time it is divided into its pieces, the bursts of
accesses, where these are of its function alone; within a piece it is spread evenly.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.analyzer.store import schema
from tailrace.analyzer.util import nearest, quantities
from tailrace.analyzer.util.lazy import lazy
from tailrace.analyzer.util.types import Ints
from tailrace.errors import QueryError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from pandas.api.extensions import ExtensionArray

    from tailrace.analyzer.store.loader import CountedSource
else:
    np = lazy("numpy")
    pd = lazy("pandas")

TIME = "time"
LOG2 = "log2"
COLUMN, POWERS, WIDTHS, TIMES = "column", "powers", "widths", "times"
MOST_RANGES = 1_000_000
"""Of time in one table."""
_ROWS_AT_ONCE = 2_000_000
"""Rows that shared calls become at a time: what bounds memory."""
FIRST = "_first"
"""The column of `widened` that is False in the parts of a call beyond its first."""
SHARED = "shared:"
"""In front of the name of a column: its values divided among the parts of a call."""
_HISTOGRAMS = {"size": "sizes", "dur": "durs"}


@dataclass(frozen=True)
class Key:
    """One thing to group by.

    Attributes:
        label: its name in the result.
        kind: COLUMN; POWERS: powers of two of `column`; WIDTHS: ranges of `width` of it; TIMES: of time since `origin`.
        column: the column of events.
        width: of a range, in the column's unit.
        origin: where time begins, ns since the epoch.
    """

    label: str
    kind: str
    column: str
    width: int = 0
    origin: int = 0

    @property
    def slot(self) -> str:
        """The column of `widened` that has the key."""
        return self.label if self.kind == COLUMN else f"{self.kind}:{self.label}"

    @property
    def is_text(self) -> bool:
        """Whether the key in the result is text."""
        return self.kind == COLUMN and schema.column(self.column).kind == schema.TEXT

    @property
    def unit(self) -> str:
        """The unit of the key in the result."""
        return "s" if self.kind == TIMES else schema.column(self.column).unit

    @property
    def of_each(self) -> bool:
        """Whether the key is of each call, which a line of totals has not."""
        return self.kind == TIMES or (self.kind != COLUMN and self.column in schema.EACH)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of events that it needs."""
        if self.kind == TIMES:
            return ("ts", "dur", "span", "size", "calls", "pieces")
        histogram = _HISTOGRAMS.get(self.column) if self.kind == POWERS else None
        return (self.column, histogram) if histogram else (self.column,)


def parse(text: str, origin: int | None = None, end: int | None = None) -> Key:
    """COLUMN, COLUMN:log2, COLUMN:WIDTH or time:WIDTH, with units, as in `size:4KiB`, `time:100ms`.

    Args:
        text: as typed.
        origin: the run's first time, ns since the epoch; None where it has no event.
        end: its last time.

    Raises:
        QueryError: there is no such column, or it has no such ranges.
    """
    name, colon, how = text.partition(":")
    if not colon or name.startswith(schema.TAG_PREFIX):
        if text == TIME:
            raise QueryError("time is grouped by a width, as in time:1s or time:100ms")
        return Key(text, COLUMN, schema.column(text).name)
    if name == TIME:
        width = _width(text, how, "ns")
        ranges = ((end or 0) - (origin or 0)) // width + 1 if origin is not None else 1
        if ranges > MOST_RANGES:
            raise QueryError(f"{text!r} divides the run into {ranges:,} ranges; the most are {MOST_RANGES:,}")
        return Key(TIME, TIMES, "ts", width, origin or 0)
    spec = schema.column(name)
    if spec.kind == schema.TEXT:
        raise QueryError(f"column {name} is text{nearest.hint(name, [TIME])}, so it has no ranges: group by {name}")
    if how == LOG2:
        return Key(name, POWERS, name)
    return Key(name, WIDTHS, name, _width(text, how, spec.unit))


def keys_of(run: CountedSource, by: Sequence[str]) -> list[Key]:
    """What `by` names. Raises QueryError."""
    keys = [parse(text, run.t0_ns, run.t1_ns) if ":" in text else parse(text) for text in by]
    called: dict[str, Key] = {}
    for key in keys:
        if called.setdefault(key.label, key) != key:
            raise QueryError(f"groups by {key.label} in two ways would have one name: give one of them")
    return keys


def _width(text: str, how: str, unit: str) -> int:
    width = quantities.whole(how, unit)
    if width <= 0:
        raise QueryError(f"{text!r}: a range is larger than 0")
    return width


def widened(frame: pd.DataFrame, keys: Sequence[Key], shared: Sequence[str]) -> Iterator[pd.DataFrame]:
    """The rows with each key as a column.

    Args:
        frame: events with the columns of the keys and `lines`.
        keys: what to group by.
        shared: the columns that are summed, which time ranges share.

    Yields:
        Frames with the columns of `frame` and `Key.slot` of each key; where a call may be in several rows, with FIRST
        and with SHARED columns.
    """
    ranged = [key for key in keys if key.kind in (POWERS, WIDTHS)]
    told = [key for key in ranged if key.kind == POWERS and key.column in _HISTOGRAMS]
    frame = frame.assign(**{key.slot: _ranges(frame, key) for key in ranged})
    if len(told) == 1:  # of two the histograms are known, but not which calls are in both
        frame = _by_histogram(frame, told[0])
    time = next((key for key in keys if key.kind == TIMES), None)
    if time is None:
        yield frame
    else:
        yield from _over_time(frame, time, shared)


def _ranges(frame: pd.DataFrame, key: Key) -> ExtensionArray:
    """The least value of the range that each row's value is in; null where it has none, as of totals."""
    column = frame[key.column]
    values = column.fillna(0).to_numpy(dtype=np.int64)
    absent = column.isna().to_numpy()
    if key.column in schema.EACH:
        absent = absent | (frame["lines"].to_numpy() > 1)
    if key.kind == WIDTHS:
        return pd.arrays.IntegerArray(values // key.width * key.width, absent)
    return pd.arrays.IntegerArray(_power_below(np.maximum(values, 0)), absent | (values < 0))


def _power_below(values: Ints) -> Ints:
    """The largest power of two that is not above each value; of 0 it is 0."""
    power = np.left_shift(1, np.log2(np.maximum(values, 1)).astype(np.int64).clip(0, 62))
    power = np.where(power > values, power >> 1, power)  # log2 of a float has 53 bits
    return np.where(values > 0, power, 0)


def _by_histogram(frame: pd.DataFrame, key: Key) -> pd.DataFrame:
    """Each row of totals as a row a power of two, which counts its calls, and one with its sums and no key."""
    is_totals = frame["lines"].to_numpy() > 1
    if not is_totals.any():
        return frame
    totals = frame[is_totals]
    histograms = [_pairs(text) for text in totals[_HISTOGRAMS[key.column]]]
    counted = totals.iloc[np.repeat(np.arange(len(totals)), [len(pairs) for pairs in histograms])]
    pairs = np.array([pair for pairs in histograms for pair in pairs], dtype=np.int64).reshape(-1, 2)
    digits, calls = pairs.T
    least = np.where(digits > 0, np.left_shift(1, np.maximum(digits - 1, 0)), 0)
    nothing = pd.array([None] * len(counted), dtype="Int64")
    sums = {name: nothing for name in schema.EACH & set(frame.columns) - {"ts"}}
    counted = counted.assign(**{**sums, key.slot: pd.array(least, dtype="Int64"), "lines": calls})
    return pd.concat([frame[~is_totals], counted, totals.assign(lines=0)], ignore_index=True)


def _pairs(text: object) -> list[tuple[int, int]]:
    """(binary digits, calls) of a histogram's text; none where there is none, or a damaged one."""
    try:
        numbers = json.loads(text) if isinstance(text, str) else []
        return [(min(int(digits), 63), int(calls)) for digits, calls in zip(numbers[::2], numbers[1::2], strict=True)]
    except (ValueError, TypeError):
        return []


def _by_pieces(frame: pd.DataFrame) -> pd.DataFrame:
    """Each row of totals as a row a piece, where the pieces are of its calls alone."""
    divided, parts = list[int](), list[tuple[int, ...]]()
    totals = np.flatnonzero(frame["lines"].to_numpy() > 1)
    size = frame["size"].fillna(-1).to_numpy(dtype=np.int64)
    ts, calls, lines = (frame[name].to_numpy() for name in ("ts", "calls", "lines"))
    for row in totals.tolist():
        pieces = _pieces(frame["pieces"].iloc[row])
        # A line of single-character calls has more calls than lines; the pieces count the calls.
        if calls[row] != lines[row] or sum(n for _, _, n, _, _ in pieces) != calls[row]:
            continue
        if sum(moved for *_, moved, _ in pieces) != size[row]:
            continue
        end = int(ts[row])
        for gap, span, count, moved, busy in pieces:
            divided.append(row)
            parts.append((end + gap, span, count, moved, busy))
            end += gap + span
    if not divided:
        return frame
    begin, span, count, moved, busy = np.array(parts, dtype=np.int64).T
    pieces_of = frame.iloc[divided].assign(ts=begin, lines=count, calls=count, dur=busy)
    pieces_of = pieces_of.assign(span=pd.array(span, dtype="Int64"), size=pd.array(moved, dtype="Int64"))
    if "count" in frame:  # what each piece asked for is not known, only their sum
        first = np.r_[True, np.diff(divided) != 0]
        pieces_of["count"] = pieces_of["count"].where(first, 0)
    whole = frame.drop(index=frame.index[sorted(set(divided))])
    return pd.concat([whole, pieces_of], ignore_index=True)


def _pieces(text: object) -> list[tuple[int, int, int, int, int]]:
    """(gap, span, calls, bytes, busy) of each piece of a line; none where there is none, or a damaged one."""
    try:
        # The first is the unit of their ranges.
        rows = json.loads(text)[1:] if isinstance(text, str) else []
        return [(int(p[0]), int(p[1]), int(p[2]), int(p[3]), int(p[4])) for p in rows]
    except (ValueError, TypeError, IndexError):
        return []


def _over_time(frame: pd.DataFrame, key: Key, shared: Sequence[str]) -> Iterator[pd.DataFrame]:
    frame = _by_pieces(frame)
    begin = frame["ts"].to_numpy() - key.origin
    took = np.maximum(frame["span"].fillna(frame["dur"]).fillna(0).to_numpy(dtype=np.int64), 0)
    first = begin // key.width
    ranges = np.maximum((begin + took - 1) // key.width - first, 0) + 1
    in_one = ranges == 1
    # Of nearly all calls: they need no parts.
    if in_one.any():
        one = frame if in_one.all() else frame[in_one]
        yield one.assign(**{key.slot: pd.array(first[in_one], dtype="Int64")})
        frame, begin, took, first, ranges = frame[~in_one], *(of[~in_one] for of in (begin, took, first, ranges))
    ends = np.cumsum(ranges)
    start = 0
    while start < len(frame):
        done = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + _ROWS_AT_ONCE, side="right")))
        of = np.repeat(np.arange(start, stop), ranges[start:stop])
        part = np.arange(len(of)) - np.repeat(ends[start:stop] - ranges[start:stop] - done, ranges[start:stop])
        at = first[of] + part
        piece = frame.iloc[of].reset_index(drop=True)
        piece[key.slot] = pd.array(at, dtype="Int64")
        piece[FIRST] = part == 0
        before = np.where(part == 0, 0.0, (at * key.width - begin[of]) / np.maximum(took[of], 1))
        after = np.where(part == ranges[of] - 1, 1.0, ((at + 1) * key.width - begin[of]) / np.maximum(took[of], 1))
        for name in shared:
            column = piece[name]
            values = column.fillna(0).to_numpy(dtype=np.int64)
            # Of the sums up to here, so that the parts of a call add up to it; a float is exact at both ends.
            up_to = np.where(after == 1.0, values, (values * after).astype(np.int64))
            parts = up_to - (values * before).astype(np.int64)
            piece[SHARED + name] = pd.arrays.IntegerArray(parts, column.isna().to_numpy())
        yield piece
        start = stop
