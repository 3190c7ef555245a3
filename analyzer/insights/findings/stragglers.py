"""A task that took much longer than the others of its stage."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import TIME, Match, Rule, Threshold, more, rows_of
from tailrace.analyzer.util.formatting import time_text

LEAST = Threshold(1, "% of the makespan")
SIBLINGS = Threshold(5, "tasks in the stage")
FAR = 3.5
"""Of the modified z-score, from which on Iglewicz and Hoaglin call a value an outlier."""
_MAD_TO_SIGMA = 0.6745


def find(found: Analyses) -> Iterator[Match]:
    """All such tasks, as one match."""
    inputs, tasks = found.inputs, found.critical.tasks
    stage = inputs.tasks["stage_code"].to_numpy()
    tagged = (inputs.tasks["task"] != "").to_numpy() & inputs.works
    tagged &= (np.bincount(stage[tagged], minlength=len(inputs.stages)) >= SIBLINGS.value)[stage]
    if not tagged.any():
        return
    rows = tasks.assign(stage_code=stage, task=np.arange(len(tasks)))[tagged]
    work = rows.groupby("stage_code")["work_ns"]
    median = work.transform("median")
    spread = (rows["work_ns"] - median).abs().groupby(rows["stage_code"]).transform("median")
    far = (rows["work_ns"] - median) * _MAD_TO_SIGMA > FAR * spread
    late = far & (work.transform("size") >= SIBLINGS.value) & rows["critical"] & (rows["work_ns"] > 1.5 * median)
    rows = rows.assign(median_ns=median.astype(np.int64))[late]
    rows["gain_ns"] = np.minimum(rows["work_ns"] - rows["median_ns"], rows["path_ns"])
    rows = rows[rows["gain_ns"] > 0].sort_values("gain_ns", ascending=False, kind="stable")
    if not len(rows) or not LEAST.reached(int(rows["gain_ns"].sum()), inputs.makespan_ns):
        return
    top = rows.iloc[0]
    task, took, usual = int(top["task"]), int(top["work_ns"]), int(top["median_ns"])
    compared = (
        f", {took / usual:.1f} times as long as the median of its stage ({time_text(usual)}),"
        if usual
        else ", while more than half of the tasks of its stage did no work,"
    )
    row = inputs.tasks.iloc[task]
    yield Match(
        title=f"{inputs.called(task)} worked {time_text(took)}{compared} and the critical path goes through it"
        f"{more(len(rows))}",
        names={"task": "/".join(part for part in (str(row["workflow"]), str(row["task"])) if part)},
        cost_ns=int(rows["gain_ns"].sum()),
        estimate=True,
        count=len(rows),
        evidence=rows_of(
            rows.assign(task=[inputs.called(int(one)) for one in rows["task"]])[
                ["task", "work_ns", "median_ns", "path_ns", "gain_ns"]
            ]
        ),
        tasks=set(np.flatnonzero(np.isin(stage, rows["stage_code"]))),
    )


RULE = Rule(
    kind="straggler",
    about=TIME,
    title="A task that took much longer than the others of its stage",
    definition=(
        "A task on the critical path of a stage with five tasks or more worked more than 1.5 times the median of them,"
        f" and its modified z-score (by the median of the deviations from the median) is above {FAR:g}. Time in which"
        " it was blocked by others does not count. The gain is what it worked longer than the median, at most its part"
        " of the critical path."
    ),
    advice=(
        "`tailrace task` says what sets it apart from its stage (input, host, I/O). Give it less, split it, or start it"
        " first."
    ),
    source="Iglewicz and Hoaglin 1993 (outliers); Xu et al. 2017 (DXT: ranks that lag)",
    query="tailrace.open({run}).task({task})",
    find=find,
    thresholds=(SIBLINGS, LEAST),
)
