"""The critical path: stories with a known end, and what must hold of any run, against NetworkX."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.flowcase import MS, T0_NS, Story
from support.task_stories import declared_jobs, diamond, moment, task
from tailrace.analyzer.insights import critical, inputs, insights
from tailrace.analyzer.insights.critical import PARTS
from tailrace.analyzer.model import dataflow


def made(story: Story, **values: Any) -> tuple[inputs.Inputs, critical.Critical]:
    s = inputs.inputs_of(dataflow.model(story.run(2, **values)))
    return s, critical.critical(s)


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
        parts = {"compute": (9 + 23 + 2) * MS, "io": (1 + 2 + 3) * MS, "gap": 10 * MS}
        assert c.parts == dict.fromkeys(PARTS, 0) | parts
        assert c.unknown_ns == parts["compute"], "nothing tells of processors"

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
            story.write("pipe:[7]", None, 10, ftype="fifo", task="w", stage="w", pid=1, **write)
            story.read("pipe:[7]", None, 10, ftype="fifo", task="r", stage="r", pid=2, **read)
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


def found(story: Story, **values: Any) -> tuple[list[tuple[str, str, float, float, float]], critical.Critical]:
    """The path as (task, via, begin, end, gap) in ms, "" where there is none; its parts are the makespan."""
    i = insights(story.run(2, **values))
    s, c = i.inputs, i.critical
    assert sum(c.parts.values()) == s.makespan_ns >= c.bound_ns
    names = [s.name(t) if t >= 0 else "" for t in c.path["task"]]
    times = [(c.path[name] - s.start_ns) / MS for name in ("begin_ns", "end_ns")]
    return list(zip(names, c.path["via"], *times, c.path["gap"] / MS, strict=True)), c


def managed(story: Story) -> Story:
    """A manager's process around the story, 0 to 100, untagged, that computes all the time."""
    for at in (0, 100):
        story.write("/log", at, 1, pid=99, at_ms=at, dur=0)
    return story


