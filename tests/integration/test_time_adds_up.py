"""What time was spent on, against what programs know of themselves: their own clocks, and what they were made to do.

Each state's time has the least length that the program saw; how much longer it is depends on the machine. The parts add
up to the wall time in all of them.
"""

import sys
from pathlib import Path

import pandas as pd
import pytest

import tailrace
from support.commands import TracedCommand, run_cli
from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.model import dataflow, time_model

pytestmark = pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel has no schedstat")

SPIN = """
import time
def spin(seconds):
    begin = time.thread_time()
    while time.thread_time() - begin < seconds: sum(range(20_000))
"""


def spent(run: AnalyzedRun) -> pd.DataFrame:
    """ns by state of each actor, with its exe, and wall, from its begin to its end; checks that they add up."""
    m = dataflow.model(run)
    every = m.who.index.to_numpy(dtype="int64")
    model = time_model.TimeModel(m)
    parts = model.states(every).parts()
    assert (parts >= 0).all().all()
    parts["wall"] = parts.sum(axis=1)
    first, last = (
        m.table.counts.groupby("who")[name].agg(how) for name, how in (("first_ns", "min"), ("last_ns", "max"))
    )
    assert (parts["wall"] >= 0.99 * (last - first)).all()
    account = found_account(run)
    assert sum(account.values()) == pytest.approx(run.insights().inputs.makespan_ns, rel=0.01)
    return parts.assign(exe=m.who["exe"].to_numpy(), pid=m.who["pid"].to_numpy())


def found_account(run: AnalyzedRun) -> dict[str, int]:
    return dict(run.insights().verdict.parts)


def test_a_sleep_is_sleeping(run_traced: TracedCommand, tmp_path: Path) -> None:
    run_traced("sleep", 1)
    run = tailrace.open(tmp_path / "run")
    (row,) = spent(run).to_dict("records")
    assert row["sleep"] >= 0.9 * row["wall"]
    assert "Sleeping bounds it" in run_cli("report", tmp_path / "run").stdout


def test_more_programs_that_compute_than_processors_are_ready(run_traced: TracedCommand, tmp_path: Path) -> None:
    """Twelve on two processors: each has a sixth of one."""
    (tmp_path / "spin.py").write_text(SPIN + "spin(0.2)")
    (tmp_path / "all.sh").write_text(f"for i in $(seq 12); do {sys.executable} -S spin.py & done; wait")
    run_traced("sh", "all.sh", prefix=["taskset", "-c", "0,1"])
    run = tailrace.open(tmp_path / "run")
    rows = spent(run)
    rows = rows[rows["computing"] > 100_000_000]
    assert len(rows) == 12
    assert rows["ready"].sum() > rows["wall"].sum() / 2
    assert rows["computing"].sum() >= 12 * 150_000_000, "what they computed, but for their imports"


def test_who_waits_for_a_lock_waits_for_a_lock_and_its_holder(run_traced: TracedCommand, tmp_path: Path) -> None:
    (tmp_path / "lock.py").write_text(
        "import fcntl, os, time\n"
        "file = open('locked', 'w')\n"
        "fcntl.lockf(file, fcntl.LOCK_EX)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    begin = time.monotonic_ns()\n"
        "    fcntl.lockf(file, fcntl.LOCK_EX)\n"
        "    print(os.getpid(), time.monotonic_ns() - begin, flush=True)\n"
        "    os._exit(0)\n"
        "time.sleep(0.7)\n"
        "fcntl.lockf(file, fcntl.LOCK_UN)\n"
        "os.wait()\n"
        "print(os.getpid(), flush=True)\n"
    )
    said = run_traced(sys.executable, "-S", "lock.py").stdout.split()
    waiter, waited, holder = map(int, said)
    run = tailrace.open(tmp_path / "run")
    rows = spent(run).set_index("pid")
    assert waited / 2 <= rows.loc[waiter, "lock"] <= 1.01 * waited
    assert rows.loc[holder, "lock"] < waited / 2 <= rows.loc[holder, "sleep"]
    locks = run.read(["pid", "holder", "dur"], name="fcntl")
    assert locks.sort_values("dur")["holder"].iloc[-1] == holder


def test_a_poller_polls(run_traced: TracedCommand, tmp_path: Path) -> None:
    (tmp_path / "poll.py").write_text(
        "import os, select\n"
        "ours, theirs = os.pipe()\n"
        "poll = select.poll()\n"
        "poll.register(ours, select.POLLIN)\n"
        "for _ in range(100): poll.poll(10)\n"
    )
    run_traced(sys.executable, "-S", "poll.py")
    (row,) = spent(tailrace.open(tmp_path / "run")).to_dict("records")
    assert row["polling"] >= 900_000_000
    assert row["polling"] > row["wall"] / 2


