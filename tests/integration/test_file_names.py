"""A file is found by any of its names: real files, traced, and asked for by `tailrace query --path` and in Python."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import tailrace
from support.commands import TracedCommand
from support.truth import read_run
from tailrace.analyzer.store.conditions import Glob
from tailrace.cli import query
from tailrace.errors import QueryError

PROGRAM = """
import os, shutil
os.makedirs("work/sub")
with open("work/sub/part.dat", "wb") as file:
    file.write(b"x" * 1000)
os.link("work/sub/part.dat", "hard.dat")
os.symlink("sub/part.dat", "work/soft.dat")
open("work/soft.dat", "rb").read()
os.rename("work", "done")
os.rename("done/sub/part.dat", "done/final.dat")
open("hard.dat", "rb").read()
with open("other.dat", "wb") as file:
    file.write(b"y" * 70)
shutil.copyfile("other.dat", "copy.dat")
with open(b"\\xff\\xfe.raw", "wb") as file:
    file.write(b"z" * 30)
for folder in ("a", "b"):
    os.mkdir(folder)
    with open(folder + "/log.txt", "w") as file:
        file.write(folder)
try:
    open("absent.dat")
except FileNotFoundError:
    pass
"""
NAMES = (
    *("work/sub/part.dat", "part.dat", "sub/part.dat", "done/sub/part.dat", "done/final.dat", "final.dat"),
    *("./done/final.dat", "done/sub/../final.dat", "hard.dat", "{cwd}/hard.dat", "{cwd}/work/sub/part.dat"),
    *("*/final.dat", "done/final*", "part.*", "{cwd}/done/*.dat"),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of PROGRAM; its files remain."""
    directory = tmp_path_factory.mktemp("names")
    (directory / "program.py").write_text(PROGRAM)
    TracedCommand(directory, directory / "run")(sys.executable, "program.py")
    (directory / "later.dat").symlink_to("done/final.dat")
    return directory / "run"


def ask(*args: Any) -> Result:
    return CliRunner().invoke(query.command, [str(arg) for arg in args])


def moved(run: Path, name: str) -> dict[str | None, int]:
    """direction -> bytes of the calls on a file, by the command line."""
    done = ask(run, "--path", name, "--by", "dir", "--agg", "sum:size", "--format", "json")
    assert done.exit_code == 0, done.output
    return {row["dir"]: row["sum_size"] for row in json.loads(done.stdout) if row["dir"]}


@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_a_file_gives_all_its_bytes(run: Path, name: str) -> None:
    name = name.format(cwd=run.parent)
    assert moved(run, name) == {"w": 1000, "r": 2000}
    path: str | Glob = Glob(name) if "*" in name else name
    events = tailrace.open(run).events(columns=["dir", "size"], path=path).compute()
    assert events["size"].sum() == 3000


def test_a_link_of_this_machine_leads_to_its_file(run: Path) -> None:
    done = ask(run, "--path", "later.dat", "--agg", "sum:size")
    assert f"later.dat is a link to {run.parent}/hard.dat" in done.stderr, "the last name of what it leads to"
    assert "3000" in done.stdout


def test_a_copy_belongs_to_both_files(run: Path) -> None:
    assert moved(run, "copy.dat") == {"w": 70}
    assert moved(run, "other.dat") == {"w": 70, "r": 70}


def test_a_name_that_is_no_text_is_asked_for_as_python_has_it(run: Path) -> None:
    assert moved(run, os.fsdecode(b"\xff\xfe.raw")) == {"w": 30}
    assert moved(run, os.fsdecode(b"\xff*.raw")) == {"w": 30}


def test_leaving_out_a_file_that_is_not_there_leaves_all(run: Path) -> None:
    every = json.loads(ask(run, "--agg", "count", "--format", "json").stdout)
    for condition in ("path!=/nowhere/x", "path!=/nowhere/*", "host!=elsewhere", "stage!=none"):
        assert json.loads(ask(run, "--where", condition, "--agg", "count", "--format", "json").stdout) == every


def test_several_files_of_one_base_name_are_said(run: Path) -> None:
    done = ask(run, "--path", "log.txt", "--agg", "sum:size", "--by", "path", "--format", "json")
    assert "log.txt is 2 files" in done.stderr and len(json.loads(done.stdout)) == 2
    done = ask(run, "--path", "a/log.txt", "--agg", "sum:size", "--by", "path", "--format", "json")
    assert done.stderr == "" and [row["sum_size"] for row in json.loads(done.stdout)] == [1]


