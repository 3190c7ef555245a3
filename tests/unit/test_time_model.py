"""The time model's arithmetic: parts that add up, whatever threads did and the kernel says of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.flowcase import MS, T0_NS, Story
from support.task_stories import moment
from tailrace import _native
from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.insights.group_profile import group_profile
from tailrace.analyzer.model import dataflow
from tailrace.analyzer.model.time_model import ABSENT, COMPUTING, ELSEWHERE, READY, STATES, UNKNOWN, TimeModel, filled
from tailrace.analyzer.util import intervals

KINDS = len(edge_table.KINDS)
NUMBERS = (KINDS, len(edge_table.FILES), edge_table.SOCKET, edge_table.PIPE, edge_table.THREAD)


def accounts(**told: dict[int, float]) -> pd.DataFrame:
    """The run's processes by pid; of each column the ms."""
    pids = sorted({pid for values in told.values() for pid in values})
    table = pd.DataFrame({"host": "n1", "pid": pids, "start": "", "exe": "/bin/p"})
    for name, values in told.items():
        table[name] = pd.array([int(values[pid] * MS) if pid in values else None for pid in pids], dtype="Int64")
    return table


def parts(story: Story, tasks: bool = False, **told: dict[int, float]) -> dict[str, float]:
    """The ms of each state that there was, of the whole run as one group."""
    m = dataflow.model(story.run(processes=accounts(**told)))
    row = TimeModel(m).states(np.zeros(len(m.who), dtype=np.int64)).parts().iloc[0] / MS
    return {str(name): round(float(ms), 3) for name, ms in row.items() if ms}


def alone(**values: Any) -> Story:
    """A process that lives for 100 ms and is in a call of 20 ms."""
    story = Story()
    moment(story, 0, pid=1)
    if values:
        story.event(at_ms=40, dur=20 * MS, pid=1, **values)
    moment(story, 100, pid=1)
    return story


def whole_time(found: dict[str, float]) -> float:
    """Without the moments at the begin and the end."""
    assert all(ms >= 0 for ms in found.values())
    return sum(found.values())


def test_time_outside_of_calls_is_divided_by_the_account() -> None:
    found = parts(alone(), run_ns={1: 30}, ready_ns={1: 50}, ready_of_ns={1: 30})
    assert (found[COMPUTING], found[READY]) == (pytest.approx(30, abs=0.1), pytest.approx(50, abs=0.1))
    assert found[ELSEWHERE] == pytest.approx(20, abs=0.1)
    assert whole_time(found) == pytest.approx(100, abs=0.01)


def test_what_has_no_room_outside_of_calls_was_in_them_as_running_and_as_ready() -> None:
    """A killed process's system time is unknown: its reads do not count as waiting for a processor."""
    story = alone(name="read", cat="POSIX", dir="r", size=1, path="/f", file="f", ftype="reg")
    found = parts(story, run_ns={1: 75}, ready_ns={1: 25}, ready_of_ns={1: 75})
    assert found["read"] == pytest.approx(15, abs=0.1) and found[COMPUTING] == pytest.approx(60, abs=0.1)
    assert found[READY] == pytest.approx(25, abs=0.1)


def test_without_an_account_nothing_is_said_of_time_outside_of_calls() -> None:
    found = parts(alone())
    assert found[UNKNOWN] == pytest.approx(100, abs=0.1) and COMPUTING not in found


def test_where_the_kernel_counts_no_ready_time_it_is_elsewhere() -> None:
    found = parts(alone(), utime_ns={1: 20}, stime_ns={1: 10})
    assert found[COMPUTING] == pytest.approx(30, abs=0.1) and READY not in found
    assert found[ELSEWHERE] == pytest.approx(70, abs=0.1)


