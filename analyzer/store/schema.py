"""The columns of a frame of events: names, types, units and meanings, in one table.

    COLUMNS -> arrow_schema() for batches -> frame_of() for pandas -> empty_frame() for Dask's meta

Invariants: every reader (native, oracle, DFTracer's files) gives these columns with these types. Text repeats,
so it is a category (Arrow: dictionary with int32 indices); an integer that may be absent is pandas' nullable Int64 or
Int32, never a float and never a sentinel. An integer that its column can't hold reads as the nearest one that it can;
bytes that are not UTF-8 read as U+FFFD. A free tag `<key>` is the column `tag.<key>`, nullable text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tailrace import _native
from tailrace.analyzer.util import nearest
from tailrace.analyzer.util.lazy import lazy
from tailrace.analyzer.util.types import Array
from tailrace.errors import QueryError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import pyarrow as pa
else:
    np = lazy("numpy")
    pd = lazy("pandas")
    pa = lazy("pyarrow")

TEXT, INT32, INT64 = "text", "int32", "int64"
FLAG, DAY = "flag", "day"
"""Of a store's own columns: true or false; a date, as 2026-11-22, which has an order."""
TAG_PREFIX = "tag."
TAGS = ("workflow", "stage", "task", "job", "rank")
"""First-class tags, in canonical order; blocks are indexed by them."""


