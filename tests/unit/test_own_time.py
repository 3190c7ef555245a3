"""Time of groups of processes outside of calls, and their waiting, against sets of milliseconds. Nothing tells of
processors here, so what they did outside of calls is not known."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from support.flowcase import MS, T0_NS, Story
from support.task_stories import moment
from tailrace.analyzer.model import dataflow, own_time
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.model.time_model import STATES, UNKNOWN, TimeModel
from tailrace.analyzer.util import intervals
from tailrace.analyzer.util.intervals import Intervals
from tailrace.analyzer.util.types import Ints


def spans(rows: Intervals) -> list[tuple[int, float, float]]:
    """(group, begin, end) in ms."""
    times = [((column - T0_NS) / MS).tolist() for column in (rows.start, rows.end)]
    return list(zip(rows.group.tolist(), *times, strict=True))


class Times(NamedTuple):
    """Of groups."""

    outside: Intervals
    waiting: Intervals


def of_groups(m: Model, group: Ints) -> Times:
    rows = TimeModel(m).states(group).rows
    unknown = rows.group % len(STATES) == STATES.index(UNKNOWN)
    outside = Intervals(rows.group[unknown] // len(STATES), *(column[unknown] for column in rows[1:]))
    return Times(intervals.union(outside), own_time.waiting(m, group))


def of_tasks(story: Story) -> Times:
    """The times of the tasks, in the order of their names."""
    m = dataflow.model(story.run())
    return of_groups(m, np.unique(m.who["task"].astype(str), return_inverse=True)[1].astype(np.int64))


def shell(story: Story, child_task: str) -> None:
    """A shell of task a, 0 to 100, forks a process at 10 that makes its first call at 20, its last one at 80, and is
    waited for until 90."""
    moment(story, 0, pid=1, task="a")
    story.event("fork", at_ms=10, pid=1, task="a", cat="PROCESS", dur=0, ret=2)
    story.event("wait", at_ms=10, pid=1, task="a", cat="PROCESS", dur=80 * MS, ret=2)
    moment(story, 100, pid=1, task="a")
    story.read("/in", pid=2, task=child_task, at_ms=20, dur=5 * MS)
    moment(story, 80, pid=2, task=child_task)


def test_a_shell_that_waits_for_a_process_of_its_task_is_no_wait() -> None:
    story = Story()
    shell(story, "a")
    times = of_tasks(story)
    assert spans(times.waiting) == []
    assert spans(times.outside) == [(0, 0, 20), (0, 25, 100)], "starting and ending a process is no call"


def test_a_shell_that_waits_for_a_process_of_another_task_waits() -> None:
    story = Story()
    shell(story, "b")
    times = of_tasks(story)
    assert spans(times.waiting) == [(0, 10, 90)]
    assert spans(times.outside) == [(0, 0, 10), (0, 90, 100), (1, 10, 20), (1, 25, 90)]


def test_a_pid_that_comes_again_is_another_process() -> None:
    """Three children of one pid, one after the other; the second one makes no call."""
    story = Story()
    moment(story, 0, pid=1, task="a")
    for at in (10, 30, 50):
        story.event("fork", at_ms=at, pid=1, task="a", cat="PROCESS", dur=0, ret=2)
        if at != 30:
            moment(story, at + 5, pid=2, task="b", start=str(at))
        story.event("wait", at_ms=at, pid=1, task="a", cat="PROCESS", dur=10 * MS, ret=2)
    moment(story, 100, pid=1, task="a")
    times = of_tasks(story)
    assert spans(times.waiting) == [(0, 10, 20), (0, 30, 40), (0, 50, 60)]
    assert [span for span in spans(times.outside) if span[0] == 1] == [(1, 10, 20), (1, 50, 60)]


calls = st.lists(st.tuples(st.integers(1, 3), st.sampled_from("rw"), st.integers(0, 30), st.integers(1, 9)), max_size=9)


@settings(max_examples=60, deadline=None)
@given(st.lists(calls, min_size=1, max_size=2))
def test_any_calls_of_processes_of_two_tasks(tasks: list[list[tuple[int, str, int, int]]]) -> None:
    story = Story()
    outside: set[tuple[int, int]] = set()
    waiting: set[tuple[int, int]] = set()
    for task, rows in enumerate(tasks):
        lives: dict[int, set[int]] = {}
        busy: dict[int, set[int]] = {}
        waits: dict[int, set[int]] = {}
        for process, kind, at, length in rows:
            pid, when = 10 * task + process, set(range(at, at + length))
            values: dict[str, Any] = {"pid": pid, "task": f"t{task}", "at_ms": at, "dur": length * MS}
            if kind == "r":
                story.read("/f", 0, 10, **values)
            else:
                story.event("wait", cat="PROCESS", ret=99, **values)
                waits.setdefault(pid, set()).update(when)
            busy.setdefault(pid, set()).update(when)
            whole = lives.get(pid, when) | when
            lives[pid] = set(range(min(whole), max(whole) + 1))
        files = {ms for _, kind, at, length in rows if kind == "r" for ms in range(at, at + length)}
        outside |= {(task, ms) for pid in lives for ms in lives[pid] - busy[pid] - files}
        awake = {ms for pid in lives for ms in lives[pid] - waits.get(pid, set())}
        waiting |= {(task, ms) for pid in waits for ms in waits[pid] - awake}
    if not any(tasks):
        return
    m = dataflow.model(story.run())
    group = m.who["task"].map(lambda name: int(name[1:])).to_numpy(dtype=np.int64)
    times = of_groups(m, group)
    for rows, truth in ((times.outside, outside), (times.waiting, waiting)):
        assert {(g, ms) for g, low, high in spans(rows) for ms in range(round(low), round(high))} == truth
