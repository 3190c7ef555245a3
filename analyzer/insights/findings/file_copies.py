"""Plain copies of files."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import SPACE, Match, Rule, Threshold, more, rows_of
from tailrace.analyzer.util.formatting import bytes_text

LEAST = Threshold(1, "% of all bytes read and written")


def find(found: Analyses) -> Iterator[Match]:
    """All copies, as one match."""
    rows = found.lifetime.copies
    copied = int(rows["bytes"].sum()) if len(rows) else 0
    if not LEAST.reached(copied, found.moved_bytes):
        return
    paths = found.inputs.m.paths
    named = pd.DataFrame({"source": paths[rows["source"]], "target": paths[rows["target"]], "bytes": rows["bytes"]})
    source, target = str(named["source"].iat[0]), str(named["target"].iat[0])
    yield Match(
        title=f"{bytes_text(copied)} were copied from file to file (read, and written again), the largest from {source}"
        f" to {target} ({bytes_text(int(named['bytes'].iat[0]))}){more(len(rows))}",
        names={"path": target},
        cost_bytes=2 * copied,
        count=len(rows),
        evidence=rows_of(named),
    )


RULE = Rule(
    kind="file copies",
    about=SPACE,
    title="Files copied byte by byte",
    definition=(
        "A process read one data file and wrote one other, the same byte ranges of both. The cost is the bytes read"
        " and the bytes written."
    ),
    advice="Use the original, rename it, or make a hard link or a reflink (cp --reflink).",
    source="Lee et al. 2023 (DataLife); cp(1), ioctl_ficlonerange(2)",
    query="tailrace query {run} --path {path} --by task,dir --agg sum:size",
    find=find,
    thresholds=(LEAST,),
)
