"""A run as jobs and versions of files: the common part of the exchange formats (WfFormat, RO-Crate, PROV, OpenLineage).

    run --> dataflow.model, flow_table --> Lineage(jobs, artifacts) --> wfformat, rocrate, prov, openlineage

A job is a task, or an untagged process; where a run has tasks, an untagged process is a job only if it exchanges files
with one. An artifact is a version of a data file, or a pipe; sockets and software are left out. A path whose file was
replaced or changed has several artifacts, numbered in the order of their first use; 0 is the state before the run.

Invariants: every input of a job is an artifact that another job wrote or that existed before the run; a job's own
writing is no input of it. `parents` may have a cycle only where jobs ran at the same time (`acyclic`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TypedDict

import networkx as nx
import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table, file_classes
from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.exports.checksums import Checksums
from tailrace.analyzer.model import dataflow, outcomes
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.store.processes import Process, keys
from tailrace.analyzer.util.formatting import count_text
from tailrace.analyzer.util.types import Bools, Ints, Row
from tailrace.base.text import clean

LEFT_OUT_TYPES = ("sock", "anon")
"""Streams that go both ways, or whose ends belong to one process: they order nothing."""


@dataclass
class Artifact:
    """A version of a file.

    number: 0 for the state before the run; `versions`: how many the path had in the run; `version`: its position in the
    model's table of versions.
    size: bytes, the end of the highest recorded byte range; of a pipe the bytes written.
    sha256: hex, where checksums were asked for and its bytes are still there; else None.
    """

    path: str
    number: int
    versions: int
    size: int
    external: bool
    base: Artifact | None
    begin_ns: int
    end_ns: int
    version: int
    sha256: str | None = None


@dataclass
class Job:
    """A task, or a process of its own. Times are ns since the epoch; cpu_ns and rss_bytes are None where unknown.

    command: argv of its first process; empty where a worker process ran the task itself.
    exe: the program's path; "" where it is not known.
    status, tries, error: by the workflow manager's word (docs/declared-dag.md).
    inputs, outputs: positions in `Lineage.artifacts`.
    """

    key: tuple[str, ...]
    workflow: str
    stage: str
    task: str
    label: str
    hosts: list[str]
    command: list[str]
    exe: str
    first_ns: int
    last_ns: int
    read_bytes: int
    written_bytes: int
    cpu_ns: int | None = None
    rss_bytes: int | None = None
    status: str | None = None
    tries: int | None = None
    error: str = ""
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    parents: set[int] = field(default_factory=set)

    @property
    def failed(self) -> bool:
        """Whether its manager says that it has no result."""
        return self.status in (*outcomes.FAILED, outcomes.NEVER_RAN)

    @property
    def outcome(self) -> dict[str, str | int]:
        """status, tries and error, those that are known."""
        values = {"status": self.status, "tries": self.tries, "error": clean(self.error) or None}
        return {key: value for key, value in values.items() if value is not None}

    @property
    def program(self) -> str:
        """The name of the program, else the job's label."""
        return file_classes.program(self.exe) or self.label or "unknown"


@dataclass
class Lineage:
    """All jobs by their first event, all artifacts, and notes on what is left out."""

    jobs: list[Job]
    artifacts: list[Artifact]
    notes: list[str]


def lineage(run: AnalyzedRun | Model, hashed: bool = False) -> Lineage:
    """The lineage of a run; with `hashed` it has the checksums of what is still there as the run left it. `parents` are
    the writers of a job's inputs, and the declared dependencies."""
    m = run if isinstance(run, Model) else dataflow.model(run)
    code, activities = dataflow.activities(m, "task")
    flows = dataflow.flow_table(m, "task")
    flows = flows[~_left_out(m)[flows["file"].to_numpy()]]
    kept = _kept(activities, flows, m, code)
    jobs = _jobs(m, code, activities, kept)
    order = sorted(kept, key=lambda activity: (jobs[activity].first_ns, jobs[activity].key))
    position = {activity: i for i, activity in enumerate(order)}
    artifacts = _link(m, code, flows, jobs, position)
    ordered = [jobs[activity] for activity in order]
    notes = _notes(m, kept)
    if hashed:
        checksums = Checksums(m)
        for artifact in artifacts:
            artifact.sha256 = checksums.of(artifact.version)
        notes += checksums.notes()
    if not isinstance(run, Model):
        notes += _add_declared(run, ordered)
    return Lineage(ordered, artifacts, notes)


