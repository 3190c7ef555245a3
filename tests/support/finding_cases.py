"""A run for each kind of finding, and the sentence that it is told in: `CASES`.

tests/unit/test_findings.py runs every rule on its story. The stories of calls are in call_stories.py.
"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from support.call_stories import (
    independent_mpiio,
    many_flushes,
    metadata_load,
    misaligned_calls,
    random_offsets,
    rank_imbalance,
    read_ahead,
    repeated_writes,
    shared_file,
    short_processes,
    small_calls,
    stream_buffers,
    stream_flushes,
    useless_seeks,
)
from support.diagnosis_stories import (
    failed_in_pipe,
    failing_calls,
    half_written,
    left_helper,
    lock_contention,
    lost_data,
    outliving_processes,
    page_faults,
    polling,
    processes,
    processor_waits,
    read_amplification,
    read_by_every_rank,
    repeated_start_ups,
    repeated_work,
    round_trips,
    sequential_tasks,
    serial_stage,
    server_waits,
    shared_interpreter,
    shell_loop,
    sleep_loop,
    small_pipe_writes,
    undeclared_input,
    unnoticed_failure,
)
from support.flowcase import MS, T0_NS, FakeRun, Story
from support.task_stories import declared, moment, task


def read_during_write() -> FakeRun:
    story = Story()
    story.write("/f", 0, 4096, task="make", stage="m", at_ms=1, dur=20 * MS)
    story.read("/f", 2048, 4096, task="use", stage="u", at_ms=5, dur=MS)
    return story.run()


def read_before_write() -> FakeRun:
    story = Story()
    story.read("/f", 0, 100, task="use", stage="u", at_ms=1)
    story.create("/f", task="make", stage="m", at_ms=50, pid=2)
    return story.run()


def two_writers() -> FakeRun:
    story = Story()
    for at, (path, name) in enumerate((("/f", "a"), ("/f", "b"), ("/g", "a"), ("/g", "b"))):
        story.write(path, 0, 200 if path == "/f" else 100, task=name, stage=name, at_ms=1 + 20 * at, pid=ord(name))
    return story.run()


def interleaved_appends() -> FakeRun:
    story = Story()
    for pid, name in ((1, "a"), (2, "b")):
        story.event("openat", "/log", task=name, stage=name, at_ms=pid, pid=pid, flags=0o2101, fd=3)
        for at in range(10):
            story.write("/log", 20 * at + 10 * (pid - 1), 10, task=name, stage=name, at_ms=5 + 2 * at + pid, pid=pid)
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


def undeclared_untold() -> FakeRun:
    """Of a manager that declares files alone: c may have waited for a value of x."""
    story = Story()
    task(story, "x", 0, 10, writes="/x")
    task(story, "c", 20, 30, reads="/x", writes="/c")
    config = '{"declares": "path inputs and outputs"}'
    workflows = pd.DataFrame([{"workflow": "w", "manager": "nextflow", "version": "", "config": config}])
    return story.run(**timed(("x", 0, 12), ("c", 12, 31)), declared_workflows=workflows)


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


def critical_io() -> FakeRun:
    """Two fifths of the run, in whole files."""
    story = Story()
    task(story, "a", 0, 100, writes="/a")
    task(story, "b", 100, 200, reads="/a", writes="/big", io=40)
    return story.run()


def dependency_without_data() -> FakeRun:
    """Beside a third task, so that there are two workers."""
    story = Story()
    task(story, "a", 0, 10, writes="/a")
    task(story, "b", 10, 20, reads="/other", writes="/b", pid=2)
    task(story, "c", 0, 1, writes="/c", io=0.5, pid=3)
    return story.run(**declared(("a", "b", "file"), ("c", "d", "future")))


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
    story.create("/mid-journal", task="make", stage="m")
    story.write("/mid-journal", 0, 1 << 20, task="make", stage="m")
    story.create("/spill", task="make", stage="m")
    story.write("/spill", 0, 1 << 20, task="make", stage="m")
    story.read("/spill", 0, 1 << 20, task="make", stage="m")
    for path in ("/tmp1", "/tmp2", "/mid-journal", "/spill"):
        story.event("unlink", path, task="make", stage="m")
    for _ in range(3):
        story.read("/mid", 0, 3 << 20, task="use", stage="u")
    return story.run(**declared(("make", "use", "file"), files=(("make", "w", "/mid"),)))


def file_copies() -> FakeRun:
    """By cp; and by a program that writes as many bytes as it read, which may be others."""
    story = Story()
    for name, start in (("upper", 2), ("stage-in", 1)):
        for place in (0, 1 << 19):
            story.read(f"/{name}", place, 1 << 19, task=name, stage="s", pid=start)
            story.write(f"/{name}-out", place, 1 << 19, task=name, stage="s", pid=start)
    return story.run(processes=processes((1, 99, "/bin/cp"), (2, 99, "/usr/bin/upper")))


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
    story.write("/f", None, 10, task="b", at_ms=50, pid=2)
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


def conflicts_of_ranks() -> FakeRun:
    """Two ranks without a task, and one behind the other."""
    story = Story()
    story.write("/f", 0, 100, pid=1, rank="0")
    story.write("/f", 0, 100, pid=2, rank="1", at_ms=1)
    ranks = [{"host": "n1", "pid": pid, "start": "", "rank": str(pid - 1)} for pid in (1, 2)]
    return story.run(process_ranks=pd.DataFrame(ranks))


def barrier(reads: str = "/a1 /a2", told: bool = True) -> FakeRun:
    """Two tasks of b are submitted when all three of a are over, the last one at 100 ms; each reads what another has
    written. reads: what the two read; told: that the program waited is known."""
    story, last = Story(), 100
    for pid, (name, end) in enumerate((("a1", 10), ("a2", 12), ("a3", last)), 1):
        task(story, name, 0, end, writes=f"/{name}", pid=pid)
    for pid, (name, path) in enumerate(zip(("b1", "b2"), reads.split(), strict=True), 4):
        task(story, name, last + 2, last + 42, reads=path, writes=f"/{name}", pid=pid)
    ends = (("a1", 0, 11), ("a2", 0, 13), ("a3", 0, last + 1))
    tables = timed(*ends, *((f"b{n}", last + 1, last + 43) for n in (1, 2)))
    tables["declared_tasks"]["stage"] = tables["declared_tasks"]["task"].str[0]
    waits = waited(*(("b1", f"a{n}", None) for n in (1, 2, 3)), ("b2", None, "b1"))
    return story.run(**tables, **(waits if told else {}))


def limited_concurrency() -> FakeRun:
    """An untagged manager, 0 to 100 ms, that runs one task at a time: `use` has its data at 30."""
    story = Story()
    for at in (0, 100):
        moment(story, at, pid=99)
    task(story, "make", 10, 30, writes="/a", pid=2)
    task(story, "other", 32, 60, writes="/b", pid=3)
    task(story, "use", 62, 90, reads="/a", pid=4)
    return story.run()


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
        "use read /f before make wrote 100 B there, and nothing orders the two",
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
    "undeclared, order not told": (
        undeclared_untold,
        "c read 100 B that x wrote; nextflow declares only path inputs and outputs, so whether it orders the two is"
        " not known",
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
    "interleaved appends": (
        interleaved_appends,
        "a and b appended to /log at the same time: no byte is lost, but lines of the two may stand between each other",
    ),
    "critical path gaps": (
        critical_path,
        "The critical path was between tasks for 500 ms of 700 ms; the longest gap is 500 ms, before b",
    ),
    "start-up and stop": (
        startup_and_stop,
        "The run took 500 ms before its first task began, and 50.0 ms after its last one was over, of 650 ms",
    ),
    "critical path I/O": (
        critical_io,
        "File I/O took 81.0 ms of 200 ms on the critical path, most of it in b (80.0 ms)",
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
    "stream flushes": (
        stream_flushes,
        "u: 2,000 calls of fflush, one for each 64 B written, took 40.0 ms: each is a call to the kernel, where a full"
        " buffer would be 32",
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
    "read ahead for nothing": (
        read_ahead,
        "u: streams of the C library read 1.95 MiB of 1 file (most of /d) for 3.91 KiB that the program took, 512 times"
        " as much, and dropped the rest at 500 seeks and at the close",
    ),
    "shared file": (
        shared_file,
        "u: 2 processes at once wrote /d in 2,000 calls of 8.00 KiB on average, which took 19.4 ms",
    ),
    "independent MPI-IO": (
        independent_mpiio,
        "u: 2 processes read or wrote by MPI-IO in 1,200 independent calls",
    ),
    "read by every rank": (
        read_by_every_rank,
        "parse: each of 2 ranks read all of /points.txt (1.00 MiB), and computed for up to 63.0 ms until it was"
        " through",
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
        "2.00 MiB were written over bytes that the same writer had written before, most of /d (2.00 MiB)",
    ),
    "metadata load": (
        metadata_load,
        "u: 1,000 metadata calls (mostly stat), beside 1 call for data, took 10.0 ms",
    ),
    "short processes": (
        short_processes,
        "101 processes lived 20.0 ms or less, together 202 ms of the run: 100 of touch, 1 of ls",
    ),
    "limited concurrency": (
        limited_concurrency,
        "Tasks of the critical path were ready for 30.0 ms of 100 ms while others ran in their place, at most 1 at a"
        " time",
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
        "6.00 MiB were read again by what had read the same bytes before, most of /mid (6.00 MiB)",
    ),
    "file copies": (
        file_copies,
        "1.00 MiB were copied from file to file, the largest from /stage-in to /stage-in-out (1.00 MiB)",
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
    "threads of one interpreter": (
        shared_interpreter,
        "4 tasks, most of a, ran in threads of one Python process, up to 2 at a time, and were on 1.0 processors"
        " together; they waited 50% of the time for other threads of it",
    ),
    "submitted after others": (
        barrier,
        "The program waited for a3 (8.3 times the median of its stage) before it submitted b1 and 1 other of b, which"
        " read nothing of it; all that b1 needs of others was there 91.0 ms earlier",
    ),
    "serial stage": (
        serial_stage,
        "b ran alone for 30.0 ms of 40.0 ms, where up to 3 tasks of a ran at a time",
    ),
    "failed in a pipeline": (
        failed_in_pipe,
        "`/bin/annotate` of make ended with exit code 1, in a pipeline that went on: /out (4.88 KiB) may lack what it"
        " should have passed on, and use read it",
    ),
    "page faults": (
        page_faults,
        "denoise was 79.0 ms of its 100 ms on a processor in the kernel, outside of calls: 200,000 page faults, where"
        " it has at most 39.1 MiB of memory",
    ),
    "round trips": (
        round_trips,
        "load: 10,000 requests to 10.0.0.1:6379, and as many answers, of 20 B on average, one after the other, took"
        " 60.0 ms in 100.0 ms",
    ),
    "unnoticed failure": (
        unnoticed_failure,
        "`/bin/convert` ended with exit code 3 after it had written 4.88 KiB of /out1, which may lack the rest; use"
        " read it, and nothing failed for it",
    ),
    "tasks one after the other": (
        sequential_tasks,
        "3 tasks of s ran one after the other for 294 ms of 310 ms, and none read anything that the one before had"
        " made",
    ),
    "repeated work": (
        repeated_work,
        "3 tasks each ran gzip over /ref.gz (1.00 MiB) with the same arguments, and it wrote as much every time",
    ),
    "read amplification": (
        read_amplification,
        "t read 46.9 KiB of the dataset /v (chunks of 300 x 1,000) by 3 calls, 1 x 4,000 of 300 x 4,000 each, for"
        " which 12.0 MiB of /cube.h5 were read, in 60.0 ms",
    ),
    "undeclared input": (
        undeclared_input,
        "use read 8.00 KiB of /w/cache/norm, which is from before the run and declared by no task",
    ),
    "outliving processes": (
        outliving_processes,
        "t had ended, and its server went on for 290 ms, and wrote /late",
    ),
    "lost data": (
        lost_data,
        "`/bin/make` of make could not write 16.0 KiB of /out (No space left on device) and went on, exit code 0; use"
        " read that file",
    ),
    "half-written output": (
        half_written,
        "make was killed by signal 9 (SIGKILL) while it wrote /out: the 97.7 KiB that are there may be half of it, and"
        " use read it",
    ),
    "failing calls": (
        failing_calls,
        "use: 100 calls of pread64 on /d failed with EINVAL (Invalid argument), and took 100 us; the file is open with"
        " O_DIRECT, which takes blocks at multiples of their size",
    ),
    "small pipe writes": (
        small_pipe_writes,
        "gen: 10,000 writes of 100 B on average to a pipe took 50.0 ms; 16 writes of 64.0 KiB would do",
    ),
    "waiting for a server": (
        server_waits,
        "get waited 80.0 ms for 10.0.0.1:80, a server outside of the run, and got 1.00 MiB",
    ),
    "lock contention": (
        lock_contention,
        "wants waited 75.0 ms for a lock on /db, which has had for 75.0 ms of that",
    ),
    "polling": (
        polling,
        "use looked for /done 8 times and slept 78.4 ms in between; make made it 75.0 ms into the run, and use went on"
        " 6.90 ms later; nothing but that loop orders the two",
    ),
    "sleep loop": (
        sleep_loop,
        "use slept 8 times in a row, 78.4 ms, and looked at nothing that is recorded in between",
    ),
    "sleeping past a server's start": (
        shell_loop,
        "sh n1:99 tried to connect to 127.0.0.1:80 4 times (refused) and slept 75.2 ms in between; serve n1:50 listened"
        " there 75.0 ms into the run, and sh n1:99 slept on for 6.75 ms",
    ),
    "helper that outlives the work": (
        left_helper,
        "sh n1:2 (sh monitor.sh), which sh n1:1 left in the background, went on for 382 ms after it, mostly asleep, and"
        " holds open a pipe that tee n1:3 reads to its end",
    ),
    "waiting for a processor": (
        processor_waits,
        "c1 was ready and waited 75.0 ms for a processor: the run had work for up to 8 at a time, and could use 2",
    ),
    "repeated start-ups": (
        repeated_start_ups,
        "t: prog was started 10 times, and each time took 30.0 ms to load itself and its modules",
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
        "1 pair of accesses could not be checked for conflicts: bytes or times not exactly known, or too many pairs",
    ),
}
"""kind -> a run that has it, and the sentence."""
