"""Bandwidth over time by stage, as counters of Chrome's trace event format.

The bytes of an access burst lie evenly in the times in which its calls ran (`EdgeTable.times`); a burst without such
times lies in its span. `BINS` bins divide the run, so that the counters are as many however long it was. Data files
only: programs' own files and messages would hide them.

Invariant: the areas below a stage's counters are the bytes that it read and wrote.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.model import dataflow
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.util.types import Floats, Ints
from tailrace.base.text import clean

BINS = 500
MIB = 1 << 20
GROUP = "bandwidth"


def counters(m: Model, group: int, origin: int, end: int) -> Iterator[str]:
    """Lines of the track group `group`: a counter of each stage and direction, in MiB/s."""
    width = max(-(-(end - origin) // BINS), 1)
    stage_of_who, stages = dataflow.activities(m, "stage")
    series = _bytes(m, stage_of_who, len(stages), origin, width)
    if not series.any():
        return
    yield f'{{"ph":"M","name":"process_name","pid":{group},"tid":{group},"args":{{"name":"{GROUP}"}}}}'
    yield f'{{"ph":"M","name":"process_sort_index","pid":{group},"tid":{group},"args":{{"sort_index":-1}}}}'
    for code, stage in enumerate(stages["stage"].astype(str)):
        for at, way in ((edge_table.READ, "read"), (edge_table.WRITE, "written")):
            values = series[code, at]
            if not values.any():
                continue
            name = json.dumps(clean(f"{stage}: {way} MiB/s"))
            rates = np.append(values / MIB / (width / 1e9), 0.0)
            changed = np.flatnonzero(np.diff(rates, prepend=0.0) != 0)
            for place in changed.tolist():
                us = place * width / 1000
                yield (
                    f'{{"ph":"C","name":{name},"cat":"bandwidth","pid":{group},"ts":{us:.3f},'
                    f'"args":{{"MiB/s":{rates[place]:.6g}}}}}'
                )


def _bytes(m: Model, stage_of_who: Ints, stages: int, origin: int, width: int) -> Floats:
    """Bytes by stage, direction (`edge_table.READ`, `WRITE`) and bin: shape (stages, 2, BINS)."""
    bursts, times = m.bursts, m.table.times
    keep = m.classed(("data",)) & (bursts["bytes"] > 0).to_numpy() & (bursts["first_ns"] > 0).to_numpy()
    moved = np.where(keep, bursts["bytes"].to_numpy(), 0).astype(np.float64)
    inside = np.zeros(len(bursts), dtype=np.int64)
    np.add.at(inside, times.group, times.weight)
    timed = inside[times.group] > 0
    alone = np.flatnonzero(keep & (inside == 0))
    burst = np.concatenate([times.group[timed], alone])
    start = np.concatenate([times.start[timed], bursts["first_ns"].to_numpy()[alone]]) - origin
    end = np.concatenate([times.end[timed], bursts["last_ns"].to_numpy()[alone]]) - origin
    share = np.concatenate([times.weight[timed] / inside[times.group[timed]], np.ones(len(alone))])
    size = moved[burst] * share
    out = np.zeros((stages * 2, BINS))
    row = stage_of_who[bursts["who"].to_numpy()[burst]] * 2 + bursts["dir"].to_numpy()[burst]
    long = np.maximum(end - start, 1)
    first, last = np.clip(start // width, 0, BINS - 1), np.clip((start + long - 1) // width, 0, BINS - 1)
    # Most lie in one bin; the others are divided bin by bin, which takes as many rounds as the longest has bins.
    for step in range(int((last - first).max(initial=0)) + 1):
        here = first + step
        mine = here <= last
        low = np.maximum(start, here * width)
        high = np.where(here == BINS - 1, start + long, np.minimum(start + long, (here + 1) * width))
        part = np.maximum(high - low, 0) / long
        np.add.at(out, (row[mine], here[mine]), (size * part)[mine])
    return out.reshape(stages, 2, BINS)
