"""What the graph states about its edges: confidence, cycles, clocks; and software in packages."""

from __future__ import annotations

from typing import Any

import networkx as nx
import pandas as pd
import pytest

from support.flowcase import MS, Story
from support.task_stories import declared
from tailrace.analyzer.edges import confidence
from tailrace.analyzer.edges.packages import package
from tailrace.analyzer.insights import insights
from tailrace.analyzer.insights.annotate import annotate
from tailrace.analyzer.insights.critical import TASK_PARTS
from tailrace.analyzer.model import graphs
from tailrace.errors import QueryError


def words(story: Story, level: str = "task", **values: Any) -> dict[tuple[str, str], str]:
    g = graphs.graph(story.run(2, **values), level)
    return {(g.nodes[a]["label"], g.nodes[b]["label"]): d.get("confidence") for a, b, d in g.edges(data=True)}


def accounts(*shares: float) -> pd.DataFrame:
    rows = [
        {"host": "n1", "pid": pid, "exe": "/bin/x", "argv": None, "share": share, "cause": ""}
        for pid, share in enumerate(shares, 1)
    ]
    return pd.DataFrame(rows).astype({"share": "Float64"})


def relay() -> Story:
    """1 reads what was there and writes /a, 2 reads that."""
    story = Story()
    story.read("/in", task="t1", pid=1)
    story.create("/a", task="t1", pid=1)
    story.write("/a", task="t1", pid=1)
    story.read("/a", task="t2", pid=2)
    return story


def test_without_accounts_confidence_is_unknown_unless_evident() -> None:
    assert words(relay()) == {("in", "t1"): "external", ("t1", "a"): "unknown", ("a", "t2"): "unknown"}


def test_accounted_processes_are_complete() -> None:
    assert words(relay(), processes=accounts(1.0, 1.0))["t1", "a"] == "complete"
    half = words(relay(), processes=accounts(1.0, 0.5))
    assert (half["t1", "a"], half["a", "t2"]) == ("complete", "partial")


def test_edges_of_a_process_with_losses_have_confidence_losses() -> None:
    run: Any = relay().run(processes=accounts(1.0, 1.0))
    run.lossy_processes = {("n1", 2, "")}
    g = graphs.graph(run, "task")
    found = {g.nodes[b]["label"]: d["confidence"] for _, b, d in g.edges(data=True)}
    assert found == {"t1": "external", "a": "complete", "t2": "losses"}
    stage = graphs.graph(run, "task", files="none")
    assert [d["confidence"] for *_, d in stage.edges(data=True)] == ["losses"]


def test_a_read_that_was_overtaken_is_raced() -> None:
    story = relay()
    story.read("/a", task="t3", at_ms=10, dur=10 * MS)
    story.write("/a", task="t4", at_ms=15)
    assert words(story)["a", "t3"] == "raced"


def crossing() -> Story:
    """Two tasks at the same time, each of which read what the other one wrote: their times give no order."""
    story = Story()
    for me, other, at in (("x", "y", 1.0), ("y", "x", 2.0)):
        story.create(f"/{me}", task=me, at_ms=at)
        story.write(f"/{me}", task=me, at_ms=at + 2)
        story.read(f"/{other}", task=me, at_ms=at + 10)
    return story


def test_an_unresolvable_cycle_is_reported_and_the_graph_is_made() -> None:
    g = graphs.graph(crossing().run(), "task")
    assert not nx.is_directed_acyclic_graph(g)
    assert g.graph["cycles"] == 1
    assert {d["confidence"] for *_, d in g.edges(data=True)} == {"unordered"}


def test_reading_back_what_one_wrote_is_no_cycle() -> None:
    story = relay()
    story.read("/a", task="t1", pid=1)
    g = graphs.graph(story.run(), "task")
    assert g.graph["cycles"] == 0
    assert "unordered" not in {d["confidence"] for *_, d in g.edges(data=True)}


def test_request_and_reply_over_two_pipes_are_no_cycle() -> None:
    story = Story()
    for at, (writer, reader, pipe) in enumerate((("a", "b", "1"), ("b", "a", "2"))):
        values = {"ftype": "fifo"}
        story.write(f"pipe:[{pipe}]", None, 5, task=writer, at_ms=10 * at, **values)
        story.read(f"pipe:[{pipe}]", None, 5, task=reader, at_ms=10 * at + 5, **values)
    assert graphs.graph(story.run(), "task").graph["cycles"] == 0


