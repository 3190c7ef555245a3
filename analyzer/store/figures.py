"""The figures of a group of events: what can be asked for, and the partial sums that each is made of.

    parse("sum:size") -> Aggregate -> pieces() by partition -> folded by FOLDS -> finish(table)

`nunique` and percentiles are not folded: they need the values (GATHERED).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tailrace.analyzer.store import schema
from tailrace.analyzer.util import nearest
from tailrace.analyzer.util.lazy import lazy
from tailrace.errors import QueryError

if TYPE_CHECKING:
    import pandas as pd
    from pandas.api.extensions import ExtensionArray
    from pandas.api.typing import SeriesGroupBy
else:
    pd = lazy("pandas")

SUM, WHOLE, KNOWN = "sum", "whole", "known"
"""Pieces: the sum, in which ranges of time share a call; the sum of the calls that begin in a group, and their number.
The others are `min` and `max`."""
FOLDS = {"count": "sum", SUM: "sum", WHOLE: "sum", KNOWN: "sum", "min": "min", "max": "max"}


def _quantile(groups: SeriesGroupBy[Any, Any], fraction: float) -> pd.Series:
    return groups.quantile(fraction)


_PIECES = {
    "sum": (SUM,),
    "min": ("min",),
    "max": ("max",),
    "mean": (WHOLE, KNOWN),
    "share": (SUM,),
    "rate": (SUM,),
    "ratio": (SUM,),
}
QUANTILES = {"p25": 0.25, "p50": 0.50, "p75": 0.75, "p95": 0.95, "p99": 0.99}
GATHERED: dict[str, Callable[[SeriesGroupBy[Any, Any]], pd.Series]] = {
    "nunique": lambda groups: groups.nunique(),
    **{how: partial(_quantile, fraction=fraction) for how, fraction in QUANTILES.items()},
}
ZERO = ("count", "sum", "nunique")
"""Aggregates that are 0 without rows; the others are null."""
ALL = ("count", *_PIECES, *GATHERED)
SUMMING = ("sum", "mean", "share", "rate", "ratio")
"""Those in which a byte counts once."""
LAYERED = frozenset({"size", "count", "calls", "dur"})
"""What the calls of a layer and the system calls below them both have."""


@dataclass(frozen=True)
class Aggregate:
    """One figure per group: `how` of ALL over `column`; the column is None for a count of events, and for their
    share. per: the column that a ratio divides by."""

    how: str
    column: str | None
    per: str | None = None

    @property
    def is_fraction(self) -> bool:
        """Whether its figures need not be whole numbers."""
        return self.how in ("mean", "share", "rate", "ratio", *QUANTILES)

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

    def pieces(self) -> list[tuple[str, str]]:
        """The partial columns that it needs, as (piece, column)."""
        if self.column is None or self.how not in _PIECES:
            return []
        below = [self.per] if self.per else ["dur"] if self.how == "rate" else []
        return [(piece, name) for name in (self.column, *below) for piece in _PIECES[self.how]]

    def finish(self, table: pd.DataFrame, width_ns: int | None) -> pd.Series | ExtensionArray:
        """The figures by group.

        Args:
            table: a row a group: `count`, `piece:column` of each of `pieces()`, and `label` of what was gathered.
            width_ns: of the ranges of time that the groups are in, if they are.
        """
        if table.empty:
            return pd.array([], dtype="Int64")
        if self.how == "count":
            return table["count"].astype("Int64")
        if self.how == "nunique":
            return table[self.label].astype("Int64")
        if self.how in GATHERED:
            return table[self.label]
        if self.how == "mean":
            return _divided(table[f"{WHOLE}:{self.column}"], table[f"{KNOWN}:{self.column}"])
        if self.how == "share":
            part = (table["count"] if self.column is None else table[f"{SUM}:{self.column}"]).astype("Int64")
            return _divided(part, pd.Series(int(part.sum()), table.index))
        if self.how == "ratio":
            return _divided(table[f"{SUM}:{self.column}"], table[f"{SUM}:{self.per}"])
        if self.how == "rate":
            ns = table[f"{SUM}:dur"] if width_ns is None else pd.Series(width_ns, table.index)
            return _divided(table[f"{SUM}:{self.column}"], ns.astype("Float64") / 1e9)
        return table[f"{self.how}:{self.column}"].astype("Int64")


def _divided(above: pd.Series, below: pd.Series) -> pd.Series:
    """Null where there is nothing to divide by."""
    divisor = below.astype("Float64")
    return above.astype("Float64") / divisor.where(divisor > 0)


COUNT = Aggregate("count", None)


def parse(text: str) -> Aggregate:
    """`count`, `share`, `how:column` as in `sum:size`, or `ratio:column/column`. Raises QueryError with the valid
    aggregates."""
    how, _, name = text.partition(":")
    if how not in ALL:
        raise QueryError(f"there is no aggregate {how!r}{nearest.hint(how, ALL)}; there are {', '.join(ALL)}")
    if how == "count" and name:
        raise QueryError(f"count counts events and takes no column: write count instead of {text!r}")
    if text == "share:count":
        raise QueryError("share:count would be of the column count, the bytes that were asked for: write share")
    if how in ("count", "share") and not name:
        return Aggregate(how, None)
    if not name:
        raise QueryError(f"the aggregate {how} needs a column, as in {how}:size{'/count' if how == 'ratio' else ''}")
    name, slash, per = name.partition("/")
    if (how == "ratio") != bool(slash):
        raise QueryError(f"a ratio is of two columns, as in ratio:size/count, other aggregates are of one: {text!r}")
    for one in (name, per) if slash else (name,):
        if schema.column(one).kind == schema.TEXT and how != "nunique":
            raise QueryError(f"column {one} is text, so it can only be counted: nunique:{one}")
    return Aggregate(how, name, per or None)
