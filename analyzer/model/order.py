"""Happens-before (Lamport 1978): what orders the moments of a run's tasks. Whoever asks what comes first asks here.

    declared    dependencies and parents, as the manager has them (docs/declared-dag.md)
    awaited     what the submitting program had waited for: results and futures (declared_waits), commands that it ran
    processes   fork, exit and wait (process_tree.py), the order inside of a process
    streams     bytes through pipes and sockets
    calls       single messages, and what passed from one holder of a lock to the next one, where calls are read again
                (calls.py, locks.py)
    --> edges between points (line, time) --> HappensBefore.before()

A line is a task, whose own processes and threads are taken to be ordered; a process, since a batch script's commands
order its jobs one by one; or a moment of a task without events. Times alone order nothing: that one task ran after the
other in this run does not mean that it will in the next (`Order.apart` tells of that).

A task may have a parent: it begins after the parent begins, and ends before the parent ends. So a task that waits for a
parent waits for all tasks inside it, and the tasks inside a waiting task have waited. A process that serves tasks of a
manager, one after the other, orders none of them: another process may be given the next one.

Invariants: an edge holds in every schedule, except for the program order of a program that waits in a loop. A command
that ended before its job (killed, or detached) did not wait for it; nor does a manager that runs several tasks at a
time (`reapers`). The messages of MPI are not recorded.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.model import dataflow, process_tree
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.model.partly_declared import PartlyDeclared
from tailrace.analyzer.model.process_tree import FORK
from tailrace.analyzer.util import csr
from tailrace.analyzer.util.types import Bools, Ints, Row

DATA, INSIDE = "data", "inside"
DECLARED, AWAITED, UNTOLD, IN_TIME, NONE = ORDERS = ("declared", "awaited", "untold", "in time", "none")
"""What orders two tasks, the strongest first. declared: dependencies, also over other tasks, or one task is inside the
other. awaited: any other edge. untold: the manager orders tasks by more than it declares (partly_declared.py), and the
second began when the first was over. in time: the second was submitted after the first was over, by the manager's one
clock; a loop that submits slowly does that, too: in the next run they may overlap. none: they overlapped, or could
have."""
WORDS = {
    DECLARED: "ordered by other dependencies",
    AWAITED: "the program waited for the first",
    UNTOLD: "the manager may order them, and doesn't tell",
    IN_TIME: "in order this time, by their times alone",
    NONE: "nothing orders them",
}
"""What reports say of each."""
NEVER = np.iinfo(np.int64).max

Task = tuple[str, str]
"""(workflow, task); a task name is unique in its workflow."""
Pair = tuple[Task, Task]
"""(producer, consumer)."""
SUBMITTED, BEGUN, OVER = range(3)
Moment = tuple[Task, int]
"""`SUBMITTED`, `BEGUN` or `OVER` of a task."""
Tables = Mapping[str, pd.DataFrame]
"""Tables of a run by name, as `run_protocol.AnalyzedRun` has them; those without rows may be missing."""


# --- what was declared ------------------------------------------------------------------------------------------------


def pairs_of(deps: pd.DataFrame | None) -> dict[Pair, list[Row]]:
    """The declared dependencies, with their rows of `declared_deps`."""
    found: dict[Pair, list[Row]] = {}
    for row in deps.to_dict("records") if deps is not None else ():
        workflow = str(row.get("workflow") or "")
        found.setdefault(((workflow, str(row["dep"])), (workflow, str(row["task"]))), []).append(row)
    return found


_DEEPEST = 256
"""Of tasks in tasks. No manager nests so deep; time and memory go by the depth of every task."""


def parents_of(tasks: pd.DataFrame | None) -> dict[Task, Task]:
    """Inner task -> its parent, which may be of another workflow."""
    rows = tasks[tasks["parent"].notna()].to_dict("records") if tasks is not None and "parent" in tasks else []
    out: dict[Task, Task] = {}
    for row in rows:
        own = str(row["workflow"] or "")
        of_other = row.get("parent_workflow")
        outer = (of_other if isinstance(of_other, str) else own, str(row["parent"]))
        if outer != (own, str(row["task"])):
            out[own, str(row["task"])] = outer
    return out


def inside_of(parents: Mapping[Task, Task]) -> dict[Task, list[Task]]:
    """Task -> the tasks inside it, at any depth."""
    out: dict[Task, list[Task]] = {}
    for task in parents:
        for outer in line_of(task, parents)[1:]:
            out.setdefault(outer, []).append(task)
    return out


def line_of(task: Task, parents: Mapping[Task, Task]) -> list[Task]:
    """The task, its parent, its parent's parent, and so on, up to _DEEPEST of them."""
    line = {task: None}
    while (task in parents) and parents[task] not in line and len(line) < _DEEPEST:
        task = parents[task]
        line[task] = None
    return list(line)


