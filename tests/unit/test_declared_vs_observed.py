"""What counts as data of a declared dependency when it went through processes that no task claims."""

from __future__ import annotations

import os
from typing import Any

import pandas as pd
import pytest

from support.flowcase import Story
from tailrace.analyzer.model import dataflow, declared_vs_observed
from tailrace.analyzer.model import order as orders

MAIN, COPY = 50, 60


def status(story: Story, managers: set[tuple[str, int]] | None = None, path: str | None = None) -> tuple[str, str]:
    """(status, program and pid through which) of the dependency of `use` on `make`."""
    tasks = pd.DataFrame({"workflow": "w", "stage": "s", "task": task, "parent": None} for task in ("make", "use"))
    deps = pd.DataFrame([{"workflow": "w", "task": "use", "dep": "make", "via": "file", "path": path}])
    run = story.run(declared_tasks=tasks, declared_deps=deps, manager_processes=managers or set())
    (row,) = declared_vs_observed.compare_declared(run).itertuples()
    return row.status, row.through


def made(story: Story) -> Story:
    story.create("/made", task="make")
    story.write("/made", task="make")
    return story


def test_an_earlier_copy_carries_no_data() -> None:
    """The main program makes a file for all tasks, later it looks at what one of them made."""
    for late, expected in ((False, "not observed"), (True, "observed")):
        story = made(Story())
        if late:
            story.read("/made", pid=MAIN)
        story.create("/for-all", pid=MAIN)
        story.write("/for-all", pid=MAIN)
        if not late:
            story.read("/made", pid=MAIN)
        story.read("/for-all", task="use")
        assert status(story)[0] == expected


def test_an_earlier_read_carries_no_data() -> None:
    """Two processes pass on what they get; the second one had its file before the first one had read."""
    story = Story()
    story.create("/step", pid=COPY)
    story.write("/step", pid=COPY)
    story.read("/step", pid=MAIN)
    made(story).read("/made", pid=COPY)
    story.write("/step", 100, pid=COPY)
    story.create("/copy", pid=MAIN)
    story.write("/copy", pid=MAIN)
    story.read("/copy", task="use")
    assert status(story)[0] == "not observed"


@pytest.mark.parametrize(
    ("pipe", "other", "ftype"),
    [
        ("pipe:[7]", "pipe:[7]", "fifo"),
        ("unix:[5]->[6]", "unix:[6]->[5]", "sock"),
        ("unix-dgram:*->/worker", "unix-dgram:/worker->*", "sock"),
    ],
)
def test_manager_messages_over_streams_are_no_data(pipe: str, other: str, ftype: str) -> None:
    def identity(ino: int) -> dict[str, str]:
        return {"file": f"n1:0:8:{ino if ftype == 'sock' else 7}:"}

    for managers, expected in ((set[tuple[str, int, str]](), "observed"), ({("n1", MAIN, "")}, "not observed")):
        story = made(Story())
        story.read("/made", pid=MAIN)
        story.write(pipe, None, ftype=ftype, pid=MAIN, **identity(5))
        story.read(other, None, ftype=ftype, pid=COPY, **identity(6))
        story.create("/copy", pid=COPY)
        story.write("/copy", pid=COPY)
        story.read("/copy", task="use")
        assert status(story, managers)[0] == expected


@pytest.mark.parametrize(("reader", "expected"), [(MAIN, []), (COPY, [("make", "use", "undeclared", "none")])])
def test_a_wake_up_inside_a_worker_is_no_dependency(reader: int, expected: list[tuple[str, ...]]) -> None:
    """One process runs both tasks, and a thread of it hears of them on a socket pair."""
    story = Story()
    for at_ms in (1, 5):
        story.write("unix:[5]->[6]", None, 1, ftype="sock", file="n1:0:8:5:", pid=MAIN, task="make", at_ms=at_ms)
        story.read("unix:[6]->[5]", None, 1, ftype="sock", file="n1:0:8:6:", pid=reader, task="use", at_ms=at_ms + 1)
    tasks = pd.DataFrame({"workflow": "w", "stage": "s", "task": task, "parent": None} for task in ("make", "use"))
    run = story.run(declared_tasks=tasks)
    table = declared_vs_observed.compare_declared(run)
    assert list(table[["producer", "consumer", "status", "order"]].itertuples(index=False, name=None)) == expected
    assert len(orders.of_run(run, dataflow.model(run)).handovers()) == 2 * len(expected)


def test_a_file_passed_on_by_the_manager_is_data() -> None:
    story = made(Story())
    story.read("/made", pid=MAIN)
    story.create("/copy", pid=MAIN)
    story.write("/copy", pid=MAIN)
    story.read("/copy", task="use")
    assert status(story, {("n1", MAIN)}) == ("observed", "process n1:50")


