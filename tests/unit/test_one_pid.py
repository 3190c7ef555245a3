"""Processes of one pid on one host, in all that the analyzer makes of them: two are two."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tailrace
from support import trace_writer as tw
from support.flowcase import Story
from tailrace.analyzer.exports import lineage, perfetto
from tailrace.analyzer.insights import Insights, insights
from tailrace.analyzer.model import dataflow, graphs, stages
from tailrace.analyzer.store import processes
from tailrace.errors import QueryError

FIRST, SECOND = "18aa", "18ab"


def relay(**second: Any) -> Story:
    """pid 7 writes /a and ends; another pid 7 reads it and writes /b; pid 8 reads that."""
    story = Story()
    story.read("/in", pid=7, start=FIRST)
    story.create("/a", pid=7, start=FIRST)
    story.write("/a", pid=7, start=FIRST)
    story.read("/a", pid=7, **{"start": SECOND, **second})
    story.create("/b", pid=7, **{"start": SECOND, **second})
    story.write("/b", pid=7, **{"start": SECOND, **second})
    story.read("/b", pid=8, start="18ac")
    return story


def reported(**columns: list[Any]) -> pd.DataFrame:
    rows = {"host": ["n1"] * 3, "pid": [7, 7, 8], "start": [FIRST, SECOND, "18ac"], "argv": [None] * 3}
    return pd.DataFrame({**rows, "exe": ["/bin/make", "/bin/sort", "/bin/uniq"], **columns})


def drawn(level: str, **values: Any) -> set[tuple[str, str]]:
    graph = graphs.graph(relay().run(processes=reported(), **values), level, files="none")
    label = {node: data["label"] for node, data in graph.nodes(data=True)}
    return {(label[a], label[b]) for a, b in graph.edges()}


class TestGraph:
    @pytest.mark.parametrize("level", ["task", "process"])
    def test_two_of_one_pid_are_two_nodes(self, level: str) -> None:
        assert drawn(level) == {("make n1:7", "sort n1:7#2"), ("sort n1:7#2", "uniq n1:8")}

    def test_names_distinguish_them_only_where_needed(self) -> None:
        graph = graphs.graph(relay().run(processes=reported()), "process")
        nodes = {node: data["start"] for node, data in graph.nodes(data=True) if data["kind"] == "process"}
        stem = "process:w/%28{}%29//n1/"
        assert nodes == {
            stem.format("make") + "7": FIRST,
            stem.format("sort") + f"7/{SECOND}": SECOND,
            stem.format("uniq") + "8": "18ac",
        }

    def test_without_starts_they_are_one(self) -> None:
        story = relay()
        for row in story.rows:
            row["start"] = None
        graph = graphs.graph(story.run(), "process", files="none")
        assert {data["label"] for _, data in graph.nodes(data=True)} == {"process n1:7", "process n1:8"}
        assert all("start" not in data for _, data in graph.nodes(data=True))

    def test_one_process_on_two_hosts_is_unchanged(self) -> None:
        graph = graphs.graph(relay(host="n2").run(), "process", files="none")
        labels = {data["label"] for _, data in graph.nodes(data=True)}
        assert labels == {"process n1:7", "process n2:7", "process n1:8"}

    def test_losses_and_coverage_belong_to_one_process(self) -> None:
        run: Any = relay().run(processes=reported(share=[1.0, 0.5, 1.0], cause=["", "", ""]))
        run.lossy_processes = {("n1", 7, FIRST)}
        graph = graphs.graph(run, "process")
        found = {
            (data["kind"], graph.nodes[b].get("path", graph.nodes[a].get("path"))): data["confidence"]
            for a, b, data in graph.edges(data=True)
            if data["kind"] in ("read", "write")
            for node in (a, b)
            if graph.nodes[node]["kind"] == "process"
        }
        assert found["write", "/a"] == "losses" and found["write", "/b"] == "partial"
        assert found["read", "/b"] == "complete"


class TestTables:
    def test_processes_are_counted(self) -> None:
        m = dataflow.model(relay().run(processes=reported(exe=["/bin/x"] * 3)))
        assert stages.table(m)["processes"].tolist() == [3]
        assert int(insights(m, m).inputs.tasks["processes"].sum()) == 3

    def test_a_file_read_by_the_second_is_read(self) -> None:
        m = dataflow.model(relay().run())
        assert stages.never_read(m)["path"].tolist() == []
        versions = m.versions.table.groupby("file")["number"].max()
        assert versions.tolist() == [0, 1, 1]

    def test_programs_and_scripts_belong_to_one_process(self) -> None:
        story = Story()
        for start in (FIRST, SECOND):
            story.read("/opt/tool/table.dat", pid=7, start=start)
        frame = reported()[:2].assign(exe=["/usr/bin/wc", "/opt/tool/bin"])
        m = dataflow.model(story.run(processes=frame))
        # A general tool was given it, a program has it for its resource.
        assert [m.who["exe"].iat[w] for w in m.bursts["who"]] == ["/usr/bin/wc", "/opt/tool/bin"]
        assert m.cls.tolist() == [0, 2]

    def test_a_query_of_one_selects_it(self) -> None:
        i = insights(relay().run(processes=reported()))
        asked = [i.of_task(task) for task in range(3)]
        assert asked == [
            ["--host", "n1", "--pid", "7", "--start", FIRST],
            ["--host", "n1", "--pid", "7", "--start", SECOND],
            ["--host", "n1", "--pid", "8"],
        ]
        assert isinstance(i, Insights)
        assert i.of_stage("(sort)") == ["--stage", "", "--host", "n1", "--pid", "7", "--start", SECOND]
        assert i.of_stage("(uniq)") == ["--stage", "", "--host", "n1", "--pid", "8"]


class TestExports:
    def test_jobs_have_names_of_their_own(self) -> None:
        found = lineage.lineage(dataflow.model(relay().run(processes=reported(t0_ns=[1, 2, 3]))))
        assert [job.key[3:] for job in found.jobs] == [("n1", "7"), ("n1", "7", SECOND), ("n1", "8")]
        assert [job.exe for job in found.jobs] == ["/bin/make", "/bin/sort", "/bin/uniq"]
        assert [sorted(job.parents) for job in found.jobs] == [[], [0], [1]]

    def test_threads_of_a_task_have_tracks_of_their_own(self) -> None:
        story = relay()
        for row in story.rows:
            row.update(stage="s", task="t")
        text = io.StringIO()
        perfetto.write(story.run(processes=reported()), text)
        events = json.loads(text.getvalue())["traceEvents"]
        names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
        assert sorted(names.values()) == ["n1 7", "n1 7#2", "n1 8", "task"]
        tracks = {names[e["tid"]]: 0 for e in events if e["ph"] == "X"}
        assert set(tracks) == set(names.values())


HEX = st.sampled_from(["", "9", "a", "10", "1f", "ff", "100"])
ROWS = st.lists(st.tuples(st.sampled_from(["n1", "n2"]), st.sampled_from([1, 2]), HEX), max_size=12)


@settings(deadline=None)
@given(ROWS)
def test_processes_of_a_pid_are_numbered_in_the_order_of_their_starts(rows: list[tuple[str, int, str]]) -> None:
    frame = pd.DataFrame(rows, columns=processes.PROCESS)
    pid_use, pid_uses = processes.pid_uses(frame)
    for at, (host, pid, start) in enumerate(rows):
        others = {s for h, p, s in rows if (h, p) == (host, pid)}
        assert pid_use[at] == 1 + sum(int(s or "0", 16) < int(start or "0", 16) for s in others)
        assert pid_uses[at] == len(others)
    codes = processes.numbers(frame)
    assert all((codes[a] == codes[b]) == (rows[a] == rows[b]) for a in range(len(rows)) for b in range(len(rows)))
    assert processes.count(frame) == len(set(rows))


def block(start: str, second: int, **lines: Any) -> bytes:
    at = tw.T0_US + second * 1_000_000
    process = {"ppid": 1, "exe": f"/bin/{start}", "argv": [start], "cwd": "/", "uid": 0}
    events = [tw.event("start", at, cat="PROCESS", **process), tw.event("read", at + 5, size=1, dir="r", task="t")]
    return tw.block([tw.host_line(), *events], {"start": start, "process": process, **lines})


class TestRun:
    def test_events_of_one_are_found_by_headers(self, tmp_path: Path) -> None:
        run = tailrace.open(tw.make_run(tmp_path / "run", {"a": block(FIRST, 0), "b": block(SECOND, 9)}))
        assert len(run.events(pid=7).compute()) == 4
        one = run.events(columns=["name", "start"], pid=7, start=SECOND)
        assert one.npartitions == 1 and one.compute()["start"].tolist() == [SECOND] * 2
        with pytest.raises(QueryError, match="there is no start 'none'; there is"):
            run.events(start="none")
        by = run.events(columns=["pid", "start"]).compute().groupby(["pid", "start"], observed=True).size()
        assert by.to_dict() == {(7, FIRST): 2, (7, SECOND): 2}
        assert len(dataflow.model(run).who.query("task == ''")) == 2

    def test_losses_are_of_one(self, tmp_path: Path) -> None:
        files = {"a": block(FIRST, 0), "b": block(SECOND, 9, lost={"torn": 1})}
        assert tailrace.open(tw.make_run(tmp_path / "run", files)).lossy_processes == {(tw.HOST, 7, SECOND)}

    @pytest.mark.parametrize(("second", "expected"), [(1, FIRST), (12, SECOND), (60, SECOND)])
    def test_the_manager_is_the_process_alive_when_the_log_began(
        self, tmp_path: Path, second: int, expected: str
    ) -> None:
        starts = {at: f"{(tw.T0_US + at * 1_000_000) * 1000:x}" for at in (0, 9)}
        blocks = {
            name: block(starts[at], at, t1=(tw.T0_US + (at + 5) * 1_000_000) * 1000)
            for name, at in (("a", 0), ("b", 9))
        }
        directory = tw.make_run(tmp_path / "run", blocks)
        when = (tw.T0_US + second * 1_000_000) * 1000
        line = {"type": "workflow", "workflow": "w", "manager": "m"}
        (directory / "declared" / f"m-node_1-7-{when:x}.jsonl").write_text(json.dumps(line) + "\n")
        run = tailrace.open(directory)
        assert run.manager_processes == {(tw.HOST, 7, {FIRST: starts[0], SECOND: starts[9]}[expected])}
