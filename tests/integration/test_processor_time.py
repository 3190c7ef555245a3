"""The kernel's account of time in the trace: what threads, processes and children were on a processor and ready.

The truth is what the program itself reads of the kernel right before its thread or process ends, or of its dead child.
What the trace has is read later, of the same counters: never less, and of what is dead the same.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tailrace
from support import ordinary_user
from support.commands import TracedCommand
from support.run_files import Line, Trace

pytestmark = pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel has no schedstat")


class Counted(NamedTuple):
    id: int
    run_ns: int
    ready_ns: int


class Told(NamedTuple):
    """What the program said, by kind, and the events of the run by name."""

    counted: dict[str, list[Counted]]
    events: dict[str, list[Line]]
    run: Path

    def one(self, name: str, **wanted: Any) -> dict[str, Any]:
        (args,) = (event["args"] for event in self.events[name] if wanted.items() <= {**event, **event["args"]}.items())
        return dict(args)


@pytest.fixture
def told(tmp_path: Path, run_traced: TracedCommand, program: Callable[[str], Path]) -> Callable[..., Told]:
    def run(*words: object, prefix: Iterable[str] = (), become: Iterable[str] = (), code: int = 0) -> Told:
        done = run_traced(*become, program("processor_time"), *words, prefix=prefix, check=False)
        assert done.returncode == code, done.stderr
        counted: dict[str, list[Counted]] = defaultdict(list)
        for line in done.stdout.splitlines():
            kind, *numbers = line.split()
            counted[kind].append(Counted(*map(int, numbers)))
        events: dict[str, list[Line]] = defaultdict(list)
        for event in Trace(tmp_path / "run").events:
            events[event["name"]].append(event)
        return Told(counted, events, tmp_path / "run")

    return run


def test_each_thread_that_recorded_something_has_its_time(told: Callable[..., Told]) -> None:
    """Twelve threads compute on as many processors as there are: those that ended, and those that lived on."""
    found = told("threads", 12)
    threads = {event["tid"]: event for event in found.events["thread"]}
    (process,) = found.counted["process"]
    assert set(threads) == {counted.id for counted in found.counted["thread"]} | {process.id}
    for counted in found.counted["thread"]:
        event = threads[counted.id]
        assert event["args"]["run_ns"] >= counted.run_ns
        assert event["args"]["ready_ns"] >= counted.ready_ns
        # It was on a processor, ready or blocked, from when it was made.
        assert event["args"]["run_ns"] + event["args"]["ready_ns"] <= event["dur"] * 1000
        assert {"size", "ret", "path"}.isdisjoint(key for key, value in event["args"].items() if value is not None)


def test_the_exit_has_the_sum_of_all_threads(told: Callable[..., Told]) -> None:
    found = told("threads", 12)
    args = found.one("exit")
    counted = [*found.counted["thread"], *found.counted["silent"]]
    (process,) = found.counted["process"]
    used = args["utime"] + args["stime"]
    assert sum(one.run_ns for one in counted) <= process.run_ns <= used + 1000  # getrusage(2) has microseconds
    # All are known, so what is missing is what reading them took: they are in the sum with more than they counted.
    assert sum(one.run_ns for one in counted) <= args["ready_of_ns"] <= used + 1000
    assert args["ready_ns"] >= sum(max(0, one.ready_ns) for one in counted)
    (row,) = tailrace.open(found.run).processes.to_dict("records")
    assert (row["run_ns"], row["ready_ns"]) == (used, args["ready_ns"])


def test_a_process_of_one_thread_has_its_time_by_who_waited_for_it(told: Callable[..., Told]) -> None:
    """Its own end reads nothing: a signal there would find bytes that the kernel has counted and the ledger has not."""
    found = told("alone")
    (process,) = found.counted["process"]
    assert found.events["thread"] == [] and "ready_ns" not in found.one("exit")
    (row,) = tailrace.open(found.run).processes.to_dict("records")
    assert row["run_ns"] >= process.run_ns
    assert row["ready_of_ns"] >= process.run_ns and row["ready_ns"] >= 0


@pytest.mark.parametrize("user", ["as we are", pytest.param("as an ordinary user", marks=ordinary_user.MARKER)])
@pytest.mark.parametrize(("how", "status"), [("child", 3 << 8), ("killed_child", 9)])
def test_a_wait_has_the_time_of_the_child(
    told: Callable[..., Told], tmp_path: Path, user: str, how: str, status: int
) -> None:
    """However it ended, and whoever waits: it is dead, so both have read the same."""
    is_other = user != "as we are"
    if is_other:
        tmp_path.chmod(0o777)
    prefix, become = (ordinary_user.reach(tmp_path), ordinary_user.become()) if is_other else ([], [])
    found = told(how, prefix=prefix, become=become)
    (child,) = found.counted["child"]
    args = found.one("wait", ret=child.id)
    assert args["status"] == status
    assert (args["run_ns"], args["ready_ns"], args["ready_of_ns"]) == (child.run_ns, child.ready_ns, child.run_ns)
    rows = tailrace.open(found.run).coverage
    (row,) = rows[rows["pid"] == child.id].to_dict("records") or [None]
    if row is not None and how == "killed_child":
        assert (row["run_ns"], row["ready_ns"]) == (child.run_ns, child.ready_ns)


def test_the_launcher_has_the_time_of_a_killed_command(told: Callable[..., Told]) -> None:
    found = told("killed", code=128 + 9)
    (process,) = found.counted["process"]
    (row,) = tailrace.open(found.run).coverage.to_dict("records")
    assert row["signal"] == 9
    assert row["run_ns"] >= process.run_ns
    assert row["ready_of_ns"] == row["run_ns"] and row["ready_ns"] >= 0


def test_the_run_says_whether_the_kernel_counts_and_what_a_record_costs(told: Callable[..., Told]) -> None:
    about = tailrace.open(told("alone").run).meta["time"]
    assert about["schedstat"] is True
    assert 0 < about["record_ns"] < 100_000
