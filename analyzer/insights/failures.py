"""Failures: groups of tasks that failed alike, what never ran because of them, and the files that they had last.

    outcomes (model/outcomes.py) + declared dependencies + accesses -> failures() -> [Failure], the largest first

Invariants: a failed task is in one group; a task that never ran counts for every group on which it depends. After `FEW`
groups the others are one: a run in which much fails, or is made to, has findings about its data, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from signal import SIGKILL

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import file_classes
from tailrace.analyzer.insights.inputs import Inputs
from tailrace.analyzer.model import outcomes
from tailrace.analyzer.store.processes import Process, keys
from tailrace.analyzer.util.tabular import Tabular
from tailrace.analyzer.util.types import Bools
from tailrace.base.exit_codes import CRASHES

EVIDENCE = 5
"""Tasks and processes whose last files are looked up."""
FEW = 3
"""Groups that stand for themselves, if there are more than one besides."""
LAST_FILES = 3
LONGEST_ERROR = 160
ANSWERS = re.compile(r"([efz]|bz|xz)?grep|rg|[zx]?cmp|[zx]?diff|test|expr")
"""Programs whose exit code 1 is an answer."""
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|[0-9a-fA-F]{8,}|[0-9]+")
Task = tuple[str, str]
"""(workflow, task)."""


@dataclass(frozen=True, repr=False)
class Failure(Tabular):
    """Tasks of a stage that ended in the same way; the last one may be the rest, of several such groups.

    tasks: rows of `outcomes.table`, seen (whether it left events; such tasks are first) and files (of the first
        `EVIDENCE`: the last ones, the last first).
    error: the first line of the first one's error; blocked: how many tasks never ran for it; ways: how many groups it
        is of.
    """

    tasks: pd.DataFrame
    error: str
    blocked: int
    ways: int = 1


def failures(inputs: Inputs) -> list[Failure]:
    """Failed tasks by stage, status and error; the groups with most tasks that have no result first."""
    ends = inputs.tables.get("outcomes")
    if ends is None or len(ends) == 0:
        return []
    failed = ends[ends["status"].isin(outcomes.FAILED)]
    place = dict(zip(outcomes.task_keys(inputs.tasks), range(len(inputs.tasks)), strict=True))
    failed = failed.assign(
        kind=[_NUMBER.sub("#", first_line(str(error))) for error in failed["error"]],
        at=[place.get(key, -1) for key in outcomes.task_keys(failed)],
    )
    never = set(outcomes.task_keys(ends[ends["status"] == outcomes.NEVER_RAN]))
    behind = _successors(inputs.tables.get("declared_deps"), never)
    groups = [
        (group, len(_reached(outcomes.task_keys(group), behind)))
        for _, group in failed.groupby(["workflow", "stage", "status", "kind"], sort=False)
    ]
    groups.sort(key=lambda pair: -(len(pair[0]) + pair[1]))
    apart = groups if len(groups) == FEW + 1 else groups[:FEW]
    found = [_failure(inputs, group, blocked) for group, blocked in apart]
    if others := [group for group, _ in groups[len(apart) :]]:
        rest = pd.concat(others)
        found.append(_failure(inputs, rest, len(_reached(outcomes.task_keys(rest), behind)), len(others)))
    return found


def _failure(inputs: Inputs, group: pd.DataFrame, blocked: int, ways: int = 1) -> Failure:
    rows = group.iloc[np.argsort((group["at"] < 0).to_numpy(), kind="stable")]
    files = [_last_files(inputs, inputs.of_who == at) if at >= 0 else [] for at in rows["at"].head(EVIDENCE)]
    files += [[]] * (len(rows) - len(files))
    shown = rows.assign(files=pd.Series(files, index=rows.index, dtype=object), seen=rows["at"] >= 0)
    return Failure(shown, first_line(str(rows["error"].iat[0])), blocked, ways)


def first_line(error: str) -> str:
    """The first line of an error, cut where it is very long."""
    line = next((line.strip() for line in error.splitlines() if line.strip()), "")
    return line if len(line) <= LONGEST_ERROR else f"{line[: LONGEST_ERROR - 1].rstrip()}\u2026"


def _successors(deps: pd.DataFrame | None, never: set[Task]) -> dict[Task, list[Task]]:
    """task -> the tasks of `never` that depend on it directly."""
    out: dict[Task, list[Task]] = {}
    if deps is None or len(deps) == 0 or not never:
        return out
    for workflow, task, dep in zip(deps["workflow"].fillna(""), deps["task"], deps["dep"], strict=True):
        if (str(workflow), str(task)) in never:
            out.setdefault((str(workflow), str(dep)), []).append((str(workflow), str(task)))
    return out


def _reached(roots: Iterable[Task], successors: dict[Task, list[Task]]) -> set[Task]:
    found: set[Task] = set()
    open_tasks = list(roots)
    while open_tasks:
        for task in successors.get(open_tasks.pop(), ()):
            if task not in found:
                found.add(task)
                open_tasks.append(task)
    return found


def _last_files(inputs: Inputs, actors: Bools) -> list[str]:
    """The data files that actors read or wrote last, the last first, but for the code that a traceback quotes: those of
    a library, read by the one that reports the failure."""
    m = inputs.m
    mine = actors[m.bursts["who"].to_numpy()] & (m.cls == file_classes.CLASSES.index("data"))
    rows = m.bursts[mine].sort_values("last_ns", ascending=False, kind="stable")
    paths = (str(m.paths[file]) for file in dict.fromkeys(rows["file"].tolist()))
    return list(islice((path for path in paths if not file_classes.is_library_code(path)), LAST_FILES))


def is_answer(program: str, code: int) -> bool:
    """Whether a program that ended with this exit code has only said no."""
    return code == 1 and ANSWERS.fullmatch(program) is not None


def process_faults(inputs: Inputs) -> pd.DataFrame:
    """The processes that crashed, or where none did, those that ended with an exit code other than 0: columns of
    `Run.processes`, crashed, root (it is the traced command), files (the last ones, of the first `EVIDENCE` rows).

    The first row is where it began: of the last process to end, without the command, the child that failed last, and so
    on. The others follow by end, the last one first.
    """
    table = inputs.m.processes
    if "signal" not in table:
        return pd.DataFrame(columns=["crashed", "files"])
    managed = len(inputs.tables.get("outcomes", ())) > 0
    rows = outcomes.crashed(table, CRASHES if managed else outcomes.KILLED)
    gone = dismissed(inputs)
    rows = rows[[key not in gone for key in keys(rows)]]
    crashed = len(rows) > 0
    if not crashed:
        rows = table[(table["exit"].fillna(0) != 0).to_numpy(dtype=np.bool_)].sort_values("t1_ns", kind="stable")
    commands = inputs.tables.get("command_ends", pd.DataFrame(columns=["host", "pid"]))
    roots = set(zip(commands["host"], commands["pid"], strict=True))
    rows = rows.iloc[::-1].assign(
        crashed=crashed, root=[key in roots for key in zip(rows["host"][::-1], rows["pid"][::-1], strict=True)]
    )
    rows = rows.iloc[_origin_first(rows)]
    own = {key: set[int]() for key in keys(rows.head(EVIDENCE))}
    for at, key in enumerate(keys(inputs.m.who)):
        if key in own:
            own[key].add(at)
    every = np.arange(len(inputs.m.who))
    files = [_last_files(inputs, np.isin(every, list(own[key]))) for key in own]
    files += [[]] * (len(rows) - len(files))
    return rows.assign(files=pd.Series(files, index=rows.index, dtype=object))


def dismissed(inputs: Inputs) -> frozenset[Process]:
    """The processes that were killed when whoever had started them needed them no more: they had moved no data, and
    their parents went on and ended with exit code 0."""
    m, table = inputs.m, inputs.m.processes
    if "signal" not in table:
        return frozenset()
    rows = table[(table["signal"] == SIGKILL).fillna(False).to_numpy(dtype=np.bool_)]
    if not len(rows):
        return frozenset()
    moved = (m.bursts["bytes"] > 0).to_numpy() & m.classed(("data", "stream"))
    of_who = np.bincount(m.bursts["who"].to_numpy()[moved], minlength=len(m.who))
    users = {key for key, used in zip(keys(m.who), of_who.tolist(), strict=True) if used}
    ended = table[(table["exit"] == 0).fillna(False).to_numpy(dtype=np.bool_) & table["t1_ns"].notna().to_numpy()]
    well: dict[tuple[str, int], int] = {}
    for host, pid, over in zip(ended["host"], ended["pid"], ended["t1_ns"], strict=True):
        well[host, int(pid)] = max(int(over), well.get((host, int(pid)), 0))
    ended_ns = rows["t1_ns"].fillna(0).tolist()
    return frozenset(
        key
        for key, ppid, over in zip(keys(rows), rows["ppid"], ended_ns, strict=True)
        if key not in users and well.get((key[0], ppid), -1) >= over
    )


def _origin_first(rows: pd.DataFrame) -> list[int]:
    """The positions of processes, which are sorted by end, the last one first, with the origin in front."""
    order = list(range(len(rows)))
    places = list(zip(rows["host"], rows["pid"], strict=True))
    parents = list(zip(rows["host"], rows["ppid"], strict=True))
    at = next((i for i in order if not rows["root"].iloc[i]), None)
    if at is None:
        return order
    # A child ended before its parent did, so it comes later in the rows.
    while (child := next((i for i in order[at + 1 :] if parents[i] == places[at]), None)) is not None:
        at = child
    return [at, *(i for i in order if i != at)]
