"""An undeclared dependency of tasks that overlapped, or could have."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import RACE, Match, Rule
from tailrace.analyzer.insights.findings import _undeclared
from tailrace.analyzer.model.order import NONE


def find(found: Analyses) -> Iterator[Match]:
    """All undeclared dependencies that nothing orders, as one match."""
    yield from _undeclared.matches(found, NONE, ", but no dependency is declared and nothing orders them")


RULE = Rule(
    kind="undeclared dependency",
    about=RACE,
    title="Data passed between tasks that nothing orders",
    definition=(
        "A task read what another task wrote. No declared dependency, direct or over other tasks, puts the writer"
        " first, the submitting program did not wait for it, and the reader was submitted before the writer was"
        " over: in this run the order was right by chance; or the reader was over before the writer's last write, and"
        " what came later is missing from its result. Tasks of a run that declares nothing are not reported."
    ),
    advice="Declare the dependency: with another schedule the consumer starts before its data exists.",
    source=_undeclared.SOURCE,
    query=_undeclared.QUERY,
    find=find,
    absence=True,
)
