"""Data passed through a pipe in small pieces."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tailrace.analyzer.edges import edge_table, file_classes
from tailrace.analyzer.insights import access_costs, whatif
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import IO, LEAST, TIME, Match, Row, Rule, Threshold, more
from tailrace.analyzer.insights.inputs import FLOOR_BYTES
from tailrace.analyzer.util import grouping, intervals
from tailrace.analyzer.util.formatting import bytes_text, count_text, time_text

CALLS = Threshold(10_000, "writes to a pipe")
PIPE_BYTES = 64 << 10
"""What a pipe holds: a call of so many bytes costs little more than the transfer."""


def find(found: Analyses) -> Iterator[Match]:
    """All writers, as one match."""
    inputs, m = found.inputs, found.inputs.m
    bursts = m.bursts
    writes = m.of_type("fifo") & (bursts["dir"] == edge_table.WRITE).to_numpy()
    pick = writes & inputs.works[inputs.of_who[bursts["who"]]]
    pick &= ~m.of_manager[bursts["who"].to_numpy()]
    key, uses = edge_table.codes(bursts[pick][edge_table.BURST_KEY])
    sums = {name: grouping.sums(key, bursts[pick][name].to_numpy(), len(uses)) for name in ("calls", "bytes")}
    pick[pick] = access_costs.smaller_calls(inputs, uses.assign(**sums))[key]
    counts = m.table.counts[m.table.counts["kind"] == edge_table.STREAM]
    buffered = counts.groupby("who")["buffered_calls"].sum().to_dict()
    rows: list[Row] = []
    tasks: set[int] = set()
    left_out: list[intervals.Intervals] = []
    most_ns = 0
    for who, mine in bursts[pick].groupby("who"):
        calls, moved = int(mine["calls"].sum()), int(mine["bytes"].sum())
        if calls < CALLS.value or buffered.get(int(str(who)), 0) * 2 > calls:
            continue
        actor = int(str(who))
        task = int(inputs.of_who[actor])
        cover = whatif.io_cover(inputs, pick & (bursts["who"] == actor).to_numpy())
        took = int(cover.length()[task])
        needed = max(-(-moved // PIPE_BYTES), 1)
        program = file_classes.program(str(m.who["exe"].iat[actor])) or "?"
        # What is no time on a processor is spent waiting for the reader, which larger writes do as well.
        own = float(inputs.time.told["stime_ns"][inputs.lives.process[actor]])
        busy = min(took, own) if own > 0 else took
        share = float(access_costs.saved(busy, calls, moved, needed))
        gain = int(busy * share)
        rows.append(
            Row(task=task, program=program, calls=calls, bytes=moved, needed=needed, time_ns=took, gain_ns=gain)
        )
        tasks.add(task)
        left_out.append(cover.rows._replace(weight=(cover.rows.weight * (gain / max(took, 1))).astype(np.int64)))
        most_ns += int(took * (1 - needed / calls))
    rows.sort(key=lambda row: -int(str(row["gain_ns"])))
    cost = min(sum(int(str(row["gain_ns"])) for row in rows), inputs.makespan_ns)
    if not LEAST.reached(cost, inputs.makespan_ns):
        return
    top = rows[0]
    saved = found.replays.without(intervals.joined(left_out), cost, most_ns)
    task, calls = int(str(top["task"])), int(str(top["calls"]))
    name, needed = inputs.called(task), int(str(top["needed"]))
    by = "" if str(top["program"]) in (*name.split(), "?") else f" by {top['program']}"
    yield Match(
        title=f"{name}: {calls:,} writes{by} of {bytes_text(int(str(top['bytes'])) / calls)} on average to a pipe took"
        f" {time_text(int(str(top['time_ns'])))}; {count_text(needed, 'write')} of {bytes_text(PIPE_BYTES)} would"
        f" do{more(len(rows))}",
        names={"task": found.of_task(task)},
        cost_ns=saved.ns,
        least_ns=saved.least_ns,
        most_ns=saved.most_ns,
        estimate=True,
        count=len(rows),
        evidence=[{**row, "task": inputs.called(int(str(row["task"])))} for row in rows[:5]],
        tasks=tasks,
        where=f"in {name}",
    )


RULE = Rule(
    kind="small pipe writes",
    about=TIME,
    title="Data passed through a pipe in small pieces",
    definition=(
        f"A program made {CALLS} or more past the C library's buffers, of less than {bytes_text(FLOOR_BYTES)} on"
        " average, and most of them less: each is a call to the kernel and may wake the reader. The estimate is the"
        " system time of the program, at most the time in these calls, less what moving the bytes takes at least"
        f" ({access_costs.COPY_RATE} GB/s), and less the share of those that are needed in calls of"
        f" {bytes_text(PIPE_BYTES)}, which a pipe holds: the rest of the time in them it waits for its reader."
    ),
    advice=(
        "Let the program buffer what it writes: no `python -u` and no flush for each line, sys.stdout.write in place of"
        " os.write, `stdbuf -o64K`, setvbuf, print(..., end='') of many lines at once."
    ),
    source="pipe(7): a pipe holds 64 KiB; setvbuf(3)",
    query="tailrace query {run} {task} --where dir=w --where ftype=fifo --by path,size:log2 --agg count --agg sum:dur",
    find=find,
    thresholds=(CALLS, LEAST),
    change="larger writes to the pipe",
    explains=(IO,),
)
