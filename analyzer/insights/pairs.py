"""Pairs of producer and consumer: streaming and co-location candidates, fans, and the caterpillar of the critical path.

stream      a file of at least `FLOOR_BYTES` that one task wrote, and one other read after it was complete, both all of
            it once from front to back, in the order of their calls, the reader without a seek: through a pipe it could
            have begun with the first write. It would have gained at most the time between the producer's first write
            and its end, not more than it worked itself, and not more than the estimate of the run without that wait
            (whatif.py).
co-locate   tasks on two hosts between which bytes passed through a file: on one host the bytes need not leave it
fan         for each stage: from how many tasks one of its tasks took data (in), and to how many it gave (out)
caterpillar the critical path (`Critical.path`, the spine) with its side inputs, from tasks beside it or from before
            the run, and its side outputs, to tasks beside it (as DataLife draws it)
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.insights import whatif
from tailrace.analyzer.insights.critical import Critical
from tailrace.analyzer.insights.inputs import FLOOR_BYTES, Inputs
from tailrace.analyzer.model import dataflow
from tailrace.analyzer.model.order import DATA
from tailrace.analyzer.util.types import Array, Bools, Ints

ESTIMATED = 10
"""Pairs on the longest chain whose gain is estimated; the others are left out."""
SPINE, SIDE_INPUT, SIDE_OUTPUT = "spine", "side input", "side output"


def streams(inputs: Inputs, c: Critical, replays: whatif.Replays) -> pd.DataFrame:
    """Pairs that could stream: producer, consumer (tasks), file (code), path, bytes, gain_ns (the most that the
    consumer could begin earlier), critical (both without slack); the largest gain first."""
    flows = _data_flows(inputs)
    fates = inputs.m.versions.table["file"].to_numpy()
    if int(flows["bytes"].sum()) < FLOOR_BYTES:
        return _nothing(_NO_STREAMS)
    flows = flows.assign(file=fates[flows["version"]])
    readers = flows.groupby("file")["consumer"].transform("nunique")
    writers = flows.groupby("file")["producer"].transform("nunique")
    alone = flows[(readers == 1) & (writers == 1) & (flows["given_ns"] == flows["since_ns"])]
    sums = alone.groupby(["producer", "consumer", "file"], as_index=False)
    rows = sums.agg(bytes=("bytes", "sum"), taken_ns=("taken_ns", "min"))
    rows = rows[(rows["bytes"] >= FLOOR_BYTES).to_numpy()]
    if rows.empty:
        return _nothing(_NO_STREAMS)
    length = {
        end: _front_to_back(inputs, way, rows["file"].to_numpy())
        .reindex(pd.MultiIndex.from_frame(rows[[end, "file"]]), fill_value=-1)
        .to_numpy(dtype=np.int64)
        for end, way in (("producer", edge_table.WRITE), ("consumer", edge_table.READ))
    }
    rows = rows[(length["consumer"] == length["producer"]) & (length["consumer"] > 0)]
    rows = rows[~_sought(inputs, rows["consumer"].to_numpy(), rows["file"].to_numpy())]
    wrote = _first_write(inputs)
    begun = wrote.reindex(pd.MultiIndex.from_frame(rows[["producer", "file"]]), fill_value=-1).to_numpy()
    ends = c.tasks["end_ns"].to_numpy()[rows["producer"]]
    ahead = np.where(begun < 0, 0, ends - begun)
    work = c.tasks["work_ns"].to_numpy()[rows["consumer"]]
    slack = c.tasks["slack_ns"].to_numpy()
    both = (slack[rows["producer"]] == 0) & (slack[rows["consumer"]] == 0)
    rows = rows.assign(gain_ns=np.maximum(np.minimum(ahead, work), 0), critical=both, path=inputs.m.paths[rows["file"]])
    order = ["critical", "gain_ns"]
    rows = rows.drop(columns="taken_ns").sort_values(order, ascending=False, kind="stable", ignore_index=True)
    shown = np.flatnonzero(rows["critical"])[:ESTIMATED].tolist()
    for at in shown:
        producer, consumer, file, gain = (
            int(rows[name].iat[at]) for name in ("producer", "consumer", "file", "gain_ns")
        )
        rows.loc[at, "gain_ns"] = min(gain, replays.streamed(producer, consumer, file))
    rows = rows[~rows["critical"] | rows.index.isin(shown)]
    return rows.sort_values(order, ascending=False, kind="stable", ignore_index=True)


def _nothing(columns: Mapping[str, Array]) -> pd.DataFrame:
    return pd.DataFrame(columns)


_NO_STREAMS = {
    **{name: np.zeros(0, dtype=np.int64) for name in ("producer", "consumer", "file", "bytes", "gain_ns")},
    "critical": np.zeros(0, dtype=np.bool_),
    "path": np.zeros(0, dtype=object),
}


def _data_flows(inputs: Inputs) -> pd.DataFrame:
    """Hand-overs of data through files, streams left out."""
    rows = inputs.handovers[inputs.handovers["via"] == DATA]
    return rows[~inputs.m.versions.table["stream"].to_numpy()[rows["version"]]]


def _front_to_back(inputs: Inputs, way: int, files: Ints) -> pd.Series[int]:
    """(task, file) -> how many bytes it read or wrote of one of these files, where its calls went from the file's first
    byte on through all bytes, each where the one before had ended; -1 where they did not, or it isn't known."""
    bursts = inputs.m.bursts
    moved = (bursts["dir"].to_numpy() == way) & np.isin(bursts["file"].to_numpy(), files)
    moved &= (bursts["bytes"] + bursts["mapped_bytes"] > 0).to_numpy()
    rows = bursts[moved].assign(task=inputs.of_who[bursts["who"].to_numpy()[moved]])
    rows = rows.sort_values(["task", "file", "first_ns"], kind="stable")
    groups = rows.groupby(["task", "file"], sort=False)
    expected = groups["to_offset"].shift(fill_value=0)
    known = (rows["loose_bytes"] == 0) & (rows["mapped_bytes"] == 0) & (rows["from_offset"] >= 0)
    straight = known & (rows["backward"] == 0) & (rows["from_offset"] == expected)
    straight &= rows["to_offset"] - rows["from_offset"] == rows["bytes"]
    if way == edge_table.WRITE:
        # Through an inherited descriptor (`sort > file`): its position only moves on, and a reader of as many bytes as
        # were written saw none of them overwritten.
        straight |= (rows["loose_bytes"] == rows["bytes"]) & (rows["mapped_bytes"] == 0)
    key = [rows["task"], rows["file"]]
    total = rows["bytes"].groupby(key).sum()
    return total.where(straight.groupby(key).all(), -1)