class TestManager:
    def test_its_time_is_a_gap_and_the_path_names_tasks(self) -> None:
        story = managed(Story())
        task(story, "make", 10, 30, writes="/a")
        task(story, "use", 40, 90, reads="/a")
        path, c = found(story)
        assert path == [
            ("", "start", 0, 10, 0),
            ("make", "", 10, 30, 0),
            ("use", "data", 30, 90, 10),
            ("", "rest", 90, 100, 0),
        ]
        assert c.bound_ns == (20 + 50) * MS
        assert [c.parts[name] for name in ("startup", "gap", "stop")] == [10 * MS] * 3

    def test_a_task_works_until_its_manager_says_that_it_was_over(self) -> None:
        """`make` computes for 5 ms after its last call, `use` for 4: neither is a gap, nor the manager's stop."""
        story = managed(Story())
        task(story, "make", 10, 30, writes="/a")
        task(story, "use", 40, 90, reads="/a")
        ends = [("make", 35), ("use", 94)]
        tasks = pd.DataFrame(
            {"workflow": "w", "stage": n, "task": n, "parent": None, "t_end_ns": T0_NS + over * MS} for n, over in ends
        )
        path, c = found(story, declared_tasks=tasks)
        assert path == [
            ("", "start", 0, 10, 0),
            ("make", "", 10, 35, 0),
            ("use", "data", 35, 94, 5),
            ("", "rest", 94, 100, 0),
        ]
        assert [c.parts[name] for name in ("startup", "gap", "stop")] == [10 * MS, 5 * MS, 6 * MS]

    def test_what_tailrace_itself_took_of_it_is_tracing(self) -> None:
        story = managed(Story())
        task(story, "make", 10, 30, writes="/a")
        for at in (2, 7):
            story.write("/log", at, 1, pid=7, at_ms=at, dur=0)
        for command, parts in {"tailrace-python": [5, 5], "tail": [10, 0]}.items():
            argv = ["python3", f"/opt/bin/{command}", "adapter"]
            table = pd.DataFrame([{"host": "n1", "pid": 7, "start": "", "exe": "/bin/python3", "argv": argv}])
            _, c = found(story, processes=table)
            assert [c.parts[name] for name in ("startup", "tracing")] == [part * MS for part in parts]

    def test_the_time_between_two_tries_of_a_task_is_a_gap(self) -> None:
        """`make` fails at 30 ms, and is tried again at 170."""
        story = managed(Story())
        task(story, "make", 10, 30, writes="/a")
        task(story, "make", 170, 190, writes="/a")
        tries = pd.DataFrame(
            {
                "workflow": "w",
                "task": "make",
                "try": [0, 1],
                "t_launch_ns": [T0_NS + 10 * MS, T0_NS + 170 * MS],
                "t_end_ns": pd.array([T0_NS + 30 * MS, None], dtype="Int64"),
            }
        )
        tasks = pd.DataFrame([{"workflow": "w", "stage": "make", "task": "make", "parent": None}])
        values = {"declared_tasks": tasks, "declared_tries": tries}
        _, c = found(story, **values)
        assert c.parts["gap"] == 140 * MS and c.bound_ns == 40 * MS
        assert sum(c.parts.values()) == 190 * MS
        (gap,) = [f for f in insights(story.run(2, **values)).findings() if f.kind == "critical path gaps"]
        assert gap.title.endswith("the longest gap is 140 ms, between tries of make")
        assert "before the next one" in gap.advice

    def test_tasks_without_a_call_are_neither_start_up_nor_stop(self) -> None:
        """`slept` is in no event; `also` may have begun at any time until its end, when `make` had."""
        story = managed(Story())
        task(story, "make", 20, 30, writes="/a")
        times = {"early": (4, 15), "also": (2, 25), "make": (18, 30), "slept": (30, 80), "never": (31, 90)}
        keys = ("t_launch_ns", "t_end_ns")
        rows = [{"task": n, **dict(zip(keys, ms, strict=True))} for n, ms in times.items()]
        tasks = pd.DataFrame(rows).assign(workflow="w", stage="s", parent=None, status="done", tries=1)
        for key in keys:
            tasks[key] = tasks[key].astype("Int64") * MS + T0_NS
        tasks.loc[tasks["task"] == "never", "status"] = "dep_failed"
        path, c = found(story, declared_tasks=tasks)
        assert path == [
            ("", "start", 0, 4, 0),
            ("", "silent", 4, 20, 16),
            ("make", "", 20, 30, 0),
            ("", "silent", 30, 80, 50),
            ("", "rest", 80, 100, 0),
        ]
        assert [c.parts[name] for name in ("startup", "gap", "stop")] == [4 * MS, 66 * MS, 20 * MS]
        assert c.silent == 3

    def test_forks_and_waits_of_a_script_lead_to_the_task_that_it_ran_before(self) -> None:
        story = managed(Story())
        for name, pid, start, end in (("one", 2, 10, 30), ("two", 3, 35, 60)):
            story.event("fork", at_ms=start - 1, pid=99, cat="PROCESS", dur=0, ret=pid)
            task(story, name, start, end, writes=f"/{name}")
            for row in story.rows:
                row["pid"] = pid if row.get("task") == name else row["pid"]
            story.event("wait", at_ms=start, pid=99, cat="PROCESS", dur=(end - start + 1) * MS, ret=pid)
        rows = [
            {"host": "n1", "pid": p, "ppid": q, "exe": "/bin/sh", "argv": None} for p, q in ((99, 5), (2, 99), (3, 99))
        ]
        path, c = found(story, processes=pd.DataFrame(rows))
        assert path == [
            ("", "start", 0, 10, 0),
            ("one", "", 10, 30, 0),
            ("two", "fork", 30, 60, 5),
            ("", "rest", 60, 100, 0),
        ]
        assert (c.parts["startup"], c.parts["stop"]) == (10 * MS, 40 * MS)
        assert c.bound_ns == (20 + 25) * MS

    def test_a_copy_by_the_manager_leads_to_the_source_task(self) -> None:
        story = managed(Story())
        task(story, "make", 10, 30, writes="/a")
        task(story, "other", 5, 40)
        story.read("/a", pid=98, at_ms=32)
        story.create("/copy", pid=98, at_ms=33)
        story.write("/copy", pid=98, at_ms=34, dur=MS)
        task(story, "use", 50, 90, reads="/copy")
        path, _ = found(story)
        assert path[2:4] == [("make", "", 10, 30, 0), ("use", "data", 30, 90, 20)]

    def test_declared_predecessors_delay_a_task_that_reads_nothing(self) -> None:
        story = Story()
        task(story, "first", 0, 30)
        task(story, "busy", 0, 38, writes="/b")
        task(story, "then", 40, 60, writes="/c")
        path, c = found(story, **declared_jobs(("first", "then")))
        assert path == [("first", "", 0, 30, 0), ("then", "declared", 30, 60, 10)]
        assert c.bound_ns == 50 * MS
        over_ghost, _ = found(story, **declared_jobs(("first", "ghost"), ("ghost", "then")))
        assert over_ghost == path, "over one without events"

    def test_without_a_reason_the_last_ended_task_is_the_predecessor(self) -> None:
        story = managed(Story())
        task(story, "a", 10, 30, writes="/a")
        task(story, "b", 12, 45, writes="/b")
        task(story, "c", 47, 70, writes="/c")
        path, c = found(story)
        assert path[:2] == [("", "start", 0, 10, 0), ("", "", 10, 12, 2)], "a began before"
        assert path[2:4] == [("b", "", 12, 45, 0), ("c", "before", 45, 70, 2)]
        assert c.bound_ns == 33 * MS, "by no order that would have to be"

    def test_a_task_waits_for_a_slot_of_its_manager(self) -> None:
        """As `make -j 1` runs them: all in processes of their own."""
        story = managed(Story())
        task(story, "make", 10, 30, pid=2, writes="/a")
        task(story, "other", 32, 50, pid=3, writes="/b")
        task(story, "use", 52, 70, pid=4, reads="/a")
        path, _ = found(story)
        assert path[1:4] == [
            ("make", "", 10, 30, 0),
            ("other", "before", 30, 50, 2),
            ("use", "resource", 50, 70, 2),
        ], "it had its data at 30, and nobody ran it before the other one was over"

    def test_a_task_that_begins_when_not_all_slots_were_in_use_waited_for_none(self) -> None:
        story = managed(Story())
        task(story, "make", 10, 30, pid=2, writes="/a")
        task(story, "beside", 10, 20, pid=5)
        task(story, "other", 32, 50, pid=3, writes="/b")
        task(story, "use", 52, 70, pid=4, reads="/a")
        assert found(story)[0][1:3] == [("make", "", 10, 30, 0), ("use", "data", 30, 70, 22)]

    def test_a_task_that_begins_late_anyway_waited_for_no_slot(self) -> None:
        """The other one is over 2 ms after the task was ready; it begins 20 ms later."""
        story = managed(Story())
        task(story, "make", 10, 30, pid=2, writes="/a")
        task(story, "other", 31, 32, pid=3)
        task(story, "use", 52, 70, pid=4, reads="/a")
        assert found(story)[0][1:3] == [("make", "", 10, 30, 0), ("use", "data", 30, 70, 22)]

    def test_the_previous_task_of_a_worker_is_the_predecessor(self) -> None:
        story = managed(Story())
        task(story, "make", 10, 20, pid=2, writes="/a")
        task(story, "one", 22, 40, pid=3, reads="/a", writes="/b")
        task(story, "elsewhere", 22, 44, pid=4, reads="/a", writes="/c")
        task(story, "two", 45, 70, pid=3, reads="/a", writes="/d")
        path, c = found(story)
        assert path[1:4] == [
            ("make", "", 10, 20, 0),
            ("one", "data", 20, 40, 2),
            ("two", "resource", 40, 70, 5),
        ], "it had its data at 20, and its worker at 40"
        assert c.bound_ns == (10 + 25) * MS, "by no order that would have to be"
        task(story, "thread", 30, 48, pid=3, writes="/e")
        assert found(story)[0][2] == ("two", "data", 20, 70, 25), "of two at a time, it is unknown whose place it took"

    def test_the_previous_job_of_the_nodes_is_the_predecessor(self) -> None:
        story = Story()
        task(story, "make", 0, 20, writes="/a")
        task(story, "one", 22, 40, reads="/a", writes="/b")
        task(story, "elsewhere", 22, 44, reads="/a", writes="/c")
        task(story, "two", 50, 70, reads="/a", writes="/d")
        names = ("make", "one", "elsewhere", "two")
        tables = declared_jobs(("make", "one"), ("make", "elsewhere"), ("make", "two"))
        tasks = tables["declared_tasks"].set_index("task").loc[list(names)].reset_index()
        for name, values in (("t_depend_ns", (0, 20, 20, 20)), ("t_alloc_ns", (0, 21, 21, 48))):
            tasks[name] = pd.array([T0_NS + ms * MS for ms in values], dtype="Int64")
        tasks["nodes"] = pd.Series([["n1"], ["n1"], ["n2"], ["n1", "n3"]], dtype=object)
        path, _ = found(story, **{**tables, "declared_tasks": tasks})
        assert path == [("make", "", 0, 20, 0), ("one", "data", 20, 40, 2), ("two", "resource", 40, 70, 10)]
        ready = tasks.assign(t_depend_ns=tasks["t_depend_ns"].where(tasks["task"] != "two", T0_NS + 41 * MS))
        path, _ = found(story, **{**tables, "declared_tasks": ready})
        assert path == [("make", "", 0, 20, 0), ("two", "data", 20, 70, 30)], "no task had them when it was ready"

    def test_an_instance_waits_for_its_jobs_and_they_wait_with_it(self) -> None:
        story = Story()
        task(story, "make", 0, 10, writes="/a")
        task(story, "outer", 20, 90, writes="/log")
        task(story, "inner", 30, 80, reads="/other", writes="/c")
        task(story, "last", 95, 99, reads="/other")
        tables = declared_jobs(("make", "outer"), ("outer", "last"), parents={"inner": "outer"}, inner=25.0)
        path, c = found(story, **tables)
        assert path == [
            ("make", "", 0, 10, 0),
            ("outer", "declared", 10, 25, 10),
            ("inner", "inside", 25, 80, 5),
            ("outer", "inside", 80, 90, 0),
            ("last", "declared", 90, 99, 5),
        ]
        assert c.bound_ns == (10 + 70 + 4) * MS

    def test_a_shell_that_waits_for_its_own_task_works(self) -> None:
        story = managed(Story())
        moment(story, 10, task="t", pid=2)
        story.event("fork", at_ms=10, pid=2, task="t", cat="PROCESS", dur=0, ret=3)
        story.event("wait", at_ms=11, pid=2, task="t", cat="PROCESS", dur=58 * MS, ret=3)
        story.write("/out", pid=3, task="t", at_ms=60)
        moment(story, 70, task="t", pid=2)
        assert found(story)[1].bound_ns == 60 * MS

    def test_a_task_whose_processes_all_wait_for_another_one_neither_computes_nor_works(self) -> None:
        """Its shell waits for its program from 11 to 69, and that from 20 to 60 for one that is not traced."""
        story = managed(Story())
        moment(story, 10, task="t", pid=2)
        story.event("fork", at_ms=10, pid=2, task="t", cat="PROCESS", dur=0, ret=3)
        story.event("wait", at_ms=11, pid=2, task="t", cat="PROCESS", dur=58 * MS, ret=3)
        story.event("wait", at_ms=20, pid=3, task="t", cat="PROCESS", dur=40 * MS, ret=4)
        moment(story, 70, task="t", pid=2)
        _, c = found(story)
        assert c.bound_ns == 20 * MS
        assert (c.parts["wait"], c.parts["compute"]) == (40 * MS, 20 * MS)


