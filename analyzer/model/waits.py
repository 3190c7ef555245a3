"""The use of each task's time, from the times that the workflow manager declared and the recorded I/O.

A task's life, by the declared times (docs/declared-dag.md):

    submitted --depend--> ready --queue--> allocated --start--> runs --run--> ended

    ready      t_depend (Flux), or t_launch (Parsl: handed to the executor), or before that the end of the last task
               that it depends on: a manager that tells of a task when it runs (Slurm, Snakemake) had it in a queue
    allocated  t_alloc; without it there is no start time, and the queue lasts until the task runs
    runs       t_start, or else the first recorded event of the task; of a job that is an instance its program's
    ended      t_end; of a manager that tells no times (make) the exit of the task's last process, where all exits are
               recorded

An instance (`kind`) starts and stops around the program that it runs: what is before that program's first call is
`start`, what is after its end `stop`. A program whose end was not recorded ran until the instance's.

`depend` is divided at the time when the last byte that the task read from other tasks was written: before it the task
waited for data, after it for predecessors only (the producer continued, or ended late, or the dependency is stricter
than the dataflow). While the writer of that byte was queued itself, or the task that the writer got its last byte from,
and so on, the task waited for a worker or node too, only not for its own: `upstream`. A task also waits for the data
that tasks inside it read from tasks outside: a batch script need not access the data of its jobs. `run` is divided
by the time model (time_model.py) into `io`, with at least one call on a file running in the task, `compute`, on a
processor outside of these or not known, and `wait`, the rest.

Invariants: data + upstream + order = depend, io + wait + compute = run, run and stop last until the end, nothing is
negative, and unknown times are null. A task without dependencies has depend 0: its time before it is ready is queue
time, and so is that between a try that failed and the next one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.model import dataflow, order, time_model, tries
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.store.processes import PROCESS
from tailrace.analyzer.util import intervals
from tailrace.analyzer.util.types import Bools, Ints

TIMES = {
    "depend_ns": "waiting for other tasks, or for a hold",
    "data_ns": "of depend: until the last byte it reads of other tasks was written, and its writer, or the writer's own"
    " source, ran; null for an untraced task",
    "upstream_ns": "of depend: the same, while that writer or source was queued; null for an untraced task",
    "order_ns": "of depend: the rest, waiting for predecessors",
    "queue_ns": "ready, until nodes were allocated, and between tries",
    "start_ns": "nodes allocated, until it ran",
    "run_ns": "running",
    "io_ns": "of run: with at least one call on a file running; null for an untraced task",
    "wait_ns": "of run: waiting for a processor, processes, pipes, sockets or locks, or asleep; null for an untraced"
    " task",
    "compute_ns": "of run: the rest, on a processor as far as the kernel tells",
    "stop_ns": "its program was over, until it ended: of an instance, else 0",
}
"""Columns (ns) and their meanings."""
KEYS = ["workflow", "stage", "task"]
INSTANCE = "instance"
"""The declared kind of a job in which a workflow manager of its own runs."""


def table(run: AnalyzedRun, model: Model | None = None) -> pd.DataFrame:
    """One row per declared task, in the order of submission: `KEYS` (as declared, "" for null) and `TIMES` (Int64)."""
    tasks = run.declared_tasks
    if len(tasks) == 0:
        return pd.DataFrame({**dict.fromkeys(KEYS, ""), **dict.fromkeys(TIMES, 0)}, index=[]).astype(
            dict.fromkeys(TIMES, "Int64")
        )
    m = model or dataflow.model(run)
    index = pd.MultiIndex.from_arrays([tasks[name].fillna("").astype(str) for name in ("workflow", "task")])
    code = np.asarray(index.get_indexer(pd.MultiIndex.from_frame(m.who[["workflow", "task"]].astype(str))))
    around = _around(tasks, index)
    first = _first_events(m, code, len(tasks))
    there, source = _data_there(m, index, around)
    at = {name: _column(tasks, f"t_{name}_ns") for name in ("submit", "depend", "launch", "alloc", "start", "end")}
    over = _predecessors_over(run, at, index)
    ready = at["depend"].fillna(at["launch"].where(over.isna() | (at["launch"] <= over), over))
    untimed = at["start"].isna() & ~_column(tasks, "tries").notna()
    runs, over_at = at["start"].fillna(first), at["end"].fillna(_exits(m, code, len(tasks)).where(untimed))
    program = _programs(m, code, tasks, first)
    runs = runs.where(program.begin_ns.isna(), np.maximum(runs, program.begin_ns))
    over_at = over_at.where(program.end_ns.isna(), np.minimum(over_at, program.end_ns))
    waited = _waited_for_something(run, tasks, index)
    depend = _span(at["submit"], ready).where(waited | ready.isna(), 0)
    out = pd.DataFrame({name: tasks[name].fillna("").astype(str).to_numpy() for name in KEYS})
    out["depend_ns"] = depend
    until_data = np.minimum(_span(at["submit"], there).fillna(0), depend)
    queued = ready.where(waited, at["submit"])
    upstream = _upstream(at["submit"], at["submit"] + until_data, source, queued, runs)
    seen = _seen(first, around)
    out["data_ns"] = (until_data - upstream).where(seen)
    out["upstream_ns"] = upstream.where(until_data.notna() & seen)
    out["order_ns"] = depend - out["data_ns"] - out["upstream_ns"]
    out["queue_ns"] = _span(ready.where(waited, at["submit"]), at["alloc"].fillna(runs)).where(ready.notna())
    out["start_ns"] = _span(at["alloc"], runs)
    paused = _paused(run, m, code, index, runs, over_at)
    out["queue_ns"] += paused
    out["run_ns"] = _span(runs, over_at) - paused
    spent = _spent(m, code, runs, over_at, out["run_ns"])
    out["io_ns"] = spent[[*edge_table.KINDS[: len(edge_table.FILES)]]].sum(axis=1)
    out["io_ns"] = out["io_ns"].where(first.notna() & out["run_ns"].notna())
    out["compute_ns"] = spent[[time_model.COMPUTING, time_model.UNKNOWN]].sum(axis=1).where(out["io_ns"].notna())
    out["wait_ns"] = out["run_ns"] - out["io_ns"] - out["compute_ns"]
    out["stop_ns"] = _span(over_at, at["end"]).fillna(0)
    return out[[*KEYS, *TIMES]]


def by_stage(waits: pd.DataFrame) -> pd.DataFrame:
    """Sums over the tasks of each stage, in the order of submission: workflow, stage, tasks, known (tasks of known run
    time), `TIMES`; null where it is unknown for all tasks."""
    grouped = waits.groupby(KEYS[:2], sort=False)
    out = grouped[list(TIMES)].sum(min_count=1)
    out.insert(0, "known", grouped["run_ns"].count())
    out.insert(0, "tasks", grouped.size())
    return out.reset_index()


def _column(tasks: pd.DataFrame, name: str) -> pd.Series:
    values = tasks[name] if name in tasks else pd.Series(pd.NA, index=tasks.index)
    return values.astype("Int64").reset_index(drop=True)


def _span(start: pd.Series, end: pd.Series) -> pd.Series:
    """end - start, at least 0: the clocks of two hosts may disagree by more than a short span."""
    return (end - start).clip(lower=0)


def _nullable(values: Ints, known: Bools) -> pd.Series:
    return pd.Series(pd.array(values, dtype="Int64")).where(pd.Series(known))


def _first_events(m: Model, code: Ints, size: int) -> pd.Series:
    """The begin of the first call of each task; null for a task without events."""
    none = np.iinfo(np.int64).max
    first = np.full(size, none, dtype=np.int64)
    position = code[m.table.counts["who"].to_numpy()]
    mine = position >= 0
    np.minimum.at(first, position[mine], m.table.counts["first_ns"].to_numpy(dtype=np.int64)[mine])
    return _nullable(first, first != none)


def _exits(m: Model, code: Ints, size: int) -> pd.Series:
    """When the last process of each task ended; null where one's exit was not recorded, or it had several tasks."""
    ends = _nullable(np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.bool_))
    if {"t1_ns", "exit"} <= {*m.processes}:
        mine = m.who[PROCESS].assign(task=code)[code >= 0].drop_duplicates()
        found = (
            mine[~mine.duplicated(PROCESS, keep=False)]
            .merge(m.processes, on=PROCESS, how="left")
            .groupby("task")
            .agg({"exit": "count", "t1_ns": "max"})
        )
        found = found[found["exit"] == mine.groupby("task").size().reindex(found.index)]
        ends.loc[found.index.to_numpy()] = found["t1_ns"].to_numpy()
    return ends