def _sought(inputs: Inputs, task: Ints, file: Ints) -> Bools:
    """Whether each task went to a place in a file besides asking once for it at each open, as Python's `open` does."""
    rows = inputs.m.table.patterns
    rows = rows[(rows["dir"] == edge_table.META).to_numpy()]
    sums = rows.groupby([inputs.of_who[rows["who"].to_numpy()], rows["file"].to_numpy()])[["seeks", "opens"]].sum()
    found = sums.reindex(pd.MultiIndex.from_arrays([task, file]), fill_value=0)
    return (found["seeks"] > found["opens"].clip(lower=1)).to_numpy(dtype=np.bool_)


def _first_write(inputs: Inputs) -> pd.Series[int]:
    """(task, file) -> ns of the first write that moved bytes."""
    bursts = inputs.m.bursts[(inputs.m.bursts["dir"] == edge_table.WRITE) & (inputs.m.bursts["bytes"] > 0)]
    return bursts.groupby([inputs.of_who[bursts["who"].to_numpy()], bursts["file"].to_numpy()])["first_ns"].min()


def apart(inputs: Inputs) -> pd.DataFrame:
    """Stages between whose tasks bytes passed from host to host: producer and consumer (stage codes), bytes, pairs,
    share of all bytes between the two stages; the most bytes first."""
    hosts = _host_of_task(inputs)
    flows = _data_flows(inputs)
    stage = inputs.tasks["stage_code"].to_numpy()
    known = (hosts[flows["producer"]] >= 0) & (hosts[flows["consumer"]] >= 0)
    other = hosts[flows["producer"]] != hosts[flows["consumer"]]
    if not (known & other).any():
        return _nothing(_NONE_APART)
    rows = pd.DataFrame(
        {
            "producer": stage[flows["producer"]],
            "consumer": stage[flows["consumer"]],
            "all": flows["bytes"].to_numpy(),
            "bytes": np.where(known & other, flows["bytes"], 0),
            "pairs": known & other,
        }
    )
    out = rows.groupby(["producer", "consumer"], as_index=False).sum()
    out["share"] = out["bytes"] / out["all"].where(out["all"] > 0, 1)
    out = out[out["pairs"] > 0].drop(columns="all")
    return out.sort_values("bytes", ascending=False, kind="stable", ignore_index=True)


