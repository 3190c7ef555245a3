"""One task: how it ended, where its time went, its processes, data and neighbours, and what sets it apart.

    id --_find--> task --declarations, waits, edge table, critical path--> TaskProfile
                       --events of its blocks--> its slowest calls

The time is told twice, since the sources differ: by the manager's times (`waits`, of declared tasks), from submission
to end; and by the trace (`spent_ns`), from the first call to the last one, by the time model (model/time_model.py): the
parts add up.

A task is set apart from its siblings, the other tasks of its stage, by a figure that is further from their median than
`FAR` times their median absolute deviation, scaled as for a normal distribution (the conservative limit of Leys et al.
2013, "Detecting outliers", doi:10.1016/j.jesp.2013.03.013), and by at least a quarter of the median.

Invariant: events are read for the slowest calls alone (slowest_calls.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.insights import insights
from tailrace.analyzer.insights.file_history import row_of
from tailrace.analyzer.insights.inputs import Inputs
from tailrace.analyzer.insights.slowest_calls import Call, slowest
from tailrace.analyzer.insights.views import task_document
from tailrace.analyzer.model import dataflow, outcomes, requests, task_arguments, time_model, waits
from tailrace.analyzer.store import processes
from tailrace.analyzer.util.document import Document, Shown
from tailrace.analyzer.util.types import Ints, Row
from tailrace.errors import QueryError

FAR = 3.0
_NORMAL = 1.4826
"""Median absolute deviation of a normal distribution -> its standard deviation."""
LEAST_SHARE = 0.25
LEAST_OF_TIME = 0.01
"""Of the task's duration, by which its time in a state must differ: scheduling alone makes small differences."""
LEAST_SIBLINGS = 3
"""Fewer siblings have no spread to be outside of."""


@dataclass(frozen=True)
class Process:
    """A process that worked for the task. shared: also for other tasks, as a pool's worker, whose figures are those of
    all of them. exit_code, signal: None where its end was not seen."""

    host: str
    pid: int
    start: str
    program: str
    command: list[str]
    begin_ns: int | None
    end_ns: int | None
    exit_code: int | None
    signal: int | None
    max_rss_bytes: int | None
    cpu_ns: int | None
    shared: bool


@dataclass(frozen=True)
class Data:
    """A version of a file that the task read or wrote; others: who wrote what it read, or read what it wrote."""

    path: str
    version: int
    bytes: int
    calls: int
    begin_ns: int
    end_ns: int
    others: list[str]


@dataclass(frozen=True)
class Neighbour:
    """A piece of the critical path beside the task; via: how the path goes between them (critical.py)."""

    task: str
    via: str


@dataclass(frozen=True)
class Difference:
    """A figure of the task beside its siblings': median and the number of scaled deviations from it."""

    figure: str
    value: float
    median: float
    deviations: float


@dataclass(frozen=True, repr=False)
class TaskProfile(Shown):
    """A task. Times are ns since the epoch, spans ns; None where unknown.

    status: the manager's word, or None; waits: columns of `waits.TIMES`; spent_ns: `time_model.STATES` and
    `ABSENT`, which add up to the time between its first and last call; calls: by `edge_table.CALLS`.
    arguments: those that its manager declared, as text by name.
    requested: what it asked its manager for, of `requests.RESOURCES`; cores_used: processor time by the time between
    its first and last call, None where a process of it also ran other tasks.
    path_ns: its part of the critical path, slack_ns: how much longer it could have taken.
    """

    workflow: str
    stage: str
    task: str
    name: str
    manager: str
    status: str | None
    tries: int | None
    error: str
    parents: list[str]
    children: list[str]
    t0_ns: int
    begin_ns: int | None
    end_ns: int | None
    waits: dict[str, int | None]
    spent_ns: dict[str, int]
    calls: dict[str, int]
    failed_calls: int
    read_bytes: int
    written_bytes: int
    max_rss_bytes: int | None
    arguments: dict[str, str]
    requested: dict[str, float]
    cores_used: float | None
    processes: list[Process]
    inputs: list[Data]
    outputs: list[Data]
    path_ns: int
    slack_ns: int | None
    before: list[Neighbour]
    after: list[Neighbour]
    siblings: int
    differences: list[Difference] = field(default_factory=list)
    slowest: list[Call] = field(default_factory=list)

    @property
    def arguments_text(self) -> str:
        """The arguments in one line."""
        return ", ".join(f"{name}={text}" for name, text in self.arguments.items())

    def document(self) -> Document:
        """What is shown of it."""
        return task_document(self)


