"""Tasks that wait in a loop: they sleep, look, and sleep again.

    waits.py (when tasks slept, what they looked at) + who made which names (EdgeTable.facts) --polls--> Loop

A loop is a path that a task looked at again and again, with nothing but sleep between; or, where it looked at nothing
that is recorded, sleeps that follow each other with nothing but a moment between.

Invariants: a loop for a lock is none (waits.py has it). Sleeps between which a task writes data pace its work: no loop.
Nor are sleeps without looks between which it writes into pipes or sockets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from tailrace.analyzer.edges.file_classes import SYSTEM_PATHS
from tailrace.analyzer.insights.inputs import Inputs
from tailrace.analyzer.insights.waits import CONNECT, LOCK, SLEEP, Waits
from tailrace.analyzer.util import intervals
from tailrace.analyzer.util.intervals import Cover
from tailrace.analyzer.util.types import Ints

TRIES = 3
"""Looks at a path with a sleep after each, from which on they are a loop; and sleeps without looks: `SLEEPS`. Fewer are
one at a path that was not there, that another task made meanwhile, and that was there at the next look: the longer the
sleeps, the fewer the looks."""
SLEEPS = 5
KERNEL_PATHS = re.compile(r"/(proc|sys|dev(?!/shm/))(/|$)")
"""Nobody makes these: what they tell is the kernel's."""
ASLEEP = 0.5
"""Of the time from one look to the next one, from which on a sleep is what was between."""
MOST_PATHS = 64
"""Of a task, between the looks at which it slept most, that are looked into."""
MOST_BETWEEN = 0.8
"""Of the looks at a path, that a sleep follows before the next one."""


@dataclass(frozen=True)
class Loop:
    """A task (position in `Inputs.tasks`) that looked at a path (""; nothing that is recorded) so many times and slept
    in between: times (n, 2). absent: the path was not there. maker: the task that made it, or the last thing in it,
    or began to listen there, before the loop ended, -1: nobody in the run, and when. connects: it is an address that it
    tried to connect to.
    gave_up: a last look, which no sleep followed, failed as well."""

    task: int
    path: str
    looks: int
    times: Ints
    absent: bool
    maker: int = -1
    made_ns: int = 0
    connects: bool = False
    gave_up: bool = False

    @property
    def slept_ns(self) -> int:
        """How long it slept."""
        return intervals.total(self.times)


def loops(waits: Waits) -> list[Loop]:
    """The longest loop of each task that looked at something and slept, and of those that looked at nothing."""
    locked: dict[int, list[Ints]] = {}
    for wait in waits.locks:
        locked.setdefault(wait.task, []).append(wait.times)
    found = []
    for task, slept in waits.asleep.items():
        for times in locked.get(task, ()):
            slept = intervals.subtract(slept, times)
        best = _longest_look(waits, task, slept) if len(slept) else None
        best = _blind(waits, task, slept) if best is None and len(slept) >= SLEEPS else best
        found += [] if best is None else [best]
    return sorted(found, key=lambda loop: -loop.slept_ns)


def _longest_look(waits: Waits, task: int, slept: Ints) -> Loop | None:
    """The loop of a task over a path that was not there, or else over any, in which it slept longest."""
    rows = waits.events.iloc[waits.of_task[task]]
    least = int(rows["each_ns"][rows["kind"] == SLEEP].min())
    rows = rows[((rows["path"] != "") & (rows["kind"] != LOCK)).to_numpy(dtype=np.bool_)]
    group = np.zeros(len(slept), dtype=np.int64)
    asleep = intervals.cover(intervals.make(group, slept[:, 0], slept[:, 1]), 1)
    first = rows["first_ns"].to_numpy(dtype=np.int64)
    before = asleep.inside(np.zeros(len(first), dtype=np.int64), np.zeros(len(first), dtype=np.int64), first)
    by_path = rows.assign(before=before).groupby("path")["before"].agg(["size", "min", "max"])
    by_path = by_path[by_path["size"] > 1].assign(slept=lambda each: each["max"] - each["min"])
    found = []
    for path in by_path["slept"].nlargest(MOST_PATHS).index:
        looks = rows[(rows["path"] == path).to_numpy()]
        tries = looks[(looks["name"] == CONNECT).to_numpy()]
        # Whether a socket's file is there says nothing of who listens.
        loop = _look(task, tries if len(tries) else looks, (slept, asleep), least)
        if loop is not None and (loop.connects or not _of_the_machine(loop.path)):
            found.append(loop)
    found.sort(key=lambda loop: (not loop.absent, -loop.slept_ns))
    for loop in found:
        low, high = int(loop.times[0, 0]), int(loop.times[-1, 1])
        if not _moved(waits, task, low, high):
            maker, made = maker_of(waits.inputs, loop.path, low, high, loop.absent)
            if loop.connects and loop.absent and not loop.gave_up:
                maker, made = _listener(waits, loop.path, low, high)
            if loop.looks >= TRIES or (loop.absent and not loop.gave_up and maker not in (-1, task)):
                return replace(loop, maker=maker, made_ns=made)
    return None


