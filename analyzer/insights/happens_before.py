"""Happens-before (Lamport 1978) between moments of a run's tasks: what the trace and the declarations order.

    fork, exit and wait, bytes through pipes and sockets   (Inputs.handovers)
    declared dependencies, and what the submitting program waited for   (Order.moments)
    processes that submit tasks, and those that wait for them   (submitters.py)
    --> points (task, time), edges between them --> HappensBefore.before()

Times alone order nothing: that one task ran after the other in this run does not mean that it will in the next.
"""

from __future__ import annotations

import numpy as np

from tailrace.analyzer.insights import submitters
from tailrace.analyzer.insights.inputs import DATA, Inputs
from tailrace.analyzer.insights.order import DECLARED, INSIDE
from tailrace.analyzer.model.declared_vs_observed import BEGUN, OVER, Moment, Task
from tailrace.analyzer.util import csr
from tailrace.analyzer.util.types import Ints


class HappensBefore:
    """The order of the moments of a run's tasks."""

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
        place = {name: at for at, name in enumerate(self.names) if name is not None}
        declared, unseen = _declared_moments(inputs, place)
        first_process = len(inputs.tasks) + unseen
        declared = np.concatenate([declared, submitters.rows(inputs, place, first_process)])
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
        self.bounds = np.searchsorted(self.task, np.arange(first_process + len(inputs.lives.actors) + 1))
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

    def ran_again(self, task: int, after: int, other: int, until: int) -> bool:
        """Whether `other` waited for `task`, which needed several tries: so what `task` did later is of another try, as
        when its result was lost."""
        return self.names[task] in self.declared.repeated and self.before(task, after, other, until)

    def apart(self, task: int, other: int) -> bool:
        """Whether the manager submitted `other` when `task` was over, by its clock: no order, but no overlap either."""
        one, two = self.names[task], self.names[other]
        return one is not None and two is not None and self.declared.times.apart(one, two)

    def _next(self, task: int, after: int) -> int:
        """The first point of a task not before a time; -1 where there is none."""
        low, high = int(self.bounds[task]), int(self.bounds[task + 1])
        at = low + int(np.searchsorted(self.when[low:high], after, side="left"))
        return at if at < high else -1


def _declared_moments(inputs: Inputs, place: dict[Task, int]) -> tuple[Ints, int]:
    """The declared order, shape (n, 4): task and time of the earlier moment, task and time of the later one; and the
    number of tasks without events in it. Their codes follow the others', and their times are their moments. A
    submission is such a task of its own, because the task itself did nothing yet."""
    seen = len(inputs.tasks)
    times = {BEGUN: inputs.tasks["start_ns"].tolist(), OVER: inputs.tasks["end_ns"].tolist()}
    unseen: dict[tuple[Task, bool], int] = {}

    def point(moment: Moment) -> tuple[int, int]:
        task, when = moment
        if when in times and task in place:
            return place[task], int(times[when][place[task]])
        return unseen.setdefault((task, when in times), seen + len(unseen)), when

    rows = [(*point(first), *point(then)) for first, then in inputs.order.moments()]
    return np.array(rows, dtype=np.int64).reshape(-1, 4), len(unseen)
