"""Events of partitions, read on demand and filtered exactly: as frames, as totals of groups, as rows.

    Where -> partitions.py -> tasks (engine.py), or dask.dataframe.from_map(read_partition)

The native reader makes the groups and rows of a partition. Lines of totals are divided among ranges one by one
(totals_ranges.py). Where a choice of files takes the times of calls (`Where.of_texts`), a frame of these tells which
rows match.

Invariants: every returned row matches; only the requested columns and those of the predicates are parsed. A block that
differs from its header is left out and named (problems.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tailrace import _native
from tailrace.analyzer.store import caller_columns, engine, group_keys, partitions, problems, schema, totals_ranges
from tailrace.analyzer.store.catalogue import Catalogue
from tailrace.analyzer.store.conditions import Ranges, Where, ends
from tailrace.analyzer.store.group_keys import Key
from tailrace.analyzer.store.joining import joined
from tailrace.analyzer.store.mounts import Mount
from tailrace.analyzer.store.partitions import Block, Partition
from tailrace.analyzer.util import named_files
from tailrace.analyzer.util.lazy import lazy
from tailrace.base.memory import Budget
from tailrace.errors import TraceError

if TYPE_CHECKING:
    import dask.dataframe as dd
    import numpy as np
    import pandas as pd
    import pyarrow as pa
else:
    np = lazy("numpy")
    pd = lazy("pandas")
    pa = lazy("pyarrow")

JOINED_RAW_BYTES = 8 << 20
"""In a partition that is joined to others in this process: its columns stay in the processor's cache, and the next one
gets the same memory. New pages for each column of a large partition took a third of the time of reading."""
_VALUE_BYTES = 12
"""Of one value of a column and what it takes while it is read."""

# ---- reading ----


def _here() -> tuple[str, int]:
    return os.uname().nodename, os.getpid()


@dataclass(frozen=True)
class Reading:
    """The arguments that all partitions of a frame share."""

    columns: tuple[str, ...]
    predicates: Where
    mounts: tuple[Mount, ...]
    ends: bool = False
    """Whether a copy from file to file is two rows (docs/tables.md), as the reader's sums and tuples always have it."""
    opened_in: tuple[str, int] = field(default_factory=_here)
    """The process that opened the run, and shows what was left out."""


def _opens(part: Partition) -> bool:
    """Whether files that the partition's run names may be opened."""
    return bool(part) and named_files.may_open(Path(part[0].path).parent.parent)


def read_partition(part: Partition, columns: Sequence[str] | None = None, *, reading: Reading) -> pd.DataFrame:
    """The matching rows of a partition with `columns` (Dask's projection; None: all of `reading.columns`).

    A block that is damaged, or has other events than its header says, is left out (problems.py). Raises TraceError
    where that would not be seen, and when a partition takes more than there is memory for.
    """
    return schema.frame_of(read_batch(part, columns, reading=reading))


def _of_ends(needed: Sequence[str]) -> Sequence[str]:
    """The columns that the reader needs to make two rows of a copy."""
    return ("dir", "offset", "offset2") if {"offset", "offset2"} & set(needed) else ("dir",)


def read_batch(part: Partition, columns: Sequence[str] | None = None, *, reading: Reading) -> pa.RecordBatch:
    """The rows of `read_partition` as the native reader has them."""
    wanted = list(reading.columns if columns is None else columns)
    predicates = reading.predicates
    needed = list(dict.fromkeys([*wanted, *predicates.columns()]))
    of_ends = _of_ends(needed) if reading.ends else ()
    recorded = list(dict.fromkeys([*map(caller_columns.recorded, needed), *of_ends]))

    def read(places: _Places) -> list[tuple[pa.RecordBatch, int]]:
        if not places:
            return []
        found = _native.read_files(places, recorded, list(reading.mounts), reading.ends)
        return [(pa.record_batch(found), found.events)]

    batches, promised = _attempted(part, len(needed), reading, read)
    if not batches:
        return schema.empty_batch(wanted)
    batch, events = batches[0]
    batch = caller_columns.added(batch, _opens(part)) if schema.CALLER.name in needed else batch
    _check_number(part, events, promised)
    if predicates != Where():
        keep = predicates.keeps(schema.frame_of(batch.select(predicates.columns())))
        batch = batch if keep.all() else batch.filter(pa.array(keep))
    return batch.select(wanted)


