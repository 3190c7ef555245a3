"""What the replays of a run have in common: its tasks with what they waited for, and its workers.

    Inputs --Scene--> play(Change) --> Play (replay.py)

What a task waits for comes from the hand-overs (inputs.py), the declarations, and, in a run that declares no tasks,
from the order in which its programs (scripts, `make`, a pool of threads) started tasks: one that started a task while
none of the others that it had started ran had waited for those before, and one that started it while others ran is
taken to have had no reason to wait but for a worker. Of two tasks of which one was over before the
other began, the end counts; else the moments at which one gave and the other took.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.insights.inputs import Inputs
from tailrace.analyzer.insights.replay import Lag, Play, Player, Task, Workers, lags_of
from tailrace.analyzer.model import time_model
from tailrace.analyzer.model.order import DATA, DECLARED, INSIDE, writes
from tailrace.analyzer.model.order import Task as TaskName
from tailrace.analyzer.model.process_tree import EXIT, FORK
from tailrace.analyzer.util import intervals
from tailrace.analyzer.util.types import Bools, Ints

LOOKED_BACK = 8
"""Tasks that ended last before another one was submitted, of which is asked whether its submitter had waited for them.
"""


@dataclass(frozen=True)
class Change:
    """quicker: calls of tasks (`whatif.io_cover`) and by how much they are shorter (their time is divided by it).
    workers: on each host; None: as many as in the run. streamed: hand-overs (rows of `Inputs.handovers`) that happen
    while their files are written; beside: the pairs of stages (codes) between which that is so, where the order that
    was declared, or that a program kept, does not count; pairs: the same of tasks. undeclared: (workflow, producer,
    consumer) whose declared order is dropped. io_stretch, work_stretch: every call on a file, and all the rest, take so
    many times as long. at_home: each task takes a worker of the host on which it ran, not of any. unready: no task
    waits for a processor. unawaited: tasks that the program submits without waiting for others before."""

    quicker: tuple[tuple[intervals.Cover, float], ...] = ()
    workers: int | None = None
    streamed: Bools | None = None
    beside: frozenset[tuple[int, int]] = frozenset()
    pairs: frozenset[tuple[int, int]] = frozenset()
    undeclared: frozenset[tuple[str, str, str]] = frozenset()
    io_stretch: float = 1.0
    work_stretch: float = 1.0
    at_home: bool = False
    unready: bool = False
    unawaited: frozenset[int] = frozenset()

    @property
    def streams(self) -> bool:
        """Whether some tasks run side by side that did not."""
        return bool(self.beside or self.pairs)


class Scene:
    """What the replays of a run have in common.

    workers: how many the run had on the host with most; None where its tasks ran one at a time by an untagged program,
        so that nothing tells which of them could have run side by side.
    workers_of: host -> how many it had. hosts: on how many hosts tasks ran.
    """

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        self.start = inputs.tasks["start_ns"].to_numpy(dtype=np.int64)
        self.end = inputs.tasks["end_ns"].to_numpy(dtype=np.int64)
        self.works = inputs.works
        self.stage: list[int] = inputs.tasks["stage_code"].tolist()
        self.tagged = bool((inputs.m.who["stage"] + inputs.m.who["task"] != "").any())
        declared = inputs.tables.get("declared_tasks")
        self.managed = declared is not None and len(declared) > 0
        self.inner_of = self._inner()
        self.slot_tasks = [t for t in np.flatnonzero(self.works).tolist() if self.tagged and t not in self.inner_of]
        self.first_actor = _first_actors(inputs)
        self.host = inputs.m.who["host"].to_numpy(dtype=object)[self.first_actor]
        self.hosts = len({self.host[t] for t in self.slot_tasks})
        self.workers_of = self._count_workers()
        most = max(self.workers_of.values(), default=0)
        self.workers = most if self.managed or most > 1 else None
        self.program = [] if self.managed or not self.tagged else _program_order(inputs, self.first_actor)
        kinds = (edge_table.READ, edge_table.WRITE)
        self.io = inputs.cover(*kinds)
        self._streams_from = writes(inputs.m, inputs.of_who)

    # --- what there is -----------------------------------------------------------------------------------------------

    def _inner(self) -> dict[int, list[int]]:
        rows = self.inputs.handovers
        inside = rows[(rows["via"] == INSIDE).to_numpy()]
        found: dict[int, list[int]] = {}
        # An outer task gives to an inner one at its submission; the way back has equal times.
        parents = self.inputs.order.parents
        name = list(zip(self.inputs.tasks["workflow"], self.inputs.tasks["task"], strict=True))
        for outer, task in zip(inside["producer"].tolist(), inside["consumer"].tolist(), strict=True):
            if parents.get((str(name[task][0]), str(name[task][1]))) == (str(name[outer][0]), str(name[outer][1])):
                found.setdefault(outer, []).append(task)
        return found

    def _worker_processes(self) -> dict[int, int]:
        """Task -> the process that ran it, where that ran several, one after the other."""
        lives = self.inputs.lives
        of_process: dict[int, list[int]] = {}
        for task in self.slot_tasks:
            of_process.setdefault(int(lives.process[self.first_actor[task]]), []).append(task)
        found = {}
        for process, tasks in of_process.items():
            tasks.sort(key=lambda t: (self.start[t], self.end[t]))
            if len(tasks) > 1 and all(self.end[a] <= self.start[b] for a, b in pairwise(tasks)):
                found.update(dict.fromkeys(tasks, process))
        return found

    def _count_workers(self) -> dict[str, int]:
        worker_of = self._worker_processes()
        by_host: dict[str, list[int]] = {}
        for task in self.slot_tasks:
            by_host.setdefault(str(self.host[task]), []).append(task)
        return {
            host: max(
                at_a_time(self.start[tasks], self.end[tasks]), len({worker_of[t] for t in tasks if t in worker_of}), 1
            )
            for host, tasks in sorted(by_host.items())
        }

    # --- the tasks with their gates ----------------------------------------------------------------------------------

    def _tasks(self, change: Change) -> tuple[dict[int, Task], int]:
        """The tasks, and how many things may be given."""
        tasks = {
            t: Task(int(self.start[t]), int(self.end[t]), inner=self.inner_of.get(t, []))
            for t in np.flatnonzero(self.works).tolist()
        }
        pools = {host: at for at, host in enumerate(self.workers_of)} if change.at_home else {}
        for t in self.slot_tasks:
            tasks[t].slot, tasks[t].pool = True, pools.get(str(self.host[t]), 0)
        given = Gifts(tasks, len(self.start))
        self._hand_over(given, change)
        for before, after in self.program:
            if not change.streams:
                barrier = given.barrier(tuple(before)) if before else -1
            for t in after if before else ():
                if change.streams:
                    waited = tuple(p for p in before if not self._is_beside(change, p, t))
                    barrier = given.barrier(waited) if waited else t
                given.after(barrier, t)
        self._submissions(given, change)
        return tasks, given.count

    def _hand_over(self, given: Gifts, change: Change) -> None:
        rows = self.inputs.handovers
        keep = self.works[rows["producer"].to_numpy()] & self.works[rows["consumer"].to_numpy()]
        rows = rows.assign(streamed=False if change.streamed is None else change.streamed)[keep]
        if change.undeclared:
            rows = rows[(rows["via"] != DECLARED).to_numpy()]
            rows = pd.concat([rows, self._declared_but(change.undeclared)], ignore_index=True)
        columns = ("producer", "consumer", "via", "version", "given_ns", "taken_ns", "streamed", "held")
        for p, c, via, version, at, taken, streamed, held in zip(*(rows[n].tolist() for n in columns), strict=True):
            if via == INSIDE or p in self.inner_of.get(c, ()) or c in self.inner_of.get(p, ()):
                continue  # by `around` and `inner`
            if via == DECLARED and self._is_beside(change, p, c):
                continue
            if streamed:
                self._stream(given, p, c, int(version))
            elif self.end[p] <= self.start[c]:
                given.after(p, c)
            elif (via == DATA and held) or via in (FORK, EXIT, DECLARED):
                given.within(p, at, c, taken)

    def _is_beside(self, change: Change, producer: int, consumer: int) -> bool:
        ends = (self.stage[producer], self.stage[consumer])
        return (producer, consumer) in change.pairs or ends in change.beside

    def _declared_but(self, dropped: frozenset[tuple[str, str, str]]) -> pd.DataFrame:
        order = self.inputs.order
        rows = order.declared_handovers([(p, c) for p, c in order.pairs if (*p, c[1]) not in dropped])
        rows = rows[((rows["via"] == DECLARED) & (rows["taken_ns"] >= rows["given_ns"])).to_numpy()]
        return rows.assign(version=-1, streamed=False, held=True)

    def _stream(self, given: Gifts, producer: int, consumer: int, version: int) -> None:
        """The consumer begins after the producer's first write, and is over after its last one."""
        first, last = int(self.start[producer]), int(self.end[producer])
        at = self._streams_from.index.get_indexer(pd.MultiIndex.from_tuples([(producer, version)]))[0]
        if at >= 0:
            first, last = (int(self._streams_from[n].iloc[at]) for n in ("first_ns", "last_ns"))
        given.within(producer, first, consumer, int(self.start[consumer]))
        given.within(producer, last, consumer, int(self.end[consumer]))

    def _submissions(self, given: Gifts, change: Change) -> None:
        declared = self.inputs.tables.get("declared_tasks")
        if declared is None or "t_submit_ns" not in declared:
            return
        names = zip(self.inputs.tasks["workflow"], self.inputs.tasks["task"], strict=True)
        place = {(str(w), str(t)): at for at, (w, t) in enumerate(names) if t}
        awaited = Awaited(self.inputs.tables.get("declared_waits"), place, given)
        ends = sorted((int(self.end[t]), t) for t in self.slot_tasks)
        for row in declared[declared["t_submit_ns"].notna()].to_dict("records"):
            name = (str(row["workflow"] or ""), str(row["task"]))
            t = place.get(name, -1)
            if t < 0 or not self.works[t]:
                continue
            task = given.tasks[t]
            at = min(int(row["t_submit_ns"]), task.start_ns)
            outer = place.get(self.inputs.order.parents.get(name, ("", "")), -1)
            if outer >= 0 and self.works[outer]:
                task.around, task.floor_ns = outer, max(at - int(self.start[outer]), 0)
            else:
                task.floor_ns = at
            waited = awaited.by(name)
            if waited >= 0:
                if t not in change.unawaited:
                    given.after(waited, t)
            elif isinstance(row.get("submitter"), dict):
                found = self._waited_by_script(t, at, ends)
                for before in found:
                    given.after(before, t)
                waited = found[0] if found else -1
            if waited >= 0:
                task.floor_ns = 0

    def _waited_by_script(self, task: int, at: int, ends: list[tuple[int, int]]) -> list[int]:
        until = bisect_right(ends, (at, len(self.start)))
        before = self.inputs.order.happens_before.before
        return [
            t for end, t in ends[max(until - LOOKED_BACK, 0) : until] if before(t, end, task, int(self.start[task]))
        ]

    # --- the work between the moments of tasks -----------------------------------------------------------------------

    def work(self, tasks: dict[int, Task], change: Change) -> dict[int, list[int]]:
        """Of each task how long it works before each of its moments but the first. What it was blocked in, before a
        gate, is no work."""
        rows = [
            (t, task.start_ns + low, task.start_ns + high, high in task.gates, bool(task.inner))
            for t, task in tasks.items()
            for low, high in pairwise(task.moments)
        ]
        if not rows:
            return {}
        t, low, high, gated, outer = (np.array(column) for column in zip(*rows, strict=True))
        long = high - low - np.where(gated, self.inputs.blocked.inside(t, low, high), 0)
        if change.io_stretch != 1 or change.work_stretch != 1:
            io = np.minimum(self.io.inside(t, low, high), long)
            long = (io * change.io_stretch + (long - io) * change.work_stretch).astype(np.int64)
        if change.unready:
            long = long - self.inputs.spent.inside(t, low, high)[time_model.READY].to_numpy(dtype=np.int64)
        for cover, factor in change.quicker:
            long = long - (cover.inside(t, low, high) * (1 - 1 / factor)).astype(np.int64)
        out: dict[int, list[int]] = {}
        for task, ns in zip(t.tolist(), np.where(outer, 0, np.maximum(long, 0)).tolist(), strict=True):
            out.setdefault(task, []).append(ns)
        return out

    # --- the replay --------------------------------------------------------------------------------------------------

    def play(self, change: Change) -> Play:
        """The run with a change."""
        as_it_was = Change(at_home=change.at_home)
        observed, given = self._tasks(as_it_was)
        first_ns = self.inputs.start_ns
        lags = lags_of(observed, self.work(observed, as_it_was), self._workers(as_it_was), first_ns)
        if change.streamed is not None or change.undeclared or change.unawaited:
            observed, given = self._tasks(change)
            lags = {t: lags.get(t, Lag(0, {})) for t in observed}
        return Player(observed, given, self.work(observed, change), lags, self._workers(change), first_ns).play()

    def _workers(self, change: Change) -> Workers | None:
        if self.workers is None:
            return None
        opened = min((int(self.start[t]) for t in self.slot_tasks), default=self.inputs.start_ns)
        counts = [change.workers or count for count in self.workers_of.values()]
        return Workers(tuple(counts) if change.at_home else (max(sum(counts), 1),), opened)


