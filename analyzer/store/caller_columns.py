"""The column `caller` in what is read of events: made of the column `stack` (callers.py), which blocks have.

Invariant: addresses of several stacks are looked up together, since each look-up starts a program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tailrace.analyzer.store import callers, schema
from tailrace.analyzer.util.lazy import lazy

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy("pyarrow")

CALLER, _STACK = schema.CALLER.name, "stack"


def recorded(name: str) -> str:
    """The column of blocks that a column is made of."""
    return _STACK if name == CALLER else name


def added(batch: pa.RecordBatch, opens: bool) -> pa.RecordBatch:
    """A batch that has stacks, with callers. opens: as in `callers.callers`, here and below."""
    stacks = batch.column(batch.schema.get_field_index(_STACK))
    texts = stacks.dictionary.to_pylist()
    found = callers.callers(texts, opens)
    distinct = {caller: i for i, caller in enumerate(dict.fromkeys(found[text] for text in texts))}
    codes = pa.array([distinct[found[text]] for text in texts], type=pa.int32())
    column = pa.DictionaryArray.from_arrays(codes.take(stacks.indices), pa.array(list(distinct), type=pa.string()))
    field = pa.field(CALLER, schema.CALLER.arrow)
    return pa.RecordBatch.from_arrays([*batch.columns, column], schema=batch.schema.append(field))


def of_row(names: Sequence[str], values: Sequence[Any], opens: bool) -> tuple[Any, ...]:
    """The values of columns, with callers in the place of stacks where those were asked for."""
    stacks = (value for name, value in zip(names, values, strict=True) if name == CALLER and value)
    found = callers.callers(stacks, opens)
    pairs = zip(names, values, strict=True)
    return tuple(found[value] if name == CALLER and value else value for name, value in pairs)


def of_rows(names: Sequence[str], rows: Sequence[Sequence[Any]], opens: bool) -> list[tuple[Any, ...]]:
    """The same for many rows."""
    places = [i for i, name in enumerate(names) if name == CALLER]
    callers.callers((row[i] for row in rows for i in places if row[i]), opens)
    return [of_row(names, row, opens) for row in rows]


def of_groups(groups: Sequence[Any], names: Sequence[str], gathered: Sequence[str], opens: bool) -> list[Any]:
    """Groups (loader.Group) by stacks, with callers in their place: several may have one key then."""
    keys = of_rows(names, [key for key, *_ in groups], opens)
    listed = [_listed(gathered, values, opens) for *_, values in groups]
    return [(key, *group[1:4], values) for key, group, values in zip(keys, groups, listed, strict=True)]


def _listed(gathered: Sequence[str], values: Sequence[Any], opens: bool) -> list[Any]:
    """The different values of columns, with the different callers in the place of stacks."""

    def of(stacks: list[str]) -> list[str]:
        found = callers.callers(stacks, opens)
        return list(dict.fromkeys(found[stack] for stack in stacks))

    return [of(of_one) if name == CALLER else of_one for name, of_one in zip(gathered, values, strict=True)]
