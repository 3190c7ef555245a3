"""The verdict on a run in one or two sentences: what bounds it, what comes next, and the best single change.

    critical path (parts, stages) + processors + findings --verdict--> Verdict

The account is that of the critical path (critical.py): each ns of the makespan is in one part, by the time model.
Computing is said of what was on a processor alone, and where that is not known (threads of a pool), neither computing
nor waiting. Sleep that is nearly all a wait for one lock is called that. The change is that of the finding with the
largest estimate; where that is no bound, its bound is told, too (finding.py). Of one about bytes, what is done with
them is saved, too, so no time is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.insights import resource_waits
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.critical import REST, START
from tailrace.analyzer.insights.finding import ADVISED, GAPS, SEQUENCE, SPACE, TIME, Finding
from tailrace.analyzer.insights.finding_list import Findings
from tailrace.analyzer.insights.processors import BUSY
from tailrace.analyzer.model import time_model
from tailrace.analyzer.util import intervals
from tailrace.analyzer.util.formatting import time_text
from tailrace.analyzer.util.types import Ints

COMPUTING, RUNNING = "computing", "running"
ELSEWHERE = "elsewhere"
WORDS = {
    COMPUTING: time_model.WORDS[time_model.COMPUTING],
    RUNNING: time_model.WORDS[time_model.UNKNOWN],
    "io": "reading and writing files",
    **{name: time_model.WORDS[name] for name in ("ready", "lock", "socket", "sleep", "polling", "pipe", "thread")},
    "wait": time_model.WORDS["child"],
    ELSEWHERE: time_model.WORDS[time_model.ELSEWHERE],
    "gap": "between tasks",
    "startup": "starting up before the first task",
    "stop": "ending after the last task",
    "tracing": "starting tailrace's adapter",
}
MEANINGS = {
    COMPUTING: "on a processor, outside of recorded calls",
    RUNNING: "computing, asleep or waiting: the kernel did not tell",
    "ready": "able to run, while others had the processors",
    "io": "inside reads, writes and metadata calls",
    "lock": "in calls that lock a file",
    "socket": "in calls on them, or until one was ready",
    "pipe": "in calls on them, or until one was ready",
    "sleep": "in calls that wait for time",
    "polling": "until one of several descriptors was ready, or the time was over",
    "thread": "for a condition, a semaphore, a thread's end or a signal",
    ELSEWHERE: "blocked outside of recorded calls",
    "wait": "all processes of a task waited for one outside of it: of another task, or not traced",
    "startup": "before the first task began",
    "stop": "after the last call of a task",
    "tracing": "its own processes, which an untraced run is without",
}
"""What the words stand for; of the time between tasks `words_of` tells."""
UNTOLD = "waiting outside of recorded calls (asleep, or for a processor)"
"""Of `ELSEWHERE`, where the kernel doesn't tell how long threads were ready, or the trace is older than that."""
NEXT_SHARE = 0.05
"""Of the makespan: a part that is smaller is not told."""
MOST_OF = 0.6
"""Of a part, from which on a stage is named for it."""
NEARLY_ALL = 0.9
"""Of the time in I/O, from which on the words name one kind alone; of that asleep and in calls for locks, one lock."""
TOO_FEW = "limited concurrency"
CONTENTION = "lock contention"
IDLE = ("sleep", "polling", "socket", "pipe", "thread", "wait", ELSEWHERE)
"""Parts in which the path waited for something that no finding tells of."""
MUCH_WAITED = 0.2
"""Of the makespan, from which on it is not said that there is little to gain."""
LOCK_STATES = ("lock", "sleep")
"""The states of a task that waits for a lock: in a call, or between two tries."""
OWN, MANAGERS = (COMPUTING, RUNNING), ("startup", "stop", "tracing")
"""Parts that findings explain little of: the tasks' own work, and what is before and after them."""


@dataclass(frozen=True)
class Verdict:
    """text: the sentences; parts: ns of the makespan by the keys of `WORDS`, the largest first; change, gain_ns: the
    best single change in words and what it would save, as its finding estimates; "" and 0: none."""

    text: str
    parts: Mapping[str, int]
    change: str = ""
    gain_ns: int = 0


