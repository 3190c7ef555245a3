"""Tasks that were ready while others ran in their place."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tailrace.analyzer.insights import resource_waits, whatif
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.critical import RESOURCE
from tailrace.analyzer.insights.finding import EVIDENCE, TIME, Match, Row, Rule
from tailrace.analyzer.insights.findings._concurrency import LEAST, MUCH_USED, used_share
from tailrace.analyzer.model import outcomes
from tailrace.analyzer.util import intervals
from tailrace.analyzer.util.formatting import time_text


def find(found: Analyses) -> Iterator[Match]:
    """The waits of the path, as one match."""
    path, makespan = found.critical.path, found.inputs.makespan_ns
    pieces = path[(path["via"] == RESOURCE) & (path["ready_ns"] < path["begin_ns"])]
    since, until = (pieces[name].to_numpy(dtype=np.int64) for name in ("ready_ns", "begin_ns"))
    alone = np.zeros(len(pieces), dtype=np.int64)
    waits = intervals.union(intervals.make(alone, since, until))
    waited, used = int(intervals.length(waits, 1)[0]), used_share(found, waits, set(pieces["task"].tolist()))
    if LEAST.reached(waited, makespan) and used < MUCH_USED:
        most = _most_at_once(found)
        known = found.inputs.managed or most > 1
        gain = int(min(waited * (1 - used), makespan - found.critical.bound_ns))
        if known:
            gain = max(min(gain, whatif.estimate(found.inputs, workers=2 * most).saved_ns), 0)
        yield Match(
            title=f"Tasks of the critical path were ready for {time_text(waited)} of {time_text(makespan)} while others"
            f" ran in their place, at most {most} at a time",
            names={"workers": str(2 * most)},
            query="" if known else "tailrace.open({run}).insights().critical.path",
            cost_ns=gain,
            where=f"({2 * most} at a time)",
            estimate=True,
            evidence=[
                Row(task=found.inputs.called(int(task)), ready_s=(ready - found.inputs.start_ns) / 1e9, waited_ns=ns)
                for task, ready, ns in sorted(
                    zip(pieces["task"].tolist(), since.tolist(), (until - since).tolist(), strict=True),
                    key=lambda row: -row[2],
                )[:EVIDENCE]
            ],
            tasks=set(pieces["task"].tolist()),
        )


def _most_at_once(found: Analyses) -> int:
    """How many tasks that have no others inside ran at a time; where a manager declared tasks, of these."""
    inputs = found.inputs
    tasks = resource_waits.innermost(inputs)
    if inputs.managed:
        declared = inputs.tables["declared_tasks"]
        known = set(outcomes.task_keys(declared.assign(workflow=declared["workflow"].fillna(""))))
        names = outcomes.task_keys(inputs.tasks)
        tasks = [task for task in tasks if names[task] in known]
    start, end = (inputs.tasks[name].to_numpy(dtype=np.int64)[tasks] for name in ("start_ns", "end_ns"))
    return int(resource_waits.running_at_ends(start, end).max(initial=0))


RULE = Rule(
    kind="limited concurrency",
    about=TIME,
    title="Tasks that were ready while others ran in their place",
    definition=(
        "The part of the makespan in which a task of the critical path had all its data and predecessors, and"
        " another task occupied the worker, the nodes or the slot in which it then ran. A task that needed nothing"
        " of others was ready when it was submitted. What more workers could save at most is the makespan less the"
        " longest chain of work, and the share of that time in which processors were idle; where"
        f" {MUCH_USED:.0%} of them were busy, more workers would only share them. It is no more than `tailrace whatif`"
        " estimates for twice as many."
    ),
    advice=(
        "Run more tasks at a time, as far as processors and memory allow (`tailrace whatif --workers` estimates the"
        " gain)."
    ),
    source="Yang and Miller 1988 (critical path of parallel programs); Graham 1969 (bounds on multiprocessing)",
    query="tailrace whatif {run} --workers {workers}",
    find=find,
    thresholds=(LEAST,),
    change="more workers",
)
