"""Conflicts: two tasks access the same bytes of a file, one of them writes, and nothing orders the two.

    read during write   a read overlapped in time with another task's write of the same bytes (or its truncation)
    read before write   the read was over when the other task wrote; a later read would have returned other bytes
    two writers         both wrote the same bytes; which of the two stays depends on the schedule

Order is happens-before (happens_before.py): the order inside a task, fork, exit and wait, bytes through pipes and
sockets, declared dependencies and waits, which hold for inner tasks too; a task and its inner tasks are ordered. Times
alone order nothing, but a pair of which the manager submitted the later task when the other one was over could not
overlap: it is marked `in_time`. Accesses that overlap in time have no order. A task's own processes and threads are
taken to be ordered. A task that waited for another one is ordered with it, also when that one ran again later. What
orders the ranks of a parallel program outside of tasks, the messages of MPI, is not recorded: their pairs are marked
`ranks`, and said to be no more than not known.

Shared memory of two processes outside of tasks, in a run with tasks, belongs to the workflow manager and is left out.

Only known byte ranges are compared: accesses at unknown offsets are counted (`unknown`) and not reported as conflicts.
So are two writers that have the file open from a common ancestor, as a log that is their standard output
(inherited.py).
Reads after the write are no conflict here; whether they were ordered is compared with the declared DAG
(declared_savings.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.insights.access_patterns import ranks_of
from tailrace.analyzer.insights.happens_before import HappensBefore
from tailrace.analyzer.insights.inherited import Inherited
from tailrace.analyzer.insights.inputs import Inputs
from tailrace.analyzer.util import grouping, intervals
from tailrace.analyzer.util.tabular import Tabular
from tailrace.analyzer.util.types import Bools, Ints, Objects

DURING, BEFORE, WRITERS = "read during write", "read before write", "two writers"
COLUMNS = [
    "kind",
    "path",
    "file",
    "first",
    "second",
    "bytes",
    "start",
    "end",
    "first_ns",
    "second_ns",
    "overlap",
    "in_time",
    "ranks",
]
MAX_PAIRS = 2_000_000
"""Pairs of accesses that are compared; past it files are left out, and counted."""
MAX_WALKS = 5_000
"""Walks of the happens-before graph; past it pairs count as `unchecked`."""
WHOLE = np.iinfo(np.int64).max


@dataclass(frozen=True, repr=False)
class Conflicts(Tabular):
    """
    rows: columns `COLUMNS`: first and second are tasks (of a read and a write the reader is first), bytes in conflict,
        the first of the common ranges (start, end), when each access began, overlap (they overlapped in time), in_time
        (the manager submitted the later task when the other one was over), ranks (they are two ranks of parallel
        programs); those that overlapped first, those in time last, then by bytes.
    unknown: pairs of tasks at one file that nothing orders, and whose offsets are not known.
    unchecked: pairs past `MAX_PAIRS` and `MAX_WALKS`.
    """

    rows: pd.DataFrame
    unknown: int
    unchecked: int


def conflicts(inputs: Inputs, order: HappensBefore) -> Conflicts:
    """The conflicts of a run; see the module's definition."""
    bursts = _bursts(inputs)
    pairs, left_out = _pairs(bursts)
    own = (~inputs.works[bursts["task"].to_numpy()]) & bursts["file"].isin(_shared_memory(inputs)).to_numpy()
    pairs = pairs[~(own[pairs["a"].to_numpy()] & own[pairs["b"].to_numpy()])].reset_index(drop=True)
    loose = bursts["loose"].to_numpy()
    vague = loose[pairs["a"].to_numpy()] | loose[pairs["b"].to_numpy()]
    met = _meet(inputs, bursts, pairs)
    shared = _inherited(inputs, bursts, met)
    met.loc[shared, "bytes"] = 0
    candidates = met[(met["bytes"] > 0).to_numpy() | vague | shared].reset_index(drop=True)
    found, unchecked = _unordered(bursts, candidates, order)
    unknown = found[found["bytes"] == 0]
    return Conflicts(
        _table(inputs, bursts, found[found["bytes"] > 0]), _task_pairs(bursts, unknown), unchecked + left_out
    )


