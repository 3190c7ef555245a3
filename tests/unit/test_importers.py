"""Declared graphs after the fact: what Snakemake 9.27 and Nextflow 24.10 leave, guessed, read, and refused."""

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tailrace.errors import UsageError
from tailrace.integrations import importers, importing
from tailrace.integrations.importing import ImportedTask, ImportedWorkflow, Importer

SCRIPT = """#!/bin/bash
### ---
### name: '{name}'
### outputs:
### - '{output}'
### ...
set -e
nxf_stage() {{
    true
    # stage input files
    rm -f in1.txt
{links}
}}

nxf_unstage() {{
    ln -s /elsewhere no_input
}}
"""
TRACE = """task_id\thash\tnative_id\tname\tstatus\texit\tsubmit\tduration\trealtime\tcpus\tmemory
1\t72/418101\t28052\tMAKE (a b)\tCOMPLETED\t0\t2026-11-22 22:58:15.551\t326ms\t30ms\t2\t1.5 GB
2\t8e/5c81f6\t28053\tSORT (1)\tFAILED\t3\t2026-11-22 22:58:16.012\t1m 4s\t35ms\t1\t-
"""


def record(folder: Path, output: str, rule: str, **keys: Any) -> None:
    encoded = base64.urlsafe_b64encode(output.encode()).decode()
    chunks = [encoded[at : at + 254] for at in range(0, len(encoded), 254)]
    file = folder.joinpath(*(f"@{chunk}" for chunk in chunks[:-1]), chunks[-1])
    file.parent.mkdir(parents=True, exist_ok=True)
    row = {
        "rule": rule,
        "input": [],
        "log": [],
        "shellcmd": "true",
        "job_hash": 1,
        "starttime": 100.5,
        "endtime": 101.0,
    }
    file.write_text(json.dumps({**row, "incomplete": False, **keys}))


@pytest.fixture
def snakemake(tmp_path: Path) -> Path:
    folder = tmp_path / "flow/.snakemake/metadata"
    folder.mkdir(parents=True)
    long = "data/" + "x" * 240 + "/é.txt"
    for number, name in enumerate(["a", long]):
        record(folder, name, "make", job_hash=number, log=["make.log"] if number else [])
    for output in ("sorted", "index"):
        record(folder, output, "sort", input=["a", long], job_hash=7, endtime=100.4)
    (folder / "torn").write_text('{"rule": "so')
    (folder / "bm90").write_text("[]")
    return tmp_path / "flow"


def nextflow_task(
    work: Path, folder: str, name: str, output: str, inputs: tuple[str, ...] = (), code: str = "0"
) -> Path:
    path = work / folder
    path.mkdir(parents=True)
    links = "\n".join(f"    ln -s {source} in{number}.txt" for number, source in enumerate(inputs))
    (path / ".command.run").write_text(SCRIPT.format(name=name, output=output, links=links))
    (path / ".command.begin").touch()
    (path / ".exitcode").write_text(code)
    for file, at in ((".command.begin", 1_000_000_000), (".exitcode", 2_000_000_000)):
        os.utime(path / file, ns=(at, at))
    return path


@pytest.fixture
def nextflow(tmp_path: Path) -> Path:
    work = tmp_path / "flow/work"
    made = nextflow_task(work, "72/418101dccc7ff46e6806672c3ef703", "MAKE (a b)", "*.txt")
    (made / "a b.txt").touch()
    source = str(made / "a b.txt").replace(" ", "\\ ")
    nextflow_task(work, "8e/5c81f61a08180fe384ada9833b3fdc", "SORT (1)", "sorted.txt", (source,), "3")
    nextflow_task(work, "aa/0000001a08180fe384ada9833b3fdc", "OLD", "of another run")
    (tmp_path / "flow/trace.txt").write_text(TRACE)
    return tmp_path / "flow"


def imported(path: Path, kind: str | None = None) -> ImportedWorkflow:
    return importing.read(importing.importer_of(path, kind, importers.every()), path)