class Gifts:
    """Gives out the numbers of what is given, and puts gifts and gates into the tasks.

    A task that waits for many others waits for a *barrier*, a task without length that waits for them: `tasks` has
    barriers from `first_barrier` on.
    """

    def __init__(self, tasks: dict[int, Task], first_barrier: int) -> None:
        self.tasks, self.count, self.next = tasks, 0, first_barrier
        self.ends: dict[int, int] = {}
        self.known: set[tuple[int, int]] = set()
        self.barriers: dict[tuple[int, ...], int] = {}

    def after(self, producer: int, consumer: int) -> None:
        """The consumer begins when the producer is over; nothing where it began before."""
        task = self.tasks[producer]
        late = task.end_ns > self.tasks[consumer].start_ns
        if producer == consumer or late or (producer, consumer) in self.known:
            return
        self.known.add((producer, consumer))
        if producer not in self.ends:
            self.ends[producer] = self._new(task, task.end_ns - task.start_ns)
        self.tasks[consumer].gates.setdefault(0, []).append(self.ends[producer])

    def barrier(self, producers: tuple[int, ...]) -> int:
        """The number of the barrier of these tasks."""
        if len(producers) == 1:
            return producers[0]
        if producers not in self.barriers:
            number, self.next = self.next, self.next + 1
            at = max(self.tasks[producer].end_ns for producer in producers)
            self.tasks[number] = Task(at, at)
            self.barriers[producers] = number
            for producer in producers:
                self.after(producer, number)
        return self.barriers[producers]

    def within(self, producer: int, given_ns: int, consumer: int, taken_ns: int) -> None:
        """The consumer takes at its time what the producer gives at its own."""
        source, target = self.tasks[producer], self.tasks[consumer]
        number = self._new(source, _clip(given_ns, source))
        target.gates.setdefault(_clip(taken_ns, target), []).append(number)

    def _new(self, task: Task, at: int) -> int:
        self.count += 1
        task.gifts.setdefault(at, []).append(self.count - 1)
        return self.count - 1


