"""The analyses of a run, each computed on first use: what findings, reports, graphs and comparisons are made from.

    Inputs (inputs.py) -> Analyses: critical, declared, failures, conflicts, lifetime, access_costs, streams, apart, ...

Each property is a pure function of the inputs; the modules named beside them have the definitions. Besides them stand
the arguments of `tailrace query` that select a task or a stage.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from glob import escape as literal
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from tailrace.analyzer.insights import (
    access_costs,
    access_patterns,
    call_places,
    command_lines,
    conflicts,
    critical,
    declared_savings,
    early_reads,
    failures,
    lifetime,
    lost_writes,
    pairs,
    polls,
    processors,
    selections,
    shared_scratch,
    start_ups,
    waits,
    whatif,
)
from tailrace.analyzer.insights.inputs import Inputs
from tailrace.analyzer.insights.selections import Selection
from tailrace.analyzer.model import outcomes, stages
from tailrace.analyzer.model.declared_vs_observed import WORKFLOW_OF
from tailrace.analyzer.store import ledger, processes
from tailrace.analyzer.util.formatting import count_text, with_stage
from tailrace.analyzer.util.types import Row

if TYPE_CHECKING:
    from tailrace.analyzer.insights.finding import Finding, Match


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
        return declared_savings.declared(self.inputs)

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
        return conflicts.conflicts(self.inputs)

    @cached_property
    def early_reads(self) -> list[early_reads.EarlyRead]:
        """Reads of files that their writer had not completed (early_reads.py)."""
        return early_reads.early_reads(self.inputs)

    @cached_property
    def lost_writes(self) -> list[lost_writes.LostWrites]:
        """Writes that failed for want of room, and whose bytes are missing (lost_writes.py). Reads events."""
        return lost_writes.lost_writes(self.inputs, self.failed_tasks)

    @property
    def failed_tasks(self) -> frozenset[int]:
        """The tasks (positions in `Inputs.tasks`) that their manager said failed."""
        return frozenset(int(at) for failure in self.failures for at in failure.tasks["at"])

    @cached_property
    def shared_scratch(self) -> list[shared_scratch.Scratch]:
        """Scratch files that several tasks of a stage share (shared_scratch.py)."""
        return shared_scratch.shared_scratch(self.inputs)

    @cached_property
    def lifetime(self) -> lifetime.Lifetime:
        """How long data lives, how often it is read, how much there is at a time (lifetime.py)."""
        return lifetime.lifetime(self.inputs)

    @cached_property
    def streams(self) -> pd.DataFrame:
        """Pairs of tasks that could stream; columns of `pairs.streams`."""
        return pairs.streams(self.inputs, self.critical, self.replays)

    @cached_property
    def replays(self) -> whatif.Replays:
        """The run once more, with single changes (whatif.py)."""
        return whatif.Replays(self.inputs, self.critical.path)

    @cached_property
    def apart(self) -> pd.DataFrame:
        """Stages between which bytes passed from host to host; columns of `pairs.apart`."""
        return pairs.apart(self.inputs)

    @cached_property
    def access_costs(self) -> access_costs.Costs:
        """What small calls, random offsets, metadata calls and short processes cost (access_costs.py)."""
        return access_costs.costs(self.inputs, self.start_ups)

    @cached_property
    def processors(self) -> processors.Processors:
        """How many processors there were, and how long tasks used them (processors.py)."""
        return processors.processors(self.inputs)

    @cached_property
    def waits(self) -> waits.Waits:
        """When tasks did nothing but sleep or wait for locks, and what they looked at meanwhile (waits.py)."""
        return waits.waits(self.inputs, self.processors)

    @cached_property
    def loops(self) -> list[polls.Loop]:
        """Where tasks slept and looked, again and again (polls.py)."""
        return polls.loops(self.waits)

    @cached_property
    def selections(self) -> list[Selection]:
        """What reads of datasets took, and gave. Reads events of HDF5."""
        return selections.selections(self.inputs)

    @cached_property
    def start_ups(self) -> start_ups.StartUps:
        """How long programs took to load themselves (start_ups.py)."""
        return start_ups.start_ups(self.inputs)

    def accesses(self, by: str = "stage") -> access_patterns.Accesses:
        """What the I/O is like by stage, program, task, rank, host or file (access_patterns.py)."""
        return access_patterns.accesses(self.inputs, by)

    @cached_property
    def fans(self) -> pd.DataFrame:
        """Fan-in and fan-out of each stage's tasks; columns of `pairs.fans`."""
        return pairs.fans(self.inputs)

    @cached_property
    def caterpillar(self) -> pd.DataFrame:
        """The critical path with the inputs and outputs of its tasks; columns of `pairs.caterpillar`."""
        return pairs.caterpillar(self.inputs, self.critical)

    @cached_property
    def call_places(self) -> pd.DataFrame:
        """Where calls were made whose stacks were recorded, with their stages; columns of `call_places.staged`."""
        return call_places.staged(self.inputs)

    @cached_property
    def moved_bytes(self) -> int:
        """All bytes that the run read and wrote."""
        counts = self.inputs.m.table.counts
        return int(counts["read_bytes"].sum() + counts["written_bytes"].sum())

    @cached_property
    def ns_of_byte(self) -> float:
        """How long the run's own reads and writes took for a byte."""
        return stages.transfer_ns(self.inputs.m) / self.moved_bytes if self.moved_bytes else 0.0

    def cost(self, one: Match | Finding) -> float:
        """What a finding costs, ns."""
        return one.cost_ns + one.cost_bytes * self.ns_of_byte

    # ---- what the tasks of a conclusion were seen of ----

    @cached_property
    def partly_seen(self) -> frozenset[int]:
        """The tasks with a process that lost events, or was not (or may not have been) fully seen."""
        m = self.inputs.m
        processes = (ledger.partial_processes(m.processes) or set()) | m.lossy
        return frozenset(self.inputs.of_who[m.of_processes(processes)].tolist())

    def doubts(self, tasks: Iterable[int], absence: bool, by_time: bool) -> list[str]:
        """What makes a conclusion from these tasks uncertain, as parts of a sentence; absence: it says that they did
        not do something; by_time: it depends on the order of their times."""
        mine = {int(task) for task in tasks}
        partly = len(mine & self.partly_seen) if absence else 0
        said = [f"{partly} of its {self.counted(mine)} seen in part"] if partly else []
        hosts = {
            str(self.inputs.m.who["host"].iat[int(row)]) for row in np.flatnonzero(np.isin(self.inputs.of_who, [*mine]))
        }
        wrong = sorted(hosts & self.inputs.m.ahead.keys())
        if by_time and len(hosts) > 1 and wrong:
            said.append(f"times of {', '.join(wrong)} corrected")
        return said

    def counted(self, tasks: Collection[int]) -> str:
        """How many they are, in words: what has no task tag is a process."""
        of_task = (self.inputs.tasks["task"] != "").to_numpy(dtype=np.bool_)[list(tasks)]
        if of_task.all():
            return count_text(len(tasks), "task")
        return f"{len(tasks):,} tasks and processes" if of_task.any() else count_text(len(tasks), "process", "es")

    @property
    def every_task(self) -> range:
        """All tasks: what a conclusion is drawn from that something did not happen."""
        return range(len(self.inputs.tasks))

    def users_of(self, files: Collection[int]) -> set[int]:
        """The tasks that read or wrote files."""
        bursts = self.inputs.m.bursts
        mine = np.isin(bursts["file"].to_numpy(), [*files])
        return set(self.inputs.of_who[bursts["who"].to_numpy()[mine]].tolist())

    def of_users(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The rows of a table with a column stage_code without those of a stage that is nothing but a manager's own
        processes: nobody can act on what they do."""
        if not len(rows) or not self.inputs.of_manager.any():
            return rows
        users = self.inputs.tasks["stage_code"].to_numpy()[~self.inputs.of_manager]
        return rows[rows["stage_code"].isin(users)].reset_index(drop=True)

    def tasks_of_stages(self, stages: Collection[int]) -> set[int]:
        """The tasks of stages (positions in `Inputs.stages`)."""
        return set(np.flatnonzero(np.isin(self.inputs.tasks["stage_code"].to_numpy(), [*stages])).tolist())

    def tagged(self, rows: pd.DataFrame, *columns: str) -> set[int]:
        """The tasks whose tags are in these columns of rows with a column workflow."""
        tasks = self.inputs.tasks
        codes = dict(zip(zip(tasks["workflow"], tasks["task"], strict=True), range(len(tasks)), strict=True))
        keys = {key for column in columns for key in zip(rows["workflow"], rows[column], strict=True)}
        return {codes[key] for key in keys if key in codes}

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

    def command(self, process: int) -> str:
        """The command line of a process (position in `Inputs.lives`) for a sentence; its program where that is all that
        is known."""
        m, lives = self.inputs.m, self.inputs.lives
        (key,) = processes.keys(m.who.iloc[[lives.first(process)]])
        return command_lines.shown(m.command_lines.get(key, [m.program(lives.last(process)) or "?"]))

    def task_id(self, task: int) -> str:
        """The argument of `tailrace task` for a task or process."""
        row = self.inputs.tasks.iloc[task]
        tag = "/".join(filter(None, (str(row["workflow"]), str(row["task"]))))
        return tag if row["task"] else self.inputs.name(task)

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
