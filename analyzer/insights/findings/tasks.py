"""Findings about tasks: which could run beside each other, take longer than others or repeat work."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from pathlib import PurePosixPath
from typing import NamedTuple

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table, file_classes
from tailrace.analyzer.insights import (
    access_patterns,
    call_costs,
    command_lines,
    resource_waits,
    retries,
    start_ups,
    whatif,
)
from tailrace.analyzer.insights.access_costs import SHORT_NS
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.critical import RESOURCE
from tailrace.analyzer.insights.failures import first_line
from tailrace.analyzer.insights.finding import (
    EVIDENCE,
    GAPS,
    IO,
    LEAST,
    NOTE,
    SEQUENCE,
    TIME,
    Evidence,
    Match,
    Rule,
    Threshold,
    more,
    rows_of,
)
from tailrace.analyzer.insights.findings.calls import of_stages
from tailrace.analyzer.insights.findings.files import bytes_by_process
from tailrace.analyzer.insights.inputs import FLOOR_BYTES, Inputs
from tailrace.analyzer.insights.lifetime import COPIER, COPIERS, KERNEL
from tailrace.analyzer.insights.retries import Retry
from tailrace.analyzer.model import outcomes, own_time, requests, time_model
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.model.order import AWAITED, DATA, DECLARED
from tailrace.analyzer.model.outcomes import RETRIED
from tailrace.analyzer.model.process_tree import FORK
from tailrace.analyzer.store import processes
from tailrace.analyzer.util import grouping, intervals
from tailrace.analyzer.util.formatting import bytes_text, count_text, time_text
from tailrace.analyzer.util.intervals import Intervals
from tailrace.analyzer.util.types import Bools, Ints, Row
from tailrace.base.exit_codes import signal_text

LEAST_IDLE = Threshold(25, "% of the makespan")
MUCH_USED = 0.75
"""Of the processors' time, from which on more workers would mostly share them."""


ONE = 1.1
"""Processors that a process was on, up to which it is taken to have computed in one thread at a time."""


def used_share(found: Analyses, waits: intervals.Intervals, tasks: set[int]) -> float:
    """The share of the processors that was used meanwhile; where all tasks are threads of one process that was never on
    more than one, of one, by all of its tasks: what computes in an interpreter does so one by one."""
    inputs, used = found.inputs, found.processors.used(waits)
    of = np.unique(inputs.lives.process[np.isin(inputs.of_who, [*tasks])])
    beside = np.unique(inputs.of_who[np.isin(inputs.lives.process, of)])
    beside = beside[inputs.works[beside]]
    if len(of) > 1 or len(beside) < 2:
        return used
    spent = inputs.spent.parts().loc[beside]
    if 2 * int(spent[time_model.UNKNOWN].sum()) > int(spent.to_numpy().sum()):
        return min(used * found.processors.count, 1.0)
    computed, ready = (int(spent[state].sum()) for state in (time_model.COMPUTING, time_model.READY))
    lasted = max(intervals.total(_ran(inputs, beside)), 1)
    return used if computed > ONE * lasted else min((computed + ready) / lasted, 1.0)


def _ran(inputs: Inputs, tasks: Ints) -> Ints:
    """When at least one of the tasks ran, (n, 2)."""
    return intervals.united(inputs.tasks.loc[tasks, ["start_ns", "end_ns"]].to_numpy(np.int64))


def limited_concurrency(found: Analyses) -> Iterator[Match]:
    """The waits of the path, as one match."""
    path, makespan = found.critical.path, found.inputs.makespan_ns
    pieces = path[(path["via"] == RESOURCE) & (path["ready_ns"] < path["begin_ns"])]
    since, until = (pieces[name].to_numpy(dtype=np.int64) for name in ("ready_ns", "begin_ns"))
    alone = np.zeros(len(pieces), dtype=np.int64)
    waits = intervals.union(intervals.make(alone, since, until))
    waited, used = int(intervals.length(waits, 1)[0]), used_share(found, waits, set(pieces["task"].tolist()))
    if LEAST_IDLE.reached(waited, makespan) and used < MUCH_USED:
        most = _most_at_once(found)
        known = found.inputs.managed or most > 1
        gain = int(min(waited * (1 - used), makespan - found.critical.bound_ns))
        if known:
            gain = max(min(gain, whatif.estimate(found.inputs, workers=2 * most).saved_ns), 0)
        reserved = _reserved_cores(found, waits)
        yield Match(
            title=f"Tasks of the critical path were ready for {time_text(waited)} of {time_text(makespan)} while others"
            f" ran in their place, at most {most} at a time{f': {reserved}' if reserved else ''}",
            advice=FEWER_CORES if reserved else "",
            change="fewer cores reserved for each task" if reserved else "",
            names={"workers": str(2 * most)},
            query="" if known else "tailrace.open({run}).insights().critical.path",
            cost_ns=gain,
            where=f"({2 * most} at a time)",
            estimate=True,
            evidence=[
                Evidence(
                    task=found.inputs.called(int(task)), ready_s=(ready - found.inputs.start_ns) / 1e9, waited_ns=ns
                )
                for task, ready, ns in sorted(
                    zip(pieces["task"].tolist(), since.tolist(), (until - since).tolist(), strict=True),
                    key=lambda row: -row[2],
                )[:EVIDENCE]
            ],
            tasks=set(pieces["task"].tolist()),
        )


MOST_OF_TIME = 0.5
"""Of the time of the tasks that ran in the place of others, from which on their requests are why."""
FEWER_CORES = (
    "Ask for as many cores as a task uses (threads: in Snakemake, cpus in Nextflow, cores in Flux, --cpus-per-task in"
    " Slurm), so that more run at a time on the same ones; or have its program use what it asks for."
)
"""The advice where tasks asked for more cores than they use."""


def _reserved_cores(found: Analyses, waits: intervals.Intervals) -> str:
    """Words on the tasks that ran in these times, if most of them had several cores reserved and computed on no more
    than one; "": they did not, or it is not known."""
    inputs, told = found.inputs, found.processors
    if "declared_tasks" not in inputs.tables:
        return ""
    asked, names = requests.of_table(inputs.tables["declared_tasks"]), outcomes.task_keys(inputs.tasks)
    tasks = np.array([at for at in resource_waits.innermost(inputs) if names[at] in asked], dtype=np.int64)
    start, end = (inputs.tasks[name].to_numpy(dtype=np.int64)[tasks] for name in ("start_ns", "end_ns"))
    ran = intervals.cover(waits, 1).inside(np.zeros(len(tasks), dtype=np.int64), start, end)
    own = told.task_of_process
    known = (own >= 0) & (told.ready >= 0)
    ready = grouping.sums(own[known], told.ready[known], len(inputs.tasks))[tasks]
    share = (told.of_task[tasks] + ready) / np.maximum(end - start, 1)
    several = np.array([asked[names[task]].get("cores", 0) >= 2 for task in tasks], dtype=np.bool_)
    told_of = (told.of_task[tasks] >= 0) & np.isin(tasks, own[known])
    over = several & told_of & (share <= ONE) & (ran > 0)
    if not over.any() or ran[over].sum() < MOST_OF_TIME * max(int(ran.sum()), 1):
        return ""
    stage = inputs.tasks["stage_code"].to_numpy(dtype=np.int64)[tasks]
    top = int(np.bincount(stage[over], ran[over]).argmax())
    mine = over & (stage == top)
    # Of a stage in which one did use them, the request fits that one.
    if (told_of & several & (stage == top) & (share > ONE)).any():
        return ""
    cores = sorted({int(asked[names[task]]["cores"]) for task in tasks[mine]})
    span = f"{cores[0]}" if len(cores) == 1 else f"{cores[0]} to {cores[-1]}"
    name = str(inputs.stages["stage"].iat[top])
    who = "each task" if mine.sum() > 1 else "the task"
    return f"{who} of {name} asked for {span} cores and had work for {max(float(share[mine].max()), 0.1):.1f} at most"


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


