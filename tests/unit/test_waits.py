"""Where the tasks' time went: from declared times and events written by hand."""

from __future__ import annotations

import io
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from support.flowcase import MS, T0_NS, FakeRun, Story
from tailrace.analyzer import summary
from tailrace.analyzer.model import waits
from tailrace.analyzer.report import terminal

TIMES = ("submit", "depend", "launch", "alloc", "start", "end")


def at(ms: float | None) -> int | None:
    return None if ms is None else T0_NS + round(ms * MS)


def declared(*tasks: dict[str, Any]) -> pd.DataFrame:
    rows = [{"workflow": "w", "stage": task["task"][0], **task} for task in tasks]
    out = pd.DataFrame({name: pd.Series([row.get(name) for row in rows], dtype=object) for name in waits.KEYS})
    for name in TIMES:
        out[f"t_{name}_ns"] = pd.array([at(row.get(name)) for row in rows], dtype="Int64")
    out["holds"] = pd.Series([row.get("holds") for row in rows], dtype=object)
    return out


def parts(run: FakeRun) -> dict[str, list[float | None]]:
    """task -> depend, data, upstream, order, queue, start, run, io, wait, compute in ms; stop is 0 but of instances."""
    table = waits.table(run)
    assert list(table.columns) == [*waits.KEYS, *waits.TIMES]
    assert {str(table[name].dtype) for name in waits.TIMES} == {"Int64"}
    rows = table.to_dict("records")
    return {r["task"]: [None if pd.isna(r[n]) else r[n] / MS for n in waits.TIMES if n != "stop_ns"] for r in rows}


def pipeline() -> FakeRun:
    """a1 writes x until 30 ms and runs on until 100; b1 waits for it, runs 120 to 200, and reads for 8 ms."""
    story = Story()
    story.write("/x", 0, 10, at_ms=20, dur=10 * MS, stage="a", task="a1", pid=1)
    story.write("/log", 0, 1, at_ms=99, stage="a", task="a1", pid=1, dur=0)
    story.read("/x", 0, 10, at_ms=130, dur=8 * MS, stage="b", task="b1", pid=2)
    run = story.run()
    run.declared_tasks = declared(
        {"task": "a1", "submit": 0, "depend": 2, "alloc": 5, "start": 10, "end": 100},
        {"task": "b1", "submit": 6, "depend": 100, "alloc": 110, "start": 120, "end": 200},
    )
    run.declared_deps = pd.DataFrame([{"workflow": "w", "task": "b1", "dep": "a1", "via": "afterok", "path": None}])
    return run


def test_the_parts_of_two_tasks_times() -> None:
    assert parts(pipeline()) == {
        "a1": [0, 0, 0, 0, 5, 5, 90, 10, 0, 80],
        "b1": [94, 20, 4, 70, 10, 10, 80, 8, 0, 72],
    }


def instance(exit_code: int | None, end_ms: float = 70) -> FakeRun:
    """A job from 10 to 100 ms whose brokers run a program from 40 to `end_ms`."""
    story = Story()
    story.read("/script", 0, 10, at_ms=40, dur=5 * MS, stage="a", task="a1", pid=7, start="1")
    run = story.run()
    run.declared_tasks = declared({"task": "a1", "submit": 0, "depend": 0, "alloc": 5, "start": 10, "end": 100})
    run.declared_tasks["kind"] = "instance"
    process = {"host": "n1", "pid": 7, "start": "1", "t0_ns": at(40), "t1_ns": at(end_ms), "exit": exit_code}
    run.processes = pd.DataFrame([process]).astype({"exit": "Int64"})
    return run


@pytest.mark.parametrize(
    ("run", "start", "run_ms", "stop"),
    [(instance(0), 35, 30, 30), (instance(None), 35, 60, 0), (instance(0, 101), 35, 60, 0)],
    ids=["its program ended", "the end was not recorded", "it ended after the instance, by another clock"],
)
def test_an_instances_start_and_stop_are_not_its_programs_computing(
    run: FakeRun, start: float, run_ms: float, stop: float
) -> None:
    row = waits.table(run).iloc[0]
    assert [row[n] / MS for n in ("start_ns", "run_ns", "compute_ns", "stop_ns")] == [start, run_ms, run_ms - 5, stop]


def test_another_jobs_time_before_its_first_call_is_its_own() -> None:
    run = instance(0)
    run.declared_tasks["kind"] = "job"
    row = waits.table(run).iloc[0]
    assert [row[n] / MS for n in ("start_ns", "run_ns", "stop_ns")] == [5, 90, 0]


