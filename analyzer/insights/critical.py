"""The critical path through data: what a run's time was spent on, and the slack of each task.

One graph answers both. Its nodes are points (task, time): a task's start and end, and each time at which it gave or
took something (inputs.py). Edges lead from a task's point to its next one, and along hand-overs.

    bound    The longest chain of work. An edge inside a task weighs its time, less the time that the task waited for
             processes outside of it or for its next try, or, being one process, was blocked in calls on pipes and
             sockets; a hand-over weighs nothing. With any number of processors and no delay between tasks, the run
             could not have been shorter. Hand-overs go forward in time, so the bound is at most the makespan.
    slack    of a task: how much longer it could have worked without a longer bound. 0: it is critical.
    path     The chain that determined the makespan, followed backwards from the end: a task's time is on the path back
             to its last input; from there the path continues with the task that gave it. A pipe's reader that was
             slower than its writer did not wait for the writer. Each ns of the makespan is on the path once: as
             what the task's time was spent on (model/time_model.py), as `gap` between a task's last input and its first
             call (queue, scheduling, start-up of programs) or between its tries, or in none: `startup` before the run's
             first task began, `stop` after its last one was over; what of this a process of tailrace's own took, as an
             adapter's start, is `tracing`. Tasks without a recorded call are on no path: the
             time before or after all others in which one was launched and not over is a gap.

In a run with tags the tasks are the tagged actors; a workflow manager's processes are untagged (`Inputs.works`). They
weigh nothing in the bound and are never on the path: their time is a gap. The path passes through them, to the task
whose data or end reached them last before they gave to the next. Declared dependencies hand over the producer's end. A
submitting program that waits for results hands over, too: a task that it submitted then began after what it had waited
for (`AWAITED`), which is no part of the bound. Where a task had all its inputs, but another task still occupied the
worker's process, the nodes or the slot in which it then began (resource_waits.py), the path continues with that task
(`RESOURCE`). In a run with a manager it continues with the task that ended last before (`BEFORE`), where no other task
gave anything to a task. Time before the first task (`START`) and after the last one (`REST`) is the manager's own;
before the first call of all and after the last one tasks without a recorded call may have run (`SILENT`). What a task
did after its last call, until its manager says that it ended, is not known.

A process that waits without a recorded call (sigsuspend, a spin) counts as working, and so does a task of several
processes that are blocked on pipes: they wait for each other. The slack of a hand-over is the time between given and
taken, by the bytes that were read.

Rejected: tasks as nodes. Both ends of a pipe, and a shell that waits for its children, would count twice; a chain of
points is never longer than the makespan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.insights.inputs import Inputs
from tailrace.analyzer.insights.resource_waits import ResourceWaits
from tailrace.analyzer.model import outcomes, time_model
from tailrace.analyzer.model.order import AWAITED, DATA, DECLARED, INSIDE
from tailrace.analyzer.model.process_tree import FORK
from tailrace.analyzer.util import csr, intervals
from tailrace.analyzer.util.tabular import Tabular
from tailrace.analyzer.util.types import Bools, Ints

_STATES = {
    "compute": (time_model.COMPUTING, time_model.UNKNOWN),
    "ready": (time_model.READY,),
    "io": tuple(edge_table.KINDS[kind] for kind in edge_table.FILES),
    **{name: (name,) for name in ("lock", "socket", "sleep", "polling", "pipe")},
    "thread": ("thread", "signal"),
    "wait": ("child",),
    "elsewhere": (time_model.ELSEWHERE,),
}
OWN_PARTS = tuple(_STATES)
"""Those of a task that runs: what it was in, of `time_model.STATES`."""
TASK_PARTS = (*OWN_PARTS, "gap")
"""Those that a task may have."""
PARTS = (*TASK_PARTS, "startup", "stop", "tracing")
RESOURCE, BEFORE, START, SILENT, REST = "resource", "before", "start", "silent", "rest"


@dataclass(frozen=True, repr=False)
class Critical(Tabular):
    """
    bound_ns: the longest chain of work; bound_tasks: its tasks (positions in `Inputs.tasks`), first to last.
    tasks: one row a task: start_ns, end_ns, work_ns (not blocked), slack_ns, path_ns (of the path), critical.
    path: one row a piece of the path, in time order: task (-1: nothing ran yet, or any more), via (how the path came
        here: that of a hand-over, one of those above, or "" where it begins), version, begin_ns, end_ns, ready_ns (of
        a `RESOURCE` piece since when the task had all that others gave it, else at most begin_ns), the ns of `PARTS`.
    stages: one row a stage: workflow, stage, path_ns, the ns of `TASK_PARTS`, least_slack_ns, tasks_on_path.
    parts: the ns of `PARTS` over the makespan; they sum up to it.
    unknown_ns: of parts["compute"]: nothing tells whether the task was on a processor.
    dropped: hand-overs among equal times that would close a cycle, left out of the bound.
    silent: how many declared tasks ran without a recorded call, so are in no table.
    """

    bound_ns: int
    bound_tasks: list[int]
    tasks: pd.DataFrame
    path: pd.DataFrame
    stages: pd.DataFrame
    parts: dict[str, int]
    unknown_ns: int
    dropped: int
    silent: int


def critical(inputs: Inputs) -> Critical:
    """The critical path of a run; see the module's definition."""
    longest = bound(inputs)
    path, unknown_ns = _path(inputs)
    on_path = path[path["task"] >= 0].groupby("task")[list(OWN_PARTS)].sum().sum(axis=1)
    tasks = inputs.tasks[["start_ns", "end_ns"]].copy()
    tasks["work_ns"] = np.where(inputs.works, tasks["end_ns"] - tasks["start_ns"] - inputs.blocked.length(), 0)
    tasks["slack_ns"] = longest.slack_ns
    tasks["path_ns"] = on_path.reindex(range(len(tasks)), fill_value=0).to_numpy(dtype=np.int64)
    tasks["critical"] = (longest.slack_ns == 0) & inputs.works
    return Critical(
        bound_ns=longest.ns,
        bound_tasks=longest.tasks,
        tasks=tasks,
        path=path,
        stages=_by_stage(inputs, tasks, path),
        parts={name: int(path[name].sum()) for name in PARTS},
        unknown_ns=unknown_ns,
        dropped=longest.dropped,
        silent=len(_silent(inputs)),
    )