def _of_the_machine(path: str) -> bool:
    """Whether a file at a path is the system's or the kernel's. A server's socket there (/run, /dev) is one to wait for
    as any other, by who connects to it."""
    return bool(SYSTEM_PATHS.search(path) or KERNEL_PATHS.match(path))


def _look(task: int, rows: pd.DataFrame, sleeps: tuple[Ints, Cover], least: int) -> Loop | None:
    """The loop of a task over a path by its looks at it. least: the shortest of its sleeps, ns."""
    slept, asleep = sleeps
    at = rows["first_ns"].to_numpy(dtype=np.int64)
    # What follows the last look is its sleep, until that is over.
    after = int(np.searchsorted(slept[:, 1], at[-1], side="right"))
    until = np.append(at[1:], max(int(slept[after, 1]) if after < len(slept) else 0, int(at[-1])))
    slept_after = asleep.inside(np.zeros(len(at), dtype=np.int64), at, until)
    # Sleeps that share a line are taken to lie at its begin: what is shorter than one of them is none.
    looped = np.flatnonzero((slept_after >= ASLEEP * least) & (slept_after >= ASLEEP * (until - at)))
    if not len(looped) or len(looped) < MOST_BETWEEN * (looped[-1] - looped[0] + 1):
        return None
    first, last = int(looped[0]), int(looped[-1])
    failed = rows["errno"].to_numpy() != 0
    absent, gave_up = bool(failed[first : last + 1].all()), bool(failed[last + 1 : last + 2].any())
    times = intervals.intersect(slept, np.array([[at[first], until[last]]], dtype=np.int64))
    connects = bool((rows["name"] == CONNECT).all())
    return Loop(task, str(rows["path"].iat[0]), len(looped), times, absent, connects=connects, gave_up=gave_up)


def _blind(waits: Waits, task: int, slept: Ints) -> Loop | None:
    """The longest row of sleeps of which each follows the one before by less than it lasted."""
    lasted, between = slept[:, 1] - slept[:, 0], slept[1:, 0] - slept[:-1, 1]
    breaks = np.flatnonzero(between > lasted[:-1]) + 1
    rows = max(np.split(slept, breaks), key=intervals.total)
    low, high = int(rows[0, 0]), int(rows[-1, 1])
    if len(rows) < SLEEPS or _moved(waits, task, low, high) or _within(waits.sent, task, low, high):
        return None
    return Loop(task, "", len(rows), rows, absent=False)


def _moved(waits: Waits, task: int, low: int, high: int) -> bool:
    """Whether a task wrote data between two times."""
    return _within(waits.written, task, low, high)


def _within(rows: pd.DataFrame, task: int, low: int, high: int) -> bool:
    return bool(((rows["task"] == task) & (rows["first_ns"] < high) & (rows["last_ns"] > low)).any())


def _listener(waits: Waits, address: str, low: int, high: int) -> tuple[int, int]:
    """The task that began to listen at an address between two times, and when; (-1, 0): nobody in the run, or that is
    not known."""
    rows = waits.listens(address)
    rows = rows[((rows["first_ns"] > low) & (rows["last_ns"] <= high)).to_numpy(dtype=np.bool_)]
    if not len(rows):
        return -1, 0
    # Of several the last: it listened then at the latest.
    last = rows.loc[rows["last_ns"].idxmax()]
    return int(waits.inputs.of_who[int(last["who"])]), int(last["last_ns"])


def maker_of(inputs: Inputs, path: str, low: int, high: int, absent: bool) -> tuple[int, int]:
    """The task that made a path between two times, or the last name in it, and when; (-1, 0): nobody in the run."""
    facts = inputs.m.table.facts
    made = facts["what"].isin(("create", "new", "rename", "link")).to_numpy(dtype=np.bool_)
    made = made & ((facts["last_ns"] > low) & (facts["first_ns"] <= high)).to_numpy()
    rows = facts[made]
    names = rows["path2"].where(rows["path2"] != "", rows["path"])
    fits = (names == path) | (names.str.startswith(f"{path}/") & (not absent))
    rows = rows[fits.to_numpy(dtype=np.bool_)]
    if not len(rows):
        return -1, 0
    last = rows.loc[rows["last_ns"].idxmax()]
    return int(inputs.of_who[int(last["who"])]), int(last["last_ns"])