def test_waiting_for_a_worker_is_never_waiting_for_data() -> None:
    """All three are submitted at 0; a1 begins at 100, when the workers are up: b1 and c1 waited for its worker too."""
    story = Story()
    for name, start, reads in (("a1", 100, None), ("b1", 120, "/a1"), ("c1", 140, "/b1")):
        if reads:
            story.read(reads, 0, 10, at_ms=start, dur=MS, stage=name[0], task=name, pid=start)
        story.write(f"/{name}", 0, 10, at_ms=start + 9, dur=MS, stage=name[0], task=name, pid=start)
    run = story.run()
    run.declared_tasks = declared(
        {"task": "a1", "submit": 0, "launch": 0, "end": 111},
        {"task": "b1", "submit": 0, "launch": 111, "end": 131},
        {"task": "c1", "submit": 0, "launch": 131, "end": 151},
    )
    deps = [
        {"workflow": "w", "task": t, "dep": d, "via": "file", "path": None} for t, d in (("b1", "a1"), ("c1", "b1"))
    ]
    run.declared_deps = pd.DataFrame(deps)
    # depend, data, upstream, order, queue
    assert {task: times[:5] for task, times in parts(run).items()} == {
        "a1": [0, 0, 0, 0, 109],
        "b1": [111, 1, 109, 1, 9],
        "c1": [131, 12, 118, 1, 9],
    }


def test_data_that_was_there_before_is_not_waited_for() -> None:
    run = pipeline()
    run.declared_tasks = declared(
        {"task": "a1", "submit": 0, "depend": 2, "alloc": 5, "start": 10, "end": 100},
        {"task": "b1", "submit": 60, "depend": 100, "alloc": 110, "start": 120, "end": 200},
    )
    assert parts(run)["b1"][:4] == [40, 0, 0, 40]


def test_data_that_comes_after_the_wait_fills_it() -> None:
    run = pipeline()
    run.declared_tasks = declared(
        {"task": "a1", "submit": 0, "depend": 2, "alloc": 5, "start": 10, "end": 15},
        {"task": "b1", "submit": 6, "depend": 15, "alloc": 110, "start": 120, "end": 200},
    )
    assert parts(run)["b1"][:4] == [9, 5, 4, 0]


def test_an_instance_waits_for_data_read_by_its_jobs() -> None:
    """The instance b0 holds b1, which reads x, and b2, which reads what b1 wrote; that passes inside."""
    run = pipeline()
    inner = {"path": "/y", "file": "8:1:77", "ftype": "reg", "stage": "b", "offset": 0, "size": 10, "count": 10}
    like = run.rows[-1]
    run.rows.append({**like, **inner, "name": "write", "dir": "w", "ts": at(150), "dur": 0})
    run.rows.append({**like, **inner, "dir": "r", "ts": at(160), "task": "b2", "pid": 3})
    run.declared_tasks = declared(
        {"task": "a1", "submit": 0, "depend": 2, "alloc": 5, "start": 10, "end": 100},
        {"task": "b0", "submit": 6, "depend": 100, "alloc": 110, "start": 120, "end": 200},
        {"task": "b1", "submit": 121, "depend": 121, "alloc": 122, "start": 123, "end": 152},
        {"task": "b2", "submit": 121, "depend": 152, "alloc": 153, "start": 154, "end": 190},
    ).assign(parent=[None, None, "b0", "b0"])
    deps = [{"workflow": "w", "task": t, "dep": d, "via": "afterok"} for t, d in (("b0", "a1"), ("b2", "b1"))]
    run.declared_deps = pd.DataFrame(deps).assign(path=None)
    life = parts(run)
    assert life["b0"][:4] == [94, 20, 4, 70]
    assert life["b0"][7:] == [None] * 3, "its own calls were not traced"
    assert life["b2"][:4] == [31, 27, 2, 2], "b1 was queued from 121 to 123"


def test_a_script_that_waits_for_its_step_does_not_compute() -> None:
    story = Story()
    story.read("/script", 0, 10, at_ms=10, dur=2 * MS, stage="a", task="a1", pid=1)
    story.event("wait", at_ms=20, dur=70 * MS, stage="a", task="a1", pid=1, cat="PROCESS", ret=9)
    run = story.run()
    run.declared_tasks = declared({"task": "a1", "submit": 0, "depend": 0, "alloc": 5, "start": 10, "end": 100})
    assert parts(run)["a1"][6:] == [90, 2, 70, 18]


def test_a_task_that_was_not_traced_has_no_io_and_no_data_wait() -> None:
    run = pipeline()
    tasks = [{"task": "c1", "submit": 0, "depend": 7, "alloc": 9, "start": 10, "end": 30, "holds": ["begin-time=9"]}]
    run.declared_tasks = declared(*tasks)
    assert parts(run) == {"c1": [7, None, None, None, 2, 1, 20, None, None, None]}


