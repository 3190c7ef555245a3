"""Several workflows in one process, as a notebook runs them: each has the run that it asked for, whole.

The program is not started by `tailrace run`: trace() attaches to it, then goes on in another run.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

import tailrace
from support.commands import TAILRACE
from tailrace import _native
from tailrace.integrations import environment

pytest.importorskip("parsl", reason="the plugin's tests need Parsl: pip install 'tailrace[parsl]'")
pytestmark = pytest.mark.skipif(not json.loads(_native.build_info())["gotcha"], reason="built without GOTCHA")

PROGRAM = """
    import json, os, sys, threading, time
    # Parsl starts its interchange by its name.
    os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    import parsl
    from parsl import bash_app, python_app
    from parsl.config import Config
    from parsl.executors import HighThroughputExecutor, ThreadPoolExecutor
    from parsl.providers import LocalProvider
    import tailrace
    from tailrace import context
    from tailrace.parsl import trace

    @python_app
    def make(path, size):
        with open(path, "w") as file:
            file.write("x" * size)
        return path

    @bash_app
    def copy(source, target):
        return f"cat {source} > {target}"

    def config():
        if sys.argv[1] == "threads":
            executor = ThreadPoolExecutor(max_threads=3)
        else:
            executor = HighThroughputExecutor(
                max_workers_per_node=1, address="127.0.0.1", encrypted=False,
                provider=LocalProvider(init_blocks=1, max_blocks=1),
            )
        return Config(executors=[executor], run_dir=os.path.join(os.getcwd(), "runinfo"))

    def workflow(name, size, run_dir):
        parsl.load(trace(config(), run_dir=run_dir, workflow="words"))
        made = [make(os.path.abspath(f"{name}{i}"), size) for i in range(4)]
        [copy(one.result(), one.result() + ".copy").result() for one in made]
        parsl.dfk().cleanup()
        parsl.clear()
        return context.run_directory()

    # A thread that is there all the time, as those of a notebook's kernel are.
    over = threading.Event()
    def other():
        with open("other", "w", buffering=1) as file:
            while not over.wait(0.001):
                for _ in range(20):
                    file.write("0123456789\\n")
    thread = threading.Thread(target=other)

    found = {"first": workflow("first", 1000, "one")}
    thread.start()
    found["second"] = workflow("second", 3000, "two")
    # Both can be read while the program runs on.
    found["events"] = [len(tailrace.open(run).declared_tasks) for run in ("one", "two")]
    found["third"] = workflow("third", 5000, None)
    # The other thread moves to another run when its segment is full, after 4096 calls.
    enough = os.path.getsize("other") + 10000 * 11
    while os.path.getsize("other") < enough:
        time.sleep(0.01)
    parsl.load(trace(config(), run_dir="four", workflow="words"))
    trace(config(), run_dir="five")  # while another workflow runs
    parsl.dfk().cleanup()
    over.set()
    thread.join()
    found["written"] = os.path.getsize("other")
    print(json.dumps(found))
