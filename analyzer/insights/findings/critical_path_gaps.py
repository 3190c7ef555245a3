"""Gaps on the critical path."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.critical import REST
from tailrace.analyzer.insights.finding import EVIDENCE, TIME, Match, Row, Rule, Threshold
from tailrace.analyzer.util.formatting import time_text

LEAST = Threshold(1, "% of the makespan")


def find(found: Analyses) -> Iterator[Match]:
    """The gaps of the path, as one match."""
    gap, makespan = found.critical.parts["gap"], found.inputs.makespan_ns
    if not LEAST.reached(gap, makespan):
        return
    longest = int(found.critical.path["gap"].max())
    yield Match(
        title=f"No task ran for {time_text(gap)} of {time_text(makespan)} on the critical path; the longest gap is"
        f" {time_text(longest)}, {_place(found)}",
        cost_ns=gap,
        evidence=_longest(found),
    )


def _pieces(found: Analyses) -> pd.DataFrame:
    """The pieces of the path, those with the longest gaps first."""
    longest: pd.DataFrame = found.critical.path.sort_values("gap", ascending=False, kind="stable")
    return longest


def _place(found: Analyses) -> str:
    """Where the longest gap is."""
    top = _pieces(found).iloc[0]
    if int(top["task"]) >= 0:
        return f"before {found.inputs.called(int(top['task']))}"
    return "after the last task" if top["via"] == REST else "before the first task"


def _longest(found: Analyses) -> list[Row]:
    inputs = found.inputs
    rows: list[Row] = []
    for piece in _pieces(found).head(EVIDENCE).to_dict("records"):
        task, via = int(piece["task"]), str(piece["via"])
        name = inputs.called(task) if task >= 0 else f"({'end' if via == REST else 'start'} of the run)"
        begin = (int(piece["begin_ns"]) - inputs.start_ns) / 1e9
        rows.append({"task": name, "begin_s": begin, "gap_ns": int(piece["gap"]), "via": via})
    return rows


RULE = Rule(
    kind="critical path gaps",
    about=TIME,
    title="Time on the critical path in which no task ran",
    definition=(
        "The part of the makespan between what a task on the critical path was given last and its first event, and"
        " before the first and after the last task: queue, scheduling, start-up of interpreters and workers."
    ),
    advice="Keep workers running between stages, submit tasks earlier, or make tasks fewer and longer.",
    source="Yang and Miller 1988 (critical path of parallel programs)",
    query="tailrace.open({run}).insights().critical.path",
    find=find,
    thresholds=(LEAST,),
)
