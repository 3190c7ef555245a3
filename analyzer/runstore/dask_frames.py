"""The tables of a store as Dask frames: a partition is a part's file, read where Dask's workers run.

Invariant: the rows are those of `Store.read`, in any order: entries that don't count are left out by whoever reads the
part. Columns have Arrow's types, so that a partition without nulls has the types of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import dask.dataframe as dd
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds

from tailrace.analyzer.runstore.columns import arrow_schema
from tailrace.analyzer.runstore.parts import Part

if TYPE_CHECKING:
    from tailrace.analyzer.runstore.store import Store


def frame(store: Store, table: str, columns: Sequence[str] | None) -> dd.DataFrame:
    """A table as a lazy frame; see `Store.dask`."""
    schema = arrow_schema(table, placed=True)
    names = list(columns) if columns is not None else schema.names
    meta = _frame(pa.schema([schema.field(name) for name in names]).empty_table())
    sources: list[Any] = [(part, sorted(out)) for part, out in store.sources(table)] or [None]
    label = f"tailrace-store-{table}"
    return dd.from_map(partial(_read, table, names), sources, meta=meta, label=label, enforce_metadata=False)


def _read(table: str, names: list[str], source: tuple[Part, list[str]] | None) -> pd.DataFrame:
    from tailrace.analyzer.runstore.store import dataset

    if source is None:
        return _frame(dataset(table, []).to_table(columns=names))
    part, out = source
    where = ~ds.field("entry").isin(pa.array(out, pa.string())) if out else None
    return _frame(dataset(table, [part]).to_table(columns=names, filter=where))


def _frame(table: pa.Table) -> pd.DataFrame:
    return table.to_pandas(types_mapper=pd.ArrowDtype)
