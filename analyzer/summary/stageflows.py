"""The dataflow from stage to stage, each flow with its largest files and pairs of tasks."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table, file_classes
from tailrace.analyzer.model import dataflow, stages, undecided
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.summary.limits import LIMITS, JsonObject
from tailrace.analyzer.util.types import Ints

RESULT = "(left at the end)"


def flows(m: Model, code: Ints, index: Ints) -> list[JsonObject]:
    """Stage to stage, with its largest files; source -1 is "before the run", target -1 is "left at the end".

    undecided_bytes: of source -1, what may as well have been written on another host (model/undecided.py)."""
    rows = dataflow.flow_table(m, "stage")[["producer", "consumer", "file", "bytes", "exact"]]
    rows = pd.concat([rows, _left(m, code)], ignore_index=True)
    pairs = _task_pairs(m, code)
    partial = dataflow.partial_activities(m, code)
    undecided_files = undecided.files(m)
    out = []
    for (producer, consumer), group in rows.groupby(["producer", "consumer"], sort=True):
        files = group.groupby("file")["bytes"].sum().sort_values(ascending=False, kind="stable")
        largest = files.head(LIMITS["files_of_flow"])
        out.append(
            {
                "source": int(index[producer]) if producer >= 0 else -1,
                "target": int(index[consumer]) if consumer >= 0 else -1,
                "bytes": int(files.sum()),
                "files": len(files),
                "undecided_bytes": int(files[undecided_files[files.index]].sum()) if producer < 0 else 0,
                "confidence": _confidence(partial, bool(group["exact"].all()), producer, consumer),
                "largest": [{"path": str(m.paths[f]), "bytes": int(b)} for f, b in largest.items()],
                **pairs.get((producer, consumer), {"pairs": 0, "tasks": []}),
            }
        )
    return out


def _confidence(partial: set[int] | None, exact: bool, *activities: int) -> str:
    """As the graph's edges have it (graphs.graph); "" without accounts."""
    if partial is None:
        return ""
    if partial & {int(activity) for activity in activities}:
        return "partial"
    return "complete" if exact else "estimated"


def _task_pairs(m: Model, code: Ints) -> dict[tuple[int, int], JsonObject]:
    """(producer stage, consumer stage) -> how many pairs of units the flow is made of, and the largest ones."""
    task_code, activities = dataflow.activities(m, "task")
    stage = np.zeros(len(activities), dtype=np.int64)
    stage[task_code] = code
    rows = dataflow.flow_table(m, "task").groupby(["producer", "consumer"], as_index=False).agg({"bytes": "sum"})
    rows["source"] = np.where(rows["producer"] < 0, -1, stage[rows["producer"]])
    rows["target"] = stage[rows["consumer"]]
    rows = rows.sort_values("bytes", ascending=False, kind="stable")
    labels = activities["label"].to_numpy()
    out = {}
    for (source, target), group in rows.groupby(["source", "target"]):
        largest = group.head(LIMITS["tasks_of_flow"]).to_dict("records")
        names = [("" if r["producer"] < 0 else str(labels[r["producer"]]), str(labels[r["consumer"]])) for r in largest]
        tasks = [
            {"producer": a, "consumer": b, "bytes": int(r["bytes"])} for (a, b), r in zip(names, largest, strict=True)
        ]
        out[(int(source), int(target))] = {"pairs": len(group), "tasks": tasks}
    return out


def _left(m: Model, code: Ints) -> pd.DataFrame:
    """What each stage wrote and no other unit read, without removed files: rows producer, consumer -1, file, bytes."""
    fates = stages.file_fates(m)
    kept = (
        ((fates["never_read"] & ~fates["removed"]) | fates["result"]) & (fates["cls"] == file_classes.DATA)
    ).to_numpy()
    pick = (m.bursts["dir"].to_numpy() == edge_table.WRITE) & kept[m.bursts["file"].to_numpy()]
    bursts = m.bursts[pick]
    rows = pd.DataFrame({"producer": code[bursts["who"].to_numpy()], "file": bursts["file"], "bytes": bursts["bytes"]})
    sums = rows.groupby(["producer", "file"], as_index=False).agg({"bytes": "sum"})
    return sums.assign(consumer=-1, exact=True)