def _left_out(m: Model) -> Bools:
    return np.asarray(m.table.files["ftype"].isin(LEFT_OUT_TYPES), dtype=np.bool_)


def _kept(activities: pd.DataFrame, flows: pd.DataFrame, m: Model, code: Ints) -> set[int]:
    """The activities that become jobs."""
    tagged = set(np.flatnonzero((activities["task"] != "").to_numpy()).tolist())
    if tagged:
        data = ~m.table.files["ftype"].isin(edge_table.STREAM_TYPES).to_numpy()
        ends = flows[data[flows["file"].to_numpy()]][["producer", "consumer"]].to_numpy().tolist()
        near = {activity for pair in ends if not tagged.isdisjoint(pair) for activity in pair}
        return tagged | (near - {-1})
    pick = m.classed(dataflow.DEFAULT_CLASSES) & ~_left_out(m)[m.bursts["file"].to_numpy()]
    return set(code[m.bursts["who"].to_numpy()[pick]].tolist())


def _jobs(m: Model, code: Ints, activities: pd.DataFrame, kept: set[int]) -> dict[int, Job]:
    counts = m.table.counts.assign(activity=code[m.table.counts["who"].to_numpy()]).groupby("activity")
    figures = counts.agg({"first_ns": "min", "last_ns": "max", "read_bytes": "sum", "written_bytes": "sum"})
    numbers = {int(row.pop("activity")): row for row in figures.reset_index().to_dict("records")}
    who = m.who.assign(activity=code)
    hosts = who.groupby("activity")["host"].agg(lambda values: sorted(set(values)))
    processes = _own_processes(m, who)
    out = {}
    for activity in kept:
        row = activities.iloc[activity]
        own, whole = processes.get(activity, ([], False))
        first = min(own, key=lambda p: p["t0_ns"], default=None)
        argv = list(map(str, first["argv"])) if first is not None and isinstance(first["argv"], list) else []
        exe = str(row["exe"]) if first is None else str(first["exe"] or "")
        out[activity] = Job(
            key=(str(row["workflow"]), str(row["stage"]) if row["task"] else "", str(row["task"]))
            + (() if row["task"] else _process_key(row)),
            workflow=str(row["workflow"]),
            stage=str(row["stage"]) if row["task"] else "",
            task=str(row["task"]),
            label=str(row["label"]),
            hosts=[host for host in hosts[activity] if host],
            command=argv,
            exe=exe,
            cpu_ns=_account(own, whole, lambda a: int(a["utime"]) + int(a["stime"]), sum),
            rss_bytes=_account(own, whole, lambda a: int(a["maxrss"]) * 1024, max),
            **_sums(numbers.get(activity, {})),
        )
    return out


def _process_key(row: pd.Series) -> tuple[str, ...]:
    """Host and pid; and the start of a process whose pid another one had before."""
    again = (str(row["start"]),) if row["pid_use"] > 1 else ()
    return (str(row["host"]), str(row["pid"]), *again)


class _Sums(TypedDict):
    """The figures of a job."""

    first_ns: int
    last_ns: int
    read_bytes: int
    written_bytes: int


def _sums(figures: Row) -> _Sums:
    """The figures of a job as keywords; 0 for one without events."""
    first, last, read, written = (int(figures.get(name, 0)) for name in _Sums.__annotations__)
    return {"first_ns": first, "last_ns": last, "read_bytes": read, "written_bytes": written}


def _own_processes(m: Model, who: pd.DataFrame) -> dict[int, tuple[list[Row], bool]]:
    """activity -> (the processes that worked for it alone, whether these are all that worked for it)."""
    if not len(m.processes):
        return {}
    activities_of: dict[Process, set[int]] = {}
    for key, activity in zip(keys(who), who["activity"].tolist(), strict=True):
        activities_of.setdefault(key, set()).add(activity)
    out: dict[int, tuple[list[Row], bool]] = {}
    rows = dict(zip(keys(m.processes), m.processes.to_dict("records"), strict=True))
    for key, activities in activities_of.items():
        for activity in activities:
            own, whole = out.get(activity, ([], True))
            mine = len(activities) == 1 and key in rows and "t0_ns" in rows[key]
            out[activity] = ([*own, rows[key]] if mine else own, whole and mine)
    return out


