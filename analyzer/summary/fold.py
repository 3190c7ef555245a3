"""A campaign's many workflows as one picture: the same stage of each is one stage.

What always holds: tasks stay apart, and keep their codes at level "task" (`dataflow.parties`), so that what was worked
out on the run itself can be shown beside what was folded.
"""

from __future__ import annotations

from dataclasses import replace

from tailrace.analyzer import dataflow
from tailrace.analyzer.dataflow import Model

STAGES = 48
"""A run with more stages than that, and fewer names of stages, is folded: what a picture can show."""


def folded(m: Model) -> Model:
    """The model with its workflows folded into one, their names in front of the tasks'; `m` where that isn't needed."""
    _, stages = dataflow.parties(m, "stage")
    if len(stages) <= STAGES or stages["stage"].nunique() == len(stages):
        return m
    tagged = m.who["task"] != ""
    task = m.who["task"].where(~tagged, m.who["workflow"] + "/" + m.who["task"])
    return replace(m, who=m.who.assign(workflow="", task=task), _flows={}, _parties={}, _insights=[])
