"""NetworkX graphs of a run's dataflow at each level.

    Model (dataflow.py) --> graph() --> exports, annotate.py, `Run.dataflow`

Nodes are activities (`dataflow.activities`) and, on request, versions of files, packages and datasets. All sums are
computed in tables before: nothing here loops over events.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import confidence, edge_table
from tailrace.analyzer.edges.packages import package
from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.model import datasets
from tailrace.analyzer.model.dataflow import (
    ACTIVITY_KEYS,
    DEFAULT_CLASSES,
    Model,
    access_table,
    activities,
    activity_id,
    file_id,
    flow_table,
    model,
    partial_activities,
)
from tailrace.analyzer.util import grouping
from tailrace.analyzer.util.types import Bools, Graph, Ints
from tailrace.errors import QueryError

FILES = ("none", "shared", "all")


def graph(
    run: AnalyzedRun | Model,
    level: str = "stage",
    files: str | None = None,
    classes: Sequence[str] = DEFAULT_CLASSES,
    packages: Sequence[str] = (),
    stage: Sequence[str] | str = (),
    with_datasets: bool = False,
) -> Graph:
    """The dataflow graph of a run (or of a `Model`).

    Nodes have `kind` ("workflow", "stage", "task", "process", "file", "package", "dataset"), `label`, and by kind:
    workflow, stage, task, host, pid, start, exe; for a file version: path, aliases, version, bytes (written; for @0 the
    extent read), ftype, external; for a package: files; for a dataset: path, dataset, version, bytes, external
    (datasets.py).
    Edges have `kind`:
        flow   producer -> consumer: bytes, unique_bytes, files, first_ns, last_ns (of the reads), exact
        read   file -> activity: bytes, calls, first_ns, last_ns, extents, exact, own (the activity wrote this
               version), raced
        write  activity -> file: bytes, calls, first_ns, last_ns, extents, exact
        base   version -> the next one, which still contains the bytes that were not overwritten
        part   file -> dataset in it, or dataset -> file where a write of the dataset was recorded

    Edges but `base` and `part` have `confidence`, one of `confidence.CONFIDENCES`. The graph has `cycles` (the number
    that times don't resolve) and `clocks_ahead_ns` (host -> ns that were subtracted from its times, clocks.py).

    Args:
        level: one of `LEVELS`.
        files: "none" for flows between activities, "all" for file nodes, "shared" for file nodes between different
            activities only; default: "none" at the levels workflow and stage, "all" at task and process, and with
            datasets.
        classes: classes of files (`file_classes.CLASSES`) with a node per file; software and system files are left out
            by default.
        packages: classes of files with a node per package (packages.py), beside file nodes.
        stage: only these stages, by display name, with the files and activities next to them.
        with_datasets: HDF5's datasets as parts of their files, with their writers and readers; reads events.

    Raises:
        QueryError: no such level, files, class or stage; stages of the level workflow; datasets without file nodes, or
            of a `Model`.
    """
    m = run if isinstance(run, Model) else model(run)
    shown = files or ("none" if level in ("workflow", "stage") and not with_datasets else "all")
    if with_datasets and (shown == "none" or isinstance(run, Model)):
        what = "of a model, which has no events" if isinstance(run, Model) else "without file nodes (files: none)"
        raise QueryError(f"datasets are parts of file nodes and come from events; there are none {what}")
    if shown not in FILES:
        raise QueryError(f"no files {shown!r}; choose one of {', '.join(FILES)}")
    if stage and level == "workflow":
        raise QueryError("the level workflow has no stages: select stages at the levels stage, task and process")
    code, table = activities(m, level)
    # Imports networkx.
    from tailrace.analyzer.model.graph_drawing import DataflowGraph

    out: Graph = DataflowGraph(level=level, files=shown)
    ids = [activity_id(level, row) for row in table.to_dict("records")]
    for name, row in zip(ids, table.to_dict("records"), strict=True):
        kind = name.split(":", 1)[0]
        keys = (*ACTIVITY_KEYS[kind], "exe") if kind == "process" else ACTIVITY_KEYS[kind]
        attributes = {k: row[k] for k in keys if str(row[k]) not in ("", "-1")}
        out.add_node(name, kind=kind, label=row["label"], **attributes)
    if shown == "none":
        _add_flows(out, m, level, ids, classes)
    else:
        _add_files(out, m, code, ids, shown, classes)
    if with_datasets and not isinstance(run, Model):
        datasets.add(out, m, datasets.accesses(run, m), code, ids)
    if packages and shown != "none":
        _add_packages(out, m, code, ids, packages)
    partial = partial_activities(m, code)
    lossy = {int(activity) for activity in code[m.of_processes(m.lossy)]}
    confidence.mark(out, None if partial is None else {ids[p] for p in partial}, {ids[p] for p in lossy})
    out.graph["clocks_ahead_ns"] = dict(m.ahead)
    return _of_stages(out, ids, table, [stage] if isinstance(stage, str) else list(stage))


def _of_stages(out: Graph, ids: list[str], table: pd.DataFrame, wanted: list[str]) -> Graph:
    """The part of a graph around the activities of these stages; the whole graph for none."""
    if not wanted:
        return out
    there = sorted(set(table["stage"].astype(str)))
    for name in wanted:
        if name not in there:
            raise QueryError(f"there is no stage {name!r}; there are {', '.join(there)}")
    mine = {node for node, name in zip(ids, table["stage"].astype(str), strict=True) if name in wanted}
    near = {end for node in mine for end in (*out.predecessors(node), *out.successors(node))}
    for edges in (out.in_edges(near, keys=True), out.out_edges(near, keys=True)):
        near |= {end for *ends, key in edges if key == "part" for end in ends}
    # Not `subgraph`, which takes the nodes in the order of the set.
    part: Graph = out.copy()
    part.remove_nodes_from([node for node in out if node not in mine | near])
    others = [edge for edge in part.edges(keys=True) if not mine & set(edge[:2]) and edge[2] not in ("base", "part")]
    part.remove_edges_from(others)
    return part


def _add_packages(out: Graph, m: Model, code: Ints, ids: list[str], classes: Sequence[str]) -> None:
    """Adds a node for each package of the files of `classes`, with an edge to every activity that read it."""
    pick = m.classed(classes) & (m.bursts["dir"].to_numpy() == edge_table.READ)
    rows = m.bursts.loc[pick, ["file", "bytes", "calls", "first_ns", "last_ns"]].assign(
        activity=code[m.bursts["who"].to_numpy()[pick]]
    )
    names = {file: package(str(m.paths[file])) for file in rows["file"].unique().tolist()}
    rows["package"] = rows["file"].map(names)
    sums = {"bytes": ("bytes", "sum"), "calls": ("calls", "sum"), "files": ("file", "nunique")}
    spans = {"first_ns": ("first_ns", "min"), "last_ns": ("last_ns", "max")}
    for row in rows.groupby(["package", "activity"], as_index=False).agg(**sums, **spans).to_dict("records"):
        name, activity = str(row.pop("package")), ids[int(row.pop("activity"))]
        node = "package:" + quote(name, safe="")
        if node not in out:
            out.add_node(node, kind="package", label=name, files=0)
        out.nodes[node]["files"] = max(out.nodes[node]["files"], int(row["files"]))
        out.add_edge(node, activity, key="read", kind="read", **{str(k): int(v) for k, v in row.items()})


def _add_flows(out: Graph, m: Model, level: str, ids: list[str], classes: Sequence[str]) -> None:
    rows = flow_table(m, level, classes)
    rows = rows[rows["producer"] >= 0]
    key = ["producer", "consumer"]
    hows = {"bytes": np.add, "unique_bytes": np.add, "files": np.add, **edge_table.SPAN, "exact": np.logical_and}
    files = grouping.groups(grouping.pack(*(rows[name].to_numpy() for name in (*key, "file"))))
    new_file = np.zeros(len(rows), dtype=np.int64)
    new_file[files.order[files.at]] = 1
    for row in edge_table.summed(rows.assign(files=new_file), key, hows).to_dict("records"):
        source, target, exact = ids[row.pop("producer")], ids[row.pop("consumer")], bool(row.pop("exact"))
        sums = {str(k): int(v) for k, v in row.items()}
        out.add_edge(source, target, key="flow", kind="flow", **sums, exact=exact)


def _add_files(out: Graph, m: Model, code: Ints, ids: list[str], shown: str, classes: Sequence[str]) -> None:
    rows, extents = access_table(m, code, classes)
    keep = _kept_versions(m, rows, shown)
    aliases = m.table.aliases.sort_values("last_ns", kind="stable").groupby("file")["path"].agg(list)
    wrote = set(
        zip(
            rows["version"][rows["dir"] == edge_table.WRITE],
            rows["activity"][rows["dir"] == edge_table.WRITE],
            strict=True,
        )
    )
    for row, ranges in zip(rows.to_dict("records"), extents, strict=True):
        version = int(row["version"])
        if not keep[version]:
            continue
        node = file_id(m, version)
        if node not in out:
            out.add_node(node, **_file_attributes(m, version, aliases), bytes=0)
        activity = ids[int(row["activity"])]
        sums = {name: int(row[name]) for name in ("bytes", "calls", "first_ns", "last_ns")}
        facts = {**sums, "extents": ranges, "exact": bool(row["exact"])}
        if row["dir"] == edge_table.WRITE:
            out.add_edge(activity, node, key="write", kind="write", **facts)
            out.nodes[node]["bytes"] += sums["bytes"]
        else:
            own = (version, int(row["activity"])) in wrote
            out.add_edge(node, activity, key="read", kind="read", own=own, raced=bool(row["raced"]), **facts)
            if out.nodes[node]["external"]:
                out.nodes[node]["bytes"] = max(out.nodes[node]["bytes"], ranges[-1][1] if ranges else sums["bytes"])
    bases = m.versions.table["base"].to_numpy()
    for version in np.flatnonzero(keep & (bases >= 0)).tolist():
        older, newer = file_id(m, int(bases[version])), file_id(m, version)
        if older in out and newer in out:
            out.add_edge(older, newer, key="base", kind="base")


def _kept_versions(m: Model, rows: pd.DataFrame, shown: str) -> Bools:
    """Whether each version becomes a node: for "shared" those whose file has a writer and a different reader."""
    keep = np.zeros(len(m.versions.table), dtype=np.bool_)
    if shown == "all":
        keep[rows["version"].to_numpy()] = True
        return keep
    file = m.versions.table["file"].to_numpy()
    pairs = rows.assign(file=file[rows["version"]])
    both = pairs.groupby("file").agg(activities=("activity", "nunique"), dirs=("dir", "nunique"))
    shared = both.index.to_numpy()[((both["activities"] > 1) & (both["dirs"] > 1)).to_numpy()]
    keep[np.isin(file, shared)] = True
    return keep


def _file_attributes(m: Model, version: int, aliases: pd.Series) -> dict[str, object]:
    row = m.versions.table.iloc[version]
    code = int(row["file"])
    path = str(m.paths[code])
    return {
        "kind": "file",
        "label": path.rsplit("/", 1)[-1] or path,
        "path": path,
        "aliases": [str(a) for a in aliases.get(code, [])],
        "file": str(m.table.files["file"].iat[code]),
        "version": int(row["number"]),
        "ftype": str(m.table.files["ftype"].iat[code]),
        "external": int(row["number"]) == 0,
    }
