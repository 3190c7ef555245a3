"""Tags from the variables of managers that nobody has written an adapter for (core/src/format/managers.def)."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tailrace
from support.commands import run_cli
from support.harm import clean_environment
from support.run_files import Trace

KEYS = ("workflow", "stage", "task", "tag.try", "job", "rank")


@pytest.fixture
def traced(tmp_path: Path) -> Callable[..., Trace]:
    """Runs a command in a directory with the file `in`, and returns its trace."""
    (tmp_path / "in").write_text("data\n")

    def do(*command: Any, options: tuple[str, ...] = (), **settings: str) -> Trace:
        words = ("run", "-o", tmp_path / "run", *options, "--", *command)
        done = run_cli(*words, cwd=tmp_path, env=clean_environment(settings))
        assert done.returncode == 0, done.stderr
        return Trace(tmp_path / "run")

    return do


def tags(trace: Trace, path: Path) -> set[tuple[str | None, ...]]:
    return trace.tags(trace.of(path, {"write", "copy_file_range", "ficlone"}), *KEYS)


def test_each_program_has_the_tags_of_its_own_variables(traced: Callable[..., Trace], tmp_path: Path) -> None:
    script = """
    SLURM_JOB_ID=7 SLURM_JOB_NAME='a sim' SLURM_STEP_ID=0 SLURM_PROCID=3 cp in step
    SLURM_JOB_ID=7 SLURM_JOB_NAME='a sim' sh -c 'env -i "$(command -v cp)" in cleared
                                                 SLURM_JOB_ID=8 cp in submitted
                                                 NXF_TASK_WORKDIR=/work/ab/cdef cp in nested'
    cp in after
    """
    trace = traced("sh", "-c", script)
    assert tags(trace, tmp_path / "step") == {(None, "a sim", "7.0", None, "7", "3")}
    assert tags(trace, tmp_path / "cleared") == {(None, "a sim", "7", None, "7", None)}
    assert tags(trace, tmp_path / "submitted") == {(None, "a sim", "8", None, "8", None)}
    assert tags(trace, tmp_path / "nested") == {(None, None, "ab/cdef", None, "7", None)}
    assert tags(trace, tmp_path / "after") == {(None,) * 6}


def test_tags_that_were_given_win(traced: Callable[..., Trace], tmp_path: Path) -> None:
    script = "cp in first; TAILRACE_TAGS=task=mine%2D1 cp in second"
    trace = traced(
        "sh", "-c", script, options=("--tag", "stage=mine"), SLURM_JOB_ID="7", SLURM_JOB_NAME="sim", SLURM_PROCID="0"
    )
    assert tags(trace, tmp_path / "first") == {(None, "mine", "7", None, "7", "0")}
    assert tags(trace, tmp_path / "second") == {(None, "mine", "mine-1", None, "7", "0")}


def test_a_tag_that_was_given_empty_is_none_of_what_is_started(traced: Callable[..., Trace], tmp_path: Path) -> None:
    """As a manager's wrapper does for its own programs in a task's environment."""
    script = """
    export NXF_TASK_WORKDIR=/work/ab/cdef
    TAILRACE_TAGS=workflow=w,task= sh -c 'cp in own; sh -c "cp in started"; TAILRACE_TAGS=task=t cp in task'
    cp in variable
    """
    trace = traced("sh", "-c", script, SLURM_JOB_ID="7")
    assert tags(trace, tmp_path / "own") == {("w", None, None, None, "7", None)}
    assert tags(trace, tmp_path / "started") == {("w", None, None, None, "7", None)}
    assert tags(trace, tmp_path / "task") == {("w", None, "t", None, "7", None)}
    assert tags(trace, tmp_path / "variable") == {(None, None, "ab/cdef", None, "7", None)}


def test_settings_in_plain_sight_keep_whose_tags_they_are(traced: Callable[..., Trace], tmp_path: Path) -> None:
    script = "cp in first; SLURM_JOB_ID=8 sh -c 'cp in second'"
    trace = traced("sh", "-c", script, TAILRACE_PROPAGATE="environment", SLURM_JOB_ID="7")
    assert tags(trace, tmp_path / "first") == {(None, None, "7", None, "7", None)}
    assert tags(trace, tmp_path / "second") == {(None, None, "8", None, "8", None)}


WORKER = """
import os, subprocess, sys, threading
from tailrace.context import scope

def write(name):
    with open(name, "w") as file:
        file.write("x")

