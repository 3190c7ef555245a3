"""The SPANK plugin on a real slurmctld and two slurmd: which tasks have which tags, what is declared, what a facility's
policy does, what a user and a kill can't break (slurm-plugin/, docs/slurm.md)."""

import json
import os
import pwd
import re
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest

import tailrace
from support.commands import TAILRACE, run_cli
from support.home_runs import runs_in_home
from support.run_files import Trace, read_declared
from support.slurm_cluster import wait_until

LINE = re.compile(r"tailrace: (\d+) events? of (\d+) process(?:es)?, (.+) read, (.+) written, nothing lost; (.+)")

PREPARE = """#!/bin/sh
#SBATCH --job-name=prepare --trace --array=1-2
seq 1000 > in.$SLURM_ARRAY_TASK_ID
srun --job-name=sort sh -c 'sort -r in.$SLURM_ARRAY_TASK_ID > sorted.$SLURM_ARRAY_TASK_ID'
srun --trace=count wc -l sorted.$SLURM_ARRAY_TASK_ID
srun --no-trace cp sorted.$SLURM_ARRAY_TASK_ID untraced.$SLURM_ARRAY_TASK_ID
"""
MERGE = "cat sorted.1 sorted.2 > merged"
FAIL = "cat merged > partial; exit 3"
# One process: a shell may see its child killed by the same signal first, and end by itself.
CANCELED = "cat merged > copy; exec sleep 600"


@pytest.fixture(scope="module")
def cluster(slurm):
    """One cluster for all tests."""
    return slurm


@pytest.fixture(autouse=True)
def _policy(cluster):
    cluster.configure()


@pytest.fixture(scope="module")
def campaign(cluster, tmp_path_factory):
    """An array, a job after it, one that fails after that, one that is canceled, in one run: (folder, job ids)."""
    cluster.configure()
    work = tmp_path_factory.mktemp("campaign")
    (work / "prepare.sh").write_text(PREPARE)
    shared = ["--trace", "--trace-run=run"]

    def after(job, name, script):
        return cluster.submit(*shared, "-d", job, "-J", name, "--wrap", script, cwd=work)

    array = cluster.submit(*shared, "prepare.sh", cwd=work)
    merge = after(f"afterok:{array}", "merge", MERGE)
    fail = after(f"afterok:{merge}", "fail", FAIL)
    canceled = after(f"afterany:{fail}", "canceled", CANCELED)
    copy = work / "copy"
    wait_until(lambda: copy.is_file() and copy.stat().st_size == (work / "merged").stat().st_size, "the last job")
    cluster.run("scancel", canceled)
    cluster.wait_for_all()
    said = '"result": "CANCELLED"'
    wait_until(lambda: any(said in path.read_text() for path in (work / "run/declared").iterdir()), said)
    return work, array, merge, fail, canceled


def test_a_canceled_job_may_end_by_itself(cluster, tmp_path):
    """A shell whose command was killed goes on, and ends with 128 and the signal's number."""
    script = "trap 'exit 143' TERM; : > begun; sleep 600 & wait"
    job = cluster.submit("--trace", "--trace-run=run", "--output=/dev/null", "--wrap", script, cwd=tmp_path)
    wait_until(lambda: (tmp_path / "begun").is_file(), "the job")
    cluster.run("scancel", job)

    def ends():
        return [line for line in read_declared(tmp_path / "run") if line["type"] == "end" and "result" in line]

    (end,) = wait_until(ends, "what Slurm says of the job")
    assert (end["status"], end["error"], end["result"]) == ("canceled", "exit code 143", "CANCELLED")


