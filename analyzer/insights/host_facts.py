"""What a run says of each host: its mounts and how fast they were, what sealing took, what was lost, its clock.

    processes, blocks, losses (catalogue), mounts (run.json) --+
    bursts of data files and when calls ran (edge table) ------+--> HostFacts

A mount's time is wall time in which at least one process of the host was inside a read, or a write, of data files that
are on it; its bandwidth is the bytes by that time, so it includes the page cache. Invariant: reads no events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.insights.inputs import Inputs
from tailrace.analyzer.insights.views import host_document
from tailrace.analyzer.model import dataflow
from tailrace.analyzer.store import mounts
from tailrace.analyzer.store.missing import CLOCK_SET
from tailrace.analyzer.store.tables import Tables
from tailrace.analyzer.util import intervals
from tailrace.analyzer.util.document import Document, Shown
from tailrace.analyzer.util.intervals import Intervals
from tailrace.analyzer.util.types import Bools, Ints

_DIRECTIONS = (edge_table.READ, edge_table.WRITE)


@dataclass(frozen=True)
class MountUse:
    """A mount and what was moved of data files on it: point and fstype are "" where no description of the host has it;
    times are ns."""

    point: str
    fstype: str
    source: str
    files: int
    read_bytes: int
    read_ns: int
    written_bytes: int
    written_ns: int


@dataclass(frozen=True, repr=False)
class HostFacts(Shown):
    """sealing_ns, self_sealing_ns: processor time, by sealers and by the traced processes. losses: cause, unit, count
    and problem (a sentence or ""). clock_ahead_ns: what was taken off its times, since they contradicted another
    host's. clock_set: by how much its clock was set during the run, in words. mounts: the most moved first."""

    host: str
    processes: int
    sealing_ns: int
    self_sealing_ns: int
    losses: list[dict[str, Any]]
    clock_ahead_ns: int
    clock_set: str
    mounts: list[MountUse]

    def document(self) -> Document:
        """What is shown of it."""
        return host_document(self)


def host_facts(run: Tables, inputs: Inputs) -> list[HostFacts]:
    """The facts of every host, by name."""
    moved = _mounts(run, inputs)
    found = []
    for host, processes, sealing, self_sealing in run.host_rows:
        name = str(host)
        lost = [row[1:] for row in run.host_losses if row[0] == host]
        found.append(
            HostFacts(
                host=name,
                processes=int(processes or 0),
                sealing_ns=int(sealing or 0),
                self_sealing_ns=int(self_sealing or 0),
                losses=[
                    dict(zip(("cause", "unit", "count", "problem"), row, strict=True))
                    for row in lost
                    if row[0] != CLOCK_SET
                ],
                clock_ahead_ns=int(inputs.m.ahead.get(name, 0)),
                clock_set=next((str(row[3]) for row in lost if row[0] == CLOCK_SET), "").removeprefix(f"{name} by "),
                mounts=moved.get(name, []),
            )
        )
    return found


def _mounts(run: Tables, inputs: Inputs) -> dict[str, list[MountUse]]:
    """Host -> its mounts."""
    m = inputs.m
    place_of = mounts.finder(run.meta)
    # Files that were created and never written have a burst without calls, after the table's own.
    rows = m.bursts.iloc[: len(m.table.bursts)]
    regular = (m.table.files["ftype"] == "reg").to_numpy()[rows["file"].to_numpy()]
    data = m.classed(dataflow.DEFAULT_CLASSES)[: len(rows)] & regular
    names = m.who["host"].astype(str).to_numpy(dtype=object)
    hosts = names[rows["who"].to_numpy()]
    files = rows["file"].to_numpy()
    codes: dict[tuple[str, mounts.Place], int] = {}
    none = mounts.Place("", "", "")
    of_row = np.full(len(rows), -1, dtype=np.int64)
    known: dict[tuple[str, int], int] = {}
    for at in np.flatnonzero(data).tolist():
        key = (str(hosts[at]), int(files[at]))
        if key not in known:
            found = place_of(key[0], str(m.paths[key[1]])) or none
            known[key] = codes.setdefault((key[0], found), len(codes))
        of_row[at] = known[key]
    moved: dict[int, Ints] = {}
    took: dict[int, Ints] = {}
    for way in _DIRECTIONS:
        mine = np.asarray(data & (rows["dir"].to_numpy() == way), dtype=np.bool_)
        moved[way] = np.zeros(len(codes), dtype=np.int64)
        np.add.at(moved[way], of_row[mine], rows["bytes"].to_numpy()[mine])
        took[way] = _wall(m.table.times, of_row, mine, len(codes))
    out: dict[str, list[MountUse]] = {}
    for (host, place), code in codes.items():
        count = len(np.unique(files[of_row == code]))
        read, written = ((int(moved[way][code]), int(took[way][code])) for way in _DIRECTIONS)
        out.setdefault(host, []).append(MountUse(*place, count, *read, *written))
    return {host: sorted(uses, key=lambda one: -(one.read_bytes + one.written_bytes)) for host, uses in out.items()}


def _wall(times: Intervals, of_row: Ints, mine: Bools, count: int) -> Ints:
    """ns by mount in which at least one of the calls ran."""
    keep = mine[times.group]
    group = of_row[times.group[keep]]
    return intervals.length(
        intervals.union(Intervals(group, times.start[keep], times.end[keep], times.weight[keep])), count
    )
