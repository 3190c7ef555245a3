"""The HMMER workflow: real programs over Parsl's workers; all that it declares is seen to go through files."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("parsl", reason="the workflow needs Parsl: pip install 'tailrace[parsl]'")

import tailrace
from support.coverage_table import check_coverage

FOLDER = Path(__file__).parents[2] / "workflows" / "hmmer"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
READS = {"read", "pread64", "pread", "fread", "fgets", "mmap", "readv"}
WRITES = {"write", "writev", "fwrite", "fprintf", "fputs", "fputc", "pwrite64", "rename"}

needs_hmmer = pytest.mark.skipif(
    shutil.which("hmmbuild") is None, reason="HMMER comes from Debian, not from PyPI: apt install hmmer hmmer-examples"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hmmer")
    command = [sys.executable, str(FOLDER / "workflow.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    (folder / "stdout").write_text(done.stdout)
    return folder


@needs_hmmer
def test_it_finds_the_families(folder):
    found = json.loads((folder / "stdout").read_text())
    assert {name: found[name] >= least for name, least in EXPECTED["least_hits"].items()} == dict.fromkeys(found, True)


@needs_hmmer
def test_nearly_all_bytes_are_captured(folder, coverage_table):
    check_coverage(coverage_table, "workflows/hmmer", tailrace.open(folder / "run"))


@needs_hmmer
def test_its_tasks_are_declared(folder, declared):
    stages = [line["stage"] for line in declared(folder / "run") if line["type"] == "task"]
    assert {stage: stages.count(stage) for stage in stages} == EXPECTED["tasks"]


@needs_hmmer
def test_every_declared_edge_is_observed_through_a_file(folder, declared, read_trace):
    tasks = [line for line in declared(folder / "run") if line["type"] == "task"]
    edges = {(dep["task"], line["task"]) for line in tasks for dep in line["deps"]}
    assert len(edges) == EXPECTED["declared_edges"]
    trace = read_trace(folder / "run")
    observed = observed_edges(trace, folder / "files")
    assert edges - observed == set()


def observed_edges(trace, below):
    """(writer, reader) of files under `below`, by the names they ended with; a temporary counts as what it became."""
    moved = {event["path"]: event["path2"] for event in trace.events if event["name"].startswith("rename")}
    written, read = {}, {}
    for event in trace.events:
        path, task = event["path"], event["args"].get("task")
        if path is None or task is None or not path.startswith(str(below)):
            continue
        if event["args"].get("dir") in ("w", "rw") and event["args"].get("size"):
            written.setdefault(moved.get(path, path), set()).add(task)
        if event["args"].get("dir") in ("r", "rw") and event["args"].get("size"):
            read.setdefault(path, set()).add(task)
    return {
        (writer, reader)
        for path, writers in written.items()
        for writer in writers
        for reader in read.get(path, ())
        if writer != reader
    }


@needs_hmmer
def test_the_programs_run_in_their_stages(folder, read_trace):
    trace = read_trace(folder / "run")
    for stage, programs in EXPECTED["programs"].items():
        started = {
            Path(event["args"]["exe"]).name
            for event in trace.events
            if event["name"] == "start" and event["args"].get("stage") == stage
        }
        assert set(programs) <= started, (stage, started)
