"""Questions about events: what is asked, and the answer. They are the same over a run, a store and in Python.

    Query.of(by="stage", aggs="sum:size", where="dir=r") --answer()--> Answer, from a run (query.py)
                                                         --runstore/store_query.py--> Answer, from a store

The language is defined once: conditions and values in conditions.py, keys and ranges in group_keys.py, figures in
statistic.py, columns in schema.py, units in util/quantities.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tailrace.analyzer.store import conditions, group_keys, query, schema, statistic
from tailrace.analyzer.store.conditions import AllOf
from tailrace.analyzer.store.query import Row
from tailrace.analyzer.store.statistic import Statistic
from tailrace.analyzer.util.formatting import bytes_text, count_text
from tailrace.analyzer.util.lazy import lazy
from tailrace.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from tailrace.analyzer.store.events import Events
else:
    pd = lazy("pandas")


# ---- what is asked ----


@dataclass(frozen=True)
class Query:
    """Totals of the matching events by keys, or, with `columns`, the events themselves.

    Attributes:
        by: keys as typed: columns, and ranges of them.
        statistics: figures of each group.
        columns: columns of the events; None for totals.
        where: predicates by column, as in `Run.events`.
        since: only calls that end at or after it, s from the run's first event.
        until: only calls that begin before it.
        sort: a column of the answer, the largest first; "-COLUMN": the smallest.
        limit: the most rows.
    """

    by: tuple[str, ...] = ()
    statistics: tuple[Statistic, ...] = (statistic.COUNT,)
    columns: tuple[str, ...] | None = None
    where: Mapping[str, Any] = field(default_factory=dict)
    since: float | None = None
    until: float | None = None
    sort: str | None = None
    limit: int | None = None

    @classmethod
    def of(
        cls,
        by: str | Sequence[str] = (),
        aggs: str | Sequence[str] | None = None,
        *,
        columns: str | Sequence[str] | None = None,
        where: str | Sequence[str] = (),
        values: Mapping[str, Any] | None = None,
        since: float | None = None,
        until: float | None = None,
        sort: str | None = None,
        limit: int | None = None,
        sign: str = "",
    ) -> Query:
        """The question in texts, as the command takes it; values: by column, as in `Run.events`, beside the conditions;
        sign: what stands before the names of options in a message. Raises UsageError, QueryError."""
        if columns is not None and (by or aggs):
            raise UsageError(
                f"{sign}columns gives events, {sign}by and {sign}agg give totals: ask for one or the other"
            )
        conditions.check_times(since, until, sign)
        picked = None
        if columns is not None:
            picked = tuple(dict.fromkeys(group_keys.parse(name, None).label for name in _names(columns)))
        statistics = tuple(dict.fromkeys(map(statistic.parse, _names(aggs or "count"))))
        predicates = _predicates(where, values or {})
        return cls(tuple(_names(by)), statistics, picked, predicates, since, until, sort, limit)

    def predicates(self, t0_ns: int | None) -> dict[str, Any]:
        """The arguments of `Run.events` for a run that began then."""
        return {**self.where, **conditions.times_of(t0_ns, self.since, self.until)}

    def fields(self, keys: Sequence[group_keys.Key]) -> list[Field]:
        """The columns of the answer."""
        if self.columns is not None:
            specs = [schema.column(name) for name in self.columns]
            return [Field(one.name, one.dtype.replace("category", "object"), one.unit) for one in specs]
        names = query.labels([key.label for key in keys], self.statistics)
        kinds = [(one.dtype, one.unit) for one in keys] + [(one.dtype, one.unit) for one in self.statistics]
        return [Field(name, *kind) for name, kind in zip(names, kinds, strict=True)]


def _names(names: str | Sequence[str]) -> list[str]:
    """Names from a list, or from one text with commas between them, each once."""
    return list(dict.fromkeys(name for name in (names.split(",") if isinstance(names, str) else names) if name))


def _predicates(where: str | Sequence[str], values: Mapping[str, Any]) -> dict[str, Any]:
    """Conditions as texts and values by column together: both must hold."""
    typed = conditions.conditions_of([where] if isinstance(where, str) and where else where, {})
    both = {
        name: AllOf((*getattr(typed[name], "conditions", (typed[name],)), values[name]))
        for name in typed
        if name in values
    }
    return {**typed, **values, **both}


# ---- the answer ----


class Field(NamedTuple):
    """A column of an answer: its name, pandas dtype (text: object) and unit."""

    name: str
    dtype: str
    unit: str


@dataclass
class Answer:
    """The rows of an answer, and what to say beside them.

    Attributes:
        fields: its columns.
        rows: the rows, null as None; may be read once.
        some: whether an event matched; None where the rows tell.
        notes: sentences about what the figures are of.
    """

    fields: list[Field]
    rows: Iterable[Row]
    some: bool | None = None
    notes: tuple[str, ...] = ()

    def frame(self) -> pd.DataFrame:
        """The rows as a frame."""
        return query.framed([one.name for one in self.fields], [one.dtype for one in self.fields], list(self.rows))


def notes(totals: int, shared: int, left_out: Sequence[str], row: str = "") -> tuple[str, ...]:
    """What figures are of: rows that stand for several calls where a figure needs each call, such rows spread over
    ranges of time, layers that are not in a sum. row: of a store, "event" or "access"."""
    one, plural, of = ("access", "es", "") if row == "access" else ("line", "s", " of totals (--detail)")
    found = []
    if totals:
        found.append(
            f"{count_text(totals, one, plural)}{of} count as one call each where a figure needs each call:"
            f" min, max, nunique and percentiles of sizes and times are of those {one}{plural}' sums"
            + (
                ""
                if row == "access"
                else "; ranges of sizes and times have the number of their calls, their sums are"
                " in the row without a range"
            )
        )
    if shared:
        over = "the time of each" if row else "each burst of accesses"
        found.append(f"{count_text(shared, one, plural)}{of}: bytes are spread evenly over {over}")
    if left_out:
        layers = ", ".join(left_out)
        found.append(
            f"without the calls of {layers}, whose bytes and times are in the system calls; --by cat shows them"
        )
    return tuple(found)


def answer(run: Events, asked: Query) -> Answer:
    """The answer from the events of a run. Raises QueryError, TraceError."""
    where = asked.predicates(run.t0_ns)
    if asked.columns is not None:
        return Answer(asked.fields(()), query.events(run, asked.columns, asked.sort, asked.limit, **where))
    fields = asked.fields(group_keys.keys_of(asked.by, run.t0_ns, run.t1_ns))
    found = query.totals(run, asked.by, asked.statistics, **where)
    rows = query.sorted_rows(found.rows, [one.name for one in fields], asked.sort)[: asked.limit]
    return Answer(fields, rows, found.some, notes(found.each, found.shared, found.left_out))


def frame(run: Events, asked: Query) -> pd.DataFrame:
    """The answer as a frame; see `Run.query`."""
    if asked.columns is None or asked.limit is not None:
        return answer(run, asked).frame()
    # Many rows take less memory in columns.
    names = list(asked.columns)
    up, by = query.direction(asked.sort, names) if asked.sort is not None else (True, "")
    table = run.read(names, **asked.predicates(run.t0_ns))
    texts = {name: table[name].astype(object) for name in names if schema.column(name).kind == schema.TEXT}
    table = table.assign(**{name: column.where(column.notna(), None) for name, column in texts.items()})
    if by:
        table = table.sort_values(names, ignore_index=True)
        table = table.sort_values(by, ascending=up, kind="stable", ignore_index=True)
    return table


# ---- what it reads ----


@dataclass(frozen=True)
class Reading:
    """What an answer reads of the trace. blocks and bytes: what would be read, of all; headers: the answer is in the
    headers alone; files: trace file -> blocks, events, bytes that would be read."""

    blocks: int
    of_blocks: int
    bytes: int
    of_bytes: int
    headers: bool
    files: dict[str, tuple[int, int, int]]

    def sentence(self) -> str:
        """The answer in words."""
        if self.headers:
            return f"No block is read: the headers of {count_text(self.blocks, 'block')} have the answer."
        others = "; the headers of the others rule them out" if self.blocks < self.of_blocks else ""
        return (
            f"{self.blocks:,} of {count_text(self.of_blocks, 'block')} would be read, {bytes_text(self.bytes)} of"
            f" {bytes_text(self.of_bytes)}{others}."
        )

    def __repr__(self) -> str:
        from tailrace.analyzer.util.html import lines  # a question of a command has no use for it

        return lines(self.sentence())


def reading(run: Events, asked: Query) -> Reading:
    """What `answer` reads."""
    where = asked.predicates(run.t0_ns)
    every, found = run.blocks(), run.blocks(**where)
    headers = asked.columns is None and query.totals_from_headers(run, asked.by, asked.statistics, **where) is not None
    files: dict[str, tuple[int, int, int]] = {}
    for file, _, member_bytes, _, events in found:
        blocks, of_events, size = files.get(file, (0, 0, 0))
        files[file] = (blocks + 1, of_events + events, size + member_bytes)
    sizes = [sum(block[2] for block in blocks) for blocks in (found, every)]
    return Reading(len(found), len(every), sizes[0], sizes[1], headers, files)
