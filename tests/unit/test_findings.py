"""The words of every finding, and that the documentation has it: one story a kind."""

from __future__ import annotations

import json
import os
import random
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

import tailrace
from support.flowcase import MS, T0_NS, FakeRun, Story
from support.story_run import on_disk
from support.task_stories import declared, moment, task
from tailrace.analyzer.insights import access_patterns, call_costs, insights
from tailrace.analyzer.insights.finding import RANK, Finding, Rule, Threshold
from tailrace.analyzer.insights.findings import RULES
from tailrace.analyzer.util import intervals
from tailrace.cli import access, query, report
from tailrace.errors import FindingError, QueryError, UsageError

ROOT = Path(__file__).parents[2]


def read_during_write() -> FakeRun:
    story = Story()
    story.write("/f", 0, 4096, task="make", stage="m", at_ms=1, dur=20 * MS)
    story.read("/f", 2048, 4096, task="use", stage="u", at_ms=5, dur=MS)
    return story.run()


def read_before_write() -> FakeRun:
    story = Story()
    story.read("/f", 0, 100, task="use", stage="u", at_ms=1)
    story.create("/f", task="make", stage="m", at_ms=50)
    return story.run()


def two_writers() -> FakeRun:
    story = Story()
    for at, (path, name) in enumerate((("/f", "a"), ("/f", "b"), ("/g", "a"), ("/g", "b"))):
        story.write(path, 0, 200 if path == "/f" else 100, task=name, stage=name, at_ms=1 + 20 * at)
    return story.run()


def undeclared_dependency() -> FakeRun:
    story = Story()
    task(story, "x", 0, 10, writes="/x")
    task(story, "c", 20, 30, reads="/x", writes="/c")
    return story.run(**declared(("a", "c", "file"), ("x", "z", "future")))


def timed(*tasks: tuple[str, float, float]) -> dict[str, pd.DataFrame]:
    """Declared tasks without dependencies: name, when it was submitted and when it was over (ms)."""
    rows = [
        {
            "workflow": "w",
            "stage": name,
            "task": name,
            "parent": None,
            "t_submit_ns": T0_NS + round(submitted * MS),
            "t_end_ns": T0_NS + round(over * MS),
        }
        for name, submitted, over in tasks
    ]
    return {"declared_tasks": pd.DataFrame(rows)}


def waited(*rows: tuple[str, str | None, str | None]) -> dict[str, pd.DataFrame]:
    """task, the task that was awaited before its submission, and the task that was submitted before."""
    columns = ["workflow", "task", "awaited", "after"]
    return {"declared_waits": pd.DataFrame([("w", *row) for row in rows], columns=columns)}


def undeclared_in_order() -> FakeRun:
    story = Story()
    task(story, "x", 0, 10, writes="/x")
    task(story, "c", 20, 30, reads="/x", writes="/c")
    return story.run(**timed(("x", 0, 12), ("c", 12, 31)))


def undeclared_awaited() -> FakeRun:
    """y was submitted after a wait for x; c after y, without a wait of its own."""
    story = Story()
    task(story, "x", 0, 10, writes="/x")
    task(story, "c", 20, 30, reads="/x", writes="/c")
    return story.run(**timed(("x", 0, 12), ("y", 13, 14), ("c", 14, 31)), **waited(("y", "x", None), ("c", None, "y")))


def conflicts_in_order() -> FakeRun:
    story = Story()
    for at, name in enumerate("ab"):
        story.write("/f", 0, 200, task=name, stage=name, at_ms=1 + 20 * at)
    return story.run(**timed(("a", 0, 2), ("b", 2, 30)))


def startup_and_stop() -> FakeRun:
    story = Story()
    moment(story, 0, pid=9)
    task(story, "a", 500, 600, writes="/a")
    moment(story, 650, pid=9)
    return story.run()


def critical_path() -> FakeRun:
    story = Story()
    task(story, "a", 0, 100, writes="/a")
    task(story, "b", 600, 700, reads="/a", writes="/big", io=40)
    return story.run(**declared(("a", "b", "file")))


def test_advice_about_gaps_names_workers_only_where_a_manager_has_some() -> None:
    story = Story()
    task(story, "a", 0, 100, writes="/a")
    task(story, "b", 600, 700, reads="/a", writes="/big", io=40)
    said = {}
    for managed, tables in {False: {}, True: declared(("a", "b", "file"))}.items():
        (gap,) = [one for one in insights(story.run(**tables)).findings() if one.kind == "critical path gaps"]
        said[managed] = gap.advice
    assert "workers" in said[True] and "script" in said[False] and "workers" not in said[False]


def dependency_without_data() -> FakeRun:
    story = Story()
    task(story, "a", 0, 10, writes="/a")
    task(story, "b", 10, 20, reads="/other", writes="/b")
    return story.run(**declared(("a", "b", "file")))


