"""How the bytes of files were accessed: each access's pattern, by stage and direction, and by file.

An access is what one process under one task did to one version of a file in one direction; its pattern is its order
(access_order.py).

Invariants: reads no events. Data files only, without pipes and sockets.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.insights import access_order
from tailrace.analyzer.insights.access_order import NAMES
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.summary.limits import JsonObject, ms
from tailrace.analyzer.util import grouping, intervals
from tailrace.analyzer.util.types import Bools, Ints

KEY = ("version", "who", "dir")
DIRECTIONS = ("read", "write")


def accesses(m: Model) -> tuple[pd.DataFrame, Ints]:
    """One row an access: version, who, dir, file, calls, bytes, pattern (position in `NAMES`). And the row of each
    burst, -1: none."""
    picked = np.flatnonzero(
        m.classed(("data",)) & ((m.bursts["calls"] > 0) | (m.bursts["mapped_bytes"] > 0)).to_numpy()
    )
    bursts = m.bursts.iloc[picked].assign(version=m.version[picked])
    code, rows = edge_table.codes(bursts[[*KEY, "file"]])
    of_burst = np.full(len(m.bursts), -1, dtype=np.int64)
    of_burst[picked] = code
    for name in ("calls", "bytes", "mapped_bytes"):
        rows[name] = grouping.sums(code, bursts[name].to_numpy(), len(rows))
    extents = intervals.regrouped(m.table.extents, of_burst)
    rows["pattern"] = access_order.of_accesses(bursts, code, extents, len(rows))
    return rows, of_burst


def by_stage(m: Model, rows: pd.DataFrame, of_burst: Ints, stage_of_who: Ints) -> JsonObject:
    """patterns: name and meaning of each; rows by stage and direction: stage, dir, calls, bytes, ms (in which at least
    one of these calls was running), and for each pattern that occurs [bytes, calls, ms] by its name."""
    if not len(rows):
        return {"patterns": [], "rows": []}
    stage = stage_of_who[rows["who"].to_numpy()]
    width = len(NAMES) * len(DIRECTIONS)
    cell = stage * width + rows["dir"].to_numpy() * len(NAMES) + rows["pattern"].to_numpy()
    times, group = m.table.times, of_burst[m.table.times.group]
    mine = group >= 0
    size = (int(stage.max()) + 1) * width
    by_cell = _length(times, mine, cell[group[mine]], size)
    by_side = _length(times, mine, cell[group[mine]] // len(NAMES), size // len(NAMES))
    sums = {name: grouping.sums(cell, rows[name].to_numpy(), size) for name in ("calls", "bytes")}
    some = sums["calls"] + grouping.sums(cell, rows["mapped_bytes"].to_numpy(), size)
    used = sorted({int(at) % len(NAMES) for at in np.flatnonzero(some)})
    out = []
    for side in np.flatnonzero(some.reshape(-1, len(NAMES)).sum(axis=1)).tolist():
        at = slice(side * len(NAMES), (side + 1) * len(NAMES))
        found = {
            NAMES[p]: [int(sums["bytes"][at][p]), int(sums["calls"][at][p]), ms(by_cell[at][p])]
            for p in used
            if some[at][p]
        }
        total = {name: int(values[at].sum()) for name, values in sums.items()}
        place = {"stage": side // len(DIRECTIONS), "dir": DIRECTIONS[side % len(DIRECTIONS)]}
        out.append({**place, **total, "ms": ms(by_side[side]), "kinds": found})
    return {"patterns": [[NAMES[p], access_order.WORDS[NAMES[p]]] for p in used], "rows": out}


def of_files(rows: pd.DataFrame) -> dict[tuple[int, int], str]:
    """(file, dir) -> the pattern by which most of its bytes were accessed."""
    if not len(rows):
        return {}
    weight = rows.assign(weight=rows["bytes"] + rows["mapped_bytes"])
    sums = weight.groupby(["file", "dir", "pattern"], as_index=False)["weight"].sum()
    top = sums.sort_values("weight", kind="stable").drop_duplicates(["file", "dir"], keep="last")
    keys = zip(top["file"].tolist(), top["dir"].tolist(), strict=True)
    return dict(zip(keys, (NAMES[p] for p in top["pattern"].tolist()), strict=True))


def _length(times: intervals.Intervals, mine: Bools, group: Ints, size: int) -> Ints:
    united = intervals.union(intervals.make(group, times.start[mine], times.end[mine]))
    return intervals.length(united, size)
