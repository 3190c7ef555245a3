"""A stage, a host or a rank: its tasks and how they ended, where its time went, its accesses, and what sets it apart.

    name --_member--> actors --counts, busy times, accesses, hand-overs--> GroupProfile

Its time comes from model/time_model.py. Invariant: reads no events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.insights import access_patterns, insights
from tailrace.analyzer.insights.host_facts import HostFacts
from tailrace.analyzer.insights.inputs import Inputs
from tailrace.analyzer.insights.views import group_document
from tailrace.analyzer.model import dataflow, outcomes, time_model
from tailrace.analyzer.store.processes import PROCESS
from tailrace.analyzer.util import nearest
from tailrace.analyzer.util.document import Document, Shown
from tailrace.analyzer.util.types import Bools, Ints
from tailrace.errors import QueryError

KINDS = ("stage", "host", "rank")
MOST = 10
"""Files that are listed."""


@dataclass(frozen=True, repr=False)
class GroupProfile(Shown):
    """Times are ns since the epoch, spans ns.

    tasks, processes: how many; statuses: the managers' words for how its tasks ended, with their number; retried: tasks
    of several tries. spent_ns: `time_model.STATES` and `ABSENT`,
    which add up to the time from begin to end. files: the most moved, as path, read_bytes,
    written_bytes. sources, targets: stages (of a stage) whose data it read and that read its data, with bytes.
    accesses: as `Accesses.to_json`; others: of a rank or host, time_ns and bytes of each. facts: of a host.
    """

    kind: str
    name: str
    t0_ns: int
    begin_ns: int
    end_ns: int
    tasks: int
    processes: int
    statuses: dict[str, int]
    retried: int
    spent_ns: dict[str, int]
    read_bytes: int
    written_bytes: int
    failed_calls: int
    files: list[dict[str, Any]]
    sources: list[dict[str, Any]]
    targets: list[dict[str, Any]]
    accesses: dict[str, Any]
    others: list[dict[str, Any]]
    facts: HostFacts | None = None

    def document(self, collectives: Sequence[Mapping[str, Any]] = ()) -> Document:
        """What is shown of it; collectives: of a rank, as `Collectives.of_rank`."""
        return group_document(self, collectives)


def group_profile(run: AnalyzedRun, kind: str, name: str) -> GroupProfile:
    """The profile of a stage, a host or a rank.

    Raises:
        QueryError: there is none of this name.
    """
    inputs = insights(run).inputs
    group, names = access_patterns.groups(inputs, kind)
    known = [str(one) for one in names]
    if name not in known:
        shown = f"there is {', '.join(map(repr, known[:20]))}" if known else f"the run has no {kind}s"
        raise QueryError(f"{run.path}: there is no {kind} {name!r}{nearest.hint(name, known)}; {shown}")
    at = known.index(name)
    mine = group == at
    m = inputs.m
    counts = m.table.counts[mine[m.table.counts["who"].to_numpy()]]
    begin, end = int(counts["first_ns"].min()), int(counts["last_ns"].max())
    tasks = np.unique(inputs.of_who[mine])
    tagged = tasks[(inputs.tasks["task"].to_numpy()[tasks] != "")]
    statuses, retried = _statuses(run, inputs, tagged)
    flows = _flows(inputs, at) if kind == "stage" else ([], [])
    return GroupProfile(
        kind=kind,
        name=name,
        t0_ns=inputs.start_ns,
        begin_ns=begin,
        end_ns=end,
        tasks=len(tagged),
        processes=len(m.who.loc[mine, PROCESS].drop_duplicates()),
        statuses=statuses,
        retried=retried,
        spent_ns=_times(inputs, mine, begin, end),
        read_bytes=int(counts["read_bytes"].sum()),
        written_bytes=int(counts["written_bytes"].sum()),
        failed_calls=int(counts["failed"].sum()),
        files=_files(inputs, mine),
        sources=flows[0],
        targets=flows[1],
        accesses=access_patterns.accesses(inputs, kind, mine).to_json(),
        others=_others(inputs, group, known) if kind != "stage" else [],
    )


def _statuses(run: AnalyzedRun, inputs: Inputs, tasks: Ints) -> tuple[dict[str, int], int]:
    rows = inputs.tasks.iloc[tasks]
    mine = set(zip(rows["workflow"], rows["task"], strict=True))
    found: dict[str, int] = {}
    retried = 0
    for row in outcomes.table(run).to_dict("records"):
        if (row["workflow"], row["task"]) in mine:
            status = str(row["status"] or outcomes.UNENDED)
            found[status] = found.get(status, 0) + 1
            retried += int(row["tries"] or 0) > 1
    return found, retried


def _times(inputs: Inputs, mine: Bools, begin: int, end: int) -> dict[str, int]:
    zero, low, high = (np.array([at], dtype=np.int64) for at in (0, begin, end))
    spent = inputs.time.states(np.where(mine, 0, -1)).inside(zero, low, high)
    row = time_model.filled(spent, high - low, time_model.ABSENT).iloc[0]
    return {str(name): int(ns) for name, ns in row.items()}


def _files(inputs: Inputs, mine: Bools) -> list[dict[str, Any]]:
    m = inputs.m
    rows = m.bursts[m.classed(dataflow.DEFAULT_CLASSES) & mine[m.bursts["who"].to_numpy()]]
    sums = rows.pivot_table(index="file", columns="dir", values="bytes", aggfunc="sum", fill_value=0)
    sums = sums.reindex(columns=[edge_table.READ, edge_table.WRITE], fill_value=0)
    top = sums.sum(axis=1).sort_values(ascending=False, kind="stable").index[:MOST]
    return [
        {
            "path": str(m.paths[int(file)]),
            "read_bytes": int(sums.at[file, edge_table.READ]),
            "written_bytes": int(sums.at[file, edge_table.WRITE]),
        }
        for file in top
    ]


def _flows(inputs: Inputs, stage: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The stages that it read of, and those that read of it, with bytes."""
    rows = dataflow.flow_table(inputs.m, "stage")
    rows = rows[(rows["producer"] >= 0) & (rows["producer"] != rows["consumer"])]
    names = inputs.stages["stage"].astype(str).tolist()

    def side(mine: str, other: str) -> list[dict[str, Any]]:
        sums = rows[rows[mine] == stage].groupby(other)["bytes"].sum().sort_values(ascending=False, kind="stable")
        return [{"stage": names[code], "bytes": moved} for code, moved in zip(sums.index, sums.tolist(), strict=True)]

    return side("consumer", "producer"), side("producer", "consumer")


def _others(inputs: Inputs, group: Ints, names: list[str]) -> list[dict[str, Any]]:
    figures: dict[str, Any] = {"name": names}
    for figure, values in access_patterns.member_figures(inputs).items():
        sums = np.zeros(len(names), dtype=np.int64)
        np.add.at(sums, group[group >= 0], values[group >= 0])
        figures[figure] = sums
    return access_patterns.plain_rows(pd.DataFrame(figures))
