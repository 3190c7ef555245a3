"""The analyses of a run, each computed on first use: what findings, reports, graphs and comparisons are made from.

    Inputs (inputs.py) -> Analyses: critical, declared, failures, conflicts, lifetime, streams, apart, fans, caterpillar

Each property is a pure function of the inputs; the modules named beside them have the definitions. Besides them stand
the arguments of `tailrace query` that select a task or a stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from glob import escape as literal

import pandas as pd

from tailrace.analyzer.insights import conflicts, critical, declared_savings, failures, lifetime, pairs
from tailrace.analyzer.insights.happens_before import HappensBefore
from tailrace.analyzer.insights.inputs import Inputs
from tailrace.analyzer.model import outcomes, stages
from tailrace.analyzer.model.declared_vs_observed import WORKFLOW_OF
from tailrace.analyzer.util.formatting import with_stage
from tailrace.analyzer.util.types import Row


@dataclass
class Analyses:
    """Every analysis of one run. directory: as queries name it."""

    inputs: Inputs
    directory: str = "RUN"

    @cached_property
    def critical(self) -> critical.Critical:
        """The critical path: what the makespan was spent on, and the slack of each task (critical.py)."""
        return critical.critical(self.inputs)

    @cached_property
    def declared(self) -> declared_savings.Declared:
        """The declared DAG compared with the observed dataflow (declared_savings.py)."""
        return declared_savings.declared(self.inputs, lambda: self.happens_before)

    @cached_property
    def happens_before(self) -> HappensBefore:
        """The order of the moments of tasks (happens_before.py)."""
        return HappensBefore(self.inputs)

    @cached_property
    def failures(self) -> list[failures.Failure]:
        """The tasks that failed, by how (failures.py)."""
        return failures.failures(self.inputs)

    @property
    def outcomes(self) -> pd.DataFrame:
        """How each declared task ended (model/outcomes.py)."""
        table = self.inputs.tables.get("outcomes")
        return pd.DataFrame(columns=list(outcomes.COLUMNS)) if table is None else table

    @property
    def command_faults(self) -> list[str]:
        """How the traced commands ended that did not succeed, in words."""
        ends = self.inputs.tables.get("command_ends")
        return [] if ends is None else outcomes.faults(ends["status"])

    @cached_property
    def conflicts(self) -> conflicts.Conflicts:
        """Unordered accesses of the same bytes (conflicts.py)."""
        return conflicts.conflicts(self.inputs, self.happens_before)

    @cached_property
    def lifetime(self) -> lifetime.Lifetime:
        """How long data lives, how often it is read, how much there is at a time (lifetime.py)."""
        return lifetime.lifetime(self.inputs)

    @cached_property
    def streams(self) -> pd.DataFrame:
        """Pairs of tasks that could stream; columns of `pairs.streams`."""
        return pairs.streams(self.inputs, self.critical)

    @cached_property
    def apart(self) -> pd.DataFrame:
        """Stages between which bytes passed from host to host; columns of `pairs.apart`."""
        return pairs.apart(self.inputs)

    @cached_property
    def fans(self) -> pd.DataFrame:
        """Fan-in and fan-out of each stage's tasks; columns of `pairs.fans`."""
        return pairs.fans(self.inputs)

    @cached_property
    def caterpillar(self) -> pd.DataFrame:
        """The critical path with the inputs and outputs of its tasks; columns of `pairs.caterpillar`."""
        return pairs.caterpillar(self.inputs, self.critical)

    @cached_property
    def moved_bytes(self) -> int:
        """All bytes that the run read and wrote."""
        counts = self.inputs.m.table.counts
        return int(counts["read_bytes"].sum() + counts["written_bytes"].sum())

    def ends(self, row: Row) -> tuple[str, str]:
        """Producer and consumer of a row of `compare_declared`, as reports show tasks."""
        producer, consumer = (
            with_stage(self.inputs.m.task_name(str(row[workflow]), str(row[end])), str(row[f"{end}_stage"]))
            for end, workflow in WORKFLOW_OF.items()
        )
        return producer, consumer

    def called(self, row: pd.Series) -> str:
        """A row of `outcomes`, as reports show tasks."""
        name = self.inputs.m.task_name(str(row["workflow"]), str(row["task"]))
        return with_stage(name, str(row["stage"]))

    def of_task(self, task: int) -> list[str]:
        """Arguments of `tailrace query` for the events of a task or process."""
        row = self.inputs.tasks.iloc[task]
        if row["task"]:
            return self.of_tag(str(row["workflow"]), str(row["task"]))
        start = ["--start", str(row["start"])] if row["pid_uses"] > 1 else []
        return ["--host", literal(str(row["host"])), "--pid", str(row["pid"]), *start]

    def of_tag(self, workflow: str, *tasks: str) -> list[str]:
        """The same for task tags: a tag is a task's own within its workflow."""
        where = ["--workflow", literal(workflow)] if workflow else []
        return [*where, *(word for task in tasks for word in ("--task", literal(task)))]

    def of_stage(self, name: str) -> list[str]:
        """The same for a stage as it is shown."""
        return [literal(word) for word in stages.filters(self.inputs.m, name)]
