"""Exports for other tools: read back by these tools where they can be had, by strict readers of our own else.

WfFormat's own schema is used where $TAILRACE_WFFORMAT_SCHEMA names it (wfformat 1.6); what identifiers may look like is
checked always.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest
from click.testing import CliRunner

from support.flowcase import MS, T0_NS, FakeRun, Story
from support.socket_stories import end, talk
from tailrace.analyzer import exports
from tailrace.analyzer.exports import dot, lineage, perfetto, wfformat
from tailrace.analyzer.insights import insights
from tailrace.analyzer.insights.annotate import annotate
from tailrace.analyzer.model import graphs
from tailrace.cli import export as export_command
from tailrace.errors import QueryError, RunError, UsageError

NAMES = (
    "/d/plain.txt",
    "/d/a \"quoted\" 'name'",
    "/d/two\nlines\r\t",
    "/d/<script>alert(1)</script>&amp;",
    "/d/100%25 #1 ?q=1",
    "/d/not utf-8 \ufffd\ufffd",
    "/d/\u202eb\u0001idi \U0001f600 \\x5c",
    "/d/a:3Ab",
    "/d/a:b",
    "/d/a#1",
)
TASK_ID = re.compile(r"^[0-9a-zA-Z_.#:/-]+$")
FILE_ID = re.compile(r"^[0-9a-zA-Z-_./:#]*$")
LINEAGE_FORMATS = ("wfformat", "rocrate", "prov", "openlineage")


def written(form: str, run: Any) -> str:
    file = io.StringIO()
    exports.FORMATS[form].write(run, file)
    return file.getvalue()


def hostile_run(partitions: int = 1) -> FakeRun:
    """A task that reads and writes every name; a second one that reads what it wrote."""
    story = Story()
    for number, name in enumerate(NAMES):
        story.create(name, stage='s"<', task="t 1\n", pid=10)
        story.write(name, size=100 + number, stage='s"<', task="t 1\n", pid=10)
    for name in NAMES:
        story.read(name, stage="s2", task="t%2", pid=11, tid=12)
    story.process(10, "/usr/bin/x y", ["x y", "", "-c", "\udcfe<b>\n"])
    return story.run(partitions)


def loop_run(rounds: int = 3) -> FakeRun:
    """Tasks that one after another read and rewrite one file, which was there before."""
    story = Story()
    for number in range(rounds):
        story.read("/d/state", stage="step", task=f"t{number}", pid=20 + number)
        story.create("/d/state", stage="step", task=f"t{number}", pid=20 + number)
        story.write("/d/state", stage="step", task=f"t{number}", pid=20 + number)
    story.read("/d/state", stage="end", task="last", pid=50)
    return story.run()


def tangled_run() -> FakeRun:
    """Two tasks side by side, each of which reads what the other writes."""
    story = Story()
    story.write("/d/a", stage="s", task="a", pid=1)
    story.write("/d/b", stage="s", task="b", pid=2)
    story.read("/d/b", stage="s", task="a", pid=1)
    story.read("/d/a", stage="s", task="b", pid=2)
    return story.run()


class TestLineage:
    def test_a_loop_unrolls_into_versions(self) -> None:
        flow = lineage.lineage(loop_run())
        assert [(a.number, a.external) for a in flow.artifacts] == [(0, True), (1, False), (2, False), (3, False)]
        assert [(j.inputs, j.outputs, j.parents) for j in flow.jobs] == [
            ([0], [1], set()),
            ([1], [2], {0}),
            ([2], [3], {1}),
            ([3], [], {2}),
        ]

    def test_own_bytes_of_a_job_are_no_input(self) -> None:
        story = Story()
        story.write("/d/scratch", stage="s", task="a")
        story.read("/d/scratch", stage="s", task="a")
        (job,) = lineage.lineage(story.run()).jobs
        assert (job.inputs, job.outputs, job.parents) == ([], [0], set())

    def test_an_appender_reads_the_version_that_it_continued(self) -> None:
        story = Story()
        story.create("/d/log", stage="s", task="a", pid=1)
        story.write("/d/log", stage="s", task="a", pid=1)
        story.write("/d/log", 100, stage="s", task="b", pid=2)
        story.read("/d/log", 0, 200, stage="s", task="b", pid=2)
        flow = lineage.lineage(story.run())
        assert [(j.inputs, j.outputs, j.parents) for j in flow.jobs] == [([], [0], set()), ([0], [1], {0})]
        assert [a.size for a in flow.artifacts] == [100, 200]
        assert flow.artifacts[1].base is flow.artifacts[0]

    def test_a_replaced_file_is_a_version_of_its_path(self) -> None:
        story = Story()
        story.write("/d/x", stage="s", task="a", pid=1)
        story.read("/d/x", stage="s", task="b", pid=2)
        story.event("unlink", "/d/x", stage="s", task="c", pid=3)
        story.identities["/d/x"] = "8:1:9"
        story.write("/d/x", size=7, stage="s", task="c", pid=3)
        flow = lineage.lineage(story.run())
        assert [(a.path, a.number, a.versions, a.size) for a in flow.artifacts] == [
            ("/d/x", 1, 2, 100),
            ("/d/x", 2, 2, 7),
        ]

    def test_declared_dependencies_are_parents_too(self) -> None:
        story = Story()
        story.write("/d/x", stage="s", task="a", pid=1)
        story.write("/d/y", stage="s", task="b", pid=2)
        deps = pd.DataFrame([{"workflow": "w", "task": "b", "dep": "a", "via": "future", "path": None}])
        assert [job.parents for job in lineage.lineage(story.run(declared_deps=deps)).jobs] == [set(), {0}]

    def test_untagged_processes_stay_when_a_task_has_their_bytes(self) -> None:
        story = Story()
        story.write("/d/x", stage="s", task="a", pid=1)
        story.read("/d/x", pid=2)
        story.write("/d/copy", pid=2)
        story.write("/d/unrelated", pid=3)
        jobs = lineage.lineage(story.run()).jobs
        assert [job.key[-1] for job in jobs] == ["a", "2"]
        assert jobs[1].parents == {0}

    def test_the_escape_is_one_to_one(self) -> None:
        names = [lineage.escaped(name, ":") for name in NAMES]
        assert len(set(names)) == len(NAMES)
        assert lineage.escaped("a b%é") == "a%20b%25%C3%A9"


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


class Timeline:
    """A strict reader of Chrome's trace events: what Perfetto's importer requires of X, M, s and f."""

    def __init__(self, text: str) -> None:
        data = json.loads(text)
        assert data["displayTimeUnit"] == "ns"
        self.slices: list[dict[str, Any]] = []
        self.names: dict[Any, str] = {}
        self.counters: dict[str, list[tuple[float, float]]] = {}
        self.instants: list[dict[str, Any]] = []
        self.flows: dict[int, dict[str, dict[str, Any]]] = {}
        for event in data["traceEvents"]:
            getattr(self, f"_take_{event['ph']}")(event)
        assert {event["pid"] for event in self.slices} <= set(self.names)
        assert {(event["pid"], event["tid"]) for event in self.slices} <= set(self.names)
        self._check_nesting()

    def _take_X(self, event: dict[str, Any]) -> None:
        assert event["dur"] >= 0
        assert isinstance(event["name"], str)
        self.slices.append(event)

    def _take_C(self, event: dict[str, Any]) -> None:
        (value,) = event["args"].values()
        assert value >= 0
        series = self.counters.setdefault(event["name"], [])
        assert not series or series[-1][0] < event["ts"], "a counter goes forward in time"
        series.append((event["ts"], value))

    def _take_i(self, event: dict[str, Any]) -> None:
        assert event["s"] == "t"
        self.instants.append(event)

    def _take_M(self, event: dict[str, Any]) -> None:
        if event["name"] == "process_name":
            self.names[event["pid"]] = event["args"]["name"]
        if event["name"] == "thread_name":
            assert (event["pid"], event["tid"]) not in self.names
            self.names[event["pid"], event["tid"]] = event["args"]["name"]

    def _take_flow(self, event: dict[str, Any]) -> None:
        around = self.slices[-1]  # a flow binds to the slice that encloses it on its track
        assert (around["pid"], around["tid"], around["ts"]) == (event["pid"], event["tid"], event["ts"])
        ends = self.flows.setdefault(event["id"], {})
        assert event["ph"] not in ends
        assert (event["ph"] == "f") == (event.get("bp") == "e")
        ends[event["ph"]] = {**event, "slice": around}

    _take_s = _take_f = _take_flow

    def _check_nesting(self) -> None:
        """Slices of one track lie inside each other or apart."""
        tracks: dict[Any, list[dict[str, Any]]] = {}
        for event in self.slices:
            tracks.setdefault((event["pid"], event["tid"]), []).append(event)
        for events in tracks.values():
            open_until: list[float] = []
            for event in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
                while open_until and open_until[-1] <= event["ts"] + 1e-6:
                    open_until.pop()
                assert not open_until or event["ts"] + event["dur"] <= open_until[-1] + 1e-6
                open_until.append(event["ts"] + event["dur"])


class TestPerfetto:
    def test_a_flow_goes_from_the_write_to_the_read(self) -> None:
        timeline = Timeline(written("perfetto", hostile_run()))
        assert len(timeline.flows) == len(NAMES)
        for ends in timeline.flows.values():
            source, sink = ends["s"]["slice"], ends["f"]["slice"]
            assert (source["name"], sink["name"]) == ("write", "read")
            assert source["args"]["path"] == sink["args"]["path"]
            assert source["ts"] < sink["ts"]
            assert (timeline.names[source["pid"]], timeline.names[sink["pid"]]) == ('s"< / t 1\n', "s2 / t%2")

    def test_every_event_is_there_in_whole_ns(self) -> None:
        run = hostile_run()
        timeline = Timeline(written("perfetto", run))
        calls = [event for event in timeline.slices if event["cat"] != "task"]
        assert len(calls) == len(run.rows)
        assert {round(event["ts"] * 1000) for event in calls} == {row["ts"] - T0_NS - 1_000_000 for row in run.rows}
        assert {event["args"]["path"] for event in calls} == {lineage.clean(name) for name in NAMES}

    def test_a_task_has_a_track_of_its_own(self) -> None:
        timeline = Timeline(written("perfetto", loop_run()))
        tasks = [event for event in timeline.slices if event["cat"] == "task"]
        assert [event["name"] for event in tasks] == ["step / t0", "step / t1", "step / t2", "end / last"]
        assert len({event["pid"] for event in tasks}) == 4

    def test_partitions_change_nothing(self) -> None:
        one, many = (written("perfetto", hostile_run(partitions)).replace(",\n", "\n") for partitions in (1, 7))
        assert sorted(one.splitlines()) == sorted(many.splitlines())

    def test_one_partition_is_in_memory_at_a_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        run = hostile_run(5)
        sizes = [len(part) for part in perfetto._partitions(run)]
        assert len(sizes) == 5
        assert max(sizes) <= len(run.rows) // 5 + 1

    def test_the_area_below_a_counter_is_what_its_stage_moved(self) -> None:
        story = Story()
        moved = {"make": 0, "use": 0}
        for at, size, dur in ((0, 1 << 20, 400 * MS), (450, 3 << 20, MS), (451, 1000, 20 * MS)):
            story.write("/d/a", moved["make"], size, stage="make", task="m", pid=1, at_ms=at, dur=dur)
            moved["make"] += size
        story.read("/d/a", 0, 2 << 20, stage="use", task="u", pid=2, at_ms=900, dur=100 * MS)
        timeline = Timeline(written("perfetto", story.run(2)))
        assert set(timeline.counters) == {"make: written MiB/s", "use: read MiB/s"}
        for name, wanted in (("make: written MiB/s", moved["make"]), ("use: read MiB/s", 2 << 20)):
            series = timeline.counters[name]
            assert series[-1][1] == 0
            area = sum(rate * (later[0] - at) / 1e6 for (at, rate), later in pairwise(series)) * (1 << 20)
            assert area == pytest.approx(wanted, rel=1e-4)

    def test_a_call_that_failed_has_a_name_and_a_category_of_its_own(self) -> None:
        story = Story()
        story.write("/d/a", stage="s", task="t")
        story.event("openat", "/d/none", stage="s", task="t", ret=-1, errno=2)
        calls = [event for event in Timeline(written("perfetto", story.run())).slices if event["cat"] != "task"]
        assert [(event["name"], event["cat"]) for event in calls] == [
            ("write", "POSIX"),
            ("openat (ENOENT)", "POSIX,failed"),
        ]
        assert calls[1]["args"]["error"] == "ENOENT"

    def test_a_flow_without_an_arrow_says_why(self, monkeypatch: pytest.MonkeyPatch) -> None:
        run = hostile_run()
        partitions = perfetto._partitions
        monkeypatch.setattr(
            perfetto, "_partitions", lambda run: (part[part["name"] != "read"] for part in partitions(run))
        )
        timeline = Timeline(written("perfetto", run))
        assert len(timeline.instants) == len(NAMES)
        for instant in timeline.instants:
            assert instant["args"]["why there is no arrow"].startswith("the call of the read is not among the events")
            assert instant["args"]["from"] == 's"< / t 1\n'
        assert {instant["args"]["path"] for instant in timeline.instants} == {lineage.clean(name) for name in NAMES}

    def test_a_connection_has_arrows_from_end_to_end(self) -> None:
        story = Story()
        talk(story, "127.0.0.1:4000", "127.0.0.1:80", end("ask", 5), end("answer", 6))
        timeline = Timeline(written("perfetto", story.run()))
        arrows = {
            tuple(timeline.names[ends[way]["slice"]["pid"]] for way in "sf"): ends["s"]["slice"]["args"]["size"]
            for ends in timeline.flows.values()
        }
        ask, answer = "(untagged) / ask", "(untagged) / answer"
        assert arrows == {(ask, answer): 10, (answer, ask): 1}
        assert timeline.instants == []

    def test_a_task_has_the_command_lines_of_its_processes(self) -> None:
        story = Story()
        story.write("/d/a", stage="s", task="t", pid=1)
        rows = [{"host": "n1", "pid": 1, "exe": "/bin/sort", "argv": ["sort", "-o", "a b"]}]
        (task,) = [
            event
            for event in Timeline(written("perfetto", story.run(processes=pd.DataFrame(rows)))).slices
            if event["cat"] == "task"
        ]
        assert task["args"]["commands"] == ["sort -o 'a b'"]

    def test_threads_of_two_hosts_with_one_id_stay_apart(self) -> None:
        story = Story()
        for host in ("n1", "n2"):
            story.write(f"/d/{host}", stage="s", task="mpi", pid=7, tid=7, host=host, at_ms=5)
        timeline = Timeline(written("perfetto", story.run()))
        assert {name for key, name in timeline.names.items() if isinstance(key, tuple)} == {"task", "n1 7", "n2 7"}

    def test_readers_during_the_writing_have_an_arrow_forward(self) -> None:
        story = Story()
        for _ in range(3):
            story.write("/d/stream", None, ftype="fifo", stage="s", task="a", pid=1)
            story.read("/d/stream", None, ftype="fifo", stage="s", task="b", pid=2)
        ((_, ends),) = Timeline(written("perfetto", story.run())).flows.items()
        assert ends["s"]["ts"] < ends["f"]["ts"]


class TestProv:
    def test_prov_reads_it(self) -> None:
        model = pytest.importorskip("prov.model", reason="prov, the oracle, is not installed")
        document = model.ProvDocument.deserialize(content=written("prov", hostile_run()), format="json")
        kinds = [type(record).__name__ for record in document.get_records()]
        assert {kind: kinds.count(kind) for kind in set(kinds)} == {
            "ProvEntity": len(NAMES),
            "ProvActivity": 2,
            "ProvUsage": len(NAMES),
            "ProvGeneration": len(NAMES),
            "ProvCommunication": 1,
        }
        term = document.get_record("run:file/0")[0].get_attribute("tailrace:path")
        assert term == {NAMES[0]}
        assert len(document.unified().get_records()) == len(kinds)

    def test_every_name_is_there(self) -> None:
        entities = json.loads(written("prov", hostile_run()))["entity"].values()
        assert [entity["tailrace:path"] for entity in entities] == [lineage.clean(name) for name in NAMES]

    def test_a_version_derives_from_the_one_it_continues(self) -> None:
        story = Story()
        story.write("/d/log", stage="s", task="a", pid=1)
        story.write("/d/log", 100, stage="s", task="b", pid=2)
        records = json.loads(written("prov", story.run()))
        assert list(records["wasDerivedFrom"].values()) == [
            {"prov:generatedEntity": "run:file/1", "prov:usedEntity": "run:file/0"}
        ]


class TestRoCrate:
    def test_rocrate_reads_it(self, tmp_path: Path) -> None:
        rocrate = pytest.importorskip("rocrate.rocrate", reason="rocrate, the oracle, is not installed")
        exports.export(hostile_run(), "rocrate", f"{tmp_path}/crate/")
        crate = rocrate.ROCrate(tmp_path / "crate")
        actions = [entity for entity in crate.get_entities() if entity.type == "CreateAction"]
        assert [len(action.get("result", [])) for action in actions] == [len(NAMES), 0]
        assert {file["alternateName"] for file in actions[1]["object"]} == {lineage.clean(name) for name in NAMES}
        assert crate.root_dataset["conformsTo"].id == "https://w3id.org/ro/wfrun/process/0.5"

    def test_it_keeps_the_profile(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        services = pytest.importorskip("rocrate_validator.services", reason="roc-validator is not installed")
        models = pytest.importorskip("rocrate_validator.models")
        loader = pytest.importorskip("rocrate_validator.utils.document_loader")
        vocabulary = json.loads(
            (Path(pytest.importorskip("rocrate").__file__).parent / "data/ro-crate.jsonld").read_text()
        )
        # The context that the rocrate package carries, in the place of a download.
        monkeypatch.setattr(loader, "_fetch_json_ld", lambda url: {"@context": vocabulary["@context"]})
        exports.export(hostile_run(), "rocrate", f"{tmp_path}/")
        settings = services.ValidationSettings(
            rocrate_uri=str(tmp_path),
            profile_identifier="process-run-crate",
            requirement_severity=models.Severity.REQUIRED,
        )
        issues = services.validate(settings).get_issues()
        # Whether the context's address answers is checked as ro-crate-1.1_3.*; that is not ours to keep.
        assert [i.message for i in issues if not i.check.identifier.startswith("ro-crate-1.1_3.")] == []

    def test_identifiers_stand_once_and_resolve(self) -> None:
        graph = json.loads(written("rocrate", hostile_run()))["@graph"]
        known = {entity["@id"] for entity in graph}
        assert len(known) == len(graph)

        def references(value: Any) -> set[str]:
            if isinstance(value, list):
                return set().union(*map(references, value))
            return {value["@id"]} if isinstance(value, dict) else set()

        named = {name for entity in graph for value in entity.values() for name in references(value)}
        assert {
            name for name in named - known if "ActionStatus" not in name and "w3id.org/ro/crate" not in name
        } == set()


class TestOpenLineage:
    def test_its_client_accepts_every_event(self) -> None:
        client = pytest.importorskip("openlineage.client.event_v2", reason="openlineage-python is not installed")
        lines = [json.loads(line) for line in written("openlineage", hostile_run()).splitlines()]
        for line in lines:
            client.RunEvent(
                eventType=client.RunState(line["eventType"]),
                eventTime=line["eventTime"],
                run=client.Run(runId=line["run"]["runId"], facets={}),
                job=client.Job(namespace=line["job"]["namespace"], name=line["job"]["name"]),
                inputs=[client.InputDataset(namespace=d["namespace"], name=d["name"]) for d in line["inputs"]],
                outputs=[client.OutputDataset(namespace=d["namespace"], name=d["name"]) for d in line["outputs"]],
                producer=line["producer"],
            )
        assert [line["eventType"] for line in lines] == ["START", "COMPLETE", "START", "COMPLETE"]

    def test_a_job_starts_and_ends_once_with_its_files(self) -> None:
        lines = [json.loads(line) for line in written("openlineage", hostile_run()).splitlines()]
        assert [d["name"] for d in lines[1]["outputs"]] == [lineage.clean(name) for name in NAMES]
        assert [d["name"] for d in lines[2]["inputs"]] == [lineage.clean(name) for name in NAMES]
        assert lines[0]["run"]["runId"] == lines[1]["run"]["runId"] != lines[2]["run"]["runId"]
        assert written("openlineage", hostile_run()) == written("openlineage", hostile_run())

    def test_a_failed_task_fails(self) -> None:
        story = Story()
        story.write("/d/x", stage="s", task="a", pid=1)
        tasks = pd.DataFrame([{"workflow": "w", "task": "a", "stage": "s", "status": "failed"}])
        last = json.loads(written("openlineage", story.run(declared_tasks=tasks)).splitlines()[-1])
        assert (last["eventType"], "errorMessage" in last["run"]["facets"]) == ("FAIL", True)


def failing_run() -> FakeRun:
    """a failed in its second try, b was canceled, c succeeded at its second try, d never ran."""
    story = Story()
    rows = []
    for name, status, tries, error in (
        ("a", "failed", 2, "OSError: no \x1b space"),
        ("b", "canceled", 1, "by hand"),
        ("c", "done", 2, None),
        ("d", "dep_failed", 0, "for a"),
    ):
        if status != "dep_failed":
            story.write(f"/d/{name}", stage="s", task=name, pid=ord(name))
        row = {"workflow": "w", "task": name, "stage": "s", "name": None, "parent": None}
        rows.append({**row, "status": status, "tries": tries, "error": error})
    return story.run(declared_tasks=pd.DataFrame(rows))


class TestFailures:
    """Every export has each task's status, tries and error, in the format's own terms where it has some."""

    NOTE = "left out, since they left no events: 1 declared task (1 never ran)"

    @pytest.mark.parametrize("form", ["wfformat", "rocrate", "prov", "openlineage"])
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
