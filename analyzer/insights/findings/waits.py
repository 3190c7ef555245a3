"""Findings about what the critical path waited for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from glob import escape as literal
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import channels, edge_table
from tailrace.analyzer.edges.identities import raw
from tailrace.analyzer.insights import command_lines, whatif
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.critical import OWN_PARTS
from tailrace.analyzer.insights.finding import (
    EVIDENCE,
    GAPS,
    IO,
    LEAST,
    NOTE,
    TIME,
    Evidence,
    Match,
    Rule,
    Threshold,
    more,
    rows_of,
)
from tailrace.analyzer.insights.polls import SLEEPS, TRIES, Loop
from tailrace.analyzer.insights.processors import BUSY, FULL, SEVERAL, Binding, Demand, Processors
from tailrace.analyzer.insights.unanswered import Unanswered, unanswered
from tailrace.analyzer.insights.waits import LockWait
from tailrace.analyzer.model import outcomes
from tailrace.analyzer.store import processes
from tailrace.analyzer.util import grouping, intervals
from tailrace.analyzer.util.formatting import bytes_text, count_text, time_text
from tailrace.analyzer.util.types import Bools, Ints

MUCH = Threshold(25, "% of the makespan")
"""Less is told in the run's account of time; this is for what no other rule explains."""
LEAST_MS = Threshold(50, "ms in all")
"""About what the start of one interpreter takes: in a run of a few programs that is all the gap there is. Where no
manager starts the tasks, a shorter gap is the start of the next program, however many there are."""

UNMANAGED = (
    "Look at what the script that starts the programs does in between (sleeping, waiting, computing of its own), start"
    " a program as soon as its input is there, and make programs fewer and longer."
)
"""The advice where no workflow manager starts the tasks."""
LATE = (
    "Where a program or script of yours submits them, submit them with their dependencies, before those are over, and"
    " many at once: a command for each task takes the time of its start."
)
"""The advice where tasks were submitted after all that they waited for was over."""
LATE_BY_MANAGER = (
    "The workflow manager submits a task when it has seen that those before it are over: let it look more often, and"
    " make tasks fewer and longer."
)
"""The same where no program of the user's submits them."""
PREPARED = (
    "See what the manager does for a task before it begins: link inputs in place of copying them, stage a common one"
    " once, keep containers and environments ready."
)
"""The advice where the next task had its place, and what its manager starts for it (a wrapper that stages) ran."""
PREPARING = "(staging in, a container, a prolog)"
SHORT = "Make tasks fewer and longer: give each a batch of what they take one by one."
"""The advice where tasks are short beside the gaps before them."""
MANY = 50
"""Gaps, from which on they are no matter of single tasks."""
RETRY = "Mend what made the try fail, or have the workflow manager wait for less before the next one."
"""The advice where the longest gap is between a try that failed and the next one."""


def critical_path_gaps(found: Analyses) -> Iterator[Match]:
    """The gaps of the path, as one match."""
    gaps, makespan = found.critical.path["gap"].to_numpy(dtype=np.int64), found.inputs.makespan_ns
    gap = int(gaps.sum() if found.inputs.managed else gaps[gaps >= LEAST_MS.value * 1e6].sum())
    if not LEAST.reached(gap, makespan) or gap < LEAST_MS.value * 1e6:
        return
    if not found.inputs.managed and _starved(found):
        return
    late, prepared = _not_submitted(found), _prepared(found)
    mostly, is_prepared = late > gap / 2, prepared > gap / 2
    tasks = {int(task) for task in found.critical.path["task"] if task >= 0}
    units = "tasks" if (found.inputs.tasks["task"] != "").to_numpy()[list(tasks)].any() else "processes"
    submits = LATE_BY_MANAGER if found.inputs.of_manager.any() else LATE
    short = _short_tasks(found)
    named = {
        RETRY: _is_pause(found),
        PREPARED: is_prepared,
        SHORT: short != "",
        submits: mostly,
        UNMANAGED: not found.inputs.managed,
    }
    advice = next((advice for advice, fits in named.items() if fits), "")
    if not advice and not MUCH.reached(gap, makespan):
        return  # what a manager takes for the start of a task
    yield Match(
        title=f"The critical path was between {units} for {time_text(gap)} of {time_text(makespan)};"
        f" {short or _longest_gap(found)}"
        + (f"; for {time_text(late)} the next task had not been submitted" if mostly else "")
        + (f"; for {time_text(prepared)} its manager prepared the next task {PREPARING}" if is_prepared else ""),
        cost_ns=gap,
        advice=advice,
        evidence=_evidence(found),
        tasks=tasks,
    )


def _starved(found: Analyses) -> bool:
    """Whether the run had work for all processors in the gaps: what a script starts then waits for one."""
    rows = found.critical.path.query("gap > 0")
    begin, length = (rows[name].to_numpy(dtype=np.int64) for name in ("begin_ns", "gap"))
    alone = np.zeros(len(rows), dtype=np.int64)
    return found.processors.used(intervals.union(intervals.make(alone, begin, begin + length))) >= BUSY


def _not_submitted(found: Analyses) -> int:
    """How long tasks of the path could have begun, if they had been submitted, ns."""
    submitted, names = found.inputs.order.submitted, outcomes.task_keys(found.inputs.tasks)
    late = 0
    for piece in found.critical.path.query("task >= 0 and gap > 0").to_dict("records"):
        at = submitted.get(names[piece["task"]], 0)
        late += min(max(at - int(piece["begin_ns"]), 0), int(piece["gap"]))
    return late


def _prepared(found: Analyses) -> int:
    """How long tasks of the path had their place (`t_alloc_ns`) before their first call, ns."""
    table = found.inputs.tables.get("declared_tasks")
    if table is None or "t_alloc_ns" not in table:
        return 0
    told = table[table["t_alloc_ns"].notna()]
    began = dict(zip(outcomes.task_keys(told.fillna({"workflow": ""})), told["t_alloc_ns"].astype(int), strict=True))
    names, ns = outcomes.task_keys(found.inputs.tasks), 0
    for piece in found.critical.path.query("task >= 0 and gap > 0").to_dict("records"):
        if alloc := began.get(names[piece["task"]]):
            until = int(piece["begin_ns"]) + int(piece["gap"])
            ns += min(max(until - alloc, 0), int(piece["gap"]))
    return ns


