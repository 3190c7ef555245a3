"""Sorting and grouping of many rows by integers: one sort of packed 64-bit words, then reductions of runs.

    columns --pack--> one key --groups--> Groups --reduce--> one value per group

numpy sorts plain 64-bit words with vector instructions, several times faster than it argsorts, and much faster than a
hash of tuples. So the key and the row number share a word, and a longer key is sorted digit by digit, the least
significant one first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace.analyzer.util.lazy import lazy
from tailrace.analyzer.util.types import Array, Bools, Ints

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
else:
    np = lazy("numpy")
    pd = lazy("pandas")

_WORD_BITS = 63


def order(*keys: Array) -> Ints:
    """The stable order of rows by integer or bool keys of one length, the last key the primary one:
    `np.lexsort(keys)`."""
    count = len(keys[0])
    row_bits = max(count - 1, 1).bit_length()
    room = _WORD_BITS - row_bits
    found: Ints | None = None
    word, used = np.zeros(count, dtype=np.int64), 0
    for key in keys if count else ():
        digits = key.astype(np.int64)
        if found is None and not used and bool((digits[1:] >= digits[:-1]).all()):
            continue  # the rows are in this order already
        low, high = int(digits.min()), int(digits.max())
        width = (high - low).bit_length()
        digits -= low  # a difference past 2**63 wraps around; the unsigned shifts below undo that
        rest = digits.view(np.uint64)
        while width:
            taken = min(width, room - used)
            digit = rest if taken == width else rest & np.uint64((1 << taken) - 1)
            word |= (digit << np.uint64(used)).view(np.int64)
            rest = rest >> np.uint64(taken)
            width, used = width - taken, used + taken
            if used == room:
                found = _pass(word, row_bits, found)
                word, used = np.zeros(count, dtype=np.int64), 0
    if used:
        found = _pass(word, row_bits, found)
    return np.arange(count, dtype=np.int64) if found is None else found


def _pass(word: Ints, row_bits: int, before: Ints | None) -> Ints:
    """Sorts by one digit; `before` is the order of the digits below."""
    words = (word if before is None else word[before]) << row_bits
    words |= np.arange(len(words), dtype=np.int64)
    words.sort()
    words &= (1 << row_bits) - 1
    return words if before is None else before[words]


def first_of_run(*columns: Array) -> Bools:
    """True for a row that differs from the one before in any column."""
    new = np.ones(len(columns[0]), dtype=np.bool_)
    new[1:] = columns[0][1:] != columns[0][:-1]
    for column in columns[1:]:
        new[1:] |= column[1:] != column[:-1]
    return new


def pack(*columns: Array) -> Ints:
    """One key for the rows of several columns of integers or objects: equal where all columns are, in their order.

    Objects are ordered by their first appearance.
    """
    key, size = np.zeros(len(columns[0]), dtype=np.int64), 1
    for column in columns if len(key) else ():
        values = (pd.factorize(column, use_na_sentinel=False)[0] if column.dtype == object else column).astype(np.int64)
        low, high = int(values.min()), int(values.max())
        span = high - low + 1
        if span > 2**31 or size * span >= 2**_WORD_BITS:
            values, low, span = _dense(values)
        if size * span >= 2**_WORD_BITS:
            key, _, size = _dense(key)
        key = key * span + (values - low)
        size *= span
    return key


def _dense(values: Ints) -> tuple[Ints, int, int]:
    """The ranks of values, the least rank and the number of ranks."""
    distinct, rank = np.unique(values, return_inverse=True)
    return rank.astype(np.int64), 0, len(distinct)


def numbered(key: Ints) -> tuple[Ints, Ints]:
    """Dense codes of the values of `key` by first appearance, and the first row of each. Equal neighbours cost
    little."""
    heads = np.flatnonzero(first_of_run(key))
    of_head, distinct = pd.factorize(key[heads])
    code = np.repeat(of_head.astype(np.int64), np.diff(np.append(heads, len(key))))
    return code, firsts(of_head, len(distinct), heads)


def firsts(code: Array, count: int, row: Ints | None = None) -> Ints:
    """For each code 0 .. count - 1 the number (or `row`) of the first row that has it; -1 for none."""
    row = np.arange(len(code), dtype=np.int64) if row is None else row
    found = np.full(count, -1, dtype=np.int64)
    found[code[::-1]] = row[::-1]  # numpy keeps the last of several values for one place
    return found


def frame(columns: Mapping[str, Array]) -> pd.DataFrame:
    """A frame over the arrays without a copy. pandas' own constructor copies them, and turns objects into Arrow
    strings."""
    index = pd.RangeIndex(len(next(iter(columns.values()))))
    series = {name: pd.Series(values, index, values.dtype, copy=False) for name, values in columns.items()}
    return pd.DataFrame(series, index, copy=False)


def sums(code: Ints, values: Array, size: int) -> Ints:
    """The sum of the values of each code 0 .. size - 1."""
    found = np.zeros(size, dtype=np.int64)
    np.add.at(found, code, values)
    return found


def least(code: Ints, values: Array, size: int, fill: int) -> Ints:
    """The least value of each code 0 .. size - 1; `fill` where it has none."""
    found = np.full(size, np.iinfo(np.int64).max)
    np.minimum.at(found, code, values)
    return found if fill == np.iinfo(np.int64).max else _filled(found, code, fill)


def most(code: Ints, values: Array, size: int, fill: int) -> Ints:
    """The greatest value of each code 0 .. size - 1; `fill` where it has none."""
    found = np.full(size, np.iinfo(np.int64).min)
    np.maximum.at(found, code, values)
    return _filled(found, code, fill)


def _filled(found: Ints, code: Ints, fill: int) -> Ints:
    has = np.zeros(len(found), dtype=np.bool_)
    has[code] = True
    found[~has] = fill
    return found


def distinct(code: Ints, values: Ints, size: int) -> Ints:
    """How many different values each code 0 .. size - 1 has."""
    if not len(code):
        return np.zeros(size, dtype=np.int64)
    by = groups(pack(code, values))
    return np.bincount(by.first(code), minlength=size).astype(np.int64)


@dataclass(frozen=True)
class Groups:
    """Rows of equal key, in the order of the keys: group i is the rows order[at[i]] to order[at[i + 1]]."""

    order: Ints
    at: Ints

    def first(self, column: Array) -> Array:
        """The value of each group's first row."""
        return column[self.order[self.at]]

    def numbers(self) -> Ints:
        """The group of each row."""
        found = np.empty(len(self.order), dtype=np.int64)
        found[self.order] = np.repeat(np.arange(len(self.at)), np.diff(np.append(self.at, len(self.order))))
        return found

    def reduce(self, how: np.ufunc, column: Array) -> Array:
        """`np.add`, `np.minimum`, `np.maximum` of each group."""
        rows: Array = column[self.order]
        return np.asarray(how.reduceat(rows, self.at)) if len(rows) else rows


def groups(key: Ints) -> Groups:
    """The groups of equal keys; the rows of a group keep their order."""
    by_key = order(key)
    return Groups(by_key, np.flatnonzero(first_of_run(key[by_key])))


def parts(rows: pd.DataFrame, key: str) -> Iterator[tuple[int, pd.DataFrame]]:
    """The rows of each value of an integer column, by value: `rows.groupby(key)` with keys of that type."""
    column = rows[key].to_numpy(dtype=np.int64)
    found = groups(column)
    ends = [*found.at[1:].tolist(), len(column)]
    for value, low, high in zip(found.first(column).tolist(), found.at.tolist(), ends, strict=False):
        yield value, rows.iloc[found.order[low:high]]
