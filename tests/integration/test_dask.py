"""The Dask adapter, on programs of its own (support/dask_program.py): real clusters of processes and of threads."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tailrace
from support.commands import TAILRACE

pytest.importorskip("distributed", reason="the adapter's tests need Dask: pip install 'tailrace[cluster]'")

PROGRAM = Path(__file__).parents[1] / "support" / "dask_program.py"
WRITES = {"write", "writev", "pwrite64", "pwrite", "fwrite", "rename", "renameat2", "renameat"}


def ran(folder, *words, prefix=(), program=PROGRAM, **variables):
    """What the program printed, and its stderr."""
    command = [*prefix, sys.executable, str(program), *words]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, cwd=folder, env={**os.environ, **variables}
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.mark.parametrize("workers", ["processes", "threads"])
def test_every_kind_of_task(tmp_path, read_trace, workers):
    said, stderr = ran(tmp_path, workers, "every")
    assert said["errors"] == ["no use of b.sorted", "no use of b.sorted"]
    assert "tailrace" not in stderr.replace(str(PROGRAM), "")
    trace, run, keys = read_trace(tmp_path / "run"), tailrace.open(tmp_path / "run"), said["keys"]

    def wrote(path, key="tag.try"):
        return trace.tags(trace.of(tmp_path / path, WRITES), "workflow", "stage", "task", key)

    lost = {"1"} if workers == "processes" else set()
    for tries in wrote("a"):
        assert tries[:3] == ("w", "make", keys["make"])
    assert {tries[3] for tries in wrote("a")} <= {"0", *lost}
    assert {tags[1:3] for tags in wrote("a.sorted")} == {("sort", keys["sort"])}
    assert {tags[1:] for tags in wrote("flaky")} >= {("flaky", keys["flaky"], "0"), ("flaky", keys["flaky"], "1")}
    assert {tags[1:3] for tags in wrote("async1")} == {("async", keys["asynchronous"])}
    assert {tags[1:3] for tags in wrote("async2")} == {("async", keys["other"])}
    assert {tags[1:3] for tags in wrote("actor")} == {("Counter.increment", "Counter.increment")}
    blocks = {tags[2] for name in ("block0", "block2") for tags in wrote(name)}
    assert len(blocks) == 2 and all(task.startswith("('array-sum-") for task in blocks)
    own = [event for event in trace.events if event["path"] and "dask-scratch-space" in event["path"]]
    assert trace.tags(own, "task") <= {(None,)}

    outcomes = run.outcomes.set_index("task")["status"].to_dict()
    assert outcomes[keys["fail"]] == "failed" and outcomes[keys["after"]] == "dep_failed"
    assert outcomes[keys["flaky"]] == "retried"
    tries = run.declared_tries[run.declared_tries["task"] == keys["flaky"]].set_index("try")
    assert (tries["status"][0], tries["error"][0]) == ("failed", "ValueError('not yet')")
    deps = {(row.task, row.dep) for row in run.declared_deps.itertuples()}
    assert {(keys["sort"], keys["make"]), (keys["flaky"], keys["sort"]), (keys["after"], keys["fail"])} <= deps
    tasks = run.declared_tasks.set_index("task")
    # Dask's estimate of its clocks' difference is not in the times.
    done = tasks[tasks["status"] == "done"]
    assert ((done["t_launch_ns"] <= done["t_start_ns"]) & (done["t_start_ns"] <= done["t_end_ns"])).all()
    if workers == "processes":
        copied = trace.of(tmp_path / "pooled", {*WRITES, "sendfile", "copy_file_range"})
        assert trace.tags(copied, "stage", "task") == {("copyfile", keys["pooled"])}
        assert {tags[1:] for tags in wrote("died")} == {("die_once", keys["die_once"], str(n)) for n in (0, 1)}
        killed = run.declared_tries[run.declared_tries["task"] == keys["die_once"]].set_index("try")
        assert (killed["status"][0], killed["error"][0]) == ("killed", "its worker was lost")
        # What ran again, since its result was lost, is no race with those that had read the first one.
        assert [
            found.title for found in run.findings() if found.kind in ("race", "same bytes, in order this time")
        ] == []


def test_without_a_line_in_the_program(tmp_path, read_trace):
    """Dask's configuration names the adapter; the workers are traced from their start."""
    variables = {"DASK_DISTRIBUTED__CLIENT__PRELOAD": "tailrace.dask"}
    prefix = [*TAILRACE, "run", "-q", "-o", str(tmp_path / "run"), "--"]
    said, _ = ran(tmp_path, "processes", "plain", prefix=prefix, **variables)
    trace = read_trace(tmp_path / "run")
    assert said["result"] == "a"
    tags = trace.tags(trace.of(tmp_path / "a", WRITES), "workflow", "stage", "task", "tag.try")
    assert tags == {("dask_program", "make", said["keys"]["make"], "0")}


UNKNOWN = """
import sys
import distributed.worker

def _run_task(graph_node, key):
    ...

if __name__ == "__main__":
    distributed.worker._run_task.__wrapped__ = _run_task  # what inspect.signature sees
    sys.argv[0] = {path!r}
    sys.path.insert(0, {folder!r})
    import dask_program
    dask_program.main()
"""


def test_a_version_that_is_not_known(tmp_path):
    program = tmp_path / "unknown.py"
    program.write_text(UNKNOWN.format(path=str(PROGRAM), folder=str(PROGRAM.parent)))
    said, stderr = ran(tmp_path, "threads", "every", program=program)
    (line,) = [line for line in stderr.splitlines() if line.startswith("tailrace")]
    assert "are not traced: Dask distributed" in line and "in a way that this tailrace doesn't know" in line
    assert said["errors"] == ["no use of b.sorted", "no use of b.sorted"]
    assert not (tmp_path / "run").exists()
