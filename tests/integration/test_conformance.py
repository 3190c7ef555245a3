"""Every adapter on the same small workflow: right tags, declarations, tries, failures, and nothing else changed.

A fixture says how a manager runs the steps of support/conformance.py. What each gets is written to build/conformance/,
from which `python tools/conformance_docs.py` makes the table of docs/conformance.md.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from dataclasses import asdict
from pathlib import Path

import pytest

from support import conformance
from support.commands import TAILRACE, run_cli
from support.conformance import Adapter, Step
from support.harm import active_environment, clean_environment
from support.managers import SOURCE, Manager, airflow_home, airflows_on_path, all_on_path, share_tailrace
from tailrace.integrations import importing
from tailrace.integrations.importers.snakemake import IMPORTER as importer_of_snakemake

RESULTS = SOURCE / "build" / "conformance"


def judged(adapter: Adapter, folder: Path) -> conformance.Verdict:
    """Runs and judges; keeps the counts for the page."""
    folder = folder / "flow"
    conformance.prepare(folder)
    workflow = conformance.steps(adapter.names, adapter.retries)
    run_dir = adapter.run(folder, workflow)
    verdict = conformance.judge(adapter, folder, run_dir, workflow)
    RESULTS.mkdir(parents=True, exist_ok=True)
    row = {"manager": adapter.manager, "version": adapter.version, "counts": verdict.counts}
    (RESULTS / f"{adapter.manager}.json").write_text(json.dumps(row))
    return verdict


def program(words: list[str], folder: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **variables}
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert "tailrace: can't" not in done.stderr, done.stderr
    return done


def assert_all_but_the_task_that_never_ran(verdict: conformance.Verdict) -> None:
    """Of managers that declare a task when it runs, or ran."""
    assert [fault.partition(":")[0] for fault in verdict.faults] == ["declared", "files", "files"], verdict.faults
    assert verdict.faults[0].endswith("data/checked -> data/never")
    assert verdict.faults[1].endswith("data/checked") and verdict.faults[2].endswith("data/never")


# The example of docs/new-manager.md


def _example(folder: Path, workflow: list[Step], changes: tuple[tuple[str, str], ...] = ()) -> Path:
    page = (SOURCE / "docs" / "new-manager.md").read_text()
    for name, text in re.findall(r"<!-- (\w+\.py) -->\n```python\n(.*?)```", page, re.DOTALL):
        for old, new in changes if name == "mini_tailrace.py" else ():
            assert old in text
            text = text.replace(old, new)
        (folder / name).write_text(text)
    rows = [
        {
            "name": f"{step.stage} {step.name}",
            "stage": step.stage,
            "command": step.words,
            "inputs": step.inputs,
            "outputs": [step.out],
            "retries": step.how == "once",
        }
        for step in workflow
    ]
    (folder / "steps.json").write_text(json.dumps(rows))
    done = program([sys.executable, "mini.py", "steps.json", "mini_tailrace"], folder)
    assert done.returncode == 0 and "tracing into" in done.stderr, done.stderr
    (run_dir,) = (folder / "tailrace-runs").iterdir()
    return run_dir


def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    verdict = judged(Adapter("mini", "1.0", _example), tmp_path)
    assert not verdict.faults, "\n".join(verdict.faults)
    assert set(verdict.counts) == set(conformance.COLUMNS)


WRONG = (
    ('workflow.task(step["name"], step["stage"], attempt)', 'workflow.task(step["name"], step["stage"][:3])'),
    ("code = call()", 'Path(".mini/state").write_text("x"); code = call()'),
    ('outputs=step["outputs"]', "outputs=[]"),
    ("error=error", "error=None"),
)
"""Faults of an adapter, each of another kind."""


def test_an_adapter_with_faults_does_not_pass(tmp_path: Path) -> None:
    def run(folder: Path, workflow: list[Step]) -> Path:
        return _example(folder, workflow, WRONG)

    counts = judged(Adapter("wrong", "", run), tmp_path).counts
    (RESULTS / "wrong.json").unlink()
    right, total = counts.pop("own I/O apart")
    assert total - right == 1
    assert counts == {
        "stage": (0, 6),
        "task": (6, 6),
        "declared": (0, 6),
        "observed": (0, 5),
        "files": (6, 13),
        "retries": (2, 3),
        "failures": (6, 7),
        "results": (6, 6),
    }


# Parsl

PARSL = """
import sys
import parsl
from parsl import bash_app
from parsl.config import Config
from parsl.data_provider.files import File
from parsl.executors import HighThroughputExecutor
from parsl.providers import LocalProvider
from tailrace.parsl import trace

