"""Declared order as hand-overs: which task waited for which, and which tasks are inside another one.

    declared  the consumer was not to begin before the producer was over
    inside    a task began inside another one (given when that one submitted it), or was over before that one was

Inner tasks wait with their outer task, and a task that waits for a task waits for its inner tasks too
(declared_vs_observed.py). Tasks without events have no times: their predecessors stand in their place, of several the
one that ended last.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from tailrace.analyzer.model import declared_vs_observed
from tailrace.analyzer.model.declared_vs_observed import Moment, Pair, Task

DECLARED, INSIDE = "declared", "inside"


class Order:
    """The declared dependencies of a run, and its tasks inside of tasks."""

    def __init__(
        self, declared: pd.DataFrame | None, tasks: pd.DataFrame | None, waits: pd.DataFrame | None = None
    ) -> None:
        """declared: `declared_vs_observed.compare_declared` of the run; tasks, waits: its declared ones."""
        self.pairs: list[Pair] = []
        if declared is not None and len(declared):
            rows = declared.loc[declared["status"] != "undeclared", ["workflow", "producer", "consumer"]]
            self.pairs = [((str(w), str(p)), (str(w), str(c))) for w, p, c in rows.itertuples(index=False)]
        known = tasks is not None and len(tasks) > 0
        self.parents: dict[Task, Task] = declared_vs_observed.parents_of(tasks) if tasks is not None and known else {}
        self.submitted: dict[Task, int] = _submitted(tasks) if tasks is not None and known else {}
        self.repeated: set[Task] = _repeated(tasks) if tasks is not None and known else set()
        self.waits = declared_vs_observed.waits_of(waits)
        self.times = declared_vs_observed.Times(tasks)

    def nested(self, one: Task, other: Task) -> bool:
        """Whether one of the tasks is inside the other one, which orders the two."""
        return declared_vs_observed.nested(one, other, self.parents)

    def moments(self) -> Iterator[tuple[Moment, Moment]]:
        """Pairs of earlier and later moment, by declaration and by what the submitting program waited for."""
        after = declared_vs_observed.successors(dict.fromkeys(self.pairs), self.parents, self.waits)
        return ((first, then) for first, following in after.items() for then in following)


def _repeated(tasks: pd.DataFrame) -> set[Task]:
    """The tasks that needed several tries."""
    if "tries" not in tasks:
        return set()
    rows = tasks.loc[(tasks["tries"] > 1).fillna(False).astype(bool), ["workflow", "task"]]
    return {(str(w or ""), str(t)) for w, t in rows.itertuples(index=False)}


def _submitted(tasks: pd.DataFrame) -> dict[Task, int]:
    if "t_submit_ns" not in tasks:
        return {}
    rows = tasks.loc[tasks["t_submit_ns"].notna(), ["workflow", "task", "t_submit_ns"]]
    return {(str(w or ""), str(t)): int(ns) for w, t, ns in rows.itertuples(index=False)}


def handovers(order: Order, tasks: pd.DataFrame) -> pd.DataFrame:
    """The declared order as rows (producer, consumer, via, given_ns, taken_ns), contradictory times included.

    Args:
        tasks: as in `Inputs`; producer and consumer are positions in it.
    """
    place = {(str(r.workflow), str(r.task)): at for at, r in enumerate(tasks.itertuples()) if r.task}
    start, end = (tasks[name].to_numpy(dtype=np.int64) for name in ("start_ns", "end_ns"))
    needs: dict[Task, list[Task]] = {}
    for producer, consumer in order.pairs:
        needs.setdefault(consumer, []).append(producer)
    inside = declared_vs_observed.inside_of(order.parents)
    last = _Last(place, end.tolist(), needs, inside)
    rows: list[tuple[int, int, str, int, int]] = []
    for name, code in place.items():
        for outer in declared_vs_observed.line_of(name, order.parents):
            found = place.get(outer, -1)
            if outer != name and found >= 0:
                given = max(order.submitted.get(name, int(start[code])), int(start[found]))
                given = min(given, int(start[code]), int(end[found]))
                rows.append((found, code, INSIDE, given, int(start[code])))
                if end[code] <= end[found]:
                    rows.append((code, found, INSIDE, int(end[code]), int(end[code])))
                break  # the outer task's predecessors come with it
            producers = {last.of(need) for need in needs.get(outer, [])} - {-1, code}
            rows += [(p, code, DECLARED, int(end[p]), int(start[code])) for p in sorted(producers)]
    columns = ["producer", "consumer", "via", "given_ns", "taken_ns"]
    result: pd.DataFrame = pd.DataFrame(rows, columns=columns).astype({c: np.int64 for c in columns if c != "via"})
    return result


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
