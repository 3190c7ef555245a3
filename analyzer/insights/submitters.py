"""Order by the processes that submit tasks: who waited for a command that ends after its job has waited for the job.

    declared_tasks.submitter (host, pid, waits) --> the process --> rows between tasks and processes
    process tree --> rows between processes

A script of `flux run`s orders its jobs so: each command began before its job and ended after it, and the shell waited
for the command before it started the next one. Here each process is a line of its own, also inside of a task: `flux run
A & sleep 5; flux run B` in a batch script orders nothing, although all of it is one task. The threads of one process
are taken to be ordered.

Invariant: a command that ended before its job (killed, or detached) did not wait for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tailrace.analyzer.insights import process_tree
from tailrace.analyzer.insights.inputs import Inputs
from tailrace.analyzer.store import processes
from tailrace.analyzer.util.types import Ints, Row

Place = tuple[str, int]
"""Host and pid."""


class Submitter(NamedTuple):
    """The process (its number in `Lives`) that submitted a task, from when on it did, and when it had waited for the
    task, or None. Where that command was not traced (Flux's own, in a batch script), the process that ran it.
    """

    task: int
    process: int
    since_ns: int
    waited_ns: int | None


def rows(inputs: Inputs, place: dict[tuple[str, str], int], first_process: int) -> Ints:
    """Shape (n, 4): node and time of the earlier moment, node and time of the later one.

    A node is a position in `Inputs.tasks`, or `first_process` plus the number of a process. place: (workflow, task) ->
    position in `Inputs.tasks`.
    """
    found = list(_submitters(inputs, place))
    if not found:
        return np.empty((0, 4), dtype=np.int64)
    start, end = (inputs.tasks[name].tolist() for name in ("start_ns", "end_ns"))
    tree = process_tree.handovers(inputs.m, inputs.lives.process, inputs.lives)
    between = tree[["producer", "given_ns", "consumer", "taken_ns"]].to_numpy(dtype=np.int64)
    between[:, [0, 2]] += first_process
    submitted = [(first_process + s.process, s.since_ns, s.task, start[s.task]) for s in found]
    ended = [(s.task, end[s.task], first_process + s.process, s.waited_ns) for s in found if s.waited_ns is not None]
    return np.concatenate([between, np.array(submitted + ended, dtype=np.int64).reshape(-1, 4)])


def _submitters(inputs: Inputs, place: dict[tuple[str, str], int]) -> Iterator[Submitter]:
    declared = inputs.tables.get("declared_tasks")
    if declared is None or "submitter" not in declared:
        return
    lives, commands = inputs.lives, _Commands(inputs)
    start, end = (inputs.tasks[name].tolist() for name in ("start_ns", "end_ns"))
    for row in declared[declared["submitter"].notna()].to_dict("records"):
        task = place.get((str(row["workflow"] or ""), str(row["task"])), -1)
        where, waits = _read(row["submitter"])
        if task < 0:
            continue
        command = commands.traced(where, start[task])
        if command >= 0:
            over = int(lives.over[command])
            waited = over if waits and over >= end[task] else None
            yield Submitter(task, command, int(lives.begun[command]), waited)
            continue
        maker, made_ns, waited_ns = commands.untraced(where, start[task], end[task])
        if maker >= 0:
            yield Submitter(task, maker, made_ns, waited_ns if waits else None)


def _read(submitter: Row) -> tuple[Place, bool]:
    """(host, pid) and whether who waits for the process waits for the task, of what a declared line says."""
    host, pid, waits = (submitter.get(key) for key in ("host", "pid", "waits"))
    return (str(host), pid if isinstance(pid, int) else -1), waits is True


class _Commands:
    """The commands that submit tasks, by host and pid."""

    def __init__(self, inputs: Inputs) -> None:
        self.lives = inputs.lives
        self.with_pid: dict[Place, list[int]] = {}
        first = [actors[0] for actors in self.lives.actors]
        for process, (host, pid, _) in enumerate(processes.keys(inputs.m.who.iloc[first])):
            self.with_pid.setdefault((host, pid), []).append(process)
        events = inputs.m.table.process_events
        who = events["who"].to_numpy(dtype=np.int64)
        hosts = inputs.m.who["host"].to_numpy(dtype=object)[who].tolist()
        self.events: dict[Place, list[tuple[int, str, int]]] = {}
        of_all = zip(
            hosts, *(events[name].tolist() for name in ("pid", "ns", "what")), self.lives.process[who], strict=True
        )
        for host, pid, ns, what, process in of_all:
            self.events.setdefault((host, pid), []).append((int(ns), str(what), int(process)))

    def traced(self, where: Place, before: int) -> int:
        """The process with a pid that began last before a time; -1 without one."""
        begun = self.lives.begun
        found = [process for process in self.with_pid.get(where, ()) if begun[process] <= before]
        return max(found, key=lambda process: int(begun[process]), default=-1)

    def untraced(self, where: Place, start: int, end: int) -> tuple[int, int, int | None]:
        """Who made the process with a pid last before `start`, when, and when the same one waited for it after `end`;
        (-1, 0, None) where that is not known."""
        events = sorted(self.events.get(where, ()))
        made = [(ns, process) for ns, what, process in events if what == "fork" and ns <= start]
        if not made:
            return -1, 0, None
        made_ns, maker = made[-1]
        after = [(ns, what) for ns, what, process in events if process == maker and ns > made_ns]
        waited = after[0][0] if after and after[0][1] != "fork" and after[0][0] >= end else None
        return maker, made_ns, waited
