"""Runs of which an expert says more than where the time went, for finding_cases.py: each beside what looks like it and
is healthy (`healthy`).
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from support.flowcase import MS, T0_NS, FakeRun, Story
from support.task_stories import declared, moment, task


def processes(
    *rows: tuple[int, int, str], signal: dict[int, int] | None = None, used_ms: float | None = None, cpus: str = "0-1"
) -> pd.DataFrame:
    """A table of processes that ended: pid, parent, program; which a signal ended; what each used of a processor."""
    table = pd.DataFrame(
        [{"host": "n1", "pid": p, "start": "", "ppid": of, "exe": exe, "argv": [exe], "exit": 0} for p, of, exe in rows]
    )
    table["signal"] = pd.array([(signal or {}).get(pid) for pid in table["pid"]], dtype="Int64")
    table["cpus"] = cpus
    table["t1_ns"] = T0_NS
    used = None if used_ms is None else round(used_ms * MS)
    for name, ns in (("utime_ns", used), ("stime_ns", None if used is None else 0)):
        table[name] = pd.array([ns] * len(table), dtype="Int64")
    for name in ("pid", "ppid", "exit", "t1_ns"):
        table[name] = table[name].astype("Int64")
    return table


def serial_stage(healthy: bool = False) -> FakeRun:
    """Three tasks at once, then one alone for most of the run; or for a tenth of it."""
    story, alone = Story(), 3 if healthy else 30
    for pid in (1, 2, 3):
        task(story, f"a{pid}", 0, 10, writes=f"/a{pid}", pid=pid)
    task(story, "b", 10, 10 + alone, reads="/a1 /a2 /a3", writes="/b", io=0.1, pid=4)
    return story.run()


def failed_in_pipe(signal: int | None = None, last: int = 0, program: str = "annotate", others: int = 2) -> FakeRun:
    """In `gzip | annotate | sort > /out` the second program ends with exit code 1, and another task reads the result.
    signal: what ends the first; last: the exit code of the third; others: tasks in which the second ended well."""
    story = Story()
    rows: list[tuple[int, int, str]] = []
    for at in range(others + 1):
        first, second, third = 10 * at + 1, 10 * at + 2, 10 * at + 3
        where: dict[str, Any] = {"task": f"make{at or ''}", "stage": "m"}
        story.read("/in.gz", 0, 1000, pid=first, at_ms=1, **where)
        for pipe, (giver, taker) in enumerate(((first, second), (second, third))):
            end: dict[str, Any] = {
                "ftype": "fifo",
                "file": f"0:9:{10 * at + pipe}",
                "size": 500,
                "count": 500,
                "ret": 500,
            }
            story.event("write", f"pipe:[{10 * at + pipe}]", dir="w", pid=giver, at_ms=2, **end, **where)
            story.event("read", f"pipe:[{10 * at + pipe}]", dir="r", pid=taker, at_ms=3, **end, **where)
        story.write(f"/out{at or ''}", 0, 5000, pid=third, at_ms=5, **where)
        rows += [(first, 99, "/bin/gzip"), (second, 99, f"/bin/{program}"), (third, 99, "/bin/sort")]
    story.read("/out", 0, 5000, task="use", stage="u", pid=98, at_ms=9)
    table = processes(*rows, (98, 99, "/bin/use"), signal={} if signal is None else {1: signal})
    table.loc[table["pid"] == 2, "exit"] = 1
    table.loc[table["pid"] == 3, "exit"] = last
    if signal is not None:
        table.loc[table["pid"] == 1, "exit"] = pd.NA
    return story.run(processes=table)


def unnoticed_failure(
    code: int = 3, program: str = "convert", again: bool = False, reader_ends: int = 0, others: int = 1
) -> FakeRun:
    """`convert` ends with exit code 3 after it has written half of /out, and another task reads that; in another task
    it ends well. again: a third process writes the file anew before it is read; others: how often it ends well."""
    story = Story()
    rows = [(pid, 99, f"/bin/{program}") for pid in range(1, others + 2)]
    for pid in range(1, others + 2):
        story.write(f"/out{pid}", 0, 5000, task=f"make{pid}", stage="m", pid=pid, at_ms=pid)
    if again:
        story.write("/out1", 0, 9000, task="make1", stage="m", pid=50, at_ms=7)
    story.read("/out1", 0, 5000, task="use", stage="u", pid=98, at_ms=9)
    table = processes(*rows, (50, 99, "/bin/other"), (98, 99, "/bin/use"))
    table.loc[table["pid"] == 1, "exit"] = code
    table.loc[table["pid"] == 98, "exit"] = reader_ends
    return story.run(processes=table)


def reaped(overlapping: bool = True) -> FakeRun:
    """A manager's process (99) runs `a` and `b`, at once or one after the other, and when both are over `c`, which
    reads what `a` has written and depends on `b` alone."""
    story = Story()
    moment(story, 0, pid=99)
    times = {"a": (10, 50), "b": (20 if overlapping else 60, 100), "c": (110, 150)}
    for pid, (name, (begin, end)) in enumerate(times.items(), 1):
        story.event("fork", at_ms=begin - 2, pid=99, cat="PROCESS", dur=0, ret=pid)
        task(story, name, begin, end, reads="/a" if name == "c" else "", writes=f"/{name}", pid=pid)
        story.event("wait", at_ms=end, pid=99, cat="PROCESS", dur=MS, ret=pid)
    moment(story, 160, pid=99)
    rows = ((99, 1, "/usr/bin/make"), *((pid, 99, "/bin/sh") for pid in (1, 2, 3)))
    names = pd.DataFrame([{"workflow": "w", "stage": name, "task": name, "parent": None} for name in "abc"])
    tables = {**declared(("b", "c", "file")), "declared_tasks": names}
    return story.run(**tables, processes=processes(*rows))


def sequential_tasks(fed: bool = False, read: bool = False, socket: bool = False, used_ms: float = 50) -> FakeRun:
    """A script (99) on two processors runs three tasks of 100 ms one after the other. fed: each reads what the one
    before has written; read: the script does; socket: each talks to a server; used_ms: by each, of a processor."""
    story = Story()
    moment(story, 0, pid=99)
    for n in range(3):
        begin, pid = 100 * n, n + 1
        story.event("fork", at_ms=begin + 5, pid=99, cat="PROCESS", dur=0, ret=pid)
        task(story, f"s{n}", begin + 6, begin + 100, reads=f"/o{n - 1}" if fed and n else "", writes=f"/o{n}", pid=pid)
        if socket:
            where: dict[str, Any] = {"task": f"s{n}", "stage": "s", "pid": pid, "file": f"0:8:{n}", "ftype": "sock"}
            story.event("write", f"socket:[{n}]", dir="w", size=10, count=10, ret=10, at_ms=begin + 50, **where)
        story.event("wait", at_ms=begin + 6, pid=99, cat="PROCESS", dur=96 * MS, ret=pid)
        if read:
            story.read(f"/o{n}", 0, 100, pid=99, at_ms=begin + 103)
    moment(story, 310, pid=99)
    rows = ((99, 1, "/bin/sh"), *((n + 1, 99, "/bin/sim") for n in range(3)))
    return story.run(processes=processes(*rows, used_ms=used_ms))


def repeated_work(tasks: int = 3, option: str = "", wrote: int = 0, fed: bool = False, copied: bool = False) -> FakeRun:
    """Three tasks that each expand one file into one of their own. option: one that each gives otherwise; wrote: bytes
    more by the last; fed: each reads from a pipe, too; copied: each expands its own copy of the file."""
    story = Story()
    for pid in range(1, tasks + 1):
        where: dict[str, Any] = {"task": f"t{pid}", "stage": "t", "pid": pid}
        name = f"/in/{pid}.gz" if copied else "/ref.gz"
        for part in range(2 * copied):
            copier: dict[str, Any] = {**where, "pid": 10 + pid, "at_ms": 10 * pid - 5 + part}
            story.read("/ref.gz", part << 19, 1 << 19, **copier)
            story.write(name, part << 19, 1 << 19, **copier)
        story.read(name, 0, 1 << 20, at_ms=10 * pid, dur=MS, **where)
        if fed:
            story.read("pipe:[7]", None, 10, at_ms=10 * pid + 4, ftype="fifo", file="0:9:7", **where)
        story.write(f"/out/hits{pid}", 0, 100 + wrote * (pid == tasks), at_ms=10 * pid + 8, **where)
    programs = {pid: "/usr/bin/gzip" for pid in range(1, tasks + 1)} | {
        10 + pid: "/bin/cp" for pid in range(1, tasks * copied + 1)
    }
    table = processes(*((pid, 99, program) for pid, program in programs.items()))
    table["argv"] = [
        ["gzip", "-dc", f"in/{pid}.gz" if copied else "ref.gz", f"out/hits{pid}", f"{option}{pid * bool(option)}"]
        for pid in table["pid"]
    ]
    return story.run(processes=table)


def read_amplification(read_bytes: int = 1 << 20) -> FakeRun:
    """A task reads three rows of a dataset, and its library a column of chunks of the file for each."""
    story = Story()
    where: dict[str, Any] = {"task": "t", "stage": "t"}
    for row in range(3):
        part = {
            "object": "/v",
            "dims": "[300,4000]",
            "chunk": "[300,1000]",
            "slab": f"[[{row},0],[1,1],[1,4000],[1,1]]",
        }
        above: dict[str, Any] = {**part, "name": "H5Dread", "cat": "HDF5", "dur": 20 * MS}
        story.read("/cube.h5", None, 16_000, at_ms=10 + 30 * row, **above, **where)
        for chunk in range(4):
            story.read("/cube.h5", chunk * read_bytes, read_bytes, at_ms=11 + 30 * row + chunk, **where)
    story.write("/means", 0, 100, at_ms=100, **where)
    return story.run()


def undeclared_input(path: str = "/w/cache/norm") -> FakeRun:
    """A task reads what it declared, and one more file that was there before."""
    story = Story()
    for name in ("/w/in", path):
        story.read(name, 0, 8192, task="use", stage="u")
    story.write("/w/out", 0, 8192, task="use", stage="u")
    files = (("use", "r", "/w/in"), ("use", "w", "/w/out"))
    return story.run(**declared(("a", "use", "future"), files=files))


def outliving_processes(healthy: bool = False) -> FakeRun:
    """A shell (1) that ends at 10 ms; what it left in the background (2) writes until 300 ms, or ends with it."""
    story = Story()
    where: dict[str, Any] = {"task": "t", "stage": "t"}
    moment(story, 0, pid=1, **where)
    moment(story, 5, pid=2, **where)
    story.write("/late", 0, 100, pid=2, at_ms=9 if healthy else 300, **where)
    moment(story, 10, pid=1, **where)
    return story.run(processes=processes((1, 99, "/bin/sh"), (2, 1, "/usr/bin/server")))


def half_written(closed: bool = False, signal: int = 9, anew: bool = False) -> FakeRun:
    """A program that is killed while it writes; another task reads what there is."""
    story = Story()
    where: dict[str, Any] = {"task": "make", "stage": "m", "pid": 1}
    story.create("/out", at_ms=0, **where)
    story.write("/out", 0, 100_000, at_ms=1, **where)
    if closed:
        story.event("close", "/out", at_ms=2, **where)
    if anew:
        story.create("/out", at_ms=5, task="again", stage="m", pid=3)
        story.write("/out", 0, 100_000, at_ms=6, task="again", stage="m", pid=3)
    story.read("/out", 0, 100_000, at_ms=10, task="use", stage="u", pid=2)
    ends = pd.DataFrame([{"host": "n1", "pid": 1, "status": signal, "end_ns": T0_NS + 3 * MS}])
    table = processes((1, 99, "/bin/make"), (2, 99, "/bin/use"), (3, 99, "/bin/make"), signal={1: signal})
    return story.run(processes=table[table["pid"].isin([1, 2] if not anew else [1, 2, 3])], command_ends=ends)


def fell_silent(**how: bool) -> FakeRun:
    """A writer (3) below a `timeout` (2) that a signal ends, which the shell (1) waits for until 20 ms; another task
    reads what there is. goes_on: the writer acts until the end; exits: it ends by itself; unread: nobody reads the
    file; between: there is one more process in between, which ends as the writer does; alive: the timeout ends by
    itself."""
    story = Story()
    where: dict[str, Any] = {"task": "make", "stage": "m"}
    for pid in (1, 2, 4, 3) if how.get("between") else (1, 2, 3):
        moment(story, pid / 10 if pid != 4 else 0.25, pid=pid, **where)
    story.create("/out", at_ms=1, pid=3, **where)
    for at in (2, 30) if how.get("goes_on") else (2,):
        story.write("/out", 0, 100_000, at_ms=at, pid=3, **where)
    story.event("wait", at_ms=20, cat="PROCESS", dur=0, ret=2, pid=1, **where)
    moment(story, 21, pid=1, **where)
    if not how.get("unread"):
        story.read("/out", 0, 100_000, at_ms=40, task="use", stage="u", pid=5)
    tree = {1: 99, 2: 1, 3: 4 if how.get("between") else 2, 4: 2, 5: 99}
    names = {1: "/bin/sh", 2: "/bin/timeout", 3: "/bin/make", 4: "/bin/env", 5: "/bin/use"}
    pids = [pid for pid in tree if pid != 4 or how.get("between")]
    table = processes(*((pid, tree[pid], names[pid]) for pid in pids), signal={} if how.get("alive") else {2: 9})
    endless = [pid for pid in (2, 3, 4) if (pid != 2 or not how.get("alive")) and (pid != 3 or not how.get("exits"))]
    table.loc[table["pid"].isin(endless), "exit"] = pd.NA
    return story.run(processes=table)


def retried_command(
    code: int = 1,
    program: str = "mv",
    size: int = 8192,
    arguments: str = "",
    out: str = "/out",
    changed: bool = False,
    fed: bool = False,
    then: int = 0,
    beside: bool = False,
    task: str | None = None,
) -> FakeRun:
    """A script (99) runs `step` (11), whose `mv` (13) fails, and runs it again (12).

    code, program: of what fails; size: of what it reads; arguments: of the second run; out: what that writes; changed:
    another process writes the input in between; fed: both read a pipe, too; then: how the second one ends; beside: it
    begins before the first one ends; task: of both.
    """
    story = Story()
    moment(story, 0, pid=99)
    for pid, begin, path in ((11, 1, "/out"), (12, 30 if beside else 51, out)):
        moment(story, begin, pid=pid, task=task)
        story.read("/in", 0, size, pid=pid, task=task, at_ms=begin + 1)
        if fed:
            story.read("pipe:[7]", None, 10, at_ms=begin + 2, ftype="fifo", file="0:9:7", pid=pid)
        story.write(path, 0, 100, pid=pid, task=task, at_ms=begin + 40)
    moment(story, 42, pid=13)
    story.event("renameat2", "/out", path2="/d/out", file2="8:1:9", at_ms=44, pid=13, errno=2, ret=-1)
    moment(story, 48, pid=11, task=task)
    if changed:
        story.write("/in", 0, size, pid=14, at_ms=49)
    moment(story, 110, pid=99)
    table = processes((99, 1, "/bin/sh"), (11, 99, "/bin/step"), (12, 99, "/bin/step"), (13, 11, f"/bin/{program}"))
    table["argv"] = [["sh"], ["step", "/in"], ["step", "/in", *arguments.split()], [program, "/out", "/d/out"]]
    table["exit"] = pd.array([0, code, then, code], dtype="Int64")
    return story.run(processes=table)


def failing_calls(errno: int = 22, calls: int = 100) -> FakeRun:
    """Reads of a file with O_DIRECT that are refused, and made again without it."""
    story = Story()
    where: dict[str, Any] = {"task": "use", "stage": "u"}
    story.event("openat", "/d", at_ms=0, fd=3, flags=0o40000, **where)
    for number in range(calls):
        call: dict[str, Any] = {"at_ms": 1 + number / 10, "name": "pread64", **where}
        failed = {"size": 0, "count": 10_000, "ret": -1, "errno": errno, "dir": "r", "offset": 1, "dur": 1000}
        story.event(path="/d", **failed, **call)
        story.read("/d", 10_000 * number + 1, 10_000, dur=20_000, **call)
    return story.run()


def lost_data(
    errno: int = 28, code: int = 0, then: str = "", unread: bool = False, path: str = "/out", buffered: bool = False
) -> FakeRun:
    """A program (1) whose second and third write of a file fail; another task reads the file. then: the writes have
    success after all (retry); the program removes the file (remove), cuts it off (truncate), writes it anew (anew), or
    in another folder (elsewhere), or puts another one in its place (replace); another task does that when it has been
    read (removed later); it is a database (journal). buffered: the calls are those of the C library."""
    story = Story()
    where: dict[str, Any] = {"task": "make", "stage": "m", "pid": 1}
    story.create(path, at_ms=0, **where)
    story.write(path, 0, 8192, at_ms=1, **where)
    names = ("fwrite", "fclose") if buffered else ("write", "write")
    for at, name in enumerate(names, 2):
        write = {"dir": "w", "size": 0, "count": 8192, "offset": 8192, "cat": "STDIO" if buffered else "POSIX"}
        story.event(name, path, at_ms=at, ret=-1, errno=errno, **({} if name == "fclose" else write), **where)
    if then == "retry":
        story.write(path, 8192, 16384, at_ms=5, **where)
    elif then == "remove":
        story.event("unlink", path, at_ms=5, **where)
    elif then == "truncate":
        story.event("ftruncate", path, at_ms=5, offset=4096, count=4096, **where)
    elif then == "journal":
        story.write(f"{path}-journal", 0, 8192, at_ms=5, **where)
    elif then in ("anew", "elsewhere", "replace"):
        other = {"anew": path, "elsewhere": "/elsewhere/out", "replace": "/new"}[then]
        story.create(other, at_ms=5, **where)
        story.write(other, 0, 24576, at_ms=6, **where)
    if then == "replace":
        story.rename("/new", path, at_ms=7, **where)
    if not unread:
        story.read(path, 0, 8192, at_ms=10, task="use", stage="u", pid=2)
    if then == "removed later":
        story.event("unlink", path, at_ms=12, task="clean", stage="c", pid=3)
    table = processes((1, 99, "/bin/make"), (2, 99, "/bin/use"), (3, 99, "/bin/rm"))
    table.loc[table["pid"] == 1, "exit"] = code
    return story.run(processes=table)


def shared_scratch(how: str = "", managed: bool = True) -> FakeRun:
    """Two tasks of a stage that each write /tmp1 anew at the same time, and read it then. how: the second one reads it
    first (reads first), reads it only (reads only), or each has a file of its own (apart)."""
    story = Story()
    a, b = ({"task": name, "stage": "sort", "pid": pid} for pid, name in enumerate("ab", 1))
    other = "/tmp2" if how == "apart" else "/tmp1"
    story.create("/tmp1", at_ms=1, **a)
    if how == "reads first":
        story.read("/tmp1", 0, 8192, at_ms=1.5, **b)
    if how != "reads only":
        story.create(other, at_ms=2, **b)
    story.write("/tmp1", 0, 8192, at_ms=3, **a)
    if how != "reads only":
        story.write(other, 0, 8192, at_ms=4, **b)
    story.read("/tmp1", 0, 8192, at_ms=6, **a)
    story.read(other, 0, 8192, at_ms=7, **b)
    return story.run(**(declared(("a", "z", "future"), ("b", "z", "future")) if managed else {}))


def spinning(maker: str = "make") -> FakeRun:
    """A task looks 1,200 times for a file, until another task makes it; or nobody does."""
    story = Story()
    use: dict[str, Any] = {"task": "use", "stage": "u", "pid": 2}
    moment(story, 0, task="make", stage="m", pid=1)
    for number in range(1200):
        story.event("stat", "/done", at_ms=number / 10, dur=50_000, errno=2, ret=-1, **use)
    if maker:
        story.create("/done", at_ms=119.9, task=maker, stage="m", pid=1)
    story.event("stat", "/done", at_ms=121, **use)
    story.write("/out", 0, 100, at_ms=125, **use)
    return story.run(processes=processes((1, 99, "/bin/make"), (2, 99, "/bin/use")))


def small_pipe_writes(size: int = 100, name: str = "write") -> FakeRun:
    """A line at a time; or a page, or on a stream of the C library."""
    story = Story()
    pipe = {"ftype": "fifo", "file": "0:9:5"}
    layer = "POSIX" if name == "write" else "STDIO"
    for number in range(10_000):
        at = {"at_ms": number / 100, "dur": 5000, "task": "gen", "stage": "g", "pid": 1, "cat": layer}
        story.event(name, "pipe:[5]", dir="w", size=size, count=size, ret=size, **pipe, **at)
    story.event("read", "pipe:[5]", dir="r", size=10_000 * size, at_ms=101, task="use", stage="u", pid=2, **pipe)
    return story.run()


def server_waits(traced: bool = False) -> FakeRun:
    """A task that reads of a server for 80 ms of 100; where it is part of the run, it is the other task that works."""
    story = Story()
    where: dict[str, Any] = {"task": "get", "stage": "g", "pid": 1}
    ends = "10.0.0.2:40000->10.0.0.1:80", "10.0.0.1:80->10.0.0.2:40000"
    sock = [
        {"path": f"tcp:{name}", "file": f"0:8:{number}", "ftype": "sock", "cat": "SOCKET"}
        for number, name in enumerate(ends, 1)
    ]
    moment(story, 0, **where)
    story.event("recv", dir="r", size=1 << 20, at_ms=10, dur=80 * MS, **sock[0], **where)
    if traced:
        story.event("send", dir="w", size=1 << 20, at_ms=80, dur=MS, task="serve", stage="s", pid=2, **sock[1])
    story.write("/data", 0, 1 << 20, at_ms=92, dur=MS, **where)
    moment(story, 100, **where)
    return story.run()


def round_trips(count: int = 10_000, answers: float = 1.0, size: int = 20, serves: bool = False) -> FakeRun:
    """A task sends a request for each of its items, and reads an answer to it before the next one. answers: to each
    request; size: of both; serves: it reads first."""
    story = Story()
    where: dict[str, Any] = {"task": "load", "stage": "l", "pid": 1}
    ends = "10.0.0.2:40000->10.0.0.1:6379", "10.0.0.1:6379->10.0.0.2:40000"
    sock = [
        {"path": f"tcp:{name}", "file": f"0:8:{number}", "ftype": "sock", "cat": "SOCKET"}
        for number, name in enumerate(ends, 1)
    ]
    moment(story, 0, **where)
    for at in range(count):
        for (name, way), part, late in ((("send", "w"), 1.0, serves), (("recv", "r"), answers, not serves)):
            if at < count * part:
                told = {"dir": way, "size": size, "count": size, "ret": size, "dur": 3000}
                story.event(name, at_ms=at / 100 + 0.005 * late, **told, **sock[way == "r"], **where)
    moment(story, 101, **where)
    return story.run()


def page_faults(faults: int = 200_000, system_ms: int = 80, resident_kib: int = 40_000) -> FakeRun:
    """A task that has its 40 MB anew for each of its frames: most of its processor time is the kernel's."""
    story = Story()
    task(story, "denoise", 0, 100, writes="/out", pid=1)
    table = processes((1, 99, "/bin/denoise"))
    table = table.assign(minflt=faults, maxrss_kib=resident_kib, utime_ns=20 * MS, stime_ns=system_ms * MS)
    return story.run(processes=table)


