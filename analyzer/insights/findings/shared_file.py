"""Several processes that write one file at once in small calls."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights import call_costs
from tailrace.analyzer.insights.access_costs import COPY_RATE, LARGE_BYTES
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import IO, LEAST, TIME, Match, Rule, Threshold, more
from tailrace.analyzer.insights.findings import _calls
from tailrace.analyzer.util.formatting import bytes_text, time_text
from tailrace.analyzer.util.types import Row

CALLS = Threshold(1000, "calls on the file")


def find(found: Analyses) -> Iterator[Match]:
    """All such files, as one match."""
    rows = call_costs.shared(found.inputs)
    rows = rows[rows["calls"] >= CALLS.value] if len(rows) else rows
    names = {"path": str(rows["path"].iat[0])} if len(rows) else {}
    yield from _calls.of_stages(found, rows, _title, names, {**names, "direction": "w"})


def _title(top: Row, count: int) -> str:
    return (
        f"{top['stage']}: {top['processes']:,} processes at once wrote {top['path']} in {top['calls']:,} calls of"
        f" {bytes_text(float(top['mean_bytes']))} on average, which took {time_text(int(top['time_ns']))}{more(count)}"
    )


RULE = Rule(
    kind="shared file",
    about=TIME,
    title="Several processes that write one file at once in small calls",
    definition=(
        f"{call_costs.WRITERS} or more processes of a stage wrote one file of data during the same time, in"
        f" {CALLS.value:g} calls or more of less than {bytes_text(LARGE_BYTES)} on average: each waits for the file's"
        " lock. The estimate is the time in which such a call was running, less what moving the bytes takes at least"
        f" ({COPY_RATE} GB/s), and less the share of the calls that are needed in calls of {bytes_text(LARGE_BYTES)}."
    ),
    advice=(
        "Collect the parts in one process, or in few, before they are written (MPI_File_write_all, a queue to one"
        " writer), write large parts that begin at multiples of the file system's block or stripe, or give each process"
        " a file of its own."
    ),
    source="Bez et al. 2022 (Drishti: small requests to a shared file)",
    query="tailrace query {run} {stage} --path {path} --where dir=w --by host,pid --agg count --agg sum:size",
    find=find,
    thresholds=(CALLS, LEAST),
    change="a file for each writer",
    explains=(IO,),
)