config = Config(
    executors=[HighThroughputExecutor(label="pool", address="127.0.0.1", encrypted=False, max_workers_per_node=2,
                                      cores_per_worker=1e-6, provider=LocalProvider(init_blocks=1, max_blocks=1))],
    run_dir="runinfo", strategy="none", retries=1,
    retry_handler=lambda error, task: 1 if task["func_name"] == "merge" else 2,
)

def app(name):
    def body(command, inputs=(), outputs=()):
        return command
    body.__name__ = name
    return bash_app(body)

with parsl.load(trace(config, run_dir="run", workflow="w")):
    made, ends = {}, []
    for stage, out, inputs, command in @STEPS@:
        future = app(stage)(command, inputs=[made.get(path, File(path)) for path in inputs], outputs=[File(out)])
        made[out] = future.outputs[0]
        ends.append(future)
    for future in ends:
        future.exception()
"""


def _parsl(folder: Path, workflow: list[Step]) -> Path:
    rows = [(step.stage, str(folder / step.out), [str(folder / path) for path in step.inputs],
             f"cd {shlex.quote(str(folder))} && {shlex.join(step.words)}") for step in workflow]  # fmt: skip
    (folder / "flow.py").write_text(textwrap.dedent(PARSL).replace("@STEPS@", repr(rows)))
    done = program([sys.executable, "flow.py"], folder)
    assert done.returncode == 0, done.stderr
    return folder / "run"


def test_parsl(tmp_path: Path) -> None:
    parsl = pytest.importorskip("parsl", reason="needs Parsl: pip install 'tailrace[parsl]'")
    verdict = judged(Adapter("Parsl", parsl.__version__, _parsl), tmp_path)
    assert not verdict.faults, "\n".join(verdict.faults)


# Dask

DASK = """
import subprocess
from dask.distributed import Client, LocalCluster
from tailrace.dask import trace

def run(words, *before):
    subprocess.run(words, check=True)

def main():
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        trace(client, run_dir="run", workflow="w")
        made, ends = {}, []
        for stage, name, out, inputs, words, retries in @STEPS@:
            future = client.submit(run, words, *[made[path] for path in inputs], key=(stage, name), retries=retries)
            made[out] = future
            ends.append(future)
        for future in ends:
            future.exception()

if __name__ == "__main__":
    main()
"""


def _dask(folder: Path, workflow: list[Step]) -> Path:
    rows = [(step.stage, step.name, step.out, step.inputs, step.words, int(step.how == "once")) for step in workflow]
    (folder / "flow.py").write_text(DASK.replace("@STEPS@", repr(rows)))
    done = program([sys.executable, "flow.py"], folder)
    assert done.returncode == 0, done.stderr
    return folder / "run"


def test_dask(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="needs Dask: pip install 'tailrace[cluster]'")
    verdict = judged(Adapter("Dask distributed", distributed.__version__, _dask, files=False), tmp_path)
    assert not verdict.faults, "\n".join(verdict.faults)


# Flux


def test_flux(traced_flux, tmp_path: Path) -> None:
    def run(folder: Path, workflow: list[Step]) -> Path:
        jobs: dict[str, str] = {}
        # Flux refuses a job that depends on one that has failed.
        traced_flux.ask("queue", "stop", "--all")
        try:
            for step in workflow:
                after = [f"--dependency=afterok:{jobs[path]}" for path in step.inputs]
                options = [f"--setattr=user.trace.run={folder / 'run'}", "--setattr=user.trace.workflow=w"]
                words = ["-n1", f"--cwd={folder}", f"--job-name={step.stage}", *options, *after]
                jobs[step.out] = traced_flux.submit(*words, *step.words)
        finally:
            traced_flux.ask("queue", "start", "--all")
        for job in jobs.values():
            traced_flux.wait(job)
        words = [*TAILRACE, "flux", "collect", str(folder / "run")]
        subprocess.run(words, env=traced_flux.env, capture_output=True, timeout=120, check=True)
        return folder / "run"

    version = traced_flux.ask("version").split("commands:")[1].split()[0]
    verdict = judged(Adapter("Flux", version, run, retries=False, files=False), tmp_path)
    assert not verdict.faults, "\n".join(verdict.faults)


# Maestro

STUDY = """
description: {name: flow, description: the steps}
batch: {type: local, shell: @SHELL@}
study:
    - {name: make, description: d, run: {cmd: "cd @WORK@ && sh step.sh data/$(NAME).txt ok"}}
    - name: sort
      description: d
      run: {cmd: "cd @WORK@ && sh step.sh data/$(NAME).sorted ok data/$(NAME).txt", depends: [make]}
    - name: merge
      description: d
      run: {cmd: "cd @WORK@ && sh step.sh data/merged ok @SORTED@", depends: [sort_*]}
    - name: check
      description: d
      run: {cmd: "cd @WORK@ && sh step.sh data/checked always data/merged", depends: [merge]}
    - {name: after, description: d, run: {cmd: "cd @WORK@ && sh step.sh data/never ok data/checked", depends: [check]}}