def _clip(ns: int, task: Task) -> int:
    return min(max(ns - task.start_ns, 0), task.end_ns - task.start_ns)


class Awaited:
    """What a program had waited for before it submitted a task, as one task or barrier: its own line's tasks, and what
    it had waited for before the task that it submitted before."""

    def __init__(self, table: pd.DataFrame | None, place: dict[TaskName, int], given: Gifts) -> None:
        self.given = given
        self.awaited: dict[TaskName, list[int]] = {}
        self.after: dict[TaskName, TaskName] = {}
        self.found: dict[TaskName, int] = {}
        for row in [] if table is None else table.to_dict("records"):
            workflow = str(row["workflow"] or "")
            name = (workflow, str(row["task"]))
            if isinstance(row["awaited"], str):
                at = place.get((workflow, row["awaited"]), -1)
                if at in given.tasks:
                    self.awaited.setdefault(name, []).append(at)
            elif isinstance(row["after"], str):
                self.after[name] = (workflow, row["after"])

    def by(self, name: TaskName) -> int:
        """The task or barrier; -1 without one."""
        line: dict[TaskName, None] = {}
        while name not in self.found and name not in line:
            line[name] = None
            if name not in self.after:
                break
            name = self.after[name]
        before = self.found.get(name, -1)
        for one in reversed(line):
            mine = sorted({*self.awaited.get(one, ()), *([before] if before >= 0 else [])})
            before = self.given.barrier(tuple(mine)) if mine else -1
            self.found[one] = before
        return before


