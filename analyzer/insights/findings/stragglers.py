"""A task that took much longer than the others of its stage."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from tailrace.analyzer.insights import resource_waits
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import LEAST, TIME, Match, Rule, Threshold, more, rows_of
from tailrace.analyzer.util.formatting import time_text
from tailrace.analyzer.util.types import Bools

SIBLINGS = Threshold(5, "tasks in the stage")
FAR = 3.5
"""Of the modified z-score, from which on Iglewicz and Hoaglin call a value an outlier."""
_MAD_TO_SIGMA = 0.6745
FIRST = (
    "Start it first, then the others fill the time beside it; or give it less, or split it. `tailrace task` says what"
    " sets it apart from its stage (input, host, I/O)."
)
"""The advice where others were over before it began."""
SLOW = 1.5
"""Times as long as the median."""


def find(found: Analyses) -> Iterator[Match]:
    """All such tasks, as one match."""
    inputs, tasks = found.inputs, found.critical.tasks
    stage = inputs.tasks["stage_code"].to_numpy()
    tagged = (inputs.tasks["task"] != "").to_numpy() & inputs.works
    tagged &= (np.bincount(stage[tagged], minlength=len(inputs.stages)) >= SIBLINGS.value)[stage]
    if not tagged.any():
        return
    locked = np.zeros(len(tasks), dtype=np.int64)
    for wait in found.waits.locks:
        locked[wait.task] += wait.waited_ns
    own = np.maximum(tasks["work_ns"].to_numpy() - found.processors.ready_of_task - locked, 0)
    rows = tasks.assign(stage_code=stage, task=np.arange(len(tasks)), work_ns=own)[tagged]
    work = rows.groupby("stage_code")["work_ns"]
    median = work.transform("median")
    spread = (rows["work_ns"] - median).abs().groupby(rows["stage_code"]).transform("median")
    far = (rows["work_ns"] - median) * _MAD_TO_SIGMA > FAR * spread
    late = far & (work.transform("size") >= SIBLINGS.value) & rows["critical"] & (rows["work_ns"] > SLOW * median)
    late &= ~_only_shared(found, rows)
    rows = rows.assign(median_ns=median.astype(np.int64))[late]
    rows["gain_ns"] = np.minimum(rows["work_ns"] - rows["median_ns"], rows["path_ns"])
    rows = rows[rows["gain_ns"] > 0].sort_values("gain_ns", ascending=False, kind="stable")
    # What it does is to be done by somebody.
    cost = min(int(rows["gain_ns"].sum()), inputs.makespan_ns - found.processors.least_ns)
    if not LEAST.reached(cost, inputs.makespan_ns):
        return
    top = rows.iloc[0]
    task, took, usual = int(top["task"]), int(top["work_ns"]), int(top["median_ns"])
    compared = (
        f", {took / usual:.1f} times as long as the median of its stage ({time_text(usual)}),"
        if usual
        else ", while more than half of the tasks of its stage did no work,"
    )
    row = inputs.tasks.iloc[task]
    siblings = inputs.tasks[tagged & (stage == stage[task])]
    waited = int(row["start_ns"]) - int(siblings["start_ns"].min())
    is_late = waited > 0 and int(row["start_ns"]) >= int(siblings["end_ns"].min())
    late_words = f"; it began {time_text(waited)} after the first one" if is_late else ""
    yield Match(
        title=f"{inputs.called(task)} worked {time_text(took)}{compared} and the critical path goes through it"
        f"{late_words}{more(len(rows))}",
        advice=FIRST if is_late else "",
        names={"task": found.task_id(task)},
        cost_ns=cost,
        estimate=True,
        count=len(rows),
        evidence=rows_of(
            rows.assign(task=[inputs.called(int(one)) for one in rows["task"]])[
                ["task", "work_ns", "median_ns", "path_ns", "gain_ns"]
            ]
        ),
        tasks=set(np.flatnonzero(np.isin(stage, rows["stage_code"]))),
        where=f"for {inputs.called(task)}",
    )


def _only_shared(found: Analyses, rows: pd.DataFrame) -> Bools:
    """Whether each task needed no more of a processor than its siblings, in a run with more tasks at a time than
    processors: it had to wait for one."""
    inputs, processors = found.inputs, found.processors
    start, end = (inputs.tasks.loc[inputs.works, name].to_numpy(dtype=np.int64) for name in ("start_ns", "end_ns"))
    most = int(resource_waits.running_at_ends(start, end).max(initial=0))
    used = pd.Series(processors.of_task[rows["task"].to_numpy()], index=rows.index)
    used = used.where(used >= 0)
    usual = used.groupby(rows["stage_code"]).transform("median")
    crowded = 0 < processors.count < most
    return np.asarray((used <= SLOW * usual) & crowded, dtype=np.bool_)


RULE = Rule(
    kind="straggler",
    about=TIME,
    title="A task that took much longer than the others of its stage",
    definition=(
        "A task on the critical path of a stage with five tasks or more worked more than 1.5 times the median of"
        f" them, and its modified z-score (by the median of the deviations from the median) is above {FAR:g}. Time in"
        " which it was blocked by others, or waited for a processor, does not count, nor does a task that needed no"
        " more processor time than the others while more tasks ran than there are processors. The gain is what it"
        " worked longer than the median, at most its part of the critical path, and what the processors were idle for."
    ),
    advice="`tailrace task` says what sets it apart from its stage (input, host, I/O). Give it less, or split it.",
    source="Iglewicz and Hoaglin 1993 (outliers); Xu et al. 2017 (DXT: ranks that lag)",
    query="tailrace task {run} {task}",
    find=find,
    thresholds=(SIBLINGS, LEAST),
    change="less work",
)