_NONE_APART = {
    **{name: np.zeros(0, dtype=np.int64) for name in ("producer", "consumer", "bytes", "pairs")},
    "share": np.zeros(0),
}


def _host_of_task(inputs: Inputs) -> Ints:
    """The host of each task, as a code; -1 where it ran on several."""
    codes, _ = pd.factorize(inputs.m.who["host"])
    low, high = np.full(len(inputs.tasks), 2**62), np.full(len(inputs.tasks), -1)
    np.minimum.at(low, inputs.of_who, codes)
    np.maximum.at(high, inputs.of_who, codes)
    return np.where(low == high, high, -1)


def fans(inputs: Inputs) -> pd.DataFrame:
    """One row a stage (position = stage code): workflow, stage, tasks, in_median, in_max, out_median, out_max."""
    pairs = inputs.handovers.loc[inputs.handovers["via"] == DATA, ["producer", "consumer"]].drop_duplicates()
    stage = inputs.tasks["stage_code"].to_numpy()
    out: pd.DataFrame = inputs.stages[["workflow", "stage"]].reset_index(drop=True)
    out["tasks"] = np.bincount(stage, minlength=len(out))
    for name, end in (("in", "consumer"), ("out", "producer")):
        degree = pd.Series(np.bincount(pairs[end].to_numpy(dtype=np.int64), minlength=len(inputs.tasks)))
        groups = degree.groupby(stage)
        out[f"{name}_median"] = groups.median().reindex(range(len(out)), fill_value=0).to_numpy()
        out[f"{name}_max"] = groups.max().reindex(range(len(out)), fill_value=0).to_numpy()
    return out


def caterpillar(inputs: Inputs, c: Critical) -> pd.DataFrame:
    """One row a spine task or a leg: role (`SPINE`, `SIDE_INPUT`, `SIDE_OUTPUT`), at (position on the spine), task (the
    spine's), other (the task at the leg's end, -1: before the run), bytes, files; spine in time order, then bytes."""
    spine = list(dict.fromkeys(int(t) for t in c.path["task"] if t >= 0))
    place = {task: number for number, task in enumerate(spine)}
    flows = dataflow.flow_table(inputs.m, "task")
    rows: list[tuple[str, int, int, int, int, int]] = [(SPINE, at, task, task, 0, 0) for task, at in place.items()]
    for role, mine, other in ((SIDE_INPUT, "consumer", "producer"), (SIDE_OUTPUT, "producer", "consumer")):
        legs = flows[flows[mine].isin(spine) & ~flows[other].isin(spine)]
        sums = legs.groupby([mine, other], as_index=False).agg(bytes=("bytes", "sum"), files=("file", "nunique"))
        for leg in sums.to_dict("records"):
            task = int(leg[mine])
            rows.append((role, place[task], task, int(leg[other]), int(leg["bytes"]), int(leg["files"])))
    out = pd.DataFrame(rows, columns=["role", "at", "task", "other", "bytes", "files"])
    order = out["role"].map({SPINE: 0, SIDE_INPUT: 1, SIDE_OUTPUT: 2})
    out = out.assign(order=order).sort_values(
        ["at", "order", "bytes"], ascending=[True, True, False], kind="stable", ignore_index=True
    )
    return out.drop(columns="order")
