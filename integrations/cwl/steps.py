"""Which step of cwltool's a job is of, and which tasks gave what that step takes: the graph of the workflow.

    WorkflowJob.try_make_job    a step of a workflow may begin: there, in a subworkflow inside of the step that it is
    WorkflowJobStep.job         gives its jobs: one, those of a scatter, of each iteration of a loop, or a subworkflow's
    uniquename                  the name of a job, told when it is made: one whose outputs are cached does not keep it

A step takes outputs of steps beside it and inputs of its workflow, which are what the step around that takes; an output
of a subworkflow is that of a step in it. Expressions have no job: what takes their output takes what they took.

Jobs are made by the main thread alone, one after another. Invariant: a step's jobs are those that cwltool makes.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from cwltool import command_line_tool
from cwltool.job import JobBase
from cwltool.process import shortname
from cwltool.utils import aslist
from cwltool.workflow_job import WorkflowJob, WorkflowJobStep

from tailrace.integrations.isolation import Isolation
from tailrace.integrations.replacing import Replaced

_ATTRIBUTE = "tailrace_task"
_JOBS = (JobBase, command_line_tool.CallbackJob)
_OVER = object()


@dataclass(eq=False)
class Step:
    """A step of a workflow that runs. of: cwltool's; workflow: that it is in; outer: the step that this is; inner: the
    subworkflows that it is itself; runs: its tasks, with those inside of it, by the times that it was begun."""

    of: Any
    workflow: Any
    outer: "Step | None"
    inner: list[Any] = field(default_factory=list)
    runs: list[list[str]] = field(default_factory=list)

    @property
    def tasks(self) -> list[str]:
        return [task for run in self.runs for task in run]

    def add(self, task: str) -> None:
        self.runs[-1].append(task)
        if self.outer is not None:
            self.outer.add(task)


@dataclass(frozen=True)
class Task:
    """A job as a task. step: None of a tool that is no workflow's."""

    name: str
    stage: str
    step: Step | None


class _Names:
    """A job's name as a task: two workflows inside of one may have steps of one name."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}
        self._lock = threading.Lock()

    def of(self, name: str) -> str:
        with self._lock:
            self._seen[name] = self._seen.get(name, 0) + 1
            return name if self._seen[name] == 1 else f"{name}~{self._seen[name]}"


_names = _Names()
_current: ContextVar[Step | None] = ContextVar("_current", default=None)
_last_name = threading.local()


def task_of(job: Any) -> Task:
    """A job's task; of a tool that is run by itself, by the name of the job."""
    found: Task | None = getattr(job, _ATTRIBUTE, None)
    if found is None:
        name = str(getattr(job, "name", None) or getattr(_last_name, "name", "job"))
        found = Task(_names.of(name), name, None)
        setattr(job, _ATTRIBUTE, found)
    return found


def replaced(isolated: Isolation) -> Iterable[Replaced]:
    """What is to be replaced for jobs to have a step."""

    def begin(original: Callable[..., Any], workflow: Any, step: Any, *rest: Any, **keywords: Any) -> Any:
        with isolated("find a step"):
            outer = _current.get()
            if not hasattr(step, _ATTRIBUTE):
                setattr(step, _ATTRIBUTE, Step(step, workflow, outer))
            if outer is not None and not any(one is workflow for one in outer.inner):
                outer.inner.append(workflow)
        return original(workflow, step, *rest, **keywords)

    def jobs(original: Callable[..., Any], step: Any, *arguments: Any, **keywords: Any) -> Iterator[Any]:
        made = original(step, *arguments, **keywords)
        known: Step | None = getattr(step, _ATTRIBUTE, None)
        if known is not None:
            known.runs.append([])
        while True:
            # What is made meanwhile is inside of this step.
            before = _current.set(known)
            try:
                job = next(made, _OVER)
            finally:
                _current.reset(before)
            if job is _OVER:
                return
            with isolated("find a job's step"):
                if known is not None and isinstance(job, _JOBS) and not hasattr(job, _ATTRIBUTE):
                    name = str(getattr(job, "name", None) or _last_name.name)
                    setattr(job, _ATTRIBUTE, Task(_names.of(name), shortname(known.of.id), known))
                    known.add(task_of(job).name)
            yield job

    def named(original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        _last_name.name = original(*arguments, **keywords)
        return _last_name.name

    yield Replaced(WorkflowJob, "try_make_job", ("self", "step"), begin)
    yield Replaced(WorkflowJobStep, "job", ("self", "joborder", "output_callback"), jobs)
    yield Replaced(command_line_tool, "uniquename", ("stem",), named)


def taken(step: Step) -> Iterator[tuple[Any, list[str]]]:
    """What a step takes of other steps: the value, and the tasks of the step that gave it, in which it may be of one
    alone. A value that no task made is none."""
    for given in step.of.tool["inputs"]:
        for source in aslist(given.get("source", [])):
            yield from _given(step.workflow, step.outer, source)
    if step.of.tool.get("loop") and len(step.runs) > 1:
        yield None, step.runs[-2]


def _given(workflow: Any, outer: Step | None, source: str) -> Iterator[tuple[Any, list[str]]]:
    """What gives an output of a step of a workflow, or an input of it."""
    for one in workflow.steps:
        if any(output["id"] == source for output in one.tool["outputs"]):
            yield from _of_step(one, workflow, source)
            return
    if outer is None:
        return
    for given in outer.of.tool["inputs"]:
        if shortname(given["id"]) == shortname(source):
            for further in aslist(given.get("source", [])):
                yield from _given(outer.workflow, outer.outer, further)


def _of_step(one: Any, workflow: Any, source: str) -> Iterator[tuple[Any, list[str]]]:
    known: Step | None = getattr(one, _ATTRIBUTE, None)
    if known is None:
        return
    inner = [
        (inside, further)
        for inside in known.inner
        for output in inside.tool["outputs"]
        if shortname(output["id"]) == shortname(source)
        for further in aslist(output.get("outputSource", []))
    ]
    if inner:
        for inside, further in inner:
            yield from _given(inside, known, further)
    elif known.tasks:
        item = workflow.state.get(source)
        yield (None if item is None else item.value), known.tasks
    else:
        yield from taken(known)
