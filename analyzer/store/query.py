"""Totals of events grouped by columns and ranges (group_keys.py), in one pass over the partitions that can match; and
the events themselves.

    counted:   block headers -> counts by what a whole block shares (stage, task, host, ...): no event is read
    summed:    events folded by the native reader, without pandas (sums.py), where no figure needs each event
    aggregate: partition -> partial table (one row per group) -> one table
    rows:      partition -> its matching rows -> the caller, before the next partition is read

Invariants: results are exact and do not depend on the partitioning. Sums, counts, minima and maxima are folded
partition by partition. `nunique` and percentiles need the values, so only these columns are gathered, and only of
matching rows. Aggregates ignore nulls, as in pandas; only `count` counts events.

A line of totals stands for several events (`lines`): `count` counts these, and a mean divides by them. Its `size`,
`count`, `dur` and `calls` are sums, so other aggregates of `schema.EACH` need lines of full detail (`attrs["totals"]`).

A sum counts a byte once. The calls of HDF5 and MPI-IO (`schema.UPPER_LAYERS`) are recorded again as the system calls
below them, so a sum or mean of `figures.LAYERED` is of the system calls, and of one layer where only its calls were
asked for (by category, name, object). `--by cat` or `--by name` keeps the layers apart; a sum over several is refused.

A copy from file to file by one call (copy_file_range, sendfile, FICLONE) is two rows: what it read of the one file, and
what it wrote to the other. The second one is no event (`lines` is 0), and no figure has its `schema.OF_CALL`: so a sum
over all rows has the call once, with the bytes that it read and those that it wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from tailrace.analyzer.store import engine, figures, group_keys, schema, sums
from tailrace.analyzer.store.figures import COUNT, Aggregate
from tailrace.analyzer.store.loader import CountedSource, EventSource, Part
from tailrace.analyzer.util import grouping, nearest
from tailrace.analyzer.util.lazy import lazy
from tailrace.analyzer.util.types import Array, Ints, SqlValue
from tailrace.errors import QueryError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from pandas.api.extensions import ExtensionArray
else:
    np = lazy("numpy")
    pd = lazy("pandas")

summed = sums.summed
keys_of = group_keys.keys_of
_LAYER = sums.LAYER
FEW = 20_000
"""Events that are made into rows of Python sooner than pandas is imported."""


def unit(label: str, keys: Sequence[group_keys.Key], asked: Sequence[Aggregate]) -> str:
    """The unit of a column of a result, "" where it has none."""
    units = [key.unit for key in keys if key.label == label] + [a.unit for a in asked if a.label == label]
    return units[0] if units else ""


def aggregate(run: CountedSource, by: Sequence[str], aggregates: Sequence[Aggregate], **where: Any) -> pd.DataFrame:
    """One row per group of matching events, sorted by `by` (null text first, null numbers last): the keys `by`, then
    `Aggregate.label` of each aggregate.

    Args:
        run: the run.
        by: what to group by (group_keys.parse); nulls form a group. Empty for one row in all. A range is named by its
            least value, a range of time by when it begins, in s from the run's first event. Sums of time ranges share
            the calls that cover several.
        aggregates: the figures.
        **where: as in `Run.events`.

    Returns:
        `attrs["totals"]`: how many lines of totals are in figures that need a value for each call; `attrs["shared"]`:
        how many were spread over ranges of time. `attrs["left_out"]`:
        the layers whose events are not in a sum, since they are recorded again below.
        Text columns of `by` as objects (None: null); counts and sums Int64, means and percentiles Float64. The number
        of events is called `events` where `by` has the column `count`.

    Raises:
        QueryError: a column, stage, task or job isn't there; a sum over several layers was asked for. TraceError: a
        block is damaged.
    """
    keys = keys_of(run, by)
    rows = counted(run, by, aggregates, **where)
    if rows is not None:
        return _of_rows(rows, keys, aggregates)
    found = summed(run, by, aggregates, **where)
    if found is not None:
        table = _of_rows(found.rows, keys, aggregates)
        table.attrs.update(totals=found.totals, shared=0, left_out=list(found.left_out))
        return table
    if not sums.needs_layer(by, aggregates):
        return _aggregate(run, keys, aggregates, where)
    table = _aggregate(run, [*keys, _LAYER], aggregates, where)
    if table.empty:
        return _aggregate(run, keys, aggregates, where)
    layers = sorted(table[_LAYER.label].fillna("").unique())
    left_out = sums.others(layers, where)
    picked = table[table[_LAYER.label].fillna("") == layers[0]].drop(columns=_LAYER.label).reset_index(drop=True)
    for a in aggregates:
        if a.how == "share":  # the layers left out were in the whole
            picked[a.label] = picked[a.label] / picked[a.label].sum()
    picked.attrs.update(table.attrs, left_out=list(left_out))
    return picked


def counted(
    run: CountedSource, by: Sequence[str], aggregates: Sequence[Aggregate], **where: Any
) -> list[tuple[SqlValue, ...]] | None:
    """The rows of `aggregate`, where block headers suffice for all of them; else None. Imports no pandas."""
    if any(a != COUNT for a in aggregates) or any(":" in name for name in by):
        return None
    found = run.counts(by, **where)
    if found.rest:
        return None
    rows = sorted(found.groups.items(), key=lambda row: [_rank(value) for value in row[0]])
    if not by and not rows:
        rows = [((), 0)]
    return [(*key, *(number for _ in aggregates)) for key, number in rows]


def sorted_rows(rows: list[tuple[Any, ...]], names: Sequence[str], sort: str | None) -> list[tuple[Any, ...]]:
    """`ordered` for the rows of `counted` and `summed`. Raises QueryError when there is no such column."""
    if sort is None:
        return rows
    up, name = _direction(sort, names)
    at = names.index(name)
    some = [row for row in rows if row[at] is not None]
    # sorted() keeps equal rows in their order also in reverse, as pandas' stable sort does.
    return sorted(some, key=itemgetter(at), reverse=not up) + [row for row in rows if row[at] is None]


def _of_rows(
    rows: Sequence[tuple[Any, ...]], keys: Sequence[group_keys.Key], aggregates: Sequence[Aggregate]
) -> pd.DataFrame:
    """The rows of `counted` and `summed` as the frame of `aggregate`."""
    names = labels([key.label for key in keys], aggregates)
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    kinds = [object if key.is_text else "Float64" if key.kind == group_keys.TIMES else "Int64" for key in keys]
    kinds += ["Float64" if a.is_fraction else "Int64" for a in aggregates]
    made = {name: pd.Series(list(values), dtype=kind) for name, values, kind in zip(names, columns, kinds, strict=True)}
    return pd.DataFrame(made)


def _rank(value: SqlValue) -> tuple[int, SqlValue]:
    """The place of a key among others of its column: null text first, as after `_key`."""
    return (0, "") if value is None else (1, value)


def labels(by: Sequence[str], aggregates: Sequence[Aggregate]) -> list[str]:
    """The names of the columns of `aggregate`."""
    return [*by, *("events" if a.label in by else a.label for a in aggregates)]


def _aggregate(
    run: CountedSource, keys: Sequence[group_keys.Key], aggregates: Sequence[Aggregate], where: dict[str, Any]
) -> pd.DataFrame:
    """`aggregate` over all matching events; `keys` may have `_LAYER`, the layer of an event, null for system calls."""
    values = [name for a in aggregates for name in (a.column, *(name for _, name in a.pieces())) if name is not None]
    columns = list(dict.fromkeys([*(name for key in keys for name in key.columns), *values, "lines"]))
    by = [key.slot for key in keys]
    plain = all(key.kind == group_keys.COLUMN for key in keys)
    known = run.counts(by, **where) if plain and all(a == COUNT for a in aggregates) else None
    parts = run.parts(columns=columns, blocks=None if known is None else known.rest, ends=True, **where)
    found = engine.compute([partial(_partial, part, tuple(keys), tuple(aggregates)) for part in parts])
    folded = [pd.DataFrame() if known is None else _keyed(known.groups, by), *(part for part, _, _ in found)]
    gathered = [values for _, values, _ in found]
    table = _fold(pd.concat(folded, ignore_index=True), by)
    for a in aggregates:
        if a.how in figures.GATHERED:
            rows = pd.concat([part[a] for part in gathered] or [pd.DataFrame()], ignore_index=True)
            table[a.label] = _finish_gathered(table, rows, by, a)
    finished = _finished(table, keys, aggregates)
    needs_each = any(a.column in schema.EACH and a.how not in ("count", *figures.SUMMING) for a in aggregates)
    ranges_each = any(key.kind in (group_keys.POWERS, group_keys.WIDTHS) and key.column in schema.EACH for key in keys)
    finished.attrs["totals"] = sum(totals for _, _, totals in found) if needs_each or ranges_each else 0
    timed = any(key.kind == group_keys.TIMES for key in keys)
    finished.attrs["shared"] = sum(totals for _, _, totals in found) if timed else 0
    return finished


def rows(
    run: EventSource, columns: Sequence[str], sort: str | None = None, limit: int | None = None, **where: Any
) -> Iterator[pd.DataFrame]:
    """The matching events in pieces: memory holds one partition per processor, and no partition is read after `limit`
    is reached. Only sorting without a limit holds all rows at once.

    Args:
        run: the run.
        columns: columns of the result.
        sort: one of `columns`, to sort by, as in `ordered`; equal ones come by the other columns. Unsorted rows of one
            trace file keep its order.
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
        yield _first_events(pd.concat([best, *pieces], ignore_index=True), sort)
        return
    for piece in pieces:
        best = _first_events(pd.concat([best, piece], ignore_index=True), sort, limit)
    yield best


