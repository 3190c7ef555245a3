"""A manager in another one's task: the tags of both levels stay, the inner tasks have the outer one as parent, what
passes between the levels is no race, and the report says what ran inside of what."""

import os
import shutil
import subprocess
import sys

import pytest

import tailrace
from support.commands import TAILRACE, run_cli
from support.harm import clean_environment
from support.managers import SNAKEMAKE_PLUGIN, all_on_path, share_tailrace
from tailrace.analyzer.summary import untagged

SNAKEMAKES = [one for one in all_on_path("snakemake") if not one.version.startswith("7.")]
SNAKEFILE = """
rule all:
    input: "sorted"
rule make:
    output: "numbers"
    shell: "seq 1000 > {output}"
rule sort:
    input: "numbers"
    output: "sorted"
    shell: "sort -r {input} > {output}"
"""
MINI = """
import subprocess
from tailrace.integrations import Workflow

workflow = Workflow.begin("mini", "1", "inner", attach=True)
for task, command in (("make", "seq 1000 > numbers"), ("sort", "sort -r numbers > sorted")):
    workflow.submitted(task, task, deps=["make"] if task == "sort" else [])
    with workflow.task(task, task):
        subprocess.run(["sh", "-c", command], check=True)
    workflow.ended(task)
open("sorted").read()
workflow.close()
"""
PARSL = """
import parsl
from parsl.app.app import bash_app
from parsl.config import Config
from parsl.executors import ThreadPoolExecutor
from tailrace.parsl import trace


@bash_app
def make():
    return "seq 1000 > numbers"


@bash_app
def sort(before):
    return "sort -r numbers > sorted"


config = Config(executors=[ThreadPoolExecutor(max_threads=1)], strategy="none")
with parsl.load(trace(config, workflow="inner")):
    sort(make()).result()
"""
NEXTFLOW = """
process OUTER {
  input: path snakefile
  output: path "sorted"
  script: "SNAKEMAKE -s Snakefile --cores 1 --logger tailrace"
}
workflow { OUTER(Channel.fromPath("${launchDir}/Snakefile")) }
"""


def check(run_dir, outer, inner_workflow, **outer_tags):
    """`outer`: the stage of the outer task. Returns its task."""
    run = tailrace.open(run_dir)
    keys = ["workflow", "stage", "task", "tag.parent", *outer_tags]
    events = run.events(columns=[*keys, "path", "size"])
    (outer_task,) = set(events.loc[events["stage"] == outer, "task"])
    own = events[events["stage"].isin(["make", "sort"])]
    assert set(own["workflow"]) == {inner_workflow}
    assert {(row.stage, row[4]) for row in own[keys].itertuples()} == {("make", outer_task), ("sort", outer_task)}
    for key, value in outer_tags.items():
        assert set(own[key]) == {value}
    declared = run.declared_tasks[run.declared_tasks["stage"].isin(["make", "sort"])]
    assert set(declared["parent"]) == {outer_task}
    assert "race" not in {finding.kind for finding in run.findings()}
    assert "make, sort" in untagged.levels(run) and untagged.levels(run) in " ".join(
        run_cli("report", run_dir).stdout.split()
    )
    return outer_task