def _account(own: list[Row], whole: bool, of: Callable[[Row], int], how: Callable[[Iterable[int]], int]) -> int | None:
    accounts = [account for p in own if isinstance(account := p.get("account"), dict) and "maxrss" in account]
    return how(of(account) for account in accounts) if whole and own and len(accounts) == len(own) else None


# --- artifacts and edges ---------------------------------------------------------------------------------------------


def _link(m: Model, code: Ints, flows: pd.DataFrame, jobs: dict[int, Job], position: dict[int, int]) -> list[Artifact]:
    """Puts inputs, outputs and parents into the jobs; returns the artifacts that these name."""
    rows, extents = dataflow.access_table(m, code, dataflow.DEFAULT_CLASSES)
    rows = rows.assign(end=[ranges[-1][1] if ranges else 0 for ranges in extents])
    keep = ~_left_out(m)[m.versions.table["file"].to_numpy()[rows["version"]]] & rows["activity"].isin(list(jobs))
    rows = rows[keep]
    wrote: dict[int, set[int]] = {}
    for activity, version in rows.loc[rows["dir"] == edge_table.WRITE, ["activity", "version"]].to_numpy().tolist():
        wrote.setdefault(version, set()).add(activity)
    reads: dict[int, set[int]] = {}
    base = m.versions.table["base"].to_numpy()
    for producer, consumer, version in flows[["producer", "consumer", "version"]].to_numpy().tolist():
        if consumer not in jobs:
            continue
        while version >= 0 and consumer in wrote.get(version, ()):
            version = int(base[version])  # what others wrote is in the version that the reader continued
        if version >= 0:
            reads.setdefault(version, set()).add(consumer)
        if producer in jobs:
            jobs[consumer].parents.add(position[producer])
    used = sorted(set(wrote) | set(reads))
    artifacts = _artifacts(m, rows, used)
    for number, version in enumerate(used):
        for activity in sorted(wrote.get(version, ()), key=position.__getitem__):
            jobs[activity].outputs.append(number)
        for activity in sorted(reads.get(version, ()), key=position.__getitem__):
            jobs[activity].inputs.append(number)
    return artifacts


def _integers(column: pd.Series) -> dict[int, int]:
    return dict(zip(map(int, column.index), map(int, column), strict=True))


def _artifacts(m: Model, rows: pd.DataFrame, used: list[int]) -> list[Artifact]:
    table = m.versions.table
    by_version = rows.groupby("version")
    ends, first = _integers(by_version["end"].max()), _integers(by_version["first_ns"].min())
    moved = _integers(rows[rows["dir"] == edge_table.WRITE].groupby("version")["bytes"].sum())
    begins, ended, version_numbers, bases = (
        table[name].to_numpy(dtype=np.int64) for name in ("begin_ns", "end_ns", "number", "base")
    )
    paths = m.paths[table["file"].to_numpy()[used]] if used else []
    begin = [int(begins[v]) or int(first.get(v, 0)) for v in used]
    external = [int(version_numbers[v]) == 0 for v in used]
    numbers: dict[int, int] = {}
    of_path: dict[str, list[int]] = {}
    for i in sorted(range(len(used)), key=lambda i: (begin[i], used[i])):
        of_path.setdefault(str(paths[i]), []).append(i)
    for group in of_path.values():
        group.sort(key=lambda i: not external[i])
        start = 0 if external[group[0]] else 1
        numbers.update({i: start + n for n, i in enumerate(group)})
    out: list[Artifact] = []
    place = {version: i for i, version in enumerate(used)}
    for i, version in enumerate(used):
        stream = bool(table["stream"].iat[version])
        base = place.get(int(bases[version]))
        size = int(moved.get(version, 0)) if stream else int(ends.get(version, 0))
        if not size and not stream:
            size = int(moved.get(version, 0))
        out.append(
            Artifact(
                path=clean(str(paths[i])),
                number=numbers[i],
                versions=len(of_path[str(paths[i])]),
                size=size if base is None or base >= i else max(size, out[base].size),
                external=external[i],
                base=None if base is None or base >= i else out[base],
                begin_ns=begin[i],
                end_ns=int(ended[version]),
                version=version,
            )
        )
    return out


