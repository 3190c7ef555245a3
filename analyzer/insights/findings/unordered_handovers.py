"""Hand-overs whose times contradict each other."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import QUALITY, Match, Rule
from tailrace.analyzer.util.formatting import count_text


def find(found: Analyses) -> Iterator[Match]:
    """All hand-overs that the critical path leaves out, as one match."""
    count = found.inputs.unresolved + found.critical.dropped
    if count:
        are = "is" if count == 1 else "are"
        yield Match(
            title=f"{count_text(count, 'hand-over')} with contradictory times {are} left out of the critical path",
            count=count,
        )


RULE = Rule(
    kind="unordered hand-overs",
    about=QUALITY,
    title="Hand-overs whose times contradict each other",
    definition=(
        "By the clocks, a task took something before another task gave it, or tasks gave to each other in a circle"
        " at one moment. Such hand-overs are left out of the critical path."
    ),
    advice="Check the clocks of the hosts, and files that several tasks write at the same time.",
    source="A cause precedes its effect (Lamport 1978)",
    query="(i := tailrace.open({run}).insights()).inputs.unresolved + i.critical.dropped",
    find=find,
)
