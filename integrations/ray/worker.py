"""Imported by Ray's workers at their start: every task runs in its scope, and its tries and its end are declared.

    FunctionActorManager.get_execution_info    what a worker runs for a function or a method, asked for once in each

A worker knows the try, but not whether another one follows: the end of a task that failed is declared by the program
(ends.py). A worker that is killed leaves the try that it began.

Invariants: what a task returns and raises is what it does untraced; a fault of ours is one warning in the worker's log.

What runs is replaced, not the function that is sent, which Ray knows by its bytes. Lines are written at once, since Ray
ends workers by signals: an empty task takes 708 us instead of 634.
"""

import inspect
import logging
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Any

import ray
from ray._private import worker as ray_worker
from ray._private.function_manager import FunctionActorManager

from tailrace import context
from tailrace.integrations.coroutines import Stepwise
from tailrace.integrations.declared_log import error_text
from tailrace.integrations.isolation import Isolation
from tailrace.integrations.replacing import Replaced, replace
from tailrace.integrations.workflow import Workflow, running
from tailrace.ray import calls
from tailrace.ray.names import handed_over, stage_of, task_name

_isolated = Isolation(logging.getLogger("tailrace.ray"))
_current: ContextVar[str | None] = ContextVar("_current", default=None)
"""The task that the calling thread or coroutine runs."""
_workflows: dict[str, Workflow | None] = {}
"""By the ids of jobs."""
_finding = threading.Lock()


@dataclass
class _Try:
    """A try of a task that runs."""

    workflow: Workflow
    name: str
    attempt: int
    begun_ns: int
    tags: str

    def over(self, error: BaseException | None) -> None:
        if error is None:
            self.workflow.ended(self.name, "done", tries=self.attempt + 1)
        else:
            self.workflow.retried(self.name, self.attempt, error_text(error), t_launch_ns=self.begun_ns)
        self.workflow.flush()


def _workflow() -> Workflow | None:
    """Of the job that the worker runs now; None: its program isn't traced, or this worker."""
    job = ray_worker.global_worker.current_job_id.hex()
    with _finding:
        if job not in _workflows:
            directory = context.run_directory() if context.active() else None
            told = handed_over(ray_worker.global_worker, job) if directory is not None else None
            _workflows[job] = None if told is None else Workflow("ray", Path(str(directory)), *told)
        found = _workflows[job]
        if found is not None:
            calls.follow_in_worker(calls.Submitting(found, _current.get))
        return found


def _begun(stage: str) -> _Try | None:
    with _isolated("tag a task"):
        workflow = _workflow()
        if workflow is not None:
            name = task_name(stage, str(ray.get_runtime_context().get_task_id()))
            attempt = int(ray_worker.global_worker.core_worker.get_current_task_attempt_number())
            one = _Try(workflow, name, attempt, time.time_ns(), workflow.tags(name, stage, attempt))
            workflow.started(name, attempt, t_ns=one.begun_ns)
            workflow.flush()  # a worker may be killed at any time
            return one
    return None


@contextmanager
def _followed(one: _Try | None) -> Generator[None, None, None]:
    """Declares the end of a try, whose events the caller has tagged."""
    before = _current.set(one.name if one is not None else None)
    try:
        yield
    except BaseException as error:
        _over(one, error)
        raise
    else:
        _over(one, None)
    finally:
        _current.reset(before)


def _over(one: _Try | None, error: BaseException | None) -> None:
    with _isolated("declare the end of a try"):
        if one is not None:
            one.over(error)


def _run(function: Callable[..., Any], stage: str, *arguments: Any, **keywords: Any) -> Any:
    """In the place of a function: a coroutine and a generator begin when Ray takes their first step."""
    body = getattr(function, "method", function)
    if inspect.iscoroutinefunction(body):
        return _run_coroutine(function, stage, arguments, keywords)
    if inspect.isgeneratorfunction(body):
        return _run_generator(function, stage, arguments, keywords)
    if inspect.isasyncgenfunction(body):
        return function(*arguments, **keywords)
    one = _begun(stage)
    with _followed(one), running(one.tags if one is not None else ""):
        return function(*arguments, **keywords)


async def _run_coroutine(function: Callable[..., Any], stage: str, arguments: Any, keywords: Any) -> Any:
    one = _begun(stage)
    with _followed(one):
        called = function(*arguments, **keywords)
        return await (Stepwise(called, one.tags) if one is not None and one.tags else called)


def _run_generator(
    function: Callable[..., Any], stage: str, arguments: Any, keywords: Any
) -> Generator[Any, None, Any]:
    one = _begun(stage)
    with _followed(one):
        made = function(*arguments, **keywords)
        while True:
            with context.entered(one.tags, finish=False) if one is not None and one.tags else running(""):
                try:
                    item = next(made)
                except StopIteration as result:
                    return result.value
            yield item


def _execution_info(original: Callable[..., Any], manager: Any, job_id: Any, function_descriptor: Any) -> Any:
    info = original(manager, job_id, function_descriptor)
    with _isolated("follow a function"):
        stage = stage_of(function_descriptor)
        # Ray's own methods of actors, such as __ray_terminate__.
        if not stage.rpartition(".")[2].startswith("__ray_"):
            return info._replace(function=wraps(info.function)(partial(_run, info.function, stage)))
    return info


with _isolated("follow Ray's tasks"):
    replace(
        f"Ray {ray.__version__}",
        [
            Replaced(
                FunctionActorManager, "get_execution_info", ("self", "job_id", "function_descriptor"), _execution_info
            )
        ],
    )
