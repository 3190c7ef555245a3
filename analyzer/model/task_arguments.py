"""The arguments of tasks, as text: `arguments` in the annotations of their declarations (docs/declared-dag.md)."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from tailrace.analyzer.edges.run_protocol import AnalyzedRun


def of(run: AnalyzedRun) -> dict[tuple[str, str], dict[str, str]]:
    """(workflow, task) -> its arguments by name; tasks of which none was declared are left out."""
    tasks = run.declared_tasks
    if not len(tasks) or "annotations" not in tasks:
        return {}
    columns = (tasks[name].tolist() for name in ("workflow", "task", "annotations"))
    found = {}
    for workflow, task, facts in zip(*columns, strict=True):
        if told := of_annotations(facts):
            found["" if pd.isna(workflow) else str(workflow), str(task)] = told
    return found


def of_annotations(facts: object) -> dict[str, str]:
    """The arguments in one task's annotations."""
    given = facts.get("arguments") if isinstance(facts, Mapping) else None
    return {str(name): str(value) for name, value in given.items()} if isinstance(given, Mapping) else {}
