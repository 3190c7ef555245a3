"""Tasks of the critical path that wait for a processor, where there is work for more than there are."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import EVIDENCE, LEAST, TIME, Match, Row, Rule, Threshold
from tailrace.analyzer.insights.processors import BUSY, SEVERAL
from tailrace.analyzer.util.formatting import time_text

MORE = Threshold(1.5, "times as much work at a time as processors")
FEWER = "fewer threads in each process"
FEWER_THREADS = (
    "Give each process fewer threads (OMP_NUM_THREADS, OPENBLAS_NUM_THREADS, MKL_NUM_THREADS): together no more than"
    " there are processors, so one each where there are as many processes. Threads that spin while they wait for each"
    " other use up processors, so that all of it takes less then; only after that do more processors help."
)
"""The advice where processes have several threads that want processors."""


def find(found: Analyses) -> Iterator[Match]:
    """All such tasks, as one match."""
    inputs, told = found.inputs, found.processors
    if not told.count or not (told.ready > 0).any():
        return
    demand = told.demand
    crowded = demand.crowded(MORE.value * told.count)
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
    whose = "" if told.own_share >= BUSY else f" (it was on them for {told.own_share:.0%} of the time)"
    who, wait = inputs.called(top), time_text(waited)
    if demand.threaded:
        said = f"the threads of {who} were ready and waited {wait} in sum for processors: {demand.words} wanted one"
        said = f"{said} at a time, and the run could use {told.count:,}{whose}"
    else:
        said = f"{who} was ready and waited {wait} for a processor: the run had work for up to {demand.most:,.0f} at a"
        said = f"{said} time, and could use {told.count:,}{whose}"
    yield Match(
        title=said,
        advice=FEWER_THREADS if demand.threaded else "",
        change=FEWER if demand.threaded else "",
        names={"task": found.task_id(top)},
        cost_ns=cost,
        estimate=True,
        count=len(rows),
        evidence=[Row(task=inputs.called(code), ready_ns=ns) for _, code, ns in rows[:EVIDENCE]],
        tasks={code for _, code, _ in rows},
    )


RULE = Rule(
    kind="waiting for a processor",
    about=TIME,
    title="Work for more processors at a time than there are",
    definition=(
        "By the kernel's account of each process (schedstat) the tasks of the run together were on a processor or ready"
        f" for one, at least {MORE.value:g} for each that they could use, and those of the critical path were ready and"
        " waited. A task counts as its process that wants most, and that one as its threads that are on a processor or"
        f" ready on average; where these are {SEVERAL:g} or more, the change is fewer threads. The estimate is that"
        " share of their time then: what as many processors as are wanted could save, an upper bound."
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
