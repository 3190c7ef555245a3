"""Accesses of the same bytes by ranks of a parallel program."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.conflicts import WRITERS
from tailrace.analyzer.insights.finding import ORDER, Match, Rule
from tailrace.analyzer.insights.findings import _races
from tailrace.analyzer.util.formatting import bytes_text
from tailrace.analyzer.util.types import Row


def find(found: Analyses) -> Iterator[Match]:
    """All such pairs, as one match."""
    rows = found.conflicts.rows
    return _races.of_rows(found, rows[rows["ranks"].astype(bool)], _title)


def _title(top: Row) -> str:
    amount, path = bytes_text(int(top["bytes"])), str(top["path"])
    did = (
        f"and {top['second']} wrote the same {amount} of {path}"
        if top["kind"] == WRITERS
        else f"read {amount} of {path} that {top['second']} wrote"
    )
    return f"{top['first']} {did}, two ranks; whether messages between them order that is not recorded"


RULE = Rule(
    kind="same bytes, by ranks",
    about=ORDER,
    title="Accesses of the same bytes by ranks of a parallel program",
    definition=(
        "Two ranks outside of a task wrote the same bytes of a file, or one read what the other wrote before, at the"
        " same time or later, and nothing in the trace orders the two. The messages of MPI, which may, are not"
        " recorded. A rank that writes for others (collective calls) does so in their place. Ranks inside of a task are"
        " taken to be ordered."
    ),
    advice=(
        "See that a message, a barrier or a collective call stands between the two (MPI-4.1, 14.6, file consistency:"
        " MPI_File_sync, MPI_Barrier, MPI_File_sync), or use separate byte ranges."
    ),
    source="MPI-4.1, section 14.6.1 (consistency semantics); " + _races.SOURCE,
    query=_races.QUERY,
    find=find,
    absence=True,
)