class _Times:
    """The declared times of tasks, by their workflow manager's clock: an instance inside a job has its own."""

    def __init__(self, tasks: pd.DataFrame | None, parents: Mapping[Task, Task]) -> None:
        self.submitted: dict[Task, int] = {}
        self.over: dict[Task, int] = {}
        self.clock: dict[Task, Task] = {}
        if tasks is None or "t_submit_ns" not in tasks:
            return
        rows = tasks.assign(kind=tasks.get("kind"), t_end_ns=tasks.get("t_end_ns"))
        columns = ["workflow", "task", "kind", "t_submit_ns", "t_end_ns"]
        named = [((str(w or ""), str(t)), *rest) for w, t, *rest in rows[columns].itertuples(index=False)]
        instances = {name for name, kind, *_ in named if kind == "instance"}
        for name, kind, submitted, over in named:
            # Jobs of one Flux instance may belong to several workflows.
            outside = ("" if kind in ("job", "instance") else name[0], "")
            self.clock[name] = next((t for t in line_of(name, parents)[1:] if t in instances), outside)
            # 0 is a time that the manager did not know.
            for ns, times in ((submitted, self.submitted), (over, self.over)):
                if not pd.isna(ns) and ns > 0:
                    times[name] = int(ns)


# --- the order of a run -----------------------------------------------------------------------------------------------