@dataclass(frozen=True)
class Column:
    """One column: `kind` is text, int32 or int64, of a store's own also flag or day; `unit` is "" where the value is a
    name or a number without one."""

    name: str
    kind: str
    nullable: bool
    unit: str
    doc: str

    @property
    def is_number(self) -> bool:
        """Whether it has sums and ranges."""
        return self.kind in (INT32, INT64)

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type of the column in a batch."""
        if self.kind == TEXT:
            return pa.dictionary(pa.int32(), pa.string())
        return pa.int32() if self.kind == INT32 else pa.int64()

    @property
    def dtype(self) -> str:
        """The pandas dtype by name: category, int32, int64, Int32, Int64 or boolean."""
        if self.kind in (TEXT, DAY):
            return "category"
        if self.kind == FLAG:
            return "boolean"
        return self.kind.replace("int", "Int") if self.nullable else self.kind


COLUMNS = (
    Column("name", TEXT, False, "", "the call as the program made it"),
    Column("cat", TEXT, False, "", "its layer: POSIX, STDIO, MMAP, PIPE, SOCKET, LIBC, MPIIO, HDF5, APP, PROCESS, ..."),
    Column("ts", INT64, False, "ns since the epoch", "when the call started"),
    Column("dur", INT64, False, "ns", "how long it took; of a line of totals the sum of its calls"),
    Column("host", TEXT, False, "", "node on which the process ran"),
    Column("pid", INT32, False, "", "process"),
    Column("start", TEXT, True, "ns, hex", "when tracing of its process began: distinguishes processes of one pid"),
    Column("tid", INT32, False, "", "thread"),
    Column("path", TEXT, True, "", "absolute name of the file; null for a call without one"),
    Column("file", TEXT, True, "", "identity of the file, the same under all its names; null when no file was there"),
    Column("ftype", TEXT, True, "", "reg, dir, lnk, chr, blk, fifo, sock, anon, or none: no file was there"),
    Column("blksize", INT64, True, "bytes", "what the file system prefers to move of the file at a time (st_blksize)"),
    Column("path2", TEXT, True, "", "second file of a two-path call; of an end of a copy the other end"),
    Column("file2", TEXT, True, "", "its identity"),
    Column("object", TEXT, True, "", "dataset in the file, /group/name, or its attribute, /group/name@attribute"),
    Column("offset", INT64, True, "bytes", "where in the file the bytes begin; null when unknown or without position"),
    Column("offset2", INT64, True, "bytes", "of a copy: where in the second file the bytes begin; null when unknown"),
    Column("size", INT64, True, "bytes", "bytes really moved, 0 for a failed call; null for a call that moves none"),
    Column("count", INT64, True, "bytes", "bytes requested"),
    Column("ret", INT64, True, "", "what the call returned; a pointer is 0 or 1"),
    Column("errno", INT32, True, "", "error number; null unless the call failed"),
    Column("dir", TEXT, True, "", "r or w for a call that moves bytes; a copy from file to file has a row for each"),
    Column("flags", INT32, True, "", "flags of an open or of a mapping, as the kernel takes them"),
    Column("prot", INT32, True, "", "protection of a mapping, as the kernel takes it"),
    Column("calls", INT32, False, "calls", "calls that the row stands for: of totals, of single characters; else 1"),
    Column("workflow", TEXT, True, "", "one run of one workflow"),
    Column("stage", TEXT, True, "", "the step, shared by all tasks that do it"),
    Column("task", TEXT, True, "", "one invocation"),
    Column("job", TEXT, True, "", "the resource manager's job"),
    Column("rank", TEXT, True, "", "rank in a parallel program"),
    Column("region", TEXT, True, "", "path of the innermost region that the program was in: outer/inner"),
    Column("category", TEXT, True, "", "of the program's own event (cat APP): the category that it was given"),
    Column("kind", TEXT, True, "", "of the program's own event: instant or counter; null for a region"),
    Column("region_id", INT64, True, "", "of the program's own event: its number, unique in the run with its process"),
    Column("parent_id", INT64, True, "", "of the program's own event: the number of the region that it is in"),
    Column("epoch", INT64, True, "", "of the program's own event: the epoch that it was given"),
    Column("step", INT64, True, "", "of the program's own event: the step that it was given"),
    Column("keys", TEXT, True, "", "further keys of the program's event, device and stream of a GPU's: a tag string"),
    Column("open", INT32, True, "", "1 for a region that had not ended yet: a later row with its number has its end"),
    Column(
        "run_ns",
        INT64,
        True,
        "ns",
        "on a processor: a thread until then, a child that ended (cat PROCESS)",
    ),
    Column("ready_ns", INT64, True, "ns", "the same threads ready, waiting for a processor; null: not known"),
    Column(
        "ready_of_ns", INT64, True, "ns", "of a child: what its threads whose ready_ns is known were on a processor"
    ),
    Column(
        "timeout_ns", INT64, True, "ns", "of a wait (cat WAIT): what was asked for at most; null: no end, or not known"
    ),
    Column("descriptors", INT32, True, "", "of a wait for descriptors: how many"),
    Column("thread", INT32, True, "", "of a join: the thread (tid) that was waited for"),
    Column("at_once", INT32, True, "", "1: the calls (of cat WAIT) did not wait"),
    Column("holder", INT32, True, "", "of a lock of a file: the process that had it when the wait began"),
    Column("ranks", INT32, True, "", "of a collective call of MPI-IO: ranks of its communicator; null: independent"),
    Column("dims", TEXT, True, "", "dimensions of the dataset, [size, ...]; [] for a single element"),
    Column("chunk", TEXT, True, "", "size of the dataset's chunks by dimension; of transfers of 0.5 ms or more"),
    Column("points", INT64, True, "", "elements that a call on a dataset selected"),
    Column("selection", TEXT, True, "", "what it selected in the file: all, none, points, regular or irregular slabs"),
    Column("blocks", INT64, True, "", "blocks of the selected hyperslab"),
    Column("slab", TEXT, True, "", "a regular hyperslab: lists of start, stride, count and block by dimension"),
    Column("transfer", TEXT, True, "", "collective or fell_back (requested so, done independently); null: independent"),
    Column(
        "lines", INT32, False, "", "lines of the row under full detail: 1; of totals more; of a copy's written end 0"
    ),
    Column("span", INT64, True, "ns", "of several calls: from the begin of the first one to the end of the last one"),
    Column("last", INT64, True, "ns", "totals: from the begin of the first call to the begin of the last one"),
    Column("followed", INT64, True, "", "totals: calls that began where the one before on this file ended"),
    Column("placed", INT64, True, "", "totals: calls at a known offset of a file with a known blksize"),
    Column("unaligned", INT64, True, "", "totals: of these, that touch a block more than their bytes need"),
    Column("sizes", TEXT, True, "", "totals: calls by size, [b, calls, ...] for sizes of b binary digits"),
    Column("durs", TEXT, True, "", "totals: calls by duration in ns, [b, calls, ...] for those of b binary digits"),
    Column(
        "pieces", TEXT, True, "", "totals: bytes, ranges and times of all functions of the line's file and direction"
    ),
    Column("ahead", INT64, True, "bytes", "read ahead by the C library, and dropped by this call on a stream"),
    Column("stack", TEXT, True, "", "the call stack that was recorded with the call: its frames, one a line"),
)
BY_NAME = {column.name: column for column in COLUMNS}
CALLER = Column("caller", TEXT, True, "", "where in the program the call was made, by its stack: file:line (function)")
"""Made of `stack` where it is asked for (callers.py): it is in no frame of all columns."""
OF_STORE = {
    column.name: column
    for column in (
        Column("run", TEXT, False, "", "directory of the run"),
        *(
            Column(name, TEXT, True, "", f"{name} of the run")
            for name in ("user", "project", "account", "queue", "application")
        ),
        Column("day", DAY, False, "", "day on which the run began, UTC"),
        Column("owner", INT64, False, "", "user id of the run's owner"),
        Column("failed", FLAG, True, "", "whether the run failed"),
        Column("program", TEXT, True, "", "program of the process"),
        Column("fstype", TEXT, True, "", "type of the file system that the file is on"),
        Column("mount", TEXT, True, "", "its mount point"),
        Column("last_ns", INT64, False, "ns since the epoch", "when the call, or the last call of an access, ended"),
        Column("version", INT64, True, "", "of an access: the file's version"),
        Column("accesses", INT64, False, "", "of an access: 1"),
    )
}
"""Columns that questions to a store have besides those of events."""
EACH = frozenset({"size", "count", "calls", "dur", "offset", "ret", "ts"})
"""Columns that have a value for each call only under full detail: a line of totals has their sums, or none."""

OF_CALL = frozenset({"dur", "calls", "ret"})
"""Columns that are of the call where a copy is two rows: in figures they count in the row of the end that was read."""

_UPPER = _native.bits()["upper"]
UPPER_LAYERS = frozenset(
    {"MPI", "NETCDF", "PNETCDF", "ADIOS", "ADIOS2"}  # of other tracers
    | {category for category, bits in _native.meanings()[1].items() if bits & _UPPER}
)
"""Layers (`cat`) whose calls are recorded again in a lower layer: their bytes would be counted twice."""


def column(name: str) -> Column:
    """The column called `name`, of events or of a store's own; `tag.<key>` is a column for every key. Raises QueryError
    with the valid names."""
    found = BY_NAME.get(name) or OF_STORE.get(name)
    if found is not None:
        return found
    if name == CALLER.name:
        return CALLER
    if name.startswith(TAG_PREFIX) and len(name) > len(TAG_PREFIX):
        return Column(name, TEXT, True, "", "free tag")
    raise QueryError(
        f"there is no column {name!r}{nearest.hint(name, (*BY_NAME, CALLER.name))}; there are {', '.join(BY_NAME)},"
        f" {CALLER.name} and {TAG_PREFIX}<key>, in a store also {', '.join(OF_STORE)}"
    )


def arrow_schema(names: Iterable[str]) -> pa.Schema:
    """The Arrow schema of a batch with these columns. Raises QueryError on an unknown name."""
    return pa.schema([pa.field(c.name, c.arrow, nullable=c.nullable) for c in map(column, names)])


def empty_frame(names: Iterable[str]) -> pd.DataFrame:
    """An empty frame with the dtypes of `frame_of`: Dask's meta. Raises QueryError on an unknown name."""
    return frame_of(empty_batch(names))


