"""The shell plugin: what the tasks of a traced job get, and an untraced one's don't; nothing of ours fails a job."""

import fcntl
import json
import os
import pwd
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import tailrace
from support import run_schema, sanitizer
from support.commands import run_cli
from support.ordinary_user import ID
from support.run_files import Trace
from support.truth import read_run
from tailrace import _native

STAGE = "--setattr=user.trace.stage=s"


def run_of(instance, job):
    """The run directory that the configuration gives the job."""
    plain = instance.ask("job", "id", "--to=f58plain", job)
    return Path(instance.cwd) / "tailrace-runs" / plain


def run_job(instance, *words, **options):
    """A job that is submitted and waited for: its id and what it and its shell wrote to stderr."""
    job = instance.submit(*words, **options)
    instance.wait(job)
    done = instance.run("job", "attach", job, check=False)
    return job, done


def status_of(instance, job):
    return instance.events(job, "finish")[0]["context"]["status"]


@pytest.fixture
def work(tmp_path):
    (tmp_path / "in").write_bytes(b"x" * 5000)
    return tmp_path


@pytest.fixture
def submit_in(traced_flux, work):
    """run_job in the session's instance with `work` as the job's working directory; `traced_flux.cwd` stays."""

    def submit(*words, **options):
        job = traced_flux.submit(f"--cwd={work}", *words, **options)
        traced_flux.wait(job)
        plain = traced_flux.ask("job", "id", "--to=f58plain", job)
        return job, work / "tailrace-runs" / plain, traced_flux.run("job", "attach", job, check=False)

    return submit


def test_tasks_are_traced_with_their_context(traced_flux, submit_in, work):
    job, run, done = submit_in(
        "-n2", STAGE, "--setattr=user.trace.tags.k=ä b", "sh", "-c", "cat in > out.$FLUX_TASK_RANK"
    )
    assert done.returncode == 0
    assert done.stderr == ""
    trace = Trace(run)
    plain = traced_flux.ask("job", "id", "--to=f58plain", job)
    for rank in "01":
        assert (work / f"out.{rank}").stat().st_size == 5000
        assert read_run(run).written(work / f"out.{rank}") == 5000
        seen = trace.of(work / f"out.{rank}")
        keys = ("stage", "task", "job", "rank", "tag.localid", "tag.nodeid", "tag.k", "workflow")
        assert trace.tags(seen, *keys) == {("s", plain, f"/{job}", rank, rank, "0", "ä b", None)}


def test_the_run_directory_is_the_users_own_and_described(submit_in, work):
    _, run, _ = submit_in(STAGE, "cat", "in")
    assert run.stat().st_mode & 0o777 == 0o700
    description = json.loads((run / "run.json").read_text())
    assert description["command"] == ["cat", "in"]
    assert description["format"] == 1
    assert description["cwd"] == str(work)
    assert description["tags"].startswith("stage=s,task=f")
    assert description["restarts"] == []
    # The same facts as the launcher gives of this machine.
    from tailrace.integrations import rundir

    own = json.loads((rundir.open_run_directory(work / "own", ["x"]) / "run.json").read_text())
    for key in ("user", "uid", "host", "kernel", "boot_id", "cpu", "mounts"):
        assert description[key] == own[key], key
    assert {*own, "batch"} == set(description)
    info = tailrace.open(run).info()
    assert info["coverage"]


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Whoever holds a run's lock may be stuck, or compact the run for minutes: no job waits for him."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def test_run_json_of_a_job_follows_its_schema(submit_in, work):
    pytest.importorskip("jsonschema")
    shared = f"--setattr=user.trace.run={work}/shared"
    _, _, done = submit_in(shared, STAGE, "cp", "in", "out")
    assert done.stderr == ""
    place = work / "shared" / "run.json"
    run = json.loads(place.read_text())
    assert run_schema.faults(run) == []
    # A job on another host adds itself to `restarts`.
    place.write_text(json.dumps({**run, "host": "elsewhere"}))
    with locked(place.parent):
        submit_in(shared, STAGE, "cp", "in", "out")
    run = json.loads(place.read_text())
    assert (run_schema.faults(run), len(run["restarts"])) == ([], 1)


def test_the_description_of_a_run_has_no_secret_of_its_command_line(submit_in, work):
    _, run, _ = submit_in(STAGE, "echo", "--token=s3cr3t", "plain")
    assert json.loads((run / "run.json").read_text())["command"] == ["echo", "--token=[redacted]", "plain"]
    _, run, _ = submit_in(STAGE, "--env=TAILRACE_REDACT=arguments", "echo", "plain")
    assert json.loads((run / "run.json").read_text())["command"] == ["echo", "[redacted]"]


