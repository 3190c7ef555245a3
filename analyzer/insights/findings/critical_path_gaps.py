"""Gaps on the critical path."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import EVIDENCE, GAPS, LEAST, TIME, Match, Row, Rule, Threshold
from tailrace.analyzer.model import outcomes
from tailrace.analyzer.util import intervals
from tailrace.analyzer.util.formatting import time_text

LEAST_MS = Threshold(50, "ms in all")
"""About what the start of one interpreter takes: in a run of a few programs that is all the gap there is. Where no
manager starts the tasks, a shorter gap is the start of the next program, however many there are."""

UNMANAGED = (
    "Look at what the script that starts the programs does in between (sleeping, waiting, computing of its own), start"
    " a program as soon as its input is there, and make programs fewer and longer."
)
"""The advice where no workflow manager starts the tasks."""
LATE = (
    "Where a program or script of yours submits them, submit them with their dependencies, before those are over, and"
    " many at once: a command for each task takes the time of its start."
)
"""The advice where tasks were submitted after all that they waited for was over."""
LATE_BY_MANAGER = (
    "The workflow manager submits a task when it has seen that those before it are over: let it look more often, and"
    " make tasks fewer and longer."
)
"""The same where no program of the user's submits them."""
PREPARED = (
    "See what the manager does for a task before it begins: link inputs in place of copying them, stage a common one"
    " once, keep containers and environments ready."
)
"""The advice where the next task had its place, and what its manager starts for it (a wrapper that stages) ran."""
PREPARING = "(staging in, a container, a prolog)"
SHORT = "Make tasks fewer and longer: give each a batch of what they take one by one."
"""The advice where tasks are short beside the gaps before them."""
MANY = 50
"""Gaps, from which on they are no matter of single tasks."""
RETRY = "Mend what made the try fail, or have the workflow manager wait for less before the next one."
"""The advice where the longest gap is between a try that failed and the next one."""


def find(found: Analyses) -> Iterator[Match]:
    """The gaps of the path, as one match."""
    gaps, makespan = found.critical.path["gap"].to_numpy(dtype=np.int64), found.inputs.makespan_ns
    gap = int(gaps.sum() if found.inputs.managed else gaps[gaps >= LEAST_MS.value * 1e6].sum())
    if not LEAST.reached(gap, makespan) or gap < LEAST_MS.value * 1e6:
        return
    late, prepared = _not_submitted(found), _prepared(found)
    mostly, is_prepared = late > gap / 2, prepared > gap / 2
    tasks = {int(task) for task in found.critical.path["task"] if task >= 0}
    nobody = "No task" if (found.inputs.tasks["task"] != "").to_numpy()[list(tasks)].any() else "No process"
    submits = LATE_BY_MANAGER if found.inputs.of_manager.any() else LATE
    short = _short_tasks(found)
    named = {
        RETRY: _is_pause(found),
        PREPARED: is_prepared,
        SHORT: short != "",
        submits: mostly,
        UNMANAGED: not found.inputs.managed,
    }
    yield Match(
        title=f"{nobody} on the critical path made a call for {time_text(gap)} of {time_text(makespan)};"
        f" {short or _longest_gap(found)}"
        + (f"; for {time_text(late)} the next task had not been submitted" if mostly else "")
        + (f"; for {time_text(prepared)} its manager prepared the next task {PREPARING}" if is_prepared else ""),
        cost_ns=gap,
        advice=next((advice for advice, fits in named.items() if fits), ""),
        evidence=_evidence(found),
        tasks=tasks,
    )


def _not_submitted(found: Analyses) -> int:
    """How long tasks of the path could have begun, if they had been submitted, ns."""
    submitted, names = found.inputs.order.submitted, outcomes.task_keys(found.inputs.tasks)
    late = 0
    for piece in found.critical.path.query("task >= 0 and gap > 0").to_dict("records"):
        at = submitted.get(names[piece["task"]], 0)
        late += min(max(at - int(piece["begin_ns"]), 0), int(piece["gap"]))
    return late


