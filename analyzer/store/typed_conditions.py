"""Conditions on columns, and times, as they are typed: `size<4KiB`, `stage=align`, `name!=read`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

from tailrace.analyzer.store import conditions, schema
from tailrace.analyzer.util import quantities
from tailrace.errors import UsageError

_PATTERN = frozenset("*?[")
_CONDITION = re.compile(r"([^=<>!]+)(!=|<=|>=|=|<|>)(.*)", re.DOTALL)


def conditions_of(pairs: Iterable[str], filters: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """What conditions, and values by column, ask of each column: values that = gives are alternatives, all else must
    hold. Raises UsageError, QueryError."""
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


def _condition(text: str) -> tuple[schema.Column, str, str]:
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is no condition: write it as COLUMN=VALUE, or with != < <= > >=")
    return schema.column(match[1].strip()), match[2], match[3]


def _bound(column: schema.Column, operator: str, value: str) -> conditions.Between:
    if column.kind == schema.TEXT:
        raise UsageError(f"{column.name}{operator}{value}: text has no order: use = or !=")
    number = quantities.whole(value, column.unit)
    if operator in (">", ">="):
        return conditions.Between(number + (operator == ">"), None)
    return conditions.Between(None, number + (operator == "<="))


def texts_of(value: Any) -> list[Any]:
    """The names and patterns that a value of `where` asks for."""
    parts = getattr(value, "conditions", [value] if value is not None else [])
    return [one for part in parts if isinstance(part, list) for one in part]


def times_of(t0_ns: int | None, since: float | None, until: float | None, sign: str = "") -> dict[str, int]:
    """The bounds `t0` and `t1` of `Run.events` for times in s from the run's first event. sign: what stands
    before their names in a message. Raises UsageError."""
    bounds = {"t0": ("since", since), "t1": ("until", until)}
    for name, bound in bounds.values():
        if bound is not None and not isfinite(bound):
            raise UsageError(f"{sign}{name} is {bound}: give a finite number of seconds")
    return {name: (t0_ns or 0) + round(bound * 1e9) for name, (_, bound) in bounds.items() if bound is not None}
