"""Regions: what a program says that it is doing, beside its calls, in C++ (the header alone) and in Python."""

import shutil
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tailrace
from support.commands import TracedCommand, run_cli
from support.run_files import Line, Trace
from tailrace import installation

PROGRAMS = Path(__file__).parents[1] / "programs"

NESTED = {
    "outer": 1,
    "outer/in step": 3,
    "outer/throws": 1,
    "outer/recursive": 4,
    "outer/thread": 1,
    "outer/child": 1,
}
"""The regions of `regions nested` by path."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "file"
    made.write_text("text")
    return made


def own(trace: Trace) -> list[Line]:
    return [event for event in trace.events if event["cat"] == "APP"]


def counts(trace: Trace) -> dict[str, int]:
    """How many regions ended, by path."""
    return dict(Counter(e["args"]["region"] for e in own(trace) if not e["args"].keys() & {"kind", "open"}))


def opens(trace: Trace, file: Path) -> dict[str, int]:
    """How often the file was opened under each region."""
    return dict(Counter(e["args"].get("region", "") for e in trace.of(file, {"open", "openat"})))


@pytest.mark.parametrize("detail", ["full", "totals", "auto:1"])
def test_cpp_regions_by_the_header_alone(
    detail: str, file: Path, program: Callable[[str], Path], run_traced: TracedCommand
) -> None:
    run_traced(program("regions"), "nested", file, options=("-q", "--detail", detail))
    trace = Trace(run_traced.run)
    assert counts(trace) == NESTED
    assert opens(trace, file) == {
        "outer/in step": 3, "outer/throws": 1, "outer/thread": 1, "outer/child": 1, "outer": 1, "": 1,
    }  # fmt: skip
    parent = next(e["pid"] for e in own(trace) if e["name"] == "outer")
    assert {e["args"].get("region") for e in trace.of(file) if e["pid"] != parent} == {"outer/child", "outer"}
    by_id = {e["args"]["region_id"]: e for e in own(trace)}
    assert len(by_id) == len(own(trace))
    for e in own(trace):
        outer = by_id.get(e["args"].get("parent_id", 0))
        assert outer is None or outer["ts"] <= e["ts"]
        assert (outer is None) == (e["name"] == "outer")
    steps = [e["args"] for e in own(trace) if e["name"] == "in step"]
    assert [(a["epoch"], a["step"], a["category"], a["keys"]) for a in steps] == [
        (7, step, "io", "model=u%20net,loss=5") for step in range(3)
    ]
    moments = [(e["name"], e["args"]["kind"], e["args"].get("value")) for e in own(trace) if "kind" in e["args"]]
    assert moments == [("hello", "instant", None), ("load", "counter", 0.25), ("load", "counter", -3)]


def test_untraced_the_header_does_nothing(file: Path, program: Callable[[str], Path]) -> None:
    assert subprocess.run([program("regions"), "nested", file], check=False).returncode == 0


def test_a_region_that_outlives_its_segment_has_its_end(
    file: Path, program: Callable[[str], Path], run_traced: TracedCommand
) -> None:
    """Its first segment is sealed while it is open; the line with its end has the same number, and sums are exact."""
    run_traced(program("regions"), "long", file)
    trace = Trace(run_traced.run)
    lines = [e["args"] for e in own(trace) if e["name"] == "long"]
    assert len({a["region_id"] for a in lines}) == 1
    assert sorted(a.get("open", 0) for a in lines) == [0, 1]
    assert counts(trace)["long/short"] == 6000
    assert opens(trace, file) == {"long/short": 600, "": 1}
    table = tailrace.open(run_traced.run).regions.table().set_index("region")
    assert table["count"].to_dict() == {"long": 1, "long/short": 6000}
    assert table["open"].sum() == 0
    assert table.loc["long/short", "calls"] == 1800
    # A rate of the clock is a millionth off, of the time since a segment was sealed.
    instances = tailrace.open(run_traced.run).regions.instances.set_index("name")
    short, outer = instances.loc["short"], instances.loc["long"]
    assert (
        outer["begin_ns"] - 10_000
        <= short["begin_ns"].min()
        < outer["begin_ns"] + (outer["end_ns"] - outer["begin_ns"]) // 10
    )
    assert short["end_ns"].max() <= outer["end_ns"]
    durations = [e["dur"] for e in own(trace) if e["name"] == "short"]
    assert table.loc["long/short", "time_ns"] == round(sum(durations) * 1000)


def test_killed_a_process_leaves_its_open_regions(
    file: Path, program: Callable[[str], Path], run_traced: TracedCommand
) -> None:
    run_traced(program("regions"), "killed", file, check=False)
    run = tailrace.open(run_traced.run)
    table = run.regions.table().set_index("region")
    assert table["open"].to_dict() == {"killed": 1, "killed/long": 0, "killed/long/short": 0, "killed/inner": 1}
    last = int((run.read(["ts", "dur"]).sum(axis=1)).max())
    instances = run.regions.instances.set_index("region")
    assert instances.loc["killed", "end_ns"] == last
    assert instances.loc["killed/inner", "end_ns"] == last
    assert table.loc["killed/inner", "calls"] == 3


PYTHON = """
    import asyncio, concurrent.futures, multiprocessing, sys, threading
    import tailrace

    FILE = sys.argv[1]

    def touch():
        open(FILE).close()

    @tailrace.region
    def function():
        touch()

    @tailrace.region("generator")
    def generator():
        for item in range(2):
            touch()
            yield item

    @tailrace.region("coroutine", step=4)
    async def coroutine(turns):
        touch()
        for _ in range(turns):
            await asyncio.sleep(0)
        touch()
        function()

    @tailrace.region("stream")
    async def stream():
        for item in range(2):
            await asyncio.sleep(0)
            touch()
            yield item

    async def main():
        with tailrace.region("main"):
            await asyncio.gather(coroutine(3), coroutine(5), asyncio.to_thread(function))
            async for _ in stream():
                touch()

    def work(number):
        with tailrace.region("work", step=number):
            touch()

    if __name__ == "__main__":
        with tailrace.region("block", epoch=1) as block:
            for _ in generator():
                with tailrace.region("body"):
                    touch()
            block.update(loss=0.5)
        asyncio.run(main())
        try:
            with tailrace.region("raises"):
                raise KeyError
        except KeyError:
            touch()
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            list(pool.map(work, range(3)))
        with tailrace.region("starts"):
            thread = threading.Thread(target=function)
        thread.start()
        thread.join()
        for method in ("fork", "spawn", "forkserver"):
            with tailrace.region(method), multiprocessing.get_context(method).Pool(2) as pool:
                pool.map(work, range(4))
                pool.close()
                pool.join()
        for _ in tailrace.steps("ab", "load"):
            tailrace.instant("now", n=1)
            tailrace.counter("number", 2.5)