write("before")
for number in (1, 2):
    os.environ.update(AIRFLOW_CTX_DAG_ID="dag", AIRFLOW_CTX_TASK_ID=f"load{number}", AIRFLOW_CTX_DAG_RUN_ID="run",
                      AIRFLOW_CTX_TRY_NUMBER="1")
    write(f"own{number}")
    thread = threading.Thread(target=write, args=(f"thread{number}",))
    thread.start()
    thread.join()
    subprocess.run(["cp", "in", f"child{number}"], check=True)
    with scope(task="inner"):
        write(f"scope{number}")
for name in [name for name in os.environ if name.startswith("AIRFLOW_CTX_")]:
    del os.environ[name]
write("behind")
"""


def test_a_worker_has_the_tags_of_the_task_that_it_runs_now(traced: Callable[..., Trace], tmp_path: Path) -> None:
    trace = traced(sys.executable, "-c", WORKER)
    nobody = {(None,) * 6}
    assert tags(trace, tmp_path / "before") == nobody
    for number in (1, 2):
        task = ("dag", f"load{number}", f"run/load{number}", "0", None, None)
        for name in ("own", "thread", "child"):
            assert tags(trace, tmp_path / f"{name}{number}") == {task}, name
    assert tags(trace, tmp_path / "scope2") == {("dag", "load2", "inner", None, None, None)}
    assert tags(trace, tmp_path / "behind") == nobody


def test_threads_that_change_variables_at_once_leave_the_tags_of_all(
    traced: Callable[..., Trace], tmp_path: Path, program: Callable[[str], Path]
) -> None:
    rounds = 5000
    trace = traced(program("retagged"), rounds)
    begin = str(tmp_path.resolve() / "round")
    found = {
        (event["path"].removeprefix(begin), event["args"].get("workflow"), event["args"].get("tag.try"))
        for event in trace.events
        if event["path"] and event["path"].startswith(begin)
    }
    expected = {(str(number), str(number), str(number - 1)) for number in range(1, rounds + 1)}
    assert found - expected == expected - found == set()


@pytest.mark.skipif(not shutil.which("parallel"), reason="no GNU parallel: apt-get install parallel")
def test_each_job_of_gnu_parallel_is_a_task(traced: Callable[..., Trace], tmp_path: Path) -> None:
    trace = traced("parallel", "--will-cite", "cp in {}", ":::", "a", "b", "c", HOME=str(tmp_path))
    tasks = [task for name in "abc" for _, _, task, *_ in tags(trace, tmp_path / name)]
    assert len({task for task in tasks if task}) == 3
    assert {task.partition(".")[2] for task in tasks if task} == {"1", "2", "3"}


def test_config_says_which_tags_the_variables_give_here(traced: Callable[..., Trace], tmp_path: Path) -> None:
    """What it prints are the tags that a program traced from there has."""
    variables = {"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "a sim", "SLURM_PROCID": "3", "PMI_RANK": "", "JOB_ID": "9"}
    shown = run_cli("config", "managed_tags", "--format", "json", env=clean_environment(variables)).stdout
    (row,) = json.loads(shown)
    assert row["source"] == "Slurm: SLURM_JOB_ID, SLURM_JOB_NAME, SLURM_PROCID"
    assert row["value"] == "stage=a%20sim,task=7,job=7,rank=3"
    trace = traced("cp", "in", "out", **variables)
    assert tags(trace, tmp_path / "out") == {(None, "a sim", "7", None, "7", "3")}
    text = run_cli("config", env=clean_environment({"NXF_TASK_WORKDIR": "/w/ab/cd", "PBS_JOBID": "1"})).stdout
    line = "TAILRACE_MANAGED_TAGS='task=ab/cd,job=1' (Nextflow: NXF_TASK_WORKDIR; PBS: PBS_JOBID)"
    assert line in text.splitlines()
    assert "TAILRACE_MANAGED_TAGS='' (default)" in run_cli("config", env=clean_environment({})).stdout


def test_a_job_of_htcondor_is_told_by_its_class_ad(traced: Callable[..., Trace], tmp_path: Path) -> None:
    """HTCondor exports the file's name alone. What the core reads of it is none of the program's I/O."""
    ad = 'Cmd = "/bin/sim"\nClusterId = 117\nProcId = 4\nDAGNodeName = "align 3"\nDAGManJobId = 110\n'
    (tmp_path / ".job.ad").write_text(ad + f'Environment = "{"A=1 " * 20000}"\n')
    trace = traced("sh", "-c", "cp in out; env -i cp in again", _CONDOR_JOB_AD=str(tmp_path / ".job.ad"))
    for name in ("out", "again"):
        assert tags(trace, tmp_path / name) == {("110", "align 3", "117.4", None, "117.4", None)}
    assert trace.of(tmp_path / ".job.ad") == []
    processes = tailrace.open(tmp_path / "run").processes
    assert len(processes) == 3 and (processes["share"] == 1).all()
