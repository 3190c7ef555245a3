"""Undeclared dependencies of workflows whose manager orders tasks by more than it declares."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import NOTE, Match, Rule
from tailrace.analyzer.insights.findings import _undeclared
from tailrace.analyzer.model.order import UNTOLD


def find(found: Analyses) -> Iterator[Match]:
    """All such dependencies, as one match."""
    words = "; {manager} declares only {declares}, so whether it orders the two is not known"
    yield from _undeclared.matches(found, UNTOLD, words)


RULE = Rule(
    kind="undeclared, order not told",
    about=NOTE,
    title="Data passed between tasks that their manager may order without saying so",
    definition=(
        "A task read what another task wrote, and no dependency is declared, in a workflow whose manager declares only"
        " some: values that pass from task to task order them, too, and what is kept of the workflow does not have"
        " them. The reader began when the writer was over, as where such a value passed. Where the manager tells"
        " between which stages values pass, only tasks of those are meant."
    ),
    advice="Where the reader must wait for the writer, let the manager pass the file, in what it declares.",
    source=_undeclared.SOURCE,
    query=_undeclared.QUERY,
    find=find,
    absence=True,
)
