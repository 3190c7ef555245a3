"""Several workflows in one process, as a notebook runs them: all are in its run, each by a name of its own.

The program is not started by `tailrace run`: trace() attaches to it.
"""

import json
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
    import json, os, sys, threading
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
    found["second"] = workflow("second", 3000, None)
    # It can be read while the program runs on.
    found["declared"] = len(tailrace.open("one").declared_tasks)
    found["third"] = workflow("third", 5000, "two")
    over.set()
    thread.join()
    found["written"] = os.path.getsize("other")
    print(json.dumps(found))
"""


@pytest.mark.parametrize("executor", ["threads", "htex"])
def test_later_workflows_of_a_process_are_in_its_run(tmp_path: Path, executor: str) -> None:
    command = [sys.executable, "-c", dedent(PROGRAM), executor]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    # Nobody has sealed for a thread of Parsl's that still ran when the process ended.
    subprocess.run([*TAILRACE, "seal", tmp_path / "one"], check=True, capture_output=True, timeout=300)
    run = tailrace.open(tmp_path / "one")
    assert {found[name] for name in ("first", "second", "third")} == {str(run.path.resolve())}
    assert found["declared"] == 16
    (warning,) = [line for line in done.stderr.splitlines() if "already traced into" in line]
    assert "another run needs another process" in warning and not (tmp_path / "two").exists()

    assert run.problems == [] and run.losses.empty
    rows = run.read(["path", "dir", "size", "workflow", "task"], dir=["r", "w"])
    paths = rows["path"].astype(object).fillna("")
    for name, workflow, size in (("first", "words", 1000), ("second", "words-2", 3000), ("third", "words-3", 5000)):
        mine = rows[paths.str.startswith(str(tmp_path / name))]
        sums = mine.groupby("dir", observed=True)["size"].sum()
        assert (int(sums["w"]), int(sums["r"])) == (2 * 4 * size, 4 * size), name
        assert set(mine["workflow"]) == {workflow} and mine["task"].notna().all()
    assert dict(run.declared_tasks.groupby("workflow").size()) == {"words": 8, "words-2": 8, "words-3": 8}
    assert int(rows[paths == str(tmp_path / "other")]["size"].sum()) == found["written"]
    left = [path for place in environment.journal_directories(run.path) for path in place.glob("*.tj")]
    assert left == []
