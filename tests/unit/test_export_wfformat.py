"""WfFormat: identifiers, versions, cycles and costs, and that wfcommons accepts it.

Its own schema is used where $TAILRACE_WFFORMAT_SCHEMA names it (wfformat 1.6); what identifiers may look like is
checked always.
"""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from support.export_runs import NAMES, hostile_run, loop_run, tangled_run, written
from support.flowcase import Story
from tailrace.analyzer.exports import lineage, wfformat
from tailrace.errors import RunError

TASK_ID = re.compile(r"^[0-9a-zA-Z_.#:/-]+$")
FILE_ID = re.compile(r"^[0-9a-zA-Z-_./:#]*$")


class TestWfFormat:
    def test_identifiers_keep_the_format_and_stay_apart(self) -> None:
        data = json.loads(written("wfformat", hostile_run()))
        specification = data["workflow"]["specification"]
        files = [file["id"] for file in specification["files"]]
        assert len(set(files)) == len(NAMES)
        assert all(FILE_ID.match(name) for name in files)
        assert all(TASK_ID.match(task["id"]) and task["name"] for task in specification["tasks"])
        first, second = specification["tasks"]
        assert (first["children"], second["parents"]) == ([second["id"]], [first["id"]])
        assert sorted(first["outputFiles"]) == sorted(second["inputFiles"]) == sorted(files)
        sizes = {file["id"]: file["sizeInBytes"] for file in specification["files"]}
        assert sizes["/d/plain.txt"] == 100
        assert sizes["/d/a:231"] == 100 + NAMES.index("/d/a#1")

    def test_versions_have_numbers(self) -> None:
        tasks = json.loads(written("wfformat", loop_run()))["workflow"]["specification"]["tasks"]
        got = [(task["id"], task["inputFiles"], task["outputFiles"]) for task in tasks]
        assert got[0] == ("t0", ["/d/state#0"], ["/d/state#1"])
        assert got[3] == ("last", ["/d/state#3"], [])

    def test_tasks_keep_their_tags_beside_untagged_processes(self) -> None:
        story = Story()
        story.write("/d/x", pid=9)
        story.read("/d/x", stage="s", task="a", pid=1)
        story.read("/d/x", stage="s", task="b", pid=2)
        tasks = json.loads(written("wfformat", story.run()))["workflow"]["specification"]["tasks"]
        assert [task["id"] for task in tasks] == ["w///n1/9", "a", "b"]

    def test_tags_of_two_workflows_are_distinct(self) -> None:
        story = Story()
        story.write("/d/x", workflow="v", stage="s", task="1", pid=1)
        story.write("/d/y", workflow="w", stage="s", task="1", pid=2)
        tasks = json.loads(written("wfformat", story.run()))["workflow"]["specification"]["tasks"]
        assert [task["id"] for task in tasks] == ["v/s/1", "w/s/1"]

    def test_a_cycle_is_cut_and_reported(self) -> None:
        file = io.StringIO()
        (note,) = wfformat.write(tangled_run(), file)
        tasks = json.loads(file.getvalue())["workflow"]["specification"]["tasks"]
        assert [(task["id"], task["parents"]) for task in tasks] == [("a", []), ("b", ["a"])]
        assert note == "left out, since the format has no cycles: 1 dependency"

    def test_what_a_task_cost(self) -> None:
        story = Story()
        story.write("/d/x", size=70, stage="s", task="a", pid=5, at_ms=10)
        story.read("/d/y", size=30, stage="s", task="a", pid=5, at_ms=2010)
        account = {"utime": 2_500_000_000, "stime": 500_000_000, "maxrss": 10}
        processes = pd.DataFrame(
            [{"host": "n1", "pid": 5, "exe": "/bin/prog", "argv": ["prog", "", "a b"], "t0_ns": 0, "account": account}]
        )
        meta = {"host": "n1", "kernel": "6.1", "cpu": {"model": "M", "count": 4}, "run_id": "r"}
        data = json.loads(written("wfformat", story.run(processes=processes, meta=meta)))["workflow"]["execution"]
        (task,) = data["tasks"]
        assert task["command"] == {"program": "prog", "arguments": ["''", "a b"]}
        assert (task["readBytes"], task["writtenBytes"], task["memoryInBytes"]) == (30, 70, 10240)
        assert (task["runtimeInSeconds"], task["coreCount"]) == (pytest.approx(2.000001), 2)
        assert data["machines"] == [
            {"nodeName": "n1", "system": "linux", "release": "6.1", "cpu": {"coreCount": 4, "vendor": "M"}}
        ]

    def test_a_run_without_tasks_is_refused(self) -> None:
        with pytest.raises(RunError, match="no task in the run"):
            written("wfformat", Story().run())

    @pytest.mark.parametrize("run", [hostile_run, loop_run, tangled_run])
    def test_wfcommons_accepts_it(self, run: Any, tmp_path: Path) -> None:
        wfinstances = pytest.importorskip("wfcommons.wfinstances", reason="wfcommons, the oracle, is not installed")
        schema = Path(os.environ.get("TAILRACE_WFFORMAT_SCHEMA", tmp_path / "any.json"))
        if "TAILRACE_WFFORMAT_SCHEMA" not in os.environ:  # its checks of meaning run all the same
            schema.write_text('{"properties": {"schemaVersion": {"enum": ["1.6"]}}}')
        path = tmp_path / "instance.json"
        path.write_text(written("wfformat", run()))
        validator = wfinstances.schema.SchemaValidator(schema)
        validator.validate_instance(json.loads(path.read_text()))
        assert (validator.errors, validator.warnings) == ([], [])
        flow = lineage.lineage(run())
        workflow = wfinstances.Instance(path, schema_file=str(schema)).workflow
        kept, _ = lineage.acyclic(flow.jobs)
        assert (len(workflow.nodes), len(workflow.edges)) == (len(flow.jobs), sum(map(len, kept)))