# --- the bound -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bound:
    """ns: the longest chain of work; tasks: on it, first to last; slack_ns: of each task; dropped: as in `Critical`."""

    ns: int
    tasks: list[int]
    slack_ns: Ints
    dropped: int


def bound(inputs: Inputs, handovers: pd.DataFrame | None = None) -> Bound:
    """The bound of a run, or of one with other hand-overs (whatif.py)."""
    count = len(inputs.tasks)
    if count == 0:
        return Bound(0, [], np.empty(0, dtype=np.int64), 0)
    rows = inputs.handovers if handovers is None else handovers
    every = np.arange(count, dtype=np.int64)
    task = np.concatenate([every, every, rows["producer"].to_numpy(), rows["consumer"].to_numpy()])
    ends = [inputs.tasks["start_ns"].to_numpy(), inputs.tasks["end_ns"].to_numpy()]
    when = np.concatenate([*ends, rows["given_ns"].to_numpy(), rows["taken_ns"].to_numpy()])
    order = np.lexsort((when, task))
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (task[order][1:] != task[order][:-1]) | (when[order][1:] != when[order][:-1])
    point = np.empty(len(order), dtype=np.int64)
    point[order] = np.cumsum(new) - 1
    task, when = task[order][new], when[order][new]
    inner = np.flatnonzero(task[1:] == task[:-1])
    worked = when[inner + 1] - when[inner] - inputs.blocked.inside(task[inner], when[inner], when[inner + 1])
    worked = np.where(inputs.works[task[inner]], worked, 0)
    given, taken = point[2 * count : 2 * count + len(rows)], point[2 * count + len(rows) :]
    cost = np.concatenate([worked, np.zeros(len(rows), dtype=np.int64)])
    source, target = np.concatenate([inner, given]), np.concatenate([inner + 1, taken])
    told = ((rows["via"] != DATA) | (rows["bytes"] > 0)).to_numpy()  # no turn of a conversation
    g, found, dropped = _acyclic(len(task), source, target, cost, len(inner), told)
    none = np.zeros(len(task), dtype=np.int64)
    back = csr.reverse(g)
    rest = csr.longest(back, none, cost[g.edge][back.edge])
    through = np.full(count, 0, dtype=np.int64)
    np.maximum.at(through, task[inner], found.length[inner] + worked + rest.length[inner + 1])
    end = int(found.length.argmax())
    whole = int(found.length[end])
    chain = [int(t) for t in task[csr.path(g, found, end)] if inputs.works[t]]
    chain = [t for i, t in enumerate(chain) if i == 0 or t != chain[i - 1]]
    return Bound(whole, chain, whole - through, dropped)


