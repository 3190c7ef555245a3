"""`tailrace flux collect` in real Flux instances: what it writes is what Flux reports of the jobs."""

import json
import os
import platform
import pwd
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

import tailrace
from support.commands import TAILRACE
from support.run_files import Trace
from tailrace.flux.paths import PARTS
from tailrace.integrations import rundir

SET_MEMO = """
import sys, flux
from flux.job import JobID
memo = {"id": JobID(sys.argv[1]), "memo": {"uri": sys.argv[2]}}
flux.Flux().rpc("job-manager.memo", memo).get()
"""
MODPROBE = str(next(part.path for part in PARTS if part.name == "modprobe"))


def collect(instance, *words, check=True):
    """`tailrace flux collect WORDS...` with the instance's environment."""
    command = [*TAILRACE, "flux", "collect", *map(str, words)]
    done = subprocess.run(command, env=instance.env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 or not check, done.stderr
    return done


def plain(job):
    """A job id as task names have it, in ASCII."""
    return job.replace("ƒ", "f")


def told_by_flux(instance):
    """The output of `flux jobs`: id -> object."""
    return {job["jobid"]: job for job in json.loads(instance.ask("jobs", "-a", "--json"))["jobs"]}


def test_a_chain_of_jobs_is_declared_as_in_fluxs_history(flux, tmp_path):
    run_dir = tmp_path / "run"
    gate = f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done"
    make = flux.submit("--setattr=user.trace.stage=make", "-N1", "sh", "-c", gate)
    use = flux.submit(f"--dependency=afterok:{make}", "--job-name=use", "true")
    bad = flux.submit("-n1", "sh", "-c", f"{gate}; exit 3")
    never = flux.submit(f"--dependency=afterok:{bad}", "true")
    (tmp_path / "go").touch()
    for job in (make, use, bad, never):
        flux.wait(job)
    collect(flux, run_dir)
    run = tailrace.open(run_dir)
    assert run.declared_problems.empty
    tasks = {row["task"].replace("f", "ƒ", 1): row for row in run.declared_tasks.to_dict("records")}
    assert [tasks[job]["stage"] for job in (make, use, bad)] == ["make", "use", "sh"]
    assert [tasks[job]["status"] for job in (make, use, bad, never)] == ["done", "done", "failed", "dep_failed"]
    assert tasks[bad]["error"] == "exit code 3"
    assert tasks[make]["cores"] >= tasks[use]["cores"] == 1
    edges = run.declared_deps[["task", "dep", "via"]].to_numpy().tolist()
    assert [plain(use), plain(make), "afterok"] in edges
    assert [plain(never), plain(bad), "afterok"] in edges
    flux_says = told_by_flux(flux)
    # flux jobs has its own names: its t_depend is when waiting on dependencies began, its t_run the alloc event.
    names = {"t_submit_ns": "t_submit", "t_alloc_ns": "t_run", "t_end_ns": "t_cleanup", "t_clean_ns": "t_inactive"}
    for job in (make, use, bad):
        for ours, theirs in names.items():
            assert tasks[job][ours] / 1e9 == pytest.approx(flux_says[job][theirs], abs=2e-6), (job, ours)
        assert tasks[job]["t_alloc_ns"] < tasks[job]["t_start_ns"] < tasks[job]["t_end_ns"]
        assert ",".join(tasks[job]["nodes"]) == flux_says[job]["nodelist"]
        assert tasks[job]["ranks"] == flux_says[job]["ranks"]
    assert tasks[use]["t_depend_ns"] >= tasks[make]["t_end_ns"] > tasks[use]["t_submit_ns"]
    assert tasks[never]["t_start_ns"] is None or tasks[never]["t_start_ns"] != tasks[never]["t_start_ns"]


def test_every_end_of_a_job_is_news(start_traced_flux, tmp_path):
    instance, run_dir = start_traced_flux(cwd=tmp_path), tmp_path / "run"

    def submit(name, *words):
        traced = ("-n1", f"--setattr=user.trace.run={run_dir}", "--setattr=user.trace.workflow=w")
        return instance.submit(*traced, f"--job-name={name}", *words)

    def work(name, then):
        return "sh", "-c", f"echo part > {name}.out; {then}"

    jobs = {
        "bad": submit("bad", *work("bad", "while [ ! -e go ]; do sleep 0.05; done; exit 3")),
        "crash": submit("crash", *work("crash", "kill -SEGV $$")),
        "slow": submit("slow", "-t1s", *work("slow", "sleep 600")),
        "unwanted": submit("unwanted", *work("unwanted", "sleep 600")),
        "shot": submit("shot", *work("shot", "sleep 600")),
        "fine": submit("fine", *work("fine", "true")),
    }
    jobs["use"] = submit("use", f"--dependency=afterok:{jobs['bad']}", "true")
    jobs["behind"] = submit("behind", f"--dependency=afterok:{jobs['use']}", "true")
    (tmp_path / "go").touch()
    for name in ("unwanted", "shot"):
        instance.wait(jobs[name], "start")
        deadline = time.monotonic() + 60
        while not (tmp_path / f"{name}.out").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
    instance.run("cancel", jobs["unwanted"])
    instance.run("job", "kill", "-sKILL", jobs["shot"])
    for job in jobs.values():
        instance.wait(job)
    collect(instance, run_dir)
    run = tailrace.open(run_dir)
    rows = {row.stage: (row.status, row.tries, row.error) for row in run.outcomes.itertuples()}
    assert rows == {
        "bad": ("failed", 1, "exit code 3"),
        "crash": ("killed", 1, "signal 11 (SIGSEGV)"),
        "shot": ("killed", 1, "signal 9 (SIGKILL)"),
        "slow": ("timeout", 1, "timeout: resource allocation expired"),
        "unwanted": ("canceled", 1, "cancel"),
        "use": ("dep_failed", 0, rows["use"][2]),
        "behind": ("dep_failed", 0, rows["behind"][2]),
        "fine": ("done", 1, ""),
    }
    # Those of the tasks `crash` and `shot`, and those of `slow` and `unwanted`, which Flux ends.
    signals = "4 processes were ended by signals: 1 by SIGKILL, 1 by SIGSEGV, 1 by SIGALRM, 1 by SIGTERM. "
    assert run.info()["outcome"] == signals + (
        "7 of 8 tasks did not succeed: 1 failed, 2 killed, 1 timed out, 1 canceled, 2 never ran (a dependency failed)."
    )
    titles = [finding.title for finding in run.findings() if finding.kind == "failed tasks"]
    assert run.findings()[0].title == titles[0]
    assert titles[0] == (
        f"bad {plain(jobs['bad'])} failed: exit code 3; 2 tasks never ran for it; last files: {tmp_path}/bad.out"
    ), titles
    rest = f"slow {plain(jobs['slow'])}, unwanted {plain(jobs['unwanted'])}"
    assert titles[-1] == f"2 more tasks ended in 2 other ways (1 timed out, 1 canceled): {rest}"


def test_collecting_twice_adds_no_duplicates_and_since_keeps_earlier_jobs(start_flux, tmp_path):
    instance = start_flux()
    first = instance.submit("true")
    instance.wait(first)
    collect(instance, tmp_path / "run")
    (file,) = (tmp_path / "run" / "declared").iterdir()
    before = file.read_bytes()
    collect(instance, tmp_path / "run")
    assert file.read_bytes() == before
    end = instance.events(first, "clean")[0]["timestamp"]
    assert "0 jobs" in collect(instance, "--since=+1h", tmp_path / "run").stderr
    assert "1 job " in collect(instance, "--since=-1h", tmp_path / "run").stderr
    second = instance.submit("true")
    instance.wait(second)
    done = collect(instance, "--since", f"{end + 0.001:.6f}", tmp_path / "run")
    assert "1 job of 1 instance" in done.stderr
    assert tailrace.open(tmp_path / "run").declared_tasks["task"].tolist() == [plain(first), plain(second)]


def test_an_inner_instance_that_runs_is_collected_along(start_flux, tmp_path):
    instance = start_flux(size=2, cwd=tmp_path)
    script = tmp_path / "script"
    waiting = "touch ready; while [ -e ready ]; do sleep 0.1; done"
    script.write_text(f"#!/bin/sh\nflux submit --job-name=inner true > id; flux queue drain; {waiting}\n")
    outer = instance.ask("batch", "-n1", "--job-name=outer", script)
    instance.wait(outer, "memo")
    deadline = time.monotonic() + 60
    while not (tmp_path / "ready").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    done = collect(instance, tmp_path / "run")
    outer_task = plain(outer)
    inner_task = f"{outer_task}/{plain((tmp_path / 'id').read_text().strip())}"
    (tmp_path / "ready").unlink()
    instance.wait(outer)
    assert "2 jobs of 2 instances" in done.stderr
    tasks = {row["task"]: row for row in tailrace.open(tmp_path / "run").declared_tasks.to_dict("records")}
    assert set(tasks) == {outer_task, inner_task}
    assert (tasks[outer_task]["kind"], tasks[inner_task]["parent"]) == ("instance", outer_task)
    collect(instance, tmp_path / "run")
    again = {row["task"]: row for row in tailrace.open(tmp_path / "run").declared_tasks.to_dict("records")}
    assert set(again) == set(tasks)
    assert again[outer_task]["status"] == "done"


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("ssh://-oProxyCommand=touch${IFS}PLANTED/x", "neither local:///PATH nor ssh://HOST/PATH"),
        ("ssh://host;touch${IFS}PLANTED/x", "neither"),
        ("ssh://host/x$(touch${IFS}PLANTED)", "neither"),
        ("ssh://host/x\n-oProxyCommand=touch PLANTED", "neither"),
        ("OWN", "its URI leads to the instance of /)"),
    ],
)
def test_a_memo_with_a_hostile_uri_is_not_followed(start_flux, tmp_path, uri, reason):
    instance = start_flux(cwd=tmp_path)
    job = instance.submit("sleep", "60")
    instance.wait(job, "start")
    planted = uri.replace("OWN", instance.ask("getattr", "local-uri"))
    instance.run("python", "-c", SET_MEMO, job, planted)
    done = collect(instance, tmp_path / "run")
    assert reason in done.stderr
    assert not list(tmp_path.rglob("PLANTED"))
    assert not (Path.cwd() / "PLANTED").exists()
    assert [path.name for path in (tmp_path / "run" / "declared").iterdir()] == [f"flux-{platform.node()}.jsonl"]
    instance.run("cancel", job)