def _pieces(found: Analyses) -> pd.DataFrame:
    """The pieces of the path, those with the longest gaps first."""
    return found.critical.path.sort_values("gap", ascending=False, kind="stable")


def _is_pause(found: Analyses) -> bool:
    """Whether most of the longest gap is between tries of its task."""
    top = _pieces(found).iloc[0]
    if int(top["task"]) < 0:
        return False
    pauses = intervals.cover(found.inputs.pauses, len(found.inputs.tasks))
    piece = (np.array([top[name]], dtype=np.int64) for name in ("task", "begin_ns", "end_ns"))
    return int(pauses.inside(*piece)[0]) > int(top["gap"]) / 2


def _short_tasks(found: Analyses) -> str:
    """The words for many tasks that are shorter than the gaps before them; "": there are none."""
    rows = found.critical.path.query("task >= 0 and gap > 0")
    lasted = rows["end_ns"] - rows["begin_ns"] - rows["gap"]
    if not found.inputs.managed or len(rows) < MANY or lasted.median() > rows["gap"].median():
        return ""
    gap, own = (time_text(int(part.median())) for part in (rows["gap"], lasted))
    return f"it is {gap} (median) before each of {len(rows):,} tasks, which ran for {own} (median)"


def _longest_gap(found: Analyses) -> str:
    """How long the longest gap is, and where."""
    top = _pieces(found).iloc[0]
    task, gap = int(top["task"]), time_text(int(top["gap"]))
    before = "between tries of" if _is_pause(found) else "before"
    place = f"{before} {found.inputs.called(task)}" if task >= 0 else _outside(found, int(top["begin_ns"]))
    return f"the longest gap is {gap}, {place}"


def _outside(found: Analyses, begin_ns: int) -> str:
    """Where a gap is that is before no task."""
    ran = found.critical.path.query("task >= 0")["begin_ns"]
    is_late = len(ran) > 0 and begin_ns > int(ran.min())
    return f"{'after the last' if is_late else 'before the first'} task of the path"


def _evidence(found: Analyses) -> list[Evidence]:
    inputs = found.inputs
    rows: list[Evidence] = []
    for piece in _pieces(found).query("gap > 0").head(EVIDENCE).to_dict("records"):
        task, via = int(piece["task"]), str(piece["via"])
        name = inputs.called(task) if task >= 0 else f"({_outside(found, int(piece['begin_ns']))})"
        begin = (int(piece["begin_ns"]) - inputs.start_ns) / 1e9
        rows.append({"task": name, "begin_s": begin, "gap_ns": int(piece["gap"]), "via": via})
    return rows


CRITICAL_PATH_GAPS = Rule(
    kind=GAPS,
    about=TIME,
    title="Time between the tasks of the critical path",
    definition=(
        "The part of the makespan between what a task on the critical path was given last and its first call: queue,"
        " scheduling, start-up of interpreters, and what a task computes before its first call. It may be the time of"
        " tasks without a recorded call, which are on no path. Where no manager starts the tasks, gaps of less than"
        f" {LEAST_MS.value:g} ms are the start of programs, and don't count; nor do those in which the run had work for"
        " all processors. Start-up before the first task and the stop after the last one are no gaps. Where nothing"
        " says why a manager took so long (no late submission, stage in, pause between tries or tasks that are shorter"
        f" than their gaps), less than {MUCH} is what it takes for the start of tasks."
    ),
    advice="Keep workers running between stages, submit tasks earlier, or make tasks fewer and longer.",
    source="Yang and Miller 1988 (critical path of parallel programs)",
    query="tailrace.open({run}).insights().critical.path",
    find=critical_path_gaps,
    thresholds=(LEAST, LEAST_MS),
    change="no time between tasks",
)


def critical_path_io(found: Analyses) -> Iterator[Match]:
    """The I/O of the path, as one match."""
    by_stage = _by_stage(found)
    io, makespan = int(by_stage["io"].sum()), found.inputs.makespan_ns
    parts = found.critical.parts
    if not MUCH.reached(io, makespan) or io < max(parts["compute"] - found.critical.unknown_ns, parts["ready"]):
        return
    top = by_stage.iloc[0]
    yield Match(
        title=f"File I/O took {time_text(io)} of {time_text(makespan)} on the critical path, most of it in"
        f" {top['stage']} ({time_text(int(top['io']))})",
        cost_ns=io,
        evidence=rows_of(by_stage),
        names={"stage": found.of_stage(str(top["stage"]))},
        tasks={int(task) for task in found.critical.path["task"] if task >= 0},
        where=f"for {top['stage']}",
    )


def _by_stage(found: Analyses) -> pd.DataFrame:
    """stage, io: time of the path in calls on files, without that in which programs load themselves; the most first."""
    inputs = found.inputs
    in_calls, _ = found.start_ups.in_calls(inputs.m, edge_table.FILES)
    loading = np.zeros(len(inputs.tasks), dtype=np.int64)
    np.add.at(loading, inputs.of_who, in_calls)
    path = found.critical.path
    io = path[path["task"] >= 0].groupby("task")["io"].sum()
    tasks = io.index.to_numpy(dtype=np.int64)
    stages = inputs.stages["stage"].to_numpy()[inputs.tasks["stage_code"].to_numpy(dtype=np.int64)[tasks]]
    rows = pd.DataFrame({"stage": stages, "io": np.maximum(io.to_numpy(dtype=np.int64) - loading[tasks], 0)})
    sums = rows.groupby("stage", as_index=False)["io"].sum()
    return sums.sort_values("io", ascending=False, kind="stable", ignore_index=True)


CRITICAL_PATH_IO = Rule(
    kind=IO,
    about=TIME,
    title="Time on the critical path inside calls on files",
    definition=(
        "The part of the makespan that the tasks of the critical path spent inside reads, writes and metadata calls"
        " of files, but for those by which programs load themselves. I/O beside the path does not count: without it"
        " the run would take as long. It is told where computing, or waiting for a processor, takes less, and no other"
        " finding explains most of it."
    ),
    advice=(
        "Read and write less, or use a faster file system (`tailrace whatif --tier` estimates the gain for reads and"
        " writes; metadata calls it leaves as they are)."
    ),
    source="Yang and Miller 1988; Bez et al. 2022 (Drishti)",
    query="tailrace query {run} {stage} --by name,path --agg sum:size --agg sum:dur --sort sum_dur --limit 10",
    find=critical_path_io,
    thresholds=(MUCH,),
    change="faster storage",
)