def test_of_a_task_without_an_end_nothing_is_said_that_it_may_still_do() -> None:
    """Its program was killed, or runs: it may read yet, and when it was over is unknown."""

    def ended(**times: int | None) -> FakeRun:
        story = Story()
        moment(story, 0, pid=9)
        task(story, "a", 500, 510, writes="/a")
        task(story, "b", 510, 520, reads="/other", writes="/b")
        moment(story, 900, pid=9)
        tables = declared(("a", "b", "file"))
        rows = tables["declared_tasks"].assign(t_launch_ns=T0_NS, tries=1)
        rows["status"] = ["done" if times[name] is not None else None for name in rows["task"]]
        rows["t_end_ns"] = [times[name] for name in rows["task"]]
        return story.run(**{**tables, "declared_tasks": rows})

    over = insights(ended(a=T0_NS + 510 * MS, b=T0_NS + 520 * MS)).findings()
    assert {"dependency without data", "start-up and stop"} <= {finding.kind for finding in over}
    (title,) = (finding.title for finding in over if finding.kind == "start-up and stop")
    assert title == "The run took 500 ms before its first task began, and 380 ms after its last one was over, of 900 ms"
    unended = insights(ended(a=T0_NS + 510 * MS, b=None)).findings()
    assert "dependency without data" not in {finding.kind for finding in unended}
    (title,) = (finding.title for finding in unended if finding.kind == "start-up and stop")
    assert title == (
        "The run took 500 ms before its first task began, and 380 ms after the last call of a task, of 900 ms;"
        " when the last task was over is not known, since 1 task that had begun has no declared end"
    )


def streaming_candidate() -> FakeRun:
    story, part = Story(), 40 << 10
    for name, stage, times, way in (("make", "m", (1, 40, 99), story.write), ("use", "u", (110, 120, 149), story.read)):
        for at, place in zip(times, (0, part, 2 * part), strict=True):
            way("/once", place, part, task=name, stage=stage, at_ms=at)
    return story.run()


def files() -> FakeRun:
    story = Story()
    for path, size in (("/mid", 3 << 20), ("/log", 1 << 20), ("/tmp1", 2 << 20), ("/tmp2", 1 << 20)):
        story.create(path, task="make", stage="m")
        story.write(path, 0, size, task="make", stage="m")
    for path in ("/tmp1", "/tmp2"):
        story.event("unlink", path, task="make", stage="m")
    for _ in range(3):
        story.read("/mid", 0, 3 << 20, task="use", stage="u")
    return story.run()


def file_copies() -> FakeRun:
    story = Story()
    for place in (0, 1 << 19):
        story.read("/a", place, 1 << 19, task="stage-in", stage="s")
        story.write("/b", place, 1 << 19, task="stage-in", stage="s")
    return story.run()


def hosts() -> FakeRun:
    story = Story()
    for path, reader in (("/stays", "n1"), ("/goes", "n2")):
        story.write(path, 0, 1 << 20, task="make", stage="m", host="n1", pid=1)
        story.read(path, 0, 1 << 20, task=f"use-{reader}", stage="u", host=reader, pid=2)
    return story.run()


def declared_not_accessed() -> FakeRun:
    story = Story()
    task(story, "a", 0, 10, writes="/a")
    return story.run(**declared(("a", "b", "file"), files=(("a", "r", "/in"), ("a", "w", "/out"))))


def clock_skew() -> FakeRun:
    story = Story()
    story.create("/f", task="a", host="n1", at_ms=100)
    story.write("/f", task="a", host="n1", at_ms=101)
    story.read("/f", task="b", host="n2", pid=2, at_ms=50)
    return story.run()


def unordered_handovers() -> FakeRun:
    """b was declared to wait for a, and began first."""
    story = Story()
    moment(story, 50, task="a", stage="a")
    story.create("/f", task="a", stage="a", at_ms=51)
    moment(story, 10, task="b", stage="b")
    story.write("/b", task="b", stage="b", at_ms=20)
    return story.run(**declared(("a", "b", "afterok")))


def unchecked_accesses() -> FakeRun:
    story = Story()
    story.write("/f", None, 10, task="a", at_ms=1)
    story.write("/f", None, 10, task="b", at_ms=50)
    return story.run()


def ended(task: str, status: str | None, error: str | None = None, tries: int = 1) -> dict[str, object]:
    """A declared task that ended."""
    times = {"t_launch_ns": T0_NS, "t_end_ns": T0_NS + 100 * MS}
    return {"workflow": "w", "stage": task[0], "task": task, "status": status, "tries": tries, "error": error, **times}


def failed_tasks(*more: dict[str, object]) -> FakeRun:
    """a1 and a2 fail alike after their last files; c1 needs a1, d1 needs c1, e1 needs nothing."""
    story = Story()
    for name in ("a1", "a2"):
        story.read(f"/in-{name}", task=name, stage="a")
        story.create(f"/part-{name}", task=name, stage="a")
        story.write(f"/part-{name}", task=name, stage="a")
    rows = [
        ended("a2", "failed", "ValueError: 17 is too many\nin line 3"),
        ended("a1", "failed", "ValueError: 4 is too many"),
        *(ended(name, "dep_failed", tries=0) for name in ("c1", "d1")),
        ended("e1", "done"),
        *more,
    ]
    deps = [{"workflow": "w", "task": task, "dep": dep} for task, dep in (("c1", "a1"), ("d1", "c1"), ("e1", "e0"))]
    return story.run(declared_tasks=pd.DataFrame(rows), declared_deps=pd.DataFrame(deps))


