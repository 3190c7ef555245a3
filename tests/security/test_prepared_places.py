"""Places that somebody else has prepared, and names that act where they are printed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support import trace_writer as tw
from support.commands import TAILRACE
from tailrace.integrations import programs, rundir

STRANGER = 65534


def run(*words: object, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*TAILRACE, *map(str, words)], cwd=cwd, capture_output=True, text=True, check=False)


@pytest.mark.root("gives directories to another user")
@pytest.mark.parametrize("bait", ["directory", "link", "writable"])
def test_runs_that_nobody_named_are_not_put_into_another_users_directory(tmp_path: Path, bait: str) -> None:
    """He could put another directory in the place of the run."""
    target = tmp_path / "target"
    target.mkdir()
    target.chmod(0o777)
    place = tmp_path / "tailrace-runs"
    place.symlink_to(target) if bait == "link" else target.rename(place)
    if bait != "writable":
        os.chown(place, STRANGER, STRANGER, follow_symlinks=False)
    done = run("run", "--", "sh", "-c", "echo ran", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    word = "other users may replace" if bait == "writable" else f"tailrace-runs belongs to user {STRANGER}"
    assert word in done.stderr
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("replaced", [False, True])
def test_a_run_directory_that_is_renamed_during_the_run_is_noticed(tmp_path: Path, replaced: bool) -> None:
    """The launcher writes nothing into what took its place."""
    script = "mv run old; " + ("mkdir run run/trace run/accounts; " if replaced else "") + "exit 7"
    done = run("run", "-o", "run", "--", "sh", "-c", script, cwd=tmp_path)
    assert done.returncode == 7
    assert "run was renamed or replaced while the command ran" in " ".join(done.stderr.split())
    if replaced:
        assert list((tmp_path / "run" / "accounts").iterdir()) == []
        return
    (tmp_path / "old").rename(tmp_path / "run")
    assert run("seal", "run", cwd=tmp_path).returncode == 0
    assert run("query", "run", "--by", "name", "--format", "csv", cwd=tmp_path).stdout.count("\n") > 1


def test_a_run_directory_that_is_removed_during_the_run_is_no_fault_of_the_command(tmp_path: Path) -> None:
    done = run("run", "-o", "run", "--", "sh", "-c", "rm -r run; exit 7", cwd=tmp_path)
    assert done.returncode == 7
    assert "renamed" not in done.stderr


@pytest.mark.parametrize("boot", ["0" * 8, None])
def test_a_run_that_was_sent_names_no_place_to_look_at(tmp_path: Path, boot: str | None) -> None:
    """Looking at it would mount a file system where an automounter serves /net."""
    place = tmp_path / "elsewhere"
    restarts = [{"journal_dir": str(place), "boot_id": boot}]
    sent = tw.make_run(tmp_path / "run", {"n-7-1": tw.block([tw.event()])}, {"restarts": restarts})
    log = tmp_path / "calls"
    if shutil.which("strace") is None:
        pytest.skip("no strace")
    trace = ["strace", "-f", "-qq", "-e", "trace=%file", "-o", str(log)]
    subprocess.run([*trace, *TAILRACE, "info", str(sent)], check=True, capture_output=True)
    assert str(sent) in log.read_text()
    assert str(place) not in log.read_text()
    description = json.loads((sent / "run.json").read_text())
    description["restarts"][0]["boot_id"] = rundir.boot_id()
    (sent / "run.json").write_text(json.dumps(description))
    subprocess.run([*trace, *TAILRACE, "info", str(sent)], check=True, capture_output=True)
    assert str(place) in log.read_text(), "a run of this node is followed"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python has no -P before 3.11")
def test_no_module_of_the_working_directory_is_run(tmp_path: Path) -> None:
    """The plugins' processes start where the user's data are."""
    (tmp_path / "tailrace").mkdir()
    (tmp_path / "tailrace" / "__init__.py").write_text("print('planted')")
    (tmp_path / "json.py").write_text("print('planted')")
    command = [*programs.module_command("tailrace.integrations.pool"), "--", "true"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "planted" not in done.stdout
    assert "usage" in done.stderr or done.returncode == 0


@pytest.mark.parametrize("form", ["csv", "csv-text", "json"])
def test_no_name_in_a_result_acts_on_the_terminal(tmp_path: Path, form: str) -> None:
    lines = [tw.file_line("f1", "/d/\x1b]0;OWNED\x07\u202ea"), tw.event(dir="r", size=5, fhash="f1", ret=5)]
    made = tw.make_run(tmp_path / "run", {"n-7-1": tw.block(lines)})
    words = [*TAILRACE, "query", str(made), "--by", "path", "--agg", "sum:size", "--format", form]
    command = ["script", "-qec", " ".join(words), "/dev/null"]
    if shutil.which("script") is None:
        pytest.skip("no script(1)")
    shown = subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL).stdout
    assert b"OWNED" in shown
    assert b"\x1b]0" not in shown
    assert "\u202e".encode() not in shown
    if form != "json":
        piped = subprocess.run(words, check=True, capture_output=True).stdout
        assert b"\x1b]0;OWNED" in piped, "as it is, for programs"
