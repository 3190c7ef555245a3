"""What totals are grouped by: columns, ranges of a column's values, ranges of time.

    parse("size:log2") -> Key -> _native.sum_files, totals_ranges.py, runstore/store_query.py group by it

A key is a column of events, the power of two or the width that a value is in, or a range of time. Time ranges share a
call that covers several of them: sums are divided by the time in each, in whole units that add up to the call's; all
else counts where the call begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tailrace.analyzer.store import schema
from tailrace.analyzer.util import nearest, quantities
from tailrace.errors import QueryError

TIME = "time"
LOG2 = "log2"
COLUMN, POWERS, WIDTHS, TIMES = "column", "powers", "widths", "times"
MOST_RANGES = 1_000_000
"""Of time in one table."""
HISTOGRAMS = {"size": "sizes", "dur": "durs"}


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
    def is_text(self) -> bool:
        """Whether the key in the result is text."""
        return self.kind == COLUMN and not schema.column(self.column).is_number

    @property
    def dtype(self) -> str:
        """The pandas dtype of the key in the result: text and days are objects."""
        if self.kind == COLUMN and schema.column(self.column).kind == schema.FLAG:
            return "boolean"
        return "Float64" if self.kind == TIMES else "object" if self.is_text else "Int64"

    @property
    def unit(self) -> str:
        """The unit of the key in the result."""
        return "s" if self.kind == TIMES else schema.column(self.column).unit

    @property
    def of_each(self) -> bool:
        """Whether the key is of each call, which a line of totals has not."""
        return self.kind == TIMES or self.ranges_each

    @property
    def ranges_each(self) -> bool:
        """Whether it has ranges of a value of each call."""
        return self.kind in (POWERS, WIDTHS) and self.column in schema.EACH

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of events that it needs."""
        if self.kind == TIMES:
            return ("ts", "dur", "span", "size", "calls", "pieces")
        histogram = HISTOGRAMS.get(self.column) if self.kind == POWERS else None
        return (self.column, histogram) if histogram else (self.column,)


def time_of(keys: Sequence[Key]) -> Key | None:
    """The key with ranges of time, if there is one."""
    return next((key for key in keys if key.kind == TIMES), None)


def histogram_of(keys: Sequence[Key]) -> Key | None:
    """The key with powers of two of which lines of totals tell their calls; None of two, since it isn't known which
    calls are in both."""
    told = [key for key in keys if key.kind == POWERS and key.column in HISTOGRAMS]
    return told[0] if len(told) == 1 else None


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
    if not spec.is_number:
        near = nearest.hint(name, [TIME])
        raise QueryError(f"column {name} is {spec.kind}{near}, so it has no ranges: group by {name}")
    if how == LOG2:
        return Key(name, POWERS, name)
    return Key(name, WIDTHS, name, _width(text, how, spec.unit))


def keys_of(by: Sequence[str], origin: int | None, end: int | None) -> list[Key]:
    """What `by` names; origin, end: as in `parse`. Raises QueryError."""
    keys = [parse(text, origin, end) if ":" in text else parse(text) for text in by]
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
