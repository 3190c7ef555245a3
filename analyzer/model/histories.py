"""The histories of files that a run wrote more than once: their states, with the writers and readers of each.

A loop (steering, iterative refinement, checkpoint and restart) writes the same paths again; its rounds are the states
of those files. A *state* is a version that was written (versions.py). States are numbered by path (the last one of the
file), over all files that had it. A version that its own writers rewrote before another unit read it is no state, nor
is the empty file that a shell's redirection leaves to the command:

    first      the path's first state in the run
    rewritten  the file was truncated and written anew
    added to   another task wrote into the file, the rest stayed: appending, updating in place
    replaced   another file took the path: renamed over it, or created after it was unlinked
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.model import dataflow
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.util import grouping
from tailrace.analyzer.util.types import Ints

FIRST, REWRITTEN, ADDED, REPLACED = "first", "rewritten", "added to", "replaced"
COLUMNS = {
    "path": "the last path of the file",
    "state": "1, 2, ... in the order of their begins",
    "how": "first, rewritten, added to, replaced",
    "version": "position in the table of versions",
    "begin_ns": "first write, ns since the epoch",
    "end_ns": "last write",
    "bytes": "written to this state",
    "read_bytes": "read of it by others than its writers",
}


def histories(m: Model, classes: Sequence[str] = ("data",)) -> pd.DataFrame:
    """One row per state of a path that had several, columns `COLUMNS`; the path whose second state began first is
    first.

    Raises QueryError: there is no such class.
    """
    v = m.versions.table
    pick = m.classed(classes)
    wrote = m.bursts["dir"].to_numpy() == edge_table.WRITE
    bytes_ = m.bursts["bytes"].to_numpy(dtype=np.int64)
    unit = m.unit.astype(np.int64)
    written = _sum(m.version[pick & wrote], bytes_[pick & wrote], len(v))
    makers = pd.MultiIndex.from_arrays([m.version[pick & wrote], unit[pick & wrote]])
    readers = pd.MultiIndex.from_arrays([m.version, unit])
    others = pick & ~wrote & ~readers.isin(makers)
    rows = v.assign(version=np.arange(len(v)), path=m.paths[v["file"].to_numpy()], bytes=written)
    rows["read_bytes"] = _sum(m.version[others], bytes_[others], len(v))
    rows["writers"] = _writers(m.version[pick & wrote], unit[pick & wrote], len(v))
    rows = rows[(rows["writers"] >= 0) & ~rows["stream"]]
    rows = rows.sort_values(["path", "begin_ns", "version"], kind="stable")
    empty = (rows["bytes"] == 0) & (rows["read_bytes"] == 0)
    goes_on = (rows["path"] == rows["path"].shift(-1)) & (rows["file"] == rows["file"].shift(-1))
    left = empty & goes_on & ~rows["truncated"].shift(-1, fill_value=True)
    rows["truncated"] |= rows["truncated"].shift(fill_value=False) & left.shift(fill_value=False)
    rows = rows[~left]
    same = (rows["path"] == rows["path"].shift(-1)) & (rows["writers"] == rows["writers"].shift(-1))
    rows = rows[~same | (rows["read_bytes"] > 0)]
    rows = rows[rows.duplicated("path", keep=False)]
    states = rows.groupby("path", sort=False).cumcount() + 1
    replaced = rows["file"] != rows["file"].shift()
    how = np.where(replaced, REPLACED, np.where(rows["truncated"], REWRITTEN, ADDED))
    rows = rows.assign(state=states, how=np.where(states == 1, FIRST, how))
    seconds = rows[rows["state"] == 2].set_index("path")["begin_ns"]
    order = rows["path"].map(seconds)
    return rows.assign(order=order).sort_values(["order", "path", "state"], kind="stable", ignore_index=True)[
        list(COLUMNS)
    ]


def _sum(version: Ints, values: Ints, size: int) -> Ints:
    return np.bincount(version, weights=values, minlength=size).astype(np.int64)


def _writers(version: Ints, unit: Ints, size: int) -> Ints:
    """A number for the set of units that wrote each version: equal sets have equal numbers, the empty one -1."""
    pairs = grouping.groups(grouping.pack(version, unit))
    version, unit = pairs.first(version), pairs.first(unit)
    out = np.full(size, -1, dtype=np.int64)
    if len(version) == 0:
        return out
    alone = np.bincount(version, minlength=size)[version] == 1
    out[version[alone]] = unit[alone]  # nearly all versions; only the others need sets
    several: dict[int, list[int]] = {}
    for one, writer in zip(version[~alone].tolist(), unit[~alone].tolist(), strict=True):
        several.setdefault(one, []).append(writer)
    numbers: dict[tuple[int, ...], int] = {}
    for one, writers in several.items():
        out[one] = int(unit.max()) + 1 + numbers.setdefault(tuple(writers), len(numbers))
    return out


def actors(m: Model, versions: Ints) -> pd.DataFrame:
    """The writers and the other readers of these versions: one row per (version, activity of level task), in the order
    of first accesses, writers first.

    Columns: version; name (display name); stage (position in `dataflow.activities(m, "stage")`); reads (False for a
    writer, even if it also read the version); first_ns (the first write of a writer, the first read of a reader).
    """
    code, activities = dataflow.activities(m, "task")
    who = m.bursts["who"].to_numpy()
    rows = m.bursts[["first_ns"]].assign(version=m.version, activity=code[who])
    rows["stage"] = dataflow.activities(m, "stage")[0][who]
    rows["reads"] = m.bursts["dir"].to_numpy() == edge_table.READ
    rows = rows[rows["version"].isin(versions)].sort_values(["reads", "first_ns"], kind="stable")
    rows = rows.drop_duplicates(["version", "activity"])
    rows["name"] = activities["label"].astype(str).to_numpy()[rows["activity"]]
    return rows[["version", "name", "stage", "reads", "first_ns"]].reset_index(drop=True)
