"""The dataflow of a run: a model of integer tables, and the flows between activities at each level.

    EdgeTable (event_fold.py) + versions (versions.py) + classes (file_classes.py) --> Model --> activities(),
    flow_table() --> graphs.py, stages.py

Activities are the endpoints of flows: workflows, stages, tasks or processes, by the level. At level `task` an untagged
process is an activity; at level `stage` it belongs to "(untagged)", or, in a run without any stage tag, to its
program's name in parentheses. All joins are over numpy arrays.
"""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import (
    channels,
    clocks,
    code_reads,
    copied_up,
    edge_table,
    file_classes,
    flows,
    identities,
    staged,
    versions,
)
from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.model import managers_own
from tailrace.analyzer.store import ledger, mounts, processes
from tailrace.analyzer.store.processes import PROCESS, Process
from tailrace.analyzer.util import grouping, intervals, named_files
from tailrace.analyzer.util.tabular import Tabular
from tailrace.analyzer.util.types import Bools, Ints, Objects, Row
from tailrace.errors import QueryError
from tailrace.hashed_names import fingerprint_in

if TYPE_CHECKING:
    from tailrace.analyzer.model.time_model import TimeModel

LEVELS = ("workflow", "stage", "task", "process")
UNTAGGED = "(untagged)"
BEFORE_RUN = "(before the run)"
DEFAULT_CLASSES = ("data", "stream")
ACTIVITY_KEYS = {
    "workflow": ["workflow"],
    "stage": ["workflow", "stage"],
    "task": ["workflow", "stage", "task", *PROCESS],
    "process": ["workflow", "stage", "task", *PROCESS],
}

_OWN = ("tailrace", "tailrace-python")
"""Programs of ours."""


@dataclass(frozen=True, eq=False, repr=False)
class Model(Tabular):
    """The input of graphs and reports; its size doesn't grow with the number of events.

    Parallel over `bursts`: `version` (position in versions.table), `unit` (position in `units`), `cls` (position in
    `file_classes.CLASSES`). `who` is the table's with more columns: `exe`, `label` (stage as shown), `pid_use` and
    `pid_uses` (`processes.pid_uses`). `ahead`: host -> ns that were subtracted from its times, since its clock
    contradicted another's (clocks.py). `of_manager`: the actors that are a
    manager's own (managers_own.py). `lossy`: processes that lost events. `outputs`: files that a workflow manager
    declared as outputs. `names`: the display name of a task, by
    (workflow, task), where it isn't the task tag (`task_names`). `sleeps_for`: of each actor that does nothing but
    sleep the one that waits for it, of others themselves (sleeping_children.py).
    """

    table: edge_table.EdgeTable
    who: pd.DataFrame
    bursts: pd.DataFrame
    versions: versions.Versions
    unit: Ints
    units: pd.DataFrame
    cls: Ints
    whole: Bools
    paths: Objects
    processes: pd.DataFrame
    ahead: Mapping[str, int] = field(default_factory=dict)
    lossy: frozenset[Process] = frozenset()
    outputs: frozenset[int] = frozenset()
    names: Mapping[tuple[str, str], str] = field(default_factory=dict)
    undescribed: frozenset[str] = frozenset()
    of_manager: Bools = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    sleeps_for: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    _flows: dict[str, pd.DataFrame] = field(default_factory=dict, repr=False)
    _activities: dict[str, tuple[Ints, pd.DataFrame]] = field(default_factory=dict, repr=False)

    def of_processes(self, wanted: Collection[Process]) -> Bools:
        """True for the actors of these processes."""
        if not wanted:
            return np.zeros(len(self.who), dtype=np.bool_)
        return np.fromiter((key in wanted for key in processes.keys(self.who)), dtype=np.bool_, count=len(self.who))

    @cached_property
    def time(self) -> TimeModel:
        """What all time was spent on."""
        from tailrace.analyzer.model.time_model import TimeModel

        return TimeModel(self)

    @cached_property
    def command_lines(self) -> dict[Process, list[str]]:
        """The command line of each process, where it is known."""
        table = self.processes
        if "argv" not in table or not len(table):
            return {}
        found = zip(processes.keys(table), table["argv"].tolist(), strict=True)
        return {key: [str(word) for word in argv] for key, argv in found if isinstance(argv, list) and argv}

    @cached_property
    def of_tailrace(self) -> Bools:
        """True for the actors of processes that are tailrace itself, as an adapter starts it from a manager's files."""
        first = (self.command_lines.get(process, [])[:2] for process in processes.keys(self.who))
        return np.array([any(word.rpartition("/")[2] in _OWN for word in words) for words in first], dtype=np.bool_)

    @property
    def version(self) -> Ints:
        return self.versions.of_burst

    @property
    def class_of_file(self) -> Ints:
        """The class of each file (position in `file_classes.CLASSES`) by an access to it; -1: it has none."""
        classes = np.full(len(self.table.files), -1, dtype=np.int64)
        classes[self.bursts["file"].to_numpy()] = self.cls
        return classes

    def task_name(self, workflow: str, task: str) -> str:
        """The display name of a task."""
        return self.names.get((workflow, task), task)

    def program(self, actor: int) -> str:
        """The name of an actor's program, "" where it is not known."""
        return file_classes.program(str(self.who["exe"].iat[actor]))

    def of_type(self, ftype: str) -> Bools:
        """True for the bursts on files of a type (`EdgeTable.files`)."""
        return np.asarray((self.table.files["ftype"] == ftype).to_numpy()[self.bursts["file"].to_numpy()])

    def classed(self, classes: Sequence[str]) -> Bools:
        """True for the bursts of these classes."""
        unknown = set(classes) - set(file_classes.CLASSES)
        if unknown:
            raise QueryError(f"no file class {sorted(unknown)[0]!r}; classes are {', '.join(file_classes.CLASSES)}")
        return np.isin(self.cls, [file_classes.CLASSES.index(c) for c in classes])


