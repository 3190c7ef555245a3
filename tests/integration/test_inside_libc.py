"""What libc does by itself within one call: it starts shells, writes to stderr, looks at libraries and loads them not.

The children are traced, the bytes are the kernel's, and the program gets what it gets untraced.
"""

import ctypes.util
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import tailrace
from support import sanitizer
from support.commands import TracedCommand

Program = Callable[[str], Path]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A directory with a text and data."""
    directory = tmp_path / "work"
    directory.mkdir()
    (directory / "text.txt").write_text("".join(f"line {i} of the text\n" for i in range(4000)))
    (directory / "data.bin").write_bytes(bytes(range(256)) * 40)
    return directory


def traced(work: Path, run: Path, *command: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    """The result of a command traced in `work`."""
    return TracedCommand(work, run)(*command, check=False, **options)


def untraced(work: Path, *command: Any) -> subprocess.CompletedProcess[str]:
    words = list(map(str, command))
    return subprocess.run(words, cwd=work, capture_output=True, text=True, check=False, timeout=120)


def inexact(rows: pd.DataFrame) -> pd.DataFrame:
    """The processes whose account and trace differ by any byte, or that have no account."""
    wrong = (rows["kernel_read"] != rows["captured_read"]) | (rows["kernel_written"] != rows["captured_written"])
    return rows[wrong.fillna(True) | rows["share"].isna()].drop(columns=["host", "start"])


@pytest.mark.parametrize("what", ["many", "assignments", "handler"])
def test_shells_that_wordexp_starts_are_traced(program: Program, work: Path, tmp_path: Path, what: str) -> None:
    bare = untraced(work, program("words"), what)
    done = traced(work, tmp_path / "run", program("words"), what)
    assert (done.returncode, done.stdout, done.stderr) == (bare.returncode, bare.stdout, bare.stderr)
    rows = tailrace.open(tmp_path / "run").coverage
    assert rows["traced"].all()
    names = [Path(exe).name for exe in rows["exe"]]
    expected = {"many": "cat", "assignments": "printenv", "handler": "head"}[what]
    assert "words" in names and expected in names and len(rows) > 5
    assert inexact(rows).empty, inexact(rows).to_string()


def test_the_output_of_wordexps_shell_is_recorded_as_reads(
    program: Program, work: Path, tmp_path: Path, read_trace: Any
) -> None:
    traced(work, tmp_path / "run", program("words"), "handler")
    sizes = [e["args"]["size"] for e in read_trace(tmp_path / "run").events if e["name"] == "wordexp"]
    assert sizes == [len("1000\n")] * 10


@pytest.mark.parametrize("what", ["threads", "twice"])
def test_wordexp_beside_other_threads(program: Program, work: Path, tmp_path: Path, what: str) -> None:
    bare = untraced(work, program("words"), what)
    done = traced(work, tmp_path / "run", program("words"), what)
    assert (done.returncode, sorted(done.stdout.splitlines())) == (bare.returncode, sorted(bare.stdout.splitlines()))
    rows = tailrace.open(tmp_path / "run").coverage
    assert rows["traced"].all()
    # The account of the one that has threads is exact, or it has none.
    wrong = inexact(rows)
    assert wrong.empty or (len(wrong) == 1 and wrong["share"].isna().all()), wrong.to_string()


def test_a_wordexp_that_is_cancelled_leaves_the_environment(program: Program, work: Path, tmp_path: Path) -> None:
    bare = untraced(work, program("words"), "cancelled")
    done = traced(work, tmp_path / "run", program("words"), "cancelled")
    assert (done.returncode, done.stdout) == (bare.returncode, bare.stdout)


def test_messages_of_syslog_are_writes_to_stderr(program: Program, work: Path, tmp_path: Path, read_trace: Any) -> None:
    # The shell opens the file and becomes the program: no other process shares the position.
    said = ["sh", "-c", f"exec {program('messages')} logged 2> "]
    untraced(work, *said[:2], said[2] + "bare")
    traced(work, tmp_path / "run", *said[:2], said[2] + "said")
    text = (work / "said").read_bytes()
    numbers = re.compile(rb"\[\d+\]")
    assert numbers.sub(b"", text) == numbers.sub(b"", (work / "bare").read_bytes())
    written = [e for e in read_trace(tmp_path / "run").of(work / "said") if "offset" in e["args"]]
    lines = [text[e["args"]["offset"] :][: e["args"]["size"]] for e in written]
    assert lines == text.splitlines(keepends=True)
    assert {e["name"] for e in written[:5]} == {"syslog"}
    (row,) = tailrace.open(tmp_path / "run").coverage.to_dict("records")
    assert row["kernel_written"] == row["captured_written"]


@pytest.mark.parametrize("given", ["file", "pipe"])
def test_a_password_asked_for_without_a_terminal(
    program: Program, work: Path, tmp_path: Path, read_trace: Any, given: str
) -> None:
    said = "secret\nand more\nof it\n"
    (work / "given").write_text(said)
    source: dict[str, Any] = {"input": said}
    if given == "file":
        source = {"stdin": (work / "given").open()}
    done = traced(work, tmp_path / "run", program("messages"), "asked", **source)
    assert (done.stdout, done.stderr) == (said, "Password: ")
    rows = tailrace.open(tmp_path / "run").coverage
    assert inexact(rows).empty, inexact(rows).to_string()
    events = [e for e in read_trace(tmp_path / "run").events if e["name"] == "getpass"]
    assert {(e["args"]["dir"], e["args"]["size"]) for e in events} == {("r", 7), ("w", 10)}
    if given == "file":
        assert [e["path"] for e in events if e["args"]["dir"] == "r"] == [str(work / "given")]


def test_writes_to_memory_streams_are_writes_to_no_file(
    program: Program, work: Path, tmp_path: Path, read_trace: Any
) -> None:
    with (work / "text.txt").open() as given:
        done = traced(work, tmp_path / "run", program("messages"), "memory", stdin=given)
    assert done.stdout == "line 0 of the text\n\n"
    moved = [e["args"] for e in read_trace(tmp_path / "run").of(work / "text.txt") if e["args"].get("size")]
    assert [(args["dir"], args["size"]) for args in moved] == [("r", len("line 0 of the text\n"))]
    rows = tailrace.open(tmp_path / "run").coverage
    assert inexact(rows).empty, inexact(rows).to_string()


def library_of(program: Path, name: str) -> str:
    """The library of that name that a test program is linked with."""
    if not program.exists() or shutil.which("ldd") is None:
        pytest.skip(f"what {program.name} is linked with is not installed, or there is no ldd")
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    found = re.search(rf"{name}\S*\.so\S* => (\S+)", listed)
    return found[1] if found else pytest.skip(f"{program.name} is not linked with {name}")


@pytest.mark.parametrize("pinned", ["hdf5", "mpi"])
def test_libraries_with_layers_are_loaded_and_unloaded(
    program: Program, work: Path, tmp_path: Path, read_trace: Any, pinned: str
) -> None:
    hdf5, mpi = library_of(program("hdf5"), "libhdf5"), ctypes.util.find_library("mpi")
    if pinned == "mpi" and mpi is None:
        pytest.skip("no MPI library")
    stays = shutil.copy(hdf5, work / "pinned.so") if pinned == "hdf5" else str(mpi)
    others = [hdf5, hdf5 if pinned == "hdf5" else str(mpi)]
    done = traced(work, tmp_path / "run", program("loads"), stays, *others, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    made = [e for e in read_trace(tmp_path / "run").events if e["name"] == "H5Fcreate"]
    # A sanitizer's build doesn't hook dlsym, by which the program finds its functions.
    assert len(made) == (int(done.stdout) if pinned == "hdf5" and not sanitizer.CHOSEN else 0)
    assert all(e["path"] == str(work / "pinned.h5") for e in made)


def test_libraries_opened_without_being_loaded(program: Program, work: Path, tmp_path: Path) -> None:
    for name in ("lib.so", "another.so"):
        shutil.copy(program("libnss_probe.so.2"), work / name)
    bare = untraced(work, program("libraries"), "./lib.so")
    for name in ("first.so", "second.so", "wrong.so", "short.so"):
        (work / name).unlink()
    done = traced(work, tmp_path / "run", program("libraries"), "./lib.so")
    assert (done.returncode, done.stdout) == (bare.returncode, bare.stdout), done.stderr
    rows = tailrace.open(tmp_path / "run").coverage
    assert inexact(rows).empty, inexact(rows).to_string()


def test_libcs_last_words_are_the_cause_of_missing_bytes(program: Program, work: Path, tmp_path: Path) -> None:
    done = traced(work, tmp_path / "run", program("messages"), "smashed")
    assert done.returncode == 128 + 6
    (row,) = tailrace.open(tmp_path / "run").coverage.to_dict("records")
    said = len(done.stderr.splitlines(keepends=True)[0])
    assert row["kernel_written"] - row["captured_written"] == said
    assert row["cause_key"] == "last_words"
