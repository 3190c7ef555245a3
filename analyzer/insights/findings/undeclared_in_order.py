"""Undeclared dependencies of tasks that could not overlap in this run."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import ORDER, Match, Rule
from tailrace.analyzer.insights.findings import _undeclared
from tailrace.analyzer.model.order import IN_TIME


def find(found: Analyses) -> Iterator[Match]:
    """All such dependencies, as one match."""
    words = "; undeclared, but in order this time: {consumer} was submitted after {producer} had ended"
    yield from _undeclared.matches(found, IN_TIME, words)


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
