"""`tailrace declare` and `tailrace managers` on a real run, with a package of others that brings an importer."""

import json
import os
import sys

import pytest

import tailrace
from support.harm import active_environment
from tailrace.analyzer.model import declared_vs_observed

OTHERS = {
    "others/__init__.py": "",
    "others/manager.py": """
from tailrace.integrations import ImportedTask, ImportedWorkflow, Importer, Manager, of_program

def read(path):
    tasks = [line.split() for line in path.read_text().splitlines()]
    tasks = [ImportedTask((name,), "stage", inputs=(before,), outputs=(after,)) for name, before, after in tasks]
    return ImportedWorkflow("others", "2", "steps", tasks)

MANAGER = Manager(
    "Others", "others --trace", of_program("others-program", "--version"), ("1.0", "2.0"),
    [Importer("others", "a list of steps", lambda path: path.suffix == ".steps", read)],
)
""",
    "others-2.5.dist-info/METADATA": "Metadata-Version: 2.1\nName: others\nVersion: 2.5\n",
    "others-2.5.dist-info/entry_points.txt": """[tailrace.managers]
others = others.manager:MANAGER
broken = others.none:MANAGER
wrong = others.manager:read
""",
    "bin/others-program": "#!/bin/sh\necho others-program 3.1 of today\n",
}


@pytest.fixture
def others(tmp_path, monkeypatch):
    for name, text in OTHERS.items():
        file = tmp_path / "site" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "site/bin/others-program").chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'site/bin'}:{os.environ['PATH']}")


def test_packages_of_others_are_found_and_their_faults_told(others, cli):
    done = cli("managers", "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {"flux", "parsl", "others", "broken", "wrong"} <= set(found)
    mine = found["others"]
    assert (mine["package"], mine["version"], mine["imports"]) == ("others 2.5", "3.1", ["a list of steps"])
    assert mine["state"] == "newer than 2.0, the newest that was tested"
    assert "ModuleNotFoundError" in found["broken"]["state"] and "install others again" in found["broken"]["state"]
    assert "is no Manager" in found["wrong"]["state"]
    assert found["parsl"]["package"] == f"tailrace {tailrace.__version__}"
    table = cli("managers").stdout
    assert "others --trace" in table and "newer than 2.0" in table


def test_an_imported_graph_is_compared_with_the_trace(others, tmp_path, cli):
    """Of three tasks one has the name of its tag, one is identified by its file, and one was never traced."""
    code = "tailrace tag --task one -- sh -c 'echo 1 > a'; tailrace tag --task 2 -- sh -c 'read x < a; echo 2 > b'"
    run = tmp_path / "run"
    done = cli("run", "-o", run, "--", "sh", "-c", code, cwd=tmp_path, env=active_environment())
    assert done.returncode == 0, done.stderr
    steps = tmp_path / "all.steps"
    steps.write_text("one none a\ntwo a b\nthree b c\n")
    for _ in range(2):
        done = cli("declare", run, "--from", steps)
        assert done.returncode == 0, done.stderr
        words = "1 of them identified by the files that they wrote, 1 of them not in the trace"
        assert done.stderr.strip() == f"3 tasks of workflow '' declared from a list of steps, {words}"
    table = declared_vs_observed.compare_declared(tailrace.open(run))
    pairs = table.set_index(["producer", "consumer"])["status"].to_dict()
    assert pairs == {("one", "2"): "observed", ("2", "three"): "untraced"}
    instance = tmp_path / "wf.json"
    task = {"name": "one", "id": "one", "parents": [], "children": []}
    instance.write_text(
        json.dumps({"name": "w", "schemaVersion": "1.6", "workflow": {"specification": {"tasks": [task]}}})
    )
    refused = cli("declare", run, "--from", instance)
    assert refused.returncode == 2 and "others declared 1 task" in refused.stderr
    assert cli("declare", run, "--from", instance, "--replace").returncode == 0
    assert tailrace.open(run).declared_tasks["task"].tolist() == ["one"]
    unknown = cli("declare", run, "--from", sys.executable)
    assert unknown.returncode == 2 and "others: a list of steps" in unknown.stderr
