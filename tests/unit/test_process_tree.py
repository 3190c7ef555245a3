"""Forks and waits where pids are reused: simulated machines with a known process tree.

A machine has pid namespaces, all under one host's name, with few pids each. Its processes fork, end, are killed, are
waited for or left to the namespace's first process, and some go on as a program that has a trace of its own.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import pytest

from support.flowcase import MS, T0_NS, Story
from tailrace import _native
from tailrace.analyzer.insights.inputs import inputs_of
from tailrace.analyzer.model import dataflow

PIDS = 4


@dataclass(eq=False)
class Proc:
    """A process: `images` are its starts, each with the pid of its parent as it was then."""

    space: int
    pid: int
    parent: Proc | None
    made_by: str = ""
    images: dict[str, int] = field(default_factory=dict)
    exit: int | None = None
    over: bool = False
    reaped: bool = False

    @property
    def start(self) -> str:
        return list(self.images)[-1]


class Machine:
    """Runs at random for some steps, 1 ms each, and writes its events; `forks` and `exits` are the truth, as pairs of
    starts, `waits` as (waiter, pid, status, child, ns)."""

    def __init__(self, seed: int, spaces: int, images: bool, steps: int = 80) -> None:
        self.r, self.story, self.now = random.Random(seed), Story(), 0
        self.processes: list[Proc] = []
        self.forks: set[tuple[str, str]] = set()
        self.exits: set[tuple[str, str]] = set()
        self.waits: list[tuple[str, int, int, str, int]] = []
        self.inits = [Proc(space, 1, None) for space in range(spaces)]
        for process in self.inits:
            self._new_image(process)
        for _ in range(steps):
            unborn = [p for p in self.processes if not p.images]
            alive = [p for p in self.processes if p.images and not p.over]
            if unborn and self.r.random() < 0.5:
                process = self.r.choice(unborn)
                self._new_image(process)
                self.forks.add((process.made_by, process.start))
                continue
            process = self.r.choice(alive)
            ways = [self._fork, self._wait, self._wait] + [self._end] * (process.pid != 1)
            self.r.choice(ways + [self._go_on] * (images and process.pid != 1))(process)
        for process in self.processes:
            if process.images and not process.over:
                self._call(process, "read")

    def _call(self, process: Proc, name: str, **values: Any) -> None:
        self.now += 1
        values = {"cat": "PROCESS", "dur": 0, **values}
        self.story.event(name, at_ms=self.now, pid=process.pid, start=process.start, **values)

    def _new_image(self, process: Proc) -> None:
        if process not in self.processes:
            self.processes.append(process)
        process.images[f"{T0_NS + self.now * MS:x}"] = process.parent.pid if process.parent else 0
        self._call(process, "start")

    def _go_on(self, process: Proc) -> None:
        before = process.start
        self._new_image(process)
        self.forks.add((before, process.start))

    def _fork(self, parent: Proc) -> None:
        taken = {p.pid for p in self.processes if p.space == parent.space and not p.reaped}
        free = sorted(set(range(2, 2 + PIDS)) - taken)
        if free:
            child = Proc(parent.space, self.r.choice(free), parent, parent.start)
            self.processes.append(child)
            self._call(parent, "fork", ret=child.pid)

    def _end(self, process: Proc) -> None:
        if self.r.random() < 0.6:
            process.exit = self.r.randrange(3)
        self._call(process, "exit" if process.exit is not None else "read")
        process.over = True
        for child in self.processes:
            if child.parent is process:
                child.parent = self.inits[process.space]

    def _wait(self, process: Proc) -> None:
        zombies = [p for p in self.processes if p.parent is process and p.over and not p.reaped]
        if zombies:
            child = self.r.choice(zombies)
            child.reaped = True
            self._call(process, "wait", ret=child.pid)
            self.exits.add((child.start, process.start))
            status = 9 if child.exit is None else child.exit << 8
            self.waits.append((process.start, child.pid, status, child.start, self.now * MS))

    def reported(self) -> pd.DataFrame:
        """What `Run.processes` would say."""
        rows = [
            {"host": "n1", "pid": p.pid, "start": start, "ppid": ppid, "exe": "/bin/x", "argv": None}
            | {"exit": p.exit if start == p.start else None}
            for p in self.processes
            for start, ppid in p.images.items()
        ]
        return pd.DataFrame(rows).astype({"exit": "Int64"})

    def found(self, via: str) -> set[tuple[str, str]]:
        """The handovers that the analyzer finds, as pairs of starts."""
        s = inputs_of(dataflow.model(self.story.run(processes=self.reported())))
        start = s.tasks["start"].tolist()
        rows = s.handovers[s.handovers["via"] == via]
        return {(start[row.producer], start[row.consumer]) for row in rows.itertuples()}


@pytest.mark.parametrize("seed", range(15))
def test_in_one_namespace_all_are_found(seed: int) -> None:
    machine = Machine(seed, spaces=1, images=False)
    assert machine.found("fork") == machine.forks and machine.found("exit") == machine.exits
    assert machine.forks


@pytest.mark.parametrize("images", [False, True])
def test_in_several_namespaces_none_is_false(images: bool) -> None:
    found = there = 0
    for seed in range(8):
        machine = Machine(seed, spaces=3, images=images)
        for via, truth in (("fork", machine.forks), ("exit", machine.exits)):
            found_here = machine.found(via)
            assert found_here <= truth, (seed, via)
            found, there = found + len(found_here), there + len(truth)
    assert found > there / 2


def matched(
    machine: Machine, r: random.Random
) -> tuple[dict[str, tuple[int, str]], dict[str, tuple[int, str]], list[int]]:
    """What `match_ends` makes of the machine's processes and waits, as the catalogue has them: not before some time
    after it. The truth, image -> (status, waiter) of the wait that saw its end; what was matched; the waits without a
    process."""
    seen: dict[str, list[int]] = {}
    for row in machine.story.rows:
        seen.setdefault(row["start"], []).append(row["ts"] - T0_NS)
    images = [(p, start, ppid) for p in machine.processes for start, ppid in p.images.items()]
    images.sort(key=lambda image: seen[image[1]][0])
    number = {start: at for at, (_, start, _) in enumerate(images)}
    rows = [
        ("n1", p.pid, ppid, min(seen[start]), max(seen[start]), *(p.exit is not None and start == p.start, p.exit))
        for p, start, ppid in images
    ]
    rows = [(*row[:6], row[6] if row[5] else None) for row in rows]
    known = {}
    waits = []
    late: dict[str, int] = {}
    for waiter, pid, status, child, ns in machine.waits:
        late[waiter] = min(max(late.get(waiter, 0), ns + r.choice([0, 0, 20]) * MS), max(seen[waiter]))
        waits.append((number[waiter], "n1", pid, status, late[waiter], 0))
        known[child] = (status, waiter)
    waits.sort(key=lambda wait: wait[4])
    of, _, unmatched = _native.match_ends(rows, waits, lambda host, pid: False)
    starts = [start for _, start, _ in images]
    said = {starts[at]: (waits[end][3], starts[waits[end][0]]) for at, end in enumerate(of) if end >= 0}
    return known, said, unmatched


@pytest.mark.parametrize(("spaces", "images", "share"), [(1, False, 0.95), (1, True, 0.8), (3, False, 0.7)])
def test_ends_recorded_by_waits(spaces: int, images: bool, share: float) -> None:
    right = there = wrong = unmatched = 0
    for seed in range(60):
        machine = Machine(seed, spaces, images)
        known, said, alone = matched(machine, random.Random(seed))
        unmatched += len(alone)
        killed = {start: end for start, end in said.items() if end[0] == 9}
        wrong += len(killed.items() - known.items())
        right, there = right + len(said.items() & known.items()), there + len(known)
    assert right > share * there
    if images:
        assert unmatched < 0.05 * there
    else:
        assert unmatched == 0 and wrong < 0.02 * there
