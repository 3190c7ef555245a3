"""Other users' jobs for real: a Flux with flux-security, whose IMP starts each job's shell as the job's user.

That takes root, a flux-core that was configured with --with-flux-security ($TAILRACE_FLUX_SECURITY, else that of the
other tests), its flux-imp setuid with an [exec] allowed-users in PREFIX/etc/flux/imp/conf.d, and a munged that runs.
The first allowed user owns the instance; the guests are two users that every Linux has.
"""

import json
import os
import pwd
import re
import shutil
import stat
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

import tailrace
from support.commands import TAILRACE
from support.flux_instance import FluxInstance, find_flux, require_plugins
from support.ordinary_user import reach
from support.run_files import Trace
from support.truth import read_run
from tailrace import _native
from tailrace.flux.collect import parse_history

GUEST, OTHER = "nobody", "daemon"
STAGE = "--setattr=user.trace.stage=s"


def secured_flux():
    """The `flux` program, its IMP and the owner of instances; skips with what is missing."""
    named = os.environ.get("TAILRACE_FLUX_SECURITY")
    flux = Path(named) if named else find_flux()
    if os.geteuid() != 0:
        pytest.skip("only root can start an instance of another user")
    if flux is None or not flux.is_file():
        pytest.skip(f"no Flux: {flux or 'set TAILRACE_FLUX_SECURITY'}")
    prefix = flux.resolve().parent.parent
    imp = prefix / "libexec" / "flux" / "flux-imp"
    if not imp.is_file() or not imp.stat().st_mode & stat.S_ISUID:
        pytest.skip(f"{imp} is not there or not setuid: this Flux has no flux-security (set TAILRACE_FLUX_SECURITY)")
    files = sorted((prefix / "etc" / "flux" / "imp" / "conf.d").glob("*.toml"))
    allowed = re.search(r'allowed-users\s*=\s*\[\s*"([^"]+)"', "\n".join(file.read_text() for file in files))
    if not allowed:
        pytest.skip(f"{prefix}/etc/flux/imp/conf.d allows no user to use {imp}")
    if not shutil.which("munge") or subprocess.run(["munge", "-n"], capture_output=True, check=False).returncode:
        pytest.skip("no munged runs, with which Flux signs jobs")
    for user in (allowed[1], GUEST, OTHER):
        try:
            pwd.getpwnam(user)
        except KeyError:
            pytest.skip(f"there is no user {user}")
    return flux, imp, allowed[1]


@pytest.fixture(scope="module")
def place():
    """A folder that all users may enter; a path of pytest's is its user's alone."""
    with tempfile.TemporaryDirectory(prefix="tailrace-users-") as path:
        Path(path).chmod(0o755)
        yield Path(path)


@pytest.fixture(scope="module")
def start(place):
    """Starts an instance of the owner with both plugins, conf as KEY=VALUE for the jobtap plugin."""
    flux, imp, owner = secured_flux()
    plugins = require_plugins()
    if not all(path.stat().st_mode & 0o001 for path in plugins.jobtap.parents):
        pytest.skip(f"other users can't read {plugins.root}")
    table = place / "conf.toml"
    table.write_text(f'[access]\nallow-guest-user = true\nallow-root-owner = true\n[exec]\nimp = "{imp}"\n')
    own = subprocess.run([flux, "config", "builtin", "shell_pluginpath"], capture_output=True, text=True, check=True)
    path = f"-Sconf.shell_pluginpath={own.stdout.strip()}:{plugins.shell_folder}"
    running = []

    def begin(*conf):
        running.append(FluxInstance(flux, options=["-c", table, path], cwd=place, owner=owner))
        running[-1].run("jobtap", "load", plugins.jobtap, *conf, user=owner, extra_groups=[])
        return running[-1], owner

    yield begin
    for instance in running:
        instance.stop()


@pytest.fixture(scope="module")
def instance(start):
    return start()[0]


@pytest.fixture
def home(place):
    """A folder of the guest's own."""
    path = Path(tempfile.mkdtemp(dir=place))
    shutil.chown(path, GUEST)
    (path / "in").write_bytes(b"x" * 5000)
    return path