def _first_actors(inputs: Inputs) -> Ints:
    by_start = np.argsort(inputs.lives.start, kind="stable")
    at, first = np.unique(inputs.of_who[by_start], return_index=True)
    out = np.zeros(len(inputs.tasks), dtype=np.int64)
    out[at] = by_start[first]
    return out


def at_a_time(start: Ints, end: Ints) -> int:
    """How many of the spans there are at a time, at the most; one that begins when another ends is after it."""
    if len(start) == 0:
        return 0
    when = np.concatenate([end, start])
    change = np.concatenate([np.full(len(end), -1), np.ones(len(start), dtype=np.int64)])
    by_time = np.lexsort((change, when))
    return int(np.cumsum(change[by_time]).max())


def _program_order(inputs: Inputs, first_actor: Ints) -> list[tuple[list[int], list[int]]]:
    """(tasks, the tasks that began after these); first_actor: of each task the actor as which it began."""
    programs = _programs(inputs, first_actor)
    started_by = {child: p for p, program in programs.items() for _, _, child in program}
    phase: dict[int, list[int]] = {}  # child -> the children of the same program that were over before
    for program in programs.values():
        before, now, running = list[int](), list[int](), list[int]()
        for begin, over, child in sorted(program):
            if now and all(end <= begin for end in running):
                before, now = now, []
            running = [end for end in running if end > begin] + [over]
            now.append(child)
            phase[child] = before
    groups: dict[tuple[int, ...], tuple[list[int], list[int]]] = {}
    for t in np.flatnonzero(inputs.works).tolist():
        node, met = t, set[int]()
        while node in started_by and node not in met and not phase[node]:
            met.add(node)
            node = started_by[node]
        if found := phase.get(node, []):
            key = tuple(found)
            groups.setdefault(key, (_tasks_of(found, programs, inputs.works), []))[1].append(t)
    return list(groups.values())