"""


@pytest.mark.parametrize("executor", ["threads", "htex"])
def test_each_workflow_of_a_process_has_the_run_that_it_asks_for(tmp_path: Path, executor: str) -> None:
    command = [sys.executable, "-c", dedent(PROGRAM), executor]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    # Nobody has sealed for a thread of Parsl's that still ran when the process ended.
    for name in ("one", "two", "four"):
        subprocess.run([*TAILRACE, "seal", tmp_path / name], check=True, capture_output=True, timeout=300)
    one, two, four = (tailrace.open(tmp_path / name) for name in ("one", "two", "four"))
    assert [found["first"], found["second"]] == [str(run.path.resolve()) for run in (one, two)]
    assert found["third"] == found["second"] and found["events"] == [8, 8]
    assert "already traced into" in done.stderr and not (tmp_path / "five").exists()

    written = {}
    for run, names in ((one, ["first"]), (two, ["second", "third"])):
        assert run.problems == [] and run.losses.empty
        rows = run.read(["path", "dir", "size", "workflow", "task"], dir=["r", "w"])
        assert set(rows["workflow"].dropna()) == ({"words"} if len(names) == 1 else {"words", "words-2"})
        for name, size in (("first", 1000), ("second", 3000), ("third", 5000)):
            mine = rows[rows["path"].astype(object).fillna("").str.startswith(str(tmp_path / name))]
            sums = mine.groupby("dir", observed=True)["size"].sum()
            moved = [int(sums.get(way, 0)) for way in ("w", "r")]
            assert moved == ([2 * 4 * size, 4 * size] if name in names else [0, 0]), (run, name)
            assert mine["task"].notna().all()
        assert dict(run.declared_tasks.groupby("workflow").size()) == dict.fromkeys(
            rows["workflow"].dropna().unique(), 8
        )
        everything = rows[rows["path"].astype(object) == str(tmp_path / "other")]
        written[run.path.name] = int(everything["size"].sum())
    # The other thread's bytes are all somewhere: it followed from run to run, each call once.
    rest = four.read(["path", "size"], dir="w")
    written["four"] = int(rest[rest["path"].astype(object) == str(tmp_path / "other")]["size"].sum())
    assert sum(written.values()) == found["written"] and written["two"] > 0, written

    pids = {name: set(run.processes["pid"]) for name, run in (("one", one), ("two", two))}
    (program,) = pids["one"] & pids["two"]
    ends = [run.processes.set_index("pid").loc[program] for run in (one, two)]
    assert ends[0]["start"] < ends[1]["start"] and all(0.99 < end["share"] <= 1 for end in ends), ends
    for run in (one, two, four):
        left = [path for place in environment.journal_directories(run.path) for path in place.glob("*.tj")]
        assert left == []


def test_a_thread_that_begins_after_the_change_is_in_the_new_run(tmp_path: Path) -> None:
    # It takes over what is left of a thread that was there at the change, and recorded in the run before.
    program = """
        import os, sys, threading
        from tailrace import context

        def read(name):
            with open(name, "rb") as file:
                file.read()

        def stay():
            read("before")
            there.set()
            go.wait()

        there, go = threading.Event(), threading.Event()
        stays = threading.Thread(target=stay)
        stays.start()
        there.wait()
        print(context.change_run(sys.argv[1]))
        go.set()
        stays.join()
        while len(os.listdir("/proc/self/task")) > 1:  # join() returns before the thread has ended
            pass
        later = threading.Thread(target=read, args=("after",))
        later.start()
        later.join()
    """
    runs = [tmp_path / "one", tmp_path / "two"]
    for run in runs:
        (run / "trace").mkdir(parents=True)
    for name in ("before", "after"):
        (tmp_path / name).write_text(name)
    env = environment.task_environment(runs[0], "", {**os.environ, "TAILRACE_JOURNAL_DIR": str(tmp_path)})
    command = [sys.executable, "-c", dedent(program), str(runs[1])]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.stdout == "0\n", done.stderr
    for run, name in zip(runs, ("before", "after"), strict=True):
        opened = tailrace.open(run)
        rows = opened.read(["path", "size"], dir="r")
        sizes = rows.groupby(rows["path"].astype(str))["size"].sum()
        read = {one: int(sizes.get(str(tmp_path / one), 0)) for one in ("before", "after")}
        assert read == {"before": 0, "after": 0} | {name: len(name)}, run
        assert opened.losses["file"].tolist() == ["run.json"], "which nobody wrote"


def test_a_process_that_was_started_traced_stays_in_its_run(tmp_path: Path) -> None:
    program = "from tailrace.integrations import environment; environment.change_run('/nowhere')"
    command = [*TAILRACE, "run", "-o", str(tmp_path / "run"), "--", sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "traced by who started it" in done.stderr


def test_a_run_that_can_not_be_made_leaves_the_process_where_it_is(tmp_path: Path) -> None:
    program = """
        import sys
        from tailrace import context
        from tailrace.errors import CoreError
        from tailrace.integrations import environment, rundir
        environment.attach(rundir.open_run_directory(sys.argv[1], ["attached"]))
        for name in ("relative", "/" + "x" * 3000):
            try:
                environment.change_run(name)
            except CoreError as error:
                print(str(error).rpartition(": ")[2])
        print(context.run_directory() == sys.argv[1])
        open("made", "w").write("here")
    """
    command = [sys.executable, "-c", dedent(program), str(tmp_path / "run")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["Invalid argument", "File name too long", "True"], done.stderr