Row = tuple[str | int | None, ...]
"""A row, or the key of a group; null is None."""
ColumnTotals = tuple[int, int, int, int | None, int | None]
"""Of a column in a group: sum, sum of the calls that begin in it, calls of the lines that have a value, least and
greatest value."""
Values = list[str] | tuple[bytes, bytes]
"""The different values of a column in a group; numbers as `_native.sum_files` gives them."""
Group = tuple[Row, int, int, list[ColumnTotals], list[Values]]
"""A key, its calls, the lines that stand for several calls, the totals of each column, the values of others."""
GroupTask = Callable[[], "list[Group]"]
"""Reads a partition and groups it: a task of engine.py."""
RowTask = Callable[[], "list[Row]"]
"""Reads a partition: a task of engine.py."""


@dataclass(frozen=True)
class Grouping:
    """What is wanted of groups: keys, columns that get totals, columns whose values are gathered."""

    keys: tuple[Key, ...]
    values: tuple[str, ...]
    gathered: tuple[str, ...] = ()


def group_tasks(
    catalogue: Catalogue,
    asked: Grouping,
    predicates: Where,
    mounts: Sequence[Mount],
    found: list[Block] | None = None,
) -> list[GroupTask]:
    """The groups of the matching events as tasks that give those of a partition each. found: these blocks only. Raises
    QueryError on an unknown column."""
    names = [*(key.column for key in asked.keys), *asked.values, *asked.gathered]
    for name in names:
        schema.column(name)
    reading = Reading(tuple(dict.fromkeys([*names, *predicates.columns()])), predicates, tuple(mounts))
    chosen = partitions.blocks(catalogue, predicates) if found is None else found
    return [partial(_groups_of, part, asked=asked, reading=reading) for part in partitions.cut(catalogue, chosen)]


def _groups_of(part: Partition, asked: Grouping, reading: Reading) -> list[Group]:
    keep = _kept(part, reading)
    groups = _native_groups(part, asked, reading, keep)
    if not (any(key.of_each for key in asked.keys) and any(totals for _, _, totals, *_ in groups)):
        return groups
    names = dict.fromkeys([*(name for key in asked.keys for name in key.columns), *asked.values, *asked.gathered])
    lines = _native_rows(part, [*names, "lines"], reading, keep, totals_ranges.SEVERAL)
    divided = totals_ranges.groups_of(lines, [*names, "lines"], asked.keys, asked.values, asked.gathered)
    return [*_native_groups(part, asked, reading, keep, totals_ranges.SINGLE), *divided]


def _kept(part: Partition, reading: Reading) -> bytes | None:
    """Which rows match, a byte each, where that takes the times of calls on files; else None."""
    wanted = reading.predicates
    if wanted.of_texts:
        return None
    frame = read_partition(part, wanted.columns(), reading=replace(reading, predicates=Where(), ends=True))
    return wanted.keeps(frame).tobytes()


def _native_groups(
    part: Partition, asked: Grouping, reading: Reading, keep: bytes | None, *numbers: Ranges
) -> list[Group]:
    """The groups of a partition by the native reader: the last keys are the columns of conditions on text, which are
    tested once a group. keep: the rows that match; numbers: further conditions. Damage is met as in
    `read_partition`."""
    wanted = reading.predicates if keep is None else Where()
    keys = [*((caller_columns.recorded(key.column), key.kind, key.width, key.origin) for key in asked.keys)]
    keys += [(caller_columns.recorded(name), group_keys.COLUMN, 0, 0) for name in wanted.texts()]

    def read(places: _Places) -> tuple[list[Group], int]:
        if not places:
            return [], 0
        gathered = [caller_columns.recorded(name) for name in asked.gathered]
        ranges = [*wanted.ranges(), *numbers]
        return _native.sum_files(places, keys, asked.values, gathered, ranges, wanted.t0, reading.mounts, keep)

    (groups, rows), promised = _attempted(part, len(reading.columns) + 1, reading, read)
    _check_number(part, rows, promised)
    own = len(asked.keys)
    names = [*(key.column for key in asked.keys), *wanted.texts()]
    if schema.CALLER.name in (*names, *asked.gathered):
        groups = caller_columns.of_groups(groups, names, asked.gathered, _opens(part))
    return [
        (key[:own], calls, totals, columns, values)
        for key, calls, totals, columns, values in groups
        if wanted.fits(key[own:])
    ]


