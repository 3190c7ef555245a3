"""Conflicts: two tasks access the same bytes of a file, one of them writes, and nothing orders the two.

    read during write   a read overlapped in time with another task's write of the same bytes (or its truncation)
    read before write   the read was over when the other task wrote; a later read would have returned other bytes
    two writers         both wrote the same bytes; which of the two stays depends on the schedule

Order is happens-before (Lamport 1978): the order inside a task, fork, exit and wait, bytes through pipes and sockets,
and declared dependencies, which hold for inner tasks too; a task and its inner tasks are ordered. Times alone order
nothing: that one task ran after the other in this run does not mean that it will in the next. Accesses that overlap
in time have no order. A task's own processes and threads are taken to be ordered.

Shared memory of two processes outside of tasks, in a run with tasks, belongs to the workflow manager and is left out.

Only known byte ranges are compared: accesses at unknown offsets are counted (`unknown`) and not reported as conflicts.
Reads after the write are no conflict here; whether they were ordered is compared with the declared DAG
(declared_savings.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.insights.inputs import DATA, Inputs
from tailrace.analyzer.insights.order import DECLARED, INSIDE
from tailrace.analyzer.model.declared_vs_observed import Moment, Task
from tailrace.analyzer.util import csr, intervals
from tailrace.analyzer.util.types import Ints

DURING, BEFORE, WRITERS = "read during write", "read before write", "two writers"
COLUMNS = ["kind", "path", "file", "first", "second", "bytes", "start", "end", "first_ns", "second_ns", "overlap"]
MAX_PAIRS = 2_000_000
"""Pairs of accesses that are compared; past it files are left out, and counted."""
MAX_WALKS = 5_000
"""Walks of the happens-before graph; past it pairs count as `unchecked`."""
WHOLE = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Conflicts:
    """
    rows: columns `COLUMNS`: first and second are tasks (of a read and a write the reader is first), bytes in conflict,
        the first of the common ranges (start, end), when each access began, overlap (they overlapped in time); those
        that overlapped first, then by bytes.
    unknown: pairs of tasks at one file that nothing orders, and whose offsets are not known.
    unchecked: pairs past `MAX_PAIRS` and `MAX_WALKS`.
    """

    rows: pd.DataFrame
    unknown: int
    unchecked: int


def conflicts(inputs: Inputs) -> Conflicts:
    """The conflicts of a run; see the module's definition."""
    bursts = _bursts(inputs)
    pairs, left_out = _pairs(bursts)
    own = (~inputs.works[bursts["task"].to_numpy()]) & bursts["file"].isin(_shared_memory(inputs)).to_numpy()
    pairs = pairs[~(own[pairs["a"].to_numpy()] & own[pairs["b"].to_numpy()])].reset_index(drop=True)
    loose = bursts["loose"].to_numpy()
    vague = loose[pairs["a"].to_numpy()] | loose[pairs["b"].to_numpy()]
    met = _meet(inputs, bursts, pairs)
    candidates = met[(met["bytes"] > 0).to_numpy() | vague].reset_index(drop=True)
    found, unchecked = _unordered(bursts, candidates, _Order(inputs))
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
    rows = inputs.m.bursts.loc[
        data, ["file", "dir", "first_ns", "last_ns", "fresh", "loose_bytes", "mapped_bytes", "who"]
    ]
    rows = rows.assign(burst=np.flatnonzero(data), task=inputs.of_who[rows["who"].to_numpy()])
    rows["loose"] = rows["loose_bytes"] > 0
    groups = rows.groupby("file")
    shared = (groups["task"].transform("nunique") > 1) & (groups["dir"].transform("max") == edge_table.WRITE)
    rows = rows[shared]
    # A file that one task wrote before any task read it is the common case, and has no pairs.
    wrote, read = (rows[rows["dir"] == way] for way in (edge_table.WRITE, edge_table.READ))
    never = np.iinfo(np.int64).max
    per_file = wrote.groupby("file").agg(writers=("task", "nunique"), done=("last_ns", "max"))
    per_file["read"] = read.groupby("file")["first_ns"].min().reindex(per_file.index, fill_value=never)
    odd = per_file.index[(per_file["writers"] > 1) | (per_file["read"] < per_file["done"])]
    result: pd.DataFrame = rows[rows["file"].isin(odd)].reset_index(drop=True)
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


