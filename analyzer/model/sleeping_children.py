"""Processes that do nothing but sleep: their sleep is that of the process that waits for it.

    m (dataflow.build) --joined()--> m with `sleeps_for`, and its waits for such children as sleep

A shell has no sleep of its own: it runs `sleep`, and waits. To say of the two that one sleeps and the other one waits
for a process hides what the script does, so that a loop of `sleep` and looks is none. Here the parent's time in waits
becomes time asleep, as long as the child sleeps, in the one table that all times come from
(`EdgeTable.thread_calls`); what asks for single calls goes by `Model.sleeps_for`.

A child is such a one if it moved no data, made or changed no name, started nothing but such children (`timeout 9 sleep
5`), and one sleep takes most of its life; what is left is the start and the end of its program. Its parent made it and
waited for it, and made no other child meanwhile: a parent that goes on with something else is not held up by this one.
A program that sleeps several times has a loop of its own.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.edges.edge_table import EdgeTable
from tailrace.analyzer.model import own_time, process_tree
from tailrace.analyzer.model.process_tree import EXIT, FORK
from tailrace.analyzer.util import intervals
from tailrace.analyzer.util.intervals import Intervals
from tailrace.analyzer.util.types import Bools, Ints

if TYPE_CHECKING:
    from tailrace.analyzer.model.dataflow import Model

MOST = 0.5
"""Of a process's life, from which on it does nothing but sleep."""
WAITS = (edge_table.CHILD, edge_table.SIGNAL)
"""The kinds of calls in which a parent waits for a child: timeout(1) waits for the signal of its end."""
DEEPEST = 4
"""Of such children of such children that are followed (`env timeout 9 sleep 5`)."""


def joined(m: Model) -> Model:
    """The model, in which the sleep of such children is their parents'."""
    every = np.arange(len(m.who), dtype=np.int64)
    m = dataclasses.replace(m, sleeps_for=every)
    if not len(edge_table.spent(m.table.busy, (edge_table.SLEEP,)).group):
        return m
    lives, family = own_time.lives(m), None
    length, idle = lives.end - lives.start, _changed_nothing(m)
    for _ in range(DEEPEST):
        asleep = edge_table.spent(m.table.busy, (edge_table.SLEEP,))
        once = np.bincount(asleep.group, minlength=len(every)) == 1
        once &= intervals.length(asleep, len(every)) >= MOST * length
        found = np.flatnonzero(once & idle & (m.sleeps_for == every))
        family = family or _Family(m) if len(found) else family
        parents = {} if family is None else family.parents_of(found, m.sleeps_for)
        if not parents:
            break
        sleeps_for = m.sleeps_for.copy()
        sleeps_for[[*parents]] = [*parents.values()]
        m = dataclasses.replace(m, table=_asleep_in(m.table, asleep, parents), sleeps_for=sleeps_for)
    for _ in range(DEEPEST):
        m.sleeps_for[:] = m.sleeps_for[m.sleeps_for]
    return m


def _changed_nothing(m: Model) -> Bools:
    """Whether each actor moved no data and changed no name."""
    found = np.ones(len(m.who), dtype=np.bool_)
    moved = m.classed(("data", "stream")) & (m.bursts["bytes"] > 0).to_numpy()
    found[m.bursts["who"].to_numpy(dtype=np.int64)[moved]] = False
    facts = m.table.facts
    changed = ~facts["what"].isin(("missed", "append")).to_numpy(dtype=np.bool_)
    found[facts["who"].to_numpy(dtype=np.int64)[changed]] = False
    return found


class _Family:
    """Who made whom when, and who waited for whom."""

    def __init__(self, m: Model) -> None:
        lives = process_tree.lives_of(m)
        self.process = lives.process
        self.alone = np.array([len(lives.actors[process]) == 1 for process in lives.process], dtype=np.bool_)
        self.maker: dict[int, tuple[int, int]] = {}
        self.ended: dict[int, tuple[int, int]] = {}
        self.children: dict[int, list[int]] = {}
        made: dict[int, list[int]] = {}
        for producer, consumer, given, _, via in process_tree.between_actors(m, lives):
            if via == FORK:
                self.maker[consumer] = (producer, given)
                made.setdefault(int(self.process[producer]), []).append(given)
                self.children.setdefault(producer, []).append(consumer)
            elif via == EXIT:
                self.ended[producer] = (consumer, given)
        self.made = {process: np.sort(np.array(times, dtype=np.int64)) for process, times in made.items()}

    def parents_of(self, children: Ints, sleeps_for: Ints) -> dict[int, int]:
        """Those of these actors whose sleep is their parent's, and that one."""
        found = {}
        for child in children.tolist():
            (maker, begun), (parent, over) = self.maker.get(child, (-1, 0)), self.ended.get(child, (-1, 0))
            own = all(sleeps_for[one] != one for one in self.children.get(child, ()))
            if min(maker, parent) < 0 or not own or not self.alone[child]:
                continue
            process = int(self.process[parent])
            times = self.made.get(process, np.empty(0, dtype=np.int64))
            others = np.searchsorted(times, over) - np.searchsorted(times, begun, side="right")
            if self.process[maker] == process and others == 0:
                found[child] = parent
        return found


def _asleep_in(table: EdgeTable, asleep: Intervals, parents: dict[int, int]) -> EdgeTable:
    """The table, in which the waits of parents are sleep as far as these children of theirs sleep."""
    parent_of = np.full(len(table.who), -1, dtype=np.int64)
    parent_of[[*parents]] = [*parents.values()]
    spans = intervals.union(intervals.regrouped(asleep, parent_of))
    calls = table.thread_calls
    thread, kind = edge_table.owners_and_kinds(calls)
    who = table.threads["who"].to_numpy(dtype=np.int64)[thread]
    waits = np.isin(kind, WAITS) & np.isin(who, np.unique(spans.group))
    bounds = np.searchsorted(spans.group, np.arange(len(table.who) + 1))
    parts = [Intervals(*(column[~waits] for column in calls))]
    for group in np.unique(calls.group[waits]).tolist():
        low, high = np.searchsorted(calls.group, (group, group + 1))
        rows = Intervals(*(column[low:high] for column in calls))
        actor, owner = int(who[low]), group // len(edge_table.KINDS)
        mine = slice(bounds[actor], bounds[actor + 1])
        slept = np.column_stack((spans.start[mine], spans.end[mine]))
        every = np.column_stack((rows.start, rows.end))
        for pieces, of in (
            (intervals.intersect(every, slept), int(edge_table.keyed(owner, edge_table.SLEEP))),
            (intervals.subtract(every, slept), group),
        ):
            parts.append(_pieces(rows, pieces, of))
    return dataclasses.replace(table, thread_calls=intervals.joined(parts))


def _pieces(rows: Intervals, pieces: Ints, group: int) -> Intervals:
    """Pieces of intervals under a group, each with its share of the weight."""
    of = np.searchsorted(rows.start, pieces[:, 0], side="right") - 1
    length = pieces[:, 1] - pieces[:, 0]
    weight = length * (rows.weight / np.maximum(rows.end - rows.start, 1))[of]
    alone = np.full(len(pieces), group, dtype=np.int64)
    return intervals.make(alone, pieces[:, 0], pieces[:, 1], np.rint(weight).astype(np.int64))
