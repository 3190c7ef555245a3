"""Accesses that could not be checked for conflicts."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import QUALITY, Match, Rule
from tailrace.analyzer.util.formatting import count_text


def find(found: Analyses) -> Iterator[Match]:
    """All such pairs, as one match."""
    count = found.conflicts.unknown + found.conflicts.unchecked
    if count:
        yield Match(
            title=f"{count_text(count, 'pair')} of accesses could not be checked for conflicts: bytes or times"
            " not exactly known, or too many pairs",
            count=count,
        )


RULE = Rule(
    kind="unchecked accesses",
    about=QUALITY,
    title="Accesses that could not be checked for conflicts",
    definition=(
        "Two tasks accessed one file, one of them writing, and which bytes or when is not exactly known (offsets that"
        " are not, mapped files, lines of totals), or the run has more such accesses than are read again and compared"
        " (`MAX_PAIRS`, `MAX_WALKED` and `MAX_EVENTS` in analyzer/insights/conflicts.py)."
    ),
    advice="Make sure that a dependency orders these tasks, or that they use separate files.",
    source="The limits of the conflict analysis",
    query="(c := tailrace.open({run}).insights().conflicts).unknown + c.unchecked",
    find=find,
)
