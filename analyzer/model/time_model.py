"""What time was spent on: the one model that every account of time comes from.

    calls and lives of threads + the kernel's accounts --_shares--> states of threads --native--> states of groups

For a process, a task, a stage, a rank, a host or the run

    wall = calls on files by kind + computing + unknown + ready + waits by kind + elsewhere

    read, write, metadata, flush    in a call on a file, on a processor or blocked
    computing  on a processor, outside of recorded calls
    unknown    outside of recorded calls, with no account of the kernel's: computing, or any of those below
    ready      runnable, and waiting for a processor
    lock, socket, sleep, polling    in a call that waits (`edge_table.KINDS`)
    pipe, thread, signal, child     in one that waits for what may be in the group itself
    elsewhere  blocked outside of recorded calls: page faults, calls that no hook sees. Where the kernel doesn't count
               how long a thread was ready, or the trace is older than the records of waits, these are here, too

The kernel says exactly how long a thread was on a processor and how long it was ready (schedstat, getrusage(2)), but
not when. So time outside of calls is divided by these sums: a thread that was outside of calls for 3 s and on a
processor for 1 s of them computed for a third of each such span.

A group is in one state at a time, the first of `STATES` that one of its processes is in: `gen | wc` computes while gen
does. Pipes and sockets whose other ends are all in the group come last but for `child`: while gen waits for its own
threads, so does `gen | wc`. So is a process of its threads, but that `elsewhere` comes last: a thread that is parked
holds up nobody. Threads that recorded nothing are in their process's account alone: what they computed, or were ready
for, is time of the threads that waited for them meanwhile, or were blocked elsewhere.

Invariants: the parts of a group add up to the time in which one of its threads lived (1 ns a span for rounding), and
are never negative. Nothing is told of the processor time of threads that worked for several tasks, unless they counted
it for each.

Source: the states are those of off-CPU analysis (Gregg 2013, "Thinking methodically about performance").

Rejected: sums over threads, which no wall time bounds; to call all time outside of calls computing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd

from tailrace import _native
from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.model import own_time
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.store import processes
from tailrace.analyzer.util import grouping, intervals
from tailrace.analyzer.util.intervals import Intervals
from tailrace.analyzer.util.types import Bools, Floats, Ints

COMPUTING, UNKNOWN, READY, ELSEWHERE = "computing", "unknown", "ready", "elsewhere"
_DATA = len(edge_table.FILES)
_INNER = edge_table.PIPE
_END_TYPES = {edge_table.SOCKET: ("sock",), edge_table.PIPE: ("fifo",)}
"""The types of the files that the calls of a kind wait for other ends of."""
STATES = (
    *edge_table.KINDS[:_DATA],
    *(COMPUTING, UNKNOWN, READY),
    *edge_table.KINDS[_DATA:_INNER],
    ELSEWHERE,
    *edge_table.KINDS[_INNER:],
)
"""The parts of time, in the order in which they count where the processes of a group are in several."""
ABSENT = "absent"
"""Between the lives of a group's threads: no state, but a part of the time from its first event to its last."""
WORDS = {
    "read": "reading files",
    "write": "writing files",
    "metadata": "opening, looking up and changing names",
    "flush": "flushing files to disk",
    COMPUTING: "computing",
    UNKNOWN: "running outside of recorded calls (computing, asleep or waiting)",
    READY: "waiting for a processor",
    "lock": "waiting for locks",
    "socket": "waiting on sockets",
    "sleep": "sleeping",
    "polling": "polling",
    "pipe": "waiting on pipes",
    "thread": "waiting for its own threads",
    "signal": "waiting for signals",
    "child": "waiting for other processes",
    ELSEWHERE: "waiting outside of recorded calls",
    ABSENT: "while none of its traced processes ran",
}
"""`STATES` and `ABSENT` as reports name them."""
_MOST_UNTOLD = 0.1
"""Of a sum over threads: without more than that it is not known."""
_READING = 0.01
"""Of a process's time on a processor: less than that is what reading the accounts takes, none of a thread's."""


