"""Follows what is submitted to Ray, in the program's process and in workers whose tasks submit others.

    RemoteFunction._remote            a task is declared, with the object references in its arguments
    ActorClass._remote                the same of an actor's creation
    ActorHandle._actor_method_call    the same of a call of an actor
    ray.shutdown                      how the tasks ended that no worker told of (ends.py), while the cluster knows it

Workers import tailrace.ray.worker at their start, since the environment that they inherit says so.

Invariants: what is submitted and returned is what it is untraced; a fault of ours is one warning.

They import it by RAY_preload_python_modules: a runtime environment has one setup hook, which may be the user's.
"""

import atexit
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
from ray import actor, remote_function
from ray._common.utils import get_default_ray_temp_dir
from ray._private import worker as ray_worker

from tailrace.integrations.isolation import Isolation
from tailrace.integrations.replacing import Replaced, replace
from tailrace.integrations.workflow import Workflow
from tailrace.ray import ends
from tailrace.ray.names import hand_over, short_id, stage_of, task_name

_isolated = Isolation(logging.getLogger("tailrace.ray"))
_PRELOADED = "RAY_preload_python_modules"
_IN_WORKER = "tailrace.ray.worker"
_SEALING_S = 5.0
_RESOURCES = {"num_cpus": "cores", "num_gpus": "gpus", "memory": "memory_bytes"}


@dataclass
class Submitting:
    """What this process submits. parent: the name of the task of Ray that the calling thread runs, or None; names: of
    the tasks by their short ids."""

    workflow: Workflow
    parent: Callable[[], str | None]
    names: dict[str, str] = field(default_factory=dict)

    def submitted(
        self,
        stage: str,
        task_id: str,
        t_ns: int,
        arguments: Any,
        options: Mapping[str, Any] | None = None,
        made_by: str = "",
    ) -> None:
        """made_by: the short id of the actor's creation, of a call of an actor."""
        name = self.names[short_id(task_id)] = task_name(stage, task_id)
        needed = [self.names.get(short_id(one.task_id().hex())) for one in _references(arguments)]
        deps = [{"task": one, "via": "object"} for one in dict.fromkeys(needed) if one is not None]
        if made_by in self.names:
            deps.append({"task": self.names[made_by], "via": "actor"})
        requested = {word: options[key] for key, word in _RESOURCES.items() if options and options.get(key) is not None}
        requested.update((options or {}).get("resources") or {})
        parent = self.parent()
        keys = {"parent": parent} if parent is not None else {}
        self.workflow.submitted(
            name, stage, kind="python", deps=deps, t_ns=t_ns, requested=requested, annotations={"id": task_id}, **keys
        )


_submitting: Submitting | None = None
_told: set[str] = set()
"""The jobs whose workers know the workflow."""


def trace() -> None:
    """Traces what this process submits to Ray from now on, and the workers that run it; again: does nothing. Before
    `ray.init()`, which may start the workers. A version of Ray that submits in another way is one warning, and tasks
    run untraced."""
    if _submitting is not None:
        return
    with _isolated("follow Ray's tasks"):
        if ray.is_initialized():
            raise RuntimeError("Ray has begun: call tailrace.ray.trace() before ray.init()")
        replace(f"Ray {ray.__version__}", [*_REPLACED, Replaced(ray_worker, "shutdown", (), _shutdown)])
        ray.shutdown = ray_worker.shutdown
        own = [get_default_ray_temp_dir()]
        workflow = Workflow.begin("ray", ray.__version__, _program_name(), attach=True, own_directories=own)
        _follow(Submitting(workflow, lambda: None))
        modules = [name for name in os.environ.get(_PRELOADED, "").split(",") if name]
        os.environ[_PRELOADED] = ",".join(dict.fromkeys([*modules, _IN_WORKER]))
        atexit.register(_end)


def follow_in_worker(submitting: Submitting) -> None:
    """Declares what tasks of this worker submit."""
    if _submitting is None:
        replace(f"Ray {ray.__version__}", _REPLACED)
    _follow(submitting)