def test_outside_of_flux_the_message_names_flux(flux, tmp_path):
    env = {**flux.env, "FLUX_URI": f"local://{tmp_path}/nothing"}
    flux.run("getattr", "size")
    command = [*TAILRACE, "flux", "collect", str(tmp_path / "run")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "FLUX_URI" in done.stderr and len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_a_time_in_an_unknown_format_is_an_error(flux, tmp_path):
    done = collect(flux, "--since=yesterish", tmp_path / "run", check=False)
    assert done.returncode == 1
    assert "yesterish" in done.stderr


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_run_that_cannot_be_written_is_an_error(flux, tmp_path):
    (tmp_path / "run" / "declared").mkdir(parents=True)
    (tmp_path / "run" / "trace").mkdir()
    flux.wait(flux.submit("true"))
    (tmp_path / "run" / "declared").chmod(0o500)
    done = collect(flux, tmp_path / "run", check=False)
    assert done.returncode == 2
    assert "declared" in done.stderr


def test_the_history_is_collected_when_a_traced_instance_ends(start_flux, tmp_path):
    run_dir = rundir.open_run_directory(tmp_path / "run", ["test"])
    instance = start_flux(env={"FLUX_MODPROBE_PATH_APPEND": MODPROBE})
    job = instance.submit("--urgency=hold", "true")
    tags = json.dumps({"workflow": "w", "stage": "s", "task": "t"})
    store = tmp_path / "store"
    event = ("version=1", f"run={run_dir}", f"tags={tags}", f"store={store}")
    instance.run("post-job-event", job, "tailrace.trace", *event)
    instance.run("job", "urgency", job, "default")
    instance.wait(job)
    assert instance.stop() == 0
    assert tailrace.open_store(store).read("tasks", ["task", "status"]).to_pylist() == [{"task": "t", "status": "done"}]
    tasks = tailrace.open(run_dir).declared_tasks
    assert tasks[["workflow", "stage", "task", "status"]].to_numpy().tolist() == [["w", "s", "t", "done"]]


def test_jobs_without_the_jobtap_plugin_are_collected_from_the_default_run(start_flux, flux_plugins, tmp_path):
    rc_folder = str(flux_plugins.rc_folder)
    instance = start_flux(cwd=tmp_path, env={"FLUX_MODPROBE_PATH_APPEND": MODPROBE, "FLUX_SHELL_RC_PATH": rc_folder})
    job = instance.submit("--setattr=user.trace.stage=s", "cp", "/etc/hostname", "copy")
    asked = instance.submit("--setattr=user.trace.stage=s", "--env=-FLUX_SHELL_RC_PATH", "true")
    for each in (job, asked):
        instance.wait(each)
    assert instance.stop() == 0
    (run,) = (tmp_path / "tailrace-runs").iterdir()
    tasks = tailrace.open(run).declared_tasks.set_index("task")
    assert tasks.loc[plain(job), ["stage", "status"]].tolist() == ["s", "done"]


def test_an_instance_without_traced_jobs_collects_nothing(start_flux, tmp_path):
    called = tmp_path / "called"
    command = tmp_path / "command"
    command.write_text(f"#!/bin/sh\ntouch {called}\n")
    command.chmod(0o700)
    instance = start_flux(env={"FLUX_MODPROBE_PATH_APPEND": MODPROBE, "TAILRACE_COMMAND": str(command)})
    instance.wait(instance.submit("true"))
    assert instance.stop() == 0
    assert not called.exists()


def test_a_collect_that_hangs_does_not_keep_the_instance_from_ending(start_flux, tmp_path):
    """The instance is killed after a minute, by which time systemd would have done so."""
    command = tmp_path / "command"
    command.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/words\nexec sleep 600\n')
    command.chmod(0o700)
    env = {"TAILRACE_COMMAND": str(command), "TAILRACE_COLLECT_SECONDS": "4"}
    instance = start_flux(env={"FLUX_MODPROBE_PATH_APPEND": MODPROBE, **env})
    instance.wait(instance.submit("--setattr=user.trace=true", "true"))
    assert instance.stop() == 0
    within = re.fullmatch(r"flux collect --quiet --within=(.*)", (tmp_path / "words").read_text().strip())
    assert 0 < float(within[1]) < 4


def test_what_takes_too_long_is_left_for_a_later_collect(start_flux, flux_plugins, tmp_path):
    instance = start_flux(cwd=tmp_path, env={"FLUX_SHELL_RC_PATH": str(flux_plugins.rc_folder)})
    jobs = [instance.submit("--setattr=user.trace.stage=s", "cp", "/etc/hostname", f"out{n}") for n in range(3)]
    for job in jobs:
        instance.wait(job)
    done = collect(instance, "--within=0", check=False)
    assert done.returncode == 1
    assert "did not return its job history within 0 s: collect again later" in done.stderr
    assert "3 jobs" not in collect(instance, "--within=60").stderr
    assert len(list((tmp_path / "tailrace-runs").glob("*/declared/*.jsonl"))) == 3


def test_records_of_a_job_whose_shell_was_killed_are_sealed_by_the_next_collect(start_traced_flux, tmp_path):
    journals = tmp_path / "journals"
    journals.mkdir()
    instance = start_traced_flux(f"journal-dir={journals}", cwd=tmp_path)
    script = "echo > ready; kill -STOP $$"
    job = instance.submit("--setattr=user.trace.stage=s", "sh", "-c", script)
    while not (tmp_path / "ready").exists():
        time.sleep(0.1)
    (shell,) = [
        pid
        for broker in instance.broker_pids()
        for path in Path(f"/proc/{broker}/task").glob("*/children")
        for pid in map(int, path.read_text().split())
        if b"flux-shell" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    children = [int(pid) for pid in Path(f"/proc/{shell}/task/{shell}/children").read_text().split()]
    for pid in (shell, *children):
        os.kill(pid, signal.SIGKILL)
    instance.wait(job)
    run_dir = tmp_path / "tailrace-runs" / plain(job)
    assert list(journals.rglob("*.tj"))
    assert not Trace(run_dir).of(tmp_path / "ready")
    collect(instance)
    assert Trace(run_dir).of(tmp_path / "ready")
    assert not list(journals.rglob("*.tj"))


def test_a_failed_collect_does_not_delay_the_instances_end(start_flux, tmp_path):
    instance = start_flux(env={"FLUX_MODPROBE_PATH_APPEND": MODPROBE, "TAILRACE_COMMAND": str(tmp_path / "nothing")})
    job = instance.submit("--urgency=hold", "true")
    instance.run("post-job-event", job, "tailrace.trace", "version=1", f"run={tmp_path}")
    instance.run("job", "urgency", job, "default")
    instance.wait(job)
    assert instance.stop() == 0


def test_a_run_below_the_users_home_is_found(start_traced_flux, tmp_path):
    home = Path(pwd.getpwuid(os.geteuid()).pw_dir)
    place = "/".join(["{home}", *[".."] * (len(home.parts) - 1), *tmp_path.parts[1:], "{{id.f58plain}}"])
    instance = start_traced_flux("jobs=all", f"run={place}", cwd=tmp_path)
    job = instance.submit("cp", "/etc/hostname", "copy")
    instance.wait(job)
    collect(instance)
    run = tailrace.open(tmp_path / plain(job))
    assert run.declared_tasks["task"].tolist() == run.tasks["task"].tolist() == [plain(job)]