class _Programs(NamedTuple):
    """When the program of each task that is an instance began and was over; null where unknown, and for other tasks."""

    begin_ns: pd.Series
    end_ns: pd.Series


def _programs(m: Model, code: Ints, tasks: pd.DataFrame, first: pd.Series) -> _Programs:
    """The program is the first process of the task: of the brokers, which are not traced, nothing is recorded."""
    kinds = tasks["kind"] if "kind" in tasks else pd.Series("", index=tasks.index)
    is_instance = (kinds == INSTANCE).to_numpy(dtype=np.bool_)
    ends = _nullable(np.zeros(len(tasks), dtype=np.int64), np.zeros(len(tasks), dtype=np.bool_))
    if is_instance.any() and {"t0_ns", "t1_ns", "exit"} <= {*m.processes}:
        mine = m.who[PROCESS].assign(task=code)[(code >= 0) & is_instance[code]].drop_duplicates()
        found = mine.merge(m.processes, on=PROCESS).sort_values("t0_ns", kind="stable").drop_duplicates("task")
        found = found[found["exit"].notna()]
        ends.loc[found["task"].to_numpy()] = found["t1_ns"].to_numpy()
    return _Programs(first.where(pd.Series(is_instance)), ends)


def _spent(m: Model, code: Ints, runs: pd.Series, ends: pd.Series, run: pd.Series) -> pd.DataFrame:
    """What the tasks spent the times on in which they ran."""
    low, high, length = (times.fillna(0).to_numpy(dtype=np.int64) for times in (runs, ends, run))
    spans = m.time.states(code, len(runs))
    found = time_model.filled(spans.inside(np.arange(len(runs), dtype=np.int64), low, high), length)
    return found.astype("Int64")


