"""Workflows whose manager orders tasks by more than it declares: values pass that nobody tells of.

    "declares": "path inputs and outputs"      what it does declare, in words (docs/declared-dag.md, `workflow`)
    "stage_deps": [[stage, stage], ...]        where it tells between which stages something passes

That no dependency is declared between two tasks says nothing there, as long as the second one began when the first was
over. Invariant: a workflow of which one line says that all is declared is no such workflow.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import pandas as pd

from tailrace.analyzer.util.types import Document

Task = tuple[str, str]
"""(workflow, task)."""
_MOMENTS = ("t_submit_ns", "t_launch_ns", "t_start_ns")


@dataclass
class _Workflow:
    """manager: its name; declares: its words; next: stage -> those that take of it, None: not told."""

    manager: str
    declares: str
    next: dict[str, set[str]] | None
    _reached: dict[str, set[str]] = field(default_factory=dict)

    def leads(self, producer: str, consumer: str) -> bool:
        """Whether something of one stage may reach the other."""
        if self.next is None:
            return True
        if producer not in self._reached:
            found: set[str] = set()
            queue = deque(self.next.get(producer, ()))
            while queue:
                stage = queue.popleft()
                if stage not in found:
                    found.add(stage)
                    queue += self.next.get(stage, ())
            self._reached[producer] = found
        return consumer in self._reached[producer]


class PartlyDeclared:
    """The workflows of a run that are partly declared, and the times of their tasks."""

    def __init__(self, workflows: pd.DataFrame | None, tasks: pd.DataFrame | None) -> None:
        self._of = _workflows(workflows) if workflows is not None and "config" in workflows else {}
        self._began: dict[Task, int] = {}
        self._over: dict[Task, int] = {}
        self._stage: dict[Task, str] = {}
        if self._of and tasks is not None:
            for row in tasks.to_dict("records"):
                name = (str(row["workflow"] or ""), str(row["task"]))
                self._stage[name] = str(row.get("stage") or "")
                began = [int(row[key]) for key in _MOMENTS if key in row and pd.notna(row[key]) and row[key] > 0]
                if began:
                    self._began[name] = max(began)
                if pd.notna(row.get("t_end_ns")) and row["t_end_ns"] > 0:
                    self._over[name] = int(row["t_end_ns"])

    def may_order(self, producer: Task, consumer: Task) -> bool:
        """Whether the manager may have put the producer first without a word of it."""
        workflow = self._of.get(producer[0]) if producer[0] == consumer[0] else None
        if workflow is None or not workflow.leads(self._stage.get(producer, ""), self._stage.get(consumer, "")):
            return False
        known = producer in self._over and consumer in self._began
        return not known or self._began[consumer] >= self._over[producer]

    def words(self, workflow: str) -> tuple[str, str]:
        """The manager, and what it declares."""
        found = self._of[workflow]
        return found.manager, found.declares


def _workflows(rows: pd.DataFrame) -> dict[str, _Workflow]:
    found: dict[str, _Workflow | None] = {}
    for row in rows.to_dict("records"):
        name, config = str(row["workflow"] or ""), _config(row["config"])
        declares = config.get("declares")
        before = found.get(name)
        if not isinstance(declares, str) or (name in found and before is None):
            found[name] = None
            continue
        pairs = list(_pairs(config.get("stage_deps"))) if "stage_deps" in config else None
        after = before.next if before is not None else None
        if pairs is not None:
            after = after or {}
            for producer, consumer in pairs:
                after.setdefault(producer, set()).add(consumer)
        found[name] = _Workflow(str(row["manager"]), declares, after)
    return {name: workflow for name, workflow in found.items() if workflow is not None}


def _config(text: object) -> Document:
    try:
        config = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return {}
    return config if isinstance(config, dict) else {}


def _pairs(value: object) -> Iterator[tuple[str, str]]:
    for pair in value if isinstance(value, list) else ():
        if isinstance(pair, list) and len(pair) == 2:
            yield str(pair[0]), str(pair[1])