@pytest.mark.parametrize("inside", [".", ".snakemake", ".snakemake/metadata"])
def test_the_jobs_of_snakemake_are_what_outputs_have_in_common(snakemake: Path, inside: str) -> None:
    workflow = imported(snakemake / inside)
    assert (workflow.manager, workflow.root, workflow.own_directories) == ("snakemake", snakemake, [".snakemake"])
    tasks = {task.names: task for task in workflow.tasks}
    long = "data/" + "x" * 240 + "/é.txt"
    assert set(tasks) == {("make:a",), (f"make:{long}",), ("sort",)}
    assert tasks[(f"make:{long}",)].outputs == (long, "make.log")
    sort = tasks[("sort",)]
    assert (sort.stage, sort.inputs, set(sort.outputs)) == ("sort", ("a", long), {"sorted", "index"})
    assert (sort.t_start_ns, sort.t_end_ns, sort.status) == (100_400_000_000, 100_400_000_000, "done")


def test_nextflows_work_directory(nextflow: Path) -> None:
    for path in (nextflow, nextflow / "work"):
        assert len(imported(path).tasks) == 3
    workflow = imported(nextflow / "trace.txt")
    make, sort = workflow.tasks
    folder = nextflow / "work/72/418101dccc7ff46e6806672c3ef703"
    assert make.names == ("72/418101dccc7ff46e6806672c3ef703", "MAKE (a b)")
    assert (make.stage, make.outputs, make.status) == ("MAKE", (str(folder / "a b.txt"),), "done")
    assert make.requested == {"cores": 2, "memory_bytes": 3 << 29}
    assert (make.t_start_ns, make.t_end_ns) == (1_000_000_000, 2_000_000_000)
    assert sort.inputs == make.outputs and (sort.status, sort.error) == ("failed", "exit code 3")


def test_what_is_written_has_the_dependencies_of_the_files(nextflow: Path, tmp_path: Path) -> None:
    workflow = imported(nextflow)
    traced = {"72/418101dccc7ff46e6806672c3ef703", "by its output"}
    written = {task.outputs[0]: "by its output" for task in workflow.tasks if task.stage == "SORT"}
    names, by_file = importing.traced_names(workflow.tasks, traced, lambda: written, nextflow)
    assert by_file == 1 and "by its output" in names.values()
    importing.write(tmp_path, "nextflow", workflow, "w", nextflow, names)
    (file,) = (tmp_path / "declared").iterdir()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    deps = {line["task"]: [dep["task"] for dep in line["deps"]] for line in lines if line["type"] == "task"}
    assert deps["by its output"] == ["72/418101dccc7ff46e6806672c3ef703"]
    assert sorted(line["status"] for line in lines if line["type"] == "end") == ["done", "done", "failed"]


def test_what_can_not_be_imported_is_refused(tmp_path: Path, nextflow: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("no trace")
    for path, kind, words in (
        (tmp_path / "gone", None, "there is no"),
        (other, None, "is nothing that can be imported"),
        (other, "galaxy", "there is no kind 'galaxy'"),
        (other, "nextflow", "is neither a trace file"),
        (other, "wfformat", "is not JSON"),
        (tmp_path, "snakemake", "has no .snakemake/metadata"),
    ):
        with pytest.raises(UsageError, match=words):
            imported(path, kind)
    (nextflow / "work").rename(nextflow / "elsewhere")
    with pytest.raises(UsageError, match="-work-dir"):
        imported(nextflow / "trace.txt")


def test_a_fault_of_an_importer_is_an_error_of_the_file(tmp_path: Path) -> None:
    def broken(path: Path) -> Any:
        raise KeyError("tasks")

    one = ImportedWorkflow("m", "", "w", [ImportedTask(("a",), "s"), ImportedTask(("a",), "s")])
    importer, twice = (Importer(kind, "a thing", broken, read) for kind, read in (("x", broken), ("y", lambda _: one)))
    with pytest.raises(UsageError, match="is not a thing that can be read"):
        importing.read(importer, tmp_path)
    with pytest.raises(UsageError, match="two tasks 'a'"):
        importing.read(twice, tmp_path)