class Order:
    """The order of a run's tasks.

    tasks: one row a task (position = code): the columns of `dataflow.activities` and start_ns, end_ns (ns since the
        epoch, of its events). of_who: the task of each actor; lives: when each was seen.
    pairs: declared dependencies; parents: inner task -> outer task; repeated: tasks that needed several tries.
    place: (workflow, task) -> code, of those with events.
    """

    def __init__(self, m: Model, tables: Tables = MappingProxyType({})) -> None:
        self.m, self._tables = m, tables
        self.of_who, tasks = dataflow.activities(m, "task")
        self.tasks = _timed(m, self.of_who, tasks)
        self.lives = process_tree.lives_of(m)
        declared = tables.get("declared_tasks")
        declared = declared if declared is not None and len(declared) else None
        self.pairs: Collection[Pair] = pairs_of(tables.get("declared_deps"))
        self.parents = parents_of(declared)
        self.repeated = _repeated(declared)
        self._times = _Times(declared, self.parents)
        self._partly = PartlyDeclared(tables.get("declared_workflows"), declared)
        self._declared = set() if declared is None else _names(declared)
        names = ((str(r.workflow), str(r.task)) if r.task else None for r in self.tasks.itertuples())
        self.names: list[Task | None] = list(names)
        self.place = {name: at for at, name in enumerate(self.names) if name is not None}

    @property
    def submitted(self) -> Mapping[Task, int]:
        """When tasks were submitted (ns since the epoch)."""
        return self._times.submitted

    def relation(self, one: Task, other: Task) -> str:
        """What puts all of one task with events before all of another one: one of `ORDERS`."""
        if self._nested(one, other):
            return DECLARED
        first, then = self.place.get(one, -1), self.place.get(other, -1)
        if first >= 0 and then >= 0:
            over, begun = (self.tasks[name].to_numpy(dtype=np.int64) for name in ("end_ns", "start_ns"))
            ends = (first, int(over[first]), then, int(begun[then]))
            if self.happens_before.before(*ends, declared=True):
                return DECLARED
            if self.happens_before.before(*ends):
                return AWAITED
        if self._partly.may_order(one, other):
            return UNTOLD
        return IN_TIME if self._submitted_after(one, other) else NONE

    def nested(self, one: int, other: int) -> bool:
        """Whether one of two tasks (codes) is inside the other one, which orders the two."""
        first, then = self.names[one], self.names[other]
        return first is not None and then is not None and self._nested(first, then)

    def ran_again(self, one: int) -> bool:
        """Whether a task needed several tries: where another one waited for it, what it did later is of another try, as
        when its result was lost."""
        return self.names[one] in self.repeated

    def apart(self, one: int, other: int) -> bool:
        """Whether the manager submitted the other task when the first was over, by its clock, or may order the two
        without a word of it: no order that is known, but no overlap either."""
        first, then = self.names[one], self.names[other]
        if first is None or then is None:
            return False
        return self._submitted_after(first, then) or self._partly.may_order(first, then)

    def _nested(self, one: Task, other: Task) -> bool:
        return one in line_of(other, self.parents) or other in line_of(one, self.parents)

    def _submitted_after(self, first: Task, then: Task) -> bool:
        times = self._times
        if first not in times.over or then not in times.submitted or times.clock[first] != times.clock[then]:
            return False
        return times.submitted[then] >= times.over[first]

    @cached_property
    def happens_before(self) -> HappensBefore:
        """The edges of all kinds but locks."""
        return HappensBefore(self._edges())

    def process_line(self, process: int) -> int:
        """The line of a process (its number in `lives`); that of a task is its code."""
        return process + len(self.tasks)

    # --- edges ---

    def _edges(self) -> Iterator[Edges]:
        unseen = _Unseen(self)
        yield unseen.edges(self._declared_moments(), declared=True)
        yield unseen.edges(self._awaited_moments())
        yield from self._process_edges()
        yield from self._stream_edges()
        yield self._submitter_edges()

    def _declared_moments(self) -> Iterator[tuple[Moment, Moment]]:
        for producer, consumer in self.pairs:
            yield (producer, OVER), (consumer, BEGUN)
        for task, parent in self.parents.items():
            yield (parent, BEGUN), (task, BEGUN)
            yield (task, OVER), (parent, OVER)

    def _awaited_moments(self) -> Iterator[tuple[Moment, Moment]]:
        rows = self._tables.get("declared_waits")
        for row in rows.to_dict("records") if rows is not None else ():
            workflow = str(row["workflow"] or "")
            task = (workflow, str(row["task"]))
            yield (task, SUBMITTED), (task, BEGUN)
            if isinstance(row["awaited"], str):
                yield ((workflow, row["awaited"]), OVER), (task, SUBMITTED)
            if isinstance(row["after"], str):
                yield ((workflow, row["after"]), SUBMITTED), (task, SUBMITTED)

    def _process_edges(self) -> Iterator[Edges]:
        lives, of_who, line = self.lives, self.of_who, self.process_line(0)
        rows: list[tuple[int, int, int, int]] = []
        for producer, consumer, given, taken, via in self.tree:
            first, then = int(lives.process[producer]), int(lives.process[consumer])
            if via == FORK or then not in self.reapers:
                rows.append((line + first, given, line + then, taken))
            # A process may have begun before it had its task's tags, and serve several tasks.
            if via == FORK:
                rows += [(of_who[producer], given, of_who[a], int(lives.start[a])) for a in lives.actors[then]]
            elif then not in self.reapers:
                rows += [(of_who[a], int(lives.end[a]), of_who[consumer], taken) for a in lives.actors[first]]
        yield edges_of([row for row in rows if row[0] != row[2]])
        mine = [actors for actors in lives.actors if len({int(of_who[a]) for a in actors}) > 1]
        rows = []
        for actor in (a for actors in mine for a in actors if self.names[of_who[a]] not in self._declared):
            process, task = line + int(lives.process[actor]), int(of_who[actor])
            rows.append((process, int(lives.start[actor]), task, int(lives.start[actor])))
            rows.append((task, int(lives.end[actor]), process, int(lives.end[actor])))
        yield edges_of(rows)

    def _stream_edges(self) -> Iterator[Edges]:
        """First reads come after first writes, and last after last; only single calls order what was in between."""
        flows = dataflow.flow_table(self.m, "task")
        stream = self.m.versions.table["stream"].to_numpy()[flows["version"]]
        flows = flows[(flows["producer"] >= 0).to_numpy() & stream].reset_index(drop=True)
        wrote = writes(self.m, self.of_who)
        at = _write_of(self.m, flows, wrote)
        begun, done = (wrote[name].to_numpy()[at] for name in ("first_ns", "last_ns"))
        first, last = flows["first_ns"].to_numpy(), flows["last_ns"].to_numpy()
        ends = flows["producer"].to_numpy(), flows["consumer"].to_numpy()
        for given, taken in ((begun, first), (np.where(done <= last, done, begun), last)):
            keep = (at >= 0) & (given <= taken) & (ends[0] != ends[1])
            yield Edges(ends[0][keep], given[keep], ends[1][keep], taken[keep])

    def _submitter_edges(self) -> Edges:
        start, end = (self.tasks[name].tolist() for name in ("start_ns", "end_ns"))
        rows: list[tuple[int, int, int, int]] = []
        for task, process, since, waited in _submitters(self, self._tables.get("declared_tasks")):
            line = self.process_line(process)
            rows.append((line, since, task, start[task]))
            if waited is not None and process not in self.reapers:
                rows.append((task, end[task], line, waited))
        return edges_of(rows)

    @cached_property
    def reapers(self) -> frozenset[int]:
        """Processes that ran several declared tasks at a time, as make -j: such a one goes on with whichever ends, and
        what had ended when it started the next one may not have in another run."""
        lives = self.lives
        children: dict[int, list[tuple[int, int]]] = {}
        for producer, consumer, _, _, via in self.tree:
            child = int(lives.process[consumer])
            # A batch job's script has the job's task, as the commands that it runs: none of these is a task of its own.
            tasks = {self.of_who[actor] for actor in lives.actors[child]} - {self.of_who[producer]}
            if via == FORK and any(self.names[task] in self._declared for task in tasks):
                life = int(lives.begun[child]), int(lives.over[child])
                children.setdefault(int(lives.process[producer]), []).append(life)
        return frozenset(
            process
            for process, times in children.items()
            if any(begun < over for (_, over), (begun, _) in pairwise(sorted(times)))
        )

    @cached_property
    def tree(self) -> list[tuple[int, int, int, int, str]]:
        """Forks, and exits that were waited for, between actors (`process_tree.COLUMNS`)."""
        return process_tree.between_actors(self.m, self.lives)

    @cached_property
    def shared_files(self) -> process_tree.SharedFiles:
        """Which processes have which file open from a common ancestor."""
        return process_tree.SharedFiles(self.m, self.lives, self.tree)

    # --- the same as hand-overs, for the critical path ---

    def handovers(self) -> pd.DataFrame:
        """Hand-overs between tasks: producer, consumer (codes), via (`DATA`, `FORK`, `EXIT`, `DECLARED`, `INSIDE`),
        version, bytes, given_ns (from when on the producer did not keep the consumer waiting), taken_ns (when the
        consumer took it), since_ns (where it lasted from first write to last read, its begin; else given_ns). Those
        that the times contradict are included. What does nothing but sleep gives nothing (sleeping_children.py)."""
        tree = pd.DataFrame(self.tree, columns=process_tree.COLUMNS)
        sleeps = self.m.sleeps_for != np.arange(len(self.m.who))
        ends = [tree[end].to_numpy(dtype=np.int64) for end in ("producer", "consumer")]
        tree = tree[~(sleeps[ends[0]] | sleeps[ends[1]])].reset_index(drop=True)
        for end in ("producer", "consumer"):
            tree[end] = self.of_who[tree[end].to_numpy(dtype=np.int64)]
        waits = pd.concat([tree[tree["producer"] != tree["consumer"]], self.declared_handovers()], ignore_index=True)
        waits = waits.assign(version=np.int64(-1), bytes=np.int64(0), since_ns=waits["given_ns"])
        found = pd.concat([data_handovers(self.m, self.of_who), waits[HANDOVER]], ignore_index=True)
        return found.astype({name: np.int64 for name in HANDOVER if name != "via"})

    def awaited_handovers(self) -> pd.DataFrame:
        """The hand-overs of what the submitting program had waited for before it submitted a task (producer, consumer,
        via, version, bytes, given_ns, taken_ns, since_ns), of several the one that ended last. Those of tasks without
        events are left out."""
        start, end = (self.tasks[name].tolist() for name in ("start_ns", "end_ns"))
        found = _awaited(self._tables.get("declared_waits"), self.place, end)
        rows = [(found[name], at) for name, at in self.place.items() if name in found]
        rows = [(producer, consumer) for producer, consumer in rows if end[producer] <= start[consumer]]
        producer, consumer = np.array(rows, dtype=np.int64).reshape(-1, 2).T
        given, taken = np.array(end, dtype=np.int64)[producer], np.array(start, dtype=np.int64)[consumer]
        made = {"producer": producer, "consumer": consumer, "via": AWAITED, "version": np.int64(-1)}
        made.update(bytes=np.int64(0), given_ns=given, taken_ns=taken, since_ns=given)
        return pd.DataFrame(made)[HANDOVER]

    def declared_handovers(self, pairs: Collection[Pair] | None = None) -> pd.DataFrame:
        """The declared ones (producer, consumer, via, given_ns, taken_ns). Tasks without events have no times: their
        predecessors stand in their place, of several the one that ended last. pairs: in the place of the declared."""
        start, end = (self.tasks[name].to_numpy(dtype=np.int64) for name in ("start_ns", "end_ns"))
        needs: dict[Task, list[Task]] = {}
        for producer, consumer in self.pairs if pairs is None else pairs:
            needs.setdefault(consumer, []).append(producer)
        last = _Last(self.place, end.tolist(), needs, inside_of(self.parents))
        rows: list[tuple[int, int, str, int, int]] = []
        for name, code in self.place.items():
            for outer in line_of(name, self.parents):
                found = self.place.get(outer, -1)
                if outer != name and found >= 0:
                    given = max(self.submitted.get(name, int(start[code])), int(start[found]))
                    given = min(given, int(start[code]), int(end[found]))
                    rows.append((found, code, INSIDE, given, int(start[code])))
                    if end[code] <= end[found]:
                        rows.append((code, found, INSIDE, int(end[code]), int(end[code])))
                    break  # the outer task's predecessors come with it
                producers = {last.of(need) for need in needs.get(outer, [])} - {-1, code}
                rows += [(p, code, DECLARED, int(end[p]), int(start[code])) for p in sorted(producers)]
        columns = ["producer", "consumer", "via", "given_ns", "taken_ns"]
        return pd.DataFrame(rows, columns=columns)


