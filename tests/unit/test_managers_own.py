"""What a manager's own processes do: one line of a report, and in no finding."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from support.flowcase import FakeRun, Story
from support.task_stories import task
from tailrace.analyzer.insights import insights
from tailrace.analyzer.model import dataflow, managers_own

MANAGER, CHILD, SCRIPT = 7, 8, 5


def told(*, own: bool) -> FakeRun:
    """A manager whose child reads a library of it over and over, and which checks what its one task made; the script
    that started it reads a table."""
    story = Story()
    task(story, "make", 0, 20, writes="/out", pid=9)
    for at in range(40):
        story.read("/manager/lib", 0, 8192, pid=CHILD, at_ms=30 + at)
        story.read("/manager/lib", 0, 8192, pid=CHILD, at_ms=80 + at)
    story.read("/out", pid=MANAGER, at_ms=150)
    story.write("/report.html", pid=MANAGER, at_ms=151)
    story.read("/table", pid=SCRIPT, at_ms=152)
    rows = [("n1", pid, ppid) for pid, ppid in ((SCRIPT, 1), (MANAGER, SCRIPT), (CHILD, MANAGER), (9, MANAGER))]
    processes = pd.DataFrame([{"host": h, "pid": p, "ppid": pp, "exe": "m", "argv": "[]"} for h, p, pp in rows])
    declared: dict[str, Any] = {"processes": processes, "own_processes": {("n1", MANAGER, "")} if own else set()}
    return story.run(**declared)


@pytest.mark.parametrize("own", [False, True])
def test_files_that_only_a_managers_processes_read_are_its_own(own: bool) -> None:
    m = dataflow.model(told(own=own))
    classes = {str(m.paths[file]): m.cls[at] for at, file in enumerate(m.bursts["file"])}
    data = {path for path, cls in classes.items() if cls == 0}
    expected = {"/out", "/report.html", "/table"}
    assert data == (expected if own else expected | {"/manager/lib"}), "what it wrote for the user stays"


@pytest.mark.parametrize(("own", "kinds"), [(False, {"repeated reads"}), (True, set())])
def test_no_finding_is_about_a_managers_own_processes(own: bool, kinds: set[str]) -> None:
    found = {finding.kind for finding in insights(told(own=own)).findings()}
    assert found & {"repeated reads", "small calls"} == kinds


def test_a_process_of_a_reused_pid_is_not_a_managers() -> None:
    """A later process has the manager's pid as its parent: of the two that had it, the last one."""
    rows = [(MANAGER, 1, "a1"), (CHILD, MANAGER, "a2"), (MANAGER, 1, "a3"), (11, MANAGER, "a4")]
    table = pd.DataFrame([{"host": "n1", "pid": pid, "ppid": ppid, "start": start} for pid, ppid, start in rows])
    who = table.assign(stage="", task="")
    assert managers_own.actors(who, table, {("n1", MANAGER, "a1")}).tolist() == [True, True, False, False]


def test_what_a_task_starts_is_never_the_managers() -> None:
    table = pd.DataFrame(
        [{"host": "n1", "pid": 7, "ppid": 1, "start": ""}, {"host": "n1", "pid": 9, "ppid": 7, "start": ""}]
    )
    who = table.assign(stage=["", "s"], task=["", "t"])
    assert managers_own.actors(who, table, {("n1", 7, "")}).tolist() == [True, False]
