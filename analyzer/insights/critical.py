"""The critical path through data: what a run's time was spent on, and which tasks had time to spare.

Two questions, one graph. Its nodes are points (task, time): a task's start and end, and every time at which it gave or
took something (scene.py). Edges lead from a task's point to its next one, and along handovers.

    bound    The longest chain of work: an edge inside a task weighs its time, less what the task spent blocked in calls
             on pipes and sockets or waiting for a child; a handover weighs nothing. With any number of processors and
             no delay between tasks, the run could not have been shorter. Handovers go forward in time, so the bound is
             at most the makespan.
    slack    of a task: how much longer it could have worked without making the bound longer. 0: it is critical.
    path     What really held up the run, told backwards from the end: a task's time belongs to it back to the moment at
             which its last input came; from there the path goes on with the task that gave it. A pipe's reader that was
             slower than its writer was not held up by it. Each ns of the makespan is on the path once, as `compute`,
             `io` (inside reads, writes and metadata calls of files), `stream` (inside calls on pipes and sockets), or
             `gap`: between what a task was given last and its start, when nothing on the path ran (queue, scheduling,
             start-up).

A process that waits without a call that is recorded (sigsuspend, a spin) counts as working. The slack of a handover is
the time between given and taken, by the bytes that were read.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from tailrace.analyzer import csr
from tailrace.analyzer import edges as et
from tailrace.analyzer import intervals as iv
from tailrace.analyzer.insights.scene import FORK, Scene
from tailrace.analyzer.intervals import Ints

PARTS = ("compute", "io", "stream", "gap")


@dataclass(frozen=True)
class Critical:
    """
    bound_ns: the longest chain of work; bound_tasks: its tasks (positions in `Scene.tasks`), first to last.
    tasks: one row a task: start_ns, end_ns, work_ns (not blocked), slack_ns, path_ns (of the path), critical.
    path: one row a piece of the path, in time order: task (-1: nothing ran yet), via (how the path came here), version,
        begin_ns, end_ns, and the ns of `PARTS`.
    stages: one row a stage: workflow, stage, path_ns, the ns of `PARTS`, least_slack_ns, tasks_on_path.
    parts: the ns of `PARTS` over the makespan; they sum up to it.
    dropped: handovers among equal times that would close a cycle, left out of the bound.
    """

    bound_ns: int
    bound_tasks: list[int]
    tasks: pd.DataFrame
    path: pd.DataFrame
    stages: pd.DataFrame
    parts: dict[str, int]
    dropped: int


def critical(s: Scene) -> Critical:
    """The critical path of a scene; see the module's definition."""
    longest = bound(s)
    path = _path(s)
    on_path = path[path["task"] >= 0].groupby("task")[["compute", "io", "stream"]].sum().sum(axis=1)
    tasks = s.tasks[["start_ns", "end_ns"]].copy()
    tasks["work_ns"] = tasks["end_ns"] - tasks["start_ns"] - _blocked(s).length()
    tasks["slack_ns"] = longest.slack_ns
    tasks["path_ns"] = on_path.reindex(range(len(tasks)), fill_value=0).to_numpy(dtype=np.int64)
    tasks["critical"] = longest.slack_ns == 0
    return Critical(
        bound_ns=longest.ns,
        bound_tasks=longest.tasks,
        tasks=tasks,
        path=path,
        stages=_by_stage(s, tasks, path),
        parts={name: int(path[name].sum()) for name in PARTS},
        dropped=longest.dropped,
    )


# --- the bound -------------------------------------------------------------------------------------------------------


def _blocked(s: Scene) -> iv.Cover:
    return s.cover(et.STREAM, et.WAIT)


@dataclass(frozen=True)
class Bound:
    """ns: the longest chain of work; tasks: on it, first to last; slack_ns: of each task; dropped: as in `Critical`."""

    ns: int
    tasks: list[int]
    slack_ns: Ints
    dropped: int


def bound(
    s: Scene, handovers: pd.DataFrame | None = None, quicker: iv.Cover | None = None, factor: float = 1.0
) -> Bound:
    """The bound of a scene, or of what it would be (whatif.py).

    Args:
        handovers: instead of the scene's.
        quicker: times of the tasks that would take `1 / factor` of what they took.
    """
    count = len(s.tasks)
    if count == 0:
        return Bound(0, [], np.empty(0, dtype=np.int64), 0)
    rows = s.handovers if handovers is None else handovers
    every = np.arange(count, dtype=np.int64)
    task = np.concatenate([every, every, rows["producer"].to_numpy(), rows["consumer"].to_numpy()])
    ends = [s.tasks["start_ns"].to_numpy(), s.tasks["end_ns"].to_numpy()]
    when = np.concatenate([*ends, rows["given_ns"].to_numpy(), rows["taken_ns"].to_numpy()])
    order = np.lexsort((when, task))
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (task[order][1:] != task[order][:-1]) | (when[order][1:] != when[order][:-1])
    point = np.empty(len(order), dtype=np.int64)
    point[order] = np.cumsum(new) - 1
    task, when = task[order][new], when[order][new]
    inner = np.flatnonzero(task[1:] == task[:-1])
    worked = when[inner + 1] - when[inner] - _blocked(s).inside(task[inner], when[inner], when[inner + 1])
    if quicker is not None:
        saved = quicker.inside(task[inner], when[inner], when[inner + 1]) * (1 - 1 / factor)
        worked = np.maximum(worked - saved.astype(np.int64), 0)
    given, taken = point[2 * count : 2 * count + len(rows)], point[2 * count + len(rows) :]
    cost = np.concatenate([worked, np.zeros(len(rows), dtype=np.int64)])
    source, target = np.concatenate([inner, given]), np.concatenate([inner + 1, taken])
    g, found, dropped = _acyclic(len(task), source, target, cost, len(inner))
    none = np.zeros(len(task), dtype=np.int64)
    back = csr.reverse(g)
    rest = csr.longest(back, none, cost[g.edge][back.edge])
    through = np.full(count, 0, dtype=np.int64)
    np.maximum.at(through, task[inner], found.length[inner] + worked + rest.length[inner + 1])
    end = int(found.length.argmax())
    whole = int(found.length[end])
    chain = [int(t) for t in task[csr.path(g, found, end)]]
    chain = [t for i, t in enumerate(chain) if i == 0 or t != chain[i - 1]]
    return Bound(whole, chain, whole - through, dropped)


