"""Batches of events joined to one frame: each value is copied once, to where it stays.

    batches, one after another --add--> arrays with room for all --frame--> the whole

Invariants: rows keep their order, categories the order in which they come first; the dtypes are those of
`schema.frame_of`. pandas' own concat would make objects of categories that differ, and needs all at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from tailrace.analyzer.store import schema
from tailrace.analyzer.util.lazy import lazy
from tailrace.analyzer.util.types import Array

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import pyarrow as pa
else:
    np = lazy("numpy")
    pd = lazy("pandas")
    pa = lazy("pyarrow")


def joined(batches: Iterable[pa.RecordBatch], columns: Sequence[str], rows: int) -> pd.DataFrame:
    """One or more batches with these columns as one frame. rows: how many there will be, 0 where that is not known;
    others cost time, no more."""
    left = iter(batches)
    first = next(left)
    second = next(left, None)
    if second is None:
        return schema.frame_of(first)
    parts: dict[str, _Column] = {name: _column(name)(schema.column(name), rows) for name in columns}
    count = 0
    for batch in chain((first, second), left):
        for name, part in parts.items():
            part.add(batch.column(name), count)
        count += batch.num_rows
    index = pd.RangeIndex(count)
    series = {name: pd.Series(part.values(count), index, copy=False) for name, part in parts.items()}
    return pd.DataFrame(series, index, copy=False)


class _Column(Protocol):
    """A column of the whole."""

    def __init__(self, spec: schema.Column, rows: int) -> None:
        """An empty one, with room for so many rows."""

    def add(self, values: pa.Array, at: int) -> None:
        """Puts the values of a batch behind the `at` rows that are there."""

    def values(self, count: int) -> pd.Categorical | pd.arrays.IntegerArray | Array:
        """The first `count` values."""


def _column(name: str) -> type[_Column]:
    spec = schema.column(name)
    return _Texts if spec.kind == schema.TEXT else _Nullable if spec.nullable else _Integers


class _Integers:
    def __init__(self, spec: schema.Column, rows: int) -> None:
        self._values = np.empty(rows, dtype=spec.kind)

    def add(self, values: pa.Array, at: int) -> None:
        self._values = _with_room(self._values, at, len(values))
        self._values[at : at + len(values)] = values.to_numpy()

    def values(self, count: int) -> Array:
        return self._values[:count]


class _Nullable:
    def __init__(self, spec: schema.Column, rows: int) -> None:
        self._values = np.empty(rows, dtype=spec.kind)
        self._null = np.empty(rows, dtype=np.bool_)

    def add(self, values: pa.Array, at: int) -> None:
        end = at + len(values)
        self._values, self._null = (_with_room(array, at, len(values)) for array in (self._values, self._null))
        if values.null_count:
            self._values[at:end] = values.fill_null(0)
            self._null[at:end] = values.is_null().to_numpy(zero_copy_only=False)
        else:
            self._values[at:end] = values.to_numpy()
            self._null[at:end] = False

    def values(self, count: int) -> pd.arrays.IntegerArray:
        return pd.arrays.IntegerArray(self._values[:count], self._null[:count])


class _Texts:
    def __init__(self, _: schema.Column, rows: int) -> None:
        self._codes = np.empty(rows, dtype=np.int8)
        self._known: dict[str, int] = {}

    def add(self, values: pa.Array, at: int) -> None:
        codes = (values.indices.fill_null(-1) if values.null_count else values.indices).to_numpy()
        place = [self._known.setdefault(text, len(self._known)) for text in values.dictionary.to_pylist()]
        kind = _kind(len(self._known))
        if kind != self._codes.dtype:
            wider = np.empty(len(self._codes), dtype=kind)
            wider[:at] = self._codes[:at]
            self._codes = wider
        self._codes = _with_room(self._codes, at, len(codes))
        # A null has the code -1, which is the last place.
        np.take(np.array([*place, -1], dtype=kind), codes, out=self._codes[at : at + len(codes)], mode="wrap")

    def values(self, count: int) -> pd.Categorical:
        categories = pd.Index(list(self._known), dtype="str")
        return pd.Categorical.from_codes(self._codes[:count], categories=categories, validate=False)


def _kind(categories: int) -> type[np.signedinteger]:
    """What pandas has the codes of so many categories in."""
    return np.int8 if categories <= 127 else np.int16 if categories <= 32767 else np.int32


def _with_room(array: Array, used: int, more: int) -> Array:
    """The array, or a longer copy of its first `used` values, with room for `more`."""
    if used + more <= len(array):
        return array
    longer = np.empty(max(used + more, 2 * used), dtype=array.dtype)
    longer[:used] = array[:used]
    return longer