def lock_contention(found: Analyses) -> Iterator[Match]:
    """All files, as one match."""
    by_file: dict[str, list[LockWait]] = {}
    for wait in found.waits.locks:
        by_file.setdefault(wait.path, []).append(wait)
    rows: list[tuple[int, str, list[LockWait], dict[int, int]]] = []
    for path, waits in by_file.items():
        held = _holders(found, waits)
        cost = _cost(found, waits, {waits[0].task, *(int(found.inputs.of_who[actor]) for actor in held)})
        rows.append((cost, path, waits, held))
    rows.sort(key=lambda row: -row[0])
    cost = min(sum(row[0] for row in rows), found.inputs.makespan_ns)
    if not rows or not LEAST.reached(cost, found.inputs.makespan_ns):
        return
    _, path, waits, held = rows[0]
    top = waits[0]
    yield Match(
        title=f"{_lock_contention_words(found, path, waits, held)}{more(len(rows))}",
        names={"task": found.of_task(top.task), "path": path},
        cost_ns=cost,
        estimate=True,
        count=len(rows),
        evidence=[
            Evidence(task=found.inputs.called(one.task), path=one.path, waited_ns=one.waited_ns, tries=one.tries)
            for one in waits[:EVIDENCE]
        ],
        tasks={one.task for _, _, waits, _ in rows for one in waits},
        where=f"on {path.rpartition('/')[2]}",
    )


def _lock_contention_words(found: Analyses, path: str, waits: list[LockWait], held: dict[int, int]) -> str:
    top, inputs = waits[0], found.inputs
    said = f"{inputs.called(top.task)} waited {time_text(top.waited_ns)} for a lock on {path}"
    if held:
        actor, ns = max(held.items(), key=lambda row: row[1])
        others = {int(inputs.of_who[one]) for one in held} - {int(inputs.of_who[actor])}
        said += f", which {inputs.called(int(inputs.of_who[actor]))} had for {time_text(ns)} of that"
        said += f" and {count_text(len(others), 'other')} for the rest" if others else ""
    else:
        said += "; who had it is not known"
    every = sum(one.waited_ns for one in waits)
    return f"{said}; {len(waits):,} {found.inputs.units} waited {time_text(every)} in all" if len(waits) > 1 else said


def _holders(found: Analyses, waits: list[LockWait]) -> dict[int, int]:
    """Of those that the longest waiter waited for: the actor, and for how long it had the lock meanwhile, ns. Exclusive
    locks count where there are any, and what the kernel named where no hold is known."""
    inputs, top, locks = found.inputs, waits[0], found.waits.held
    identities = {locks.named(raw(one.file)) for one in waits}
    place = top.path
    # By the actor that the process was when it got the lock: a worker runs one task after the other.
    kinds: dict[bool, dict[int, list[tuple[int, int]]]] = {True: {}, False: {}}
    for hold in locks.holds:
        kind, name = hold.key
        if name in identities or (kind.startswith("name") and name.endswith(f":{place}")):
            actor = inputs.lives.at(hold.process, hold.since_ns)
            kinds[hold.exclusive].setdefault(actor, []).append((hold.since_ns, hold.until_ns))
    for by_actor in (kinds[True], kinds[False]):
        out: dict[int, int] = {}
        for actor, times in by_actor.items():
            if int(inputs.of_who[actor]) == top.task:
                continue
            shared = intervals.intersect(intervals.united(np.array(times, dtype=np.int64)), top.times)
            if ns := intervals.total(shared):
                out[actor] = out.get(actor, 0) + ns
        if out:
            return out
    at = {(str(host), int(pid)): one for one, (host, pid) in enumerate(inputs.m.who[["host", "pid"]].to_numpy())}
    named = [at[place] for place in top.holders if place in at]
    return {actor: top.waited_ns for actor in named[:1]}


def _cost(found: Analyses, waits: list[LockWait], holders: set[int]) -> int:
    """What the run could be shorter by at most without the waits: those on the critical path; where that passes from
    one of those who want the lock to another one, whose turn it was is chance: the time in which any of them waited. No
    run is shorter than a task without its waits, or than its computing on these processors."""
    inputs, path = found.inputs, found.critical.path
    times = {one.task: one.times for one in waits}
    cost = sum(found.waits.on_path(path, times).values())
    users = set(times) | holders
    if any(one in users and two in users and one != two for one, two in pairwise(path["task"].tolist())):
        together = intervals.united(*(one.times for one in waits))
        cost = sum(found.waits.on_path(path, dict.fromkeys(users, together)).values())
    span = (inputs.tasks["end_ns"] - inputs.tasks["start_ns"]).to_numpy(dtype=np.int64)
    own = max(*(int(span[one.task]) - one.waited_ns for one in waits), found.processors.least_ns)
    return max(min(cost, inputs.makespan_ns - own), 0)


LOCK_CONTENTION = Rule(
    kind="lock contention",
    about=TIME,
    title="Tasks that wait for locks of files that others have",
    definition=(
        "A task did nothing but wait for a lock of a file (fcntl, lockf, flock), in the call or asleep between two"
        " tries of which the first one was refused, as SQLite waits; or for a lock file that was there. Who had it is"
        " followed by the calls on locks of the others, and what the kernel told. The estimate is the part of that on"
        " the critical path; where the path passes between tasks that want the same lock, the time in which any of them"
        " waited: an upper bound, since what they do under the lock still takes its time."
    ),
    advice=(
        "Hold the lock shorter: compute first, then lock, write and unlock (in SQLite many changes in one short"
        " transaction, journal_mode=WAL); or give each task a file or database of its own and join them at the end; or"
        " run fewer of these tasks at a time."
    ),
    source="fcntl(2), flock(2); sqlite.org/lockingv3.html",
    query=("tailrace query {run} {task} --path {path} --by name,errno,holder --agg count --agg sum:dur --sort sum_dur"),
    find=lock_contention,
    thresholds=(LEAST,),
    change="a shorter hold of the lock",
    explains=(IO,),
)


