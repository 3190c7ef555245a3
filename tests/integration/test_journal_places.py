"""Where journals are, and what is said where none can be made: never that nothing was lost."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.commands import TAILRACE
from support.kill_rounds import block_headers
from support.ordinary_user import UNNAMED as STRANGER
from support.ordinary_user import become
from support.truth import read_run
from tailrace import _native
from tailrace.integrations.environment import task_environment

Cli = Callable[..., "subprocess.CompletedProcess[str]"]

MOUNTS = pytest.mark.root("mounts a file system over /dev/shm, in a mount namespace of its own")
AS_STRANGER = shlex.join(become(STRANGER))
EMPTY = "mount -t tmpfs -o mode=1777 none /dev/shm; "
TAKEN = EMPTY + f"{AS_STRANGER} mkdir -m 777 /dev/shm/tailrace-0; "
A_LINK = EMPTY + f"{AS_STRANGER} ln -s /root /dev/shm/tailrace-0; "
FULL = "mount -t tmpfs -o mode=1777,size=4k none /dev/shm; "
MISSING = "mount -t tmpfs -o mode=555 none /dev; "
WITHOUT_USERS = "mkdir -p /run/user; mount -t tmpfs none /run/user; "
"""No systemd, or a user without a session."""
FILES = "cp given copied; bash -c 'cp given killed; echo x > last; kill -9 $$'; exec cp killed again"


def in_namespace(tmp_path: Path, mounts: str, script: str) -> "subprocess.CompletedProcess[str]":
    """Runs a traced script where the file systems are as `mounts`, shell commands, makes them."""
    (tmp_path / "given").write_bytes(b"given" * 1000)
    words = ["unshare", "--mount", "--propagation", "private", "bash", "-c", f'{mounts} "$@"', "bash"]
    if subprocess.run([*words[:-2], "true"], check=False, capture_output=True).returncode:
        pytest.skip("no mount namespaces here")
    words += [*TAILRACE, "run", "-o", "run", "bash", "-c", script]
    return subprocess.run(words, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=120)


@MOUNTS
@pytest.mark.parametrize("mounts", [TAKEN, A_LINK, FULL, MISSING], ids=["taken", "a link", "full", "missing"])
def test_another_place_is_used_where_the_default_is_unusable(tmp_path: Path, mounts: str) -> None:
    done = in_namespace(tmp_path, WITHOUT_USERS + mounts, f"ls -d run/journals/*/tailrace-0/* >&2; {FILES}")
    assert "nothing lost" in done.stderr and "run/journals/" in done.stderr, done.stderr
    seen = read_run(tmp_path / "run")
    for name in ("copied", "killed", "last", "again"):
        assert seen.written(tmp_path / name) == (tmp_path / name).stat().st_size, name
    # Sealed, though one process was killed, and nothing is left.
    assert not (tmp_path / "run/journals").exists()
    assert not list(Path("/root").glob("[0-9a-f]" * 16))


@MOUNTS
def test_nothing_is_lost_where_a_file_system_is_mounted_over_the_place(tmp_path: Path) -> None:
    covered = f"bash -c 'cp given before; echo x > kept; {EMPTY}kill -9 $$'; "
    done = in_namespace(tmp_path, WITHOUT_USERS, covered + FILES)
    assert "nothing lost" in done.stderr and "removed" not in done.stderr, done.stderr
    seen = read_run(tmp_path / "run")
    for name in ("before", "kept", "copied", "killed", "last", "again"):
        assert seen.written(tmp_path / name) == (tmp_path / name).stat().st_size, name
    programs = [Path(event["args"]["argv"][0]).name for event in seen.named("start")]
    assert programs.count("mount") == 1


@MOUNTS
def test_without_proc_a_command_is_recorded_all_the_same(tmp_path: Path) -> None:
    done = in_namespace(tmp_path, "umount -l /proc; ", FILES)
    assert done.returncode == 0, done.stderr
    seen = read_run(tmp_path / "run")
    for name in ("copied", "killed", "last", "again"):
        assert seen.written(tmp_path / name) == (tmp_path / name).stat().st_size, name


@MOUNTS
def test_the_users_own_temporary_directory_comes_before_the_run(tmp_path: Path) -> None:
    users = "mkdir -p /run/user; mount -t tmpfs none /run/user; mkdir -m 700 /run/user/0; "
    done = in_namespace(tmp_path, TAKEN + users, f"ls /run/user/0/tailrace-0/*/*.tj | wc -l >&2; {FILES}")
    assert "nothing lost" in done.stderr and done.stderr.split()[0] != "0", done.stderr
    assert not (tmp_path / "run/journals").exists()


@pytest.mark.parametrize("chosen", ["/nonexistent", "relative", "a file"])
def test_a_bad_directory_is_refused(cli: Cli, tmp_path: Path, chosen: str) -> None:
    (tmp_path / "a file").write_text("x")
    given = str(tmp_path / chosen) if chosen == "a file" else chosen
    done = cli("run", "-o", "run", "touch", "made", cwd=tmp_path, env={**os.environ, "TAILRACE_JOURNAL_DIR": given})
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert f"TAILRACE_JOURNAL_DIR is {given}: " in line and "unset it" in line
    assert not (tmp_path / "made").exists() and not (tmp_path / "run").exists()


@pytest.mark.root("makes a directory of another user")
def test_a_chosen_directory_with_anothers_in_it_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "tailrace-0").mkdir()
    os.chown(tmp_path / "tailrace-0", STRANGER, STRANGER)
    env = {**os.environ, "TAILRACE_JOURNAL_DIR": str(tmp_path)}
    done = cli("run", "-o", "run", "true", cwd=tmp_path, env=env)
    assert done.returncode == 2 and "another user has made tailrace-0 in it" in done.stderr


def test_a_pool_with_a_bad_directory_runs_untraced_and_says_so(tmp_path: Path) -> None:
    settings = [f"TAILRACE_RUN={tmp_path / 'run'}", "TAILRACE_JOURNAL_DIR=/nonexistent", "OTHER=1"]
    command = ["sh", "-c", 'echo "$OTHER$TAILRACE_RUN"']
    words = [sys.executable, "-m", "tailrace.integrations.pool", *settings, "--", *command]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert "not traced: TAILRACE_JOURNAL_DIR is /nonexistent: No such file or directory" in done.stderr


def test_attaching_with_a_bad_directory_is_refused(tmp_path: Path) -> None:
    code = f"from tailrace.integrations.environment import attach; attach({str(tmp_path)!r})"
    env = {**os.environ, "TAILRACE_JOURNAL_DIR": "/nonexistent"}
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, env=env)
    assert "UsageError: TAILRACE_JOURNAL_DIR is /nonexistent" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_process_without_a_journal_says_so_in_the_run(cli: Cli, tmp_path: Path) -> None:
    run = tmp_path / "run"
    cli("run", "-o", run, "true")
    before = json.loads(cli("info", run, "--format", "json").stdout)
    assert before["losses"] == []
    env = {**os.environ, "TAILRACE_JOURNAL_DIR": "/nonexistent"}
    for command in (["cat", "/etc/passwd"], ["sh", "-c", "kill -9 $$"]):
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL, env=task_environment(run, "", env))
    info = json.loads(cli("info", run, "--format", "json").stdout)
    found = {(loss["cause"], loss["unit"]): loss["count"] for loss in info["losses"]}
    assert found["no_journal", "processes"] == 2 and found["no_journal", "events"] > 4
    assert info["processes"] == before["processes"] + 2
    shown = cli("info", run).stdout
    assert "2 processes recorded nothing" in shown
    assert "no journal: /nonexistent: No such file or directory" in shown
    assert "started without the settings" not in shown
    said = " ".join(cli("report", run).stdout.split())
    assert "2 processes recorded nothing (no journal: /nonexistent: No such file or directory)" in said


def test_children_and_later_programs_of_such_a_process_say_so(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "trace").mkdir(parents=True)
    env = task_environment(run, "", {**os.environ, "TAILRACE_JOURNAL_DIR": "/nonexistent"})
    subprocess.run(["bash", "-c", "(:); (cat /etc/passwd); exec wc /etc/passwd"], check=True, env=env)
    started = [event["args"] for event in read_run(run).events if event["name"] == "start"]
    assert sorted(Path(args["exe"]).name for args in started) == ["bash", "bash", "bash", "cat", "wc"]
    assert all(args["no_journal"]["errno"] == 2 for args in started)


@MOUNTS
def test_the_summary_says_what_recorded_nothing(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "run/trace").mkdir(parents=True)
    (tmp_path / "run/journals").write_text("in the way")
    done = in_namespace(tmp_path, WITHOUT_USERS + TAKEN, "cp given copied")
    assert "2 processes recorded nothing (no journal: /dev/shm: Permission denied)" in done.stderr, done.stderr
    assert "LOST" in done.stderr and "nothing lost" not in done.stderr
    shown = cli("info", tmp_path / "run").stdout
    assert "no journal: /dev/shm: Permission denied" in shown and "started without" not in shown


def test_a_command_without_a_trace_is_not_called_lossless(cli: Cli, tmp_path: Path) -> None:
    done = cli("run", "-o", "run", "no-such-command", cwd=tmp_path)
    assert "0 processes" in done.stderr and "nothing recorded" in done.stderr and "nothing lost" not in done.stderr


def test_the_places_of_a_run(tmp_path: Path) -> None:
    places = _native.journal_directories(str(tmp_path), "/dev/shm")
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    uid = os.geteuid()
    assert [str(Path(place).parent.parent) for place in places] == [
        "/dev/shm",
        f"/run/user/{uid}",
        f"{tmp_path}/journals/{boot}",
    ]
    assert {Path(place).parent.name for place in places} == {f"tailrace-{uid}"}
    assert _native.journal_directories(str(tmp_path), "/scratch") == [
        _native.journal_directory(str(tmp_path), "/scratch")
    ]


def test_a_check_leaves_nothing_but_the_users_directory(tmp_path: Path) -> None:
    assert _native.journal_fault(str(tmp_path)) == ""
    (made,) = tmp_path.iterdir()
    assert made.name == f"tailrace-{os.geteuid()}" and made.stat().st_mode & 0o777 == 0o700
    assert not list(made.iterdir())


def test_what_is_lost_after_the_end_was_sealed_is_counted(program: Callable[[str], Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "trace").mkdir(parents=True)
    env = task_environment(run, "", {**os.environ, "TAILRACE_JOURNAL_DIR": str(tmp_path)})
    subprocess.run([program("late_loss"), "/etc/passwd", "20"], check=True, env=env)
    left = _native.seal_journals(str(run), str(tmp_path))
    assert not left["alive"] and not left["failed"]
    lost = sum(header.get("lost", {}).get("no_journal", 0) for header in block_headers(run))
    recorded = [event for event in read_run(run).events if event["name"] == "pread"]
    assert not recorded and lost >= 21, "the thread's open and its reads"
    assert lost < 30, "each once"