LIMITED_CONCURRENCY = Rule(
    kind="limited concurrency",
    about=TIME,
    title="Tasks that were ready while others ran in their place",
    definition=(
        "The part of the makespan in which a task of the critical path had all its data and predecessors, and"
        " another task occupied the worker, the nodes or the slot in which it then ran. A task that needed nothing"
        " of others was ready when it was submitted. What more workers could save at most is the makespan less the"
        " longest chain of work, and the share of that time in which processors were idle; where"
        f" {MUCH_USED:.0%} of them were busy, more workers would only share them. It is no more than `tailrace whatif`"
        " estimates for twice as many. Where most of what ran meanwhile had asked for 2 cores or more, and by the"
        f" kernel's account was on {ONE:g} at most, or ready for one, the change is to ask for fewer."
    ),
    advice=(
        "Run more tasks at a time, as far as processors and memory allow (`tailrace whatif --workers` estimates the"
        " gain)."
    ),
    source="Yang and Miller 1988 (critical path of parallel programs); Graham 1969 (bounds on multiprocessing)",
    query="tailrace whatif {run} --workers {workers}",
    find=limited_concurrency,
    thresholds=(LEAST_IDLE,),
    change="more workers",
)


HELD_UP = Threshold(25, "% of the time of these tasks, but for what they waited for processors")


class _Interpreter(NamedTuple):
    tasks: Ints
    most: int
    used: float
    waited: float
    path_ns: int


def shared_interpreter(found: Analyses) -> Iterator[Match]:
    """All such processes, as one match."""
    inputs = found.inputs
    rows = sorted(_shared_interpreters(found), key=lambda row: -row.path_ns)
    cost = min(sum(row.path_ns for row in rows), inputs.makespan_ns)
    if not LEAST.reached(cost, inputs.makespan_ns):
        return
    top = rows[0]
    stages = inputs.tasks["stage_code"].to_numpy()[top.tasks]
    name = str(inputs.stages["stage"].iat[int(np.bincount(stages).argmax())])
    yield Match(
        title=f"{len(top.tasks):,} tasks, most of {name}, ran in threads of one Python process, up to {top.most:,} at a"
        f" time, and were on {top.used:.1f} processors together; they waited {top.waited:.0%} of the time for other"
        f" threads of it{more(len(rows))}",
        names={"stage": name},
        cost_ns=cost,
        estimate=True,
        count=len(rows),
        evidence=[
            Evidence(tasks=len(row.tasks), at_a_time=row.most, processors=row.used, waited=row.waited) for row in rows
        ][:EVIDENCE],
        tasks={int(task) for row in rows for task in row.tasks},
        where=f"for {name}",
    )


def _shared_interpreters(found: Analyses) -> Iterator[_Interpreter]:
    inputs, lives, path = found.inputs, found.inputs.lives, found.critical.path
    works = np.flatnonzero(inputs.works[inputs.of_who])
    several = grouping.distinct(lives.process[works], inputs.of_who[works], len(lives.actors)) > 1
    for process in np.flatnonzero(several).tolist():
        several[process] = file_classes.PYTHON.match(inputs.m.program(lives.last(process))) is not None
    mine = works[several[lives.process[works]]]
    if not len(mine):
        return
    # What its threads do is asked, not what the task's other processes do.
    part, first = grouping.numbered(grouping.pack(lives.process[mine], inputs.of_who[mine]))
    parts = np.full(len(inputs.of_who), -1, dtype=np.int64)
    parts[mine] = part
    every = inputs.time.states(parts).parts()
    on_path = path[path["task"] >= 0].groupby("task")["thread"].sum()
    for process in np.flatnonzero(several).tolist():
        of_process = np.flatnonzero(lives.process[mine[first]] == process)
        tasks, spent = inputs.of_who[mine[first[of_process]]], every.iloc[of_process].sum()
        start, end = (inputs.tasks[name].to_numpy(dtype=np.int64)[tasks] for name in ("start_ns", "end_ns"))
        most = int(resource_waits.running_at_ends(start, end).max(initial=0))
        lasted, ready = max(intervals.total(_ran(inputs, tasks)), 1), int(spent[time_model.READY])
        computed = int(spent[time_model.COMPUTING])
        busy = MUCH_USED * lasted <= computed + ready and computed <= ONE * lasted
        if most > 1 and busy and HELD_UP.reached(int(spent["thread"]), int(spent.sum()) - ready):
            waited = int(spent["thread"]) / int(spent.sum())
            path_ns = int(on_path.reindex(tasks, fill_value=0).sum())
            yield _Interpreter(tasks, most, computed / lasted, waited, path_ns)


SHARED_INTERPRETER = Rule(
    kind="threads of one interpreter",
    about=TIME,
    title="Tasks in threads of one Python process, of which one computes at a time",
    definition=(
        "Several tasks at a time ran in threads of one Python process, which together were on one processor at most,"
        f" or ready for it, for {MUCH_USED:.0%} of the time or more, and waited for other threads of the process for"
        f" {HELD_UP} or more: one thread has the interpreter's lock, the others wait for it. The estimate is that wait"
        " on the critical path: a bound. More threads gain nothing."
    ),
    advice=(
        "Run them in processes (Dask: more workers with threads_per_worker=1; Parsl: HighThroughputExecutor;"
        " ProcessPoolExecutor), or in code that gives the lock free while it computes (NumPy, compiled extensions)."
    ),
    source="Python's documentation, glossary: global interpreter lock",
    query="tailrace stage {run} {stage}",
    find=shared_interpreter,
    thresholds=(HELD_UP, LEAST),
    change="processes in place of threads",
)


def sequential_tasks(found: Analyses) -> Iterator[Match]:
    """The tasks of the path that did, as one match."""
    inputs, path = found.inputs, found.critical.path
    stage, rows = inputs.tasks["stage_code"].to_numpy(), path.to_dict("records")
    start, handed = inputs.tasks["start_ns"].to_numpy(), _Handed(found)
    pieces: list[tuple[int, int, int]] = []
    begun = inputs.end_ns
    for before, row in pairwise(rows):
        task, last, begin = (int(value) for value in (row["task"], before["task"], row["begin_ns"]))
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
    if not LEAST_IDLE.reached(waited, inputs.makespan_ns) or used >= MUCH_USED:
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
            Evidence(task=inputs.called(task), ready_s=(ready - inputs.start_ns) / 1e9, waited_ns=begin - ready)
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


SEQUENTIAL_TASKS = Rule(
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
    find=sequential_tasks,
    thresholds=(LEAST_IDLE,),
    change="tasks side by side",
)


