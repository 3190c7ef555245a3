"""What the kernel says of processors: how many the run could use, and for how long its tasks used or awaited them.

    processes (cpus, utime_ns, stime_ns, ready_ns) + model/time_model.py --> Processors

Invariant: reads no events.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tailrace.analyzer.insights.inputs import Inputs
from tailrace.analyzer.store.processes import keys
from tailrace.analyzer.util import intervals
from tailrace.analyzer.util.formatting import count_text
from tailrace.analyzer.util.types import Bools, Floats, Ints

UNKNOWN = -1
BUSY = 0.85
"""Of the time of all processors, from which on more work at a time can't be done."""
LONG_NS = 250_000_000
"""A process that was seen for less is taken to have one thread."""
MOST_PROCESSES = 256
"""Of a task, those that want most, that are looked at."""
MOSTLY = 0.5
"""Of its life, from which on a process that is on a processor or ready counts as one that wants a processor."""
FULL = 1.1
"""Of the time of the processors to which processes are bound: who was on them for more was bound to them no longer."""
SEVERAL = 1.5
"""Threads of a process on average that are on a processor or ready, from which on its threads are spoken of."""


@dataclass(frozen=True)
class Demand:
    """How many processors were wanted from each time of a run to the next one: times, wants, processes (how many wanted
    them)."""

    times: Ints
    wants: Floats
    processes: Ints

    @property
    def most(self) -> float:
        """The most that was wanted at a time."""
        return float(self.wants.max(initial=0.0))

    @cached_property
    def _of(self) -> int:
        """How many processes wanted the most."""
        return int(self.processes[int(self.wants.argmax())]) if len(self.wants) else 0

    @property
    def threaded(self) -> bool:
        """Whether it was several threads of each process that wanted the most."""
        return self.most >= SEVERAL * max(self._of, 1)

    @property
    def words(self) -> str:
        """What wanted the most: "up to 8 threads of 4 processes"."""
        return f"up to {self.most:,.0f} threads of {count_text(self._of, 'process', 'es')}"

    def crowded(self, least: float) -> Ints:
        """When at least so many were wanted, (n, 2)."""
        full = np.flatnonzero(self.wants[:-1] >= least)
        return np.column_stack((self.times[full], self.times[full + 1]))


@dataclass(frozen=True)
class Binding:
    """Processes (positions in `Inputs.lives`) that might run on these processors only, and the others of their host
    that other processes of the run might run on."""

    host: str
    cpus: frozenset[int]
    others: frozenset[int]
    processes: Ints


