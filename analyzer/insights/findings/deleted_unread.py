"""Files that were written, then deleted unread.

No such file: one that its own writer read back (what sort and compilers put aside); one that is named after another
file of the run, as the journal of a database, which is there to be read after a crash; and one whose name another file
has, too, as each checkpoint that takes the place of the last one.
"""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import FLOOR, SPACE, Match, Rule
from tailrace.analyzer.insights.findings import _files


def find(found: Analyses) -> Iterator[Match]:
    """All such files, as one match."""
    files = found.lifetime.files
    unread = files[files["never_read"] & files["removed"] & (files["read_bytes"] == 0)]
    replaced = unread["path"].isin(files["path"][files["path"].duplicated()])
    return _files.matches(
        found,
        unread[~_files.named_after(unread["path"], frozenset(files["path"])) & ~replaced],
        "written_bytes",
        "{files} written, then deleted unread ({bytes}); the largest is {path} ({most})",
        absent=True,
    )


RULE = Rule(
    kind="written, then deleted unread",
    about=SPACE,
    title="Files written, then deleted without a reader",
    definition=(
        "A data file was written and removed in the run, and nobody read it, its writer neither. Left out are files"
        " that are named after another one of the run, as a database's journal, which is read after a crash, and those"
        " whose name another file has, too, as checkpoints that replace each other."
    ),
    advice="Do not write them: switch the output off, or keep the data in memory.",
    source="Lee et al. 2023 (DataLife)",
    query=_files.QUERY,
    find=find,
    thresholds=(_files.LEAST, FLOOR),
    absence=True,
)
