"""Frames of events: the blocks that can hold matching events, cut into partitions, read on demand, filtered exactly.

    Where -> blocks(catalogue) -> partitions -> tasks (engine.py), or dask.dataframe.from_map(read_partition)

Invariants: a block is skipped only when its header rules it out; every returned row matches; only the requested columns
and those of the predicates are parsed. A block that differs from its header is left out and named (problems.py).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast

from tailrace import _native
from tailrace.analyzer.store import caller_columns, engine, group_keys, problems, schema
from tailrace.analyzer.store.catalogue import Catalogue
from tailrace.analyzer.store.conditions import Where, all_plain, ends, fits
from tailrace.analyzer.store.group_keys import Key
from tailrace.analyzer.store.joining import joined
from tailrace.analyzer.store.mounts import Mount
from tailrace.analyzer.store.processes import PROCESS
from tailrace.analyzer.util.lazy import lazy
from tailrace.analyzer.util.memory import Budget
from tailrace.analyzer.util.types import SqlValue
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

PARTITION_RAW_BYTES = 96 << 20
"""Raw JSON in a partition, about 350,000 events."""
JOINED_RAW_BYTES = 8 << 20
"""In a partition that is joined to others in this process: its columns stay in the processor's cache, and the next one
gets the same memory. New pages for each column of a large partition took a third of the time of reading."""
_EVENT_BYTES = 128
"""No event of the core has a shorter line."""
_VALUE_BYTES = 12
"""Of one value of a column and what it takes while it is read."""
SMALLEST_RAW_BYTES = 8 << 20
"""The smallest partitions that are made to give every core one."""


# ---- blocks and partitions ----


@dataclass(frozen=True)
class FilePart:
    """Blocks of one trace file, as (offset, member bytes), and the events of each."""

    path: str
    places: tuple[tuple[int, int], ...]
    counts: tuple[int, ...]

    @property
    def events(self) -> int:
        return sum(self.counts)


Partition = tuple[FilePart, ...]
Block = tuple[str, int, int, int, int]
"""A row: file, offset, member bytes, raw bytes, events."""
USAGE_KEYS = ("workflow", "stage", "task", "job")


def blocks(catalogue: Catalogue, predicates: Where) -> list[Block]:
    """The blocks that can hold matching events, in file order."""
    tests, parameters = ["b.events > 0"], list[SqlValue]()
    contexts, context_parameters = _context_tests(predicates)
    if contexts:
        tests.append(
            "b.id IN (SELECT l.block_id FROM block_contexts l JOIN contexts c ON c.id = l.context_id WHERE "
            + " AND ".join(contexts)
            + ")"
        )
        parameters += context_parameters
    for name, wanted in predicates.values:
        if name in PROCESS and all_plain(wanted):
            tests.append(f"p.{name} IN (SELECT value FROM json_each(?))")
            parameters.append(json.dumps(list(wanted)))
    for test, bound in (("b.t1 >= ?", predicates.t0), ("b.t0 < ?", predicates.t1)):
        if bound is not None:
            tests.append(test)
            parameters.append(min(max(bound, -(2**63)), 2**63 - 1))
    return catalogue.rows(
        "SELECT f.file, b.offset, b.member_bytes, b.raw, b.events FROM blocks b"
        " JOIN files f ON f.id = b.file_id"
        f" JOIN processes p ON p.id = b.process_id WHERE {' AND '.join(tests)} ORDER BY f.file, b.offset",
        parameters,
    )


def _context_tests(predicates: Where) -> tuple[list[str], list[SqlValue]]:
    """SQL tests on a row of contexts, with their parameters."""
    tests, parameters = [], list[SqlValue]()
    for name, wanted in predicates.values:
        if not all_plain(wanted):
            continue
        if name in schema.TAGS:
            value = f"c.{name}"
        elif name.startswith(schema.TAG_PREFIX):
            value = "(SELECT j.value FROM json_each(c.free) j WHERE j.key = ?)"
            parameters.append(name[len(schema.TAG_PREFIX) :])
        else:
            continue
        tests.append(f"coalesce({value}, '') IN (SELECT value FROM json_each(?))")
        parameters.append(json.dumps(list(wanted)))
    return tests, parameters


def partitions(catalogue: Catalogue, predicates: Where) -> list[Partition]:
    """The matching blocks in lists of about equal weight, each of at most about PARTITION_RAW_BYTES."""
    return _cut(catalogue, blocks(catalogue, predicates))


BLOCK_COLUMNS = (*schema.TAGS, *PROCESS)
"""The columns that block headers have, besides the free tags."""


class Counts(NamedTuple):
    """Matching events by the values of columns (None: null), from block headers. rest: the blocks whose headers can't
    tell, since they may hold events of several groups, or matching and other ones."""

    groups: dict[tuple[SqlValue, ...], int]
    rest: list[Block]


def counts(catalogue: Catalogue, by: Sequence[str], predicates: Where) -> Counts:
    """How many events match, by the columns `by`, without reading any. Everything is in `rest` where a column is not
    in headers."""
    found = blocks(catalogue, predicates)
    named = [name for name, _ in predicates.values]
    if predicates.files or predicates.without or not all(_in_headers(name) for name in (*by, *named)):
        return Counts({}, found)
    rows = catalogue.rows(
        "SELECT f.file, b.offset, b.calls, b.t0, b.t1, p.host, p.pid, p.start, c.workflow, c.stage, c.task,"
        " c.job, c.rank, c.free FROM blocks b JOIN files f ON f.id = b.file_id JOIN processes p ON p.id = b.process_id"
        " JOIN block_contexts l ON l.block_id = b.id JOIN contexts c ON c.id = l.context_id WHERE b.events > 0"
    )
    places = {(block[0], block[1]): block for block in found}
    kinds: dict[tuple[str, int], set[tuple[SqlValue, ...] | None]] = {}
    events: dict[tuple[str, int], int] = {}
    for file, offset, calls, t0, t1, host, pid, start, *tags, free in rows:
        place = (file, offset)
        events[place] = calls
        if place not in places:
            continue
        values = dict(zip(BLOCK_COLUMNS, (*tags, host, pid, start), strict=True))
        if any(name.startswith(schema.TAG_PREFIX) for name in (*by, *named)):
            values.update((schema.TAG_PREFIX + key, value) for key, value in json.loads(free).items())
        whole = _inside(t0, t1, predicates)
        held = kinds.setdefault(place, set())
        if not whole:
            held.update((("",), None))  # two groups: its events have to be read
        elif all(fits(values.get(name), wanted) for name, wanted in predicates.values):
            held.add(tuple(values.get(name) for name in by))
        else:
            held.add(None)
    groups: dict[tuple[SqlValue, ...], int] = {}
    rest = []
    for place, block in places.items():
        held = kinds.get(place, set())
        if len(held) != 1:
            rest.append(block)
        elif (key := next(iter(held))) is not None:
            groups[key] = groups.get(key, 0) + events[place]
    return Counts(groups, rest)


def _in_headers(name: str) -> bool:
    return name in BLOCK_COLUMNS or name.startswith(schema.TAG_PREFIX)


def _inside(t0: int, t1: int, predicates: Where) -> bool:
    """Whether all events of a block lie in the time asked for."""
    return (predicates.t0 is None or t0 >= predicates.t0) and (predicates.t1 is None or t1 < predicates.t1)


def _weight(block: Block) -> int:
    """The raw size of a block, as if no event were shorter than those of the core: memory goes by events."""
    return max(block[3], block[4] * _EVENT_BYTES)


def _cut(catalogue: Catalogue, found: list[Block], largest: int | None = None) -> list[Partition]:
    """The blocks in partitions of at most about `largest` raw bytes (None: PARTITION_RAW_BYTES)."""
    total = sum(_weight(block) for block in found)
    count = max(-(-total // (largest or PARTITION_RAW_BYTES)), min(engine.cores(), total // SMALLEST_RAW_BYTES), 1)
    # Absolute, since a worker of a cluster has another working directory; joined as text, since pathlib is slow for
    # 100,000 files.
    directory = os.path.abspath(catalogue.layout.directory)  # noqa: PTH100 (resolves no link)
    cut: list[Partition] = []
    part: list[tuple[str, list[tuple[int, int, int]]]] = []
    done = 0

    def finished() -> Partition:
        return tuple(
            FilePart(f"{directory}/{file}", tuple((at, size) for at, size, _ in rows), tuple(n for *_, n in rows))
            for file, rows in part
        )

    for block in found:
        file, offset, member_bytes, _, events = block
        if not part or part[-1][0] != file:
            part.append((file, []))
        part[-1][1].append((offset, member_bytes, events))
        done += _weight(block)
        if done * count >= total * (len(cut) + 1):
            cut.append(finished())
            part = []
    return [*cut, finished()] if part else cut


# ---- reading ----


def _here() -> tuple[str, int]:
    return os.uname().nodename, os.getpid()


@dataclass(frozen=True)
class Reading:
    """The arguments that all partitions of a frame share."""

    columns: tuple[str, ...]
    predicates: Where
    mounts: tuple[Mount, ...]
    opened_in: tuple[str, int] = field(default_factory=_here)
    """The process that opened the run, and shows what was left out."""


def read_partition(part: Partition, columns: Sequence[str] | None = None, *, reading: Reading) -> pd.DataFrame:
    """The matching rows of a partition with `columns` (Dask's projection; None: all of `reading.columns`).

    A block that is damaged, or has other events than its header says, is left out (problems.py). Raises TraceError
    where that would not be seen, and when a partition takes more than there is memory for.
    """
    return schema.frame_of(read_batch(part, columns, reading=reading))


def read_batch(part: Partition, columns: Sequence[str] | None = None, *, reading: Reading) -> pa.RecordBatch:
    """The rows of `read_partition` as the native reader has them."""
    wanted = list(reading.columns if columns is None else columns)
    predicates = reading.predicates
    needed = list(dict.fromkeys([*wanted, *predicates.columns()]))
    recorded = list(dict.fromkeys(map(caller_columns.recorded, needed)))

    def read(places: _Places) -> list[pa.RecordBatch]:
        return [pa.record_batch(_native.read_files(places, recorded, list(reading.mounts)))] if places else []

    batches, promised = _attempted(part, len(needed), reading, read)
    if not batches:
        return schema.empty_batch(wanted)
    batch = caller_columns.added(batches[0]) if schema.CALLER.name in needed else batches[0]
    _check_number(part, batch.num_rows, promised)
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
    chosen = blocks(catalogue, predicates) if found is None else found
    if any(key.of_each for key in asked.keys) and _has_totals(catalogue, chosen):
        return None
    reading = Reading(tuple(dict.fromkeys([*names, *predicates.columns()])), predicates, tuple(mounts))
    keys = [*((caller_columns.recorded(key.column), key.kind, key.width, key.origin) for key in asked.keys)]
    keys += [(caller_columns.recorded(name), group_keys.COLUMN, 0, 0) for name in predicates.texts()]
    one = partial(_sum_partition, asked=asked, keys=keys, reading=reading)
    return [partial(one, part) for part in _cut(catalogue, chosen)]


def stack_blocks(catalogue: Catalogue) -> list[Block]:
    """The blocks with a call that has a stack."""
    return catalogue.rows(
        "SELECT f.file, b.offset, b.member_bytes, b.raw, b.events FROM blocks b JOIN files f ON f.id = b.file_id"
        " WHERE b.stacks > 0 ORDER BY f.file, b.offset"
    )


def _has_totals(catalogue: Catalogue, found: list[Block]) -> bool:
    rows = catalogue.rows("SELECT f.file, b.offset FROM blocks b JOIN files f ON f.id = b.file_id WHERE b.totals > 0")
    return not {(file, offset) for file, offset, *_ in found}.isdisjoint(rows)


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
        groups = caller_columns.of_groups(groups, names, asked.gathered)
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
    chosen = blocks(catalogue, predicates)
    if not predicates.of_texts or sum(events for *_, events in chosen) > most:
        return None
    reading = Reading((*columns, *predicates.columns()), predicates, tuple(mounts))
    one = partial(_read_tuples, columns=tuple(columns), reading=reading)
    found = engine.compute([partial(one, part) for part in _cut(catalogue, chosen)])
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
        rows = caller_columns.of_rows(names, rows)
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
) -> list[Part]:
    """The matching events as tasks that read a partition each; none where no block can hold one. found: these blocks
    only. Raises QueryError on an unknown column."""
    cut = partitions(catalogue, predicates) if found is None else _cut(catalogue, found)
    return _tasks(cut, columns, predicates, mounts)


def _tasks(cut: list[Partition], columns: Sequence[str], predicates: Where, mounts: Sequence[Mount]) -> list[Part]:
    for name in columns:
        schema.column(name)
    reading = Reading(tuple(dict.fromkeys(columns)), predicates, tuple(mounts))
    return [partial(read_partition, part, reading=reading) for part in cut]


def read(catalogue: Catalogue, columns: Sequence[str], predicates: Where, mounts: Sequence[Mount]) -> pd.DataFrame:
    """The matching events as one frame, in the order of `frame`. Raises QueryError on an unknown column."""
    names = list(dict.fromkeys(columns))
    for name in names:
        schema.column(name)
    # A cluster gets few tasks, all at once; threads here wait, so that little is held beside what it is joined to.
    remote = engine.uses_dask()
    cut = _cut(catalogue, blocks(catalogue, predicates), PARTITION_RAW_BYTES if remote else JOINED_RAW_BYTES)
    if not cut:
        return schema.empty_frame(names)
    reading = Reading(tuple(names), predicates, tuple(mounts))
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
    cut = partitions(catalogue, predicates) or [()]
    one = partial(_read_or_empty, reading=Reading(names, predicates, tuple(mounts)))
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


def usage_of(catalogue: Catalogue, found: list[Block]) -> list[list[Any]]:
    """Events, bytes and times of each context in these blocks, computed from their events: workflow, stage, task, job
    ("" for null), events, read bytes, written bytes, first and last time (ns)."""
    reading = Reading(("cat", "ts", "dur", "span", "lines", "dir", "size", *USAGE_KEYS), Where(), ())
    tables = engine.compute([partial(_usage, part, reading) for part in _cut(catalogue, found)])
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
    usage: pd.DataFrame = table.astype({**dict.fromkeys(how, "Int64"), **dict.fromkeys(USAGE_KEYS, object)})
    return usage