HANDOVER = ["producer", "consumer", "via", "version", "bytes", "given_ns", "taken_ns", "since_ns"]
_orders: weakref.WeakKeyDictionary[AnalyzedRun, Order] = weakref.WeakKeyDictionary()


def of_run(run: AnalyzedRun, m: Model) -> Order:
    """The order of a run with this model, remembered as long as the run lives."""
    if run not in _orders or _orders[run].m is not m:
        names = ("declared_workflows", "declared_tasks", "declared_deps", "declared_waits")
        _orders[run] = Order(m, {name: getattr(run, name) for name in names})
    return _orders[run]


def _timed(m: Model, of_who: Ints, tasks: pd.DataFrame) -> pd.DataFrame:
    counts = m.table.counts
    by_task = counts.groupby(of_who[counts["who"].to_numpy()])
    every = range(len(tasks))
    start = by_task["first_ns"].min().reindex(every, fill_value=0)
    return tasks.assign(
        start_ns=start.to_numpy(dtype=np.int64),
        end_ns=by_task["last_ns"].max().reindex(every, fill_value=0).to_numpy(dtype=np.int64),
    )


def _names(tasks: pd.DataFrame) -> set[Task]:
    return {(str(w or ""), str(t)) for w, t in zip(tasks["workflow"], tasks["task"], strict=True)}


