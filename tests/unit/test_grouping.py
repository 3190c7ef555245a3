"""Sorting and grouping by packed words does what numpy's and pandas' slower ways do."""

from __future__ import annotations

import numpy as np
import pandas as pd
from hypothesis import example, given
from hypothesis import strategies as st

from tailrace.analyzer.util import grouping

ENDS = (-(2**63), -1, 0, 1, 2**31, 2**63 - 1)
numbers = st.one_of(st.integers(-3, 3), st.sampled_from(ENDS), st.integers(-(2**63), 2**63 - 1))
rows = st.lists(st.tuples(numbers, numbers, numbers, st.booleans()), min_size=1, max_size=40)
Row = tuple[int, int, int, bool]


def columns(table: list[Row]) -> list[np.ndarray]:
    return [np.array([row[i] for row in table], dtype=np.int64 if i < 3 else np.bool_) for i in range(4)]


@given(rows)
@example([(ENDS[0], ENDS[-1], 0, True), (ENDS[-1], ENDS[0], 0, False)])
def test_order_is_lexsort(table: list[Row]) -> None:
    keys = columns(table)
    for some in (keys, keys[:1], keys[2:], keys[::-1]):
        assert grouping.order(*some).tolist() == np.lexsort(some).tolist()


@given(rows)
def test_packed_keys_keep_rows_apart_and_in_order(table: list[Row]) -> None:
    keys = columns(table)
    key = grouping.pack(*keys)
    assert np.unique(key, return_inverse=True)[1].tolist() == [sorted(set(table)).index(row) for row in table]


@given(rows)
def test_codes_are_numbered_by_first_occurrence(table: list[Row]) -> None:
    code, first = grouping.numbered(grouping.pack(*columns(table)))
    distinct = list(dict.fromkeys(table))
    assert code.tolist() == [distinct.index(row) for row in table]
    assert [table[i] for i in first] == distinct


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-(10**9), 10**9)), min_size=1, max_size=40))
def test_groups_reduce_as_pandas_does(table: list[tuple[int, int]]) -> None:
    frame = pd.DataFrame(table, columns=["key", "value"])
    key, value = (frame[name].to_numpy() for name in frame)
    groups, wanted = grouping.groups(key), frame.groupby("key")["value"]
    assert groups.first(key).tolist() == list(wanted.groups)
    for how, name in ((np.add, "sum"), (np.minimum, "min"), (np.maximum, "max")):
        assert groups.reduce(how, value).tolist() == wanted.agg(name).tolist()


def test_texts_are_keys_too() -> None:
    texts = np.array(["b", "a", "b", ""], dtype=object)
    assert grouping.pack(texts, np.array([1, 1, 1, 0])).tolist() == [1, 3, 1, 4]
