"""Files that workers copy into tasks' directories: whose data they are."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from support.flowcase import Story
from tailrace.analyzer.model import dataflow

W, X = "/tmp/worker-0-71", "/scratch/worker-0-72"
WORKERS: dict[str, dict[str, Any]] = {
    "w": {"stage": "", "task": "", "pid": 71},
    "x": {"stage": "", "task": "", "pid": 72},
    "manager": {"stage": "", "task": "", "pid": 70},
}


def declared(*rows: tuple[str, str, str, str]) -> pd.DataFrame:
    """task, direction, path, url."""
    names = ["task", "direction", "path", "url"]
    return pd.DataFrame(rows, columns=names).assign(workflow="w")


def flows(story: Story, files: pd.DataFrame) -> set[tuple[str, str, str, int]]:
    """(producer, consumer, path, bytes), of tasks."""
    m = dataflow.model(story.run(declared_files=files))
    _, activities = dataflow.activities(m, "task")
    names = [f"{row.task or row.pid}" for row in activities.itertuples()]
    rows = dataflow.flow_table(m, "task")
    return {
        (names[row.producer] if row.producer >= 0 else "", names[row.consumer], str(m.paths[row.file]), int(row.bytes))
        for row in rows.itertuples()
        if row.consumer >= 0
    }


def copied(story: Story, name: str, first: str = f"{W}/t.1", then: str = f"{X}/task.9") -> None:
    """One task's file, on its way to another task."""
    story.write(f"{first}/{name}", 0, 100, stage="make", task="1", pid=81)
    story.read(f"{first}/{name}", 0, 100, **WORKERS["w"])
    story.write(f"/data/{name}", 0, 100, **WORKERS["manager"])
    story.read(f"/data/{name}", 0, 100, **WORKERS["manager"])
    story.write(f"{then}/{name}", 0, 100, **WORKERS["x"])
    story.read(f"{then}/{name}", 0, 100, stage="use", task="2", pid=82)


MAKES = ("1", "w", "/data/out/a", "out/a")
USES = ("2", "r", "/data/out/a", "./out/a")


@pytest.mark.parametrize("then", ["t.9", "task.9", "func.9"])
def test_data_passes_between_the_tasks_and_under_the_declared_name(then: str) -> None:
    story = Story()
    copied(story, "out/a", then=f"{X}/{then}")
    assert flows(story, declared(MAKES, USES)) == {("1", "2", "/data/out/a", 100)}


def test_who_reads_the_file_later_reads_what_the_task_wrote() -> None:
    story = Story()
    copied(story, "out/a")
    story.read("/data/out/a", 0, 100, stage="", task="", pid=90)
    assert ("1", "90", "/data/out/a", 100) in flows(story, declared(MAKES, USES))


def test_a_file_that_was_there_before_is_read_from_there() -> None:
    story = Story()
    story.write("/data/in", 0, 100, stage="", task="", pid=69)
    story.read("/data/in", 0, 100, **WORKERS["manager"])
    story.write(f"{X}/t.2/in", 0, 100, **WORKERS["x"])
    story.read(f"{X}/t.2/in", 0, 100, stage="use", task="2", pid=82)
    found = flows(story, declared(("2", "r", "/data/in", "in")))
    assert ("69", "2", "/data/in", 100) in found
    assert not [flow for flow in found if flow[1] == "2" and flow[0] == "72"]


def test_without_a_traced_copy_the_tasks_have_the_file_alone() -> None:
    story = Story()
    story.write(f"{W}/t.1/out/a", 0, 100, stage="make", task="1", pid=81)
    story.read(f"{X}/t.2/out/a", 0, 100, stage="use", task="2", pid=82)
    assert flows(story, declared(MAKES, USES)) == {("1", "2", "/data/out/a", 100)}


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(declared(), id="nothing is declared"),
        pytest.param(declared(("1", "w", "/data/out/a", "/data/out/a")), id="declared by a whole path"),
        pytest.param(declared(("3", "w", "/data/out/a", "out/a")), id="declared of another task"),
        pytest.param(declared(("1", "w", "/data/out/a", "http://host/out/a")), id="at an address"),
        pytest.param(declared(MAKES).drop(columns="url"), id="a run without addresses"),
    ],
)
def test_other_files_are_as_in_the_trace(files: pd.DataFrame) -> None:
    story = Story()
    copied(story, "out/a")
    assert ("1", "71", f"{W}/t.1/out/a", 100) in flows(story, files)


def test_another_directory_is_no_tasks_own() -> None:
    story = Story()
    copied(story, "out/a", first="/home/worker/t.1", then="/home/worker/t.2")
    assert ("1", "71", "/home/worker/t.1/out/a", 100) in flows(story, declared(MAKES, USES))
