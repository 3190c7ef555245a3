"""Which events are asked for: conditions as they are typed, predicates on rows, and how rows are tested.

    conditions_of(["size<4KiB", "stage=a"]) -> {"size": Between(None, 4096), "stage": ["a"]}
    where(stage="a", size=Between(None, 4096)) -> Where -> partitions.blocks() -> Where.keeps(frame), exact

Over a store runstore/store_query.py makes SQL of the same predicates.

Invariants: a predicate is on values as `schema` has them; "" is null. A line of totals has sums of sizes and times, so
predicates on these (schema.EACH) leave it out.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar

from tailrace.analyzer.store import schema
from tailrace.analyzer.util import nearest, quantities
from tailrace.analyzer.util.lazy import lazy
from tailrace.analyzer.util.types import Bools, Ints, SqlValue
from tailrace.errors import QueryError, UsageError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
else:
    np = lazy("numpy")
    pd = lazy("pandas")


@dataclass(frozen=True)
class Glob:
    """A shell pattern (`*`, `?`, `[...]`; `*` crosses `/`) in place of a value of a text column. It also matches the
    text that equals it, since pipes are called `pipe:[5]`."""

    pattern: str

    def fits(self, texts: Iterable[str]) -> list[bool]:
        """Whether each text fits."""
        match = re.compile(fnmatch.translate(self.pattern)).match
        return [text == self.pattern or match(text) is not None for text in texts]


@dataclass(frozen=True)
class Between:
    """The numbers from `low` on (None: any) and below `high`, in place of a value of a column of numbers."""

    low: int | None = None
    high: int | None = None

    def rows(self, column: pd.Series) -> Bools:
        """Whether each value is one of them; a null is not."""
        values = column.fillna(0).to_numpy(dtype=np.int64)
        keep: Bools = column.notna().to_numpy(copy=True)
        if self.low is not None:
            keep &= values >= self.low
        if self.high is not None:
            keep &= values < self.high
        return keep


@dataclass(frozen=True)
class Not:
    """All but these values; nulls are kept unless "" is one of the values."""

    values: tuple[str | int | Glob, ...]


@dataclass(frozen=True)
class AllOf:
    """Several conditions on one column, all of which must hold."""

    conditions: tuple[object, ...]


Wanted = str | int | Glob | Between | Not
_ENDS = ("r", "w")
Ranges = tuple[str, list[tuple[int, int]], bool]
"""A column of numbers, ranges that its values may be in, ends included, and whether they may be null."""
_LEAST, _MOST = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class Files:
    """A choice of files, however the calls named them: identities, of the first or the second file of a call; names and
    patterns of calls that met no file (a failed open); unnamed: calls without a name, too; uses: identities that were
    used again (edges/identities.py), with the times from which and before which they are meant; few: whether the run
    has few names, so that its events can be grouped by them."""

    identities: frozenset[str]
    names: frozenset[str]
    patterns: tuple[str, ...] = ()
    unnamed: bool = False
    uses: tuple[tuple[str, int, int], ...] = ()
    few: bool = False

    NAMES: ClassVar = ("path", "file", "path2", "file2", "dir")
    COLUMNS: ClassVar = (*NAMES, "ts", "dur", "cat")

    @property
    def _named(self) -> tuple[Wanted, ...]:
        return (*self.names, *(Glob(pattern) for pattern in self.patterns))

    @property
    def of_names(self) -> bool:
        """Whether `fits` can tell: by names and identities alone, without the times of calls."""
        return self.few and not self.uses

    def fits(self, path: SqlValue, file: SqlValue, path2: SqlValue, file2: SqlValue, direction: SqlValue) -> bool:
        """`rows` for one call, None: null."""
        if self.unnamed and path is None:
            return True
        named = self._named
        # The second file of an end of a copy is the other end's.
        files = ((file, path),) if direction in _ENDS else ((file, path), (file2, path2))
        return any(fits(name, named) if identity is None else identity in self.identities for identity, name in files)

    def rows(self, frame: pd.DataFrame) -> Bools:
        """Whether each row is a call on one of these files."""
        named = self._named
        keep = np.zeros(len(frame), dtype=bool)
        every = np.ones(len(frame), dtype=bool)
        for file, path, of in (("file", "path", every), ("file2", "path2", ~_matches(frame["dir"], _ENDS))):
            keep |= of & _matches(frame[file], tuple(self.identities))
            keep |= of & frame[file].isna().to_numpy() & _matches(frame[path], named)
            for identity, since, until in self.uses:
                mine = np.flatnonzero(of & _matches(frame[file], (identity,)))
                when = frame["ts"].to_numpy()[mine]
                above = frame["cat"].iloc[mine].isin(schema.UPPER_LAYERS).to_numpy()  # begins before the open in it
                when = when + np.where(above, frame["dur"].to_numpy()[mine], 0)
                keep[mine[(when >= since) & (when < until)]] = True
        if self.unnamed:
            keep |= frame["path"].isna().to_numpy()
        return keep


@dataclass(frozen=True)
class Where:
    """Predicates on rows, all of which must hold.

    Args:
        values: column -> allowed values, one of which must fit; "" is null. A column may come several times.
        files: the calls on these files; `Run.events` makes it of the values of `path`.
        without: no calls on these files.
        t0: keeps calls that ended at or after it (ns since the epoch).
        t1: keeps calls that started before it.
    """

    values: tuple[tuple[str, tuple[Wanted, ...]], ...] = ()
    t0: int | None = None
    t1: int | None = None
    files: Files | None = None
    without: Files | None = None

    @property
    def needs_each(self) -> bool:
        """Whether no line of totals can match, since a predicate is on the size, time, ... of each call."""
        return any(_needs_each(name, wanted) for name, wanted in self.values)

    def columns(self) -> list[str]:
        """The columns that the predicates need."""
        times = ["ts"] * (self.t1 is not None or self.t0 is not None) + ["dur", "span"] * (self.t0 is not None)
        each = ["lines"] if self.needs_each else []
        files = Files.COLUMNS if self.files or self.without else ()
        return [*times, *(name for name, _ in self.values), *each, *files]

    def ranges(self) -> list[Ranges]:
        """The predicates on numbers and times (`t0` and those of files aside), as ranges."""
        numbers = [(name, *_ranges(wanted)) for name, wanted in self.values if schema.column(name).kind != schema.TEXT]
        if self.t1 is not None:
            numbers.append(("ts", _between(Between(None, self.t1)), False))
        if self.needs_each:
            numbers.append(("lines", [(0, 1)], False))
        return numbers

    @property
    def of_texts(self) -> bool:
        """Whether `ranges` and `fits` are all predicates but `t0`."""
        return all(choice is None or choice.of_names for choice in (self.files, self.without))

    def texts(self) -> list[str]:
        """The columns whose values `fits` takes."""
        named = [name for name, _ in self.values if schema.column(name).kind == schema.TEXT]
        return [*named, *(Files.NAMES if self.files or self.without else ())]

    def fits(self, values: Sequence[SqlValue]) -> bool:
        """Whether the values of `texts` match (None: null)."""
        tests = [wanted for name, wanted in self.values if schema.column(name).kind == schema.TEXT]
        of_file = values[len(tests) :]
        return (
            all(map(fits, values, tests))
            and (self.files is None or self.files.fits(*of_file))
            and (self.without is None or not self.without.fits(*of_file))
        )

    def keeps(self, frame: pd.DataFrame) -> Bools:
        """Whether each row of `frame` matches."""
        keep = np.ones(len(frame), dtype=bool)
        if self.t0 is not None:
            keep &= ends(frame) >= self.t0
        if self.t1 is not None:
            keep &= frame["ts"].to_numpy() < self.t1
        for name, wanted in self.values:
            keep &= _matches(frame[name], wanted)
            if _needs_each(name, wanted):
                keep &= frame["lines"].to_numpy() <= 1
        if self.files is not None:
            keep &= self.files.rows(frame)
        if self.without is not None:
            keep &= ~self.without.rows(frame)
        return keep


def ends(frame: pd.DataFrame) -> Ints:
    """When the call of each row was over, of totals the last one (ns since the epoch)."""
    return frame["ts"].to_numpy() + frame["span"].fillna(frame["dur"]).to_numpy(dtype=np.int64)


def named(wanted: Iterable[Wanted]) -> list[str | int | Glob]:
    """The values and patterns in them, which should exist. What is left out need not: leaving out what is not there
    leaves all."""
    return [one for one in wanted if not isinstance(one, Not | Between) and one != ""]


def all_plain(wanted: Iterable[Wanted]) -> bool:
    """Whether all are values, which SQL can compare."""
    return not any(isinstance(one, Glob | Between | Not) for one in wanted)


def fits(value: SqlValue, wanted: Iterable[Wanted]) -> bool:
    """Whether one value is wanted; None and "" are null."""
    return any(_fits(value, one) for one in wanted)


def _fits(value: SqlValue, one: Wanted) -> bool:
    if isinstance(one, Not):
        return not fits(value, one.values)
    if value is None or value == "":
        return one == ""
    if isinstance(one, Between):
        return (
            isinstance(value, int) and (one.low is None or value >= one.low) and (one.high is None or value < one.high)
        )
    return one.fits([str(value)])[0] if isinstance(one, Glob) else value == one


def _between(one: Between) -> list[tuple[int, int]]:
    low = _LEAST if one.low is None else max(one.low, _LEAST)
    high = _MOST if one.high is None else min(one.high - 1, _MOST)
    return [(low, high)] if low <= high else []


def _ranges(wanted: tuple[Wanted, ...]) -> tuple[list[tuple[int, int]], bool]:
    """The ranges of the numbers that are wanted, and whether null is."""
    found, nulls = list[tuple[int, int]](), "" in wanted
    for one in wanted:
        if isinstance(one, Between):
            found += _between(one)
        elif isinstance(one, Not):
            nulls = nulls or "" not in one.values
            out = sorted({value for value in one.values if isinstance(value, int)})
            for above, below in pairwise([None, *out, None]):
                found += _between(Between(None if above is None else above + 1, below))
        elif isinstance(one, int):
            found += _between(Between(one, one + 1))
    return found, nulls


def _needs_each(name: str, wanted: tuple[Wanted, ...]) -> bool:
    """Whether a predicate is on the value of each call, which a line of totals does not have."""
    return name in schema.EACH - {"ts"} and any(one != "" for one in wanted)


def where(t0: int | None = None, t1: int | None = None, **values: object) -> Where:
    """A `Where` of column=value, column=[values], column=Between(...), column=Not(...) or column=AllOf(...); None is no
    predicate. Raises QueryError on a bad column or value."""
    predicates = []
    for name, value in values.items():
        spec = schema.column(name)
        for condition in value.conditions if isinstance(value, AllOf) else (value,):
            if condition is not None:
                many = condition if isinstance(condition, list | tuple | set | frozenset) else [condition]
                predicates.append((name, tuple(_checked(spec, one) for one in many)))
    for name, bound in (("t0", t0), ("t1", t1)):
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int | np.integer)):
            raise QueryError(f"{name} must be whole ns since the epoch, not {bound!r}")
    return Where(tuple(predicates), None if t0 is None else int(t0), None if t1 is None else int(t1))


def _checked(spec: schema.Column, value: object) -> Wanted:
    if isinstance(value, Not):
        return Not(tuple(_plain(spec, one) for one in value.values))
    if isinstance(value, Between):
        if not _has_order(spec):
            raise QueryError(f"column {spec.name} is text, which has no order: use = or !=")
        return value
    return _plain(spec, value)


def _plain(spec: schema.Column, value: object) -> str | int | Glob:
    if spec.kind == schema.TEXT:
        return value if isinstance(value, Glob) else str(value)
    if spec.nullable and value == "":
        return ""
    if spec.kind == schema.DAY and isinstance(value, Glob):
        return value
    if spec.kind == schema.FLAG:
        text = str(value).lower()
        if text not in ("true", "false"):
            raise QueryError(f"column {spec.name} is true or false, not {value!r}")
        return text
    if isinstance(value, int | np.integer):
        return int(value)
    try:
        return _number(spec, str(value))
    except QueryError as error:
        raise QueryError(f"column {spec.name}: {error}") from None


def _has_order(spec: schema.Column) -> bool:
    return spec.is_number or spec.kind == schema.DAY


def _number(spec: schema.Column, text: str) -> int:
    """A value in the column's unit; of a day its ordinal number (datetime.date). Raises QueryError."""
    if spec.kind != schema.DAY:
        return quantities.whole(text, spec.unit)
    try:
        return date.fromisoformat(text).toordinal()
    except ValueError:
        raise QueryError(f"{text!r} is no day: write it as 2026-11-22") from None


