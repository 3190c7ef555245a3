"""The declarations of workflow managers (docs/declared-dag.md) as tables of the catalogue.

Invariants: a line that can't be used becomes a row of declared_problems with its file and number (0: the whole file),
and the other lines are used. An object of an unknown type is ignored, since types may be added. A task is identified by
(workflow, task): its `task`, `try` and `end` lines become one row, whichever files contain them. What a manager has
planned (`plan` lines) counts for tasks that have another line; what did not run stands for what it would have waited
for.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO

from tailrace.analyzer.store.layout import Source
from tailrace.analyzer.util.types import Document
from tailrace.base import memory, ownership
from tailrace.base.text import clean
from tailrace.errors import TraceError

TABLES = """
CREATE TABLE declared_workflows (workflow TEXT, manager TEXT, version TEXT, t INTEGER, config TEXT);
CREATE TABLE declared_tasks (workflow TEXT, stage TEXT, task TEXT, kind TEXT, name TEXT, executor TEXT, parent TEXT,
  parent_workflow TEXT,
  t_submit INTEGER, t_depend INTEGER, t_launch INTEGER, t_alloc INTEGER, t_start INTEGER, t_end INTEGER,
  t_clean INTEGER, status TEXT, tries INTEGER, error TEXT, result TEXT, nodes TEXT, ranks TEXT, cores INTEGER,
  holds TEXT, annotations TEXT, submitter TEXT, PRIMARY KEY (workflow, task));
CREATE TABLE declared_tries (workflow TEXT, task TEXT, try INTEGER, t_launch INTEGER, t_end INTEGER, status TEXT,
  error TEXT, PRIMARY KEY (workflow, task, try));
CREATE TABLE declared_deps (workflow TEXT, task TEXT, dep TEXT, via TEXT, path TEXT);
CREATE TABLE declared_waits (workflow TEXT, task TEXT, awaited TEXT, after TEXT);
CREATE TABLE declared_files (workflow TEXT, task TEXT, direction TEXT, path TEXT, url TEXT);
CREATE TABLE declared_problems (file TEXT, line INTEGER, problem TEXT)
"""
_LIMIT = 2 << 30
"""Bytes of a declared file that are read: those of some million tasks."""
_LINE_LIMIT = 64 << 20
"""Bytes of a line that are read: a task with half a million inputs."""
NAMES = (
    "declared_workflows",
    "declared_tasks",
    "declared_tries",
    "declared_deps",
    "declared_waits",
    "declared_files",
    "declared_problems",
)

# type -> required keys, with their JSON types
_NEEDED: dict[str, dict[str, type]] = {
    "workflow": {"workflow": str, "manager": str},
    "task": {"workflow": str, "stage": str, "task": str, "deps": list, "inputs": list, "outputs": list},
    "plan": {"workflow": str, "task": str, "deps": list, "inputs": list, "outputs": list},
    "wait": {"workflow": str, "task": str, "awaited": list},
    "try": {"workflow": str, "task": str, "try": int, "t_launch_ns": int},
    "end": {"workflow": str, "task": str, "t_end_ns": int, "status": str},
}
# JSON key -> column of declared_tasks, by the type of line
_TASK_KEYS = {
    "task": {k: k for k in ("stage", "kind", "name", "executor", "parent", "holds", "nodes", "ranks", "cores")}
    | {"parent_workflow": "parent_workflow"}
    | {k: k for k in ("annotations", "submitter")}
    | {f"{t}_ns": t for t in ("t_submit", "t_depend", "t_launch", "t_alloc", "t_start")},
    "try": {"t_launch_ns": "t_launch"},
    "end": {f"{t}_ns": t for t in ("t_end", "t_start", "t_clean")}
    | {k: k for k in ("status", "tries", "error", "result")},
}
_INTEGERS = ("tries", "cores")
_JSON = ("nodes", "holds", "annotations", "submitter")
_LINKS = {
    "declared_deps": "workflow, task, dep, via, path",
    "declared_files": "workflow, task, direction, path, url",
}
"""What a task's lines may repeat."""
_DIRECTIONS = {"inputs": "r", "outputs": "w"}
_MOST_PASSED = 1000
"""Tasks that one that did not run stands for."""


@dataclass(frozen=True)
class _Plan:
    """A `plan` line. names: of the task; deps: task, via and path; files: direction, path and url, with the task that
    makes an input, "" without one."""

    names: list[str]
    deps: list[tuple[str, str | None, str | None]]
    files: list[tuple[str, tuple[str | None, ...]]]


_Plans = dict[str, list[_Plan]]
"""Of a workflow, by each name of a task."""
_Tasks = dict[str, None]
"""Names in order."""


def clear(db: sqlite3.Connection) -> None:
    """Deletes all rows of the declared tables."""
    for name in NAMES:
        db.execute(f"DELETE FROM {name}")


