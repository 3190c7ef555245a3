"""Parts of datasets for which much more of the file was read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import EVIDENCE, IO, LEAST, TIME, Match, Row, Rule, Threshold, more
from tailrace.analyzer.insights.selections import Selection
from tailrace.analyzer.util import intervals
from tailrace.analyzer.util.formatting import bytes_text, count_text, time_text

AMPLIFIED = Threshold(4, "times the bytes that were asked for")


def find(found: Analyses) -> Iterator[Match]:
    """All such reads, as one match."""
    inputs = found.inputs
    rows = [one for one in found.selections if 0 < AMPLIFIED.value * one.given_bytes <= one.read_bytes]
    cost = min(sum(map(_gain, rows)), inputs.makespan_ns)
    if not LEAST.reached(cost, inputs.makespan_ns):
        return
    rows.sort(key=lambda one: -_gain(one))
    top, gain = rows[0], found.replays.without(intervals.joined([*map(_left_out, rows)]), cost)
    part = f", {top.shape} of {top.dims} each" if top.shape and top.dims else ""
    chunks = f" (chunks of {top.chunk})" if top.chunk else ""
    yield Match(
        title=f"{inputs.called(top.task)} read {bytes_text(top.given_bytes)} of the dataset {top.dataset}{chunks} by"
        f" {count_text(top.calls, 'call')}{part}, for which {bytes_text(top.read_bytes)} of {top.path} were read, in"
        f" {time_text(top.time_ns)}{more(len(rows))}",
        names={"path": top.path},
        cost_ns=gain.ns,
        least_ns=gain.least_ns,
        most_ns=gain.most_ns,
        estimate=True,
        count=len(rows),
        evidence=[
            Row(task=inputs.called(one.task), path=one.path, dataset=one.dataset, calls=one.calls, time_ns=one.time_ns)
            for one in rows[:EVIDENCE]
        ],
        tasks={one.task for one in rows},
        where=f"of {top.path.rpartition('/')[2]}",
    )


def _gain(one: Selection) -> int:
    return int(one.time_ns * (1 - one.given_bytes / one.read_bytes))


def _left_out(one: Selection) -> intervals.Intervals:
    begin, end = one.times.T
    weight = ((end - begin) * (1 - one.given_bytes / one.read_bytes)).astype(np.int64)
    return intervals.make(np.full(len(begin), one.task, dtype=np.int64), begin, end, weight)


RULE = Rule(
    kind="read amplification",
    about=TIME,
    title="Parts of HDF5 datasets for which much more of the file was read",
    definition=(
        f"H5Dread gave bytes of datasets, and at least {AMPLIFIED} were read of the file: a chunk is read and expanded"
        " whole, and again where the cache does not hold it until the next call. The estimate is the time in these"
        " calls, less the share of what was asked for."
    ),
    advice=(
        "Select more in a call, as much as a row of chunks has; enlarge the chunk cache until it holds the chunks of a"
        " selection (H5Pset_chunk_cache, h5py's rdcc_nbytes); or store the dataset in chunks that are shaped like what"
        " is read (h5repack -l)."
    ),
    source="The HDF Group, Chunking in HDF5; H5Pset_chunk_cache",
    query="tailrace query {run} --path {path} --where dir=r --by cat,name --agg count --agg sum:size --agg sum:dur",
    find=find,
    thresholds=(AMPLIFIED, LEAST),
    change="reads that fit the chunks",
    explains=(IO, "repeated reads", "random offsets", "small calls"),
)