class Accounts(NamedTuple):
    """Of each thread row: run_ns and ready_ns, on a processor and waiting for one; NaN: not known."""

    run_ns: Floats
    ready_ns: Floats


class _Shares(NamedTuple):
    """As `ThreadShares` (core/native/time_states.h), without what depends on the groups."""

    known: Floats
    ready: Floats
    elsewhere: Floats
    ready_in_call: Floats
    computed_beside: Floats
    ready_beside: Floats


class TimeModel:
    """What the threads of a run spent their time on.

    A *thread row* is a row of `m.table.threads`: a thread in one of its contexts. life: when each was alive there;
    accounts: what the kernel says of it. told: columns of the table of processes, by `processes.numbers` of the actors.
    """

    def __init__(self, m: Model) -> None:
        self._m = m
        self._who: Ints = m.table.threads["who"].to_numpy(dtype=np.int64)
        self.life = own_time.thread_lives(m)
        self._lived = intervals.length(self.life, len(self._who)).astype(np.float64)
        self._calls = edge_table.by_kind(m.table.thread_calls, len(self._who)).astype(np.float64)
        outside = np.maximum(self._lived - self._calls.sum(axis=1), 0)
        self._process = processes.numbers(m.who)
        self.told = _told(m, self._process)
        self._of_process = _process_accounts(self.told)
        self.accounts, self._own = _accounts(m, self._process[self._who], self._of_process, self.life, outside)

    @property
    def tells_ready(self) -> bool:
        """Whether the kernel counted how long threads were ready: then waits are recorded, too."""
        return bool(np.isfinite(self.accounts.ready_ns).any())

    def states(self, group: Ints, groups: int = 0) -> Spans:
        """When each group was in each of `STATES`.

        Args:
            group: of each actor (row of `m.who`), -1: in none.
            groups: how many there are at least.
        """
        kinds = (len(edge_table.KINDS), _DATA, edge_table.SOCKET, _INNER, edge_table.THREAD)
        owners = (group[self._who], self._process[self._who])
        calls = self._m.table.thread_calls
        rows = Intervals(*_native.time_states(owners, [*self._shares, *self._within(group)], self.life, calls, kinds))
        order = np.argsort(rows.group, kind="stable")
        return Spans(Intervals(*(column[order] for column in rows)), max(int(group.max(initial=-1)) + 1, groups))

    def on_processor(self, group: Ints, size: int) -> Ints:
        """ns that the threads of each group 0 .. size - 1 were on a processor, -1 where of much of their lives no
        account tells."""
        of = group[self._who]
        run = self.accounts.run_ns + self._silent.run_ns
        told, mine = np.isfinite(run) & (of >= 0), of >= 0
        lived = np.bincount(of[mine], self._lived[mine], size)
        untold = lived - np.bincount(of[told], self._lived[told], size)
        sums = np.bincount(of[told], run[told], size)
        return np.where((untold > _MOST_UNTOLD * lived) | (lived == 0), -1, sums).astype(np.int64)

    @cached_property
    def _shares(self) -> _Shares:
        """How the kernel's sums divide each thread row's time.

        Time in the kernel was in calls on data first of all, the rest outside of calls, as far as there is room. A
        thread is ready in proportion: whenever it is runnable it may have to wait. So what has no room outside was in
        calls as both, too: of a process that was killed it is not known how long it was in the kernel.
        """
        run, ready = self.accounts
        known, counted = np.isfinite(run), np.isfinite(ready)
        run, ready = np.where(known, run, 0.0), np.where(known & counted, ready, 0.0)
        data, waits = self._calls[:, :_DATA].sum(axis=1), self._calls[:, _DATA:].sum(axis=1)
        outside = np.maximum(self._lived - data - waits, 0.0)
        inside = np.clip(run + ready - outside, 0.0, data) * _share(run, run + ready)
        free = np.minimum(run - np.minimum(np.maximum(run * self._system, inside), data), outside)
        in_call = np.minimum(run - free, data)
        starved = np.minimum(ready * _share(free, run), outside - free)
        ready_in_call = np.minimum(ready - starved, data - in_call)
        starved = np.minimum(ready - ready_in_call, outside - free)
        joining: Floats = self._calls[:, edge_table.THREAD]
        others = self._silent.run_ns + run - free - in_call
        beside = np.minimum(others, joining)
        ready_beside = np.minimum(self._silent.ready_ns, joining - beside)
        computed = np.minimum(free + others - beside, outside - starved)
        starved = np.minimum(starved + self._silent.ready_ns - ready_beside, outside - computed)
        return _Shares(
            known=known.astype(np.float64),
            ready=_share(starved, outside),
            elsewhere=_share(outside - computed - starved, outside),
            ready_in_call=_share(ready_in_call, data),
            computed_beside=_share(beside, joining),
            ready_beside=_share(ready_beside, joining),
        )

    def _within(self, group: Ints) -> list[Floats]:
        """Of each thread row's time in calls on sockets, and on pipes: what was on those whose other ends are all in
        its own group, by the times of its actor's accesses. A stream without another end in the trace is none."""
        streams = self._streams
        who, mine = streams["who"].to_numpy(), group[streams["who"].to_numpy()]
        end = streams["file"].to_numpy() * 2 + streams["dir"].to_numpy()
        size = int(end.max(initial=-1)) // 2 * 2 + 2
        low, high = grouping.least(end, mine, size, len(group)), grouping.most(end, mine, size, -1)
        other = end ^ 1
        within = (low[other] == mine) & (high[other] == mine)
        ns, shares = streams["ns"].to_numpy(), []
        for kind in _END_TYPES:
            of_kind = (streams["kind"] == kind).to_numpy()
            inside, whole = (grouping.sums(who, np.where(of, ns, 0), len(group)) for of in (of_kind & within, of_kind))
            shares.append(_share(inside, whole)[self._who])
        return shares

    @cached_property
    def _streams(self) -> pd.DataFrame:
        """Of each burst on a pipe or socket: who, file, dir, the kind of its calls, ns in them (1 more: none is 0)."""
        table = self._m.table
        ftype = table.files["ftype"].to_numpy()[table.bursts["file"].to_numpy(dtype=np.int64)]
        kind = np.full(len(ftype), -1, dtype=np.int64)
        for number, types in _END_TYPES.items():
            kind[np.isin(ftype.astype(str), types)] = number
        ns = intervals.length(table.times, len(ftype)) + 1
        found = table.bursts[["who", "file", "dir"]].astype(np.int64).assign(kind=kind, ns=ns)
        return grouping.frame({name: column.to_numpy()[kind >= 0] for name, column in found.items()})

    @cached_property
    def _system(self) -> Floats:
        """Of each thread row's time on a processor: what its process's threads spent in the kernel, 0 to 1."""
        user, system = self.told["utime_ns"], self.told["stime_ns"]
        share = np.nan_to_num(np.divide(system, user + system, out=np.zeros(len(user)), where=user + system > 0))
        return np.asarray(share[self._process[self._who]])

    @cached_property
    def _silent(self) -> Accounts:
        """What threads that recorded nothing were on a processor and ready, where all others have accounts of their
        own: divided among the process's rows by the time in which they waited for threads."""
        process, size = self._process[self._who], len(self._of_process.run_ns)
        weight = self._calls[:, edge_table.THREAD] + 1.0
        weight /= np.bincount(process, weight, size)[process]
        rests = []
        for ns, whole, own in zip(self.accounts, self._of_process, self._own, strict=True):
            rest = np.nan_to_num(whole) - np.bincount(process, np.nan_to_num(ns), size)
            rest[process[~own]] = 0.0
            rests.append(np.maximum(rest, 0.0))
        # As much as reading the accounts takes is nothing.
        none = rests[0] < _READING * np.nan_to_num(self._of_process.run_ns)
        return Accounts(*(np.where(none, 0.0, rest)[process] * weight for rest in rests))