def fill(db: sqlite3.Connection, files: Iterable[Source]) -> None:
    """Adds the lines of all declared files."""
    several = False
    plans: dict[str, _Plans] = {}
    for source in files:
        name = source.name
        try:
            if source.obstacle:
                raise OSError(None, source.obstacle)
            with ownership.open_regular(source.path, _LIMIT) as file:
                several |= _fill_from(db, name, file, plans)
        except OSError as error:
            _refuse(db, name, 0, f"the file can't be read: {error.strerror}")
    for workflow, planned in plans.items():
        _fill_planned(db, workflow, planned)
    if several or plans:
        for table, columns in _LINKS.items():
            db.execute(f"DELETE FROM {table} WHERE rowid NOT IN (SELECT min(rowid) FROM {table} GROUP BY {columns})")


def _fill_from(db: sqlite3.Connection, name: str, file: BinaryIO, plans: dict[str, _Plans]) -> bool:
    """Adds the lines of a file. Returns whether there may be several `task` lines of one task."""
    number, several = 0, False
    while line := file.readline(_LINE_LIMIT):
        number += 1
        try:
            if len(line) == _LINE_LIMIT:
                raise ValueError(f"the line is longer than {_LINE_LIMIT:,} bytes: it and the rest are left out")
            if line.strip():
                memory.check_json(name, len(line))
                several |= _add(db, _object(line), plans)
        except (ValueError, RecursionError, TraceError, sqlite3.Error, OverflowError) as error:
            _refuse(db, name, number, str(error))
        if len(line) == _LINE_LIMIT:
            break
    return several


def _refuse(db: sqlite3.Connection, name: str, number: int, problem: str) -> None:
    db.execute("INSERT INTO declared_problems VALUES (?, ?, ?)", (name, number, problem))


