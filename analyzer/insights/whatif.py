"""Estimates of the makespan: files on a faster tier, or two stages side by side.

The model, in both: the estimate is the makespan less what the bound of the critical path (critical.py) would lose.
Tasks keep their compute time, the time between tasks that no data explains (queue, scheduling) stays, and files and
stages that are not named keep their speed. So it is an estimate for the same run with only that change; contention,
which a faster tier may ease, and the number of cores are not modelled.

    tier        time inside reads and writes of the named files is divided by `factor`. With rates in bytes/s the factor
                is the measured rate (bytes by time in calls on these files) against the given one.
    together    the consumers of a stage take each file of the producers as it is written: begin after its first byte,
                end after its last, as through a pipe. An order that the process tree forces stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tailrace.analyzer.edges.file_names import FileNames
from tailrace.analyzer.insights import critical
from tailrace.analyzer.insights.inputs import DATA, Inputs, writes
from tailrace.analyzer.insights.order import DECLARED
from tailrace.analyzer.store.conditions import Glob
from tailrace.analyzer.util import intervals
from tailrace.analyzer.util.types import Bools
from tailrace.errors import QueryError


@dataclass(frozen=True)
class Estimate:
    """makespan_ns: as measured; estimate_ns: as estimated; saved_ns: their difference; io_ns: time in the calls that
    change; model: in words."""

    makespan_ns: int
    estimate_ns: int
    saved_ns: int
    io_ns: int
    model: str


def tier(inputs: Inputs, patterns: Sequence[str], factor: float = 0.0, bytes_per_s: float = 0.0) -> Estimate:
    """Files that fit one of the shell patterns, by any of their names, on a tier that is `factor` times as fast, or
    gives `bytes_per_s` to each task.

    Raises:
        QueryError: no data file fits, or the speed is not given as one number above 0.
    """
    if (factor > 0) == (bytes_per_s > 0):
        raise QueryError("give the tier's speed as a factor or in bytes/s, above 0, and not both")
    codes = FileNames(inputs.m.table).codes_of([Glob(pattern) for pattern in patterns])
    named = np.isin(np.arange(len(inputs.m.paths)), codes)
    pick = named[inputs.m.bursts["file"].to_numpy()] & inputs.m.classed(("data",))
    if not pick.any():
        raise QueryError(f"no data file of the run fits {', '.join(map(repr, patterns))}")
    inside = io_cover(inputs, pick)
    io_ns = int(inside.length().sum())
    if not factor:
        moved = int(inputs.m.bursts["bytes"].to_numpy()[pick].sum())
        factor = max(bytes_per_s * io_ns / 1e9 / max(moved, 1), 1e-9)
    before, after = critical.bound(inputs), critical.bound(inputs, quicker=inside, factor=factor)
    files = len(np.unique(inputs.m.bursts["file"].to_numpy()[pick]))
    model = f"calls on {files} files take 1/{factor:.3g} of their time; compute and gaps between tasks do not change"
    return _estimate(inputs, before.ns - after.ns, io_ns, model)


def io_cover(inputs: Inputs, pick: Bools) -> intervals.Cover:
    """When each task was inside calls of the bursts of `pick`."""
    times = inputs.m.table.times
    # Files that were created and never written have a burst without calls, after the table's own.
    keep = pick[: len(inputs.m.table.bursts)][times.group]
    task = inputs.of_who[inputs.m.table.bursts["who"].to_numpy()[times.group[keep]]]
    rows = intervals.Intervals(task, times.start[keep], times.end[keep], times.weight[keep])
    return intervals.cover(intervals.union(rows), len(inputs.tasks))


def together(inputs: Inputs, producer: str, consumer: str) -> Estimate:
    """Tasks of stage `consumer` run beside the tasks of stage `producer` whose files they read.

    Raises:
        QueryError: there is no such stage, or no data passes from one to the other.
    """
    names = inputs.stages["stage"].astype(str).tolist()
    for name in (producer, consumer):
        if name not in names:
            raise QueryError(f"there is no stage {name!r}; there are {', '.join(sorted(set(names)))}")
    stage = np.array(names, dtype=object)[inputs.tasks["stage_code"].to_numpy()]
    rows = inputs.handovers
    between = (
        (rows["via"] == DATA).to_numpy()
        & (stage[rows["producer"]] == producer)
        & (stage[rows["consumer"]] == consumer)
        & (rows["given_ns"] == rows["since_ns"]).to_numpy()
    )
    if not between.any():
        raise QueryError(f"no complete file passes from stage {producer!r} to stage {consumer!r}")
    waited = (stage[rows["producer"]] == producer) & (stage[rows["consumer"]] == consumer)
    saved = _saved_side_by_side(inputs, between, np.asarray(waited, dtype=np.bool_))
    model = (
        f"{int(between.sum())} files pass from {producer} to {consumer} while they are written; nothing else changes"
    )
    return _estimate(inputs, saved, 0, model)


def streamed(inputs: Inputs, producer: int, consumer: int, file: int) -> int:
    """By how many ns the run would have been shorter at the most, had one task read a file while the other one wrote
    it."""
    rows = inputs.handovers
    ends = ((rows["producer"] == producer) & (rows["consumer"] == consumer)).to_numpy()
    of_file = inputs.m.versions.table["file"].to_numpy()[rows["version"]] == file
    complete = (rows["given_ns"] == rows["since_ns"]).to_numpy()
    return _saved_side_by_side(inputs, ends & of_file & (rows["via"] == DATA).to_numpy() & complete, ends)


def _saved_side_by_side(inputs: Inputs, between: Bools, waited: Bools) -> int:
    """What the bound loses where the hand-overs of `between` happen while their files are written. Those of `waited`
    that were declared are left out: side by side, a consumer waits for the bytes and not for the producer's end."""
    rows = inputs.handovers
    wrote = writes(inputs.m, inputs.of_who)
    at = wrote.index.get_indexer(pd.MultiIndex.from_frame(rows.loc[between, ["producer", "version"]]))
    begun = np.where(at >= 0, wrote["first_ns"].to_numpy()[at], rows["given_ns"].to_numpy()[between])
    head, tail = rows.copy(), rows[between].copy()
    head.loc[between, "given_ns"] = begun
    head = head[~(waited & (head["via"] == DECLARED).to_numpy())]
    tail["taken_ns"] = inputs.tasks["end_ns"].to_numpy()[tail["consumer"]]
    changed = pd.concat([head, tail], ignore_index=True)
    return critical.bound(inputs).ns - critical.bound(inputs, handovers=changed).ns


def _estimate(inputs: Inputs, saved: int, io_ns: int, model: str) -> Estimate:
    return Estimate(inputs.makespan_ns, inputs.makespan_ns - saved, saved, io_ns, model)


def io_by_file(inputs: Inputs) -> dict[int, int]:
    """file code -> ns of all tasks inside calls on it (data files); the most that a faster tier could save."""
    times = inputs.m.table.times
    pick = inputs.m.classed(("data",))[: len(inputs.m.table.bursts)][times.group]
    bursts = inputs.m.table.bursts
    task = inputs.of_who[bursts["who"].to_numpy()[times.group[pick]]]
    file = bursts["file"].to_numpy()[times.group[pick]]
    key = task * max(len(inputs.m.table.files), 1) + file
    united = intervals.union(intervals.Intervals(key, times.start[pick], times.end[pick], times.weight[pick]))
    total = np.zeros(len(inputs.m.table.files), dtype=np.int64)
    np.add.at(total, united.group % max(len(inputs.m.table.files), 1), united.weight)
    return {int(code): int(ns) for code, ns in enumerate(total) if ns}