def as_user(instance, user, *words, cwd, check=True):
    """`flux WORDS...` as `user`."""
    return instance.run(*words, user=user, extra_groups=[], cwd=cwd, check=check)


def owners(folder):
    """The names of those who own the folder or something in it."""
    return {path.owner() for path in (folder, *folder.rglob("*"))}


def journals_of(user, run):
    """Where this user's journals of the run would be."""
    mine = Path(_native.journal_directory(str(run.resolve()), "/dev/shm"))
    return mine.parent.with_name(f"tailrace-{pwd.getpwnam(user).pw_uid}") / mine.name


def test_a_guests_job_is_traced_as_the_guest(instance, home):
    done = as_user(instance, GUEST, "run", STAGE, "sh", "-c", "id -un; cat in > out", cwd=home)
    assert (done.stdout, done.stderr) == (f"{GUEST}\n", "")
    (run,) = (home / "tailrace-runs").iterdir()
    assert owners(home / "tailrace-runs") == {GUEST}
    assert run.stat().st_mode & 0o777 == 0o700
    described = json.loads((run / "run.json").read_text())
    assert (described["user"], described["uid"]) == (GUEST, pwd.getpwnam(GUEST).pw_uid)
    trace = Trace(run)
    assert read_run(run).written(home / "out") == 5000
    assert trace.tags(trace.of(home / "out"), "stage", "task") == {("s", run.name)}
    assert {process["uid"] for process in trace.processes.values()} == {pwd.getpwnam(GUEST).pw_uid}
    assert not journals_of(GUEST, run).exists()


def test_records_of_a_guests_killed_task_are_sealed_by_the_guests_shell(instance, home):
    done = as_user(instance, GUEST, "run", STAGE, "sh", "-c", "cat in > out; kill -9 $$", cwd=home, check=False)
    assert done.returncode == 137
    (run,) = (home / "tailrace-runs").iterdir()
    trace = Trace(run)
    assert {Path(process["exe"]).name for process in trace.processes.values()} >= {"cat"}
    # The shell itself was killed, and what it had recorded is there.
    assert len(trace.processes) == 2
    assert not journals_of(GUEST, run).exists()


def test_a_guests_untraceable_task_shows_with_its_bytes(instance, home):
    program = Path(tempfile.mkdtemp(dir=home)) / "static"
    # A guest's shell can read the account of a task that lives for a moment: it is root's when the task is over.
    source = "#include <unistd.h>\nchar b[90000]; int main() { write(1, b, 90000); sleep(1); }\n"
    program.with_suffix(".c").write_text(source)
    if subprocess.run(["cc", "-w", "-static", "-o", program, program.with_suffix(".c")], check=False).returncode:
        pytest.skip("nothing static can be linked here")
    program.parent.chmod(0o755)
    as_user(instance, GUEST, "run", STAGE, program, cwd=home)
    (run,) = (home / "tailrace-runs").iterdir()
    # The shell writes it at its own end, which `flux run` does not wait for.
    end = time.monotonic() + 120
    while not any(path.stat().st_size for path in run.glob("accounts/*.json")) and time.monotonic() < end:
        time.sleep(0.05)
    assert any(path.stat().st_size for path in run.glob("accounts/*.json")), "the shell has not ended"
    (row,) = tailrace.open(run).coverage.itertuples()
    assert not row.traced and row.kernel_written >= 90_000 and row.cause.endswith("statically linked")


def test_another_users_run_is_unchanged(instance, home, place):
    as_user(instance, GUEST, "run", STAGE, f"--setattr=user.trace.run={home}/run", "cat", "in", cwd=home)
    before = sorted((home / "run").rglob("*"))
    desk = Path(tempfile.mkdtemp(dir=place))
    shutil.chown(desk, OTHER)
    wish = f"--setattr=user.trace.run={home}/run"
    done = as_user(instance, OTHER, "run", wish, "sh", "-c", "id -un; echo > out", cwd=desk)
    assert done.stdout == f"{OTHER}\n"
    assert "not traced: can't" in done.stderr
    assert sorted((home / "run").rglob("*")) == before