global.parameters:
    NAME: {values: @NAMES@, label: NAME.%%}
"""


def test_maestro(tmp_path: Path) -> None:
    maestros = all_on_path("maestro")
    if not maestros:
        pytest.skip("no maestro in an environment on PATH: pip install maestrowf")

    def run(folder: Path, workflow: list[Step]) -> Path:
        made = [step for step in workflow if step.stage == "sort"]
        study = STUDY.replace("@WORK@", str(folder)).replace("@SORTED@", " ".join(step.out for step in made))
        study = study.replace("@NAMES@", json.dumps([step.name for step in made]))
        (folder / "study.yaml").write_text(study.replace("@SHELL@", run_cli("adapter", "maestro").stdout.strip()))
        words = [maestros[-1].program, "run", "-fg", "-s", "1", "-y", "-o", "study", "study.yaml"]
        done = run_cli("run", "-o", folder / "run", "--", *words, cwd=folder, env=clean_environment({}))
        assert "complete with failures" in done.stderr + done.stdout, done.stderr
        done = run_cli("declare", "--from", folder / "study", folder / "run")
        assert done.returncode == 0, done.stderr
        return folder / "run"

    version = maestros[-1].version.split()[-1]
    own = Adapter("Maestro", version, run, names=("ab", "c.d"), retries=False, files=False)
    verdict = judged(own, tmp_path)
    assert not verdict.faults, "\n".join(verdict.faults)


# Merlin

STUDY_OF_MERLIN = STUDY.replace("sh step.sh data/merged ok @SORTED@", "sh step.sh data/merged once @SORTED@ || @AGAIN@")
STUDY_OF_MERLIN = STUDY_OF_MERLIN.replace("always data/merged", "always data/merged || exit $(MERLIN_RAISE_ERROR)")


def test_merlin(tmp_path: Path) -> None:
    merlins = all_on_path("merlin")
    if not merlins:
        pytest.skip("no merlin in an environment on PATH: pip install merlin 'celery<5.5'")

    def run(folder: Path, workflow: list[Step]) -> Path:
        made = [step for step in workflow if step.stage == "sort"]
        study = STUDY_OF_MERLIN.replace("@WORK@", str(folder)).replace("@SORTED@", " ".join(one.out for one in made))
        study = study.replace("@NAMES@", json.dumps([step.name for step in made])).replace(
            "@AGAIN@", "exit $(MERLIN_RETRY)"
        )
        (folder / "study.yaml").write_text(study.replace("@SHELL@", run_cli("adapter", "merlin").stdout.strip()))
        words = [merlins[-1].program, "run", "--local", "study.yaml"]
        done = run_cli(
            "run", "-o", folder / "run", "--", *words, cwd=folder, env=clean_environment({"HOME": str(folder)})
        )
        assert "by request from the user" in done.stderr + done.stdout, done.stdout + done.stderr
        (study_folder,) = folder.glob("flow_*")
        done = run_cli("declare", "--from", study_folder, folder / "run")
        assert done.returncode == 0, done.stderr
        return folder / "run"

    version = merlins[-1].version.split()[-1]
    verdict = judged(Adapter("Merlin", version, run, names=("ab", "c.d"), files=False), tmp_path)
    # Merlin counts tries, and keeps nothing of those that failed.
    assert verdict.faults == ["retries: the tries [] failed"], "\n".join(verdict.faults)


# Slurm


def test_slurm(slurm, tmp_path: Path) -> None:
    def run(folder: Path, workflow: list[Step]) -> Path:
        jobs: dict[str, str] = {}
        # So that none has ended, and been forgotten as a dependency, before the last is submitted.
        held = ("--hold", "--trace", "--trace-run=run", "--output=/dev/null")
        for step in workflow:
            after = [f"--dependency=afterok:{':'.join(jobs[path] for path in step.inputs)}"] if step.inputs else []
            words = (f"--job-name={step.stage}", *after, "--kill-on-invalid-dep=yes", "--wrap", shlex.join(step.words))
            jobs[step.out] = slurm.submit(*held, *words, cwd=folder)
        shown = slurm.run("scontrol", "-o", "show", "job").stdout
        slurm.run("scontrol", "release", ",".join(jobs.values()))
        slurm.wait_for_all()
        # What never ran only Slurm knows.
        (folder / "jobs.txt").write_text(shown + slurm.run("scontrol", "-o", "show", "job").stdout)
        done = run_cli("declare", "--from", folder / "jobs.txt", folder / "run")
        assert done.returncode == 0, done.stderr
        return folder / "run"

    slurm.configure()
    version = slurm.run("sinfo", "--version").stdout.split()[-1]
    verdict = judged(Adapter("Slurm", version, run, retries=False, files=False), tmp_path)
    assert not verdict.faults, "\n".join(verdict.faults)


# Snakemake

SNAKEFILE = """
names = @NAMES@
rule all:
    input: "data/never"
