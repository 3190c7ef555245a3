"""cwltool's adapter, on a real run: a scatter, a step after it, and one that fails."""

import subprocess
from pathlib import Path

import pytest

import tailrace
from support.harm import clean_environment
from support.managers import all_on_path, share_tailrace
from tailrace.analyzer.model import declared_vs_observed

CWLTOOLS = all_on_path("cwltool")
pytestmark = pytest.mark.skipif(not CWLTOOLS, reason="no environment with cwltool on PATH: pip install cwltool")

FLOW = """
cwlVersion: v1.2
class: Workflow
requirements: {ScatterFeatureRequirement: {}, InlineJavascriptRequirement: {}}
inputs: {files: "File[]"}
outputs: {merged: {type: File, outputSource: merge/out}}
steps:
  sort:
    scatter: file
    in: {file: files}
    out: [out]
    run: {class: CommandLineTool, baseCommand: sort, inputs: {file: {type: File, inputBinding: {}}},
          stdout: "$(inputs.file.nameroot).sorted", outputs: {out: {type: stdout}}}
  merge:
    in: {files: sort/out}
    out: [out]
    run: {class: CommandLineTool, baseCommand: [sort, -m], inputs: {files: {type: "File[]", inputBinding: {}}},
          stdout: merged, outputs: {out: {type: stdout}}}
  fail:
    in: {file: merge/out}
    out: []
    run: {class: CommandLineTool, baseCommand: [cat, -], arguments: [/nowhere],
          inputs: {file: File}, stdin: $(inputs.file.path), outputs: {}}
"""


def test_jobs_of_a_workflow(tmp_path: Path, read_trace) -> None:
    for name, text in (("b-a", "2\n1\n"), ("c", "4\n3\n")):
        (tmp_path / f"{name}.txt").write_text(text)
    (tmp_path / "flow.cwl").write_text(FLOW)
    (tmp_path / "job.yml").write_text("files: [{class: File, path: 'b-a.txt'}, {class: File, path: c.txt}]\n")
    words = [CWLTOOLS[0].python, "-m", "tailrace.cwl", "--quiet", "--parallel", "flow.cwl", "job.yml"]
    environment = clean_environment(share_tailrace(tmp_path / "site"))
    done = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1 and "tailrace: can't" not in done.stderr, done.stderr
    (run_dir,) = (tmp_path / "tailrace-runs").iterdir()
    trace, run = read_trace(run_dir), tailrace.open(run_dir)
    assert (tmp_path / "merged").exists() == ("merged" in done.stdout)

    for name, stage in (("b-a", "sort"), ("c", "sort")):
        reads = [event for event in trace.of(tmp_path / f"{name}.txt", {"read", "fread"}) if event["args"].get("size")]
        assert {tags[:2] for tags in trace.tags(reads, "workflow", "stage", "task")} == {("flow", stage)}
    tasks = run.declared_tasks.set_index("task")
    assert tasks["stage"].to_dict() == {"sort": "sort", "sort_2": "sort", "merge": "merge", "fail": "fail"}
    assert tasks["status"].to_dict() == {"sort": "done", "sort_2": "done", "merge": "done", "fail": "failed"}
    deps = {(row.task, row.dep, row.via) for row in run.declared_deps.itertuples()}
    assert deps == {("merge", "sort", "file"), ("merge", "sort_2", "file"), ("fail", "merge", "file")}
    compared = declared_vs_observed.compare_declared(run)
    assert set(compared["status"]) == {"observed"} and len(compared) == 3
    # What cwltool does when a job is over, as removing its folders, is its own.
    assert (run.tasks["t1_ns"] <= run.tasks["t_end_ns"])[run.tasks["task"].notna()].all()