def task_profile(run: AnalyzedRun, task: str) -> TaskProfile:
    """The profile of a task.

    Args:
        run: the run.
        task: its task tag, its name as reports show it, with or without its stage, or WORKFLOW/TASK; of a process
            without a task HOST:PID.

    Raises:
        QueryError: there is no such task, or there are several.
    """
    found = insights(run)
    inputs = found.inputs
    code, key = _find(run, inputs, task)
    declared = _declared(run, key)
    names = _Names(run, inputs)
    base = {
        "workflow": key[0],
        "task": key[1],
        "manager": _manager(run, key[0]),
        "parents": names.linked(key, "task", "dep"),
        "children": names.linked(key, "dep", "task"),
        "t0_ns": inputs.start_ns,
        "waits": _waits(run, key),
        "arguments": task_arguments.of_annotations(declared.get("annotations")),
        "requested": requests.of(run).get(key, {}),
        **_outcome(run, key),
    }
    if code is None:
        return TaskProfile(**{**_NOTHING, **base, "stage": str(declared.get("stage") or ""), "name": names.of(key)})
    critical = found.critical
    figures = _figures(inputs)
    mine = np.flatnonzero(inputs.of_who == code)
    rows = _processes(inputs, code, mine)
    before, after = _neighbours(inputs, critical.path, code)
    row = row_of(inputs.tasks, code)
    on_path = row_of(critical.tasks, code)
    seen = row_of(figures, code)
    peers = np.flatnonzero(inputs.tasks["stage_code"].to_numpy() == row["stage_code"])
    peers = peers[(peers != code) & inputs.works[peers]] if row["task"] else peers[:0]
    counts = inputs.m.table.counts
    own = counts[np.isin(counts["who"].to_numpy(), mine)]
    memory = [one.max_rss_bytes for one in rows if one.max_rss_bytes is not None]
    return TaskProfile(
        **base,
        stage=str(row["stage"]),
        name=inputs.called(code),
        begin_ns=int(row["start_ns"]),
        end_ns=int(row["end_ns"]),
        spent_ns={name: int(seen[name]) for name in (*time_model.STATES, time_model.ABSENT)},
        calls={kind: int(own["calls"][own["kind"] == at].sum()) for at, kind in enumerate(edge_table.CALLS)},
        failed_calls=int(own["failed"].sum()),
        read_bytes=int(own["read_bytes"].sum()),
        written_bytes=int(own["written_bytes"].sum()),
        max_rss_bytes=max(memory, default=None),
        cores_used=_cores_used(rows, int(row["end_ns"]) - int(row["start_ns"])),
        processes=rows,
        inputs=_data(inputs, code, edge_table.READ),
        outputs=_data(inputs, code, edge_table.WRITE),
        path_ns=int(on_path["path_ns"]),
        slack_ns=int(on_path["slack_ns"]) if inputs.works[code] else None,
        before=before,
        after=after,
        siblings=len(peers),
        differences=differences(figures, code, peers),
        slowest=slowest(run, row),
    )


_NOTHING: dict[str, Any] = {
    **dict.fromkeys(("begin_ns", "end_ns", "max_rss_bytes", "cores_used", "slack_ns")),
    **dict.fromkeys(("failed_calls", "read_bytes", "written_bytes", "path_ns", "siblings"), 0),
    **{name: {} for name in ("spent_ns", "calls")},
    **{name: [] for name in ("processes", "inputs", "outputs", "before", "after")},
}
"""The figures of a task without events."""


# --- which task ------------------------------------------------------------------------------------------------------


def _find(run: AnalyzedRun, inputs: Inputs, wanted: str) -> tuple[int | None, tuple[str, str]]:
    """The task's code (None: it left no events), and its workflow and task."""
    known: dict[str, dict[tuple[str, str, int], int | None]] = {}
    m = inputs.m
    places = processes.names(inputs.tasks)
    for at, (workflow, task) in enumerate(outcomes.task_keys(inputs.tasks)):
        key = (workflow, task, -1 if task else at)
        words = {inputs.name(at), inputs.called(at), places[at], f"{workflow}/{task or places[at]}"}
        words |= {task} if task else set()
        for word in words:
            known.setdefault(word, {})[key] = at
    tasks = run.declared_tasks
    if len(tasks):
        for workflow, task in zip(tasks["workflow"].fillna("").astype(str), tasks["task"].astype(str), strict=True):
            for word in (task, f"{workflow}/{task}", m.task_name(workflow, task)):
                known.setdefault(word, {}).setdefault((workflow, task, -1), None)
    found = known.get(wanted, {})
    if len(found) > 1:
        # A process that got its workflow's tag on its way is one task before and another one after.
        named = (f"{workflow}/{task or places[at]}" for workflow, task, at in found)
        several = ", ".join(map(repr, sorted(named)[:5]))
        raise QueryError(f"{run.path}: there are {len(found)} tasks {wanted!r}: write {several}")
    if not found:
        from difflib import get_close_matches

        near = get_close_matches(wanted, [word for word in known if word], n=5, cutoff=0.4)
        hint = f"the nearest are {', '.join(map(repr, near))}" if near else f"it has {len(inputs.tasks)} tasks"
        raise QueryError(f"{run.path}: there is no task {wanted!r}; {hint}")
    (((workflow, task, _), code),) = found.items()
    return code, (workflow, task)


