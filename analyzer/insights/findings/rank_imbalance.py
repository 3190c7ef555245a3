"""A rank that does more I/O than the others."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights import access_patterns, call_costs
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import IO, LEAST, TIME, Match, Rule, Threshold, more
from tailrace.analyzer.insights.findings import _calls
from tailrace.analyzer.util.formatting import bytes_text, time_text
from tailrace.analyzer.util.types import Row

RANKS = Threshold(call_costs.RANKS, "ranks in the stage")


def find(found: Analyses) -> Iterator[Match]:
    """All stages with such a rank, as one match."""
    rows = call_costs.ranks(found.inputs)
    if len(rows):
        rows = rows[rows["outside"] & (rows["gain_ns"] > call_costs.IMBALANCE * rows["time_ns"])]
    names = {"rank": str(rows["rank"].iat[0])} if len(rows) else {}
    yield from _calls.of_stages(found, rows, _title, names)


def _title(top: Row, count: int) -> str:
    return (
        f"{top['stage']}: rank {top['rank']} spent {time_text(int(top['time_ns']))} in calls on files, the mean of"
        f" {top['ranks']} ranks is {time_text(int(top['mean_ns']))}; it moved {bytes_text(int(top['bytes']))} of"
        f" {bytes_text(int(top['all_bytes']))}{more(count)}"
    )


RULE = Rule(
    kind="rank imbalance",
    about=TIME,
    title="A rank that spends more time on I/O than the others",
    definition=(
        f"Of {RANKS} or more, one was in calls on files for longer than the box plot's whisker (the third quartile and"
        f" {access_patterns.WHISKER:g} times the distance of the quartiles), and more than {call_costs.IMBALANCE:.0%}"
        " of its time is above the mean; and it moved as much more, or lags by"
        f" {time_text(call_costs.LAG_NS)}. Fewer than {access_patterns.LEAST_MEMBERS} ranks have no quartiles: of"
        f" these, one moved {call_costs.ALONE:.0%} of all bytes or more. The estimate is that part: what it would take"
        " less if all did the same."
    ),
    advice=(
        "Spread the work: collective calls (MPI_File_write_all) with several aggregators, a part of the file for each"
        " rank, or a writer per node in place of rank 0. `tailrace rank` shows what the rank did."
    ),
    source="Xu et al. 2017 (DXT: box plot of ranks); Bez et al. 2022 (Drishti: 15%)",
    query="tailrace query {run} {stage} --by rank --agg count --agg sum:size --agg sum:dur --sort sum_dur",
    find=find,
    thresholds=(RANKS, LEAST),
    change="I/O spread over the ranks",
    explains=(IO,),
)
