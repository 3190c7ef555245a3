"""Tasks that wait in a loop: they sleep, look, and sleep again.

    waits.py (when tasks slept, what they looked at) + who made which names (EdgeTable.facts) --polls--> Loop

A loop is a path that a task looked at again and again, with nothing but sleep between; or, where it looked at nothing
that is recorded, sleeps that follow each other with nothing but a moment between.

Invariants: a loop for a lock is none (waits.py has it). Sleeps between which a task moves data pace its work: no loop.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.edges.file_classes import SYSTEM_PATHS
from tailrace.analyzer.insights.waits import LOCK, SLEEP, Waits
from tailrace.analyzer.util import intervals
from tailrace.analyzer.util.types import Ints

TRIES = 3
"""Looks at a path with a sleep after each, from which on they are a loop; and sleeps without looks: `SLEEPS`."""
SLEEPS = 5
KERNEL_PATHS = re.compile(r"/(proc|sys|dev(?!/shm/))(/|$)")
"""Nobody makes these: what they tell is the kernel's."""
ASLEEP = 0.5
"""Of the time from one look to the next one, from which on a sleep is what was between."""
MOST_BETWEEN = 0.8
"""Of the looks at a path, that a sleep follows before the next one."""


@dataclass(frozen=True)
class Loop:
    """A task (position in `Inputs.tasks`) that looked at a path (""; nothing that is recorded) so many times and slept
    in between: times (n, 2). absent: the path was not there. maker: the task that made it, or the last thing in it,
    before the loop ended, -1: nobody in the run, and when."""

    task: int
    path: str
    looks: int
    times: Ints
    absent: bool
    maker: int = -1
    made_ns: int = 0

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
        if len(slept) >= TRIES:
            best = _longest_look(waits, task, slept) or _blind(waits, task, slept)
            found += [] if best is None else [best]
    return sorted(found, key=lambda loop: -loop.slept_ns)


def _longest_look(waits: Waits, task: int, slept: Ints) -> Loop | None:
    rows = waits.events[(waits.task == task) & (waits.events["kind"] != LOCK).to_numpy()]
    rows = rows[(rows["path"] != "").to_numpy(dtype=np.bool_)]
    is_sleep = (waits.events["kind"] == SLEEP).to_numpy(dtype=np.bool_) & (waits.task == task)
    least = int(waits.events["each_ns"].to_numpy(dtype=np.int64)[is_sleep].min())
    ends = slept[:, 1].tolist()
    group = np.zeros(len(slept), dtype=np.int64)
    asleep = intervals.cover(intervals.make(group, slept[:, 0], slept[:, 1]), 1)
    best: Loop | None = None
    for path, mine in rows.groupby("path", sort=False):
        if SYSTEM_PATHS.search(str(path)) or KERNEL_PATHS.match(str(path)):
            continue
        at = mine["first_ns"].to_numpy(dtype=np.int64)
        # What follows the last look is its sleep, until that is over.
        after = bisect_right(ends, int(at[-1]))
        until = ends[after] if after < len(ends) else int(at[-1])
        high = np.append(at[1:], max(until, int(at[-1])))
        none = np.zeros(len(at), dtype=np.int64)
        slept_after = asleep.inside(none, at, high)
        # Sleeps that share a line are taken to lie at its begin: what is shorter than one of them is none.
        looped = np.flatnonzero((slept_after >= ASLEEP * least) & (slept_after >= ASLEEP * (high - at)))
        if len(looped) < TRIES:
            continue
        first, last = int(looped[0]), int(looped[-1])
        if len(looped) < MOST_BETWEEN * (last - first + 1):
            continue
        absent = bool((mine["errno"].to_numpy()[first : last + 1] != 0).all())
        low, until = int(at[first]), int(high[last])
        times = intervals.intersect(slept, np.array([[low, until]], dtype=np.int64))
        if _moved(waits, task, low, until):
            continue
        maker, made = _maker(waits, task, str(path), low, until, absent)
        loop = Loop(task, str(path), len(looped), times, absent, maker, made)
        if best is None or (loop.absent, loop.slept_ns) > (best.absent, best.slept_ns):
            best = loop
    return best


def _blind(waits: Waits, task: int, slept: Ints) -> Loop | None:
    """The longest row of sleeps of which each follows the one before by less than it lasted."""
    lasted, between = slept[:, 1] - slept[:, 0], slept[1:, 0] - slept[:-1, 1]
    breaks = np.flatnonzero(between > lasted[:-1]) + 1
    rows = max(np.split(slept, breaks), key=intervals.total)
    if len(rows) < SLEEPS or _moved(waits, task, int(rows[0, 0]), int(rows[-1, 1])):
        return None
    return Loop(task, "", len(rows), rows, absent=False)


def _moved(waits: Waits, task: int, low: int, high: int) -> bool:
    """Whether a task wrote data, or read it from more than a moment's look, between two times."""
    inputs = waits.inputs
    bursts, m = inputs.m.table.bursts, inputs.m
    mine = inputs.of_who[bursts["who"].to_numpy(dtype=np.int64)] == task
    mine = mine & m.classed(("data",))[: len(bursts)] & (bursts["dir"] == edge_table.WRITE).to_numpy()
    mine = mine & ((bursts["first_ns"] < high) & (bursts["last_ns"] > low) & (bursts["bytes"] > 0)).to_numpy()
    return bool(mine.any())


def _maker(waits: Waits, task: int, path: str, low: int, high: int, absent: bool) -> tuple[int, int]:
    """The task that made a path, or the last name in it, in a loop, and when; (-1, 0): nobody in the run."""
    inputs = waits.inputs
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
