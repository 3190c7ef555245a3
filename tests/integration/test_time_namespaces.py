"""Processes in time namespaces, whose monotonic clocks are shifted: their times are those of the real-time clock, which
no namespace shifts."""

import shutil
import subprocess
import sys
import time

import pytest

import tailrace

UNSHARE = ["unshare", "--time", "--monotonic"]

APART_NS = 1_000_000_000
"""A process may be preempted between its readings of the two clocks; the shifts are longer."""

pytestmark = pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run([*UNSHARE, "1", "true"], capture_output=True, check=False).returncode != 0,
    reason="no time namespaces, or no right to make one",
)

WRITES = """
import os, signal, sys, time
for number in range(3):
    before = time.time_ns()
    with open(f"f{number}", "w") as file:
        file.write("x")
    print(number, before, time.time_ns(), flush=True)
os.kill(os.getpid(), getattr(signal, sys.argv[1]))
"""


@pytest.mark.parametrize("clock", ["", "monotonic"])
@pytest.mark.parametrize("how", [[], ["--fork"]])
@pytest.mark.parametrize(("shift_s", "signal"), [(780, "SIGCONT"), (-5, "SIGCONT"), (780, "SIGKILL"), (-5, "SIGKILL")])
def test_times_are_those_of_the_real_time_clock(run_traced, monkeypatch, clock, how, shift_s, signal):
    if clock:
        monkeypatch.setenv("TAILRACE_CLOCK", clock)
    begun = time.time_ns()
    program = [sys.executable, "-c", WRITES, signal]
    printed = run_traced(*UNSHARE, str(shift_s), *how, *program, check=False).stdout
    run = tailrace.open(run_traced.run)
    events = run.read(["ts", "dur", "name", "path"])
    assert events["ts"].min() >= begun - APART_NS
    assert (events["ts"] + events["dur"]).max() <= time.time_ns() + APART_NS
    for number, before, after in (map(int, line.split()) for line in printed.splitlines()):
        mine = events[events["path"].astype(str).str.endswith(f"/f{number}")]
        assert {"write"} <= set(mine["name"])
        assert ((mine["ts"] >= before - APART_NS) & (mine["ts"] <= after + APART_NS)).all(), (mine, before, after)
    assert dict(run.process_clocks) == {}


def test_processes_inside_and_outside_are_in_the_order_in_which_they_ran(run_traced):
    step = "cat f >> g; cat g > f"
    ahead, behind = (f"{' '.join(UNSHARE)} {shift_s} sh -c '{step}'" for shift_s in (780, -5))
    run_traced("sh", "-c", f"echo > f; {ahead}; sh -c '{step}'; {behind}")
    found = tailrace.open(run_traced.run).insights()
    assert found.inputs.makespan_ns < 300e9, "the longest that a traced command may take here"
    assert len(found.conflicts.rows) == 0
