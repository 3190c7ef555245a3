"""The critical path: stories with a known end, and what must hold of any run, against NetworkX."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from flowcase import MS, T0_NS, Story
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.analyzer import dataflow
from tailrace.analyzer.insights import critical, scene


def made(story: Story, **values: Any) -> tuple[scene.Scene, critical.Critical]:
    s = scene.scene(dataflow.model(story.run(2, **values)))
    return s, critical.critical(s)


def moment(story: Story, at_ms: float, **values: Any) -> None:
    """An event that moves nothing and takes no time: the task is there."""
    story.event("start", at_ms=at_ms, cat="PROCESS", dur=0, **values)


def task(story: Story, name: str, start: float, end: float, reads: str = "", writes: str = "", io: float = 1) -> None:
    """A task that reads at its start and writes at its end, `io` ms each."""
    stage = name[0]
    moment(story, start, task=name, stage=stage)
    if reads:
        for number, path in enumerate(reads.split()):
            story.read(path, task=name, stage=stage, at_ms=start + number * io, dur=round(io * MS))
    for path in writes.split():
        story.create(path, task=name, stage=stage, at_ms=end - io, dur=0)
        story.write(path, task=name, stage=stage, at_ms=end - io, dur=round(io * MS))
    moment(story, end, task=name, stage=stage)


def diamond() -> Story:
    """make 0..10 -> (fast 12..20, slow 15..40) -> join 45..50; `alone` 0..49 hands nothing to anyone."""
    story = Story()
    task(story, "make", 0, 10, writes="/a")
    task(story, "fast", 12, 20, reads="/a", writes="/b")
    task(story, "slow", 15, 40, reads="/a", writes="/c")
    task(story, "join", 45, 50, reads="/b /c", writes="/d")
    return story


class TestDiamond:
    def test_the_bound_is_the_longest_chain_of_work(self) -> None:
        s, c = made(diamond())
        assert c.bound_ns == (10 + 25 + 4) * MS, "join read /c 1 ms after its start"
        assert [s.name(t) for t in c.bound_tasks] == ["make", "slow", "join"]

    def test_slack_is_what_a_task_may_take_longer(self) -> None:
        s, c = made(diamond())
        slack = dict(zip(s.tasks["label"], c.tasks["slack_ns"] // MS, strict=True))
        assert slack == {"make": 0, "slow": 0, "join": 0, "fast": 25 - 8 - 1}, "fast must be done before /b is read"

    def test_the_path_splits_the_makespan(self) -> None:
        s, c = made(diamond())
        rows = [
            (s.name(r.task), (r.begin_ns - s.start_ns) // MS, (r.end_ns - s.start_ns) // MS, r.gap // MS)
            for r in c.path.itertuples()
        ]
        assert rows == [("make", 0, 10, 0), ("slow", 10, 40, 5), ("join", 40, 50, 5)]
        assert c.parts == {"compute": (9 + 23 + 2) * MS, "io": (1 + 2 + 3) * MS, "stream": 0, "gap": 10 * MS}

    def test_stages_sum_up_to_the_path(self) -> None:
        _, c = made(diamond())
        assert c.stages.set_index("stage")["path_ns"].to_dict() == {"s": 25 * MS, "m": 10 * MS, "j": 5 * MS, "f": 0}


class TestStreams:
    def pipe(self, slow_reader: bool) -> Story:
        """10 chunks through a pipe; the one that is slower computes 9 of 10 ms, and the other one waits for it."""
        story = Story()
        for i in range(10):
            write = {"at_ms": 10 * i + (1 if slow_reader else 9), "dur": (9 if slow_reader else 1) * MS}
            read = {"at_ms": 10 * i + (9.5 if slow_reader else 1.5), "dur": (1 if slow_reader else 9) * MS}
            story.write("pipe:[7]", None, 10, ftype="fifo", task="w", stage="w", **write)
            story.read("pipe:[7]", None, 10, ftype="fifo", task="r", stage="r", **read)
        return story

    @pytest.mark.parametrize(("slow_reader", "holder"), [(True, "r"), (False, "w")])
    def test_the_slower_end_holds_up_the_run(self, slow_reader: bool, holder: str) -> None:
        s, c = made(self.pipe(slow_reader))
        share = {s.name(t): int(ns) for t, ns in enumerate(c.tasks["path_ns"])}
        assert max(share, key=lambda name: share[name]) == holder
        assert sum(c.parts.values()) == s.makespan_ns

    def test_time_blocked_on_a_pipe_is_no_work(self) -> None:
        s, c = made(self.pipe(False))
        work = dict(zip(s.tasks["label"], c.tasks["work_ns"], strict=True))
        assert work["r"] < work["w"]
        assert c.bound_ns <= s.makespan_ns


class TestProcesses:
    def test_a_shell_that_waits_does_no_work(self) -> None:
        story = Story()
        moment(story, 0, pid=1)
        for pid, start, end in ((2, 5, 20), (3, 25, 60)):
            story.event("fork", at_ms=start - 1, pid=1, cat="PROCESS", dur=0, ret=pid)
            moment(story, start, pid=pid)
            story.write(f"/out{pid}", pid=pid, at_ms=end - 1, dur=MS)
            story.event("wait", at_ms=start, pid=1, cat="PROCESS", dur=(end - start + 1) * MS, ret=pid)
        moment(story, 62, pid=1)
        processes = pd.DataFrame(
            [
                {"host": "n1", "pid": p, "ppid": pp, "exe": f"/bin/p{p}", "argv": None}
                for p, pp in ((1, 0), (2, 1), (3, 1))
            ]
        )
        s, c = made(story, processes=processes)
        assert s.handovers["via"].value_counts().to_dict() == {"fork": 2, "exit": 2}
        names = [s.tasks["pid"].iat[t] for t in c.path["task"]]
        assert names == [1, 2, 1, 3, 1]
        assert c.parts["gap"] == 2 * MS
        work = dict(zip(s.tasks["pid"], c.tasks["work_ns"] // MS, strict=True))
        assert work == {1: 62 - 16 - 36, 2: 15, 3: 35}


class TestKin:
    """Who forked whom: pids come again, and who outlives its parent gets another one."""

    def kin(self, story: Story, *processes: tuple[int, int]) -> list[tuple[str, int, int]]:
        """(via, pid of the producer, pid of the consumer) for processes told as (pid, ppid)."""
        rows = [{"host": "n1", "pid": p, "ppid": pp, "exe": f"/bin/p{p}", "argv": None} for p, pp in processes]
        s, c = made(story, processes=pd.DataFrame(rows))
        assert sum(c.parts.values()) == s.makespan_ns >= c.bound_ns
        pid = s.tasks["pid"].to_numpy()
        return [(r.via, int(pid[r.producer]), int(pid[r.consumer])) for r in s.handovers.itertuples()]

    def lives(self, *spans: tuple[int, float, float]) -> Story:
        story = Story()
        for pid, start, end in spans:
            moment(story, start, pid=pid)
            story.write(f"/out{pid}", pid=pid, at_ms=(start + end) / 2)
            moment(story, end, pid=pid)
        return story

    def test_a_parent_that_lives_is_believed(self) -> None:
        assert self.kin(self.lives((7, 0, 50), (8, 10, 20)), (7, 3), (8, 7)) == [("fork", 7, 8)]

    def test_a_parent_that_was_over_before_is_another_bearer_of_its_pid(self) -> None:
        assert self.kin(self.lives((7, 0, 5), (8, 10, 20)), (7, 3), (8, 7)) == []

    def test_pid_1_takes_in_orphans_and_is_believed_only_where_its_fork_was_seen(self) -> None:
        story = self.lives((1, 0, 50), (8, 10, 20))
        assert self.kin(story, (1, 0), (8, 1)) == []
        story.event("fork", at_ms=9, pid=1, cat="PROCESS", dur=0, ret=8)
        assert self.kin(story, (1, 0), (8, 1)) == [("fork", 1, 8)]

    def test_a_fork_behind_the_first_event_made_a_later_bearer_of_the_pid(self) -> None:
        story = self.lives((7, 0, 50), (8, 10, 20))
        story.event("fork", at_ms=30, pid=7, cat="PROCESS", dur=0, ret=8)
        assert self.kin(story, (7, 3), (8, 7)) == []

    def test_nobody_waits_for_a_process_older_than_itself(self) -> None:
        story = self.lives((8, 0, 20), (7, 10, 50))
        story.event("wait", at_ms=40, pid=7, cat="PROCESS", dur=0, ret=8)
        assert self.kin(story, (7, 3), (8, 3)) == []


def random_story(seed: int) -> Story:
    """Tasks that read what is there when they begin, whole, and write one file each; some at the same time."""
    r, story = random.Random(seed), Story()
    there: list[tuple[float, str]] = []
    for number in range(r.randint(1, 12)):
        start = r.randint(0, 60)
        end = start + r.randint(4, 30)
        inputs = [path for ready, path in there if ready <= start]
        reads = " ".join(r.sample(inputs, min(len(inputs), r.randint(0, 2))))
        task(story, f"t{number}", start, end, reads, f"/f{number}", io=0.5)
        there.append((end, f"/f{number}"))
    return story


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_the_bound_is_networkx_and_the_path_is_the_makespan(seed: int) -> None:
    s, c = made(random_story(seed))
    assert sum(c.parts.values()) == s.makespan_ns
    assert c.bound_ns <= s.makespan_ns
    g: nx.DiGraph[tuple[int, int]] = nx.DiGraph()
    points: dict[int, set[int]] = {t: {int(r.start_ns), int(r.end_ns)} for t, r in enumerate(s.tasks.itertuples())}
    for row in s.handovers.itertuples():
        points[row.producer].add(row.given_ns)
        points[row.consumer].add(row.taken_ns)
        g.add_edge((row.producer, row.given_ns), (row.consumer, row.taken_ns), weight=0)
    for t, times in points.items():
        ordered = sorted(times)
        for low, high in pairwise(ordered):
            g.add_edge((t, low), (t, high), weight=high - low)
    assert c.bound_ns == nx.dag_longest_path_length(g)
    assert (c.tasks["slack_ns"] >= 0).all() and (c.tasks["slack_ns"] == 0).any()


def test_nothing_recorded() -> None:
    s, c = made(Story())
    assert (c.bound_ns, c.bound_tasks, len(c.path), s.makespan_ns) == (0, [], 0, 0)


def test_clocks_that_contradict_are_counted_not_followed() -> None:
    story = Story()
    story.create("/f", task="a", at_ms=5)
    story.write("/f", task="a", at_ms=6, dur=10 * MS)
    story.read("/f", task="b", at_ms=8, dur=MS)
    s, c = made(story)
    assert (s.handovers["taken_ns"] >= s.handovers["given_ns"]).all()
    assert c.bound_ns <= s.makespan_ns
    assert np.all(s.handovers["given_ns"] >= T0_NS)
