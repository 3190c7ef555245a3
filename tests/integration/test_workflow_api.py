"""tailrace.integrations.Workflow: what an adapter calls, in a process that is traced, one that attaches, and one that
is not traced; the smallest manager that there is."""

import subprocess
import sys
import textwrap

import pytest

import tailrace
from tailrace.analyzer.insights.critical import OWN_PARTS
from tailrace.analyzer.model import dataflow, declared_vs_observed
from tailrace.integrations import Workflow

WRITES = {"write", "writev"}
STRANGE = 'b "c":/é, d\n'
MANAGER = f"""
import os, subprocess, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tailrace.integrations import Workflow, running

STRANGE = {STRANGE!r}
workflow = Workflow.begin(
    "smallest", "1", "work flow", run_dir=os.environ.get("INTO"), attach="INTO" in os.environ,
    config={{"workers": 2}}, own_directories=["state"],
)
Path("state").mkdir(exist_ok=True)
Path("state/queue").write_text("a b")
workflow.submitted("a", "make", outputs=["a.txt"], requested={{"cores": 2, "memory_bytes": 1024}})
workflow.submitted(STRANGE, "use it", inputs=["a.txt"], outputs=["b.txt"], deps=["a"])
workflow.submitted("c", "count", deps=[STRANGE])

def make():
    with workflow.task("a", "make"):
        Path("a.txt").write_text("one")

with ThreadPoolExecutor(1) as pool:
    workflow.started("a")
    pool.submit(make).result()
workflow.ended("a")
for attempt in range(2):
    workflow.started(STRANGE, attempt, t_ns=attempt)
    with running(workflow.tags(STRANGE, "use it", attempt)):
        code = subprocess.run(["sh", "-c", f"read word < a.txt; echo $word > b.txt; exit {{1 - attempt}}"]).returncode
    if code:
        workflow.retried(STRANGE, attempt, "exit 1", t_launch_ns=attempt)
workflow.ended(STRANGE)
workflow.started("c")
environment = workflow.environment("c", "count", base={{"PATH": os.environ["PATH"], "KEPT": "1"}})
subprocess.run(["sh", "-c", "echo $KEPT > c.txt"], env=environment)
subprocess.run(["env", "-i", "sh", "-c", workflow.shell_exports("c", "count", 1) + "sh -c 'echo 2 >> c.txt'"])
workflow.ended("c", "failed", error="no such word")
workflow.ended("c", "lost its way")
workflow.submitted("d", "never", inputs=[None])
workflow.close()
print(workflow.active)
"""


@pytest.fixture
def manager(tmp_path):
    program = tmp_path / "manager.py"
    program.write_text(textwrap.dedent(MANAGER))
    return [sys.executable, str(program)]


def results(folder):
    return {name: (folder / name).read_text() for name in ("a.txt", "b.txt", "c.txt", "state/queue")}


@pytest.mark.parametrize("way", ["run", "attach"])
def test_an_adapter_tells_tags_and_declarations(way, tmp_path, manager, cli, read_trace, declared, monkeypatch):
    run = tmp_path / "run"
    if way == "run":
        done = cli("run", "-o", run, "--", *manager, cwd=tmp_path)
    else:
        monkeypatch.setenv("INTO", str(run))
        done = subprocess.run(manager, cwd=tmp_path, text=True, capture_output=True, check=False)
    assert done.returncode == 0 and done.stdout == "True\n", done.stderr
    # The first fault is told; the workflow went on.
    assert done.stderr.count("can't ") == 1 and "lost its way" in done.stderr
    trace, strange = read_trace(run), 'b "c":/é, d\\n'
    keys = ("workflow", "stage", "task", "tag.try")
    assert {name: trace.tags(trace.of(tmp_path / name, WRITES), *keys) for name in results(tmp_path)} == {
        "a.txt": {("work flow", "make", "a", "0")},
        "b.txt": {("work flow", "use it", strange, str(attempt)) for attempt in range(2)},
        "c.txt": {("work flow", "count", "c", str(attempt)) for attempt in range(2)},
        "state/queue": {(None, None, None, None)},
    }
    lines = declared(run)
    tasks = {line["task"]: line for line in lines if line["type"] == "task"}
    a, b = str(tmp_path / "a.txt"), str(tmp_path / "b.txt")
    assert [tasks[task]["deps"] for task in ("a", strange, "c")] == [
        [], [{"task": "a", "via": "file", "path": a}], [{"task": strange, "via": "order"}],
    ]  # fmt: skip
    assert [file["path"] for file in tasks[strange]["outputs"]] == [b]
    assert tasks["a"]["cores"] == 2 and tasks["a"]["annotations"]["requested"] == {"cores": 2, "memory_bytes": 1024}
    ends = {line["task"]: (line["status"], line["tries"]) for line in lines if line["type"] == "end"}
    assert ends == {"a": ("done", 1), strange: ("done", 2), "c": ("failed", 1)}
    opened = tailrace.open(run)
    assert opened.declared_workflows["manager"].tolist() == ["smallest"]
    pairs = declared_vs_observed.compare_declared(opened).set_index(["producer", "consumer"])["status"].to_dict()
    assert pairs == {("a", strange): "observed", (strange, "c"): "order only"}
    assert dataflow.manager_directories(opened) == [str(tmp_path / "state")]