class _Order:
    """Happens-before between tasks at given times."""

    def __init__(self, inputs: Inputs) -> None:
        rows = inputs.handovers[
            ~inputs.handovers["via"].isin((DECLARED, INSIDE))
        ]  # declared ones follow below, with tasks without events
        self.names = [(str(r.workflow), str(r.task)) if r.task else None for r in inputs.tasks.itertuples()]
        self.declared = inputs.order
        stream = inputs.m.versions.table["stream"].to_numpy()
        data = (rows["via"] == DATA).to_numpy()
        sure = ~data
        sure[data] = stream[rows["version"].to_numpy()[data]]
        rows = rows[sure]
        declared, unseen = _declared_moments(inputs)
        source = np.concatenate([rows["producer"].to_numpy(), declared[:, 0]])
        target = np.concatenate([rows["consumer"].to_numpy(), declared[:, 2]])
        given = np.concatenate([rows["given_ns"].to_numpy(), declared[:, 1]])
        taken = np.concatenate([rows["taken_ns"].to_numpy(), declared[:, 3]])
        task, when = np.concatenate([source, target]), np.concatenate([given, taken])
        order = np.lexsort((when, task))
        self.task, self.when = task[order], when[order]
        point = np.empty(len(order), dtype=np.int64)
        point[order] = np.arange(len(order))
        inner = np.flatnonzero(self.task[1:] == self.task[:-1])
        # Points of one task at one time are one moment: their order must not matter.
        same = inner[self.when[inner] == self.when[inner + 1]]
        edges = [(inner, inner + 1), (same + 1, same), (point[: len(source)], point[len(source) :])]
        self.graph = csr.build(len(order), np.concatenate([e[0] for e in edges]), np.concatenate([e[1] for e in edges]))
        self.bounds = np.searchsorted(self.task, np.arange(len(inputs.tasks) + unseen + 1))
        self._seen: dict[int, np.ndarray[tuple[int], np.dtype[np.bool_]]] = {}

    def known(self, task: int, after: int) -> bool:
        """Whether `before` needs no new walk of the graph."""
        return self._next(task, after) in self._seen

    def before(self, task: int, after: int, other: int, until: int) -> bool:
        """Whether all that `task` did up to `after` happened before what `other` did from `until` on."""
        one, two = self.names[task], self.names[other]
        if one is not None and two is not None and self.declared.nested(one, two):
            return True
        start = self._next(task, after)
        low, high = int(self.bounds[other]), int(self.bounds[other + 1])
        end = low + int(np.searchsorted(self.when[low:high], until, side="right")) - 1
        if start < 0 or end < low:
            return False
        if start not in self._seen:
            self._seen[start] = csr.reachable(self.graph, start)
            self._seen[start][start] = True
        return bool(self._seen[start][end])

    def _next(self, task: int, after: int) -> int:
        """The first point of a task not before a time; -1 where there is none."""
        low, high = int(self.bounds[task]), int(self.bounds[task + 1])
        at = low + int(np.searchsorted(self.when[low:high], after, side="left"))
        return at if at < high else -1


def _declared_moments(inputs: Inputs) -> tuple[Ints, int]:
    """The declared order, shape (n, 4): task and time of the earlier moment, task and time of the later one; and the
    number of tasks without events in it. Their codes follow the others', and they last from 0 to 1."""
    place = {(str(r.workflow), str(r.task)): i for i, r in enumerate(inputs.tasks.itertuples()) if r.task}
    seen = len(inputs.tasks)
    times = (inputs.tasks["start_ns"].tolist(), inputs.tasks["end_ns"].tolist())
    unseen: dict[Task, int] = {}

    def point(moment: Moment) -> tuple[int, int]:
        task, over = moment
        if task in place:
            return place[task], int(times[over][place[task]])
        return unseen.setdefault(task, seen + len(unseen)), int(over)

    rows = [(*point(first), *point(then)) for first, then in inputs.order.moments()]
    return np.array(rows, dtype=np.int64).reshape(-1, 4), len(unseen)


def _unordered(bursts: pd.DataFrame, rows: pd.DataFrame, order: _Order) -> tuple[pd.DataFrame, int]:
    """The candidates that nothing orders, and how many were not checked."""
    task, first, last = (bursts[name].to_numpy() for name in ("task", "first_ns", "last_ns"))
    a, b = rows["a"].to_numpy(), rows["b"].to_numpy()
    overlap = (first[a] < last[b]) & (first[b] < last[a])
    keep = overlap.copy()
    unchecked = walks = 0
    for i in np.flatnonzero(~overlap).tolist():
        early, late = (a[i], b[i]) if last[a[i]] <= first[b[i]] else (b[i], a[i])
        if walks >= MAX_WALKS and not order.known(int(task[early]), int(last[early])):
            unchecked += 1
            continue
        walks += 1
        keep[i] = not order.before(int(task[early]), int(last[early]), int(task[late]), int(first[late]))
    return rows.assign(overlap=overlap)[keep], unchecked


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
        }
    )
    out["path"] = inputs.m.paths[out["file"].to_numpy()]
    out = out.sort_values(["overlap", "bytes"], ascending=False, kind="stable")
    result: pd.DataFrame = out.drop_duplicates(["kind", "file", "first", "second"])[COLUMNS].reset_index(drop=True)
    return result


def _task_pairs(bursts: pd.DataFrame, pairs: pd.DataFrame) -> int:
    task = bursts["task"].to_numpy()
    return len(set(zip(task[pairs["a"].to_numpy()].tolist(), task[pairs["b"].to_numpy()].tolist(), strict=True)))
