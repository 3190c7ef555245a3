"""`tailrace task` on a real run whose author knows what each task reads and writes, and which one is the odd one."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tailrace
from support.commands import TracedCommand, run_cli
from tailrace.analyzer.insights.task_profile import differences
from tailrace.errors import QueryError

MAKE = "import os\nfor i in range(6): open(f'part{i}', 'wb').write(os.urandom(20000 if i != 3 else 200000))\n"
PART = """
import os, sys, time
name = sys.argv[1]
file = os.open(name, os.O_RDONLY)
while os.read(file, 1000): pass
with open(name + ".out", "w") as out: out.write(name)
if name == "part5": sys.exit(3)
"""
SUM = "print(*(open(f'part{i}.out').read() for i in range(6)), file=open('sum', 'w'))\n"
ODD = "3"


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("profile")
    for name, text in (("make.py", MAKE), ("part.py", PART), ("sum.py", SUM)):
        (folder / name).write_text(text)
    traced = TracedCommand(folder, folder / "run")
    python = [sys.executable, "-S"]
    traced(*python, "make.py", tags=("workflow=w", "stage=make", "task=m"))
    for number in range(6):
        tags = ("workflow=w", "stage=part", f"task={number}")
        traced(*python, "part.py", f"part{number}", tags=tags, check=number != 5)
    traced(*python, "sum.py", tags=("workflow=w", "stage=sum", "task=s"))
    asked = {"cores": 2, "memory_bytes": 512 << 20, "time_s": 60, "queue": "long", "gpus": 0}
    task = {"type": "task", "workflow": "w", "stage": "part", "task": "2", "deps": [], "inputs": [], "outputs": []}
    (folder / "run" / "declared").mkdir(exist_ok=True)
    (folder / "run" / "declared" / "by-hand.jsonl").write_text(
        json.dumps({**task, "annotations": {"requested": asked}}) + "\n"
    )
    return folder


def test_data_and_who_made_and_used_it(work: Path) -> None:
    part = tailrace.open(work / "run").task("part 1")
    read = {Path(one.path).name: one for one in part.inputs}
    assert (read["part1"].bytes, read["part1"].calls, read["part1"].others) == (20000, 21, ["make m"])
    (written,) = part.outputs
    assert (Path(written.path).name, written.bytes, written.others) == ("part1.out", 5, ["sum s"])
    assert (part.workflow, part.stage, part.task, part.status) == ("w", "part", "1", None)
    last = tailrace.open(work / "run").task("w/s")
    assert sorted(name for one in last.inputs for name in one.others) == [f"part {i}" for i in range(6)]


def test_processes_and_time(work: Path) -> None:
    run = tailrace.open(work / "run")
    (one,) = run.task("5").processes
    assert one.command == [sys.executable, "-S", "part.py", "part5"] and (one.exit_code, one.signal) == (3, None)
    assert one.max_rss_bytes is not None and one.max_rss_bytes > 1 << 20 and not one.shared
    part = run.task("1")
    assert part.begin_ns is not None and part.end_ns is not None
    spent, life = part.spent_ns, part.end_ns - part.begin_ns
    assert 0 < spent["computing"] <= life == sum(spent.values())
    events = run.read(["dur", "cat"], task="1", workflow="w")
    calls = events[events["cat"] != "PROCESS"]["dur"]
    assert [call.duration_ns for call in part.slowest] == calls.sort_values(ascending=False).head(10).tolist()


def test_what_it_requested_and_used(work: Path) -> None:
    run = tailrace.open(work / "run")
    part = run.task("2")
    assert part.requested == {"cores": 2, "memory_bytes": 512 << 20, "time_s": 60} and run.task("1").requested == {}
    (one,) = part.processes
    assert part.begin_ns is not None and part.end_ns is not None and one.cpu_ns is not None
    assert part.cores_used == one.cpu_ns / (part.end_ns - part.begin_ns)
    said = " ".join(run_cli("task", work / "run", "2", cwd=work).stdout.split())
    assert f"Requested and used: cores: 2 requested, {part.cores_used:.3g} used memory: 512 MiB requested, " in said
    assert "a process used time: 60.0 s requested, " in said
    assert "Requested and used" in part._repr_html_()


def test_only_the_odd_one_is_set_apart(work: Path) -> None:
    run = tailrace.open(work / "run")
    odd = {one.figure: one for one in run.task(ODD).differences}
    (size,) = ((work / "part3").stat().st_size,)
    assert odd["read_bytes"].value - odd["read_bytes"].median == pytest.approx(size - 20000, abs=500)
    assert odd["calls"].value - odd["calls"].median == pytest.approx(180, abs=5)
    assert "read_bytes" not in {one.figure for one in run.task("1").differences}
    assert run.task("1").siblings == 5 and run.task("m").siblings == 0


def test_differences_by_hand() -> None:
    figures = pd.DataFrame({"flat": [5, 5, 5, 5, 50], "wide": [10, 20, 30, 40, 50], "near": [100, 101, 99, 100, 110]})
    others = np.arange(4)
    assert [(one.figure, one.median) for one in differences(figures, 4, others)] == [("flat", 5.0)]
    assert differences(figures, 4, others[:2]) == [], "two have no spread to be outside of"


def test_ids(work: Path) -> None:
    run = tailrace.open(work / "run")
    assert run.task("part 1") == run.task("1") == run.task("w/1")
    with pytest.raises(QueryError, match="there is no task 'part 9'; the nearest are 'part"):
        run.task("part 9")


LATE_WORKFLOW = """
import os
from tailrace import context
open("before", "w").write("x")
with context.scope(workflow="w"):
    open("inside", "w").write("x")
print(os.getpid())
"""


def test_a_process_that_got_its_workflow_on_its_way_has_a_name_for_each_part(tmp_path: Path) -> None:
    done = TracedCommand(tmp_path, tmp_path / "run")(sys.executable, "-c", LATE_WORKFLOW)
    run, pid = tailrace.open(tmp_path / "run"), int(done.stdout)
    host = socket.gethostname()
    with pytest.raises(QueryError, match=f"there are 2 tasks .*: write '/{host}:{pid}', 'w/{host}:{pid}'"):
        run.task(f"{host}:{pid}")
    wrote = [run.task(f"{workflow}/{host}:{pid}").outputs[0].path for workflow in ("", "w")]
    assert [Path(path).name for path in wrote] == ["before", "inside"]


def test_the_command(work: Path) -> None:
    done = run_cli("task", work / "run", f"part {ODD}", cwd=work)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if len(line) > 80] == []
    text = " ".join(done.stdout.split())
    assert "Beside the 5 other tasks of its stage: " in text and "bytes read: " in text and "exit code 0" in text
    assert "written by make m" in text and "read by sum s" in text and "Slowest calls:" in text
    told = json.loads(run_cli("task", work / "run", ODD, "--format", "json", cwd=work).stdout)
    assert told == json.loads(json.dumps(tailrace.open(work / "run").task(ODD).to_json()))
    wrong = run_cli("task", work / "run", "none such")
    assert wrong.returncode == 1 and "there is no task 'none such'" in wrong.stderr
