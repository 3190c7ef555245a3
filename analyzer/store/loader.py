"""Events of partitions, read on demand and filtered exactly: as frames, as sums of groups, as tuples.

    Where -> partitions.py -> tasks (engine.py), or dask.dataframe.from_map(read_partition)

Invariants: every returned row matches; only the requested columns and those of the predicates are parsed. A block that
differs from its header is left out and named (problems.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from tailrace import _native
from tailrace.analyzer.store import caller_columns, engine, group_keys, partitions, problems, schema
from tailrace.analyzer.store.catalogue import Catalogue
from tailrace.analyzer.store.conditions import Where, ends
from tailrace.analyzer.store.group_keys import Key
from tailrace.analyzer.store.joining import joined
from tailrace.analyzer.store.mounts import Mount
from tailrace.analyzer.store.partitions import Block, Counts, Partition
from tailrace.analyzer.util import named_files
from tailrace.analyzer.util.lazy import lazy
from tailrace.analyzer.util.types import SqlValue
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


Figures = tuple[int, int, int, int | None, int | None]
"""Of a column in a group: sum, sum of the calls that begin in it, calls of the lines that have a value, least and
greatest value."""
Values = list[str] | tuple[bytes, bytes]
"""The different values of a column in a group; numbers as `_native.sum_files` gives them."""
Group = tuple[tuple[str | int | None, ...], int, int, list[Figures], list[Values]]
"""A key, its calls, the lines that stand for several calls, the figures of each column, the values of others."""
Sums = Callable[[], "list[Group]"]
"""Reads a partition and groups it: a task of engine.py."""


@dataclass(frozen=True)
class Figured:
    """What is wanted of groups: keys, columns that get figures, columns whose values are gathered."""

    keys: tuple[Key, ...]
    values: tuple[str, ...]
    gathered: tuple[str, ...] = ()


def sums(
    catalogue: Catalogue,
    asked: Figured,
    predicates: Where,
    mounts: Sequence[Mount],
    found: list[Block] | None = None,
) -> list[Sums] | None:
    """The groups of the matching events as tasks that give those of a partition each; None where that takes frames:
    of files whose names don't tell (`Where.of_texts`), and where lines of totals are to be divided among ranges.
    Imports no pandas. found: these blocks only. Raises QueryError on an unknown column."""
    names = [*(key.column for key in asked.keys), *asked.values, *asked.gathered]
    for name in names:
        schema.column(name)
    if not predicates.of_texts:
        return None
    chosen = partitions.blocks(catalogue, predicates) if found is None else found
    if any(key.of_each for key in asked.keys) and partitions.has_totals(catalogue, chosen):
        return None
    reading = Reading(tuple(dict.fromkeys([*names, *predicates.columns()])), predicates, tuple(mounts))
    keys = [*((caller_columns.recorded(key.column), key.kind, key.width, key.origin) for key in asked.keys)]
    keys += [(caller_columns.recorded(name), group_keys.COLUMN, 0, 0) for name in predicates.texts()]
    one = partial(_sum_partition, asked=asked, keys=keys, reading=reading)
    return [partial(one, part) for part in partitions.cut(catalogue, chosen)]


def _sum_partition(
    part: Partition,
    asked: Figured,
    keys: list[tuple[str, str, int, int]],
    reading: Reading,
) -> list[Group]:
    """The groups of a partition. The last of `keys` are those of the conditions on text, which are tested once a group.
    Damage is met as in `read_partition`."""

    wanted = reading.predicates
    numbers = wanted.ranges()

    def read(places: _Places) -> tuple[list[Group], int]:
        if not places:
            return [], 0
        gathered = [caller_columns.recorded(name) for name in asked.gathered]
        return _native.sum_files(places, keys, asked.values, gathered, numbers, wanted.t0, reading.mounts)

    (groups, rows), promised = _attempted(part, len(reading.columns) + 1, reading, read)
    _check_number(part, rows, promised)
    own = len(asked.keys)
    names = [*(key.column for key in asked.keys), *wanted.texts()]
    if schema.CALLER.name in (*names, *asked.gathered):
        groups = caller_columns.of_groups(groups, names, asked.gathered, _opens(part))
    return [
        (key[:own], calls, totals, figures, values)
        for key, calls, totals, figures, values in groups
        if wanted.fits(key[own:])
    ]


def tuples(
    catalogue: Catalogue, columns: Sequence[str], predicates: Where, mounts: Sequence[Mount], most: int
) -> list[tuple[SqlValue, ...]] | None:
    """The matching events as tuples, in the order of `read`; None where more than `most` may match, or the choice is of
    files whose names don't tell. Imports no pandas. Raises QueryError on an unknown column."""
    for name in columns:
        schema.column(name)
    chosen = partitions.blocks(catalogue, predicates)
    if not predicates.of_texts or sum(events for *_, events in chosen) > most:
        return None
    reading = Reading((*columns, *predicates.columns()), predicates, tuple(mounts))
    one = partial(_read_tuples, columns=tuple(columns), reading=reading)
    found = engine.compute([partial(one, part) for part in partitions.cut(catalogue, chosen)])
    return [row for rows in found for row in rows]


def _read_tuples(part: Partition, columns: tuple[str, ...], reading: Reading) -> list[tuple[SqlValue, ...]]:
    wanted = reading.predicates
    names = [*columns, *wanted.texts()]

    def read(places: _Places) -> tuple[list[tuple[SqlValue, ...]], int]:
        if not places:
            return [], 0
        found = _native.rows_of(
            places, [*map(caller_columns.recorded, names)], wanted.ranges(), wanted.t0, reading.mounts
        )
        return cast("tuple[list[tuple[SqlValue, ...]], int]", found)

    (rows, count), promised = _attempted(part, len(names), reading, read)
    _check_number(part, count, promised)
    if schema.CALLER.name in names:
        rows = caller_columns.of_rows(names, rows, _opens(part))
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


class CountedSource(EventSource, Protocol):
    """A source of events whose block headers can be counted: `Run`."""

    @property
    def t0_ns(self) -> int | None:
        """The time of the first event, ns since the epoch."""

    @property
    def t1_ns(self) -> int | None:
        """When the last event ended."""

    def counts(self, by: Sequence[str] = (), **where: Any) -> Counts:
        """The number of events by columns, from headers; see `Run.counts`."""

    def sums(
        self,
        keys: Sequence[Key],
        values: Sequence[str],
        gathered: Sequence[str] = (),
        *,
        blocks: list[Block] | None = None,
        **where: Any,
    ) -> list[Sums] | None:
        """Figures of columns by groups of events; see `Run.sums`."""

    def tuples(self, columns: Sequence[str], most: int, **where: Any) -> list[tuple[SqlValue, ...]] | None:
        """Few events without pandas; see `Run.tuples`."""


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
