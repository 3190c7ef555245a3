"""Graph files: read back by other readers, and hostile names stay names."""

from __future__ import annotations

import io
import json
import shutil
import subprocess

import networkx as nx
import pytest
from click.testing import CliRunner

from support.flowcase import Story
from tailrace.analyzer.exports import FORMATS, dot, graphml
from tailrace.analyzer.model import dataflow, graphs
from tailrace.cli import graph as graph_command

HOSTILE = '/d/"; evil [label="x\\"] -> \\N <b>&amp;\x01\x1b]0;\u202e</b> name\n.txt'

WRITERS = {name: form.graph for name, form in FORMATS.items() if form.graph}


def hostile_graph(level: str = "task") -> nx.MultiDiGraph:
    story = Story()
    story.create(HOSTILE, stage="a<b>", task='t"1')
    story.write(HOSTILE, stage="a<b>", task='t"1')
    story.read(HOSTILE, stage="c\\", task="t2\\")
    return graphs.graph(story.run(), level)


def written(form: str, graph: nx.MultiDiGraph) -> str:
    file = io.StringIO()
    WRITERS[form](graph, file)
    return file.getvalue()


def test_json_reads_back_with_every_attribute() -> None:
    graph = hostile_graph()
    text = written("json", graph)
    assert text.isascii()
    data = json.loads(text)
    assert {n.pop("id"): n for n in data["nodes"]} == dict(graph.nodes(data=True))
    assert [(e.pop("source"), e.pop("target"), e) for e in data["edges"]] == list(graph.edges(data=True))
    assert (data["format"], data["level"]) == ("tailrace-graph", "task")


def test_graphml_reads_back() -> None:
    graph = hostile_graph()
    text = written("graphml", graph)
    back = nx.parse_graphml(text.encode("utf-8"), force_multigraph=True)
    assert len(back) == len(graph)
    assert sorted(d["bytes"] for *_, d in back.edges(data=True)) == [100, 100]
    (path,) = [d["path"] for _, d in back.nodes(data=True) if d["kind"] == "file"]
    assert path.replace("\\x01", "\x01").replace("\\x1b", "\x1b") == HOSTILE
    (extents,) = {d["extents"] for *_, d in back.edges(data=True)}
    assert json.loads(extents) == [[0, 100]]


def test_graphml_of_a_stage_graph_reads_back() -> None:
    back = nx.parse_graphml(written("graphml", hostile_graph("stage")).encode("utf-8"))
    assert [d["bytes"] for *_, d in back.edges(data=True)] == [100]


def test_dot_quotes_everything() -> None:
    assert dot.quoted('a"b\\c\n') == '"a\\"b\\\\c\ufffd"'
    text = written("dot", hostile_graph())
    assert len(text.splitlines()) == 4 + 3 + 2 + 1, "a header, three nodes, two edges, the brace"
    assert "\x1b" not in text


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_accepts_it() -> None:
    text = written("dot", hostile_graph()).encode("utf-8", "replace")
    drawn = subprocess.run(["dot", "-Tplain"], input=text, capture_output=True, check=True).stdout.decode()
    assert sum(line.startswith("node ") for line in drawn.splitlines()) == 3
    assert sum(line.startswith("edge ") for line in drawn.splitlines()) == 2


def test_xml_text_keeps_valid_xml_characters() -> None:
    assert graphml.text("a\tb\u20ac\U0001f600") == "a\tb\u20ac\U0001f600"
    assert graphml.text("\x00\ufffe\ud800") == "\\x00\\ufffe\\ud800"


@pytest.mark.parametrize("form", sorted(WRITERS))
def test_an_empty_run_makes_an_empty_file(form: str) -> None:
    assert written(form, graphs.graph(Story().run(), "stage"))


class TestCommand:
    @pytest.fixture(autouse=True)
    def run_is_a_story(self, monkeypatch: pytest.MonkeyPatch) -> None:
        story = Story()
        story.create("/a", stage="s", task="t")
        story.write("/a", stage="s", task="t")
        story.read("/usr/lib/libm.so", stage="s", task="t")
        monkeypatch.setattr(graph_command, "open_run", lambda *_: story.run())

    def test_the_ending_chooses_the_format(self, tmp_path) -> None:
        for ending, start in (("json", "{"), ("graphml", "<"), ("dot", "digraph"), ("txt", "digraph")):
            out = tmp_path / f"g.{ending}"
            result = CliRunner().invoke(graph_command.command, ["DIR", "--level", "task", "-o", str(out)])
            assert result.exit_code == 0, result.output
            assert out.read_text().startswith(start)

    def test_software_is_folded_unless_asked_for(self) -> None:
        arguments = ["DIR", "--level", "task", "--format", "json"]
        assert "libm" not in CliRunner().invoke(graph_command.command, arguments).output
        assert "libm" in CliRunner().invoke(graph_command.command, [*arguments, "--software"]).output

    def test_levels_and_formats_are_those_of_the_analyzer(self) -> None:
        assert graph_command.LEVELS == dataflow.LEVELS
        assert set(graph_command.FORMATS) == set(WRITERS)
        assert set(graph_command.ENDINGS.values()) == set(WRITERS)

    def test_a_file_that_can_not_be_written_is_a_usage_error(self) -> None:
        result = CliRunner().invoke(graph_command.command, ["DIR", "-o", "/nonexistent/g.dot"])
        assert "can't write /nonexistent/g.dot" in str(result.exception)