rule make:
    output: "data/{s}.txt"
    shell: "sh step.sh {output:q} ok"
rule sort:
    input: "data/{s}.txt"
    output: "data/{s}.sorted"
    shell: "sh step.sh {output:q} ok {input:q}"
rule merge:
    input: expand("data/{s}.sorted", s=names)
    output: "data/merged"
    retries: 1
    shell: "sh step.sh {output:q} once {input:q}"
rule check:
    input: "data/merged"
    output: "data/checked"
    shell: "sh step.sh {output:q} always {input:q}"
rule after:
    input: "data/checked"
    output: "data/never"
    shell: "sh step.sh {output:q} ok {input:q}"
"""
SNAKEMAKES = all_on_path("snakemake")


@pytest.mark.skipif(not SNAKEMAKES, reason="no environment with Snakemake on PATH: pip install snakemake")
@pytest.mark.parametrize("snakemake", SNAKEMAKES, ids=str)
def test_snakemake(snakemake: Manager, tmp_path: Path) -> None:
    major = snakemake.version.partition(".")[0]
    how = ["--logger", "tailrace"]
    if major == "7":
        how = ["--log-handler-script", run_cli("adapter", "snakemake").stdout.strip()]

    def run(folder: Path, workflow: list[Step]) -> Path:
        (folder / "Snakefile").write_text(SNAKEFILE.replace("@NAMES@", repr(conformance.STRANGE)))
        environment = clean_environment(
            share_tailrace(tmp_path / "site", SOURCE / "adapters" / "modules" / "snakemake_logger_plugin_tailrace")
        )
        words = [snakemake.program, "-c2", *how]
        done = run_cli("run", "-o", folder / "run", "--", *words, cwd=folder, env=environment)
        assert done.returncode == 1 and "tailrace: can't" not in done.stderr, done.stderr
        return folder / "run"

    # Snakemake removes the outputs of a job that failed.
    verdict = judged(Adapter(f"Snakemake {major}", snakemake.version, run, keeps=False), tmp_path)
    assert not verdict.faults, "\n".join(verdict.faults)
    # What it keeps on disk of the jobs that succeeded says the same.
    kept = importing.read(importer_of_snakemake, tmp_path / "flow")
    steps = [step for step in conformance.steps() if step.stage in ("make", "sort", "merge")]
    assert {(task.stage, task.outputs, tuple(sorted(task.inputs))) for task in kept.tasks if task.status == "done"} == {
        (step.stage, (step.out,), tuple(sorted(step.inputs))) for step in steps
    }


# GNU make

MAKEFILE = """
all: data/never
.SECONDARY:
data/%.txt:
	sh step.sh $@ ok
data/%.sorted: data/%.txt
	sh step.sh $@ ok $<
data/merged: data/a+b.sorted data/c,d.sorted
	sh step.sh $@ ok $^
data/checked: data/merged
	sh step.sh $@ always $<
data/never: data/checked
	sh step.sh $@ ok $<
