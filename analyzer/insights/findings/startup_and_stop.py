"""The time that a workflow manager takes before the first task and after the last one."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import NOTE, Match, Rule, Threshold
from tailrace.analyzer.model import outcomes
from tailrace.analyzer.util.formatting import count_text, time_text

LEAST = Threshold(50, "% of the makespan")


def find(found: Analyses) -> Iterator[Match]:
    """Both, as one match."""
    parts, makespan = found.critical.parts, found.inputs.makespan_ns
    startup, stop = parts["startup"], parts["stop"]
    if LEAST.reached(startup + stop, makespan):
        open_ = outcomes.unended(found.inputs.tables.get("outcomes"))
        last = (
            f"the last call of a task, of {time_text(makespan)}; when the last task was over is not known, since"
            f" {count_text(open_, 'task')} that had begun {'has' if open_ == 1 else 'have'} no declared end"
            if open_
            else f"its last one was over, of {time_text(makespan)}"
        )
        yield Match(
            title=f"The run took {time_text(startup)} before its first task began, and {time_text(stop)} after {last}",
            cost_ns=startup + stop,
        )


RULE = Rule(
    kind="start-up and stop",
    about=NOTE,
    title="Time before the first task and after the last one",
    definition=(
        "Between the first event of the run and the first event of a task, and between the end of the last task and"
        " the last event of the run: the program's own work, and the start and stop of the workflow manager and its"
        " workers. A task without a recorded call counts by its manager's times. It does not grow with the number of"
        " tasks."
    ),
    advice="It is the price of a run, not of a task: run more tasks in one run, or keep workers running between runs.",
    source="Yang and Miller 1988 (critical path of parallel programs)",
    query="tailrace.open({run}).insights().critical.parts",
    find=find,
    thresholds=(LEAST,),
)