_models: weakref.WeakKeyDictionary[AnalyzedRun, Model] = weakref.WeakKeyDictionary()


def model(run: AnalyzedRun) -> Model:
    """The model of a run: one pass over its events the first time, then cached as long as `run` lives."""
    if run not in _models:
        edges = run.edges()
        built = build(
            staged.join(copied_up.join(edges, mounts.finder(run.meta)), run.declared_files),
            run.processes,
            declared_paths(run),
            run_directories(run, edges),
            lossy=run.lossy_processes,
            manager=manager_directories(run),
            outputs=declared_paths(run, "w"),
            process_clocks=run.process_clocks,
            own_processes=run.own_processes,
        )
        hosts = mounts.undescribed(run.meta, built.who["host"].astype(str).unique())
        _models[run] = replace(built, names=task_names(run.declared_tasks), undescribed=frozenset(hosts))
    return _models[run]


def build(
    table: edge_table.EdgeTable,
    process_table: pd.DataFrame | None = None,
    declared: Sequence[str] = (),
    own: Sequence[str] = (),
    data: Sequence[str] = (),
    software: Sequence[str] = (),
    lossy: Collection[Process] = (),
    manager: Sequence[str] = (),
    outputs: Sequence[str] = (),
    process_clocks: Mapping[Process, int] = MappingProxyType({}),
    own_processes: Collection[Process] = (),
) -> Model:
    """The model from an edge table. `process_table` is `Run.processes`, `lossy` as in `Model`, `outputs` are paths of
    declared outputs, `process_clocks` and `own_processes` those of the run, the other arguments are those of
    `file_classes.classify`."""
    table = channels.join(table)
    if process_clocks:
        table = identities.resolve(clocks.align_processes(table, process_clocks))
    ahead = clocks.offsets(clocks.gaps(table)) if table.who["host"].nunique() > 1 else {}
    if ahead:
        table = identities.resolve(clocks.align(table, ahead))
    who = table.who.copy()
    programs = file_classes.programs(who, process_table)
    bursts = code_reads.with_code(table, versions.with_created(table), programs, declared)
    unit_of_who, units = versions.units(table.who)
    assigned = versions.assign(table, bursts)
    who["exe"] = [p.exe for p in programs]
    who["pid_use"], who["pid_uses"] = processes.pid_uses(who)
    tagged = bool((who["stage"] != "").any())
    fallback = [UNTAGGED if tagged or not name else f"({name})" for name in _program_names(table, who)]
    who["label"] = np.where(who["stage"] != "", who["stage"], np.array(fallback, dtype=object))
    of_manager = managers_own.actors(who, process_table, own_processes)
    built = Model(
        table=table,
        who=who,
        bursts=bursts,
        versions=assigned,
        unit=unit_of_who[bursts["who"].to_numpy()],
        units=units,
        cls=file_classes.classify(table, bursts, programs, declared, own, data, software, manager, of_manager),
        outputs=frozenset(table.aliases["file"][table.aliases["path"].isin(set(outputs))].tolist()),
        whole=versions.whole(table, assigned),
        paths=edge_table.last_paths(table),
        processes=process_table if process_table is not None else pd.DataFrame(),
        ahead=ahead,
        lossy=frozenset(lossy),
        of_manager=of_manager,
    )
    from tailrace.analyzer.model import sleeping_children

    return sleeping_children.joined(built)


