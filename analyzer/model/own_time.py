"""When actors and threads lived, and when all processes of a group of actors (a task, a stage, a rank) waited for other
processes.

    first and last calls, forks and waits --lives, thread_lives--> intervals by actor, by thread
    lives of the actors, their busy times --waiting--> intervals by group

A shell that waits for its commands is no wait of the task that they are in, as long as one of them does anything: a
group waits while some of its processes wait for a process, and all the others are over or have not begun. So the
process waited for is outside of the group: of another task, or not traced.

Invariant: waits of an actor with more calls than `MAX_BUSY`, whose busy times are coarse, don't count.
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


def waiting(m: Model, group: Ints) -> Intervals:
    """When all processes of each group waited for processes, united. group: of each actor, -1: in none."""
    waits = edge_table.spent(m.table.busy, (edge_table.CHILD,))
    waits = _picked(waits, waits.weight == waits.end - waits.start)
    awake = _grouped(intervals.outside(lives(m), waits), group)
    return intervals.outside(_grouped(waits, group), awake)


def seen(m: Model) -> tuple[Ints, Ints]:
    """The begin of the first call of each actor, and the end of its last one."""
    by_who = m.table.counts.groupby("who")
    first, last = by_who["first_ns"].min(), by_who["last_ns"].max()
    start, end = (of.reindex(range(len(m.who)), fill_value=0).to_numpy(dtype=np.int64) for of in (first, last))
    return start, end


def thread_lives(m: Model) -> Intervals:
    """The life of each row of `m.table.threads`: from its first event to its last one; of an actor's first thread, or
    its only one, that of the actor, unless it is a worker that entered the context."""
    threads = m.table.threads
    who, tid = (threads[name].to_numpy(dtype=np.int64) for name in ("who", "tid"))
    start, end = (threads[name].to_numpy(dtype=np.int64).copy() for name in ("first_ns", "last_ns"))
    only = np.bincount(who, minlength=len(m.who))[who] == 1
    first = only | (tid == m.who["pid"].to_numpy(dtype=np.int64)[who])
    first &= threads["begun"].to_numpy() == 0
    whole = lives(m)
    start[first], end[first] = whole.start[who[first]], whole.end[who[first]]
    return intervals.make(np.arange(len(who), dtype=np.int64), start, end)


def lives(m: Model) -> Intervals:
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


def _grouped(rows: Intervals, group: Ints) -> Intervals:
    """The union of actors' intervals by their groups."""
    of_actor = group[rows.group]
    return intervals.union(_picked(rows._replace(group=of_actor), of_actor >= 0))