def _shared_memory(inputs: Inputs) -> Ints:
    """The codes of files in shared memory."""
    return np.flatnonzero([str(path).startswith("/dev/shm/") for path in inputs.m.paths]).astype(np.int64)


def _bursts(inputs: Inputs) -> pd.DataFrame:
    """The accesses of data files: position in the model's bursts, task, file, dir, times, loose, fresh."""
    data = inputs.m.classed(("data",)) & ~inputs.m.versions.table["stream"].to_numpy()[inputs.m.version]
    at, size = np.flatnonzero(data), len(inputs.m.table.files)
    file, way, first, last, who = (
        inputs.m.bursts[name].to_numpy()[at] for name in ("file", "dir", "first_ns", "last_ns", "who")
    )
    task = inputs.of_who[who]
    # A file that one task wrote before any task read it is the common case, and has no pairs.
    wrote = way == edge_table.WRITE
    several = grouping.distinct(file, task, size) > 1
    writers = grouping.distinct(file[wrote], task[wrote], size)
    done = grouping.most(file[wrote], last[wrote], size, 0)
    read = grouping.least(file[~wrote], first[~wrote], size, np.iinfo(np.int64).max)
    odd = several & ((writers > 1) | ((writers > 0) & (read < done)))
    kept = odd[file]
    names = ["file", "dir", "first_ns", "last_ns", "fresh", "loose_bytes", "mapped_bytes", "who"]
    rows = inputs.m.bursts[names].iloc[at[kept]]
    rows = rows.assign(burst=at[kept], task=task[kept], loose=rows["loose_bytes"] > 0)
    result: pd.DataFrame = rows.reset_index(drop=True)
    return result


