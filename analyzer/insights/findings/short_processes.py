"""Many processes that live for a few milliseconds."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.access_costs import SHORT_NS
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import GAPS, LEAST, TIME, Match, Rule, Threshold, rows_of
from tailrace.analyzer.util.formatting import time_text

PROCESSES = Threshold(100, "processes")


def find(found: Analyses) -> Iterator[Match]:
    """All programs, as one match."""
    rows, cost = found.access_costs.processes, found.access_costs.processes_gain_ns
    if not len(rows) or rows["processes"].sum() < PROCESSES.value:
        return
    if not LEAST.reached(cost, found.inputs.makespan_ns):
        return
    named = ", ".join(f"{row['processes']:,} of {row['program']}" for _, row in rows.head(3).iterrows())
    yield Match(
        title=f"{int(rows['processes'].sum()):,} processes lived {time_text(SHORT_NS)} or less, together"
        f" {time_text(cost)} of the run: {named}" + (", ..." if len(rows) > 3 else ""),
        cost_ns=cost,
        estimate=True,
        count=int(rows["processes"].sum()),
        evidence=rows_of(rows),
        tasks=found.every_task,
    )


RULE = Rule(
    kind="short processes",
    about=TIME,
    title="Many processes that do little but start and end",
    definition=(
        f"{PROCESSES} or more made calls for {time_text(SHORT_NS)} or less. The estimate is the time in which at least"
        " one of them lived, from its parent's fork to its parent's wait: an upper bound of what doing their work in"
        " few processes would save."
    ),
    advice=(
        "Give one process many items: `xargs`, `find -exec ... +`, the shell's own commands in place of programs, or a"
        " loop inside of the program; group short tasks into one."
    ),
    source="fork(2), execve(2): a process maps its libraries and looks up their names before it works",
    query="tailrace query {run} --name execve --by path --agg count",
    find=find,
    thresholds=(PROCESSES, LEAST),
    change="one process for many",
    explains=(GAPS,),
)
