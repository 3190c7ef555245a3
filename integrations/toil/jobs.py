"""Follows toil's jobs in a worker: each runs in the scope of its task, and declares its tries, files and end.

    CWLJob.run                          a job: finds its input values; then calls
      ToilSingleJobExecutor.run_jobs    which stages its inputs and runs its command; then stores its outputs

The scope is entered by the second, before which the inputs are declared, and left at the end of the first.

A job is tagged with what it copies, since data goes from task to task through these copies. What a worker does for toil
(job descriptions, values, logs) has no task. A worker knows how many tries are left, so whether a failed one was the
last; the leader declares that a job has ended in which its worker was killed (leader.py).

Invariants: a job's outcome is toil's; a fault of ours is one warning.
"""

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from toil.cwl import cwltoil
from toil.fileStores import FileID
from toil.lib.directory import decode_directory

from tailrace import context
from tailrace.integrations.declared_log import error_text
from tailrace.integrations.isolation import Isolation
from tailrace.integrations.replacing import Replaced, replace
from tailrace.integrations.workflow import Workflow, running, surrounding_task
from tailrace.toil import places

_isolated = Isolation(logging.getLogger("tailrace.toil"))
_FILE, _DIRECTORY = "toilfile:", "toildir:"


@dataclass(frozen=True)
class _Try:
    """A job that runs. left: how many tries there are, with this one; store: of jobs; scope: ends with the job."""

    workflow: Workflow
    job: Any
    store: Any
    place: places.Place
    attempt: int
    left: int
    begun_ns: int
    scope: ExitStack

    def begin(self, order: Any) -> None:
        """Before its command starts. order: the job's input object."""
        self.declare(inputs=_paths(order, self.store))
        self.workflow.started(self.place.task, self.attempt, t_ns=self.begun_ns)
        self.workflow.flush()  # toil ends workers by signals
        self.scope.enter_context(running(self.workflow.tags(self.place.task, self.place.stage, self.attempt)))

    def end(self, outputs: Any, error: BaseException | None) -> None:
        task, tries = self.place.task, self.attempt + 1
        if error is None:
            self.declare(outputs=_paths(outputs, self.store))
            self.workflow.ended(task, "done", tries=tries)
        else:
            text = error_text(error)
            self.declare()  # it may not have begun
            self.workflow.retried(task, self.attempt, text, t_launch_ns=self.begun_ns)
            if self.left <= 1:
                self.workflow.ended(task, "failed", error=text, tries=tries)
        self.workflow.flush()

    def declare(self, inputs: Iterable[str] = (), outputs: Iterable[str] = ()) -> None:
        about = self.job.description
        requested = {"cores": about.cores, "memory_bytes": about.memory, "disk_bytes": about.disk}
        named = {"toil": str(about.unitName)}
        self.workflow.submitted(
            self.place.task,
            self.place.stage,
            inputs=inputs,
            outputs=outputs,
            t_ns=self.begun_ns,
            requested=requested,
            annotations=named,
            steps=self.place.steps,
            takes=sorted({step for steps in self.place.takes.values() for step in steps}),
        )


_current: _Try | None = None
"""A worker runs one job at a time."""


def follow(name: str) -> None:
    """Traces the jobs of this worker, of the workflow `name`. Raises RuntimeError for a version that isn't known."""
    directory = context.run_directory() if context.active() else None
    if directory is None:
        return
    workflow = Workflow("toil", Path(directory), name, outer=surrounding_task())

    def run(original: Callable[..., Any], job: Any, file_store: Any) -> Any:
        return _run(workflow, original, job, file_store)

    known = [
        *places.replaced(_isolated),
        Replaced(cwltoil.CWLJob, "run", ("self", "file_store"), run),
        Replaced(cwltoil.ToilSingleJobExecutor, "run_jobs", ("self", "process", "job_order_object"), _run_jobs),
    ]
    replace(f"toil {metadata.version('toil')}", known)


def _run(workflow: Workflow, original: Callable[..., Any], job: Any, file_store: Any) -> Any:
    global _current
    one = None
    with ExitStack() as scope:
        with _isolated("follow a job"):
            store = file_store.jobStore
            tries, left = store.config.retryCount + 1, job.description.remainingTryCount
            one = _Try(workflow, job, store, places.place_of(job), max(tries - left, 0), left, time.time_ns(), scope)
        _current = one
        try:
            outputs = original(job, file_store)
        except BaseException as error:
            scope.close()
            _end(one, None, error)
            raise
        finally:
            _current = None
    _end(one, outputs, None)
    return outputs


def _end(one: _Try | None, outputs: Any, error: BaseException | None) -> None:
    with _isolated("declare the end of a try"):
        if one is not None:
            one.end(outputs, error)


def _run_jobs(original: Callable[..., Any], self: Any, process: Any, job_order_object: Any, *rest: Any) -> Any:
    with _isolated("tag a job"):
        if _current is not None:
            _current.begin(job_order_object)
    return original(self, process, job_order_object, *rest)


def _paths(value: Any, store: Any) -> Iterator[str]:
    """The files in a CWL object, however nested, as paths; none where the job store has no paths."""
    if isinstance(value, dict):
        if value.get("class") in ("File", "Directory"):
            yield from _located(str(value.get("location", "")), store)
        for inner in value.values():
            yield from _paths(inner, store)
    elif isinstance(value, list):
        for inner in value:
            yield from _paths(inner, store)


def _located(location: str, store: Any) -> Iterator[str]:
    if location.startswith(_FILE):
        path = getattr(store, "_get_file_path_from_id", None)
        if path is not None:
            # An imported file is a link to the user's.
            yield os.path.realpath(path(FileID.unpack(location.removeprefix(_FILE))))
    elif location.startswith(_DIRECTORY):
        yield from _members(decode_directory(location)[0], store)
    elif location.startswith("file:"):
        yield unquote(urlsplit(location).path)


def _members(contents: Any, store: Any) -> Iterator[str]:
    """The files of a directory, which toil keeps as names and locations."""
    for inner in contents.values():
        yield from _members(inner, store) if isinstance(inner, dict) else _located(str(inner), store)