def _acyclic(
    nodes: int, source: Ints, target: Ints, cost: Ints, inner: int, told: Bools
) -> tuple[csr.Graph, csr.Longest, int]:
    """The graph without handovers inside a cycle (all of its points have one time), its longest paths, and how many
    hand-overs of `told` these are."""
    none = np.zeros(nodes, dtype=np.int64)
    g = csr.build(nodes, source, target)
    found = csr.longest(g, none, cost[g.edge])
    if found.reached.all():
        return g, found, 0
    knot = csr.knots(g, found.reached)
    among = (knot[source] >= 0) & (knot[source] == knot[target])
    among[:inner] = False
    keep = np.flatnonzero(~among)
    g = csr.build(nodes, source[keep], target[keep])
    g = csr.Graph(g.at, g.target, keep[g.edge])
    return g, csr.longest(g, none, cost[g.edge]), int((among[inner:] & told).sum())


# --- what the makespan was spent on ----------------------------------------------------------------------------------


def _path(inputs: Inputs) -> tuple[pd.DataFrame, int]:
    """The pieces of the path, see the module's definition; and `Critical.unknown_ns`."""
    out = pd.DataFrame(_walk(inputs), columns=_Piece._fields).iloc[::-1].reset_index(drop=True)
    numbers = [name for name in _Piece._fields if name != "via"]
    out[numbers] = out[numbers].astype(np.int64)
    task = out["task"].to_numpy()
    low, high = out["start_ns"].to_numpy(), out["end_ns"].to_numpy()
    ran = task >= 0
    for name in PARTS:
        out[name] = np.int64(0)
    pause = np.zeros(len(out), dtype=np.int64)
    pause[ran] = intervals.cover(inputs.pauses, len(inputs.tasks)).inside(task[ran], low[ran], high[ran])
    of_task = inputs.spent.inside(task[ran], low[ran], high[ran])
    spent = time_model.filled(of_task, (high - low - pause)[ran])
    for name, states in _STATES.items():
        out.loc[ran, name] = spent[list(states)].sum(axis=1).to_numpy()
    waited = low - out["begin_ns"].to_numpy() + pause
    outside = {"startup": (out["via"] == START).to_numpy(), "stop": (out["via"] == REST).to_numpy()}
    for name, here in outside.items():
        out[name] = np.where(here & ~ran, waited, 0)
    out["gap"] = waited - out["startup"] - out["stop"]
    own = _own(inputs).inside(np.zeros(len(out), dtype=np.int64), out["begin_ns"].to_numpy(), low)
    for name in ("startup", "stop", "gap"):
        mine = np.minimum(out[name], own - out["tracing"])
        out["tracing"] += mine
        out[name] -= mine
    result: pd.DataFrame = out.drop(columns="start_ns")
    return result, int(spent[time_model.UNKNOWN].sum())


