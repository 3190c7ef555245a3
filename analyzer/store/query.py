"""Totals of events grouped by columns, in one pass over the partitions that can match; and the events themselves.

    counted:   block headers -> counts by what a whole block shares (stage, task, host, ...): no event is read
    aggregate: partition -> partial table (one row per group) -> one table
    rows:      partition -> its matching rows -> the caller, before the next partition is read

Invariants: results are exact and do not depend on the partitioning. Sums, counts, minima and maxima are folded
partition by partition. `nunique` and percentiles need the values, so only these columns are gathered, and only of
matching rows. Aggregates ignore nulls, as in pandas; only `count` counts events.

A line of totals stands for several events (`lines`): `count` counts these, and a mean divides by them. Its `size`,
`count`, `dur` and `calls` are sums, so other aggregates of `EACH` need lines of full detail (`attrs["totals"]`).

A sum counts a byte once. The calls of HDF5 and MPI-IO (`schema.UPPER_LAYERS`) are recorded again as the system calls
below them, so a sum or mean of `LAYERED` is of the system calls, and of one layer where only its calls were asked for
(by category, name, object). `--by cat` or `--by name` keeps the layers apart; a sum over several is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from tailrace.analyzer.store import engine, schema
from tailrace.analyzer.store.loader import CountedSource, EventSource, Part
from tailrace.analyzer.util import grouping
from tailrace.analyzer.util.lazy import lazy
from tailrace.analyzer.util.types import Array, Ints, SqlValue
from tailrace.errors import QueryError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from pandas.api.extensions import ExtensionArray
    from pandas.api.typing import SeriesGroupBy
else:
    np = lazy("numpy")
    pd = lazy("pandas")

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
EACH = frozenset({"size", "count", "calls", "dur", "offset", "ret", "ts"})
"""Columns that have a value for each call only under full detail."""
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


COUNT = Aggregate("count", None)


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


def aggregate(run: CountedSource, by: Sequence[str], aggregates: Sequence[Aggregate], **where: Any) -> pd.DataFrame:
    """One row per group of matching events, sorted by `by` (null text first, null numbers last): the columns `by`, then
    `Aggregate.label` of each aggregate.

    Args:
        run: the run.
        by: columns to group by; nulls form a group. Empty for one row in all.
        aggregates: the figures.
        **where: as in `Run.events`.

    Returns:
        `attrs["totals"]`: how many lines of totals are in figures that need a value for each call. `attrs["left_out"]`:
        the layers whose events are not in a sum, since they are recorded again below.
        Text columns of `by` as objects (None: null); counts and sums Int64, means and percentiles Float64. The number
        of events is called `events` where `by` has the column `count`.

    Raises:
        QueryError: a column, stage, task or job isn't there; a sum over several layers was asked for. TraceError: a
        block is damaged.
    """
    rows = counted(run, by, aggregates, **where)
    if rows is not None:
        return _of_rows(rows, by, aggregates)
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
    picked.attrs.update(left_out=layers[1:], totals=table.attrs["totals"])
    result: pd.DataFrame = picked
    return result


def counted(
    run: CountedSource, by: Sequence[str], aggregates: Sequence[Aggregate], **where: Any
) -> list[tuple[SqlValue, ...]] | None:
    """The rows of `aggregate`, where block headers suffice for all of them; else None. Imports no pandas."""
    if any(a != COUNT for a in aggregates):
        return None
    found = run.counts(by, **where)
    if found.rest:
        return None
    rows = sorted(found.groups.items(), key=lambda row: [_rank(value) for value in row[0]])
    if not by and not rows:
        rows = [((), 0)]
    return [(*key, *(number for _ in aggregates)) for key, number in rows]


def sorted_rows(rows: list[tuple[SqlValue, ...]], names: Sequence[str], sort: str | None) -> list[tuple[SqlValue, ...]]:
    """`ordered` for the rows of `counted`. Raises QueryError when there is no such column."""
    if sort is None:
        return rows
    up, name = _direction(sort, names)
    at = names.index(name)
    some = [row for row in rows if row[at] is not None]
    # sorted() keeps equal rows in their order also in reverse, as pandas' stable sort does.
    return sorted(some, key=itemgetter(at), reverse=not up) + [row for row in rows if row[at] is None]


def _of_rows(rows: list[tuple[SqlValue, ...]], by: Sequence[str], aggregates: Sequence[Aggregate]) -> pd.DataFrame:
    """The rows of `counted` as the frame of `aggregate`."""
    names = labels(by, aggregates)
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    texts = {name for name in by if schema.column(name).kind == schema.TEXT}
    made = {
        name: pd.Series(list(values), dtype=object if name in texts else "Int64")
        for name, values in zip(names, columns, strict=True)
    }
    table: pd.DataFrame = pd.DataFrame(made)
    return table


def _rank(value: SqlValue) -> tuple[int, SqlValue]:
    """The place of a key among others of its column: null text first, as after `_key`."""
    return (0, "") if value is None else (1, value)


def labels(by: Sequence[str], aggregates: Sequence[Aggregate]) -> list[str]:
    """The names of the columns of `aggregate`."""
    return [*by, *("events" if a.label in by else a.label for a in aggregates)]


def _aggregate(
    run: CountedSource, by: Sequence[str], aggregates: Sequence[Aggregate], where: dict[str, Any]
) -> pd.DataFrame:
    """`aggregate` over all matching events; `by` may have `_LAYER`, the layer of an event, null for system calls."""
    values = [a.column for a in aggregates if a.column is not None]
    columns = list(dict.fromkeys(["cat" if name == _LAYER else name for name in [*by, *values, "lines"]]))
    known = run.counts(by, **where) if all(a == COUNT for a in aggregates) else None
    parts = run.parts(columns=columns, blocks=None if known is None else known.rest, **where)
    found = engine.compute([partial(_partial, part, tuple(by), tuple(aggregates)) for part in parts])
    folded = [pd.DataFrame() if known is None else _keyed(known.groups, by), *(part for part, _, _ in found)]
    gathered = [values for _, values, _ in found]
    table = _fold(pd.concat(folded, ignore_index=True), list(by))
    for a in aggregates:
        if a.how in _GATHERED:
            rows = pd.concat([part[a] for part in gathered] or [pd.DataFrame()], ignore_index=True)
            table[a.label] = _finish_gathered(table, rows, list(by), a)
    finished = _finished(table, list(by), aggregates)
    needs_each = any(a.column in EACH and a.how not in ("sum", "mean", "count") for a in aggregates)
    finished.attrs["totals"] = sum(totals for _, _, totals in found) if needs_each else 0
    return finished


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
    parts = run.parts(columns=columns, **where) or [partial(schema.empty_frame, columns)]
    yield from engine.stream([partial(_piece, part, sort, limit) for part in parts])


def _piece(part: Part, sort: str | None, limit: int | None) -> pd.DataFrame:
    frame = part()
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
    up, name = _direction(sort, list(table.columns))
    out: pd.DataFrame = table.sort_values(name, ascending=up, kind="stable", ignore_index=True)
    return out


def _direction(sort: str, names: Sequence[str]) -> tuple[bool, str]:
    up, name = sort.startswith("-"), sort.removeprefix("-").replace(":", "_")
    if name not in names:
        raise QueryError(f"the result has no column {name!r} to sort by; it has {', '.join(names)}")
    return up, name


_Gathered = dict[Aggregate, "pd.DataFrame"]


def _partial(part: Part, by: tuple[str, ...], aggregates: tuple[Aggregate, ...]) -> tuple[pd.DataFrame, _Gathered, int]:
    """The folded figures of one partition, the values of the gathered columns, and the number of lines of totals."""
    frame = part()
    if not len(frame):
        return pd.DataFrame(), {a: pd.DataFrame() for a in aggregates}, 0
    if _LAYER in by:
        frame[_LAYER] = _layers(frame["cat"])
    code, first = _groups(frame, by)
    keys = {f"by:{name}": _key(frame[name], first) for name in by} or {"by:": pd.Series([0])}
    lines = frame["lines"].to_numpy(dtype=np.int64)
    totals = int((lines > 1).sum())
    out: dict[str, Any] = {**keys, "count": _summed(lines, code, len(first))}
    groups = frame.groupby(code, sort=True)
    for a in aggregates:
        for piece in _FOLDED.get(a.how, ()) if a.column is not None else ():
            if piece == "count":
                known = np.where(frame[str(a.column)].notna().to_numpy(), lines, 0)
                out[f"{piece}:{a.column}"] = _summed(known, code, len(first))
            else:
                out[f"{piece}:{a.column}"] = getattr(groups[str(a.column)], piece)().array
    gathered: _Gathered = {}
    for a in aggregates:
        if a.how in _GATHERED and a.column is not None:
            rows = pd.DataFrame({"_code": code, "_value": frame[a.column].array}).dropna(subset="_value")
            rows = rows.drop_duplicates() if a.how == "nunique" else rows
            of = rows.pop("_code").to_numpy()
            values = _plain(rows["_value"]).array
            gathered[a] = pd.DataFrame({**{name: key.array[of] for name, key in keys.items()}, "_value": values})
    return pd.DataFrame(out), gathered, totals


def _summed(values: Ints, code: Ints, groups: int) -> Ints:
    """The sum of the values of each group."""
    sums = np.zeros(groups, dtype=np.int64)
    np.add.at(sums, code, values)
    return sums


def _keyed(groups: Mapping[tuple[SqlValue, ...], int], by: Sequence[str]) -> pd.DataFrame:
    """Groups of headers as a partial table, like `_partial`'s."""
    columns = dict(zip(by, zip(*groups, strict=True) if groups else [()] * len(by), strict=True))
    out: dict[str, Any] = {}
    for name, values in columns.items():
        text = schema.column(name).kind == schema.TEXT
        keys = ["" if value is None else f"={value}" for value in values] if text else list(values)
        out[f"by:{name}"] = pd.Series(keys, dtype=object if text else "Int64")
    out = out or {"by:": pd.Series([0] * len(groups))}
    table: pd.DataFrame = pd.DataFrame({**out, "count": pd.Series(list(groups.values()), dtype="int64")})
    return table if len(table) else table.iloc[:, :0]


