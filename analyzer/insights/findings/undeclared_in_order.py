"""Undeclared dependencies of tasks that could not overlap in this run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import ORDER, Match, Rule
from tailrace.analyzer.insights.findings import _undeclared
from tailrace.analyzer.model import outcomes
from tailrace.analyzer.model.order import IN_TIME


def find(found: Analyses) -> Iterator[Match]:
    """All such dependencies, as one match."""
    words = "; undeclared, but in order this time: {consumer} was submitted after {producer} had ended"
    for match in _undeclared.matches(found, IN_TIME, words):
        yield replace(match, advice=WAITED) if _may_wait(found) else match


def _may_wait(found: Analyses) -> bool:
    """Whether each writer was submitted by a command that waited for it, and who ran that command is not known."""
    tasks, rows = found.inputs.tables.get("declared_tasks"), found.declared.undeclared
    if tasks is None or "submitter" not in tasks:
        return False
    waits = [isinstance(one, dict) and one.get("waits") is True for one in tasks["submitter"]]
    known = set(outcomes.task_keys(tasks[waits].assign(workflow=tasks["workflow"].fillna(""))))
    rows = rows[rows["order"] == IN_TIME]
    return known.issuperset(zip(rows["workflow"], rows["producer"], strict=True))


WAITED = (
    "Declare the dependency, or trace the script that submits them, too: the commands that submitted the writers wait"
    " for their tasks (as `flux run`), so where a script runs them one after the other, the order holds."
)

RULE = Rule(
    kind="undeclared, in order this time",
    about=ORDER,
    title="Data passed between tasks that only their times order",
    definition=(
        "A task read what another task wrote, and no dependency is declared. The reader was submitted when the writer"
        " was over, by the workflow manager's clock, so the two could not overlap in this run. That the program"
        " waited for the writer is not known: a loop that submits slowly looks the same."
    ),
    advice="Declare the dependency, or wait for the writer in the program: a slower writer would make it a race.",
    source=_undeclared.SOURCE,
    query=_undeclared.QUERY,
    find=find,
    absence=True,
)
