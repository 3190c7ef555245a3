"""What counts as data of a declared dependency when it went through processes that no task claims."""

from __future__ import annotations

import pandas as pd
import pytest

from support.flowcase import Story
from tailrace.analyzer.model import declared_vs_observed

MAIN, COPY = 50, 60


def status(story: Story, managers: set[tuple[str, int]] | None = None) -> tuple[str, str]:
    """(status, program and pid through which) of the dependency of `use` on `make`."""
    tasks = pd.DataFrame({"workflow": "w", "stage": "s", "task": task, "parent": None} for task in ("make", "use"))
    deps = pd.DataFrame([{"workflow": "w", "task": "use", "dep": "make", "via": "file", "path": None}])
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


def test_a_file_passed_on_by_the_manager_is_data() -> None:
    story = made(Story())
    story.read("/made", pid=MAIN)
    story.create("/copy", pid=MAIN)
    story.write("/copy", pid=MAIN)
    story.read("/copy", task="use")
    assert status(story, {("n1", MAIN)}) == ("observed", "process n1:50")