def few(
    run: CountedSource, columns: Sequence[str], sort: str | None = None, limit: int | None = None, **where: Any
) -> list[tuple[SqlValue, ...]] | None:
    """The rows of `rows` as tuples (None: null), where they are of few events; else None. Imports no pandas."""
    found = run.tuples(columns, FEW, **where)
    if found is not None and sort is not None:
        found.sort(key=lambda row: [(value is None, value) for value in row])
    return None if found is None else sorted_rows(found, columns, sort)[:limit]


def _pieces(
    run: EventSource, columns: Sequence[str], sort: str | None, limit: int | None, where: dict[str, Any]
) -> Iterator[pd.DataFrame]:
    """The matching rows of each partition, one partition per processor at a time, at most `limit` rows of each."""
    parts = run.parts(columns=columns, ends=True, **where) or [partial(schema.empty_frame, columns)]
    yield from engine.stream([partial(_piece, part, sort, limit) for part in parts])


def _piece(part: Part, sort: str | None, limit: int | None) -> pd.DataFrame:
    frame = part()
    table = frame.assign(**{str(name): _plain(frame[name]) for name in frame})
    return _first_events(table, sort, limit)


def _first_events(table: pd.DataFrame, sort: str | None, limit: int | None = None) -> pd.DataFrame:
    """The first rows of `ordered`, equal ones by their other columns: which event comes first, and is within the limit,
    must not depend on the trace files' names."""
    if sort is None:
        return table if limit is None else table.head(limit)
    table = ordered(table, sort)
    code = pd.factorize(table[_direction(sort, list(table.columns))[1]], use_na_sentinel=False)[0]
    first = grouping.first_of_run(code)
    if limit is not None and limit < len(table):
        beyond = np.flatnonzero(first[limit:])
        end = limit + int(beyond[0]) if len(beyond) else len(table)
        table, first = table.head(end), first[:end]
    equal = ~first
    equal[:-1] |= ~first[1:]
    at = np.flatnonzero(equal)
    if len(at):
        some = table.iloc[at].assign(**{_RUN: np.cumsum(first)[at]}).sort_values([_RUN, *table.columns])
        places = np.arange(len(table))
        places[at] = some.index.to_numpy()
        table = table.iloc[places].reset_index(drop=True)
    return table if limit is None else table.head(limit)