class Spans:
    """When each of a number of groups was in each of `STATES`. rows: group * len(STATES) + state, in their order and by
    time; a weight is the time in the state, evenly over the row."""

    def __init__(self, rows: Intervals, groups: int) -> None:
        self.rows = rows
        self._groups = groups
        self._bounds = np.searchsorted(rows.group, np.arange(groups * len(STATES) + 1)).astype(np.int64)
        self._sums = np.append(0, np.cumsum(rows.weight))

    def parts(self) -> pd.DataFrame:
        """The ns of each of `STATES`, a row a group."""
        sums = self._sums[self._bounds[1:]] - self._sums[self._bounds[:-1]]
        return _frame(sums.reshape(self._groups, len(STATES)))

    def inside(self, group: Ints, low: Ints, high: Ints) -> pd.DataFrame:
        """The ns of each of `STATES` of each group between two points; parallel arrays."""
        found = np.empty((len(group), len(STATES)), dtype=np.int64)
        for state in range(len(STATES)):
            of = group * len(STATES) + state
            found[:, state] = self._upto(of, np.maximum(high, low)) - self._upto(of, low)
        return _frame(found)

    def _upto(self, of: Ints, point: Ints) -> Ints:
        rows = self.rows
        if not len(rows.start):
            return np.zeros(len(of), dtype=np.int64)
        begin = self._bounds[of]
        at = intervals.begun(rows.start, begin, self._bounds[of + 1], point)
        last = np.maximum(at - 1, 0)
        length = np.maximum(rows.end[last] - rows.start[last], 1)
        over = np.clip(rows.end[last] - point, 0, length) / length
        whole = self._sums[at] - self._sums[begin]
        return np.asarray(whole - np.where(at > begin, np.rint(rows.weight[last] * over), 0).astype(np.int64))


