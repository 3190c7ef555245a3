"""`tailrace query STORE`: the accesses of all runs, or their events, grouped and summed, as the options of
`tailrace query` ask.

    columns, conditions, aggregates --> one SQL query with parameters over edges or events, runs and files

A row is an access (docs/store.md, `edges`): what a process in a task moved of a version of a data file in one
direction. Where a column is asked for that only events have (name, cat, ts, dur, size, ...), a row is an event, of the
runs that were indexed with --events; `count`, means and sums are then those of store/query.py.

Invariants: no text of the caller becomes SQL: columns and functions are taken from tables, values are parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tailrace.analyzer.runstore.columns import EVENTS, INT, TABLES
from tailrace.analyzer.store import figures, schema
from tailrace.errors import QueryError

_OF_RUN = {
    **{name: f'r."{name}"' for name in ("user", "project", "account", "queue", "application", "day", "owner")},
    "failed": "r.failed",
    "run": "r.path",
}
_OF_FILE = {name: f"f.{name}" for name in ("fstype", "mount")}
COLUMNS = {
    **{
        name: f"e.{name}"
        for name in ("workflow", "stage", "task", "host", "pid", "start", "program", "file", "version")
    },
    **{name: f"e.{name}" for name in ("direction", "bytes", "calls", "first_ns", "last_ns")},
    "path": "f.path",
    **_OF_FILE,
    **_OF_RUN,
    "job": "r.job",
}
"""Column of an access -> its expression; `run` is the run's directory."""
_OWN = {name: f'e."{name}"' for name in TABLES[EVENTS].columns if name not in ("run", "entry")}
EVENT_COLUMNS = {**_OWN, "direction": 'e."dir"', "bytes": 'e."size"', **_OF_FILE, **_OF_RUN}
"""Column of an event -> its expression."""
_NUMBERS = frozenset(("pid", "version", "bytes", "calls", "first_ns", "last_ns", "owner"))
_EVENT_NUMBERS = frozenset(name for name, column in TABLES[EVENTS].columns.items() if column.kind == INT)
_EVENT_NUMBERS |= {"bytes", "owner"}
HOW = {
    "sum": "sum({})",
    "mean": "avg({})",
    "min": "min({})",
    "max": "max({})",
    "nunique": "count(DISTINCT {})",
    "p50": "quantile_cont({}, 0.5)",
    "p95": "quantile_cont({}, 0.95)",
    "p99": "quantile_cont({}, 0.99)",
}
_CONDITION = re.compile(r"([a-z_0-9]+)(!=|<=|>=|=|<|>)(.*)", re.DOTALL)
_JOINS = {
    "r.": " JOIN runs r USING (owner, run)",
    "f.": " LEFT JOIN files f ON f.owner = e.owner AND f.run = e.run AND f.file = e.file",
}
_UPPER = ", ".join(f"'{name}'" for name in sorted(schema.UPPER_LAYERS))
TOTALS = "lines of totals have no single calls: ask for sum or mean, or for --where lines=1"


@dataclass(frozen=True)
class Question:
    """A query and its parameters; row: what its rows are made of, access or event."""

    sql: str
    values: list[str | int | bool]
    row: str


@dataclass(frozen=True)
class _Source:
    """Accesses or events. one_layer: sums are of calls of one layer already."""

    rows: str
    table: str
    columns: Mapping[str, str]
    numbers: frozenset[str]
    one_layer: bool = True

    @property
    def of_events(self) -> bool:
        return self.table == EVENTS

    def column(self, name: str) -> str:
        """The expression of a column. Raises QueryError."""
        if name not in self.columns:
            raise QueryError(f"{self.rows} in a store have no column {name!r}; they have {', '.join(self.columns)}")
        return self.columns[name]

    def figure(self, how: str, name: str) -> str:
        """The expression of an aggregate."""
        column = self.column(name)
        if self.of_events and name in schema.OF_CALL:
            # As in a run: the written end of a copy is no call (store/query.py).
            column = f"CASE WHEN e.lines > 0 THEN {column} END"
        plain = HOW[how].format(column)
        if not self.of_events or name not in self.numbers or how == "nunique":
            return plain
        key = {"bytes": "size"}.get(name, name)
        test = "true" if self.one_layer or key not in figures.LAYERED else f"e.cat NOT IN ({_UPPER})"
        if how == "sum":
            return f"coalesce(sum({column}) FILTER ({test}), 0)"
        if how == "mean":
            return f"sum({column}) FILTER ({test}) / sum(e.lines) FILTER ({test} AND {column} IS NOT NULL)"
        if key in schema.EACH:
            return HOW[how].format(f"CASE WHEN e.lines > 1 THEN error('{TOTALS}') ELSE {column} END")
        return plain