@pytest.mark.parametrize(
    ("call", "state"),
    [
        ({"name": "nanosleep", "cat": "WAIT"}, "sleep"),
        ({"name": "poll", "cat": "WAIT", "ret": 0}, "polling"),
        ({"name": "poll", "cat": "WAIT", "ret": 1, "path": "pipe:[1]", "file": "p", "ftype": "fifo"}, "pipe"),
        ({"name": "poll", "cat": "WAIT", "ret": 1, "path": "socket:[1]", "file": "s", "ftype": "sock"}, "socket"),
        ({"name": "epoll_wait", "cat": "WAIT", "ret": 1, "path": "anon", "file": "e", "ftype": "anon"}, "polling"),
        ({"name": "pthread_join", "cat": "WAIT"}, "thread"),
        ({"name": "sigsuspend", "cat": "WAIT"}, "signal"),
        ({"name": "fcntl", "cat": "POSIX", "flags": 2, "path": "/l", "file": "l", "ftype": "reg"}, "lock"),
        ({"name": "fcntl", "cat": "POSIX", "path": "/l", "file": "l", "ftype": "reg"}, "metadata"),
        ({"name": "fsync", "cat": "POSIX", "path": "/f", "file": "f", "ftype": "reg"}, "flush"),
        ({"name": "recv", "cat": "SOCKET", "dir": "r", "size": 1}, "socket"),
        ({"name": "wait", "cat": "PROCESS", "ret": 7}, "child"),
    ],
)
def test_a_call_that_waits_is_what_it_waits_for(call: dict[str, Any], state: str) -> None:
    found = parts(alone(**call), run_ns={1: 80}, ready_ns={1: 0}, ready_of_ns={1: 80})
    assert found[state] == pytest.approx(20, abs=0.1)
    assert found[COMPUTING] == pytest.approx(80, abs=0.1)


def test_waits_are_no_accesses_and_no_io() -> None:
    waiting = {"name": "poll", "cat": "WAIT", "ret": 1, "path": "pipe:[1]", "file": "p", "ftype": "fifo"}
    one, other = (story.run().edges() for story in (alone(**waiting), alone()))
    for name in ("bursts", "counts", "functions", "files", "patterns"):
        assert len(getattr(one, name)) == len(getattr(other, name)), name


def test_calls_that_did_not_wait_are_no_waits() -> None:
    found = parts(alone(name="poll", cat="WAIT", at_once=1), run_ns={1: 100}, ready_ns={1: 0}, ready_of_ns={1: 100})
    assert found[COMPUTING] == pytest.approx(100, abs=0.1)


def test_a_task_is_in_the_state_of_its_running_process() -> None:
    """gen | wc: gen computes, wc waits on the pipe for the whole time."""
    story = alone()
    pipe = {"path": "pipe:[5]", "file": "pipe:[5]", "ftype": "fifo", "cat": "PIPE"}
    story.event("read", pid=2, at_ms=0, dur=100 * MS, dir="r", size=10, **pipe)
    found = parts(story, run_ns={1: 90, 2: 1}, ready_ns={1: 10, 2: 0}, ready_of_ns={1: 90, 2: 1})
    assert found[COMPUTING] == pytest.approx(90, abs=0.1) and found[READY] == pytest.approx(10, abs=0.1)


PIPE = {"path": "pipe:[5]", "file": "pipe:[5]", "ftype": "fifo", "cat": "PIPE"}
SOCKETS = [
    {"path": f"tcp:{name}", "file": f"0:8:{number}", "ftype": "sock", "cat": "SOCKET"}
    for number, name in enumerate(("1.0.0.1:1->1.0.0.1:2", "1.0.0.1:2->1.0.0.1:1"), 1)
]