def test_every_event_has_its_tasks_tags(campaign):
    work, array, merge, fail, canceled = campaign
    expected = {
        row
        for index in ("1", "2")
        for row in (
            ("prepare", f"{array}_{index}", f"{array}_{index}", index, "0"),
            ("sort", f"{array}_{index}.0", f"{array}_{index}", index, "0"),
            ("count", f"{array}_{index}.1", f"{array}_{index}", index, "0"),
        )
    }
    # SLURM_PROCID of a batch script is 0.
    expected |= {
        (name, job, job, None, "0") for name, job in (("merge", merge), ("fail", fail), ("canceled", canceled))
    }
    trace = Trace(work / "run")
    assert trace.tags(trace.events, "stage", "task", "job", "tag.array", "rank") == expected
    programs = {Path(facts["exe"]).name for facts in trace.processes.values()}
    assert not programs & {"srun", "slurmstepd", "cp"}
    # The launcher's settings are gone from what a job's programs see, and none has seen another's.
    assert (work / "untraced.1").read_text() == (work / "sorted.1").read_text()


def test_what_slurm_declares_is_in_the_run(campaign):
    work, array, merge, fail, canceled = campaign
    lines = read_declared(work / "run")
    tasks = {line["task"]: line for line in lines if line["type"] == "task"}
    assert {line["manager"] for line in lines if line["type"] == "workflow"} == {"slurm"}
    assert len(tasks) == 9
    deps = {task: {(one["task"], one["via"]) for one in line["deps"]} for task, line in tasks.items() if line["deps"]}
    assert deps == {
        merge: {(f"{array}_1", "afterok"), (f"{array}_2", "afterok")},
        fail: {(merge, "afterok")},
        canceled: {(fail, "afterany")},
    }
    parents = {task: line["parent"] for task, line in tasks.items() if "parent" in line}
    assert parents == {f"{array}_{i}.{step}": f"{array}_{i}" for i in (1, 2) for step in (0, 1)}

    ends = {
        line["task"]: (line["status"], line.get("error"), line.get("result")) for line in lines if line["type"] == "end"
    }
    assert ends.pop(fail) == ("failed", "exit code 3", None)
    assert ends.pop(canceled) == ("canceled", "signal 15", "CANCELLED")
    assert set(ends.values()) == {("done", None, None)}
    text = run_cli("report", work / "run").stdout
    assert "2 of 9 tasks did not succeed: 1 failed, 1 canceled." in text
    assert re.search(rf"fail {fail} failed: exit code 3; last files: merged, partial", text)
    assert "Declared dependencies: 3 observed, 1 order only" in text


def test_the_flows_between_jobs_are_seen_and_ordered(campaign):
    work, array, merge, fail, canceled = campaign
    undeclared = tailrace.open(work / "run").insights().declared.undeclared
    rows = {tuple(row) for row in undeclared[["producer", "consumer", "order"]].itertuples(index=False)}
    script = {f"{array}_{i}" for i in (1, 2)}
    # A script's files for its own steps; a step's for the next one of a script that waits; one over two dependencies.
    assert rows == {(f"{job}", f"{job}.0", "declared") for job in script} | {
        (f"{job}.0", f"{job}.1", "awaited") for job in script
    } | {(merge, canceled, "declared")}


def test_the_job_ends_with_one_line_for_its_user(campaign):
    work, array, merge, *_ = campaign
    said = (work / f"slurm-{merge}.out").read_text()
    found = LINE.fullmatch(said.strip())
    assert found, said
    assert Path(found[5]) == work / "run"
    assert int(found[2]) == 2  # the script's shell and cat
    lines = (work / f"slurm-{array}_1.out").read_text().splitlines()
    assert [line for line in lines if "tailrace" in line] == [lines[-1]]