_RUN = "run of equal values"
"""No column has this name."""


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
    return table.sort_values(name, ascending=up, kind="stable", ignore_index=True)


def _direction(sort: str, names: Sequence[str]) -> tuple[bool, str]:
    up, name = sort.startswith("-"), sort.removeprefix("-").replace(":", "_")
    if name not in names:
        near = nearest.hint(name, names)
        raise QueryError(f"the result has no column {name!r} to sort by{near}; it has {', '.join(names)}")
    return up, name


_Gathered = dict[Aggregate, "pd.DataFrame"]


def _partial(
    part: Part, keys: tuple[group_keys.Key, ...], aggregates: tuple[Aggregate, ...]
) -> tuple[pd.DataFrame, _Gathered, int]:
    """The folded figures of one partition, the values of the gathered columns, and the number of lines of totals."""
    frame = part()
    if not len(frame):
        return pd.DataFrame(), {a: pd.DataFrame() for a in aggregates}, 0
    if _LAYER in keys:
        frame[_LAYER.slot] = _layers(frame["cat"])
    totals = int((frame["lines"].to_numpy() > 1).sum())
    ends = frame["lines"].to_numpy() == 0
    if ends.any():
        frame[_END] = ends
    shared = list(dict.fromkeys(name for a in aggregates for piece, name in a.pieces() if piece == figures.SUM))
    found = [_grouped(piece, tuple(key.slot for key in keys), aggregates) for piece in _widened(frame, keys, shared)]
    tables, values = zip(*found, strict=True)
    gathered = {a: pd.concat([of[a] for of in values], ignore_index=True) for a in values[0]}
    return pd.concat(tables, ignore_index=True), gathered, totals


_END = "is the written end of a copy"
"""No column has this name."""


def _widened(frame: pd.DataFrame, keys: tuple[group_keys.Key, ...], shared: Sequence[str]) -> Iterable[pd.DataFrame]:
    plain = all(key.kind == group_keys.COLUMN for key in keys)
    return [frame] if plain else group_keys.widened(frame, keys, shared)


