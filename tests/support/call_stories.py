"""Runs with costly patterns of calls, for finding_cases.py. Most have the pattern in one stage, and in others calls
that look alike and are no finding.
"""

from __future__ import annotations

import random
from typing import Any

import pandas as pd

from support.flowcase import MS, FakeRun, Story


def small_calls() -> FakeRun:
    """One after the other in u, in v so few that they are settings."""
    story = Story()
    for number in range(1000):
        story.read("/d", 64 * number, 64, task="use", stage="u", at_ms=number / 50, dur=10_000)
    for number in range(31):
        story.read("/settings", number, 1, task="set", stage="v", at_ms=20 + number / 50, dur=10_000)
    return story.run()


def random_offsets(backward: bool = False) -> FakeRun:
    """8 KiB each, over 1 GiB, or all from back to front; beside it as many in order, 4 KiB each."""
    story, choose = Story(), random.Random(1)
    for number in range(1000):
        page = (1000 - number) << 7 if backward else choose.randrange(1 << 17)
        story.read("/d", page << 13, 8192, task="use", stage="u", at_ms=number / 50, dur=10_000)
        story.read("/e", 4096 * number, 4096, task="use", stage="u", at_ms=(number + 0.5) / 50, dur=1000)
    return story.run()


def many_flushes(anew: bool = False) -> FakeRun:
    """One after each of 100 writes; in v one for each file. anew: each file of v is the last one, made anew."""
    story = Story()
    for number in range(100):
        story.write("/d", 64 * number, 64, task="use", stage="u", at_ms=number, dur=10_000)
        story.event("fsync", "/d", task="use", stage="u", at_ms=number + 0.5, dur=400_000)
        path, where = (
            ("/journal" if anew else f"/{number}"),
            {"task": "each", "stage": "v", "pid": 2, "file": f"0:1:{number}"},
        )
        story.write(path, 0, 64, at_ms=number, dur=10_000, **where)
        story.event("fsync", path, at_ms=number + 0.5, dur=400_000, **where)
    return story.run()


def stream_flushes(each: int = 1) -> FakeRun:
    """After so many of 2,000 lines each."""
    story = Story()
    for number in range(2000):
        where = {"task": "use", "stage": "u", "at_ms": number / 20}
        story.write("/d", 64 * number, 64, name="fprintf", cat="STDIO", dur=1000, **where)
        if number % each == 0:
            story.event("fflush", "/d", cat="STDIO", dur=20_000, **where)
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


def read_ahead() -> FakeRun:
    """8 B of each buffer; in v most of it."""
    story = Story()
    for number in range(500):
        at = {"at_ms": number / 50}
        for path, stage, size in (("/d", "u", 8), ("/e", "v", 4000)):
            who = {"task": f"in {stage}", "stage": stage, "pid": 1 + (stage == "v")}
            story.event("fseek", path, cat="STDIO", dur=1000, ahead=4096 - size, **who, **at)
            story.read(path, 8192 * number, size, name="fread", cat="STDIO", dur=10_000, **who, **at)
    return story.run()


def stream_buffers() -> FakeRun:
    """In lines that stand for many calls each; in v as much in large ones."""
    story = Story()
    for number in range(40):
        size = {"offset": number << 20, "size": 1 << 20, "at_ms": number, "dur": 500_000}
        story.write("/d", task="use", stage="u", name="fputs", cat="STDIO", calls=1 << 14, **size)
        story.write("/e", task="large", stage="v", name="fwrite", cat="STDIO", pid=2, **size)
    return story.run()


def jumping_stream(step: int) -> FakeRun:
    """9,000 reads of 4,000 B by a stream, `step` places behind one another."""
    story = Story()
    for number in range(9000):
        at: dict[str, Any] = {"offset": number * step % 9000 * 4000, "size": 4000, "at_ms": number / 8, "dur": 100_000}
        story.read("/d", task="use", stage="u", name="fread", cat="STDIO", **at)
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


def rank_imbalance(ranks: int = 5, most: int = 50) -> FakeRun:
    """The first of five moves so many MiB, the others one; in v all do the same."""
    story = Story()
    for rank in range(ranks):
        size = most if rank == 0 else 1
        values: dict[str, Any] = {"rank": str(rank), "at_ms": rank / 10}
        story.write(f"/u{rank}", 0, size << 20, task="t", stage="u", dur=size * 10**6, pid=rank + 1, **values)
        story.write(f"/v{rank}", 0, 1 << 20, task="s", stage="v", dur=10**6, pid=rank + ranks + 1, **values)
    table = [{"host": "n1", "pid": pid, "start": "", "rank": str((pid - 1) % ranks)} for pid in range(1, 2 * ranks + 1)]
    return story.run(process_ranks=pd.DataFrame(table))


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
        program = "/bin/touch" if number else "/bin/ls"
        story.event("execve", program, pid=pid, start=start, cat="PROCESS", at_ms=at + 0.4, dur=0)
        story.write(f"/f{number % 3}", pid=pid, start=start, at_ms=at + 0.5, dur=MS)
        story.event("wait", at_ms=at + 1, dur=MS, **child)
        rows.append({"host": "n1", "pid": pid, "start": start, "ppid": 1, "exe": program, "argv": [program]})
    rows.append({**rows[0], "pid": 1, "ppid": 0, "exe": "/bin/sh"})
    table = pd.DataFrame(rows).assign(exit=0, signal=None, t1_ns=None)
    return story.run(processes=table.astype(dict.fromkeys(("exit", "pid", "ppid", "signal", "t1_ns"), "Int64")))