def retried_tasks() -> FakeRun:
    story = Story()
    task(story, "a1", 0, 10, writes="/a")
    tries = [
        {"try": 0, "t_launch_ns": T0_NS, "t_end_ns": T0_NS + 30 * MS, "status": "failed", "error": "OSError: no space"},
        {"try": 1, "t_launch_ns": T0_NS + 31 * MS, "t_end_ns": None, "status": None, "error": None},
    ]
    rows = pd.DataFrame([{"workflow": "w", "task": "a1", **row} for row in tries])
    rows["t_end_ns"] = rows["t_end_ns"].astype("Int64")
    return story.run(declared_tasks=pd.DataFrame([ended("a1", "done", tries=2)]), declared_tries=rows)


def failed_command() -> FakeRun:
    """make (1) started sh (2), which started cc (3), which failed; before it ls (4) had failed in a rule of its own."""
    story = Story()
    processes = []
    for at, (pid, ppid, exe, code) in enumerate(
        ((4, 1, "/bin/ls", 2), (3, 2, "/bin/cc", 1), (2, 1, "/bin/sh", 1), (1, 0, "/bin/make", 2), (5, 1, "/bin/ok", 0))
    ):
        story.write(f"/out-{pid}", pid=pid, start=f"a{pid}", at_ms=10 * at)
        row = {"host": "n1", "pid": pid, "start": f"a{pid}", "ppid": ppid, "exe": exe, "argv": [exe], "exit": code}
        processes.append({**row, "t1_ns": T0_NS + 10 * at * MS})
    table = pd.DataFrame(processes)
    for name in ("exit", "pid", "ppid", "t1_ns"):
        table[name] = table[name].astype("Int64")
    table["signal"] = pd.array([None] * len(table), dtype="Int64")
    ends = pd.DataFrame([{"host": "n1", "pid": 1, "status": 2 << 8, "end_ns": T0_NS + 50 * MS}])
    return story.run(processes=table, command_ends=ends)


def crashed_process() -> FakeRun:
    """The same, but ls was killed by SIGSEGV, and the command succeeded."""
    run = failed_command()
    run.processes["signal"] = pd.array([11, None, 13, None, 15], dtype="Int64")
    run.command_ends["status"] = 0
    return run


def small_calls() -> FakeRun:
    """One after the other in u, in v so few that they are settings."""
    story = Story()
    for number in range(1000):
        story.read("/d", 64 * number, 64, task="use", stage="u", at_ms=number / 50, dur=10_000)
    for number in range(31):
        story.read("/settings", number, 1, task="set", stage="v", at_ms=20 + number / 50, dur=10_000)
    return story.run()


def random_offsets() -> FakeRun:
    """8 KiB each, over 1 GiB; beside it as many in order, 4 KiB each."""
    story, choose = Story(), random.Random(1)
    for number in range(1000):
        story.read("/d", choose.randrange(1 << 17) << 13, 8192, task="use", stage="u", at_ms=number / 50, dur=10_000)
        story.read("/e", 4096 * number, 4096, task="use", stage="u", at_ms=(number + 0.5) / 50, dur=1000)
    return story.run()


def many_flushes() -> FakeRun:
    """One after each of 100 writes; in v one for each file."""
    story = Story()
    for number in range(100):
        story.write("/d", 64 * number, 64, task="use", stage="u", at_ms=number, dur=10_000)
        story.event("fsync", "/d", task="use", stage="u", at_ms=number + 0.5, dur=400_000)
        story.write(f"/{number}", 0, 64, task="each", stage="v", at_ms=number, dur=10_000, pid=2)
        story.event("fsync", f"/{number}", task="each", stage="v", at_ms=number + 0.5, dur=400_000, pid=2)
    return story.run()


def useless_seeks() -> FakeRun:
    """Before each read; in v each goes to another place."""
    story = Story()
    for number in range(1000):
        at = {"at_ms": number / 50}
        story.event("lseek", "/d", task="use", stage="u", dur=1000, **at)
        story.read("/d", 4096 * number, 4096, task="use", stage="u", dur=10_000, **at)
        story.event("lseek", "/e", task="go", stage="v", dur=1000, pid=2, **at)
        story.read("/e", 8192 * number, 4096, task="go", stage="v", dur=10_000, pid=2, **at)
    return story.run()


def stream_buffers() -> FakeRun:
    """In lines that stand for many calls each; in v as much in large ones."""
    story = Story()
    for number in range(40):
        size = {"offset": number << 20, "size": 1 << 20, "at_ms": number, "dur": 500_000}
        story.write("/d", task="use", stage="u", name="fputs", cat="STDIO", calls=1 << 14, **size)
        story.write("/e", task="large", stage="v", name="fwrite", cat="STDIO", pid=2, **size)
    return story.run()


