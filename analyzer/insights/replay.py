"""A run once more, on other resources: a discrete replay of its observed tasks.

    run --replay_scene.py--> tasks with gates and gifts, lags, workers --Player--> Play: when each task begins and ends

A *gate* is a moment of a task that can't come before something was given; a *gift* is the moment of another task that
gives it. Both come from the hand-overs (inputs.py): what a task read that was complete before it began, its declared
dependencies and what the submitting program had waited for are gates at its begin, for the end of the producer; what it
read while the producer wrote is a gate in its middle. Between gates a task works for as long as it did, less what a
change takes from its calls.

A task also takes a *worker* of those that the run had: as many as it had tasks at a time, or as many processes as ran
one task after the other. Of the tasks that are ready, the one that began first in the run takes the next free worker.

The time that a task needed from when all this was there until it began (dispatch, start-up) is its *lag*, and stays.
A lag is measured against the run's own gates and workers, so that the replay of a run without a change has the run's
own times, but for tasks that took a worker in another order.

Invariants: a task that contains tasks (a batch script with jobs) takes no worker, and is over as long after its last
inner task as it was. Times are ns on the run's clock.

Rejected: the bound of the critical path less something: it knows no workers and no delays, so that more workers would
change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import pairwise


@dataclass
class Task:
    """gates: (moment of the task in ns since its begin, what must have been given), by time; those at 0 come first.
    gifts: (moment, what is given). floor_ns: not submitted before this time of the run, or, with `around`, of the task
    around it."""

    start_ns: int
    end_ns: int
    gates: dict[int, list[int]] = field(default_factory=dict)
    gifts: dict[int, list[int]] = field(default_factory=dict)
    floor_ns: int = 0
    around: int = -1
    slot: bool = False
    pool: int = 0
    inner: list[int] = field(default_factory=list)

    @property
    def moments(self) -> list[int]:
        """Begin, end, and all between at which something is taken or given."""
        return sorted({0, self.end_ns - self.start_ns, *self.gates, *self.gifts})


@dataclass(frozen=True)
class Lag:
    """ns: before the begin; inside: moment of the task -> how long it waited there for nothing that is known."""

    ns: int
    inside: dict[int, int]


@dataclass(frozen=True)
class Play:
    """start_ns, end_ns: of each task and barrier. chain: those that determined the last end, first to last. forced:
    gates that were opened since nothing could give what they waited for."""

    start_ns: dict[int, int]
    end_ns: dict[int, int]
    chain: list[int]
    forced: int

    @property
    def over_ns(self) -> int:
        """The end of the last task."""
        return max(self.end_ns.values(), default=0)


@dataclass(frozen=True)
class Workers:
    """counts: of each pool, by which tasks name theirs; opened_ns: when they began to work."""

    counts: tuple[int, ...]
    opened_ns: int


_MOMENT, _READY, _WORKER = 0, 1, 2
"""Kinds of steps; of those at one time, tasks move first, and workers are given out last."""


class Player:
    """One replay: steps in the order of time. A task is submitted, passes the gates at its begin, takes a worker, and
    goes from moment to moment."""

    def __init__(
        self,
        tasks: dict[int, Task],
        given: int,
        work: dict[int, list[int]],
        lags: dict[int, Lag],
        workers: Workers | None,
        first_ns: int,
    ) -> None:
        self.tasks, self.work, self.lags, self.limited = tasks, work, lags, workers is not None
        self.first_ns = first_ns  # the begin of the run, from which lags are measured, too
        self.moments = {t: task.moments for t, task in tasks.items()}
        self.given, self.giver = [-1] * given, [-1] * given
        self.waiting: dict[int, list[int]] = {}  # what is not given yet -> the tasks at gates for it
        self.missing: dict[int, int] = {}  # task -> how many things it waits for
        self.at = dict.fromkeys(tasks, -1)  # the last moment of each task; -1: not begun
        self.since = dict.fromkeys(tasks, 0)  # when all was there that a task at a gate has so far
        self.because: dict[int, int] = {}  # the task whose gift or worker came last
        self.start, self.end = dict[int, int](), dict[int, int]()
        self.steps: list[tuple[int, int, int, int]] = []
        self.pushed = self.forced = 0
        counts = () if workers is None else workers.counts
        self.ready: list[list[tuple[int, int, int]]] = [[] for _ in counts]
        self.free = [[(workers.opened_ns if workers else 0, -1)] * count for count in counts]
        # By pool: when each worker is free, and the task that left it.
        self.inner_left = {t: len(task.inner) for t, task in tasks.items()}
        self.outer = {inner: t for t, task in tasks.items() for inner in task.inner}
        self.to_submit: dict[int, list[int]] = {}
        for t, task in tasks.items():
            self.to_submit.setdefault(task.around, []).append(t)

    def play(self) -> Play:
        """All tasks, from the first submission to the last end."""
        for t in self.to_submit.get(-1, ()):
            self._gate(t, max(self.tasks[t].floor_ns, self.first_ns))
        while True:
            while self.steps:
                now, kind, _, t = heappop(self.steps)
                if kind == _MOMENT:
                    self._go(t, now)
                elif kind == _READY:
                    heappush(self.ready[self.tasks[t].pool], (self.tasks[t].start_ns, t, now))
                    self._push(now, _WORKER, self.tasks[t].pool)
                else:
                    self._place(now, t)
            stuck = [t for t, missing in self.missing.items() if missing]
            if not stuck:
                break
            first = min(stuck, key=lambda t: (self.tasks[t].start_ns, t))
            self.forced += self.missing.pop(first)
            self._passed(first, max([self.since[first], *self.end.values()]))
        return Play(self.start, self.end, self._chain(), self.forced)

    def _push(self, when: int, kind: int, t: int) -> None:
        """t: a task, or of `_WORKER` a pool."""
        self.pushed += 1
        heappush(self.steps, (when, kind, self.pushed, t))

    # --- gates ---

    def _gate(self, t: int, now: int) -> None:
        """Passes the gates of the next moment, or waits at them."""
        missing = 0
        for number in self.tasks[t].gates.get(self.moments[t][self.at[t] + 1], ()):
            if self.given[number] < 0:
                self.waiting.setdefault(number, []).append(t)
                missing += 1
            elif self.given[number] > now:
                now, self.because[t] = self.given[number], self.giver[number]
        self.missing[t], self.since[t] = missing, now
        if not missing:
            self._passed(t, now)

    def _give(self, number: int, t: int, now: int) -> None:
        self.given[number], self.giver[number] = now, t
        for other in self.waiting.pop(number, ()):
            if not self.missing.get(other):
                continue  # its gates were forced
            self.missing[other] -= 1
            if now >= self.since[other]:
                self.since[other], self.because[other] = now, t
            if not self.missing[other]:
                self._passed(other, self.since[other])

    def _passed(self, t: int, now: int) -> None:
        if self.at[t] >= 0:
            self._reach(t, now + self.lags[t].inside.get(self.moments[t][self.at[t] + 1], 0))
        elif self.tasks[t].slot and self.limited:
            self._push(now, _READY, t)
        else:
            self._push(now + self.lags[t].ns, _MOMENT, t)

    # --- workers ---

    def _place(self, now: int, pool: int) -> None:
        """Gives the free workers of a pool to the tasks that are ready."""
        free, ready = self.free[pool], self.ready[pool]
        while free and ready and free[0][0] <= now:
            _, t, since = heappop(ready)
            left_ns, last = heappop(free)
            if left_ns > since and last >= 0:
                self.because[t] = last
            self._push(now + self.lags[t].ns, _MOMENT, t)
        if free and ready:
            self._push(free[0][0], _WORKER, pool)

    # --- moments ---

    def _go(self, t: int, now: int) -> None:
        """The task comes to its next moment."""
        if self.at[t] < 0:
            self.start[t] = now
            for inner in self.to_submit.get(t, ()):
                self._gate(inner, now + self.tasks[inner].floor_ns)
            self._reach(t, now)
        elif self.moments[t][self.at[t] + 1] in self.tasks[t].gates:
            self._gate(t, now)
        else:
            self._reach(t, now)

    def _reach(self, t: int, now: int) -> None:
        """Gives what the task gives at its next moment, and works until the one after it."""
        moments = self.moments[t]
        self.at[t] += 1
        last = self.at[t] == len(moments) - 1
        if last and self.inner_left[t]:
            return  # its last inner task ends it
        for number in self.tasks[t].gifts.get(moments[self.at[t]], ()):
            self._give(number, t, now)
        if last:
            self._over(t, now)
        else:
            self._push(now + self.work[t][self.at[t]], _MOMENT, t)

    def _over(self, t: int, now: int) -> None:
        self.end[t] = now
        if self.tasks[t].slot and self.limited:
            heappush(self.free[self.tasks[t].pool], (now, t))
            self._push(now, _WORKER, self.tasks[t].pool)
        outer = self.outer.get(t, -1)
        if outer < 0:
            return
        self.inner_left[outer] -= 1
        if not self.inner_left[outer]:
            task = self.tasks[outer]
            rest = task.end_ns - max(self.tasks[inner].end_ns for inner in task.inner)
            self.because[outer] = t
            for numbers in task.gifts.values():
                for number in numbers:
                    if self.given[number] < 0:
                        self._give(number, outer, now + max(rest, 0))
            self._over(outer, now + max(rest, 0))

    def _chain(self) -> list[int]:
        if not self.end:
            return []
        t = max(self.end, key=lambda one: self.end[one])
        out = {t: None}
        while (t := self.because.get(t, -1)) >= 0 and t not in out:
            out[t] = None
        return [*reversed(out)]


def lags_of(
    tasks: dict[int, Task], work: dict[int, list[int]], workers: Workers | None, first_ns: int
) -> dict[int, Lag]:
    """The lag of each task: its begin less the moment at which everything that it waited for was there.

    first_ns: the begin of the run.
    """
    given = {
        number: task.start_ns + at
        for task in tasks.values()
        for at, numbers in task.gifts.items()
        for number in numbers
    }
    free = [] if workers is None else [[workers.opened_ns] * count for count in workers.counts]
    out = {}
    for t, task in sorted(tasks.items(), key=lambda item: (item[1].start_ns, item[1].end_ns)):
        floor = task.floor_ns + (tasks[task.around].start_ns if task.around >= 0 else 0)
        ready = max([*(given[number] for number in task.gates.get(0, ())), floor, first_ns])
        if task.slot and free:
            ready = max(ready, heappop(free[task.pool]))
            heappush(free[task.pool], task.end_ns)
        inside = {}
        moments = task.moments
        for at, (low, high) in enumerate(pairwise(moments)):
            if high in task.gates:
                there = max(given[number] for number in task.gates[high])
                came = max(task.start_ns + low + work[t][at], there)
                inside[high] = max(task.start_ns + high - came, 0)
        out[t] = Lag(max(task.start_ns - ready, 0), inside)
    return out
