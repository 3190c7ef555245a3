"""Resource waits: the task that occupied the process or the nodes in which another task, which was ready, then began.

    process    a worker runs one task after the other: the next one can't begin before the last one is over
    nodes      the manager says when a task was ready and when it had its nodes: of the tasks beside it (in the same
               instance, on some of the same nodes) the one that was over last before
    slot       a manager that says nothing of that runs so many tasks at a time (`make -j 4`): as many of the workflow
               ran as ever in the run, and the next one began soon after one of them was over

Invariants: the occupying task was over after the other one was ready, as far as the manager or the hand-overs say when
that was, and before it began. A process that ever had two tasks at a time (threads) is left out: which of its tasks
occupied the missing place is not known. For a slot a task has waited more than `PATIENCE` times as long as it took to
begin in it: a task that had to wait for nobody may begin after any end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from tailrace.analyzer.insights.inputs import Inputs
from tailrace.analyzer.model import outcomes
from tailrace.analyzer.util.types import Ints

PATIENCE = 4
Group = tuple[str, str]
"""A workflow, and the task that is around (a Flux instance); "" where there is none."""


class ResourceWaits:
    """The resource waits of a run's tasks."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        self.start, self.end = (inputs.tasks[name].to_numpy(dtype=np.int64) for name in ("start_ns", "end_ns"))
        self.workflow: list[str] = inputs.tasks["workflow"].tolist()
        order = np.argsort(inputs.lives.start, kind="stable")
        at, first = np.unique(inputs.of_who[order], return_index=True)
        self.first = np.full(len(inputs.tasks), -1, dtype=np.int64)
        self.first[at] = order[first]  # the actor that each task began as
        self.serial: dict[int, tuple[list[int], list[int]]] = {}
        self.queued = _queued(inputs)
        self.beside: dict[Group, tuple[list[int], list[int]]] = {}
        for task in sorted(self.queued, key=lambda task: int(self.end[task])):
            ends, tasks = self.beside.setdefault(self.queued[task][0], ([], []))
            ends.append(int(self.end[task]))
            tasks.append(task)
        self.slots = _slots(inputs, self.queued)

    def released(self, task: int, since: int) -> tuple[int, int]:
        """The task whose end released the process, nodes or slot of a task that had all else since a time, and when
        (ns); (-1, 0) where it is unknown."""
        found = [self._in_process(task), self._on_nodes(task), self._in_slot(task, since)]
        return max(found, key=lambda release: release[1])

    def _in_process(self, task: int) -> tuple[int, int]:
        actor = int(self.first[task])
        process = int(self.inputs.lives.process[actor])
        if process not in self.serial:
            self.serial[process] = self._one_by_one(process)
        ends, tasks = self.serial[process]
        at = bisect_right(ends, int(self.inputs.lives.start[actor])) - 1
        if at < 0 or tasks[at] == task or ends[at] <= self._ready(task):
            return -1, 0
        return tasks[at], ends[at]

    def _one_by_one(self, process: int) -> tuple[list[int], list[int]]:
        """The ends of the tasks of a process, and the tasks; none where it had two at a time."""
        lives, of_who = self.inputs.lives, self.inputs.of_who
        actors = [actor for actor in lives.actors[process] if self.inputs.works[of_who[actor]]]
        if any(lives.end[a] > lives.start[b] for a, b in pairwise(actors)):
            return [], []
        return [int(lives.end[a]) for a in actors], [int(of_who[a]) for a in actors]

    def _ready(self, task: int) -> int:
        return self.queued[task][2] if task in self.queued else 0

    def _on_nodes(self, task: int) -> tuple[int, int]:
        if task not in self.queued:
            return -1, 0
        group, nodes, ready, given = self.queued[task]
        ends, tasks = self.beside[group]
        for at in range(bisect_right(ends, given) - 1, -1, -1):
            if ends[at] <= ready:
                break
            if tasks[at] != task and not nodes.isdisjoint(self.queued[tasks[at]][1]):
                return tasks[at], ends[at]
        return -1, 0

    def _in_slot(self, task: int, since: int) -> tuple[int, int]:
        slots = self.slots.get(self.workflow[task])
        if slots is None or task in self.queued:
            return -1, 0
        begin = int(self.start[task])
        other, over = slots.last_full(task, begin)
        return (other, over) if over - since > PATIENCE * (begin - over) else (-1, 0)


@dataclass(frozen=True)
class _Slots:
    """The tasks of a workflow that have no others inside, by their ends; full: whether as many ran at each end as
    ever."""

    tasks: list[int]
    ends: list[int]
    full: list[bool]

    def last_full(self, task: int, begin: int) -> tuple[int, int]:
        """The last task that was over before a task began, and when, where that released one of all slots; else (-1,
        0)."""
        at = bisect_right(self.ends, begin) - 1
        if at < 0 or self.tasks[at] == task or not self.full[at]:
            return -1, 0
        return self.tasks[at], self.ends[at]


def _slots(inputs: Inputs, queued: Mapping[int, object]) -> dict[str, _Slots]:
    """The slots of each workflow whose manager doesn't say when tasks had their nodes."""
    if inputs.works.all() and not inputs.managed:
        return {}
    start, end = (inputs.tasks[name].to_numpy(dtype=np.int64) for name in ("start_ns", "end_ns"))
    names = outcomes.task_keys(inputs.tasks)
    mine: dict[str, list[int]] = {}
    for task in innermost(inputs):
        workflow, name = names[task]
        if name and task not in queued:
            mine.setdefault(workflow, []).append(task)
    out = {}
    for workflow, tasks in mine.items():
        tasks.sort(key=lambda task: int(end[task]))
        running = running_at_ends(start[tasks], end[tasks])
        out[workflow] = _Slots(tasks, end[tasks].tolist(), (running == running.max()).tolist())
    return out


def innermost(inputs: Inputs) -> list[int]:
    """The tasks that are work and have no others inside."""
    outer = set(inputs.order.parents.values())
    keys = outcomes.task_keys(inputs.tasks)
    return [task for task in np.flatnonzero(inputs.works).tolist() if keys[task] not in outer]


def running_at_ends(start: Ints, end: Ints) -> Ints:
    """How many tasks run right before the end of each, in the order of their ends."""
    ends = np.sort(end)
    return np.asarray(np.searchsorted(np.sort(start), ends) - np.searchsorted(ends, ends), dtype=np.int64)


def _queued(inputs: Inputs) -> dict[int, tuple[Group, frozenset[str], int, int]]:
    """task -> (its workflow and instance, its nodes, when it was ready, when it had them), where the manager declared
    these."""
    declared = inputs.tables.get("declared_tasks")
    wanted = {"t_depend_ns", "t_alloc_ns", "nodes"}
    if declared is None or not wanted <= set(declared.columns):
        return {}
    rows = declared[declared["t_depend_ns"].notna() & declared["t_alloc_ns"].notna()]
    place = {
        key: at for at, key in enumerate(zip(inputs.tasks["workflow"], inputs.tasks["task"], strict=True)) if key[1]
    }
    out = {}
    for row in rows.to_dict("records"):
        workflow = str(row["workflow"] or "")
        at = place.get((workflow, str(row["task"])), -1)
        nodes = frozenset(map(str, row["nodes"])) if isinstance(row["nodes"], list) else frozenset()
        if at >= 0 and nodes:
            parent = row.get("parent")
            group = (workflow, "" if pd.isna(parent) else str(parent))
            out[at] = (group, nodes, int(row["t_depend_ns"]), int(row["t_alloc_ns"]))
    return out