"""
STAGES_OF_MAKE = {
    "make": "data/%.txt",
    "sort": "data/%.sorted",
    "merge": "data/merged",
    "check": "data/checked",
    "after": "data/never",
}


@pytest.mark.skipif(not shutil.which("make"), reason="no GNU make: apt-get install make")
def test_make(tmp_path: Path) -> None:
    def run(folder: Path, workflow: list[Step]) -> Path:
        (folder / "Makefile").write_text(MAKEFILE)
        words = ["make", "-j2", "-f", "Makefile", "-f", run_cli("adapter", "make").stdout.strip()]
        done = run_cli("run", "-o", folder / "run", "--", *words, cwd=folder, env=active_environment())
        assert done.returncode == 2, done.stderr
        return folder / "run"

    version = program(["make", "--version"], tmp_path).stdout.splitlines()[0].split()[-1]
    # Rules can't be written for all names; test_make.py has more of them.
    how = Adapter(
        "GNU make", version, run, names=("a+b", "c,d"), retries=False, ends=False, keeps=False, stages=STAGES_OF_MAKE
    )
    # A target is declared when its recipe begins.
    assert_all_but_the_task_that_never_ran(judged(how, tmp_path))


# Makeflow


@pytest.mark.skipif(not shutil.which("makeflow"), reason="no Makeflow: apt-get install coop-computing-tools")
def test_makeflow(tmp_path: Path) -> None:
    def run(folder: Path, workflow: list[Step]) -> Path:
        rules = [
            f"CATEGORY={step.stage}\n{step.out}: {' '.join(step.inputs)}\n\t{shlex.join(step.words)}\n"
            for step in workflow
        ]
        (folder / "flow.mf").write_text("".join(rules))
        wrapper = f"{run_cli('adapter', 'makeflow').stdout.strip()} %%"
        words = ["makeflow", "-T", "local", "-j", "2", "-r", "1", "--wrapper", wrapper, "flow.mf"]
        done = run_cli("run", "-o", folder / "run", "--", *words, cwd=folder, env=active_environment())
        assert "failed too many times" in done.stderr, done.stdout + done.stderr
        rules_of = program(["makeflow_viz", "-D", "json", "flow.mf"], folder)
        (folder / "flow.json").write_text(rules_of.stdout)
        done = run_cli("declare", "--from", folder / "flow.json", folder / "run")
        assert done.returncode == 0, done.stderr
        return folder / "run"

    version = program(["makeflow", "--version"], tmp_path).stdout.split()[2]
    # Its own names of files have no blanks or quotes.
    how = Adapter("Makeflow", version, run, names=("a+b", "c,d"), retries=False, ends=False, keeps=False)
    verdict = judged(how, tmp_path)
    assert not verdict.faults, "\n".join(verdict.faults)


# Nextflow

PIPELINE = """
process MAKE {
  input: tuple val(name), val(words)
  output: tuple val(name), path("data/${name}.txt")
  script: "mkdir data; sh ${projectDir}/step.sh ${words}.txt ok"
}
process SORT {
  input: tuple val(name), path(made), val(words)
  output: path "data/${name}.sorted"
  script: "mkdir data; sh ${projectDir}/step.sh ${words}.sorted ok ${made}"
}
process MERGE {
  input: path sorted
  output: path "data/merged"
  script: "mkdir data; sh ${projectDir}/step.sh data/merged ok ${sorted}"
}
process CHECK {
  input: path merged
  output: path "data/checked"
  script: "mkdir data; sh ${projectDir}/step.sh data/checked always ${merged}"
}
process AFTER {
  input: path checked
  output: path "data/never"
  script: "mkdir data; sh ${projectDir}/step.sh data/never ok ${checked}"
}
workflow {
  names = Channel.of(@NAMES@)
  AFTER(CHECK(MERGE(SORT(MAKE(names).join(names)).collect(sort: { it.name }))))
}
"""


@pytest.mark.skipif(not shutil.which("nextflow"), reason="no nextflow on PATH: see www.nextflow.io")
def test_nextflow(tmp_path: Path) -> None:
    def run(folder: Path, workflow: list[Step]) -> Path:
        made = [step.name for step in workflow if step.stage == "make"]
        names = [f"[{json.dumps(name)}, {json.dumps(shlex.quote(f'data/{name}'))}]" for name in made]
        (folder / "main.nf").write_text(PIPELINE.replace("@NAMES@", ", ".join(names)))
        words = ["nextflow", "-c", run_cli("adapter", "nextflow").stdout.strip(), "run", "main.nf"]
        environment = clean_environment({"NXF_OFFLINE": "true"})
        done = run_cli("run", "-o", folder / "run", "--", *words, cwd=folder, env=environment)
        assert done.returncode == 1 and "CHECK" in done.stdout, done.stdout + done.stderr
        done = run_cli("declare", "--from", folder, folder / "run")
        assert done.returncode == 0, done.stderr
        return folder / "run"

    def place(folder: Path, name: str) -> Path:
        return next(iter(sorted(folder.glob(f"work/??/*/{name}"))), folder / name)

    version = program(["nextflow", "-v"], tmp_path, NXF_OFFLINE="true").stdout.split()[2].rpartition(".")[0]
    stages = {stage: stage.upper() for stage in ("make", "sort", "merge", "check", "after")}
    # What it tries again is another task of it, in a folder of its own.
    how = Adapter("Nextflow", version, run, retries=False, stages=stages, place=place, task_files=("work/*/data/*",))
    # Only tasks that ran have a work directory.
    assert_all_but_the_task_that_never_ran(judged(how, tmp_path))


# CWL

FLOW_OF_CWL = """
cwlVersion: v1.2
class: Workflow
requirements: {ScatterFeatureRequirement: {}, InlineJavascriptRequirement: {}, StepInputExpressionRequirement: {}}
inputs: {program: File, names: "string[]"}
outputs: {never: {type: File, outputSource: after/out}}
steps:
"""
STEP_OF_CWL = """
  @STAGE@:
    @SCATTER@
    in: {program: program, name: @NAME@, files: @FILES@}
    out: [out]
    run:
      class: CommandLineTool
      requirements:
        InitialWorkDirRequirement:
          listing:
            - $(inputs.program)
            - "$({class: 'Directory', basename: 'data', listing: [], writable: true})"
      baseCommand: [sh, step.sh]
      arguments: ["data/@OUT@", @HOW@, $(inputs.files)]
      inputs: {program: File, name: {type: "string?"}, files: @TYPE@}
      outputs: {out: {type: File, outputBinding: {glob: "data/@OUT@"}}}