class TestProcessTree:
    """Who forked whom: pids are reused, and an orphan gets another parent."""

    def handovers(self, story: Story, *processes: tuple[int, int]) -> list[tuple[str, int, int]]:
        """(via, pid of the producer, pid of the consumer) for processes given as (pid, ppid)."""
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

    def test_a_running_parent_is_the_creator(self) -> None:
        assert self.handovers(self.lives((7, 0, 50), (8, 10, 20)), (7, 3), (8, 7)) == [("fork", 7, 8)]

    def test_a_parent_that_was_over_before_is_another_process_with_its_pid(self) -> None:
        assert self.handovers(self.lives((7, 0, 5), (8, 10, 20)), (7, 3), (8, 7)) == []

    def test_pid_1_is_the_creator_only_with_a_recorded_fork(self) -> None:
        story = self.lives((1, 0, 50), (8, 10, 20))
        assert self.handovers(story, (1, 0), (8, 1)) == []
        story.event("fork", at_ms=9, pid=1, cat="PROCESS", dur=0, ret=8)
        assert self.handovers(story, (1, 0), (8, 1)) == [("fork", 1, 8)]

    def test_a_fork_after_the_first_event_made_a_later_process_with_the_pid(self) -> None:
        story = self.lives((7, 0, 50), (8, 10, 20))
        story.event("fork", at_ms=30, pid=7, cat="PROCESS", dur=0, ret=8)
        assert self.handovers(story, (7, 3), (8, 3)) == []

    def test_a_wait_for_an_older_process_is_left_out(self) -> None:
        story = self.lives((8, 0, 20), (7, 10, 50))
        story.event("wait", at_ms=40, pid=7, cat="PROCESS", dur=0, ret=8)
        assert self.handovers(story, (7, 3), (8, 3)) == []


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


@settings(max_examples=20, deadline=None)
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


def test_a_program_that_moves_no_data_ran_nevertheless() -> None:
    story = Story()
    moment(story, 0)
    moment(story, 1_000)
    _, c = made(story)
    assert {name: ns for name, ns in c.parts.items() if ns} == {"compute": 1_000 * MS}
    assert c.bound_ns == 1_000 * MS and len(c.path) == 1


def test_clocks_that_contradict_are_counted_not_followed() -> None:
    story = Story()
    story.create("/f", task="a", at_ms=5)
    story.write("/f", task="a", at_ms=6, dur=10 * MS)
    story.read("/f", task="b", at_ms=8, dur=MS)
    s, c = made(story)
    assert (s.handovers["taken_ns"] >= s.handovers["given_ns"]).all()
    assert c.bound_ns <= s.makespan_ns
    assert np.all(s.handovers["given_ns"] >= T0_NS)
