"""Waits in the trace: what a program waited for, and how long by its own clock.

The program reads its clock right before and right after each call, so what is recorded of it is never longer. Nor is it
much shorter, since nothing of the program's is between the two; "much" is half of a tenth of a second.
"""

import fcntl
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tailrace
from support.commands import TracedCommand
from support.harm import Harm
from support.run_files import Line, Trace
from tailrace import _native

CLOCK_NS = 20_000
"""How far the two clocks may differ within such a wait: ticks are converted at the end of a block."""


class Told(NamedTuple):
    """What the program said of each call: its duration and result, by name; the run's events, and the run."""

    said: dict[str, tuple[int, int]]
    events: list[Line]
    run: Path

    def one(self, name: str) -> Line:
        (event,) = (event for event in self.events if event["name"] == name and _is_long(event))
        return event


def _is_long(event: Line) -> bool:
    return event["dur"] >= 50_000 and not event["args"].get("at_once")


@pytest.fixture
def told(tmp_path: Path, run_traced: TracedCommand, program: Callable[[str], Path]) -> Callable[..., Told]:
    def run(*how: str, options: tuple[str, ...] = ("-q",), name: str = "waits") -> Told:
        done = run_traced(program(name), *how, options=options)
        lines = [line.split() for line in done.stdout.splitlines()]
        said = {name: (int(took), int(ret)) for name, took, ret in lines}
        return Told(said, Trace(tmp_path / "run").events, tmp_path / "run")

    return run


def check_duration(found: Told, name: str) -> Line:
    took, _ = found.said[name]
    event = found.one(name)
    assert took / 2 <= event["dur"] * 1000 <= took + CLOCK_NS, (name, took, event)
    return event


def test_a_sleep_has_its_time_and_what_was_asked_for(told: Callable[..., Told]) -> None:
    found = told("sleeps")
    for name in ("clock_nanosleep", "nanosleep", "usleep", "thrd_sleep", "sleep"):
        event = check_duration(found, name)
        asked = 1_000_000_000 if name == "sleep" else 120_000_000
        assert event["cat"] == "WAIT" and event["args"]["ret"] == 0
        # An absolute deadline was a moment before the call.
        assert asked - 60_000_000 * (name == "clock_nanosleep") <= event["args"]["timeout_ns"] <= asked
        assert event["dur"] * 1000 >= event["args"]["timeout_ns"] - CLOCK_NS
    assert _native.time_kinds()["usleep"] == "sleep"


def test_a_wait_for_descriptors_has_the_one_that_became_ready(told: Callable[..., Told]) -> None:
    found = told("polls")
    for name in ("poll", "ppoll", "select", "pselect", "epoll_wait", "epoll_pwait"):
        event = check_duration(found, name)
        assert event["cat"] == "WAIT"
        assert event["path"].startswith("pipe:["), event
        assert event["args"]["ret"] == 1
        assert event["args"].get("descriptors") == (2 if "poll" in name and "epoll" not in name else None)
        timeout = 5_000_000_000 if name in ("poll", "epoll_wait") else None
        assert event["args"].get("timeout_ns") == timeout
        assert _native.time_kinds()[name] == "polling"


def test_a_wait_for_another_thread_has_its_time(told: Callable[..., Told]) -> None:
    """A deadline by a clock that the call names is how long the wait was to be."""
    found = told("threads")
    assert len(found.said) == 13
    for name in found.said:
        event = check_duration(found, name)
        assert event["cat"] == "WAIT" and event["path"] is None
        by_clock = name in ("pthread_cond_clockwait", "sem_timedwait", "sem_clockwait")
        assert (event["args"].get("timeout_ns") is not None) == by_clock
        assert 30_000_000_000 < event["args"].get("timeout_ns", 59_000_000_000) <= 60_000_000_000
        assert _native.time_kinds()[name] == "thread"


def test_a_join_has_the_thread_that_was_waited_for(told: Callable[..., Told]) -> None:
    found = told("polls")  # its threads have written
    joins = [event for event in found.events if event["name"] == "pthread_join"]
    writers = [event["tid"] for event in found.events if event["name"] == "write" and event["path"].startswith("pipe:")]
    assert {event["args"]["thread"] for event in joins if "thread" in event["args"]} <= set(writers)
    assert len(writers) == 6


def test_a_wait_for_a_signal_has_its_time(told: Callable[..., Told]) -> None:
    found = told("signals")
    for name in ("sigwait", "sigwaitinfo", "sigtimedwait", "sigsuspend", "pause"):
        event = check_duration(found, name)
        assert event["args"].get("errno") == (4 if name in ("sigsuspend", "pause") else None)
        assert _native.time_kinds()[name] == "signal"


def test_system_vs_queues_and_semaphores_are_waits(told: Callable[..., Told]) -> None:
    found = told("system_v")
    for name in ("msgrcv", "semop", "semtimedop"):
        assert check_duration(found, name)["cat"] == "WAIT"


