"""How tasks and commands ended: the table, the counts, and the sentence at the head of a report."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pandas as pd
import pytest

import tailrace
from support import trace_writer as tw
from support.flowcase import MS, T0_NS, FakeRun
from tailrace.analyzer.model import outcomes
from tailrace.analyzer.store.processes import SignalEnd
from tailrace.base import exit_codes


def declared(*rows: dict[str, object]) -> FakeRun:
    base = {"workflow": "w", "stage": "s", "t_launch_ns": T0_NS, "t_end_ns": T0_NS + 10 * MS, "error": None}
    return FakeRun([], declared_tasks=pd.DataFrame([{**base, **row} for row in rows]))


@pytest.mark.parametrize(
    ("code", "status", "reason"),
    [
        (0, "done", ""),
        (1, "failed", "exit code 1"),
        (128, "failed", "exit code 128"),
        (137, "killed", "signal 9 (SIGKILL)"),
        (-11, "killed", "signal 11 (SIGSEGV)"),
        (255, "failed", "exit code 255"),
    ],
)
def test_an_exit_code_is_a_failure_or_a_signal(code: int, status: str, reason: str) -> None:
    assert exit_codes.ended(code) == (status, reason)


def test_the_table_has_failures_first_and_each_task_once() -> None:
    run = declared(
        {"task": "1", "status": "done", "tries": 1},
        {"task": "2", "status": "memoized", "tries": 0},
        {"task": "3", "status": "dep_failed", "tries": 0},
        {"task": "4", "status": "done", "tries": 3},
        {"task": "5", "status": "failed", "tries": 1, "error": "no"},
        {"task": "6", "status": None, "tries": None},
    )
    table = outcomes.table(run)
    assert table[["task", "status"]].to_numpy().tolist() == [
        ["5", "failed"],
        ["3", "dep_failed"],
        ["4", "retried"],
        ["2", "memoized"],
        ["1", "done"],
        ["6", None],
    ]
    failed = table.iloc[0]
    assert (failed["lost_ns"], failed["error"], failed["tries"]) == (10 * MS, "no", 1)
    assert table["begin_ns"].isna().tolist() == [False, True, False, True, False, False]
    assert outcomes.counts(table) == {
        "failed": 1,
        "dep_failed": 1,
        "retried": 1,
        "memoized": 1,
        "done": 1,
        "open": 1,
    }


def test_a_run_without_declared_tasks_has_no_outcome() -> None:
    assert outcomes.news(FakeRun([])) == ({}, "", False)


@pytest.mark.parametrize(
    ("counts", "commands", "killed", "text"),
    [
        ({"done": 4}, (), {}, ""),
        (
            {"failed": 2, "killed": 1, "dep_failed": 3, "retried": 1, "memoized": 2, "done": 4},
            (),
            {},
            "6 of 13 tasks did not succeed: 2 failed, 1 killed, 3 never ran (a dependency failed)."
            " Of the others: 1 done at a later try, 2 memoized.",
        ),
        ({"timeout": 2}, (), {}, "None of 2 tasks succeeded: 2 timed out."),
        ({"done": 3, "retried": 1}, (), {}, "Of 4 tasks: 1 done at a later try."),
        ({}, ("ended with exit code 2",), {11: 1}, "The command ended with exit code 2."),
        ({}, (), {9: 1}, "1 process was ended by signal 9 (SIGKILL)."),
        ({}, (), {6: 1, 9: 2, 63: 1}, "4 processes were ended by signals: 2 by SIGKILL, 1 by SIGABRT, 1 by 63."),
    ],
)
def test_the_sentence_says_what_is_not_ordinary(
    counts: dict[str, int], commands: tuple[str, ...], killed: dict[int, int], text: str
) -> None:
    assert outcomes.sentence(counts, commands, killed) == text


LOST, FINE, WORKER = ("w", "lost"), ("w", "fine"), ("w", None)


@pytest.mark.parametrize(
    ("number", "tasks", "counted"),
    [
        (signal.SIGSEGV, {FINE}, True),
        (signal.SIGTERM, {LOST}, True),
        (signal.SIGALRM, {LOST}, True),
        (signal.SIGKILL, {LOST}, True),
        (signal.SIGPIPE, {LOST}, False),
        (signal.SIGKILL, {FINE}, False),
        (signal.SIGTERM, {WORKER, LOST}, False),
        (signal.SIGKILL, {LOST, FINE}, False),
        (signal.SIGKILL, set(), False),
    ],
)
def test_a_signal_counts_where_a_program_crashed_or_its_task_has_no_result(
    number: int, tasks: set[tuple[str, str | None]], counted: bool
) -> None:
    """A manager ends its workers by signals, also after a task of theirs has failed; in both ways to the sentence."""
    run = declared({"task": "lost", "status": "canceled"}, {"task": "fine", "status": "done"})
    run.signal_ends = [SignalEnd(number, tasks)]
    rows = [("w", "lost", "canceled", 1), ("w", "fine", "done", 1)]
    said = [outcomes.news(run), outcomes.said(rows, [("w", "{}")], [], run.signal_ends)]
    assert said[0] == said[1]
    assert (f"1 process was ended by signal {int(number)}" in said[0][1]) == counted


def test_a_commands_end_is_told_from_a_shells_word_for_a_signal() -> None:
    assert outcomes.faults([0, 3 << 8, 9, 139 << 8, 141 << 8, 163 << 8]) == [
        "ended with exit code 3",
        "was killed by signal 9 (SIGKILL)",
        "ended with exit code 139, since a program in it was killed by signal 11 (SIGSEGV)",
        "ended with exit code 141, since a command of its pipe was ended by SIGPIPE (its reader had ended first)",
        "ended with exit code 163",
    ]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("its command returned non-zero exit status 141", 141),
        ("Process `SCAN (1)` terminated with an error exit status (137)", 137),
        ("Command failed with exit code: 3", 3),
        ("ValueError: 141 is too many", 0),
    ],
)
def test_an_exit_code_is_found_in_a_managers_words(text: str, code: int) -> None:
    assert exit_codes.code_in(text) == code


def test_a_signal_that_asks_to_end_is_no_crash() -> None:
    numbers = [signal.SIGTERM, signal.SIGPIPE, signal.SIGKILL, signal.SIGSEGV, None]
    table = pd.DataFrame({"signal": pd.array(numbers, dtype="Int64"), "t1_ns": range(5)})
    assert outcomes.crashed(table, outcomes.KILLED).index.tolist() == [2, 3]
    assert outcomes.crashed(table, exit_codes.CRASHES).index.tolist() == [3]


def test_the_account_of_a_flux_task_is_no_command(tmp_path: Path) -> None:
    """A Flux shell's file of accounts is a list, of tasks, whose manager says how they ended."""
    run = tw.make_run(tmp_path / "run", {"n-7-1": tw.block([tw.event()])})
    account = {"host": tw.HOST, "pid": 7, "status": 9, "rchar": 0, "wchar": 0, "ns": tw.T0_US * 1000}
    (run / "accounts").mkdir(exist_ok=True)
    (run / "accounts" / "shell.json").write_text(json.dumps([account]))
    assert len(tailrace.open(run).command_ends) == 0
    (run / "accounts" / "launcher.json").write_text(json.dumps(account))
    assert tailrace.open(run).command_ends["status"].to_list() == [9]