def _grouped(
    frame: pd.DataFrame, by: tuple[str, ...], aggregates: tuple[Aggregate, ...]
) -> tuple[pd.DataFrame, _Gathered]:
    """The folded figures of rows, and the values of the gathered columns."""
    code, first = _groups(frame, by)
    keys = {f"by:{name}": _key(frame[name], first) for name in by} or {"by:": pd.Series([0])}
    begins = frame[group_keys.FIRST].to_numpy() if group_keys.FIRST in frame else None
    lines = frame["lines"].to_numpy(dtype=np.int64)
    lines = lines if begins is None else np.where(begins, lines, 0)
    out: dict[str, Any] = {**keys, "count": _summed(lines, code, len(first))}
    if _END in frame:
        frame = _without_calls_of_ends(frame)
        lines = np.where(frame[_END].to_numpy() & (True if begins is None else begins), 1, lines)
    calls = frame if begins is None else frame[begins]
    groups = {"sum": frame.groupby(code, sort=True)}
    groups["whole"] = groups["sum"] if begins is None else calls.groupby(code[begins], sort=True)
    for piece, name in dict.fromkeys(pair for a in aggregates for pair in a.pieces()):
        if piece == figures.KNOWN:
            known = np.where(frame[name].notna().to_numpy(), lines, 0)
            column: Any = _summed(known, code, len(first))
        elif piece == figures.SUM:
            shared = group_keys.SHARED + name
            column = groups["sum"][shared if shared in frame else name].sum().array
        else:
            of = groups["whole"][name]
            made = of.sum() if piece == figures.WHOLE else of.min() if piece == "min" else of.max()
            column = made.reindex(range(len(first))).array
        out[f"{piece}:{name}"] = column
    gathered: _Gathered = {}
    for a in aggregates:
        if a.how in figures.GATHERED and a.column is not None:
            codes = code if begins is None else code[begins]
            rows = pd.DataFrame({"_code": codes, "_value": calls[a.column].array}).dropna(subset="_value")
            rows = rows.drop_duplicates() if a.how == "nunique" else rows
            of_rows = rows.pop("_code").to_numpy()
            values = _plain(rows["_value"]).array
            gathered[a] = pd.DataFrame({**{name: key.array[of_rows] for name, key in keys.items()}, "_value": values})
    return pd.DataFrame(out), gathered


def _without_calls_of_ends(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with null for what is of the call in the rows of written ends of copies."""
    ends = frame[_END].to_numpy()
    names = {name for of in schema.OF_CALL for name in (of, group_keys.SHARED + of)} & set(frame)
    return frame.assign(**{name: frame[name].astype("Int64").mask(ends) for name in names})


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
    return pd.Categorical.from_codes(np.where(upper[codes], codes, -1), category.cat.categories)


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
        return pd.DataFrame({name: pd.Series(dtype=object) for name in [*names, "count"]})
    how = {column: figures.FOLDS[column.partition(":")[0]] for column in parts.columns if column not in names}
    return parts.groupby(names, dropna=False, as_index=False).agg(how)


def _finish_gathered(table: pd.DataFrame, rows: pd.DataFrame, by: list[str], a: Aggregate) -> ExtensionArray:
    if rows.empty:
        return pd.array([0 if a.how == "nunique" else None] * len(table), dtype="Float64")
    names = _key_names(by)
    values = figures.GATHERED[a.how](rows.groupby(names, dropna=False)["_value"]).rename("_figure").reset_index()
    figure = table[names].merge(values, on=names, how="left")["_figure"].astype("Float64")
    return (figure.fillna(0) if a.how == "nunique" else figure).array


def _finished(table: pd.DataFrame, keys: Sequence[group_keys.Key], aggregates: Sequence[Aggregate]) -> pd.DataFrame:
    out: dict[str, pd.Series | ExtensionArray] = {}
    for key in keys:
        value = _unkey(table[f"by:{key.slot}"])
        out[key.label] = value if key.kind != group_keys.TIMES else value.astype("Float64") * key.width / 1e9
    width = next((key.width for key in keys if key.kind == group_keys.TIMES), None)
    names = labels(list(out), aggregates)[len(out) :]
    out.update((name, a.finish(table, width)) for name, a in zip(names, aggregates, strict=True))
    if not keys and table.empty:  # no event matches
        whole, fraction = pd.Int64Dtype(), pd.Float64Dtype()
        for a in aggregates:
            out[a.label] = pd.array([0 if a.how in figures.ZERO else None], dtype=fraction if a.is_fraction else whole)
    return pd.DataFrame(out).reset_index(drop=True)
