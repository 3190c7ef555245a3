"""What the report's pictures are made of: task types, heat maps, packed columns, and the query behind each number."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import tailrace
from support.commands import TracedCommand
from support.flowcase import MS, FakeRun, Story
from tailrace.analyzer import summary
from tailrace.analyzer.insights import file_history
from tailrace.analyzer.model import dataflow
from tailrace.analyzer.report import html
from tailrace.analyzer.summary import heat, numbers, outcome, task_details, tasks
from tailrace.cli import main

ACCOUNT = {
    "host": "n1",
    "pid": [1, 2],
    "exe": "/bin/a",
    "traced": True,
    "account": "exit",
    "kernel_read": pd.array([500, 200], dtype="Int64"),
    "kernel_written": pd.array([100, 0], dtype="Int64"),
    "captured_read": pd.array([500, 100], dtype="Int64"),
    "captured_written": pd.array([70, 0], dtype="Int64"),
    "share": pd.array([0.95, 0.5], dtype="Float64"),
    "cause": "unseen calls",
}


def story() -> Story:
    """Four tasks of two types in one stage, each with a file of its own; a reader of them all; an untagged process."""
    s = Story()
    for i in range(4):
        who = {"stage": "make", "task": f"{'cut' if i < 2 else 'sew'}-{i:03}", "pid": 10 + i}
        s.create(f"/mid/part-{i}.dat", **who)
        s.write(f"/mid/part-{i}.dat", 0, 1000 * (i + 1), dur=2 * MS, **who)
    for i in range(4):
        s.read(f"/mid/part-{i}.dat", 0, 1000 * (i + 1), stage="use", task="all", pid=20)
    s.create("/result", stage="use", task="all", pid=20)
    s.write("/result", 0, 7, stage="use", task="all", pid=20)
    s.read("/mid/part-0.dat", 0, 1000, pid=1)
    return s


def collected(**values: Any) -> dict[str, Any]:
    return summary.collect(story().run(2, **values))


class TestTasks:
    def test_a_type_is_a_name_without_its_numbers(self) -> None:
        shown = collected()["tasks"]
        types = [(row["name"], shown["types"][row["type"]]) for row in shown["rows"]]
        assert ("cut-000", "cut-#") in types and ("sew-003", "sew-#") in types and ("all", "all") in types

    @pytest.mark.parametrize(
        ("name", "kind"),
        [("align", "align"), ("a1b22", "a#b#"), ("x-0b3a5c7e-11aa-22bb-33cc-0123456789ab", "x-#"), ("17", "#")],
    )
    def test_numbers_hashes_and_uuids(self, name: str, kind: str) -> None:
        assert tasks.type_name(name) == kind

    def test_the_name_that_the_manager_declared_is_the_type(self) -> None:
        declared = pd.DataFrame(
            [
                {"workflow": "w", "stage": "make", "task": task, "name": "saw", "parent": None}
                for task in ("cut-000", "cut-001")
            ],
            dtype=object,
        )
        shown = collected(declared_tasks=declared)["tasks"]
        types = {row["name"]: shown["types"][row["type"]] for row in shown["rows"]}
        assert (types["cut-000"], types["cut-001"], types["sew-002"]) == ("saw", "saw", "sew-#")

    def test_a_file_names_the_tasks_that_moved_it(self) -> None:
        data = collected()
        names = [row["name"] for row in data["tasks"]["rows"]]
        (file,) = [row for row in data["files"]["rows"] if row["path"] == "/mid/part-0.dat"]
        assert [names[i] for i in file["by"]] == ["cut-000"]
        assert sorted(names[i] for i in file["to"])[0] == "all" and len(file["to"]) == 2

    def test_only_a_process_without_a_task_has_a_pid(self) -> None:
        rows = collected()["tasks"]["rows"]
        assert [row["pid"] for row in rows if "pid" in row] == [1]

    def test_time_in_io_is_a_union(self) -> None:
        rows = {row["name"]: row for row in collected()["tasks"]["rows"]}
        assert rows["cut-000"]["io"] == pytest.approx(2.001), "an open of 1 us and a write of 2 ms"

    def test_waiting_for_a_child_is_no_io(self) -> None:
        s = Story()
        s.read("/in", 0, 100, stage="make", task="shell", pid=5)
        s.event("wait", cat="PROCESS", ret=6, dur=500 * MS, stage="make", task="shell", pid=5)
        data = summary.collect(s.run())
        (row,) = data["tasks"]["rows"]
        assert (row["dur"], row["io"]) == (pytest.approx(501), pytest.approx(0.001))
        assert sum(data["heat"]["busy"][0]) * data["heat"]["bin_ms"] == pytest.approx(0.001, abs=0.01)


class TestFolding:
    """A campaign: the same two stages in more workflows than a picture can show."""

    def campaign(self, workflows: int) -> dict[str, Any]:
        s = Story()
        for i in range(workflows):
            who = {"workflow": f"w{i}", "pid": 10 + i}
            s.create(f"/d/{i}", stage="make", task="t1", **who)
            s.write(f"/d/{i}", 0, 100, stage="make", task="t1", **who)
            s.read(f"/d/{i}", 0, 100, stage="use", task="t2", **{**who, "pid": 1000 + i})
        return summary.collect(s.run(2))

    def test_a_stage_of_many_workflows_is_one(self) -> None:
        data = self.campaign(60)
        assert [(s["stage"], s["tasks"]) for s in data["stages"]] == [("make", 60), ("use", 60)]
        (flow,) = [f for f in data["flows"] if (f["source"], f["target"]) == (0, 1)]
        assert (flow["bytes"], flow["pairs"]) == (6000, 60)

    def test_its_tasks_stay_apart_and_keep_their_names(self) -> None:
        data = self.campaign(60)
        rows = data["tasks"]["rows"]
        assert len(rows) == 120 and {row["name"] for row in rows} == {"t1", "t2"}
        assert {row["workflow"] for row in rows} == {f"w{i}" for i in range(60)}
        (file,) = [row for row in data["files"]["rows"] if row["path"] == "/d/7"]
        assert [rows[i]["workflow"] for i in (*file["by"], *file["to"])] == ["w7", "w7"]
        assert all(rows[p["task"]]["name"] == p["name"] for p in data["critical"]["rows"] if p["task"] >= 0)

    def test_a_few_workflows_stay_apart(self) -> None:
        assert len(self.campaign(3)["stages"]) == 6


class TestHeat:
    @given(
        st.lists(
            st.tuples(st.integers(0, 2), st.integers(0, 10_000), st.integers(0, 5_000), st.integers(0, 10**12)),
            max_size=30,
        )
    )
    def test_spreading_keeps_the_sum(self, intervals: list[tuple[int, int, int, int]]) -> None:
        table = np.array(intervals, dtype=np.int64).reshape(-1, 4)
        row, start, length, amount = table.T
        out = heat.spread(row, start, start + length, amount.astype(float), 0, 15_000 / heat.BINS, 3)
        want = np.bincount(row, weights=amount, minlength=3)
        assert out.sum(axis=1) == pytest.approx(want, rel=1e-9, abs=1e-6)
        assert (out >= 0).all()

    def test_an_interval_fills_the_bins_it_covers(self) -> None:
        bounds = (np.array([0]), np.array([25]), np.array([55]), np.array([30.0]))
        out = heat.spread(*bounds, 0, 10.0, 1)[0]
        assert out[:7].tolist() == pytest.approx([0, 0, 5, 10, 10, 5, 0])

    def test_times_outside_of_the_window_are_left_out(self) -> None:
        rows = np.array([0, 0, 0])
        out = heat.spread(rows, np.array([-10, -30, 1300]), np.array([10, -20, 1310]), np.ones(3), 0, 10.0, 1)
        assert out.sum() == pytest.approx(0.5)

    def test_the_map_has_each_stages_bytes(self) -> None:
        data = collected()
        shown = {data["stages"][s]["stage"]: i for i, s in enumerate(data["heat"]["stage"])}
        assert sum(data["heat"]["wrote"][shown["make"]]) == pytest.approx(10_000, abs=heat.BINS)
        assert sum(data["heat"]["read"][shown["use"]]) == pytest.approx(10_000, abs=heat.BINS)

    def test_files_that_differ_in_a_number_are_a_family(self) -> None:
        data = collected()
        rows = {row["name"]: row for row in data["families"]["rows"]}
        family = rows["/mid/part-#.dat"]
        assert (family["files"], sum(family["wrote"]), sum(family["read"])) == (4, 10_000, 11_000)
        assert "/result" in rows


class TestColumns:
    def test_rows_come_back(self) -> None:
        rows = [{"a": "x", "b": i} for i in range(5)] + [{"a": "y", "b": 5, "c": [1]}]
        packed = html.columns(rows)
        assert packed["n"] == 6
        assert packed["columns"]["a"] == {"texts": ["x", "y"], "at": [0, 0, 0, 0, 0, 1]}
        assert packed["columns"]["c"] == [None] * 5 + [[1]]

    def test_texts_that_differ_stay_texts(self) -> None:
        assert html.columns([{"a": "x"}, {"a": "y"}])["columns"]["a"] == ["x", "y"]

    def test_no_rows(self) -> None:
        assert html.columns([]) == {"n": 0, "columns": {}}


class TestOverview:
    def test_there_are_ten(self) -> None:
        assert len(numbers.OVERVIEW) == 10

    @pytest.mark.parametrize("number", numbers.OVERVIEW, ids=lambda n: n.key)
    def test_the_expression_gives_the_number(self, number: numbers.Number) -> None:
        run: FakeRun = story().run(2, coverage=pd.DataFrame(ACCOUNT))
        shown = summary.collect(run)["numbers"][number.key]
        names: dict[str, Any] = {"run": run}
        exec(numbers.IMPORTS, names)  # as the page shows them before each expression
        assert eval(number.python, names) == pytest.approx(shown)
        assert shown, "a number that is 0 shows nothing"

    @pytest.mark.parametrize("number", [n for n in numbers.OVERVIEW if n.shell], ids=lambda n: n.key)
    def test_the_command_gives_the_number(self, number: numbers.Number, tmp_path: Path) -> None:
        """On a real run of three programs, one of which passes data on to another one."""
        script = "export TAILRACE_TAGS; for t in 1 2; do TAILRACE_TAGS=stage=make,task=$t; seq 9999 > $t; done"
        script += "; TAILRACE_TAGS=stage=use,task=3; cat 1 2 | wc -c > c"
        TracedCommand(tmp_path, tmp_path / "run")("sh", "-c", script)
        shown = summary.collect(tailrace.open(tmp_path / "run"))["numbers"][number.key]
        command, *options = shlex.split(number.shell.format(run=str(tmp_path / "run")))[1:]
        json_format = ["--format", "json"] if command == "query" else []
        done = CliRunner().invoke(main.group, [command, *options, *json_format], catch_exceptions=False)
        assert done.exit_code == 0 and shown, done.output
        assert GIVEN[command](done.stdout, number.key) == pytest.approx(shown, abs=0.005 if command == "info" else 0)


def of_rows(text: str, key: str) -> int:
    rows = json.loads(text)
    columns = {"tasks": "nunique_task", "read_bytes": "sum_size", "written_bytes": "sum_size"}
    return len(rows) if key == "processes" else sum(row[columns[key]] for row in rows)


def of_graph(text: str, key: str) -> int:
    """The flows between tasks; those from before the run have no producer."""
    graph = json.loads(text)
    tasks = {node["id"] for node in graph["nodes"] if not node.get("external")}
    return sum(edge["bytes"] for edge in graph["edges"] if edge["kind"] == "flow" and edge["source"] in tasks)


def of_info(text: str, key: str) -> float:
    (line,) = [line for line in text.splitlines() if line.split()[:1] == ["coverage"]]
    return float(line.split()[1].rstrip("%")) / 100


GIVEN = {"query": of_rows, "graph": of_graph, "info": of_info}


class TestAccess:
    """The pattern of each access is that of `tailrace file`, for all of them at once."""

    def test_patterns_are_those_of_a_files_history(self) -> None:
        s, step = Story(), 4096
        ways = {
            "consecutive": range(20),
            "strided": range(0, 60, 3),
            "sequential": [0, 1, 5, 6, 20, 21, 22],
            "random": [i * 7919 % 97 for i in range(40)],
            "repeated": [*range(20), *range(20)],
            "mixed": [0, 2, 1, *range(5, 45, 2)],
        }
        for number, (name, places) in enumerate(ways.items()):
            for place in places:
                s.read(f"/d/{name}", place * step, step, stage="s", task=name, pid=10 + number)
        s.write("/d/unknown", None, 10, stage="s", task="unknown", pid=30)
        run = s.run(2)
        data = summary.collect(run)
        m = dataflow.model(run)
        by_name = {row["path"]: row["how_read"] or row["how_wrote"] for row in data["files"]["rows"]}
        for path, how in by_name.items():
            (file,) = file_history.file_history(run, path).files
            (accessed,) = [one for version in file.versions for one in (*version.writers, *version.readers)]
            assert how == accessed.pattern, path
        assert {path.removeprefix("/d/"): how for path, how in by_name.items()} == {
            **{n: n for n in ways},
            "unknown": "unknown",
        }
        (reads, writes) = sorted(data["access"]["rows"], key=lambda row: row["dir"])
        assert reads["calls"] == sum(len(list(places)) for places in ways.values()) and writes["calls"] == 1
        for row in (reads, writes):
            assert sum(kind[1] for kind in row["kinds"].values()) == row["calls"]
            assert sum(kind[0] for kind in row["kinds"].values()) == row["bytes"]
        assert reads["kinds"]["random"][:2] == [40 * step, 40]
        assert sum(map(sum, data["heat"]["calls"])) == pytest.approx(m.table.counts["calls"].sum(), abs=1)

    def test_the_processes_of_failed_tasks_stay_when_they_are_cut(self) -> None:
        run = story().run(2)
        m = dataflow.model(run)
        codes, activities = dataflow.activities(m, "task")
        rows = [{"dur": float(at)} for at in range(len(activities))]
        rows[0]["status"] = "failed"
        kept = task_details.add_processes(m, rows, np.arange(len(activities)), 0, processes_shown=2)
        assert (kept["total"], len(kept["rows"])) == (int(codes.max()) + 1, 2)
        assert rows[0]["procs"] == [0] and rows[-1]["procs"] == [1], "then the longest"

    def test_tasks_that_began_at_once_come_by_their_names(self) -> None:
        """Else their rows depend on which trace file was read first."""
        s = Story()
        for pid in (30, 10, 20):
            s.write(f"/d/{pid}", 0, 10, stage="s", task=f"t{pid}", pid=pid, at_ms=0)
        assert [row["name"] for row in summary.collect(s.run(2))["tasks"]["rows"]] == ["t10", "t20", "t30"]

    def test_processes_of_tasks_that_took_equally_long_come_by_their_keys(self) -> None:
        """Else their places depend on which trace file was read first."""
        s = Story()
        for pid in (30, 10, 20):
            s.write(f"/d/{pid}", 0, 10, stage="s", task=f"t{pid}", pid=pid)
        m = dataflow.model(s.run(2))
        rows = [{"dur": 0.2} for _ in dataflow.activities(m, "task")[1]]
        kept = task_details.add_processes(m, rows, np.arange(len(rows)), 0)
        assert [row["pid"] for row in kept["rows"]] == [10, 20, 30]


@pytest.mark.parametrize(
    ("level", "text", "counts", "ended", "verdict", "words"),
    [
        ("failed", "1 of 2 tasks did not succeed: 1 failed.", {"failed": 1, "done": 1}, True, "Failed", "1 of 2"),
        ("noted", "Of 2 tasks: 1 memoized.", {"memoized": 1, "done": 1}, True, "Succeeded", "Of 2"),
        ("noted", "Of 2 tasks: 1 without an end", {"open": 1, "done": 1}, False, "Not over", "Of 2"),
        ("", "", {"done": 2}, True, "Succeeded", "All 2 tasks were done. The command ended with exit code 0."),
        ("", "", {}, True, "Succeeded", "The command ended with exit code 0."),
        ("", "", {}, False, "End unknown", "Neither"),
    ],
)
def test_how_it_ended_is_said_in_any_case(
    level: str, text: str, counts: dict[str, int], ended: bool, verdict: str, words: str
) -> None:
    said, sentence = outcome._verdict(level, text, counts, ended)
    assert said == verdict and sentence.startswith(words)