def _pairs(bursts: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """(a, b): positions of accesses of one file by two tasks. b writes; a reads and began before b ended, or writes and
    began before b did. And how many files were left out."""
    order = np.lexsort((bursts["first_ns"].to_numpy(), bursts["file"].to_numpy()))
    file, write = bursts["file"].to_numpy()[order], (bursts["dir"] == edge_table.WRITE).to_numpy()[order]
    first, last = bursts["first_ns"].to_numpy()[order], bursts["last_ns"].to_numpy()[order]
    task = bursts["task"].to_numpy()[order]
    lefts, rights, seen, out = [], [], 0, 0
    new = np.ones(len(file), dtype=np.bool_)
    new[1:] = file[1:] != file[:-1]
    bounds = np.flatnonzero(new)
    for low, high in pairwise([*bounds.tolist(), len(file)]):
        writers = np.flatnonzero(write[low:high]) + low
        if seen + len(writers) * (high - low) > MAX_PAIRS:
            out += 1
            continue
        seen += len(writers) * (high - low)
        b = np.repeat(writers, high - low)
        a = np.tile(np.arange(low, high), len(writers))
        keep = (task[a] != task[b]) & np.where(
            write[a], (first[a] < first[b]) | ((first[a] == first[b]) & (a < b)), first[a] < last[b]
        )
        lefts.append(order[a[keep]])
        rights.append(order[b[keep]])
    columns = {
        name: np.concatenate(part) if part else np.empty(0, dtype=np.int64)
        for name, part in (("a", lefts), ("b", rights))
    }
    return pd.DataFrame(columns), out


def _meet(inputs: Inputs, bursts: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """`pairs` with bytes, start, end: how many bytes both touched, and the first range of them."""
    extents = inputs.m.table.extents
    at = np.searchsorted(extents.group, np.arange(len(inputs.m.bursts) + 1))
    ranges = np.column_stack((extents.start, extents.end))
    burst, fresh = bursts["burst"].to_numpy(), bursts["fresh"].to_numpy()
    everything = np.array([[0, WHOLE]], dtype=np.int64)
    rows = np.zeros((len(pairs), 3), dtype=np.int64)
    for i, (a, b) in enumerate(zip(pairs["a"].tolist(), pairs["b"].tolist(), strict=True)):
        left, right = (ranges[at[burst[x]] : at[burst[x] + 1]] for x in (a, b))
        # Truncation removes every byte.
        common = intervals.intersect(left, everything if fresh[b] else right)
        if len(common):
            rows[i] = intervals.total(common), common[0, 0], common[0, 1]
    met: pd.DataFrame = pairs.assign(bytes=rows[:, 0], start=rows[:, 1], end=rows[:, 2])
    return met


def _inherited(inputs: Inputs, bursts: pd.DataFrame, met: pd.DataFrame) -> Bools:
    """Which pairs of writes went to a file that both processes have open from a common ancestor."""
    inherited = Inherited(inputs)
    write = (bursts["dir"] == edge_table.WRITE).to_numpy()[met["a"].to_numpy()]
    shared = np.zeros(len(met), dtype=np.bool_)
    who, file = (bursts[name].to_numpy() for name in ("who", "file"))
    a, b = met["a"].to_numpy(), met["b"].to_numpy()
    for i in np.flatnonzero(write & (met["bytes"] > 0).to_numpy()).tolist():
        shared[i] = inherited.is_shared(int(who[a[i]]), int(who[b[i]]), int(file[a[i]]))
    return shared


def _unordered(bursts: pd.DataFrame, rows: pd.DataFrame, order: HappensBefore) -> tuple[pd.DataFrame, int]:
    """The candidates that nothing orders, and how many were not checked."""
    task, first, last = (bursts[name].to_numpy() for name in ("task", "first_ns", "last_ns"))
    a, b = rows["a"].to_numpy(), rows["b"].to_numpy()
    overlap = (first[a] < last[b]) & (first[b] < last[a])
    keep, in_time = overlap.copy(), np.zeros_like(overlap)
    unchecked = walks = 0
    for i in np.flatnonzero(~overlap).tolist():
        early, late = (a[i], b[i]) if last[a[i]] <= first[b[i]] else (b[i], a[i])
        if walks >= MAX_WALKS and not order.known(int(task[early]), int(last[early])):
            unchecked += 1
            continue
        walks += 1
        keep[i] = not (
            order.before(int(task[early]), int(last[early]), int(task[late]), int(first[late]))
            or order.ran_again(int(task[late]), int(last[late]), int(task[early]), int(first[early]))
        )
        in_time[i] = order.apart(int(task[early]), int(task[late]))
    return rows.assign(overlap=overlap, in_time=in_time)[keep], unchecked


def _table(inputs: Inputs, bursts: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """One row a (kind, file, two tasks), the largest of its accesses."""
    a, b = rows["a"].to_numpy(), rows["b"].to_numpy()
    writes = (bursts["dir"].to_numpy() == edge_table.WRITE)[a]
    overlap = rows["overlap"].to_numpy()
    out = pd.DataFrame(
        {
            "kind": np.where(writes, WRITERS, np.where(overlap, DURING, BEFORE)),
            "file": bursts["file"].to_numpy()[a],
            "first": bursts["task"].to_numpy()[a],
            "second": bursts["task"].to_numpy()[b],
            "bytes": rows["bytes"].to_numpy(),
            "start": rows["start"].to_numpy(),
            "end": rows["end"].to_numpy(),
            "first_ns": bursts["first_ns"].to_numpy()[a],
            "second_ns": bursts["first_ns"].to_numpy()[b],
            "overlap": overlap,
            "in_time": rows["in_time"].to_numpy(),
        }
    )
    rank = _ranks(inputs)
    one, other = (rank[out[end].to_numpy()] for end in ("first", "second"))
    out["ranks"] = (one != "") & (other != "") & (one != other)
    out["path"] = inputs.m.paths[out["file"].to_numpy()]
    out = out.sort_values(["overlap", "in_time", "bytes"], ascending=[False, True, False], kind="stable")
    result: pd.DataFrame = out.drop_duplicates(["kind", "file", "first", "second"])[COLUMNS].reset_index(drop=True)
    return result


def _ranks(inputs: Inputs) -> Objects:
    """The rank of each task that is a process, "" for others."""
    found = np.full(len(inputs.tasks), "", dtype=object)
    found[inputs.of_who] = ranks_of(inputs)
    found[(inputs.tasks["task"] != "").to_numpy(dtype=np.bool_)] = ""
    return found


def _task_pairs(bursts: pd.DataFrame, pairs: pd.DataFrame) -> int:
    task = bursts["task"].to_numpy()
    return len(set(zip(task[pairs["a"].to_numpy()].tolist(), task[pairs["b"].to_numpy()].tolist(), strict=True)))
