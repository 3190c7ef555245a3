"""PROV, RO-Crate and OpenLineage: read back by these formats' own tools where they are installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from support.export_runs import NAMES, hostile_run, written
from support.flowcase import Story
from tailrace.analyzer import exports
from tailrace.analyzer.exports import lineage


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
