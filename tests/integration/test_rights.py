"""A process that gives up its rights, its root or its descriptors, or has process numbers of its own, loses no event
for that, and what it must lose is counted."""

import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.commands import TAILRACE, TracedCommand, run_cli
from support.harm import Harm, Outcome, Program
from support.ordinary_user import become, reach
from tailrace import _native

pytestmark = pytest.mark.root("gives up rights that only root has")


def journals(run: Path) -> Iterator[Path]:
    """What is left of the run's journals, whichever user they belong to."""
    key = Path(_native.journal_directory(str(run.resolve()), "/dev/shm")).name
    for directory in Path("/dev/shm").glob(f"tailrace-*/{key}"):
        yield from directory.iterdir()


def accounted(done: Outcome) -> int:
    """The reads that are in the trace, and the events that the summary counts as lost."""
    lost = re.search(r"([\d,]+) events LOST", done.stderr)
    return len(done.seen.named("pread")) + (int(lost[1].replace(",", "")) if lost else 0)


WAYS = ["setuid", "seteuid", "setreuid", "setresuid", "setfsuid", "raw"]
ROOTS = ["chroot", "jail"]


@pytest.mark.parametrize("how", [*WAYS, *ROOTS])
def test_a_daemon_that_gives_up_its_rights_loses_nothing(harm: Harm, program: Program, how: str) -> None:
    done = harm(program("rights"), how, "3000", "4", "2000")
    assert "no loss known" in done.stderr, done.stderr  # who has no rights can't read his account
    assert accounted(done) == 3000 + 4 * 2000
    assert list(journals(done.run)) == []


@pytest.mark.parametrize("how", ["setuid", "seteuid"])
def test_journals_of_another_user_still_grow(harm: Harm, program: Program, how: str) -> None:
    done = harm(program("rights"), how, "60000", "2", "20000")
    assert "no loss known" in done.stderr, done.stderr  # who has no rights can't read his account
    assert accounted(done) == 100_000


@pytest.mark.parametrize("how", ROOTS)
def test_records_without_room_behind_a_chroot_are_counted(harm: Harm, program: Program, how: str) -> None:
    done = harm(program("rights"), how, "60000", "12", "6000")
    assert len(done.seen.named("pread")) > 20_000
    expected = 60_000 + 12 * 6000
    # Events that are no reads (start, exit, chroot and the like) are lost and counted too.
    assert expected <= accounted(done) <= expected + 200
    assert list(journals(done.run)) == []


def test_a_program_executed_by_another_user_is_recorded(harm: Harm, program: Program, tmp_path: Path) -> None:
    words = ("setuid", "10", "2", "10", shutil.which("cat") or "cat", "given")
    done = harm(program("rights"), *words, prefix=reach(tmp_path))
    assert done.seen.read(done.work / "given") == 30 + len("given to the program\n")
    assert list(journals(done.run)) == []


def test_a_program_whose_user_has_no_place_for_its_records_is_named(
    run_traced: TracedCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    monkeypatch.setenv("TAILRACE_JOURNAL_DIR", str(closed))
    (run_traced.work / "given").write_bytes(b"x" * 9000)
    words = [*become(), "sh", "-c", "cat < /proc/self/fd/7 > /dev/null"]
    run_traced("sh", "-c", f"exec 7< given; exec {shlex.join(words)}", prefix=reach(tmp_path))
    cause = "by a user who can neither make a journal in TAILRACE_JOURNAL_DIR nor write to the run"
    assert run_cli("info", run_traced.run).stdout.count(cause) == 1
    monkeypatch.delenv("TAILRACE_JOURNAL_DIR")
    run_traced("sh", "-c", f"exec 7< given; exec {shlex.join(words)}", prefix=reach(tmp_path))
    assert run_cli("info", run_traced.run).stdout.count(cause) == 1


def test_journals_of_an_unrelated_user_are_ignored(harm: Harm, program: Program, tmp_path: Path) -> None:
    key = Path(_native.journal_directory(str(harm.run.resolve()), "/dev/shm")).name
    stranger = Path(f"/dev/shm/tailrace-65533/{key}")
    stranger.mkdir(parents=True)
    try:
        for place in (stranger.parent, stranger):
            os.chown(place, 65533, 65533)
        journal = stranger / "vm-1-1.0.tj"
        journal.write_bytes(bytes(8192))
        os.chown(journal, 65533, 65533)
        harm(program("rights"), "setuid", "10", "1", "10")
        assert journal.exists()
    finally:
        shutil.rmtree(stranger)


# ---- process numbers of another namespace --------------------------------------------------------------------------


@pytest.fixture
def unshare() -> list[str]:
    command = ["unshare", "-p", "-f"]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"], check=False).returncode:
        pytest.skip("this machine gives no namespace of process numbers")
    return command


def test_a_process_killed_in_a_namespace_of_its_own_is_sealed(harm: Harm, unshare: list[str]) -> None:
    script = "bash -c 'echo x > killed; kill -9 $$'; echo $?; bash -c 'echo y > other; kill -9 $$'; cat killed > copied"
    done = harm(*unshare, "bash", "-c", script)
    assert "running" not in done.stderr
    done.check_written("killed", "other", "copied")
    assert list(journals(done.run)) == []


def test_a_running_process_in_a_namespace_of_its_own_is_not_sealed(tmp_path: Path, unshare: list[str]) -> None:
    # It writes once before the sealing and once after: sealed too early, the journal would have lost the second.
    script = "echo one > one; until test -e go; do read -t 0.02 <> pipe; done; echo two > two"
    os.mkfifo(tmp_path / "pipe")
    run = tmp_path / "run"
    command = [*TAILRACE, "run", "-o", str(run), "--", *unshare, "bash", "-c", script]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE) as traced:
        while not (tmp_path / "one").exists():
            time.sleep(0.02)
        sealed = subprocess.run([*TAILRACE, "seal", str(run)], check=True, capture_output=True, text=True)
        (tmp_path / "go").touch()
        _, stderr = traced.communicate(timeout=60)
    assert "0 journals sealed" in sealed.stdout, sealed.stdout
    assert b"nothing lost" in stderr
    done = Outcome(tmp_path, run, "", stderr.decode())
    done.check_written("one", "two")
    assert len(done.seen.named("start")) == len({event["ts"] for event in done.seen.named("start")})
