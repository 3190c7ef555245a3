"""Which step a job of toil's belongs to, which of its instances, and what that step takes of others: an attribute of
the job that toil's pickles keep.

toil names a job by its workflow, step and tool, but one of a scatter by the workflow and a number, and one of a
subworkflow without what that is in: jobs of several steps have one name. A job is created while another one runs:

    CWLWorkflow.run      a job for each step                         align          sub/align
    CWLScatter.run       for each value                              align[0]       sub[1]/align
    CWLLoop.run          for each iteration                          align[0]
    CWLJobWrapper.run    the job whose resources are known then      align

A step takes outputs of steps beside it, and inputs of its workflow, which are what the step that this is takes.

Invariant: a job's name as toil has it stays as it is.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple

from cwltool.process import shortname
from cwltool.utils import aslist
from toil.cwl import cwltoil

from tailrace.integrations.isolation import Isolation
from tailrace.integrations.replacing import Replaced

_ATTRIBUTE = "tailrace_place"
_CREATED = ("CWLWorkflow", "CWLScatter", "CWLLoop", "CWLJobWrapper", "CWLJob")


class Place(NamedTuple):
    """stage: the step; task: the step in the workflow, with the number in its scatter; steps: those that it is in, and
    itself; takes: by each input of the step, the steps that give it."""

    stage: str = ""
    task: str = ""
    steps: tuple[str, ...] = ()
    takes: Mapping[str, tuple[str, ...]] = {}

    def step(self, name: str, takes: Mapping[str, tuple[str, ...]] | None = None) -> "Place":
        task = f"{self.task}/{name}" if self.task else name
        return Place(name, task, (*self.steps, task), takes or {})

    def instance(self, number: int) -> "Place":
        return self._replace(task=f"{self.task}[{number}]")


@dataclass
class _Creating:
    """The job that runs, and creates others. created: how many."""

    place: Place
    job: Any
    created: int = 0

    def next(self, job: Any, parent_name: str, step: Any) -> Place:
        """parent_name: what the new job's name begins with; step: that it is for, where it is told."""
        if isinstance(self.job, cwltoil.CWLWorkflow):
            name = parent_name.removeprefix(f"{shortname(self.job.cwlwf.tool['id'])}.")
            name = name if step is None else shortname(step.tool["id"])
            return self.place.step(name, self._taken(name))
        if isinstance(self.job, cwltoil.CWLScatter):
            self.created += 1
            return self.place.instance(self.created - 1)
        if isinstance(self.job, cwltoil.CWLLoop) and not isinstance(job, cwltoil.CWLLoop):
            return self.place.instance(self.job.iteration)
        return self.place

    def _taken(self, name: str) -> dict[str, tuple[str, ...]]:
        """What a step of the workflow that runs takes."""
        workflow = self.job.cwlwf
        steps = {shortname(one.tool["id"]): one.tool for one in workflow.steps}
        givers = {output["id"]: f"{self.place.task}/{giver}" if self.place.task else giver
                  for giver, tool in steps.items() for output in tool["outputs"]}  # fmt: skip
        return {
            shortname(given["id"]): tuple(
                step
                for source in aslist(given.get("source", []))
                for step in ((givers[source],) if source in givers else self.place.takes.get(shortname(source), ()))
            )
            for given in steps[name]["inputs"]
        }


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
