"""Totals of events grouped by columns, in one pass over the partitions that can match; and the events themselves.

    aggregate: partition -> partial table (one row per group) -> one table
    rows:      partition -> its matching rows -> the caller, before the next partition is read

Invariants: results are exact and do not depend on the partitioning. Sums, counts, minima and maxima are folded
partition by partition. `nunique` and percentiles need the values, so only these columns are gathered, and only of
matching rows. Aggregates ignore nulls, as in pandas; only `count` counts events.

A sum counts a byte once. The calls of HDF5 and MPI-IO (`schema.UPPER_LAYERS`) are recorded again as the system calls
below them, so a sum or mean of `LAYERED` is of the system calls, and of one layer where only its calls were asked for
(by category, name, object). `--by cat` or `--by name` keeps the layers apart; a sum over several is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from tailrace.analyzer.store import schema
from tailrace.analyzer.store.loader import EventSource
from tailrace.errors import QueryError

if TYPE_CHECKING:
    from pandas.api.extensions import ExtensionArray
    from pandas.api.typing import SeriesGroupBy

_FOLDED: dict[str, dict[str, str]] = {
    # aggregate -> partial column -> its fold
    "sum": {"sum": "sum"},
    "min": {"min": "min"},
    "max": {"max": "max"},
    "mean": {"sum": "sum", "count": "sum"},
}
_GATHERED: dict[str, Callable[[SeriesGroupBy[Any, Any]], pd.Series]] = {
    "nunique": lambda groups: groups.nunique(),
    "p50": lambda groups: groups.quantile(0.50),
    "p95": lambda groups: groups.quantile(0.95),
    "p99": lambda groups: groups.quantile(0.99),
}
_ZERO = ("count", "sum", "nunique")
"""Aggregates that are 0 without rows; the others are null."""
AGGREGATES = ("count", *_FOLDED, *_GATHERED)
LAYERED = frozenset({"size", "count", "calls", "dur"})
"""What the calls of a layer and the system calls below them both have."""
_LAYER = "_layer"


@dataclass(frozen=True)
class Aggregate:
    """One figure per group: `how` of AGGREGATES over `column`; the column is None for a plain count of events."""

    how: str
    column: str | None

    @property
    def label(self) -> str:
        """The name of its column in the result: `count`, `sum_size`."""
        return self.how if self.column is None else f"{self.how}_{self.column}"


def unit(label: str, keys: Sequence[str]) -> str:
    """The unit of a column of a result, "" where it has none. keys: those of its columns that are columns of events."""
    if label in keys:
        return schema.column(label).unit
    how, _, name = label.partition("_")
    return schema.column(name).unit if name and how != "nunique" else ""


def parse_aggregate(text: str) -> Aggregate:
    """`count`, or `how:column` as in `sum:size`. Raises QueryError with the valid aggregates."""
    how, _, name = text.partition(":")
    if how not in AGGREGATES:
        raise QueryError(f"there is no aggregate {how!r}; there are {', '.join(AGGREGATES)}")
    if how == "count":
        if name:
            raise QueryError(f"count counts events and takes no column: write count instead of {text!r}")
        return Aggregate(how, None)
    if not name:
        raise QueryError(f"the aggregate {how} needs a column, as in {how}:size")
    if schema.column(name).kind == schema.TEXT and how != "nunique":
        raise QueryError(f"column {name} is text, so it can only be counted: nunique:{name}")
    return Aggregate(how, name)


def aggregate(run: EventSource, by: Sequence[str], aggregates: Sequence[Aggregate], **where: Any) -> pd.DataFrame:
    """One row per group of matching events, sorted by `by` (null text first, null numbers last): the columns `by`, then
    `Aggregate.label` of each aggregate.

    Args:
        run: the run.
        by: columns to group by; nulls form a group. Empty for one row in all.
        aggregates: the figures.
        **where: as in `Run.events`.

    Returns:
        `attrs["left_out"]`: the layers whose events are not in a sum, since they are recorded again below.
        Text columns of `by` as objects (None: null); counts and sums Int64, means and percentiles Float64. The number
        of events is called `events` where `by` has the column `count`.

    Raises:
        QueryError: a column, stage, task or job isn't there; a sum over several layers was asked for. TraceError: a
        block is damaged.
    """
    summed = any(a.how in ("sum", "mean") and a.column in LAYERED for a in aggregates)
    if not summed or {"cat", "name"} & set(by):
        return _aggregate(run, by, aggregates, where)
    table = _aggregate(run, [*by, _LAYER], aggregates, where)
    if table.empty:
        return _aggregate(run, by, aggregates, where)
    layers = sorted(table[_LAYER].fillna("").unique())
    if len(layers) > 1 and {"cat", "name"} & where.keys():
        shown = ", ".join(layer or "system calls" for layer in layers)
        raise QueryError(
            f"the bytes and times of {shown} can't be added, since a layer's calls are recorded again below it; add"
            " cat to --by, or ask for one layer, as in --where cat=POSIX"
        )
    # By an upper layer's own columns (object) only its calls are found.
    picked = table[table[_LAYER].fillna("") == layers[0]].drop(columns=_LAYER).reset_index(drop=True)
    picked.attrs["left_out"] = layers[1:]
    result: pd.DataFrame = picked
    return result


def _aggregate(
    run: EventSource, by: Sequence[str], aggregates: Sequence[Aggregate], where: dict[str, Any]
) -> pd.DataFrame:
    """`aggregate` over all matching events; `by` may have `_LAYER`, the layer of an event, null for system calls."""
    import dask

    values = [a.column for a in aggregates if a.column is not None]
    columns = list(dict.fromkeys(["cat" if name == _LAYER else name for name in [*by, *values]])) or ["ts"]
    parts = run.events(columns=columns, **where).to_delayed()
    folded, gathered = zip(
        *dask.compute(*(dask.delayed(_partial)(part, tuple(by), tuple(aggregates)) for part in parts)), strict=True
    )
    table = _fold(pd.concat(folded, ignore_index=True), list(by))
    for a in aggregates:
        if a.how in _GATHERED:
            rows = pd.concat([part[a] for part in gathered], ignore_index=True)
            table[a.label] = _finish_gathered(table, rows, list(by), a)
    return _finished(table, list(by), aggregates)


def rows(
    run: EventSource, columns: Sequence[str], sort: str | None = None, limit: int | None = None, **where: Any
) -> Iterator[pd.DataFrame]:
    """The matching events in pieces: memory holds one partition per processor, and no partition is read after `limit`
    is reached. Only sorting without a limit holds all rows at once.

    Args:
        run: the run.
        columns: columns of the result.
        sort: one of `columns`, to sort by, as in `ordered`. Unsorted rows of one trace file keep its order.
        limit: the largest number of rows in all.
        **where: as in `Run.events`.

    Yields:
        One or more frames with `columns`, text as objects (None: null). The index has no meaning.

    Raises:
        QueryError: a column, stage, task or job isn't there. TraceError: a block is damaged.
    """
    if sort is not None:
        ordered(pd.DataFrame(columns=list(columns)), sort)
    pieces = _pieces(run, columns, sort, limit, where)
    if sort is None:
        yield from _first(pieces, limit)
        return
    best = next(pieces)
    if limit is None:
        yield ordered(pd.concat([best, *pieces], ignore_index=True), sort)
        return
    for piece in pieces:
        best = ordered(pd.concat([best, piece], ignore_index=True), sort).head(limit)
    yield best


def _pieces(
    run: EventSource, columns: Sequence[str], sort: str | None, limit: int | None, where: dict[str, Any]
) -> Iterator[pd.DataFrame]:
    """The matching rows of each partition, one partition per processor at a time, at most `limit` rows of each."""
    import dask

    parts = run.events(columns=columns, **where).to_delayed()
    step = os.cpu_count() or 1
    for at in range(0, len(parts), step):
        yield from dask.compute(*(dask.delayed(_piece)(part, sort, limit) for part in parts[at : at + step]))


def _piece(frame: pd.DataFrame, sort: str | None, limit: int | None) -> pd.DataFrame:
    table = ordered(frame.assign(**{str(name): _plain(frame[name]) for name in frame}), sort)
    return table if limit is None else table.head(limit)


def _first(pieces: Iterator[pd.DataFrame], limit: int | None) -> Iterator[pd.DataFrame]:
    left = limit
    for piece in pieces:
        yield piece if left is None else piece.head(left)
        if left is not None:
            left -= len(piece)
            if left <= 0:
                return


def ordered(table: pd.DataFrame, sort: str | None) -> pd.DataFrame:
    """`table` by its column `sort`, largest first; by "-COLUMN" smallest first. The sort is stable, nulls
    are last. Raises QueryError when it has no such column."""
    if sort is None:
        return table
    up, name = sort.startswith("-"), sort.removeprefix("-").replace(":", "_")
    if name not in table.columns:
        raise QueryError(f"the result has no column {name!r} to sort by; it has {', '.join(table.columns)}")
    out: pd.DataFrame = table.sort_values(name, ascending=up, kind="stable", ignore_index=True)
    return out


_Gathered = dict[Aggregate, pd.DataFrame]


def _partial(
    frame: pd.DataFrame, by: tuple[str, ...], aggregates: tuple[Aggregate, ...]
) -> tuple[pd.DataFrame, _Gathered]:
    """The folded figures of one partition, and the values of the gathered columns."""
    if _LAYER in by:
        above = frame["cat"].isin(schema.UPPER_LAYERS)
        frame = frame.assign(**{_LAYER: frame["cat"].astype(object).where(above, None).astype("category")})
    columns = [_key(frame[name]) for name in by] or [pd.Series(0, index=frame.index)]
    keys = dict(zip(_key_names(by), columns, strict=True))
    groups = frame.groupby(list(keys.values()), dropna=False, sort=False, observed=True) if len(frame) else None
    if groups is None:
        return pd.DataFrame(), {a: pd.DataFrame() for a in aggregates}
    names = list(keys)
    out = {"count": groups.size()}
    for a in aggregates:
        for piece in _FOLDED.get(a.how, ()) if a.column is not None else ():
            out[f"{piece}:{a.column}"] = getattr(groups[str(a.column)], piece)()
    folded = pd.DataFrame(out)
    folded.index = folded.index.set_names(names)
    gathered: _Gathered = {}
    for a in aggregates:
        if a.how in _GATHERED and a.column is not None:
            rows = pd.DataFrame({**keys, "_value": frame[a.column]}).dropna(subset="_value")
            rows["_value"] = _plain(rows["_value"])
            gathered[a] = rows.drop_duplicates() if a.how == "nunique" else rows
    return folded.reset_index(), gathered


def _plain(column: pd.Series) -> pd.Series:
    """Categories as objects, since partitions have different categories."""
    return column.astype(object) if isinstance(column.dtype, pd.CategoricalDtype) else column


def _key(column: pd.Series) -> pd.Series:
    """A column to group by in one of two dtypes: Int64, or text as "=text" with "" for null."""
    if not isinstance(column.dtype, pd.CategoricalDtype):
        return column.astype("Int64")
    keys = column.cat.rename_categories([f"={text}" for text in column.cat.categories])
    return keys.cat.add_categories([""]).fillna("").astype(object)


def _key_names(by: Sequence[str]) -> list[str]:
    """Temporary names of the columns to group by, which can't equal a figure's: `count` is a column, too."""
    return [f"by:{name}" for name in by] or ["by:"]


def _unkey(keys: pd.Series) -> pd.Series:
    """The inverse of `_key`: text as objects with None for null."""
    if keys.dtype == "Int64":
        return keys
    return pd.Series([key[1:] if key else None for key in keys], index=keys.index, dtype=object)


def _fold(parts: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """One row per group of partial rows; without `by`, one row in all."""
    names = _key_names(by)
    if parts.empty:
        empty: pd.DataFrame = pd.DataFrame({name: pd.Series(dtype=object) for name in [*names, "count"]})
        return empty
    how = {
        c: "sum" if c == "count" else c.split(":")[0].replace("count", "sum") for c in parts.columns if c not in names
    }
    table: pd.DataFrame = parts.groupby(names, dropna=False, as_index=False).agg(how)
    return table


def _finish_gathered(table: pd.DataFrame, rows: pd.DataFrame, by: list[str], a: Aggregate) -> ExtensionArray:
    if rows.empty:
        return pd.array([0 if a.how == "nunique" else None] * len(table), dtype="Float64")
    names = _key_names(by)
    figures = _GATHERED[a.how](rows.groupby(names, dropna=False)["_value"]).rename("_figure").reset_index()
    figure = table[names].merge(figures, on=names, how="left")["_figure"].astype("Float64")
    values: ExtensionArray = (figure.fillna(0) if a.how == "nunique" else figure).array
    return values


def _finished(table: pd.DataFrame, by: list[str], aggregates: Sequence[Aggregate]) -> pd.DataFrame:
    out: dict[str, pd.Series | ExtensionArray] = {}
    for name in by:
        out[name] = _unkey(table[f"by:{name}"])
    for a in aggregates:
        out["events" if a.label in by else a.label] = _figure(table, a)
    if not by and table.empty:  # no event matches
        out = {a.label: pd.array([0 if a.how in _ZERO else None], dtype="Int64") for a in aggregates}
    result: pd.DataFrame = pd.DataFrame(out).reset_index(drop=True)
    return result


def _figure(table: pd.DataFrame, a: Aggregate) -> pd.Series | ExtensionArray:
    if table.empty:
        return pd.array([], dtype="Int64")
    if a.how == "count":
        return table["count"].astype("Int64")
    if a.how == "mean":
        count = table[f"count:{a.column}"].astype("Int64")
        mean: pd.Series = table[f"sum:{a.column}"].astype("Float64") / count.where(count > 0)
        return mean
    if a.how == "nunique":
        return table[a.label].astype("Int64")
    return table[a.label] if a.how in _GATHERED else table[f"{a.how}:{a.column}"].astype("Int64")
