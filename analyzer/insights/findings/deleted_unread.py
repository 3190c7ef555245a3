"""Files that were written, then deleted unread, or for the most part.

No such file: one that its own writer read back (what sort and compilers put aside); one that is named after another
file of the run, as the journal of a database, which is there to be read after a crash; and one whose name another file
has, too, as each checkpoint that takes the place of the last one.
"""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import FLOOR, SPACE, Match, Rule, Threshold
from tailrace.analyzer.insights.findings import _files

UNREAD = Threshold(80, "% of its bytes read by nobody")


def find(found: Analyses) -> Iterator[Match]:
    """All such files, as one match."""
    files = found.lifetime.files
    whole = files["never_read"] & (files["read_bytes"] == 0)
    part = (files["read_bytes"] > 0) & (files["rewritten_bytes"] == 0)
    part &= files["unread_bytes"] >= UNREAD.value / 100 * files["written_bytes"]
    unread = files[files["removed"] & (whole | part)]
    unread = unread.assign(unread_bytes=unread["written_bytes"].where(whole[unread.index], unread["unread_bytes"]))
    replaced = unread["path"].isin(files["path"][files["path"].duplicated()])
    unread = unread[~_files.named_after(unread["path"], frozenset(files["path"])) & ~replaced]
    mostly = " for the most part" if (unread["read_bytes"] > 0).any() else ""
    return _files.matches(
        found,
        unread,
        "unread_bytes",
        f"{{files}} written, then deleted{mostly} unread ({{bytes}}); the largest is {{path}} ({{most}})",
        absent=True,
    )


RULE = Rule(
    kind="written, then deleted unread",
    about=SPACE,
    title="Files written, then deleted without a reader",
    definition=(
        "A data file was written and removed in the run, and nobody read it, its writer neither; or it was written"
        f" once, and {UNREAD}, as where a file is expanded for its first lines. Left out are files that are named after"
        " another one of the run, as a database's journal, which is read after a crash, and those whose name another"
        " file has, too, as checkpoints that replace each other."
    ),
    advice=(
        "Do not write them: switch the output off, keep the data in memory, or let the reader take what it needs from a"
        " pipe, which ends the writer when it has that."
    ),
    source="Lee et al. 2023 (DataLife)",
    query=_files.QUERY,
    find=find,
    thresholds=(_files.LEAST, UNREAD, FLOOR),
    absence=True,
)
