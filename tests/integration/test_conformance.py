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
from pathlib import Path

import pytest

from support import conformance
from support.commands import TAILRACE, run_cli
from support.conformance import Adapter, Step
from support.harm import active_environment, clean_environment
from support.managers import SOURCE, Manager, all_on_path, share_tailrace
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
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=180, check=False)
    assert "tailrace: can't" not in done.stderr, done.stderr
    return done


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
    assert verdict.faults == []
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
    assert verdict.faults == []


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
    assert verdict.faults == []


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
    assert verdict.faults == []


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
    assert verdict.faults == []


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
    assert verdict.faults == []


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
    assert verdict.faults == []
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
    verdict = judged(how, tmp_path)
    # A target is declared when its recipe begins.
    data = tmp_path / "flow" / "data"
    assert verdict.faults == [
        "declared: data/checked -> data/never",
        f"files: r {data / 'checked'}",
        f"files: w {data / 'never'}",
    ]
