"""Unordered writes of the same bytes."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.conflicts import WRITERS
from tailrace.analyzer.insights.finding import RACE, Match, Rule
from tailrace.analyzer.insights.findings import _races


def find(found: Analyses) -> Iterator[Match]:
    """The conflicts of this kind, as one match."""
    return _races.matches(found, WRITERS, _words)


def _words(first: str, second: str, path: str, amount: str, overlap: bool) -> str:
    when = "at the same time" if overlap else "one after the other"
    return f"{first} and {second} wrote the same {amount} of {path} {when}, and nothing orders them"


RULE = Rule(
    kind=WRITERS,
    about=RACE,
    title="Unordered writes of the same bytes",
    definition=(
        "Two tasks wrote the same bytes of a file and nothing orders them. Which of the two stays depends on the"
        " schedule, also where they ran one after the other in this run. Writes that each lie in a hold of the same"
        " lock (fcntl, flock, a lock file) are kept apart by it. A file that both have open to append, or from a common"
        " ancestor, as a log that is their standard output, is none of these: the kernel gives each write bytes of its"
        " own."
    ),
    advice="Write to separate files or byte ranges, lock them, or declare which of the two comes first.",
    source=_races.SOURCE,
    query=_races.QUERY,
    find=find,
    absence=True,
)
