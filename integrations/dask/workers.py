"""Runs each task of a worker in its context: in the worker's threads, its process pools and its event loop.

    thread pools    distributed.worker._run_task        in the thread, so the scope is around it
    coroutines      distributed.worker._run_task_async  on the event loop: a scope around each step, none over an await
    process pools   their submit()                      the tags travel with the call
    actors          distributed.worker._run_actor       a method's stage and task are Class.method

A plugin of Dask is called on the event loop, never in a task's thread; so the functions above are replaced, in the
worker's process only. Invariants: what a task returns and raises is what it does untraced; a fault of ours is one
warning in the worker's log. Workers without a plugin in the same process (LocalCluster(processes=False)) run as before.

The functions' first parameters are compared with the known ones before; another version runs untraced, with one line.
"""

import inspect
import logging
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from threading import Lock
from typing import Any

import distributed
import distributed.worker
from distributed import Worker, WorkerPlugin

from tailrace import context
from tailrace.dask.keys import ANNOTATION, StageNames, stage_of, task_of
from tailrace.errors import TailraceError
from tailrace.integrations import environment, rundir
from tailrace.integrations.coroutines import Stepwise
from tailrace.integrations.workflow import Workflow, running, seal

_log = logging.getLogger("tailrace.dask")

_REPLACED: dict[str, tuple[str, ...]] = {
    "_run_task": ("task", "data", "execution_state", "key"),
    "_run_task_simple": ("task", "data"),
    "_run_task_async": ("task", "data"),
    "_run_actor": ("func", "args", "kwargs", "execution_state", "key"),
}
"""The functions of distributed.worker that this needs, and how their parameters begin."""


@dataclass(frozen=True)
class Followed:
    """A traced workflow, as its workers and its scheduler need it. tags: canonical, of all tasks."""

    directory: str
    workflow: str
    tags: str
    stages: StageNames = None

    def begin(self) -> Workflow:
        """In another process than trace() ran in."""
        return Workflow("dask", Path(self.directory), self.workflow, self.tags)


def why_unknown() -> str | None:
    """Why tasks can't be followed in this version of Dask; None when they can."""
    for name, parameters in _REPLACED.items():
        function = getattr(distributed.worker, name, None)
        found = tuple(inspect.signature(function).parameters) if callable(function) else ()
        if found[: len(parameters)] != parameters:
            return f"Dask distributed {distributed.__version__} runs tasks in a way that this tailrace doesn't know"
    return None


class TaskScopes(WorkerPlugin):  # type: ignore[misc]  # distributed is not typed here
    """Traces a worker: attaches to its process where needed, and gives each task its tags."""

    name = "tailrace"
    idempotent = True

    def __init__(self, followed: Followed) -> None:
        self.followed = followed
        self.fault: str | None = None
        """Why this worker is not traced."""
        self._worker: Worker | None = None
        self._workflow: Workflow | None = None

    def __reduce__(self) -> tuple[type["TaskScopes"], tuple[Followed]]:
        return TaskScopes, (self.followed,)

    def setup(self, worker: Worker) -> None:
        try:
            self.fault = why_unknown() or _why_not_traced(self.followed.directory)
            if self.fault is None:
                # A worker that a nanny starts anew seals what its predecessor left.
                seal(Path(self.followed.directory))
                self._worker, self._workflow = worker, self.followed.begin()
                _replace_functions()
                _plugin_of[worker] = self
        except Exception as error:
            self.fault = f"{type(error).__name__}: {error}"
        if self.fault is not None:
            _log.warning("tailrace: this worker's tasks are not traced: %s", self.fault)

    def teardown(self, worker: Worker) -> None:
        _plugin_of.pop(worker, None)
        if self._workflow is not None:
            self._workflow.close()

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:
        """A task is about to run, or a try has failed: the scheduler isn't told why, when another one follows."""
        if self._workflow is None or self._worker is None:
            return
        if finish == "executing":
            with self._workflow.isolated("tag the tasks of a process pool"):
                # A pool may have been added at any time.
                executor = (self._worker.state.tasks[key].annotations or {}).get("executor")
                if executor is not None:
                    _shadow_submit(self._worker.executors.get(executor), self)
        elif finish == "error":
            with self._workflow.isolated("declare a failed try"):
                state = self._worker.state.tasks[key]
                life, attempt = _life_and_try(state.annotations)
                spans = [span for span in state.startstops if span["action"] == "compute"]
                begin, end = (_ns(spans[-1][name]) if spans else time.time_ns() for name in ("start", "stop"))
                self._workflow.retried(
                    task_of(key, life), attempt, str(state.exception_text), t_launch_ns=begin, t_ns=end
                )

    def tags(self, key: Any) -> str:
        """The tags of the try of a task that this worker runs; "" when they can't be told."""
        assert self._worker is not None and self._workflow is not None
        with self._workflow.isolated("tag a task"):
            state = self._worker.state.tasks.get(key)
            life, attempt = (1, 0) if state is None else _life_and_try(state.annotations)
            return self._workflow.tags(task_of(key, life), stage_of(key, self.followed.stages), attempt)
        return ""

    def tags_of_actor(self, name: Any) -> str:
        """name: Class-of-key.method, as Dask shows it."""
        assert self._workflow is not None
        return self._workflow.tags(str(name), str(name))