def declared_paths(run: AnalyzedRun, direction: str = "") -> list[str]:
    """All paths that a workflow manager declared as an input ("r"), an output ("w"), or either."""
    files = run.declared_files
    if len(files) and direction:
        files = files[files["direction"] == direction]
    return [str(path) for path in files["path"].dropna().unique()] if len(files) else []


def run_directories(run: AnalyzedRun, table: edge_table.EdgeTable) -> list[str]:
    """The run's own directory: where it is, and where it was when it was recorded, as its events have it."""
    found = {os.path.realpath(run.path)}  # events have absolute paths with links resolved
    for part in mounts.descriptions(run.meta):
        redaction = part.get("redaction")
        told = (part.get("directory"), redaction.get("directory") if isinstance(redaction, dict) else None)
        found.update(path for path in told if isinstance(path, str) and path.startswith("/"))
    return sorted(found | _recorded_at(run, table))


def _recorded_at(run: AnalyzedRun, table: edge_table.EdgeTable) -> set[str]:
    """The same of a run that does not say it, by its declared files, whose names no other run's have."""
    try:
        names = [name for name in os.listdir(run.path / "declared") if name.endswith(".jsonl")]
    except OSError:
        return set()
    paths = table.aliases["path"]
    ends = tuple(f"/declared/{name}" for name in names)
    return {str(path).rsplit("/", 2)[0] for path in paths[paths.str.endswith(ends)]} - {""} if ends else set()


def manager_directories(run: AnalyzedRun) -> list[str]:
    """The directories that workflow managers declared as their own: `run_dir` and `own_directories` of their
    configuration."""
    rows = run.declared_workflows
    found = []
    for text in rows["config"].dropna() if "config" in rows else ():
        try:
            config = json.loads(text)
        except ValueError:
            continue
        config = config if isinstance(config, dict) else {}
        several = config.get("own_directories")
        for directory in (config.get("run_dir"), *(several if isinstance(several, list) else ())):
            if isinstance(directory, str) and directory.startswith("/"):
                # A hashed one is a real path already. Of another machine's or user's run no link is followed.
                is_here = not fingerprint_in(run.meta) and named_files.may_open(run.path)
                found.append(os.path.realpath(directory) if is_here else directory)
    return found


def task_names(tasks: pd.DataFrame) -> dict[tuple[str, str], str]:
    """(workflow, task) -> the workflow manager's name of the task, where it is unique in the workflow and differs from
    the stage: jobs have their own names, calls of an app have the app's name."""
    if "name" not in tasks or len(tasks) == 0:
        return {}
    rows = tasks.assign(workflow=tasks["workflow"].fillna(""))
    own = rows["name"].notna() & (rows["name"] != rows["stage"])
    own &= ~rows.duplicated(["workflow", "name"], keep=False)
    picked = rows[own]
    return dict(zip(zip(picked["workflow"], picked["task"], strict=True), picked["name"].astype(str), strict=True))