class _Names:
    """The names of tasks that declarations mention."""

    def __init__(self, run: AnalyzedRun, inputs: Inputs) -> None:
        self._m, self._deps = inputs.m, run.declared_deps
        pairs = zip(outcomes.task_keys(inputs.tasks), range(len(inputs.tasks)), strict=True)
        self._called = {key: inputs.called(code) for key, code in pairs if key[1]}

    def of(self, key: tuple[str, str]) -> str:
        return self._called.get(key) or self._m.task_name(*key)

    def linked(self, key: tuple[str, str], at: str, other: str) -> list[str]:
        """The tasks in the column `other` of the declared dependencies whose column `at` is this task."""
        if not key[1] or not len(self._deps):
            return []
        rows = self._deps[(self._deps["workflow"].fillna("") == key[0]) & (self._deps[at] == key[1])]
        return [self.of((key[0], str(task))) for task in dict.fromkeys(rows[other])]


# --- what its manager says -------------------------------------------------------------------------------------------


def _declared(run: AnalyzedRun, key: tuple[str, str]) -> Row:
    return _row(run.declared_tasks, key)


def _row(table: pd.DataFrame, key: tuple[str, str]) -> Row:
    """The row of a task in a table of tasks, {} where it has none."""
    if not key[1] or not len(table):
        return {}
    at = np.flatnonzero((table["workflow"].fillna("") == key[0]) & (table["task"] == key[1]))
    return row_of(table, at[0]) if len(at) else {}


def _manager(run: AnalyzedRun, workflow: str) -> str:
    table = run.declared_workflows
    rows = table[table["workflow"] == workflow] if len(table) else table
    words = [str(rows[name].iat[0]) for name in ("manager", "version") if len(rows) and rows[name].notna().iat[0]]
    return " ".join(words)


def _outcome(run: AnalyzedRun, key: tuple[str, str]) -> dict[str, Any]:
    row = _row(outcomes.table(run), key)
    status, tries = row.get("status"), row.get("tries")
    return {
        "status": status if isinstance(status, str) else None,
        "tries": int(tries) if tries is not None and not pd.isna(tries) else None,
        "error": str(row.get("error") or ""),
    }


def _waits(run: AnalyzedRun, key: tuple[str, str]) -> dict[str, int | None]:
    row = _row(waits.table(run), key)
    return {name: None if pd.isna(row[name]) else int(row[name]) for name in waits.TIMES if name in row}


# --- what was seen of it ---------------------------------------------------------------------------------------------


def _figures(inputs: Inputs) -> pd.DataFrame:
    """Figures of all tasks that siblings are compared by: ns and bytes."""
    count = len(inputs.tasks)
    start, end = (inputs.tasks[name].to_numpy(dtype=np.int64) for name in ("start_ns", "end_ns"))
    spent = inputs.spent.inside(np.arange(count, dtype=np.int64), start, end)
    out: pd.DataFrame = time_model.filled(spent, end - start, time_model.ABSENT)
    out["duration"] = end - start
    counts = inputs.m.table.counts
    of = inputs.of_who[counts["who"].to_numpy()]
    for name in ("calls", "failed", "read_bytes", "written_bytes"):
        sums = np.zeros(count, dtype=np.int64)
        np.add.at(sums, of, counts[name].to_numpy())
        out[name] = sums
    out["processes"] = inputs.tasks["processes"].to_numpy()
    return out


def differences(figures: pd.DataFrame, task: int, siblings: Ints) -> list[Difference]:
    """The figures by which a task is set apart from its siblings, the furthest first."""
    if len(siblings) < LEAST_SIBLINGS:
        return []
    found = []
    duration = float(figures["duration"].to_numpy()[task]) if "duration" in figures else 0.0
    for name in figures.columns:
        value, others = float(figures[name].to_numpy()[task]), figures[name].to_numpy(dtype=float)[siblings]
        median = float(np.median(others))
        spread = _NORMAL * float(np.median(np.abs(others - median)))
        far = abs(value - median) / spread if spread else float("inf")
        least = max(LEAST_SHARE * median, LEAST_OF_TIME * duration if name in time_model.WORDS else 0.0)
        if value != median and far > FAR and abs(value - median) >= least and value + median > 0:
            found.append(Difference(str(name), value, median, min(far, 1e9)))
    share = {d.figure: abs(d.value - d.median) / max(d.value, d.median) for d in found}
    return sorted(found, key=lambda d: (-share[d.figure], d.figure))


