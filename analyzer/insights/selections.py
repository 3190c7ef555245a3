"""What reads of parts of datasets took beside what they gave: a library reads chunks whole, and expands them.

    functions (H5Dread) -> their events, and the reads of the same files below them --selections--> Selection

Invariants: reads events only of tasks that spent `SHARE` of the makespan in such calls. A call whose bytes are not
known (`H5Dread` of variable-length data) is left out, with its file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.edges.identities import raw
from tailrace.analyzer.insights.inputs import Inputs
from tailrace.analyzer.model import calls
from tailrace.analyzer.store.loader import Part
from tailrace.analyzer.util.types import Bools, Ints

READS = ("H5Dread", "H5Dread_multi")
SHARE = 0.01
"""Of the makespan: a task that spent less in such calls could not have spent more for a file."""
_COLUMNS = ["name", "path", "file", "object", "ts", "dur", "size", "dims", "chunk", "slab"]


@dataclass(frozen=True)
class Selection:
    """A task's (position in `Inputs.tasks`) reads of a file's datasets: how many calls, the bytes that they gave, and
    that were read of the file; the dataset with most of the time, its dimensions, those of its chunks, and the shape of
    what a call selected, "" where these differ or are not known; and when the calls were, (n, 2)."""

    task: int
    path: str
    dataset: str
    calls: int
    given_bytes: int
    read_bytes: int
    time_ns: int
    dims: str
    chunk: str
    shape: str
    times: Ints


def selections(inputs: Inputs) -> list[Selection]:
    """The reads of datasets by task and file, those that took longest first."""
    actors = _readers(inputs)
    if inputs.run is None or not actors.any():
        return []
    rows = calls.events(inputs.run, inputs.m, actors, _COLUMNS, _of_part, name=list(READS))
    if not len(rows):
        return []
    rows["task"] = inputs.of_who[rows["who"].to_numpy(dtype=np.int64)]
    below = _read_below(inputs, actors)
    found = [
        _selection(int(str(task)), str(path), mine, below.get((int(str(task)), str(file)), 0))
        for (task, path, file), mine in rows.groupby(["task", "path", "identity"])
        if mine["size"].notna().all()
    ]
    return sorted(found, key=lambda one: -one.time_ns)


def _readers(inputs: Inputs) -> Bools:
    """The actors that read datasets, of tasks that did so for long."""
    functions = inputs.m.table.functions
    rows = functions[functions["name"].isin(READS).to_numpy()]
    time = np.zeros(len(inputs.tasks), dtype=np.int64)
    np.add.at(time, inputs.of_who[rows["who"].to_numpy()], rows["time_ns"].to_numpy(dtype=np.int64))
    mine = np.zeros(len(inputs.m.who), dtype=np.bool_)
    mine[rows["who"].to_numpy()] = True
    return mine & (time >= SHARE * inputs.makespan_ns)[inputs.of_who]


def _of_part(part: Part) -> pd.DataFrame:
    frame = part()
    frame = frame[(frame["name"].isin(READS) & frame["file"].notna()).to_numpy(dtype=np.bool_)]
    texts = {
        name: frame[name].astype(object).where(frame[name].notna(), "")
        for name in ("path", "object", "dims", "chunk", "slab")
    }
    return frame.assign(**texts, identity=frame["file"].astype(str).map(raw))


def _read_below(inputs: Inputs, actors: Bools) -> dict[tuple[int, str], int]:
    """(task, identity) -> the bytes that the tasks of these actors read of the file."""
    m = inputs.m
    tasks = np.unique(inputs.of_who[actors])
    task: Ints = inputs.of_who[m.bursts["who"].to_numpy()]
    mine = (m.bursts["dir"] == edge_table.READ).to_numpy() & np.isin(task, tasks)
    sums = m.bursts[mine].assign(task=task[mine]).groupby(["task", "file"])["bytes"].sum()
    names = m.table.files["file"].to_numpy()
    return {(int(of), raw(names[file])): int(count) for (of, file), count in sums.items()}


def _selection(task: int, path: str, rows: pd.DataFrame, read_bytes: int) -> Selection:
    dataset = str(rows.groupby("object")["dur"].sum().idxmax())
    mine = rows[(rows["object"] == dataset).to_numpy()]
    shapes = {_shape(str(slab)) for slab in mine["slab"]}
    return Selection(
        task=task,
        path=path,
        dataset=dataset,
        calls=len(rows),
        given_bytes=int(rows["size"].sum()),
        read_bytes=read_bytes,
        time_ns=int(rows["dur"].sum()),
        dims=_only(set(mine["dims"])),
        chunk=_only(set(mine["chunk"]) - {""}),
        shape=shapes.pop() if len(shapes) == 1 else "",
        times=np.column_stack((rows["ts"], rows["ts"] + rows["dur"])).astype(np.int64),
    )


def _only(lists: set[object]) -> str:
    """The sizes that all have in common."""
    return _by(json.loads(str(lists.pop()))) if len(lists) == 1 and lists != {""} else ""


def _shape(slab: str) -> str:
    """How many elements a hyperslab (start, stride, count, block) has in each dimension."""
    if not slab:
        return ""
    _, _, count, block = json.loads(slab)
    return _by([n * width for n, width in zip(count, block, strict=True)])


def _by(numbers: list[int]) -> str:
    return " x ".join(f"{n:,}" for n in numbers)