def filled(spent: pd.DataFrame, length: Ints, rest: str = UNKNOWN) -> pd.DataFrame:
    """The states of pieces of time (`Spans.inside`), as long as these are; what is too much is cut off.

    Args:
        rest: what the time counts as in which no thread of a group lived. `UNKNOWN`: its manager says that the task ran
            then, in processes that were not traced or after its last call. `ABSENT`: nothing but its events says when
            it ran; the tasks of a stage may be far from each other.
    """
    left = length - spent.sum(axis=1).to_numpy()
    spent = spent.assign(**{rest: spent.get(rest, 0) + np.maximum(left, 0)})
    over = np.maximum(-left, 0)
    for name in reversed(STATES):
        less = np.minimum(spent[name].to_numpy(), over)
        spent[name] -= less
        over -= less
    return spent


def _frame(values: Ints) -> pd.DataFrame:
    return grouping.frame({name: values[:, at] for at, name in enumerate(STATES)})


def _share(part: Floats | Ints, of: Floats | Ints) -> Floats:
    return np.divide(part, of, out=np.zeros(len(of)), where=of > 0)


# --- the kernel's accounts -------------------------------------------------------------------------------------------


def _told(m: Model, process: Ints) -> dict[str, Floats]:
    """What the run's table of processes has of time, by the numbers of the actors' processes; NaN: not known."""
    names = ("run_ns", "ready_ns", "ready_of_ns", "utime_ns", "stime_ns")
    found = {name: np.full(int(process.max(initial=-1)) + 1, np.nan) for name in names}
    known = [name for name in names if name in m.processes]
    if known:
        number = dict(zip(processes.keys(m.who), process.tolist(), strict=True))
        place = np.array([number.get(key, -1) for key in processes.keys(m.processes)], dtype=np.int64)
        for name in known:
            values = m.processes[name].to_numpy(dtype=np.float64, na_value=np.nan)
            found[name][place[place >= 0]] = values[place >= 0]
    return found