def empty_batch(names: Iterable[str]) -> pa.RecordBatch:
    """A batch without rows. Raises QueryError on an unknown name."""
    schema = arrow_schema(names)
    return pa.record_batch([pa.array([], type=field.type) for field in schema], schema=schema)


def frame_of(batch: pa.RecordBatch) -> pd.DataFrame:
    """A batch of events as a pandas frame with the dtypes of `Column.dtype`. The frame owns its memory."""
    series = {field.name: _series(column(field.name), batch.column(i)) for i, field in enumerate(batch.schema)}
    return pd.DataFrame(series, index=pd.RangeIndex(batch.num_rows), copy=False)


def _series(spec: Column, array: pa.Array) -> pd.Series:
    values: pd.Categorical | pd.arrays.IntegerArray | Array
    if spec.kind == TEXT:
        codes = array.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        # "str" gives empty and full categories one dtype in every pandas, so that partitions can be joined.
        categories = pd.Index(array.dictionary.to_pylist(), dtype="str")
        values = pd.Categorical.from_codes(codes, categories=categories, validate=False)
    elif spec.nullable:
        mask = array.is_null().to_numpy(zero_copy_only=False)
        values = pd.arrays.IntegerArray(np.array(array.fill_null(0)), np.array(mask))
    else:
        values = np.array(array)
    return pd.Series(values, copy=False)