"""


def test_python_regions_follow_the_code(tmp_path: Path, file: Path, run_traced: TracedCommand) -> None:
    code = tmp_path / "program.py"
    code.write_text(textwrap.dedent(PYTHON))
    run_traced(sys.executable, code, file)
    trace = Trace(run_traced.run)
    found = counts(trace)
    # A step of the asynchronous generator, and a wait for an item, is a region each, and the last finds no more.
    assert found == {
        "block": 1, "block/generator": 1, "block/body": 2,
        "main": 1, "main/coroutine": 2, "main/coroutine/function": 2, "main/function": 1, "main/stream": 3,
        "raises": 1, "work": 3, "starts": 1, "function": 1, "load": 3,
        **{name: 1 for name in ("fork", "spawn", "forkserver")},
        **{f"{name}/work": 4 for name in ("fork", "spawn", "forkserver")},
    }  # fmt: skip
    assert opens(trace, file) == {
        "block/generator": 2, "block/body": 2,
        "main/coroutine": 4, "main/coroutine/function": 2, "main/function": 1, "main/stream": 2, "main": 2,
        "": 1, "work": 3, "function": 1,
        **{f"{name}/work": 4 for name in ("fork", "spawn", "forkserver")},
    }  # fmt: skip
    block = next(e for e in own(trace) if e["name"] == "block" and "open" not in e["args"])
    assert (block["args"]["epoch"], block["args"]["keys"]) == (1, "loss=0.5")
    regions = tailrace.open(run_traced.run).regions
    assert regions.instances.query("region == 'block/body'")["epoch"].tolist() == [1, 1]
    steps = regions.steps().set_index(["epoch", "step"])["count"]
    assert steps.xs(0, level="step").sum() == 1 + 3 + 1


PLANTED = """
    import fcntl, mmap, os, sys, threading, time
    import tailrace

    # Places of memory that both processes see: how far each is.
    LOADED, COMPUTING, COMPUTED = range(3)
    progress = mmap.mmap(-1, 3)

    def until(place, number):
        while progress[place] < number:
            time.sleep(0.001)

    def held(path):
        # A call on a file that lasts: the lock is another descriptor's.
        mine, other = os.open(path, os.O_RDWR | os.O_CREAT), os.open(path, os.O_RDWR)
        fcntl.flock(other, fcntl.LOCK_EX)
        threading.Timer(0.01, lambda: fcntl.flock(other, fcntl.LOCK_UN)).start()
        fcntl.flock(mine, fcntl.LOCK_EX)

    def load(number):
        with tailrace.region("load", "io", step=number):
            before = time.monotonic_ns()
            path = f"{sys.argv[1]}/lock{number}-{os.getpid()}"
            held(path)
            print(path, before, time.monotonic_ns(), file=log)

    log = open(f"{sys.argv[1]}/log", "a", buffering=1)
    child = os.fork()
    with tailrace.region("trainer" if child else "loader"):
        for number in range(4):
            if child:
                with tailrace.region("step", epoch=0, step=number):
                    if number % 2:
                        load(number)
                    # The other process's first load is while this one computes, its last when it has computed.
                    with tailrace.region("compute", "compute"):
                        progress[COMPUTING] = 1
                        until(LOADED, 1)
                        time.sleep(0.02)
                progress[COMPUTED] = number + 1
            else:
                until(COMPUTING, 1)
                if number == 3:
                    until(COMPUTED, 4)
                load(number)
                progress[LOADED] = number + 1
    if child:
        os.wait()