def _own(inputs: Inputs) -> intervals.Cover:
    """When a process of tailrace's own ran."""
    lives = inputs.lives
    process = np.unique(lives.process[inputs.m.of_tailrace])
    rows = intervals.make(np.zeros(len(process), dtype=np.int64), lives.begun[process], lives.over[process])
    return intervals.cover(intervals.union(rows), 1)


class _Piece(NamedTuple):
    """A piece of the path: begin_ns to start_ns is a gap, the rest the task's; ready_ns as in `Critical`."""

    task: int
    via: str
    version: int
    begin_ns: int
    start_ns: int
    end_ns: int
    ready_ns: int


def _nobody(via: str, begin: int, end: int) -> _Piece:
    """Time in which nothing ran."""
    return _Piece(-1, via, -1, begin, end, end, begin)


def _walk(inputs: Inputs) -> list[_Piece]:
    """The pieces of the path, last first."""
    if len(inputs.tasks) == 0:
        return []
    start, end = inputs.tasks["start_ns"].to_numpy(), inputs.tasks["end_ns"].to_numpy()
    task = int(np.where(inputs.works, end, inputs.start_ns - 1).argmax())
    over_at = np.minimum(_declared_ends(inputs), inputs.end_ns)
    now, out = max(int(end[task]), int(over_at[task])), list[_Piece]()
    called = int(start[inputs.works].min())
    launched, over = _first_and_last(inputs, called, now)
    if over < inputs.end_ns:
        out.append(_nobody(REST, over, inputs.end_ns))
    if now < over:
        out.append(_nobody(SILENT, now, over))
    arrivals, waits, submissions = _Arrivals(inputs), ResourceWaits(inputs), _submissions(inputs)
    while now > inputs.start_ns:
        found = arrivals.last(task, now)
        ready = found.given_ns if found else submissions[task]
        holder, over = waits.released(task, ready)
        if holder >= 0 and over < now and (found is None or ready < over):
            found = _Arrival(holder, over, int(start[task]), RESOURCE, -1)
        found = found or arrivals.last_ended(task)
        if found is None:
            begin = int(start[task])
            if begin < now:
                out.append(_Piece(task, "", -1, begin, begin, now, begin))
            edges = (inputs.start_ns, min(launched, begin), min(called, begin), begin)
            named = zip((START, SILENT, ""), edges[:-1], edges[1:], strict=True)
            out += [_nobody(*row) for row in reversed([*named]) if row[1] < row[2]]
            break
        ran = min(max(found.arrived_ns, int(start[task])), now)
        # The producer went on until its manager says that it was over.
        given = min(max(found.given_ns, int(over_at[found.producer])), ran)
        out.append(_Piece(task, found.via, found.version, given, ran, now, min(ready, given)))
        task, now = found.producer, given
    return out


def _submissions(inputs: Inputs) -> list[int]:
    """Since when each task could have begun, had it needed nothing of others: its submission, but not before the first
    task of all began, when there was a worker; where a manager knew all tasks before it began (a makefile's), and tells
    no times, the begin of the first one; else its own begin."""
    names, start = outcomes.task_keys(inputs.tasks), inputs.tasks["start_ns"].tolist()
    declared = inputs.tables.get("declared_tasks")
    times = inputs.order.submitted
    if declared is None or not len(declared):
        return start
    known = set(outcomes.task_keys(declared.assign(workflow=declared["workflow"].fillna(""))))
    first: dict[str, int] = {}
    for name, begin in zip(names, start, strict=True):
        if name in known:
            first[name[0]] = min(first.get(name[0], begin), begin)
    told, there = {name[0] for name in times}, min(first.values(), default=0)
    return [
        min(max(times.get(name, begin if name[0] in told or name not in known else first[name[0]]), there), begin)
        for name, begin in zip(names, start, strict=True)
    ]


