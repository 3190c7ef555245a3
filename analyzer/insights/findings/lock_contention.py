"""Tasks that wait for locks of files that others have."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from tailrace.analyzer.edges.identities import raw
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import EVIDENCE, IO, LEAST, TIME, Match, Row, Rule, more
from tailrace.analyzer.insights.waits import LockWait
from tailrace.analyzer.util import intervals
from tailrace.analyzer.util.formatting import count_text, time_text


def find(found: Analyses) -> Iterator[Match]:
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
        title=f"{_words(found, path, waits, held)}{more(len(rows))}",
        names={"task": found.of_task(top.task), "path": path},
        cost_ns=cost,
        estimate=True,
        count=len(rows),
        evidence=[
            Row(task=found.inputs.called(one.task), path=one.path, waited_ns=one.waited_ns, tries=one.tries)
            for one in waits[:EVIDENCE]
        ],
        tasks={one.task for _, _, waits, _ in rows for one in waits},
        where=f"on {path.rpartition('/')[2]}",
    )


def _words(found: Analyses, path: str, waits: list[LockWait], held: dict[int, int]) -> str:
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


RULE = Rule(
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
    find=find,
    thresholds=(LEAST,),
    change="a shorter hold of the lock",
    explains=(IO,),
)
