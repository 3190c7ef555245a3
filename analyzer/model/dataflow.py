"""The dataflow of a run: a model of integer tables, and NetworkX graphs of it at the level asked for.

    EdgeTable (event_fold.py) + versions (versions.py) + classes (file_classes.py) --> Model --> graph(), flow_table(),
    stages.py

Parties are what a graph has for nodes besides files: at level `workflow`, `stage`, `task` or `process`. A process that
no task claims stands for itself at level `task`; at level `stage` it is under "(untagged)", or, in a run without any
stage tag, under its program's name in parentheses. All joins are over numpy arrays; NetworkX is only what is handed
out.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

import networkx as nx
import numpy as np
import pandas as pd

from tailrace.analyzer.edges import channels, clocks, confidence, edge_table, file_classes, flows, versions
from tailrace.analyzer.edges.packages import package
from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.model import datasets
from tailrace.analyzer.store import ledger, processes
from tailrace.analyzer.store.processes import PROCESS, Process
from tailrace.analyzer.util import grouping, intervals
from tailrace.analyzer.util.intervals import Bools, Ints
from tailrace.errors import QueryError

LEVELS = ("workflow", "stage", "task", "process")
FILES = ("none", "shared", "all")
UNTAGGED = "(untagged)"
BEFORE_RUN = "(before the run)"
DEFAULT_CLASSES = ("data", "stream")
PARTY_KEYS = {
    "workflow": ["workflow"],
    "stage": ["workflow", "stage"],
    "task": ["workflow", "stage", "task", *PROCESS],
    "process": ["workflow", "stage", "task", *PROCESS],
}


@dataclass(frozen=True, eq=False)
class Model:
    """Everything that graphs and reports are made from; nothing in it grows with the number of events.

    Parallel over `bursts`: `version` (position in versions.table), `unit` (position in `units`), `cls` (position in
    `file_classes.CLASSES`). `who` is the table's with more columns: `exe`, `label` (stage as shown), `bearer` and
    `bearers` (`processes.bearers`). `ahead`: host -> ns that were taken off its times, since its clock contradicted
    another's (clocks.py). `lossy`: processes that lost events. `names`: what people call a task, by (workflow, task),
    where that isn't the task tag (`task_names`).
    """

    table: edge_table.EdgeTable
    who: pd.DataFrame
    bursts: pd.DataFrame
    versions: versions.Versions
    unit: Ints
    units: pd.DataFrame
    cls: Ints
    whole: Bools
    paths: Any
    processes: pd.DataFrame
    ahead: Mapping[str, int] = field(default_factory=dict)
    lossy: frozenset[Process] = frozenset()
    names: Mapping[tuple[str, str], str] = field(default_factory=dict)
    _flows: dict[str, pd.DataFrame] = field(default_factory=dict, repr=False)
    _parties: dict[str, tuple[Ints, pd.DataFrame]] = field(default_factory=dict, repr=False)

    def of_processes(self, wanted: Collection[Process]) -> Bools:
        """True for the actors of these processes."""
        if not wanted:
            return np.zeros(len(self.who), dtype=np.bool_)
        return np.fromiter((key in wanted for key in processes.keys(self.who)), dtype=np.bool_, count=len(self.who))

    @property
    def version(self) -> Ints:
        return self.versions.of_burst

    def task_name(self, workflow: str, task: str) -> str:
        """What people call a task."""
        return self.names.get((workflow, task), task)

    def classed(self, classes: Sequence[str]) -> Bools:
        """True for the bursts of these classes."""
        unknown = set(classes) - set(file_classes.CLASSES)
        if unknown:
            raise QueryError(f"no file class {sorted(unknown)[0]!r}; classes are {', '.join(file_classes.CLASSES)}")
        return np.isin(self.cls, [file_classes.CLASSES.index(c) for c in classes])


_models: weakref.WeakKeyDictionary[AnalyzedRun, Model] = weakref.WeakKeyDictionary()


def model(run: AnalyzedRun) -> Model:
    """The model of a run: one pass over its events the first time, then remembered as long as `run` lives."""
    if run not in _models:
        # Paths in the trace are absolute, with links resolved.
        own = [os.path.realpath(run.path)]
        built = build(run.edges(), run.processes, declared_paths(run), own, lossy=run.lossy_processes)
        _models[run] = replace(built, names=task_names(run.declared_tasks))
    return _models[run]


def build(
    table: edge_table.EdgeTable,
    told: pd.DataFrame | None = None,
    declared: Sequence[str] = (),
    own: Sequence[str] = (),
    data: Sequence[str] = (),
    software: Sequence[str] = (),
    lossy: Collection[Process] = (),
) -> Model:
    """The model from an edge table; `told` is what is known of the processes (`Run.processes`), `lossy` as in `Model`,
    the other arguments are those of `file_classes.classify`."""
    table = channels.join(table)
    ahead = clocks.offsets(clocks.gaps(table)) if table.who["host"].nunique() > 1 else {}
    table = clocks.align(table, ahead)
    bursts = versions.with_created(table)
    unit_of_who, units = versions.units(table.who)
    assigned = versions.assign(table, bursts)
    who = table.who.copy()
    programs = file_classes.programs(who, told)
    who["exe"] = [p.exe for p in programs]
    who["bearer"], who["bearers"] = processes.bearers(who)
    tagged = bool((who["stage"] != "").any())
    names = [file_classes.program(exe) for exe in who["exe"]]
    fallback = [UNTAGGED if tagged or not name else f"({name})" for name in names]
    who["label"] = np.where(who["stage"] != "", who["stage"], np.array(fallback, dtype=object))
    return Model(
        table=table,
        who=who,
        bursts=bursts,
        versions=assigned,
        unit=unit_of_who[bursts["who"].to_numpy()],
        units=units,
        cls=file_classes.classify(table, bursts, programs, declared, own, data, software),
        whole=versions.whole(table, assigned),
        paths=edge_table.last_paths(table),
        processes=told if told is not None else pd.DataFrame(),
        ahead=ahead,
        lossy=frozenset(lossy),
    )


def declared_paths(run: AnalyzedRun) -> list[str]:
    """All paths that a workflow manager declared as an input or output."""
    files = run.declared_files
    return [str(path) for path in files["path"].dropna().unique()] if len(files) else []


def task_names(tasks: pd.DataFrame) -> dict[tuple[str, str], str]:
    """(workflow, task) -> the name that the workflow manager has for the task, where it is this one's alone and says
    more than its stage: jobs have names of their own, the calls of an app have the app's."""
    if "name" not in tasks or len(tasks) == 0:
        return {}
    rows = tasks.assign(workflow=tasks["workflow"].fillna(""))
    own = rows["name"].notna() & (rows["name"] != rows["stage"])
    own &= ~rows.duplicated(["workflow", "name"], keep=False)
    picked = rows[own]
    return dict(zip(zip(picked["workflow"], picked["task"], strict=True), picked["name"].astype(str), strict=True))