def test_who_waits_until_a_pipe_or_a_socket_is_ready_waits_on_it(run_traced: TracedCommand, tmp_path: Path) -> None:
    (tmp_path / "wait.py").write_text(
        "import os, select, socket, sys, time\n"
        "ends = os.pipe() if sys.argv[1] == 'pipe' else [end.detach() for end in socket.socketpair()]\n"
        "if os.fork() == 0:\n"
        "    time.sleep(0.6)\n"
        "    os.write(ends[1], b'x')\n"
        "    os._exit(0)\n"
        "select.select([ends[0]], [], [])\n"
        "os.wait()\n"
    )
    for kind in ("pipe", "socket"):
        TracedCommand(tmp_path, tmp_path / kind)(sys.executable, "-S", "wait.py", kind)
        rows = spent(tailrace.open(tmp_path / kind))
        assert sorted(rows[kind] > 300_000_000) == [False, True]
        assert (rows["polling"] == 0).all()


def test_a_task_computes_while_one_process_of_it_does(run_traced: TracedCommand, tmp_path: Path) -> None:
    """`gen | wc`: the reader waits on the pipe for all that time."""
    (tmp_path / "gen.py").write_text(SPIN + "spin(0.6)\nprint(1)\n")
    run_traced("sh", "-c", f"{sys.executable} -S gen.py | wc -l", tags=("task=t", "stage=s"))
    run = tailrace.open(tmp_path / "run")
    rows = spent(run)
    assert rows["pipe"].max() > 300_000_000
    account = found_account(run)
    assert account["computing"] >= 500_000_000
    assert account.get("pipe", 0) < 100_000_000
    task = run.task("t")
    assert task.begin_ns is not None and task.end_ns is not None
    assert sum(task.spent_ns.values()) == task.end_ns - task.begin_ns
    assert task.spent_ns["computing"] >= 500_000_000
    stage = run.stage("s")
    assert sum(stage.spent_ns.values()) == stage.end_ns - stage.begin_ns


def test_tasks_on_threads_of_one_process_have_their_own_time(run_traced: TracedCommand, tmp_path: Path) -> None:
    (tmp_path / "pool.py").write_text(
        SPIN
        + "import threading\n"
        + "from tailrace import context\n"
        + "def work(task, what):\n"
        + "    with context.scope(stage='s', task=task): what(0.5)\n"
        + "threads = [threading.Thread(target=work, args=row) for row in (('spins', spin), ('sleeps', time.sleep))]\n"
        + "[thread.start() for thread in threads]\n"
        + "[thread.join() for thread in threads]\n"
    )
    run_traced(sys.executable, "pool.py")
    run = tailrace.open(tmp_path / "run")
    spins, sleeps = (run.task(name).spent_ns for name in ("spins", "sleeps"))
    assert spins["computing"] >= 450_000_000 and spins["unknown"] == 0
    assert sleeps["sleep"] >= 450_000_000 and sleeps["computing"] < 100_000_000


def test_threads_that_record_nothing_compute(run_traced: TracedCommand, tmp_path: Path) -> None:
    """The only thread with records waits for them."""
    (tmp_path / "threads.py").write_text(
        SPIN
        + "import threading\n"
        + "thread = threading.Thread(target=spin, args=(0.6,))\n"
        + "thread.start()\n"
        + "thread.join()\n"
    )
    run_traced(sys.executable, "threads.py")
    (row,) = spent(tailrace.open(tmp_path / "run")).to_dict("records")
    assert row["computing"] >= 550_000_000
    assert row["thread"] < 300_000_000 + row["wall"] - row["computing"] - row["ready"]


def test_phases_have_the_time_that_the_program_measured(run_traced: TracedCommand, tmp_path: Path) -> None:
    (tmp_path / "phases.py").write_text(
        SPIN
        + "import os\n"
        + "used = time.process_time_ns()\n"
        + "spin(0.5)\n"
        + "print(time.process_time_ns() - used)\n"
        + "begin = time.monotonic_ns()\n"
        + "for _ in range(5): time.sleep(0.1)\n"
        + "print(time.monotonic_ns() - begin)\n"
        + "begin = time.monotonic_ns()\n"
        + "file = os.open('data', os.O_WRONLY | os.O_CREAT)\n"
        + "for _ in range(20): os.write(file, bytes(1 << 20)), os.fsync(file)\n"
        + "print(time.monotonic_ns() - begin)\n"
    )
    computed, slept, wrote = map(int, run_traced(sys.executable, "-S", "phases.py").stdout.split())
    (row,) = spent(tailrace.open(tmp_path / "run")).to_dict("records")
    assert row["computing"] >= 0.95 * computed
    assert 0.95 * slept <= row["sleep"] <= 1.01 * slept
    assert row["write"] + row["flush"] + row["metadata"] <= 1.05 * wrote + 50_000_000
    assert row["wall"] >= computed + slept
