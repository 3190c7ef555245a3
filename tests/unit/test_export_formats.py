"""What holds of exports in all formats: hostile names make a whole file, failures of tasks are told, and a failed
export keeps the old file. What holds of one format is in test_export_*.py, of graph files in test_exports.py.
"""

from __future__ import annotations

import gzip
import io
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from support.chrome_trace import Timeline
from support.export_runs import failing_run, hostile_run, loop_run, tangled_run, written
from support.flowcase import Story
from tailrace.analyzer import exports
from tailrace.analyzer.exports import dot
from tailrace.analyzer.insights import insights
from tailrace.analyzer.insights.annotate import annotate
from tailrace.analyzer.model import graphs
from tailrace.cli import export as export_command
from tailrace.errors import QueryError, RunError, UsageError

LINEAGE_FORMATS = ("wfformat", "rocrate", "prov", "openlineage")
"""Those that leave out tasks without events."""


class TestFailures:
    """Every export has each task's status, tries and error, in the format's own terms where it has some."""

    NOTE = "left out, since they left no events: 1 declared task (1 never ran)"

    @pytest.mark.parametrize("form", LINEAGE_FORMATS)
    def test_tasks_that_left_no_events_are_named(self, form: str, tmp_path: Path) -> None:
        assert self.NOTE in exports.export(failing_run(), form, tmp_path / "out")

    def test_wfformat(self) -> None:
        tasks = json.loads(written("wfformat", failing_run()))["workflow"]["execution"]["tasks"]
        assert {task["id"]: task["tailrace"] for task in tasks} == {
            "a": {"status": "failed", "tries": 2, "error": "OSError: no \x1b space"},
            "b": {"status": "canceled", "tries": 1, "error": "by hand"},
            "c": {"status": "done", "tries": 2},
        }

    def test_rocrate(self) -> None:
        found = {
            entity["name"]: (entity["actionStatus"]["@id"].rsplit("/", 1)[-1], entity.get("error"))
            for entity in json.loads(written("rocrate", failing_run()))["@graph"]
            if entity["@type"] == "CreateAction"
        }
        assert found == {
            "s / a": ("FailedActionStatus", "OSError: no \x1b space"),
            "s / b": ("FailedActionStatus", "by hand"),
            "s / c": ("CompletedActionStatus", None),
        }

    def test_prov(self) -> None:
        activities = json.loads(written("prov", failing_run()))["activity"].values()
        found = {row["tailrace:task"]: (row["tailrace:status"], row["tailrace:tries"]) for row in activities}
        assert found == {"a": ("failed", 2), "b": ("canceled", 1), "c": ("done", 2)}

    def test_openlineage(self) -> None:
        lines = [json.loads(line) for line in written("openlineage", failing_run()).splitlines()]
        ends = [line for line in lines if line["eventType"] != "START"]
        assert [line["eventType"] for line in ends] == ["FAIL", "ABORT", "COMPLETE"]
        messages = [line["run"]["facets"].get("errorMessage", {}).get("message") for line in ends]
        assert messages == ["OSError: no \x1b space", "by hand", None]

    def test_perfetto(self) -> None:
        events = json.loads(written("perfetto", failing_run()))["traceEvents"]
        tasks = [e for e in events if e.get("cat", "").startswith("task")]
        found = {e["args"]["task"]: (e["args"]["status"], e.get("cname"), e["cat"]) for e in tasks}
        bad = ("terrible", "task,failed")
        assert found == {"a": ("failed", *bad), "b": ("canceled", *bad), "c": ("retried", None, "task")}
        assert [e["name"].endswith(f"({e['args']['status']})") for e in tasks] == [True, True, False]

    def test_graphs(self) -> None:
        run = failing_run()
        graph = graphs.graph(run, "task")
        annotate(graph, insights(run))
        nodes = {d["label"]: d for _, d in graph.nodes(data=True) if d["kind"] == "task"}
        assert (nodes["a"]["status"], nodes["a"]["tries"], nodes["a"]["error"]) == (
            "failed",
            2,
            "OSError: no \x1b space",
        )
        assert "error" not in nodes["c"]
        text = io.StringIO()
        dot.write(graph, text)
        filled = [line for line in text.getvalue().splitlines() if "rounded,filled" in line]
        assert ["\\nfailed" in filled[0], "\\ncanceled" in filled[1], len(filled)] == [True, True, 2]

    @pytest.mark.parametrize("level", [None, "task"])
    def test_graphs_have_the_outcomes_of_tasks(self, level: str | None) -> None:
        run = failing_run()
        texts = {form: io.StringIO() for form in ("dot", "graphml", "json")}
        for form, file in texts.items():
            assert exports.FORMATS[form].write_as(run, file, level, hashed=False) == []
        nodes = {node["task"]: node for node in json.loads(texts["json"].getvalue())["nodes"] if "task" in node}
        assert (nodes["a"]["status"], nodes["a"]["tries"]) == ("failed", 2) and "OSError" in nodes["a"]["error"]
        assert "fillcolor" in texts["dot"].getvalue() and "failed" in texts["graphml"].getvalue()


class TestExport:
    @pytest.mark.parametrize("form", exports.FORMATS)
    def test_hostile_names_make_a_whole_file(self, form: str, tmp_path: Path) -> None:
        path = tmp_path / "out"
        exports.export(hostile_run(), form, path)
        text = path.read_text(encoding="utf-8")
        if form == "graphml":
            ElementTree.fromstring(text)
        elif form == "dot":
            assert text.startswith("digraph tailrace {\n") and text.endswith("\n}\n")
        elif form == "openlineage":
            assert all(json.loads(line)["eventType"] for line in text.splitlines())
        else:
            assert json.loads(text)
        assert [entry.name for entry in tmp_path.iterdir()] == ["out"]

    def test_gz_is_compressed(self, tmp_path: Path) -> None:
        exports.export(hostile_run(), "perfetto", tmp_path / "t.json.gz")
        Timeline(gzip.decompress((tmp_path / "t.json.gz").read_bytes()).decode())

    def test_a_failure_keeps_the_old_file(self, tmp_path: Path) -> None:
        path = tmp_path / "out"
        path.write_text("before")
        with pytest.raises(RunError):
            exports.export(Story().run(), "wfformat", path)
        assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("out", "before")]

    def test_invalid_arguments(self, tmp_path: Path) -> None:
        with pytest.raises(QueryError, match=re.escape("no format 'pdf'; formats are dot, graphml, json")):
            exports.export(loop_run(), "pdf")
        with pytest.raises(QueryError, match="prov has no levels; those that have are dot, graphml, json"):
            exports.export(loop_run(), "prov", level="stage")
        with pytest.raises(UsageError, match=r"can't write .*missing/out: No such file"):
            exports.export(loop_run(), "prov", tmp_path / "missing" / "out")

    def test_the_command(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(export_command, "open_run", lambda *_: tangled_run())
        arguments = ["DIR", "--to", "wfformat", "-o", str(tmp_path / "f.json")]
        result = CliRunner().invoke(export_command.command, arguments)
        assert (result.exit_code, "since the format has no cycles" in result.output) == (0, True)
        result = CliRunner().invoke(export_command.command, ["DIR", "--to", "pdf"])
        assert result.exit_code == 2
        assert all(name in result.output for name in exports.FORMATS)
        result = CliRunner().invoke(export_command.command, ["DIR", "--to", "dot", "--level", "stage"])
        assert result.output.startswith("digraph")
