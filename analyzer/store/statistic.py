"""The statistics of a group of events: what can be asked for.

parse("sum:size") -> Statistic -> query.py (a run), runstore/store_query.py (a store)
"""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.analyzer.store import schema
from tailrace.analyzer.util import nearest
from tailrace.errors import QueryError

QUANTILES = {"p25": 0.25, "p50": 0.50, "p75": 0.75, "p95": 0.95, "p99": 0.99}
_SUMS = ("sum", "mean", "share", "rate", "ratio")
ALL = ("count", *_SUMS, "min", "max", "nunique", *QUANTILES)
ZERO = ("count", "sum", "nunique")
"""Statistics that are 0 without rows; the others are null."""
LAYERED = frozenset({"size", "count", "calls", "dur"})
"""What the calls of a layer and the system calls below them both have."""


@dataclass(frozen=True)
class Statistic:
    """One figure a group: `how` of ALL over `column`; the column is None for a count of events, and for their share.
    per: the column that a ratio divides by."""

    how: str
    column: str | None
    per: str | None = None

    @property
    def is_sum(self) -> bool:
        """Whether a byte counts once in it."""
        return self.how in _SUMS

    @property
    def is_gathered(self) -> bool:
        """Whether it takes the values, where others take partial sums."""
        return self.how == "nunique" or self.how in QUANTILES

    @property
    def needs_each(self) -> bool:
        """Whether it needs a value for each call, which a line of totals has not."""
        return self.column in schema.EACH and self.how != "count" and not self.is_sum

    @property
    def is_fraction(self) -> bool:
        """Whether its figures need not be whole numbers."""
        return self.how in ("mean", "share", "rate", "ratio", *QUANTILES)

    @property
    def dtype(self) -> str:
        """The pandas dtype of the figures."""
        return "Float64" if self.is_fraction else "Int64"

    @property
    def label(self) -> str:
        """The name of its column in the result: `count`, `sum_size`, `ratio_size/count`."""
        name = self.how if self.column is None else f"{self.how}_{self.column}"
        return name if self.per is None else f"{name}/{self.per}"

    @property
    def unit(self) -> str:
        """The unit of the figures, "" where they have none."""
        if self.column is None or self.how in ("nunique", "share"):
            return ""
        unit = schema.column(self.column).unit
        if self.how == "rate":
            return f"{unit}/s".lstrip("/")
        if self.per is None:
            return unit
        below = schema.column(self.per).unit
        return "" if unit == below else f"{unit}/{below}".strip("/")

    def summed(self) -> list[str]:
        """The columns whose sums, least and greatest values it needs."""
        if self.column is None or self.is_gathered:
            return []
        below = [self.per] if self.per else ["dur"] if self.how == "rate" else []
        return [self.column, *below]


COUNT = Statistic("count", None)


def parse(text: str) -> Statistic:
    """`count`, `share`, `how:column` as in `sum:size`, or `ratio:column/column`. Raises QueryError with the valid
    statistics."""
    how, _, name = text.partition(":")
    if how not in ALL:
        raise QueryError(f"there is no aggregate {how!r}{nearest.hint(how, ALL)}; there are {', '.join(ALL)}")
    if how == "count" and name:
        raise QueryError(f"count counts events and takes no column: write count instead of {text!r}")
    if text == "share:count":
        raise QueryError("share:count would be of the column count, the bytes that were asked for: write share")
    if how in ("count", "share") and not name:
        return Statistic(how, None)
    if not name:
        raise QueryError(f"the aggregate {how} needs a column, as in {how}:size{'/count' if how == 'ratio' else ''}")
    name, slash, per = name.partition("/")
    if (how == "ratio") != bool(slash):
        raise QueryError(f"a ratio is of two columns, as in ratio:size/count, other aggregates are of one: {text!r}")
    for one in (name, per) if slash else (name,):
        if not schema.column(one).is_number and how != "nunique":
            raise QueryError(f"column {one} is {schema.column(one).kind}, so it can only be counted: nunique:{one}")
    return Statistic(how, name, per or None)