def _process_accounts(told: Mapping[str, Floats]) -> Accounts:
    """Of each process: the sums over its threads."""
    run, of = told["run_ns"], told["ready_of_ns"]
    run = np.where(np.isfinite(run), run, told["utime_ns"] + told["stime_ns"])
    # Of few of its threads it says little of all.
    return Accounts(run, np.where(of >= (1 - _MOST_UNTOLD) * run, told["ready_ns"], np.nan))


def _accounts(
    m: Model, process: Ints, of_process: Accounts, life: Intervals, outside: Floats
) -> tuple[Accounts, tuple[Bools, ...]]:
    """Of each thread row, by the narrowest account that there is: of the times in which it was in the context, of the
    thread, of the process. The latter's rest is divided among the rows without one by their time outside of calls. And
    whether the row has them of its own."""
    threads = m.table.threads
    column = {name: threads[name].to_numpy(dtype=np.float64) for name in edge_table.ACCOUNT}
    thread = grouping.numbered(grouping.pack(process, threads["tid"].to_numpy()))[0]
    who = threads["who"].to_numpy(dtype=np.int64)
    task = np.where((m.who["stage"] + m.who["task"] != "").to_numpy(dtype=np.bool_)[who], who, -1)
    between, between_contexts = _between(life, process), _between(life, thread)
    in_context = (column["begun"] > 0) & (column["begun"] == column["ended"])
    counted = in_context & (column["unready"] == 0)
    found, own = [], []
    for name, spans, whole in (("run_ns", in_context, of_process.run_ns), ("ready_ns", counted, of_process.ready_ns)):
        row = np.where(spans, column[f"span_{name}"], np.nan)
        total = column[f"life_{name}"]
        row = _divided(row, thread, np.where(total >= 0, total, np.nan), outside, between_contexts, task)
        own.append(np.isfinite(row))
        found.append(_divided(row, process, whole[process], outside, between, task))
    return Accounts(*found), tuple(own)


def _between(life: Intervals, group: Ints) -> Floats:
    """Of each group: for how long it was in none of its rows' lives, between two of them."""
    size = int(group.max(initial=-1)) + 1
    whole = grouping.most(group, life.end, size, 0) - grouping.least(group, life.start, size, 0)
    inside = intervals.length(intervals.union(life._replace(group=group)), size)
    return np.asarray(np.maximum(whole - inside, 0), dtype=np.float64)


def _divided(row: Floats, group: Ints, total: Floats, weight: Floats, between: Floats, task: Ints) -> Floats:
    """`row`, with what is left of its group's total in the place of the group's unknown values, by their weights.

    Args:
        total: of each row, NaN or that of its group, the same in all rows that have one.
        between: of each group, the weight of what is in no row.
        task: of each row, -1: of none. Where those of several tasks are unknown in a group, all stay so: whose the time
            was is not told.
    """
    size = int(group.max(initial=-1)) + 1
    sums = np.full(size, np.nan)
    there = np.isfinite(total)
    sums[group[there]] = total[there]
    unknown = ~np.isfinite(row)
    rest = np.maximum(sums - np.bincount(group[~unknown], row[~unknown], size), 0.0)
    mine = unknown & (task >= 0)
    rest[grouping.distinct(group[mine], task[mine], size) > 1] = np.nan
    shared = np.bincount(group[unknown], weight[unknown], size) + between
    count = np.bincount(group[unknown], minlength=size)
    even = 1 / np.maximum(count[group], 1)
    part = np.where(shared[group] > 0, weight / np.maximum(shared[group], 1.0), even)
    return np.where(unknown, rest[group] * part, row)
