"""What tasks asked their workflow manager for: `requested` in its declarations (docs/declared-dag.md)."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from tailrace.analyzer.edges.run_protocol import AnalyzedRun

RESOURCES = ("cores", "gpus", "memory_bytes", "disk_bytes", "time_s")
Request = dict[str, float]


def of(run: AnalyzedRun) -> dict[tuple[str, str], Request]:
    """(workflow, task) -> what it asked for, of `RESOURCES`; cores are those that it got where the manager says no
    more. Tasks that asked for nothing are left out."""
    return of_table(run.declared_tasks)


def of_table(tasks: pd.DataFrame) -> dict[tuple[str, str], Request]:
    """The same of the declared tasks of a run."""
    if not len(tasks):
        return {}
    found = {}
    nothing = pd.Series(None, index=tasks.index, dtype=object)
    columns = (tasks.get(name, nothing).tolist() for name in ("workflow", "task", "cores", "annotations"))
    for workflow, task, cores, facts in zip(*columns, strict=True):
        asked = _numbers(facts)
        if not pd.isna(cores) and cores > 0:
            asked.setdefault("cores", float(cores))
        if asked:
            found["" if pd.isna(workflow) else str(workflow), str(task)] = asked
    return found


def _numbers(facts: object) -> Request:
    asked = facts.get("requested") if isinstance(facts, Mapping) else None
    if not isinstance(asked, Mapping):
        return {}
    values = {name: asked.get(name) for name in RESOURCES}
    return {
        name: float(value)
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    }
