"""Files that a run wrote more than once, state by state; and what people call tasks."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from support.flowcase import FakeRun, Story
from tailrace.analyzer import summary
from tailrace.analyzer.model import dataflow, histories
from tailrace.analyzer.summary import limits


def loop(**values: Any) -> FakeRun:
    """Two rounds: `step` rewrites /model in place, adds to /table, replaces /fit by a rename; each reads what was."""
    story = Story()
    for number in (1, 2):
        task = {"stage": "step", "task": f"t{number}", "pid": number}
        if number == 2:
            story.read("/model", 0, 70, **task)
            story.read("/table", 0, 10, **task)
            story.read("/fit", 0, 5, **task)
        story.create("/model", **task)
        story.write("/model", 0, 70, **task)
        story.write("/table", 10 * (number - 1), 10, **task)
        story.create("/fit.tmp", **task)
        story.write("/fit.tmp", 0, 5, **task)
        story.rename("/fit.tmp", "/fit", **task)
        story.create(f"/once{number}", **task)
        story.create(f"/once{number}", **task)
        story.write(f"/once{number}", **task)
    story.read("/table", 0, 20, stage="end", task="t3", pid=3)
    return story.run(**values)


class TestHistories:
    def test_a_loop_is_unrolled(self) -> None:
        table = histories.histories(dataflow.model(loop()))
        rows = [(r.path, r.state, r.how, r.bytes, r.read_bytes) for r in table.itertuples()]
        assert rows == [
            ("/model", 1, "first", 70, 70),
            ("/model", 2, "rewritten", 70, 0),
            ("/table", 1, "first", 10, 10),
            ("/table", 2, "added to", 10, 20),
            ("/fit", 1, "first", 5, 5),
            ("/fit", 2, "replaced", 5, 0),
        ]

    def test_each_state_has_its_writers_and_other_readers(self) -> None:
        model = dataflow.model(loop())
        table = histories.histories(model)
        who = histories.actors(model, table["version"].to_numpy())
        found = []
        for path, version in zip(table["path"], table["version"], strict=True):
            its = who[who["version"] == version]
            found.append((path, *(its.loc[its["reads"] == reads, "name"].tolist() for reads in (False, True))))
        assert found == [
            ("/model", ["t1"], ["t2"]),
            ("/model", ["t2"], []),
            ("/table", ["t1"], ["t2"]),
            ("/table", ["t2"], ["t3"]),
            ("/fit", ["t1"], ["t2"]),
            ("/fit", ["t2"], []),
        ]

    def test_the_report_leaves_out_files_that_would_be_cut(self, monkeypatch: pytest.MonkeyPatch) -> None:
        run = loop()
        assert summary.collect(run)["histories"]["total"] == 3
        monkeypatch.setitem(limits.LIMITS, "histories", 5)
        shown = summary.collect(run)["histories"]
        assert (shown["total"], shown["shown"], len(shown["rows"])) == (3, 2, 4)

    def test_the_empty_file_of_a_redirection_is_no_state(self) -> None:
        story = Story()
        for number in (1, 2):
            story.create("/sorted", task="shell", pid=1)
            story.write("/sorted", 0, 70, task=f"sort{number}", pid=1 + number)
            if number == 1:
                assert len(histories.histories(dataflow.model(story.run()))) == 0
            story.read("/sorted", 0, 70, task=f"count{number}", pid=10 + number)
        table = histories.histories(dataflow.model(story.run()))
        rows = [(r.path, r.state, r.how, r.bytes, r.read_bytes) for r in table.itertuples()]
        assert rows == [("/sorted", 1, "first", 70, 70), ("/sorted", 2, "rewritten", 70, 70)]

    def test_a_run_without_a_loop_has_none(self) -> None:
        story = Story()
        story.create("/a", task="t")
        story.write("/a", task="t")
        assert len(histories.histories(dataflow.model(story.run()))) == 0


class TestNames:
    def test_a_unique_name_identifies_a_task(self) -> None:
        names = {"t1": "step-1", "t2": "step-2", "t3": "end"}
        tasks = pd.DataFrame(
            {"workflow": "w", "stage": s, "task": t, "name": names[t]}
            for s, t in (("step", "t1"), ("step", "t2"), ("end", "t3"))
        )
        model = dataflow.model(loop(declared_tasks=tasks))
        _, activities = dataflow.activities(model, "task")
        # The name of t3 is that of its stage.
        assert sorted(activities["label"]) == ["step-1", "step-2", "t3"]
        assert sorted(activities["task"]) == ["t1", "t2", "t3"]

    def test_a_name_of_several_tasks_identifies_none(self) -> None:
        tasks = pd.DataFrame({"workflow": "w", "stage": "s", "task": t, "name": "again"} for t in ("t1", "t2"))
        assert dataflow.task_names(tasks) == {}
        assert dataflow.task_names(pd.DataFrame()) == {}
