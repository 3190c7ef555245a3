"""Flows, graphs and the declared DAG: against a byte-by-byte simulation, and stories with known ends."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.flowcase import MS, T0_NS, Story
from tailrace.analyzer.model import dataflow, declared_vs_observed, graphs
from tailrace.errors import QueryError


def flow_sums(run: Any, level: str = "task", column: str = "bytes") -> dict[tuple[str, str], int]:
    """(producer label, consumer label) -> bytes."""
    m = dataflow.model(run)
    labels = [*dataflow.activities(m, level)[1]["label"], dataflow.BEFORE_RUN]  # position -1 is "before the run"
    out: dict[tuple[str, str], int] = {}
    for row in dataflow.flow_table(m, level).itertuples():
        key = (labels[row.producer], labels[row.consumer])
        out[key] = out.get(key, 0) + getattr(row, column)
    return {key: n for key, n in out.items() if n}


def turns(seed: int) -> tuple[Story, dict[tuple[str, str], int]]:
    """One file, units that take turns (read, maybe truncate, write), and how many bytes of whom each one read."""
    r, story = random.Random(seed), Story()
    owners: list[str] = [dataflow.BEFORE_RUN] * 20
    wanted: dict[tuple[str, str], int] = {}
    for turn in range(r.randint(2, 6)):
        me, seen = f"t{turn}", set()
        for _ in range(r.randint(0, 3)):
            start = r.randint(0, len(owners))
            size = r.randint(0, len(owners) - start)
            story.read("/f", start, size, task=me)
            seen |= set(range(start, start + size))
        for owner in (owners[at] for at in seen):
            wanted[(owner, me)] = wanted.get((owner, me), 0) + 1
        if r.random() < 0.3:
            story.create("/f", task=me)
            owners = []
        for _ in range(r.randint(0, 3)):
            start, size = r.randint(0, len(owners)), r.randint(1, 12)
            story.write("/f", start, size, task=me)
            owners[start : start + size] = [me] * size
    return story, wanted


class TestFlows:
    @settings(max_examples=30, deadline=None)
    @given(st.integers(0, 100_000), st.integers(1, 4))
    def test_bytes_come_from_their_last_writer(self, seed: int, partitions: int) -> None:
        story, wanted = turns(seed)
        run = story.run(partitions)
        assert flow_sums(run, column="unique_bytes") == wanted
        assert sum(flow_sums(run).values()) == sum(row["size"] for row in story.rows if row.get("dir") == "r")

    def test_rereading_counts_again_and_is_shared_in_proportion(self) -> None:
        story = Story()
        story.create("/f", task="a")
        story.write("/f", 0, 60, task="a")
        story.write("/f", 60, 40, task="b")
        for _ in range(3):
            story.read("/f", 0, 100, task="c")
        assert flow_sums(story.run()) == {("a", "c"): 180, ("b", "c"): 120}

    def test_unread_bytes_of_a_writer_are_no_flow(self) -> None:
        story = Story()
        story.create("/f", task="a")
        story.write("/f", 0, 100, task="a")
        story.write("/f", 100, 100, task="b")
        story.read("/f", 150, 20, task="c")
        assert flow_sums(story.run()) == {("b", "c"): 20}

    def test_unknown_offsets_are_shared_by_what_was_written(self) -> None:
        story = Story()
        story.create("/f", task="a", at_ms=1)
        story.write("/f", None, 75, task="a", at_ms=2, dur=10 * MS)
        story.write("/f", None, 25, task="b", at_ms=3, dur=MS)
        story.read("/f", None, 100, task="c", at_ms=20)
        assert flow_sums(story.run()) == {("a", "c"): 75, ("b", "c"): 25}

    def test_a_pipe_joins_processes_however_they_interleave(self) -> None:
        story = Story()
        for i in range(5):
            story.write("pipe:[7]", None, 10, ftype="fifo", pid=1, task="a", at_ms=2 * i + 1)
            story.read("pipe:[7]", None, 10, ftype="fifo", pid=2, task="b", at_ms=2 * i + 1.5)
        assert flow_sums(story.run(3)) == {("a", "b"): 50}

    def test_a_pipe_that_comes_from_outside_is_no_input(self) -> None:
        story = Story()
        story.read("pipe:[7]", None, 10, ftype="fifo", task="b")
        assert flow_sums(story.run()) == {}

    def test_own_bytes_are_no_flow_but_processes_of_a_task_exchange(self) -> None:
        story = Story()
        story.create("/f", task="a", pid=1, stage="s")
        story.write("/f", task="a", pid=1, stage="s")
        story.read("/f", task="a", pid=2, stage="s")
        assert flow_sums(story.run(), "task") == {}
        assert flow_sums(story.run(), "stage") == {}
        assert list(flow_sums(story.run(), "process").values()) == [100]

    def test_tasks_of_one_stage_make_a_loop_at_its_stage(self) -> None:
        story = Story()
        story.create("/f", task="a", stage="s")
        story.write("/f", task="a", stage="s")
        story.read("/f", task="b", stage="s")
        assert flow_sums(story.run(), "stage") == {("s", "s"): 100}

    def test_a_rename_keeps_the_file_and_a_rename_over_makes_another(self) -> None:
        story = Story()
        story.create("/out", task="old")
        story.write("/out", task="old")
        story.create("/out.tmp", task="new")
        story.write("/out.tmp", task="new")
        story.rename("/out.tmp", "/out", task="new")
        story.read("/out", task="c")
        assert flow_sums(story.run()) == {("new", "c"): 100}

    def test_an_empty_file_made_in_the_run_is_produced_and_consumed(self) -> None:
        story = Story()
        story.identities["/done"] = f"n1:8:1:5:{T0_NS + MS}"
        story.event("openat", "/done", flags=0o101, task="a")
        story.read("/done", 0, 0, task="b")
        edges = graphs.graph(story.run(), "task").edges(data="kind")
        assert sorted(kind for _, _, kind in edges) == ["read", "write"]
        story.identities["/done"] = "n1:8:1:5:1600000000000000000"  # born long before the run
        before = Story(identities=story.identities)
        before.event("openat", "/done", flags=0o101, task="a")
        assert graphs.graph(before.run(), "task").number_of_edges() == 0


class TestGraph:
    def story(self) -> Story:
        story = Story()
        story.process(1, "/usr/bin/gen")
        story.create("/d/a", stage="make", task="m1", pid=1)
        story.write("/d/a", stage="make", task="m1", pid=1)
        story.read("/d/a", stage="use", task="u1", pid=2)
        story.write("/d/private", stage="use", task="u1", pid=2)
        story.read("/usr/lib/libm.so", stage="use", task="u1", pid=2)
        return story

    def test_stage_level_has_flows(self) -> None:
        g = graphs.graph(self.story().run(2))
        assert [(s, t, d["bytes"], d["files"]) for s, t, d in g.edges(data=True)] == [
            ("stage:w/make", "stage:w/use", 100, 1)
        ]

    def test_files_all_shared_and_classes(self) -> None:
        run = self.story().run()
        paths = lambda g: sorted(d["path"] for _, d in g.nodes(data=True) if d["kind"] == "file")  # noqa: E731
        assert paths(graphs.graph(run, "task")) == ["/d/a", "/d/private"]
        assert paths(graphs.graph(run, "stage", files="shared")) == ["/d/a"]
        assert "/usr/lib/libm.so" in paths(graphs.graph(run, "task", classes=("data", "software")))

    def test_edges_have_the_observed_attributes(self) -> None:
        g = graphs.graph(self.story().run(), "process")
        (read,) = [d for s, _, d in g.edges(data=True) if d["kind"] == "read" and g.nodes[s]["path"] == "/d/a"]
        assert (read["bytes"], read["calls"], read["extents"], read["exact"], read["own"]) == (
            100,
            1,
            [[0, 100]],
            True,
            False,
        )
        assert g.nodes["process:w/make/m1/n1/1"]["exe"] == "/usr/bin/gen"

    @pytest.mark.parametrize(
        "values",
        [{"level": "job"}, {"files": "some"}, {"classes": ("dta",)}, {"level": "workflow", "stage": "make"}],
    )
    def test_a_wrong_word_is_named_with_the_choices(self, values: dict[str, Any]) -> None:
        with pytest.raises(QueryError, match=r"stage|shared|software"):
            graphs.graph(self.story().run(), **values)

    def test_runs_without_stages_show_programs(self) -> None:
        story = Story()
        for pid, exe in ((1, "/usr/bin/sort"), (2, "/usr/bin/uniq")):
            story.process(pid, exe)
        story.write("pipe:[1]", None, ftype="fifo", pid=1)
        story.read("pipe:[1]", None, ftype="fifo", pid=2)
        assert flow_sums(story.run(), "stage") == {("(sort)", "(uniq)"): 100}

    def test_names_of_activities_are_distinct(self) -> None:
        story = Story()
        story.write("/a", stage="x/y", task="z")
        story.write("/b", stage="x", task="y/z")
        assert graphs.graph(story.run(), "task", files="none").number_of_nodes() == 2


class TestDeclared:
    def run(self) -> Any:
        story = Story()
        story.create("/a", task="make")
        story.write("/a", task="make")
        story.read("/a", task="use")
        story.read("/a", pid=9)
        story.create("/copy", pid=9)
        story.write("/copy", pid=9)
        story.read("/copy", task="staged")
        story.create("/b", task="inner")
        story.write("/b", task="inner")
        story.read("/b", task="after")
        story.create("/c", task="use")
        story.write("/c", task="use")
        story.read("/c", task="after")
        story.read("/a", task="after")
        names = ("make", "use", "staged", "inner", "after", "join", "value", "lost")
        tasks = pd.DataFrame(
            {"workflow": "w", "stage": "s", "task": t, "parent": "join" if t == "inner" else None} for t in names
        )
        deps = [
            ("use", "make", "file"),
            ("use", "make", "future"),
            ("staged", "make", "file"),
            ("after", "join", "future"),
        ]
        deps += [("value", "use", "future"), ("lost", "use", "file"), ("after", "value", "future")]
        deps += [("lost", "value", "afterok"), ("lost", "make", "afterany"), ("lost", "make", "future")]
        rows = [{"workflow": "w", "task": t, "dep": d, "via": v, "path": None} for t, d, v in deps]
        return story.run(declared_tasks=tasks, declared_deps=pd.DataFrame(rows))

    def test_every_status(self) -> None:
        table = declared_vs_observed.compare_declared(self.run())
        got = {(r.producer, r.consumer): (r.status, r.through.split(" ")[0], r.order) for r in table.itertuples()}
        assert got == {
            ("make", "use"): ("observed", "", "declared"),
            ("make", "staged"): ("observed", "process", "declared"),
            ("join", "after"): ("observed", "inner", "declared"),
            ("use", "value"): ("value only", "", "declared"),
            ("value", "after"): ("value only", "", "declared"),
            ("use", "lost"): ("untraced", "", "declared"),
            ("value", "lost"): ("order only", "", "declared"),
            ("make", "lost"): ("value only", "", "declared"),
            ("use", "after"): ("undeclared", "", "declared"),
            ("make", "after"): ("undeclared", "", "declared"),
        }
        assert set(table["producer_stage"]) | set(table["consumer_stage"]) == {"s"}
        assert table[table["status"] == "observed"].set_index("consumer").at["use", "via"] == "future+file"

    def test_inner_tasks_are_ordered_with_their_outer_task(self) -> None:
        """make -> instance [ first -> second ] -> end: what passes into the instance and out of it was declared."""
        story = Story()
        pairs = (("make", "first"), ("make", "second"), ("first", "second"), ("second", "end"), ("instance", "first"))
        for writer, reader in pairs:
            story.create(f"/{writer}-{reader}", task=writer)
            story.write(f"/{writer}-{reader}", task=writer)
            story.read(f"/{writer}-{reader}", task=reader)
        for writer, reader in (("make", "end"), ("first", "stranger")):
            story.read(f"/{writer}-{'first' if writer == 'make' else 'second'}", task=reader)
        inner = {"first": "instance", "second": "instance"}
        names = ("make", "instance", "first", "second", "end", "stranger")
        tasks = pd.DataFrame({"workflow": "w", "stage": "s", "task": t, "parent": inner.get(t)} for t in names)
        deps = [{"task": t, "dep": d} for t, d in (("instance", "make"), ("end", "instance"), ("second", "first"))]
        rows = pd.DataFrame(deps).assign(workflow="w", via="afterok", path=None)
        table = declared_vs_observed.compare_declared(story.run(declared_tasks=tasks, declared_deps=rows))
        got = {(r.producer, r.consumer): (r.status, r.through, r.bytes, r.order) for r in table.itertuples()}
        assert got == {
            ("make", "instance"): ("observed", "first and 1 more", 200, "declared"),
            ("first", "second"): ("observed", "", 100, "declared"),
            ("instance", "end"): ("observed", "second", 100, "declared"),
            ("make", "end"): ("undeclared", "", 100, "declared"),
            ("instance", "first"): ("undeclared", "", 100, "declared"),
            ("first", "stranger"): ("undeclared", "", 100, "none"),
        }

    def test_nothing_declared_makes_an_empty_table(self) -> None:
        assert len(declared_vs_observed.compare_declared(Story().run())) == 0


@pytest.mark.parametrize("told", ["description", "restart", "declared file", "nobody"])
def test_the_runs_own_files_are_known_where_the_run_was_recorded(told: str, tmp_path: Path) -> None:
    """The run was copied since. Runs of before say it by the names of their declared files alone."""
    story = Story()
    for path in ("/old/run/declared/make-n1-1-18ec.jsonl", "/old/run/run.json", "/old/data.txt"):
        story.write(path, task="t")
    (tmp_path / "declared").mkdir()
    (tmp_path / "declared" / ("make-n1-1-18ec.jsonl" if told == "declared file" else "other.jsonl")).touch()
    here = {"directory": "/old/run"}
    meta = {"description": here, "restart": {"restarts": [here]}}.get(told, {})
    m = dataflow.model(story.run(path=tmp_path, meta=meta))
    data = {str(m.paths[file]) for file in m.bursts["file"][m.classed(["data"])]}
    assert data == ({*m.paths} if told == "nobody" else {"/old/data.txt"})
