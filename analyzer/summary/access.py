"""How the bytes of files were accessed: each access's pattern, by stage and direction, and by file.

An access is what one process under one task did to one version of a file in one direction; its pattern is that of
`file_history.pattern`, here for all accesses of a run at once (a test compares the two).

Invariants: reads no events. Data files only, without pipes and sockets.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.insights.file_history import PATTERNS, RANDOM_SHARE
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.summary.limits import JsonObject, ms
from tailrace.analyzer.util import grouping, intervals
from tailrace.analyzer.util.types import Array, Bools, Ints

NAMES = tuple(PATTERNS)
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
    for name in ("calls", "bytes", "mapped_bytes", "loose_bytes", "backward"):
        rows[name] = _sums(code, bursts[name].to_numpy(), len(rows))
    rows["exact"] = _sums(code, ~bursts["exact"].to_numpy(dtype=np.bool_), len(rows)) == 0
    rows["backward"] += _again(code, bursts, len(rows))
    rows["pattern"] = _patterns(rows, _ranges(m, of_burst, len(rows)))
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
    sums = {name: _sums(cell, rows[name].to_numpy(), size) for name in ("calls", "bytes")}
    some = sums["calls"] + _sums(cell, rows["mapped_bytes"].to_numpy(), size)
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
    return {"patterns": [[NAMES[p], PATTERNS[NAMES[p]]] for p in used], "rows": out}


def of_files(rows: pd.DataFrame) -> dict[tuple[int, int], str]:
    """(file, dir) -> the pattern by which most of its bytes were accessed."""
    if not len(rows):
        return {}
    weight = rows.assign(weight=rows["bytes"] + rows["mapped_bytes"])
    sums = weight.groupby(["file", "dir", "pattern"], as_index=False)["weight"].sum()
    top = sums.sort_values("weight", kind="stable").drop_duplicates(["file", "dir"], keep="last")
    keys = zip(top["file"].tolist(), top["dir"].tolist(), strict=True)
    return dict(zip(keys, (NAMES[p] for p in top["pattern"].tolist()), strict=True))


def _sums(code: Ints, values: Array, groups: int) -> Ints:
    out = np.zeros(groups, dtype=np.int64)
    np.add.at(out, code, values.astype(np.int64))
    return out


def _length(times: intervals.Intervals, mine: Bools, group: Ints, size: int) -> Ints:
    united = intervals.union(intervals.make(group, times.start[mine], times.end[mine]))
    return intervals.length(united, size)


def _again(code: Ints, bursts: pd.DataFrame, groups: int) -> Ints:
    """How many bursts of each access began before the end of the one before."""
    order = np.lexsort((bursts["first_ns"].to_numpy(), code))
    begins, ends = (bursts[name].to_numpy()[order] for name in ("from_offset", "to_offset"))
    ordered = code[order]
    back = (ordered[1:] == ordered[:-1]) & (begins[1:] < ends[:-1])
    return _sums(ordered[1:], back, groups)


def _ranges(m: Model, of_burst: Ints, groups: int) -> pd.DataFrame:
    """Of each access: the byte ranges it touched (ranges), their bytes (distinct), and whether they are pieces of one
    size at one distance (even)."""
    extents = m.table.extents
    group = of_burst[extents.group]
    mine = group >= 0
    united = intervals.union(intervals.make(group[mine], extents.start[mine], extents.end[mine]))
    length = united.end - united.start
    number = np.bincount(united.group, minlength=groups)
    first = grouping.first_of_run(united.group) if len(united.group) else np.zeros(0, dtype=np.bool_)
    same = np.ones(groups, dtype=np.bool_)
    if len(length):
        head = np.flatnonzero(first)[np.cumsum(first) - 1]  # the first range of each range's access
        np.logical_and.at(same, united.group, length == length[head])
        inner = np.flatnonzero(~first)
        step = united.start[inner] - united.start[inner - 1]
        first_step = united.start[np.minimum(head[inner] + 1, len(length) - 1)] - united.start[head[inner]]
        np.logical_and.at(same, united.group[inner], step == first_step)
    distinct = _sums(united.group, length, groups)
    return grouping.frame({"ranges": number, "distinct": distinct, "even": same})


def _patterns(rows: pd.DataFrame, ranges: pd.DataFrame) -> Ints:
    back, one = rows["backward"].to_numpy(), ranges["ranges"].to_numpy() == 1
    size, calls = rows["bytes"].to_numpy(), rows["calls"].to_numpy()
    rounds = -(-size // np.maximum(ranges["distinct"].to_numpy(), 1)) - 1
    even = rows["exact"].to_numpy() & (ranges["ranges"].to_numpy() > 2) & ranges["even"].to_numpy()
    unknown = (ranges["ranges"].to_numpy() == 0) | (rows["loose_bytes"].to_numpy() * 2 > size)
    cases = [
        ("mapped", (size == 0) & (rows["mapped_bytes"].to_numpy() > 0)),
        ("unknown", unknown),
        ("sequential", (back == 0) & one),
        ("strided", (back == 0) & even),
        ("gaps", back == 0),
        ("repeated", one & (back <= np.maximum(rounds, 0))),
        ("random", back > RANDOM_SHARE * calls),
    ]
    picked = [case for _, case in cases]
    return np.select(picked, [NAMES.index(name) for name, _ in cases], NAMES.index("mixed")).astype(np.int64)