def shared_file() -> FakeRun:
    """Two at once; in v one after the other."""
    story = Story()
    for number in range(1000):
        for pid in (1, 2):
            at = (2 * number + pid - 1) << 13
            story.write("/d", at, 8192, task=f"t{pid}", stage="u", pid=pid, at_ms=number / 50, dur=10_000)
            later = number / 50 + 30 * pid
            story.write("/e", at, 8192, task=f"s{pid}", stage="v", pid=pid + 2, at_ms=later, dur=10_000)
    return story.run()


def independent_mpiio() -> FakeRun:
    """Of two processes; in v they are collective."""
    story = Story()
    for number in range(600):
        for pid in (1, 2):
            at = {"offset": (2 * number + pid - 1) << 20, "size": 1 << 20, "at_ms": number / 50, "pid": pid}
            story.write("/d", name="MPI_File_write_at", cat="MPIIO", task="t", stage="u", dur=12_000, **at)
            story.write("/d", name="pwrite", task="t", stage="u", dur=10_000, **at)
            at["pid"] = pid + 2
            story.write("/e", name="MPI_File_write_at_all", cat="MPIIO", task="s", stage="v", dur=12_000, **at)
            story.write("/e", name="pwrite", task="s", stage="v", dur=10_000, **at)
    return story.run()


def rank_imbalance() -> FakeRun:
    """The first of five; in v all do the same."""
    story = Story()
    for rank in range(5):
        size = 50 if rank == 0 else 1
        values: dict[str, Any] = {"rank": str(rank), "at_ms": rank / 10}
        story.write(f"/u{rank}", 0, size << 20, task="t", stage="u", dur=size * 10**6, pid=rank + 1, **values)
        story.write(f"/v{rank}", 0, 1 << 20, task="s", stage="v", dur=10**6, pid=rank + 6, **values)
    ranks = [{"host": "n1", "pid": pid, "start": "", "rank": str((pid - 1) % 5)} for pid in range(1, 11)]
    return story.run(process_ranks=pd.DataFrame(ranks))


def conflicts_of_ranks() -> FakeRun:
    """Two ranks without a task, and one behind the other."""
    story = Story()
    story.write("/f", 0, 100, pid=1, rank="0")
    story.write("/f", 0, 100, pid=2, rank="1", at_ms=1)
    ranks = [{"host": "n1", "pid": pid, "start": "", "rank": str(pid - 1)} for pid in (1, 2)]
    return story.run(process_ranks=pd.DataFrame(ranks))


def misaligned_calls() -> FakeRun:
    """4 KiB each, behind a head of 100 B: in u with a gap between two, in v one behind the other. In w there is no
    head, and of x no block is known."""
    story = Story()
    for number in range(1010):
        at: dict[str, Any] = {"at_ms": number / 50, "dur": 10_000}
        story.write("/d", 100 + 8192 * number, 4096, task="use", stage="u", blksize=4096, **at)
        story.write("/e", 100 + 4096 * number, 4096, task="on", stage="v", blksize=4096, pid=2, **at)
        story.write("/f", 8192 * number, 4096, task="fine", stage="w", blksize=4096, pid=3, **at)
        story.write("/g", 100 + 8192 * number, 4096, task="unknown", stage="x", pid=4, **at)
    return story.run()


def repeated_writes() -> FakeRun:
    """Of one state of the file; the second file is emptied first."""
    story = Story()
    for turn in range(3):
        story.write("/d", 0, 1 << 20, task="use", stage="u", at_ms=10 * turn)
        story.create("/e", task="anew", stage="v", at_ms=10 * turn, pid=2)
        story.write("/e", 0, 1 << 20, task="anew", stage="v", at_ms=10 * turn + 5, pid=2)
    return story.run()


def metadata_load() -> FakeRun:
    story = Story()
    for number in range(1000):
        story.event("stat", f"/f{number % 5}", task="look", stage="u", at_ms=number / 50, dur=10_000)
    story.read("/f1", task="look", stage="u", at_ms=21)
    return story.run()


def short_processes() -> FakeRun:
    """A shell starts ls, then touch a hundred times, and waits for each: 1 ms of calls, 2 ms from fork to wait."""
    story, rows = Story(), []
    for number in range(101):
        at, pid, start = 4 * number, number + 2, "187a"
        child = {"pid": 1, "start": start, "cat": "PROCESS", "ret": pid}
        story.event("fork", at_ms=at, dur=MS, **child)
        story.write(f"/f{number % 3}", pid=pid, start=start, at_ms=at + 0.5, dur=MS)
        story.event("wait", at_ms=at + 1, dur=MS, **child)
        exe = "/bin/touch" if number else "/bin/ls"
        rows.append({"host": "n1", "pid": pid, "start": start, "ppid": 1, "exe": exe, "argv": [exe]})
    rows.append({**rows[0], "pid": 1, "ppid": 0, "exe": "/bin/sh"})
    table = pd.DataFrame(rows).assign(exit=0, signal=None, t1_ns=None)
    return story.run(processes=table.astype(dict.fromkeys(("exit", "pid", "ppid", "signal", "t1_ns"), "Int64")))


