"""Follows Luigi's tasks: methods of its worker are replaced, since its events are told outside of the process or the
moment in which a task runs, and not of tasks that never run.

    Worker.add               a workflow begins with its first task; its name is the family of that
    Worker._add              which tasks a task requires
    Worker._add_task         what the worker tells the scheduler: a task is pending, done or failed
    Worker._run_task         a try begins
    Worker.run               is over: what has not run by now never does
    TaskProcess._run_get_new_deps    the task's run(), in its process or in the worker's: the scope is around it

Invariants: what a task does and returns is what it does untraced; a fault of ours is one warning.

An end is declared although the task may be tried again, which Luigi's scheduler decides later: the last end counts.
"""

import json
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import luigi
from luigi import interface
from luigi import worker as luigi_worker
from luigi.task import flatten

from tailrace.integrations.declared_log import declared_file
from tailrace.integrations.isolation import Isolation
from tailrace.integrations.replacing import Replaced, replace
from tailrace.integrations.workflow import Workflow

_DIED = re.compile(r"died unexpectedly with exit code -")
_TIMED_OUT = re.compile(r"timed out after \S+ seconds")
_NOT_RUN = ("failed", "killed", "timeout", "dep_failed")

_isolated = Isolation(logging.getLogger("tailrace.luigi"))


@dataclass
class _Task:
    """What is known of a task. status: of docs/declared-dag.md, "" until it ended."""

    stage: str
    requires: list[Any] = field(default_factory=list)
    attempt: int = -1
    begun_ns: int = 0
    ended_ns: int = 0
    status: str = ""
    error: str = ""


class _Followed:
    """The tasks of one of Luigi's workers."""

    def __init__(self, name: str) -> None:
        own: list[str] = []
        with _isolated("find Luigi's own files"):
            own.append(str(Path(interface.core().lock_pid_dir).absolute()))
        self._workflow = Workflow.begin(
            "luigi",
            metadata.version("luigi"),
            name,
            attach=True,
            own_directories=own,
            own_processes=_own_processes,
        )
        self._tasks: dict[str, _Task] = {}
        self._required: dict[str, list[Any]] = {}

    def scope(self, task_id: str) -> AbstractContextManager[None]:
        """For the thread that runs a task."""
        task = self._tasks.get(task_id, _Task("luigi"))
        return self._workflow.task(task_id, task.stage, max(task.attempt, 0))

    def requires(self, task_id: str, required: Any) -> None:
        self._required.setdefault(task_id, []).append(required)

    def told(self, task: Any, status: str, expl: Any, new: Iterable[Any]) -> None:
        """The worker tells the scheduler of a task. expl: why it failed; new: tasks that its run() yielded."""
        known = self._tasks.get(task.task_id)
        if known is None:
            if not _is_external(task):
                self._declare(task, complete=status == "DONE")
        elif known.begun_ns and not known.status:
            self._ran(task, known, status, expl, list(new))

    def launched(self, task: Any) -> None:
        # A batch is made of several tasks when it is launched.
        known = self._tasks.get(task.task_id) or self._declare(task)
        if known.status:
            self._workflow.retried(
                task.task_id, known.attempt, known.error, t_launch_ns=known.begun_ns, t_ns=known.ended_ns
            )
        if known.status or known.attempt < 0:
            known.attempt += 1
        known.status, known.begun_ns = "", time.time_ns()
        self._workflow.started(task.task_id, known.attempt, t_ns=known.begun_ns)

    def over(self) -> None:
        """What waits for a task that failed never ran."""
        failed = {name for name, task in self._tasks.items() if task.status in _NOT_RUN}
        waiting = {name: task for name, task in self._tasks.items() if not task.status}
        while blamed := {
            name: next(one.task_id for one in task.requires if one.task_id in failed)
            for name, task in waiting.items()
            if any(one.task_id in failed for one in task.requires)
        }:
            for name, cause in blamed.items():
                waiting.pop(name).status = "dep_failed"
                self._workflow.ended(name, "dep_failed", error=f"{cause} failed", tries=0)
            failed |= set(blamed)
        self._workflow.close()

    def _declare(self, task: Any, complete: bool = False) -> _Task:
        known = self._tasks[task.task_id] = _Task(
            str(task.task_family), self._required.pop(task.task_id, []), status="memoized" if complete else ""
        )
        self._workflow.submitted(
            task.task_id,
            known.stage,
            kind="python",
            name=str(task),
            deps=_dependencies(known.requires),
            inputs=_files(known.requires),
            outputs=_files([task]),
            requested=dict(task.process_resources()),
        )
        if complete:
            self._workflow.ended(task.task_id, "memoized", tries=0)
        return known

    def _ran(self, task: Any, known: _Task, status: str, expl: Any, new: Sequence[Any]) -> None:
        if status == "PENDING":
            # run() is called again, from its begin, when these are done.
            known.requires += new
            self._workflow.submitted(
                task.task_id,
                known.stage,
                kind="python",
                name=str(task),
                deps=_dependencies(new),
                inputs=_files(new),
            )
            return
        known.ended_ns = time.time_ns()
        known.status, known.error = ("done", "") if status == "DONE" else _failure(expl)
        self._workflow.ended(
            task.task_id, known.status, error=known.error or None, t_ns=known.ended_ns, tries=known.attempt + 1
        )


