"""What `tailrace query` is asked for: conditions on columns, and times, as they are typed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import isfinite
from typing import TYPE_CHECKING, Any

from tailrace.errors import UsageError

if TYPE_CHECKING:
    from tailrace.analyzer.store.conditions import Between
    from tailrace.analyzer.store.schema import Column

_PATTERN = frozenset("*?[")
_CONDITION = re.compile(r"([^=<>!]+)(!=|<=|>=|=|<|>)(.*)", re.DOTALL)


def conditions_of(pairs: Iterable[str], filters: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    """What `--where` and the options ask of each column. Raises UsageError, QueryError."""
    from tailrace.analyzer.store import conditions, schema

    equal: dict[str, list[Any]] = {}
    others: dict[str, list[Any]] = {}
    options = [(schema.column(name), "=", value) for name, values in filters.items() for value in values]
    for column, operator, value in [*map(_condition, pairs), *options]:
        pattern = column.kind == schema.TEXT and _PATTERN & set(value)
        wanted = conditions.Glob(value) if pattern else value
        if operator == "=":
            equal.setdefault(column.name, []).append(wanted)
        elif operator == "!=":
            others.setdefault(column.name, []).append(conditions.Not((wanted,)))
        else:
            bound = _bound(column, operator, value)
            others.setdefault(column.name, []).append(bound)
    return {
        name: conditions.AllOf((*([equal[name]] if name in equal else []), *others.get(name, [])))
        if name in others
        else equal[name]
        for name in dict.fromkeys([*equal, *others])
    }


def _condition(text: str) -> tuple[Column, str, str]:
    from tailrace.analyzer.store import schema

    match = _CONDITION.fullmatch(text)
    if match is None:
        raise UsageError(f"--where {text!r} is no condition: write it as COLUMN=VALUE, or with != < <= > >=")
    return schema.column(match[1].strip()), match[2], match[3]


def _bound(column: Column, operator: str, value: str) -> Between:
    from tailrace.analyzer.store import conditions, schema
    from tailrace.analyzer.util import quantities

    if column.kind == schema.TEXT:
        raise UsageError(f"--where {column.name}{operator}{value}: text has no order: use = or !=")
    number = quantities.whole(value, column.unit)
    if operator in (">", ">="):
        return conditions.Between(number + (operator == ">"), None)
    return conditions.Between(None, number + (operator == "<="))


def texts_of(value: Any) -> list[Any]:
    """The names and patterns that a value of `where` asks for."""
    parts = getattr(value, "conditions", [value] if value is not None else [])
    return [one for part in parts if isinstance(part, list) for one in part]


def times_of(run: Any, since: float | None, until: float | None) -> dict[str, int]:
    start = run.t0_ns or 0
    bounds = {"t0": ("--since", since), "t1": ("--until", until)}
    for option, bound in bounds.values():
        if bound is not None and not isfinite(bound):
            raise UsageError(f"{option} is {bound}: give a finite number of seconds")
    return {name: start + round(bound * 1e9) for name, (_, bound) in bounds.items() if bound is not None}