def straggler() -> FakeRun:
    """Five tasks of a stage at once, of 10, 11, 10, 12 and 40 ms, and one after them."""
    story = Story()
    for pid, took in enumerate((10, 11, 10, 12, 40), 1):
        task(story, f"a{pid}", 0, took, writes=f"/a{pid}", pid=pid)
    task(story, "b", 41, 45, reads="/a1 /a2 /a3 /a4 /a5", pid=9, io=0.1)
    return story.run()


CASES: dict[str, tuple[Callable[[], FakeRun], str]] = {
    "failed tasks": (
        failed_tasks,
        "a1 and 1 more task of its stage failed: ValueError: 4 is too many; 2 tasks never ran for it; last files:"
        " /part-a1, /in-a1",
    ),
    "retried tasks": (
        retried_tasks,
        "a1 needed 2 tries: OSError: no space; the failed tries ended 30.0 ms after their launch",
    ),
    "failed command": (
        failed_command,
        "The command ended with exit code 2; cc n1:3 ended with exit code 1 (and 2 other processes failed); its last"
        " files: /out-3",
    ),
    "read during write": (read_during_write, "use read 2.00 KiB of /f while make wrote the same bytes"),
    "read before write": (
        read_before_write,
        "use read 100 B of /f before make wrote the same bytes, and nothing orders the two",
    ),
    "two writers": (
        two_writers,
        "a and b wrote the same 200 B of /f one after the other, and nothing orders them (and 1 more case)",
    ),
    "undeclared dependency": (
        undeclared_dependency,
        "c read 100 B that x wrote, but no dependency is declared and nothing orders them",
    ),
    "undeclared, in order this time": (
        undeclared_in_order,
        "c read 100 B that x wrote; undeclared, but in order this time: c was submitted after x had ended",
    ),
    "undeclared, but awaited": (
        undeclared_awaited,
        "c read 100 B that x wrote; undeclared, but awaited: x had been waited for before c was submitted",
    ),
    "same bytes, in order this time": (
        conflicts_in_order,
        "a and b wrote the same 200 B of /f; in order this time: one was submitted after the other had ended",
    ),
    "same bytes, by ranks": (
        conflicts_of_ranks,
        "process n1:1 and process n1:2 wrote the same 100 B of /f, two ranks; whether messages between them order that"
        " is not recorded",
    ),
    "critical path gaps": (
        critical_path,
        "No task on the critical path made a call for 500 ms of 700 ms; the longest gap is 500 ms, before b",
    ),
    "start-up and stop": (
        startup_and_stop,
        "The run took 500 ms before its first task began, and 50.0 ms after its last one was over, of 650 ms",
    ),
    "critical path I/O": (
        critical_path,
        "File I/O took 81.0 ms of 700 ms on the critical path, most of it in b (80.0 ms)",
    ),
    "small calls": (
        small_calls,
        "u: 1,000 read calls of 64 B on average, on 1 file (most on /d), took 10.0 ms; 1 call of 1.00 MiB would do",
    ),
    "random offsets": (
        random_offsets,
        "u: 1,000 read calls of 8.00 KiB on average at random offsets of 1 file (most of /d) took 10.0 ms",
    ),
    "many flushes": (
        many_flushes,
        "u: 100 flushes to disk (fsync and the like), one for each 64 B written, took 40.0 ms; 1 flush, one a file,"
        " would do",
    ),
    "useless seeks": (
        useless_seeks,
        "u: at least 998 of 1,000 seeks went where the file was already, or only asked for the place, and took"
        " 998 us",
    ),
    "stream buffers": (
        stream_buffers,
        "u: 40.0 MiB went through streams of the C library in 655,360 calls of 64 B on average, which took 20.0 ms;"
        " with the usual buffer that is a call to the kernel for each 4.00 KiB, 10,240 in all",
    ),
    "shared file": (
        shared_file,
        "u: 2 processes at once wrote /d in 2,000 calls of 8.00 KiB on average, which took 19.4 ms",
    ),
    "independent MPI-IO": (
        independent_mpiio,
        "u: 2 processes read or wrote by MPI-IO in 1,200 independent calls",
    ),
    "rank imbalance": (
        rank_imbalance,
        "u: rank 0 spent 50.0 ms in calls on files, the mean of 5 ranks is 10.8 ms; it moved 50.0 MiB of 54.0 MiB",
    ),
    "misaligned calls": (
        misaligned_calls,
        "u: 1,010 of 1,010 calls on 1 file of a network file system (most on /d) begin inside of a block of 4.00 KiB,"
        " and touch one block more than they need",
    ),
    "repeated writes": (
        repeated_writes,
        "2.00 MiB were written over bytes that the same task had written before, most of /d (2.00 MiB)",
    ),
    "metadata load": (
        metadata_load,
        "u: 1,000 metadata calls (open, close, stat and the like), beside 1 call for data, took 10.0 ms",
    ),
    "short processes": (
        short_processes,
        "101 processes lived 20.0 ms or less, together 202 ms of the run: 100 of touch, 1 of ls",
    ),
    "straggler": (
        straggler,
        "a5 worked 40.0 ms, 3.6 times as long as the median of its stage (11.0 ms), and the critical path goes through"
        " it",
    ),
    "dependency without data": (
        dependency_without_data,
        "b waited for a, but read nothing that it wrote; without it the run could be up to 10.0 ms shorter",
    ),
    "streaming candidate": (
        streaming_candidate,
        "use read all of /once from front to back, after make had written it;"
        " through a pipe it could start up to 39.0 ms earlier",
    ),
    "never read": (
        files,
        "1 file written and kept, but read by nothing but the writer (1.00 MiB); the largest is /log (1.00 MiB)",
    ),
    "written, then deleted unread": (
        files,
        "2 files written, then deleted unread (3.00 MiB); the largest is /tmp1 (2.00 MiB)",
    ),
    "repeated reads": (
        files,
        "6.00 MiB were read again by tasks that had read the same bytes before, most of /mid (6.00 MiB)",
    ),
    "file copies": (
        file_copies,
        "1.00 MiB were read and written again in equal steps, as a copy does, the largest from /a to /b (1.00 MiB)",
    ),
    "node-local candidate": (
        hosts,
        "1 intermediate file on a shared file system used by one host each (2.00 MiB moved);"
        " the largest is /stays (2.00 MiB)",
    ),
    "co-location candidate": (
        hosts,
        "1.00 MiB passed from host to host, most of it from m to u (1.00 MiB between 1 pair of tasks)",
    ),
    "declared, not accessed": (
        declared_not_accessed,
        "a declared /in as an input and never read it (and 1 more case)",
    ),
    "clock skew": (
        clock_skew,
        "The clock of n2 is 51.0 ms behind: files were read before they were written. Times of 1 host are corrected",
    ),
    "unordered hand-overs": (
        unordered_handovers,
        "1 hand-over with contradictory times is left out of the critical path",
    ),
    "unchecked accesses": (
        unchecked_accesses,
        "1 pair of accesses could not be checked for conflicts: offsets not known, or too many pairs",
    ),
}
"""kind -> a run that has it, and the sentence."""


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.kind)
def test_each_rule_finds_its_case_and_reports_it(rule: Rule) -> None:
    story, title = CASES[rule.kind]
    (found,) = [finding for finding in insights(story()).findings() if finding.kind == rule.kind]
    assert (found.title, found.about, found.advice) == (title, rule.about, rule.advice)
    assert "{" not in found.query and "RUN" not in found.query
    if found.query.startswith("tailrace query "):
        query.command.make_context("query", shlex.split(found.query)[2:])
    else:
        compile(found.query, "query", "eval")


