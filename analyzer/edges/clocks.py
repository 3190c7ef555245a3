"""Hosts whose clocks are apart, told by what can't be: bytes that were read on one host before they were written on
another.

A file that was made in the run holds nothing before its first write begins, so whoever read bytes of it was still
reading after that. With d = clock of the reader's host minus clock of the writer's, every such pair says
d <= read end - first write, as the clocks have them, and a pair the other way round bounds d from below. Only where
these bounds exclude 0 the clocks are taken to be apart. By how much is then estimated on the assumption that a file is
read after it was written: d <= read begin - last write. What is taken off is the bound nearest to 0: the least
correction under which every file is handed over whole. Where that assumption contradicts itself (a file read while it
grew), the first bounds decide.

Invariants: a run of one host, or of hosts that never contradict one another, is left as it is.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from tailrace.analyzer.edges.edge_table import KINDS, READ, STREAM_TYPES, EdgeTable
from tailrace.analyzer.util.types import Ints

MARGIN_NS = 1000
"""How much later than its write a read is put: the order of the two must be told."""
FAR = 2**62
COLUMNS = ["reader_host", "writer_host", "files", "sure_ns", "calm_ns"]


def gaps(table: EdgeTable) -> pd.DataFrame:
    """One row a pair of hosts (`COLUMNS`): files that one wrote first, from nothing, and the other read, and the least
    of two times by their clocks (ns): from the begin of the first write to the end of a read, and from the end of the
    last write to the begin of a read."""
    bursts = table.bursts.assign(host=table.who["host"].to_numpy()[table.bursts["who"]])
    bursts = bursts[~table.files["ftype"].isin(STREAM_TYPES).to_numpy()[bursts["file"]]]
    writes = bursts[bursts["dir"] != READ].sort_values("first_ns").drop_duplicates(["file", "who"])
    first = writes.drop_duplicates("file")
    made = table.facts.loc[table.facts["what"] == "create", ["who", "file"]].drop_duplicates()
    born = first[first["fresh"]].merge(made, on=["who", "file"])[["who", "file", "host", "first_ns"]]
    last = bursts[bursts["dir"] != READ].groupby(["file", "who"])["last_ns"].max().rename("written_ns")
    born = born.join(last, on=["file", "who"])
    reads = bursts[(bursts["dir"] == READ) & (bursts["bytes"] > 0)].groupby(["file", "host"], as_index=False)
    pairs = reads.agg(begin_ns=("first_ns", "min"), end_ns=("last_ns", "min"))
    pairs = pairs.merge(born, on="file", suffixes=("", "_writer"))
    pairs = pairs[pairs["host"] != pairs["host_writer"]]
    pairs["sure"] = pairs["end_ns"] - pairs["first_ns"]
    pairs["calm"] = pairs["begin_ns"] - pairs["written_ns"]
    groups = pairs.groupby(["host", "host_writer"], as_index=False)
    out = groups.agg(files=("file", "nunique"), sure=("sure", "min"), calm=("calm", "min"))
    result: pd.DataFrame = out.set_axis(COLUMNS, axis=1)
    return result


def offsets(found: pd.DataFrame) -> dict[str, int]:
    """host -> ns that its clock is ahead, for hosts whose times contradict; `found` is of `gaps`.

    The host with the most files in pairs keeps its clock; the others follow from it, the one that asks for most first.
    """
    if not (found["sure_ns"] < 0).any():
        return {}
    pairs = list(zip(found["reader_host"].astype(str), found["writer_host"].astype(str), strict=True))
    sure = dict(zip(pairs, found["sure_ns"].astype(int), strict=True))
    calm = dict(zip(pairs, found["calm_ns"].astype(int), strict=True))
    files: dict[str, int] = {}
    for (reader, writer), number in zip(pairs, found["files"].astype(int), strict=True):
        files[reader] = files.get(reader, 0) + number
        files[writer] = files.get(writer, 0) + number
    ahead = {max(sorted(files), key=lambda host: files[host]): 0}
    while len(ahead) < len(files):
        asked = {host: _asked(host, ahead, sure, calm) for host in files.keys() - ahead.keys()}
        known = {host: value for host, value in asked.items() if value is not None}
        if not known:  # a group of hosts that shares no file with the others
            ahead[min(asked)] = 0
            continue
        host = max(sorted(known), key=lambda name: abs(known[name]))
        ahead[host] = known[host]
    return {host: value for host, value in sorted(ahead.items()) if value}


def _asked(
    host: str, ahead: dict[str, int], sure: dict[tuple[str, str], int], calm: dict[tuple[str, str], int]
) -> int | None:
    """What the hosts that are settled make of another one's clock; None when they share no file with it."""
    for bounds in (calm, sure):
        high = [ahead[w] + gap - MARGIN_NS for (r, w), gap in bounds.items() if r == host and w in ahead]
        low = [ahead[r] - gap + MARGIN_NS for (r, w), gap in bounds.items() if w == host and r in ahead]
        if not high and not low:
            return None
        if max(low, default=-FAR) <= min(high, default=FAR):
            return min(max(0, max(low, default=-FAR)), min(high, default=FAR))
    return (max(low) + min(high)) // 2  # the clocks drift


def align(table: EdgeTable, ahead: dict[str, int]) -> EdgeTable:
    """The table with each host's times moved by what its clock is ahead."""
    if not ahead:
        return table
    of_who: Ints = np.array([ahead.get(str(host), 0) for host in table.who["host"]], dtype=np.int64)
    moved = {}
    for name in ("bursts", "counts", "facts"):
        rows = getattr(table, name)
        by = of_who[rows["who"].to_numpy()]
        moved[name] = rows.assign(first_ns=rows["first_ns"] - by, last_ns=rows["last_ns"] - by)
    of_burst = of_who[table.bursts["who"].to_numpy()][table.times.group]
    of_busy = of_who[table.busy.group // len(KINDS)]
    return replace(
        table,
        **moved,
        process_events=table.process_events.assign(
            ns=table.process_events["ns"] - of_who[table.process_events["who"].to_numpy()]
        ),
        times=table.times._replace(start=table.times.start - of_burst, end=table.times.end - of_burst),
        busy=table.busy._replace(start=table.busy.start - of_busy, end=table.busy.end - of_busy),
    )
