"""Follows Prefect's task runs, in the process of the flow.

    ThreadPoolTaskRunner.submit               numbers task runs in the order in which the flow submits them
    emit_task_run_state_change_event          each state of a task run: declared, begun, tried again, over
    SyncTaskRunEngine.call_task_fn            the task's function: the scope is around it, in the thread that calls it
    AsyncTaskRunEngine.call_task_fn           the same for a coroutine, around each of its steps

Invariants: what a task returns and raises is what it does untraced; a fault of ours is one warning.

Hooks (`on_completion`) belong to each task, and the client's records are the server's, which may be elsewhere.
"""

import logging
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from prefect import task_engine, task_runners
from prefect.settings import get_current_settings

from tailrace.integrations.coroutines import Stepwise
from tailrace.integrations.declared_log import error_text
from tailrace.integrations.isolation import Isolation
from tailrace.integrations.replacing import Replaced, replace
from tailrace.integrations.workflow import Workflow, running

_isolated = Isolation(logging.getLogger("tailrace.prefect"))
_STATUSES = {"COMPLETED": "done", "FAILED": "failed", "CRASHED": "killed", "CANCELLED": "canceled"}
_BY_NAME = {"Cached": "memoized", "TimedOut": "timeout"}


@dataclass
class _Run:
    """A task run. attempt: -1 before its first try; begun_ns, error: of the last; over_ns: when that failed, or 0."""

    name: str
    stage: str
    submitted_ns: int
    declared: bool = False
    attempt: int = -1
    begun_ns: int = 0
    over_ns: int = 0
    error: str = ""


class _Followed:
    """The task runs of this process's flows."""

    def __init__(self, name: str) -> None:
        home: list[Path] = []
        with _isolated("find Prefect's own files"):
            home.append(Path(get_current_settings().home))
        self.workflow = Workflow.begin("prefect", metadata.version("prefect"), name, attach=True, own_directories=home)
        self.submitting = threading.RLock()
        """Held until a task run that was submitted has its number, since its thread may run it at once."""
        self._runs: dict[Any, _Run] = {}
        self._numbers: dict[str, int] = {}

    def run_of(self, run_id: Any, stage: str) -> _Run:
        with self.submitting:
            if run_id not in self._runs:
                self._numbers[stage] = self._numbers.get(stage, 0) + 1
                self._runs[run_id] = _Run(f"{stage}:{self._numbers[stage]}", stage, time.time_ns())
            return self._runs[run_id]

    def tags(self, engine: Any) -> str:
        run = self._runs.get(engine.task_run.id)
        return self.workflow.tags(run.name, run.stage, max(run.attempt, 0)) if run is not None else ""

    def failed(self, engine: Any, error: BaseException) -> None:
        run = self._runs.get(engine.task_run.id)
        if run is not None:
            run.error = error_text(error)

    def changed(self, task_run: Any, state: Any) -> None:
        """A task run has another state. Its name is made of the task's and of a key, before it gets one of its own."""
        run = self.run_of(task_run.id, str(task_run.name).rpartition("-")[0] or str(task_run.name))
        if not run.declared:
            run.declared = True
            self._declare(task_run, run)
        if state.is_running():
            if run.begun_ns:
                over_ns = run.over_ns or time.time_ns()
                self.workflow.retried(run.name, run.attempt, run.error, t_launch_ns=run.begun_ns, t_ns=over_ns)
            run.attempt, run.begun_ns, run.over_ns = run.attempt + 1, time.time_ns(), 0
            self.workflow.started(run.name, run.attempt, t_ns=run.begun_ns)
        elif state.name == "NotReady":
            self._over(task_run.id, run, "dep_failed", state)
        elif state.is_scheduled():
            run.over_ns = time.time_ns()  # it waits for its next try
        elif state.is_final():
            self._over(task_run.id, run, _BY_NAME.get(state.name, _STATUSES.get(state.type.value, "failed")), state)

    def _declare(self, task_run: Any, run: _Run) -> None:
        needed = [one.id for given in task_run.task_inputs.values() for one in given if hasattr(one, "id")]
        deps = [self._runs[one].name for one in dict.fromkeys(needed) if one in self._runs]
        self.workflow.submitted(
            run.name,
            run.stage,
            kind="python",
            name=run.name,
            deps=[{"task": name, "via": "future"} for name in deps],
            t_ns=run.submitted_ns,
            annotations={"task_run": str(task_run.name), "tags": sorted(task_run.tags)},
        )

    def _over(self, run_id: Any, run: _Run, status: str, state: Any) -> None:
        error = None if status in ("done", "memoized") else run.error or str(state.message or state.name)
        tries = 0 if status == "memoized" else run.attempt + 1
        self.workflow.ended(run.name, status, error=error, tries=tries)


_followed: _Followed | None = None


def trace() -> None:
    """Traces the task runs of this process's flows from now on; again: does nothing. A version of Prefect that runs
    tasks in another way is one warning, and they run untraced."""
    global _followed
    if _followed is None:
        with _isolated("follow Prefect's tasks"):
            replace(f"Prefect {metadata.version('prefect')}", _REPLACED)
            _followed = _Followed(_program_name())


def _submit(original: Callable[..., Any], runner: Any, /, *arguments: Any, **keywords: Any) -> Any:
    with nullcontext() if _followed is None else _followed.submitting:
        future = original(runner, *arguments, **keywords)
        with _isolated("number a task run"):
            if _followed is not None:
                task = arguments[0] if arguments else keywords["task"]
                _followed.run_of(future.task_run_id, str(task.name))
    return future


def _emit(original: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Any:
    with _isolated("declare a task run's state"):
        if _followed is not None:
            _followed.changed(keywords["task_run"], keywords["validated_state"])
    return original(*arguments, **keywords)


def _tags(engine: Any) -> str:
    with _isolated("tag a task run"):
        return _followed.tags(engine) if _followed is not None else ""
    return ""


def _call(original: Callable[..., Any], engine: Any, /, *arguments: Any, **keywords: Any) -> Any:
    try:
        with running(_tags(engine)):
            return original(engine, *arguments, **keywords)
    except BaseException as error:
        _failed(engine, error)
        raise


async def _call_async(original: Callable[..., Any], engine: Any, /, *arguments: Any, **keywords: Any) -> Any:
    tags = _tags(engine)
    try:
        called = original(engine, *arguments, **keywords)
        return await (Stepwise(called, tags) if tags else called)
    except BaseException as error:
        _failed(engine, error)
        raise
    finally:
        with running(tags):
            pass  # the end of the task


def _failed(engine: Any, error: BaseException) -> None:
    with _isolated("keep a task run's error"):
        if _followed is not None:
            _followed.failed(engine, error)


_REPLACED = (
    Replaced(task_runners.ThreadPoolTaskRunner, "submit", ("self", "task", "parameters"), _submit),
    Replaced(task_engine, "emit_task_run_state_change_event", ("task_run", "initial_state", "validated_state"), _emit),
    Replaced(task_engine.SyncTaskRunEngine, "call_task_fn", ("self", "transaction"), _call),
    Replaced(task_engine.AsyncTaskRunEngine, "call_task_fn", ("self", "transaction"), _call_async),
)


def _program_name() -> str:
    name = Path(sys.argv[0]).stem if sys.argv else ""
    return name if name not in ("", "-c", "-m") else "prefect"