Rows = list[dict[str, Any]]


def overlap(rows: Rows, finding: Finding) -> int:
    """The bytes that both tasks of a conflict accessed or cut off, by the events of the file."""
    case = finding.evidence[0]
    accessed: dict[str, set[int]] = {str(case["first"]): set(), str(case["second"]): set()}
    for row in rows:
        name = row["task"] or f"process {row['host']}:{row['pid']}"
        if row["size"]:
            accessed[name].update(range(row["offset"], row["offset"] + row["size"]))
        if (row["flags"] or 0) & os.O_TRUNC:
            accessed[name].update(range(1 << 16))
    first, second = accessed.values()
    return len(first & second)


def moved(directions: str) -> Callable[[Rows, Finding], int]:
    return lambda rows, _: sum(row["sum_size"] for row in rows if row["dir"] and set(row["dir"]) & set(directions))


def last_files(rows: Rows, _: Finding) -> str:
    """The files of the calls, from the last one on."""
    return ", ".join(dict.fromkeys(row["path"] for row in rows if row["size"]))


def absent(rows: Rows, finding: Finding) -> bool:
    """Whether no row is the access that was declared."""
    case = finding.evidence[0]
    return all(
        case["path"] not in (row["path"], row["path2"]) or case["direction"] not in (row["dir"] or "") for row in rows
    )


