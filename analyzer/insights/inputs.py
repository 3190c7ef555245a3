"""The inputs of the analyses: the tasks of a run, and the hand-overs between them with their times.

    Model (dataflow.py) --inputs_of()--> tasks, hand-overs, busy times

A *task* here is a task tag, or a process without a task tag. A *hand-over* is an order that the trace shows between
two tasks (model/order.py), with two times: `given_ns`, from when on the producer did not keep the consumer waiting,
and `taken_ns`, when the consumer took it.

    data    the consumer read bytes that the producer wrote. Read after the last write: given at the end of that write,
            taken when the read began. Read while it was written (a pipe, a growing file): two rows, from first write to
            first read and from last to last. `held` (the consumer was held up) is False for the second where the
            producer spent more of that time blocked on streams than the consumer: then the reader was the slower one.
    fork    the producer made the consumer's process
    exit    the producer's process ended and the consumer waited for it
    declared, inside    declared by a workflow manager

In a run with tags an untagged process is no task but the *manager*: it starts tasks, waits for them and hands on what
they made, and none of it is work (`Inputs.works`).

Invariants: rows whose `taken_ns` is before `given_ns` are left out and counted (`unresolved`): clocks that disagree, or
a version that two tasks wrote at once. So hand-overs go forward in time, and cycles exist among equal times only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.model import dataflow, outcomes, own_time, tries
from tailrace.analyzer.model import order as orders
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.model.order import Order
from tailrace.analyzer.model.process_tree import EXIT, Lives
from tailrace.analyzer.model.time_model import Spans, TimeModel
from tailrace.analyzer.store import processes
from tailrace.analyzer.store.processes import PROCESS
from tailrace.analyzer.util import intervals
from tailrace.analyzer.util.formatting import with_stage
from tailrace.analyzer.util.intervals import Intervals
from tailrace.analyzer.util.tabular import Tabular
from tailrace.analyzer.util.types import Bools, Ints

FLOOR_BYTES = 4 << 10
"""Fewer bytes than this are no finding: the kernel reads, caches and stores files by pages (4 KiB), so that a part of a
page costs as much as the whole."""


class Ends(NamedTuple):
    """Of each process of `Inputs.lives` its exit code (0: none), the signal that ended it (0: none), and whether its
    end is known."""

    code: Ints
    signal: Ints
    known: Bools


@dataclass(frozen=True, repr=False)
class Inputs(Tabular):
    """The inputs of every analysis.

    tasks: one row a task (position = code): the columns of `dataflow.activities` (workflow, stage, task, host, pid,
    start,
        exe, label, ...) and start_ns, end_ns (ns since the epoch), stage_code (position in `stages`), active (it moved
        data), processes (how many).
    works: whether each task has a stage or task tag; True for all where none has.
    order: what orders the tasks.
    run: where events can be read again; None: a model alone.
    stages: the activities of level `stage`.
    handovers: those of `Order.handovers`, and held; producer and consumer are positions in `tasks`, version is a
        position in `m.versions.table` or -1.
    of_who: the task of each actor; lives: when each was seen.
    unresolved: hand-overs with contradictory times.
    busy: for each task when it was inside calls of each kind, by `edge_table.keyed`, united.
    """

    m: Model
    tasks: pd.DataFrame
    stages: pd.DataFrame
    handovers: pd.DataFrame
    of_who: Ints
    lives: Lives
    unresolved: int
    busy: Intervals
    start_ns: int
    end_ns: int
    works: Bools
    order: Order
    run: AnalyzedRun | None = None
    declared: pd.DataFrame = field(default_factory=pd.DataFrame)
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)

    @property
    def makespan_ns(self) -> int:
        """From the first event of the run to the last."""
        return self.end_ns - self.start_ns

    @cached_property
    def of_manager(self) -> Bools:
        """Whether each task is no task, but a process of a manager's own (model/managers_own.py)."""
        found = np.zeros(len(self.tasks), dtype=np.bool_)
        mine = self.m.of_manager
        if mine.any():
            found[self.of_who[mine]] = True
            found[self.of_who[~mine]] = False
        return found

    @cached_property
    def ends(self) -> Ends:
        """How the processes of the run ended."""
        table, names = self.m.processes, processes.keys(self.m.who)
        place = {key: at for at, key in enumerate(processes.keys(table))} if len(table) else {}
        rows = np.array([place.get(names[actors[0]], -1) for actors in self.lives.actors], dtype=np.int64)
        columns = []
        for name in ("exit", "signal"):
            told = table[name].astype("Int64") if name in table else pd.Series([pd.NA] * len(table), dtype="Int64")
            columns.append(told.reset_index(drop=True).reindex(rows))
        code, signal = (column.fillna(0).to_numpy(dtype=np.int64) for column in columns)
        known = np.logical_or(*(column.notna().to_numpy(dtype=np.bool_) for column in columns))
        return Ends(code, signal, known)

    @property
    def managed(self) -> bool:
        """Whether a workflow manager declared tasks."""
        declared = self.tables.get("declared_tasks")
        return declared is not None and len(declared) > 0

    def cover(self, *kinds: int) -> intervals.Cover:
        """When each task was inside calls of these kinds (positions in `edge_table.KINDS`)."""
        return intervals.cover(edge_table.spent(self.busy, kinds), len(self.tasks))

    @cached_property
    def time(self) -> TimeModel:
        """What all time was spent on."""
        return self.m.time

    @cached_property
    def spent(self) -> Spans:
        """What each task's time was spent on."""
        return self.time.states(self.of_who)

    @cached_property
    def waiting(self) -> Intervals:
        """When each task waited for processes outside of it."""
        return own_time.waiting(self.m, self.of_who)

    @cached_property
    def pauses(self) -> Intervals:
        """When each task had failed, and was not tried again yet."""
        place = {name: at for at, name in enumerate(outcomes.task_keys(self.tasks)) if name[1]}
        return tries.pauses(self.tables.get("declared_tries"), place, edge_table.spent(self.busy))

    @cached_property
    def blocked(self) -> intervals.Cover:
        """When each task waited for processes outside of it or for its next try, or, being one process, was in calls on
        pipes and sockets: several processes that are in such calls wait for each other."""
        alone = (self.tasks["processes"] < 2).to_numpy()
        streams = edge_table.spent(self.busy, edge_table.STREAMS, np.where(alone, np.arange(len(alone)), -1))
        rows = map(np.concatenate, zip(streams, self.waiting, self.pauses, strict=True))
        return intervals.cover(intervals.union(Intervals(*rows)), len(self.tasks))

    @property
    def units(self) -> str:
        """What the tasks are called, where none has a tag, too."""
        return "tasks" if (self.tasks["task"] != "").any() else "processes"

    def name(self, task: int) -> str:
        """A task as reports show it."""
        return str(self.tasks["label"].iat[task])

    def called(self, task: int) -> str:
        """The same with its stage in front."""
        return with_stage(self.name(task), self.stage_of(task) if self.tasks["task"].iat[task] else "")

    def stage_of(self, task: int) -> str:
        """The stage of a task, as it is shown."""
        return str(self.stages["stage"].iat[int(self.tasks["stage_code"].to_numpy()[task])])


