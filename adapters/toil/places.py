"""Which step a job of toil's belongs to, and which of its instances: an attribute of the job that toil's pickles keep.

toil names a job by its workflow, step and tool, but one of a scatter by the workflow and a number, and one of a
subworkflow without what that is in: jobs of several steps have one name. A job is created while another one runs:

    CWLWorkflow.run      a job for each step                         align          sub/align
    CWLScatter.run       for each value                              align[0]       sub[1]/align
    CWLLoop.run          for each iteration                          align[0]
    CWLJobWrapper.run    the job whose resources are known then      align

Invariant: a job's name as toil has it stays as it is.
"""

import inspect
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple

from cwltool.process import shortname
from toil.cwl import cwltoil

from tailrace.integrations.isolation import Isolation
from tailrace.integrations.replacing import Replaced

_ATTRIBUTE = "tailrace_place"
_CREATED = ("CWLWorkflow", "CWLScatter", "CWLLoop", "CWLJobWrapper", "CWLJob")


class Place(NamedTuple):
    """stage: the step; task: the step in the workflow, with the number in its scatter."""

    stage: str = ""
    task: str = ""

    def step(self, name: str) -> "Place":
        return Place(name, f"{self.task}/{name}" if self.task else name)

    def instance(self, number: int) -> "Place":
        return Place(self.stage, f"{self.task}[{number}]")


@dataclass
class _Creating:
    """The job that runs, and creates others. created: how many."""

    place: Place
    job: Any
    created: int = 0

    def next(self, job: Any, parent_name: str, step: Any) -> Place:
        """parent_name: what the new job's name begins with; step: that it is for, where it is told."""
        if isinstance(self.job, cwltoil.CWLWorkflow):
            if step is not None:
                return self.place.step(shortname(step.tool["id"]))
            return self.place.step(parent_name.removeprefix(f"{shortname(self.job.cwlwf.tool['id'])}."))
        if isinstance(self.job, cwltoil.CWLScatter):
            self.created += 1
            return self.place.instance(self.created - 1)
        if isinstance(self.job, cwltoil.CWLLoop) and not isinstance(job, cwltoil.CWLLoop):
            return self.place.instance(self.job.iteration)
        return self.place


_creating: ContextVar[_Creating | None] = ContextVar("_creating", default=None)


def place_of(job: Any) -> Place:
    """A job's; where it was created untraced, or is the whole workflow, by the name of its tool."""
    place: Place = getattr(job, _ATTRIBUTE, Place())
    return place if place.task else Place().step(shortname(job.cwltool.tool["id"]))


def replaced(isolated: Isolation) -> Iterable[Replaced]:
    """What is to be replaced for jobs to have a place."""

    def create(original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        made = original(*arguments, **keywords)
        with isolated("find a job's step"):
            creating = _creating.get()
            if creating is not None:
                given = inspect.signature(original).bind(*arguments, **keywords).arguments
                place = creating.next(given["self"], str(given["parent_name"]), given.get("step"))
                setattr(given["self"], _ATTRIBUTE, place)
        return made

    def run(original: Callable[..., Any], self: Any, *arguments: Any, **keywords: Any) -> Any:
        before = _creating.set(_Creating(getattr(self, _ATTRIBUTE, Place()), self))
        try:
            return original(self, *arguments, **keywords)
        finally:
            _creating.reset(before)

    for name in _CREATED:
        owner = getattr(cwltoil, name)
        yield Replaced(owner, "__init__", ("self", "parent_name"), create)
        if name != "CWLJob":
            yield Replaced(owner, "run", ("self", "file_store"), run)