def read_by_every_rank(ranks: int = 2, size: int = 1 << 20, used_ms: int = 90, parts: int = 1) -> FakeRun:
    """Ranks that each read a file from front to back in 80 of their 100 ms. size: of the file; used_ms: of a processor,
    by each; parts: in how many of the same size the ranks share it."""
    story = Story()
    for pid in range(1, ranks + 1):
        where: dict[str, Any] = {"task": "t", "stage": "parse", "pid": pid, "rank": str(pid - 1)}
        moment(story, 0, **where)
        begin = (pid - 1) % parts * (size // parts)
        for number in range(8):
            length = size // parts // 8
            story.read("/points.txt", begin + number * length, length, at_ms=5 + 10 * number, dur=1000, **where)
        moment(story, 100, **where)
    table = processes(*((pid, 99, "/bin/solve") for pid in range(1, ranks + 1)))
    table = table.assign(minflt=0, maxrss_kib=1000, utime_ns=used_ms * MS, stime_ns=0)
    rank_rows = [{"host": "n1", "pid": pid, "start": "", "rank": str(pid - 1)} for pid in range(1, ranks + 1)]
    return story.run(processes=table, process_ranks=pd.DataFrame(rank_rows))


def conversation() -> FakeRun:
    """Processes without tags: a client asks a server, waits 80 of 100 ms for its worker, and asks again."""
    story = Story()
    ends = "10.0.0.2:40000->10.0.0.1:5432", "10.0.0.1:5432->10.0.0.2:40000"
    client, server = (
        {"path": f"tcp:{name}", "file": f"0:8:{number}", "ftype": "sock", "cat": "SOCKET", "pid": number}
        for number, name in enumerate(ends, 1)
    )
    for at in (1, 85):
        story.event("send", dir="w", size=20, ret=20, at_ms=at, dur=MS // 10, **client)
        waits = {"at_ms": 0.5 if at == 1 else 5, "dur": (1 if at == 1 else 81) * MS}
        story.event("recv", dir="r", size=20, ret=20, **waits, **server)
        story.event("send", dir="w", size=30, ret=30, at_ms=at + 2, dur=MS // 10, **server)
        story.event("recv", dir="r", size=30, ret=30, at_ms=at + 1, dur=2 * MS, **client)
    pipe = {"ftype": "fifo", "file": "0:9:5"}
    moment(story, 3.5, pid=3)
    story.event("read", "pipe:[5]", dir="r", size=9, ret=9, at_ms=3.6, dur=round(80.4 * MS), pid=1, **pipe)
    story.event("write", "pipe:[5]", dir="w", size=9, ret=9, at_ms=83.9, dur=1000, pid=3, **pipe)
    # Its good-bye, which the server has read before the client's call is over.
    story.event("recv", dir="r", size=5, ret=5, at_ms=88, dur=10 * MS, **server)
    story.event("send", dir="w", size=5, ret=5, at_ms=97, dur=3 * MS, **client)
    return story.run(processes=processes((1, 99, "/bin/client"), (2, 99, "/bin/server"), (3, 1, "/bin/work")))


def server_processes(shared: bool = True) -> FakeRun:
    """Two copies of a server's first process write the same bytes of its file, one after the other; both have mapped
    one file to write to it, or not."""
    story = Story()
    for pid in (2, 3):
        if shared:
            story.event(
                "mmap", "/dev/shm/server", cat="MMAP", pid=pid, at_ms=pid, prot=3, flags=1, count=4096, offset=0
            )
        story.write("/db", 0, 5000, pid=pid, at_ms=10 * pid)
    story.write("/log", 0, 10, pid=1, at_ms=1)
    table = processes((1, 99, "/bin/server"), (2, 1, "/bin/server"), (3, 1, "/bin/server"))
    return story.run(processes=table.assign(t0_ns=[T0_NS, T0_NS + 1, T0_NS + 2]))


def searches(there: bool = False) -> FakeRun:
    """A thousand names are looked up in two places; they are in neither, or in the first."""
    story = Story()
    for number in range(1000):
        for place in ("a", "b")[: 1 if there else 2]:
            failed = {} if there else {"errno": 2, "ret": -1}
            path = f"/w/{place}/item{number}"
            at = {"at_ms": number / 10, "dur": 20_000, "task": "look", "stage": "l"}
            story.event("stat", path, **failed, **at)
    story.write("/w/n", 0, 10, task="look", stage="l", at_ms=101)
    return story.run()


def repeated_start_ups(starts: int = 10, apart: bool = False, failed: int = 0) -> FakeRun:
    """A program that loads a library for 30 ms, again and again; or computes for a second before it loads the last.
    failed: so many of them end with exit code 3."""
    story = Story()
    for pid in range(1, starts + 1):
        where: dict[str, Any] = {"task": f"t{pid}", "stage": "t", "pid": pid}
        begin = 50 * pid
        story.event("openat", "/usr/lib/libone.so", at_ms=begin, dur=1000, fd=3, flags=0, **where)
        story.read("/usr/lib/libone.so", 0, 4096, at_ms=begin, dur=1000, **where)
        story.read("/usr/lib/libtwo.so", 0, 4096, at_ms=begin + (2000 if apart else 29), dur=MS, **where)
        story.write(f"/out{pid}", 0, 100, at_ms=begin + (2001 if apart else 31), **where)
    table = processes(*((pid, 99, "/usr/bin/prog") for pid in range(1, starts + 1)))
    table.loc[table["pid"] <= failed, "exit"] = 3
    return story.run(processes=table)


EXCLUSIVE, RELEASED, AT_ONCE = 2, 8, 4
"""`flags` of a lock."""
READ_WRITE = {"offset": 0, "count": 0}


def asleep(story: Story, at_ms: float, ms: float, **where: Any) -> None:
    """A call that waits for a time to pass."""
    story.event("nanosleep", at_ms=at_ms, dur=round(ms * MS), cat="WAIT", timeout_ns=round(ms * MS), **where)


def lock_contention(how: str = "fcntl", healthy: bool = False) -> FakeRun:
    """A task has a lock for 80 ms of 100 while another one wants it: waits in the call, is refused and sleeps, or finds
    a lock file. Healthy: it does something else after it was refused, or goes on though the file is there."""
    story = Story()
    has: dict[str, Any] = {"task": "has", "stage": "h", "pid": 1}
    wants: dict[str, Any] = {"task": "wants", "stage": "w", "pid": 2}
    moment(story, 0, **has)
    moment(story, 0, **wants)
    if how == "lock file":
        new = {"flags": 0o301, "fd": 3}
        story.event("openat", "/db.lock", at_ms=5, **new, **has)
        for at in (10, 30, 50, 70):
            story.event("openat", "/db.lock", at_ms=at, errno=17, ret=-1, **new, **wants)
            asleep(story, at + 0.1, 19.8, **wants)
        if not healthy:
            story.event("unlink", "/db.lock", at_ms=85, **has)
            story.event("openat", "/db.lock", at_ms=90, **new, **wants)
            story.event("unlink", "/db.lock", at_ms=97, **wants)
    else:
        story.event("fcntl", "/db", at_ms=5, flags=EXCLUSIVE, **READ_WRITE, **has)
        if how == "fcntl":
            story.event("fcntl", "/db", at_ms=10, dur=75 * MS, flags=EXCLUSIVE, holder=1, **READ_WRITE, **wants)
        for at in (10, 30, 50, 70) if how == "tries" else ():
            story.event("fcntl", "/db", at_ms=at, errno=11, ret=-1, **wants)
            if not healthy:
                asleep(story, at + 0.1, 19.8, **wants)
        story.event("fcntl", "/db", at_ms=85, flags=RELEASED, **READ_WRITE, **has)
        if how == "tries":
            story.event("fcntl", "/db", at_ms=90, flags=EXCLUSIVE, **READ_WRITE, **wants)
    story.write("/db", 0, 100, at_ms=95, **wants)
    moment(story, 86, **has)
    moment(story, 100, **wants)
    return story.run(processes=processes((1, 99, "/bin/has"), (2, 99, "/bin/wants"), used_ms=1))


def polling(maker: str = "make", at: str = "/done", looks: int = 8) -> FakeRun:
    """A task looks for a file every 10 ms, or so many times, until another task makes it; or itself, or nobody."""
    story = Story()
    makes: dict[str, Any] = {"task": "make", "stage": "m", "pid": 1}
    use: dict[str, Any] = {"task": "use", "stage": "u", "pid": 2}
    moment(story, 0, **makes)
    moment(story, 0, **use)
    step = 80 / looks
    for number in range(looks):
        story.event("stat", at, at_ms=2 + step * number, errno=2, ret=-1, **use)
        asleep(story, 2.1 + step * number, step - 0.2, **use)
    if maker:
        by = makes if maker == "make" else {**use, "pid": 3}
        story.create(f"{at}", at_ms=75, **by)
    moment(story, 76, **makes)
    story.event("stat", at, at_ms=82, **use)
    story.write("/out", 0, 100, at_ms=99, **use)
    return story.run(processes=processes((1, 99, "/bin/make"), (2, 99, "/bin/use"), (3, 2, "/bin/x"), used_ms=1))


def sleep_loop(works: bool = False, times: int = 8) -> FakeRun:
    """A task sleeps again and again, and does nothing else; or writes in between."""
    story = Story()
    where: dict[str, Any] = {"task": "use", "stage": "u", "pid": 1}
    moment(story, 0, **where)
    for number in range(times):
        asleep(story, 1 + 10 * number, 9.8, **where)
        if works:
            story.write("/log", 10 * number, 10, at_ms=10.9 + 10 * number, **where)
    story.write("/out", 0, 100, at_ms=99, **where)
    return story.run(processes=processes((1, 99, "/bin/use"), used_ms=1))


def refused(at: str = "/run/d/d.sock") -> FakeRun:
    """A task looks whether a server's socket is there, and tries nine times to connect to it, to no effect."""
    story = Story()
    where: dict[str, Any] = {"task": "use", "stage": "u", "pid": 1}
    moment(story, 0, **where)
    story.event("stat", at, at_ms=1, **where)
    for number in range(9):
        call: dict[str, Any] = {"ftype": "sock", "file": "0:8:5", "errno": 111, "ret": -1}
        story.event("connect", f"unix:[5]->[?] {at}", at_ms=2 + 10 * number, **call, **where)
        if number < 8:
            asleep(story, 2.1 + 10 * number, 9.8, **where)
    story.write("/out", 0, 100, at_ms=99, **where)
    return story.run(processes=processes((1, 99, "/bin/use"), used_ms=1))


def shared_interpreter(
    computes: float = 50, waits: float = 50, exe: str = "/usr/bin/python3.11", processes_of: int = 1
) -> FakeRun:
    """Four tasks of 100 ms, two at a time in threads of one process, each of which is on a processor for half of the
    time and waits for a condition for the other half. processes_of: how many processes they are in."""
    story = Story()
    moment(story, 0, pid=99)
    for number in range(4):
        thread, at = 11 + number % 2, 100 * (number // 2)
        pid = 1 + number % processes_of
        where: dict[str, Any] = {"task": f"a{number}", "stage": "a", "pid": pid, "tid": thread}
        used = round(number // 2 * computes * MS)
        story.event("enter", at_ms=at, cat="PROCESS", dur=0, run_ns=used, ready_ns=0, **where)
        story.event("pthread_cond_timedwait", at_ms=at + 1, dur=round(waits * MS), cat="WAIT", **where)
        story.write(f"/a{number}", 0, 100, at_ms=at + 98, **where)
        used += round(computes * MS)
        story.event("leave", at_ms=at + 99.9, cat="PROCESS", dur=0, run_ns=used, ready_ns=0, **where)
    moment(story, 200, pid=99)
    rows = pd.DataFrame([{"workflow": "w", "stage": "a", "task": f"a{n}", "parent": None} for n in range(4)])
    rows["t_submit_ns"] = pd.array([T0_NS] * 4, dtype="Int64")
    table = processes(*((pid, 99, exe) for pid in range(1, processes_of + 1)), used_ms=4 * computes / processes_of)
    return story.run(declared_tasks=rows, processes=table)


SCRIPT, SERVER = 99, 50


def runs(story: Story, pid: int, begin: float, end: float, parent: int = SCRIPT, waits: bool = True) -> None:
    """A parent makes a child, which lives from one time to another, and waits for it."""
    story.event("fork", at_ms=begin, pid=parent, cat="PROCESS", dur=0, ret=pid)
    moment(story, begin + 0.1, pid=pid)
    if waits:
        story.event("wait", at_ms=begin + 0.2, pid=parent, cat="PROCESS", dur=round((end - begin - 0.2) * MS), ret=pid)
        moment(story, end - 0.1, pid=pid)


def shell_loop(
    looks: str = "connect",
    server: float = 75,
    sleeps: float = 19,
    beside: bool = False,
    wrapped: bool = False,
    background: bool = False,
) -> FakeRun:
    """A script of an untagged run tries 4 times to reach a server by a program, and runs `sleep` in between; the server
    that it has started listens at 75 ms. looks: "connect", "stat" at /done, which nobody makes, or "" for none; server:
    when it listens; sleeps: how long; beside: the script makes another child during each sleep; wrapped: by `timeout 9
    sleep`; background: a child that was made before writes a file and ends during the fourth sleep."""
    story = Story()
    moment(story, 0, pid=SCRIPT)
    runs(story, SERVER, 0.5, 110, waits=False)
    rows = [(SCRIPT, 1, "/bin/sh"), (SERVER, SCRIPT, "/opt/serve")]
    if background:
        runs(story, 60, 0.7, 70, waits=False)
        story.write("/data", 0, 100, pid=60, at_ms=69)
        story.event("wait", at_ms=70, pid=SCRIPT, cat="PROCESS", ret=60)
        rows.append((60, SCRIPT, "/opt/other"))
    for number in range(5 if looks == "connect" else 6):
        begin, look, sleep, other = 2 + 20 * number, 100 + number, 200 + number, 300 + number
        over = looks == "connect" and number == 4
        if looks:
            runs(story, look, begin, begin + 0.6)
            rows.append((look, SCRIPT, "/opt/look"))
        if looks == "connect":
            name = f"tcp:127.0.0.1:{9000 + number}->127.0.0.1:80"
            call: dict[str, Any] = {"ftype": "sock", "file": f"0:8:{number}", "pid": look}
            story.event("connect", name, at_ms=begin + 0.2, errno=115, ret=-1, **call)
            if over:
                call["size"] = call["count"] = call["ret"] = 10
                story.event("send", name, at_ms=begin + 0.3, dir="w", **call)
                call.update(pid=SERVER, file="0:8:50")
                name = "tcp:127.0.0.1:80->127.0.0.1:9004"
                story.event("recv", name, at_ms=begin + 0.35, dir="r", **call)
                story.event("send", name, at_ms=begin + 0.4, dir="w", **call)
        elif looks:
            story.event("stat", "/done", at_ms=begin + 0.2, errno=2, ret=-1, pid=look)
        if over:
            break
        inner = 400 + number if wrapped else sleep
        runs(story, sleep, begin + 0.7, begin + 0.7 + sleeps + 0.2)
        rows.append((sleep, SCRIPT, "/bin/timeout" if wrapped else "/bin/sleep"))
        if wrapped:
            runs(story, inner, begin + 0.72, begin + 0.7 + sleeps + 0.1, parent=sleep)
            rows.append((inner, sleep, "/bin/sleep"))
        asleep(story, begin + 0.95, sleeps - 0.2, pid=inner)
        if beside:
            runs(story, other, begin + 0.75, begin + 10)
            rows.append((other, SCRIPT, "/opt/other"))
    story.event("listen", "socket:[5]", at_ms=server, ftype="sock", file="0:8:5", pid=SERVER)
    story.write("/out", 0, 100, at_ms=130, pid=SCRIPT)
    table = processes(*rows, used_ms=0.1)
    table["argv"] = [[exe, "/done"] for exe in table["exe"]]
    return story.run(processes=table)


def left_helper(until: float = 402, works: bool = False, waits: bool = False, pipe: bool = True) -> FakeRun:
    """A script (1) that ends at 20 ms has left a monitor (2) in the background, which runs `sleep` and writes to a pipe
    that tee (3) reads to its end, at 402 ms. works: it reads and writes all the time; waits: the script waits for it;
    pipe: it writes to the pipe, not to a file."""
    story = Story()
    moment(story, 0, pid=SCRIPT)
    for pid in (1, 3):
        runs(story, pid, pid / 10, 20 if pid == 1 else until + 2, waits=pid == 3)
    runs(story, 2, 1, until, parent=1, waits=waits)
    end: dict[str, Any] = {"ftype": "fifo", "file": "0:9:7"} if pipe else {}
    for number in range(8):
        step = (until - 2) / 8
        at = 2 + step * number
        if number:
            story.write("pipe:[7]" if pipe else "/log", 0, 10, pid=2, at_ms=at, ret=10, **end)
        if not works:
            runs(story, 20 + number, at + 0.1, at + step - 1, parent=2)
            asleep(story, at + 0.3, step - 1.5, pid=20 + number)
    if pipe:
        story.read("pipe:[7]", None, 80, at_ms=2.5, dur=round((until - 2) * MS), pid=3, ret=80, **end)
    moment(story, until, pid=2)
    if not waits:
        moment(story, 20, pid=1)
    story.write("/flow.log", 0, 80, pid=3, at_ms=until + 1)
    moment(story, until + 3, pid=SCRIPT)
    rows = [(SCRIPT, 1, "/bin/sh"), (1, SCRIPT, "/bin/sh"), (2, 1, "/bin/sh"), (3, SCRIPT, "/bin/tee")]
    table = processes(*rows, *((20 + number, 2, "/bin/sleep") for number in range(8)), used_ms=0.1)
    table["argv"] = [["sh", "monitor.sh"] if exe == "/bin/sh" else [exe] for exe in table["exe"]]
    return story.run(processes=table)


def processor_waits(ready_ms: float = 75, tasks: int = 8, lasts_ms: int = 100) -> FakeRun:
    """Eight tasks that compute on two processors."""
    story = Story()
    for pid in range(1, tasks + 1):
        task(story, f"c{pid}", 0, lasts_ms, writes=f"/c{pid}", pid=pid)
    table = processes(*((pid, 99, "/bin/c") for pid in range(1, tasks + 1)), used_ms=lasts_ms / 4)
    for name, ms in (("run_ns", lasts_ms / 4), ("ready_ns", ready_ms), ("ready_of_ns", lasts_ms / 4)):
        table[name] = pd.array([round(ms * MS)] * len(table), dtype="Int64")
    return story.run(processes=table)


def bound_processes(
    cpus: tuple[str, ...] = ("0", "0"), used_ms: int = 500, ready_ms: int = 500, beside_ms: int = 1, beside: str = "0-1"
) -> FakeRun:
    """Processes that compute for a second where they may only run on some processors, and one more that hardly does."""
    story, pids = Story(), range(1, len(cpus) + 2)
    for pid in pids:
        task(story, f"c{pid}", 0, 1000, writes=f"/c{pid}", pid=pid)
    table = processes(*((pid, 99, "/bin/c") for pid in pids), used_ms=used_ms)
    table["cpus"] = [*cpus, beside]
    ran = [round(ms * MS) for ms in (*[used_ms] * len(cpus), beside_ms)]
    ready = [round(ms * MS) for ms in (*[ready_ms] * len(cpus), 0)]
    for name, ns in (("utime_ns", ran), ("run_ns", ran), ("ready_of_ns", ran), ("ready_ns", ready)):
        table[name] = pd.array(ns, dtype="Int64")
    return story.run(processes=table)


def unanswered(ret: int = 0, errno: int = 115, late: bool = False) -> FakeRun:
    """A task begins a connection and polls its socket for 80 ms, and nobody accepts. ret: what the poll
    returned; errno: what the connect said; late: whether bytes pass over it in the end."""
    story = Story()
    where: dict[str, Any] = {"task": "use", "stage": "u", "pid": 1}
    sock: dict[str, Any] = {"path": "tcp:10.0.0.2:40000->10.0.0.1:80", "file": "0:8:5", "ftype": "sock"}
    moment(story, 0, **where)
    story.event("connect", at_ms=1, cat="SOCKET", errno=errno, ret=-1, **sock, **where)
    story.event("poll", at_ms=2, dur=80 * MS, cat="WAIT", ret=ret, **sock, **where)
    if late:
        story.event("send", dir="w", size=100, at_ms=90, cat="SOCKET", ret=100, **sock, **where)
    story.write("/out", 0, 100, at_ms=99, **where)
    return story.run()