MORE = Threshold(1.5, "times as much work at a time as processors")
FEWER = "fewer threads in each process"
FEWER_THREADS = (
    "Give each process fewer threads (OMP_NUM_THREADS, OPENBLAS_NUM_THREADS, MKL_NUM_THREADS): together no more than"
    " there are processors, so one each where there are as many processes. Threads that spin while they wait for each"
    " other use up processors, so that all of it takes less then; only after that do more processors help."
)
"""The advice where processes have several threads that want processors."""


OTHERWISE = Threshold(50, "% of the time of the host's other processors")
BIND = "binding to other processors"
BIND_APART = (
    "Bind them to different ones, or not at all: srun --cpu-bind, mpirun --bind-to and --map-by, taskset, and the cores"
    " that each asks its manager for. Two runs of mpirun on one node each bind from its first processor on."
)
BIND_WIDER = (
    "Let it run on as many processors as it has threads (srun --cpus-per-task, mpirun --map-by slot:PE=n, --bind-to"
    " none, taskset), or give it as many threads as it has processors (OMP_NUM_THREADS)."
)
"""The advice where processes of several threads are bound to fewer processors."""


def _bound_waits(found: Analyses) -> Match | None:
    """The processes that waited for the processors to which they are bound, while the run hardly used the others."""
    inputs, told = found.inputs, found.processors
    rows: list[tuple[int, Binding, Demand, int, int]] = []
    tasks: set[int] = set()
    for binding in told.bindings:
        mine = np.zeros(len(told.ready), dtype=np.bool_)
        mine[binding.processes] = True
        mine &= told.ready > 0
        demand = told.demand_of(mine)
        crowded = demand.crowded(MORE.value * len(binding.cpus))
        on, others = told.shares(binding, crowded) if len(crowded) else (0.0, 1.0)
        if not BUSY <= on <= FULL or OTHERWISE.reached(round(100 * others), 100):
            continue
        of = np.where(mine, told.task_of_process, -1)
        spent = found.waits.on_path(found.critical.path, dict.fromkeys(np.unique(of[of >= 0]).tolist(), crowded))
        parts = {code: _share_of_waits(told, of == code, ns) for code, ns in spent.items()}
        tasks |= {code for code, ns in parts.items() if ns}
        rows.append((sum(parts.values()), binding, demand, int(mine.sum()), int(told.ready[mine].max())))
    rows.sort(key=lambda row: -row[0])
    cost = min(sum(row[0] for row in rows), inputs.makespan_ns)
    if not rows or not LEAST.reached(cost, inputs.makespan_ns):
        return None
    _, binding, demand, count, waited = rows[0]
    top = max(tasks, key=lambda code: int(told.ready_of_task[code]))
    one = f"{inputs.called(top)}, of several threads, was" if count == 1 else f"{count:,} processes were"
    return Match(
        title=f"{one} bound to {_numbered(binding.cpus)} and waited up to {time_text(waited)}"
        f"{' in sum' if demand.threaded else ' each'} for {'it' if len(binding.cpus) == 1 else 'them'}, while the run"
        f" had little or nothing for {_numbered(binding.others)} of {binding.host}{more(len(rows))}",
        advice=BIND_WIDER if demand.threaded else BIND_APART,
        change=BIND,
        names={"task": found.task_id(top)},
        cost_ns=cost,
        estimate=True,
        count=len(rows),
        evidence=[
            Evidence(host=one.host, cpus=_numbered(one.cpus), processes=number, ready_ns=ns)
            for _, one, _, number, ns in rows[:EVIDENCE]
        ],
        tasks=tasks,
    )


def _share_of_waits(told: Processors, those: Bools, ns: int) -> int:
    """Of a time in which processes were on a processor or ready, the part in which they were ready."""
    waited, used = int(told.ready[those].sum()), int(told.ready_of[those].sum())
    return int(ns * waited / max(waited + used, 1))


def _numbered(cpus: frozenset[int]) -> str:
    """Processors in words: "processor 0", "processors 0-3,8"."""
    numbers = np.array(sorted(cpus), dtype=np.int64)
    parts = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    said = ",".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else f"{part[0]}" for part in parts)
    return f"processor{'s' if len(numbers) > 1 else ''} {said}"


def processor_waits(found: Analyses) -> Iterator[Match]:
    """All such tasks, as one match; those of processes that are bound to processors of which the run has others."""
    inputs, told = found.inputs, found.processors
    if not told.count or not (told.ready > 0).any():
        return
    if (bound := _bound_waits(found)) is not None:
        yield bound
        return
    demand = told.demand
    crowded = demand.crowded(MORE.value * told.count)
    on = found.waits.on_path(found.critical.path, dict.fromkeys(range(len(inputs.tasks)), crowded))
    rows: list[tuple[int, int, int]] = []
    for code, ns in on.items():
        mine = (told.task_of_process == code) & (told.ready >= 0)
        if part := _share_of_waits(told, mine, ns):
            rows.append((part, code, int(told.ready[mine].max())))
    rows.sort(key=lambda row: -row[0])
    cost = min(sum(row[0] for row in rows), inputs.makespan_ns)
    if not LEAST.reached(cost, inputs.makespan_ns):
        return
    _, top, waited = rows[0]
    whose = "" if told.own_share >= BUSY else f" (it was on them for {told.own_share:.0%} of the time)"
    who, wait = inputs.called(top), time_text(waited)
    if demand.threaded:
        said = f"the threads of {who} were ready and waited {wait} in sum for processors: {demand.words} wanted one"
        said = f"{said} at a time, and the run could use {told.count:,}{whose}"
    else:
        said = f"{who} was ready and waited {wait} for a processor: the run had work for up to {demand.most:,.0f} at a"
        said = f"{said} time, and could use {told.count:,}{whose}"
    yield Match(
        title=said,
        advice=FEWER_THREADS if demand.threaded else "",
        change=FEWER if demand.threaded else "",
        names={"task": found.task_id(top)},
        cost_ns=cost,
        estimate=True,
        count=len(rows),
        evidence=[Evidence(task=inputs.called(code), ready_ns=ns) for _, code, ns in rows[:EVIDENCE]],
        tasks={code for _, code, _ in rows},
    )


