"""Data forced to disk again and again."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.insights import call_costs
from tailrace.analyzer.insights.access_patterns import FLUSHES
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import IO, LEAST, TIME, Match, Rule, Threshold, more
from tailrace.analyzer.insights.findings import _calls
from tailrace.analyzer.util.formatting import bytes_text, count_text, time_text
from tailrace.analyzer.util.types import Row

CALLS = Threshold(100, "flushes in a stage")


def find(found: Analyses) -> Iterator[Match]:
    """All stages that do so, as one match."""
    rows = call_costs.flushes(found.inputs)
    rows = rows[(rows["calls"] >= CALLS.value) & (rows["calls"] >= 2 * rows["needed"])] if len(rows) else rows
    yield from _calls.of_stages(found, rows, _title, calls={"names": FLUSHES}, kinds=(edge_table.META,))


def _title(top: Row, count: int) -> str:
    calls = int(top["calls"])
    return (
        f"{top['stage']}: {calls:,} flushes to disk (fsync and the like), one for each"
        f" {bytes_text(int(top['written_bytes']) / calls)} written, took {time_text(int(top['time_ns']))};"
        f" {count_text(int(top['needed']), 'flush', 'es')}, one a file, would do{more(count)}"
    )


RULE = Rule(
    kind="many flushes",
    about=TIME,
    title="Data forced to disk again and again",
    definition=(
        "The processes of a stage called fsync, fdatasync, sync, syncfs, sync_file_range or msync"
        f" {CALLS.value:g} times or more, and at least twice as often as they wrote files. The estimate is the time in"
        " these calls, less the share of one flush for each process and file that it wrote."
    ),
    advice=(
        "Flush once, when a file is complete, or after a batch of records; let a database commit many changes in one"
        " transaction (SQLite: BEGIN ... COMMIT, journal_mode=WAL, synchronous=NORMAL); drop O_SYNC."
    ),
    source="fsync(2): it returns when the device has the data; Carns et al. 2011 (Darshan counts it per file)",
    query="tailrace query {run} {stage} --where 'name=*sync*' --by name,path --agg count --agg sum:dur --sort sum_dur",
    find=find,
    thresholds=(CALLS, LEAST),
    change="fewer flushes",
    explains=(IO,),
)
