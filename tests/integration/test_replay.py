"""Instances replayed as real processes: what is observed is what the instance says, and where the two are made to
differ, just that is found.

The instances are made here from seeds; $TAILRACE_WFINSTANCES may name a folder with others, such as those of
https://github.com/wfcommons/WfInstances.
"""

import copy
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

import tailrace
from support.coverage_table import check_coverage
from tailrace.analyzer.exports import export
from tailrace.analyzer.model import dataflow, declared_vs_observed, graphs, stages
from tailrace.integrations import wfformat

REPLAY = Path(__file__).parents[2] / "workflows" / "replay" / "replay.py"
GIVEN = sorted(Path(os.environ["TAILRACE_WFINSTANCES"]).glob("*.json")) if "TAILRACE_WFINSTANCES" in os.environ else []


def made(seed, tasks=40):
    """An instance with chains, fans, external inputs and outputs that no task reads, at random."""
    chance = random.Random(seed)
    files, listed = {f"in{n}.dat": chance.randrange(1, 5000) for n in range(4)}, []
    for number in range(tasks):
        outputs = {f"out {number}.{part}": chance.randrange(5000) for part in range(chance.randrange(1, 4))}
        inputs = chance.sample(sorted(files), min(len(files), chance.randrange(1, 5)))
        files.update(outputs)
        listed.append({"id": f"step{number % 5}_ID{number:04}", "inputFiles": inputs, "outputFiles": list(outputs)})
    writer = {file: task["id"] for task in listed for file in task["outputFiles"]}
    for task in listed:
        task["name"] = task["id"]
        task["parents"] = sorted({writer[file] for file in task["inputFiles"] if file in writer})
    for task in listed:
        task["children"] = [other["id"] for other in listed if task["id"] in other["parents"]]
    done = [{"id": task["id"], "runtimeInSeconds": chance.uniform(1, 9)} for task in listed]
    specification = {"tasks": listed, "files": [{"id": f, "sizeInBytes": size} for f, size in files.items()]}
    execution = {"makespanInSeconds": sum(d["runtimeInSeconds"] for d in done), "executedAt": "2026", "tasks": done}
    workflow = {"specification": specification, "execution": execution}
    return {"name": f"made-{seed}", "schemaVersion": "1.5", "workflow": workflow}