PROCESSOR_WAITS = Rule(
    kind="waiting for a processor",
    about=TIME,
    title="Work for more processors at a time than there are",
    definition=(
        "By the kernel's account of each process (schedstat) the tasks of the run together were on a processor or ready"
        f" for one, at least {MORE.value:g} for each that they could use, and those of the critical path were ready and"
        " waited. A task counts as its process that wants most, and that one as its threads that are on a processor or"
        f" ready on average; where these are {SEVERAL:g} or more, the change is fewer threads. Where processes"
        f" were bound to some processors of a host, wanted {MORE.value:g} or more for each and filled them"
        f" ({BUSY:.0%}), while the run used less than {OTHERWISE}, the change is another binding; what other programs"
        " ran on those is not known. The estimate is that"
        " share of their time then: what as many processors as are wanted could save, an upper bound."
    ),
    advice=(
        "The processors are the limit, not I/O: use more of them (more nodes, more cores for each task's allocation),"
        " or give each task one thread (OMP_NUM_THREADS=1); with these processors running fewer tasks at a time costs"
        " nothing and needs less memory."
    ),
    source="proc(5): /proc/PID/schedstat",
    query="tailrace task {run} {task}",
    find=processor_waits,
    thresholds=(MORE, OTHERWISE, LEAST),
    change="more processors",
)


class _Server(NamedTuple):
    task: int
    server: str
    waited_ns: int
    longest_ns: int
    bytes: int
    tasks: int


NOBODY = (
    "Nobody answers there: start the server before, mend the address in the program's configuration (a licence server,"
    " a proxy, a host that is gone), or have the program wait for less time, and only once."
)
"""The advice where connections were never accepted."""


def server_waits(found: Analyses) -> Iterator[Match]:
    """All servers that answered, as one match, and all that did not."""
    yield from _answered(found)
    yield from _unanswered(found)


def _unanswered(found: Analyses) -> Iterator[Match]:
    inputs = found.inputs
    rows = [
        (found.waits.on_path(found.critical.path, {one.task: one.times}).get(one.task, 0), one)
        for one in unanswered(inputs)
    ]
    by_address: dict[str, list[tuple[int, Unanswered]]] = {}
    for ns, one in rows:
        by_address.setdefault(one.address, []).append((ns, one))
    of_each = sorted(by_address.values(), key=lambda each: -sum(ns for ns, _ in each))
    cost = min(sum(ns for ns, _ in rows), inputs.makespan_ns)
    if not rows or not LEAST.reached(cost, inputs.makespan_ns):
        return
    each = of_each[0]
    top = each[0][1]
    times = f", {top.connections:,} times" if top.connections > 1 else ""
    others = f"; {len(each):,} {inputs.units} waited {time_text(sum(one.waited_ns for _, one in each))} for it"
    yield Match(
        title=f"{inputs.called(top.task)} waited {time_text(top.waited_ns)} for a connection to {top.address} that"
        f" nobody accepted{times}{others if len(each) > 1 else ''}{more(len(of_each))}",
        advice=NOBODY,
        change="no wait for an answer",
        query="tailrace query {run} {task} --path {server} --by name,path --agg count --agg sum:dur",
        names={"task": found.of_task(top.task), "server": [f"*->{literal(top.address)}"]},
        cost_ns=cost,
        estimate=True,
        count=len(of_each),
        evidence=[
            Evidence(
                task=inputs.called(one.task), server=one.address, waited_ns=one.waited_ns, connections=one.connections
            )
            for _, one in each[:EVIDENCE]
        ],
        tasks={one.task for _, one in rows},
        where=f"at {top.address}",
    )


def _answered(found: Analyses) -> Iterator[Match]:
    inputs, path = found.inputs, found.critical.path
    pieces = path[path["task"] >= 0]
    task, high = (pieces[name].to_numpy(dtype=np.int64) for name in ("task", "end_ns"))
    low = high - pieces[list(OWN_PARTS)].sum(axis=1).to_numpy(dtype=np.int64)
    bursts = inputs.m.bursts
    rows: list[_Server] = []
    tasks: set[int] = set()
    for address, pick in _servers(found).items():
        waits = grouping.sums(task, whatif.io_cover(inputs, pick).inside(task, low, high), len(inputs.tasks))
        users = np.flatnonzero(waits).tolist()
        if users:
            top = int(waits.argmax())
            mine = pick & (inputs.of_who[bursts["who"].to_numpy()] == top)
            rows.append(
                _Server(
                    task=top,
                    server=address,
                    waited_ns=int(waits.sum()),
                    longest_ns=int(waits[top]),
                    bytes=int(bursts["bytes"].to_numpy()[mine].sum()),
                    tasks=len(users),
                )
            )
            tasks |= set(users)
    rows.sort(key=lambda row: -row.waited_ns)
    waited = min(sum(row.waited_ns for row in rows), inputs.makespan_ns)
    if not rows or not LEAST.reached(waited, inputs.makespan_ns):
        return
    first = rows[0]
    others = f"; {first.tasks:,} {inputs.units} of the critical path waited {time_text(first.waited_ns)} for it"
    yield Match(
        title=f"{inputs.called(first.task)} waited {time_text(first.longest_ns)} for {first.server}, a server outside"
        f" of the run, and got {bytes_text(first.bytes)}{others if first.tasks > 1 else ''}{more(len(rows))}",
        names={"task": found.of_task(first.task), "server": [f"*->{literal(first.server)}"]},
        cost_ns=waited,
        estimate=True,
        count=len(rows),
        evidence=[{**row._asdict(), "task": inputs.called(row.task)} for row in rows[:EVIDENCE]],
        tasks=tasks,
        where=f"from {first.server}",
    )


def _servers(found: Analyses) -> dict[str, Bools]:
    """Address -> the bursts of tasks that read of connections to it, whose other end nobody in the run has."""
    inputs, m = found.inputs, found.inputs.m
    file, way = m.bursts["file"].to_numpy(), m.bursts["dir"].to_numpy()
    sent = np.zeros(len(m.table.files), dtype=np.bool_)
    sent[file[way == edge_table.WRITE]] = True
    mine = (way == edge_table.READ) & inputs.works[inputs.of_who[m.bursts["who"].to_numpy()]]
    mine &= (m.table.files["ftype"] == "sock").to_numpy()[file] & ~sent[file]
    out: dict[str, Bools] = {}
    for code in np.unique(file[mine]).tolist():
        name = channels.ADDRESSES.fullmatch(str(m.paths[code]))
        if name is not None:
            out[name[3]] = out.get(name[3], np.zeros(len(file), dtype=np.bool_)) | (mine & (file == code))
    return out


