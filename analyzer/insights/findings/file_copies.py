"""Plain copies of files."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import FLOOR, IO, SPACE, Match, Rule, Threshold, more, rows_of
from tailrace.analyzer.insights.lifetime import COPIER, KERNEL
from tailrace.analyzer.util.formatting import bytes_text

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
        names={"path": target},
        cost_bytes=2 * copied,
        count=len(rows),
        evidence=rows_of(named),
        tasks=set(rows["task"]),
        where=f"of {source.rpartition('/')[2]}",
    )


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
    advice="Use the original, rename it, or make a hard link or a reflink (cp --reflink).",
    source="Lee et al. 2023 (DataLife); cp(1), copy_file_range(2), ioctl_ficlonerange(2)",
    query="tailrace query {run} --path {path} --by task,dir --agg sum:size",
    find=find,
    thresholds=(LEAST, FLOOR),
    change="no copies",
    explains=(IO, "metadata load"),
)
