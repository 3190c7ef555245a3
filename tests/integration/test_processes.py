"""Each process's start, end and resource usage in a trace, against the kernel and against wait4(2)."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import tailrace
from support.commands import TAILRACE

CLI = [*TAILRACE, "run", "-q", "-o"]


def row_of(run_dir: Path, name: str) -> pd.Series:
    """The process of the program of that name."""
    rows = tailrace.open(run_dir).processes
    (row,) = (row for _, row in rows.iterrows() if Path(row["exe"] or "").name.startswith(name) and row["argv"][-1:])
    return row


def test_where_it_ran(tmp_path: Path) -> None:
    cpu = min(os.sched_getaffinity(0))
    program = f"import os; os.sched_setaffinity(0, [{cpu}]); os.execlp('cat', 'cat', '/proc/self/cgroup')"
    command = [*CLI, str(tmp_path / "run"), "--", sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True, timeout=120)
    row = row_of(tmp_path / "run", "cat")
    assert row["cpus"] == str(cpu)
    groups = [line.split(":", 2) for line in done.stdout.splitlines()]
    mine = [path for number, _, path in groups if number == "0" and path != "/"]
    mine += [path for number, _, path in groups if number != "0" and path != "/"]
    assert row["cgroup"] == (mine or [path for *_, path in groups] or [None])[0]
    assert (row["exe"], row["argv"], row["cwd"]) == (
        os.path.realpath(shutil.which("cat") or ""),
        ["cat", "/proc/self/cgroup"],
        str(tmp_path.resolve()),
    )
    assert (row["uid"], row["host"], row["exit"]) == (os.getuid(), os.uname().nodename, 0)


def test_a_fork_has_its_own_facts(tmp_path: Path) -> None:
    cpu = min(os.sched_getaffinity(0))
    program = (
        f"import os; os.sched_setaffinity(0, [{cpu}]); pid = os.fork()\n"
        "if pid == 0: open('x', 'w').write('x'); os._exit(7)\n"
        "os.waitpid(pid, 0)"
    )
    command = [*CLI, str(tmp_path / "run"), "--", sys.executable, "-c", program]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=120)
    rows = tailrace.open(tmp_path / "run").processes
    parent, child = (rows[rows["exit"] == code].iloc[0] for code in (0, 7))
    assert child["ppid"] == parent["pid"]
    assert child["cpus"] == str(cpu)
    assert child["cgroup"] == parent["cgroup"]
    assert (child["share"], parent["share"]) == (1.0, 1.0)


def test_what_it_used(tmp_path: Path) -> None:
    """The program's own getrusage(2) at its end, and what the trace has of it: the trace is later, by little."""
    program = (
        "import json, resource, time\n"
        "block = bytearray(60 << 20)\n"
        "while time.process_time() < 0.3: pass\n"
        "u = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(json.dumps([u.ru_utime, u.ru_maxrss, u.ru_minflt, u.ru_majflt, u.ru_inblock, u.ru_oublock]))"
    )
    command = [*CLI, str(tmp_path / "run"), "--", sys.executable, "-c", program]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    utime, maxrss, *counts = json.loads(done.stdout)
    row = row_of(tmp_path / "run", "python")
    assert row["utime_ns"] >= utime * 1e9 - 1e4
    assert row["utime_ns"] + row["stime_ns"] >= 0.3e9 - 1e4
    assert row["maxrss_kib"] >= maxrss > 60 << 10
    for name, least in zip(("minflt", "majflt", "inblock", "oublock"), counts, strict=True):
        assert row[name] >= least, name
    assert row["minflt"] < 2 * counts[0]


@pytest.mark.parametrize(("ending", "column", "value"), [("sys.exit(3)", "exit", 3), ("os.kill(0, 9)", "signal", 9)])
def test_how_it_ended(tmp_path: Path, ending: str, column: str, value: int) -> None:
    inner = f"import os, sys; {ending}"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}, 'x'], start_new_session=True)"
    subprocess.run([*CLI, str(tmp_path / "run"), "--", sys.executable, "-c", program], check=True, timeout=120)
    rows = tailrace.open(tmp_path / "run").processes
    (row,) = (row for _, row in rows.iterrows() if row["argv"][-1:] == ["x"])
    other = {"exit": "signal", "signal": "exit"}[column]
    assert row[column] == value and pd.isna(row[other])
    assert row["t1_ns"] > row["t0_ns"] > 0


def test_a_vfork_begins_before_its_child(cli: Any, program: Any, read_trace: Any, tmp_path: Path) -> None:
    assert cli("run", "-q", "-o", tmp_path / "run", "--", program("forks"), "slow", cwd=tmp_path).returncode == 0
    trace = read_trace(tmp_path / "run")
    (vfork,) = [event for event in trace.events if event["name"] == "vfork"]
    (child,) = [event for event in trace.events if event["name"] == "start" and event["pid"] == vfork["args"]["ret"]]
    assert vfork["ts"] + 200_000 <= child["ts"] and vfork["dur"] >= 200_000