def _layers(category: pd.Series) -> pd.Categorical:
    """The layer of each event, null for system calls."""
    upper = np.array([text in schema.UPPER_LAYERS for text in category.cat.categories] + [False], dtype=bool)
    codes = category.cat.codes.to_numpy()
    layers: pd.Categorical = pd.Categorical.from_codes(np.where(upper[codes], codes, -1), category.cat.categories)
    return layers


def _groups(frame: pd.DataFrame, by: Sequence[str]) -> tuple[Ints, Ints]:
    """The number of each row's group, and the first row of each group. By the codes of categories: to look at the
    texts took a third of a query's time."""
    columns: list[Array] = []
    for name in by:
        column = frame[name]
        if isinstance(column.dtype, pd.CategoricalDtype):
            columns.append(column.cat.codes.to_numpy())
        elif isinstance(column.dtype, np.dtype):
            columns.append(column.to_numpy())
        else:
            columns += [column.isna().to_numpy().astype(np.int8), column.fillna(0).to_numpy(dtype=np.int64)]
    columns = [column for column in columns if column.min() != column.max()]  # most partitions are of one stage
    if not columns:
        return np.zeros(len(frame), dtype=np.int64), np.zeros(1, dtype=np.int64)
    return grouping.numbered(grouping.pack(*columns))


def _plain(column: pd.Series) -> pd.Series:
    """Categories as objects, since partitions have different categories."""
    return column.astype(object) if isinstance(column.dtype, pd.CategoricalDtype) else column


def _key(column: pd.Series, rows: Ints) -> pd.Series:
    """A column to group by, at these rows, in one of two dtypes: Int64, or text as "=text" with "" for null."""
    picked = column.iloc[rows].reset_index(drop=True)
    if not isinstance(column.dtype, pd.CategoricalDtype):
        return picked.astype("Int64")
    texts = column.cat.categories.to_numpy(dtype=object)
    keys = [f"={texts[code]}" if code >= 0 else "" for code in picked.cat.codes]
    return pd.Series(keys, dtype=object)


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
