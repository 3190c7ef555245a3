"""Datasets in files: their writers and readers, from the calls of category HDF5, and their nodes in the graph.

    events (HDF5) --fold--> accesses (actor, version, object, direction) --add--> graph

The bytes of a file are those of system calls (edge_table.py), not of HDF5's calls: a dataset is cached, compressed,
padded, and in a collective call one rank writes the data of others. So datasets are parts of a file's node, on request,
and enter no other sum.

Invariants: an access belongs to the version of its file that the reader saw, or that contains the writer's bytes. A
dataset that a version's writers didn't write is the one of the previous version (`Versions.table.base`). A file without
system calls has no datasets (HDF5 also keeps files in memory).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table, identities
from tailrace.analyzer.edges.event_fold import POSSIBLE
from tailrace.analyzer.store import engine
from tailrace.analyzer.store.loader import EventSource, Part
from tailrace.analyzer.util import grouping
from tailrace.analyzer.util.types import Graph, Ints

if TYPE_CHECKING:
    from tailrace.analyzer.model.dataflow import Model

COLUMNS = [*edge_table.WHO, "name", "file", "object", "dir", "size", "count", "ret", "ts", "dur"]
"""The columns of events that accesses need."""
UNNAMED = ""
"""The object of a call on a dataset of unknown name."""
LINK = "H5Olink"
"""Names a dataset that was written before it had a name; `count` is the number of bytes (docs/trace-format.md)."""
KEY = ["who", "version", "object", "dir"]
_SUMS = {"bytes": "sum", "calls": "sum", "unsized": "sum", "first_ns": "min", "last_ns": "max"}


def accesses(run: EventSource, m: Model) -> pd.DataFrame:
    """The accesses to datasets: one row per (actor, version, object, direction).

    Columns: who (position in m.who), version (position in m.versions.table), object (`UNNAMED`: name unknown), dir
    (edge_table.READ or WRITE), bytes (in memory, of calls of known size), calls, unsized (calls of unknown size),
    first_ns, last_ns (int64, by the clock of the model).

    Raises:
        TraceError: a block is damaged.
    """
    places = _Places(m)
    folded = engine.compute([partial(_fold, part, places) for part in run.parts(columns=COLUMNS, cat="HDF5")])
    rows = pd.concat(folded, ignore_index=True) if folded else _no_rows()
    linked = rows[rows["link"]].groupby(["who", "version"])["bytes"].sum()
    table = rows.groupby(KEY, as_index=False).agg(_SUMS)
    # Bytes that were written before the dataset had a name are counted again under its name.
    nameless = (table["object"] == UNNAMED) & (table["dir"] == edge_table.WRITE)
    keys = pd.MultiIndex.from_frame(table[["who", "version"]])
    again = linked.reindex(keys, fill_value=0).to_numpy()
    has_link = keys.isin(linked.index)
    table["bytes"] = np.where(nameless, np.maximum(table["bytes"] - again, 0), table["bytes"])
    return table[~(nameless & has_link & (table["bytes"] == 0))].reset_index(drop=True)


class _Places:
    """The place of an event in the model: its actor, and the version of its file at that time."""

    def __init__(self, m: Model) -> None:
        who = zip(*(m.who[name].tolist() for name in edge_table.WHO), strict=True)
        self.who: Mapping[edge_table.Actor, int] = {key: code for code, key in enumerate(who)}
        self.file = {str(name): code for code, name in enumerate(m.table.files["file"])}
        self.uses = identities.uses(m.table)
        self.ahead = m.ahead
        v = m.versions.table
        at = np.flatnonzero(~v["stream"].to_numpy())
        self._version = at[np.lexsort((v["begin_ns"].to_numpy()[at], v["file"].to_numpy()[at]))]
        self._file = v["file"].to_numpy()[self._version]
        self._begin = v["begin_ns"].to_numpy()[self._version]
        writes = np.flatnonzero(m.bursts["dir"].to_numpy() == edge_table.WRITE)
        bursts = m.bursts.iloc[writes]
        order = np.lexsort((bursts["last_ns"], bursts["file"], bursts["who"]))
        self._writes = pd.MultiIndex.from_arrays([bursts["who"].to_numpy()[order], bursts["file"].to_numpy()[order]])
        self._last = bursts["last_ns"].to_numpy()[order]
        self._became = m.version[writes][order]

    def current(self, file: int, at: Ints) -> Ints:
        """The versions of a file at these times; the first one before its begin. -1: the file has none."""
        start, end = np.searchsorted(self._file, [file, file + 1])
        if start == end:
            return np.full(len(at), -1, dtype=np.int64)
        place = np.searchsorted(self._begin[start:end], at, side="right") - 1
        return self._version[start + np.maximum(place, 0)]

    def written(self, who: int, file: int, first: Ints, last: Ints) -> Ints:
        """The versions with the bytes that an actor wrote to a dataset: that of its next write to the file that ends
        after `first`; without one, since another rank writes for this one, the version at the call's end."""
        try:
            mine = self._writes.get_loc((who, file))
        except KeyError:
            return self.current(file, last)
        rows = np.arange(len(self._writes))[mine]
        rows = np.atleast_1d(rows)
        place = np.searchsorted(self._last[rows], first, side="left")
        later = place < len(rows)
        became = self._became[rows[np.minimum(place, len(rows) - 1)]]
        return np.where(later, became, self.current(file, last))


