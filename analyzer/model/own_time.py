"""When groups of actors (tasks, stages, ranks) computed, and when all of their processes waited for other processes.

    lives of the actors, their busy times --computing, waiting--> intervals by group

A process computes while none of its threads is in a call on files, on a pipe or socket, or waits for a process, and one
of them is in no recorded call at all. A shell that waits for its commands is no wait of the task that they
are in, as long as one of them does anything: a group waits while some of its processes wait for a process, and all the
others are over or have not begun. So the process waited for is outside of the group: of another task, or not traced.

Invariants: nobody in a group computes while it waits. The busy times of an actor with more calls than `MAX_BUSY` are
coarse: what is between its calls counts as computing, and its waits don't count.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.store import processes
from tailrace.analyzer.util import intervals
from tailrace.analyzer.util.intervals import Intervals
from tailrace.analyzer.util.types import Bools, Ints


def computing(m: Model, group: Ints) -> Intervals:
    """When at least one process of each group was in no call, united.

    Args:
        group: of each actor (row of `m.who`), -1: in none.
    """
    table = m.table
    free = _free(_lives(m), edge_table.spent(table.busy, _HOLDING))
    threads = _free(_thread_lives(m), edge_table.spent(table.thread_calls))
    awake = _grouped(threads, table.threads["who"].to_numpy(dtype=np.int64))
    return _grouped(intervals.outside(free, intervals.outside(free, awake)), group)


_HOLDING = (*edge_table.FILES, edge_table.LOCK, *edge_table.STREAMS, edge_table.CHILD)
"""Calls in which one thread is taken to hold up its process: what the others do meanwhile may not be recorded."""


def _free(alive: Intervals, calls: Intervals) -> Intervals:
    """When they lived outside of calls, or, where busy times are coarse, not in calls all the time."""
    gaps = intervals.outside(alive, calls)
    between = Intervals(calls.group, calls.start, calls.end, calls.end - calls.start - calls.weight)
    return intervals.union(_both(gaps, _picked(between, between.weight > 0)))


def waiting(m: Model, group: Ints) -> Intervals:
    """When all processes of each group waited for processes, united; `group` as for `computing`."""
    waits = edge_table.spent(m.table.busy, (edge_table.CHILD,))
    waits = _picked(waits, waits.weight == waits.end - waits.start)
    awake = _grouped(intervals.outside(_lives(m), waits), group)
    return intervals.outside(_grouped(waits, group), awake)


def seen(m: Model) -> tuple[Ints, Ints]:
    """The begin of the first call of each actor, and the end of its last one."""
    by_who = m.table.counts.groupby("who")
    first, last = by_who["first_ns"].min(), by_who["last_ns"].max()
    start, end = (of.reindex(range(len(m.who)), fill_value=0).to_numpy(dtype=np.int64) for of in (first, last))
    return start, end


def _thread_lives(m: Model) -> Intervals:
    """The life of each row of `m.table.threads`: from its first event to its last one; of an actor's first thread, or
    its only one, that of the actor, unless it is a worker that entered the context."""
    threads = m.table.threads
    who, tid = (threads[name].to_numpy(dtype=np.int64) for name in ("who", "tid"))
    start, end = (threads[name].to_numpy(dtype=np.int64).copy() for name in ("first_ns", "last_ns"))
    only = np.bincount(who, minlength=len(m.who))[who] == 1
    first = only | (tid == m.who["pid"].to_numpy(dtype=np.int64)[who])
    first &= threads["begun"].to_numpy() == 0
    whole = _lives(m)
    start[first], end[first] = whole.start[who[first]], whole.end[who[first]]
    return intervals.make(np.arange(len(who), dtype=np.int64), start, end)


def _lives(m: Model) -> Intervals:
    """The life of each actor: a process that was forked and waited for in the trace began with the fork, before its
    first call, and was over with the wait. Of several forks or waits of its pid on its host the nearest counts."""
    start, end = (times.copy() for times in seen(m))
    every = np.arange(len(start), dtype=np.int64)
    process, events = processes.numbers(m.who), m.table.process_events
    host = m.who["host"].to_numpy()
    place = pd.DataFrame(
        {
            "host": np.concatenate((host, host[events["who"].to_numpy(dtype=np.int64)])),
            "pid": np.concatenate((m.who["pid"], events["pid"])).astype(np.int64),
        }
    )
    of_pid = processes.numbers(place, ["host", "pid"])
    of_event, what = of_pid[len(every) :], events["what"].to_numpy()
    ns = events["ns"].to_numpy(dtype=np.int64)
    first = every[np.lexsort((start, process))][np.unique(np.sort(process), return_index=True)[1]]
    last = every[np.lexsort((-end, process))][np.unique(np.sort(process), return_index=True)[1]]
    forked, waited = what == "fork", what == "wait"
    start[first] = _nearest(of_pid[first], start[first], of_event[forked], ns[forked], before=True)
    end[last] = _nearest(of_pid[last], end[last], of_event[waited], ns[waited], before=False)
    return intervals.make(every, start, end)


def _nearest(group: Ints, when: Ints, of: Ints, ns: Ints, *, before: bool) -> Ints:
    """For each time the last event of its group before it, or the next one after it; without one the time itself."""
    sign = 1 if before else -1
    order = np.lexsort((sign * np.concatenate((ns, when)), np.concatenate((of, group))))
    position = np.where(order < len(ns), np.arange(len(order)), -1)
    last = np.maximum.accumulate(position)
    asked = np.flatnonzero(order >= len(ns))
    row, found = order[asked] - len(ns), order[np.maximum(last[asked], 0)]
    known = last[asked] >= 0
    known[known] = of[found[known]] == group[row[known]]
    out: Ints = when.copy()
    out[row[known]] = ns[found[known]]
    return out


def _picked(rows: Intervals, keep: Bools) -> Intervals:
    return Intervals(*(column[keep] for column in rows))


def _both(one: Intervals, other: Intervals) -> Intervals:
    return Intervals(*(np.concatenate(columns) for columns in zip(one, other, strict=True)))


def _grouped(rows: Intervals, group: Ints) -> Intervals:
    """The union of actors' intervals by their groups."""
    of_actor = group[rows.group]
    return intervals.union(_picked(rows._replace(group=of_actor), of_actor >= 0))
