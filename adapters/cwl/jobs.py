"""Follows cwltool's jobs: JobBase._execute runs each one, in the thread that starts its command.

    name of a job    `sort`, `sort_2`, ... of a scatter or a repeated step: the task
    without the _N   the step: the stage
    pathmapper       its input files, where they really are
    output_callback  called at its end with the status and the output files: there its scope ends

A job's environment begins empty; the core's settings are hidden, and survive that. Outputs are known at the end, so a
job is declared when it is over: of one that cwltool was killed in, only the I/O is known. Invariants: a job's outcome
is cwltool's; a fault of ours is one warning.
"""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib import metadata
from threading import Lock
from typing import Any
from urllib.parse import unquote, urlsplit

from cwltool.job import JobBase

from tailrace.integrations.workflow import Workflow

_NUMBER = re.compile(r"_\d+$")
_STATUSES = {"success": "done"}


def follow(name: str) -> None:
    """Traces this process's jobs from now on, as workflow `name`."""
    execute = JobBase._execute
    workflow = Workflow.begin("cwltool", metadata.version("cwltool"), name, attach=True, own_processes=True)
    if workflow.active:
        names = _Names()

        def followed(self: Any, *arguments: Any, **keywords: Any) -> Any:
            return _run(workflow, names.of(str(self.name)), execute, self, *arguments, **keywords)

        JobBase._execute = followed


class _Names:
    """A job's name as a task: two workflows inside of one may have steps of one name."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}
        self._lock = Lock()

    def of(self, name: str) -> str:
        with self._lock:
            self._seen[name] = self._seen.get(name, 0) + 1
            return name if self._seen[name] == 1 else f"{name}~{self._seen[name]}"


def _run(workflow: Workflow, task: str, execute: Callable[..., Any], job: Any, *arguments: Any, **keywords: Any) -> Any:
    stage = _NUMBER.sub("", str(job.name))
    ended: list[tuple[Any, str, int]] = []
    scope = ExitStack()
    with workflow.isolated("follow a job's end"):
        callback = job.output_callback

        def told(outputs: Any, status: str) -> Any:
            # The job is over; what cwltool does besides, as removing its folders, is its own.
            scope.close()
            ended.append((outputs, status, time.time_ns()))
            return callback(outputs, status)

        job.output_callback = told
    begin = time.time_ns()
    try:
        with scope:
            scope.enter_context(workflow.task(task, stage))
            return execute(job, *arguments, **keywords)
    finally:
        with workflow.isolated("declare a job"):
            outputs, status, end = ended[-1] if ended else (None, "permanentFail", time.time_ns())
            workflow.submitted(
                task, stage, inputs=_inputs(job), outputs=_paths(outputs), t_ns=begin, name=str(job.name)
            )
            workflow.started(task, t_ns=begin)
            error = None if status == "success" else f"cwltool: {status}"
            workflow.ended(task, _STATUSES.get(status, "failed"), error=error, t_ns=end)


def _inputs(job: Any) -> list[str]:
    mapper = job.pathmapper
    entries = [mapper.mapper(location) for location in mapper.files()]
    return [entry.resolved for entry in entries if entry.type in ("File", "WritableFile")]


def _paths(outputs: Any) -> Iterator[str]:
    """The files in an output object, however nested."""
    if isinstance(outputs, dict):
        if outputs.get("class") == "File":
            place = urlsplit(str(outputs.get("location", "")))
            if place.scheme == "file":
                yield unquote(place.path)
        for value in outputs.values():
            yield from _paths(value)
    elif isinstance(outputs, list):
        for value in outputs:
            yield from _paths(value)
