"""What waits in a node's journals is recovered, or said, when a run is read; `tailrace seal --all` finds all of it."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from support.commands import TAILRACE, TracedCommand
from support.ordinary_user import UNNAMED as STRANGER
from support.ordinary_user import become, reach
from support.truth import read_run
from tailrace import _native
from tailrace.integrations import recovery

Cli = Callable[..., "subprocess.CompletedProcess[str]"]

READS = 300
WAITS = f"""
    import os, sys, time
    fd = os.open("/etc/passwd", os.O_RDONLY)
    for _ in range({READS}): os.pread(fd, 1, 0)
    open(sys.argv[1], "w").write(str(os.getpid()))
    time.sleep(600)
"""
"""A program that has made its reads, says its pid, and waits for its end."""
WAITING = [sys.executable, "-c", textwrap.dedent(WAITS)]


def pid_in(path: Path) -> int:
    """The pid that a waiting program wrote."""
    for _ in range(3000):
        with suppress(FileNotFoundError, ValueError):
            return int(path.read_text())
        time.sleep(0.02)
    raise AssertionError(f"{path} was not written")


def end(pid: int) -> None:
    """Kills a process and waits until it is gone, whoever its parent is."""
    os.kill(pid, signal.SIGKILL)
    for _ in range(3000):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state == "Z":
            return
        time.sleep(0.02)


def reads(run: Path) -> int:
    return len([event for event in read_run(run).events if event["name"] == "pread"])


@pytest.fixture
def outliving(run_traced: TracedCommand, tmp_path: Path) -> Iterator[int]:
    """A process that outlives its traced command."""
    run_traced("sh", "-c", '"$@" > /dev/null 2>&1 & exec true', "sh", *WAITING, tmp_path / "pid")
    pid = pid_in(tmp_path / "pid")
    yield pid
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("command", [["info"], ["report"], ["query", "--by", "name"]], ids=lambda words: words[0])
def test_a_process_that_outlives_its_command(
    cli: Cli, run_traced: TracedCommand, outliving: int, command: list[str]
) -> None:
    run = run_traced.run
    during = cli(command[0], run, *command[1:])
    assert "1 process still running: what it has not written yet is not in here" in during.stderr
    assert reads(run) == 0
    end(outliving)
    after = cli(command[0], run, *command[1:])
    assert re.search(r"recovered [\d,]+ events from 1 journal of processes that had ended", after.stderr), after.stderr
    assert "still running" not in after.stderr
    assert reads(run) == READS
    assert cli(command[0], run, *command[1:]).stderr == ""


def test_a_launcher_that_was_killed(cli: Cli, tmp_path: Path) -> None:
    words = [*TAILRACE, "run", "-o", tmp_path / "run", *WAITING, tmp_path / "pid"]
    with subprocess.Popen(list(map(str, words))) as launcher:
        pid = pid_in(tmp_path / "pid")
        launcher.kill()
    end(pid)
    found = recovery.recover(tmp_path / "run")
    assert found is not None and found.journals == 1 and found.events > READS
    assert reads(tmp_path / "run") == READS


def test_the_chosen_directory_of_a_run_is_remembered(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "chosen").mkdir()
    words = [*TAILRACE, "run", "-o", tmp_path / "run", *WAITING, tmp_path / "pid"]
    env = {**os.environ, "TAILRACE_JOURNAL_DIR": str(tmp_path / "chosen")}
    with subprocess.Popen(list(map(str, words)), env=env) as launcher:
        pid = pid_in(tmp_path / "pid")
        launcher.kill()
    end(pid)
    assert "recovered" in cli("info", tmp_path / "run").stderr
    assert reads(tmp_path / "run") == READS


@pytest.mark.root("mounts a small file system")
def test_a_full_run_directory(cli: Cli, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "none", run], check=True)
    try:
        script = f"head -c 60000 /dev/zero > {run}/filler; dd if=/dev/zero of=/dev/null bs=1 count=30000 status=none"
        cli("run", "-o", run, "sh", "-c", script)
        full = cli("info", run)
        assert re.search(
            r"[\d,]+ events of [1-9]\d* journals? are not in here, because .* is not writable", full.stderr
        )
        before = len(read_run(run).events)
        (run / "filler").unlink()
        subprocess.run(["mount", "-o", "remount,size=16m", run], check=True)
        assert "recovered" in cli("info", run).stderr
        assert len(read_run(run).events) > before
    finally:
        subprocess.run(["umount", "-l", run], check=True)


def test_a_directory_that_is_no_run_of_ours_is_left_alone(tmp_path: Path) -> None:
    assert recovery.recover(tmp_path / "missing") is None
    (tmp_path / "run").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run/trace").symlink_to(tmp_path / "elsewhere")
    assert recovery.recover(tmp_path / "run") is None


def test_journals_of_another_version_are_counted(cli: Cli, run_traced: TracedCommand) -> None:
    run_traced("true")
    place = Path(_native.journal_directory(str(run_traced.run.resolve()), "/dev/shm"))
    place.mkdir(mode=0o700, parents=True)
    try:
        (place / "vm-17-abc.0.tj").write_bytes(b"TRJL" + bytes(8192))
        (place / "vm-18-abc.0.tj").symlink_to("/etc/passwd")
        os.mkfifo(place / "vm-19-abc.0.tj")
        assert "1 journal of another version of tailrace" in cli("info", run_traced.run).stderr
    finally:
        shutil.rmtree(place)


# --- seal --all, where nothing but the test's own journals is ------------------------------------------------------

NAMESPACE = ["unshare", "--mount", "--propagation", "private"]
ALONE = "mount -t tmpfs -o mode=1777 none /dev/shm; mount -t tmpfs -o mode=1777 none /mnt; cd /mnt; "
TAILRACE_WORDS = " ".join(TAILRACE)
PYTHON = f"{sys.executable} waits.py"
KILLED = """
killed() {  # RUN [PREFIX...]: runs the waiting program traced into RUN, and kills it and its launcher
  run=$1; shift; rm -f pid
  "$@" TAILRACE run -q -o $run PYTHON pid & launcher=$!
  until [ -s pid ]; do sleep 0.05; done
  pid=$(cat pid); "$@" kill -9 $launcher $pid
  while [ -d /proc/$pid ]; do sleep 0.05; done; wait 2> /dev/null
}
"""


def alone(tmp_path: Path, script: str) -> "subprocess.CompletedProcess[str]":
    """Runs a shell script where /dev/shm and the working directory, /mnt, are empty and of its own."""
    if subprocess.run([*NAMESPACE, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no mount namespaces here")
    (tmp_path / "waits.py").write_text(textwrap.dedent(WAITS))
    begin = f"{ALONE} cp {tmp_path}/waits.py .; chmod 644 waits.py; "
    text = (begin + KILLED + script).replace("TAILRACE ", f"{TAILRACE_WORDS} ").replace("PYTHON", PYTHON)
    words = [*NAMESPACE, *reach(tmp_path), "bash", "-uc", text]
    return subprocess.run(words, check=False, capture_output=True, text=True, timeout=300)


ROOT = pytest.mark.root("becomes another user, and mounts a /dev/shm of its own")


@ROOT
def test_all_journals_of_a_user(tmp_path: Path) -> None:
    done = alone(
        tmp_path,
        """
        killed one; killed two; killed gone; rm -r gone
        TAILRACE_STORE=store TAILRACE seal --all; echo "-> $?"
        TAILRACE query one --by name --format csv | grep pread
        echo "$(ls -d store/data/*/*/e-* | wc -l) in the store"
        TAILRACE seal --all --remove; echo "-> $?"
        TAILRACE seal --all; echo "-> $?"
        find /dev/shm -type f
        """,
    )
    first, second, third = done.stdout.split("->")[0:3]
    assert re.search(r"/mnt/one: recovered [\d,]+ events from 1 journal", first), done
    assert re.search(r"/mnt/two: recovered [\d,]+ events from 1 journal", first)
    assert re.search(r"/mnt/gone: the run is gone: 1 journal of it, .* `tailrace seal --all --remove`", first)
    assert re.search(rf"pread.*\b{READS}\b", second)
    assert "2 in the store" in second, done
    assert "/mnt/gone: the run is gone: removed 1 journal of it" in second and "/mnt/one" not in second
    assert third.split() == ["0"] and done.stdout.endswith("-> 0\n"), done.stdout


@ROOT
def test_root_seals_the_journals_of_all_users_with_their_rights(tmp_path: Path) -> None:
    user = shlex.join(become(STRANGER))
    done = alone(
        tmp_path,
        f"""
        mkdir home; chown {STRANGER} home
        killed home/run {user}
        TAILRACE info home/run > /dev/null
        TAILRACE seal --all; echo "-> $?"
        stat -c "%u %a" home/run/trace/*
        TAILRACE query home/run --by name --format csv | grep pread
        """,
    )
    assert f"1 journal of user {STRANGER} on this node are not in here: run `tailrace seal --all`" in done.stderr, done
    assert re.search(rf"user {STRANGER}: /mnt/home/run: recovered [\d,]+ events from 1 journal", done.stdout)
    assert f"{STRANGER} 600" in done.stdout and re.search(rf"pread.*\b{READS}\b", done.stdout)


@ROOT
def test_a_hostile_users_journals_change_nothing_of_others(tmp_path: Path) -> None:
    user = shlex.join(become(STRANGER))
    done = alone(
        tmp_path,
        f"""
        mkdir home; chown {STRANGER} home
        mkdir -p victim/trace
        killed home/run {user}
        own=$(echo /dev/shm/tailrace-{STRANGER}/*)
        # The journal names a trace file of root's run, which has that key.
        key=$({sys.executable} -c "from tailrace import _native; print(_native.journal_directory('/mnt/victim', '/x'))")
        key=$(basename $key)
        {user} {sys.executable} - $own/*.0.tj <<'END'
import sys
data = open(sys.argv[1], "rb").read()
old, new = b"/mnt/home/run/trace/", b"/mnt/victim/trace/aa"
assert len(old) == len(new) and old in data
open(sys.argv[1], "wb").write(data.replace(old, new))
END
        {user} mv $own /dev/shm/tailrace-{STRANGER}/$key
        {user} ln -s /mnt/victim /dev/shm/tailrace-{STRANGER}/0123456789abcdef
        {user} mkfifo /dev/shm/tailrace-{STRANGER}/$key/vm-9-9.0.tj
        {user} ln -s /etc/shadow /dev/shm/tailrace-{STRANGER}/$key/vm-9-9.1.tj
        ln -s /etc /dev/shm/tailrace-1234
        mkdir /dev/shm/tailrace-4321
        TAILRACE seal --all --remove; echo "-> $?"
        find victim -type f
        """,
    )
    assert f"user {STRANGER}: /mnt/victim: 1 journal of no process of this run: left alone" in done.stdout, done
    assert done.stdout.endswith("-> 0\n"), done.stdout
    assert "1234" not in done.stdout and "4321" not in done.stdout


def test_all_and_a_directory_exclude_each_other(cli: Cli, tmp_path: Path) -> None:
    for words in ([], [tmp_path, "--all"], [tmp_path, "--remove"]):
        assert cli("seal", *words).returncode == 2