# --- parties ---------------------------------------------------------------------------------------------------------


def parties(m: Model, level: str) -> tuple[Ints, pd.DataFrame]:
    """The party of each actor at a level, and the parties: workflow, stage (as shown), task, host, pid, start, exe,
    label, bearer and bearers (of the pid; 1 where it is no process).

    Raises:
        QueryError: there is no such level.
    """
    if level not in LEVELS:
        raise QueryError(f"no level {level!r}; levels are {', '.join(LEVELS)}")
    if level not in m._parties:
        m._parties[level] = _parties(m, level)
    codes, table = m._parties[level]
    return codes, table.copy()


def _parties(m: Model, level: str) -> tuple[Ints, pd.DataFrame]:
    out = m.who.drop(columns="label").assign(stage=m.who["label"])
    if level == "stage":
        out.loc[m.who["stage"] == "", "workflow"] = ""  # whatever runs outside of every stage is one party
    if level == "task":
        tagged = out["task"] != ""
        out.loc[tagged, ["host", "start"]] = ""
        out.loc[tagged, "pid"] = -1
        out.loc[tagged, ["bearer", "bearers"]] = 1
    codes, first = grouping.numbered(grouping.pack(*(out[key].to_numpy() for key in PARTY_KEYS[level])))
    table = out.iloc[first].reset_index(drop=True)
    table["label"] = _party_labels(m, level, table)
    return codes, table


def _party_labels(m: Model, level: str, table: pd.DataFrame) -> list[str]:
    if level == "workflow":
        return [str(name) or UNTAGGED for name in table["workflow"]]
    if level == "stage":
        return [str(name) for name in table["stage"]]
    rows = zip(*(table[key].tolist() for key in ("workflow", "task", "exe")), processes.names(table), strict=True)
    return [
        m.task_name(workflow, task) if task and level == "task" else f"{file_classes.program(exe) or 'process'} {name}"
        for workflow, task, exe, name in rows
    ]