@pytest.mark.parametrize(("how", "offset", "count"), [("fcntl", 0, 100), ("lockf", 4, 20), ("flock", 0, 0)])
def test_a_wait_for_a_lock_has_its_range_and_the_holder(
    told: Callable[..., Told], tmp_path: Path, how: str, offset: int, count: int
) -> None:
    found = told("locks", how)
    event = check_duration(found, how)
    args = event["args"]
    assert event["path"] == str(tmp_path / "locked")
    kind = fcntl.LOCK_SH if how == "flock" else fcntl.LOCK_EX
    assert (args["flags"], args["offset"], args["count"]) == (kind, offset, count)
    assert args.get("holder") == (None if how == "flock" else found.said["holder"][0])
    assert _native.time_kinds()[how] == "lock"
    # The holder's own lock, and each unlock, are events, too.
    locks = [(e["pid"] == found.said["holder"][0], e["name"], e["args"]["flags"]) for e in found.events if is_lock(e)]
    ours = "flock" if how == "flock" else "fcntl"
    assert [(name, flags & ~fcntl.LOCK_NB) for is_child, name, flags in locks if is_child] == [(ours, fcntl.LOCK_EX)]
    assert [name for _, name, flags in locks if flags & fcntl.LOCK_UN] == ["fcntl", "flock"]


def is_lock(event: Line) -> bool:
    return event["name"] in ("fcntl", "lockf", "flock") and "flags" in event["args"]


def test_a_lock_that_is_refused_names_no_holder(told: Callable[..., Told]) -> None:
    found = told("locks", "busy")
    (event,) = (e for e in found.events if e["name"] == "fcntl" and e["args"].get("errno"))
    assert event["args"]["errno"] == 11 and event["args"].get("holder") is None


def test_many_short_waits_are_few_lines_with_their_sum(told: Callable[..., Told]) -> None:
    """2,000 waits of a millisecond, 100,000 looks without waiting, 1,000 semaphores that were free."""
    found = told("loops")
    took, _ = found.said["poll"]
    lines = [e for e in found.events if e["name"] == "poll"]
    waited = [e for e in lines if not e["args"].get("at_once")]
    looked = [e for e in lines if e["args"].get("at_once")]
    assert sum(e["args"].get("calls", 1) for e in waited) == 2000
    assert sum(e["args"]["calls"] for e in looked) == 100_000
    assert all(e["args"]["timeout_ns"] == 1_000_000 and e["path"].startswith("pipe:") for e in waited)
    # A line lasts up to a quarter of a second; on a busy machine some waits are far apart, or long.
    assert len(waited) < 500 and len(looked) < 10
    assert 2_000_000_000 <= sum(e["dur"] for e in waited) * 1000 <= took + CLOCK_NS * len(waited)
    for event in waited:
        assert event["dur"] * 1000 <= event["args"].get("span", 1 << 60) + 1000
        assert event["args"].get("span", 0) <= 250_000_000 + CLOCK_NS
    free = [e["args"] for e in found.events if e["name"] == "sem_wait"]
    assert sum(args["calls"] for args in free) == 1000 and all(args["at_once"] == 1 for args in free)


def test_a_reader_has_waits_and_counts_none_of_them_as_io(told: Callable[..., Told]) -> None:
    found = told("polls")
    run = tailrace.open(found.run)
    waits = run.read(cat="WAIT")
    assert set(waits["name"]) >= {"poll", "ppoll", "select", "pselect", "epoll_wait", "epoll_pwait"}
    assert waits.loc[waits["name"] == "poll", "descriptors"].tolist() == [2]
    assert "WAIT" not in set(run.edges().functions["cat"])


@pytest.mark.parametrize(
    "how", ["errors", "cancellations", "interruptions", "restarts", "deadlock", "conversion", "forks", "vforks"]
)
def test_calls_that_wait_behave_as_untraced(harm: Harm, program: Callable[[str], Path], how: str) -> None:
    harm(program("waits"), how)


def test_a_process_that_is_killed_in_a_loop_of_waits_has_them(
    run_traced: TracedCommand, program: Callable[[str], Path], tmp_path: Path
) -> None:
    """Its lines are added to in the journal, which outlives it."""
    source = (
        "import os, select, signal, time\n"
        "for _ in range(300): select.select([], [], [], 0.001)\n"
        "for _ in range(500): select.select([], [], [], 0)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = run_traced(sys.executable, "-c", source, check=False)
    assert done.returncode == 128 + 9
    lines = [e for e in Trace(tmp_path / "run").events if e["name"] == "select"]
    calls: dict[Any, int] = {None: 0, 1: 0}
    for event in lines:
        calls[event["args"].get("at_once")] += event["args"].get("calls", 1)
    assert calls == {None: 300, 1: 500}