"""
STEPS_OF_CWL = {
    "make": {"@SCATTER@": "scatter: name", "@FILES@": "{default: []}", "@OUT@": "$(inputs.name).txt"},
    "sort": {
        "@SCATTER@": "scatter: [name, files]\n    scatterMethod: dotproduct",
        "@FILES@": "make/out",
        "@OUT@": "$(inputs.name).sorted",
    },
    "merge": {"@FILES@": "sort/out", "@OUT@": "merged"},
    "check": {"@FILES@": "merge/out", "@OUT@": "checked", "@HOW@": "always"},
    "after": {"@FILES@": "check/out", "@OUT@": "never"},
}
CWLTOOLS = all_on_path("cwltool")


def _write_cwl(folder: Path, workflow: list[Step]) -> None:
    """flow.cwl and job.json."""
    text = FLOW_OF_CWL
    for stage, values in STEPS_OF_CWL.items():
        step = STEP_OF_CWL.replace("@STAGE@", stage)
        named = "@SCATTER@" in values
        several = "File[]" if stage == "merge" else "File"
        defaults = {
            "@NAME@": "names" if named else "{default: all}",
            "@SCATTER@": "",
            "@HOW@": "ok",
            "@TYPE@": f'"{several}"' if stage != "make" else '"File[]"',
        }
        for place, value in {**defaults, **values}.items():
            step = step.replace(place, value)
        text += step
    (folder / "flow.cwl").write_text(text)
    names = [step.name for step in workflow if step.stage == "make"]
    order = {"program": {"class": "File", "path": conformance.STEP_PROGRAM}, "names": names}
    (folder / "job.json").write_text(json.dumps(order))


@pytest.mark.skipif(not CWLTOOLS, reason="no environment with cwltool on PATH: pip install cwltool")
def test_cwl(tmp_path: Path) -> None:
    def run(folder: Path, workflow: list[Step]) -> Path:
        _write_cwl(folder, workflow)
        options = ["--parallel", "--relax-path-checks", "--leave-outputs", "--leave-tmpdir"]
        options += ["--tmp-outdir-prefix", f"{folder}/out/", "--tmpdir-prefix", f"{folder}/tmp/"]
        words = [CWLTOOLS[0].python, "-m", "tailrace.cwl", *options, "flow.cwl", "job.json"]
        environment = clean_environment(share_tailrace(tmp_path / "site"))
        done = run_cli("run", "-o", folder / "run", "--", *words, cwd=folder, env=environment)
        assert done.returncode == 1 and "tailrace: can't" not in done.stderr, done.stderr
        return folder / "run"

    def place(folder: Path, name: str) -> Path:
        return next(iter(sorted(folder.glob(f"out/*/{name}"))), folder / name)

    version = CWLTOOLS[0].version.split()[-1]
    how = Adapter("cwltool", version, run, retries=False, place=place, task_files=("out/*/data/*",))
    # A job is declared when it is over.
    assert_all_but_the_task_that_never_ran(judged(how, tmp_path))


# CWL by toil

TOILS = all_on_path("toil-cwl-runner")


@pytest.mark.skipif(not TOILS, reason="no environment with toil on PATH: pip install 'toil[cwl]'")
def test_toil(tmp_path: Path) -> None:
    def run(folder: Path, workflow: list[Step]) -> Path:
        _write_cwl(folder, workflow)
        (folder / "work").mkdir()
        options = ["--relax-path-checks", "--no-prepull", "--retryCount", "0"]
        options += ["--jobStore", "store", "--clean", "never", "--workDir", "work"]
        words = [TOILS[0].python, "-m", "tailrace.toil", *options, "flow.cwl", "job.json"]
        environment = clean_environment(share_tailrace(tmp_path / "site"))
        done = run_cli("run", "-o", folder / "run", "--", *words, cwd=folder, env=environment)
        assert done.returncode == 1 and "tailrace: can't" not in done.stderr, done.stderr
        return folder / "run"

    def place(folder: Path, name: str) -> Path:
        return next(iter(sorted((folder / "store" / "files").rglob(Path(name).name))), folder / name)

    # What a job says goes to its worker's log.
    written = ("store/files/*", "work/toilwf-*/data/*", "work/toilwf-*/worker_log.txt")
    # What it tries again has a new folder, in which the step's marker of its first try is missing: test_toil.py.
    how = Adapter("toil", TOILS[0].version, run, retries=False, keeps=False, place=place, task_files=written)
    # A job is declared when it runs, and what a failed one wrote is not kept.
    verdict = judged(how, tmp_path)
    assert [fault.partition(":")[0] for fault in verdict.faults] == ["declared", *["files"] * 3], verdict.faults
    assert all(fault.endswith(("data/checked", "data/never")) for fault in verdict.faults), verdict.faults


# Luigi

LUIGI = """
import json
import subprocess
from pathlib import Path

