"""Managers whose workflows are files of their own, on the workflow of the conformance suite (test_conformance.py)."""

import json
import shlex
import shutil
from pathlib import Path

import pytest

from support import conformance
from support.commands import run_cli
from support.conformance import Adapter, Step
from support.conformance_runs import assert_all_but_the_task_that_never_ran, judged, program
from support.harm import active_environment, clean_environment
from support.managers import SNAKEMAKE_PLUGIN, Manager, all_on_path, share_tailrace
from tailrace.integrations import importing
from tailrace.snakemake.importer import IMPORTER as importer_of_snakemake

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
        environment = clean_environment(share_tailrace(tmp_path / "site", SNAKEMAKE_PLUGIN))
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
    told = {"retries": False, "ends": False, "keeps": False, "stages": STAGES_OF_MAKE, "programs": 2, "once": 2}
    how = Adapter("GNU make", version, run, names=("a+b", "c,d"), **told)
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
    how = Adapter("Makeflow", version, run, names=("a+b", "c,d"), retries=False, ends=False, keeps=False, programs=2)
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
