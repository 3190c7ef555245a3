"""A file that could have been a stream."""

from __future__ import annotations

from collections.abc import Iterator

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import FLOOR, LEAST, TIME, Match, Rule, more, rows_of
from tailrace.analyzer.util.formatting import time_text


def find(found: Analyses) -> Iterator[Match]:
    """All pairs on the longest chain of work that could stream, as one match."""
    inputs, rows = found.inputs, found.streams
    rows = rows[rows["critical"] & (rows["gain_ns"] > 0)] if len(rows) else rows
    if len(rows) == 0 or not LEAST.reached(int(rows["gain_ns"].sum()), inputs.makespan_ns):
        return
    named = rows.assign(**{end: [inputs.called(int(task)) for task in rows[end]] for end in ("producer", "consumer")})
    top = named.iloc[0]
    path = str(top["path"])
    pair = [inputs.stage_of(int(str(rows[end].iat[0]))) for end in ("producer", "consumer")]
    yield Match(
        title=f"{top['consumer']} read all of {path} from front to back, after {top['producer']} had written it;"
        f" through a pipe it could start up to {time_text(int(top['gain_ns']))} earlier{more(len(rows))}",
        names={"pair": ",".join(pair)},
        cost_ns=int(rows["gain_ns"].max()),
        estimate=True,
        count=len(rows),
        evidence=rows_of(named[["producer", "consumer", "path", "bytes", "gain_ns"]]),
        tasks={*rows["producer"], *rows["consumer"]},
        query="" if pair[0] != pair[1] and "," not in "".join(pair) else "tailrace.open({run}).insights().streams",
    )


RULE = Rule(
    kind="streaming candidate",
    about=TIME,
    title="A file that its only reader could have read while it was written",
    definition=(
        "One task wrote a file of 4 KiB (a page) or more, one other task read all of it after it was complete, each"
        " in the order of the bytes from the first to the last, and both are on the longest chain of work. The gain"
        " is at most the time between the first write and the writer's end, not more than the reader worked, and not"
        " more than `tailrace whatif` estimates for the run in which the reader does not wait for the writer's end."
        " A reader that seeks or maps the file can't read a pipe."
    ),
    advice="Connect the two tasks by a pipe or FIFO, or let the reader follow the growing file.",
    source="Lee et al. 2023 (DataLife)",
    query="tailrace whatif {run} --together {pair}",
    find=find,
    thresholds=(LEAST, FLOOR),
    change="a pipe in place of a file",
    absence=True,
)