@pytest.mark.parametrize(
    ("call", "state"),
    [
        ({"name": "pthread_join", "cat": "WAIT"}, "thread"),
        ({"name": "nanosleep", "cat": "WAIT"}, "sleep"),
        ({"name": "sigsuspend", "cat": "WAIT"}, "signal"),
    ],
)
@pytest.mark.parametrize("ends", [(PIPE, PIPE), SOCKETS])
def test_a_wait_for_the_group_itself_is_what_its_other_end_does(
    ends: list[dict[str, Any]], call: dict[str, Any], state: str
) -> None:
    """gen | wc: gen waits for something for 90 ms; where gen is of another task, wc's wait is on a pipe."""
    story = Story()
    where: dict[str, Any] = {"pid": 1, "task": "gen", "stage": "s"}
    moment(story, 0, **where)
    story.event(at_ms=5, dur=90 * MS, **call, **where)
    story.event("write", at_ms=96, dur=MS, dir="w", size=10, **ends[0], **where)
    moment(story, 100, **where)
    story.event("read", pid=2, task="wc", stage="s", at_ms=0, dur=100 * MS, dir="r", size=10, **ends[1])
    used = {"run_ns": {1: 8, 2: 1}, "ready_ns": {1: 0, 2: 0}, "ready_of_ns": {1: 8, 2: 1}}
    found = parts(story, **used)
    assert found[state] == pytest.approx(90, abs=0.1) and whole_time(found) == pytest.approx(100, abs=0.01)
    m = dataflow.model(story.run(processes=accounts(**used)))
    wc = TimeModel(m).states(np.where(m.who["task"] == "wc", 0, -1)).parts().iloc[0] / MS
    assert wc["pipe"] + wc["socket"] == pytest.approx(100, abs=0.1)


def test_silent_threads_that_wait_for_a_processor_are_ready() -> None:
    used = {"run_ns": {1: 82}, "ready_ns": {1: 15}, "ready_of_ns": {1: 82}}
    story = alone(name="pthread_join", cat="WAIT")
    story.event("thread", pid=1, at_ms=100, cat="PROCESS", dur=0, run_ns=78 * MS, ready_ns=2 * MS)
    found = parts(story, **used)
    assert found[READY] == pytest.approx(15, abs=0.2) and found["thread"] == pytest.approx(3, abs=0.2)


def test_what_silent_threads_compute_is_no_wait_for_them() -> None:
    found = parts(alone(name="pthread_join", cat="WAIT"), run_ns={1: 95}, ready_ns={1: 0}, ready_of_ns={1: 95})
    assert found[COMPUTING] == pytest.approx(95, abs=0.2), "80 ms outside of the call, 15 of others in it"
    assert found["thread"] == pytest.approx(5, abs=0.2)


def test_threads_that_worked_for_several_tasks_have_no_share_of_their_process() -> None:
    story = Story()
    for tid, name in ((11, "a"), (12, "b")):
        moment(story, 0, pid=1, tid=tid, task=name, stage="s")
        moment(story, 100, pid=1, tid=tid, task=name, stage="s")
    assert set(parts(story, run_ns={1: 100}, ready_ns={1: 0}, ready_of_ns={1: 100})) <= {UNKNOWN, "metadata", "read"}


def test_several_threads_of_one_task_share_what_their_process_used() -> None:
    story = Story()
    for tid in (1, 12):
        moment(story, 0, pid=1, tid=tid, task="a", stage="s")
        moment(story, 100, pid=1, tid=tid, task="a", stage="s")
    found = parts(story, utime_ns={1: 50}, stime_ns={1: 0})
    assert UNKNOWN not in found
    assert found[COMPUTING] == pytest.approx(50, abs=0.1)


def test_a_thread_that_entered_a_context_has_its_own_account_there() -> None:
    story = Story()
    for tid, name, used in ((11, "a", 30), (12, "b", 60)):
        where: dict[str, Any] = {"pid": 1, "tid": tid, "task": name, "stage": "s", "cat": "PROCESS", "dur": 0}
        story.event("enter", at_ms=0, run_ns=5 * MS, ready_ns=MS, **where)
        story.event("leave", at_ms=100, run_ns=(5 + used) * MS, ready_ns=(1 + 100 - used) * MS, **where)
    m = dataflow.model(story.run())
    code = (m.who["task"] == "b").to_numpy().astype(np.int64)
    found = TimeModel(m).states(code).parts() / MS
    assert found[COMPUTING].tolist() == pytest.approx([30, 60], abs=0.1)
    assert found[READY].tolist() == pytest.approx([70, 40], abs=0.1)
    assert TimeModel(m).on_processor(code, 2).tolist() == pytest.approx([30 * MS, 60 * MS])