class Replayed:
    """An instance, its replay, and what was observed."""

    def __init__(self, data, folder):
        self.data, self.folder = data, folder
        self.path = folder / "instance.json"
        self.path.write_text(json.dumps(data))
        self.instance = wfformat.read(self.path)
        command = [sys.executable, str(REPLAY), str(self.path), str(folder), "--scale", "1e-5"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        self.run_dir, self.files = folder / "run", folder.resolve() / "files"
        self.run = tailrace.open(self.run_dir)
        self.model = dataflow.model(self.run)

    def edges(self):
        """(producer, consumer) with at least one byte passed."""
        _, activities = dataflow.activities(self.model, "task")
        rows = dataflow.flow_table(self.model, "task")
        rows = rows[(rows["producer"] >= 0) & (rows["bytes"] > 0)]
        names = activities["task"].to_numpy()
        return set(zip(names[rows["producer"]], names[rows["consumer"]], strict=True))

    def declared_edges(self):
        return {(parent, task.id) for task in self.instance.tasks.values() for parent in task.parents}

    def compared(self, cli, data):
        """status -> {(producer, consumer)} after `tailrace declare` of an instance."""
        changed = self.folder / "declared.json"
        changed.write_text(json.dumps(data))
        done = cli("declare", self.run_dir, "--from", changed, "--root", self.files, "--replace")
        assert done.returncode == 0, done.stderr
        assert "not in the trace" not in done.stderr
        rows = declared_vs_observed.compare_declared(self.run.refresh(), self.model)
        found = {status: set() for status in declared_vs_observed.STATUSES}
        for status, producer, consumer in rows[["status", "producer", "consumer"]].itertuples(index=False):
            found[status].add((producer, consumer))
        return found


@pytest.fixture(scope="module", params=[3, 8, *GIVEN], ids=lambda p: p.stem if isinstance(p, Path) else f"made-{p}")
def replayed(request, tmp_path_factory):
    data = json.loads(request.param.read_text()) if isinstance(request.param, Path) else made(request.param)
    return Replayed(data, tmp_path_factory.mktemp("replay"))


def longest(durations, edges):
    """The length of the longest path; `durations` are in an order in which no edge goes back."""
    before = {}
    for producer, consumer in edges:
        before.setdefault(consumer, []).append(producer)
    ends = {}
    for name, duration in durations.items():
        ends[name] = duration + max((ends[parent] for parent in before.get(name, ())), default=0)
    return max(ends.values())


def test_every_edge_is_observed_and_no_other(replayed):
    assert replayed.edges() == replayed.declared_edges()


def test_nearly_all_bytes_are_captured(replayed, coverage_table, request):
    name = request.node.callspec.id.removesuffix(".json")
    check_coverage(coverage_table, f"workflows/replay, {name}", replayed.run)


def test_external_inputs_are_those_of_the_instance(replayed):
    nodes = dict(graphs.graph(replayed.model, "task").nodes(data=True)).values()
    external = {Path(node["path"]) for node in nodes if node["kind"] == "file" and node["external"]}
    ours = {str(path.relative_to(replayed.files)) for path in external if replayed.files in path.parents}
    assert ours == replayed.instance.external_inputs()


def test_files_never_read_are_those_of_the_instance(replayed):
    read = {file for task in replayed.instance.tasks.values() for file in task.inputs}
    unread = {str(Path(path).relative_to(replayed.files)) for path in stages.never_read(replayed.model)["path"]}
    assert unread == set(replayed.instance.producers()) - read


def test_the_critical_path_is_no_longer_than_the_run(replayed):
    tasks = replayed.run.tasks.dropna(subset=["events"]).set_index("task")
    ordered = [name for name in replayed.instance.tasks if name in tasks.index]
    assert len(ordered) == len(replayed.instance.tasks)
    span = {name: int(tasks["t1_ns"][name]) - int(tasks["t0_ns"][name]) for name in ordered}
    info = replayed.run.info()
    assert 0 < longest(span, replayed.edges()) <= info["t1_ns"] - info["t0_ns"]
    runtimes = {name: task.runtime_s for name, task in replayed.instance.tasks.items()}
    path = longest(runtimes, replayed.edges())
    assert path == longest(runtimes, replayed.declared_edges()) <= replayed.instance.makespan_s


def test_the_instance_itself_is_all_observed(replayed, cli):
    found = replayed.compared(cli, replayed.data)
    assert found == {
        **{status: set() for status in declared_vs_observed.STATUSES},
        "observed": replayed.declared_edges(),
    }


def test_edges_that_are_not_declared_are_found(replayed, cli):
    dropped = set(sorted(replayed.declared_edges())[::5])
    data = copy.deepcopy(replayed.data)
    outputs = {name: set(task.outputs) for name, task in replayed.instance.tasks.items()}
    for task in data["workflow"]["specification"]["tasks"]:
        gone = {producer for producer, consumer in dropped if consumer == task["id"]}
        task["parents"] = [name for name in task["parents"] if name not in gone]
        task["children"] = [name for name in task["children"] if (task["id"], name) not in dropped]
        lost = set().union(*(outputs[name] for name in gone))
        task["inputFiles"] = [file for file in task["inputFiles"] if file not in lost]
    found = replayed.compared(cli, data)
    assert found["undeclared"] == dropped
    assert found["observed"] == replayed.declared_edges() - dropped
    assert not found["not observed"] | found["value only"]


def test_edges_that_are_declared_only_are_found(replayed, cli):
    """Some with a file that the consumer never reads, some for the order alone."""
    known, names = replayed.declared_edges(), list(replayed.instance.tasks)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 : i + 60 : 7] if (a, b) not in known]
    pairs = pairs[:: max(1, len(pairs) // 40)]
    idle, order = set(pairs[::2]), set(pairs[1::2])
    data = copy.deepcopy(replayed.data)
    tasks = {task["id"]: task for task in data["workflow"]["specification"]["tasks"]}
    for producer, consumer in idle | order:
        tasks[consumer]["parents"].append(producer)
    for producer, consumer in idle:
        tasks[consumer]["inputFiles"].append(tasks[producer]["outputFiles"][0])
    found = replayed.compared(cli, data)
    assert idle and order
    assert (found["not observed"], found["value only"]) == (idle, order)
    assert (found["observed"], found["undeclared"]) == (known, set())


def test_its_export_is_the_instance(replayed, tmp_path):
    export(replayed.run, "wfformat", tmp_path / "out.json")
    back = wfformat.read(tmp_path / "out.json")

    def shape(instance, root):
        return {
            name: (
                task.stage,
                set(task.parents),
                {os.path.relpath(root / file, replayed.files) for file in task.inputs},
                {os.path.relpath(root / file, replayed.files) for file in task.outputs},
            )
            for name, task in instance.tasks.items()
        }

    tasks = shape(back, Path("/"))
    assert {name: task for name, task in tasks.items() if name in replayed.instance.tasks} == shape(
        replayed.instance, replayed.files
    )
    assert set(tasks) == set(replayed.instance.tasks)
