"""Accesses of the same bytes that nothing orders, on stories whose truth is worked out by hand beside them."""

from __future__ import annotations

import os
from typing import Any

import pandas as pd
import pytest

from support.flowcase import MS, Story
from support.task_stories import declared, moment, task
from tailrace.analyzer.insights import Insights, insights


def of(story: Story, **values: Any) -> Insights:
    return insights(story.run(2, **values))


class TestConflicts:
    def kinds(self, story: Story, **values: Any) -> list[tuple[str, int, bool]]:
        rows = of(story, **values).conflicts.rows
        return [(r["kind"], r["bytes"], r["overlap"]) for r in rows.to_dict("records")]

    def test_a_read_during_a_write_of_the_same_bytes(self) -> None:
        story = Story()
        story.write("/f", 0, 100, task="w", at_ms=1, dur=20 * MS)
        story.read("/f", 90, 30, task="r", at_ms=5, dur=MS)
        assert self.kinds(story) == [("read during write", 10, True)]

    def test_other_bytes_of_the_same_file_are_no_conflict(self) -> None:
        story = Story()
        for rank in range(4):
            story.write("/f", rank * 10, 10, task=f"r{rank}", at_ms=1, dur=20 * MS)
        assert self.kinds(story) == []

    def test_two_writers_that_nothing_orders(self) -> None:
        story = Story()
        story.write("/f", 0, 100, task="a", at_ms=1)
        story.write("/f", 50, 100, task="b", at_ms=50, pid=2)
        assert self.kinds(story) == [("two writers", 50, False)]
        assert self.kinds(story, **declared(("a", "b", "future"))) == []
        assert (
            self.kinds(story, **declared(("a", "m", "future"), ("m", "b", "future"))) == []
        ), "over a task without events"
        waited = declared(("b", "a", "future"))
        assert self.kinds(story, **waited) == [("two writers", 50, False)]
        # b ran again, after a had waited for it: its result was lost.
        again = waited["declared_tasks"].assign(tries=[1, 2])
        assert self.kinds(story, **{**waited, "declared_tasks": again}) == []

    def test_inner_tasks_wait_with_their_outer_task(self) -> None:
        """before -> outer [ inner ] -> after, and beside, which nothing orders; outer itself left no events."""
        pairs = [("before", "outer", "afterok"), ("outer", "after", "afterok"), ("beside", "none", "afterok")]
        tables = declared(*pairs)
        inner = {"workflow": "w", "stage": "i", "task": "inner", "parent": "outer"}
        tables["declared_tasks"] = pd.concat([tables["declared_tasks"], pd.DataFrame([inner])], ignore_index=True)
        for others, conflicts in ((("before", "inner"), 0), (("inner", "after"), 0), (("beside", "inner"), 1)):
            story = Story()
            for at, name in enumerate(others):
                story.write("/f", 0, 100, task=name, at_ms=1 + 50 * at)
            assert len(self.kinds(story, **tables)) == conflicts, others

    def test_a_task_and_its_inner_tasks_are_ordered(self) -> None:
        tables = declared(("outer", "after", "afterok"))
        inner = {"workflow": "w", "stage": "i", "task": "inner", "parent": "outer"}
        tables["declared_tasks"] = pd.concat([tables["declared_tasks"], pd.DataFrame([inner])], ignore_index=True)
        story = Story()
        for at, name in ((1, "outer"), (20, "inner"), (50, "outer")):
            story.write("/f", 0, 100, task=name, at_ms=at)
        assert self.kinds(story, **tables) == []

    @pytest.mark.parametrize(("tag", "found"), [("", []), ("a", [("two writers", 8, False)])])
    def test_shared_memory_of_the_manager_is_left_out(self, tag: str, found: list[tuple[str, int, bool]]) -> None:
        story = Story()
        task(story, "t", 0, 90, writes="/out")
        story.write("/dev/shm/counters", 0, 8, pid=7, at_ms=10)
        story.write("/dev/shm/counters", 0, 8, pid=8, task=tag, at_ms=40)
        assert self.kinds(story) == found

    def test_semaphores_are_no_data(self) -> None:
        story = Story()
        for at, name in ((1, "a"), (50, "b")):
            story.write("/dev/shm/sem.mp-x1", 0, 32, task=name, at_ms=at)
            story.write("/dev/shm/pym-7-abc", 0, 8, task=name, at_ms=at + 1)
        assert self.kinds(story) == []

    def test_a_read_before_an_unordered_write(self) -> None:
        story = Story()
        story.read("/f", 0, 100, task="r", at_ms=1)
        story.create("/f", task="w", at_ms=50, pid=2)
        assert self.kinds(story) == [("read before write", 100, False)], "truncation removes the bytes"
        assert self.kinds(story, **declared(("r", "w", "file"))) == []

    def test_a_read_after_the_write_is_no_conflict(self) -> None:
        story = Story()
        story.write("/f", 0, 100, task="w", at_ms=1)
        story.read("/f", 0, 100, task="r", at_ms=50)
        assert self.kinds(story) == []

    @staticmethod
    def shell(waited: float, openers: tuple[int, ...]) -> tuple[Story, pd.DataFrame]:
        """A shell, process 1, runs two writers of a file, 2 and 3, and waits for 2; and the table of processes."""
        story = Story()
        moment(story, 0, pid=1)
        opened = {"flags": os.O_WRONLY, "fd": 3}
        if 1 in openers:
            story.event("openat", "/f", at_ms=1, pid=1, **opened)
        for pid, start in ((2, 5), (3, 30)):
            story.event("fork", at_ms=start - 1, pid=1, cat="PROCESS", dur=0, ret=pid)
            moment(story, start, pid=pid)
            if pid in openers:
                story.event("openat", "/f", at_ms=start + 1, pid=pid, **opened)
            story.write("/f", 0, 10, pid=pid, at_ms=start + 5)
            moment(story, start + 10, pid=pid)
        story.event("wait", at_ms=waited, pid=1, cat="PROCESS", dur=0, ret=2)
        story.event("wait", at_ms=70, pid=1, cat="PROCESS", dur=0, ret=3)
        rows = [
            {"host": "n1", "pid": p, "ppid": pp, "exe": "/bin/sh", "argv": None} for p, pp in ((1, 0), (2, 1), (3, 1))
        ]
        return story, pd.DataFrame(rows)

    @pytest.mark.parametrize(("waited", "ordered"), [(20, True), (60, False)])
    def test_fork_exit_and_wait_order_processes(self, waited: float, ordered: bool) -> None:
        """Whether the shell waited for the first writer before it made the second decides."""
        story, processes = self.shell(waited, (2, 3))
        assert self.kinds(story, processes=processes) == ([] if ordered else [("two writers", 10, False)])

    @pytest.mark.parametrize("openers", [(), (1,), (1, 3), (1, 2, 3)])
    def test_writers_that_have_one_open_file_write_no_byte_twice(self, openers: tuple[int, ...]) -> None:
        """The shell's file is theirs, unless one of them opened its own."""
        story, processes = self.shell(60, openers)
        found = of(story, processes=processes).conflicts
        apart = len(openers) > 1
        assert (len(found.rows), found.unknown) == ((1, 0) if apart else (0, 1))

    @pytest.mark.parametrize(("waited", "order"), [(20, "awaited"), (60, "none")])
    def test_a_process_that_was_waited_for_orders_undeclared_tasks(self, waited: float, order: str) -> None:
        """The same shell, and its two commands are tasks of a manager that knows no dependency."""
        story = Story()
        moment(story, 0, pid=1)
        for pid, start, name in ((2, 5, "make"), (3, 30, "use")):
            story.event("fork", at_ms=start - 1, pid=1, cat="PROCESS", dur=0, ret=pid)
            moment(story, start, pid=pid, task=name)
            access = story.write if name == "make" else story.read
            access("/f", 0, 10, pid=pid, task=name, at_ms=start + 5)
            moment(story, start + 10, pid=pid, task=name)
        story.event("wait", at_ms=waited, pid=1, cat="PROCESS", dur=0, ret=2)
        story.event("wait", at_ms=70, pid=1, cat="PROCESS", dur=0, ret=3)
        rows = [
            {"host": "n1", "pid": p, "ppid": pp, "exe": "/bin/sh", "argv": None} for p, pp in ((1, 0), (2, 1), (3, 1))
        ]
        tasks = pd.DataFrame({"workflow": "w", "stage": n, "task": n, "parent": None} for n in ("make", "use"))
        found = of(story, processes=pd.DataFrame(rows), declared_tasks=tasks).declared.undeclared
        assert found["order"].tolist() == [order]

    @pytest.mark.parametrize("traced", [True, False])
    @pytest.mark.parametrize(
        ("waits", "over", "order"), [(True, 25, "awaited"), (False, 25, "none"), (True, 12, "none")]
    )
    def test_a_command_that_runs_a_job_is_waited_for(self, traced: bool, waits: bool, over: float, order: str) -> None:
        """A shell runs `flux run` twice: pids 2 and 3, the jobs' processes 102 and 103. The first command ends at
        `over`, and the first job at 20 ms."""
        story = Story()
        moment(story, 0, pid=1)
        for pid, start, name in ((2, 5, "make"), (3, 30, "use")):
            end = over if pid == 2 else 60
            story.event("fork", at_ms=start - 1, pid=1, cat="PROCESS", dur=0, ret=pid)
            if traced:
                moment(story, start, pid=pid)
                moment(story, end, pid=pid)
            access = story.write if name == "make" else story.read
            access("/f", 0, 10, pid=100 + pid, task=name, at_ms=start + 2)
            moment(story, start + 15, pid=100 + pid, task=name)
            story.event("wait", at_ms=end + 1, pid=1, cat="PROCESS", dur=0, ret=pid)
        parents = {1: 0, 102: 90, 103: 90} | ({2: 1, 3: 1} if traced else {})
        rows = [{"host": "n1", "pid": p, "ppid": pp, "exe": "/bin/sh", "argv": None} for p, pp in parents.items()]
        tasks = pd.DataFrame(
            {
                "workflow": "w",
                "stage": name,
                "task": name,
                "parent": None,
                "submitter": {"host": "n1", "pid": pid, "waits": waits},
            }
            for name, pid in (("make", 2), ("use", 3))
        )
        found = of(story, processes=pd.DataFrame(rows), declared_tasks=tasks).declared.undeclared
        assert found["order"].tolist() == [order]

    def test_a_pipe_orders_its_ends(self) -> None:
        story = Story()
        story.write("/f", 0, 10, task="a", at_ms=1)
        story.write("pipe:[7]", None, 1, ftype="fifo", task="a", at_ms=5)
        story.read("pipe:[7]", None, 1, ftype="fifo", task="b", at_ms=6)
        story.write("/f", 0, 10, task="b", at_ms=9)
        assert self.kinds(story) == []
        story.write("/f", 0, 10, task="a", at_ms=20)
        assert self.kinds(story) == [("two writers", 10, False)], "what a did after the pipe is not before b"

    def test_unknown_offsets_are_counted_and_not_reported(self) -> None:
        story = Story()
        story.write("/f", None, 10, task="a", at_ms=1)
        story.write("/f", None, 10, task="b", at_ms=50, pid=2)
        i = of(story)
        assert (len(i.conflicts.rows), i.conflicts.unknown) == (0, 1)
