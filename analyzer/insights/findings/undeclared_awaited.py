"""Undeclared dependencies that the submitting program ordered by waiting."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import NOTE, Match, Rule
from tailrace.analyzer.insights.findings import _undeclared
from tailrace.analyzer.model.order import AWAITED


def find(found: Analyses) -> Iterator[Match]:
    """All such dependencies, as one match."""
    words = "; undeclared, but awaited: {producer} had been waited for before {consumer} was submitted"
    yield from _undeclared.matches(found, AWAITED, words)


RULE = Rule(
    kind="undeclared, but awaited",
    about=NOTE,
    title="Data passed between tasks that the submitting program ordered by waiting",
    definition=(
        "A task read what another task wrote, and no dependency is declared. The program that submitted the two had"
        " waited for the writer before it submitted the reader: it took its result or waited for its future, or a"
        " shell waited for the command that ran it. That is an order, and no race. The workflow manager does not know"
        " it: when a resumed or memoized workflow leaves the writer out, or runs it again, the reader does not follow."
    ),
    advice="Declare the dependency where the workflow is to be resumed, reordered or run in parallel.",
    source=_undeclared.SOURCE,
    query=_undeclared.QUERY,
    find=find,
    absence=True,
)