_plugin_of: "weakref.WeakKeyDictionary[Worker, TaskScopes]" = weakref.WeakKeyDictionary()
_replacing = Lock()


def why_untraced(dask_worker: Worker) -> str | None:
    """For Client.run: why a worker is not traced; None when it is."""
    plugin = dask_worker.plugins.get(TaskScopes.name)
    return plugin.fault if isinstance(plugin, TaskScopes) else "it has no plugin of tailrace"


def _why_not_traced(directory: str) -> str | None:
    """Traces this process where that is possible, and says why not."""
    into = context.run_directory() if context.active() else None
    if into is not None:
        same = Path(into).resolve() == Path(directory).resolve()
        return None if same else f"its process is already traced into {into}"
    try:
        rundir.existing_run_directory(directory)
        environment.attach(directory)
        rundir.describe_host(Path(directory), rundir.command_line())
    except (TailraceError, OSError) as error:
        return str(error)
    return None


def _replace_functions() -> None:
    """Replaces the functions of distributed.worker; again: does nothing."""
    module = distributed.worker
    with _replacing:
        if getattr(module._run_task, "of_tailrace", False):
            return
        for name, by in (("_run_task", _in_thread), ("_run_task_async", _stepwise), ("_run_actor", _in_actor)):
            original = getattr(module, name)
            replacement = wraps(original)(partial(by, original))
            replacement.of_tailrace = True  # type: ignore[attr-defined]
            setattr(module, name, replacement)


def _in_thread(original: Callable[..., Any], task: Any, data: Any, execution_state: Any, key: Any, *rest: Any) -> Any:
    plugin = _plugin_of.get(execution_state["worker"])
    with running("" if plugin is None else plugin.tags(key)):
        return original(task, data, execution_state, key, *rest)


def _in_actor(
    original: Callable[..., Any], func: Any, args: Any, kwargs: Any, execution_state: Any, key: Any, *rest: Any
) -> Any:
    plugin = _plugin_of.get(execution_state["worker"])
    with running("" if plugin is None else plugin.tags_of_actor(key)):
        return original(func, args, kwargs, execution_state, key, *rest)


async def _stepwise(original: Callable[..., Any], task: Any, data: Any, *rest: Any) -> Any:
    plugin = _plugin_of.get(distributed.get_worker())
    tags = "" if plugin is None else plugin.tags(task.key)
    if not tags:
        return await original(task, data, *rest)
    try:
        return await Stepwise(original(task, data, *rest), tags)
    finally:
        with running(tags):
            pass  # the end of the task


def _shadow_submit(executor: Any, plugin: TaskScopes) -> None:
    """Makes an executor whose tasks run in other processes pass their tags on. Again: does nothing."""
    if executor is None or isinstance(executor, ThreadPoolExecutor) or hasattr(executor.submit, "of_tailrace"):
        return
    submit = executor.submit

    def submit_tagged(function: Any, /, *arguments: Any, **keywords: Any) -> Any:
        key = getattr(arguments[0], "key", None) if arguments else None
        if key is None:
            return submit(function, *arguments, **keywords)
        return submit(_call_tagged, plugin.tags(key), function, *arguments, **keywords)

    submit_tagged.of_tailrace = True  # type: ignore[attr-defined]
    executor.submit = submit_tagged


def _call_tagged(tags: str, function: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Any:
    with running(tags):
        return function(*arguments, **keywords)


def _life_and_try(annotations: Any) -> tuple[int, int]:
    life, attempt = (annotations or {}).get(ANNOTATION, (1, 0))
    return life, attempt


def _ns(seconds: float) -> int:
    return int(seconds * 1e9)
