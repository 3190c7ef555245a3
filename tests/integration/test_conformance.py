"""Every adapter on the same small workflow: right tags, declarations, tries, failures, and nothing else changed.

Beside this module are those of managers whose workflows are files (test_conformance_files.py) and Python programs
(test_conformance_python.py). Each says how a manager runs the steps of support/conformance.py. What it gets is written
to build/conformance/, from which `python tools/conformance_docs.py` makes the table of docs/conformance.md.
"""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from support import conformance
from support.commands import TAILRACE, run_cli
from support.conformance import Adapter, Step
from support.conformance_runs import RESULTS, judged, program
from support.harm import clean_environment
from support.managers import SOURCE, all_on_path

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
    ("code = call()", 'Path(".mini/state").write_text("x"); mini.subprocess.run(["tailrace", "tag"]); code = call()'),
    ('outputs=step["outputs"]', "outputs=[]"),
    ("error=error", "error=None"),
)
"""Faults of an adapter, each of another kind."""


def test_an_adapter_with_faults_does_not_pass(tmp_path: Path) -> None:
    def run(folder: Path, workflow: list[Step]) -> Path:
        return _example(folder, workflow, WRONG)

    verdict = judged(Adapter("wrong", "", run), tmp_path)
    counts = verdict.counts
    (RESULTS / "wrong.json").unlink()
    (cost,) = (fault for fault in verdict.faults if fault.startswith("cost: "))
    assert cost.startswith("cost: of 7 tries 7 programs are tailrace's, and not 0: ")
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
    own = Adapter("Maestro", version, run, names=("ab", "c.d"), retries=False, files=False, programs=2)
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
    verdict = judged(Adapter("Merlin", version, run, names=("ab", "c.d"), files=False, programs=4), tmp_path)
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