def test_without_tracing_a_workflow_does_nothing(tmp_path, manager):
    done = subprocess.run(manager, cwd=tmp_path, text=True, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == ("False\n", "")
    assert results(tmp_path)["c.txt"] == "1\n2\n"
    assert not (tmp_path / "tailrace-runs").exists()


def test_a_directory_that_can_not_be_used_is_one_warning(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    workflow = Workflow.begin("smallest", "1", "w", run_dir=tmp_path / "file" / "run")
    assert not workflow.active and len(caplog.records) == 1 and "not traced" in caplog.text
    with workflow.task("a", "s"):
        assert workflow.environment("a", "s", base={"A": "1"}) == {"A": "1"}
    assert workflow.shell_exports("a", "s") == "" and workflow.tags("a", "s") == ""
    workflow.submitted("a", "s")
    workflow.ended("a", "done")
    workflow.close()
    assert len(caplog.records) == 1


FORKS = """
import os, threading, sys
from tailrace.integrations import Workflow

workflow = Workflow.begin("smallest", "1", "w", run_dir=sys.argv[1])
stop = threading.Event()

def submit(first):
    number = first
    while not stop.is_set():
        workflow.submitted(f"{first}:{number}", "s", inputs=["x"] * 50)
        number += 1

threads = [threading.Thread(target=submit, args=(first,)) for first in range(3)]
for thread in threads:
    thread.start()
for number in range(60):
    child = os.fork()
    if not child:
        if number % 2:
            workflow.close()
        workflow.started(f"child {number}")
        workflow.ended(f"child {number}", "done")
        workflow.close()
        os._exit(0)
    os.waitpid(child, 0)
stop.set()
for thread in threads:
    thread.join()
workflow.close()
"""


def test_a_forked_child_waits_for_no_thread_of_its_parent(tmp_path, declared):
    words = [sys.executable, "-c", FORKS, str(tmp_path / "run")]
    done = subprocess.run(words, text=True, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    ends = [line for line in declared(tmp_path / "run") if line["type"] == "end"]
    assert sorted((line["task"], line["tries"]) for line in ends) == sorted((f"child {n}", 1) for n in range(60))


NESTED = """
import subprocess, sys
from tailrace.integrations import Workflow

outer = Workflow.begin("outer", "1", "flow", run_dir=sys.argv[1], attach=True)
inner = Workflow.begin("inner", "2", "flow", run_dir=sys.argv[1])
with outer.task("a", "make", 3):
    with inner.task("b", "part"):
        subprocess.run(["sh", "-c", "echo 1 > inside"], check=True)
    subprocess.run(["sh", "-c", "echo 1 > around"], check=True)
"""


def test_two_managers_in_one_process_keep_their_tasks_apart(tmp_path, read_trace, declared):
    """Also where they begin at once, with one name: many number their tasks anew."""
    words = [sys.executable, "-c", NESTED, str(tmp_path / "run")]
    done = subprocess.run(words, cwd=tmp_path, text=True, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    trace, keys = read_trace(tmp_path / "run"), ("workflow", "stage", "task", "tag.try")
    assert trace.tags(trace.of(tmp_path / "inside", WRITES), *keys) == {("flow-2", "part", "b", "0")}
    assert trace.tags(trace.of(tmp_path / "around", WRITES), *keys) == {("flow", "make", "a", "3")}
    begun = {(line["workflow"], line["manager"]) for line in declared(tmp_path / "run")}
    assert begun == {("flow", "outer"), ("flow-2", "inner")}


COMPUTING = """
import time
from tailrace.integrations import Workflow

workflow = Workflow.begin("smallest", "1", "flow")
workflow.submitted("a", "compute")
workflow.submitted("b", "use", deps=["a"])
times = []
for name, stage in (("a", "compute"), ("b", "use")):
    workflow.started(name)
    with workflow.task(name, stage):
        times.append(time.time_ns())
        sum(range(3_000_000))
        open(name, "a").close()
        sum(range(3_000_000))
        times.append(time.time_ns())
    workflow.ended(name)
workflow.close()
open("times", "w").write(" ".join(map(str, times)))
"""


def test_what_a_task_computes_around_its_calls_is_its_own_time(tmp_path, cli):
    """As of Parsl's, Luigi's, Ray's and executorlib's tasks: neither queue, nor the start-up of the run."""
    (tmp_path / "program.py").write_text(COMPUTING)
    done = cli("run", "-o", tmp_path / "run", "--", sys.executable, "program.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    begun, ended, *second = map(int, (tmp_path / "times").read_text().split())
    run = tailrace.open(tmp_path / "run")
    waits = run.waits.set_index("task")
    # On a busy machine they wait for a processor, too.
    own = waits[["compute_ns", "io_ns", "wait_ns"]].sum(axis=1)
    assert own["a"] >= ended - begun and own["b"] >= second[1] - second[0]
    assert (waits["compute_ns"] > waits["wait_ns"]).loc[["a", "b"]].all()
    submitted = run.declared_tasks.set_index("task").loc["a", "t_submit_ns"]
    assert waits.loc["a", "queue_ns"] <= begun - submitted
    critical = run.insights().critical
    assert sum(critical.parts[name] for name in OWN_PARTS) >= ended - begun + second[1] - second[0]
    assert critical.tasks["end_ns"].max() >= second[1]