def test_the_ranks_of_a_step_on_two_nodes(cluster, tmp_path):
    script = "printf %01000d 7 > out.$SLURM_PROCID; test $SLURM_PROCID != 1 || kill -9 $$"
    done = cluster.run(
        "srun", "-N2", "-n3", "--trace=sim", "--trace-tag=case=a b", "sh", "-c", script, cwd=tmp_path, check=False
    )
    assert done.returncode == 137
    assert done.stderr.count("tailrace: ") == 1
    (run,) = (tmp_path / "tailrace-runs").iterdir()
    job = run.name.removeprefix("sh-")
    trace = Trace(run)
    assert trace.tags(trace.events, "stage", "task", "tag.case", "rank") == {
        ("sim", f"{job}.0", "a b", rank) for rank in ("0", "1", "2")
    }
    # The killed one had written all of it.
    for rank in range(3):
        assert [e["args"]["ret"] for e in trace.of(tmp_path / f"out.{rank}", {"write"})] == [1000]
    end = next(line for line in read_declared(run) if line["type"] == "end")
    assert (end["status"], end["error"]) == ("killed", "signal 9")


def test_the_parts_of_a_heterogeneous_step_are_one_task(cluster, tmp_path):
    part = ["sh", "-c", "echo x > out.$SLURM_PROCID"]
    cluster.run("srun", "--trace", "--trace-run=run", "-n1", *part, ":", "-n2", *part, cwd=tmp_path)
    trace = Trace(tmp_path / "run")
    rows = trace.tags(trace.events, "task", "rank")
    assert {rank for _, rank in rows} == {"0", "1", "2"}
    assert len({task for task, _ in rows}) == 1
    assert len([line for line in read_declared(tmp_path / "run") if line["type"] == "task"]) == 1


def test_steps_of_each_component_of_a_heterogeneous_job_are_declared(cluster, tmp_path):
    (tmp_path / "job.sh").write_text(
        "#!/bin/sh\n"
        "#SBATCH --job-name=het --trace --trace-run=run -n1\n"
        "#SBATCH hetjob\n"
        "#SBATCH -n2\n"
        "srun --het-group=0 -J lead true\n"
        "srun --het-group=1 -J follow false\n"
        "srun --het-group=0,1 -J both true\n"
    )
    job = cluster.submit("job.sh", cwd=tmp_path)
    cluster.wait_for_all()
    lines = read_declared(tmp_path / "run")
    assert {(line["task"], line["stage"]) for line in lines if line["type"] == "task"} == {
        (job, "het"), (f"{job}.0", "lead"), (f"{job}.1", "follow"), (f"{job}.2", "both"),
    }  # fmt: skip
    ends = {line["task"]: line["status"] for line in lines if line["type"] == "end"}
    assert ends == {job: "done", f"{job}.0": "done", f"{job}.1": "failed", f"{job}.2": "done"}


