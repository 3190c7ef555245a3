"""Totals of events grouped by columns and ranges (group_keys.py), and the events themselves, in one pass over the
blocks that can match. question.py asks; runstore/store_query.py answers the same over a store.

    totals_from_headers: block headers -> counts by what a whole block shares (stage, task, host, ...): no event is read
    totals_from_events:  partition -> its groups (loader.group_tasks) -> one group a key -> rows
    events:              partition -> its matching rows -> the caller, before the next partition is read

Invariants: results are exact and do not depend on the partitioning. Statistics ignore nulls; only `count` counts
events. No row is made by pandas, whose import takes longer than most answers, but where loader.py says so.

A line of totals stands for several events (`lines`): `count` counts these, and a mean divides by them. Its `size`,
`count`, `dur` and `calls` are sums, so other statistics of `schema.EACH` need lines of full detail (`Totals.each`).

A sum counts a byte once. The calls of HDF5 and MPI-IO (`schema.UPPER_LAYERS`) are recorded again as the system calls
below them, so a sum or mean of `statistic.LAYERED` is of the system calls, and of one layer where only its calls were
asked for (by category, name, object). `--by cat` or `--by name` keeps the layers apart; a sum over several is refused.

A copy from file to file by one call (copy_file_range, sendfile, FICLONE) is two rows: what it read of the one file, and
what it wrote to the other. The second one is no event (`lines` is 0), and no statistic has its `schema.OF_CALL`: so a
sum over all rows has the call once, with the bytes that it read and those that it wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from tailrace import _native
from tailrace.analyzer.store import engine, group_keys, schema, statistic
from tailrace.analyzer.store.group_keys import Key
from tailrace.analyzer.store.loader import ColumnTotals, Group, RowTask, Values
from tailrace.analyzer.store.statistic import COUNT, Statistic
from tailrace.analyzer.util import nearest
from tailrace.analyzer.util.lazy import lazy
from tailrace.analyzer.util.types import SqlValue
from tailrace.errors import QueryError

if TYPE_CHECKING:
    import pandas as pd

    from tailrace.analyzer.store.events import Events
else:
    pd = lazy("pandas")

Row = tuple[Any, ...]
_MOST = 2**63 - 1
LAYER = Key("_layer", group_keys.COLUMN, "cat")
"""The layer of an event."""


# ---- totals ----


@dataclass
class _Column:
    """Totals of a column in a group: its sum, in which ranges of time share a call; the sum of the calls that begin in
    the group, and their number; least and greatest value."""

    sum: int = 0
    whole: int = 0
    known: int = 0
    least: int | None = None
    most: int | None = None

    def add(self, found: ColumnTotals) -> None:
        total, whole, known, least, most = found
        self.sum += total
        self.whole += whole
        self.known += known
        if least is not None and most is not None:
            self.least = least if self.least is None else min(self.least, least)
            self.most = most if self.most is None else max(self.most, most)


@dataclass
class GroupTotals:
    """A group: its calls, its lines that stand for several calls, totals by column, values of other columns."""

    calls: int = 0
    totals: int = 0
    of: dict[str, _Column] = field(default_factory=dict)
    values: dict[str, list[Values]] = field(default_factory=dict)


@dataclass(frozen=True)
class Totals:
    """The rows of an answer, sorted by their keys.

    Attributes:
        rows: the keys and the statistics of each group.
        some: whether a row is of events, or of ends of copies.
        each: lines of totals in statistics that need a value for each call.
        shared: lines of totals that were spread over ranges of time.
        left_out: layers whose calls are not in a sum, since they are recorded again below.
    """

    rows: list[Row]
    some: bool
    each: int = 0
    shared: int = 0
    left_out: tuple[str, ...] = ()


def totals(run: Events, by: Sequence[str], statistics: Sequence[Statistic], /, **where: Any) -> Totals:
    """One row a group of matching events, sorted by `by` (null text first, null numbers last): the keys, then the
    statistics.

    Args:
        run: the run.
        by: what to group by (group_keys.parse); nulls form a group. Empty for one row in all. A range is named by its
            least value, a range of time by when it begins, in s from the run's first event. Sums of time ranges share
            the calls that cover several.
        statistics: the figures of a group.
        **where: as in `Run.events`.

    Raises:
        QueryError: a column, stage, task or job isn't there; a sum over several layers was asked for. TraceError: a
        block is damaged.
    """
    rows = totals_from_headers(run, by, statistics, **where)
    if rows is not None:
        return Totals(rows, any(row[-1] for row in rows))
    return totals_from_events(run, by, statistics, **where)


def totals_from_headers(
    run: Events, by: Sequence[str], statistics: Sequence[Statistic], /, **where: Any
) -> list[Row] | None:
    """The rows of `totals`, where block headers suffice for all of them; else None."""
    if any(one != COUNT for one in statistics) or any(":" in name for name in by):
        return None
    found = run.counts(by, **where)
    if found.rest:
        return None
    rows = sorted(found.groups.items(), key=lambda row: [(0, "") if value is None else (1, value) for value in row[0]])
    if not by and not rows:
        rows = [((), 0)]
    return [(*key, *(number for _ in statistics)) for key, number in rows]


def totals_from_events(run: Events, by: Sequence[str], statistics: Sequence[Statistic], /, **where: Any) -> Totals:
    """The answer of `totals` by reading blocks; those that headers can count are not read."""
    keys = group_keys.keys_of(by, run.t0_ns, run.t1_ns)
    values = list(dict.fromkeys(name for one in statistics for name in one.summed()))
    gathered = list(dict.fromkeys(one.column for one in statistics if one.is_gathered and one.column is not None))
    of_layers = needs_layer(by, statistics)
    plain = all(key.kind == group_keys.COLUMN for key in keys) and all(one == COUNT for one in statistics)
    known = run.counts(by, **where) if plain else None
    asked = [*keys, LAYER] if of_layers else keys
    tasks = run.group_tasks(asked, values, gathered, blocks=None if known is None else known.rest, **where)
    groups: dict[Row, GroupTotals] = {}
    for key, calls in known.groups.items() if known is not None else ():
        groups.setdefault(key, GroupTotals()).calls += calls
    for part in engine.stream(tasks, ahead=len(tasks)):
        _fold(groups, part, values, gathered, of_layers)
    left_out: tuple[str, ...] = ()
    if of_layers and groups:
        layers = sorted({str(key[-1] or "") for key in groups})
        left_out = others(layers, where)
        groups = {key[:-1]: found for key, found in groups.items() if (key[-1] or "") == layers[0]}
    lines = sum(found.totals for found in groups.values())
    needs_each = any(one.needs_each for one in statistics) or any(key.ranges_each for key in keys)
    shares = group_keys.time_of(keys) is not None
    if not by and not groups:
        row = tuple(0 if one.how in statistic.ZERO else None for one in statistics)
        return Totals([row], False)
    texts = [key.is_text for key in keys]
    ordered = sorted(groups.items(), key=lambda row: [_place(*one) for one in zip(row[0], texts, strict=True)])
    rows = _rows(ordered, keys, statistics)
    return Totals(rows, bool(groups), lines if needs_each else 0, lines if shares else 0, left_out)


def aggregate(run: Events, by: Sequence[str], statistics: Sequence[Statistic], /, **where: Any) -> pd.DataFrame:
    """`totals` as a frame: keys of text as objects (None: null); counts and sums Int64, means and percentiles Float64.
    `attrs` has `each`, `shared` and `left_out` of `Totals`."""
    keys = group_keys.keys_of(by, run.t0_ns, run.t1_ns)
    found = totals(run, by, statistics, **where)
    names = labels([key.label for key in keys], statistics)
    kinds = [key.dtype for key in keys] + [one.dtype for one in statistics]
    table = framed(names, kinds, found.rows)
    table.attrs.update(each=found.each, shared=found.shared, left_out=list(found.left_out))
    return table


def framed(names: Sequence[str], kinds: Sequence[str], rows: Sequence[Row]) -> pd.DataFrame:
    """Rows as a frame with columns of these dtypes."""
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    made = {name: pd.Series(list(values), dtype=kind) for name, values, kind in zip(names, columns, kinds, strict=True)}
    return pd.DataFrame(made)


def labels(by: Sequence[str], statistics: Sequence[Statistic]) -> list[str]:
    """The names of the columns of `totals`."""
    return [*by, *("events" if one.label in by else one.label for one in statistics)]


def needs_layer(by: Sequence[str], statistics: Sequence[Statistic]) -> bool:
    """Whether a sum might have a byte twice, so that layers have to be told apart."""
    doubled = any(one.is_sum and {one.column, one.per} & statistic.LAYERED for one in statistics)
    return doubled and not {"cat", "name"} & set(by)


def others(layers: Sequence[str], where: dict[str, Any]) -> tuple[str, ...]:
    """The layers that are left out of a sum, of those that it is over ("": system calls).

    Raises QueryError where several were asked for.
    """
    if len(layers) > 1 and {"cat", "name"} & where.keys():
        shown = ", ".join(layer or "system calls" for layer in layers)
        raise QueryError(
            f"the bytes and times of {shown} can't be added, since a layer's calls are recorded again below it; add"
            " cat to --by, or ask for one layer, as in --where cat=POSIX"
        )
    # By an upper layer's own columns (object) only its calls are found.
    return tuple(layers[1:])


def _fold(
    groups: dict[Row, GroupTotals],
    part: Iterable[Group],
    values: Sequence[str],
    gathered: Sequence[str],
    of_layers: bool,
) -> None:
    for key, calls, lines, found, listed in part:
        if of_layers:
            key = (*key[:-1], key[-1] if key[-1] in schema.UPPER_LAYERS else None)
        group = groups.get(key)
        if group is None:
            group = groups[key] = GroupTotals()
        group.calls += calls
        group.totals += lines
        for name, of_column in zip(values, found, strict=True):
            group.of.setdefault(name, _Column()).add(of_column)
        for name, of_values in zip(gathered, listed, strict=True):
            group.values.setdefault(name, []).append(of_values)


def _place(value: SqlValue, is_text: bool) -> tuple[int, SqlValue]:
    """The place of a key among others of its column: null text first, null numbers last."""
    if value is None:
        return (0, "") if is_text else (1, 0)
    return (1, value) if is_text else (0, value)


def _rows(groups: list[tuple[Row, GroupTotals]], keys: Sequence[Key], statistics: Sequence[Statistic]) -> list[Row]:
    wholes = {
        one: sum(found.calls if one.column is None else found.of[one.column].sum for _, found in groups)
        for one in statistics
        if one.how == "share"
    }
    time = group_keys.time_of(keys)
    width = None if time is None else time.width
    return [
        (
            *(_shown(value, one) for value, one in zip(key, keys, strict=True)),
            *(_figure(found, one, wholes.get(one, 0), width) for one in statistics),
        )
        for key, found in groups
    ]


def _shown(value: SqlValue, key: Key) -> SqlValue:
    """A key in the result: a range of time by when it begins, in s."""
    return float(value) * key.width / 1e9 if key.kind == group_keys.TIMES and isinstance(value, int) else value


def _figure(group: GroupTotals, one: Statistic, whole: int, width_ns: int | None) -> int | float | None:
    """whole: what a share is of; width_ns: of the ranges of time that the groups are in, if they are."""
    if one.how == "count":
        return _held(group.calls)
    if one.column is None:  # the share of events
        return _divided(group.calls, whole)
    if one.is_gathered:
        return _gathered(group.values.get(one.column, []), one.how)
    of = group.of[one.column]
    if one.how == "sum":
        return _held(of.sum)
    if one.how == "min":
        return of.least
    if one.how == "max":
        return of.most
    if one.how == "mean":
        return _divided(of.whole, of.known)
    if one.how == "share":
        return _divided(of.sum, whole)
    if one.how == "rate":
        return _divided(of.sum, (group.of["dur"].sum if width_ns is None else width_ns) / 1e9)
    assert one.per is not None
    return _divided(of.sum, group.of[one.per].sum)


def _gathered(lists: Sequence[Values], how: str) -> int | float | None:
    numbers = [values for values in lists if isinstance(values, tuple)]
    if how != "nunique":
        return _native.quantile(numbers, statistic.QUANTILES[how])
    texts = {text for values in lists if isinstance(values, list) for text in values}
    return len(texts) + _native.distinct([values for values, _ in numbers])


def _held(number: int) -> int:
    """In the range of its column, which only sums of a damaged trace exceed."""
    return max(-_MOST - 1, min(number, _MOST))


def _divided(above: int, below: float) -> float | None:
    """Null where there is nothing to divide by."""
    return float(above) / float(below) if below > 0 else None


# ---- events, and the order of rows ----


def events(
    run: Events, columns: Sequence[str], /, sort: str | None = None, limit: int | None = None, **where: Any
) -> Iterator[Row]:
    """The matching events: memory holds some partitions per processor, and no partition is read after `limit` is
    reached. Only sorting without a limit holds all rows at once.

    Args:
        run: the run.
        columns: columns of the result.
        sort: one of `columns`, to sort by, as in `sorted_rows`; equal ones come by all columns: which event comes
            first, and is within the limit, must not depend on the trace files' names. Unsorted rows of one trace file
            keep its order.
        limit: the largest number of rows in all.
        **where: as in `Run.events`.

    Raises:
        QueryError: a column, stage, task or job isn't there. TraceError: a block is damaged.
    """
    if sort is not None:
        direction(sort, columns)
    tasks = run.row_tasks(columns, **where)
    parts = engine.stream([partial(_first, task, columns, sort, limit) for task in tasks])
    if sort is None:
        yield from islice((row for part in parts for row in part), limit)
        return
    best: list[Row] = []
    for part in parts:
        best += part
        if limit is not None:
            best = _sorted(best, columns, sort)[:limit]
    yield from best if limit is not None else _sorted(best, columns, sort)


def _first(task: RowTask, columns: Sequence[str], sort: str | None, limit: int | None) -> list[Row]:
    """The rows of a partition, at most `limit`."""
    rows = task()
    if limit is None or len(rows) <= limit:
        return rows
    return (rows if sort is None else _sorted(rows, columns, sort))[:limit]


def _sorted(rows: list[Row], columns: Sequence[str], sort: str) -> list[Row]:
    rows = sorted(rows, key=lambda row: [(value is None, value) for value in row])
    return sorted_rows(rows, columns, sort)


def sorted_rows(rows: list[Row], names: Sequence[str], sort: str | None) -> list[Row]:
    """The rows by their column `sort`, largest first; by "-COLUMN" smallest first. The sort is stable, nulls are last.
    Raises QueryError when there is no such column."""
    if sort is None:
        return rows
    up, name = direction(sort, names)
    at = list(names).index(name)
    some = [row for row in rows if row[at] is not None]
    # sorted() keeps equal rows in their order also in reverse.
    return sorted(some, key=itemgetter(at), reverse=not up) + [row for row in rows if row[at] is None]


def direction(sort: str, names: Sequence[str]) -> tuple[bool, str]:
    """Whether the smallest come first, and the column to sort by. Raises QueryError when there is no such column."""
    up, name = sort.startswith("-"), sort.removeprefix("-").replace(":", "_")
    if name not in names:
        near = nearest.hint(name, names)
        raise QueryError(f"the result has no column {name!r} to sort by{near}; it has {', '.join(names)}")
    return up, name