def test_every_word_is_documented() -> None:
    assert confidence.__doc__ is not None
    for word in confidence.CONFIDENCES:
        assert f"\n    {word} " in confidence.__doc__


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/home/u/venv/lib/python3.11/site-packages/numpy/core/_core.cpython-311-x86_64-linux-gnu.so", "numpy"),
        ("/home/u/venv/lib/python3.11/site-packages/numpy-2.1.0.dist-info/METADATA", "numpy"),
        ("/home/u/venv/lib/python3.11/site-packages/numpy.libs/libopenblas-1.so", "numpy"),
        ("/home/u/venv/lib/python3.11/site-packages/six.py", "six"),
        ("/usr/lib/python3/dist-packages/yaml/__init__.py", "yaml"),
        ("/usr/lib/python3.11/json/decoder.py", "python3.11"),
        ("/usr/lib/python3.11/lib-dynload/_json.cpython-311-x86_64-linux-gnu.so", "python3.11"),
        ("/usr/lib/x86_64-linux-gnu/libz.so.1.2.13", "libz"),
        ("/lib64/ld-linux-x86-64.so.2", "ld-linux-x86-64"),
        (
            "/opt/spack/opt/spack/linux-debian12-zen/gcc-12.2.0/hdf5-1.14.3-k7xqpb2/lib/libhdf5.so",
            "hdf5-1.14.3-k7xqpb2",
        ),
        ("/nix/store/0c1d2e3f4g-samtools-1.19/bin/samtools", "samtools-1.19"),
        ("/usr/share/perl/5.36.0/Config.pm", "perl5.36.0"),
        ("/usr/share/hmmer/matrices/x.tab", "hmmer"),
        ("/usr/bin/hmmsearch", "hmmsearch"),
        ("/srv/tool/run.sh", "/srv/tool"),
        ("/run.sh", "/"),
    ],
)
def test_packages(path: str, name: str) -> None:
    assert package(path) == name


def test_software_is_one_node_a_package() -> None:
    story = Story()
    story.process(1, "/usr/bin/python3.11", "python3 x.py")
    for name in ("a.so", "b.so", "__pycache__/c.cpython-311.pyc"):
        story.read(f"/venv/lib/python3.11/site-packages/pkg/{name}", 0, 10, task="t", pid=1)
    story.read("/data", task="t", pid=1)
    run = story.run()
    plain, folded = graphs.graph(run, "task"), graphs.graph(run, "task", packages=("software",))
    assert folded.number_of_nodes() == plain.number_of_nodes() + 1
    (edge,) = [d for a, _, d in folded.edges(data=True) if a == "package:pkg"]
    assert (edge["files"], edge["bytes"]) == (3, 30)
    assert folded.nodes["package:pkg"] == {"kind": "package", "label": "pkg", "files": 3}


def test_a_stage_and_what_is_next_to_it() -> None:
    story = Story()
    for n, name in enumerate("abcd"):
        if n:
            story.read(f"/{'abcd'[n - 1]}", task=f"t{name}", stage=name)
        story.create(f"/{name}", task=f"t{name}", stage=name)
        story.write(f"/{name}", task=f"t{name}", stage=name)
    run = story.run()
    labels = lambda g: sorted(d["label"] for _, d in g.nodes(data=True))  # noqa: E731
    assert labels(graphs.graph(run, "stage", stage="b")) == ["a", "b", "c"]
    assert labels(graphs.graph(run, "task", stage=["b"])) == ["a", "b", "tb"]
    with pytest.raises(QueryError, match="there is no stage 'z'; there are a, b, c, d"):
        graphs.graph(run, "stage", stage="z")