def _silent(inputs: Inputs) -> pd.DataFrame:
    """The declared tasks that ran and have no events (they made no call, or weren't traced): begin_ns (their launch),
    end_ns."""
    columns = ["begin_ns", "end_ns"]
    ended = inputs.tables.get("outcomes")
    if ended is None or len(ended) == 0:
        return pd.DataFrame(columns=columns, dtype=np.int64)
    known = set(zip(inputs.tasks["workflow"], inputs.tasks["task"], strict=True))
    silent = [name not in known for name in zip(ended["workflow"], ended["task"], strict=True)]
    rows = ended.loc[silent, columns].dropna()
    return rows.astype(np.int64)


def _first_and_last(inputs: Inputs, first: int, last: int) -> tuple[int, int]:
    """The run's first launch and last end of a task, where those with events have `first` and `last`."""
    silent = _silent(inputs)
    early = silent.loc[silent["end_ns"] <= first, "begin_ns"].min() if len(silent) else first
    late = silent["end_ns"].max() if len(silent) else last
    first = first if pd.isna(early) else max(min(first, int(early)), inputs.start_ns)
    return first, max(last, min(int(late), inputs.end_ns))


def _declared_ends(inputs: Inputs) -> Ints:
    """When each task was over, as its manager says; 0 where it doesn't."""
    ends = np.zeros(len(inputs.tasks), dtype=np.int64)
    declared = inputs.tables.get("declared_tasks")
    if declared is not None and "t_end_ns" in declared:
        place = {(str(r.workflow), str(r.task)): at for at, r in enumerate(inputs.tasks.itertuples()) if r.task}
        rows = declared[declared["t_end_ns"].notna()]
        for workflow, task, over in zip(rows["workflow"].fillna(""), rows["task"], rows["t_end_ns"], strict=True):
            at = place.get((str(workflow), str(task)), -1)
            if at >= 0:
                ends[at] = int(over)
    return ends


@dataclass(frozen=True)
class _Arrival:
    """producer: a task; given_ns: when it gave; arrived_ns: when it arrived, directly or through the manager."""

    producer: int
    given_ns: int
    arrived_ns: int
    via: str
    version: int