def test_a_job_that_asks_for_hashed_names_runs_untraced_and_says_so(submit_in, work):
    _, run, done = submit_in(STAGE, "--env=TAILRACE_REDACT=paths", "cp", "in", "out")
    assert done.returncode == 0 and "can't be traced with TAILRACE_REDACT=paths" in done.stderr
    assert (work / "out").stat().st_size == 5000
    assert not run.exists()


def test_a_job_writes_nothing_into_a_run_whose_names_are_hashed(submit_in, work):
    hashed = {**os.environ, "TAILRACE_REDACT": "paths"}
    assert run_cli("run", "-q", "-o", work / "shared", "--", "true", env=hashed).returncode == 0
    before = (work / "shared" / "run.json").read_text()
    _, _, done = submit_in(f"--setattr=user.trace.run={work}/shared", STAGE, "cp", "in", "out")
    assert done.returncode == 0 and "are hashed" in done.stderr
    assert (work / "shared" / "run.json").read_text() == before


def test_a_run_that_jobs_share_is_described_by_their_workflow(submit_in, work):
    shared = f"--setattr=user.trace.run={work}/shared"
    submit_in(shared, "--setattr=user.trace.workflow=campaign", "cp", "in", "out")
    assert json.loads((work / "shared" / "run.json").read_text())["command"] == ["flux:", "workflow", "campaign"]


def test_jobs_of_a_run_leave_as_many_files_as_ran_at_once(traced_flux, work):
    shared = f"--setattr=user.trace.run={work}/run"
    jobs = [traced_flux.submit(f"--cwd={work}", "-n1", shared, STAGE, "cp", "in", f"out{n}") for n in range(20)]
    for job in jobs:
        traced_flux.wait(job)
    trace = Trace(work / "run")
    assert all(trace.of(work / f"out{n}") for n in range(20))
    assert (
        len(list((work / "run" / "trace").iterdir())) <= int(traced_flux.ask("resource", "list", "-no", "{ncores}")) + 2
    )


def test_an_untraced_job_sees_no_settings_or_preload(traced_flux, submit_in, work):
    _, run, done = submit_in("--env=-*", "env")
    _, _, refused = submit_in("--env=-*", "--setattr=user.trace=false", "env")
    for text in (done.stdout, refused.stdout):
        assert "TAILRACE" not in text
        assert "LD_PRELOAD" not in text
    assert not run.parent.exists()


def test_a_traced_program_sees_the_environment_of_an_untraced_one(submit_in):
    _, _, plain = submit_in("env")
    _, _, traced = submit_in(STAGE, "env")

    def kept(text):
        lines = sanitizer.without_own(text).splitlines()
        return {line for line in lines if not line.startswith("FLUX_") and "/jobtmp-" not in line}

    assert kept(traced.stdout) == kept(plain.stdout)


def test_a_job_with_an_empty_environment_is_traced(submit_in, work):
    _, run, done = submit_in("--env=-*", STAGE, "/bin/cp", "in", "out")
    assert done.returncode == 0
    assert Trace(run).of(work / "out")


def test_a_job_that_clears_its_environment_stays_traced(submit_in, work):
    _, run, done = submit_in(STAGE, "env", "-i", "/bin/sh", "-c", "/usr/bin/env -i /bin/cp in out; env")
    assert done.returncode == 0
    assert not [line for line in done.stdout.splitlines() if "TAILRACE" in line or "PRELOAD" in line]
    assert Trace(run).tags(Trace(run).of(work / "out"), "stage") == {("s",)}


def test_propagation_by_environment_is_configured_unless_the_job_overrides_it(start_traced_flux, work):
    instance = start_traced_flux("propagate=environment", cwd=work)
    script = "env > $0.env; cp in $0; env -i /bin/cp in $0.cleared"
    job, done = run_job(instance, STAGE, "sh", "-c", script, "seen")
    trace = Trace(run_of(instance, job))
    assert done.stderr == ""
    assert "TAILRACE_RUN=" in (work / "seen.env").read_text()
    assert trace.of(work / "seen")
    assert not trace.of(work / "seen.cleared")
    job, _ = run_job(instance, STAGE, "--env=TAILRACE_PROPAGATE=always", "sh", "-c", script, "hidden")
    assert "TAILRACE_RUN=" not in (work / "hidden.env").read_text()
    assert Trace(run_of(instance, job)).of(work / "hidden.cleared")


