"""Work Queue and TaskVine: their executors make a command line of each task, whose Python is traced.

    WorkQueueExecutor.launch_cmd      INIT; {package_prefix}python3 exec_parsl_function.py ...
    TaskVineExecutor's init_command   INIT python3 exec_parsl_function.py ..., INIT python LIBRARY (serverless)

Both get `env VARIABLES` before the Python, so any worker may run it: one that Parsl did not start has no environment of
ours, and WorkQueueExecutor passes its option `env` to nobody. What INIT runs is not traced. A worker that Parsl starts
runs in a pool (tailrace.integrations.pool), which seals what killed tasks leave on its node.
"""

import copy
import inspect
import pickle
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parsl.executors import WorkQueueExecutor
from parsl.executors.base import ParslExecutor
from parsl.executors.taskvine import TaskVineExecutor
from parsl.providers import CondorProvider
from tailrace.integrations import programs
from tailrace.parsl.call import TAGS_KEYWORD
from tailrace.parsl.originals import original

_PYTHON = "{package_prefix}python3 "
_SCOPE = """

def _tailrace_scope(*args, **kwargs):
    tags = kwargs.pop({keyword!r})
    try:
        from tailrace import context
    except ImportError:  # in an environment that was packed for this app
        return {name}(*args, **kwargs)
    with context.entered(tags):
        return {name}(*args, **kwargs)
"""


def makes_commands(executor: ParslExecutor) -> bool:
    """Whether the executor is one of the two."""
    return isinstance(executor, (WorkQueueExecutor, TaskVineExecutor))


def why_not_traced(executor: ParslExecutor) -> str | None:
    """A sentence on why the commands of such an executor can't be traced; None when they can."""
    if isinstance(executor, WorkQueueExecutor) and _PYTHON not in executor.launch_cmd:
        return "this Parsl's WorkQueueExecutor starts tasks otherwise than tailrace knows"
    return None


def trace_commands(executor: ParslExecutor, settings: Mapping[str, str], preload: str) -> None:
    """Makes the tasks' commands start with `settings` and the library `preload`, and the workers in pools."""
    started = _env_command(settings, preload)
    if isinstance(executor, WorkQueueExecutor):
        # Work Queue gives the command to str.format once.
        command = started.replace("{", "{{").replace("}", "}}") + " " + _PYTHON
        executor.launch_cmd = original(executor, "launch_cmd").replace(_PYTHON, command)
        if not isinstance(executor.provider, CondorProvider):  # which puts ./ before it
            executor.worker_executable = _in_pool(original(executor, "worker_executable"), settings)
        if executor.source:
            _serialize_with_scope(executor)
    elif isinstance(executor, TaskVineExecutor):
        # Executors share the default objects of both configurations.
        manager = executor.manager_config = copy.copy(original(executor, "manager_config"))
        manager.init_command = f"{manager.init_command} {started}".lstrip()
        if executor.worker_launch_method == "provider" and not isinstance(executor.provider, CondorProvider):
            factory = executor.factory_config = copy.copy(original(executor, "factory_config"))
            factory.worker_executable = _in_pool(factory.worker_executable, settings)


def _env_command(settings: Mapping[str, str], preload: str) -> str:
    """`env` with the variables, for a shell; libraries that the worker preloads already follow."""
    words = [shlex.quote(f"{name}={value}") for name, value in settings.items()]
    return " ".join(["env", *words, f"LD_PRELOAD={shlex.quote(preload)}${{LD_PRELOAD:+:$LD_PRELOAD}}"])


def _in_pool(worker: str, settings: Mapping[str, str]) -> str:
    words = programs.module_command("tailrace.integrations.pool")
    words += [f"{name}={value}" for name, value in settings.items()]
    return " ".join([*(shlex.quote(word) for word in words), "--", worker])


def _serialize_with_scope(executor: WorkQueueExecutor) -> None:
    """Has the source text of functions (source=True) followed by that of a function that calls it under its tags."""
    original_serialize = original(executor, "_serialize_function")

    def serialize(path: str, function: Any, args: Any, kwargs: dict[str, Any]) -> None:
        if TAGS_KEYWORD not in kwargs:
            original_serialize(path, function, args, kwargs)
            return
        # Not by unpickling: the task would then own the writing of its result.
        scope = _SCOPE.format(keyword=TAGS_KEYWORD, name=function.__name__)
        told = {
            "source code": inspect.getsource(function) + scope,
            "name": "_tailrace_scope",
            "args": args,
            "kwargs": kwargs,
        }
        Path(path).write_bytes(pickle.dumps(told))

    executor._serialize_function = serialize  # type: ignore[method-assign]  # on this instance
