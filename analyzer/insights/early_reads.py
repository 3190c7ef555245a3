"""Reads of files that their writer had not completed: what was written later is missing from what the reader has.

    flows between tasks + bursts and their ranges --early_reads--> EarlyRead

A read is early where the reader read all bytes from the begin of what another task wrote up to a place, and was over
before the writer's last write, which lies behind that place, since it wrote in order. Whether the reader wanted more is
not known: a header may be all that it needs.

Invariants: reads no events.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from tailrace.analyzer.edges.edge_table import READ, WRITE
from tailrace.analyzer.insights.inputs import Inputs
from tailrace.analyzer.model import calls, dataflow
from tailrace.analyzer.util import grouping, intervals
from tailrace.analyzer.util.intervals import Intervals
from tailrace.analyzer.util.types import Bools


class EarlyRead(NamedTuple):
    """Two tasks and a file (codes); of the bytes that the writer wrote in all how many the reader read."""

    reader: int
    writer: int
    file: int
    read_bytes: int
    of_bytes: int


MAX_READS = 1000
"""That are looked at; those past it are left out."""


def early_reads(inputs: Inputs) -> list[EarlyRead]:
    """The early reads of a run, those of most bytes first."""
    m, task = inputs.m, inputs.of_who[inputs.m.bursts["who"].to_numpy()]
    flows = dataflow.flow_table(m, "task", ("data",))
    flows = flows[(flows["producer"] >= 0) & (flows["producer"] != flows["consumer"])]
    ends = [flows[name].to_numpy(dtype=np.int64) for name in ("consumer", "producer", "version")]
    wrote, size = (m.bursts["dir"] == WRITE).to_numpy(), len(m.versions.table)
    group, first = grouping.numbered(task[wrote] * size + m.version[wrote])
    until = grouping.most(group, m.bursts["last_ns"].to_numpy()[wrote], len(first), 0)
    last_of = dict(zip((task[wrote] * size + m.version[wrote])[first].tolist(), until.tolist(), strict=True))
    later = [last_of.get(key, 0) for key in (ends[1] * size + ends[2]).tolist()]
    early = np.flatnonzero(np.array(later, dtype=np.int64) > flows["last_ns"].to_numpy(dtype=np.int64))[:MAX_READS]
    few = np.isin(m.version, ends[2][early])
    bursts, extents = calls.kept(m.bursts.assign(task=task, version=m.version), m.table.extents, few)
    file = m.versions.table["file"].to_numpy(dtype=np.int64)
    found = []
    for reader, writer, version in zip(*(of[early].tolist() for of in ends), strict=True):
        if some := _read(bursts, extents, (reader, writer, version)):
            found.append(EarlyRead(reader, writer, int(file[version]), *some))
    return sorted(found, key=lambda row: -row.read_bytes)


def _read(bursts: pd.DataFrame, extents: Intervals, of: tuple[int, int, int]) -> tuple[int, int] | None:
    """(bytes read, bytes written) of a reader, a writer and a version, if the read is early."""
    reader, writer, version = of
    task, way, here = (bursts[name].to_numpy() for name in ("task", "dir", "version"))
    wrote = (here == version) & (task == writer) & (way == WRITE)
    given, taken = (_range(extents, one) for one in (wrote, (here == version) & (task == reader) & (way == READ)))
    if given and taken and _is_in_order(bursts[wrote]) and taken[0] <= given[0] < taken[1] < given[1]:
        return taken[1] - given[0], given[1] - given[0]
    return None


def _is_in_order(bursts: pd.DataFrame) -> bool:
    """Whether no call of one task began before the end of the one before."""
    by_time = bursts.sort_values("first_ns", kind="stable")
    begins, ends = (by_time[name].to_numpy() for name in ("from_offset", "to_offset"))
    return not (by_time["backward"].any() or (begins[1:] < ends[:-1]).any())


def _range(extents: Intervals, bursts: Bools) -> tuple[int, int] | None:
    """The bytes of some bursts, where they are one range."""
    mine = bursts[extents.group]
    group = np.zeros(int(mine.sum()), dtype=np.int64)
    united = intervals.union(intervals.make(group, extents.start[mine], extents.end[mine]))
    return (int(united.start[0]), int(united.end[0])) if len(united.start) == 1 else None
