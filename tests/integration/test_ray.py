"""Ray's adapter beyond the conformance suite: actors, generators, nested tasks, lost workers, spilled objects."""

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from support.harm import clean_environment
from support.managers import all_on_path, only_run, share_tailrace
from tailrace.integrations import managers

RAYS = all_on_path("ray")
pytestmark = pytest.mark.skipif(not RAYS, reason="no environment with Ray on PATH: pip install ray")

PROGRAM = """
import os
import signal
import sys
import ray

def write(name):
    with open(name, "w") as file:
        file.write("x" * 10)

@ray.remote
def inner(number):
    write(f"inner-{number}")
    return number

@ray.remote
def outer(number):
    write(f"outer-{number}")
    return ray.get(inner.remote(number))

@ray.remote
class Counter:
    def __init__(self, start):
        write("counter-init")
        self.count = start
    def add(self, number):
        write(f"counter-{number}")
        self.count += number
        return self.count

@ray.remote
class Waiting:
    async def wait(self, number):
        import asyncio
        write(f"wait-{number}")
        await asyncio.sleep(0.2)
        write(f"waited-{number}")
        return number

@ray.remote
def parts(count):
    for number in range(count):
        write(f"part-{number}")
        yield number

@ray.remote(max_retries=1)
def lost(name):
    if not os.path.exists(name):
        write(name)
        os.kill(os.getpid(), signal.SIGKILL)
    return "again"

@ray.remote(max_retries=0)
def dies():
    os.kill(os.getpid(), signal.SIGKILL)

@ray.remote
def total(values, *more):
    return sum(ray.get(values)) + sum(more)

@ray.remote
def block():
    return b"x" * 60_000_000

if __name__ == "__main__":
    if sys.argv[1:] == ["traced"]:
        import tailrace.ray
        tailrace.ray.trace()
        tailrace.ray.trace()
    ray.init("local", num_cpus=2, include_dashboard=False, object_store_memory=100_000_000)
    counter = Counter.options(num_cpus=0).remote(100)
    added = counter.add.remote(inner.remote(1))
    waiting = Waiting.options(num_cpus=0).remote()
    print(ray.get(added), ray.get(outer.remote(7)), ray.get([waiting.wait.remote(n) for n in (1, 2)]))
    print([ray.get(one) for one in parts.remote(2)], ray.get(lost.remote("mark")))
    print(ray.get(total.remote([inner.remote(2), inner.remote(3)], inner.remote(4))))
    blocks = [block.remote() for _ in range(3)]
    print(sum(len(ray.get(one)) for one in blocks))
    after = total.remote([], dies.remote())
    try:
        ray.get(after)
    except ray.exceptions.RayError as error:
        print(type(error).__name__)
    sys.stdout.flush()
"""
PRINTED = "101 7 [1, 2]\n[0, 1] again\n9\n180000000\nRayTaskError(WorkerCrashedError)\n"


def _run(folder: Path, *words: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    environment = clean_environment({**share_tailrace(folder / "site"), **settings})
    return subprocess.run(
        [RAYS[0].python, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def test_what_tasks_and_actors_do(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(PROGRAM)
    done = _run(tmp_path, "flow.py", "traced")
    printed = [line for line in done.stdout.splitlines(keepends=True) if "\x1b[" not in line]
    assert "".join(printed) == PRINTED and "tailrace: can't" not in done.stderr, done.stdout + done.stderr
    trace, run = only_run(tmp_path)
    tasks = run.declared_tasks.set_index("task")
    stages = {
        "inner-7": "inner",
        "outer-7": "outer",
        "counter-init": "Counter.__init__",
        "counter-1": "Counter.add",
        "wait-1": "Waiting.wait",
        "waited-1": "Waiting.wait",
        "part-1": "parts",
    }
    for name, stage in stages.items():
        written = [event for event in trace.of(tmp_path / name) if event["args"].get("size")]
        ((workflow, found, task),) = trace.tags(written, "workflow", "stage", "task")
        assert (workflow, found, tasks["stage"][task]) == ("flow", stage, stage)
    ended = {(row.stage, row.status, row.tries) for row in tasks.itertuples()}
    once = {*stages.values(), "Waiting.__init__", "total", "block"}
    assert ended == {(stage, "done", 1) for stage in once} | {
        ("lost", "done", 2), ("dies", "killed", 1), ("total", "dep_failed", 0)
    }  # fmt: skip
    assert tasks.loc[tasks["stage"] == "dies", "error"].item() and "\x1b" not in "".join(tasks["error"].dropna())
    stage = tasks["stage"].to_dict()
    deps = [(stage[row.task], stage[row.dep], row.via) for row in run.declared_deps.itertuples()]
    assert sorted(deps) == [
        ("Counter.add", "Counter.__init__", "actor"),
        ("Counter.add", "inner", "object"),
        ("Waiting.wait", "Waiting.__init__", "actor"),
        ("Waiting.wait", "Waiting.__init__", "actor"),
        ("total", "dies", "object"),
        ("total", "inner", "object"),
        ("total", "inner", "object"),
        ("total", "inner", "object"),
    ]
    assert [stage[parent] for parent in tasks["parent"].dropna()] == ["outer"]
    # Objects that the store has no place for are written by Ray's own processes.
    spilled = [event for event in trace.events if "ray_spilled_objects" in (event["path"] or "")]
    assert spilled and {event["args"].get("task") for event in spilled} == {None}


def test_a_program_that_has_begun_ray_runs_untraced(tmp_path: Path) -> None:
    """So do tasks whose workers can't be told."""
    lines = (
        "import ray",
        "import tailrace.ray",
        "ray.init('local', num_cpus=1, include_dashboard=False)",
        "tailrace.ray.trace()",
        "print(ray.get(ray.remote(lambda: 3).remote()))",
    )
    (tmp_path / "flow.py").write_text("\n".join(lines))
    done = _run(tmp_path, "flow.py")
    assert done.stdout == "3\n" and done.stderr.count("tailrace: can't follow Ray's tasks") == 1, done.stderr
    assert not (tmp_path / "tailrace-runs").exists()


def test_how_tasks_ended_where_names_are_hashed(tmp_path: Path) -> None:
    (tmp_path / "flow.py").write_text(PROGRAM)
    done = _run(tmp_path, "flow.py", "traced", TAILRACE_REDACT="paths")
    assert "tailrace: can't" not in done.stderr, done.stdout + done.stderr
    _, run = only_run(tmp_path)
    tasks = run.declared_tasks
    assert Counter(zip(tasks["status"], tasks["tries"], strict=True)) == {
        ("done", 1): 16, ("done", 2): 1, ("killed", 1): 1, ("dep_failed", 0): 1
    }  # fmt: skip
    assert all(text.startswith("@") for text in tasks["stage"])


def test_the_manager_is_listed() -> None:
    (entry,) = (one for one in managers.installed() if one.name == "ray")
    assert entry.manager is not None and entry.manager.title == "Ray"
