"""`tailrace query STORE`: the accesses of all runs, grouped and summed, as the options of `tailrace query` ask.

    columns, conditions, aggregates --> one SQL query with parameters over edges, runs and files

A row is an access (docs/store.md, `edges`): what a process in a task moved of a version of a data file in one
direction. So sums of bytes and calls are exact, and what only events have (times of single calls, their names) is
asked of the runs.

Invariants: no text of the caller becomes SQL: columns and functions are taken from tables, values are parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tailrace.errors import QueryError

COLUMNS = {
    **{
        name: f"e.{name}"
        for name in ("workflow", "stage", "task", "host", "pid", "start", "program", "file", "version")
    },
    **{name: f"e.{name}" for name in ("direction", "bytes", "calls", "first_ns", "last_ns")},
    **{name: f"f.{name}" for name in ("path", "fstype", "mount")},
    **{name: f'r."{name}"' for name in ("user", "project", "account", "queue", "job", "application", "day", "owner")},
    "failed": "r.failed",
    "run": "r.path",
}
"""Column -> its expression; `run` is the run's directory."""
_NUMBERS = frozenset(("pid", "version", "bytes", "calls", "first_ns", "last_ns", "owner"))
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
_CONDITION = re.compile(r"([a-z_]+)(!=|<=|>=|=|<|>)(.*)", re.DOTALL)
_FROM = """edges e JOIN runs r USING (owner, run) LEFT JOIN files f
  ON f.owner = e.owner AND f.run = e.run AND f.file = e.file"""


@dataclass(frozen=True)
class Question:
    """A query and its parameters."""

    sql: str
    values: list[str | int | bool]


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
    if columns:
        picked = [f'{_column(name)} AS "{name}"' for name in columns]
        labels, groups = list(columns), ""
    else:
        made = [_aggregate(text) for text in aggregates or ("count",)]
        picked = [*(f'{_column(name)} AS "{name}"' for name in by), *(f'{sql} AS "{label}"' for label, sql in made)]
        labels, groups = [*by, *(label for label, _ in made)], " GROUP BY ALL" if by else ""
    tests, values = _tests(conditions, filters or {})
    text = f"SELECT {', '.join(picked)} FROM {_FROM}" + (f" WHERE {' AND '.join(tests)}" if tests else "") + groups
    order = _order(sort, labels, list(by))
    return Question(text + order + (f" LIMIT {int(limit)}" if limit is not None else ""), values)


def _column(name: str) -> str:
    if name not in COLUMNS:
        raise QueryError(f"accesses in a store have no column {name!r}; they have {', '.join(COLUMNS)}")
    return COLUMNS[name]


def _aggregate(text: str) -> tuple[str, str]:
    """Label and expression."""
    how, _, name = text.partition(":")
    if text == "count":
        return "count", "count(*)"
    if how not in HOW or not name:
        known = ", ".join(["count", *(f"{one}:COLUMN" for one in HOW)])
        raise QueryError(f"over a store there is no aggregate {text!r}; there are {known}")
    if name not in _NUMBERS and how != "nunique":
        raise QueryError(f"column {name} is no number, so it can only be counted: nunique:{name}")
    return f"{how}_{name}", HOW[how].format(_column(name))


def _tests(conditions: Iterable[str], filters: Mapping[str, Sequence[str]]) -> tuple[list[str], list[str | int | bool]]:
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
            test, more = _test(name, sign, value)
            either.append(test)
            values += more
        tests.append(f"({' OR '.join(either)})")
    for name, sign, value in single:
        test, more = _test(name, sign, value)
        tests.append(test)
        values += more
    return tests, values


def _test(name: str, sign: str, value: str) -> tuple[str, list[str | int | bool]]:
    column = _column(name)
    if name in _NUMBERS:
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
    elif name in ("path", "run", "program"):
        test, values = f"({column} = ? OR ends_with({column}, ?))", [value, f"/{value}"]
    found: list[str | int | bool] = [*values]
    return (test if sign == "=" else f"NOT coalesce({test}, false)"), found


def _order(sort: str | None, labels: list[str], by: list[str]) -> str:
    if sort is None:
        return " ORDER BY " + ", ".join(str(n + 1) for n in range(len(by))) if by else ""
    name = sort.removeprefix("-")
    if name not in labels:
        raise QueryError(f"there is no column {name!r} to sort by; there is {', '.join(labels)}")
    return f" ORDER BY {labels.index(name) + 1} {'ASC' if sort.startswith('-') else 'DESC'} NULLS LAST"
