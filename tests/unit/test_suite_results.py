"""What the scripts in tests/suites call a difference: tests/suites/results.py."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from suites.results import TAP, Results, Unit, environment, parsed, run_words, table


def in_turns(*traced: Results) -> Callable[[bool], Results]:
    """A unit of one test that passes untraced; traced it has these results, one after the other."""
    left = list(traced)
    return lambda is_traced: left.pop(0) if is_traced else Results({"one": "ok"}, "exit code 0")


FAILS = Results({"one": "not ok"}, "exit code 1", 3, frozenset({"killed"}))
PASSES = Results({"one": "ok"}, "exit code 0", 3)


def test_what_differs_each_time_is_named_and_the_exit_code_is_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert table("suite", [("a", [Unit("unit", in_turns(FAILS, FAILS))])], 2) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["a", "1", "1", "1", "0", "1", "0", "3", "1"]
    assert lines[-2:] == ["lost (killed): a: unit", "a: unit: one: ok, traced not ok"]


def test_what_differs_once_depends_on_the_moment(capsys: pytest.CaptureFixture[str]) -> None:
    assert table("suite", [("a", [Unit("unit", in_turns(FAILS, PASSES))])], 2) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["a", "1", "1", "1", "0", "0", "1", "3", "1"]
    assert lines[-1] == "differed once: a: unit"


def test_an_end_that_differs_is_a_difference_though_all_tests_are_the_same() -> None:
    here, there = Results({"one": "ok"}, "exit code 0"), Results({"one": "ok"}, "exit code 139")
    assert here.differences(there) == {"the end": "exit code 0, traced exit code 139"}


def test_a_missing_test_is_a_difference() -> None:
    assert PASSES.differences(Results({}, "exit code 0")) == {"one": "ok, traced missing"}


def test_repeated_titles_are_tests_of_their_own_and_addresses_are_left_out() -> None:
    text = "ok 1 - at 0x7f00\nok 1 - at 0x7e00\nnot ok 2 - b\nok 3 - c # skip no disk\n"
    assert parsed(TAP, text) == {"1 - at 0x": "ok", "1 - at 0x (2)": "ok", "2 - b": "not ok", "3 - c": "skipped"}


def test_a_command_ended_by_a_signal_and_one_that_is_not_over_are_told_apart(tmp_path: Path) -> None:
    def end(code: str, timeout_s: float = 60) -> str:
        return run_words([sys.executable, "-c", code], tmp_path, environment(), tmp_path / "output", timeout_s)

    assert end("import os; os.kill(os.getpid(), 11)") == "exit code 139"
    assert end("import time; time.sleep(60)", 0.5) == "not over after 0.5 s"


def test_a_command_does_not_outlive_an_interrupt(tmp_path: Path) -> None:
    code = "import os, time; print(os.getpid(), flush=True); os.kill(os.getppid(), 2); time.sleep(60)"
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_words([sys.executable, "-c", code], tmp_path, environment(), tmp_path / "output", 60)
    finally:
        signal.signal(signal.SIGINT, before)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "output").read_text()), 0)