def _paused(
    run: AnalyzedRun, m: Model, code: Ints, index: pd.MultiIndex, runs: pd.Series, ends: pd.Series
) -> pd.Series:
    """How long each task waited for its next try, after it ran first."""
    busy = edge_table.spent(m.table.busy, of=code)
    place = {(str(workflow), str(task)): at for at, (workflow, task) in enumerate(index)}
    pauses = intervals.cover(tries.pauses(run.declared_tries, place, busy), len(index))
    known = (runs.notna() & ends.notna()).to_numpy()
    low, high = (times.fillna(0).to_numpy(dtype=np.int64) for times in (runs, ends))
    inside = pauses.inside(np.arange(len(index), dtype=np.int64), low, np.maximum(low, high))
    return _nullable(np.where(known, inside, 0), np.ones(len(index), dtype=np.bool_))


def _around(tasks: pd.DataFrame, index: pd.MultiIndex) -> list[list[int]]:
    """For each task the positions of itself and of the tasks around it."""
    parents = order.parents_of(tasks)
    place = {(str(w), str(t)): at for at, (w, t) in enumerate(index)}
    return [[place[outer] for outer in order.line_of(name, parents) if outer in place] for name in place]


def _seen(first: pd.Series, around: list[list[int]]) -> Bools:
    """Whether each task, or a task inside it, has events."""
    seen = np.zeros(len(first), dtype=np.bool_)
    for at in np.flatnonzero(first.notna()).tolist():
        seen[around[at]] = True
    return seen


LONGEST_CHAIN = 1000
"""Tasks that `_upstream` follows from one task; time before them counts as waiting for data."""


def _upstream(since: pd.Series, until: pd.Series, source: Ints, queued: pd.Series, runs: pd.Series) -> pd.Series:
    """For each task, how long between `since` and `until` the task that its last byte came from was queued, or the one
    that this one's last byte came from, and so on.

    Args:
        source: of each task the position of the task that wrote its last byte, -1 without one.
        queued, runs: when each task was ready, and when it ran.
    """
    known = (queued.notna() & runs.notna()).tolist()
    begin, end = queued.fillna(0).tolist(), runs.fillna(0).tolist()
    out = np.zeros(len(since), dtype=np.int64)
    rows = np.flatnonzero((since.notna() & until.notna()).to_numpy())
    for task, low, high in zip(rows.tolist(), since[rows].tolist(), until[rows].tolist(), strict=True):
        at = int(source[task])
        for _ in range(LONGEST_CHAIN):
            if at < 0 or not known[at] or high <= low:
                break
            out[task] += max(min(end[at], high) - max(begin[at], low), 0)
            high, at = min(high, begin[at]), int(source[at])
    return _nullable(out, np.ones(len(out), dtype=np.bool_))


