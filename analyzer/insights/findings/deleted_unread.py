"""Files that were written, then deleted unread."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import FLOOR, SPACE, Match, Rule
from tailrace.analyzer.insights.findings import _files


def find(found: Analyses) -> Iterator[Match]:
    """All such files, as one match."""
    files = found.lifetime.files
    return _files.matches(
        found,
        files[files["never_read"] & files["removed"]],
        "written_bytes",
        "{files} written, then deleted unread ({bytes}); the largest is {path} ({most})",
        absent=True,
    )


RULE = Rule(
    kind="written, then deleted unread",
    about=SPACE,
    title="Files written, then deleted without a reader",
    definition="A data file was written and removed in the run, and no other task than its writer read it.",
    advice="Do not write them: switch the output off, or keep the data in memory.",
    source="Lee et al. 2023 (DataLife)",
    query=_files.QUERY,
    find=find,
    thresholds=(_files.LEAST, FLOOR),
)