@pytest.fixture
def snakemake(tmp_path):
    if not SNAKEMAKES:
        pytest.skip("no environment with Snakemake 8 or later on PATH")
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    # Snakemake names the workflow of a file that is just called Snakefile after its folder.
    environment = {**share_tailrace(tmp_path / "site", SNAKEMAKE_PLUGIN), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    return [str(SNAKEMAKES[0].program), "--cores", "1", "--logger", "tailrace"], environment


def test_a_manager_in_a_tagged_command(tmp_path):
    (tmp_path / "mini.py").write_text(MINI)
    tags = ["--tag", "workflow=w", "--tag", "stage=pipeline", "--tag", "task=p1", "--tag", "campaign=spring"]
    command = [*TAILRACE, "run", "-q", "-o", "run", *tags, "--", sys.executable, "mini.py"]
    done = subprocess.run(command, cwd=tmp_path, env=clean_environment({}), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert check(tmp_path / "run", "pipeline", "inner", **{"tag.campaign": "spring"}) == "p1"
    declared = tailrace.open(tmp_path / "run").declared_tasks
    assert set(declared["parent_workflow"]) == {"w"}


def in_flux(traced_flux, tmp_path, *command, environment=()):
    """Runs a command as a traced job, and collects Flux's history."""
    words = ["--setattr=user.trace.stage=pipeline", f"--setattr=user.trace.run={tmp_path}/run"]
    words += [f"--env={name}={value}" for name, value in dict(environment).items()]
    job = traced_flux.submit(f"--cwd={tmp_path}", *words, *command)
    traced_flux.wait(job, timeout=120)
    said = traced_flux.run("job", "attach", job, check=False)
    assert said.returncode == 0, said.stderr
    collected = [*TAILRACE, "flux", "collect", "-q", str(tmp_path / "run")]
    done = subprocess.run(collected, env=traced_flux.env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return f"/{job}"


def test_snakemake_in_a_flux_job(traced_flux, tmp_path, snakemake):
    command, environment = snakemake
    job = in_flux(traced_flux, tmp_path, *command, environment=environment)
    check(tmp_path / "run", "pipeline", tmp_path.name, job=job)


def test_parsl_in_a_flux_job(traced_flux, tmp_path):
    pytest.importorskip("parsl", reason="no Parsl: pip install 'tailrace[parsl]'")
    (tmp_path / "program.py").write_text(PARSL)
    job = in_flux(traced_flux, tmp_path, sys.executable, "program.py")
    check(tmp_path / "run", "pipeline", "inner", job=job)


def test_snakemake_in_a_slurm_job(slurm, snakemake):
    slurm.configure()
    command, environment = snakemake
    folder = slurm.folder / "nested"
    folder.mkdir()
    (folder / "Snakefile").write_text(SNAKEFILE)
    exports = " ".join(f"{name}='{value}'" for name, value in environment.items())
    job = slurm.submit(
        *("--trace=pipeline", f"--trace-run={folder}/run", f"--output={folder}/out", f"--chdir={folder}"),
        *("--wrap", f"{exports} {' '.join(command)}"),
    )
    slurm.wait_for_all()
    assert (folder / "sorted").exists(), (folder / "out").read_text()
    check(folder / "run", "pipeline", folder.name, job=job)


def test_snakemake_in_a_task_of_nextflow(tmp_path, snakemake):
    if not shutil.which("nextflow"):
        pytest.skip("no nextflow on PATH: see www.nextflow.io")
    command, environment = snakemake
    (tmp_path / "main.nf").write_text(NEXTFLOW.replace("SNAKEMAKE", command[0]))
    config = run_cli("adapter", "nextflow").stdout.strip()
    environment = clean_environment({**environment, "NXF_OFFLINE": "true"})
    words = ["nextflow", "-c", config, "run", "main.nf"]
    done = run_cli("run", "-q", "-o", tmp_path / "run", "--", *words, cwd=tmp_path, env=environment, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    (work,) = [path.parent for path in (tmp_path / "work").glob("??/*/sorted")]
    outer = check(tmp_path / "run", "OUTER", work.name)
    assert outer.startswith(f"{work.parent.name}/{work.name[:6]} ")


def test_nothing_is_nested_without_an_outer_task(tmp_path):
    (tmp_path / "mini.py").write_text(MINI)
    done = run_cli(
        "run", "-q", "-o", tmp_path / "run", "--", sys.executable, "mini.py", cwd=tmp_path, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    run = tailrace.open(tmp_path / "run")
    assert run.declared_tasks["parent"].isna().all() and untagged.levels(run) == ""
    assert "tag.parent" not in run.columns
