"""Unordered accesses of the same bytes by tasks that could not overlap in this run."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.conflicts import WRITERS
from tailrace.analyzer.insights.finding import ORDER, Match, Rule
from tailrace.analyzer.insights.findings import _races
from tailrace.analyzer.util.formatting import bytes_text
from tailrace.analyzer.util.types import Row


def find(found: Analyses) -> Iterator[Match]:
    """All such conflicts, as one match."""
    rows = found.conflicts.rows
    return _races.of_rows(found, rows[rows["in_time"].astype(bool) & ~rows["ranks"].astype(bool)], _title)


def _title(top: Row) -> str:
    amount, path = bytes_text(int(top["bytes"])), str(top["path"])
    did = (
        "and {second} wrote the same {amount} of {path}"
        if top["kind"] == WRITERS
        else ("read {amount} of {path} that {second} wrote later")
    )
    words = did.format(second=top["second"], amount=amount, path=path)
    return f"{top['first']} {words}; in order this time: one was submitted after the other had ended"


RULE = Rule(
    kind="same bytes, in order this time",
    about=ORDER,
    title="Accesses of the same bytes that only the tasks' times order",
    definition=(
        "Two tasks wrote the same bytes of a file, or one had read them before the other wrote them, and nothing"
        " orders the two but that the second was submitted when the first was over, by the workflow manager's clock."
    ),
    advice="Declare which of the two comes first, or write to separate files.",
    source=_races.SOURCE,
    query=_races.QUERY,
    find=find,
    absence=True,
)
