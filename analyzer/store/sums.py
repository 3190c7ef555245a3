"""Totals of events by groups, without pandas: figures that the native reader folds block by block.

    _native.sum_files -> groups of a partition -> one group a key -> rows

This is how query.py answers all questions for totals but those of files that names alone don't tell, and those that
divide lines of totals among ranges (loader.sums). pandas takes longer to import than most of these questions take to
answer, and would make a frame of the events first.

Invariant: the rows are those of the way over frames, which serves everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tailrace import _native
from tailrace.analyzer.store import engine, figures, group_keys, schema
from tailrace.analyzer.store.figures import COUNT, Aggregate
from tailrace.analyzer.store.loader import CountedSource, Figures, Group, Values
from tailrace.analyzer.util.types import SqlValue
from tailrace.errors import QueryError

_MOST = 2**63 - 1
LAYER = group_keys.Key("_layer", group_keys.COLUMN, "cat")
"""The layer of an event."""
_Key = tuple[SqlValue, ...]


@dataclass
class _Figure:
    """Of a column in a group."""

    sum: int = 0
    whole: int = 0
    known: int = 0
    least: int | None = None
    most: int | None = None


@dataclass
class _Sums:
    """A group: its calls, its lines that stand for several calls, the figures of its columns, the values of others."""

    calls: int = 0
    totals: int = 0
    of: dict[str, _Figure] = field(default_factory=dict)
    values: dict[str, list[Values]] = field(default_factory=dict)

    def add(
        self,
        calls: int,
        totals: int,
        figured: Iterable[tuple[str, Figures]] = (),
        gathered: Iterable[tuple[str, Values]] = (),
    ) -> None:
        self.calls += calls
        self.totals += totals
        for name, values in gathered:
            self.values.setdefault(name, []).append(values)
        for name, (total, whole, known, least, most) in figured:
            one = self.of.setdefault(name, _Figure())
            one.sum += total
            one.whole += whole
            one.known += known
            if least is not None and most is not None:
                one.least = least if one.least is None else min(one.least, least)
                one.most = most if one.most is None else max(one.most, most)


@dataclass(frozen=True)
class Summed:
    """The rows of a query, sorted by their keys.

    Attributes:
        rows: the keys and the figures of each group.
        some: whether a row is of events, or of ends of copies.
        totals: lines of totals in figures that need a value for each call.
        left_out: layers whose calls are not in a sum, since they are recorded again below.
    """

    rows: list[tuple[Any, ...]]
    some: bool
    totals: int = 0
    left_out: tuple[str, ...] = ()


def summed(run: CountedSource, by: Sequence[str], aggregates: Sequence[Aggregate], **where: Any) -> Summed | None:
    """The answer of `query.aggregate`; None where it takes the events themselves. Imports no pandas.

    Raises QueryError and TraceError like it.
    """
    keys = group_keys.keys_of(run, by)
    values = list(dict.fromkeys(name for a in aggregates for _, name in a.pieces()))
    gathered = list(dict.fromkeys(a.column for a in aggregates if a.how in figures.GATHERED and a.column is not None))
    of_layers = needs_layer(by, aggregates)
    asked = [*keys, LAYER] if of_layers else keys
    plain = all(key.kind == group_keys.COLUMN for key in keys) and all(a == COUNT for a in aggregates)
    known = run.counts(by, **where) if plain else None
    tasks = run.sums(asked, values, gathered, blocks=None if known is None else known.rest, **where)
    if tasks is None:
        return None
    groups: dict[_Key, _Sums] = {}
    for key, calls in known.groups.items() if known is not None else ():
        groups.setdefault(key, _Sums()).add(calls, 0)
    for part in engine.stream(tasks, ahead=len(tasks)):
        _fold(groups, part, values, gathered, of_layers)
    if any(key.of_each for key in keys) and any(found.totals for found in groups.values()):
        return None
    left_out: tuple[str, ...] = ()
    if of_layers and groups:
        layers = sorted({str(key[-1] or "") for key in groups})
        left_out = others(layers, where)
        groups = {key[:-1]: found for key, found in groups.items() if (key[-1] or "") == layers[0]}
    each = any(a.column in schema.EACH and a.how not in ("count", *figures.SUMMING) for a in aggregates)
    totals = sum(found.totals for found in groups.values()) if each else 0
    if not by and not groups:
        row = tuple(0 if a.how in figures.ZERO else None for a in aggregates)
        return Summed([row], False)
    texts = [key.is_text for key in keys]
    ordered = sorted(groups.items(), key=lambda row: [_place(*one) for one in zip(row[0], texts, strict=True)])
    rows = _rows(ordered, keys, aggregates)
    return Summed(rows, bool(groups), totals, left_out)


def needs_layer(by: Sequence[str], aggregates: Sequence[Aggregate]) -> bool:
    """Whether a sum might have a byte twice, so that layers have to be told apart."""
    doubled = any(a.how in figures.SUMMING and {a.column, a.per} & figures.LAYERED for a in aggregates)
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
    groups: dict[_Key, _Sums], part: Iterable[Group], values: Sequence[str], gathered: Sequence[str], of_layers: bool
) -> None:
    for key, calls, totals, found, listed in part:
        if of_layers:
            key = (*key[:-1], key[-1] if key[-1] in schema.UPPER_LAYERS else None)
        group = groups.get(key)
        if group is None:
            group = groups[key] = _Sums()
        group.add(calls, totals, zip(values, found, strict=True), zip(gathered, listed, strict=True))


def _place(value: SqlValue, is_text: bool) -> tuple[int, SqlValue]:
    """The place of a key among others of its column: null text first, null numbers last."""
    if value is None:
        return (0, "") if is_text else (1, 0)
    return (1, value) if is_text else (0, value)


def _rows(
    groups: list[tuple[_Key, _Sums]], keys: Sequence[group_keys.Key], aggregates: Sequence[Aggregate]
) -> list[tuple[Any, ...]]:
    wholes = {a: _whole([found for _, found in groups], a) for a in aggregates if a.how == "share"}
    width = next((key.width for key in keys if key.kind == group_keys.TIMES), None)
    return [
        (
            *(_shown(value, one) for value, one in zip(key, keys, strict=True)),
            *(_figure(found, a, wholes.get(a, 0), width) for a in aggregates),
        )
        for key, found in groups
    ]


def _shown(value: SqlValue, key: group_keys.Key) -> SqlValue:
    """A key in the result: a range of time by when it begins, in s."""
    return float(value) * key.width / 1e9 if key.kind == group_keys.TIMES and isinstance(value, int) else value


def _whole(groups: list[_Sums], a: Aggregate) -> int:
    return sum(found.calls if a.column is None else found.of[a.column].sum for found in groups)


def _figure(group: _Sums, a: Aggregate, whole: int, width_ns: int | None) -> int | float | None:
    """whole: what a share is of; width_ns: of the ranges of time that the groups are in, if they are."""
    if a.how == "count":
        return _held(group.calls)
    if a.column is None:  # the share of events
        return _divided(group.calls, whole)
    if a.how in figures.GATHERED:
        return _gathered(group.values.get(a.column, []), a.how)
    of = group.of[a.column]
    if a.how == "sum":
        return _held(of.sum)
    if a.how == "min":
        return of.least
    if a.how == "max":
        return of.most
    if a.how == "mean":
        return _divided(of.whole, of.known)
    if a.how == "share":
        return _divided(of.sum, whole)
    if a.how == "rate":
        return _divided(of.sum, (group.of["dur"].sum if width_ns is None else width_ns) / 1e9)
    assert a.per is not None
    return _divided(of.sum, group.of[a.per].sum)


def _gathered(lists: Sequence[Values], how: str) -> int | float | None:
    numbers = [values for values in lists if isinstance(values, tuple)]
    if how != "nunique":
        return _native.quantile(numbers, figures.QUANTILES[how])
    texts = {text for values in lists if isinstance(values, list) for text in values}
    return len(texts) + _native.distinct([values for values, _ in numbers])


def _held(number: int) -> int:
    """In the range of its column, which only sums of a damaged trace exceed."""
    return max(-_MOST - 1, min(number, _MOST))


def _divided(above: int, below: float) -> float | None:
    """Null where there is nothing to divide by."""
    return float(above) / float(below) if below > 0 else None