@pytest.mark.parametrize(
    ("configs", "counted"),
    [
        ([{}], {"done": 1, "open": 1}),
        ([{"ends": "some"}], {"done": 1}),
        ([{"ends": False}], {}),
        ([{"ends": False}, {"ends": "some"}], {"done": 1}),
        ([{"ends": "some"}, {}], {"done": 1, "open": 1}),
    ],
)
def test_nothing_is_said_of_ends_that_no_one_tells(
    configs: list[dict[str, object]], counted: dict[str, int], tmp_path: Path
) -> None:
    """What was imported may not know them, and the manager's own declarations of the same workflow do; in the report,
    and in the overview, which reads no table."""
    key = {"workflow": "w", "task": "a"}
    lines = [{"type": "task", **key, "stage": "s", "kind": "job", "name": "", "deps": [], "inputs": [], "outputs": []}]
    lines.append({**lines[0], "task": "b"})
    lines.append({"type": "end", **key, "t_end_ns": 5, "status": "done", "tries": 1})
    head = {"type": "workflow", "workflow": "w", "manager": "m", "version": "", "t_ns": 1}
    lines = [{**head, "config": config} for config in configs] + lines
    (tmp_path / "declared").mkdir()
    (tmp_path / "trace").mkdir()
    (tmp_path / "declared/m.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    run = tailrace.open(tmp_path)
    assert outcomes.counts(outcomes.table(run)) == counted
    assert run.info()["outcomes"] == counted
