"""Tasks of the critical path that wait for a processor, where there is work for more than there are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import EVIDENCE, LEAST, TIME, Match, Row, Rule, Threshold
from tailrace.analyzer.insights.processors import BUSY
from tailrace.analyzer.util import intervals
from tailrace.analyzer.util.formatting import time_text
from tailrace.analyzer.util.types import Ints

MORE = Threshold(1.5, "times as much work at a time as processors")
LONG_NS = 250_000_000
"""A process that was seen for less is taken to have one thread."""
MOST_PROCESSES = 256
"""Of a task, those that want most, that are looked at."""


def find(found: Analyses) -> Iterator[Match]:
    """All such tasks, as one match."""
    inputs, told = found.inputs, found.processors
    if not told.count or not (told.ready > 0).any():
        return
    most, crowded = _crowded(_wanted(found), MORE.value * told.count)
    on = found.waits.on_path(found.critical.path, dict.fromkeys(range(len(inputs.tasks)), crowded))
    rows: list[tuple[int, int, int]] = []
    for code, ns in on.items():
        mine = (told.task_of_process == code) & (told.ready >= 0)
        waited, used = int(told.ready[mine].sum()), int(told.ready_of[mine].sum())
        if waited:
            rows.append((int(ns * waited / (waited + used)), code, int(told.ready[mine].max())))
    rows.sort(key=lambda row: -row[0])
    cost = min(sum(row[0] for row in rows), inputs.makespan_ns)
    if not LEAST.reached(cost, inputs.makespan_ns):
        return
    _, top, waited = rows[0]
    share = min(int(np.maximum(told.ready_of, 0).sum()) / (inputs.makespan_ns * told.count), 1.0)
    whose = "" if share >= BUSY else f" (the run had them for {share:.0%} of the time)"
    row = inputs.tasks.iloc[top]
    yield Match(
        title=f"{inputs.called(top)} was ready and waited {time_text(waited)} for a processor: the run had work for up"
        f" to {most:,.0f} at a time, and could use {told.count:,}{whose}",
        names={"task": "/".join(filter(None, (str(row["workflow"]), str(row["task"])))) or inputs.name(top)},
        cost_ns=cost,
        estimate=True,
        count=len(rows),
        evidence=[Row(task=inputs.called(code), ready_ns=ns) for _, code, ns in rows[:EVIDENCE]],
        tasks={code for _, code, _ in rows},
    )


def _wanted(found: Analyses) -> list[tuple[int, int, float]]:
    """When each task wanted how many processors: that of its processes that wants most. The parts of a pipeline wait
    for each other, so that they want no more than the busiest of them."""
    told, lives = found.processors, found.inputs.lives
    task, span = told.task_of_process, lives.over - lives.begun
    share = np.where(told.ready >= 0, told.ready + told.ready_of, 0) / np.maximum(span, 1)
    # The account is of all its life, which began before its first event: of a moment's process mostly that.
    share = np.where(span < LONG_NS, np.minimum(share, 1), share)
    works = np.zeros(len(span), dtype=np.bool_)
    works[lives.process[found.inputs.works[found.inputs.of_who]]] = True
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


def _crowded(wanted: list[tuple[int, int, float]], least: float) -> tuple[float, Ints]:
    """The most that was wanted at a time, and when it was at least so much, (n, 2)."""
    begun, over, wants = (np.array(column) for column in zip(*wanted, strict=True))
    when, step = np.concatenate((over, begun)).astype(np.int64), np.concatenate((-wants, wants))
    order = np.lexsort((step, when))
    when, now = when[order], np.cumsum(step[order])
    full = np.flatnonzero(now[:-1] >= least)
    return float(now.max(initial=0.0)), np.column_stack((when[full], when[full + 1]))


RULE = Rule(
    kind="waiting for a processor",
    about=TIME,
    title="Work for more processors at a time than there are",
    definition=(
        "By the kernel's account of each process (schedstat) the tasks of the run together were on a processor or ready"
        f" for one, at least {MORE.value:g} for each that they could use, and those of the critical path were ready and"
        " waited. A task counts as its process that wants most. The estimate is that share of their time then: what as"
        " many processors as are wanted could save, an upper bound."
    ),
    advice=(
        "The processors are the limit, not I/O: use more of them (more nodes, more cores for each task's allocation),"
        " or give each task one thread (OMP_NUM_THREADS=1); with these processors running fewer tasks at a time costs"
        " nothing and needs less memory."
    ),
    source="proc(5): /proc/PID/schedstat",
    query="tailrace task {run} {task}",
    find=find,
    thresholds=(MORE, LEAST),
    change="more processors",
)