def _data_there(m: Model, index: pd.MultiIndex, around: list[list[int]]) -> tuple[pd.Series, Ints]:
    """The time at which the last byte was written that each task, or one inside it, read from tasks outside of it; null
    without such bytes. And the task that wrote it, as a position in `index`, or -1."""
    activity, activities = dataflow.activities(m, "task")
    position = np.asarray(index.get_indexer(pd.MultiIndex.from_frame(activities[["workflow", "task"]].astype(str))))
    wrote = m.bursts["dir"].to_numpy() == edge_table.WRITE
    writes = pd.DataFrame(
        {
            "producer": activity[m.bursts["who"].to_numpy()[wrote]],
            "version": m.version[wrote],
            "written_ns": m.bursts["last_ns"].to_numpy()[wrote],
        }
    )
    last = writes.groupby(["producer", "version"], as_index=False).agg({"written_ns": "max"})
    flows = dataflow.flow_table(m, "task").merge(last, on=["producer", "version"])
    flows["task"] = position[flows["consumer"].to_numpy()]
    flows["source"] = position[flows["producer"].to_numpy()]
    flows = flows[(flows["task"] >= 0) & (flows["source"] >= 0) & (flows["source"] != flows["task"])]
    flows = flows.groupby(["task", "source"], as_index=False).agg({"written_ns": "max"})
    outside = [
        [outer for outer in around[task] if outer not in around[source]]
        for task, source in zip(flows["task"], flows["source"], strict=True)
    ]
    flows = (
        flows.assign(task=pd.Series(outside, index=flows.index, dtype=object))
        .explode("task")
        .dropna(subset="task")
        .astype({"task": np.int64})
    )
    last = flows.sort_values("written_ns", kind="stable").drop_duplicates("task", keep="last").set_index("task")
    # Int64 before reindex: missing rows would make it float64, which is too imprecise for ns since the epoch.
    there: pd.Series = last["written_ns"].astype("Int64").reindex(range(len(index))).reset_index(drop=True)
    return there, last["source"].reindex(range(len(index)), fill_value=-1).to_numpy(dtype=np.int64)


def _predecessors_over(run: AnalyzedRun, at: dict[str, pd.Series], index: pd.MultiIndex) -> pd.Series:
    """When the last of the tasks that each depends on was over, or had begun (Slurm's `after`), and it was submitted
    itself; null where it depends on none, or on one without a declared end."""
    deps, size = run.declared_deps, len(index)
    over = np.full(size, np.iinfo(np.int64).min, dtype=np.int64)
    unknown = np.zeros(size, dtype=np.bool_)
    if len(deps):
        workflow = deps["workflow"].fillna("").astype(str)
        task, dep = (
            index.get_indexer(pd.MultiIndex.from_arrays([workflow, deps[name].fillna("").astype(str)]))
            for name in ("task", "dep")
        )
        known = task >= 0
        task, dep, via = task[known], dep[known], deps["via"].to_numpy()[known]
        begun = at["start"].fillna(at["launch"])
        awaited = (
            at["end"].iloc[dep].reset_index(drop=True).where(via != "after", begun.iloc[dep].reset_index(drop=True))
        )
        np.maximum.at(over, task, awaited.fillna(0).to_numpy(dtype=np.int64))
        unknown[task[(dep < 0) | awaited.isna().to_numpy()]] = True
    first = at["submit"].fillna(0).to_numpy(dtype=np.int64)
    return _nullable(np.maximum(over, first), (over >= 0) & ~unknown)


def _waited_for_something(run: AnalyzedRun, tasks: pd.DataFrame, index: pd.MultiIndex) -> pd.Series:
    deps = run.declared_deps
    waited = np.zeros(len(tasks), dtype=np.bool_)
    if len(deps):
        keys = pd.MultiIndex.from_arrays([deps[name].fillna("").astype(str) for name in ("workflow", "task")])
        at = np.asarray(index.get_indexer(keys))
        waited[at[at >= 0]] = True
    if "holds" in tasks:
        waited |= np.array([bool(holds) for holds in tasks["holds"]], dtype=np.bool_)
    return pd.Series(waited)
