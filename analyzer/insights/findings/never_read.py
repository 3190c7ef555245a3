"""Files that were kept and not read."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import FLOOR, SPACE, Match, Rule
from tailrace.analyzer.insights.findings import _files


def find(found: Analyses) -> Iterator[Match]:
    """All such files, as one match."""
    if not found.inputs.m.outputs:
        return iter(())
    files = found.lifetime.files
    return _files.matches(
        found,
        files[files["never_read"] & ~files["removed"]],
        "written_bytes",
        "{files} written and kept, but read by nothing but the writer ({bytes}); the largest is {path} ({most})",
        absent=True,
    )


RULE = Rule(
    kind="never read",
    about=SPACE,
    title="Files written and kept, but read by nothing but the writer",
    definition=(
        "A data file was written, not removed, and read by no other task than its writer, in a run whose workflow"
        " manager declares outputs: these are left out, and its own files. Of a run that declares none nothing tells"
        " results from what nobody needs."
    ),
    advice="Write logs and checkpoints less often, and do not write what no task needs.",
    source="Lee et al. 2023 (DataLife); Bez et al. 2022 (Drishti)",
    query=_files.QUERY,
    find=find,
    thresholds=(_files.LEAST, FLOOR),
    absence=True,
)
