"""Plain copies of files."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import FLOOR, SPACE, Match, Rule, Threshold, more, rows_of
from tailrace.analyzer.insights.lifetime import CALLS, KERNEL, RANGES
from tailrace.analyzer.util.formatting import bytes_text

LEAST = Threshold(1, "% of all bytes read and written")

WORDS = {
    KERNEL: "{bytes} were copied from file to file, the largest from {source} to {target} ({most})",
    CALLS: "{bytes} were read and written again in equal steps, as a copy does, the largest from {source} to {target}"
    " ({most})",
    RANGES: "as many bytes were written as read, {bytes}, at the same offsets, the most from {source} to {target}"
    " ({most}); whether they are the same bytes, the trace does not show",
}


def find(found: Analyses) -> Iterator[Match]:
    """All copies of one evidence, as one match."""
    every = found.lifetime.copies
    paths = found.inputs.m.paths
    for evidence, words in WORDS.items():
        rows = every[every["evidence"] == evidence]
        copied = int(rows["bytes"].sum()) if len(rows) else 0
        if not LEAST.reached(copied, found.moved_bytes):
            continue
        named = pd.DataFrame({"source": paths[rows["source"]], "target": paths[rows["target"]]})
        named = named.assign(bytes=rows["bytes"].to_numpy())
        source, target = str(named["source"].iat[0]), str(named["target"].iat[0])
        most = bytes_text(int(named["bytes"].iat[0]))
        yield Match(
            title=words.format(bytes=bytes_text(copied), source=source, target=target, most=most) + more(len(rows)),
            names={"path": target},
            cost_bytes=2 * copied,
            count=len(rows),
            evidence=rows_of(named),
            tasks=set(rows["task"]),
        )


RULE = Rule(
    kind="file copies",
    about=SPACE,
    title="Files copied byte by byte",
    definition=(
        "A process read one file, nothing else, and wrote one other file. They are copies where the kernel moved all"
        " bytes (copy_file_range, sendfile); where reads and writes went through both files from front to back, in as"
        " many calls, the program may have changed bytes on the way; where only the byte ranges are the same, it wrote"
        " as many bytes. The cost is the bytes read and the bytes written."
    ),
    advice="For a copy: use the original, rename it, or make a hard link or a reflink (cp --reflink).",
    source="Lee et al. 2023 (DataLife); cp(1), copy_file_range(2), ioctl_ficlonerange(2)",
    query="tailrace query {run} --path {path} --by task,dir --agg sum:size",
    find=find,
    thresholds=(LEAST, FLOOR),
)
