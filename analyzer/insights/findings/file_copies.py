"""Plain copies of files."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import FLOOR, IO, SPACE, Match, Rule, Threshold, more, rows_of
from tailrace.analyzer.insights.lifetime import COPIER, KERNEL
from tailrace.analyzer.store import mounts
from tailrace.analyzer.util.formatting import bytes_text

SAME = "Use the original, rename it, or make a hard link or a reflink (cp --reflink)."
ACROSS = (
    "Write the data where it is needed in the first place, or read it where it is: no new name, hard link or reflink"
    " goes from one file system to another."
)
SAME_TOO = "Of those within a file system use the original, rename it, or make a link."
ACROSS_TOO = "What goes to another file system can only be written there in the first place, or be read where it is."
"""What is added where some copies are of the other sort than the one that is named."""
LEAST = Threshold(1, "% of all bytes read and written")


def find(found: Analyses) -> Iterator[Match]:
    """All copies, as one match."""
    rows, paths = found.lifetime.copies, found.inputs.m.paths
    rows = rows[rows["evidence"].isin((KERNEL, COPIER))]
    copied = int(rows["bytes"].sum()) if len(rows) else 0
    if not LEAST.reached(copied, found.moved_bytes):
        return
    named = pd.DataFrame({"source": paths[rows["source"]], "target": paths[rows["target"]]})
    named = named.assign(bytes=rows["bytes"].to_numpy())
    source, target = str(named["source"].iat[0]), str(named["target"].iat[0])
    most = bytes_text(int(named["bytes"].iat[0]))
    yield Match(
        title=f"{bytes_text(copied)} were copied from file to file, the largest from {source} to {target} ({most})"
        f"{more(len(rows))}",
        advice=_advice(_across(found, rows)),
        names={"path": target},
        cost_bytes=2 * copied,
        count=len(rows),
        evidence=rows_of(named),
        tasks=set(rows["task"]),
        where=f"of {source.rpartition('/')[2]}",
    )


def _across(found: Analyses, rows: pd.DataFrame) -> list[bool]:
    """Whether each copy went from one file system to another, as far as the mounts of its host are known."""
    inputs, run = found.inputs, found.inputs.run
    if run is None:
        return [False] * len(rows)
    place_of = mounts.finder(run.meta)
    host_of = dict(zip(inputs.of_who.tolist(), inputs.m.who["host"].astype(str), strict=True))
    across = []
    for task, *ends in rows[["task", "source", "target"]].itertuples(index=False):
        source, target = (place_of(host_of[task], str(inputs.m.paths[end])) for end in ends)
        across.append(source is not None and target is not None and source != target)
    return across


def _advice(across: list[bool]) -> str:
    """What to do about all copies, the one that is named first; "" for the rule's own advice."""
    if not any(across):
        return ""
    if all(across):
        return ACROSS
    return f"{ACROSS} {SAME_TOO}" if across[0] else f"{SAME} {ACROSS_TOO}"


RULE = Rule(
    kind="file copies",
    about=SPACE,
    title="Files copied byte by byte",
    definition=(
        "A process read one file, nothing else, and wrote one other file, and the kernel moved all bytes"
        " (copy_file_range, sendfile), or it is a program that copies (cp, mv, install, rsync, scp) and went through"
        " both files from front to back. Another program that writes as many bytes as it read may have changed them,"
        " and is not told of. The cost is the bytes read and the bytes written."
    ),
    advice=SAME,
    source="Lee et al. 2023 (DataLife); cp(1), copy_file_range(2), ioctl_ficlonerange(2)",
    query="tailrace query {run} --path {path} --by task,dir --agg sum:size",
    find=find,
    thresholds=(LEAST, FLOOR),
    change="no copies",
    explains=(IO, "metadata load"),
)