def party_id(level: str, row: Mapping[Any, Any]) -> str:
    """The graph's name for a party: the kind and its key, each part percent-encoded, so that no two parties meet. The
    start of a process is part of it where another process had the pid before."""
    kind = "process" if level == "task" and not row["task"] else level
    keys = PARTY_KEYS[kind][:3] if kind == "task" else PARTY_KEYS[kind]
    parts = (row[key] for key in keys if key != "start" or row["bearer"] > 1)
    return kind + ":" + "/".join(quote(str(part), safe="") for part in parts)


def file_id(m: Model, version: int) -> str:
    """The graph's name for a version of a file."""
    row = m.versions.table.iloc[version]
    return f"file:{m.table.files['file'].iat[int(row['file'])]}@{int(row['number'])}"


# --- flows -----------------------------------------------------------------------------------------------------------


def flow_table(m: Model, level: str, classes: Sequence[str] = DEFAULT_CLASSES) -> pd.DataFrame:
    """Who consumed whose bytes: one row a (producer, consumer, version).

    Columns: producer and consumer (positions in `parties(m, level)`, producer -1: before the run), version, file
    (code), bytes (read by the consumer of what the producer wrote), unique_bytes (each byte once), first_ns, last_ns
    (of the reads). What a unit (task, or process without one) reads of its own writing is no flow.
    """
    key = level + "|" + ",".join(sorted(classes))
    if key not in m._flows:
        m._flows[key] = _flow_table(m, level, classes)
    return m._flows[key]


def _flow_table(m: Model, level: str, classes: Sequence[str]) -> pd.DataFrame:
    code, _ = parties(m, level)
    pick = m.classed(classes)
    party = code[m.bursts["who"].to_numpy()]
    reading = m.bursts["dir"].to_numpy() == edge_table.READ
    # a finer reader and a finer writer than the level asks for: only so a unit's own bytes can be told from its stage's
    pair, first = grouping.numbered(grouping.pack(m.unit, party))
    reads = flows.side(m.bursts, m.version, pair, pick & reading, m.table.extents)
    writes = flows.side(m.bursts, m.version, pair, pick & ~reading, m.table.extents)
    rows = flows.project(reads, writes, m.versions.table["base"].to_numpy(), m.whole)
    unit, group = m.unit[first], party[first]
    before = rows["writer"].to_numpy() == flows.BEFORE
    own = ~before & (unit[rows["reader"]] == unit[rows["writer"]])
    rows["consumer"] = group[rows["reader"]]
    rows["producer"] = np.where(before, flows.BEFORE, group[rows["writer"]])
    rows["file"] = m.versions.table["file"].to_numpy()[rows["version"]]
    process_level = level == "process"  # there a task's processes are parties of their own
    rows = rows[~own | (process_level & (rows["consumer"] != rows["producer"]))]
    out = edge_table.summed(
        rows,
        ["producer", "consumer", "version", "file"],
        {"bytes": np.add, "unique_bytes": np.add, "first_ns": np.minimum, "last_ns": np.maximum},
    )
    one_ended = m.versions.table["stream"].to_numpy()[out["version"]] & (out["producer"] == flows.BEFORE)
    result: pd.DataFrame = out[~one_ended].reset_index(drop=True)
    return result


# --- graphs ----------------------------------------------------------------------------------------------------------


