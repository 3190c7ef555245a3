"""Calls across blocks of a network file system."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights import call_costs, call_places
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import FLOOR, SPACE, Match, Rule, Threshold, more, rows_of
from tailrace.analyzer.util.formatting import bytes_text, count_text

CALLS = Threshold(1000, "calls")
LEAST = Threshold(1, "% of all bytes read and written")


def find(found: Analyses) -> Iterator[Match]:
    """All stages that do so, as one match."""
    rows = call_costs.misaligned(found.inputs)
    cost = int(rows["bytes"].sum()) if len(rows) else 0
    if not LEAST.reached(cost, found.moved_bytes) or rows["unaligned"].sum() < CALLS.value:
        return
    top = rows.iloc[0]
    path = str(top["path"])
    yield Match(
        title=f"{top['stage']}: {top['unaligned']:,} of {top['calls']:,} calls on"
        f" {count_text(int(top['files']), 'file')} of a network file system (most on {path}) begin inside of a"
        f" block of {bytes_text(int(top['block_bytes']))}, and touch one block more than they need{more(len(rows))}"
        f"{call_places.words(found.call_places, int(top['stage_code']), path=path)}",
        names={"stage": found.of_stage(str(top["stage"])), "path": path},
        cost_bytes=cost,
        count=len(rows),
        evidence=rows_of(rows.drop(columns=["stage_code", "gain_ns"])),
        tasks=found.tasks_of_stages(set(rows["stage_code"])),
    )


RULE = Rule(
    kind="misaligned calls",
    about=SPACE,
    title="Calls that touch a block too many, on a network file system",
    definition=(
        f"More than {call_costs.UNALIGNED_SHARE:.0%} of a process's calls on a file touch one of its blocks more than"
        " as many bytes would at the begin of a block, and do not go on where the call before ended. The block is what"
        " the file system prefers to move of the file at a time (st_blksize, stat(2)), which may be several stripes."
        " The cost is at most a block for each, or as much as such a call moves. Files whose block is not known (other"
        " tracers, older traces) are left out."
    ),
    advice=(
        "Begin each part at a multiple of the file's block or stripe (`stat -c %o`, `lfs getstripe`): pad records,"
        " set HDF5's alignment (H5Pset_alignment), or MPI-IO's striping_unit."
    ),
    source="Bez et al. 2022 (Drishti: from 10% misaligned calls on)",
    query="tailrace query {run} {stage} --path {path} --by dir,blksize --agg count --agg p50:offset --agg p50:size",
    find=find,
    thresholds=(CALLS, LEAST, FLOOR),
)