SERVER_WAITS = Rule(
    kind="waiting for a server",
    about=TIME,
    title="Tasks that wait for a server outside of the run",
    definition=(
        "A task of the critical path was inside reads of a connection whose other end is no process of the run: an"
        " object store, a database, a web server. Or it waited for a connection until its time was over (poll or select"
        " that timed out after connect, or ETIMEDOUT), over which no byte ever passed. The estimate is that time: an"
        " upper bound of what could be saved by having the data there before, or an answer at once."
    ),
    advice=(
        "Fetch the data before the task or beside other work, over several connections, or keep a copy near; ask"
        " whether the server or the network limits."
    ),
    source="recv(2): it returns when data has come",
    query="tailrace query {run} {task} --where dir=r --path {server} --by path --agg sum:size --agg sum:dur",
    find=server_waits,
    thresholds=(LEAST,),
    change="data fetched ahead",
)


IN_A_ROW = Threshold(SLEEPS, "sleeps in a row")
REFUSED = (
    "Nobody listens there: start the server before, or tell the program not to use it; where the server is about to"
    " come, let it tell when it is ready."
)
"""The advice where the loop is for a server that refuses."""


def sleep_loops(found: Analyses) -> Iterator[Match]:
    """All such tasks, as one match."""
    inputs = found.inputs
    loops = {loop.task: loop for loop in found.loops if loop.maker < 0 and loop.looks >= IN_A_ROW.value}
    on_path = found.waits.on_path(found.critical.path, {task: loop.times for task, loop in loops.items()})
    rows = sorted(((ns, loops[task]) for task, ns in on_path.items()), key=lambda row: -row[0])
    cost = min(sum(ns for ns, _ in rows), inputs.makespan_ns)
    if not LEAST.reached(cost, inputs.makespan_ns):
        return
    top = rows[0][1]
    yield Match(
        title=f"{_sleep_loops_words(found, top)}{more(len(rows))}",
        advice=REFUSED if top.connects and top.absent else "",
        names={"task": found.of_task(top.task)},
        cost_ns=cost,
        estimate=True,
        count=len(rows),
        evidence=[
            Evidence(task=inputs.called(loop.task), path=loop.path, sleeps=loop.looks, slept_ns=loop.slept_ns)
            for _, loop in rows[:EVIDENCE]
        ],
        tasks={loop.task for _, loop in rows},
        where=f"in {inputs.called(top.task)}",
    )


def _sleep_loops_words(found: Analyses, loop: Loop) -> str:
    name, slept, times = found.inputs.called(loop.task), time_text(loop.slept_ns), f"{loop.looks:,} times"
    if not loop.path:
        return f"{name} slept {times} in a row, {slept}, and looked at nothing that is recorded in between"
    if loop.connects:
        tries = f"{loop.looks + loop.gave_up:,} times{' (refused)' if loop.absent else ''}"
        return f"{name} tried to connect to {loop.path} {tries} and slept {slept} in between"
    if loop.absent:
        return f"{name} looked for {loop.path} {times} and slept {slept} in between; no task of the run made it"
    return f"{name} looked at {loop.path} {times} and slept {slept} in between"


SLEEP_LOOPS = Rule(
    kind="sleep loop",
    about=TIME,
    title="Tasks that sleep in a loop",
    definition=(
        f"A task of the critical path did nothing but sleep, {IN_A_ROW} or more, with at most a look at something"
        " between two of them, and no task of the run made what it looked for. The estimate is that time on the"
        " critical path: an upper bound, since what it waits for may take as long."
    ),
    advice=(
        "Wait for the thing itself: `wait` for a process, a read of a pipe or socket, inotify for a file, a dependency"
        " of the manager; or give up sooner where it may never come."
    ),
    source="sleep(3), inotify(7)",
    query="tailrace query {run} {task} --cat WAIT --by name --agg count --agg sum:calls --agg sum:dur",
    find=sleep_loops,
    thresholds=(IN_A_ROW, LEAST),
    change="waiting without sleep",
    absence=True,
)


def late(found: Analyses, loops: Sequence[Loop]) -> dict[int, int]:
    """Task -> for how long it slept on the critical path when what it looked for was there, ns. loops: one of a task at
    most."""
    after = {loop.task: intervals.subtract(loop.times, np.array([[0, loop.made_ns]], dtype=np.int64)) for loop in loops}
    return found.waits.on_path(found.critical.path, after)


LOOKS = Threshold(TRIES, "tries with a sleep after each")


def late_looks(found: Analyses) -> Iterator[Match]:
    """All such tasks, as one match."""
    inputs = found.inputs
    rows = [loop for loop in found.loops if loop.connects and loop.maker not in (-1, loop.task)]
    slept = late(found, rows)
    cost = min(sum(slept.values()), inputs.makespan_ns)
    if not LEAST.reached(cost, inputs.makespan_ns):
        return
    top = max(rows, key=lambda loop: slept.get(loop.task, 0))
    name, listened = inputs.called(top.task), time_text(max(top.made_ns - inputs.start_ns, 0))
    yield Match(
        title=f"{_sleep_loops_words(found, top)}; {inputs.called(top.maker)} listened there {listened} into the run,"
        f" and {name} slept on for {time_text(slept.get(top.task, 0))}{more(len(rows))}",
        names={"task": found.of_task(top.task)},
        cost_ns=cost,
        estimate=True,
        count=len(rows),
        evidence=[
            Evidence(
                task=inputs.called(loop.task),
                path=loop.path,
                tries=loop.looks,
                slept_ns=loop.slept_ns,
                server=inputs.called(loop.maker),
            )
            for loop in rows[:EVIDENCE]
        ],
        tasks={task for loop in rows for task in (loop.task, loop.maker)},
        where=f"in {name}",
    )


LATE_LOOKS = Rule(
    kind="sleeping past a server's start",
    about=TIME,
    title="Tasks that sleep on when the server that they wait for is there",
    definition=(
        f"A task of the critical path tried to connect to an address again and again ({LOOKS}), was refused and did"
        " nothing but sleep in between; of a script these are the programs that it runs and waits for. A process of the"
        " run began to listen there during one of the sleeps. The estimate is what was left of the sleep on the"
        " critical path: a bound. What comes before is the start of the server."
    ),
    advice=(
        "Look in short intervals that don't grow, or let the server tell that it is ready (a file, a pipe, a job's"
        " state); start it earlier, beside what does not need it."
    ),
    source="connect(2): ECONNREFUSED until listen(2)",
    query="tailrace query {run} {task} --by name --agg count --agg sum:dur --sort sum_dur",
    find=late_looks,
    thresholds=(LOOKS, LEAST),
    change="looking more often",
)


