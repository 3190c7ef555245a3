"""A partition of events as plain arrays: texts as int32 codes, numbers as int64, nothing null.

A frame of events holds its texts as categories (schema.py), so a test of a text runs once per category, not once per
event. Frames of other dtypes are converted to the same form.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tailrace.analyzer.util.types import Bools, Codes, Ints, Objects


@dataclass(frozen=True)
class Text:
    """A column of texts: event i has texts[code[i]]. The texts are distinct; code 0 is "", which also stands for
    null."""

    code: Codes
    texts: Objects

    def isin(self, wanted: Container[str]) -> Bools:
        """Whether each event's text is among `wanted`."""
        is_wanted = np.array([text in wanted for text in self.texts], dtype=np.bool_)
        if not is_wanted.any():
            return np.zeros(len(self.code), dtype=np.bool_)
        return is_wanted[self.code]

    def at(self, rows: Ints) -> Objects:
        """The texts of some events, as objects."""
        return self.texts[self.code[rows]]

    def put(self, rows: Ints, texts: Objects) -> Text:
        """The column with the texts of some rows replaced."""
        known = {text: code for code, text in enumerate(self.texts)}
        code = self.code.copy()
        code[rows] = [known.setdefault(text, len(known)) for text in texts]
        return Text(code, np.array(list(known), dtype=object))


@dataclass(frozen=True)
class Batch:
    """The columns of a partition: arrays of one length."""

    text: dict[str, Text]
    number: dict[str, Ints]


def of(frame: pd.DataFrame, texts: Iterable[str], numbers: Mapping[str, int]) -> Batch:
    """The columns `texts` and `numbers` of a frame; `numbers` maps each name to the value of a null or missing
    column."""
    return Batch(
        {name: _text(frame[name]) if name in frame else _nothing(len(frame)) for name in texts},
        {
            name: _number(frame[name], null) if name in frame else np.full(len(frame), null, dtype=np.int64)
            for name, null in numbers.items()
        },
    )


def _nothing(count: int) -> Text:
    return Text(np.zeros(count, dtype=np.int32), np.array([""], dtype=object))


def _text(column: pd.Series) -> Text:
    if isinstance(column.dtype, pd.CategoricalDtype):
        codes, found = column.cat.codes.to_numpy(), column.cat.categories
    else:
        codes, found = pd.factorize(column)
    texts = np.append(np.array([""], dtype=object), np.asarray(found, dtype=object))
    code = np.add(codes, 1, dtype=np.int32)
    for twin in np.flatnonzero(texts[1:] == "") + 1:
        code[code == twin] = 0
        texts[twin] = None
    return Text(code, texts)


def _number(column: pd.Series, null: int) -> Ints:
    if column.dtype.kind == "i" and isinstance(column.dtype, np.dtype):
        return column.to_numpy(dtype=np.int64)
    if column.isna().all():
        return np.full(len(column), null, dtype=np.int64)
    integers = column if column.dtype.kind == "i" else column.astype("Int64")
    return integers.to_numpy(dtype=np.int64, na_value=null)


def recoded(first: Text, second: Text) -> Text:
    """The column `second` with the codes of `first` for the same texts; new texts get the codes after those."""
    if not second.code.any():
        return Text(second.code, first.texts)
    used = np.flatnonzero(np.bincount(second.code)[1:]) + 1
    place = np.zeros(len(second.texts), dtype=np.int32)
    known = {text: code for code, text in enumerate(first.texts)}
    place[used] = [known.setdefault(text, len(known)) for text in second.texts[used]]
    return Text(place[second.code], np.array(list(known), dtype=object))
