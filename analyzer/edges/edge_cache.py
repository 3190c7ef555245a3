"""The edge table of a run, stored in its catalogue and updated with new blocks.

    catalogue (edge_tables, edge_files) + new blocks --engine.py--> edge table --> catalogue

An edge table has columns of up to a million rows and is always read as a whole. So its tables are stored in SQLite as
Arrow streams (lz4), not as rows. `edge_files` has the byte of each trace file up to which the table contains its
events. Updating uses the same fold that builds the table (edge_table.py), so an updated table equals a rebuilt one,
except where a cap coarsened.

Invariants: the identities of the stored table are unresolved (identities.py), since later events may show that an inode
was reused. A replaced or removed trace file drops the table (catalogue_tables.py); so does another `VERSION`
(edge_version.py). Where the catalogue can't be written, the table is built each time.
"""

from __future__ import annotations

import dataclasses
import sqlite3
import zlib
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from tailrace.analyzer.edges import edge_table, event_fold, identities, row_order
from tailrace.analyzer.edges.edge_table import EdgeTable
from tailrace.analyzer.edges.edge_version import VERSION
from tailrace.analyzer.edges.name_table import NAMES_ROW
from tailrace.analyzer.store import conditions, loader, partitions
from tailrace.analyzer.store.catalogue import Catalogue
from tailrace.analyzer.store.mounts import Mount
from tailrace.analyzer.util.intervals import Intervals

_VERSION_ROW = "version"


def build(catalogue: Catalogue, mounts: list[Mount]) -> EdgeTable:
    """The edge table of the run.

    Raises:
        RunError: the trace can't be read. A reader's errors pass through.
    """
    found = partitions.blocks(catalogue, conditions.Where())
    kept, upto = _load(catalogue)
    new = [block for block in found if block[1] >= upto.get(block[0], 0)]
    if kept is not None and not new:
        return identities.resolve(kept)
    table = event_fold.reduce(loader.parts(catalogue, event_fold.COLUMNS, conditions.Where(), mounts, new))
    if kept is not None:
        table = edge_table.combine([kept, table])
    table = row_order.ordered(table)
    for file, offset, member_bytes, *_ in found:
        upto[file] = max(upto.get(file, 0), offset + member_bytes)
    catalogue.keep(lambda connection: _save(connection, table, upto))
    return identities.resolve(table)


def _load(catalogue: Catalogue) -> tuple[EdgeTable | None, dict[str, int]]:
    parts: dict[str, bytes] = dict(catalogue.rows("SELECT name, data FROM edge_tables"))
    parts.pop(NAMES_ROW, None)
    stamp = parts.pop(_VERSION_ROW, None)
    try:
        if stamp is None or stamp != _stamp(parts):
            return None, {}
        # Any, since mypy gives all keywords of a dictionary one type.
        made: dict[str, Any] = {field.name: _read(parts[field.name]) for field in dataclasses.fields(EdgeTable)}
        for name in ("extents", "times", "thread_calls"):
            made[name] = Intervals(*(made[name][column].to_numpy() for column in Intervals._fields))
    except (KeyError, OSError, TypeError, ValueError, pa.ArrowException):
        return None, {}
    return EdgeTable(**made), dict(catalogue.rows("SELECT file, upto FROM edge_files"))


def _save(connection: sqlite3.Connection, table: EdgeTable, upto: dict[str, int]) -> None:
    connection.execute("DELETE FROM edge_files")
    connection.execute("DELETE FROM edge_tables")
    connection.executemany("INSERT INTO edge_files VALUES (?, ?)", upto.items())
    rows: dict[str, bytes] = {}
    for field in dataclasses.fields(EdgeTable):
        value = getattr(table, field.name)
        rows[field.name] = _written(pd.DataFrame(value._asdict()) if isinstance(value, Intervals) else value)
    rows[_VERSION_ROW] = _stamp(rows)
    connection.executemany("INSERT INTO edge_tables VALUES (?, ?)", rows.items())


def _stamp(parts: dict[str, bytes]) -> bytes:
    """Of the form of the tables, and of their bytes: damaged numbers would lead out of other tables."""
    check = 0
    for name in sorted(parts):
        check = zlib.crc32(parts[name], check)
    return f"{VERSION} {pa.__version__} {check:08x}".encode()


def _written(frame: pd.DataFrame) -> bytes:
    columns = {str(name): pa.array(frame[name].to_numpy()) for name in frame.columns}
    sink = pa.BufferOutputStream()
    batch = pa.table(columns)
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(batch)
    return sink.getvalue().to_pybytes()


def _read(data: bytes) -> pd.DataFrame:
    """A frame as edge_table.py builds it: texts are objects, numbers have numpy dtypes, and all columns are
    writable."""
    table = pa.ipc.open_stream(data).read_all()
    # Damaged offsets of a text column would otherwise be followed when its values are read.
    table.validate(full=True)
    columns: dict[str, pd.Series] = {}
    for name in table.column_names:
        values = np.array(table.column(name).to_numpy())
        texts = pa.types.is_string(table.schema.field(name).type) or pa.types.is_null(table.schema.field(name).type)
        columns[name] = pd.Series(values, dtype=object if texts else values.dtype)
    return pd.DataFrame(columns)
