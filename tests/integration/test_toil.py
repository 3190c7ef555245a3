"""toil's adapter, on real runs: scatters, a subworkflow, tries, a worker that is killed, a version that isn't known."""

import subprocess
from collections import Counter
from pathlib import Path

import pytest

import tailrace
from support import cwl_flow
from support.harm import clean_environment
from support.managers import all_on_path, only_run, share_tailrace
from tailrace.analyzer.model import declared_vs_observed

TOILS = all_on_path("toil-cwl-runner")
pytestmark = pytest.mark.skipif(not TOILS, reason="no environment with toil on PATH: pip install 'toil[cwl]'")

SORT = """
cwlVersion: v1.2
class: CommandLineTool
baseCommand: sort
inputs: {file: {type: File, inputBinding: {}}}
stdout: $(inputs.file.nameroot).sorted
outputs: {out: {type: stdout}}
"""
INNER = """
cwlVersion: v1.2
class: Workflow
inputs: {file: File}
outputs: {out: {type: File, outputSource: sort/out}}
steps:
  sort: {in: {file: file}, out: [out], run: sort.cwl}
"""
FLOW = """
cwlVersion: v1.2
class: Workflow
requirements: {ScatterFeatureRequirement: {}, SubworkflowFeatureRequirement: {}, InlineJavascriptRequirement: {}}
inputs: {files: "File[]", marker: string, yes: {type: boolean, default: true}}
outputs: {merged: {type: File, outputSource: merge/out}}
steps:
  sort: {scatter: file, in: {file: files}, out: [out], run: sort.cwl}
  again: {scatter: file, in: {file: sort/out}, out: [out], run: inner.cwl}
  merge:
    in: {files: again/out, marker: marker, yes: yes}
    when: $(inputs.yes)
    out: [out]
    run: {class: CommandLineTool, baseCommand: [sh, -c], stdout: merged,
          arguments: ['[ -e "$0" ] || { : > "$0"; exit 3; }; sort -m "$@"', $(inputs.marker), $(inputs.files)],
          inputs: {marker: string, files: "File[]"}, outputs: {out: {type: stdout}}}
  kill:
    in: {file: merge/out}
    out: []
    run: {class: CommandLineTool, baseCommand: [sh, -c], arguments: ['cat "$0" > copy; kill -9 $PPID', $(inputs.file)],
          inputs: {file: File}, outputs: {}}
"""


def toil(folder: Path, *words: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    environment = clean_environment({**share_tailrace(folder / "site"), **settings})
    return subprocess.run(
        [TOILS[0].python, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def run_flow(tmp_path: Path, **settings: str) -> None:
    """In which the last job is killed."""
    for name, text in (("b-a", "2\n1\n"), ("c", "4\n3\n")):
        (tmp_path / f"{name}.txt").write_text(text)
    for name, text in (("sort", SORT), ("inner", INNER), ("flow", FLOW)):
        (tmp_path / f"{name}.cwl").write_text(text)
    files = "[{class: File, path: b-a.txt}, {class: File, path: c.txt}]"
    (tmp_path / "job.yml").write_text(f"files: {files}\nmarker: {tmp_path}/marker\n")
    done = toil(tmp_path, "-m", "tailrace.toil", "--no-prepull", "flow.cwl", "job.yml", **settings)
    assert done.returncode == 1 and "tailrace: can't" not in done.stderr, done.stderr


def test_jobs_of_a_workflow(tmp_path: Path) -> None:
    run_flow(tmp_path)
    trace, run = only_run(tmp_path)

    for number, name in enumerate(("b-a", "c")):
        reads = [event for event in trace.of(tmp_path / f"{name}.txt", {"read", "fread"}) if event["args"].get("size")]
        assert ("flow", "sort", f"sort[{number}]") in trace.tags(reads, "workflow", "stage", "task")
    marks = trace.of(tmp_path / "marker", {"open", "openat", "creat"})
    assert ("merge", "merge", "0") in trace.tags(marks, "stage", "task", "tag.try")

    tasks = run.declared_tasks.set_index("task")
    assert tasks["stage"].to_dict() == {
        "sort[0]": "sort", "sort[1]": "sort", "again[0]/sort": "sort", "again[1]/sort": "sort", "merge": "merge",
        "kill": "kill",
    }  # fmt: skip
    ends = {"merge": ("done", 2), "kill": ("killed", 2)}
    assert {name: (row["status"], row["tries"]) for name, row in tasks.iterrows()} == {
        name: ends.get(str(name), ("done", 1)) for name in tasks.index
    }
    tries = {(row.task, row["try"], row.status) for _, row in run.declared_tries.iterrows() if row.status}
    assert tries == {("merge", 0, "failed")}
    _dependencies(run)


def _dependencies(run: tailrace.Run) -> None:
    deps = {(row.dep, row.task, row.via) for row in run.declared_deps.itertuples()}
    again = [f"again[{number}]/sort" for number in (0, 1)]
    assert deps == {
        *((f"sort[{number}]", name, "file") for number, name in enumerate(again)),
        *((name, "merge", "file") for name in again),
        ("merge", "kill", "file"),
    }
    compared = declared_vs_observed.compare_declared(run)
    assert set(compared["status"]) == {"observed"} and len(compared) == len(deps)


def test_jobs_of_a_workflow_whose_names_are_hashed(tmp_path: Path) -> None:
    run_flow(tmp_path, TAILRACE_REDACT="paths")
    _, run = only_run(tmp_path)
    ends = Counter((row.status, row.tries) for row in run.declared_tasks.itertuples())
    assert ends == {("done", 1): 4, ("done", 2): 1, ("killed", 2): 1}
    compared = declared_vs_observed.compare_declared(run)
    assert compared["status"].tolist() == ["observed"] * 5


def test_a_version_that_creates_jobs_in_another_way_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "sort.cwl").write_text(SORT)
    (tmp_path / "a.txt").write_text("2\n1\n")
    program = "from toil.cwl import cwltoil; cwltoil.CWLLoop = int; import runpy; runpy.run_module('tailrace.toil', "
    words = ("-c", f"{program}run_name='__main__')", "--no-prepull", "sort.cwl", "--file", "a.txt")
    done = toil(tmp_path, *words)
    assert done.returncode == 0 and (tmp_path / "a.sorted").read_text() == "1\n2\n", done.stderr
    assert done.stderr.count("tailrace: can't follow toil: RuntimeError: toil ") == 1
    assert not (tmp_path / "tailrace-runs").exists()


def test_values_that_pass_are_declared(tmp_path: Path) -> None:
    """What an expression gives is of what it took: it runs in a worker, and is a task."""
    (tmp_path / "flow.cwl").write_text(cwl_flow.FLOW)
    done = toil(tmp_path, "-m", "tailrace.toil", "--no-prepull", "flow.cwl")
    assert done.returncode == 0 and "tailrace: can't" not in done.stderr, done.stderr
    _, run = only_run(tmp_path)
    table = run.insights().declared.table
    found = {(row["producer_stage"], row["consumer_stage"], row["status"]) for row in table.to_dict("records")}
    through = {("number_1", "double", "value only"), ("double", "number_2", "value only")}
    assert found == (cwl_flow.PASSED - {("number_1", "number_2", "value only")}) | through
