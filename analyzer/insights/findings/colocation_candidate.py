"""Tasks that exchanged data between hosts."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import FLOOR, SPACE, Match, Rule, Threshold, rows_of
from tailrace.analyzer.util.formatting import bytes_text, count_text

LEAST = Threshold(1, "% of all bytes read and written")


def find(found: Analyses) -> Iterator[Match]:
    """All pairs of stages, as one match."""
    rows = found.apart
    moved = int(rows["bytes"].sum()) if len(rows) else 0
    if not LEAST.reached(moved, found.moved_bytes):
        return
    names = found.inputs.stages["stage"].to_numpy()
    named = rows.assign(producer=names[rows["producer"]], consumer=names[rows["consumer"]])
    top = named.iloc[0]
    tasks = found.tasks_of_stages({*rows["producer"], *rows["consumer"]})
    noun = found.counted(tasks).partition(" ")[2]
    yield Match(
        title=f"{bytes_text(moved)} passed from host to host, most of it from {top['producer']} to {top['consumer']}"
        f" ({bytes_text(int(top['bytes']))} between {count_text(int(top['pairs']), 'pair')} of {noun})",
        cost_bytes=moved,
        count=int(rows["pairs"].sum()),
        evidence=rows_of(named),
        tasks=tasks,
    )


RULE = Rule(
    kind="co-location candidate",
    about=SPACE,
    title="Data passed through files between tasks on different hosts",
    definition=(
        "A task read through a file what a task on another host wrote. On one host the bytes would come from its"
        " page cache and need not pass the network."
    ),
    advice="Run consumers on the host of their producers: pin the tasks, or submit both in one job.",
    source="Lee et al. 2023 (DataLife); Tang et al. 2024 (DaYu)",
    query="tailrace query {run} --where dir=r --by stage,host --agg sum:size",
    find=find,
    thresholds=(LEAST, FLOOR),
)
