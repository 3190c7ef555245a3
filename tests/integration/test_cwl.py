"""cwltool's adapter, on real runs: a scatter, a step after it, and one that fails; values that pass; cached jobs."""

import subprocess
from pathlib import Path

import pytest

import tailrace
from support import cwl_flow
from support.harm import clean_environment
from support.managers import all_on_path, share_tailrace
from support.run_files import Trace
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


def run_flow(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """The flow of values; its log goes to a file, as a batch job's does."""
    (folder / "flow.cwl").write_text(cwl_flow.FLOW)
    words = [CWLTOOLS[0].python, "-m", "tailrace.cwl", *options, "flow.cwl"]
    with (folder / "log").open("w") as log:
        done = subprocess.run(
            words, cwd=folder, env=clean_environment(share_tailrace(folder / "site")), stdout=subprocess.PIPE,
            stderr=log, text=True, timeout=120, check=False,
        )  # fmt: skip
    assert done.returncode == 0 and "tailrace: can't" not in (folder / "log").read_text(), (folder / "log").read_text()
    return done


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the flow's run, and another one whose jobs are all cached."""
    folder = tmp_path_factory.mktemp("flow")
    run_flow(folder, "--cachedir", "cache", "--tmpdir-prefix", f"{folder}/tmp/", "--parallel")
    (folder / "tailrace-runs").rename(folder / "first")
    run_flow(folder, "--cachedir", "cache", "--tmpdir-prefix", f"{folder}/tmp/")
    return folder


def test_values_and_folders_that_pass_are_declared(flow: Path) -> None:
    (run_dir,) = (flow / "first").iterdir()
    table = tailrace.open(run_dir).insights().declared.table
    found = {(row["producer_stage"], row["consumer_stage"], row["status"]) for row in table.to_dict("records")}
    assert found == cwl_flow.PASSED
    assert len(table) == len(cwl_flow.PASSED) + 1, "of a scatter each job"


def test_a_step_whose_name_ends_in_a_number_is_a_stage_of_its_own(flow: Path) -> None:
    (run_dir,) = (flow / "first").iterdir()
    run = tailrace.open(run_dir)
    stages = {"number_1", "number_2", "many", "total", "add", "use", "make", "list"}
    assert set(run.declared_tasks["stage"]) == set(run.stages["stage"].dropna()) == stages


def test_what_cwltool_says_itself_is_no_output_of_a_task(flow: Path) -> None:
    (run_dir,) = (flow / "first").iterdir()
    trace = Trace(run_dir)
    assert trace.tags(trace.of(flow / "log", {"write"}), "task") == {(None,)}


def test_cached_jobs_are_memoized_tasks(flow: Path) -> None:
    (run_dir,) = (flow / "tailrace-runs").iterdir()
    (first,) = (flow / "first").iterdir()
    before, tasks = (tailrace.open(one).declared_tasks for one in (first, run_dir))
    assert set(tasks["status"]) == {"memoized"}
    assert {(t.task, t.stage) for t in tasks.itertuples()} == {(t.task, t.stage) for t in before.itertuples()}
    table = tailrace.open(run_dir).insights().declared.table
    assert {(row["producer_stage"], row["consumer_stage"]) for row in table.to_dict("records")} == {
        (one, then) for one, then, _ in cwl_flow.PASSED
    }