def inputs_of(
    m: Model, declared: pd.DataFrame | None = None, run: AnalyzedRun | None = None, **tables: pd.DataFrame
) -> Inputs:
    """The inputs of a model.

    Args:
        declared: `declared_vs_observed.compare_declared` of the run.
        run: the model's.
        tables: other tables of the run (declared_workflows, declared_tasks, declared_waits, declared_files,
            declared_deps, outcomes, command_ends, ranks, call_places, declared_tries).
    """
    order = Order(m, tables) if run is None else orders.of_run(run, m)
    of_who, tasks = order.of_who, order.tasks.copy()
    stage_of_who, stages = dataflow.activities(m, "stage")
    stage = np.zeros(len(tasks), dtype=np.int64)
    stage[of_who] = stage_of_who
    tasks["stage_code"] = stage
    tagged = np.zeros(len(tasks), dtype=np.bool_)
    tagged[of_who[(m.who["stage"] + m.who["task"] != "").to_numpy(dtype=np.bool_)]] = True
    processes = m.who[PROCESS].assign(task=of_who).drop_duplicates()
    tasks["processes"] = np.bincount(processes["task"].to_numpy(dtype=np.int64), minlength=len(tasks))
    rows = order.handovers()
    # A task is as long as its first and last event, so a hand-over outside of it is the same contradiction.
    forward = (rows["taken_ns"] >= rows["given_ns"]).to_numpy() & (rows["producer"] != rows["consumer"]).to_numpy()
    unresolved = int((rows["taken_ns"] < rows["given_ns"]).sum())
    rows = rows[forward].reset_index(drop=True)
    busy = edge_table.regrouped(m.table.busy, of_who)
    waiting = intervals.cover(edge_table.spent(busy, (*edge_table.STREAMS, edge_table.POLLING)), len(tasks))
    return Inputs(
        m=m,
        tasks=tasks,
        stages=stages,
        handovers=rows.assign(held=_held(rows, waiting) & ~_asleep(m, of_who, tasks, rows)),
        of_who=of_who,
        lives=order.lives,
        unresolved=unresolved,
        busy=busy,
        start_ns=int(tasks["start_ns"].min()) if len(tasks) else 0,
        end_ns=int(tasks["end_ns"].max()) if len(tasks) else 0,
        works=tagged if tagged.any() else ~tagged,
        order=order,
        run=run,
        declared=declared if declared is not None else pd.DataFrame(),
        tables=tables,
    )


def _asleep(m: Model, of_who: Ints, tasks: pd.DataFrame, rows: pd.DataFrame) -> Bools:
    """Whether the consumer is one process that took the end of another one while it waited for a sleeping child: it
    goes on when that is over (a shell that takes the end of what runs in its background)."""
    children = np.flatnonzero(m.sleeps_for != np.arange(len(m.who)))
    if not len(children):
        return np.zeros(len(rows), dtype=np.bool_)
    start, end = own_time.seen(m)
    parent = of_who[m.sleeps_for[children]]
    cover = intervals.cover(intervals.union(intervals.make(parent, start[children], end[children])), len(tasks))
    consumer, taken = rows["consumer"].to_numpy(), rows["taken_ns"].to_numpy()
    alone = (tasks["processes"] == 1).to_numpy()[consumer] & (rows["via"] == EXIT).to_numpy()
    return np.asarray(alone & (cover.inside(consumer, taken - 1, taken) > 0))


def _held(rows: pd.DataFrame, waiting: intervals.Cover) -> Bools:
    """Whether the consumer waited for the producer: of a turn of a conversation (without bytes) when it was given, of
    what lasted no less than the producer, of a complete file it did."""
    since, given, taken = (rows[name].to_numpy() for name in ("since_ns", "given_ns", "taken_ns"))
    ends = [rows[end].to_numpy() for end in ("producer", "consumer")]
    producer, consumer = (waiting.inside(end, since, taken) for end in ends)
    lasted = np.where(rows["bytes"] > 0, producer <= consumer, waiting.inside(ends[1], given - 1, given) > 0)
    return np.asarray((since == given) | lasted, dtype=np.bool_)
