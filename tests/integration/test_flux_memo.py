"""The memo at a traced job's end: what `flux jobs` shows is what the run has; and the run is found by the job's id."""

import json
import subprocess

import pytest

import tailrace
from support.commands import TAILRACE
from support.flux_instance import start_traced


@pytest.fixture(scope="module")
def campaign(flux_program, flux_plugins, tmp_path_factory):
    """An instance of two brokers in which a small job and a job on both have run into one run, and one untraced."""
    work = tmp_path_factory.mktemp("memo")
    policy = ("stages.ma*=prepare", "stage-numbers=false")
    instance = start_traced(flux_program, flux_plugins, *policy, size=2, cwd=work)
    traced = ("--setattr=user.trace.run=run", "--setattr=system.bank=physics")
    count = "seq 9000 | while read x; do echo $x; done > $FLUX_TASK_RANK"
    jobs = {
        "small": instance.submit(*traced, "--job-name=make_1", "sh", "-c", "seq 1000 > numbers; cat numbers"),
        "wide": instance.submit(*traced, "--job-name=copy-12", "-N2", "-n2", "sh", "-c", count),
        "untraced": instance.submit("true"),
    }
    for job in jobs.values():
        instance.wait(job)
    yield instance, work / "run", jobs
    instance.stop()


def memo_of(instance, job):
    return json.loads(instance.ask("jobs", "-no", "{user.trace}", job))


@pytest.mark.parametrize(("name", "stage"), [("small", "prepare"), ("wide", "copy")])
def test_the_memo_has_the_sums_of_the_run(campaign, name, stage):
    instance, run_dir, jobs = campaign
    memo, run = memo_of(instance, jobs[name]), tailrace.open(run_dir)
    events = run.events(columns=["job", "size", "dir", "calls"])
    own = events[events["job"] == f"/{jobs[name]}"]
    assert (memo["stage"], memo["result"], memo["run"]) == (stage, "completed", str(run_dir))
    assert memo["events"] == len(own) > (20_000 if name == "wide" else 20)
    assert memo["lost"] == 0 and memo["bytes"] == memo["read"] + memo["written"]
    row = run.tasks[run.tasks["job"] == f"/{jobs[name]}"]
    assert memo["written"] == row["written_bytes"].sum() > 3000


def test_the_sums_outlast_the_job_manager(campaign):
    """Parts of one node are in no eventlog, their sum is."""
    instance, _, jobs = campaign
    memos = [event["context"]["trace"] for event in instance.events(jobs["wide"], "memo")]
    assert sum("bytes" in memo for memo in memos) == 1
    assert "node0" not in json.dumps(memos)


def test_a_job_id_names_its_run(campaign):
    instance, run_dir, jobs = campaign

    def info(job):
        command = [*TAILRACE, "info", job]
        return subprocess.run(command, env=instance.env, capture_output=True, text=True, timeout=120, check=False)

    for form in ("f58", "f58plain", "dec"):
        said = info(instance.ask("job", "id", f"--to={form}", jobs["wide"]))
        assert said.returncode == 0, said.stderr
        assert tailrace.open(run_dir).meta["run_id"] in said.stdout
    assert "has no run: it was not traced" in info(jobs["untraced"]).stderr
    assert "neither a directory nor a job" in info("f1").stderr


def test_a_failed_instance_has_no_memo_and_names_its_run(campaign):
    """Its eventlog has only the template of the directory, which the shell has filled."""
    instance, run_dir, _ = campaign
    run = "--setattr=user.trace.run=of-{{nnodes}}-nodes"
    job = instance.submit("--setattr=user.trace.stage=inner", run, "flux", "broker", "--no-such-option")
    instance.wait(job)
    assert not instance.events(job, "memo")
    said = subprocess.run(
        [*TAILRACE, "info", job], env=instance.env, capture_output=True, text=True, timeout=120, check=False
    )
    assert tailrace.open(run_dir.parent / "of-1-nodes").meta["run_id"] in said.stdout, said.stderr


def test_the_run_tells_the_batch_job(campaign):
    _, run_dir, jobs = campaign
    batch = tailrace.open(run_dir).meta["batch"]
    assert (batch["system"], batch["account"]) == ("flux", "physics")
    assert batch["job"].removeprefix("/") in jobs.values()
