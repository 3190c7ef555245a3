"""The command as it is called: what it says when it is held wrong, or when nobody takes its output."""

import subprocess
import sys
from pathlib import Path

import pytest
import trace_writer as tw

from tailrace.analyzer.published import published


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lines = [tw.file_line("1", "/x"), tw.event("read", fhash="1", size=3, dir="r", stage="a", task="t")]
    return tw.make_run(tmp_path_factory.mktemp("runs") / "run", {"n-7-1": tw.block(lines)}, {"restarts": 5})


def call(*arguments: object, shell: str = "") -> subprocess.CompletedProcess[str]:
    """`tailrace ARGUMENTS`, with `shell` behind it."""
    command = ["sh", "-c", f'"$@" {shell}', "sh", sys.executable, "-m", "tailrace.cli.main", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "arguments",
    [("info",), ("report",), ("query", "--columns", "path"), ("graph",), ("export", "--to", "wfformat")],
    ids=lambda arguments: arguments[0],
)
def test_output_that_nobody_takes(run: Path, arguments: tuple[str, ...]) -> None:
    name, *options = arguments
    full = call(name, run, *options, shell="> /dev/full")
    assert (full.returncode, full.stderr) == (1, "tailrace: standard output: No space left on device\n")
    closed = call(name, run, *options, shell=">&-")
    assert (closed.returncode, closed.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run",), "Missing argument 'CMD...'; see `tailrace run --help`"),
        (("flux",), "Missing command; see `tailrace flux --help`"),
        (("nothing",), "No such command 'nothing'; see `tailrace --help`"),
    ],
)
def test_held_wrong_it_says_in_one_line_what_is_missing(arguments: tuple[str, ...], words: str) -> None:
    done = call(*arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"tailrace: {words}\n")


def test_a_directory_with_two_slashes_before_it(run: Path) -> None:
    done = call("info", f"/{run}", "--format", "json")
    assert done.returncode == 0, done.stderr


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    place = tmp_path / "out"
    place.write_text("before")
    with pytest.raises(ZeroDivisionError), published(place) as scratch:
        scratch.write_text("half")
        raise ZeroDivisionError
    assert place.read_text() == "before" and list(tmp_path.iterdir()) == [place]


def test_a_link_is_written_through_and_stays(tmp_path: Path) -> None:
    link, target = tmp_path / "stdout", tmp_path / "target"
    link.symlink_to(target)
    with published(link) as place:
        place.write_text("all")
    assert link.is_symlink() and target.read_text() == "all"
