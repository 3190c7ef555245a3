"""A read before an unordered write of the same bytes."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.conflicts import BEFORE
from tailrace.analyzer.insights.finding import RACE, Match, Rule
from tailrace.analyzer.insights.findings import _races


def find(found: Analyses) -> Iterator[Match]:
    """The conflicts of this kind, as one match."""
    return _races.matches(found, BEFORE, _words)


def _words(reader: str, writer: str, path: str, amount: str, overlap: bool) -> str:
    return f"{reader} read {path} before {writer} wrote {amount} there, and nothing orders the two"


RULE = Rule(
    kind=BEFORE,
    about=RACE,
    title="A read before an unordered write of the same bytes",
    definition=(
        "A task had read bytes of a file, or found the end of one that another task wrote, before that other task wrote"
        " them or cut them off, and nothing orders the two. With another schedule the read would have returned other"
        " bytes. Of a task that read the first bytes of a file that another one wrote in order, it says of how many;"
        " where a manager declared the tasks, that is an undeclared dependency."
    ),
    advice="Declare which of the two comes first, or give the two states of the file different names.",
    source=_races.SOURCE,
    query=_races.QUERY,
    find=find,
    absence=True,
)