def graph(
    run: AnalyzedRun | Model,
    level: str = "stage",
    files: str | None = None,
    classes: Sequence[str] = DEFAULT_CLASSES,
    packages: Sequence[str] = (),
    stage: Sequence[str] | str = (),
    with_datasets: bool = False,
) -> nx.MultiDiGraph[Any]:
    """The dataflow graph of a run (or of a `Model`).

    Nodes have `kind` ("workflow", "stage", "task", "process", "file", "package", "dataset"), `label`, and by kind:
    workflow, stage, task, host, pid, start, exe; for a file version: path, aliases, version, bytes (written; for @0 the
    extent read), ftype, external; for a package: files; for a dataset: path, dataset, version, bytes, external
    (datasets.py).
    Edges have `kind`:
        flow   producer -> consumer: bytes, unique_bytes, files, first_ns, last_ns (of the reads)
        read   file -> party: bytes, calls, first_ns, last_ns, extents, exact, own (the party wrote this version), raced
        write  party -> file: bytes, calls, first_ns, last_ns, extents, exact
        base   version -> the next one, which still holds what was not overwritten
        part   file -> dataset in it, or the other way round where somebody was seen writing the dataset

    Edges but `base` and `part` have `confidence`, one of `confidence.CONFIDENCES`. The graph has `cycles` (how many
    times can't resolve) and `clocks_ahead_ns` (host -> ns that were taken off its times, clocks.py).

    Args:
        level: one of `LEVELS`.
        files: "none" for flows between parties, "all" for file nodes, "shared" for those that pass from one party to
        another;
            default: "none" at the levels workflow and stage, "all" at task and process, and with datasets.
        classes: which classes of files (`file_classes.CLASSES`) to show file by file; by default software and system
        files
            are left out.
        packages: which classes to show folded into a node for each package (packages.py), beside file nodes.
        stage: only these stages, as they are shown, with the files and parties next to them.
        with_datasets: show HDF5's datasets as parts of their files, and who wrote and read which; a look at events.

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
        raise QueryError("a workflow is no part of a stage: ask for stages at the levels stage, task and process")
    code, table = parties(m, level)
    out: nx.MultiDiGraph[Any] = nx.MultiDiGraph(level=level, files=shown)
    ids = [party_id(level, row) for row in table.to_dict("records")]
    for name, row in zip(ids, table.to_dict("records"), strict=True):
        kind = name.split(":", 1)[0]
        keys = (*PARTY_KEYS[kind], "exe") if kind == "process" else PARTY_KEYS[kind]
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
    partial = partial_parties(m, code)
    lossy = {int(party) for party in code[m.of_processes(m.lossy)]}
    confidence.mark(out, None if partial is None else {ids[p] for p in partial}, {ids[p] for p in lossy})
    out.graph["clocks_ahead_ns"] = dict(m.ahead)
    return _of_stages(out, ids, table, [stage] if isinstance(stage, str) else list(stage))


def _of_stages(
    out: nx.MultiDiGraph[Any], ids: list[str], table: pd.DataFrame, wanted: list[str]
) -> nx.MultiDiGraph[Any]:
    """The part of a graph around the parties of some stages; all of it where none is named."""
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
    part: nx.MultiDiGraph[Any] = out.subgraph(mine | near).copy()
    others = [edge for edge in part.edges(keys=True) if not mine & set(edge[:2]) and edge[2] not in ("base", "part")]
    part.remove_edges_from(others)
    return part


def partial_parties(m: Model, code: Ints) -> set[int] | None:
    """The parties of which a process was not fully seen; None where the run has no accounts."""
    partial = ledger.partial_processes(m.processes)
    if partial is None:
        return None
    return {int(party) for party in code[m.of_processes(partial)]}


def _add_packages(out: nx.MultiDiGraph[Any], m: Model, code: Ints, ids: list[str], classes: Sequence[str]) -> None:
    """A node for each package of the software of `classes`, with an edge to every party that read it."""
    pick = m.classed(classes) & (m.bursts["dir"].to_numpy() == edge_table.READ)
    rows = m.bursts.loc[pick, ["file", "bytes", "calls", "first_ns", "last_ns"]].assign(
        party=code[m.bursts["who"].to_numpy()[pick]]
    )
    names = {file: package(str(m.paths[file])) for file in rows["file"].unique().tolist()}
    rows["package"] = rows["file"].map(names)
    sums = {"bytes": ("bytes", "sum"), "calls": ("calls", "sum"), "files": ("file", "nunique")}
    spans = {"first_ns": ("first_ns", "min"), "last_ns": ("last_ns", "max")}
    for row in rows.groupby(["package", "party"], as_index=False).agg(**sums, **spans).to_dict("records"):
        name, party = str(row.pop("package")), ids[int(row.pop("party"))]
        node = "package:" + quote(name, safe="")
        if node not in out:
            out.add_node(node, kind="package", label=name, files=0)
        out.nodes[node]["files"] = max(out.nodes[node]["files"], int(row["files"]))
        out.add_edge(node, party, key="read", kind="read", **{str(k): int(v) for k, v in row.items()})


def _add_flows(out: nx.MultiDiGraph[Any], m: Model, level: str, ids: list[str], classes: Sequence[str]) -> None:
    rows = flow_table(m, level, classes)
    rows = rows[rows["producer"] >= 0]
    key = ["producer", "consumer"]
    hows = {"bytes": np.add, "unique_bytes": np.add, "files": np.add, "first_ns": np.minimum, "last_ns": np.maximum}
    files = grouping.groups(grouping.pack(*(rows[name].to_numpy() for name in (*key, "file"))))
    new_file = np.zeros(len(rows), dtype=np.int64)
    new_file[files.order[files.at]] = 1
    for row in edge_table.summed(rows.assign(files=new_file), key, hows).to_dict("records"):
        source, target = ids[row.pop("producer")], ids[row.pop("consumer")]
        out.add_edge(source, target, key="flow", kind="flow", **{str(k): int(v) for k, v in row.items()})


def access_table(m: Model, code: Ints, classes: Sequence[str]) -> tuple[pd.DataFrame, list[list[list[int]]]]:
    """One row an edge (party, version, dir) with its sums, and the byte extents of each row."""
    pick = m.classed(classes)
    bursts = m.bursts[pick].assign(version=m.version[pick], party=code[m.bursts["who"].to_numpy()[pick]])
    bursts["raced"] = m.versions.raced[pick]
    grouped = bursts.groupby(["party", "version", "dir"], sort=True)
    sums = {"bytes": "sum", "calls": "sum", "first_ns": "min", "last_ns": "max", "exact": "all", "raced": "any"}
    rows = grouped.agg(sums).reset_index()
    group = np.full(len(m.bursts), -1, dtype=np.int64)
    group[np.flatnonzero(pick)] = grouped.ngroup().to_numpy()
    mine = group[m.table.extents.group]
    keep = mine >= 0
    united = intervals.union(intervals.make(mine[keep], m.table.extents.start[keep], m.table.extents.end[keep]))
    pairs = np.column_stack((united.start, united.end))
    parts = np.split(pairs, np.searchsorted(united.group, np.arange(1, len(rows)))) if len(rows) else []
    return rows, [part.tolist() for part in parts]


def _add_files(
    out: nx.MultiDiGraph[Any], m: Model, code: Ints, ids: list[str], shown: str, classes: Sequence[str]
) -> None:
    rows, extents = access_table(m, code, classes)
    keep = _kept_versions(m, rows, shown)
    aliases = m.table.aliases.sort_values("last_ns").groupby("file")["path"].agg(list)
    wrote = set(
        zip(
            rows["version"][rows["dir"] == edge_table.WRITE],
            rows["party"][rows["dir"] == edge_table.WRITE],
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
        party = ids[int(row["party"])]
        facts: dict[str, Any] = {name: int(row[name]) for name in ("bytes", "calls", "first_ns", "last_ns")}
        facts.update(extents=ranges, exact=bool(row["exact"]))
        if row["dir"] == edge_table.WRITE:
            out.add_edge(party, node, key="write", kind="write", **facts)
            out.nodes[node]["bytes"] += facts["bytes"]
        else:
            own = (version, int(row["party"])) in wrote
            out.add_edge(node, party, key="read", kind="read", own=own, raced=bool(row["raced"]), **facts)
            if out.nodes[node]["external"]:
                out.nodes[node]["bytes"] = max(out.nodes[node]["bytes"], ranges[-1][1] if ranges else facts["bytes"])
    bases = m.versions.table["base"].to_numpy()
    for version in np.flatnonzero(keep & (bases >= 0)).tolist():
        older, newer = file_id(m, int(bases[version])), file_id(m, version)
        if older in out and newer in out:
            out.add_edge(older, newer, key="base", kind="base")


def _kept_versions(m: Model, rows: pd.DataFrame, shown: str) -> Bools:
    """Which versions become nodes: with "shared" those whose file has a writer and a reader that differ."""
    keep = np.zeros(len(m.versions.table), dtype=np.bool_)
    if shown == "all":
        keep[rows["version"].to_numpy()] = True
        return keep
    file = m.versions.table["file"].to_numpy()
    pairs = rows.assign(file=file[rows["version"]])
    both = pairs.groupby("file").agg(parties=("party", "nunique"), dirs=("dir", "nunique"))
    shared = both.index.to_numpy()[((both["parties"] > 1) & (both["dirs"] > 1)).to_numpy()]
    keep[np.isin(file, shared)] = True
    return keep


def _file_attributes(m: Model, version: int, aliases: pd.Series[Any]) -> dict[str, Any]:
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


def compare_declared(run: AnalyzedRun) -> pd.DataFrame:
    """The declared DAG against the observed dataflow; see `tailrace.analyzer.model.declared_vs_observed`."""
    from tailrace.analyzer.model import declared_vs_observed

    return declared_vs_observed.compare_declared(run)