_of: dict[str, _Followed] = {}
"""By the worker's id: a task's process knows no more of its worker. A process that was forked has its parent's."""


_traced = _own_processes = False


def trace(own_processes: bool = False) -> None:
    """Traces the tasks that Luigi's workers of this process run from now on; again: does nothing. A version of Luigi
    that runs tasks in another way is one warning, and they run untraced. own_processes: this program is Luigi's own."""
    global _traced, _own_processes
    if _traced:
        return
    _own_processes = own_processes
    with _isolated("follow Luigi's tasks"):
        replace(f"Luigi {metadata.version('luigi')}", _REPLACED)
        _traced = True


def _add(original: Callable[..., Any], worker: Any, /, *arguments: Any, **keywords: Any) -> Any:
    with _isolated("follow a worker of Luigi's"):
        if worker._id not in _of:
            _of[worker._id] = _Followed(str(_first(arguments, keywords, "task").task_family))
    return original(worker, *arguments, **keywords)


def _add_one(original: Callable[..., Any], worker: Any, /, *arguments: Any, **keywords: Any) -> Iterator[Any]:
    for required in original(worker, *arguments, **keywords):
        with _isolated("find what a task requires"):
            if worker._id in _of:
                _of[worker._id].requires(_first(arguments, keywords, "task").task_id, required)
        yield required


def _tell(original: Callable[..., Any], worker: Any, /, *arguments: Any, **facts: Any) -> Any:
    with _isolated("declare a task"):
        task = worker._scheduled_tasks.get(facts.get("task_id"))
        if task is not None and worker._id in _of:
            _of[worker._id].told(
                task, facts["status"], facts.get("expl"), map(worker._scheduled_tasks.get, facts.get("new_deps") or ())
            )
    return original(worker, *arguments, **facts)


def _launch(original: Callable[..., Any], worker: Any, /, *arguments: Any, **keywords: Any) -> Any:
    with _isolated("declare a try"):
        task_id = _first(arguments, keywords, "task_id")
        if worker._id in _of and task_id not in worker._running_tasks:
            _of[worker._id].launched(worker._scheduled_tasks[task_id])
    return original(worker, *arguments, **keywords)


def _run(original: Callable[..., Any], worker: Any, /, *arguments: Any, **keywords: Any) -> Any:
    try:
        return original(worker, *arguments, **keywords)
    finally:
        with _isolated("declare what never ran"):
            if worker._id in _of:
                _of[worker._id].over()


def _first(arguments: Sequence[Any], keywords: Mapping[str, Any], name: str) -> Any:
    return arguments[0] if arguments else keywords[name]


def _in_scope(original: Callable[..., Any], process: Any, /, *arguments: Any, **keywords: Any) -> Any:
    followed = _of.get(process.worker_id)
    with nullcontext() if followed is None else followed.scope(process.task.task_id):
        return original(process, *arguments, **keywords)


_REPLACED = (
    Replaced(luigi_worker.Worker, "add", ("self", "task"), _add),
    Replaced(luigi_worker.Worker, "_add", ("self", "task"), _add_one),
    Replaced(luigi_worker.Worker, "_add_task", ("self",), _tell),
    Replaced(luigi_worker.Worker, "_run_task", ("self", "task_id"), _launch),
    Replaced(luigi_worker.Worker, "run", ("self",), _run),
    Replaced(luigi_worker.TaskProcess, "_run_get_new_deps", ("self",), _in_scope),
)


def _is_external(task: Any) -> bool:
    """Data that no task makes."""
    return task.run is None or task.run == NotImplemented


def _files(tasks: Iterable[Any]) -> list[str]:
    """The local files that tasks make."""
    return [
        str(target.path) for task in tasks for target in flatten(task.output()) if isinstance(target, luigi.LocalTarget)
    ]


def _dependencies(required: Iterable[Any]) -> list[dict[str, str]]:
    """Luigi tells of a task before those that it requires: their outputs are not declared yet."""
    found: list[dict[str, str]] = []
    for task in required:
        if not _is_external(task):
            files = [
                {"task": task.task_id, "via": "file", "path": declared_file(path)["path"]} for path in _files([task])
            ]
            found += files or [{"task": task.task_id, "via": "order"}]
    return found


def _failure(expl: Any) -> tuple[str, str]:
    """A status, and the last line of what Luigi has to say: most often a traceback."""
    try:
        text = str(json.loads(expl))
    except (TypeError, ValueError):
        text = str(expl or "")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    error = lines[-1] if lines else "no reason was given"
    if _TIMED_OUT.search(error):
        return "timeout", error
    return ("killed" if _DIED.search(error) else "failed"), error