def _awaited(waits: pd.DataFrame | None, place: Mapping[Task, int], end: list[int]) -> dict[Task, int]:
    """Task -> the task that ended last of those that the program had waited for before it submitted that one."""
    own: dict[Task, int] = {}
    after: dict[Task, Task] = {}
    for row in waits.to_dict("records") if waits is not None else ():
        workflow = str(row["workflow"] or "")
        name = (workflow, str(row["task"]))
        if isinstance(row["awaited"], str):
            at = place.get((workflow, row["awaited"]), -1)
            own[name] = max((one for one in (own.get(name, -1), at) if one >= 0), key=lambda one: end[one], default=-1)
        elif isinstance(row["after"], str):
            after[name] = (workflow, row["after"])
    found: dict[Task, int] = {}
    for last in {*own, *after}:
        line: dict[Task, None] = {}
        while last not in found and last not in line:
            line[last] = None
            last = after.get(last, last)
        before = found.get(last, -1)
        for name in reversed(line):
            both = [one for one in (own.get(name, -1), before) if one >= 0]
            before = found[name] = max(both, key=lambda one: end[one], default=-1)
    return {name: at for name, at in found.items() if at >= 0}


def _repeated(tasks: pd.DataFrame | None) -> set[Task]:
    if tasks is None or "tries" not in tasks:
        return set()
    return _names(tasks[(tasks["tries"] > 1).fillna(False).astype(bool)])


class _Last:
    """The position that represents a task: of the task and its inner tasks the one that ended last; of a task without
    events the same of its predecessors; -1 where there is none."""

    def __init__(
        self, place: dict[Task, int], end: list[int], needs: dict[Task, list[Task]], inside: dict[Task, list[Task]]
    ) -> None:
        self.place, self.end, self.needs, self.inside = place, end, needs, inside
        self.known: dict[Task, int] = {}

    def of(self, task: Task) -> int:
        queue, met = [task], {task}
        while queue:  # no recursion: tasks without events may be a chain of thousands
            now = queue[-1]
            seen = [self.place[t] for t in (now, *self.inside.get(now, ())) if t in self.place]
            needs = [] if seen else self.needs.get(now, [])
            open_ones = [need for need in needs if need not in self.known and need not in met]
            if open_ones:
                queue += open_ones
                met.update(open_ones)
                continue
            seen += [self.known.get(need, -1) for need in needs]
            self.known[now] = max((code for code in seen if code >= 0), key=lambda code: self.end[code], default=-1)
            queue.pop()
        return self.known[task]


