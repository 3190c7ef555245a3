"""Calls at random offsets."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.access_costs import LARGE_BYTES, LEAST_CALLS, RANDOM_SHARE
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import TIME, Match, Rule, Threshold, more, rows_of
from tailrace.analyzer.util.formatting import bytes_text, count_text, time_text

LEAST = Threshold(1, "% of the makespan")
CALLS = Threshold(1000, "calls")


def find(found: Analyses) -> Iterator[Match]:
    """All stages that do so, as one match."""
    rows, gain = found.access_costs.scattered, found.access_costs.scattered_gain_ns
    if not len(rows) or rows["calls"].sum() < CALLS.value or not LEAST.reached(gain, found.inputs.makespan_ns):
        return
    top = rows.iloc[0]
    yield Match(
        title=f"{top['stage']}: {top['calls']:,} {top['direction']} calls of {bytes_text(float(top['mean_bytes']))} on"
        f" average at random offsets of {count_text(int(top['files']), 'file')} (most of {top['path']}) took"
        f" {time_text(int(top['time_ns']))}{more(len(rows))}",
        names={
            "stage": found.of_stage(str(top["stage"])),
            "direction": str(top["direction"])[0],
            "path": str(top["path"]),
        },
        cost_ns=gain,
        estimate=True,
        count=len(rows),
        evidence=rows_of(rows.drop(columns="stage_code")),
        tasks=found.tasks_of_stages(set(rows["stage_code"])),
    )


RULE = Rule(
    kind="random offsets",
    about=TIME,
    title="Data read or written at random offsets",
    definition=(
        f"Of a process's calls on a file of data, {LEAST_CALLS} or more and smaller than {bytes_text(LARGE_BYTES)} on"
        f" average, more than {RANDOM_SHARE:.0%} began before the end of the one before, and no buffer serves them:"
        " they are not small, or spread over more than they move. The estimate is the time for which such calls ran,"
        f" less the share of those that are needed in calls of {bytes_text(LARGE_BYTES)}."
    ),
    advice=(
        "Sort the accesses by offset, read the part of the file that is used into memory once, store what is used"
        " together next to each other (HDF5: chunks in the shape of the accesses), or use node-local flash."
    ),
    source="Bez et al. 2022 (Drishti)",
    query=(
        "tailrace query {run} {stage} --path {path} --where dir={direction} --columns ts,path,offset,size,dur"
        " --sort -ts --limit 50"
    ),
    find=find,
    thresholds=(CALLS, LEAST),
)
