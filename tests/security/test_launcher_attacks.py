"""A hostile program or user against the launcher: its command keeps its exit code, and root does nothing for him."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support import trace_writer as tw
from support.commands import TAILRACE
from support.ordinary_user import ID as STRANGER
from tailrace import _native
from tailrace.integrations import recovery, user_process


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    "header",
    [{"read": "x"}, {"lost": {"x": "y"}}, {"lost": [[1]]}, {"process": "abc"}, {"events": None}],
    ids=["text", "losses", "list", "process", "null"],
)
def test_a_forged_header_does_not_change_the_commands_exit_code(tmp_path: Path, header: dict[str, object]) -> None:
    (tmp_path / "forged").write_bytes(tw.block([tw.event()], header))
    run = tmp_path / "run"
    script = f"cp {tmp_path}/forged {run}/trace/n-9-1.pfw.gz; exit 7"
    words = [*TAILRACE, "run", "-o", str(run), "--", "sh", "-c", script]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 7, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("bytes_left", [0, 100, 4096, 20000])
def test_a_journal_that_is_cut_does_not_change_the_commands_exit_code(tmp_path: Path, bytes_left: int) -> None:
    """Reading a mapping behind the end of its file would end the launcher by SIGBUS."""
    script = f"""
sleep 100 & pid=$!
until ls {tmp_path}/tailrace-*/*/*-$pid-*.tj > {tmp_path}/found 2> /dev/null; do sleep 0.02; done
kill -9 $pid; wait $pid 2> /dev/null
truncate -s {bytes_left} $(cat {tmp_path}/found)
cp $(cat {tmp_path}/found) {tmp_path}/cut
exit 7
"""
    words = [*TAILRACE, "run", "-o", str(tmp_path / "run"), "--", "sh", "-c", script]
    environment = {**os.environ, "TAILRACE_JOURNAL_DIR": str(tmp_path)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert (tmp_path / "cut").stat().st_size == bytes_left
    assert (done.returncode, "Traceback" in done.stderr) == (7, False), done.stderr


def test_a_looping_link_in_a_run_does_not_keep_a_command_from_running(tmp_path: Path) -> None:
    run = tw.small_run(tmp_path / "run")
    (run / "trace" / "a.pfw.gz").symlink_to("a.pfw.gz")
    words = [*TAILRACE, "run", "-o", str(run), "--", "sh", "-c", "echo ran; exit 7"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (7, "ran\n"), done.stderr


@pytest.mark.root("gives directories to another user")
def test_a_link_in_the_place_of_an_announced_users_directory_is_not_followed(tmp_path: Path) -> None:
    """That user may put one there at any moment, so that root removes a directory in its target."""
    run = tw.small_run(tmp_path / "run")
    journals = Path(_native.journal_directory(str(run.resolve()), str(tmp_path)))
    journals.mkdir(mode=0o700, parents=True)
    (journals / f"{STRANGER}.uid").touch()
    (tmp_path / "target" / journals.name).mkdir(parents=True)
    for path in (tmp_path / "target", tmp_path / "target" / journals.name):
        os.chown(path, STRANGER, STRANGER)
    (tmp_path / f"tailrace-{STRANGER}").symlink_to(tmp_path / "target")
    _native.seal_journals(str(run), str(tmp_path))
    assert (tmp_path / "target" / journals.name).is_dir()
    (tmp_path / f"tailrace-{STRANGER}").unlink()
    (tmp_path / "target").rename(tmp_path / f"tailrace-{STRANGER}")
    _native.seal_journals(str(run), str(tmp_path))
    assert not (tmp_path / f"tailrace-{STRANGER}" / journals.name).exists(), "an empty one of his own is removed"


@pytest.mark.root("becomes another user")
@pytest.mark.parametrize("when", ["at the end", "never ends"])
def test_a_user_who_stops_the_sealing_of_his_journals_does_not_stop_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """The process that seals for a user has his rights, so he may send it SIGSTOP."""

    def stop(*_: object) -> list[recovery.Recovered]:
        os.kill(os.getpid(), signal.SIGSTOP)
        return []

    monkeypatch.setattr(user_process, "END_S", 0.5)
    if when == "at the end":
        monkeypatch.setattr(os, "_exit", stop)
    else:
        monkeypatch.setattr(recovery, "_ONE_USER_S", 2)
        monkeypatch.setattr(recovery, "_seal_users", stop)

    def hangs(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, hangs)
    signal.alarm(300)
    try:
        (found,) = recovery._as_user(STRANGER, [tmp_path], remove=False)
    finally:
        signal.alarm(0)
    why = {"at the end": "killed, since its process did not end", "never ends": "not done within 2 s"}[when]
    assert found.fault == f"sealing as user {STRANGER} failed: {why}"


def test_who_opens_journals_does_not_end_the_sealer(tmp_path: Path) -> None:
    """A lease that is broken sends its holder SIGIO, which would end it."""
    run = tw.small_run(tmp_path / "run")
    journals = Path(_native.journal_directory(str(run.resolve()), "/dev/shm"))
    journals.mkdir(mode=0o700, parents=True)
    try:
        for number in range(3000):
            (journals / f"z{number}.tj").touch()
        opens = "import os, sys\nwhile True:\n for n in os.listdir(sys.argv[1]):\n  try: os.close(os.open("
        opens += "sys.argv[1] + '/' + n, os.O_WRONLY | os.O_NONBLOCK))\n  except OSError: pass"
        opener = subprocess.Popen([sys.executable, "-c", opens, str(journals)])
        done = subprocess.run([*TAILRACE, "seal", str(run)], capture_output=True, text=True, check=False)
        opener.kill()
        opener.wait()
        assert done.returncode == 0, (done.returncode, done.stderr)
    finally:
        shutil.rmtree(journals, ignore_errors=True)
