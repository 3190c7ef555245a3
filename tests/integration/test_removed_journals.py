"""Journals that are removed while processes write them, as systemd-logind's RemoveIPC, an epilog or a cleaner does: a
process finds that out when it hands over and at its end, and writes what it has; of a killed one the run says so."""

import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

import tailrace
from support.commands import TracedCommand, run_cli
from support.run_files import Trace

COUNT = 10_000
"""Of writes; a segment has 4096 records."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the journals are."""
    made = tmp_path / "journals"
    made.mkdir()
    monkeypatch.setenv("TAILRACE_JOURNAL_DIR", str(made))
    return made


def written(run: Path, data: Path) -> int:
    return len(Trace(run).of(data, {"pwrite"}))


def all_of(place: Path) -> str:
    # Again, while the processes of the command itself make new ones.
    return f"until rm -rf {shlex.quote(str(place))}/tailrace-* 2> /dev/null; do :; done"


def files_of(place: Path) -> str:
    """What a cleaner of old files removes."""
    return f"find {shlex.quote(str(place))} -name '*.tj' -delete"


def moved(place: Path) -> str:
    """The files stay, at another path, as below a file system that is mounted over the place."""
    return f"mv {shlex.quote(str(place))}/tailrace-* {shlex.quote(str(place))}/away"


@pytest.mark.parametrize("at", [100, 4500, 9000])
@pytest.mark.parametrize("change", [all_of, files_of, moved])
def test_a_process_whose_journal_is_removed_loses_nothing(
    run_traced: TracedCommand, program: Callable[[str], Path], place: Path, change: Callable[[Path], str], at: int
) -> None:
    done = run_traced(program("removed"), "exit", COUNT, at, change(place), options=())
    assert written(run_traced.run, run_traced.work / "data") == COUNT
    assert "LOST" not in done.stderr


@pytest.mark.parametrize(("how", "times"), [("_exit", 1), ("exec", 2), ("thread", 3)])
def test_however_such_a_process_ends_it_writes_what_it_has(
    run_traced: TracedCommand, program: Callable[[str], Path], place: Path, how: str, times: int
) -> None:
    run_traced(program("removed"), how, COUNT, 4500, all_of(place), options=())
    assert written(run_traced.run, run_traced.work / "data") == times * COUNT


def test_of_a_killed_process_the_run_says_that_its_journal_was_removed(
    run_traced: TracedCommand, program: Callable[[str], Path], place: Path
) -> None:
    change = f"{all_of(place)}; sleep 0.5"
    done = run_traced(program("removed"), "kill", COUNT, 4500, change, options=(), check=False)
    assert f"journals in {place} were removed while the command ran" in done.stderr
    assert "nothing lost" not in done.stderr
    assert written(run_traced.run, run_traced.work / "data") < COUNT
    run = tailrace.open(run_traced.run)
    host = os.uname().nodename
    lost = run.losses[run.losses["cause"] == "journals_removed"]
    assert lost[["unit", "problem"]].to_numpy().tolist() == [["hosts", host]]
    said = run_cli("report", run_traced.run).stdout
    assert "journals were removed while processes ran" in " ".join(said.split())


def test_of_a_killed_process_whose_journal_is_at_another_path_nothing_is_lost(
    run_traced: TracedCommand, program: Callable[[str], Path], place: Path
) -> None:
    done = run_traced(program("removed"), "kill", COUNT, 9000, f"{moved(place)}; sleep 0.5", options=(), check=False)
    assert written(run_traced.run, run_traced.work / "data") == COUNT
    assert "removed" not in done.stderr and "LOST" not in done.stderr
    assert not list(place.glob("*/*/*.tj"))


def test_processes_that_begin_after_the_removal_are_served_again(
    run_traced: TracedCommand, program: Callable[[str], Path], place: Path
) -> None:
    late = f"{program('removed')} exit {COUNT} -1 ''"
    run_traced("sh", "-c", f"{all_of(place)}; sleep 1; cd {run_traced.work}; {late}; {late}")
    assert written(run_traced.run, run_traced.work / "data") == 2 * COUNT
    assert not list(place.glob("*/*/*.tj"))
