"""Tasks of the critical path that sleep in a loop, for nothing that another task made."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import EVIDENCE, LEAST, TIME, Match, Row, Rule, Threshold, more
from tailrace.analyzer.insights.polls import SLEEPS, Loop
from tailrace.analyzer.util.formatting import time_text

CALLS = Threshold(SLEEPS, "sleeps in a row")
REFUSED = (
    "Nobody listens there: start the server before, or tell the program not to use it; where the server is about to"
    " come, let it tell when it is ready."
)
"""The advice where the loop is for a server that refuses."""


def find(found: Analyses) -> Iterator[Match]:
    """All such tasks, as one match."""
    inputs = found.inputs
    loops = {loop.task: loop for loop in found.loops if loop.maker < 0 and loop.looks >= CALLS.value}
    on_path = found.waits.on_path(found.critical.path, {task: loop.times for task, loop in loops.items()})
    rows = sorted(((ns, loops[task]) for task, ns in on_path.items()), key=lambda row: -row[0])
    cost = min(sum(ns for ns, _ in rows), inputs.makespan_ns)
    if not LEAST.reached(cost, inputs.makespan_ns):
        return
    top = rows[0][1]
    yield Match(
        title=f"{_words(found, top)}{more(len(rows))}",
        advice=REFUSED if top.connects and top.absent else "",
        names={"task": found.of_task(top.task)},
        cost_ns=cost,
        estimate=True,
        count=len(rows),
        evidence=[
            Row(task=inputs.called(loop.task), path=loop.path, sleeps=loop.looks, slept_ns=loop.slept_ns)
            for _, loop in rows[:EVIDENCE]
        ],
        tasks={loop.task for _, loop in rows},
        where=f"in {inputs.called(top.task)}",
    )


def _words(found: Analyses, loop: Loop) -> str:
    name, slept, times = found.inputs.called(loop.task), time_text(loop.slept_ns), f"{loop.looks:,} times"
    if not loop.path:
        return f"{name} slept {times} in a row, {slept}, and looked at nothing that is recorded in between"
    if loop.connects:
        tries = f"{loop.looks + loop.gave_up:,} times{' (refused)' if loop.absent else ''}"
        return f"{name} tried to connect to {loop.path} {tries} and slept {slept} in between"
    if loop.absent:
        return f"{name} looked for {loop.path} {times} and slept {slept} in between; no task of the run made it"
    return f"{name} looked at {loop.path} {times} and slept {slept} in between"


RULE = Rule(
    kind="sleep loop",
    about=TIME,
    title="Tasks that sleep in a loop",
    definition=(
        f"A task of the critical path did nothing but sleep, {CALLS} or more, with at most a look at something between"
        " two of them, and no task of the run made what it looked for. The estimate is that time on the critical path:"
        " an upper bound, since what it waits for may take as long."
    ),
    advice=(
        "Wait for the thing itself: `wait` for a process, a read of a pipe or socket, inotify for a file, a dependency"
        " of the manager; or give up sooner where it may never come."
    ),
    source="sleep(3), inotify(7)",
    query="tailrace query {run} {task} --cat WAIT --by name --agg count --agg sum:calls --agg sum:dur",
    find=find,
    thresholds=(CALLS, LEAST),
    change="waiting without sleep",
    absence=True,
)
