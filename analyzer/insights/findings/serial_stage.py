"""A task beside which nothing else runs, in a run that is parallel elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tailrace.analyzer.insights import resource_waits
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import TIME, Match, Rule, Threshold, rows_of
from tailrace.analyzer.util import intervals
from tailrace.analyzer.util.formatting import count_text, time_text

MUCH = Threshold(25, "% of the time in which tasks ran")
PARALLEL = Threshold(3, "tasks in another stage, of which several ran at a time")


def find(found: Analyses) -> Iterator[Match]:
    """The task that was alone for longest."""
    inputs = found.inputs
    tasks = np.array(resource_waits.innermost(inputs), dtype=np.int64)
    tasks = tasks[(inputs.tasks["task"] != "").to_numpy(dtype=np.bool_)[tasks]]
    if not len(tasks):
        return
    start, end = (inputs.tasks[name].to_numpy(dtype=np.int64)[tasks] for name in ("start_ns", "end_ns"))
    stage = inputs.tasks["stage_code"].to_numpy(dtype=np.int64)[tasks]
    of_stage = np.bincount(stage, minlength=len(inputs.stages))
    widths = {
        code: int(resource_waits.running_at_ends(start[stage == code], end[stage == code]).max())
        for code in np.flatnonzero(of_stage >= PARALLEL.value).tolist()
    }
    width = max(widths.values(), default=1)
    alone = _alone(start, end)
    alone[of_stage[stage] > 1] = 0
    top = int(alone.argmax())
    ran = intervals.total(intervals.united(np.column_stack((start, end))))
    if width < 2 or not MUCH.reached(int(alone[top]), ran):
        return
    task, name = int(tasks[top]), inputs.called(int(tasks[top]))
    others = max(widths, key=lambda code: widths[code])
    yield Match(
        title=f"{name} ran alone for {time_text(int(alone[top]))} of {time_text(inputs.makespan_ns)}, where up to"
        f" {count_text(width, 'task')} of {inputs.stages['stage'].iat[others]} ran at a time",
        names={"task": str(inputs.tasks["task"].iat[task])},
        cost_ns=int(alone[top] * (1 - 1 / width)),
        estimate=True,
        evidence=rows_of(
            inputs.tasks.iloc[tasks]
            .assign(task=[inputs.called(int(t)) for t in tasks], alone_ns=alone)[["task", "alone_ns"]]
            .sort_values("alone_ns", ascending=False, kind="stable")
        ),
        tasks={task},
        where=f"of {name}",
    )


def _alone(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """For how long each task ran while no other one did."""
    every = np.arange(len(start), dtype=np.int64)
    times = np.unique(np.concatenate((start, end)))
    running = np.searchsorted(np.sort(start), times, side="right") - np.searchsorted(np.sort(end), times, side="right")
    single = running[:-1] == 1
    none = np.zeros(int(single.sum()), dtype=np.int64)
    pieces = intervals.cover(intervals.union(intervals.make(none, times[:-1][single], times[1:][single])), 1)
    return np.asarray(pieces.inside(np.zeros_like(every), start, end), dtype=np.int64)


RULE = Rule(
    kind="serial stage",
    about=TIME,
    title="A task beside which nothing else runs, in a run that is parallel elsewhere",
    definition=(
        f"The one task of a stage ran for {MUCH} while no other task did, and the tasks of another stage ({PARALLEL})"
        " did run at a time. The estimate is what it would take less in as many parts as those ran at a time: an upper"
        " bound, for work that can be divided."
    ),
    advice=(
        "Divide its work among several tasks, begin what does not need it before it, or give it what makes it faster"
        " (threads, a faster program). `tailrace task` says where its time goes."
    ),
    source="Amdahl 1967 (the serial part bounds the speedup)",
    query="tailrace task {run} {task}",
    find=find,
    thresholds=(MUCH, PARALLEL),
    change="dividing the work",
)