@pytest.mark.parametrize(("exe", "expected"), [("/made", "observed"), ("/usr/bin/cat", "not observed")])
def test_a_program_that_the_consumer_runs_passes_its_dependency(exe: str, expected: str) -> None:
    story = made(Story())
    story.process(7, exe)
    story.event("start", cat="PROCESS", task="use", pid=7)
    assert status(story)[0] == expected


def test_a_dependency_by_a_shared_object_is_never_told_to_be_unused() -> None:
    """The dynamic linker's reads are in no trace."""
    story = made(Story())
    story.event("start", cat="PROCESS", task="use", pid=7)
    assert [status(story, path=path)[0] for path in ("/made", "/libmade.so")] == ["not observed", "untraced"]


MS = 1_000_000


class TestOrder:
    """What orders `make` and `use`, which read its file undeclared."""

    def order(
        self,
        times: dict[str, tuple[int, int]],
        waits: tuple[tuple[str, str | None, str | None], ...] = (),
        inside: dict[str, str] | None = None,
        kinds: dict[str, str] | None = None,
    ) -> str:
        """times: task -> submitted, over (ms); waits: task, awaited, after; inside: task -> its parent."""
        rows = [
            {
                "workflow": "w",
                "stage": "s",
                "task": name,
                "parent": (inside or {}).get(name),
                "kind": (kinds or {}).get(name, "job"),
                "t_submit_ns": submitted * MS,
                "t_end_ns": over * MS,
            }
            for name, (submitted, over) in times.items()
        ]
        story = made(Story())
        story.read("/made", task="use")
        table = declared_vs_observed.compare_declared(
            story.run(
                declared_tasks=pd.DataFrame(rows),
                declared_waits=pd.DataFrame(
                    [("w", *wait) for wait in waits], columns=["workflow", "task", "awaited", "after"]
                ),
            )
        )
        (row,) = table.itertuples()
        assert row.status == "undeclared"
        return str(row.order)

    @pytest.mark.parametrize(("submitted", "order"), [(9, "none"), (10, "in time"), (500, "in time")])
    def test_times_alone_are_no_wait(self, submitted: int, order: str) -> None:
        assert self.order({"make": (1, 10), "use": (submitted, 600)}) == order

    def test_a_wait_orders_whatever_the_times_say(self) -> None:
        """Parsl's times are to the microsecond, and a clock may be set."""
        assert self.order({"make": (1, 10), "use": (9, 20)}, (("use", "make", None),)) == "awaited"

    def test_a_wait_holds_for_what_is_submitted_later(self) -> None:
        times = {"make": (1, 10), "other": (11, 12), "use": (13, 20)}
        waits = (("other", "make", None), ("use", None, "other"))
        assert self.order(times, waits) == "awaited"
        assert self.order(times, (("other", "make", None),)) == "in time", "by another thread"

    def test_a_wait_for_something_else_is_none(self) -> None:
        times = {"make": (1, 10), "other": (1, 3), "use": (4, 20)}
        assert self.order(times, (("use", "other", None),)) == "none"

    def test_who_waits_for_what_waited(self) -> None:
        """A task that was submitted after a wait for `make`, and was awaited itself."""
        times = {"make": (1, 10), "other": (11, 12), "use": (13, 20)}
        assert self.order(times, (("other", "make", None), ("use", "other", None))) == "awaited"

    def test_tasks_inside_a_task_wait_with_it(self) -> None:
        times = {"make": (1, 10), "join": (11, 30), "use": (13, 20)}
        assert self.order(times, (("join", "make", None),), {"use": "join"}, {"join": "join"}) == "awaited"

    def test_the_clocks_of_two_instances_are_not_compared(self) -> None:
        times = {"make": (1, 10), "inner": (2, 90), "use": (50, 60)}
        assert self.order(times, (), {"use": "inner"}, {"inner": "instance"}) == "none"
        assert self.order(times, (), {"use": "inner"}, {"inner": "join"}) == "in time"

    def test_jobs_of_two_workflows_share_their_instances_clock(self) -> None:
        story = Story()
        story.create("/made", task="make", workflow="one")
        story.write("/made", task="make", workflow="one")
        story.read("/made", task="use", workflow="two")
        rows = [("one", "m", "make", 1, 10), ("two", "u", "use", 11, 20)]
        for kind, order in (("job", "in time"), ("python", "none")):
            tasks = pd.DataFrame(rows, columns=["workflow", "stage", "task", "t_submit_ns", "t_end_ns"])
            (row,) = declared_vs_observed.compare_declared(
                story.run(declared_tasks=tasks.assign(parent=None, kind=kind))
            ).itertuples()
            assert (row.workflow, row.consumer_workflow) == ("one", "two")
            assert (row.producer_stage, row.consumer_stage, row.order) == ("m", "u", order)

    def test_a_time_that_is_not_known_orders_nothing(self) -> None:
        assert self.order({"make": (1, 0), "use": (50, 60)}) == "none"