"""


def union(rows: list[tuple[int, int]], low: int, high: int) -> np.ndarray:
    """Which of the microseconds from low to high are covered."""
    covered = np.zeros((high - low) // 1000 + 1, dtype=bool)
    for begin, end in rows:
        covered[(begin - low) // 1000 : (end - low) // 1000] = True
    return covered


def test_unoverlapped_io_of_a_planted_program(tmp_path: Path, run_traced: TracedCommand) -> None:
    """Two processes that load and compute side by side: the tables are what the lines say, microsecond by microsecond,
    and each load of the program's own log."""
    code = tmp_path / "program.py"
    code.write_text(textwrap.dedent(PLANTED))
    (tmp_path / "out").mkdir()
    run_traced(sys.executable, code, tmp_path / "out")
    trace = Trace(run_traced.run)

    def time_of(e: Line) -> tuple[int, int]:
        begin = e["ts"] * 1000 + e["args"]["ns"]
        return begin, begin + round(e["dur"] * 1000)

    low, high = (pick(bound for e in trace.events for bound in time_of(e)) for pick in (min, max))

    def covered(chosen: Callable[[dict[str, Any], Line], bool]) -> np.ndarray:
        return union([time_of(e) for e in trace.events if chosen(e["args"], e)], low, high)

    def io(args: dict[str, Any], e: Line) -> bool:
        return e["cat"] in {"POSIX", "STDIO", "MMAP"} and not str(e["path"]).startswith(("pipe:", "anon"))

    def in_region(path: str) -> Callable[[dict[str, Any], Line], bool]:
        return lambda a, e: a.get("region", "").startswith(path) and io(a, e)

    compute = covered(lambda a, e: e["cat"] == "APP" and a.get("category") == "compute")
    regions = tailrace.open(run_traced.run).regions
    table = regions.table().set_index("region")
    near = {"abs": 2000 * len(trace.events)}
    for path in ("trainer", "loader", "loader/load", "trainer/step"):
        calls = covered(in_region(path))
        assert table.loc[path, "io_ns"] == pytest.approx(calls.sum() * 1000, **near)
        assert table.loc[path, "unoverlapped_ns"] == pytest.approx((calls & ~compute).sum() * 1000, **near)
        loads = covered(
            lambda a, e, path=path: e["cat"] == "APP" and a.get("category") == "io" and a["region"].startswith(path)
        )
        assert table.loc[path, "app_ns"] == pytest.approx(loads.sum() * 1000, **near)
        assert table.loc[path, "unoverlapped_app_ns"] == pytest.approx((loads & ~compute).sum() * 1000, **near)
    assert 0 < table.loc["loader", "unoverlapped_ns"] < table.loc["loader", "io_ns"]
    steps = regions.steps()
    assert [tuple(row) for row in steps[["epoch", "step"]].dropna().to_numpy()] == [(0, 0), (0, 1), (0, 2), (0, 3)]
    # The log's stamps are around each load, in which the first thread waits for the second of its locks.
    logged = [line.rsplit(" ", 2) for line in (tmp_path / "out" / "log").read_text().splitlines()]
    assert len(logged) == 6
    for path, begin, end in logged:
        locks = sorted(time_of(e) for e in trace.of(path, {"flock"}) if e["pid"] == e["tid"])
        assert len(locks) == 2 and locks[1][1] - locks[1][0] <= int(end) - int(begin)


