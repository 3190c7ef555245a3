"""Requests tracing of a job, from Python: sets attributes.user.trace of its jobspec, which the jobtap plugin reads.

    job = flux.job.submit(handle, traced(JobspecV1.from_command(["./sim"]), stage="sim"))

Invariants: a jobspec may be Flux's object or a dict; it is changed in place and returned. Tags are checked here, so
that a wrong tag raises where it is set.
"""

import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tailrace.errors import TagError, UsageError
from tailrace.flux.paths import MISSING, find_shell_plugin
from tailrace.tags import TagValue, encode

_Jobspec = TypeVar("_Jobspec")
_Executor = TypeVar("_Executor")

OWN_KEYS = ("workflow", "stage", "task", "job")
"""The tags that are not free: with a key of their own in attributes.user.trace, or set by Flux."""


def traced(
    jobspec: _Jobspec,
    stage: str | None = None,
    *,
    workflow: str | None = None,
    task: str | None = None,
    tags: Mapping[str, TagValue] | None = None,
    run: str | None = None,
    trace: bool = True,
) -> _Jobspec:
    """`jobspec` with tracing requested; changed in place.

    jobspec: a flux.job.Jobspec, or a jobspec as a dict. stage: default: the job's name. workflow: default: the
    surrounding one. task: default: the job's id. tags: free tags. run: the run directory, absolute; default: as
    configured for the instance. trace: False excludes the job where all jobs are traced.

    Raises TagError when a tag breaks the rules; UsageError when `jobspec` is not a jobspec. Warns where no plugin is
    found that would trace the job.
    """
    attributes = _attributes(jobspec)
    if trace and find_shell_plugin(os.environ) is None:
        warnings.warn(f"the job will not be traced: {MISSING}", stacklevel=2)
    attributes.setdefault("user", {})["trace"] = trace_attribute(stage, workflow, task, tags, run) if trace else False
    return jobspec


def trace_attribute(
    stage: str | None = None,
    workflow: str | None = None,
    task: str | None = None,
    tags: Mapping[str, TagValue] | None = None,
    run: str | None = None,
) -> dict[str, Any]:
    """The value of attributes.user.trace; see `traced`."""
    taken = [key for key in OWN_KEYS if key in (tags or {})]
    if taken:
        how = "Flux sets it" if taken[0] == "job" else f"give it as {taken[0]}="
        raise TagError(f"tag {taken[0]!r} is not a free tag: {how}")
    named = {"stage": stage, "workflow": workflow, "task": task}
    own = {key: value for key, value in named.items() if value is not None}
    encode({**own, **(tags or {})})
    if run is not None and not run.startswith("/"):
        raise UsageError(f"run directory {run!r} is relative, and jobs start in any directory: give an absolute path")
    free = {key: str(value) for key, value in (tags or {}).items()}
    return {**own, **({"tags": free} if free else {}), **({"run": run} if run is not None else {})}


def trace_executor(
    executor: _Executor,
    stage: str | Callable[[Any], str | None] | None = None,
    *,
    workflow: str | None = None,
    tags: Mapping[str, TagValue] | None = None,
) -> _Executor:
    """A flux.job.FluxExecutor whose jobs are traced; the same object.

    stage: the stage of all jobs, or a callable that takes the jobspec; default, also when it returns None: the job's
    name. A jobspec with its own attributes.user.trace stays unchanged. Raises TagError when a tag breaks the rules.
    """
    trace_attribute(stage if isinstance(stage, str) else None, workflow, None, tags)
    inner: Any = executor
    submit = inner.submit

    def submit_traced(jobspec: Any, *args: Any, **kwargs: Any) -> Any:
        if "trace" not in _attributes(jobspec).get("user", {}):
            name = stage(jobspec) if callable(stage) else stage
            traced(jobspec, name, workflow=workflow, tags=tags)
        return submit(jobspec, *args, **kwargs)

    inner.submit = submit_traced
    return executor


def _attributes(jobspec: Any) -> dict[str, Any]:
    found = jobspec.setdefault("attributes", {}) if isinstance(jobspec, dict) else getattr(jobspec, "attributes", None)
    if not isinstance(found, dict):
        raise UsageError(f"a {type(jobspec).__name__} is not a jobspec: give flux.job's object, or a dict")
    return found