def test_a_jobs_own_preload_stays_after_the_core(submit_in, work, program):
    interposer = program("interposer.so")
    _, plain_run, plain = submit_in(f"--env=LD_PRELOAD={interposer}", "sh", "-c", "echo $LD_PRELOAD; cp in out")
    _, run, done = submit_in(f"--env=LD_PRELOAD={interposer}", STAGE, "sh", "-c", "echo $LD_PRELOAD; cp in out")
    assert done.stdout == plain.stdout == f"{interposer}\n"
    assert done.stderr == plain.stderr
    assert Trace(run).of(work / "out")
    assert not plain_run.exists()


def test_flux_commands_in_a_traced_job_are_untraced(traced_flux, submit_in, work):
    _, run, done = submit_in(STAGE, "sh", "-c", "flux getattr rank; cat in > out")
    assert done.returncode == 0
    assert done.stdout == "0\n"
    trace = Trace(run)
    assert trace.of(work / "out")
    programs = {Path(process["exe"]).name for process in trace.processes.values()}
    assert not [name for name in programs if name.startswith(("flux", "python"))]


def test_records_of_killed_tasks_are_sealed_when_the_shell_exits(traced_flux, submit_in, work):
    script = "import os, signal; f = open('out', 'wb', 0); [f.write(b'x' * 100) for _ in range(50)]; "
    script += "os.kill(os.getpid(), signal.SIGKILL)"
    _, run, done = submit_in(STAGE, shutil.which("python3"), "-c", script)
    assert done.returncode == 137
    assert read_run(run).written(work / "out") == 5000
    assert not Path(_native.journal_directory(str(run.resolve()), "/dev/shm")).exists()


def test_journals_lie_in_the_configured_directory(start_traced_flux, work):
    journals = work / "journals"
    journals.mkdir()
    instance = start_traced_flux(f"journal-dir={journals}", "block-age=3", cwd=work)
    script = f"cat in > out; ls {journals}/*/* > journals-seen; kill -9 $$"
    job, done = run_job(instance, STAGE, "sh", "-c", script)
    assert done.returncode == 137
    assert ".tj" in (work / "journals-seen").read_text()
    assert read_run(run_of(instance, job)).written(work / "out") == 5000
    assert not list(journals.glob("*/*"))


def test_a_canceled_job_keeps_its_trace(traced_flux, work):
    job = traced_flux.submit(f"--cwd={work}", STAGE, "sh", "-c", "cat in > out; touch ready; sleep 60")
    deadline = time.monotonic() + 60
    while not (work / "ready").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    traced_flux.run("cancel", job)
    traced_flux.wait(job)
    (run,) = (work / "tailrace-runs").iterdir()
    assert Trace(run).of(work / "out")


def test_a_timed_out_job_keeps_its_trace(traced_flux, work):
    job = traced_flux.submit(f"--cwd={work}", "-t6s", STAGE, "sh", "-c", "cat in > out; sleep 60")
    traced_flux.wait(job)
    assert traced_flux.events(job, "exception")[0]["context"]["type"] == "timeout"
    (run,) = (work / "tailrace-runs").iterdir()
    assert Trace(run).of(work / "out")


def warnings(done):
    return [line for line in done.stderr.splitlines() if "tailrace:" in line]


def test_a_preload_path_that_is_not_on_the_node_leaves_the_job_untraced(start_traced_flux, work):
    instance = start_traced_flux("library=/opt/elsewhere/libtailrace.so", cwd=work)
    _, done = run_job(instance, STAGE, "cp", "in", "out")
    assert done.returncode == 0
    (line,) = warnings(done)
    assert "not traced: /opt/elsewhere/libtailrace.so can't be read on this node: install tailrace there" in line
    assert "ld.so" not in done.stderr
    assert (work / "out").stat().st_size == 5000
    assert not (work / "tailrace-runs").exists()


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ("/proc/1/no/such/place", "can't create the run directory /proc/1/no/such/place"),
        ("/sys/tailrace", "can't create the run directory /sys/tailrace"),
        ("in", "can't use|can't create the run directory"),
        (".", "is neither empty nor a run directory"),
        ("x" * 300, "File name too long"),
        ("{{nonsense}}/../..", ""),
    ],
)
def test_a_run_directory_that_cannot_be_made_leaves_the_job_untraced(submit_in, work, run, message):
    _, _, done = submit_in(f"--setattr=user.trace.run={json.dumps(run)}", "cp", "in", "out")
    assert done.returncode == 0, done.stderr
    if message:
        (line,) = warnings(done)
        assert "not traced: " in line
        assert re.search(message, line), line
    assert (work / "out").stat().st_size == 5000
    assert (work / "in").stat().st_size == 5000


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (f"mkdir run; chown {ID} run", "run belongs to another user: give a directory of your own"),
        ("mkdir run; chmod g+w run", "others may write to .*/run: `chmod go-w .*/run`"),
        ("mkdir -p run/trace; chmod o+w run/trace", "others may write to .*/run/trace"),
        ("mkdir run kept; ln -s ../kept run/trace", "can't use the run directory's folder .*/run/trace"),
    ],
)
def test_a_run_directory_in_which_others_could_write_is_not_used(submit_in, work, how, message):
    if "chown" in how and os.geteuid():
        pytest.skip("only root can give a directory away")
    subprocess.run(["sh", "-euc", how], cwd=work, check=True)
    _, _, done = submit_in(f"--setattr=user.trace.run={work}/run", "cp", "in", "out")
    (line,) = warnings(done)
    assert re.search(f"not traced: .*{message}", line), line
    assert (work / "out").stat().st_size == 5000
    assert not [path for path in (work / "run").rglob("*") if path.name != "trace"]