def _object(line: bytes) -> Document:
    try:
        value = json.loads(line.decode("utf-8", "replace"), strict=False)
    except ValueError as error:
        raise ValueError(f"the line is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError("the line is not an object")
    kind = value.get("type")
    if not isinstance(kind, str):
        raise ValueError("the object has no type")
    for key, needed in _NEEDED.get(kind, {}).items():
        if not isinstance(value.get(key), needed):
            raise ValueError(f"an object of type {kind} lacks {key} ({needed.__name__})")
    return value


def _add(db: sqlite3.Connection, value: Document, plans: dict[str, _Plans]) -> bool:
    """Returns whether it is a `task` line of a task that other lines were about."""
    known = False
    if value["type"] == "plan":
        _add_plan(plans, value)
    if value["type"] == "workflow":
        row = (*_texts(value, "workflow", "manager", "version"), _integer(value.get("t_ns")))
        db.execute("INSERT INTO declared_workflows VALUES (?, ?, ?, ?, ?)", (*row, json.dumps(value.get("config"))))
    if value["type"] in _TASK_KEYS:
        known = _add_task(db, value)
    if value["type"] in ("task", "try") and "t_launch_ns" in value:
        _add_try(db, value)
    if value["type"] == "task":
        _add_links(db, value)
    if value["type"] == "wait":
        _add_waits(db, value)
    return known and value["type"] == "task"


def _add_task(db: sqlite3.Connection, value: Document) -> bool:
    """Returns whether the task had a row."""
    key = _texts(value, "workflow", "task")
    added = db.execute("INSERT OR IGNORE INTO declared_tasks (workflow, task) VALUES (?, ?)", key).rowcount
    if value["type"] == "end":
        # The last end counts: a task that was given up may still have ended well.
        db.execute("UPDATE declared_tasks SET error = NULL, result = NULL WHERE workflow = ? AND task = ?", key)
    for name, column in _TASK_KEYS[str(value["type"])].items():
        stored = _stored(column, value.get(name))
        # The first launch of several tries counts; of any other value the last one.
        kept = f"min(coalesce({column}, ?1), ?1)" if column == "t_launch" else "?1"
        if stored is not None:
            db.execute(f"UPDATE declared_tasks SET {column} = {kept} WHERE workflow = ?2 AND task = ?3", (stored, *key))
    return added == 0


def _add_try(db: sqlite3.Connection, value: Document) -> None:
    """A try has a line when it begins, and one more when it failed."""
    key = (*_texts(value, "workflow", "task"), _integer(value.get("try", 0)))
    launched, ended = (_integer(value.get(name)) for name in ("t_launch_ns", "t_end_ns"))
    db.execute(
        "INSERT OR IGNORE INTO declared_tries (workflow, task, try, t_launch) VALUES (?, ?, ?, ?)", (*key, launched)
    )
    if ended is not None:
        db.execute(
            "UPDATE declared_tries SET t_end = ?, status = ?, error = ? WHERE workflow = ? AND task = ? AND try = ?",
            (ended, *_texts(value, "status", "error"), *key),
        )


def _stored(column: str, value: object) -> str | int | None:
    if column.startswith("t_") or column in _INTEGERS:
        return _integer(value)
    return json.dumps(value) if column in _JSON and value is not None else _text(value)


def _deps(value: Document) -> list[tuple[str, str | None, str | None]]:
    """Task, via and path of its dependencies."""
    found = []
    for dep in _list(value, "deps"):
        if not isinstance(dep, dict) or not isinstance(dep.get("task"), str):
            raise ValueError("a dependency has no task")
        found.append((clean(dep["task"]), _text(dep.get("via")), _text(dep.get("path"))))
    return found


def _files(value: Document) -> list[tuple[str, tuple[str | None, ...]]]:
    """The task that makes each file, "" without one; direction, path and url."""
    found = []
    for name, direction in _DIRECTIONS.items():
        for file in _list(value, name):
            if not isinstance(file, dict):
                raise ValueError(f"an entry of {name} is not an object")
            found.append((_text(file.get("maker")) or "", (direction, *_texts(file, "path", "url"))))
    return found


def _add_links(db: sqlite3.Connection, value: Document) -> None:
    key = _texts(value, "workflow", "task")
    db.executemany("INSERT INTO declared_deps VALUES (?, ?, ?, ?, ?)", [(*key, *dep) for dep in _deps(value)])
    db.executemany("INSERT INTO declared_files VALUES (?, ?, ?, ?, ?)", [(*key, *file) for _, file in _files(value)])


def _add_plan(plans: dict[str, _Plans], value: Document) -> None:
    also = value.get("also")
    named = [value["task"], *(also if isinstance(also, list) else ())]
    names = [clean(name) for name in named if isinstance(name, str)]
    plan = _Plan(names, _deps(value), _files(value))
    of_workflow = plans.setdefault(clean(str(value["workflow"])), {})
    for name in dict.fromkeys(names):
        of_workflow.setdefault(name, []).append(plan)


def _fill_planned(db: sqlite3.Connection, workflow: str, plans: _Plans) -> None:
    """Adds what was planned of the tasks that have lines of their own."""
    begun = {task for (task,) in db.execute("SELECT task FROM declared_tasks WHERE workflow = ?", (workflow,))}
    ran = {
        name: tasks
        for name, mine in plans.items()
        if (tasks := dict.fromkeys(one for plan in mine for one in plan.names if one in begun))
    }
    before = {**_passed(plans, ran), **ran}
    for task in begun & plans.keys():
        for plan in plans[task]:
            deps = [
                (workflow, task, one, *how) for dep, *how in plan.deps for one in before.get(dep, ()) if one != task
            ]
            files = [(workflow, task, *file) for maker, file in plan.files if not maker or maker in ran]
            db.executemany("INSERT INTO declared_deps VALUES (?, ?, ?, ?, ?)", deps)
            db.executemany("INSERT INTO declared_files VALUES (?, ?, ?, ?, ?)", files)


def _passed(plans: _Plans, ran: Mapping[str, _Tasks]) -> dict[str, _Tasks]:
    """Of each planned task that did not run the tasks that were over where it was waited for; without recursion, since
    a makefile may have thousands of levels."""
    found: dict[str, _Tasks] = {}

    def needs(name: str) -> Iterator[str]:
        return (dep for plan in plans[name] for dep, *_ in plan.deps if dep in plans)

    for first in plans:
        pending = [] if first in ran or first in found else [(first, needs(first))]
        while pending:
            name, rest = pending[-1]
            mine = found.setdefault(name, {})
            below = next(rest, None)
            if below is None:
                pending.pop()
                above = found[pending[-1][0]] if pending else {}
                above.update(mine if len(above) < _MOST_PASSED else {})
            elif below in ran or below in found:
                mine.update((ran.get(below) or found[below]) if len(mine) < _MOST_PASSED else {})
            else:
                pending.append((below, needs(below)))
    return found


def _add_waits(db: sqlite3.Connection, value: Document) -> None:
    awaited, also = _list(value, "awaited"), value.get("also", [])
    if not isinstance(also, list) or not all(isinstance(task, str) for task in (*awaited, *also)):
        raise ValueError("an entry of awaited or also is not a task")
    (workflow,) = _texts(value, "workflow")
    links: list[tuple[str | None, str | None]] = [(_text(task), None) for task in awaited]
    if isinstance(value.get("after"), str):
        links.append((None, _text(value["after"])))
    rows = [(workflow, _text(task), *link) for task in (value["task"], *also) for link in links]
    db.executemany("INSERT INTO declared_waits VALUES (?, ?, ?, ?)", rows)


def _list(value: Document, key: str) -> list[object]:
    """The list under a key that `_NEEDED` requires."""
    found = value[key]
    return found if isinstance(found, list) else []


def _texts(value: Document, *keys: str) -> tuple[str | None, ...]:
    return tuple(_text(value.get(key)) for key in keys)


def _text(value: object) -> str | None:
    return clean(value) if isinstance(value, str) else None


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None