def _tasks_of(nodes: list[int], programs: dict[int, list[tuple[int, int, int]]], works: Bools) -> list[int]:
    """The tasks among nodes, and those that programs among them started."""
    out, queue, met = list[int](), list(nodes), set(nodes)
    while queue:
        node = queue.pop()
        if works[node]:
            out.append(node)
            continue
        below = [child for _, _, child in programs.get(node, ()) if child not in met]
        met.update(below)
        queue += below
    return sorted(out)


def _programs(inputs: Inputs, first_actor: Ints) -> dict[int, list[tuple[int, int, int]]]:
    """Untagged process -> (begin, when it had waited for it, task or process) of all that it started. A task that is a
    part of the process (its tags were set and taken away) was waited for at its end."""
    rows = inputs.handovers
    out: dict[int, list[tuple[int, int, int]]] = {}
    spans: dict[tuple[int, int], tuple[int, int]] = {}
    never = np.iinfo(np.int64).max
    made = rows[(rows["via"] == FORK).to_numpy()]
    for p, c, at in zip(*(made[n].tolist() for n in ("producer", "consumer", "given_ns")), strict=True):
        if not inputs.works[p]:
            begin, over = spans.get((p, c), (never, -1))
            spans[(p, c)] = (min(begin, at), over)
    lives, of_who = inputs.lives, inputs.of_who
    makers = {}
    for t in np.flatnonzero(inputs.works).tolist():
        process = int(lives.process[first_actor[t]])
        makers[t] = next((int(of_who[a]) for a in lives.actors[process] if not inputs.works[of_who[a]]), -1)
    ended = rows[(rows["via"] == EXIT).to_numpy()]
    for c, p, at in zip(*(ended[n].tolist() for n in ("producer", "consumer", "taken_ns")), strict=True):
        # What was forked may have become the task by executing its program.
        forked = c if (p, c) in spans else makers.get(c, -1)
        if (p, forked) in spans:
            spans[(p, forked)] = (spans[(p, forked)][0], max(spans[(p, forked)][1], at))
    start, end = inputs.tasks["start_ns"].tolist(), inputs.tasks["end_ns"].tolist()
    started = {c for _, c in spans}
    for t, maker in makers.items():
        if maker >= 0 and t not in started:
            spans[(maker, t)] = (start[t], end[t])
    for (p, c), (begin, over) in spans.items():
        out.setdefault(p, []).append((begin, over if over >= 0 else never, c))
    return out