def row_tasks(
    catalogue: Catalogue, columns: Sequence[str], predicates: Where, mounts: Sequence[Mount]
) -> list[RowTask]:
    """The matching events as tasks that give the rows of a partition each, in the order of `read`. Raises QueryError on
    an unknown column."""
    for name in columns:
        schema.column(name)
    # Rows of Python are larger than columns; a cluster gets few tasks.
    largest = None if engine.uses_dask() else min(JOINED_RAW_BYTES, partitions.PARTITION_RAW_BYTES)
    cut = partitions.cut(catalogue, partitions.blocks(catalogue, predicates), largest)
    reading = Reading((*columns, *predicates.columns()), predicates, tuple(mounts))
    return [partial(_rows_of, part, columns=tuple(columns), reading=reading) for part in cut]


def _rows_of(part: Partition, columns: tuple[str, ...], reading: Reading) -> list[Row]:
    return _native_rows(part, columns, reading, _kept(part, reading))


def _native_rows(
    part: Partition, columns: Sequence[str], reading: Reading, keep: bytes | None, *numbers: Ranges
) -> list[Row]:
    """The rows of a partition. Arguments and damage as for `_native_groups`."""
    wanted = reading.predicates if keep is None else Where()
    names = [*columns, *wanted.texts()]

    def read(places: _Places) -> tuple[list[Row], int]:
        if not places:
            return [], 0
        recorded = [*map(caller_columns.recorded, names)]
        ranges = [*wanted.ranges(), *numbers]
        return _native.rows_of(places, recorded, ranges, wanted.t0, reading.mounts, keep)

    (rows, count), promised = _attempted(part, len(names), reading, read)
    _check_number(part, count, promised)
    if schema.CALLER.name in names:
        rows = caller_columns.of_rows(names, rows, _opens(part))
    if len(names) == len(columns):
        return rows
    return [row[: len(columns)] for row in rows if wanted.fits(row[len(columns) :])]


_Places = list[tuple[str, list[tuple[int, int]]]]
T = TypeVar("T")


def _attempted(part: Partition, columns: int, reading: Reading, read: Callable[[_Places], T]) -> tuple[T, int]:
    """What `read` returns for the places of a partition, and how many events their headers promise. Where it meets a
    damaged block, it is called again without those."""
    Budget(part[0].path).take(sum(file.events for file in part) * columns * _VALUE_BYTES)
    try:
        found = read(_places(part))
    except TraceError as error:
        if problems.refuses() or reading.opened_in != _here():
            raise TraceError(
                f"{error}; without --strict, and without a cluster, the rest of the run is read"
            ) from error
        part = _undamaged(part)
        found = read(_places(part))
    return found, sum(file.events for file in part)


def _places(part: Partition) -> _Places:
    return [(file.path, list(file.places)) for file in part]


def _check_number(part: Partition, events: int, promised: int) -> None:
    if events != promised:
        raise TraceError(f"{part[0].path} and others: {events} events were read, the headers say {promised}")


def _undamaged(part: Partition) -> Partition:
    """The partition without its damaged blocks, which are noted."""
    left = []
    for file in part:
        whole = []
        for place, events in zip(file.places, file.counts, strict=True):
            try:
                _native.read_blocks(file.path, [place])
            except TraceError as error:
                problems.note(file.path, place[0], events, str(error))
            else:
                whole.append((place, events))
        if whole:
            places, counts = zip(*whole, strict=True)
            left.append(replace(file, places=places, counts=counts))
    return tuple(left)


Part = Callable[[], "pd.DataFrame"]
"""Reads a partition: a task of engine.py."""


def parts(
    catalogue: Catalogue,
    columns: Sequence[str],
    predicates: Where,
    mounts: Sequence[Mount],
    found: list[Block] | None = None,
    ends: bool = False,
) -> list[Part]:
    """The matching events as tasks that read a partition each; none where no block can hold one. found: these blocks
    only; ends: as in `Reading`. Raises QueryError on an unknown column."""
    cut = partitions.partitions(catalogue, predicates) if found is None else partitions.cut(catalogue, found)
    for name in columns:
        schema.column(name)
    reading = Reading(tuple(dict.fromkeys(columns)), predicates, tuple(mounts), ends)
    return [partial(read_partition, part, reading=reading) for part in cut]


