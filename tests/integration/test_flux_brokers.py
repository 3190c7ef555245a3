"""Instances of four brokers: each node's shell gives its tasks the context and seals what they leave; one is lost."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

import tailrace
from support.commands import TAILRACE
from support.flux_instance import start_traced
from support.run_files import Trace
from support.truth import read_run
from tailrace import _native
from tailrace.integrations import launcher

STAGE = "--setattr=user.trace.stage=s"
NODES = "0123"


@pytest.fixture(scope="module")
def four(flux_program, flux_plugins, tmp_path_factory):
    """An instance of four brokers with both plugins; no test kills one of them."""
    instance = start_traced(flux_program, flux_plugins, size=4, cwd=tmp_path_factory.mktemp("four"))
    yield instance
    instance.stop()


@pytest.fixture
def work(tmp_path):
    (tmp_path / "in").write_bytes(b"x" * 5000)
    return tmp_path


def submit(instance, work, *words):
    """A job in `work`, into its folder run/."""
    return instance.submit(f"--cwd={work}", STAGE, f"--setattr=user.trace.run={work}/run", *words)


def journals_of(run):
    return Path(_native.journal_directory(str(run.resolve()), "/dev/shm"))


def wait_until(is_so):
    deadline = time.monotonic() + 60
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert is_so()


def broker_of_rank(instance, rank):
    """The pid of a broker; numbers of processes may have come round since the first was started."""
    word = f"PMI_RANK={rank}".encode()
    (pid,) = (pid for pid in instance.broker_pids() if word in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    return pid


def plain(job):
    return job.replace("ƒ", "f")


def declared(run):
    return {row["task"]: row for row in tailrace.open(run).declared_tasks.to_dict("records")}


def seal_all(run):
    """As `tailrace seal` does, until the last process that runs has ended."""

    def seal():
        launcher.seal(run.resolve())
        return not launcher.unsealed_pids(run.resolve())

    wait_until(seal)


def test_each_task_of_each_node_has_its_context(four, work):
    job = submit(four, work, "-N4", "-n8", "sh", "-c", "cat in > out.$FLUX_TASK_RANK")
    four.wait(job)
    done = four.run("job", "attach", job, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    trace = Trace(work / "run")
    keys = ("rank", "tag.localid", "tag.nodeid")
    for rank in range(8):
        assert trace.tags(trace.of(work / f"out.{rank}"), *keys) == {(str(rank), str(rank % 2), str(rank // 2))}
        assert read_run(work / "run").written(work / f"out.{rank}") == 5000
    assert json.loads((work / "run" / "run.json").read_text())["restarts"] == []


def test_each_node_seals_records_of_its_killed_tasks(four, work):
    script = "cat in > out.$FLUX_TASK_RANK; : > mark.$FLUX_TASK_RANK; kill -9 $$"
    job = submit(four, work, "-N4", "-n8", "sh", "-c", script)
    four.wait(job)
    assert four.events(job, "finish")[0]["context"]["status"] == 137 << 8
    trace = Trace(work / "run")
    for rank in range(8):
        assert trace.of(work / f"mark.{rank}"), rank
        assert trace.of(work / f"out.{rank}"), rank
    assert not journals_of(work / "run").exists()


def test_sixty_jobs_over_four_nodes_share_a_run(four, work):
    words = [f"--cwd={work}", STAGE, f"--setattr=user.trace.run={work}/run", "sh", "-c", "cat in > out.{cc}"]
    jobs = four.ask("submit", "--wait", "--cc=1-60", *words, timeout=300).split()
    trace = Trace(work / "run")
    assert len(trace.tags(trace.events, "task")) == len(jobs) == 60
    seen = read_run(work / "run")
    assert all(seen.written(work / f"out.{i}") == 5000 for i in range(1, 61))
    ranks = {four.ask("jobs", "-n", "-o", "{ranks}", job) for job in jobs}
    assert ranks == set(NODES)
    assert not journals_of(work / "run").exists()


def test_an_instance_in_a_job_over_four_nodes(four, work):
    script = work / "script.sh"
    script.write_text("#!/bin/sh -e\ncat in > script-out\nflux run -N4 -n4 sh -c 'cat in > out.$FLUX_TASK_RANK'\n")
    words = [f"--cwd={work}", f"--output={work}/output", STAGE, f"--setattr=user.trace.run={work}/run"]
    job = four.ask("batch", "-N4", *words, script)
    four.wait(job, timeout=120)
    assert (work / "output").read_text() == ""
    trace = Trace(work / "run")
    assert trace.tags(trace.of(work / "script-out"), "stage", "tag.parent") == {("s", None)}
    for rank in NODES:
        assert trace.tags(trace.of(work / f"out.{rank}"), "tag.nodeid", "tag.parent") == {(rank, f"/{job}")}


def test_the_history_has_the_nodes(four, work):
    job = submit(four, work, "-N3", "-n3", "true")
    four.wait(job)
    command = [*TAILRACE, "flux", "collect", str(work / "run")]
    subprocess.run(command, env=four.env, check=True, capture_output=True, timeout=120)
    ours = declared(work / "run")[plain(job)]
    assert (len(ours["nodes"]), ours["cores"]) == (3, 3)
    assert ours["ranks"] == four.ask("jobs", "-n", "-o", "{ranks}", job).strip("[]")


def test_a_lost_node_leaves_all_traces_and_the_others_continue(start_traced_flux, work):
    instance = start_traced_flux(size=4, cwd=work)
    script = "cat in > $0.$FLUX_TASK_RANK; touch ready.$0.$FLUX_TASK_RANK; while [ ! -e go ]; do sleep 0.1; done; "
    script += "cat in > $0-late.$FLUX_TASK_RANK"
    wide = submit(instance, work, "-N4", "-n4", "sh", "-c", script, "wide")
    wait_until(lambda: len(list(work.glob("ready.wide.*"))) == 4)
    single = submit(instance, work, "-n1", "--requires=rank:0", "sh", "-c", script, "single")
    wait_until((work / "ready.single.0").exists)
    os.kill(broker_of_rank(instance, 3), 9)
    instance.wait(wide, "finish")
    assert "exception" in {event["name"] for event in instance.events(wide)}
    (work / "go").touch()
    instance.wait(single)
    assert instance.events(single, "finish")[0]["context"]["status"] == 0
    after = submit(instance, work, "-n1", "--requires=rank:1", "cp", "in", "after")
    instance.wait(after)
    # The lost node's task continues alone; when it has ended, any process on the node may seal.
    seal_all(work / "run")
    trace = Trace(work / "run")
    for rank in NODES:
        assert trace.tags(trace.of(work / f"wide.{rank}"), "tag.nodeid") == {(rank,)}
    assert trace.of(work / "single-late.0")
    assert trace.of(work / "after")
    command = [*TAILRACE, "flux", "collect", str(work / "run")]
    subprocess.run(command, env=instance.env, check=True, capture_output=True, timeout=120)
    ends = {task: row["status"] for task, row in declared(work / "run").items()}
    assert ends == {plain(wide): "failed", plain(single): "done", plain(after): "done"}


def test_a_killed_broker_leaves_a_trace_that_seal_completes(start_traced_flux, work):
    instance = start_traced_flux(cwd=work)
    submit(instance, work, "sh", "-c", "cat in > out; touch ready; sleep 3")
    wait_until((work / "ready").exists)
    instance.kill()
    seal_all(work / "run")
    assert Trace(work / "run").of(work / "out")
