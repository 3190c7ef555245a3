"""The events of runs in a store: written beside the other tables where they were asked for, and checked before use.

    a run's partitions --batches--> <part>/events.parquet, events.crc --sound()--> SQL, `Store.read`

Events are a copy: the blocks of the run are the truth. So a copy is not believed before its file has the size and CRC
that were written with it, and as many rows as `runs.event_rows` says; and not where the run's directory is there and
has changed since. What is not believed is named, and left out of this table alone.

Invariants: a file is written and read in pieces of bounded size, whatever the run has. Integers are coded as
differences, texts as codes of a dictionary: 2.5 to 7 bytes an event.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.runstore.columns import EVENTS, INT, MOST_TEXT, TABLES, TEXT, arrow_schema
from tailrace.analyzer.runstore.parts import Entry, Part, Refused, open_file
from tailrace.analyzer.runstore.rows import short_text
from tailrace.analyzer.store import engine, schema
from tailrace.analyzer.util.types import Ints

if TYPE_CHECKING:
    import pandas as pd

SUM = f"{EVENTS}.crc"
"""Beside the file: its size and CRC-32, `<bytes> <8 hexadecimal digits>`."""
ROW_GROUP = 1 << 18
_PIECE = 1 << 20
_COLUMNS = TABLES[EVENTS].columns
_TEXTS = [name for name, column in _COLUMNS.items() if column.kind == TEXT]
_INTS = [name for name, column in _COLUMNS.items() if column.kind == INT]
_OWN = [name for name in _COLUMNS if name in schema.BY_NAME]


def write(run: AnalyzedRun, entry: Entry, place: Path) -> int:
    """Writes the events of a run to a part, and returns how many rows they are. Raises RunError, OSError."""
    tags = sorted(name for name in getattr(run, "columns", ()) if name.startswith(schema.TAG_PREFIX))
    tasks = run.parts([*_OWN, *tags], ends=True)
    return write_batches(place, (_table(frame, tags, entry) for frame in engine.stream(tasks)))


def write_batches(place: Path, tables: Iterable[pa.Table]) -> int:
    """Writes tables of events, one after another, and their sum; nothing where there are no rows. Raises OSError."""
    path = place / f"{EVENTS}.parquet"
    rows = held = 0
    waiting: list[pa.Table] = []
    writer: pq.ParquetWriter | None = None
    try:
        for table in tables:
            rows, held = rows + table.num_rows, held + table.num_rows
            waiting.append(table)
            if held >= ROW_GROUP:
                writer = writer or _writer(path)
                _put(writer, waiting)
                held = 0
        if held:
            writer = writer or _writer(path)
            _put(writer, waiting)
    finally:
        if writer is not None:
            writer.close()
    if rows:
        size, crc = _sum(path, os.geteuid())
        (place / SUM).write_text(f"{size} {crc:08x}\n", encoding="ascii")
    return rows


def _put(writer: pq.ParquetWriter, waiting: list[pa.Table]) -> None:
    writer.write_table(pa.concat_tables(waiting).unify_dictionaries(), row_group_size=ROW_GROUP)
    waiting.clear()


def _writer(path: Path) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        path,
        arrow_schema(EVENTS, coded=True),
        compression="zstd",
        store_schema=False,
        use_dictionary=_TEXTS,
        column_encoding=dict.fromkeys(_INTS, "DELTA_BINARY_PACKED"),
        write_page_checksum=True,
    )


def _table(frame: pd.DataFrame, tags: list[str], entry: Entry) -> pa.Table:
    size = len(frame)
    columns = {
        "run": _constant(entry.run, size),
        "entry": _constant(entry.name, size),
        **{name: _array(frame[name], name) for name in _OWN},
        "tags": _tags(frame, tags),
    }
    return pa.Table.from_arrays([columns[name] for name in _COLUMNS], schema=arrow_schema(EVENTS, coded=True))


def _constant(text: str, size: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(size, dtype=np.int32)), pa.array([text]))


def _array(series: pd.Series, name: str) -> pa.Array:
    if schema.BY_NAME[name].kind == schema.TEXT:
        return _coded(series.cat.codes.to_numpy(dtype=np.int32), series.cat.categories.tolist())
    if schema.BY_NAME[name].nullable:
        return pa.array(series.fillna(0).to_numpy(dtype=np.int64), mask=series.isna().to_numpy(dtype=np.bool_))
    return pa.array(series.to_numpy(dtype=np.int64))


def _coded(codes: Ints, texts: list[str]) -> pa.DictionaryArray:
    """Texts by their codes; -1 is null, and so is "", as in all tables."""
    short = [short_text(text) for text in texts]
    empty = [code for code, text in enumerate(short) if text is None]
    null = codes < 0
    if empty:
        null |= np.isin(codes, empty)
    return pa.DictionaryArray.from_arrays(
        pa.array(np.where(null, 0, codes), mask=null), pa.array([text or "" for text in short], pa.string())
    )


def _tags(frame: pd.DataFrame, names: list[str]) -> pa.DictionaryArray:
    """The free tags of each event as JSON."""
    code = np.zeros(len(frame), dtype=np.int64)
    for name in names:
        own = frame[name].cat
        code = code * (len(own.categories) + 1) + own.codes.to_numpy(dtype=np.int64) + 1
        code = np.unique(code, return_inverse=True)[1].astype(np.int64)
    _, first, codes = np.unique(code, return_index=True, return_inverse=True)
    texts = []
    for row in first.tolist():
        values = {name.removeprefix(schema.TAG_PREFIX): frame[name].iloc[row] for name in names}
        values = {key: value for key, value in values.items() if isinstance(value, str)}
        text = json.dumps(values, ensure_ascii=False, separators=(",", ":")) if values else ""
        texts.append(text if len(text.encode("utf-8", "replace")) <= MOST_TEXT else "")
    return _coded(codes.astype(np.int32), texts)


# --- reading ---------------------------------------------------------------------------------------------------------


def fault(part: Part) -> str:
    """What is wrong with the file of a part that should have events; "" where it is as it was written."""
    try:
        with open_file(part.path / SUM, part.access.uid) as file:
            words = file.read(64).decode("ascii").split()
        size, crc = int(words[0]), int(words[1], 16)
    except FileNotFoundError:
        return "its sum is missing"
    except (OSError, Refused, ValueError, IndexError):
        return "its sum can't be read"
    try:
        found = _sum(part.table(EVENTS), part.access.uid)
    except FileNotFoundError:
        return "the file is missing"
    except (OSError, Refused) as error:
        return str(error)
    return "" if found == (size, crc) else "the file is not as it was written"


def _sum(path: Path, uid: int) -> tuple[int, int]:
    """Size and CRC-32 of a file of a part."""
    size = crc = 0
    with open_file(path, uid) as file:
        while piece := file.read_buffer(_PIECE):
            size, crc = size + len(piece), zlib.crc32(piece, crc)
    return size, crc


def batches(part: Part, without: set[str]) -> Iterator[pa.Table]:
    """The events of a part but for some entries, in pieces. Raises OSError, Refused, pa.ArrowException."""
    out = pa.array(sorted(without), pa.string())
    with part.open(EVENTS) as file:
        source = pq.ParquetFile(file, read_dictionary=_TEXTS, page_checksum_verification=True)
        for batch in source.iter_batches(batch_size=ROW_GROUP):
            rows = fitted(pa.Table.from_batches([batch]))
            if without:
                rows = rows.filter(pc.invert(pc.is_in(rows["entry"].cast(pa.string()), out)))
            yield rows


def fitted(rows: pa.Table) -> pa.Table:
    """Rows with the columns of this version; those that the file lacks are null."""
    columns = []
    for field in arrow_schema(EVENTS, coded=True):
        if field.name not in rows.column_names:
            columns.append(pa.nulls(rows.num_rows, field.type))
            continue
        values = rows[field.name]
        coded = pa.types.is_dictionary(field.type) and not pa.types.is_dictionary(values.type)
        columns.append(values.dictionary_encode() if coded else values.cast(field.type))
    return pa.Table.from_arrays(columns, schema=arrow_schema(EVENTS, coded=True))