# ---- as they are typed ----

_PATTERN = frozenset("*?[")
_CONDITION = re.compile(r"([^=<>!]+)(!=|<=|>=|=|<|>)(.*)", re.DOTALL)


def conditions_of(pairs: Iterable[str], filters: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """What conditions, and values by column, ask of each column: values that = gives are alternatives, all else must
    hold. Raises UsageError, QueryError."""
    equal: dict[str, list[Any]] = {}
    others: dict[str, list[Any]] = {}
    options = [(schema.column(name), "=", value) for name, values in filters.items() for value in values]
    for column, operator, value in [*map(_condition, pairs), *options]:
        pattern = column.kind in (schema.TEXT, schema.DAY) and _PATTERN & set(value)
        wanted = Glob(value) if pattern else value
        if operator == "=":
            equal.setdefault(column.name, []).append(wanted)
        elif operator == "!=":
            others.setdefault(column.name, []).append(Not((wanted,)))
        else:
            others.setdefault(column.name, []).append(_bound(column, operator, value))
    return {
        name: AllOf((*([equal[name]] if name in equal else []), *others.get(name, [])))
        if name in others
        else equal[name]
        for name in dict.fromkeys([*equal, *others])
    }


def _condition(text: str) -> tuple[schema.Column, str, str]:
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is no condition: write it as COLUMN=VALUE, or with != < <= > >=")
    return schema.column(match[1].strip()), match[2], match[3]


def _bound(column: schema.Column, operator: str, value: str) -> Between:
    if not _has_order(column):
        raise UsageError(f"{column.name}{operator}{value}: text has no order: use = or !=")
    number = _number(column, value)
    if operator in (">", ">="):
        return Between(number + (operator == ">"), None)
    return Between(None, number + (operator == "<="))


def texts_of(value: Any) -> list[Any]:
    """The names and patterns that a value of `where` asks for."""
    parts = getattr(value, "conditions", [value] if value is not None else [])
    return [one for part in parts if isinstance(part, list) for one in part]


def times_of(t0_ns: int | None, since: float | None, until: float | None) -> dict[str, int]:
    """The bounds `t0` and `t1` of `Run.events` for times in s from the run's first event."""
    bounds = {"t0": since, "t1": until}
    return {name: (t0_ns or 0) + round(bound * 1e9) for name, bound in bounds.items() if bound is not None}


def check_times(since: float | None, until: float | None, sign: str = "") -> None:
    """sign: what stands before their names in a message. Raises UsageError."""
    for name, bound in (("since", since), ("until", until)):
        if bound is not None and not isfinite(bound):
            raise UsageError(f"{sign}{name} is {bound}: give a finite number of seconds")


def check_known(place: object, name: str, wanted: Iterable[str | int | Glob], known: Sequence[str | int]) -> None:
    """Raises QueryError for a value or pattern that no event has. known: the values of the column, sorted."""
    for value in wanted:
        if value not in known and not (isinstance(value, Glob) and any(value.fits(map(str, known)))):
            text = value.pattern if isinstance(value, Glob) else value
            shown = ", ".join(map(repr, known[:20])) + (", ..." if len(known) > 20 else "")
            near = nearest.hint(str(text), map(str, known))
            raise QueryError(f"{place}: there is no {name} {text!r}{near}; there is {shown or 'none'}")


def _matches(column: pd.Series, wanted: tuple[Wanted, ...]) -> Bools:
    keep: Bools = _equal(column, tuple(one for one in wanted if not isinstance(one, Between | Not)))
    for one in wanted:
        if isinstance(one, Between):
            keep = keep | one.rows(column)
        elif isinstance(one, Not):
            keep = keep | ~_equal(column, one.values)
    return keep


def _equal(column: pd.Series, wanted: tuple[Wanted, ...]) -> Bools:
    if not isinstance(column.dtype, pd.CategoricalDtype):
        equal: Bools = column.isin([one for one in wanted if one != ""]).to_numpy(dtype=bool)
        return equal | column.isna().to_numpy() if "" in wanted else equal
    categories = column.cat.categories
    plain = {value for value in wanted if isinstance(value, str)}
    fits = [value.fits(categories) for value in wanted if isinstance(value, Glob)]
    good = [text in plain or any(of) for text, *of in zip(categories, *fits, strict=True)]
    # Code -1 is null and selects the last entry.
    chosen = np.array([*good, "" in plain], dtype=bool)
    return chosen[column.cat.codes.to_numpy()]