import luigi

rows = json.loads(Path("steps.json").read_text())

class Step(luigi.Task):
    name = luigi.Parameter()

    @property
    def row(self):
        return next(row for row in rows if (row["stage"], row["name"]) == (self.task_family, self.name))

    @property
    def retry_count(self):
        return 2 if self.row["how"] == "once" else 1

    def requires(self):
        before = [row for row in rows if row["out"] in self.row["inputs"]]
        return [classes[row["stage"]](name=row["name"]) for row in before]

    def output(self):
        return luigi.LocalTarget(self.row["out"])

    def run(self):
        subprocess.run(["sh", "step.sh", self.row["out"], self.row["how"], *self.row["inputs"]], check=True)

classes = {row["stage"]: type(row["stage"], (Step,), {"__module__": __name__}) for row in rows}
"""
LUIGI_SETTINGS = """
[scheduler]
retry_delay = 0
[worker]
keep_alive = true
wait_interval = 0.1
wait_jitter = 0
max_keep_alive_idle_duration = 2
"""


def test_luigi(tmp_path: Path) -> None:
    luigi = pytest.importorskip("luigi", reason="needs Luigi: pip install luigi")

    def run(folder: Path, workflow: list[Step]) -> Path:
        (folder / "steps.json").write_text(json.dumps([asdict(step) for step in workflow]))
        (folder / "flow.py").write_text(LUIGI)
        (folder / "luigi.cfg").write_text(LUIGI_SETTINGS)
        words = ["-m", "tailrace.luigi", "--module", "flow", "--local-scheduler", "--workers", "2", "after"]
        done = program([sys.executable, *words, "--name", "all"], folder, PYTHONPATH=str(folder))
        assert "1 failed" in done.stderr and "tracing into" in done.stderr, done.stderr
        (run_dir,) = (folder / "tailrace-runs").iterdir()
        return run_dir

    verdict = judged(Adapter("Luigi", luigi.__version__, run), tmp_path)
    assert not verdict.faults, "\n".join(verdict.faults)


# executorlib

EXECUTORLIB = """
import subprocess
import tailrace.executorlib
from executorlib import SingleNodeExecutor

def named(name):
    def call(words, *before):
        import subprocess
        subprocess.run(words, check=True)
    call.__name__ = name
    return call

if __name__ == "__main__":
    tailrace.executorlib.trace()
    with SingleNodeExecutor(max_cores=2, hostname_localhost=True) as executor:
        made = {}
        for stage, out, inputs, words in @STEPS@:
            made[out] = executor.submit(named(stage), words, *[made[path] for path in inputs])
        for future in made.values():
            future.exception()
"""


def test_executorlib(tmp_path: Path) -> None:
    executorlib = pytest.importorskip("executorlib", reason="needs executorlib: pip install executorlib")

    def run(folder: Path, workflow: list[Step]) -> Path:
        rows = [(step.stage, step.out, step.inputs, step.words) for step in workflow]
        (folder / "flow.py").write_text(EXECUTORLIB.replace("@STEPS@", repr(rows)))
        done = program([sys.executable, "flow.py"], folder)
        assert done.returncode == 0 and "tracing into" in done.stderr, done.stderr
        (run_dir,) = (folder / "tailrace-runs").iterdir()
        return run_dir

    # It tries a call again only when its worker was lost.
    verdict = judged(Adapter("executorlib", executorlib.__version__, run, retries=False, files=False), tmp_path)
    assert not verdict.faults, "\n".join(verdict.faults)


# Prefect

PREFECT = """
import subprocess
from prefect import flow, task
import tailrace.prefect

def body(words, *before):
    subprocess.run(words, check=True)

@flow
def steps():
    made = {}
    for stage, out, inputs, words, retries in @STEPS@:
        made[out] = task(body, name=stage, retries=retries).submit(words, *[made[path] for path in inputs])
    for future in made.values():
        future.wait()

if __name__ == "__main__":
    tailrace.prefect.trace()
    steps(return_state=True)
