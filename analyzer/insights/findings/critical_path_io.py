"""File I/O on the critical path."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import TIME, Match, Rule, Threshold, rows_of
from tailrace.analyzer.util.formatting import time_text

LEAST = Threshold(1, "% of the makespan")


def find(found: Analyses) -> Iterator[Match]:
    """The I/O of the path, as one match."""
    io, makespan = found.critical.parts["io"], found.inputs.makespan_ns
    if not LEAST.reached(io, makespan):
        return
    by_stage = found.critical.stages.sort_values("io", ascending=False, kind="stable")
    top = by_stage.iloc[0]
    yield Match(
        title=f"File I/O took {time_text(io)} of {time_text(makespan)} on the critical path, most of it in"
        f" {top['stage']} ({time_text(int(top['io']))})",
        cost_ns=io,
        evidence=rows_of(by_stage[["stage", "io", "compute", "stream", "gap"]]),
        tasks={int(task) for task in found.critical.path["task"] if task >= 0},
    )


RULE = Rule(
    kind="critical path I/O",
    about=TIME,
    title="Time on the critical path inside calls on files",
    definition=(
        "The part of the makespan that the tasks of the critical path spent inside reads, writes and metadata calls"
        " of files. I/O beside the path does not count: without it the run would take as long."
    ),
    advice=(
        "Read and write less or in larger calls, or use a faster file system (`tailrace whatif --tier` estimates the"
        " gain)."
    ),
    source="Yang and Miller 1988; Bez et al. 2022 (Drishti)",
    query="tailrace.open({run}).insights().critical.stages.nlargest(5, 'io')",
    find=find,
    thresholds=(LEAST,),
)