def verdict(found: Analyses, findings: Findings) -> Verdict:
    """The verdict on a run with these findings."""
    makespan = found.inputs.makespan_ns
    parts = _parts(found)
    if makespan <= 0 or not parts:
        return Verdict("Nothing ran.", parts)
    best, first = _best(found, findings), next(iter(parts))
    said = [_bound(found, findings, parts)]
    if best is not None:
        change = " ".join(filter(None, (best.change, best.where)))
        said.append(f"Best single change: {change}{_saving(best)}.")
        return Verdict(" ".join(said), parts, change, best.cost_ns)
    little = all(one.small or (one.about in ("note", "quality") and one.kind != SEQUENCE) for one in findings)
    waited = sum(parts.get(name, 0) for name in IDLE)
    if little and waited >= MUCH_WAITED * makespan:
        said.append("What it waited for is not known, so neither is what could be gained.")
    elif little and first not in (*MANAGERS, "gap"):
        said.append("Nothing much to gain but by computing less." if first in OWN else "Nothing much to gain.")
    return Verdict(" ".join(said), parts)


def _saving(best: Finding) -> str:
    if not best.cost_ns:
        return ""
    about = "" if best.is_bound else f"about {time_text(best.cost_ns)} less, "
    most = max(best.cost_ns, best.most_ns)
    return f", {about}at most {time_text(most)}{'' if about else ' less'}"


def _best(found: Analyses, findings: Findings) -> Finding | None:
    """The finding whose change saves most time, or I/O; none about where time went alone, or that may be wrong."""
    rows = [
        one
        for one in findings
        if one.about in (TIME, SPACE) and one.change and one.kind != GAPS and not one.doubts
        if ADVISED.reached(round(found.cost(one)), found.inputs.makespan_ns)
    ]
    return max(rows, key=found.cost, default=None)


def _bound(found: Analyses, findings: Findings, parts: Mapping[str, int]) -> str:
    makespan = found.inputs.makespan_ns
    words = {**_words(found), "io": _io_words(found), **_lock_words(found, findings, parts)}
    crowded = _is_crowded(found)
    (first, most), *others = parts.items()
    rest = [(name, ns) for name, ns in others if ns >= NEXT_SHARE * makespan]
    few = next((one for one in findings if one.kind == TOO_FEW and not one.small), None)
    if few is not None and few.cost_ns >= most / 2:
        share = min(few.cost_ns / makespan, 1)
        bound = f"Too few workers bound it: twice as many could save {share:.0%} of {time_text(makespan)}"
        return f"{bound}. Most of the time is {words[first]}, {most / makespan:.0%}."
    shared = (COMPUTING, "ready", *(() if found.inputs.time.tells_ready else (ELSEWHERE,)))
    if first in shared and crowded:
        bound = _processors(found)
        rest = [row for row in rest if row[0] not in shared]
    else:
        subject = words[first]
        bound = f"{subject[0].upper()}{subject[1:]} bounds it: {most / makespan:.0%} of {time_text(makespan)}"
        bound += _place(found, first, most)
        told = found.processors
        if first == "ready" and told.used(_whole(found)) >= BUSY > told.own_share:
            bound += f"; its {told.count:,} processors were all busy, {told.own_share:.0%} with this run"
    if rest:
        bound += f"; next is {words[rest[0][0]]}, {rest[0][1] / makespan:.0%}{_place(found, *rest[0])}"
    return f"{bound}."


def _processors(found: Analyses) -> str:
    """How the processors bound a run that has more work at a time than there are."""
    told = found.processors
    known = bool((told.ready > 0).any())
    at_once = f"up to {_most_at_once(found):,} {found.inputs.units}"
    if known and told.demand.threaded:
        at_once = told.demand.words
    whose = f" ({told.own_share:.0%} with this run)" if known and told.own_share < BUSY else ""
    busy = f"{told.used(_whole(found)):.0%} of {time_text(found.inputs.makespan_ns)}"
    return f"The processors bound it: {told.count:,} for {at_once} at a time, all busy for {busy}{whose}"


def _io_words(found: Analyses) -> str:
    """What nearly all of the critical path's I/O is."""
    on_path = np.unique(found.critical.path["task"].to_numpy(dtype=np.int64))
    files = [edge_table.KINDS[kind] for kind in edge_table.FILES]
    sums = found.inputs.spent.parts()[files].iloc[on_path[on_path >= 0]].sum()
    most = str(sums.idxmax())
    return time_model.WORDS[most] if int(sums[most]) >= NEARLY_ALL * int(sums.sum()) else WORDS["io"]


