"""What a run names is looked at only in a run of this user's, and opened only if it is a regular file: a run that was
sent may name a FIFO, a device, an automounter's place, or another user's program."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tailrace
from support import trace_writer as tw
from support.commands import TAILRACE, run_cli
from support.ordinary_user import ID as STRANGER
from tailrace.analyzer.insights.present_files import ANOTHER
from tailrace.analyzer.store import callers, query
from tailrace.analyzer.util import named_files
from tailrace.errors import QueryError

MARK = "deadbeefdeadbeef"
COMMANDS = [
    ("info",),
    ("report",),
    ("report", "--html", "page.html"),
    ("query", "--by", "caller"),
    ("export", "--to", "rocrate", "-o", "crate/"),
]


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    for known in (*callers._known, callers._places):
        known.clear()
    named_files._may_open.cache_clear()
    yield
    named_files._may_open.cache_clear()


def naming(directory: Path, place: Path, mark: str = MARK, **run_json: Any) -> Path:
    """A run that names a place in each way that it can."""
    lines = [
        tw.file_line("f1", str(place)),
        tw.stack_line("00000000000000aa", f"{place}+0x1136 [{mark}]"),
        tw.event(
            "start", cat="PROCESS", ppid=1, exe=str(place), cwd=str(place), no_journal={"dir": str(place), "errno": 2}
        ),
        *(
            tw.event(ts_us=tw.T0_US + 10 + i, dir="r", size=5, fhash="f1", ret=5, stack="00000000000000aa")
            for i in range(100)
        ),
    ]
    config = {"run_dir": f"{place}/runinfo", "own_directories": [f"{place}/own"]}
    declared = {"type": "workflow", "workflow": "w", "manager": "m", "version": "1", "t_ns": 1, "config": config}
    description = {"cwd": str(place), "journal_dir": str(place), "uid": os.geteuid(), **run_json}
    block = tw.block(lines, header={"stacks": 100})
    return tw.make_run(directory, {"n-7-1": block}, description, m=json.dumps(declared) + "\n")


def callers_of(run: Path) -> set[str]:
    return {value for (value,) in query.events(tailrace.open(run), ["caller"]) if value}


@pytest.mark.slow("traces five commands by strace")
@pytest.mark.parametrize("whose", ["another host", "another user"])
def test_no_place_that_a_run_which_was_sent_names_is_looked_at(tmp_path: Path, whose: str) -> None:
    place = tmp_path / "elsewhere"
    about = {"host": "elsewhere", "boot_id": "0" * 8} if whose == "another host" else {"uid": STRANGER}
    sent = naming(tmp_path / "run", place, **about)
    if shutil.which("strace") is None:
        pytest.skip("no strace")
    log, work = tmp_path / "calls", tmp_path / "work"
    work.mkdir()
    for command, *options in COMMANDS:
        words = [
            "strace",
            "-f",
            "-qq",
            "-A",
            "-e",
            "trace=%file",
            "-o",
            str(log),
            *TAILRACE,
            command,
            str(sent),
            *options,
        ]
        done = subprocess.run(words, cwd=work, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    said = log.read_text()
    assert str(sent) in said
    assert [line for line in said.splitlines() if str(place) in line] == []


@pytest.mark.parametrize("kind", ["FIFO", "device", "directory", "nothing"])
def test_a_module_that_is_no_regular_file_is_not_opened(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "module"
    if kind == "FIFO":
        os.mkfifo(place)
    elif kind == "device":
        place.symlink_to("/dev/zero")
    elif kind == "directory":
        place.mkdir()
    own = naming(tmp_path / "run", place, host=os.uname().nodename)
    assert named_files.may_open(own)
    assert callers_of(own) == {f"{place}+0x1136"}
    assert run_cli("report", own, timeout=60).returncode == 0


def program(place: Path) -> str:
    """Puts a program that addr2line knows at the place; returns its mark."""
    if shutil.which("gcc") is None or shutil.which("addr2line") is None:
        pytest.skip("no gcc or no addr2line")
    source = place.with_suffix(".c")
    source.write_text("int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-g", "-Wl,--build-id=sha1", "-o", place, source], check=True)
    with place.open("rb") as file:
        return callers._mark(file, False)


def offset_of_main(place: Path) -> int:
    symbols = subprocess.run(["nm", place], capture_output=True, text=True, check=True).stdout
    return next(int(line.split()[0], 16) for line in symbols.splitlines() if line.endswith(" T main"))


def with_main(run: Path, place: Path, mark: str, **run_json: Any) -> Path:
    """A run whose calls come from `main` of the program at the place."""
    lines = [
        tw.file_line("f1", "/data"),
        tw.stack_line("00000000000000aa", f"{place}+0x{offset_of_main(place) + 1:x} [{mark}]"),
        tw.event(dir="r", size=5, fhash="f1", ret=5, stack="00000000000000aa"),
    ]
    return tw.make_run(run, {"n-7-1": tw.block(lines, header={"stacks": 1})}, run_json)


def test_a_module_of_a_run_of_this_user_and_host_is_named_by_its_lines(tmp_path: Path) -> None:
    place = tmp_path / "program"
    mark = program(place)
    uid, host = os.geteuid(), os.uname().nodename
    here = with_main(tmp_path / "here", place, mark, uid=uid, host=host)
    (found,) = callers_of(here)
    assert found.endswith("program.c:1 (main)")
    elsewhere = with_main(tmp_path / "elsewhere", place, mark, uid=uid, host="elsewhere")
    (found,) = callers_of(elsewhere)
    assert found.startswith(f"{place}+0x")
    (elsewhere / "hosts").mkdir()
    (elsewhere / "hosts" / "x.json").write_text(json.dumps({"host": host}))
    assert not named_files.may_open(elsewhere), "the file has the name of its host"
    named_files._may_open.cache_clear()
    name = "".join(c if c.isalnum() or c in "._" else "_" for c in host)
    (elsewhere / "hosts" / f"{name}.json").write_text(json.dumps({"host": host}))
    assert named_files.may_open(elsewhere), "processes of the run have described this host"


@pytest.mark.root("gives files to another user")
def test_neither_a_program_nor_a_run_of_another_user_is_opened(tmp_path: Path) -> None:
    place = tmp_path / "program"
    mark = program(place)
    uid, host = os.geteuid(), os.uname().nodename
    theirs = with_main(tmp_path / "theirs", place, mark, uid=STRANGER, host=host)
    for path in (theirs, *theirs.rglob("*")):
        os.chown(path, STRANGER, STRANGER)
    (found,) = callers_of(theirs)
    assert found.startswith(f"{place}+0x")
    forged = with_main(tmp_path / "forged", place, mark, uid=uid, host=host)
    os.chown(place, STRANGER, STRANGER)
    (found,) = callers_of(forged)
    assert found.startswith(f"{place}+0x"), "what parses programs has a reader's rights"


def test_checksums_are_made_for_runs_of_this_user_alone(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    sent = naming(tmp_path / "run", secret, uid=os.geteuid() + 1, user="sender")
    with pytest.raises(QueryError, match="made by sender"):
        tailrace.open(sent).file(str(secret), hashed=True)
    done = run_cli("export", sent, "--to", "rocrate", "--hash")
    assert (done.returncode, "made by sender" in done.stderr) == (1, True)


@pytest.mark.parametrize("kind", ["FIFO", "link"])
def test_what_took_a_files_place_is_another_file(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "data"
    if kind == "FIFO":
        os.mkfifo(place)
    else:
        place.symlink_to(sys.executable)
    own = naming(tmp_path / "run", place)
    (file,) = tailrace.open(own).file(str(place), hashed=True).files
    assert file.now is not None
    assert file.now.state == ANOTHER