def test_the_report_has_a_table_of_regions(
    file: Path, program: Callable[[str], Path], run_traced: TracedCommand
) -> None:
    run_traced(program("regions"), "nested", file)
    shown = run_cli("report", run_traced.run).stdout
    table = shown[shown.index("\nRegions") :]
    assert "outer/in step" in table.split("\n\n")[0]
    query = run_cli("query", run_traced.run, "--by", "region", "--agg", "sum:size", "--format", "csv").stdout
    assert "outer/in step,3" in query


def test_fortran_regions_by_the_module_alone(tmp_path: Path, file: Path, run_traced: TracedCommand) -> None:
    compiler = shutil.which("gfortran")
    if compiler is None:
        pytest.skip("there is no gfortran")
    sources = [installation.PACKAGE / "include" / "tailrace" / "tailrace_regions.f90", PROGRAMS / "regions.f90"]
    words = [compiler, "-O2", "-Wall", "-Werror", "-o", tmp_path / "fortran", *sources]
    subprocess.run(words, check=True, cwd=tmp_path)
    subprocess.run([tmp_path / "fortran", file], check=True)
    run_traced(tmp_path / "fortran", file)
    trace = Trace(run_traced.run)
    assert counts(trace) == {"outer": 1, "outer/inner": 3}
    assert opens(trace, file)["outer/inner"] == 3
    inner = [(e["args"]["step"], e["args"]["keys"]) for e in own(trace) if e["name"] == "inner"]
    assert inner == [(0, "model=unet"), (1, "model=unet"), (2, "model=unet,last=1")]
    assert [e["args"].get("value") for e in own(trace) if "kind" in e["args"]] == [None, 0.5]


MANY = """
    import sys, time, tailrace
    for number in range(17):
        with tailrace.region(f"short{number}", "ai_framework"):
            open(sys.argv[1]).close()
    with tailrace.region("Framework.compute", sys.argv[2]):
        time.sleep(0.1)
"""


@pytest.mark.parametrize("category", ["ai_framework", "solver"])
def test_the_report_has_the_longest_regions_and_dlios_word_for_computing(
    category: str, tmp_path: Path, run_traced: TracedCommand
) -> None:
    """Of the category `ai_framework` only `compute` is computing."""
    code = tmp_path / "program.py"
    code.write_text(textwrap.dedent(MANY))
    run_traced(sys.executable, code, code, category)
    table = tailrace.open(run_traced.run).regions.table()
    assert table["unoverlapped_ns"].notna().all() == (category == "ai_framework")
    report = run_cli("report", run_traced.run).stdout
    assert "Regions (the longest 15 of 18)" in report
    assert "Framework.compute" in report
