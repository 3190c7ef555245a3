"""Clocks that were set on a host while the run was recorded, told by the clock that nobody can set.

A process's times are those of its monotonic clock, plus the difference to the real-time clock when it began (`mono` in
block headers). On one running machine that difference changes only where the clock is set, or the machine sleeps;
slewing (adjtime(3), NTP) moves both clocks. So two processes of a host with another difference have times that can't be
compared; with that taken off, they can.

Invariants: the times of the last processes are kept, since a clock is set to correct it. Nothing is taken off where
the other difference may come from another boot: the machine may have been restarted after the earlier processes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tailrace.analyzer.store.processes import Process
from tailrace.analyzer.util.formatting import time_text

LEAST_NS = 1_000_000
"""Two readings of the clocks are less apart, but for a process that is preempted between them."""
SAID_NS = 10_000_000
"""A single process that differs by less may have been preempted for so long."""


@dataclass(frozen=True)
class Lived:
    """A process: ns of both clocks when it began, and of its first and last event as recorded."""

    key: Process
    ppid: int | None
    realtime_ns: int
    monotonic_ns: int
    t0_ns: int
    t1_ns: int

    @property
    def difference(self) -> int:
        return self.realtime_ns - self.monotonic_ns


@dataclass(frozen=True)
class Steps:
    """ahead: process -> ns to be taken off its times. said: host -> what happened to its clock, in words."""

    ahead: Mapping[Process, int]
    said: Mapping[str, str]


def find(processes: Iterable[Lived]) -> Steps:
    """The steps of all hosts' clocks."""
    of_hosts: dict[str, list[Lived]] = {}
    for one in processes:
        of_hosts.setdefault(one.key[0], []).append(one)
    ahead: dict[Process, int] = {}
    said: dict[str, str] = {}
    for host, rows in sorted(of_hosts.items()):
        if max(row.difference for row in rows) - min(row.difference for row in rows) < LEAST_NS:
            continue
        levels = _levels(sorted(rows, key=lambda row: (row.monotonic_ns, row.key)))
        first = _comparable(levels)
        last = levels[-1][0].difference
        for level in levels[first:]:
            ahead.update((row.key, row.difference - last) for row in level if abs(row.difference - last) >= LEAST_NS)
        kept = [level for level in levels[first:] if len(level) > 1 or abs(level[0].difference - last) >= SAID_NS]
        moves = [after[0].difference - before[0].difference for before, after in itertools.pairwise(kept)]
        moves = [move for move in moves if abs(move) >= LEAST_NS]
        if moves:
            said[host] = (
                f"{host} by {', '.join(('+' if ns > 0 else '-') + time_text(abs(round(ns, -6))) for ns in moves[:3])}"
                + (f" and {len(moves) - 3} more" if len(moves) > 3 else "")
            )
    return Steps(ahead, said)


def _levels(rows: list[Lived]) -> list[list[Lived]]:
    """Processes in the order in which they began, cut where the difference changes."""
    levels: list[list[Lived]] = []
    for row in rows:
        if not levels or abs(row.difference - levels[-1][0].difference) >= LEAST_NS:
            levels.append([])
        levels[-1].append(row)
    return levels


def _comparable(levels: list[list[Lived]]) -> int:
    """The first level from which on all are of one boot, as far as can be told."""
    first = len(levels) - 1
    while first > 0 and _is_step(levels[first - 1], levels[first]):
        first -= 1
    return first


def _is_step(before: list[Lived], after: list[Lived]) -> bool:
    by = after[0].difference - before[0].difference
    parents = {row.key[1]: row for row in before}
    for child in after:
        parent = parents.get(child.ppid) if child.ppid is not None else None
        if parent is None or parent.key[1] == child.key[1]:
            continue
        end = parent.t1_ns - parent.difference + LEAST_NS
        return parent.monotonic_ns <= child.monotonic_ns <= end
    # Another boot begins after the last event of this one; its clock's difference is larger by all of its life.
    return by < max(row.t1_ns - row.difference for row in before)