def read(catalogue: Catalogue, columns: Sequence[str], predicates: Where, mounts: Sequence[Mount]) -> pd.DataFrame:
    """The matching events as one frame, in the order of `frame`. Raises QueryError on an unknown column."""
    names = list(dict.fromkeys(columns))
    for name in names:
        schema.column(name)
    # A cluster gets few tasks, all at once; threads here wait, so that little is held beside what it is joined to.
    remote = engine.uses_dask()
    cut = partitions.cut(catalogue, partitions.blocks(catalogue, predicates), None if remote else JOINED_RAW_BYTES)
    if not cut:
        return schema.empty_frame(names)
    reading = Reading(tuple(names), predicates, tuple(mounts), ends=True)
    known = sum(file.events for part in cut for file in part) if predicates == Where() else 0
    tasks = [partial(read_batch, part, reading=reading) for part in cut]
    return joined(engine.stream(tasks, len(tasks) if remote else engine.cores() + 1), names, known)


def frame(catalogue: Catalogue, columns: Sequence[str], predicates: Where, mounts: Sequence[Mount]) -> dd.DataFrame:
    """A lazy dask.dataframe.DataFrame of the matching events. Raises QueryError on an unknown column."""
    import dask.dataframe as dd
    from dask.dataframe.utils import clear_known_categories

    names = tuple(dict.fromkeys(columns))
    meta = schema.empty_frame(names)
    meta = clear_known_categories(meta, cols=[name for name in names if schema.column(name).kind == schema.TEXT])
    cut = partitions.partitions(catalogue, predicates) or [()]
    one = partial(_read_or_empty, reading=Reading(names, predicates, tuple(mounts), ends=True))
    return dd.from_map(one, cut, meta=meta, label="tailrace-events", enforce_metadata=False)


def _read_or_empty(part: Partition, columns: Sequence[str] | None = None, *, reading: Reading) -> pd.DataFrame:
    if not part:  # Dask has no frame without partitions
        return schema.empty_frame(reading.columns if columns is None else columns)
    return read_partition(part, columns, reading=reading)


class EventSource(Protocol):
    """A source of events: `Run`, or a run of a test."""

    def parts(self, columns: Sequence[str] | None = None, **where: Any) -> Sequence[Part]:
        """Events as tasks that read a partition each; see `Run.parts`."""


# ---- figures of contexts ----

USAGE_KEYS = ("workflow", "stage", "task", "job")


def usage_of(catalogue: Catalogue, found: list[Block]) -> list[list[Any]]:
    """Events, bytes and times of each context in these blocks, computed from their events: workflow, stage, task, job
    ("" for null), events, read bytes, written bytes, first and last time (ns)."""
    reading = Reading(("cat", "ts", "dur", "span", "lines", "dir", "size", *USAGE_KEYS), Where(), ())
    tables = engine.compute([partial(_usage, part, reading) for part in partitions.cut(catalogue, found)])
    return [row for table in tables for row in table.astype(object).to_numpy().tolist()]


def _usage(part: Partition, reading: Reading) -> pd.DataFrame:
    frame = read_partition(part, reading=reading)
    size = frame["size"].fillna(0).astype("int64").where(~frame["cat"].isin(list(schema.UPPER_LAYERS)), 0)
    figures = frame[list(USAGE_KEYS)].assign(
        events=frame["lines"],
        read_bytes=size.where(frame["dir"].isin(["r", "rw"]), 0),
        written_bytes=size.where(frame["dir"].isin(["w", "rw"]), 0),
        t0_ns=frame["ts"],
        t1_ns=ends(frame),
    )
    how = {"events": "sum", "read_bytes": "sum", "written_bytes": "sum", "t0_ns": "min", "t1_ns": "max"}
    for name in USAGE_KEYS:
        column = figures[name]
        column = column if "" in column.cat.categories else column.cat.add_categories([""])
        figures[name] = column.fillna("")
    table = figures.groupby(list(USAGE_KEYS), observed=True, as_index=False).agg(how)
    return table.astype({**dict.fromkeys(how, "Int64"), **dict.fromkeys(USAGE_KEYS, object)})
