"""The command as it is called: its usage errors, and output that can't be written."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import click
import pytest

from support import trace_writer as tw
from support.commands import run_cli
from tailrace.base.published import published
from tailrace.cli import main

RUN = "RUN"
"""Stands for the run's directory in lists of arguments."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lines = [tw.file_line("1", "/x"), tw.event("read", fhash="1", size=3, dir="r", stage="a", task="t")]
    return tw.make_run(tmp_path_factory.mktemp("runs") / "run", {"n-7-1": tw.block(lines)}, {"restarts": 5})


def call(
    *arguments: object, shell: str = "", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """`tailrace ARGUMENTS`, with `shell` behind it."""
    command = ["sh", "-c", f'"$@" {shell}', "sh", sys.executable, "-m", "tailrace.cli.main", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, env=env, check=False)


@pytest.mark.parametrize(
    "arguments",
    [("info",), ("report",), ("query", "--columns", "path"), ("graph",), ("export", "--to", "wfformat")],
    ids=lambda arguments: arguments[0],
)
def test_output_to_a_full_disk_is_an_error(run: Path, arguments: tuple[str, ...]) -> None:
    name, *options = arguments
    with Path("/dev/full").open("w") as full:
        done = run_cli(name, run, *options, stdout=full)
    assert (done.returncode, done.stderr) == (1, "tailrace: standard output: No space left on device\n")


@pytest.mark.parametrize("name", ["info", "report"])
def test_output_to_a_closed_descriptor_is_dropped(run: Path, name: str) -> None:
    closed = call(name, run, shell=">&-")
    assert (closed.returncode, closed.stderr) == (0, b"")


def test_names_that_the_locale_cant_write(tmp_path: Path) -> None:
    lines = [tw.file_line("1", "/x/\u00e9\U0001f600"), tw.event("read", fhash="1", size=3, dir="r", stage="\u0416")]
    run = tw.make_run(tmp_path / "run", {"n-7-1": tw.block(lines)})
    env = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    for arguments in (("report",), ("info",), ("query", "--by", "path"), ("compare", run)):
        done = run_cli(arguments[0], run, *arguments[1:], env=env)
        assert (done.returncode, done.stderr) == (0, "") and done.stdout.isascii(), arguments
    started = call("report", run, env=env)
    assert (started.returncode, started.stderr) == (0, b"") and started.stdout.isascii()
    for arguments in (
        ("query", "--by", "path", "--format", "json"),
        ("graph", "--files", "all"),
        ("export", "--to", "dot"),
    ):
        done = run_cli(arguments[0], run, *arguments[1:], env=env)
        assert (done.returncode, done.stderr) == (0, "") and "\u00e9\U0001f600" in done.stdout, arguments


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run",), "Missing argument 'CMD...'; see `tailrace run --help`"),
        (("flux",), "Missing command; see `tailrace flux --help`"),
        (("nothing",), "No such command 'nothing'; see `tailrace --help`"),
        (("quary",), "No such command 'quary' (did you mean 'query'?); see `tailrace --help`"),
        (("whatif", RUN), "say what would be different: --tier, --together, --drop or --workers"),
        (("whatif", RUN, "--together", "a"), "--together takes two stages, as in --together make,use, not 'a'"),
    ],
)
def test_a_usage_error_names_what_is_missing_in_one_line(run: Path, arguments: tuple[str, ...], words: str) -> None:
    done = call(*(run if word == RUN else word for word in arguments))
    assert (done.returncode, done.stdout, done.stderr.decode()) == (2, b"", f"tailrace: {words}\n")


@pytest.mark.parametrize("arguments", [("report", ""), ("compact", ""), ("run", "-o", "", "--", "true")])
def test_the_value_of_a_variable_that_is_not_set_is_no_directory(
    run: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(run)
    done = call(*arguments)
    assert done.returncode == 2
    assert b"the path is empty; is it a shell variable that is not set?" in done.stderr


def test_a_forked_command_is_as_a_started_one(run: Path, tmp_path: Path) -> None:
    """The one that most tests call (support/warm_cli.py)."""
    for arguments in (("info", run), ("query", run, "--by", "path"), ("report", tmp_path), ("query", "--by")):
        started, forked = call(*arguments), run_cli(*arguments)
        assert (forked.returncode, forked.stdout, forked.stderr) == (
            started.returncode,
            started.stdout.decode(),
            started.stderr.decode(),
        ), arguments


def test_every_command_that_prints_an_answer_takes_the_same_format_option() -> None:
    context = click.Context(main.group)
    for name in main.group.lines:
        command = main.group.get_command(context, name)
        assert command is not None
        options = {option: one for one in command.params for option in one.opts}
        assert "--json" not in options, name
        if "--format" in options:
            kind = options["--format"].type
            assert isinstance(kind, click.Choice) and "json" in kind.choices, name


def test_what_is_shown_has_a_short_form(run: Path) -> None:
    short, long = (call(*words, "access", run) for words in ((), ("show",)))
    assert (short.returncode, short.stdout) == (0, long.stdout) and short.stdout
    listed = call("--help").stdout.decode()
    assert "\nUnderstand a run:\n" in listed and not any(f"\n  {name} " in listed for name in main.SHOWN)


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
