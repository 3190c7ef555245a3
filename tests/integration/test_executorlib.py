"""executorlib's adapter beyond the conformance suite: map, workers that stay, lost workers, its cache."""

from pathlib import Path

import pytest

from support.managers import only_run, run_python

pytest.importorskip("executorlib", reason="needs executorlib: pip install executorlib")
pytest.importorskip("h5py", reason="executorlib's cache needs h5py")

PROGRAM = """
import os
import sys
from executorlib import SingleNodeExecutor

def cached(number):
    with open(f"cached-{number}", "w") as file:
        file.write("x" * 10)
    return number

def add(number, given, keyword=0):
    with open(f"add-{number}", "w") as file:
        file.write("x" * 10)
    return number + given + keyword

def given():
    return {"given": 100}

def lost(name):
    import os
    import signal
    if not os.path.exists(name):
        open(name, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return "again"

def total(parts):
    return sum(parts)

if __name__ == "__main__":
    if sys.argv[1:] == ["traced"]:
        import tailrace.executorlib
        tailrace.executorlib.trace()
        tailrace.executorlib.trace()
    common = {"hostname_localhost": True, "max_workers": 1}
    with SingleNodeExecutor(cache_directory="executorlib_cache", **common) as executor:
        print(executor.submit(cached, 1).result())
    if sys.argv[1:]:
        with SingleNodeExecutor(block_allocation=True, init_function=given, restart_limit=1, **common) as executor:
            parts = [executor.submit(add, number, keyword=number) for number in (1, 2)]
            print(executor.submit(total, parts).result(), list(executor.map(cached, [5])))
            print(executor.submit(lost, "mark").result())
"""


def test_what_executors_do(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(PROGRAM)

    assert run_python(tmp_path, "flow.py").stdout == "1\n"
    (tmp_path / "cached-1").unlink()
    done = run_python(tmp_path, "flow.py", "traced")
    assert done.stdout == "1\n206 [5]\nagain\n" and "tailrace: can't" not in done.stderr, done.stderr
    # What is sent is not what the cache knows a call by.
    assert not (tmp_path / "cached-1").exists()
    trace, run = only_run(tmp_path)

    for name, task in (("add-1", "add:1"), ("add-2", "add:2"), ("cached-5", "cached:2")):
        written = [event for event in trace.of(tmp_path / name) if event["args"].get("size")]
        assert trace.tags(written, "workflow", "stage", "task") == {("flow", task.partition(":")[0], task)}
    tasks = run.declared_tasks.set_index("task")
    assert tasks["status"].to_dict() == {
        "cached:1": "memoized",
        "add:1": "done",
        "add:2": "done",
        "total:1": "done",
        "cached:2": "done",
        "lost:1": "done",
    }
    assert tasks["tries"].to_dict()["lost:1"] == 2
    deps = {(row.task, row.dep, row.via) for row in run.declared_deps.itertuples()}
    assert deps == {("total:1", "add:1", "future"), ("total:1", "add:2", "future")}