def _processes(inputs: Inputs, code: int, mine: Ints) -> list[Process]:
    m, out = inputs.m, []
    words = m.command_lines
    known = dict(zip(processes.keys(m.processes), range(len(m.processes)), strict=True)) if len(m.processes) else {}
    others = m.who[inputs.of_who != code]
    elsewhere = set(processes.keys(others[others["task"] != ""]))
    for key in dict.fromkeys(processes.keys(m.who.iloc[mine])):
        row = row_of(m.processes, known[key]) if key in known else {}
        exe = m.who["exe"].to_numpy()[mine][[one == key for one in processes.keys(m.who.iloc[mine])]]
        rss = _whole(row, "maxrss_kib")
        cpu = [_whole(row, name) for name in ("utime_ns", "stime_ns")]
        out.append(
            Process(
                *key,
                program=str(exe[0]),
                command=words.get(key, []),
                begin_ns=_whole(row, "t0_ns"),
                end_ns=_whole(row, "t1_ns"),
                exit_code=_whole(row, "exit"),
                signal=_whole(row, "signal"),
                max_rss_bytes=None if rss is None else rss * 1024,
                cpu_ns=None if None in cpu else sum(part for part in cpu if part is not None),
                shared=key in elsewhere,
            )
        )
    return sorted(out, key=lambda one: (one.begin_ns or 0, one.pid))


def _cores_used(rows: Sequence[Process], duration_ns: int) -> float | None:
    times = [None if one.shared else one.cpu_ns for one in rows]
    known = [time for time in times if time is not None]
    return sum(known) / duration_ns if known and len(known) == len(times) and duration_ns > 0 else None


def _whole(row: Row, name: str) -> int | None:
    value = row.get(name)
    return None if value is None or pd.isna(value) else int(value)


def _data(inputs: Inputs, code: int, way: int) -> list[Data]:
    """What a task read or wrote, the most bytes first, but for pipes between its own processes. Its own files that
    nobody else used are among them."""
    m = inputs.m
    of_burst = inputs.of_who[m.bursts["who"].to_numpy()]
    alone = ~np.isin(m.version, m.version[of_burst != code])
    own_pipe = m.versions.table["stream"].to_numpy()[m.version] & alone
    data = m.classed(dataflow.DEFAULT_CLASSES) & ~own_pipe
    mine = np.flatnonzero(data & (of_burst == code) & (m.bursts["dir"].to_numpy() == way))
    rows = m.bursts.iloc[mine].assign(version=m.version[mine]).groupby("version", sort=False)
    hand = inputs.handovers
    hand = hand[(hand["via"] == "data") & (hand["consumer" if way == edge_table.READ else "producer"] == code)]
    other = "producer" if way == edge_table.READ else "consumer"
    names: dict[int, list[str]] = {}
    for version, task in zip(hand["version"].tolist(), hand[other].tolist(), strict=True):
        names.setdefault(version, []).append(inputs.called(task))
    out = []
    for version, part in rows:
        at = int(str(version))
        file = m.versions.table["file"].to_numpy()[at]
        out.append(
            Data(
                path=str(m.paths[file] or m.table.files["file"].to_numpy()[file]),
                version=int(m.versions.table["number"].to_numpy()[at]),
                bytes=int(part["bytes"].sum()),
                calls=int(part["calls"].sum()),
                begin_ns=int(part["first_ns"].min()),
                end_ns=int(part["last_ns"].max()),
                others=list(dict.fromkeys(names.get(at, []))),
            )
        )
    return sorted(out, key=lambda one: (-one.bytes, one.path, one.version))


def _neighbours(inputs: Inputs, path: pd.DataFrame, code: int) -> tuple[list[Neighbour], list[Neighbour]]:
    """The tasks beside this one on the critical path."""
    tasks, via = path["task"].tolist(), path["via"].tolist()
    before, after = [], []
    for at, task in enumerate(tasks):
        if task != code:
            continue
        if at and tasks[at - 1] not in (code, -1):
            before.append(Neighbour(inputs.called(tasks[at - 1]), str(via[at])))
        if at + 1 < len(tasks) and tasks[at + 1] not in (code, -1):
            after.append(Neighbour(inputs.called(tasks[at + 1]), str(via[at + 1])))
    return list(dict.fromkeys(before)), list(dict.fromkeys(after))