class _Arrivals:
    """The hand-overs that reached each task, for a walk back in time."""

    def __init__(self, inputs: Inputs) -> None:
        # A manager's process only hands on: there each arrival counts, also one that it did not wait for.
        rows = inputs.handovers[
            inputs.handovers["held"].to_numpy() | ~inputs.works[inputs.handovers["consumer"].to_numpy()]
        ]
        rows = pd.concat([rows, _launches(inputs), inputs.order.awaited_handovers()], ignore_index=True)
        # At equal times data explains more than a declaration, and that more than the process tree.
        rank = rows["via"].map({DATA: 0, DECLARED: 1, INSIDE: 2}).fillna(3).to_numpy(dtype=np.int64)
        order = np.lexsort((rank, -rows["given_ns"].to_numpy(), rows["consumer"].to_numpy()))
        rows, self.rank = rows.iloc[order], rank[order]
        self.bounds = np.searchsorted(rows["consumer"].to_numpy(), np.arange(len(inputs.tasks) + 1))
        self.producer, self.given, self.taken = (rows[n].to_numpy() for n in ("producer", "given_ns", "taken_ns"))
        self.via, self.version = rows["via"].to_numpy(), rows["version"].to_numpy()
        self.works = inputs.works
        self.start, self.end = inputs.tasks["start_ns"].to_numpy(), inputs.tasks["end_ns"].to_numpy()
        self.managed = not inputs.works.all() or len(inputs.declared) > 0
        working = np.flatnonzero(inputs.works)
        self.by_end = working[np.argsort(self.end[working], kind="stable")]

    def last(self, task: int, now: int) -> _Arrival | None:
        """The last arrival at a task before a time, from a task, directly or through the manager."""
        queue: list[tuple[int, int, int, int, Iterator[int]]] = []
        self._push(queue, self._came(task, now), -1)
        met: set[int] = set()
        while queue:
            less, _, at, first, others = heappop(queue)
            self._push(queue, others, -1 if first == at else first)
            producer = int(self.producer[at])
            if self.works[producer]:
                return self._arrival(task, at, first, now)
            if producer not in met:  # the latest visit sees all that an earlier one would
                met.add(producer)
                self._push(queue, self._came(producer, -less), first)
        return None

    def _push(self, queue: list[tuple[int, int, int, int, Iterator[int]]], came: Iterator[int], first: int) -> None:
        """Queues the latest arrival, if there is one; first: the row that leads into the task itself, -1: this one."""
        at = next(came, -1)
        if at >= 0:
            heappush(queue, (-int(self.given[at]), int(self.rank[at]), at, at if first < 0 else first, came))

    def _came(self, task: int, now: int) -> Iterator[int]:
        """The rows of arrivals at a task up to a time, the latest first; a manager may hand on in the same moment."""
        low, high = int(self.bounds[task]), int(self.bounds[task + 1])
        given = self.given[low:high]
        early = (given < now) if self.works[task] else (given <= now)
        return iter((np.flatnonzero(early & (self.taken[low:high] <= now)) + low).tolist())

    def _arrival(self, task: int, at: int, first: int, now: int) -> _Arrival:
        via, version = str(self.via[first]), int(self.version[first])
        if via in (DECLARED, AWAITED):
            # The task waited for the producer's end; data between the two, where there is some, says for which file.
            mine = slice(int(self.bounds[task]), int(self.bounds[task + 1]))
            data = (self.via[mine] == DATA) & (self.producer[mine] == self.producer[at]) & (self.taken[mine] <= now)
            if data.any():
                via, version = DATA, int(self.version[mine][data][self.given[mine][data].argmax()])
        return _Arrival(int(self.producer[at]), int(self.given[at]), int(self.given[first]), via, version)

    def last_ended(self, task: int) -> _Arrival | None:
        """The task that ended last before this one began."""
        begin = int(self.start[task])
        before = int(np.searchsorted(self.end[self.by_end], begin, side="right")) - 1
        if not self.managed or before < 0:
            return None
        producer = int(self.by_end[before])
        over = int(self.end[producer])
        # Of no length, it began when it ended: it may be the task itself.
        return _Arrival(producer, over, begin, BEFORE, -1) if producer != task and over < begin else None


def _launches(inputs: Inputs) -> pd.DataFrame:
    """Hand-overs of a manager's process to the task that it became by executing its program (`tailrace tag`)."""
    lives, works = inputs.lives, inputs.works
    rows = []
    for actors in lives.actors:
        for before, after in pairwise(actors):
            giver, taker = int(inputs.of_who[before]), int(inputs.of_who[after])
            if works[taker] and not works[giver]:
                at = int(lives.start[after])
                rows.append((giver, taker, FORK, -1, at, at))
    columns = ["producer", "consumer", "via", "version", "given_ns", "taken_ns"]
    made = pd.DataFrame(rows, columns=columns)
    return made.astype({name: np.int64 for name in columns if name != "via"})


def _by_stage(inputs: Inputs, tasks: pd.DataFrame, path: pd.DataFrame) -> pd.DataFrame:
    stage = inputs.tasks["stage_code"].to_numpy()
    on = path[path["task"] >= 0]
    sums = (
        on.groupby(stage[on["task"].to_numpy()])[list(TASK_PARTS)]
        .sum()
        .reindex(range(len(inputs.stages)), fill_value=0)
    )
    out = inputs.stages[["workflow", "stage"]].reset_index(drop=True).join(sums)
    out["path_ns"] = out[list(OWN_PARTS)].sum(axis=1)
    out["least_slack_ns"] = tasks["slack_ns"].groupby(stage).min().reindex(range(len(out)), fill_value=0)
    distinct = on["task"].drop_duplicates()
    out["tasks_on_path"] = np.bincount(stage[distinct.to_numpy()], minlength=len(out))
    return out.sort_values("path_ns", ascending=False, kind="stable", ignore_index=True)