NUMBERS: dict[str, tuple[Callable[[Any, Finding], Any], Callable[[Finding], Any]]] = {
    **dict.fromkeys(
        (
            "read during write",
            "read before write",
            "two writers",
            "same bytes, in order this time",
            "same bytes, by ranks",
        ),
        (overlap, lambda f: f.evidence[0]["bytes"]),
    ),
    **dict.fromkeys(
        [rule.kind for rule in RULES if rule.kind.startswith("undeclared")],
        (lambda table, _: table["bytes"].sum(), lambda f: f.cost_bytes),
    ),
    "critical path gaps": (lambda table, _: table["gap"].sum(), lambda f: f.cost_ns),
    "start-up and stop": (lambda parts, _: parts["startup"] + parts["stop"], lambda f: f.cost_ns),
    "critical path I/O": (lambda table, _: table["io"].sum(), lambda f: f.cost_ns),
    "small calls": (
        lambda rows, f: sum(row["count"] for row in rows if row["path"] == f.evidence[0]["path"]),
        lambda f: f.evidence[0]["calls"],
    ),
    "random offsets": (lambda rows, _: sum(row["path"] == "/d" for row in rows), lambda f: 50),
    "many flushes": (lambda rows, _: sum(row["count"] for row in rows), lambda f: f.evidence[0]["calls"]),
    "useless seeks": (lambda rows, _: sum(row["count"] for row in rows), lambda f: f.evidence[0]["seeks"]),
    "stream buffers": (lambda rows, _: sum(row["sum_size"] for row in rows), lambda f: f.evidence[0]["bytes"]),
    "shared file": (lambda rows, _: sum(row["count"] for row in rows), lambda f: f.evidence[0]["calls"]),
    "independent MPI-IO": (
        lambda rows, _: sum(row["count"] for row in rows if "_all" not in row["name"]),
        lambda f: f.evidence[0]["independent"],
    ),
    "rank imbalance": (lambda rows, _: rows[0]["rank"], lambda f: f.evidence[0]["rank"]),
    "misaligned calls": (lambda rows, _: sum(row["count"] for row in rows), lambda f: f.evidence[0]["calls"]),
    "repeated writes": (lambda rows, _: sum(row["sum_size"] for row in rows), lambda f: f.cost_bytes + (1 << 20)),
    "metadata load": (lambda rows, _: sum(row["count"] for row in rows), lambda f: f.evidence[0]["calls"]),
    "short processes": (lambda table, _: table["processes"].sum(), lambda f: f.count),
    "straggler": (lambda profile, f: profile.task, lambda f: "a5"),
    "dependency without data": (lambda both, _: (both[0], len(both[1])), lambda f: (f.cost_ns, f.count)),
    "streaming candidate": (lambda table, _: table["gain_ns"].max(), lambda f: f.cost_ns),
    "never read": (moved("w"), lambda f: f.evidence[0]["written_bytes"]),
    "written, then deleted unread": (moved("w"), lambda f: f.evidence[0]["written_bytes"]),
    "repeated reads": (lambda table, _: table["again_bytes"].sum(), lambda f: f.cost_bytes),
    "file copies": (moved("w"), lambda f: f.evidence[0]["bytes"]),
    "node-local candidate": (moved("rw"), lambda f: f.evidence[0]["moved_bytes"]),
    "co-location candidate": (lambda table, _: table["bytes"].sum(), lambda f: f.cost_bytes),
    "declared, not accessed": (absent, lambda f: True),
    "clock skew": (lambda ahead, _: ahead, lambda f: {row["host"]: row["ahead_ns"] for row in f.evidence}),
    "unordered hand-overs": (lambda number, _: number, lambda f: f.count),
    "failed tasks": (last_files, lambda f: f.evidence[0]["last files"]),
    "failed command": (last_files, lambda f: f.evidence[0]["last files"]),
    "retried tasks": (lambda tries, _: (tries["t_end_ns"] - tries["t_launch_ns"]).sum(), lambda f: f.cost_ns),
    "unchecked accesses": (lambda number, _: number, lambda f: f.count),
}
"""kind -> the number in what its query gives, and the same number of the finding."""


def test_a_straggler_among_tasks_that_did_nothing() -> None:
    """There is no "times as long as" of a median of 0."""
    story = Story()
    for pid in range(1, 6):
        moment(story, 0, task=f"a{pid}", stage="a", pid=pid)
    task(story, "a6", 0, 40, writes="/a6", pid=6)
    task(story, "b", 41, 45, reads="/a6", pid=9, io=0.1)
    (found,) = [finding for finding in insights(story.run()).findings() if finding.kind == "straggler"]
    assert found.title == (
        "a6 worked 40.0 ms, while more than half of the tasks of its stage did no work, and the critical path"
        " goes through it"
    )


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.kind)
def test_the_query_of_a_finding_gives_its_number(rule: Rule, tmp_path: Path) -> None:
    """Of a run on disk, by a shell or by Python, as offered."""
    story, title = CASES[rule.kind]
    run = on_disk(story(), tmp_path / "a run")
    (found,) = [finding for finding in run.findings() if finding.kind == rule.kind]
    assert found.title == title, "the run on disk is the story"
    given, wanted = NUMBERS[rule.kind]
    if not found.query.startswith("tailrace "):
        assert given(eval(found.query, {"tailrace": tailrace}), found) == wanted(found)
        return
    words = subprocess.run(["sh", "-c", f"printf '%s\\0' {found.query}"], capture_output=True, text=True, check=True)
    arguments = [*words.stdout.split("\0")[2:-1], "--format", "json"]
    done = CliRunner().invoke(query.command, arguments, catch_exceptions=False)
    assert given(json.loads(done.stdout), found) == wanted(found)