def _program_names(table: edge_table.EdgeTable, who: pd.DataFrame) -> list[str]:
    """The program of each actor; of all actors of a task that its manager gave no stage, the one of its programs that
    was seen longest in such tasks, but for shells: a job of several programs is one task, and like jobs have one name.
    """
    names = [file_classes.program(exe) for exe in who["exe"]]
    begun, over = np.full(len(who), np.iinfo(np.int64).max), np.zeros(len(who), dtype=np.int64)
    np.minimum.at(begun, table.counts["who"].to_numpy(), table.counts["first_ns"].to_numpy())
    np.maximum.at(over, table.counts["who"].to_numpy(), table.counts["last_ns"].to_numpy())
    keys = list(zip(who["workflow"].astype(str), who["task"].astype(str), who["stage"].astype(str), strict=True))
    seen: dict[str, int] = {}
    of_task: dict[tuple[str, str, str], set[str]] = {}
    for key, name, lasted in zip(keys, names, (over - begun).tolist(), strict=True):
        if name and key[1] and not key[2]:
            seen[name] = seen.get(name, 0) + max(lasted, 0)
            of_task.setdefault(key, set()).add(name)
    chosen = {
        key: max(programs, key=lambda name: (name not in file_classes.STARTERS, seen[name], name))
        for key, programs in of_task.items()
    }
    return [chosen.get(key, name) for key, name in zip(keys, names, strict=True)]


def activities(m: Model, level: str) -> tuple[Ints, pd.DataFrame]:
    """The activity of each actor at a level, and the activities: workflow, stage (as shown), task, host, pid, start,
    exe, label, pid_use and pid_uses (both 1 where the activity is no process).

    Raises:
        QueryError: there is no such level.
    """
    if level not in LEVELS:
        raise QueryError(f"no level {level!r}; levels are {', '.join(LEVELS)}")
    if level not in m._activities:
        m._activities[level] = _activities(m, level)
    codes, table = m._activities[level]
    return codes, table.copy()


def _activities(m: Model, level: str) -> tuple[Ints, pd.DataFrame]:
    out = m.who.drop(columns="label").assign(stage=m.who["label"])
    if level == "stage":
        out.loc[m.who["stage"] == "", "workflow"] = ""  # all processes without a stage are one activity
    if level == "task":
        tagged = out["task"] != ""
        if tagged.any():
            out.loc[tagged, ["host", "start"]] = ""
            out.loc[tagged, "pid"] = -1
            out.loc[tagged, ["pid_use", "pid_uses"]] = 1
    codes, first = grouping.numbered(grouping.pack(*(out[key].to_numpy() for key in ACTIVITY_KEYS[level])))
    table = out.iloc[first].reset_index(drop=True)
    table["label"] = _activity_labels(m, level, table)
    return codes, table


def _activity_labels(m: Model, level: str, table: pd.DataFrame) -> list[str]:
    if level == "workflow":
        return [str(name) or UNTAGGED for name in table["workflow"]]
    if level == "stage":
        return [str(name) for name in table["stage"]]
    rows = zip(*(table[key].tolist() for key in ("workflow", "task", "exe")), processes.names(table), strict=True)
    return [
        m.task_name(workflow, task) if task and level == "task" else f"{file_classes.program(exe) or 'process'} {name}"
        for workflow, task, exe, name in rows
    ]


def activity_id(level: str, row: Row) -> str:
    """The node of an activity: the kind and its key, each part percent-encoded, so that it is unique. The start of a
    process is part of it where another process had the pid before."""
    kind = "process" if level == "task" and not row["task"] else level
    keys = ACTIVITY_KEYS[kind][:3] if kind == "task" else ACTIVITY_KEYS[kind]
    parts = (row[key] for key in keys if key != "start" or row["pid_use"] > 1)
    return kind + ":" + "/".join(quote(str(part), safe="") for part in parts)


def file_id(m: Model, version: int) -> str:
    """The node of a version of a file."""
    row = m.versions.table.iloc[version]
    return f"file:{m.table.files['file'].iat[int(row['file'])]}@{int(row['number'])}"


def flow_table(m: Model, level: str, classes: Sequence[str] = DEFAULT_CLASSES) -> pd.DataFrame:
    """The flows: one row per (producer, consumer, version).

    Columns: producer and consumer (positions in `activities(m, level)`, producer -1: before the run), version, file
    (code), bytes (read by the consumer of what the producer wrote), unique_bytes (each byte once), first_ns, last_ns
    (of the reads), exact (False: the bytes were divided among several producers, or may be another's). A read by a unit
    (task, or process without one) of its own writing is no flow; nor is one of bytes that nobody wrote.
    """
    key = level + "|" + ",".join(sorted(classes))
    if key not in m._flows:
        m._flows[key] = _flow_table(m, level, classes)
    return m._flows[key]