def _prepared(found: Analyses) -> int:
    """How long tasks of the path had their place (`t_alloc_ns`) before their first call, ns."""
    table = found.inputs.tables.get("declared_tasks")
    if table is None or "t_alloc_ns" not in table:
        return 0
    told = table[table["t_alloc_ns"].notna()]
    began = dict(zip(outcomes.task_keys(told.fillna({"workflow": ""})), told["t_alloc_ns"].astype(int), strict=True))
    names, ns = outcomes.task_keys(found.inputs.tasks), 0
    for piece in found.critical.path.query("task >= 0 and gap > 0").to_dict("records"):
        if alloc := began.get(names[piece["task"]]):
            until = int(piece["begin_ns"]) + int(piece["gap"])
            ns += min(max(until - alloc, 0), int(piece["gap"]))
    return ns


def _pieces(found: Analyses) -> pd.DataFrame:
    """The pieces of the path, those with the longest gaps first."""
    longest: pd.DataFrame = found.critical.path.sort_values("gap", ascending=False, kind="stable")
    return longest


def _is_pause(found: Analyses) -> bool:
    """Whether most of the longest gap is between tries of its task."""
    top = _pieces(found).iloc[0]
    if int(top["task"]) < 0:
        return False
    pauses = intervals.cover(found.inputs.pauses, len(found.inputs.tasks))
    piece = (np.array([top[name]], dtype=np.int64) for name in ("task", "begin_ns", "end_ns"))
    return int(pauses.inside(*piece)[0]) > int(top["gap"]) / 2


def _short_tasks(found: Analyses) -> str:
    """The words for many tasks that are shorter than the gaps before them; "": there are none."""
    rows = found.critical.path.query("task >= 0 and gap > 0")
    lasted = rows["end_ns"] - rows["begin_ns"] - rows["gap"]
    if not found.inputs.managed or len(rows) < MANY or lasted.median() > rows["gap"].median():
        return ""
    gap, own = (time_text(int(part.median())) for part in (rows["gap"], lasted))
    return f"it is {gap} (median) before each of {len(rows):,} tasks, which ran for {own} (median)"


def _longest_gap(found: Analyses) -> str:
    """How long the longest gap is, and where."""
    top = _pieces(found).iloc[0]
    task, gap = int(top["task"]), time_text(int(top["gap"]))
    before = "between tries of" if _is_pause(found) else "before"
    place = f"{before} {found.inputs.called(task)}" if task >= 0 else _outside(found, int(top["begin_ns"]))
    return f"the longest gap is {gap}, {place}"


def _outside(found: Analyses, begin_ns: int) -> str:
    """Where a gap is that is before no task."""
    ran = found.critical.path.query("task >= 0")["begin_ns"]
    is_late = len(ran) > 0 and begin_ns > int(ran.min())
    return f"{'after the last' if is_late else 'before the first'} task of the path"


def _evidence(found: Analyses) -> list[Row]:
    inputs = found.inputs
    rows: list[Row] = []
    for piece in _pieces(found).query("gap > 0").head(EVIDENCE).to_dict("records"):
        task, via = int(piece["task"]), str(piece["via"])
        name = inputs.called(task) if task >= 0 else f"({_outside(found, int(piece['begin_ns']))})"
        begin = (int(piece["begin_ns"]) - inputs.start_ns) / 1e9
        rows.append({"task": name, "begin_s": begin, "gap_ns": int(piece["gap"]), "via": via})
    return rows


RULE = Rule(
    kind=GAPS,
    about=TIME,
    title="Time between the tasks of the critical path",
    definition=(
        "The part of the makespan between what a task on the critical path was given last and its first call: queue,"
        " scheduling, start-up of interpreters, and what a task computes before its first call. It may be the time of"
        " tasks without a recorded call, which are on no path. Where no manager starts the tasks, gaps of less than"
        f" {LEAST_MS.value:g} ms are the start of programs, and don't count. Start-up before the first task and the"
        " stop after the last one are no gaps."
    ),
    advice="Keep workers running between stages, submit tasks earlier, or make tasks fewer and longer.",
    source="Yang and Miller 1988 (critical path of parallel programs)",
    query="tailrace.open({run}).insights().critical.path",
    find=find,
    thresholds=(LEAST, LEAST_MS),
    change="no time between tasks",
)
