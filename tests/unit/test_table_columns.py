"""Every table has the columns that docs/tables.md says, with their units, and the page is the code's."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import tailrace
from support.commands import TracedCommand
from support.flowcase import Story
from support.story_run import on_disk
from support.task_stories import declared, diamond
from tailrace.analyzer.exports import json as graph_json
from tailrace.analyzer.insights import run_comparison
from tailrace.analyzer.insights.annotate import annotate
from tailrace.analyzer.model import graphs
from tailrace.analyzer.model.dataflow import LEVELS
from tailrace.analyzer.run import Run
from tailrace.analyzer.store import group_keys
from tailrace.analyzer.store.question import Query
from tailrace.analyzer.util.table_columns import TABLES
from tailrace.cli import compare as compare_command
from tailrace.cli import query as query_command

ROOT = Path(__file__).parents[2]
ELSEWHERE = {"dataset", "unsized", "error"}
"""Attributes of graphs with HDF5's datasets (tests/integration/test_datasets.py), and of failed tasks."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run on disk with declared tasks, versions of a file, and a library."""
    story: Story = diamond()
    for at in (60, 80):
        story.write("/state", task=f"w{at}", stage="w", at_ms=at, pid=2)
        story.read("/state", task=f"r{at}", stage="r", at_ms=at + 10, pid=3)
    story.read("/usr/lib/libz.so.1", task="make", stage="m", at_ms=1)
    made = story.run(**declared(("make", "fast", "file"), files=(("make", "w", "/a"),)))
    return on_disk(made, tmp_path_factory.mktemp("tables") / "run")


def test_the_page_is_up_to_date() -> None:
    words = [sys.executable, ROOT / "tools/tables_docs.py", "--check"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


FRAMES = [name for name, table in TABLES.items() if table.source == f"run.{name}"]


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_has_the_documented_columns(run: Run, name: str) -> None:
    assert sorted(getattr(run, name).columns) == sorted(TABLES[name].columns)


def test_every_table_of_a_run_is_documented(run: Run) -> None:
    frames = {name for name in dir(type(run)) if not name.startswith("_") and hasattr(getattr(run, name), "to_csv")}
    assert frames == set(FRAMES)


def test_files_by_name_and_the_overview(run: Run) -> None:
    assert list(run.find_files("/a").columns) == ["file", "path", "ftype", "found", "how"]
    assert set(run.find_files("/a").columns) == set(TABLES["find_files"].columns)
    assert set(run.info()) == set(TABLES["info"].columns)
    assert set(run.info()["coverage"]) == set(TABLES["info.coverage"].columns)


def test_graphs_have_the_documented_attributes(run: Run, tmp_path: Path) -> None:
    TracedCommand(tmp_path, tmp_path / "run")(sys.executable, "-c", "open('out', 'w').write('x')")
    nodes, edges, whole = set[str](), set[str](), set[str]()
    for of in (run, tailrace.open(tmp_path / "run")):
        for level, files in product(LEVELS, ("none", "all")):
            out = graphs.graph(of, level, files, packages=("software",))
            annotate(out, of.insights())
            text = io.StringIO()
            graph_json.write(out, text)
            graph = json.loads(text.getvalue())
            whole |= set(graph)
            nodes.update(*graph["nodes"])
            edges.update(*graph["edges"])
    assert whole == set(TABLES["graph"].columns)
    assert nodes == set(TABLES["graph.nodes"].columns) - ELSEWHERE
    assert edges == set(TABLES["graph.edges"].columns) - ELSEWHERE


def test_a_comparison_has_the_documented_columns(run: Run) -> None:
    done = CliRunner().invoke(
        compare_command.command, [str(run.path), str(run.path), "--format", "json", "--fail-on", "tasks>+1"]
    )
    found = json.loads(done.stdout)
    assert set(found) == {"sizes", "table", "flows", "files", "limits"}
    assert list(found["table"][0]) == list(run_comparison.COLUMNS)
    assert list(found["limits"][0]) == list(run_comparison.LIMIT_COLUMNS)
    measured = run_comparison.measure(run)
    other = run_comparison.Measured(measured.figures, {}, {})
    differ = run_comparison.compare([measured], [other])
    assert len(differ.flows) and list(differ.flows.columns) == list(run_comparison.FLOW_COLUMNS)
    assert len(differ.files) and list(differ.files.columns) == list(run_comparison.FILE_COLUMNS)


@pytest.mark.parametrize(
    ("label", "keys", "unit"),
    [
        ("dur", ["dur"], "ns"),
        ("sum_dur", ["path"], "ns"),
        ("max_ts", [], "ns since the epoch"),
        ("p95_size", [], "bytes"),
        ("nunique_size", [], ""),
        ("count", [], ""),
        ("count", ["count"], "bytes"),
        ("events", ["count"], ""),
        ("path", ["path"], ""),
        ("tag.try", ["tag.try"], ""),
        ("nunique_tag.try", [], ""),
    ],
)
def test_a_column_of_a_result_has_its_unit(label: str, keys: list[str], unit: str) -> None:
    how, _, column = label.partition("_")
    aggs = [f"{how}:{column}" if column else how] if column or how == "count" else None
    fields = Query.of(keys, aggs).fields([group_keys.parse(key) for key in keys])
    assert next(one.unit for one in fields if one.name == label) == unit


def test_units_stand_in_heads_and_in_parquet(run: Run, tmp_path: Path) -> None:
    asked = [str(run.path), "--by", "stage", "--agg", "sum:dur", "--agg", "count"]
    head = next(line for line in CliRunner().invoke(query_command.command, asked).stdout.splitlines() if line.strip())
    assert head.split("  ") and "sum_dur (ns)" in head and "count (" not in head
    out = tmp_path / "events.parquet"
    done: Any = CliRunner().invoke(query_command.command, [str(run.path), "--columns", "dur,path", "-o", str(out)])
    assert done.exit_code == 0
    schema = pq.read_schema(out)
    assert schema.field("dur").metadata[b"unit"] == b"ns" and schema.field("path").metadata[b"unit"] == b""
    assert tailrace.open(run.path).events(columns=["dur"]).compute()["dur"].tolist()
