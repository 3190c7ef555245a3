"""Parsl's WorkQueueExecutor and TaskVineExecutor with the real Work Queue and TaskVine: the same workflow in threads,
tasks that fail, a worker that is killed, workers that Parsl did not start, and what is theirs and not the workflow's.

support/parsl_task_commands.py is the program.
"""

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

import tailrace
from support import work_queue
from support.commands import run_cli
from support.harm import clean_environment
from support.run_files import Trace

pytest.importorskip("parsl", reason="the plugin's tests need Parsl: pip install 'tailrace[parsl]'")

PROGRAM = Path(__file__).parents[1] / "support" / "parsl_task_commands.py"
WORKERS = {"work_queue": "work_queue_worker", "taskvine": "vine_worker"}
WHY_NOT = {"work_queue": work_queue.why_no_work_queue, "taskvine": work_queue.why_no_taskvine}
OWN = re.compile(
    r"/(function|argument|map|result|exec_parsl_function\.py|function_data|vine-logs|debug_log|transaction_log)(/|$)"
)
WAIT_S = 300


@dataclass
class Found:
    folder: Path
    said: str

    @property
    def run(self):
        return tailrace.open(self.folder / "run")

    @property
    def trace(self):
        return Trace(self.folder / "run")

    def tags_of(self, name):
        trace = self.trace
        return trace.tags(trace.of(self.folder / name, {"write"}), "stage", "task", "tag.try")

    def task(self, name):
        """The number of the only task of an app."""
        rows = self.run.declared_tasks
        (task,) = rows[rows["name"] == name]["task"]
        return task


def execute(kind, folder):
    paths = {"PYTHONPATH": work_queue.python_path(folder)} if kind == "work_queue" else {}
    if kind == "taskvine":
        paths = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    environment = clean_environment({"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **paths})
    workers, quiet = [], subprocess.DEVNULL
    with open(folder / "said", "w+") as said:  # noqa: PTH123
        how = {"cwd": folder, "env": environment, "stdout": said, "stderr": said}
        program = subprocess.Popen([sys.executable, str(PROGRAM), kind], **how)
        try:
            end = time.monotonic() + WAIT_S
            while kind in WORKERS and not (folder / "port").exists() and program.poll() is None:
                assert time.monotonic() < end
                time.sleep(0.05)
            if kind in WORKERS and program.poll() is None:
                words = [WORKERS[kind], "-t", "60", "--cores", "1", "127.0.0.1", (folder / "port").read_text()]
                workers = [
                    subprocess.Popen(
                        words, cwd=folder, env=environment, start_new_session=True, stdout=quiet, stderr=quiet
                    )
                    for _ in range(2)
                ]
            code = program.wait(WAIT_S)
        finally:
            for process in (program, *workers):
                process.kill()
                process.wait()
    assert code == 0, (folder / "said").read_text()
    return Found(folder, (folder / "said").read_text())


@pytest.fixture(scope="module")
def in_threads(tmp_path_factory):
    return execute("threads", tmp_path_factory.mktemp("threads"))


@pytest.fixture(scope="module", params=["work_queue", "taskvine"])
def found(request, tmp_path_factory):
    if (reason := WHY_NOT[request.param]()) is not None:
        pytest.skip(reason)
    return execute(request.param, tmp_path_factory.mktemp(request.param))


def compared(run):
    """Stages, not tasks: who is submitted first depends on the executor."""
    table = run.insights().declared.table
    rows = table[["producer_stage", "consumer_stage", "path", "status", "through", "bytes", "files"]].copy()
    rows["path"] = rows["path"].map(os.path.basename)
    own = ~table[["producer_stage", "consumer_stage"]].isin(["lose", "as text", "served"]).any(axis=1)
    return sorted(map(tuple, rows[own].itertuples(index=False)))


def test_the_dataflow_is_that_of_the_same_tasks_in_threads(found, in_threads):
    assert compared(found.run) == compared(in_threads.run)
    assert ("align", "double", "a", "observed", "", 10000, 1) in compared(found.run)
    for name in ("a", "aa", "all", "b", "bb", "a.out", "b.out", "mark"):
        assert (found.folder / name).read_bytes() == (in_threads.folder / name).read_bytes(), name
    assert len(found.run.insights().declared.untouched) == 0


def test_tasks_tries_and_failures_are_those_of_parsl(found):
    files = found.run.declared_files
    (made,) = files[(files["path"] == str(found.folder / "b")) & (files["direction"] == "w")]["task"]
    assert found.tags_of("b") == {("align", made, "0")}
    once, always = found.task("fail_once"), found.task("fail")
    assert found.tags_of("mark") == {("fail_once", once, "0"), ("fail_once", once, "1")}
    tasks = found.run.declared_tasks.set_index("task")
    assert tasks["status"].to_dict() == {**dict.fromkeys(tasks.index, "done"), always: "failed"}
    assert tasks["error"][always] == "RuntimeError: always"
    doubled = tasks[tasks["name"] == "double"]
    assert [facts["requested"] for facts in doubled["annotations"]] == [
        {"cores": 1, "memory_bytes": 200 << 20, "disk_bytes": 100 << 20}
    ] * 2


def test_what_a_lost_workers_task_did_is_its_own_both_times(found):
    assert "lose 2" in found.said
    task = found.task("lose")
    for name in ("lost", "out-1", "out-2", "out-after"):
        assert found.tags_of(name) == {("lose", task, "0")}, name
    trace = found.trace
    assert len({event["pid"] for event in trace.of(found.folder / "lost", {"write"})}) == 2
    assert sum(event["args"]["size"] for event in trace.of(found.folder / "lost", {"write"})) == 2
    assert len(found.run.declared_tries.query("task == @task")) == 1, "Parsl saw one"


def test_functions_that_are_sent_as_text_have_their_tasks(found):
    if "sent_as_text" not in found.said:
        pytest.skip("TaskVineExecutor has no source=True")
    assert found.tags_of("text") == {("as text", found.task("sent_as_text"), "0")}


def test_functions_that_a_library_runs_have_their_tasks(found):
    if "call_in_library" not in found.said:
        pytest.skip("serverless functions: TaskVine with conda_pack (pip install conda-pack)")
    assert found.tags_of("served") == {("served", found.task("call_in_library"), "0")}


def test_what_carries_tasks_and_files_is_not_the_workflows_data(found):
    tagged = [event for event in found.trace.events if event["args"].get("task") and event["path"]]
    assert not [event["path"] for event in tagged if OWN.search(event["path"])]
    assert any(event["path"].endswith("/scratch") for event in tagged)
    report = run_cli("report", found.folder / "run", env={**os.environ, "COLUMNS": "200"})
    assert report.returncode == 0, report.stderr
    files = report.stdout.partition("Files by bytes moved")[2]
    assert "/worker-" not in files and not OWN.search(files), files
    assert not re.search(r"\brace\b|records? lost|not observed|never wrote|never read it", report.stdout), report.stdout