def test_the_configured_run_directory_has_the_users_name(start_traced_flux, work):
    instance = start_traced_flux(f"run={work}/{{user}}/x{{user}}/{{{{id.f58plain}}}}", cwd=work)
    job, _ = run_job(instance, STAGE, "cp", "in", "out")
    name = pwd.getpwuid(os.getuid()).pw_name
    run = work / name / f"x{name}" / job.replace("ƒ", "f")
    assert Trace(run).of(work / "out")
    done = run_cli("flux", "collect", env=instance.env)
    assert f"tailrace: 1 job of 1 instance; {run}" in done.stderr
    # A user's own template, in which Flux's tag only looks like it.
    odd = f"--setattr=user.trace.run={work}/{{{{user}}}}"
    run_job(instance, odd, "cp", "in", "out2")
    assert Trace(work / "{{user}}").of(work / "out2")


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 KiB."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no right to mount a small file system")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=False)


def test_a_full_run_directory_is_one_message(submit_in, work, small_disk):
    run = small_disk / "run"
    (small_disk / "filler").write_bytes(b"x" * 32768)
    noise = "import os\n"
    noise += "for i in range(20000):\n  try: os.stat('/' + os.urandom(100).hex())\n  except OSError: pass\n"
    wish = f"--setattr=user.trace.run={run}"
    _, _, done = submit_in(wish, shutil.which("python3"), "-c", noise + "open('out', 'w').write('done')")
    assert done.returncode == 0, done.stderr
    assert (work / "out").read_text() == "done"
    (small_disk / "filler").unlink()
    shutil.rmtree(Path(_native.journal_directory(str(run.resolve()), "/dev/shm")), ignore_errors=True)


def test_a_disk_that_is_full_from_the_start(submit_in, work, small_disk):
    with pytest.raises(OSError), (small_disk / "filler").open("wb", 0) as filler:
        while True:
            filler.write(b"x" * 4096)
    _, _, done = submit_in(f"--setattr=user.trace.run={small_disk}/a/b/run", "cp", "in", "out")
    assert done.returncode == 0
    assert (work / "out").stat().st_size == 5000


def test_two_jobs_share_a_run(submit_in, work):
    wish = f"--setattr=user.trace.run={work}/shared"
    submit_in(wish, "--setattr=user.trace.stage=one", "cp", "in", "middle")
    submit_in(wish, "--setattr=user.trace.stage=two", "cp", "middle", "out")
    trace = Trace(work / "shared")
    assert trace.tags(trace.of(work / "middle"), "stage") == {("one",), ("two",)}
    assert json.loads((work / "shared" / "run.json").read_text())["restarts"] == []


def test_a_hundred_jobs_at_once_into_one_run(traced_flux, work):
    words = [f"--cwd={work}", f"--setattr=user.trace.run={work}/shared", "--setattr=user.trace.stage=many"]
    jobs = traced_flux.ask("submit", "--cc=1-100", *words, "sh", "-c", "cat in > out.{cc}", timeout=120).split()
    assert len(jobs) == 100
    traced_flux.run("queue", "idle", timeout=300)
    trace = Trace(work / "shared")
    tasks = trace.tags([event for event in trace.events if event["name"] == "start"], "task")
    assert len(tasks) == 100
    seen = read_run(work / "shared")
    for i in range(1, 101):
        assert seen.written(work / f"out.{i}") == 5000
    assert json.loads((work / "shared" / "run.json").read_text())["restarts"] == []


