"""Data moved in small calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tailrace.analyzer.insights.access_costs import COPY_RATE, DENSE, LARGE_BYTES, LEAST_CALLS
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import IO, LEAST, TIME, Match, Rule, more
from tailrace.analyzer.insights.findings import _calls
from tailrace.analyzer.insights.inputs import FLOOR_BYTES
from tailrace.analyzer.util.formatting import bytes_text, count_text, time_text
from tailrace.analyzer.util.types import Row

_AT_RANDOM = (
    "Read the part of the file that is used into memory once, or map it (mmap); or sort the accesses by offset. A"
    " buffer does not serve jumps: each drops it."
)


def find(found: Analyses) -> Iterator[Match]:
    """All stages that do so, as one match."""
    costs = found.access_costs
    for match in _calls.matches(found, costs.small, costs.small_gain_ns, costs.small_calls, _title):
        jumps = bool(found.of_users(costs.small)["random"].iat[0])
        yield replace(match, advice=_AT_RANDOM, change="reading the range once") if jumps else match


def _title(top: Row, count: int) -> str:
    random = " at random offsets" if top["random"] else ""
    size, took = bytes_text(float(top["mean_bytes"])), time_text(int(top["time_ns"]))
    return (
        f"{top['stage']}: {top['calls']:,} {top['direction']} calls of {size} on average{random}, on"
        f" {count_text(int(top['files']), 'file')} (most on {top['path']}), took {took};"
        f" {count_text(int(top['needed']), 'call')} of {bytes_text(LARGE_BYTES)} would do{more(count)}"
    )


RULE = Rule(
    kind="small calls",
    about=TIME,
    title="Data read or written in small calls",
    definition=(
        f"A process read or wrote a file of data in {LEAST_CALLS} calls or more of less than"
        f" {bytes_text(FLOOR_BYTES)} (a page) on average, and most of them less: one after the other, or at random"
        f" offsets of a range at most {DENSE} times as large as what it moved. The estimate is the time for which such"
        f" calls ran, less what moving the bytes takes at least ({COPY_RATE} GB/s), and less the share of the calls"
        f" that are needed in calls of {bytes_text(LARGE_BYTES)}."
    ),
    advice=(
        "Let more pass in a call: a larger buffer (setvbuf, open(..., buffering=), std::ifstream's pubsetbuf, dd bs=,"
        " HDF5's chunk cache), whole files or large parts at once instead of lines and fields."
    ),
    source="Bez et al. 2022 (Drishti); Xu et al. 2017 (DXT)",
    query="tailrace query {run} {stage} --where dir={direction} --by size:log2,path --agg count --agg sum:dur",
    find=find,
    thresholds=(_calls.CALLS, LEAST),
    change="larger calls",
    explains=(IO,),
)