REQUEST = """
import flux, json, sys
try:
    flux.Flux().rpc(sys.argv[1], json.loads(sys.argv[2])).get()
except OSError as error:
    print(error)
"""


def test_a_guest_cannot_have_anothers_job_traced_or_the_plugin_changed(instance, home, place):
    desk = Path(tempfile.mkdtemp(dir=place))
    shutil.chown(desk, OTHER)
    job = as_user(instance, OTHER, "submit", "--urgency=hold", "cat", "/etc/hostname", cwd=desk).stdout.strip()
    number = int(instance.ask("job", "id", "--to=dec", job))
    event = {"version": 1, "library": f"{home}/mine.so", "run": str(home), "tags": {}}
    requests = {
        "job-manager.post-event.post": {"id": number, "name": "tailrace.trace", "context": event},
        "job-manager.memo": {"id": number, "memo": {"trace": {"stage": "theirs"}}},
        "job-manager.update": {"id": number, "updates": {"attributes.user.trace": True}},
        "job-manager.jobtap": {"load": "tailrace-jobtap.so", "conf": {"jobs": "all"}, "remove": "all"},
    }
    for topic, request in requests.items():
        answer = as_user(instance, GUEST, "python", "-c", REQUEST, topic, json.dumps(request), cwd=home)
        assert answer.stdout.strip(), topic
    # Nor its own: only the instance's owner posts events.
    own = as_user(instance, GUEST, "submit", "--urgency=hold", "true", cwd=home).stdout.strip()
    mine = {**requests["job-manager.post-event.post"], "id": int(instance.ask("job", "id", "--to=dec", own))}
    topic = "job-manager.post-event.post"
    assert as_user(instance, GUEST, "python", "-c", REQUEST, topic, json.dumps(mine), cwd=home).stdout.strip()
    as_user(instance, OTHER, "job", "urgency", job, "default", cwd=desk)
    as_user(instance, OTHER, "job", "wait-event", "--timeout=60", job, "clean", cwd=desk)
    log = as_user(instance, OTHER, "job", "eventlog", "--format=json", job, cwd=desk).stdout.splitlines()
    assert not {"tailrace.trace", "memo", "jobspec-update"} & {json.loads(line)["name"] for line in log}
    assert not list(desk.iterdir())


def test_a_guest_cannot_choose_the_library(instance, home):
    wish = f"--setattr=user.trace.library={home}/mine.so"
    done = as_user(instance, GUEST, "submit", wish, "true", cwd=home, check=False)
    assert done.returncode == 1
    assert 'attributes.user.trace has no key "library"' in done.stderr


def test_guests_get_the_library_of_the_configuration(instance, home):
    words = [
        "run",
        STAGE,
        "sh",
        "-c",
        "grep -c libtailrace.so /proc/self/maps > seen; grep libtailrace /proc/self/maps",
    ]
    done = as_user(instance, GUEST, *words, cwd=home)
    assert str(require_plugins().library) in done.stdout


def test_a_guests_history_has_only_its_own_jobs(instance, home, place):
    desk = Path(tempfile.mkdtemp(dir=place))
    shutil.chown(desk, OTHER)
    other = as_user(instance, OTHER, "submit", "--wait", STAGE, "true", cwd=desk).stdout.strip()
    own = as_user(instance, GUEST, "submit", "--wait", STAGE, "true", cwd=home).stdout.strip()
    script = Path(parse_history.__code__.co_filename).with_name("history.py")
    history = as_user(instance, GUEST, "python", script, cwd=home).stdout.splitlines()
    ((found,), unreachable) = parse_history(history)
    ids = {job["id"] for job in found.jobs}
    assert own in ids
    assert other not in ids
    assert {job["events"][0]["context"]["userid"] for job in found.jobs} == {pwd.getpwnam(GUEST).pw_uid}
    assert unreachable == []


