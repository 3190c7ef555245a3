"""A declared file that its task did not access."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import QUALITY, Match, Rule, more, rows_of


def find(found: Analyses) -> Iterator[Match]:
    """All such declarations, as one match."""
    rows, tasks = found.declared.untouched, found.inputs.tasks
    if len(rows) == 0:
        return
    top = rows.iloc[0]
    declared, did = ("input", "read") if top["direction"] == "r" else ("output", "wrote")
    task = int(np.flatnonzero((tasks["workflow"] == top["workflow"]) & (tasks["task"] == top["task"]))[0])
    name = found.inputs.called(task)
    yield Match(
        title=f"{name} declared {top['path']} as an {declared} and never {did} it{more(len(rows))}",
        names={"task": found.of_tag(str(top["workflow"]), str(top["task"]))},
        count=len(rows),
        evidence=rows_of(rows),
        tasks=found.tagged(rows, "task"),
    )


RULE = Rule(
    kind="declared, not accessed",
    about=QUALITY,
    title="A declared input that was not read, or a declared output that was not written",
    definition=(
        "A task left events and did not fail, and none of them reads or runs its declared input, or writes its declared"
        " output, under any name that the file had in the run, or as a copy that an untagged process staged for it."
    ),
    advice="Correct the declaration: a wrong input delays the task, a missing output fails the tasks that need it.",
    source="The declared DAG compared with the observed one (docs/declared-dag.md)",
    query="tailrace query {run} {task} --by path,path2,dir",
    find=find,
    absence=True,
)
