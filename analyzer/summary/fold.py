"""A campaign's many workflows as one picture: the same stage of each is one stage.

Invariants: tasks stay apart, and keep their codes at level "task", so that results of the run itself can be shown
beside the folded model.
"""

from __future__ import annotations

from dataclasses import replace

from tailrace.analyzer.model import dataflow, stages
from tailrace.analyzer.model.dataflow import Model

STAGES = 48
"""A run with more stages than that, and fewer names of stages, is folded: the most that a picture can show."""


def folded(m: Model) -> Model:
    """The model with its workflows folded into one, their names in front of the tasks'; `m` where that isn't needed."""
    _, activities = dataflow.activities(m, "stage")
    if len(activities) <= STAGES or activities["stage"].nunique() == len(activities):
        return m
    tagged = m.who["task"] != ""
    task = m.who["task"].where(~tagged, m.who["workflow"] + "/" + m.who["task"])
    stages.file_fates(m)  # with it the flows between tasks, which the folded model has in common
    kept = {name: table for name, table in m._flows.items() if name == "fates" or name.startswith("task|")}
    made = replace(m, who=m.who.assign(workflow="", task=task), _flows=kept, _activities={})
    same = len(dataflow.activities(made, "task")[1]) == len(dataflow.activities(m, "task")[1])
    return made if same else m  # task "b/c" of "a" and task "c" of "a/b" would be one