def test_the_owner_follows_no_guests_memo(instance, home, place):
    job = as_user(instance, GUEST, "submit", "sleep", "60", cwd=home).stdout.strip()
    as_user(instance, GUEST, "job", "wait-event", "--timeout=60", job, "start", cwd=home)
    socket = f"uri=local://{home}/socket"
    as_user(instance, GUEST, "job", "memo", job, socket, cwd=home)
    script = Path(parse_history.__code__.co_filename).with_name("history.py")
    owner = secured_flux()[2]
    desk = Path(tempfile.mkdtemp(dir=place))
    shutil.chown(desk, owner)
    history = as_user(instance, owner, "python", script, cwd=desk).stdout.splitlines()
    (_, unreachable) = parse_history(history)
    as_user(instance, GUEST, "cancel", job, cwd=home)
    guest = pwd.getpwnam(GUEST).pw_uid
    assert (f"/{job}", f"it belongs to user {guest}, who can collect it") in unreachable


def desk_of(user, place):
    """A new folder of the user's."""
    desk = Path(tempfile.mkdtemp(dir=place))
    shutil.chown(desk, user)
    return desk


def collect(instance, user, *words, cwd):
    """`tailrace flux collect WORDS...` as `user`: the finished process."""
    ids = [f"--reuid={user}", f"--regid={pwd.getpwnam(user).pw_gid}", "--clear-groups"]
    command = [*reach(cwd), "setpriv", *ids, *TAILRACE, "flux", "collect", *map(str, words)]
    options = {"capture_output": True, "text": True, "check": False, "timeout": 120}
    return subprocess.run(command, env=instance.env, cwd=cwd, **options)


def declared_in(run):
    """The tasks and stages that the run's declared files have."""
    lines = [json.loads(line) for path in (run / "declared").iterdir() for line in path.read_text().splitlines()]
    return {(line["task"], line["stage"]) for line in lines if line["type"] == "task"}


def own_run(instance, owner, desk):
    """A run of the owner's: its path, and its job's id in ASCII."""
    job = as_user(instance, owner, "submit", "--wait", STAGE, f"--setattr=user.trace.run={desk}/run", "true", cwd=desk)
    return desk / "run", job.stdout.strip().replace("ƒ", "f")


def test_what_a_guest_writes_into_its_shells_log_ends_no_collection(start, place):
    instance, owner = start()
    desk, home = desk_of(owner, place), desk_of(GUEST, place)
    run, task = own_run(instance, owner, desk)
    lines = ["no JSON", "[" * 100000, "7", "{}", '{"name":"shell.start","timestamp":1e300}', '{"name":"shell.start"}']
    (home / "log").write_text("\n".join(lines))
    job = as_user(instance, GUEST, "submit", "sh", "-c", "flux kvs put --raw exec.eventlog=- < log", cwd=home)
    as_user(instance, GUEST, "job", "wait-event", "--timeout=60", job.stdout.strip(), "clean", cwd=home)
    kept = as_user(instance, GUEST, "job", "info", job.stdout.strip(), "guest.exec.eventlog", cwd=home).stdout
    assert lines[1] in kept
    done = collect(instance, owner, cwd=desk)
    assert done.returncode == 0, done.stderr
    assert (task, "s") in declared_in(run)


@pytest.mark.parametrize("collector", ["owner", "root"])
def test_a_guests_run_that_cannot_be_written_is_left_out_and_listed(start, place, collector):
    instance, owner = start()
    desk, home = desk_of(owner, place), desk_of(GUEST, place)
    run, task = own_run(instance, owner, desk)
    as_user(instance, GUEST, "run", STAGE, f"--setattr=user.trace.run={home}/private/run", "true", cwd=home)
    (home / "private").chmod(0o700)
    if collector == "root":
        # Root may write everywhere: here the run's declarations are a link to the owner's.
        (home / "private" / "run" / "declared").symlink_to(desk)
    words = ["--flux", instance.flux]
    done = collect(instance, owner if collector == "owner" else "root", *words, cwd=desk)
    assert done.returncode == 0, done.stderr
    assert f"{home}/private/run" in done.stderr
    assert (task, "s") in declared_in(run)
    assert sorted(path.name for path in desk.iterdir()) == ["run"]