spans = st.lists(st.tuples(st.integers(0, 200), st.integers(1, 60), st.integers(0, KINDS - 1)), max_size=6)
shares = st.tuples(st.sampled_from([0.0, 1.0]), *[st.floats(0, 1)] * 7)
threads = st.lists(st.tuples(st.integers(-1, 2), st.integers(0, 100), st.integers(0, 150), spans, shares), max_size=6)


@settings(max_examples=200, deadline=None)
@given(threads)
def test_the_states_of_groups_add_up_to_the_time_in_which_their_threads_lived(
    drawn: list[tuple[int, int, int, list[tuple[int, int, int]], tuple[float, ...]]],
) -> None:
    group = np.array([row[0] for row in drawn], dtype=np.int64)
    process = np.arange(len(drawn), dtype=np.int64) // 2
    begin, length = (np.array([row[at] for row in drawn], dtype=np.int64) for at in (1, 2))
    life = intervals.make(np.arange(len(drawn), dtype=np.int64), begin, begin + length)
    rows = [(t, kind, at, n) for t, row in enumerate(drawn) for at, n, kind in row[3]]
    thread, kind, at, n = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    low, high = np.maximum(at, begin[thread]), np.minimum(at + n, (begin + length)[thread])
    low = np.minimum(low, high)  # calls are in the thread's life
    calls = intervals.union(intervals.make(edge_table.keyed(thread, kind), low, high))
    told = np.array([row[4] for row in drawn]).reshape(-1, 8).T
    told[2], told[5] = np.minimum(told[2], 1 - told[1]), np.minimum(told[5], 1 - told[4])
    found = intervals.Intervals(
        *_native.time_states((group, process), [np.ascontiguousarray(one) for one in told], life, calls, NUMBERS)
    )
    assert (found.weight > 0).all() and (found.weight <= found.end - found.start).all()
    mine = group[life.group] >= 0
    alive = intervals.union(intervals.Intervals(group[life.group][mine], *(column[mine] for column in life[1:])))
    lived = intervals.length(alive, 3)
    sums = np.bincount(found.group // len(STATES), found.weight, 3)
    assert np.abs(sums - lived).max(initial=0) <= len(found.weight)


@given(st.lists(st.integers(0, 50), min_size=len(STATES), max_size=len(STATES)), st.integers(0, 2000))
def test_pieces_are_filled_or_cut_to_their_length(states: list[int], length: int) -> None:
    spent = pd.DataFrame([states], columns=list(STATES))
    row = filled(spent, np.array([length])).iloc[0]
    assert int(row.sum()) == length and (row >= 0).all()
    known = [int(ms) for name, ms in row.items() if name != UNKNOWN]
    assert length < sum(states) or known == [ms for name, ms in zip(STATES, states, strict=True) if name != UNKNOWN]


def test_time_between_the_tasks_of_a_stage_is_spent_on_nothing() -> None:
    """Two tasks of 100 ms, which compute all the time, 800 ms from each other."""
    story = Story()
    for pid, begin in ((1, 0), (2, 900)):
        for at in (begin, begin + 100):
            moment(story, at, pid=pid, stage="s", task=f"t{pid}")
    spent = group_profile(story.run(processes=accounts(run_ns={1: 100, 2: 100})), "stage", "s").spent_ns
    assert spent[ABSENT] == pytest.approx(800 * MS, rel=0.01) and spent[UNKNOWN] <= len(STATES)
    assert spent[COMPUTING] == pytest.approx(200 * MS, rel=0.01) and sum(spent.values()) == 1000 * MS


def test_a_piece_has_its_share_of_a_span() -> None:
    m = dataflow.model(alone().run(processes=accounts(run_ns={1: 50}, ready_ns={1: 50}, ready_of_ns={1: 50})))
    spans = TimeModel(m).states(np.zeros(len(m.who), dtype=np.int64))
    low, high = (np.array([T0_NS + at * MS], dtype=np.int64) for at in (10, 30))
    piece = spans.inside(np.zeros(1, dtype=np.int64), low, high).iloc[0]
    assert piece[COMPUTING] == pytest.approx(10 * MS, rel=0.01) and piece[READY] == pytest.approx(10 * MS, rel=0.01)
    assert int(piece.sum()) == pytest.approx(20 * MS, abs=len(STATES))