def test_a_slurmstepd_that_is_killed_loses_nothing(cluster, tmp_path):
    script = "printf %01000d 7 > before; while ! test -e go; do sleep 0.05; done; printf %01000d 7 > after"
    with subprocess.Popen(
        ["srun", "--trace", "--trace-run=run", "sh", "-c", script],
        cwd=tmp_path,
        env=cluster.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as srun:
        wait_until(lambda: list((tmp_path / "run/declared").glob("*")) and (tmp_path / "before").exists(), "the step")
        line = wait_until(lambda: [one for one in read_declared(tmp_path / "run") if one["type"] == "task"], "its line")
        os.kill(cluster.step_daemon(line[0]["task"]), signal.SIGKILL)
        time.sleep(0.2)
        (tmp_path / "go").touch()
        wait_until(lambda: (tmp_path / "after").exists() and (tmp_path / "after").stat().st_size == 1000, "task")
        srun.kill()

    def written(name):
        return sum(e["args"]["ret"] for e in Trace(tmp_path / "run").of(tmp_path / name, {"write"}))

    # Nobody reads the run meanwhile: the step's process seals by itself.
    wait_until(lambda: written("after") == 1000, "the rest of the trace")
    assert written("before") == 1000


@pytest.mark.parametrize("trap", ["", "trap 'exit 143' TERM; "], ids=["killed", "exits"])
def test_a_requeued_job_has_another_try(cluster, tmp_path, trap):
    """Also of a shell that ends by itself, since its command was killed before it."""
    script = f"{trap}echo > t; test $SLURM_RESTART_COUNT || {{ scontrol requeue $SLURM_JOB_ID; sleep 60 & wait; }}"
    job = cluster.submit("--trace", "--requeue", "--trace-run=run", "--wrap", script, cwd=tmp_path)
    pending = f"scontrol -o show job {job}".split()
    wait_until(lambda: "Restarts=1" in (shown := cluster.run(*pending).stdout) and "State=PENDING" in shown, "requeue")
    declared = tmp_path / "run/declared"
    wait_until(lambda: any('"result": "PENDING"' in path.read_text() for path in declared.iterdir()), "first try's end")
    # Slurm waits for two minutes.
    cluster.run("scontrol", "update", f"JobId={job}", "StartTime=now")
    cluster.wait_for_all()
    trace = Trace(tmp_path / "run")
    assert trace.tags(trace.events, "task", "tag.try") == {(job, None), (job, "1")}
    lines = read_declared(tmp_path / "run")
    tries = [(line["try"], line.get("status")) for line in lines if line["type"] == "try"]
    assert sorted(tries, key=str) == [(0, "killed"), (0, None), (1, None)]
    last = max((line for line in lines if line["type"] == "end"), key=lambda line: line["t_end_ns"])
    assert (last["status"], last["tries"]) == ("done", 2)


def test_no_step_is_over_before_it_began(cluster, tmp_path):
    """The step's process, which writes the lines, may come to do so when the task is over."""
    cluster.submit("--trace", "--trace-run=run", "--wrap", "for i in 1 2 3 4 5 6; do srun true; done", cwd=tmp_path)
    for _ in range(8):
        cluster.submit("--trace", "--trace-run=run", "--wrap", "true", cwd=tmp_path)
    cluster.wait_for_all()
    lines = read_declared(tmp_path / "run")
    began = {line["task"]: line["t_start_ns"] for line in lines if line["type"] == "task"}
    assert len(began) == 15
    assert [line["task"] for line in lines if line["type"] == "end" and line["t_end_ns"] < began[line["task"]]] == []


def test_jobs_of_a_traced_program_are_in_its_run(cluster, tmp_path):
    (tmp_path / "driver.sh").write_text(
        "seq 1000 > a\n"
        "sbatch --wait --output=o -J inner --wrap 'sort a > b; srun wc -l b'\n"
        "srun -J direct cat b > /dev/null\n"
        "srun -J not --no-trace cat b > /dev/null\n"
        "env TAILRACE_TAGS=stage=other srun cat b > /dev/null\n"
    )
    # Tests that run in the background ignore SIGINT, by which jobs that nobody waits for are told.
    words = ["env", "--default-signal=INT", *TAILRACE, "run", "-q", "-o", "run", "-t", "workflow=w"]
    cluster.run(*words, "--", "sh", "driver.sh", cwd=tmp_path)
    trace = Trace(tmp_path / "run")
    rows = {row for row in trace.tags(trace.events, "workflow", "stage") if row[1]}
    assert rows == {("w", "inner"), ("w", "direct"), ("w", "other")}
    submitters = [
        line.get("submitter", {}).get("waits") for line in read_declared(tmp_path / "run") if line["type"] == "task"
    ]
    assert submitters == [True] * len(submitters)


def test_a_facilitys_policy(cluster, tmp_path):
    runs = tmp_path / "all"
    cluster.configure(
        "jobs=all",
        "names=sim*,md",
        f"run={runs}/{{user}}/{{name}}-{{jobid}}",
        "tags=site=x",
        "summary=no",
        "detail=totals",
    )
    traced = cluster.run(
        "srun", "-J", "sim-1", "dd", "if=/dev/zero", "of=out", "bs=10", "count=200", "status=none", cwd=tmp_path
    )
    assert traced.stderr == ""
    cluster.run("srun", "-J", "other", "true", cwd=tmp_path)
    cluster.run("srun", "-J", "md", "--no-trace", "true", cwd=tmp_path)
    (run,) = (runs / "root").iterdir()
    assert run.name.startswith("sim-1-")
    trace = Trace(run)
    assert trace.tags(trace.events, "stage", "tag.site") == {("sim-1", "x")}
    assert [(e["args"]["calls"], e["args"]["size"]) for e in trace.of(tmp_path / "out", {"write"})] == [(200, 2000)]

    cluster.configure("jobs=none")
    cluster.run("srun", "--trace", "--trace-run=none", "true", cwd=tmp_path)
    assert not (tmp_path / "none").exists()
    cluster.configure("jobs=requested", "choose-run=no", f"run={tmp_path}/fixed")
    cluster.run("srun", "--trace", "--trace-run=mine", "true", cwd=tmp_path)
    assert not (tmp_path / "mine").exists()
    assert (tmp_path / "fixed/trace").is_dir()


def test_the_working_directory_of_a_job_that_did_not_ask_stays_as_it_is(cluster, tmp_path):
    cluster.configure("jobs=all")
    with runs_in_home() as made:
        cluster.run("srun", "-J", "unasked", "true", cwd=tmp_path)
        assert [run.name.partition("-")[0] for run in made()] == ["unasked"] and not [*tmp_path.iterdir()]
    cluster.run("srun", "--trace", "-J", "asked", "true", cwd=tmp_path)
    assert [path.name.partition("-")[0] for path in (tmp_path / "tailrace-runs").iterdir()] == ["asked"]


def test_what_cant_be_traced_runs_untraced(cluster, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    word = "neither empty nor a run directory"
    for options, reason in ((["--trace-run=full"], word), (["--trace-run=/proc/x"], "can't use /proc/x")):
        done = cluster.run("srun", "--trace", *options, "echo", "fine", cwd=tmp_path)
        assert done.stdout == "fine\n"
        assert "tailrace: not traced: " in done.stderr
        assert reason in done.stderr
    cluster.configure("jobs=sometimes")
    done = cluster.run("srun", "--trace", "echo", "fine", cwd=tmp_path)
    assert (done.stdout, "jobs=sometimes: give all, requested or none" in done.stderr) == ("fine\n", True)
    # Nobody asked: not a word.
    cluster.configure("jobs=all", f"run={tmp_path}/full")
    assert cluster.run("srun", "echo", "fine", cwd=tmp_path).stderr == ""


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--trace-tag=job=5", "the tag job is set by Slurm"),
        ("--trace-tag=x", "write key=value"),
        ("--trace=" + "s" * 1025, "longer than 1024 bytes"),
    ],
)
def test_a_wrong_tag_is_refused_where_it_is_typed(cluster, tmp_path, option, words):
    done = cluster.run("sbatch", "--trace", option, "--wrap", "true", cwd=tmp_path, check=False)
    assert done.returncode != 0
    assert words in done.stderr


def test_root_does_nothing_in_a_users_directory(cluster):
    user = pwd.getpwnam("nobody")
    home = cluster.folder / "home"
    home.mkdir(exist_ok=True)
    os.chown(home, user.pw_uid, user.pw_gid)
    as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "cwd": home}
    cluster.run("srun", "--trace", "--trace-run=run", "sh", "-c", "seq 1000 > out", **as_user)
    found = [home / "run", *(home / "run").rglob("*")]
    assert {path.stat().st_uid for path in found} == {user.pw_uid}
    assert {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in found} == {0}
    # Where root could write and the user can't.
    closed = cluster.folder / "closed"
    closed.mkdir(mode=0o755, exist_ok=True)
    (home / "link").symlink_to(closed)
    for place in (closed / "run", home / "link/run"):
        done = cluster.run("srun", "--trace", f"--trace-run={place}", "echo", "fine", **as_user)
        assert (done.stdout, "not traced" in done.stderr) == ("fine\n", True)
    assert not list(closed.iterdir())
    described = json.loads((home / "run/run.json").read_text())
    assert (described["user"], described["batch"]["system"]) == ("nobody", "slurm")
