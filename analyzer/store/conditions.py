"""Which events are asked for: predicates on rows, checked against the columns, and applied to frames.

    where(stage="a", size=...) -> Where -> the loader's choice of blocks -> Where.rows(frame), exact

Invariants: a predicate is on values as `schema` has them; "" is null.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tailrace.analyzer.store import schema
from tailrace.analyzer.util.lazy import lazy
from tailrace.analyzer.util.types import Bools, Ints
from tailrace.errors import QueryError

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


Wanted = str | int | Glob


@dataclass(frozen=True)
class Files:
    """A choice of files, however the calls named them: identities, of the first or the second file of a call; names and
    patterns of calls that met no file (a failed open); unnamed: calls without a name, too; uses: identities that were
    used again (edges/identities.py), with the times from which and before which they are meant."""

    identities: frozenset[str]
    names: frozenset[str]
    patterns: tuple[str, ...] = ()
    unnamed: bool = False
    uses: tuple[tuple[str, int, int], ...] = ()

    COLUMNS: ClassVar = ("path", "file", "path2", "file2", "ts", "dur", "cat")

    def rows(self, frame: pd.DataFrame) -> Bools:
        """Whether each row is a call on one of these files."""
        named: tuple[Wanted, ...] = (*self.names, *(Glob(pattern) for pattern in self.patterns))
        keep = np.zeros(len(frame), dtype=bool)
        for file, path in (("file", "path"), ("file2", "path2")):
            keep |= _matches(frame[file], tuple(self.identities))
            keep |= frame[file].isna().to_numpy() & _matches(frame[path], named)
            for identity, since, until in self.uses:
                mine = np.flatnonzero(_matches(frame[file], (identity,)))
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
        values: column -> allowed values; "" is null.
        files: the calls on these files; `Run.events` makes it of the values of `path`.
        t0: keeps calls that ended at or after it (ns since the epoch).
        t1: keeps calls that started before it.
    """

    values: tuple[tuple[str, tuple[Wanted, ...]], ...] = ()
    t0: int | None = None
    t1: int | None = None
    files: Files | None = None

    def columns(self) -> list[str]:
        """The columns that the predicates need."""
        times = ["ts"] * (self.t1 is not None or self.t0 is not None) + ["dur", "span"] * (self.t0 is not None)
        return [*times, *(name for name, _ in self.values), *(Files.COLUMNS if self.files else ())]

    def rows(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The rows of `frame` that match."""
        keep = np.ones(len(frame), dtype=bool)
        if self.t0 is not None:
            keep &= ends(frame) >= self.t0
        if self.t1 is not None:
            keep &= frame["ts"].to_numpy() < self.t1
        for name, wanted in self.values:
            keep &= _matches(frame[name], wanted)
        if self.files is not None:
            keep &= self.files.rows(frame)
        return frame if keep.all() else frame[keep].reset_index(drop=True)


def ends(frame: pd.DataFrame) -> Ints:
    """When the call of each row was over, of totals the last one (ns since the epoch)."""
    over: Ints = frame["ts"].to_numpy() + frame["span"].fillna(frame["dur"]).to_numpy(dtype=np.int64)
    return over


def where(t0: int | None = None, t1: int | None = None, **values: object) -> Where:
    """A `Where` of column=value or column=[values]; None is no predicate. Raises QueryError on a bad column or
    value."""
    predicates = []
    for name, value in values.items():
        if value is None:
            continue
        spec = schema.column(name)
        many = value if isinstance(value, list | tuple | set | frozenset) else [value]
        predicates.append((name, tuple(_checked(spec, one) for one in many)))
    for name, bound in (("t0", t0), ("t1", t1)):
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int | np.integer)):
            raise QueryError(f"{name} must be whole ns since the epoch, not {bound!r}")
    return Where(tuple(predicates), None if t0 is None else int(t0), None if t1 is None else int(t1))


def _checked(spec: schema.Column, value: object) -> Wanted:
    if spec.kind == schema.TEXT:
        return value if isinstance(value, Glob) else str(value)
    try:
        return int(value) if isinstance(value, int | np.integer) else int(str(value))
    except ValueError:
        raise QueryError(f"column {spec.name} holds whole numbers, {value!r} is none") from None


def _matches(column: pd.Series, wanted: tuple[Wanted, ...]) -> Bools:
    if not isinstance(column.dtype, pd.CategoricalDtype):
        return column.isin(list(wanted)).to_numpy(dtype=bool)
    categories = column.cat.categories
    plain = {value for value in wanted if isinstance(value, str)}
    fits = [value.fits(categories) for value in wanted if isinstance(value, Glob)]
    good = [text in plain or any(of) for text, *of in zip(categories, *fits, strict=True)]
    # Code -1 is null and selects the last entry.
    chosen = np.array([*good, "" in plain], dtype=bool)
    keep: Bools = chosen[column.cat.codes.to_numpy()]
    return keep