# --- data -------------------------------------------------------------------------------------------------------------


def writes(m: Model, of_who: Ints) -> pd.DataFrame:
    """(task, version) -> first_ns, last_ns, bytes of what it wrote there."""
    wrote = m.bursts["dir"].to_numpy() == edge_table.WRITE
    rows = m.bursts.loc[wrote, ["first_ns", "last_ns", "bytes"]]
    rows = rows.assign(task=of_who[m.bursts["who"].to_numpy()[wrote]], version=m.version[wrote])
    return rows.groupby(["task", "version"]).agg({"first_ns": "min", "last_ns": "max", "bytes": "sum"})


def data_handovers(m: Model, of_who: Ints) -> pd.DataFrame:
    """The hand-overs of kind `DATA` (`HANDOVER`). Read after the last write: given at the end of that write, taken when
    the read began. Read while it was written (a pipe, a growing file): two rows, from first write to first read and
    from last to last, and where two write to each other through pipes or sockets one for each burst of reads, the turns
    of their conversation. A first read of a pipe or socket that began before the write waited for it."""
    flows = dataflow.flow_table(m, "task")
    flows = flows[flows["producer"] >= 0].reset_index(drop=True)
    wrote = writes(m, of_who)
    at = _write_of(m, flows, wrote)
    begun, done = (wrote[name].to_numpy()[at] for name in ("first_ns", "last_ns"))
    first, last = flows["first_ns"].to_numpy(), flows["last_ns"].to_numpy()
    after = done <= first
    rows = flows[["producer", "consumer", "version", "bytes"]].assign(via=DATA)
    whole = rows.assign(given_ns=done, taken_ns=first, since_ns=done)[after & (at >= 0)]
    during = ~after & (at >= 0)
    streams = m.versions.table["stream"].to_numpy(dtype=np.bool_)[flows["version"].to_numpy()]
    arrived = np.where(streams, np.maximum(first, np.minimum(begun, last)), first)
    head = rows.assign(given_ns=begun, taken_ns=arrived, since_ns=begun, bytes=0)[during & (begun <= arrived)]
    tail = rows.assign(given_ns=done, taken_ns=last, since_ns=begun)[during]
    # Where the writer went on after the reader, only its writes before the reader's end were read.
    tail["given_ns"] = np.where(tail["given_ns"] <= tail["taken_ns"], tail["given_ns"], begun[tail.index])
    turns = _turns(m, of_who, tail[streams[tail.index]])
    ends = turns.set_index(["producer", "consumer", "version", "taken_ns"])["given_ns"]
    # In integers: a float has no nanoseconds of our days.
    last_turn = ends.reindex(pd.MultiIndex.from_frame(tail[ends.index.names]), fill_value=-1).to_numpy(dtype=np.int64)
    tail["given_ns"] = np.where(last_turn < 0, tail["given_ns"].to_numpy(), last_turn)
    turns = turns[(turns["given_ns"] > turns["since_ns"]).to_numpy()]
    return pd.concat([whole, head, turns, tail], ignore_index=True)[HANDOVER]


def _turns(m: Model, of_who: Ints, rows: pd.DataFrame) -> pd.DataFrame:
    """Of hand-overs through pipes and sockets between two that each write to the other one for each burst of reads, but
    for its bytes: it took what the producer wrote last before the end of the burst. since_ns: the end of the burst
    before. (What passes one way holds up its writer, too, when the pipe is full, of which no hand-over tells.)"""
    # Among tasks, not with their manager's processes, which only hand on: there each arrival counts.
    tagged = (m.who["stage"] + m.who["task"] != "").to_numpy(dtype=np.bool_)
    works = np.unique(of_who[tagged | ~tagged.any()])
    rows = rows[np.isin(rows["producer"], works) & np.isin(rows["consumer"], works)]
    both = set(zip(rows["producer"].tolist(), rows["consumer"].tolist(), strict=True))
    pairs = zip(rows["consumer"].tolist(), rows["producer"].tolist(), strict=True)
    rows = rows[np.array([pair in both for pair in pairs], dtype=np.bool_)]
    columns = ["first_ns", "last_ns"]
    bursts = m.bursts[columns].assign(task=of_who[m.bursts["who"].to_numpy()], version=m.version)
    writing = m.bursts["dir"].to_numpy() == edge_table.WRITE
    here = np.isin(m.version, rows["version"].to_numpy())
    read = bursts[here & ~writing].rename(columns={"task": "consumer", "last_ns": "taken_ns"})
    write = bursts[here & writing].rename(columns={"task": "producer", "first_ns": "begun_ns", "last_ns": "over_ns"})
    talks = rows.drop(columns=["given_ns", "taken_ns"]).assign(bytes=0)
    turns = talks.merge(read[["consumer", "version", "taken_ns"]], on=["consumer", "version"])
    turns = turns.drop_duplicates().sort_values("taken_ns", kind="stable")
    write = write.sort_values("begun_ns", kind="stable")
    found = pd.merge_asof(turns, write, left_on="taken_ns", right_on="begun_ns", by=["producer", "version"])
    found = found[found["begun_ns"].notna()].astype({"begun_ns": np.int64, "over_ns": np.int64})
    given = np.where(found["over_ns"] <= found["taken_ns"], found["over_ns"], found["begun_ns"])
    before = found.groupby(["producer", "consumer", "version"])["taken_ns"].shift(fill_value=0)
    return found.assign(given_ns=given, since_ns=np.maximum(found["since_ns"], before))


