"""Traces the workers: which executors can be traced, how their workers start, and their submit().

Executors are changed in place, by shadowing attributes of the instance: a delegating class would fail Parsl's
isinstance checks. The instance keeps the original attributes, so that a configuration can be traced again.
"""

import shlex
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

from parsl.executors import FluxExecutor, HighThroughputExecutor, ThreadPoolExecutor
from parsl.executors.base import ParslExecutor
from tailrace.integrations import programs
from tailrace.parsl import flux_jobs, task_commands
from tailrace.parsl.call import TAGS_KEYWORD, TracedCall, traced_call
from tailrace.parsl.originals import original

_SHELL_SYNTAX = ";&|\n"

Body = Callable[..., Any]


class Handoff:
    """Passes a task's tags, and the runner of a join body, from check_memo() to the next submit() on its thread."""

    def __init__(self) -> None:
        self._here = threading.local()

    def give(self, tags: str, body: Body | None) -> None:
        self._here.task = (tags, body)

    def take(self) -> tuple[str, Body | None] | None:
        task: tuple[str, Body | None] | None = getattr(self._here, "task", None)
        self._here.task = None
        return task


def is_in_process(executor: ParslExecutor) -> bool:
    """Whether the executor's tasks run in threads of this process."""
    return isinstance(executor, ThreadPoolExecutor)


def why_not_tagged(executor: ParslExecutor) -> str | None:
    """A sentence on why the executor's tasks can't be tagged; None when they can."""
    if isinstance(executor, (ThreadPoolExecutor, HighThroughputExecutor)):
        return None
    if isinstance(executor, FluxExecutor) and flux_jobs.can_be_traced():
        return None
    if task_commands.makes_commands(executor):
        return task_commands.why_not_traced(executor)
    return f"tailrace does not know how {type(executor).__name__} starts its workers"


def prepare_workers(executor: ParslExecutor, settings: Mapping[str, str], preload: str) -> None:
    """Makes the executor start its workers traced, with `settings` (TAILRACE_...) and the library `preload`."""
    if isinstance(executor, HighThroughputExecutor):
        executor.launch_cmd = pool_command(original(executor, "launch_cmd"), settings)
    elif isinstance(executor, FluxExecutor):
        flux_jobs.trace_jobs(executor, settings, preload)
    elif task_commands.makes_commands(executor):
        task_commands.trace_commands(executor, settings, preload)


def pool_command(launch_cmd: str, settings: Mapping[str, str]) -> str:
    """`launch_cmd`, a template of HighThroughputExecutor, run by tailrace.integrations.pool.

    Adds no `$`, backtick or backslash: some of Parsl's launchers put the command into an unquoted here-document.
    """
    words = programs.module_command("tailrace.integrations.pool")
    words += [f"{name}={value}" for name, value in settings.items()]
    prefix = " ".join(shlex.quote(word) for word in [*words, "--"])
    if any(character in launch_cmd for character in _SHELL_SYNTAX):
        launch_cmd = "/bin/bash -c " + shlex.quote(launch_cmd)
    # Parsl formats the command twice: when it sets up scaling, and once per block.
    return prefix.replace("{", "{{{{").replace("}", "}}}}") + " " + launch_cmd


def shadow_submit(executor: ParslExecutor, handoff: Handoff) -> None:
    """Makes executor.submit() send each task with the tags in `handoff`."""
    if why_not_tagged(executor) is not None:
        return
    untraced: Callable[..., Future[Any]] = original(executor, "submit")
    is_sent_as_text = getattr(executor, "source", False)

    def submit(func: Body, resource_specification: dict[str, Any], *args: Any, **kwargs: Any) -> Future[Any]:
        task = handoff.take()
        if task is None:
            return untraced(func, resource_specification, *args, **kwargs)
        tags, body = task
        kwargs[TAGS_KEYWORD] = tags
        if is_sent_as_text:
            return untraced(func, resource_specification, *args, **kwargs)
        # A join body runs in a thread of this process and is not pickled.
        call = traced_call(func) if body is None else TracedCall(partial(body, func))
        return untraced(call, resource_specification, *args, **kwargs)

    executor.submit = submit  # type: ignore[method-assign]  # on this instance
