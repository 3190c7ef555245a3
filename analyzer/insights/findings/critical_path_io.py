"""File I/O on the critical path."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import IO, TIME, Match, Rule, Threshold, rows_of
from tailrace.analyzer.util.formatting import time_text

MUCH = Threshold(25, "% of the makespan")
"""Less is told in the run's account of time; this is for what no other rule explains."""


def find(found: Analyses) -> Iterator[Match]:
    """The I/O of the path, as one match."""
    by_stage = _by_stage(found)
    io, makespan = int(by_stage["io"].sum()), found.inputs.makespan_ns
    parts = found.critical.parts
    if not MUCH.reached(io, makespan) or io < max(parts["compute"] - found.critical.unknown_ns, parts["ready"]):
        return
    top = by_stage.iloc[0]
    yield Match(
        title=f"File I/O took {time_text(io)} of {time_text(makespan)} on the critical path, most of it in"
        f" {top['stage']} ({time_text(int(top['io']))})",
        cost_ns=io,
        evidence=rows_of(by_stage),
        names={"stage": found.of_stage(str(top["stage"]))},
        tasks={int(task) for task in found.critical.path["task"] if task >= 0},
        where=f"for {top['stage']}",
    )


def _by_stage(found: Analyses) -> pd.DataFrame:
    """stage, io: time of the path in calls on files, without that in which programs load themselves; the most first."""
    inputs = found.inputs
    in_calls, _ = found.start_ups.in_calls(inputs.m, edge_table.FILES)
    loading = np.zeros(len(inputs.tasks), dtype=np.int64)
    np.add.at(loading, inputs.of_who, in_calls)
    path = found.critical.path
    io = path[path["task"] >= 0].groupby("task")["io"].sum()
    tasks = io.index.to_numpy(dtype=np.int64)
    stages = inputs.stages["stage"].to_numpy()[inputs.tasks["stage_code"].to_numpy(dtype=np.int64)[tasks]]
    rows = pd.DataFrame({"stage": stages, "io": np.maximum(io.to_numpy(dtype=np.int64) - loading[tasks], 0)})
    sums = rows.groupby("stage", as_index=False)["io"].sum()
    result: pd.DataFrame = sums.sort_values("io", ascending=False, kind="stable", ignore_index=True)
    return result


RULE = Rule(
    kind=IO,
    about=TIME,
    title="Time on the critical path inside calls on files",
    definition=(
        "The part of the makespan that the tasks of the critical path spent inside reads, writes and metadata calls"
        " of files, but for those by which programs load themselves. I/O beside the path does not count: without it"
        " the run would take as long. It is told where computing, or waiting for a processor, takes less, and no other"
        " finding explains most of it."
    ),
    advice=(
        "Read and write less, or use a faster file system (`tailrace whatif --tier` estimates the gain for reads and"
        " writes; metadata calls it leaves as they are)."
    ),
    source="Yang and Miller 1988; Bez et al. 2022 (Drishti)",
    query="tailrace query {run} {stage} --by name,path --agg sum:size --agg sum:dur --sort sum_dur --limit 10",
    find=find,
    thresholds=(MUCH,),
    change="faster storage",
)