def _no_rows() -> pd.DataFrame:
    dtypes = {**dict.fromkeys(("who", "version", "dir", *_SUMS), "int64"), "object": "object", "link": "bool"}
    return grouping.frame({name: np.array([], dtype=dtype) for name, dtype in dtypes.items()})


def _fold(part: Part, places: _Places) -> pd.DataFrame:
    """The accesses of one partition of events, and whether they are `LINK`s."""
    frame = part()
    link = (frame["name"] == LINK).to_numpy()
    moves = frame["dir"].isin(["r", "w"]).to_numpy() | link
    rows = frame[moves & (frame["ret"].fillna(-1) >= 0).to_numpy() & frame["file"].notna().to_numpy()]
    if not len(rows):
        return _no_rows()
    link = (rows["name"] == LINK).to_numpy()
    keys = edge_table.actors(rows)
    who = np.array([places.who.get(key, -1) for key in keys], dtype=np.int64)
    # A copy, since a column may show its memory for reading only.
    file = rows["file"].astype(object).map(places.file).fillna(-1).to_numpy(dtype=np.int64, copy=True)
    ends = rows["ts"].to_numpy(dtype=np.int64) + rows["dur"].to_numpy(dtype=np.int64)
    for use in places.uses:
        mine = (rows["file"] == use.identity).to_numpy() & (ends >= use.begin_ns) & (ends < use.end_ns)
        file[mine] = use.code
    ahead = np.array([places.ahead.get(key[3], 0) for key in keys], dtype=np.int64)
    ts, dur = (np.clip(rows[name].to_numpy(dtype=np.int64), *POSSIBLE[name]) for name in ("ts", "dur"))
    first = ts - ahead
    size = rows["size"].where(~link, rows["count"])
    made = pd.DataFrame(
        {
            "who": who,
            "file": file,
            "object": rows["object"].astype(object).where(rows["object"].notna(), UNNAMED).to_numpy(),
            "dir": np.where(link | (rows["dir"] == "w").to_numpy(), edge_table.WRITE, edge_table.READ),
            "bytes": np.clip(size.fillna(0).to_numpy(dtype=np.int64), *POSSIBLE["size"]),
            "calls": 1,
            "unsized": size.isna().to_numpy(dtype=np.int64),
            "first_ns": first,
            "last_ns": first + dur,
            "link": link,
        }
    )
    made = made[(made["who"] >= 0) & (made["file"] >= 0)].reset_index(drop=True)
    made["version"] = np.full(len(made), -1, dtype=np.int64)
    for (actor, code, way), at in made.groupby(["who", "file", "dir"]).indices.items():
        begin, end = made["first_ns"].to_numpy()[at], made["last_ns"].to_numpy()[at]
        found = places.written(actor, code, begin, end) if way == edge_table.WRITE else places.current(code, begin)
        made.loc[at, "version"] = found
    made = made[made["version"] >= 0]
    return made.groupby([*KEY, "link"], as_index=False).agg(_SUMS)


