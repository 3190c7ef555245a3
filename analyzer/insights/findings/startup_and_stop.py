"""The time that a workflow manager takes before the first task and after the last one."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import NOTE, Match, Rule, Threshold
from tailrace.analyzer.util.formatting import time_text

LEAST = Threshold(10, "% of the makespan")


def find(found: Analyses) -> Iterator[Match]:
    """Both, as one match."""
    parts, makespan = found.critical.parts, found.inputs.makespan_ns
    startup, stop = parts["startup"], parts["stop"]
    if LEAST.reached(startup + stop, makespan):
        yield Match(
            title=f"The run took {time_text(startup)} before its first task began, and {time_text(stop)} after its last"
            f" one was over, of {time_text(makespan)}",
            cost_ns=startup + stop,
        )


RULE = Rule(
    kind="start-up and stop",
    about=NOTE,
    title="Time before the first task and after the last one",
    definition=(
        "Between the first event of the run and the first event of a task, and between the end of the last task and"
        " the last event of the run: the program's own work, and the start and stop of the workflow manager and its"
        " workers. It does not grow with the number of tasks."
    ),
    advice="It is the price of a run, not of a task: run more tasks in one run, or keep workers running between runs.",
    source="Yang and Miller 1988 (critical path of parallel programs)",
    query="tailrace.open({run}).insights().critical.parts",
    find=find,
    thresholds=(LEAST,),
)