def test_the_graph_marks_the_critical_path() -> None:
    story = Story()
    for name, start, reads in (("a", 0, ""), ("b", 50, "/a"), ("side", 3, "/a")):
        if reads:
            story.read(reads, task=name, stage=f"s{name}", at_ms=start + 20)
        story.create(f"/{name}", task=name, stage=f"s{name}", at_ms=start)
        story.write(f"/{name}", task=name, stage=f"s{name}", at_ms=start + 10, dur=30 * MS if name == "b" else 1000)
    run = story.run()
    tasks = graphs.graph(run, "task")
    annotate(tasks, insights(run))
    by_name = {d["label"]: d for _, d in tasks.nodes(data=True) if d["kind"] == "task"}
    assert (by_name["b"]["critical"], by_name["side"]["critical"]) == (True, False)
    assert by_name["side"]["slack_ns"] > 0 and by_name["side"]["path_ns"] == 0
    kinds = {
        (tasks.nodes[a]["label"], tasks.nodes[b]["label"]) for a, b, d in tasks.edges(data=True) if d.get("critical")
    }
    assert len(kinds) == 2 and {"a", "b"} == {name for pair in kinds for name in pair}
    stages = graphs.graph(run, "stage")
    annotate(stages, insights(run))
    by_stage = {d["label"]: d for _, d in stages.nodes(data=True)}
    total = sum(d[f"{part}_ns"] for d in by_stage.values() for part in TASK_PARTS)
    assert total == stages.graph["makespan_ns"]
    assert [d.get("critical") for a, b, d in stages.edges(data=True)].count(True) == 1


def unread(first: str, second: str) -> Story:
    """Two files that two tasks each write and nobody reads, by pids 1 to 4."""
    story = Story()
    for pid, path, size in ((1, first, 1 << 20), (2, first, 1 << 20), (3, second, 2 << 20), (4, second, 2 << 20)):
        story.write(path, 0, size, task=f"t{pid}", pid=pid, at_ms=1, dur=9_000_000)
    story.write("/result", 0, 1, task="t1", pid=1)
    return story


RESULT = declared(("t1", "t2", "future"), files=(("t1", "w", "/result"),))


class TestFindings:
    def never_read(self, **values: Any) -> Any:
        (found,) = [
            f for f in insights(unread("/a", "/b").run(**RESULT, **values)).findings() if f.kind == "never read"
        ]
        return found

    def test_a_finding_of_partly_seen_tasks_says_so(self) -> None:
        """Any of them may have read the files."""
        assert self.never_read(processes=accounts(1.0, 1.0, 1.0, 1.0)).doubts == []
        found = self.never_read(processes=accounts(1.0, 0.5, 1.0, 1.0))
        assert found.doubts == ["1 of its 4 tasks seen in part"]
        assert found.title.endswith("(1 of its 4 tasks seen in part)")

    def test_without_accounts_nothing_is_said(self) -> None:
        assert self.never_read().doubts == []

    def test_losses_are_a_doubt(self) -> None:
        assert self.never_read(lossy_processes={("n1", 3, "")}).doubts == ["1 of its 4 tasks seen in part"]

    def test_a_finding_of_wholly_seen_tasks_comes_first(self) -> None:
        """The unread file costs more, and one that was seen in part may have read it; what was read again, was."""
        story = Story()
        for _ in range(2):
            story.read("/again", 0, 1 << 20, task="t1", pid=1, dur=9_000_000)
        story.write("/unread", 0, 5 << 20, task="t2", pid=2, dur=9_000_000)
        story.write("/result", 0, 1, task="t1", pid=1)
        kinds = ("never read", "repeated reads")

        def order(*shares: float) -> list[str]:
            run = story.run(processes=accounts(*shares), **RESULT)
            return [f.kind for f in insights(run).findings() if f.kind in kinds]

        assert order(1.0, 1.0) == ["never read", "repeated reads"]
        assert order(1.0, 0.5) == ["repeated reads", "never read"]

    def test_times_of_a_corrected_clock_are_a_doubt(self) -> None:
        story = Story()
        story.create("/f", task="a", at_ms=100)
        story.write("/f", task="a", at_ms=101)
        story.read("/f", task="b", host="n2", pid=2, at_ms=50)
        story.write("/x", 0, 1 << 20, task="a", at_ms=120, dur=9_000_000)
        story.write("/x", 0, 1 << 20, task="b", host="n2", pid=2, at_ms=72, dur=9_000_000)
        found = {f.kind: f.doubts for f in insights(story.run()).findings()}
        assert found["two writers"] == ["times of n2 corrected"] and not found["clock skew"]