@dataclass(frozen=True)
class Processors:
    """
    count: processors of all hosts that processes could run on; 0: unknown.
    of_task: ns that each task was on a processor, `UNKNOWN` where it is not known.
    of_process: the same of each process (number in `Inputs.lives`).
    ready: ns that each process was ready, waiting for a processor; ready_of: what the same threads of it were on one;
        `UNKNOWN` where the kernel does not tell.
    """

    inputs: Inputs
    count: int
    of_task: Ints
    of_process: Ints
    ready: Ints
    ready_of: Ints

    @cached_property
    def ready_of_task(self) -> Ints:
        """ns that each task waited for a processor: its process that waited longest; 0 where it is not known."""
        out, task = np.zeros(len(self.inputs.tasks), dtype=np.int64), self.task_of_process
        np.maximum.at(out, task[task >= 0], self.ready[task >= 0])
        return out

    @cached_property
    def least_ns(self) -> int:
        """How long the run's computing takes at least on these processors; 0: not known."""
        return int(np.maximum(self.of_process, 0).sum()) // self.count if self.count else 0

    @cached_property
    def task_of_process(self) -> Ints:
        """The task of each process that worked for no other one; -1: it did, or for none."""
        process, task = self.inputs.lives.process, self.inputs.of_who
        works = self.inputs.works[task]
        low, high = np.full(len(self.of_process), np.iinfo(np.int64).max), np.full(len(self.of_process), -1)
        np.minimum.at(low, process[works], task[works])
        np.maximum.at(high, process[works], task[works])
        return np.where(low == high, high, -1)

    @cached_property
    def own_share(self) -> float:
        """The share of all processors' time that the run was on them, by the accounts of its processes."""
        whole = self.inputs.makespan_ns * self.count
        return min(int(np.maximum(self.ready_of, 0).sum()) / whole, 1.0) if whole > 0 else 0.0

    @cached_property
    def demand(self) -> Demand:
        """How many processors the run wanted when."""
        return self.demand_of(np.ones(len(self.of_process), dtype=np.bool_))

    def demand_of(self, those: Bools) -> Demand:
        """How many processors these processes wanted when: of each task that of its processes that wants most. The
        parts of a pipeline wait for each other, so that they want no more than the busiest of them."""
        wanted = self._wanted(those)
        begun, over = (np.array([row[at] for row in wanted], dtype=np.int64) for at in (0, 1))
        wants = np.array([row[2] for row in wanted], dtype=np.float64)
        when, step = np.concatenate((over, begun)), np.concatenate((-wants, wants))
        # One that waits for others most of its life, as the script does, wants none.
        works = (wants >= MOSTLY).astype(np.int64)
        order = np.lexsort((step, when))
        return Demand(when[order], np.cumsum(step[order]), np.cumsum(np.concatenate((-works, works))[order]))

    def _wanted(self, those: Bools) -> list[tuple[int, int, float]]:
        task, lives = self.task_of_process, self.inputs.lives
        span = lives.over - lives.begun
        share = np.where(self.ready >= 0, self.ready + self.ready_of, 0) / np.maximum(span, 1)
        # The account is of all its life, which began before its first event: of a moment's process mostly that.
        share = np.where(span < LONG_NS, np.minimum(share, 1), share)
        works = np.zeros(len(span), dtype=np.bool_)
        works[lives.process[self.inputs.works[self.inputs.of_who]]] = True
        works &= those
        by_task: dict[int, list[int]] = {}
        for process in np.flatnonzero(works)[np.argsort(-share[works], kind="stable")].tolist():
            by_task.setdefault(int(task[process]) if task[process] >= 0 else -1 - process, []).append(process)
        out = []
        for mine in by_task.values():
            told_of = np.empty((0, 2), dtype=np.int64)
            for process in mine[:MOST_PROCESSES]:
                life = np.array([[lives.begun[process], lives.over[process]]], dtype=np.int64)
                free = intervals.subtract(life, told_of)
                out += [(low, high, float(share[process])) for low, high in free.tolist()]
                told_of = intervals.united(told_of, life)
        return out

    def used(self, rows: intervals.Intervals) -> float:
        """The share of all processors that was busy in a union of times (group 0), at most 1: that the run used, or
        that its processes were ready for while others had them; each process is taken to have done both evenly. 0
        where nothing is known."""
        whole = int(intervals.length(rows, 1)[0]) * self.count
        if not whole:
            return 0.0
        known = self._part(rows, np.maximum(self.of_process, 0) + np.maximum(self.ready, 0))
        for binding in self.bindings:
            mine = float(known[binding.processes].sum())
            # However many wait for these processors, no others are busy for it.
            known[binding.processes] *= min(1.0, len(binding.cpus) * whole / self.count / max(mine, 1.0))
        return min(float(known.sum()) / whole, 1.0)

    def _part(self, rows: intervals.Intervals, spent: Ints) -> Floats:
        """What each process spent of something in a union of times (group 0), if it did so evenly."""
        lives = self.inputs.lives
        alone = np.zeros(len(lives.begun), dtype=np.int64)
        inside = intervals.cover(rows, 1).inside(alone, lives.begun, lives.over)
        return np.asarray(spent * (inside / np.maximum(lives.over - lives.begun, 1)), dtype=np.float64)

    @cached_property
    def bindings(self) -> list[Binding]:
        """The processes that might not run on all processors of their host, by those on which they might when they
        began."""
        lives, m = self.inputs.lives, self.inputs.m
        if "cpus" not in m.processes:
            return []
        told = dict(zip(keys(m.processes), m.processes["cpus"].fillna("").astype(str), strict=True))
        of_host = _numbers_by_host(self.inputs)
        found: dict[tuple[str, frozenset[int]], list[int]] = {}
        for process, key in enumerate(keys(m.who.iloc[[actors[0] for actors in lives.actors]])):
            host, cpus = str(m.who["host"].iat[lives.first(process)]), frozenset(listed(told.get(key, "")))
            if cpus and cpus < of_host.get(host, set()):
                found.setdefault((host, cpus), []).append(process)
        return [
            Binding(host, cpus, frozenset(of_host[host] - cpus), np.array(rows, dtype=np.int64))
            for (host, cpus), rows in found.items()
        ]

    def shares(self, binding: Binding, times: Ints) -> tuple[float, float]:
        """The share of a binding's processors that its processes were on in these times, and that of the others of its
        host that the rest of the run was on, or was ready for where it might run on them."""
        rows = intervals.union(intervals.make(np.zeros(len(times), dtype=np.int64), times[:, 0], times[:, 1]))
        whole = int(intervals.length(rows, 1)[0])
        on, ready = (self._part(rows, np.maximum(spent, 0)) for spent in (self.ready_of, self.ready))
        hosts = self.inputs.m.who["host"].astype(str).to_numpy(dtype=object)
        beside = hosts[[actors[0] for actors in self.inputs.lives.actors]] == binding.host
        beside[binding.processes] = False
        bound = np.zeros(len(on), dtype=np.bool_)
        bound[[process for one in self.bindings for process in one.processes.tolist()]] = True
        others = float(on[beside].sum() + ready[beside & ~bound].sum())
        mine = float(on[binding.processes].sum())
        return mine / max(len(binding.cpus) * whole, 1), others / max(len(binding.others) * whole, 1)