def late_submissions(found: Analyses) -> Iterator[Match]:
    """All such tasks, as one match."""
    inputs, path = found.inputs, found.critical.path
    early = _early_inputs(found)
    rows = [
        (int(piece["begin_ns"]) - early[int(piece["task"])], int(piece["task"]), int(before["task"]))
        for before, piece in pairwise(path.to_dict("records"))
        if piece["via"] == AWAITED and int(piece["task"]) in early
    ]
    rows.sort(reverse=True)
    waited = sum(row[0] for row in rows)
    if not rows or not LEAST.reached(waited, inputs.makespan_ns):
        return
    gain = found.replays.unawaited(early, min(waited, inputs.makespan_ns - found.critical.bound_ns))
    if not LEAST.reached(gain.ns, inputs.makespan_ns):
        return
    longest, task, awaited = rows[0]
    stage = inputs.tasks["stage_code"].to_numpy()
    also = sum(stage[one] == stage[task] for one in early) - 1
    others = f" and {count_text(also, 'other')} of {inputs.stage_of(task)}" if also else ""
    name, waited_for = inputs.called(task), f"{inputs.called(awaited)}{_usually(found, awaited)}"
    yield Match(
        title=f"The program waited for {waited_for} before it submitted {name}{others}, which read nothing of it; all"
        f" that {name} needs of others was there {time_text(longest)} earlier{more(len(rows))}",
        names={"task": found.task_id(awaited)},
        count=len(rows),
        evidence=[
            Evidence(task=inputs.called(one), awaited=inputs.called(other), waited_ns=ns)
            for ns, one, other in rows[:EVIDENCE]
        ],
        tasks={one for _, *ends in rows for one in ends},
        where=f"({inputs.stage_of(task)})",
        **gain.costs,
    )


def _early_inputs(found: Analyses) -> dict[int, int]:
    """Tasks that were submitted after one was over of which they need nothing -> when they had all that they need of
    others. Those that need nothing of any task are left out: what they need may be a result that no file shows."""
    inputs = found.inputs
    awaited = inputs.order.awaited_handovers()
    last = dict(zip(awaited["consumer"].tolist(), awaited["producer"].tolist(), strict=True))
    over = dict(zip(awaited["consumer"].tolist(), awaited["given_ns"].tolist(), strict=True))
    rows = inputs.handovers
    rows = rows[rows["via"].isin((DATA, DECLARED)).to_numpy() & inputs.works[rows["producer"].to_numpy()]]
    needs: dict[int, int] = {}
    for producer, consumer, given in rows[["producer", "consumer", "given_ns"]].itertuples(index=False):
        if consumer in last and producer != consumer:
            needs[consumer] = max(needs.get(consumer, 0), over[consumer] if producer == last[consumer] else given)
    return {task: given for task, given in needs.items() if given < over[task]}


def _usually(found: Analyses, task: int) -> str:
    """How much longer a task worked than the median of its stage, where that is much."""
    work = np.maximum(found.critical.tasks["work_ns"].to_numpy() - found.processors.ready_of_task, 0)
    stage = found.inputs.tasks["stage_code"].to_numpy()
    usual = int(np.median(work[stage == stage[task]]))
    long = usual > 0 and work[task] > SLOW * usual
    return f" ({work[task] / usual:.1f} times the median of its stage)" if long else ""


LATE_SUBMISSIONS = Rule(
    kind="submitted after others",
    about=TIME,
    title="Tasks that their program submits when others are over, of which they need nothing",
    definition=(
        "A program waited for results before it submitted a task of the critical path (a barrier between stages)."
        " The task reads files of some of what it waited for, or depends on them, but not of the one that ended last."
        " The estimate is by `tailrace whatif`'s replay with such tasks submitted at once; at most it is the time"
        " between what they need and their submission."
    ),
    advice=(
        "Submit them with their dependencies (futures or files), before those are over: then each begins when its own"
        " input is there. Where a task needs the other one's result all the same, start that one first, or split it."
    ),
    source="Reasoning: a barrier makes all tasks of a stage wait for its longest one",
    query="tailrace task {run} {task}",
    find=late_submissions,
    thresholds=(LEAST,),
    change="submitting tasks before the others are over",
)


MUCH = Threshold(25, "% of the time in which tasks ran")
PARALLEL = Threshold(3, "tasks in another stage, of which several ran at a time")


def serial_stage(found: Analyses) -> Iterator[Match]:
    """The task that was alone for longest."""
    inputs = found.inputs
    tasks = np.array(resource_waits.innermost(inputs), dtype=np.int64)
    tasks = tasks[(inputs.tasks["task"] != "").to_numpy(dtype=np.bool_)[tasks]]
    if not len(tasks):
        return
    start, end = (inputs.tasks[name].to_numpy(dtype=np.int64)[tasks] for name in ("start_ns", "end_ns"))
    stage = inputs.tasks["stage_code"].to_numpy(dtype=np.int64)[tasks]
    of_stage = np.bincount(stage, minlength=len(inputs.stages))
    widths = {
        code: int(resource_waits.running_at_ends(start[stage == code], end[stage == code]).max())
        for code in np.flatnonzero(of_stage >= PARALLEL.value).tolist()
    }
    width = max(widths.values(), default=1)
    alone = _alone(start, end)
    alone[of_stage[stage] > 1] = 0
    top = int(alone.argmax())
    ran = intervals.total(intervals.united(np.column_stack((start, end))))
    if width < 2 or not MUCH.reached(int(alone[top]), ran):
        return
    task, name = int(tasks[top]), inputs.called(int(tasks[top]))
    others = max(widths, key=lambda code: widths[code])
    program, computed = _computing(found, task)
    by = f" (most of it {program}, {time_text(computed)} on a processor)" if program not in ("", *name.split()) else ""
    yield Match(
        title=f"{name} ran alone for {time_text(int(alone[top]))} of {time_text(inputs.makespan_ns)}{by}, where up to"
        f" {count_text(width, 'task')} of {inputs.stages['stage'].iat[others]} ran at a time",
        names={"task": str(inputs.tasks["task"].iat[task])},
        cost_ns=int(alone[top] * (1 - 1 / width)),
        estimate=True,
        evidence=rows_of(
            inputs.tasks.iloc[tasks]
            .assign(task=[inputs.called(int(t)) for t in tasks], alone_ns=alone)[["task", "alone_ns"]]
            .sort_values("alone_ns", ascending=False, kind="stable")
        ),
        tasks={task},
        where=f"of {name}",
    )


def _computing(found: Analyses, task: int) -> tuple[str, int]:
    """The program that took most of a task's processor time, and how long; "" where none took more than half of it, or
    it is not known."""
    inputs, used = found.inputs, found.processors.of_process
    sums: Counter[str] = Counter()
    for process in np.unique(inputs.lives.process[inputs.of_who == task]).tolist():
        sums[inputs.m.program(inputs.lives.last(process))] += max(int(used[process]), 0)
    program, most = sums.most_common(1)[0]
    return (program, most) if 2 * most > sums.total() else ("", 0)


