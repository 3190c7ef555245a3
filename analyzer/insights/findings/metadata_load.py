"""Time in calls that move no data."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights import call_places
from tailrace.analyzer.insights.access_costs import METADATA_NS, SHORT_NS
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import IO, LEAST, TIME, Match, Rule, Threshold, more, rows_of
from tailrace.analyzer.util.formatting import count_text, time_text

CALLS = Threshold(1000, "calls")


def find(found: Analyses) -> Iterator[Match]:
    """All stages and programs, as one match."""
    rows = found.of_users(found.access_costs.metadata)
    rows = rows[(rows["calls"] >= CALLS.value).to_numpy()] if len(rows) else rows
    cost = min(found.access_costs.metadata_gain_ns, int(rows["time_ns"].sum())) if len(rows) else 0
    if not len(rows) or not LEAST.reached(cost, found.inputs.makespan_ns):
        return
    top, gain = rows.iloc[0], found.replays.without(found.access_costs.metadata_calls, cost)
    program = "" if top["program"] in ("?", *str(top["stage"]).strip("()").split()) else f" by {top['program']}"
    unused = int(top["unused_opens"])
    opens = f"; {count_text(unused, 'open')} moved nothing" if unused * 10 > int(top["calls"]) else ""
    yield Match(
        title=f"{top['stage']}: {top['calls']:,} metadata calls (mostly {top['names']}){program}, beside"
        f" {count_text(int(top['data_calls']), 'call')} for data, took {time_text(int(top['time_ns']))}{opens}"
        f"{more(len(rows))}{call_places.words(found.call_places, int(top['stage_code']), direction='')}",
        names={"stage": found.of_stage(str(top["stage"]))},
        cost_ns=gain.ns,
        least_ns=gain.least_ns,
        most_ns=gain.most_ns,
        estimate=True,
        count=len(rows),
        evidence=rows_of(rows.drop(columns="stage_code")),
        tasks=found.tasks_of_stages(set(rows["stage_code"])),
        where=f"in {top['stage']}",
    )


RULE = Rule(
    kind="metadata load",
    about=TIME,
    title="Time in calls on names and directories",
    definition=(
        "A program made more calls that open, close, look up, list, lock or change files than reads and writes, or"
        f" spent {time_text(METADATA_NS)} in them, and lived longer than {time_text(SHORT_NS)}; seeks, flushes and"
        " waits for locks do not count, nor does the time in which a program loads itself and its modules, or a program"
        " that opens hardly any data. The estimate is the time for which at least one such call of these programs was"
        " running."
    ),
    advice=(
        "Open a file once and keep it open, put many small files into one (tar, HDF5, a database), list a directory"
        " once instead of looking up each name, shorten search paths (PATH, PYTHONPATH, LD_LIBRARY_PATH), and let a"
        " database do many statements in one transaction (it locks its file and looks for its journal in each)."
    ),
    source="Bez et al. 2022 (Drishti: 30 s of metadata)",
    query="tailrace query {run} {stage} --by name --agg count --agg sum:dur --where 'size=' --sort sum_dur",
    find=find,
    thresholds=(CALLS, LEAST),
    change="fewer calls on names",
    explains=(IO,),
)
