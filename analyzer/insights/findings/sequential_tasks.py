"""Tasks that a script ran one after the other, though none needed anything of the one before."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import EVIDENCE, NOTE, SEQUENCE, Match, Row, Rule
from tailrace.analyzer.insights.findings._concurrency import LEAST, MUCH_USED, used_share
from tailrace.analyzer.model.order import DATA, DECLARED
from tailrace.analyzer.model.process_tree import FORK
from tailrace.analyzer.util import grouping, intervals
from tailrace.analyzer.util.formatting import time_text


def find(found: Analyses) -> Iterator[Match]:
    """The tasks of the path that did, as one match."""
    inputs, path = found.inputs, found.critical.path
    stage, rows = inputs.tasks["stage_code"].to_numpy(), path.to_dict("records")
    start, handed = inputs.tasks["start_ns"].to_numpy(), _Handed(found)
    pieces: list[tuple[int, int, int]] = []
    begun = inputs.end_ns
    for before, row in pairwise(rows):
        task, last, begin = (int(str(value)) for value in (row["task"], before["task"], row["begin_ns"]))
        if row["via"] == FORK and min(task, last) >= 0 and stage[task] == stage[last] and not handed.by_server(task):
            ready = max(handed.until(task), int(start[last]))
            if ready < begin:
                pieces.append((task, ready, begin))
                begun = min(begun, ready)
    if not pieces:
        return
    tasks = {task for task, _, _ in pieces}
    alone = np.zeros(len(pieces), dtype=np.int64)
    since, until = (np.array(column, dtype=np.int64) for column in list(zip(*pieces, strict=True))[1:])
    waited = int(intervals.length(intervals.union(intervals.make(alone, since, until)), 1)[0])
    over = int(inputs.tasks["end_ns"].iloc[[*tasks]].max())
    used = used_share(found, intervals.make(alone[:1], np.array([begun]), np.array([over])), tasks)
    if not LEAST.reached(waited, inputs.makespan_ns) or used >= MUCH_USED:
        return
    longest = max(pieces, key=lambda piece: piece[2] - piece[1])[0]
    name = str(inputs.stages["stage"].iat[int(stage[longest])])
    yield Match(
        title=f"{len(tasks) + 1} tasks of {name} ran one after the other for"
        f" {time_text(over - begun)} of {time_text(inputs.makespan_ns)}, and none read anything that the one before had"
        " made",
        names={"stage": found.of_stage(name)},
        cost_ns=max(int(min(waited, (over - begun) * (1 - used), inputs.makespan_ns - found.critical.bound_ns)), 0),
        where=f"in {name}",
        estimate=True,
        evidence=[
            Row(task=inputs.called(task), ready_s=(ready - inputs.start_ns) / 1e9, waited_ns=begin - ready)
            for task, ready, begin in sorted(pieces, key=lambda piece: piece[1] - piece[2])[:EVIDENCE]
        ],
        tasks=tasks,
    )


class _Handed:
    """What was handed to tasks by data and declarations, also through the script that started them: what that has read
    of one task may be an argument of the next."""

    def __init__(self, found: Analyses) -> None:
        inputs = found.inputs
        rows = inputs.handovers
        rows = rows[rows["via"].isin((DATA, DECLARED)).to_numpy() & inputs.works[rows["producer"].to_numpy()]]
        rows = rows[rows["producer"] != rows["consumer"]]
        consumer, given = (rows[name].to_numpy(dtype=np.int64) for name in ("consumer", "given_ns"))
        self._start = inputs.tasks["start_ns"].to_numpy(dtype=np.int64)
        self._own = grouping.most(consumer, given, len(inputs.tasks), 0)
        self._others = np.sort(given[~inputs.works[consumer]])
        m = inputs.m
        self._clients = set(inputs.of_who[m.bursts["who"].to_numpy()[m.of_type("sock")]].tolist())

    def until(self, task: int) -> int:
        """When the task, or a process that is no task and may have started it, had the last of what others gave."""
        before = int(np.searchsorted(self._others, self._start[task], side="right"))
        return max(int(self._own[task]), int(self._others[before - 1]) if before else 0)

    def by_server(self, task: int) -> bool:
        """Whether the task used a socket: what passes through a server is not known."""
        return task in self._clients


RULE = Rule(
    kind=SEQUENCE,
    about=NOTE,
    title="Tasks that a script ran one after the other, without need",
    definition=(
        "Tasks of one stage on the critical path began when the script that starts them had waited for the one before,"
        " though neither they nor the script had read anything that it had made; tasks that use sockets are left out."
        " The estimate is the time for which they could have run before, at most the share of the time in which"
        f" processors were idle, and the makespan less the longest chain of work. Where {MUCH_USED:.0%} of the"
        " processors' time was used, there is none."
    ),
    advice=(
        "If nothing else orders them, run them side by side, as far as processors and memory allow: `&` and `wait`,"
        " xargs -P, GNU parallel, make -j, or a workflow manager."
    ),
    source="Graham 1969 (bounds on multiprocessing)",
    query="tailrace query {run} {stage} --by task --agg min:ts --agg max:ts --sort min_ts",
    find=find,
    thresholds=(LEAST,),
    change="tasks side by side",
)
