"""Tasks that wait for others by looking for a file again and again."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import EVIDENCE, IO, LEAST, ORDER, Match, Row, Rule, Threshold, more
from tailrace.analyzer.insights.polls import TRIES, Loop
from tailrace.analyzer.util import intervals
from tailrace.analyzer.util.formatting import count_text, time_text

LOOKS = Threshold(TRIES, "looks with a sleep after each")


def find(found: Analyses) -> Iterator[Match]:
    """All such tasks, as one match."""
    inputs = found.inputs
    rows = [loop for loop in found.loops if loop.maker >= 0 and loop.maker != loop.task]
    rows = [loop for loop in rows if LEAST.reached(loop.slept_ns, inputs.makespan_ns)]
    if not rows:
        return
    top = rows[0]
    yield Match(
        title=_words(found, top) + more(len(rows)),
        names={"task": found.of_task(top.task), "path": top.path},
        cost_ns=min(_late(found, rows), inputs.makespan_ns),
        estimate=True,
        count=len(rows),
        evidence=[
            Row(
                task=inputs.called(loop.task),
                path=loop.path,
                looks=loop.looks,
                slept_ns=loop.slept_ns,
                maker=inputs.called(loop.maker),
            )
            for loop in rows[:EVIDENCE]
        ],
        tasks={task for loop in rows for task in (loop.task, loop.maker)},
    )


def _late(found: Analyses, rows: list[Loop]) -> int:
    """For how long tasks slept on the critical path when what they looked for was made."""
    after = {loop.task: intervals.subtract(loop.times, np.array([[0, loop.made_ns]], dtype=np.int64)) for loop in rows}
    return sum(found.waits.on_path(found.critical.path, after).values())


def _words(found: Analyses, loop: Loop) -> str:
    inputs = found.inputs
    name, maker = inputs.called(loop.task), inputs.called(loop.maker)
    what, made = ("for", "made it") if loop.absent else ("at", "made the last thing there")
    when = time_text(max(loop.made_ns - inputs.start_ns, 0))
    after = time_text(max(int(loop.times[-1, 1]) - loop.made_ns, 0))
    return (
        f"{name} looked {what} {loop.path} {count_text(loop.looks, 'time')} and slept {time_text(loop.slept_ns)} in"
        f" between; {maker} {made} {when} into the run, and {name} went on {after} later; nothing but that loop orders"
        " the two"
    )


RULE = Rule(
    kind="polling",
    about=ORDER,
    title="Tasks that wait for others by looking for a file again and again",
    definition=(
        f"A task looked at a path again and again ({LOOKS}; fewer where it was"
        " not there, and was at the next look) and did nothing but sleep in between, for at least"
        f" {LEAST}, until another task made it, or made something in it. The task that makes it is what takes the time;"
        " the estimate is for how long the loop slept on the critical path when it was made: a bound."
        " The loop holds a worker or a processor's slot meanwhile, and the file may be there before it is complete."
    ),
    advice=(
        "Declare that the one task depends on the other, or start it when the other one is over (a rule of make, a"
        " manager's dependency, `wait`); where it has to be a file, write it under another name and rename it when it"
        " is complete."
    ),
    source="Reasoning: order that is not declared is not kept by a manager, and is not seen to be missing",
    query="tailrace query {run} {task} --path {path} --by name,errno --agg count --agg sum:dur",
    find=find,
    thresholds=(LOOKS, LEAST),
    explains=(IO,),
)