def _follow(submitting: Submitting) -> None:
    global _submitting
    _submitting = submitting


def _tell_workers() -> None:
    """Before a task is submitted: its worker may begin at once."""
    with _isolated("tell Ray's workers the workflow"):
        worker = ray_worker.global_worker
        if _submitting is None or worker.mode != ray_worker.SCRIPT_MODE:
            return
        job = worker.current_job_id.hex()
        if job not in _told:
            hand_over(worker, _submitting.workflow.name, _submitting.workflow.base_tags)
            _told.add(job)


def _function(original: Callable[..., Any], function: Any, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
    begun = time.time_ns()
    _tell_workers()
    returned = original(function, args, kwargs, **options)
    with _isolated("declare a task"):
        task_id = _id_of(returned)
        if _submitting is not None and task_id is not None:
            _submitting.submitted(stage_of(function._function_descriptor), task_id, begun, (args, kwargs), options)
    return returned


def _actor(original: Callable[..., Any], class_: Any, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
    begun = time.time_ns()
    _tell_workers()
    made = original(class_, args, kwargs, **options)
    with _isolated("declare an actor"):
        actor_id = made._actor_id.hex()
        # A named actor that there was already has been declared.
        if _submitting is not None and actor_id[:16] not in _submitting.names:
            stage = stage_of(class_.__ray_metadata__.actor_creation_function_descriptor)
            _submitting.submitted(stage, "f" * 16 + actor_id, begun, (args, kwargs), options)
    return made


def _call(original: Callable[..., Any], handle: Any, method_name: str, *rest: Any, **keywords: Any) -> Any:
    begun = time.time_ns()
    _tell_workers()
    returned = original(handle, method_name, *rest, **keywords)
    with _isolated("declare a call of an actor"):
        task_id = _id_of(returned)
        if _submitting is not None and task_id is not None:
            given = (*rest[:2], keywords.get("args"), keywords.get("kwargs"))
            stage = stage_of(handle._ray_function_descriptor[method_name])
            _submitting.submitted(stage, task_id, begun, given, made_by=handle._actor_id.hex()[:16])
    return returned


_REPLACED = (
    Replaced(remote_function.RemoteFunction, "_remote", ("self", "args", "kwargs"), _function),
    Replaced(actor.ActorClass, "_remote", ("self", "args", "kwargs"), _actor),
    Replaced(actor.ActorHandle, "_actor_method_call", ("self", "method_name", "args", "kwargs"), _call),
)


def _id_of(returned: Any) -> str | None:
    """The id of the task whose results were promised; None: it has none, or they are those of Ray's client."""
    first = returned[0] if isinstance(returned, list) and returned else returned
    first = getattr(first, "_generator_ref", first)
    return str(first.task_id().hex()) if isinstance(first, ray.ObjectRef) else None


def _references(values: Any) -> Iterator[Any]:
    """The object references in arguments, lists and dictionaries."""
    if isinstance(values, ray.ObjectRef):
        yield values
    elif isinstance(values, Mapping):
        for value in values.values():
            yield from _references(value)
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _references(value)


def _shutdown(original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    node = None
    with _isolated("declare how tasks ended"):
        node = ray_worker._global_node
        if _submitting is not None and ray_worker.global_worker.connected:
            ends.declare(_submitting.workflow)
    returned = original(*arguments, **keywords)
    if _submitting is not None:
        # Workers of a cluster that goes on don't end.
        _submitting.workflow.close(wait_s=_SEALING_S if node is not None and node.head else 0)
    return returned


def _end() -> None:
    """Before Ray's own call at the end of the process, which is not the replaced one."""
    if ray.is_initialized():
        ray_worker.shutdown(_exiting_interpreter=True)


def _program_name() -> str:
    name = Path(sys.argv[0]).stem if sys.argv else ""
    return name if name not in ("", "-c", "-m") else "ray"