def _lock_words(found: Analyses, findings: Findings, parts: Mapping[str, int]) -> dict[str, str]:
    """The words of the states in which tasks wait for locks, where nearly all of that is for one that a finding
    names."""
    if not any(one.kind == CONTENTION for one in findings):
        return {}
    by_lock: dict[str, dict[int, Ints]] = {}
    for wait in found.waits.locks:
        by_lock.setdefault(wait.path, {})[wait.task] = wait.times
    waited = {path: sum(found.waits.on_path(found.critical.path, times).values()) for path, times in by_lock.items()}
    top = max(waited, key=lambda path: waited[path])
    if waited[top] < NEARLY_ALL * sum(parts.get(name, 0) for name in LOCK_STATES):
        return {}
    return dict.fromkeys(LOCK_STATES, f"waiting for the lock on {top.rpartition('/')[2]}")


def words_of(found: Analyses) -> Mapping[str, tuple[str, str]]:
    """The parts of this run in words, and what each stands for."""
    gap = "scheduling, queue" if found.inputs.managed else "their start, the script's own time"
    meanings = {**MEANINGS, "gap": f"{gap}, tasks without a recorded call" if found.critical.silent else gap}
    return {name: (text.partition(" (")[0], meanings[name]) for name, text in _words(found).items()}


def _words(found: Analyses) -> Mapping[str, str]:
    words = {**WORDS, **_outside_words(found)}
    if found.inputs.time.tells_ready:
        return words
    return {**words, ELSEWHERE: WORDS["ready"] if _is_crowded(found) else UNTOLD}


def _outside_words(found: Analyses) -> dict[str, str]:
    """The words of the time before the first task and after the last one, where a program of the user's ran most of it
    that is no task, as a script's own last step."""
    inputs, path = found.inputs, found.critical.path
    lives, said = inputs.lives, dict[str, str]()
    owned = np.zeros(len(lives.actors), dtype=np.bool_)
    owned[lives.process[inputs.works[inputs.of_who] | inputs.m.of_manager | inputs.m.of_tailrace]] = True
    for part, via, when in (("startup", START, "before the first task"), ("stop", REST, "after the last task")):
        pieces = path[(path["via"] == via) & (path["task"] < 0)]
        if not len(pieces):
            continue
        low, high = int(pieces["begin_ns"].min()), int(pieces["end_ns"].max())
        within = ~owned & (lives.begun >= low) & (lives.over <= high)
        long = np.flatnonzero(within & (lives.over - lives.begun >= MOST_OF * (high - low)))
        # Of a shell and what it runs the latter.
        last = lives.last(int(long[lives.begun[long].argmax()])) if len(long) else -1
        if last >= 0 and (program := inputs.m.program(last)):
            said[part] = f"running {program} {when}"
    return said


def _place(found: Analyses, part: str, ns: int) -> str:
    """The stage in which most of a part was, where there are several."""
    column = "compute" if part in (COMPUTING, RUNNING) else part
    stages = found.critical.stages
    if column not in stages or len(stages) < 2 or not int(stages[column].sum()):
        return ""
    top = stages.sort_values(column, ascending=False, kind="stable").iloc[0]
    share = int(top[column]) / int(stages[column].sum())
    return f", most of it in {top['stage']}" if share >= MOST_OF else ""


def _parts(found: Analyses) -> dict[str, int]:
    """ns of the makespan by the keys of `WORDS`, the largest first, without those of no time."""
    unknown = found.critical.unknown_ns
    parts = dict(found.critical.parts)
    parts.update({COMPUTING: parts.pop("compute") - unknown, RUNNING: unknown})
    return {name: ns for name, ns in sorted(parts.items(), key=lambda row: -row[1]) if ns > 0}


def _whole(found: Analyses) -> intervals.Intervals:
    span = (np.array([when], dtype=np.int64) for when in (found.inputs.start_ns, found.inputs.end_ns))
    return intervals.make(np.zeros(1, dtype=np.int64), *span)


def _most_at_once(found: Analyses) -> int:
    """How many tasks or processes at a time wanted a processor; where the kernel doesn't tell that, how many ran."""
    inputs, told = found.inputs, found.processors
    if (told.ready >= 0).any():
        return int(told.demand.processes.max(initial=0))
    tasks = resource_waits.innermost(inputs)
    start, end = (inputs.tasks[name].to_numpy(dtype=np.int64)[tasks] for name in ("start_ns", "end_ns"))
    return int(resource_waits.running_at_ends(start, end).max(initial=0))


def _is_crowded(found: Analyses) -> bool:
    """Whether more tasks ran at a time than there are processors, and these were busy."""
    count = found.processors.count
    return 0 < count < _most_at_once(found) and found.processors.used(_whole(found)) >= BUSY
