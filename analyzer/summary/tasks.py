"""The tasks of a run, by stage and type: what the timeline draws. A process without a task tag is a task here, too."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.analyzer.edges import edge_table, file_classes
from tailrace.analyzer.model import dataflow, stages
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.summary.limits import LIMITS, JsonObject, ms
from tailrace.analyzer.util.types import Ints, Objects, Row

NUMBER = re.compile(r"[0-9a-fA-F]{8,}(?:-[0-9a-fA-F]{4,})*|[0-9]+")
"""The part of a name in which tasks of one type differ: a number, a hash or a UUID."""


def type_name(task: str) -> str:
    """A task's name without its numbers: "align-0017" and "align-3" are both "align-#"."""
    return NUMBER.sub("#", task)


def type_names(names: Sequence[str]) -> list[str]:
    """`type_name` of many names: by Arrow, which takes a tenth of the time."""
    return pc.replace_substring_regex(pa.array(names, pa.large_string()), NUMBER.pattern, "#").to_pylist()


def tasks(m: Model, whole: Model, code: Ints, index: Ints, start_ns: int, declared: pd.DataFrame) -> JsonObject:
    """Rows by stage, type and start: stage (position), type (position in `types`), name, start and dur (ms), io (ms
    inside reads, writes and metadata calls), read, wrote (bytes); host and pid of untagged ones, and born (the
    process's start, hex) where others had the pid; the tag where that isn't the name, and the workflow where a run has
    several. `whole` is `m` before its workflows were folded (fold.py): names are those of its tasks.

    The longest are kept when they have to be cut. `activity` gives the row of each activity at level "task", -1: cut.
    """
    task_code, activities = dataflow.activities(whole, "task")
    counts = m.table.counts.assign(activity=task_code[m.table.counts["who"].to_numpy()])
    sums = counts.groupby("activity").agg(
        first=("first_ns", "min"), last=("last_ns", "max"), read=("read_bytes", "sum"), wrote=("written_bytes", "sum")
    )
    stage = np.zeros(len(activities), dtype=np.int64)
    stage[task_code] = index[code]
    io_ns = _io_ns(m, task_code, len(activities))
    types = _types(whole, activities, declared)
    longest = (sums["last"] - sums["first"]).sort_values(ascending=False, kind="stable").index[: LIMITS["tasks"]]
    # Activities have numbers in the order in which the trace's blocks are read: those that began at once are in the
    # order of their names.
    keys = activities.loc[longest, ["label", "workflow", "host", "pid", "start"]]
    kept = sums.loc[longest].assign(stage=stage[longest], type=types[longest], **keys)
    kept = kept.sort_values(["stage", "type", "first", *keys]).drop(columns=list(keys))
    names, numbers = np.unique(types[kept.index], return_inverse=True)
    kept["type"] = numbers
    order = kept.index.to_numpy()
    activity = np.full(len(activities), -1, dtype=np.int64)
    activity[order] = np.arange(len(kept))
    labels, workflows, tags = (activities[key].to_numpy(dtype=object) for key in ("label", "workflow", "task"))
    untagged = activities[["host", "pid", "start", "pid_uses"]].to_dict("records")
    several = len(set(workflows[workflows != ""])) > 1
    rows = [
        {
            "stage": int(row["stage"]),
            "type": int(row["type"]),
            "name": str(labels[code]),
            "start": ms(row["first"] - start_ns),
            "dur": ms(row["last"] - row["first"]),
            "io": ms(io_ns[code]),
            "read": int(row["read"]),
            "wrote": int(row["wrote"]),
            **({} if tags[code] else _place(untagged[code])),
            **({"tag": str(tags[code])} if tags[code] not in ("", labels[code]) else {}),
            **({"workflow": str(workflows[code])} if several else {}),
        }
        for code, row in zip(order.tolist(), kept.to_dict("records"), strict=True)
    ]
    return {"total": len(sums), "types": [str(name) for name in names], "rows": rows, "activity": activity}


def _place(row: Row) -> JsonObject:
    born = {"born": str(row["start"])} if row["pid_uses"] > 1 else {}
    return {"host": str(row["host"]), "pid": int(row["pid"]), **born}


def _types(m: Model, activities: pd.DataFrame, declared: pd.DataFrame) -> Objects:
    """The type of each activity: the name that its manager declared, without numbers where it is one task's alone; else
    its own without numbers; a process's program."""
    declared_names: dict[tuple[str, str], str] = {}
    if "name" in declared:
        rows = declared[declared["name"].notna()]
        keys = zip(rows["workflow"].fillna("").astype(str), rows["task"].astype(str), strict=True)
        declared_names = dict(zip(keys, rows["name"].astype(str), strict=True))
    declared_names.update({key: type_name(name) for key, name in m.names.items() if key in declared_names})
    workflows, tags, programs = (activities[name].astype(str).tolist() for name in ("workflow", "task", "exe"))
    out = [
        (declared_names.get((workflow, tag)) or kind) if tag else file_classes.program(exe) or "process"
        for workflow, tag, kind, exe in zip(workflows, tags, type_names(tags), programs, strict=True)
    ]
    return np.array(out, dtype=object)


def _io_ns(m: Model, task_code: Ints, size: int) -> Ints:
    """Wall time of each task with a read, write or metadata call running."""
    return stages.covered(m, task_code, edge_table.FILES, size)
