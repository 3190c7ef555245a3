"""fio, unchanged: the calls and bytes of each of its jobs are those of its own report."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from support.commands import TracedCommand, run_cli
from support.run_files import Line, Trace

pytestmark = pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")

KIB = 1024
JOBS = """
[global]
directory=.
size=1m
bs=16k
ioengine={engine}
[write]
rw=write
numjobs=2
[randread]
stonewall
rw=randread
filename=write.0.0:write.1.0
loops=2
[mixed]
stonewall
rw=randrw
filename=write.0.0
"""
WAYS = {"read": "r", "write": "w"}


def moves(event: Line, way: str) -> bool:
    return str(event["path"]).endswith((".0.0", ".1.0")) and event["args"].get("dir") == way


def by_fio(engine: str, work: Path, run_traced: TracedCommand) -> list[dict[str, Any]]:
    """Its jobs' own account."""
    (work / "jobs").write_text(JOBS.format(engine=engine))
    done = run_traced("fio", "--output-format=json", "--output=out.json", "jobs", check=False)
    if done.returncode:
        pytest.skip(f"fio can't use {engine} here: {done.stderr.strip()[-200:]}")
    jobs: list[dict[str, Any]] = json.loads((work / "out.json").read_text())["jobs"]
    assert sum(job["read"]["io_bytes"] for job in jobs) > 1024 * KIB
    return jobs


@pytest.mark.parametrize("engine", ["sync", "psync", "vsync", "pvsync", "pvsync2", "posixaio", "libaio"])
def test_calls_and_bytes_are_those_of_its_report(engine: str, tmp_path: Path, run_traced: TracedCommand) -> None:
    told = by_fio(engine, tmp_path, run_traced)
    trace = Trace(run_traced.run)
    for way, letter in WAYS.items():
        mine = [e for e in trace.events if moves(e, letter)]
        assert len(mine) == sum(job[way]["total_ios"] for job in told)
        assert sum(e["args"]["size"] for e in mine) == sum(job[way]["io_bytes"] for job in told)
        assert {e["args"]["size"] for e in mine} == {16 * KIB}


def test_the_report_says_that_its_io_uring_is_not_seen(tmp_path: Path, run_traced: TracedCommand) -> None:
    """fio makes the ring by system calls of its own; the kernel's numbers lack what a ring moves, too."""
    jobs = by_fio("io_uring", tmp_path, run_traced)
    report = " ".join(run_cli("report", run_traced.run).stdout.split())
    assert f"{len(jobs)} processes used an io_uring that is not seen: what it moved is in neither number." in report
