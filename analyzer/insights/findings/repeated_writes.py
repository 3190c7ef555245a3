"""Bytes that a task wrote more than once."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import SPACE, Match, Rule, Threshold
from tailrace.analyzer.insights.findings import _files

LEAST = Threshold(10, "% of all bytes read and written")
BYTES = Threshold(1, "MiB")


def find(found: Analyses) -> Iterator[Match]:
    """All such files, as one match."""
    files = found.lifetime.files
    rows = files[files["rewritten_bytes"] > 0]
    cost = int(rows["rewritten_bytes"].sum())
    if cost < BYTES.value * 2**20 or not LEAST.reached(cost, found.moved_bytes):
        return
    yield from _files.matches(
        found,
        rows,
        "rewritten_bytes",
        "{bytes} were written over bytes that the same writer had written before, most of {path} ({most})",
    )


RULE = Rule(
    kind="repeated writes",
    about=SPACE,
    title="Bytes that the same task wrote more than once",
    definition=(
        "The bytes that tasks wrote to data files, less the distinct bytes that each of them wrote while the file was"
        " not truncated. Writes at unknown offsets are left out."
    ),
    advice=(
        "Keep what changes in memory and write it once, at the end or at checkpoints; append to a journal in place of"
        " writing a table anew; put scratch data on node-local storage or in /dev/shm."
    ),
    source="Bez et al. 2022 (Drishti: redundant writes)",
    query="tailrace query {run} --path {path} --where dir=w --by task,offset:1MiB --agg count --agg sum:size",
    find=find,
    thresholds=(LEAST, BYTES),
)
