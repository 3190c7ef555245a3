"""Heat maps: bytes and I/O by stage over time, and which stage moves which family of files."""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt
import pandas as pd

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.summary.limits import LIMITS, JsonObject, ms
from tailrace.analyzer.summary.tasks import type_name, type_names
from tailrace.analyzer.util.types import Bools, Ints

BINS = 120
"""Columns of a map over time: as many as fit a page at a width that a pointer can hit."""

Floats = npt.NDArray[np.float64]


def over_time(m: Model, code: Ints, index: Ints, start_ns: int, window_ns: tuple[int, int], stages: int) -> JsonObject:
    """By stage and time bin: read and wrote (bytes, spread evenly over each access's time), busy (mean number of
    actors inside a read, write or metadata call), calls (reads, writes and metadata calls, those of an actor and kind
    spread evenly over its time inside them).

    Rows are the stages that moved most, `stage` has their positions; `from_ms` is the start of the first bin and
    `bin_ms` the width of one. What lies outside of the window is left out.
    """
    origin_ns = window_ns[0]
    width = max(window_ns[1] - origin_ns, 1) / BINS
    stage_of_who = index[code]
    burst_stage = stage_of_who[m.bursts["who"].to_numpy()]
    direction = m.bursts["dir"].to_numpy()
    maps: dict[str, Floats] = {}
    for name, which in (("read", edge_table.READ), ("wrote", edge_table.WRITE)):
        maps[name] = _moved(m, burst_stage, direction == which, origin_ns, width, stages)
    busy = m.table.busy
    who, kind = edge_table.owners_and_kinds(busy)
    pick = np.isin(kind, edge_table.FILES)
    rows = stage_of_who[who[pick]]
    inside = np.minimum(busy.weight[pick], busy.end[pick] - busy.start[pick]).astype(np.float64)
    maps["busy"] = spread(rows, busy.start[pick], busy.end[pick], inside, origin_ns, width, stages) / width
    maps["calls"] = _calls(m, stage_of_who, origin_ns, width, stages)
    order = np.argsort(-(maps["read"] + maps["wrote"]).sum(axis=1), kind="stable")[: LIMITS["heat_rows"]]
    kept = np.sort(order)
    return {
        "from_ms": ms(origin_ns - start_ns),
        "bin_ms": round(width / 1e6, 6),
        "stage": kept.tolist(),
        "read": np.rint(maps["read"][kept]).astype(np.int64).tolist(),
        "wrote": np.rint(maps["wrote"][kept]).astype(np.int64).tolist(),
        "busy": np.round(maps["busy"][kept], 3).tolist(),
        "calls": np.round(maps["calls"][kept], 1).tolist(),
    }


