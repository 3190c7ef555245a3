"""Tasks of the critical path that wait for a processor, beside more of them than there are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import EVIDENCE, LEAST, TIME, Match, Row, Rule, Threshold
from tailrace.analyzer.insights.processors import BUSY
from tailrace.analyzer.store.processes import keys
from tailrace.analyzer.util.formatting import count_text, time_text
from tailrace.analyzer.util.types import Floats, Ints

MORE = Threshold(1.5, "times as many processes as processors")


def find(found: Analyses) -> Iterator[Match]:
    """All such tasks, as one match."""
    inputs, count = found.inputs, found.processors.count
    if not count:
        return
    lives = inputs.lives
    ran, ready = _times(found)
    wants = np.where(ready >= 0, (ran + ready) / np.maximum(lives.over - lives.begun, 1), 0.0)
    most, crowded = _crowded(lives.begun, lives.over, wants, MORE.value * count)
    on = found.waits.on_path(found.critical.path, dict.fromkeys(range(len(inputs.tasks)), crowded))
    task = inputs.of_who[np.array([actors[-1] for actors in lives.actors], dtype=np.int64)]
    rows: list[tuple[int, int, int]] = []
    for code, ns in on.items():
        mine = (task == code) & (ready >= 0)
        waited, used = int(ready[mine].sum()), int(ran[mine].sum())
        if waited:
            rows.append((int(ns * waited / (waited + used)), code, waited))
    rows.sort(key=lambda row: -row[0])
    cost = min(sum(row[0] for row in rows), inputs.makespan_ns)
    if not LEAST.reached(cost, inputs.makespan_ns):
        return
    _, top, waited = rows[0]
    share = min(int(np.maximum(ran, 0).sum()) / (inputs.makespan_ns * count), 1.0)
    whose = "" if share >= BUSY else f", of which the run had {share:.0%} of the time; the rest was others' or idle"
    row = inputs.tasks.iloc[top]
    yield Match(
        title=f"{inputs.called(top)} was ready and waited {time_text(waited)} for a processor; up to {most:,.0f}"
        f" processes of the run at a time wanted one of {count_text(count, 'processor')}{whose}",
        names={"task": "/".join(filter(None, (str(row["workflow"]), str(row["task"])))) or inputs.name(top)},
        cost_ns=cost,
        estimate=True,
        count=len(rows),
        evidence=[Row(task=inputs.called(code), ready_ns=ns) for _, code, ns in rows[:EVIDENCE]],
        tasks={code for _, code, _ in rows},
    )


def _times(found: Analyses) -> tuple[Ints, Ints]:
    """Of each process (number in `Inputs.lives`) the time on a processor, and ready for one; -1: not known."""
    inputs, table = found.inputs, found.inputs.m.processes
    ran, ready = (np.full(len(inputs.lives.begun), -1, dtype=np.int64) for _ in range(2))
    if not {"run_ns", "ready_ns", "ready_of_ns"} <= set(table.columns):
        return ran, ready
    rows = table[table["ready_ns"].notna() & table["ready_of_ns"].notna()]
    columns = (rows[name].astype(np.int64).tolist() for name in ("ready_of_ns", "ready_ns"))
    known = dict(zip(keys(rows), zip(*columns, strict=True), strict=True))
    for process, key in zip(inputs.lives.process.tolist(), keys(inputs.m.who), strict=True):
        if key in known:
            ran[process], ready[process] = known[key]
    return ran, ready


def _crowded(begun: Ints, over: Ints, wants: Floats, least: float) -> tuple[float, Ints]:
    """The most of a weight at a time, and when it was at least so much, (n, 2)."""
    when, step = np.concatenate((over, begun)), np.concatenate((-wants, wants))
    order = np.lexsort((step, when))
    when, now = when[order], np.cumsum(step[order])
    full = np.flatnonzero(now[:-1] >= least)
    return float(now.max(initial=0.0)), np.column_stack((when[full], when[full + 1]))


RULE = Rule(
    kind="waiting for a processor",
    about=TIME,
    title="More processes that compute at a time than there are processors",
    definition=(
        "Processes of the run that were on a processor or ready for one, by the kernel's account of each (schedstat),"
        f" were at least {MORE.value:g} times as many at a time as they could run on, and tasks of the critical path"
        " were ready and waited. The estimate is that share of their time then: what as many processors as processes"
        " could save, an upper bound."
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