def _alone(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """For how long each task ran while no other one did."""
    every = np.arange(len(start), dtype=np.int64)
    times = np.unique(np.concatenate((start, end)))
    running = np.searchsorted(np.sort(start), times, side="right") - np.searchsorted(np.sort(end), times, side="right")
    single = running[:-1] == 1
    none = np.zeros(int(single.sum()), dtype=np.int64)
    pieces = intervals.cover(intervals.union(intervals.make(none, times[:-1][single], times[1:][single])), 1)
    return np.asarray(pieces.inside(np.zeros_like(every), start, end), dtype=np.int64)


SERIAL_STAGE = Rule(
    kind="serial stage",
    about=TIME,
    title="A task beside which nothing else runs, in a run that is parallel elsewhere",
    definition=(
        f"The one task of a stage ran for {MUCH} while no other task did, and the tasks of another stage ({PARALLEL})"
        " did run at a time. The estimate is what it would take less in as many parts as those ran at a time: an upper"
        " bound, for work that can be divided."
    ),
    advice=(
        "Divide its work among several tasks, begin what does not need it before it, or give it what makes it faster"
        " (threads, a faster program). `tailrace task` says where its time goes."
    ),
    source="Amdahl 1967 (the serial part bounds the speedup)",
    query="tailrace task {run} {task}",
    find=serial_stage,
    thresholds=(MUCH, PARALLEL),
    change="dividing the work",
)


SIBLINGS = Threshold(5, "tasks in the stage")
FAR = 3.5
"""Of the modified z-score, from which on Iglewicz and Hoaglin call a value an outlier."""
_MAD_TO_SIGMA = 0.6745
FIRST = (
    "Start it first, then the others fill the time beside it; or give it less, or split it. `tailrace task` says what"
    " sets it apart from its stage (input, host, I/O)."
)
"""The advice where others were over before it began."""
SLOW = 1.5
"""Times as long as the median."""


def stragglers(found: Analyses) -> Iterator[Match]:
    """All such tasks, as one match."""
    inputs, tasks = found.inputs, found.critical.tasks
    stage = inputs.tasks["stage_code"].to_numpy()
    tagged = (inputs.tasks["task"] != "").to_numpy() & inputs.works
    tagged &= (np.bincount(stage[tagged], minlength=len(inputs.stages)) >= SIBLINGS.value)[stage]
    if not tagged.any():
        return
    locked = np.zeros(len(tasks), dtype=np.int64)
    for wait in found.waits.locks:
        locked[wait.task] += wait.waited_ns
    own = np.maximum(tasks["work_ns"].to_numpy() - found.processors.ready_of_task - locked, 0)
    rows = tasks.assign(stage_code=stage, task=np.arange(len(tasks)), work_ns=own)[tagged]
    work = rows.groupby("stage_code")["work_ns"]
    median = work.transform("median")
    spread = (rows["work_ns"] - median).abs().groupby(rows["stage_code"]).transform("median")
    far = (rows["work_ns"] - median) * _MAD_TO_SIGMA > FAR * spread
    late = far & (work.transform("size") >= SIBLINGS.value) & rows["critical"] & (rows["work_ns"] > SLOW * median)
    late &= ~_only_shared(found, rows)
    rows = rows.assign(median_ns=median.astype(np.int64))[late]
    rows["gain_ns"] = np.minimum(rows["work_ns"] - rows["median_ns"], rows["path_ns"])
    rows = rows[rows["gain_ns"] > 0].sort_values("gain_ns", ascending=False, kind="stable")
    # What it does is to be done by somebody.
    cost = min(int(rows["gain_ns"].sum()), inputs.makespan_ns - found.processors.least_ns)
    if not LEAST.reached(cost, inputs.makespan_ns):
        return
    top = rows.iloc[0]
    task, took, usual = int(top["task"]), int(top["work_ns"]), int(top["median_ns"])
    compared = (
        f", {took / usual:.1f} times as long as the median of its stage ({time_text(usual)}),"
        if usual
        else ", while more than half of the tasks of its stage did no work,"
    )
    row = inputs.tasks.iloc[task]
    siblings = inputs.tasks[tagged & (stage == stage[task])]
    waited = int(row["start_ns"]) - int(siblings["start_ns"].min())
    is_late = waited > 0 and int(row["start_ns"]) >= int(siblings["end_ns"].min())
    late_words = f"; it began {time_text(waited)} after the first one" if is_late else ""
    others = np.flatnonzero(tagged & (stage == stage[task]) & (np.arange(len(tasks)) != task))
    yield Match(
        title=f"{inputs.called(task)} worked {time_text(took)}{compared} and the critical path goes through it"
        f"{_apart(found, task, others, took - usual)}{late_words}{more(len(rows))}",
        advice=FIRST if is_late else "",
        names={"task": found.task_id(task)},
        cost_ns=cost,
        estimate=True,
        count=len(rows),
        evidence=rows_of(
            rows.assign(task=[inputs.called(int(one)) for one in rows["task"]])[
                ["task", "work_ns", "median_ns", "path_ns", "gain_ns"]
            ]
        ),
        tasks=set(np.flatnonzero(np.isin(stage, rows["stage_code"]))),
        where=f"for {inputs.called(task)}",
    )


def _apart(found: Analyses, task: int, others: Ints, longer_ns: int) -> str:
    """What sets a task apart from the others of its stage, in words: that it read more, ran on another host, or that
    most of what it worked longer was in calls on files; "": none of these."""
    inputs, m = found.inputs, found.inputs.m
    data = m.bursts[m.classed(("data",))]
    rows = data.assign(key=grouping.pack(inputs.of_who[data["who"].to_numpy()], data["file"].to_numpy()))
    wrote = rows["dir"] == edge_table.WRITE
    rows = rows[~wrote & ~rows["key"].isin(rows["key"][wrote])]  # what it put aside is no input
    of = inputs.of_who[rows["who"].to_numpy()]
    read = grouping.sums(of, rows["bytes"].to_numpy(), len(inputs.tasks))
    mine, usual = int(read[task]), int(np.median(read[others]))
    if mine >= FLOOR_BYTES and mine > SLOW * usual:
        largest = str(m.paths[int(rows[of == task].groupby("file")["bytes"].sum().idxmax())])
        times = (
            f"{mine / usual:.1f} times the others' median ({bytes_text(usual)})" if usual else "the others' median 0 B"
        )
        return f": its input is {bytes_text(mine)} (most of it {largest}), {times}"
    host = m.who["host"].astype(str).to_numpy(dtype=object)
    own, other = (set(host[np.isin(inputs.of_who, some)].tolist()) for some in ([task], others))
    if len(own) == 1 and "" not in own | other and own.isdisjoint(other):
        return f": it alone ran on {own.pop()}"
    files = inputs.spent.parts()[[edge_table.KINDS[kind] for kind in edge_table.FILES]].sum(axis=1).to_numpy()
    took, least = int(files[task]), int(np.median(files[others]))
    if 2 * (took - least) > longer_ns:
        return f": it was in calls on files for {time_text(took)}, the others for {time_text(least)} (median)"
    return ""


def _only_shared(found: Analyses, rows: pd.DataFrame) -> Bools:
    """Whether each task needed no more of a processor than its siblings, in a run with more tasks at a time than
    processors: it had to wait for one."""
    inputs, processors = found.inputs, found.processors
    start, end = (inputs.tasks.loc[inputs.works, name].to_numpy(dtype=np.int64) for name in ("start_ns", "end_ns"))
    most = int(resource_waits.running_at_ends(start, end).max(initial=0))
    used = pd.Series(processors.of_task[rows["task"].to_numpy()], index=rows.index)
    used = used.where(used >= 0)
    usual = used.groupby(rows["stage_code"]).transform("median")
    crowded = 0 < processors.count < most
    return np.asarray((used <= SLOW * usual) & crowded, dtype=np.bool_)


STRAGGLERS = Rule(
    kind="straggler",
    about=TIME,
    title="A task that took much longer than the others of its stage",
    definition=(
        "A task on the critical path of a stage with five tasks or more worked more than 1.5 times the median of"
        f" them, and its modified z-score (by the median of the deviations from the median) is above {FAR:g}. Time in"
        " which it was blocked by others, or waited for a processor, does not count, nor does a task that needed no"
        " more processor time than the others while more tasks ran than there are processors. What sets it apart is"
        f" told where its input is more than {SLOW:g} times the others' median, it ran on another host than they, or"
        " most of the difference was in calls on files. The gain is what it worked longer than the median,"
        " at most its part of the critical path, and what the processors were idle for."
    ),
    advice="`tailrace task` says what sets it apart from its stage (input, host, I/O). Give it less, or split it.",
    source="Iglewicz and Hoaglin 1993 (outliers); Xu et al. 2017 (DXT: ranks that lag)",
    query="tailrace task {run} {task}",
    find=stragglers,
    thresholds=(SIBLINGS, LEAST),
    change="less work",
)


RANKS = Threshold(call_costs.RANKS, "ranks in the stage")


def rank_imbalance(found: Analyses) -> Iterator[Match]:
    """All stages with such a rank, as one match."""
    rows = call_costs.ranks(found.inputs)
    if len(rows):
        rows = rows[rows["outside"] & (rows["gain_ns"] > call_costs.IMBALANCE * rows["time_ns"])]
    names = {"rank": str(rows["rank"].iat[0])} if len(rows) else {}
    yield from of_stages(found, rows, _title, names)


def _title(top: Row, count: int) -> str:
    return (
        f"{top['stage']}: rank {top['rank']} spent {time_text(int(top['time_ns']))} in calls on files, the mean of"
        f" {top['ranks']} ranks is {time_text(int(top['mean_ns']))}; it moved {bytes_text(int(top['bytes']))} of"
        f" {bytes_text(int(top['all_bytes']))}{more(count)}"
    )


RANK_IMBALANCE = Rule(
    kind="rank imbalance",
    about=TIME,
    title="A rank that spends more time on I/O than the others",
    definition=(
        f"Of {RANKS} or more, one was in calls on files for longer than the box plot's whisker (the third quartile and"
        f" {access_patterns.WHISKER:g} times the distance of the quartiles), and more than {call_costs.IMBALANCE:.0%}"
        " of its time is above the mean; and it moved as much more, or lags by"
        f" {time_text(call_costs.LAG_NS)}. Fewer than {access_patterns.LEAST_MEMBERS} ranks have no quartiles: of"
        f" these, one moved {call_costs.ALONE:.0%} of all bytes or more. The estimate is that part: what it would take"
        " less if all did the same."
    ),
    advice=(
        "Spread the work: collective calls (MPI_File_write_all) with several aggregators, a part of the file for each"
        " rank, or a writer per node in place of rank 0. `tailrace rank` shows what the rank did."
    ),
    source="Xu et al. 2017 (DXT: box plot of ranks); Bez et al. 2022 (Drishti: 15%)",
    query="tailrace query {run} {stage} --by rank --agg count --agg sum:size --agg sum:dur --sort sum_dur",
    find=rank_imbalance,
    thresholds=(RANKS, LEAST),
    change="I/O spread over the ranks",
    explains=(IO,),
)


TASKS = Threshold(3, "tasks that do the same")
READ = Threshold(128, "KiB of data")
_SMALL = 0.01
"""Of a process's largest input or output: a smaller one (a log, a list of options) doesn't tell its work."""
_INPUT, _OUTPUT = "(input)", "(output)"


BY_INDEX = (
    "If each needs a part of it, let it ask for that by the index (samtools view FILE REGION, tabix, bcftools -r) and"
    " read no more; else do it once, in a task of its own, and let the others read what it wrote."
)


class _Work(NamedTuple):
    """What two processes have in common that did the same, beside their arguments: the program, what they read and how
    much of it, and how much they wrote to each output."""

    program: str
    inputs: tuple[tuple[int, int], ...]
    outputs: tuple[int, ...]


class _Repeated(NamedTuple):
    program: str
    path: str
    bytes: int
    tasks: int
    gain_ns: int
    most_ns: int


def repeated_work(found: Analyses) -> Iterator[Match]:
    """All such work, as one match."""
    makespan = found.inputs.makespan_ns
    shown: list[_Repeated] = []
    tasks: set[int] = set()
    for work, doers in _repeated(found):
        users = _tasks(found, doers)
        gain, most = (int(ns * (1 - 1 / len(doers))) for ns in _took(found, np.array(doers, dtype=np.int64)))
        file, size = max(work.inputs, key=lambda row: row[1])
        name = str(found.inputs.m.paths[file])
        shown.append(_Repeated(work.program, name, size, len(users), gain, most))
        tasks |= users
    shown.sort(key=lambda row: -row.gain_ns)
    cost = min(sum(row.gain_ns for row in shown), makespan)
    if not LEAST.reached(cost, makespan):
        return
    top = shown[0]
    index = _unread_index(found, top.path, tasks)
    unused = f"; {index}, named after it, is a declared input, and none of them read it" if index else ""
    yield Match(
        title=f"{top.tasks:,} tasks each ran {top.program} over {top.path} ({bytes_text(top.bytes)})"
        f" with the same arguments, and it wrote as much every time{unused}{more(len(shown))}",
        advice=BY_INDEX if index else "",
        names={"path": top.path},
        cost_ns=cost,
        most_ns=min(sum(row.most_ns for row in shown), makespan),
        estimate=True,
        count=len(shown),
        evidence=[row._asdict() for row in shown[:EVIDENCE]],
        tasks=tasks,
        where=f"{top.program} once",
    )


def _unread_index(found: Analyses, path: str, tasks: set[int]) -> str:
    """A file that is named after another one, as indexes are (a.bam.bai, a.bai of a.bam), which some of these tasks
    declared as an input and none of them read; "" without one."""
    rows = found.declared.untouched
    rows = rows[(rows["direction"] == "r").to_numpy(dtype=np.bool_)] if len(rows) else rows
    data = PurePosixPath(os.path.normpath(path))
    for declared, mine in rows.groupby("path", sort=False) if len(rows) else ():
        one = PurePosixPath(os.path.normpath(str(declared)))
        named_after = one != data and one.with_suffix("") in (data, data.with_suffix(""))
        if named_after and found.tagged(mine, "task") <= tasks:
            return str(one)
    return ""


def _repeated(found: Analyses) -> Iterator[tuple[_Work, list[int]]]:
    """Work that processes (positions in `Inputs.lives`) of so many tasks did with the same arguments."""
    m, lives = found.inputs.m, found.inputs.lives
    lines, keys = m.command_lines, processes.keys(m.who)
    accesses = _Accesses(found)
    of_work: dict[_Work, list[int]] = {}
    for process, work in _works(found, accesses):
        of_work.setdefault(work, []).append(process)
    for work, doers in of_work.items():
        if len(_tasks(found, doers)) < TASKS.value:
            continue
        same: dict[tuple[str, ...], list[int]] = {}
        for process in doers:
            words = lines.get(keys[lives.first(process)])
            if words is not None:
                same.setdefault(_arguments(m, words, accesses, process), []).append(process)
        yield from ((work, alike) for alike in same.values() if len(_tasks(found, alike)) >= TASKS.value)


def _tasks(found: Analyses, doers: Collection[int]) -> set[int]:
    lives = found.inputs.lives
    return {int(found.inputs.of_who[lives.first(process)]) for process in doers}


def _works(found: Analyses, accesses: _Accesses) -> Iterator[tuple[int, _Work]]:
    """Position in `Inputs.lives` and work of each process that worked for one task alone, not as one of its ranks, and
    read files of data and nothing from another process."""
    inputs, m, lives = found.inputs, found.inputs.m, found.inputs.lives
    table, keys = inputs.tables.get("ranks"), processes.keys(m.who)
    ranks = set() if table is None or not len(table) else set(processes.keys(table))
    copies = found.lifetime.copies
    copies = copies[copies["evidence"].isin((KERNEL, COPIER))]
    source = dict(zip(copies["target"].tolist(), copies["source"].tolist(), strict=True))
    for process, wrote in accesses.writes.items():
        actors, taken = lives.actors[process], accesses.taken(process)
        if process in accesses.fed or sum(taken.values()) < 1024 * READ.value:
            continue
        if keys[actors[0]] in ranks or m.of_manager[actors].any() or len(set(inputs.of_who[actors].tolist())) > 1:
            continue
        program = m.program(lives.last(process))
        if program not in COPIERS:  # file_copies.py tells of these
            inputs_of = tuple(sorted((_origin(file, source), moved) for file, moved in _large(taken).items()))
            yield process, _Work(program, inputs_of, tuple(sorted(_large(wrote).values())))


class _Accesses:
    """The bytes that each process read of each file of data (reads), and that it wrote to each file and channel
    (writes); fed: the processes that read from a channel."""

    def __init__(self, found: Analyses) -> None:
        m = found.inputs.m
        some = m.classed(("data", "stream")) & (m.bursts["bytes"] > 0).to_numpy()
        rows = m.bursts.loc[some, ["who", "file", "dir", "bytes"]]
        rows = rows.assign(process=found.inputs.lives.process[rows["who"].to_numpy()])
        channel = m.class_of_file[rows["file"].to_numpy()] == file_classes.STREAM
        way = rows["dir"].to_numpy()
        self.fed: set[int] = set(rows["process"].to_numpy()[channel & (way == edge_table.READ)].tolist())
        self._reads = bytes_by_process(rows[~channel & (way == edge_table.READ)])
        self.writes = bytes_by_process(rows[way == edge_table.WRITE])

    def taken(self, process: int) -> dict[int, int]:
        """What a process read that it had not written itself."""
        mine = self.writes.get(process, {})
        return {file: moved for file, moved in self._reads.get(process, {}).items() if file not in mine}


def _large(of_file: dict[int, int]) -> dict[int, int]:
    least = _SMALL * max(of_file.values())
    return {file: moved for file, moved in of_file.items() if moved >= least}


def _origin(file: int, source: dict[int, int]) -> int:
    """What a file is a plain copy of, and that of, and so on; itself, where it is none."""
    for _ in range(len(source)):
        if file not in source:
            break
        file = source[file]
    return file


def _arguments(m: Model, words: Sequence[str], accesses: _Accesses, process: int) -> tuple[str, ...]:
    """The arguments of a process; `_INPUT` or `_OUTPUT` for one that names such a file, or what the names of outputs
    begin with. A word without a slash or a dot may be a parameter that is also a part of a name."""
    inputs = {str(m.paths[file]) for file in accesses.taken(process)}
    outputs = [str(m.paths[file]) for file in accesses.writes[process]]
    by_name: dict[str, list[str]] = {}
    for path in inputs:
        by_name.setdefault(path.rpartition("/")[2], []).append(path)

    def named(word: str) -> str:
        part = "/" + word.removeprefix("./").lstrip("/")
        if len(part) < 2 or not ("/" in word or "." in word):
            return word
        if any(path.endswith(part) for path in by_name.get(part.rpartition("/")[2], ())):
            return _INPUT
        return _OUTPUT if any(part in path for path in outputs) else word

    return tuple(named(word) for word in words[1:])


def _took(found: Analyses, process: Ints) -> tuple[int, int]:
    """For how long these processes were on a processor, and at least one of them lived, ns."""
    lives, used = found.inputs.lives, found.processors.of_process
    none = np.zeros(len(process), dtype=np.int64)
    times = intervals.union(intervals.make(none, lives.begun[process], lives.over[process]))
    together = int(intervals.length(times, 1)[0])
    known = used[process]
    return together if (known < 0).any() else min(together, int(known.sum())), together


REPEATED_WORK = Rule(
    kind="repeated work",
    about=TIME,
    title="The same program over the same data, by several tasks",
    definition=(
        f"In {TASKS}, a process was started by the same program with the same arguments (but for the names of its"
        f" files), read the same bytes of the same files or of plain copies of them, {READ} or more, nothing from"
        f" other processes, and wrote as much to each output. Files and outputs below {_SMALL:.0%} of the largest do"
        " not count, nor do the ranks of a parallel program. The estimate is the processor time of these processes,"
        " less the share of one of them, at most the time in which at least one of them ran, less that share."
        " Of a declared input that is named after the file, as its index is, it is told if none of them read it."
    ),
    advice=(
        "If nothing else decides the result (an environment variable, random numbers), do it once, in a task of its own"
        " on which these depend, and let them read what it wrote: the expanded file, the index."
    ),
    source="Reasoning: the same input gives the same output each time",
    query="tailrace query {run} --path {path} --where dir=r --by task,host,pid --agg count --agg sum:size",
    find=repeated_work,
    thresholds=(TASKS, READ, LEAST),
    change="running",
)


READERS = Threshold(2, "ranks of a program")
OF_LIFE = Threshold(25, "% of each rank's life")
WHOLE = 0.9
"""Of a file's bytes, from which on a rank has read all of it."""


class _ReadByAll(NamedTuple):
    stage: str
    program: str
    path: str
    bytes: int
    ranks: int
    computed_ns: int


def read_by_every_rank(found: Analyses) -> Iterator[Match]:
    """All such files, as one match."""
    inputs = found.inputs
    tasks: set[int] = set()
    rows: list[_ReadByAll] = []
    for row, actors in _read_by_all(found):
        rows.append(row)
        tasks |= set(inputs.of_who[actors].tolist())
    rows.sort(key=lambda row: -row.computed_ns)
    cost = min(sum(int(row.computed_ns * (1 - 1 / row.ranks)) for row in rows), inputs.makespan_ns)
    if not LEAST.reached(cost, inputs.makespan_ns):
        return
    top = rows[0]
    yield Match(
        title=f"{top.stage}: each of {count_text(top.ranks, 'rank')} read all of {top.path} ({bytes_text(top.bytes)}),"
        f" and computed for up to {time_text(top.computed_ns)} until it was through{more(len(rows))}",
        names={"path": top.path},
        cost_ns=cost,
        estimate=True,
        count=len(rows),
        evidence=[row._asdict() for row in rows[:EVIDENCE]],
        tasks=tasks,
        where=f"of {top.path.rpartition('/')[2]}",
    )


def _read_by_all(found: Analyses) -> Iterator[tuple[_ReadByAll, Ints]]:
    """Files that all ranks of a program read whole, each of which computed for long meanwhile; the ranks' actors."""
    inputs, m, lives = found.inputs, found.inputs.m, found.inputs.lives
    rank = access_patterns.ranks_of(inputs)
    if len(set(rank[rank != ""].tolist())) < READERS.value:
        return
    data = m.classed(("data",)) & m.of_type("reg") & (m.bursts["dir"] == edge_table.READ).to_numpy()
    mine = data & (m.bursts["bytes"] > 0).to_numpy() & (rank != "")[m.bursts["who"].to_numpy()]
    size = found.lifetime.files["size"].reindex(m.bursts["file"]).fillna(0).to_numpy(dtype=np.int64)
    mine &= size >= 1024 * READ.value
    key, uses = edge_table.codes(m.bursts[mine][["who", "file"]])
    of_burst = np.full(len(m.bursts), -1, dtype=np.int64)
    of_burst[mine] = key
    seen = intervals.length(intervals.union(intervals.regrouped(m.table.extents, of_burst)), len(uses))
    spans = m.bursts[mine].assign(key=key).groupby("key").agg(first=("first_ns", "min"), last=("last_ns", "max"))
    actor, file = (uses[name].to_numpy(dtype=np.int64) for name in ("who", "file"))
    spent = inputs.time.states(np.arange(len(m.who), dtype=np.int64))
    first, last = (spans[name].to_numpy(dtype=np.int64) for name in ("first", "last"))
    computed = spent.inside(actor, first, last)[time_model.COMPUTING].to_numpy()
    life = (lives.end - lives.start)[actor]
    whole = seen >= WHOLE * found.lifetime.files["size"].reindex(file).to_numpy()
    long = whole & (computed >= OF_LIFE.value / 100 * np.maximum(life, 1))
    stage = call_costs.stage_of_who(inputs)
    ranks_of: dict[tuple[int, str], set[str]] = {}
    for one in np.flatnonzero(rank != "").tolist():
        ranks_of.setdefault((int(stage[one]), m.program(one)), set()).add(str(rank[one]))
    for of_file, mine_of in grouping.parts(uses[long].assign(at=np.flatnonzero(long)), "file"):
        readers = mine_of["at"].to_numpy(dtype=np.int64)
        code, program = int(stage[actor[readers[0]]]), m.program(int(actor[readers[0]]))
        ranks = ranks_of[code, program]
        if len(ranks) < READERS.value or {str(rank[at]) for at in actor[readers]} != ranks:
            continue
        yield (
            _ReadByAll(
                stage=str(inputs.stages["stage"].iat[code]),
                program=program,
                path=str(m.paths[of_file]),
                bytes=int(found.lifetime.files["size"][of_file]),
                ranks=len(ranks),
                computed_ns=int(computed[readers].max()),
            ),
            actor[readers],
        )


READ_BY_EVERY_RANK = Rule(
    kind="read by every rank",
    about=TIME,
    title="A file that each rank of a parallel program reads and processes whole",
    definition=(
        f"All of {READERS} or more read {WHOLE:.0%} or more of a data file of {READ}, and from its first byte to its"
        f" last one each was on a processor, outside of calls, for {OF_LIFE}: to parse it. A file that is read in one"
        " call, and processed then, is none. The estimate is the processor time of the rank that took longest, less the"
        " share that is its own: an upper bound."
    ),
    advice=(
        "Let each rank read and parse its part (lines or rows from an offset on, MPI_File_read_at_all), or let one do"
        " it and scatter the arrays (MPI_Scatterv); store the data in a form that needs no parsing (HDF5, NetCDF)."
    ),
    source="Amdahl 1967: what each rank repeats is the serial part",
    query="tailrace query {run} --path {path} --where dir=r --by rank --agg count --agg sum:size",
    find=read_by_every_rank,
    thresholds=(READERS, READ, OF_LIFE, LEAST),
    change="parsing by parts",
)


STARTS = Threshold(10, "starts of a program in a stage")
SHARE = Threshold(20, "% of the program's life")


_FAILING = (
    "Look why it fails: no result of it is used. Where it cannot work here, leave it out; test once whether it can, not"
    " for each item."
)


class _Started(NamedTuple):
    stage: str
    program: str
    starts: int
    median_ns: int
    gain_ns: int
    most_ns: int
    package: str
    failed: int
    exit: int


def repeated_start_ups(found: Analyses) -> Iterator[Match]:
    """All programs, as one match."""
    inputs, loads = found.inputs, found.start_ups
    long = np.flatnonzero((loads.length_ns > SHORT_NS) & inputs.works[inputs.of_who] & ~inputs.m.of_manager)
    rows = sorted(_programs(found, long), key=lambda row: -row.gain_ns)
    saved = sum(row.gain_ns for row in rows)
    if not LEAST.reached(saved, inputs.makespan_ns):
        return
    top = rows[0]
    ends = f"; {top.failed:,} of these ended with exit code {top.exit}" if 2 * top.failed > top.starts else ""
    package = f" ({top.package})" if top.package else ""
    yield Match(
        title=f"{top.stage}: {top.program} was started {top.starts:,} times, and each time took"
        f" {time_text(top.median_ns)} to load itself and its modules{package}{ends}{more(len(rows))}",
        names={"stage": found.of_stage(top.stage)},
        cost_ns=min(saved, inputs.makespan_ns),
        most_ns=min(sum(row.most_ns for row in rows), inputs.makespan_ns),
        estimate=True,
        count=len(rows),
        evidence=[row._asdict() for row in rows[:5]],
        tasks=set(inputs.of_who[long].tolist()),
        where=f"in {top.stage}",
        advice=_FAILING if ends else "",
        change="no program that fails" if ends else "",
    )


def _programs(found: Analyses, actors: Ints) -> Iterator[_Started]:
    inputs, loads = found.inputs, found.start_ups
    lives = (inputs.lives.end - inputs.lives.start)[actors]
    stage = inputs.tasks["stage_code"].to_numpy(dtype=np.int64)[inputs.of_who]
    names = [inputs.m.program(actor) for actor in actors.tolist()]
    place = {name: at for at, name in enumerate(dict.fromkeys(names))}
    program = np.array([place[name] for name in names], dtype=np.int64)
    code, first = grouping.numbered(grouping.pack(stage[actors], program))
    spans = (
        _spans(inputs, actors, begin, end)
        for begin, end in ((loads.begin_ns, loads.end_ns), (loads.begin_ns, loads.work_ns))
    )
    together, most = (
        intervals.length(intervals.union(rows._replace(group=code[rows.group])), len(first)) for rows in spans
    )
    code_of = inputs.ends.code[inputs.lives.process]
    for group, at in enumerate(first.tolist()):
        mine = actors[code == group]
        if len(mine) < STARTS.value or not names[at]:
            continue
        if np.median(loads.length_ns[mine]) < SHARE.value / 100 * np.median(lives[code == group]):
            continue
        others = 1 - 1 / len(mine)
        failed = Counter(code_of[mine][code_of[mine] != 0].tolist())
        yield _Started(
            stage=str(inputs.stages["stage"].iat[int(stage[actors[at]])]),
            program=names[at],
            starts=len(mine),
            median_ns=int(np.median(loads.length_ns[mine])),
            gain_ns=int(together[group] * others),
            most_ns=int(most[group] * others),
            package=start_ups.most_loaded(inputs, mine),
            failed=failed.total(),
            exit=failed.most_common(1)[0][0] if failed else 0,
        )


def _spans(inputs: Inputs, actors: Ints, begin: Ints, end: Ints) -> Intervals:
    """From the fork of each actor's process to the end of its start-up, and from its last event until it was waited
    for, which is its end if that is soon; groups: positions in actors."""
    whole, over = own_time.lives(inputs.m), inputs.lives.end
    gone = np.where(whole.end - over <= SHORT_NS, np.maximum(whole.end, over), over)
    every = np.arange(len(actors), dtype=np.int64)
    first = np.minimum(np.minimum(begin, whole.start)[actors], end[actors])
    return intervals.joined(
        [intervals.make(every, first, end[actors]), intervals.make(every, over[actors], gone[actors])]
    )


REPEATED_START_UPS = Rule(
    kind="repeated start-ups",
    about=TIME,
    title="The same program, started again and again",
    definition=(
        f"{STARTS}, each of which took more than {time_text(SHORT_NS)}, and {SHARE}, from its first event to the last"
        " file of software that it read before any data: its libraries and modules. The estimate is the time in"
        " which at least one of them did so, or was made by its parent or ending, less the share of one; at most it is"
        " all of the time before a process touched data, in which what it loaded may have set itself up."
    ),
    advice=(
        "Let one process do many of these: a loop over its inputs, a pool of workers that stays, or tasks that are"
        " fewer and longer; import only what is used."
    ),
    source="fork(2), execve(2); python -X importtime",
    query="tailrace query {run} {stage} --name 'open*' --by path --agg count --agg sum:dur --sort count --limit 20",
    find=repeated_start_ups,
    thresholds=(STARTS, SHARE, LEAST),
    change="one process for many",
    explains=(GAPS,),
)


def retried_tasks(found: Analyses) -> Iterator[Match]:
    """All tasks that their manager tried again, as one match, and all commands, as another one."""
    yield from _retried_tasks(found)
    yield from _retried_commands(found)


def _retried_tasks(found: Analyses) -> Iterator[Match]:
    rows = found.outcomes[found.outcomes["status"] == RETRIED]
    if len(rows) == 0:
        return
    rows = rows.sort_values("lost_ns", ascending=False, kind="stable")
    first, lost = rows.iloc[0], int(rows["lost_ns"].sum())
    why = first_line(str(first["error"]))
    who = f"{count_text(len(rows), 'task')} needed more than one try, most of all {found.called(first)}"
    who = who if len(rows) > 1 else f"{found.called(first)} needed {first['tries']} tries"
    took = f"; the failed tries ended {time_text(lost)} after their launch" if lost else ""
    yield Match(
        title=f"{who}{f': {why}' if why else ''}{took}",
        cost_ns=min(lost, _together(found, rows)),
        estimate=True,
        fault=True,
        names={"task": str(first["task"])},
        count=len(rows),
        evidence=[
            {
                "task": found.called(row),
                "tries": int(row["tries"]),
                "lost_ns": int(row["lost_ns"]),
                "error": str(row["error"])[:400],
            }
            for _, row in rows.head(EVIDENCE).iterrows()
        ],
    )


def _together(found: Analyses, rows: pd.DataFrame) -> int:
    """For how long at least one of the failed tries lasted, from its launch to its end, ns: they run side by side."""
    tries, mine = found.inputs.tables.get("declared_tries"), set(outcomes.task_keys(rows))
    if tries is None or not len(tries):
        return int(rows["lost_ns"].sum())
    tries = tries.assign(workflow=tries["workflow"].fillna(""))
    last = tries.groupby(["workflow", "task"])["try"].transform("max")
    known = tries["t_launch_ns"].notna() & tries["t_end_ns"].notna() & (tries["try"] < last)
    failed = tries[known & np.array([key in mine for key in outcomes.task_keys(tries)], dtype=np.bool_)]
    begin, end = (failed[name].to_numpy(dtype=np.int64) for name in ("t_launch_ns", "t_end_ns"))
    united = intervals.union(intervals.make(np.zeros(len(failed), dtype=np.int64), begin, np.maximum(end, begin)))
    return int(intervals.length(united, 1)[0])


def _retried_commands(found: Analyses) -> Iterator[Match]:
    inputs, lives = found.inputs, found.inputs.lives
    rows = retries.retries(inputs)
    tries = np.array([process for row in rows for process in row.failed], dtype=np.int64)
    none = np.zeros(len(tries), dtype=np.int64)
    times = intervals.union(intervals.make(none, lives.begun[tries], lives.over[tries]))
    lost = int(intervals.length(times, 1)[0]) if len(tries) else 0
    if not LEAST.reached(lost, inputs.makespan_ns):
        return
    rows.sort(key=lambda row: -int((lives.over - lives.begun)[[*row.failed]].sum()))
    told = [_told(found, row) for row in rows[:EVIDENCE]]
    top, call = rows[0], retries.last_failed_call(inputs, rows[0].origin)
    why = f" (its last call that failed: {call.name} on {call.path}, {os.strerror(call.errno)})" if call else ""
    by = f" by `{told[0]['failed']}`" if top.origin != top.failed[0] else ""
    times_of = "" if len(top.failed) == 1 else f" {len(top.failed):,} times"
    others = f", like {count_text(len(rows) - 1, 'other command')}" if len(rows) > 1 else ""
    yield Match(
        title=f"`{told[0]['command']}` ended{times_of} with {told[0]['end']}{by}{why}, and was run again over the same"
        f" data{others}; the failed tries took {time_text(lost)}",
        names={"task": found.task_id(int(inputs.of_who[lives.last(top.failed[0])]))},
        cost_ns=lost,
        estimate=True,
        count=len(rows),
        evidence=told,
        tasks={int(inputs.of_who[lives.last(process)]) for row in rows for process in row.processes},
    )


def _told(found: Analyses, row: Retry) -> Evidence:
    inputs, lives, first = found.inputs, found.inputs.lives, row.failed[0]
    ends, lines = inputs.ends, inputs.m.command_lines
    keys = processes.keys(inputs.m.who.iloc[[lives.first(process) for process in (first, row.origin)]])
    command, failed = (
        command_lines.shown(lines.get(key, [inputs.m.program(lives.last(process))]))
        for key, process in zip(keys, (first, row.origin), strict=True)
    )
    signal = int(ends.signal[first])
    return {
        "command": command,
        "tries": len(row.failed) + 1,
        "lost_ns": int((lives.over - lives.begun)[[*row.failed]].sum()),
        "end": signal_text(signal) if signal else f"exit code {ends.code[first]}",
        "failed": failed,
    }


RETRIED_TASKS = Rule(
    kind="retried tasks",
    about=TIME,
    title="Tasks and commands that succeeded at a later try",
    definition=(
        "The workflow manager started a task again after it had failed, and then it succeeded. The cost is the time in"
        " which at least one of the failed tries lasted, from launch to end: waiting for a worker included, so it is an"
        " upper bound. Or a process that had moved data failed, its parent ran the same command again in the same"
        " directory, and then it succeeded over the same data, which nobody had written meanwhile. What looks"
        " whether something is true (grep, test) and what other processes fed are left out."
    ),
    advice="Mend what made the first try fail: a retry costs its time, and hides a fault that may come again.",
    source="The workflow manager's own word (docs/declared-dag.md); wait(2)",
    query="tailrace task {run} {task}",
    find=retried_tasks,
    change="no failed tries",
    explains=(GAPS, "repeated reads", "repeated work"),
)


PROCESSES = Threshold(100, "processes")


def short_processes(found: Analyses) -> Iterator[Match]:
    """All programs, as one match."""
    rows, cost = found.access_costs.processes, found.access_costs.processes_gain_ns
    if not len(rows) or rows["processes"].sum() < PROCESSES.value:
        return
    if not LEAST.reached(cost, found.inputs.makespan_ns):
        return
    named = ", ".join(f"{row['processes']:,} of {row['program']}" for _, row in rows.head(3).iterrows())
    yield Match(
        title=f"{int(rows['processes'].sum()):,} processes lived {time_text(SHORT_NS)} or less, together"
        f" {time_text(cost)} of the run: {named}" + (", ..." if len(rows) > 3 else ""),
        cost_ns=cost,
        estimate=True,
        count=int(rows["processes"].sum()),
        evidence=rows_of(rows),
        tasks=found.every_task,
    )


SHORT_PROCESSES = Rule(
    kind="short processes",
    about=TIME,
    title="Many processes that do little but start and end",
    definition=(
        f"{PROCESSES} or more made calls for {time_text(SHORT_NS)} or less. The estimate is the time in which at least"
        " one of them lived, from its parent's fork to its parent's wait: an upper bound of what doing their work in"
        " few processes would save."
    ),
    advice=(
        "Give one process many items: `xargs`, `find -exec ... +`, the shell's own commands in place of programs, or a"
        " loop inside of the program; group short tasks into one."
    ),
    source="fork(2), execve(2): a process maps its libraries and looks up their names before it works",
    query="tailrace query {run} --name execve --by path --agg count",
    find=short_processes,
    thresholds=(PROCESSES, LEAST),
    change="one process for many",
    explains=(GAPS,),
)


RULES = (
    LIMITED_CONCURRENCY,
    LATE_SUBMISSIONS,
    SHARED_INTERPRETER,
    SEQUENTIAL_TASKS,
    SERIAL_STAGE,
    STRAGGLERS,
    RANK_IMBALANCE,
    REPEATED_WORK,
    READ_BY_EVERY_RANK,
    REPEATED_START_UPS,
    RETRIED_TASKS,
    SHORT_PROCESSES,
)