def _calls(m: Model, stage_of_who: Ints, origin_ns: int, width: float, stages: int) -> Floats:
    busy, counts, kinds = m.table.busy, m.table.counts, len(edge_table.CALLS)
    number = np.zeros(len(m.who) * kinds, dtype=np.float64)
    np.add.at(number, counts["who"].to_numpy() * kinds + counts["kind"].to_numpy(), counts["calls"].to_numpy())
    call_of_kind = np.full(len(edge_table.KINDS), -1)
    for call in (edge_table.READ, edge_table.WRITE, edge_table.META):
        call_of_kind[list(edge_table.TIMES[call])] = call
    who, kind = edge_table.owners_and_kinds(busy)
    pick = call_of_kind[kind] >= 0
    group, start, end = who[pick] * kinds + call_of_kind[kind[pick]], busy.start[pick], busy.end[pick]
    inside = np.maximum(busy.weight[pick], 1).astype(np.float64)
    whole = np.bincount(group, weights=inside, minlength=len(number))
    amount = number[group] * inside / np.maximum(whole[group], 1)
    return spread(stage_of_who[group // kinds], start, end, amount, origin_ns, width, stages)


def _moved(m: Model, stage: Ints, pick: Bools, origin_ns: int, width: float, stages: int) -> Floats:
    """Bytes by stage and bin: each burst's bytes, in proportion over the times of its calls."""
    times = m.table.times
    keep = pick[times.group]
    group, start, end = times.group[keep], times.start[keep], times.end[keep]
    length = np.maximum(end - start, 1).astype(np.float64)
    whole = np.bincount(group, weights=length, minlength=len(stage))
    amount = m.bursts["bytes"].to_numpy()[group] * length / whole[group]
    return spread(stage[group], start, end, amount, origin_ns, width, stages)


def spread(row: Ints, start: Ints, end: Ints, amount: Floats, origin_ns: int, width: float, rows: int) -> Floats:
    """A matrix (rows, BINS): each interval's amount, even over its time; only what lies in the window counts.

    The first and last bin of an interval take their parts; the bins between take a full part each by a step up and a
    step down in a running sum, so that the work does not grow with an interval's length.
    """
    meets = (end >= origin_ns) & (start <= origin_ns + width * BINS)
    row, start, end, amount = row[meets], start[meets], end[meets], amount[meets]
    first, last = ((np.clip((edge - origin_ns) / width, 0, BINS)) for edge in (start, end))
    length = (end - start) / width
    amount = np.where(length > 0, amount * (last - first) / np.maximum(length, 1e-300), amount)
    low, high = (np.minimum(position.astype(np.int64), BINS - 1) for position in (first, last))
    out = np.zeros((rows, BINS))
    inner = low == high
    np.add.at(out, (row[inner], low[inner]), amount[inner])
    row, low, high, first, last = (column[~inner] for column in (row, low, high, first, last))
    a_bin = amount[~inner] / (last - first)
    np.add.at(out, (row, low), a_bin * (low + 1 - first))
    np.add.at(out, (row, high), a_bin * (last - high))
    steps = np.zeros((rows, BINS + 1))
    np.add.at(steps, (row, low + 1), a_bin)
    np.add.at(steps, (row, high), -a_bin)
    return out + np.maximum(np.cumsum(steps[:, :BINS], axis=1), 0.0)


def families(m: Model, code: Ints, index: Ints, stages: int) -> JsonObject:
    """Which stage read and wrote how much of which family of data files: names that differ in numbers only.

    The families that moved most: rows name, files, read and wrote (bytes by stage).
    """
    data = m.classed(("data",))
    files, at = np.unique(m.bursts["file"].to_numpy()[data], return_inverse=True)
    paths = m.paths[files].tolist()
    typed = _families(paths)
    alone = {name for name, number in Counter(typed).items() if number == 1}
    codes, names = pd.factorize(
        np.array([path if kind in alone else kind for path, kind in zip(paths, typed, strict=True)], dtype=object)
    )
    size = m.bursts["bytes"].to_numpy()[data]
    moved = np.zeros(len(names), dtype=np.int64)
    np.add.at(moved, codes[at], size)
    order = sorted(range(len(names)), key=lambda i: (-moved[i], names[i]))[: LIMITS["heat_rows"]]
    place = np.full(len(names), -1, dtype=np.int64)
    place[order] = np.arange(len(order))
    counts = np.bincount(codes, minlength=len(names))
    stage = index[code[m.bursts["who"].to_numpy()[data]]]
    direction = m.bursts["dir"].to_numpy()[data]
    by_dir = []
    for way in (edge_table.READ, edge_table.WRITE):
        pick = (direction == way) & (place[codes[at]] >= 0)
        sums = np.zeros((len(order), stages), dtype=np.int64)
        np.add.at(sums, (place[codes[at[pick]]], stage[pick]), size[pick])
        by_dir.append(sums.tolist())
    rows = [
        {"name": str(names[i]), "files": int(counts[i]), "read": read, "wrote": wrote}
        for i, read, wrote in zip(order, *by_dir, strict=True)
    ]
    return {"total": len(names), "rows": rows}


def _families(paths: list[str]) -> list[str]:
    """Each path with the numbers of its last two parts taken out: a folder a task, or a file a task, is one family."""
    places = [path.rpartition("/") for path in paths]
    folders: dict[str, str] = {}
    for folder in dict.fromkeys(place[0] for place in places):
        above, slash, last = folder.rpartition("/")
        folders[folder] = above + slash + type_name(last)
    names = type_names([place[2] for place in places])
    return [folders[place[0]] + place[1] + name for place, name in zip(places, names, strict=True)]