LONG = Threshold(100, "ms after the end of what started it")
ASLEEP = Threshold(50, "% of that time")


class _Helper(NamedTuple):
    actor: int
    starter: int
    reader: int
    times: Ints


def left_helpers(found: Analyses) -> Iterator[Match]:
    """All such processes, as one match."""
    inputs, m = found.inputs, found.inputs.m
    rows = []
    for one in _left_helpers(found):
        times = {int(inputs.of_who[actor]): one.times for actor in (one.actor, one.reader)}
        rows.append((sum(found.waits.on_path(found.critical.path, times).values()), one))
    rows.sort(key=lambda row: -row[0])
    cost = max((ns for ns, _ in rows), default=0)
    if not LEAST.reached(cost, inputs.makespan_ns):
        return
    top = rows[0][1]
    line = m.command_lines.get(processes.keys(m.who.iloc[[top.actor]])[0], [])
    helper, starter, reader = (_process_words(found, actor) for actor in (top.actor, top.starter, top.reader))
    ran = f" ({command_lines.shown(line)})" if len(line) > 1 else ""
    after = time_text(intervals.total(top.times))
    yield Match(
        title=f"{helper}{ran}, which {starter} left in the background, went on for {after} after it,"
        f" mostly asleep, and holds open a pipe that {reader} reads to its end{more(len(rows))}",
        names={"task": found.task_id(int(inputs.of_who[top.actor]))},
        cost_ns=cost,
        estimate=True,
        count=len(rows),
        evidence=[
            Evidence(helper=_process_words(found, one.actor), reader=_process_words(found, one.reader), path_ns=ns)
            for ns, one in rows[:EVIDENCE]
        ],
        tasks={int(inputs.of_who[actor]) for _, one in rows for actor in (one.actor, one.reader)},
        where=f"({helper})",
    )


def _process_words(found: Analyses, actor: int) -> str:
    who = found.inputs.m.who.iloc[[actor]]
    return f"{found.inputs.m.program(actor) or 'process'} {processes.names(who)[0]}"


def _left_helpers(found: Analyses) -> Iterator[_Helper]:
    """Processes that outlived their parent, mostly asleep, and kept a pipe open that another one read to its end."""
    inputs, m, lives = found.inputs, found.inputs.m, found.inputs.lives
    parents = inputs.order.shared_files.parents
    least = max(LONG.value * 1e6, LEAST.value / 100 * inputs.makespan_ns)
    after = lives.over - lives.over[np.maximum(parents, 0)]
    left = (parents >= 0) & (after >= least) & (lives.begun < lives.over[np.maximum(parents, 0)])
    ended = set(processes.keys(m.processes[m.processes["exit"].notna()])) if "exit" in m.processes else set()
    rows = m.bursts[m.of_type("fifo")][["who", "file", "dir", "last_ns"]]
    rows = rows.assign(process=lives.process[rows["who"].to_numpy(dtype=np.int64)])
    writes = rows[(rows["dir"] == edge_table.WRITE).to_numpy()]
    writes = writes.assign(over=lives.over[writes["process"].to_numpy()])
    # No other writer is left: of a pipe that all have in common the last one.
    is_last = (writes["over"] >= writes.groupby("file")["over"].transform("max")).groupby(writes["process"]).all()
    writes = writes[np.isin(writes["process"], np.intersect1d(is_last.index[is_last], np.flatnonzero(left)))]
    by_file = dict(grouping.parts(rows[rows["file"].isin(writes["file"])], "file"))
    found_ones: list[tuple[int, int]] = []
    for process, mine in grouping.parts(writes, "process"):
        parent = int(parents[process])
        if m.of_manager[lives.last(process)] or processes.keys(m.who.iloc[[lives.first(parent)]])[0] not in ended:
            continue
        # It waited for the end: it read when this process was over.
        high = int(lives.over[process])
        every = pd.concat([by_file[file] for file in mine["file"].unique().tolist()])
        last = every[(every["dir"] == edge_table.READ) & (every["process"] != process) & (every["last_ns"] >= high)]
        if len(last):
            found_ones.append((process, last["who"].tolist()[0]))
    helpers = np.array([process for process, _ in found_ones], dtype=np.int64)
    number = np.full(len(lives.actors), -1, dtype=np.int64)
    number[helpers] = np.arange(len(helpers))
    low, high_of = lives.over[parents[helpers]], lives.over[helpers]
    spent = inputs.time.states(number[lives.process], len(helpers)).inside(np.arange(len(helpers)), low, high_of)
    slept = (spent["sleep"] + spent["polling"]).tolist()
    for (process, reader), begin, end, asleep in zip(found_ones, low.tolist(), high_of.tolist(), slept, strict=True):
        if ASLEEP.reached(int(asleep), end - begin):
            times = np.array([[begin, end]], dtype=np.int64)
            yield _Helper(lives.last(process), lives.last(int(parents[process])), int(reader), times)


LEFT_HELPERS = Rule(
    kind="helper that outlives the work",
    about=TIME,
    title="Processes in the background that keep others waiting for the end of a pipe",
    definition=(
        f"A process went on for {LONG} or more, and for {LEAST}, asleep for {ASLEEP} at least, and had written to a"
        " pipe that another process of the critical path read to its end, which comes when the last writer closes it."
        " The estimate is their part of the critical path from then on: a bound."
    ),
    advice=(
        "End it with the work (`trap 'kill $PID' EXIT` in the script that starts it), or send what it prints elsewhere"
        " than into the pipe (`> monitor.log &`)."
    ),
    source="pipe(7): a read sees the end of the file when all have closed the write end",
    query="tailrace task {run} {task}",
    find=left_helpers,
    thresholds=(LONG, ASLEEP, LEAST),
    change="ending the helper with the work",
    explains=("outliving processes",),
)


MOSTLY = Threshold(50, "% of the makespan")