def _flow_table(m: Model, level: str, classes: Sequence[str]) -> pd.DataFrame:
    rows = attributed(m, level, classes)
    process_level = level == "process"  # there a task's processes are activities of their own
    own = rows["own"] & ~(process_level & (rows["consumer"] != rows["producer"]))
    out = edge_table.summed(
        rows[~own & (rows["producer"] != flows.NOBODY)],
        ["producer", "consumer", "version", "file"],
        {"bytes": np.add, "unique_bytes": np.add, **edge_table.SPAN, "exact": np.logical_and},
    )
    one_ended = m.versions.table["stream"].to_numpy()[out["version"]] & (out["producer"] == flows.BEFORE)
    return out[~one_ended].reset_index(drop=True)


def attributed(m: Model, level: str, classes: Sequence[str] = DEFAULT_CLASSES) -> pd.DataFrame:
    """All bytes that were read, `flow_table` without its sums: also those that nobody wrote (producer
    `flows.NOBODY`), and those that a unit wrote itself (`own`)."""
    code, _ = activities(m, level)
    pick = m.classed(classes)
    activity = code[m.bursts["who"].to_numpy()]
    reading = m.bursts["dir"].to_numpy() == edge_table.READ
    # A finer reader and writer than the level: otherwise a unit's own bytes can't be distinguished from its stage's.
    pair, first = grouping.numbered(grouping.pack(m.unit, activity))
    reads = flows.accesses(m.bursts, m.versions, pair, pick & reading, m.table.extents)
    writes = flows.accesses(m.bursts, m.versions, pair, pick & ~reading, m.table.extents)
    rows = flows.project(reads, writes, _files(m))
    unit, group = m.unit[first], activity[first]
    writer = rows["writer"].to_numpy()
    known = np.maximum(writer, 0)
    rows["own"] = (writer >= 0) & (unit[rows["reader"]] == unit[known])
    rows["consumer"] = group[rows["reader"]]
    rows["producer"] = np.where(writer < 0, writer, group[known])
    rows["file"] = m.versions.table["file"].to_numpy()[rows["version"]]
    return rows


def _files(m: Model) -> flows.Files:
    """What is known of the files, for flows."""
    unseen = m.of_processes(ledger.partial_processes(m.processes) or ())
    leaky = np.zeros(len(m.table.files), dtype=np.bool_)
    for rows in (m.table.bursts, m.table.facts[m.table.facts["file"] >= 0]):
        leaky[rows["file"].to_numpy(dtype=np.int64)[unseen[rows["who"].to_numpy(dtype=np.int64)]]] = True
    table = m.versions.table
    return flows.Files(
        made=versions.made(m.table),
        leaky=leaky,
        cuts=m.table.cuts,
        base=table["base"].to_numpy(),
        whole=m.whole,
        stream=table["stream"].to_numpy(dtype=np.bool_),
    )


def access_table(m: Model, code: Ints, classes: Sequence[str]) -> tuple[pd.DataFrame, list[list[list[int]]]]:
    """One row per edge (activity, version, dir) with its sums, and the byte extents of each row."""
    pick = m.classed(classes)
    bursts = m.bursts[pick].assign(version=m.version[pick], activity=code[m.bursts["who"].to_numpy()[pick]])
    bursts["raced"] = m.versions.raced[pick]
    grouped = bursts.groupby(["activity", "version", "dir"], sort=True)
    # Bytes of a stream have no offsets, so that nothing is unknown of them.
    bursts["exact"] &= (bursts["loose_bytes"] == 0) | m.versions.table["stream"].to_numpy()[bursts["version"]]
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


def partial_activities(m: Model, code: Ints) -> set[int] | None:
    """The activities with a process that was not fully seen; None where the run has no accounts."""
    partial = ledger.partial_processes(m.processes)
    if partial is None:
        return None
    return {int(activity) for activity in code[m.of_processes(partial)]}
