"""Seeks that change nothing."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.insights import call_costs
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import IO, LEAST, TIME, Match, Rule, Threshold, more
from tailrace.analyzer.insights.findings import _calls
from tailrace.analyzer.util.formatting import time_text
from tailrace.analyzer.util.types import Row

CALLS = Threshold(1000, "seeks in a stage")


def find(found: Analyses) -> Iterator[Match]:
    """All stages that do so, as one match."""
    rows = call_costs.seeks(found.inputs)
    rows = rows[(rows["seeks"] >= CALLS.value) & (rows["useless"] * 2 > rows["seeks"])] if len(rows) else rows
    names = call_costs.event_names(found.inputs, "seek")
    yield from _calls.of_stages(found, rows, _title, calls={"names": names}, kinds=(edge_table.META,))


def _title(top: Row, count: int) -> str:
    return (
        f"{top['stage']}: at least {top['useless']:,} of {top['seeks']:,} seeks went where the file was already, or"
        f" only asked for the place, and took {time_text(int(top['gain_ns']))}{more(count)}"
    )


RULE = Rule(
    kind="useless seeks",
    about=TIME,
    title="Seeks that change nothing",
    definition=(
        f"More than half of {CALLS.value:g} seeks or more of a stage are beyond what its accesses need: one for each"
        " access that does not begin where the one before ended, and one for each open. The estimate is the time in"
        " seeks by their share."
    ),
    advice=(
        "Seek only to go elsewhere: drop lseek and tell() before each call and count the place in the program, or give"
        " the offset in the call (pread, pwrite; os.pread)."
    ),
    source="Carns et al. 2011 (Darshan counts seeks); lseek(2)",
    query="tailrace query {run} {stage} --where 'name=*seek*' --by name,path --agg count --agg sum:dur",
    find=find,
    thresholds=(CALLS, LEAST),
    change="no seeks",
    explains=(IO,),
)