def test_loaded_by_the_user_alone(flux, flux_plugins, work):
    environment = {**flux.env, "FLUX_SHELL_RC_PATH": str(flux_plugins.rc_folder)}
    job = flux.submit(f"--cwd={work}", STAGE, "cp", "in", "out", env=environment)
    other = flux.submit(f"--cwd={work}", "cp", "in", "out2", env=environment)
    flux.wait(job)
    flux.wait(other)
    (run,) = (work / "tailrace-runs").iterdir()
    trace = Trace(run)
    assert trace.tags(trace.of(work / "out"), "stage", "job") == {("s", f"/{job}")}
    assert not trace.of(work / "out2")


def test_an_invalid_request_without_a_jobtap_is_one_message(flux, flux_plugins, work):
    environment = {**flux.env, "FLUX_SHELL_RC_PATH": str(flux_plugins.rc_folder)}
    job = flux.submit(f"--cwd={work}", "--setattr=user.trace.stage=1.5", "cp", "in", "out", env=environment)
    flux.wait(job)
    done = flux.run("job", "attach", job, check=False)
    assert done.returncode == 0
    (line,) = warnings(done)
    assert "not traced: attributes.user.trace.stage is a real number" in line


def test_loaded_for_one_job_by_userrc(flux, flux_plugins, work):
    job = flux.submit(f"--cwd={work}", f"-ouserrc={flux_plugins.rc_folder}/tailrace.lua", STAGE, "cp", "in", "out")
    flux.wait(job)
    (run,) = (work / "tailrace-runs").iterdir()
    assert Trace(run).of(work / "out")


def test_loaded_twice_it_traces_once(traced_flux, flux_plugins, work):
    environment = {**traced_flux.env, "FLUX_SHELL_RC_PATH": str(flux_plugins.rc_folder)}
    job = traced_flux.submit(f"--cwd={work}", STAGE, "sh", "-c", "cp in out", env=environment)
    traced_flux.wait(job)
    (run,) = (work / "tailrace-runs").iterdir()
    assert status_of(traced_flux, job) == 0
    assert Trace(run).tags(Trace(run).of(work / "out"), "stage") == {("s",)}


@pytest.mark.parametrize("words", [(), (STAGE,)], ids=["untraced", "traced"])
def test_a_second_copy_replaces_the_first(traced_flux, work, second_copy, words):
    job = traced_flux.submit(
        f"--cwd={work}", *words, "-n2", "sh", "-c", "cp in out.$FLUX_TASK_RANK", env={**traced_flux.env, **second_copy}
    )
    traced_flux.wait(job)
    done = traced_flux.run("job", "attach", job, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert status_of(traced_flux, job) == 0
    runs = list(work.glob("tailrace-runs/*"))
    assert len(runs) == bool(words)
    for run in runs:
        assert Trace(run).tags(Trace(run).of(work / "out.1"), "stage", "rank") == {("s", "1")}


def test_an_rc_file_naming_a_missing_plugin_fails_no_job(flux, flux_plugins, work):
    moved = work / "etc" / "shell"
    moved.mkdir(parents=True)
    shutil.copy(flux_plugins.rc_folder / "tailrace.lua", moved)
    job = flux.submit(f"--cwd={work}", STAGE, "true", env={**flux.env, "FLUX_SHELL_RC_PATH": str(moved)})
    flux.wait(job)
    assert status_of(flux, job) == 0


POST = """
import flux, json, sys
flux.Flux().rpc("job-manager.post-event.post", json.loads(sys.argv[1])).get()
"""


def test_an_event_of_another_version_leaves_the_job_untraced(traced_flux, work):
    job = traced_flux.submit(f"--cwd={work}", "--urgency=hold", "-o", "verbose", "cp", "in", "out")
    number = int(traced_flux.ask("job", "id", "--to=dec", job))
    for context in ({"version": 2}, {"version": "1"}):
        event = {"id": number, "name": "tailrace.trace", "context": context}
        traced_flux.run("python", "-c", POST, json.dumps(event))
    traced_flux.run("job", "urgency", job, "default")
    traced_flux.wait(job)
    done = traced_flux.run("job", "attach", job, check=False)
    assert done.returncode == 0
    assert "not traced: the event tailrace.trace is of another version" in done.stderr


def test_a_fault_is_said_to_who_asked_and_to_nobody_else(start_traced_flux, tmp_path):
    instance = start_traced_flux("jobs=all", "run=/proc/none", cwd=tmp_path)
    said = [
        instance.run("run", *words, "echo", "fine").stderr
        for words in ([], ["--setattr=user.trace=true"], ["-o", "verbose"])
    ]
    assert said[0] == ""
    for text in said[1:]:
        assert "not traced: can't create the run directory /proc/none" in text