def _write_of(m: Model, flows: pd.DataFrame, wrote: pd.DataFrame) -> Ints:
    """The row of `wrote` for each flow: the producer's write of the version, or of the one that it continues."""
    base = m.versions.table["base"].to_numpy()
    at = np.full(len(flows), -1, dtype=np.int64)
    version = flows["version"].to_numpy().copy()
    producer = flows["producer"].to_numpy()
    open_rows = np.arange(len(flows))
    while len(open_rows):
        pairs = pd.MultiIndex.from_arrays([producer[open_rows], version[open_rows]])
        at[open_rows] = wrote.index.get_indexer(pairs)
        open_rows = open_rows[(at[open_rows] < 0) & (base[version[open_rows]] >= 0)]
        version[open_rows] = base[version[open_rows]]
    return at


# --- commands that submit tasks ---------------------------------------------------------------------------------------


def _submitters(order: Order, declared: pd.DataFrame | None) -> Iterator[tuple[int, int, int, int | None]]:
    """(task, the process that submitted it, since when, when it had waited for the task or None), by
    `declared_tasks.submitter`. Where that command was not traced (Flux's own, in a batch script), it is the process
    that ran it."""
    if declared is None or "submitter" not in declared:
        return
    lives, commands = order.lives, process_tree.Commands(order.m, order.lives)
    start, end = (order.tasks[name].tolist() for name in ("start_ns", "end_ns"))
    for row in declared[declared["submitter"].notna()].to_dict("records"):
        task = order.place.get((str(row["workflow"] or ""), str(row["task"])), -1)
        host, pid, waits = (row["submitter"].get(key) for key in ("host", "pid", "waits"))
        place = (str(host), pid if isinstance(pid, int) else -1)
        if task < 0:
            continue
        command = commands.traced(place, start[task])
        if command >= 0:
            over = int(lives.over[command])
            since, waited = int(lives.begun[command]), over if over >= end[task] else None
        else:
            command, since, waited = commands.untraced(place, start[task], end[task])
        if command >= 0:
            yield task, command, since, waited if waits is True else None


# --- the graph --------------------------------------------------------------------------------------------------------


class Edges(NamedTuple):
    """What was done on the line `source` up to `given` (ns) happened before what is done on `target` from `taken` on;
    parallel arrays. declared: by what the manager declared."""

    source: Ints
    given: Ints
    target: Ints
    taken: Ints
    declared: bool = False


def edges_of(rows: Iterable[tuple[int, int, int, int]], declared: bool = False) -> Edges:
    """The edges of rows (source, given, target, taken)."""
    source, given, target, taken = np.array(list(rows), dtype=np.int64).reshape(-1, 4).T
    return Edges(source, given, target, taken, declared)


class _Unseen:
    """The lines of moments: a task's own where it has events; else one for its begin and end, whose times are these
    numbers. A submission has its own, since the task itself did nothing yet."""

    def __init__(self, order: Order) -> None:
        self.place = order.place
        self.times = {BEGUN: order.tasks["start_ns"].tolist(), OVER: order.tasks["end_ns"].tolist()}
        self.first = order.process_line(len(order.lives.actors))
        self.lines: dict[tuple[Task, bool], int] = {}

    def edges(self, moments: Iterable[tuple[Moment, Moment]], declared: bool = False) -> Edges:
        return edges_of(((*self._point(first), *self._point(then)) for first, then in moments), declared)

    def _point(self, moment: Moment) -> tuple[int, int]:
        task, when = moment
        at = self.place.get(task, -1)
        if at >= 0 and when in self.times:
            return at, int(self.times[when][at])
        return self.lines.setdefault((task, when in self.times), self.first + len(self.lines)), when


