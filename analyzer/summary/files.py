"""Data files and streams by bytes moved, with their writers and readers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table, file_classes
from tailrace.analyzer.model import dataflow, stages
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.summary.limits import LIMITS, JsonObject, ms
from tailrace.analyzer.util.types import Ints


def files(
    m: Model, code: Ints, index: Ints, task_row: Ints, how: Mapping[tuple[int, int], str], start_ns: int
) -> JsonObject:
    """`total`, and rows: path, aliases (earlier names), cls, read_bytes, written_bytes, mapped_bytes, versions,
    writers, readers (units), wrote, read (stages), by, to (rows of `tasks` that moved most, see `task_row`), unread,
    removed, how_read, how_wrote (the pattern of most bytes, see `access.py`; "" where there is none), first and last
    (ms: of accesses). `codes`: the file of each row."""
    fates = stages.file_fates(m)
    fates = fates[fates["cls"].isin((file_classes.DATA, file_classes.STREAM))]
    mapped = m.bursts.groupby("file")["mapped_bytes"].sum().reindex(fates.index, fill_value=0)
    fates = fates.assign(mapped_bytes=mapped)
    moved = fates["read_bytes"] + fates["written_bytes"] + mapped
    began = m.bursts.groupby("file")["first_ns"].min().reindex(fates.index, fill_value=0)
    fates = fates.assign(moved=moved, path=[str(m.paths[file]) for file in fates.index], began=began)
    fates = fates.sort_values(["moved", "path", "began"], ascending=[False, True, True], kind="stable")
    shown = fates.head(LIMITS["files"])
    who = m.bursts["who"].to_numpy()
    task_code, _ = dataflow.activities(m, "task")
    bursts = pd.DataFrame(
        {
            "file": m.bursts["file"].to_numpy(),
            "dir": m.bursts["dir"].to_numpy(),
            "stage": index[code[who]],
            "task": task_row[task_code[who]],
            "bytes": m.bursts["bytes"].to_numpy(),
        }
    )
    mine = np.isin(bursts["file"], shown.index)
    spans = m.bursts[mine].groupby("file").agg({"first_ns": "min", "last_ns": "max"})
    bursts = bursts[mine]
    stages_of = _lists(bursts[["file", "dir", "stage"]].drop_duplicates().sort_values("stage"), "stage")
    units_of = _units(bursts)
    aliases: dict[int, list[str]] = {}
    named = m.table.aliases[np.isin(m.table.aliases["file"], shown.index)].sort_values("last_ns", kind="stable")
    for file, name in zip(named["file"].tolist(), named["path"].tolist(), strict=True):
        aliases.setdefault(file, []).append(str(name))
    rows = []
    for file, row in zip(shown.index.tolist(), shown.to_dict("records"), strict=True):
        path = str(m.paths[file])
        others = [name for name in aliases.get(file, []) if name != path]
        rows.append(
            {
                "path": path,
                "aliases": others[-LIMITS["aliases"] :],
                "cls": file_classes.CLASSES[int(row["cls"])],
                **{
                    k: int(row[k])
                    for k in ("read_bytes", "written_bytes", "mapped_bytes", "versions", "writers", "readers")
                },
                "wrote": stages_of.get((file, edge_table.WRITE), []),
                "read": stages_of.get((file, edge_table.READ), []),
                "by": units_of.get((file, edge_table.WRITE), []),
                "to": units_of.get((file, edge_table.READ), []),
                "unread": bool(row["never_read"]),
                "removed": bool(row["removed"]),
                "how_read": how.get((file, edge_table.READ), ""),
                "how_wrote": how.get((file, edge_table.WRITE), ""),
                "first": ms(int(spans["first_ns"].get(file, start_ns)) - start_ns),
                "last": ms(int(spans["last_ns"].get(file, start_ns)) - start_ns),
            }
        )
    return {"total": len(fates), "rows": rows, "codes": shown.index.to_numpy(dtype=np.int64)}


def _units(bursts: pd.DataFrame) -> dict[tuple[int, int], list[int]]:
    """(file, dir) -> the tasks' rows that moved most of it, at most `LIMITS`."""
    rows = bursts[bursts["task"] >= 0].groupby(["file", "dir", "task"], as_index=False).agg({"bytes": "sum"})
    rows = rows.sort_values("bytes", ascending=False, kind="stable")
    return _lists(rows[rows.groupby(["file", "dir"]).cumcount() < LIMITS["units_of_file"]], "task")


def _lists(rows: pd.DataFrame, column: str) -> dict[tuple[int, int], list[int]]:
    """(file, dir) -> the values of `column`, in the order of the rows."""
    out: dict[tuple[int, int], list[int]] = {}
    for file, direction, value in zip(rows["file"].tolist(), rows["dir"].tolist(), rows[column].tolist(), strict=True):
        out.setdefault((file, direction), []).append(value)
    return out
