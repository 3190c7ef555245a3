"""Where Snakemake calls us: methods of three of its classes, each replaced by one that calls it and tells an observer.

    JobScheduler.schedule         the graph of jobs is known; ... ; all is over
    JobScheduler._finish_jobs     the jobs of `_tofinish` ended, and their outputs are there
    JobScheduler._handle_error    a try of a job failed
    Executor.cached_or_run        runs a job on this machine, in a thread of its own
    RealExecutor.format_job_exec  the command of a Snakemake that runs a job or a group of jobs

They have had these names since 7.0. `install` looks at each before it replaces any: a version without one of them, or
with other parameters, runs untraced. What an observer raises never reaches Snakemake.
"""

import functools
import importlib
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from tailrace.integrations.isolation import Isolation

_SCHEDULERS = ("snakemake.scheduling.job_scheduler:JobScheduler", "snakemake.scheduler:JobScheduler")
_EXECUTORS = ("snakemake.executors.local:Executor", "snakemake.executors:CPUExecutor")
_METHODS = {
    "schedule": ["self"],
    "_finish_jobs": ["self"],
    "_handle_error": ["self", "job"],
    "cached_or_run": ["self", "job", "run_func", "args"],
    "format_job_exec": ["self", "job"],
}
"""Method -> its first parameters."""


class Observer(Protocol):
    """What the hooks call. A job may be a group of jobs where there is no other word; jobs of one group may be of
    several rules. An exception of any of these is logged once, and Snakemake goes on."""

    def begin(self, scheduler: Any) -> None:
        """The workflow begins."""

    def running(self, executor: Any, job: Any, spawned: bool) -> AbstractContextManager[None] | None:
        """Entered by the thread that runs a job; None: nothing is. spawned: only waits for the Snakemake that does."""

    def command(self, executor: Any, job: Any, command: str) -> str:
        """The command to run in the place of `command`, which is another Snakemake for a job or group."""

    def finished(self, job: Any) -> None:
        """A job or group ended well."""

    def failed(self, job: Any, attempt: int, again: bool) -> None:
        """A try (from 1) of a job or group failed. again: another one follows."""

    def end(self) -> None:
        """The workflow is over."""


@dataclass(frozen=True)
class _Places:
    """Snakemake's classes."""

    scheduler: type[Any]
    executor: type[Any]
    base: type[Any]
    """The class with the `format_job_exec` that all executors use."""


_installed = False


def install(observer: Observer, isolated: Isolation) -> str | None:
    """Puts the hooks into the Snakemake of this process, once. None, or what this version of Snakemake lacks."""
    global _installed
    if _installed:
        return None
    try:
        places = _find()
    except LookupError as error:
        return str(error)
    _hook_scheduler(places.scheduler, observer, isolated)
    _hook_executors(places, observer, isolated)
    _installed = True
    return None


def version() -> str:
    """Snakemake's."""
    return str(importlib.import_module("snakemake").__version__)


def _find() -> _Places:
    """Raises LookupError for what is not there, or not as expected."""
    scheduler, executor = _first(_SCHEDULERS), _first(_EXECUTORS)
    base = next((kind for kind in executor.__mro__ if "format_job_exec" in vars(kind)), executor)
    for kind, name in [
        (scheduler, "schedule"),
        (scheduler, "_finish_jobs"),
        (scheduler, "_handle_error"),
        (executor, "cached_or_run"),
        (base, "format_job_exec"),
    ]:
        _check(kind, name, _METHODS[name])
    return _Places(scheduler, executor, base)


def _first(places: tuple[str, ...]) -> type[Any]:
    for place in places:
        module, _, name = place.partition(":")
        try:
            found = getattr(importlib.import_module(module), name, None)
        except ImportError:
            continue
        if isinstance(found, type):
            return found
    raise LookupError(f"it has no {places[0].replace(':', '.')}")


def _check(kind: type[Any], name: str, expected: list[str]) -> None:
    method = getattr(kind, name, None)
    if not inspect.isfunction(method) or inspect.iscoroutinefunction(method):
        raise LookupError(f"its {kind.__name__} has no method {name}")
    if list(inspect.signature(method).parameters)[: len(expected)] != expected:
        raise LookupError(f"{kind.__name__}.{name} has other parameters than {', '.join(expected)}")


def _hook_scheduler(kind: type[Any], observer: Observer, isolated: Isolation) -> None:
    errors: set[int] = set()

    def schedule(original: Callable[..., Any], self: Any) -> Any:
        with isolated("follow the workflow"):
            observer.begin(self)
        try:
            return original(self)
        finally:
            with isolated("declare the workflow's end"):
                observer.end()

    def finish_jobs(original: Callable[..., Any], self: Any) -> Any:
        jobs = list(getattr(self, "_tofinish", ()))
        errors.clear()
        result = original(self)
        for job in jobs:
            # A job whose outputs are not there comes to _handle_error.
            if id(job) not in errors:
                with isolated("declare a task's end"):
                    observer.finished(job)
        return result

    def handle_error(original: Callable[..., Any], self: Any, job: Any, *args: Any, **kwargs: Any) -> Any:
        errors.add(id(job))
        before = getattr(job, "attempt", None)
        result = original(self, job, *args, **kwargs)
        with isolated("declare a failed try"):
            observer.failed(job, int(before or 1), getattr(job, "attempt", before) != before)
        return result

    _replace(kind, "schedule", schedule)
    _replace(kind, "_finish_jobs", finish_jobs)
    _replace(kind, "_handle_error", handle_error)


def _hook_executors(places: _Places, observer: Observer, isolated: Isolation) -> None:
    spawn = getattr(places.executor, "spawn_job", None)

    def cached_or_run(original: Callable[..., Any], self: Any, job: Any, run_func: Any, *args: Any) -> Any:
        scope = None
        with isolated("tag a task"):
            scope = observer.running(self, job, getattr(run_func, "__func__", None) is spawn)
        if scope is None:
            return original(self, job, run_func, *args)
        with scope:
            return original(self, job, run_func, *args)

    def format_job_exec(original: Callable[..., Any], self: Any, job: Any) -> Any:
        command = original(self, job)
        with isolated("trace a job's Snakemake"):
            return observer.command(self, job, command)
        return command

    _replace(places.executor, "cached_or_run", cached_or_run)
    _replace(places.base, "format_job_exec", format_job_exec)


def _replace(kind: type[Any], name: str, ours: Callable[..., Any]) -> None:
    original = vars(kind)[name] if name in vars(kind) else getattr(kind, name)

    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return ours(original, self, *args, **kwargs)

    setattr(kind, name, method)