def test_a_file_that_was_searched_for_is_found(run: Path) -> None:
    (row,) = json.loads(ask(run, "--path", "absent.dat", "--by", "errno", "--format", "json").stdout)
    assert row == {"errno": 2, "count": 1}


def test_a_name_of_no_event_is_an_error_with_the_nearest(run: Path) -> None:
    with pytest.raises(QueryError, match=r"no event is on a file called 'finaal.dat'; the nearest are '\S*/final.dat'"):
        tailrace.open(run).events(path="finaal.dat")
    with pytest.raises(QueryError, match="no event is on a file that fits 'nothing"):
        tailrace.open(run).events(path=Glob("nothing*"))
    assert isinstance(ask(run, "--path", "/nowhere/x").exception, QueryError)


@pytest.mark.parametrize("filters", [["--host", "elsewhere"], ["--pid", "1"], ["--start", "1"], ["--host", "zz*"]])
def test_a_process_that_is_not_there_is_an_error(run: Path, filters: list[str]) -> None:
    error = ask(run, *filters).exception
    assert isinstance(error, QueryError) and "; there is " in str(error)


@pytest.mark.parametrize("form", [["--by", "name"], [], ["--columns", "name"]])
def test_a_query_that_no_event_matches_says_so(run: Path, form: list[str]) -> None:
    assert query.NOTHING in ask(run, "--name", "rea", *form).stderr
    assert query.NOTHING not in ask(run, "--name", "read", *form).stderr


def test_find_files_says_by_which_name(run: Path) -> None:
    (found,) = tailrace.open(run).find_files("part.dat").to_dict("records")
    assert (found["path"], found["how"]) == (f"{run.parent}/hard.dat", "ending")
    assert found["found"].endswith("part.dat")


OPENS = ("open", "openat", "fopen", "opendir", "mkstemp", "memfd_create")


def test_an_opened_file_has_the_kernels_name(program: Callable[[str], Path], tmp_path: Path) -> None:
    done = TracedCommand(tmp_path, tmp_path / "run")(program("opened"))
    said = done.stdout.splitlines()
    seen = read_run(tmp_path / "run")
    opened = [event for event in seen.named(*OPENS) if event["args"]["ret"] >= 0]
    opened.sort(key=lambda event: (event["ts"], event["args"].get("ns", 0)))
    assert len(opened) == len(said) > 120
    for place, (event, kernels) in enumerate(zip(opened, said, strict=True)):
        name = seen.path(event)
        assert name
        if kernels.startswith("~"):
            assert Path(name).samefile(kernels[1:])
        else:
            assert name == kernels.removesuffix(" (deleted)"), (place, said[place - 3 : place + 1])


LOOKED_UP = """
import os
names = [os.__file__] * 3
for number in range(60):
    names += [f"first{number}", f"second{number}"]
for name in names:
    if not name.startswith("/"):
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o600))
        for mode in (0o640, 0o600):
            os.chmod(name, mode)
            os.stat(name)
    os.stat(name)
    os.close(os.open(name, os.O_RDONLY))
    os.lstat(name)
    if name.startswith("first"):
        os.unlink(name)
"""


def test_a_file_that_was_looked_up_is_the_one_that_is_opened(tmp_path: Path) -> None:
    TracedCommand(tmp_path, tmp_path / "run")(sys.executable, "-S", "-E", "-c", LOOKED_UP)
    seen = read_run(tmp_path / "run")
    looked_up = ("stat", "stat64", "lstat", "lstat64", "__xstat64", "__lxstat64", "fstatat", "newfstatat", "fstatat64")
    identities: dict[str, dict[str, set[tuple[Any, ...]]]] = {}
    for event in seen.named("open", "open64", *looked_up):
        file = seen.files.get(event["args"].get("fhash", ""), {})
        name = file.get("name", "")
        if "ino" in file and (name.startswith(str(tmp_path)) or name.endswith("/os.py")):
            by_call = identities.setdefault(name, {"looked up": set(), "opened": set()})
            identity = (file["dev"], file["ino"], file.get("btime"), file["type"])
            by_call["looked up" if event["name"] in looked_up else "opened"].add(identity)
    assert len(identities) == 121
    for name, found in identities.items():
        assert found["looked up"] == found["opened"], name
        assert len(found["opened"]) == 1, name
