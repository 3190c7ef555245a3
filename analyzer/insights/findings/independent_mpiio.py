"""MPI-IO without its collective calls."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights import call_costs
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import IO, LEAST, TIME, Match, Rule, Threshold, more
from tailrace.analyzer.insights.findings import _calls
from tailrace.analyzer.util.types import Row

CALLS = Threshold(1000, "calls in a stage")


def find(found: Analyses) -> Iterator[Match]:
    """All stages that do so, as one match."""
    rows = call_costs.independent(found.inputs)
    rows = rows[rows["independent"] >= CALLS.value] if len(rows) else rows
    yield from _calls.of_stages(
        found, rows, _title, calls={"names": call_costs.event_names(found.inputs, call_costs.MPI)}
    )


def _title(top: Row, count: int) -> str:
    together = int(top["collective"])
    beside = f", beside {together:,} collective ones" if together else ""
    return (
        f"{top['stage']}: {top['processes']:,} processes read or wrote by MPI-IO in {top['independent']:,} independent"
        f" calls{beside}{more(count)}"
    )


RULE = Rule(
    kind="independent MPI-IO",
    about=TIME,
    title="MPI-IO without its collective calls",
    definition=(
        f"Of the reads and writes that several processes of a stage made by MPI-IO, {CALLS.value:g} or more and over"
        f" {call_costs.INDEPENDENT_SHARE:.0%} are independent (MPI_File_write and the like, not"
        " MPI_File_write_all). The estimate is the time in which one of these processes was reading or writing, by the"
        " share of these calls: an upper bound of what collective calls would save."
    ),
    advice=(
        "Use the collective forms (MPI_File_write_all, MPI_File_read_at_all; parallel HDF5:"
        " H5Pset_dxpl_mpio(..., H5FD_MPIO_COLLECTIVE)), so that a few ranks make large calls for all."
    ),
    source="Bez et al. 2022 (Drishti: from 50% independent calls on)",
    query="tailrace query {run} {stage} --where cat=MPIIO --by name,rank --agg count --agg sum:size",
    find=find,
    thresholds=(CALLS, LEAST),
    change="collective calls",
    explains=(IO,),
)