def processors(inputs: Inputs) -> Processors:
    """The processors of a run."""
    told = inputs.time.told
    used = told["utime_ns"] + told["stime_ns"]
    pair = told["ready_ns"] + told["ready_of_ns"]
    ready, ready_of = (np.where(np.isfinite(pair), told[name], np.nan) for name in ("ready_ns", "ready_of_ns"))
    of_process, ready_ns, ready_of_ns = (
        np.nan_to_num(ns, nan=UNKNOWN).astype(np.int64) for ns in (used, ready, ready_of)
    )
    of_task = np.where(inputs.works, inputs.time.on_processor(inputs.of_who, len(inputs.tasks)), UNKNOWN)
    return Processors(inputs, _count(inputs), of_task, of_process, ready_ns, ready_of_ns)


def _count(inputs: Inputs) -> int:
    of_host = by_host(inputs)
    return sum(of_host.values()) if len(of_host) == inputs.m.who["host"].nunique() else 0


def by_host(inputs: Inputs) -> dict[str, int]:
    """How many processors of each host the run could use: those that at least one of its processes could run on, as a
    manager may bind each task to others."""
    return {host: len(numbers) for host, numbers in _numbers_by_host(inputs).items()}


def _numbers_by_host(inputs: Inputs) -> dict[str, set[int]]:
    table = inputs.m.processes
    if "cpus" not in table:
        return {}
    found: dict[str, set[int]] = {}
    for host, text in table[["host", "cpus"]].dropna().drop_duplicates().itertuples(index=False):
        found.setdefault(str(host), set()).update(listed(str(text)))
    return found


def listed(text: str) -> set[int]:
    """The numbers of a list like "0-3,8"; none for no such list."""
    numbers: set[int] = set()
    for part in text.split(","):
        low, _, high = part.partition("-")
        if not (low.isdecimal() and (high or low).isdecimal()):
            return set()
        numbers.update(range(int(low), int(high or low) + 1))
    return numbers