def _add_declared(run: AnalyzedRun, jobs: list[Job]) -> list[str]:
    """Adds declared dependencies between jobs to their parents, and the declared tasks' ends to the jobs; returns a
    note on the tasks that left no events."""
    place = {(job.workflow, job.task): i for i, job in enumerate(jobs) if job.task}
    for row in run.declared_deps.to_dict("records"):
        workflow = str(row["workflow"] or "")
        parent, child = (place.get((workflow, str(row[end]))) for end in ("dep", "task"))
        if parent is not None and child is not None and parent != child:
            jobs[child].parents.add(parent)
    ends = outcomes.table(run)
    at = [place.get(key) for key in zip(ends["workflow"], ends["task"], strict=True)]
    for i, row in zip(at, ends.to_dict("records"), strict=True):
        if i is not None and row["status"] is not None:
            again = row["status"] == outcomes.RETRIED
            jobs[i].status = outcomes.DONE if again else str(row["status"])
            jobs[i].tries, jobs[i].error = int(row["tries"]), "" if again else str(row["error"])
    absent = outcomes.counts(ends.iloc[[n for n, i in enumerate(at) if i is None]])
    kinds = ", ".join(f"{number:,} {outcomes.WORDS.get(status, outcomes.UNENDED)}" for status, number in absent.items())
    number = count_text(sum(absent.values()), "declared task")
    return [f"left out, since they left no events: {number} ({kinds})"] if absent else []


def _notes(m: Model, kept: set[int]) -> list[str]:
    sockets = dataflow.flow_table(m, "task")
    sockets = sockets[_left_out(m)[sockets["file"].to_numpy()] & (sockets["producer"] >= 0)]
    pairs = {(p, c) for p, c in sockets[["producer", "consumer"]].to_numpy().tolist() if {p, c} <= kept and p != c}
    return [f"left out, since sockets go both ways: {count_text(len(pairs), 'flow')}"] if pairs else []


def acyclic(jobs: list[Job]) -> tuple[list[list[int]], int]:
    """The parents of each job without cycles, sorted, and how many were dropped for it.

    In a cycle (jobs that ran at the same time and fed each other) a job keeps the parents that began before it.
    """
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(jobs)))
    graph.add_edges_from((parent, i) for i, job in enumerate(jobs) for parent in job.parents)
    component = {job: n for n, group in enumerate(nx.strongly_connected_components(graph)) for job in group}
    kept = [sorted(p for p in job.parents if component[p] != component[i] or p < i) for i, job in enumerate(jobs)]
    return kept, graph.number_of_edges() - sum(map(len, kept))


# --- words -----------------------------------------------------------------------------------------------------------


def utc(ns: int) -> str:
    """ns since the epoch as RFC 3339 with microseconds, in UTC."""
    whole = datetime.fromtimestamp(ns // 1_000_000_000, timezone.utc)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{ns % 1_000_000_000 // 1000:06d}Z"


def escaped(text: str, mark: str = "%", plain: str = "A-Za-z0-9_.-") -> str:
    """`text` with each byte outside the class `plain` as `mark` and two hex digits; one to one if `mark` is outside."""

    def spelled(found: re.Match[str]) -> str:
        return "".join(f"{mark}{byte:02X}" for byte in found[0].encode("utf-8"))

    return re.sub(f"[^{plain}]", spelled, clean(text))


def file_uri(path: str) -> str:
    """The file URI (RFC 8089) of an absolute path; what is no path (a pipe) is a URN."""
    if path.startswith("/"):
        return "file://" + escaped(path, plain="A-Za-z0-9_./~-")
    return "urn:tailrace:stream:" + escaped(path)


def distinct(names: Iterable[str]) -> bool:
    """Whether no name is there twice, and none is empty."""
    listed = list(names)
    return len(set(listed)) == len(listed) and all(listed)