def _acyclic(nodes: int, source: Ints, target: Ints, cost: Ints, inner: int) -> tuple[csr.Graph, csr.Longest, int]:
    """The graph without handovers inside a cycle (all of its points bear one time), and its longest paths."""
    none = np.zeros(nodes, dtype=np.int64)
    g = csr.build(nodes, source, target)
    found = csr.longest(g, none, cost[g.edge])
    if found.reached.all():
        return g, found, 0
    knot = csr.knots(g, found.reached)
    among = (knot[source] >= 0) & (knot[source] == knot[target])
    among[:inner] = False
    keep = np.flatnonzero(~among)
    g = csr.build(nodes, source[keep], target[keep])
    g = csr.Graph(g.at, g.target, keep[g.edge])
    return g, csr.longest(g, none, cost[g.edge]), int(among.sum())


# --- what the makespan was spent on ----------------------------------------------------------------------------------


def _path(s: Scene) -> pd.DataFrame:
    """The pieces of the path; see the module's definition."""
    pieces = _walk(s)
    out = pd.DataFrame(pieces, columns=["task", "via", "version", "begin_ns", "end_ns", "start_ns"])
    out = out.iloc[::-1].reset_index(drop=True)
    numbers = ["task", "version", "begin_ns", "end_ns", "start_ns"]
    out[numbers] = out[numbers].astype(np.int64)
    task = out["task"].to_numpy()
    low, high = out["start_ns"].to_numpy(), out["end_ns"].to_numpy()
    ran = task >= 0
    for name in PARTS:
        out[name] = np.int64(0)
    files = (et.READ, et.WRITE, et.META)
    io = s.cover(*files).inside(task[ran], low[ran], high[ran])
    either = s.cover(*files, et.STREAM).inside(task[ran], low[ran], high[ran])
    out.loc[ran, "io"] = io
    out.loc[ran, "stream"] = np.maximum(either - io, 0)
    out["compute"] = np.where(ran, high - low - out["io"] - out["stream"], 0)
    out["gap"] = low - out["begin_ns"]
    result: pd.DataFrame = out.drop(columns="start_ns")
    return result


def _walk(s: Scene) -> list[tuple[int, str, int, int, int, int]]:
    """(task, via, version, begin, end, start), last first: begin to start is a gap, start to end is the task's."""
    if not s.tasks["active"].any():
        return [(-1, "", -1, s.start_ns, s.end_ns, s.end_ns)] if len(s.tasks) else []
    rows = s.handovers[s.handovers["held"]]
    order = np.argsort(rows["consumer"].to_numpy(), kind="stable")
    bounds = np.searchsorted(rows["consumer"].to_numpy()[order], np.arange(len(s.tasks) + 1))
    producer, given, taken = (rows[name].to_numpy()[order] for name in ("producer", "given_ns", "taken_ns"))
    via, version = rows["via"].to_numpy()[order], rows["version"].to_numpy()[order]
    start = s.tasks["start_ns"].to_numpy()
    task = int(s.tasks["end_ns"].to_numpy().argmax())
    now, out = s.end_ns, list[tuple[int, str, int, int, int, int]]()
    while now > s.start_ns:
        mine = slice(int(bounds[task]), int(bounds[task + 1]))
        possible = np.flatnonzero((taken[mine] <= now) & (given[mine] < now)) + mine.start
        if not len(possible):
            begin = int(start[task])
            if begin < now:
                out.append((task, "", -1, begin, now, begin))
            if begin > s.start_ns:
                out.append((-1, "", -1, s.start_ns, begin, begin))
            break
        # What came last held the task up; of equals data says more than the process tree.
        best = max(possible.tolist(), key=lambda i: (given[i], via[i] != FORK, producer[i]))
        begin = int(given[best])
        ran = min(max(begin, int(start[task])), now)
        out.append((task, str(via[best]), int(version[best]), begin, now, ran))
        task, now = int(producer[best]), begin
    return out


def _by_stage(s: Scene, tasks: pd.DataFrame, path: pd.DataFrame) -> pd.DataFrame:
    stage = s.tasks["stage_code"].to_numpy()
    on = path[path["task"] >= 0]
    sums = on.groupby(stage[on["task"].to_numpy()])[list(PARTS)].sum().reindex(range(len(s.stages)), fill_value=0)
    out = s.stages[["workflow", "stage"]].reset_index(drop=True).join(sums)
    out["path_ns"] = out["compute"] + out["io"] + out["stream"]
    out["least_slack_ns"] = tasks["slack_ns"].groupby(stage).min().reindex(range(len(out)), fill_value=0)
    distinct = on["task"].drop_duplicates()
    out["tasks_on_path"] = np.bincount(stage[distinct.to_numpy()], minlength=len(out))
    result: pd.DataFrame = out.sort_values("path_ns", ascending=False, kind="stable", ignore_index=True)
    return result