"""


def test_prefect(tmp_path: Path) -> None:
    prefects = all_on_path("prefect")
    if not prefects:
        pytest.skip("no environment with Prefect on PATH: pip install prefect")

    def run(folder: Path, workflow: list[Step]) -> Path:
        rows = [(step.stage, step.out, step.inputs, step.words, int(step.how == "once")) for step in workflow]
        (folder / "flow.py").write_text(PREFECT.replace("@STEPS@", repr(rows)))
        shared = share_tailrace(tmp_path / "site")
        settings = {"PREFECT_HOME": str(folder / "prefect"), "DO_NOT_TRACK": "1"}
        environment = clean_environment(
            {**shared, **settings, "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120"}
        )
        done = program([str(prefects[0].python), "flow.py"], folder, **environment)
        assert done.returncode == 0 and "tracing into" in done.stderr, done.stderr
        (run_dir,) = (folder / "tailrace-runs").iterdir()
        return run_dir

    verdict = judged(Adapter("Prefect", prefects[0].version, run, files=False), tmp_path)
    assert not verdict.faults, "\n".join(verdict.faults)


# Ray

RAY = """
import subprocess
import ray
import tailrace.ray

def named(name):
    def call(words, *before):
        subprocess.run(words, check=True)
    call.__name__ = call.__qualname__ = name
    return call

if __name__ == "__main__":
    tailrace.ray.trace()
    ray.init("local", num_cpus=2, include_dashboard=False)
    made = {}
    for stage, out, inputs, words, retries in @STEPS@:
        function = ray.remote(max_retries=retries, retry_exceptions=True)(named(stage))
        made[out] = function.remote(words, *[made[path] for path in inputs])
    ray.wait(list(made.values()), num_returns=len(made))
"""


def test_ray(tmp_path: Path) -> None:
    rays = all_on_path("ray")
    if not rays:
        pytest.skip("no environment with Ray on PATH: pip install ray")

    def run(folder: Path, workflow: list[Step]) -> Path:
        rows = [(step.stage, step.out, step.inputs, step.words, int(step.how == "once")) for step in workflow]
        (folder / "flow.py").write_text(RAY.replace("@STEPS@", repr(rows)))
        done = program([str(rays[0].python), "flow.py"], folder, **clean_environment(share_tailrace(tmp_path / "site")))
        assert done.returncode == 0 and "tracing into" in done.stderr, done.stderr
        (run_dir,) = (folder / "tailrace-runs").iterdir()
        return run_dir

    # What a task prints goes to its worker's file.
    own = Adapter("Ray", rays[0].version.split()[-1], run, files=False, task_files=("*/logs/worker-*",))
    verdict = judged(own, tmp_path)
    assert not verdict.faults, "\n".join(verdict.faults)


# Airflow

AIRFLOW = """
import subprocess
from datetime import timedelta
from airflow.sdk import DAG, task, task_group

steps = @STEPS@

@task
def run(words):
    subprocess.run(words, check=True, cwd=@FOLDER@)

def one(stage):
    (row,) = (row for row in steps if row["stage"] == stage)
    options = {"task_id": stage, "retries": row["retries"], "retry_delay": timedelta(0)}
    return run.override(**options)(row["words"])

with DAG("w", schedule=None):
    @task_group
    def chain(make, sort):
        run.override(task_id="make")(make) >> run.override(task_id="sort")(sort)

    pairs = [{row["stage"]: row["words"] for row in steps if row["name"] == name} for name in @NAMES@]
    chain.expand_kwargs(pairs) >> one("merge") >> one("check") >> one("after")
"""


def test_airflow(tmp_path: Path) -> None:
    airflows = airflows_on_path()
    if not airflows:
        pytest.skip("no environment with Airflow on PATH: pip install apache-airflow")

    def run(folder: Path, workflow: list[Step]) -> Path:
        rows = [{"stage": one.stage, "name": one.name, "words": one.words, "retries": int(one.how == "once")}
                for one in workflow]  # fmt: skip
        names = [step.name for step in workflow if step.stage == "make"]
        text = AIRFLOW.replace("@STEPS@", repr(rows)).replace("@FOLDER@", repr(str(folder)))
        environment = clean_environment({**share_tailrace(tmp_path / "site"), **airflow_home(folder / "home")})
        (folder / "home" / "dags" / "flow.py").write_text(text.replace("@NAMES@", repr(names)))
        done = program([str(airflows[0].program), "db", "migrate"], folder, **environment)
        assert done.returncode == 0, done.stderr
        words = [str(airflows[0].program), "dags", "test", "w"]
        done = run_cli("run", "-o", folder / "run", "--", *words, cwd=folder, env=environment)
        assert done.returncode == 1 and "DagRun failed" in done.stderr, done.stdout + done.stderr
        return folder / "run"

    stages = {"make": "chain.make", "sort": "chain.sort"}
    how = Adapter("Airflow", airflows[0].version, run, files=False, stages=stages)
    verdict = judged(how, tmp_path)
    assert not verdict.faults, "\n".join(verdict.faults)