def startup_and_stop(found: Analyses) -> Iterator[Match]:
    """Both, as one match."""
    parts, makespan = found.critical.parts, found.inputs.makespan_ns
    startup, stop = parts["startup"], parts["stop"]
    if MOSTLY.reached(startup + stop, makespan):
        open_ = outcomes.unended(found.inputs.tables.get("outcomes"))
        last = (
            f"the last call of a task, of {time_text(makespan)}; when the last task was over is not known, since"
            f" {count_text(open_, 'task')} that had begun {'has' if open_ == 1 else 'have'} no declared end"
            if open_
            else f"its last one was over, of {time_text(makespan)}"
        )
        yield Match(
            title=f"The run took {time_text(startup)} before its first task began, and {time_text(stop)} after {last}",
            cost_ns=startup + stop,
        )


STARTUP_AND_STOP = Rule(
    kind="start-up and stop",
    about=NOTE,
    title="Time before the first task and after the last one",
    definition=(
        "Between the first event of the run and the first event of a task, and between the end of the last task and"
        " the last event of the run: the program's own work, and the start and stop of the workflow manager and its"
        " workers. A task without a recorded call counts by its manager's times. It does not grow with the number of"
        " tasks."
    ),
    advice="It is the price of a run, not of a task: run more tasks in one run, or keep workers running between runs.",
    source="Yang and Miller 1988 (critical path of parallel programs)",
    query="tailrace.open({run}).insights().critical.parts",
    find=startup_and_stop,
    thresholds=(MOSTLY,),
)


FAULTS = Threshold(100_000, "page faults of a process")
IN_KERNEL = Threshold(50, "% of its processor time in the kernel, outside of calls")
AGAIN = Threshold(10, "times as many faults as it has pages of memory")
PAGE_BYTES = 4096


class _Faulting(NamedTuple):
    task: int
    program: str
    faults: int
    kernel_ns: int
    used_ns: int
    memory_bytes: int


def page_faults(found: Analyses) -> Iterator[Match]:
    """All such processes of tasks on the critical path, as one match."""
    inputs, path = found.inputs, found.critical.path
    rows = list(_faulting(found))
    pieces = path[path["task"] >= 0]
    own = pieces[list(OWN_PARTS)].sum(axis=1).groupby(pieces["task"]).sum().to_dict()
    rows = sorted((row for row in rows if own.get(row.task)), key=lambda row: -row.kernel_ns)
    of_task: dict[int, int] = {}
    for row in rows:
        of_task[row.task] = of_task.get(row.task, 0) + row.kernel_ns
    cost = sum(min(ns, int(own[task])) for task, ns in of_task.items())
    if not LEAST.reached(cost, inputs.makespan_ns):
        return
    top, name = rows[0], inputs.called(rows[0].task)
    by = "" if top.program in (*name.split(), "?") else f"{top.program} of "
    yield Match(
        title=f"{by}{name} was {time_text(top.kernel_ns)} of its {time_text(top.used_ns)} on a processor in the kernel,"
        f" outside of calls: {top.faults:,} page faults, where it has at most {bytes_text(top.memory_bytes)} of"
        f" memory{more(len(rows))}",
        names={"task": found.task_id(top.task)},
        cost_ns=cost,
        estimate=True,
        count=len(rows),
        evidence=[{**row._asdict(), "task": inputs.called(row.task)} for row in rows[:EVIDENCE]],
        tasks={row.task for row in rows},
        where=f"in {name}",
    )


def _faulting(found: Analyses) -> Iterator[_Faulting]:
    inputs, m, lives = found.inputs, found.inputs.m, found.inputs.lives
    columns = ["minflt", "maxrss_kib", "stime_ns", "utime_ns"]
    if not set(columns) <= set(m.processes.columns):
        return
    table = m.processes.assign(**{name: m.processes[name].astype("Float64").fillna(0) for name in columns})
    again = table["minflt"] * PAGE_BYTES >= AGAIN.value * 1024 * table["maxrss_kib"]
    table = table[((table["minflt"] >= FAULTS.value) & again).to_numpy(dtype=np.bool_)]
    if not len(table):
        return
    place = {key: at for at, key in enumerate(processes.keys(m.who.iloc[[actors[0] for actors in lives.actors]]))}
    calls = edge_table.spent(m.table.busy, range(len(edge_table.KINDS)))
    in_calls = np.bincount(lives.process[calls.group], calls.weight, len(lives.actors))
    amounts = (table[name].astype(np.int64).tolist() for name in columns)
    for key, faults, memory_kib, system, user in zip(processes.keys(table), *amounts, strict=True):
        process = place.get(key, -1)
        if process < 0:
            continue
        kernel = system - int(in_calls[process])
        actor = lives.last(process)
        if kernel >= IN_KERNEL.value / 100 * (user + system) and not m.of_manager[actor]:
            task = int(inputs.of_who[actor])
            yield _Faulting(task, m.program(actor) or "?", faults, kernel, user + system, 1024 * memory_kib)


PAGE_FAULTS = Rule(
    kind="page faults",
    about=TIME,
    title="Processor time that goes to page faults",
    definition=(
        f"A process of the critical path had {FAULTS.value:,.0f} page faults or more, at least {AGAIN}, and spent"
        f" {IN_KERNEL} or more: it takes memory, gives it back and takes it again, and the kernel clears each page"
        " anew. The estimate is that time of the kernel, at most its tasks' part of the critical path: an upper bound."
    ),
    advice=(
        "Allocate work arrays once and use them again (out= in NumPy), keep the C library from giving memory back"
        " (MALLOC_MMAP_THRESHOLD_ and MALLOC_TRIM_THRESHOLD_, or jemalloc), or let the kernel use huge pages."
    ),
    source="getrusage(2): ru_minflt, ru_stime; mallopt(3)",
    query="tailrace task {run} {task}",
    find=page_faults,
    thresholds=(FAULTS, IN_KERNEL, AGAIN, LEAST),
    change="memory that is used again",
)

RULES = (
    CRITICAL_PATH_GAPS,
    CRITICAL_PATH_IO,
    LOCK_CONTENTION,
    PROCESSOR_WAITS,
    SERVER_WAITS,
    SLEEP_LOOPS,
    LATE_LOOKS,
    LEFT_HELPERS,
    STARTUP_AND_STOP,
    PAGE_FAULTS,
)