def question(
    *,
    by: Sequence[str] = (),
    aggregates: Sequence[str] = (),
    columns: Sequence[str] = (),
    conditions: Iterable[str] = (),
    filters: Mapping[str, Sequence[str]] | None = None,
    sort: str | None = None,
    limit: int | None = None,
) -> Question:
    """The query of the options. filters: column -> accepted values. Raises QueryError."""
    wanted, conditions = filters or {}, list(conditions)
    source = _source(by, aggregates, columns, conditions, wanted)
    if columns:
        picked = [f'{source.column(name)} AS "{name}"' for name in columns]
        labels, groups = list(columns), ""
    else:
        made = [_aggregate(source, text) for text in aggregates or ("count",)]
        picked = [
            *(f'{source.column(name)} AS "{name}"' for name in by),
            *(f'{sql} AS "{label}"' for label, sql in made),
        ]
        labels, groups = [*by, *(label for label, _ in made)], " GROUP BY ALL" if by else ""
    tests, values = _tests(source, conditions, wanted)
    used = " ".join([*picked, *tests])
    joins = "".join(text for name, text in _JOINS.items() if not source.of_events or name in used)
    text = f"SELECT {', '.join(picked)} FROM {source.table} e{joins}"
    text += (f" WHERE {' AND '.join(tests)}" if tests else "") + groups
    order = _order(sort, labels, list(by))
    return Question(
        text + order + (f" LIMIT {int(limit)}" if limit is not None else ""),
        values,
        "event" if source.of_events else "access",
    )


def _source(
    by: Sequence[str],
    aggregates: Sequence[str],
    columns: Sequence[str],
    conditions: Sequence[str],
    filters: Mapping[str, Sequence[str]],
) -> _Source:
    """Accesses where they have all columns that are asked for, else events."""
    tested = [match[1] for text in conditions if (match := _CONDITION.fullmatch(text))]
    tested += [name for name, values in filters.items() if values]
    summed = [name for text in aggregates if (name := text.partition(":")[2])]
    asked = {*by, *columns, *tested, *summed}
    if all(name in COLUMNS or name not in EVENT_COLUMNS for name in asked):
        return _Source("accesses", "edges", COLUMNS, _NUMBERS)
    one_layer = bool({"cat", "name", "object"} & {*by, *tested})
    return _Source("events", EVENTS, EVENT_COLUMNS, _EVENT_NUMBERS, one_layer)


def _aggregate(source: _Source, text: str) -> tuple[str, str]:
    """Label and expression."""
    how, _, name = text.partition(":")
    if text == "count":
        return "count", "coalesce(sum(e.lines), 0)::BIGINT" if source.of_events else "count(*)"
    if how not in HOW or not name:
        known = ", ".join(["count", *(f"{one}:COLUMN" for one in HOW)])
        raise QueryError(f"over a store there is no aggregate {text!r}; there are {known}")
    expression = source.figure(how, name)
    if name not in source.numbers and how != "nunique":
        raise QueryError(f"column {name} is no number, so it can only be counted: nunique:{name}")
    return f"{how}_{name}", expression


def _tests(
    source: _Source, conditions: Iterable[str], filters: Mapping[str, Sequence[str]]
) -> tuple[list[str], list[str | int | bool]]:
    test_of = partial(_test, source)
    alternatives = {name: [("=", value) for value in wanted] for name, wanted in filters.items() if wanted}
    single: list[tuple[str, str, str]] = []
    for text in conditions:
        match = _CONDITION.fullmatch(text)
        if match is None:
            raise QueryError(f"--where {text!r}: write it as COLUMN=VALUE, with = != < <= > or >=")
        name, sign, value = match[1], match[2], match[3]
        if sign == "=":
            alternatives.setdefault(name, []).append((sign, value))
        else:
            single.append((name, sign, value))
    tests, values = [], []
    for name, wanted in alternatives.items():
        either = []
        for sign, value in wanted:
            test, more = test_of(name, sign, value)
            either.append(test)
            values += more
        tests.append(f"({' OR '.join(either)})")
    for name, sign, value in single:
        test, more = test_of(name, sign, value)
        tests.append(test)
        values += more
    return tests, values


def _test(source: _Source, name: str, sign: str, value: str) -> tuple[str, list[str | int | bool]]:
    column = source.column(name)
    if name in source.numbers:
        if not re.fullmatch(r"-?\d{1,19}", value):
            raise QueryError(f"column {name} is a number: {value!r} is none")
        return f"{column} {sign} ?", [int(value)]
    if name == "failed":
        if value not in ("true", "false") or sign not in ("=", "!="):
            raise QueryError(f"failed is true or false, not {value!r}")
        return f"{column} {sign} ?", [value == "true"]
    if sign not in ("=", "!="):
        return f"{column} {sign} ?", [value]
    test, values = f"{column} = ?", [value]
    if value == "":
        test, values = f"{column} IS NULL", []
    elif set(value) & set("*?["):
        test, values = f"({column} = ? OR {column} GLOB ?)", [value, value]
    elif name in ("path", "path2", "run", "program"):
        test, values = f"({column} = ? OR ends_with({column}, ?))", [value, f"/{value}"]
    found: list[str | int | bool] = [*values]
    return (test if sign == "=" else f"NOT coalesce({test}, false)"), found


def _order(sort: str | None, labels: list[str], by: list[str]) -> str:
    if sort is None:
        return " ORDER BY " + ", ".join(str(n + 1) for n in range(len(by))) if by else ""
    name = sort.removeprefix("-")
    if name not in labels:
        raise QueryError(f"there is no column {name!r} to sort by; there is {', '.join(labels)}")
    at = labels.index(name) + 1
    # Rows that are equal in it, too, come in one order, and the same of them are within a limit.
    others = "".join(f", {n}" for n in range(1, len(labels) + 1) if n != at)
    return f" ORDER BY {at} {'ASC' if sort.startswith('-') else 'DESC'} NULLS LAST{others}"
