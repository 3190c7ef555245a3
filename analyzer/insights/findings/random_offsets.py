"""Calls at random offsets."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.access_costs import COPY_RATE, LARGE_BYTES, LEAST_CALLS
from tailrace.analyzer.insights.access_order import RANDOM_SHARE
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import IO, LEAST, TIME, Match, Rule, more
from tailrace.analyzer.insights.findings import _calls
from tailrace.analyzer.util.formatting import bytes_text, count_text, time_text
from tailrace.analyzer.util.types import Row


def find(found: Analyses) -> Iterator[Match]:
    """All stages that do so, as one match."""
    costs = found.access_costs
    yield from _calls.matches(found, costs.scattered, costs.scattered_gain_ns, costs.scattered_calls, _title)


def _title(top: Row, count: int) -> str:
    size, took = bytes_text(float(top["mean_bytes"])), time_text(int(top["time_ns"]))
    return (
        f"{top['stage']}: {top['calls']:,} {top['direction']} calls of {size} on average at random offsets of"
        f" {count_text(int(top['files']), 'file')} (most of {top['path']}) took {took}{more(count)}"
    )


RULE = Rule(
    kind="random offsets",
    about=TIME,
    title="Data read or written at random offsets",
    definition=(
        f"Of a process's calls on a file of data, {LEAST_CALLS} or more and smaller than {bytes_text(LARGE_BYTES)} on"
        f" average, more than {RANDOM_SHARE:.0%} began before the end of the one before, and no buffer serves them:"
        " they are not small, or spread over more than they move. The estimate is the time for which such calls ran,"
        f" less what moving the bytes takes at least ({COPY_RATE} GB/s), and less the share of those that are"
        f" needed in calls of {bytes_text(LARGE_BYTES)}."
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
    thresholds=(_calls.CALLS, LEAST),
    change="calls in the order of the file",
    explains=(IO,),
)