def test_root_leaves_a_guests_declarations_to_the_guest(start, place):
    instance, _ = start()
    home = desk_of(GUEST, place)
    words = ["submit", "--wait", STAGE, f"--setattr=user.trace.run={home}/run", "true"]
    task = as_user(instance, GUEST, *words, cwd=home).stdout.strip().replace("ƒ", "f")
    assert collect(instance, "root", cwd=place).returncode == 0
    assert (task, "s") in declared_in(home / "run")
    assert owners(home) == {GUEST}
    # The guest goes on with what root wrote.
    assert collect(instance, GUEST, cwd=home).returncode == 0
    assert owners(home) == {GUEST}


@pytest.mark.parametrize("words", [(), ("DIR",)], ids=["every run", "one run"])
def test_a_guests_job_enters_no_run_of_another_user(start, place, words):
    instance, owner = start()
    desk, home = desk_of(owner, place), desk_of(GUEST, place)
    run, task = own_run(instance, owner, desk)
    claims = [f"--setattr=user.trace.{key}={value}" for key, value in {"run": run, "task": task}.items()]
    guests = as_user(instance, GUEST, "submit", "--wait", *claims, "--job-name=planted", "true", cwd=home).stdout
    plain = as_user(instance, GUEST, "submit", "--wait", "--job-name=planted", "true", cwd=home).stdout
    done = collect(instance, owner, *([run] if words else []), cwd=desk)
    assert done.returncode == 0, done.stderr
    assert {stage for _, stage in declared_in(run)} == {"s"}
    assert not {job.strip().replace("ƒ", "f") for job in (guests, plain)} & {name for name, _ in declared_in(run)}


def test_a_guests_instance_enters_no_run_of_another_user(start, place):
    """A guest's batch job runs an instance that claims the owner's path, host, run and task; the owner collects."""
    instance, owner = start()
    desk, home = desk_of(owner, place), desk_of(GUEST, place)
    run, task = own_run(instance, owner, desk)
    script = home / "script"
    claims = f"--setattr=user.trace.run={run} --setattr=user.trace.task={task}"
    waiting = "touch ready; while [ -e ready ]; do sleep 0.1; done"
    script.write_text(f"#!/bin/sh\nflux submit --wait --job-name=planted {claims} true\n{waiting}\n")
    script.chmod(0o755)
    words = [f"--cwd={home}", "--output=output", f"--setattr=user.trace.run={run}"]
    job = as_user(instance, GUEST, "batch", "-n1", *words, script, cwd=home).stdout.strip()
    as_user(instance, GUEST, "job", "wait-event", "--timeout=60", job, "memo", cwd=home)
    done = collect(instance, owner, cwd=desk)
    (home / "ready").unlink(missing_ok=True)
    as_user(instance, GUEST, "cancel", job, cwd=home)
    assert done.returncode == 0, done.stderr
    assert declared_in(run) == {(task, "s")}
    assert f"job /{job} (it belongs to user" in done.stderr


def test_the_owners_jobs_are_traced_beside_the_guests(instance, place):
    owner = secured_flux()[2]
    desk = Path(tempfile.mkdtemp(dir=place))
    shutil.chown(desk, owner)
    assert as_user(instance, owner, "run", STAGE, "sh", "-c", "id -un > out", cwd=desk).stderr == ""
    (run,) = (desk / "tailrace-runs").iterdir()
    assert owners(run) == {owner}
    assert Trace(run).of(desk / "out")


def test_guests_are_untraced_where_the_configuration_excludes_them(start, home, place):
    instance, owner = start("jobs=all", "guests=false", "run=tailrace-runs/{{id.f58plain}}")
    assert as_user(instance, GUEST, "run", STAGE, "cp", "in", "out", cwd=home).stderr == ""
    assert not (home / "tailrace-runs").exists()
    desk = Path(tempfile.mkdtemp(dir=place))
    shutil.chown(desk, owner)
    as_user(instance, owner, "run", "sh", "-c", "echo > out", cwd=desk)
    assert list((desk / "tailrace-runs").iterdir())
