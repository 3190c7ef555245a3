"""Intermediate files that could stay on a node."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import FLOOR, SPACE, Match, Rule, Threshold, rows_of
from tailrace.analyzer.util.formatting import bytes_text, count_text

HOSTS = Threshold(2, "hosts in the run")
LEAST = Threshold(1, "% of all bytes read and written")


def find(found: Analyses) -> Iterator[Match]:
    """All such files, as one match."""
    files = found.lifetime.files
    rows = files[files["node_local"] & ~files["local"] & files["intermediate"]]
    moved = int((rows["written_bytes"] + rows["read_bytes"]).sum())
    if found.inputs.m.who["host"].nunique() < HOSTS.value or not LEAST.reached(moved, found.moved_bytes):
        return
    rows = rows.assign(moved_bytes=rows["written_bytes"] + rows["read_bytes"])
    rows = rows.sort_values("moved_bytes", ascending=False, kind="stable")
    path, most = str(rows["path"].iat[0]), int(rows["moved_bytes"].iat[0])
    yield Match(
        title=f"{count_text(len(rows), 'intermediate file')} on a shared file system used by one host each"
        f" ({bytes_text(moved)} moved); the largest is {path} ({bytes_text(most)})",
        names={"path": path},
        cost_bytes=moved,
        count=len(rows),
        evidence=rows_of(rows[["path", "moved_bytes", "written_bytes", "read_bytes"]]),
        tasks=found.users_of(rows.index),
    )


RULE = Rule(
    kind="node-local candidate",
    about=SPACE,
    title="Intermediate files on a shared file system that one host alone used",
    definition=(
        "A file on a shared file system was made in the run, read by another task than its writers, and used on one"
        " host only. The cost is the bytes that were written to it and read from it."
    ),
    advice="Put such files on node-local storage ($TMPDIR, /dev/shm), and copy out only what has to stay.",
    source="Tang et al. 2024 (DaYu)",
    query="tailrace query {run} --path {path} --by host,task,dir --agg sum:size",
    find=find,
    thresholds=(HOSTS, LEAST, FLOOR),
    absence=True,
)
