"""tailrace.context: tags that a Python program sets for its own threads, and that do nothing when it isn't traced."""

import json
import subprocess
import sys
import textwrap

import pytest

WRITES = {"write", "fwrite", "writev"}


@pytest.fixture
def run_traced(tmp_path, cli, read_trace):
    """Runs Python code traced, in tmp_path; returns its trace."""

    def run(code):
        program = tmp_path / "program.py"
        program.write_text("from tailrace.context import scope\n" + textwrap.dedent(code))
        done = cli("run", "-o", tmp_path / "run", "--tag", "workflow=w", "--", sys.executable, program, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return read_trace(tmp_path / "run")

    return run


def test_a_scope_is_for_its_block(tmp_path, run_traced):
    trace = run_traced("""
        open("before", "w").write("x")
        with scope(stage="a", task="1"):
            open("inside", "w").write("x")
            with scope({"try": 3}, stage="b"):
                open("nested", "w").write("x")
                with scope(task="2"):
                    open("other", "w").write("x")
            open("again", "w").write("x")
        open("after", "w").write("x")
    """)
    keys = ("workflow", "stage", "task", "tag.try")
    assert {name: trace.tags(trace.of(tmp_path / name, WRITES), *keys) for name in
            ("before", "inside", "nested", "other", "again", "after")} == {
        "before": {("w", None, None, None)},
        "inside": {("w", "a", "1", None)},
        "nested": {("w", "b", "1", "3")},
        "other": {("w", "b", "2", None)},
        "again": {("w", "a", "1", None)},
        "after": {("w", None, None, None)},
    }  # fmt: skip


def test_threads_side_by_side_stay_apart_and_hand_their_tags_on(tmp_path, run_traced):
    trace = run_traced("""
        import subprocess
        import threading

        together = threading.Barrier(8)

        def work(number):
            with scope(stage="s", task=number):
                together.wait()
                open(f"thread{number}", "w").write("x")
                subprocess.run(["sh", "-c", f"echo x > child{number}"], check=True)
                inner = threading.Thread(target=lambda: open(f"inner{number}", "w").write("x"))
                inner.start()
                inner.join()
                together.wait()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    """)
    for number in range(8):
        for name in ("thread", "child", "inner"):
            assert trace.tags(trace.of(tmp_path / f"{name}{number}", WRITES), "task") == {(str(number),)}, name


def test_a_task_begins_and_ends_with_its_scope_whatever_calls_it_makes(tmp_path, run_traced):
    trace = run_traced("""
        import time

        with scope(stage="s", task="computes"):
            begun = time.time_ns()
            sum(range(1_000_000))
            open("own", "w").write("x")
            sum(range(1_000_000))
            ended = time.time_ns()
        with scope(stage="s", task="makes no call"):
            pass
        open("times", "w").write(f"{begun} {ended}")
    """)
    begun, ended = map(int, (tmp_path / "times").read_text().split())
    times = {
        (event["args"]["task"], event["name"]): int(event["ts"]) * 1000 + int(event["args"]["ns"])
        for event in trace.events
        if event["name"] in ("enter", "leave")
    }
    assert times["computes", "enter"] <= begun and ended <= times["computes", "leave"]
    assert times["makes no call", "enter"] <= times["makes no call", "leave"]
    assert len(times) == 4


def test_a_scope_that_is_entered_again_began_once(tmp_path, run_traced):
    """As the steps of a coroutine, and threads under the tags of a stage."""
    trace = run_traced("""
        for step in range(3):
            with scope(stage="s"):
                open("own", "a").write("x")
    """)
    assert [event["args"]["stage"] for event in trace.events if event["name"] in ("enter", "leave")] == ["s"]


def test_ending_a_scope_without_a_task_keeps_others_of_the_same_tags(tmp_path, run_traced):
    trace = run_traced("""
        import threading

        first_left = threading.Event()

        def late():
            with scope(stage="s"):
                ready.set()
                first_left.wait()
                open("late", "w").write("x")

        ready = threading.Event()
        thread = threading.Thread(target=late)
        thread.start()
        with scope(stage="s"):
            ready.wait()
        first_left.set()
        thread.join()
    """)
    assert trace.tags(trace.of(tmp_path / "late", WRITES), "stage") == {("s",)}


def test_a_thread_after_its_task_has_no_task_tag(tmp_path, run_traced):
    trace = run_traced("""
        import threading

        over = threading.Event()

        def work():
            open("during", "w").write("x")
            during.set()
            over.wait()
            open("afterwards", "w").write("x")

        during = threading.Event()
        with scope(stage="s", task="1"):
            thread = threading.Thread(target=work)
            thread.start()
            during.wait()
        over.set()
        thread.join()
    """)
    assert trace.tags(trace.of(tmp_path / "during", WRITES), "workflow", "task") == {("w", "1")}
    assert trace.tags(trace.of(tmp_path / "afterwards", WRITES), "workflow", "task") == {("w", None)}


def test_short_tasks_share_blocks_and_flush_writes_what_ended_threads_left(tmp_path, run_traced):
    trace = run_traced("""
        import glob, gzip, os, threading, time
        from tailrace import context

        def in_run(of_file):
            return sum(of_file(path) for path in glob.glob("run/trace/*.gz"))

        def blocks(path):
            return open(path, "rb").read().count(b'"comp":')

        def writes(path):
            try:
                return gzip.open(path).read().count(b'"name":"write"')
            except (EOFError, gzip.BadGzipFile):  # its last block is being written
                return 0

        def task(number):
            with scope(stage="s", task=str(number)):
                os.write(descriptor, b"x")

        descriptor = os.open("short", os.O_WRONLY | os.O_CREAT)
        threads = [threading.Thread(target=task, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for number in range(3, 300):
            task(number)
        made = in_run(blocks)
        # join() returns a little before the thread has ended.
        context.flush()
        end = time.monotonic() + 120
        while (written := in_run(writes)) < 300 and time.monotonic() < end:
            time.sleep(0.05)
            context.flush()
        open("counts", "w").write(f"{made} {written}")
    """)
    made, written = map(int, (tmp_path / "counts").read_text().split())
    assert made < 100 and written >= 300
    assert trace.tags(trace.of(tmp_path / "short", WRITES), "task") == {(str(number),) for number in range(300)}


def test_a_wrong_tag_is_refused_traced_or_not():
    code = textwrap.dedent("""
        from tailrace import context
        from tailrace.errors import TagError

        assert not context.active() and context.run_directory() is None
        with context.scope(stage="s"):
            context.flush()
        try:
            with context.scope(Stage="s"):
                raise SystemExit("entered")
        except TagError as error:
            assert "Stage" in str(error)
    """)
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_scope_is_a_decorator_and_lets_errors_through():
    from tailrace.context import scope

    @scope(stage="s")
    def fail():
        raise KeyError("mine")

    for _ in range(2):
        with pytest.raises(KeyError, match="mine"):
            fail()


def test_importing_it_imports_little():
    code = "import sys, tailrace.context; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"dask", "pandas", "numpy", "pyarrow", "networkx", "click", "parsl"} & set(done.stdout.split())


def ends_of(trace):
    """The `enter` and `leave` events of tasks, and their times in ns: (task, name) -> (event, ns)."""
    found = {}
    for event in trace.events:
        if event["name"] in ("enter", "leave") and event["args"].get("task"):
            found[event["args"]["task"], event["name"]] = (event, event["ts"] * 1000 + event["args"]["ns"])
    return found


def test_a_task_in_a_worker_has_its_processor_time(tmp_path, run_traced):
    """By the program's own clocks right inside and outside of the scope."""
    trace = run_traced("""
        import json, time

        def burn(ns):
            end = time.thread_time_ns() + ns
            while time.thread_time_ns() < end:
                pass

        def clocks():
            return time.time_ns(), time.thread_time_ns()

        said = {}
        for task, burned, slept in (("computes", 50_000_000, 0), ("sleeps", 0, 0.2), ("both", 30_000_000, 0.1)):
            around = [clocks()]
            with scope(stage="s", task=task):
                begin = clocks()
                burn(burned)
                time.sleep(slept)
                end = clocks()
            around.append(clocks())
            said[task] = [around[0], begin, end, around[1]]
        json.dump(said, open("said", "w"))
    """)
    said = json.loads((tmp_path / "said").read_text())
    ends = ends_of(trace)
    assert set(ends) == {(task, name) for task in said for name in ("enter", "leave")}
    clock_ns = 50_000  # the trace's times follow the monotonic clock
    for task, (before, begin, end, after) in said.items():
        (entered, t0), (left, t1) = ends[task, "enter"], ends[task, "leave"]
        run, ready = (left["args"][name] - entered["args"][name] for name in ("run_ns", "ready_ns"))
        assert before[0] - clock_ns <= t0 <= begin[0] + clock_ns and end[0] - clock_ns <= t1 <= after[0] + clock_ns
        assert end[1] - begin[1] <= run <= after[1] - before[1]
        assert ready >= 0 and run + ready <= t1 - t0
        assert (left["cat"], left["args"]["stage"], left["args"]["workflow"]) == ("PROCESS", "s", "w")


def test_a_scope_that_is_no_tasks_asks_the_kernel_for_nothing(run_traced):
    trace = run_traced("""
        with scope(stage="a"):
            pass
    """)
    (args,) = (event["args"] for event in trace.events if event["name"] == "enter")
    assert args["stage"] == "a" and not {"run_ns", "ready_ns"} & set(args)
