"""Bytes that a task read more than once."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import FLOOR, IO, SPACE, Match, Rule
from tailrace.analyzer.insights.findings import _files


def find(found: Analyses) -> Iterator[Match]:
    """All such files, as one match."""
    files = found.lifetime.files
    return _files.matches(
        found,
        files[files["again_bytes"] > 0],
        "again_bytes",
        "{bytes} were read again by what had read the same bytes before, most of {path} ({most})",
    )


RULE = Rule(
    kind="repeated reads",
    about=SPACE,
    title="Bytes that the same task read more than once",
    definition=(
        "The bytes that tasks read of data files, less the distinct bytes that each of them read. Reads at unknown"
        " offsets are left out."
    ),
    advice="Keep the bytes in memory, read the file once in larger calls, or copy it to node-local storage first.",
    source="Lee et al. 2023 (DataLife); Bez et al. 2022 (Drishti)",
    query="tailrace query {run} --path {path} --where dir=r --by task,host,pid --agg count --agg sum:size",
    find=find,
    thresholds=(_files.LEAST, FLOOR),
    change="reading",
    explains=(IO,),
)
