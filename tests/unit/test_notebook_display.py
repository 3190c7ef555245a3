"""What notebooks and consoles show: every output escapes names, prints no internals, and fits 80 columns."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from support.flowcase import Story
from support.story_run import on_disk
from tailrace.analyzer import summary
from tailrace.analyzer.model.graph_drawing import DataflowGraph, drawing
from tailrace.analyzer.report import html
from tailrace.analyzer.run import Run

HOSTILE = "</td></svg><script>alert(1)</script>\"'&<img src=x onerror=alert(2)>\u202e"
ELEMENTS = {"div", "style", "table", "thead", "tbody", "tr", "th", "td", "code"}
SVG = "{http://www.w3.org/2000/svg}"


def story() -> Story:
    s = Story()
    for i in range(2):
        s.write(f"/mid/{i}{HOSTILE}", 0, 4_000_000, stage="make", task=f"m{i}", pid=10 + i)
        s.read(f"/mid/{i}{HOSTILE}", 0, 4_000_000, stage=HOSTILE, task=f"u{i}", pid=20 + i)
    s.write("/out", 0, 40_000_000, stage=HOSTILE, task="u0", pid=20)
    s.write("/out", 0, 40_000_000, stage=HOSTILE, task="u1", pid=21)
    return s


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return on_disk(story().run(), tmp_path_factory.mktemp("notebook") / "run")


@pytest.fixture(scope="module")
def shown(run: Run) -> list[Any]:
    """Everything with a display of its own."""
    found = run.findings()
    assert found
    (host,) = run.hosts()
    nouns = [run.file("/mid/*", up=True, down=True), run.task("u0"), run.stage("make"), run.host(host.host)]
    return [run, found, found[0], run.insights(), host, *nouns, run.accesses("stage")]


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.open: list[str] = []
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.open.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_names_in_html_are_text(shown: list[Any]) -> None:
    for one in shown:
        parser = Elements()
        parser.feed(one._repr_html_())
        assert set(parser.names) <= ELEMENTS and parser.attributes <= {"class"} and not parser.open
        assert "\u202e" not in one._repr_html_()
    assert all("&lt;script&gt;alert(1)" in one._repr_html_() for one in shown[:1] + shown[5:])


def test_what_is_printed_fits_a_console_and_has_no_internals(run: Run, shown: list[Any]) -> None:
    i = run.insights()
    for one in [*shown, run.edges(), i.inputs, i.inputs.m, i.critical, i.conflicts, i.lifetime, i.declared, run.plot]:
        text = repr(one)
        assert max(map(len, text.splitlines())) <= 80, text
        assert len(text.splitlines()) < 60, text
        assert not re.search(r"array\(|DataFrame|dtype|object at 0x|\[\d+ rows", text), text
        assert "\u202e" not in text


def test_the_findings_are_still_a_list(run: Run) -> None:
    found = run.findings()
    assert isinstance(found, list) and len(found[:1]) == 1
    assert repr(type(found)()) == "no findings"
    found.clear()
    assert run.findings()  # the next caller's list is its own


def test_the_report_in_a_cell_is_the_page_in_a_sandbox(run: Run, tmp_path: Path) -> None:
    shown = run.report()
    frame = shown._repr_html_()
    match = re.fullmatch(r'<iframe sandbox="([^"]*)" [^<>]* srcdoc="([^"]*)"></iframe>', frame, re.DOTALL)
    assert match is not None and match[1] == "allow-scripts"
    assert unescape(match[2]) == html.page_text(summary.collect(run)) == shown.text
    written = run.report(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == shown.text
    assert "<iframe" not in written._repr_html_() and "report.html" in repr(written).replace("\n  ", "")


def picture(svg: str) -> ET.Element:
    root = ET.fromstring(svg)
    assert {element.tag for element in root.iter()} <= {SVG + n for n in ("svg", "title", "path", "g", "rect", "text")}
    return root


def boxes(root: ET.Element) -> dict[str, tuple[float, float]]:
    """The corner of each node."""
    found = {}
    for group in root.iter(f"{SVG}g"):
        title, box = group.find(f"{SVG}title"), group.find(f"{SVG}rect")
        assert title is not None and box is not None
        found[str(title.text)] = (float(box.attrib["x"]), float(box.attrib["y"]))
    return found


def test_the_graph_is_drawn_from_left_to_right_with_its_names_as_text(run: Run) -> None:
    graph = run.dataflow()
    assert isinstance(graph, nx.MultiDiGraph) and repr(graph).startswith("dataflow of stages: ")
    places = boxes(picture(graph._repr_svg_()))
    assert set(places) == set(graph)
    assert all(places[source][0] < places[target][0] for source, target in graph.edges())
    assert "&lt;/svg&gt;" in graph._repr_svg_() and "<script" not in graph._repr_svg_()
    assert isinstance(run.dataflow("task", stage="make"), DataflowGraph)
    assert set(boxes(picture(run.dataflow("task")._repr_svg_()))) == set(run.dataflow("task"))


def drawn(*edges: tuple[str, str], most: int = 60) -> dict[str, tuple[float, float]]:
    graph = nx.MultiDiGraph()
    graph.add_edges_from((*ends, {"bytes": 100}) for ends in edges)
    return boxes(picture(drawing(graph, most)))


def test_nodes_of_a_picture_do_not_lie_upon_each_other() -> None:
    places = drawn(*((f"a{i}", f"b{j}") for i in range(9) for j in range(9) if i != j), ("a0", "c"), ("b1", "c"))
    corners = sorted(places.values())
    assert len(set(corners)) == 19
    assert all(x0 != x1 or y1 - y0 >= 34 for (x0, y0), (x1, y1) in pairwise(corners))


def test_circles_and_loops_are_drawn() -> None:
    assert set(drawn(("a", "b"), ("b", "a"), ("b", "c"), ("c", "c"))) == {"a", "b", "c"}
    assert drawn() == {}


def test_a_chain_deeper_than_recursion_is_drawn() -> None:
    assert len(drawn(*((str(i), str(i + 1)) for i in range(3000)), most=4000)) == 3001


def test_of_a_large_graph_the_nodes_that_moved_most_are_drawn() -> None:
    graph = nx.MultiDiGraph()
    graph.add_edges_from((f"s{i}", f"t{i}", {"bytes": i}) for i in range(100))
    svg = drawing(graph)
    assert "60 of 200 nodes: those that moved most" in svg
    assert set(boxes(picture(svg))) == {f"{side}{i}" for side in "st" for i in range(70, 100)}