def dataset_versions(m: Model, table: pd.DataFrame) -> Ints:
    """The version of the dataset of each access: for a read the version in which the dataset was last written, as far
    as recorded. It may be older than the reader's version of the file: a version keeps the datasets that its writers
    don't write, and the reader itself may begin one, as the library writes the file's header when it opens the file."""
    writes = table[table["dir"] == edge_table.WRITE].groupby(["version", "object"])["first_ns"].min()
    began = dict(zip(writes.index, writes.tolist(), strict=True))
    base, number = (m.versions.table[name].to_numpy() for name in ("base", "number"))

    def found(version: int, name: str, first_ns: int) -> int:
        at = version
        while (at, name) not in began or (at == version and began[at, name] > first_ns):
            if base[at] < 0:
                # A file from before the run had the dataset before; in any other its first version is unknown.
                return at if number[at] == 0 else version
            at = int(base[at])
        return at

    rows = zip(*(table[name].tolist() for name in ("version", "object", "first_ns", "dir")), strict=True)
    return np.array([found(v, name, ns) if way == edge_table.READ else v for v, name, ns, way in rows], dtype=np.int64)


def add(out: Graph, m: Model, table: pd.DataFrame, code: Ints, ids: Sequence[str]) -> None:
    """Adds the datasets of `accesses` to a graph with file nodes, in place; `code` is the activity of each actor, `ids`
    the activities' nodes.

    A dataset is a node of kind "dataset" (path, dataset, version, external, bytes written) with edges read and write
    like a file's (bytes, calls, unsized, first_ns, last_ns), and an edge of kind "part" to its file, or from its file
    where no write of the dataset was recorded: the path of the data to readers, or from writers, of the whole file. An
    activity's edge to the file is removed where all its accesses in this direction were to datasets of known names; the
    library's other reads and writes for them (headers, indices) are then not shown.
    """
    files = {(d["file"], d["version"]): node for node, d in out.nodes(data=True) if d["kind"] == "file"}
    v = m.versions.table
    keys = zip(m.table.files["file"].to_numpy()[v["file"]], v["number"].tolist(), strict=True)
    nodes = {at: files[key] for at, key in enumerate(keys) if key in files}
    rows = table.assign(at=dataset_versions(m, table), activity=code[table["who"].to_numpy()])
    rows = rows[rows["at"].isin(list(nodes)) & rows["version"].isin(list(nodes))]
    named = rows[rows["object"] != UNNAMED]
    writes = named[named["dir"] == edge_table.WRITE]
    wrote = set(zip(*(writes[name] for name in ("activity", "at", "object")), strict=True))
    made = {(at, name) for _, at, name in wrote}
    for row in named.groupby(["activity", "at", "object", "dir"], as_index=False).agg(_SUMS).to_dict("records"):
        file, activity = nodes[int(row["at"])], ids[int(row["activity"])]
        node = f"dataset:{file.removeprefix('file:')}#{quote(str(row['object']), safe='/')}"
        if node not in out:
            out.add_node(node, **_attributes(out.nodes[file], str(row["object"])))
            source, target = (node, file) if (row["at"], row["object"]) in made else (file, node)
            out.add_edge(source, target, key="part", kind="part")
        facts = {name: int(row[name]) for name in _SUMS}
        if row["dir"] == edge_table.WRITE:
            out.add_edge(activity, node, key="write", kind="write", **facts)
            out.nodes[node]["bytes"] += facts["bytes"]
        else:
            own = (row["activity"], row["at"], row["object"]) in wrote
            out.add_edge(node, activity, key="read", kind="read", own=own, **facts)
    for task, version, way in _keys(named) - _keys(rows[rows["object"] == UNNAMED]):
        edge = (ids[task], nodes[version], "write") if way == edge_table.WRITE else (nodes[version], ids[task], "read")
        if out.has_edge(*edge):
            out.remove_edge(*edge)


def _keys(rows: pd.DataFrame) -> set[tuple[int, int, int]]:
    return set(zip(*(rows[name].tolist() for name in ("activity", "version", "dir")), strict=True))


def _attributes(file: Mapping[str, object], name: str) -> dict[str, object]:
    label = name.rsplit("/", 1)[-1] or name
    of_file = {key: file[key] for key in ("path", "version", "external")}
    return {"kind": "dataset", "label": label, "dataset": name, "bytes": 0, **of_file}