def test_a_chain_of_tasks_in_tasks_has_an_end() -> None:
    """A run that was sent may declare any: all their pairs would be counted."""
    parents = {("w", str(number + 1)): ("w", str(number)) for number in range(3000)}
    inner = orders.inside_of(parents)
    assert max(map(len, inner.values())) == 255
    ring = {("w", "1"): ("w", "2"), ("w", "2"): ("w", "1")}
    assert orders.line_of(("w", "1"), ring) == [("w", "1"), ("w", "2")]


class TestTurns:
    """`make` and `use` each read a table, and write it anew, from 10 and 50 ms on."""

    LOCK = "/table.lock"

    def locked(self, story: Story, how: str, taken_ms: float, released_ms: float, **where: Any) -> None:
        """Takes a lock, and releases it."""
        if how == "directory":
            story.event("mkdir", self.LOCK, at_ms=taken_ms, **where)
            story.event("rmdir", self.LOCK, at_ms=released_ms, **where)
        elif how == "O_EXCL":
            story.event("openat", self.LOCK, flags=os.O_CREAT | os.O_EXCL | os.O_WRONLY, fd=3, at_ms=taken_ms, **where)
            story.event("unlink", self.LOCK, at_ms=released_ms, **where)
        elif how == "link":
            own = f"{self.LOCK}.{where['pid']}"
            story.event("link", own, path2=self.LOCK, file2=story.identity(own), at_ms=taken_ms, **where)
            story.event("unlink", self.LOCK, file=story.identity(own), at_ms=released_ms, **where)
        elif how == "flock":
            story.event("flock", self.LOCK, flags=2, at_ms=taken_ms, **where)
            story.event("flock", self.LOCK, flags=8, at_ms=released_ms, **where)

    def update(self, story: Story, replaces: bool, at_ms: float, **where: Any) -> None:
        """Reads the table, and writes it."""
        story.read("/table", 0, 100, at_ms=at_ms, **where)
        story.write("/table.new" if replaces else "/table", 0, 100, at_ms=at_ms + 5, **where)
        if replaces:
            story.rename("/table.new", "/table", at_ms=at_ms + 6, **where)

    def statuses(
        self, how: str, replaces: bool = True, late_ms: float = 0, pids: tuple[int, int] = (1, 2)
    ) -> list[str]:
        """late_ms: after its first access `use` takes the lock."""
        story = Story()
        for number, (task, pid) in enumerate(zip(("make", "use"), pids, strict=True)):
            begin = 10 + 40 * number
            where: dict[str, Any] = {"task": task, "pid": pid}
            self.locked(story, how, begin - 1 + number * late_ms, begin + 10, **where)
            self.update(story, replaces, begin, **where)
        tasks = pd.DataFrame({"workflow": "w", "stage": "s", "task": task, "parent": None} for task in ("make", "use"))
        table = declared_vs_observed.compare_declared(story.run(declared_tasks=tasks))
        return [str(status) for status in table["status"]]

    @pytest.mark.parametrize("replaces", [True, False])
    @pytest.mark.parametrize("how", ["directory", "O_EXCL", "link", "flock"])
    def test_what_passes_under_one_lock_is_no_dependency(self, how: str, replaces: bool) -> None:
        """Either of the two may come first, whatever the lock is made of."""
        assert self.statuses(how, replaces) == []
        assert self.statuses("none", replaces) == ["undeclared"]
        assert self.statuses(how, replaces, late_ms=3) == ["undeclared"], "the table was read before"

    @pytest.mark.parametrize("how", ["directory", "O_EXCL", "link", "flock"])
    def test_one_worker_takes_the_lock_for_both_tasks(self, how: str) -> None:
        assert self.statuses(how, pids=(1, 1)) == []

    def test_who_only_reads_under_the_lock_depends_on_the_writer(self) -> None:
        story = Story()
        for number, task in enumerate(("make", "use")):
            where: dict[str, Any] = {"task": task, "pid": number + 1}
            self.locked(story, "directory", 10 + 40 * number, 20 + 40 * number, **where)
            (story.read if number else story.write)("/table", 0, 100, at_ms=15 + 40 * number, **where)
        tasks = pd.DataFrame({"workflow": "w", "stage": "s", "task": task, "parent": None} for task in ("make", "use"))
        table = declared_vs_observed.compare_declared(story.run(declared_tasks=tasks))
        assert table["status"].tolist() == ["undeclared"]
