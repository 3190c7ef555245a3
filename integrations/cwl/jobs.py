"""Follows cwltool's jobs, each in the thread that starts its command.

    JobBase._execute     a job, from its command line to its outputs
      _job_popen         runs its command: the scope of the task; cwltool's log lines and checksums are outside of it
      output_callback    called at its end with the status and the output files
    CallbackJob.run      a job whose outputs were cached (--cachedir)
    pathmapper           its input files and folders, where they really are

A job's environment begins empty; the core's settings are hidden, and survive that. Outputs are known at the end, so a
job is declared when it is over: of one that cwltool was killed in, only the I/O is known. Invariants: a job's outcome
is cwltool's; a fault of ours is one warning.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Any
from urllib.parse import unquote, urlsplit

from cwltool import job as cwltool_job
from cwltool.command_line_tool import CallbackJob
from cwltool.job import JobBase

from tailrace.cwl import steps
from tailrace.integrations.isolation import Isolation
from tailrace.integrations.replacing import Replaced, replace
from tailrace.integrations.workflow import Workflow

_isolated = Isolation(logging.getLogger("tailrace.cwltool"))
_STATUSES = {"success": "done"}
_CLASSES = ("File", "Directory")


@dataclass
class _Run:
    """A job that a thread runs. begun_ns, ended_ns: of its command."""

    task: steps.Task
    begun_ns: int = 0
    ended_ns: int = 0


_running = threading.local()
"""run: of this thread's job."""


def follow(name: str) -> None:
    """Traces this process's jobs from now on, as workflow `name`. Raises RuntimeError for a version that isn't
    known."""
    workflow = Workflow.begin("cwltool", metadata.version("cwltool"), name, attach=True, own_processes=True)
    if not workflow.active:
        return

    def execute(original: Callable[..., Any], job: Any, *arguments: Any, **keywords: Any) -> Any:
        return _run(workflow, original, job, *arguments, **keywords)

    def command(original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        run: _Run | None = getattr(_running, "run", None)
        if run is None:
            return original(*arguments, **keywords)
        run.begun_ns = time.time_ns()
        try:
            with workflow.task(run.task.name, run.task.stage):
                return original(*arguments, **keywords)
        finally:
            run.ended_ns = time.time_ns()

    def cached(original: Callable[..., Any], job: Any, *arguments: Any, **keywords: Any) -> Any:
        with workflow.isolated("declare a cached job"):
            job.output_callback = _memoized(workflow, job, job.output_callback)
        return original(job, *arguments, **keywords)

    known = [
        *steps.replaced(_isolated),
        Replaced(JobBase, "_execute", ("self",), execute),
        Replaced(cwltool_job, "_job_popen", ("commands", "cwd"), command),
        Replaced(CallbackJob, "run", ("self",), cached),
    ]
    replace(f"cwltool {metadata.version('cwltool')}", known)


def _run(workflow: Workflow, execute: Callable[..., Any], job: Any, *arguments: Any, **keywords: Any) -> Any:
    ended: list[tuple[Any, str]] = []
    begun = time.time_ns()
    run = _Run(steps.Task(str(job.name), str(job.name), None))
    with workflow.isolated("follow a job"):
        run.task = steps.task_of(job)
        callback = job.output_callback

        def told(outputs: Any, status: str) -> Any:
            ended.append((outputs, status))
            return callback(outputs, status)

        job.output_callback = told
    _running.run = run
    try:
        return execute(job, *arguments, **keywords)
    finally:
        _running.run = None
        with workflow.isolated("declare a job"):
            outputs, status = ended[-1] if ended else (None, "permanentFail")
            _declare(workflow, run.task, _inputs(job.pathmapper), outputs, begun)
            workflow.started(run.task.name, t_ns=run.begun_ns or begun)
            error = None if status == "success" else f"cwltool: {status}"
            end = run.ended_ns or time.time_ns()
            workflow.ended(run.task.name, _STATUSES.get(status, "failed"), error=error, t_ns=end)


def _memoized(workflow: Workflow, job: Any, callback: Callable[..., Any]) -> Callable[..., Any]:
    task, begun = steps.task_of(job), time.time_ns()

    def told(outputs: Any, status: str) -> Any:
        with workflow.isolated("declare a cached job"):
            _declare(workflow, task, _inputs(job.cachebuilder.pathmapper), outputs, begun)
            workflow.ended(task.name, "memoized", tries=0)
        return callback(outputs, status)

    return told


def _declare(workflow: Workflow, task: steps.Task, inputs: list[str], outputs: Any, begun_ns: int) -> None:
    workflow.submitted(
        task.name,
        task.stage,
        deps=list(_dependencies(task, set(inputs))),
        inputs=inputs,
        outputs=_paths(outputs),
        t_ns=begun_ns,
        name=task.name,
    )


def _dependencies(task: steps.Task, inputs: set[str]) -> Iterator[dict[str, str]]:
    """On tasks that gave a value: of files that are among the inputs only one of them made each."""
    for value, tasks in steps.taken(task.step) if task.step is not None else ():
        if inputs.isdisjoint(_paths(value)):
            yield from ({"task": one, "via": "future"} for one in dict.fromkeys(tasks) if one != task.name)


def _inputs(mapper: Any) -> list[str]:
    entries = [mapper.mapper(location) for location in mapper.files()]
    kinds = {prefix + kind for kind in _CLASSES for prefix in ("", "Writable")}
    return [entry.resolved for entry in entries if entry.type in kinds and entry.resolved.startswith("/")]


def _paths(outputs: Any) -> Iterator[str]:
    """The files and folders in an object, however nested."""
    if isinstance(outputs, dict):
        if outputs.get("class") in _CLASSES:
            place = urlsplit(str(outputs.get("location", "")))
            if place.scheme == "file":
                yield unquote(place.path)
        for value in outputs.values():
            yield from _paths(value)
    elif isinstance(outputs, list):
        for value in outputs:
            yield from _paths(value)
