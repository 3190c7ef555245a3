"""Clock offsets between hosts, found by contradictions: bytes that were read on one host before they were written on
another.

A file that was created in the run is empty before its first write begins, so a read that returned bytes of it ended
after that. With d = clock of the reader's host minus clock of the writer's, every such pair gives the bound
d <= read end - first write, in the hosts' times, and a pair in the opposite direction bounds d from below. Clocks are
corrected only where these bounds exclude 0. The offset is then estimated on the assumption that a file is read after it
was written: d <= read begin - last write. The correction is the bound nearest to 0: the smallest one with which every
file is complete when it is read. Where that assumption contradicts itself (a file read while it grew), the first bounds
decide.

Processes of one host whose clock was set in between come with their own offsets (store/clock_steps.py), which are taken
off first.

Invariants: a run of one host, or of hosts without contradictions, is not changed but for those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from tailrace.analyzer.edges.edge_table import READ, STREAM_TYPES, EdgeTable, owners_and_kinds
from tailrace.analyzer.store import processes
from tailrace.analyzer.store.processes import Process
from tailrace.analyzer.util.types import Ints

MARGIN_NS = 1000
"""How much later than its write a corrected read is, so that the order of the two is unambiguous."""
FAR = 2**62
COLUMNS = ["reader_host", "writer_host", "files", "sure_ns", "calm_ns"]


def gaps(table: EdgeTable) -> pd.DataFrame:
    """One row per pair of hosts (`COLUMNS`): the files that one created and the other read, and the minima of two
    differences between their clocks (ns): from the begin of the first write to the end of a read (sure_ns), and from
    the end of the last write to the begin of a read (calm_ns)."""
    bursts = table.bursts.assign(host=table.who["host"].to_numpy()[table.bursts["who"]])
    bursts = bursts[~table.files["ftype"].isin(STREAM_TYPES).to_numpy()[bursts["file"]]]
    writes = bursts[bursts["dir"] != READ].sort_values("first_ns", kind="stable").drop_duplicates(["file", "who"])
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
    return out.set_axis(COLUMNS, axis=1)


def offsets(found: pd.DataFrame) -> dict[str, int]:
    """host -> ns that its clock is ahead, for hosts whose times contradict; `found` is the table of `gaps`.

    The host with the most files in pairs keeps its clock; the others follow from it, the largest correction first.
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
        corrections = {host: _correction(host, ahead, sure, calm) for host in files.keys() - ahead.keys()}
        known = {host: value for host, value in corrections.items() if value is not None}
        if not known:  # a group of hosts that shares no file with the others
            ahead[min(corrections)] = 0
            continue
        host = max(sorted(known), key=lambda name: abs(known[name]))
        ahead[host] = known[host]
    return {host: value for host, value in sorted(ahead.items()) if value}


def _correction(
    host: str, ahead: dict[str, int], sure: dict[tuple[str, str], int], calm: dict[tuple[str, str], int]
) -> int | None:
    """How far a host's clock is ahead, by the hosts in `ahead`; None when they share no file with it."""
    for bounds in (calm, sure):
        high = [ahead[w] + gap - MARGIN_NS for (r, w), gap in bounds.items() if r == host and w in ahead]
        low = [ahead[r] - gap + MARGIN_NS for (r, w), gap in bounds.items() if w == host and r in ahead]
        if not high and not low:
            return None
        if max(low, default=-FAR) <= min(high, default=FAR):
            return min(max(0, max(low, default=-FAR)), min(high, default=FAR))
    return (max(low) + min(high)) // 2  # the clocks drift


def align(table: EdgeTable, ahead: Mapping[str, int]) -> EdgeTable:
    """The table with each host's times corrected by its offset."""
    if not ahead:
        return table
    return _moved(table, np.array([ahead.get(str(host), 0) for host in table.who["host"]], dtype=np.int64))


def align_processes(table: EdgeTable, ahead: Mapping[Process, int]) -> EdgeTable:
    """The table with each process's times corrected by its own."""
    if not ahead:
        return table
    return _moved(table, np.array([ahead.get(key, 0) for key in processes.keys(table.who)], dtype=np.int64))


def _moved(table: EdgeTable, of_who: Ints) -> EdgeTable:
    moved = {}
    for name in ("bursts", "counts", "threads", "facts", "cuts"):
        rows = getattr(table, name)
        by = of_who[rows["who"].to_numpy()]
        moved[name] = rows.assign(first_ns=rows["first_ns"] - by, last_ns=rows["last_ns"] - by)
    of_burst = of_who[table.bursts["who"].to_numpy()][table.times.group]
    calls = table.thread_calls
    of_call = of_who[table.threads["who"].to_numpy(dtype=np.int64)[owners_and_kinds(calls)[0]]]
    return replace(
        table,
        **moved,
        process_events=table.process_events.assign(
            ns=table.process_events["ns"] - of_who[table.process_events["who"].to_numpy()]
        ),
        times=table.times._replace(start=table.times.start - of_burst, end=table.times.end - of_burst),
        thread_calls=calls._replace(start=calls.start - of_call, end=calls.end - of_call),
    )