def test_a_running_task_has_its_times_so_far() -> None:
    run = pipeline()
    run.declared_tasks = declared({"task": "c1", "submit": 3}, {"task": "c2", "submit": 3, "depend": 4, "alloc": 9})
    assert parts(run) == {"c1": [None] * 10, "c2": [0, None, None, None, 6, None, None, None, None, None]}


def test_a_manager_without_allocations_queues_until_the_first_event() -> None:
    run = pipeline()
    run.declared_tasks = declared(
        {"task": "a1", "submit": 0, "launch": 1, "end": 100}, {"task": "b1", "submit": 6, "launch": 101, "end": 200}
    )
    assert parts(run) == {
        "a1": [0, 0, 0, 0, 20, None, 80, 10, 0, 70],
        "b1": [94, 10, 14, 70, 30, None, 70, 8, 0, 62],
    }


def test_a_manager_that_tells_of_a_task_when_it_runs_had_it_in_a_queue_before() -> None:
    """As Slurm: b1's predecessor was over at 100, and it ran at 150."""
    run = pipeline()
    tasks = [{"task": "a1", "submit": 0, "launch": 10, "start": 10, "end": 100}]
    tasks.append({"task": "b1", "submit": 6, "launch": 150, "start": 150, "end": 200})
    run.declared_tasks = declared(*tasks)
    assert parts(run)["b1"][:5] == [94, 20, 4, 70, 50]
    run.declared_deps["via"] = "after"
    assert parts(run)["b1"][:5] == [4, 0, 4, 0, 140], "it waited for the begin of a1 only"
    run.declared_deps["via"] = "afterok"
    run.declared_tasks = declared({**tasks[0], "end": None}, tasks[1])
    assert parts(run)["b1"][:5] == [144, 20, 4, 120, 0], "a1 has no declared end"


def test_the_time_between_two_tries_is_queue_time() -> None:
    """The first try fails after 5 ms; the manager waits for 40 ms before it tries again."""
    story = Story()
    for begin in (10, 55):
        story.write("/a", 0, 10, at_ms=begin, dur=2 * MS, workflow="w", stage="a", task="a1")
    tries = pd.DataFrame(
        {
            "workflow": "w",
            "task": "a1",
            "try": [0, 1],
            "t_launch_ns": [at(8), at(55)],
            "t_end_ns": pd.array([at(15), None], dtype="Int64"),
        }
    )
    tasks = declared({"task": "a1", "submit": 0, "launch": 8, "end": 60})
    found = parts(story.run(declared_tasks=tasks, declared_tries=tries))["a1"]
    assert found == [0, 0, 0, 0, 50, None, 10, 4, 0, 6]


def test_clocks_that_disagree_make_nothing_negative() -> None:
    run = pipeline()
    run.declared_tasks = declared({"task": "a1", "submit": 9, "depend": 8, "alloc": 7, "start": 6, "end": 5})
    assert parts(run) == {"a1": [0] * 10}


def test_stages_are_sums_and_unknown_sums_are_null() -> None:
    run = pipeline()
    run.declared_tasks = declared(
        {"task": "a1", "submit": 0, "depend": 2, "alloc": 5, "start": 10, "end": 100},
        {"task": "a2", "submit": 0, "depend": 2, "alloc": 5, "start": 10, "end": 40},
        {"task": "c1", "submit": 0},
    )
    first, second = waits.by_stage(waits.table(run)).to_dict("records")
    assert (first["stage"], first["tasks"], first["known"]) == ("a", 2, 2)
    assert (first["run_ns"], first["io_ns"], first["queue_ns"]) == (120 * MS, 10 * MS, 10 * MS)
    assert (second["tasks"], second["known"]) == (1, 0)
    assert pd.isna(second["run_ns"])


@pytest.mark.parametrize("tasks", [FakeRun([]).declared_tasks, declared()])
def test_nothing_declared_is_an_empty_table(tasks: pd.DataFrame) -> None:
    run = pipeline()
    run.declared_tasks = tasks
    assert len(waits.table(run)) == 0
    assert summary.collect(run)["waits"] == []


def test_the_terminal_shows_it() -> None:
    out = io.StringIO()
    run = pipeline()
    run.declared_tasks = pd.concat([run.declared_tasks, declared({"task": "c1", "submit": 0, "depend": 1, "alloc": 4})])
    run.declared_tasks = run.declared_tasks.reset_index(drop=True)
    terminal.render_terminal(run, Console(file=out, width=160))
    rows = {line.split()[0]: line for line in out.getvalue().split("time went")[1].splitlines() if line.strip()}
    assert [part in rows["b"] for part in ("20.0 ms", "4.00 ms", "70.0 ms", "10.0 ms", "8.00 ms", "72.0 ms")] == [
        True
    ] * 6
    assert "-" in rows["c"]
