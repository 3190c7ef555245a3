"""A read during a write of the same bytes."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.conflicts import DURING
from tailrace.analyzer.insights.finding import RACE, Match, Rule
from tailrace.analyzer.insights.findings import _races


def find(found: Analyses) -> Iterator[Match]:
    """The conflicts of this kind, as one match."""
    return _races.matches(found, DURING, _words)


def _words(reader: str, writer: str, path: str, amount: str, overlap: bool) -> str:
    return f"{reader} read {amount} of {path} while {writer} wrote the same bytes"


RULE = Rule(
    kind=DURING,
    about=RACE,
    title="A read during a write of the same bytes",
    definition=(
        "A task read bytes of a file while another task wrote them or cut them off, and no fork, exit, wait, pipe or"
        " declared dependency orders the two. What the read returned depends on the moment."
    ),
    advice="Declare the dependency, or write to a temporary name and rename the file when it is complete.",
    source=_races.SOURCE,
    query=_races.QUERY,
    find=find,
    absence=True,
)