_REMEMBERED = 1 << 26
"""Bytes of reached points that are kept for further questions."""


class HappensBefore:
    """The order of points (line, time), from edges between them; the points of one line are in the order of time."""

    def __init__(self, edges: Iterable[Edges]) -> None:
        self.edges = list(edges)
        source, given, target, taken = (np.concatenate(columns) for columns in list(zip(*self.edges, strict=True))[:4])
        line, when = np.concatenate([source, target]), np.concatenate([given, taken])
        by_time = np.lexsort((when, line))
        self._line, self._when = line[by_time], when[by_time]
        point = np.empty(len(line), dtype=np.int64)
        point[by_time] = np.arange(len(line))
        inner = np.flatnonzero(self._line[1:] == self._line[:-1])
        # Points of one line at one time are one moment: their order must not matter.
        same = inner[self._when[inner] == self._when[inner + 1]]
        self._ends = np.concatenate([inner, same + 1, point[: len(source)]])
        self._ends_to = np.concatenate([inner + 1, same, point[len(source) :]])
        self._declared_only = np.ones(len(self._ends), dtype=np.bool_)
        kinds = [np.full(len(e.source), e.declared) for e in self.edges]
        self._declared_only[len(inner) + len(same) :] = np.concatenate(kinds)
        self._seen: dict[tuple[int, bool], Bools] = {}
        self._firsts: dict[int, dict[int, int]] = {}
        self.walked = 0
        """Points that `earliest` has met so far."""

    def with_edges(self, *more: Edges) -> HappensBefore:
        """The same order with more edges."""
        return HappensBefore([*self.edges, *more])

    @cached_property
    def _graphs(self) -> tuple[csr.Graph, csr.Graph]:
        """Of all edges, and of the declared ones."""
        only = self._declared_only
        count = len(self._line)
        return csr.build(count, self._ends, self._ends_to), csr.build(count, self._ends[only], self._ends_to[only])

    def before(self, line: int, after: int, other: int, until: int, declared: bool = False) -> bool:
        """Whether all that is on `line` up to `after` happened before what is on `other` from `until` on; declared: by
        declared edges alone."""
        start, (low, high) = int(self._next(line, np.array([after]))[0]), self._bounds(other)
        end = low + int(np.searchsorted(self._when[low:high], until, side="right")) - 1
        if start == len(self._line) or end < low:
            return False
        if (start, declared) not in self._seen:
            if (len(self._seen) + 1) * len(self._line) > _REMEMBERED:
                self._seen.clear()
            self._seen[start, declared] = csr.reachable(self._graphs[declared], start)
            self._seen[start, declared][start] = True
        return bool(self._seen[start, declared][end])

    def earliest(self, line: int, after: Ints, other: int) -> Ints:
        """For each time the first one on `other` from which on all happened after what is on `line` up to it; `NEVER`
        without one. Asked for many lines, those with the same `other` come together."""
        if other not in self._firsts:
            if sum(map(len, self._firsts.values())) > _REMEMBERED // 64:
                self._firsts.clear()
            self._firsts[other] = self._first_points(other)
            self.walked += len(self._firsts[other])
        point, at = np.unique(self._next(line, after), return_inverse=True)
        first = self._firsts[other]
        when = [int(self._when[first[one]]) if one in first else NEVER for one in point.tolist()]
        return np.array(when, dtype=np.int64)[at]

    def _first_points(self, other: int) -> dict[int, int]:
        """Of each point that happens before one of a line, the first one there."""
        found: dict[int, int] = {}
        at, source = self._back.at, self._back.target
        low, high = self._bounds(other)
        for point in range(low, high):
            stack = [] if point in found else [point]
            while stack:
                now = stack.pop()
                if now not in found:
                    found[now] = point
                    stack += source[at[now] : at[now + 1]].tolist()
        return found

    @cached_property
    def _back(self) -> csr.Graph:
        return csr.build(len(self._line), self._ends_to, self._ends)

    def _bounds(self, line: int) -> tuple[int, int]:
        low, high = np.searchsorted(self._line, (line, line + 1))
        return int(low), int(high)

    def _next(self, line: int, after: Ints) -> Ints:
        """The first point of a line not before each time; the number of points without one."""
        low, high = self._bounds(line)
        at = low + np.searchsorted(self._when[low:high], after, side="left")
        return np.where(at < high, at, len(self._line))