def test_a_report_fails_on_the_findings_that_are_forbidden(tmp_path: Path) -> None:
    path = str(on_disk(many_flushes(), tmp_path / "run").path)
    for wanted in ("finding:many flushes", "finding:time", "finding:any"):
        with pytest.raises(FindingError, match="many flushes: u: 100 flushes to disk"):
            report.command.main([path, "--fail-on", "finding:race", "--fail-on", wanted], standalone_mode=False)
    report.command.main([path, "--fail-on", "finding:race"], standalone_mode=False)
    with pytest.raises(UsageError, match="did you mean 'many flushes'"):
        report.command.main([path, "--fail-on", "finding:many flush"], standalone_mode=False)
    with pytest.raises(
        UsageError, match=r"'race' \(did you mean 'finding:race'\?\): write finding: and any, failure, race"
    ):
        report.command.main([path, "--fail-on", "race"], standalone_mode=False)


def test_failures_come_first_and_those_with_most_lost_tasks_before_the_others() -> None:
    rows = insights(failed_tasks(ended("b1", "timeout", "AppTimeout"))).findings()
    assert [(row.kind, row.count) for row in rows[:2]] == [("failed tasks", 4), ("failed tasks", 1)]
    assert rows[1].title == "b1 timed out: AppTimeout"
    assert rows[1].query == "tailrace.open('/runs/story').outcomes", "it left no events to be queried"


def test_a_process_that_crashed_is_found_though_the_command_went_on() -> None:
    (row,) = [finding for finding in insights(crashed_process()).findings() if finding.kind == "failed command"]
    assert row.title == "ls n1:4 was killed by signal 11 (SIGSEGV); its last files: /out-4"
    assert "--pid 4 " in row.query


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.kind)
def test_each_rule_declares_what_the_documentation_needs(rule: Rule) -> None:
    assert rule.about in RANK
    assert rule.title and not rule.title.endswith(".")
    assert rule.definition.endswith(".") and rule.advice.endswith(".") and rule.source


def test_kinds_are_distinct_and_have_a_case_each() -> None:
    assert len({rule.kind for rule in RULES}) == len(RULES)
    assert {rule.kind for rule in RULES} == set(CASES) == set(NUMBERS)


def test_the_documentation_has_every_finding() -> None:
    done = subprocess.run([sys.executable, ROOT / "tools/findings_docs.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("part", "reached"), [(0, False), (9, False), (10, True), (1000, True)])
def test_a_threshold_is_reached_from_its_value_on(part: int, reached: bool) -> None:
    assert Threshold(1, "% of the makespan").reached(part, 1000) == reached
    assert not Threshold(1, "% of the makespan").reached(0, 0), "nothing is no part of nothing"


def test_files_of_several_writers_are_counted_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story()
    # /f7 has 2 + 7 % 3 writers: two at once from 0 on, the others one after the other.
    for file in range(30):
        for writer in range(2 + file % 3):
            first = 0 if writer < 2 else 10 * writer
            for call in range(2):
                at = {"at_ms": first + 2 * call, "dur": 1_000 * (file + 1), "pid": writer + 1}
                story.write(f"/f{file}", 100 * writer + 10 * call, 10, task=f"t{writer}", stage="s", **at)
    inputs = insights(story.run()).inputs
    unions: list[int] = []
    union = intervals.union
    monkeypatch.setattr(intervals, "union", lambda rows: [unions.append(1), union(rows)][1])
    found = call_costs.shared(inputs).set_index("path")
    assert len(unions) == 1
    for file in range(30):
        row = found.loc[f"/f{file}"]
        writers = 2 + file % 3
        assert (row["processes"], row["calls"], row["bytes"]) == (2, 2 * writers, 20 * writers)
        # The two write at the same times.
        assert row["time_ns"] == 2 * (writers - 1) * 1_000 * (file + 1)


def test_the_time_of_an_open_that_truncates_is_not_that_of_writes() -> None:
    story = Story()
    story.create("/a", task="a", stage="s", at_ms=0, dur=9 * MS)
    for number in range(3):
        # Apart by less than what divides bursts.
        at = {"at_ms": 10 + number * 0.015, "dur": 10_000}
        story.write("/a", 100 * number, 100, task="a", stage="s", **at)
    (row,) = access_patterns.accesses(insights(story.run()).inputs).data.to_dict("records")
    assert (row["calls"], row["bytes"], row["time_ns"], row["gap_ns"]) == (3, 300, 30_000, 5_000)


def test_a_run_without_ranks_is_told_so(tmp_path: Path) -> None:
    story = Story()
    story.write("/a", 0, 100, task="a", stage="s")
    path = str(on_disk(story.run(), tmp_path / "run").path)
    assert CliRunner().invoke(access.command, [path, "--by", "rank"]).output == (
        "No process with a rank made a call on files of data.\n"
    )
    with pytest.raises(QueryError, match="there is no rank '0'; the run has no ranks"):
        tailrace.open(path).rank(0)
