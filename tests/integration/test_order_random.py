"""Random programs of processes that lock, append, fork, wait and send messages, run for real: the races that are
reported are those that the generator knows, to the byte."""

import sys

import pytest

import tailrace
from support.commands import TAILRACE
from support.order_program import DRIVER, SIZE, WORKER, Program, Truth
from tailrace.analyzer.insights import insights


def reported(run, pids, folder):
    """(file, two processes) -> bytes of the races that were found."""
    found = insights(run)
    inputs = found.inputs
    of_task = {}
    for task, row in enumerate(inputs.tasks.itertuples()):
        number = int(row.task[1:]) if row.task else pids.get(int(row.pid))
        of_task[task] = number
    out = {}
    for row in found.conflicts.rows.to_dict("records"):
        file = row["path"].removeprefix(f"{folder}/")
        key = (file, *sorted((of_task[row["first"]], of_task[row["second"]])))
        out[key] = out.get(key, 0) + row["bytes"]
    return out


@pytest.mark.parametrize("tagged", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_the_reported_races_are_the_generated_ones(tmp_path, run_traced, seed, tagged):
    folder, logs = tmp_path / "data", tmp_path / "logs"
    folder.mkdir()
    logs.mkdir()
    program = Program(seed, tagged)
    for name in program.files:
        (folder / name).write_bytes(bytes(SIZE))
    tags = {n: [*TAILRACE, "tag", "--stage", "s", "--task", f"t{n}", "--"] for n in program.first} if tagged else {}
    for name, text in (("plan.json", program.plan(logs, tags)), ("worker.py", WORKER), ("driver.py", DRIVER)):
        (tmp_path / name).write_text(text)
    run_traced(sys.executable, "driver.py", tmp_path / "plan.json", tmp_path / "worker.py", folder)
    truth = Truth(program, logs)
    found = reported(tailrace.open(run_traced.run), {pid: n for n, pid in truth.pids.items()}, folder)
    assert found.keys() <= truth.possible.keys(), "a false race"
    assert truth.sure.keys() <= found.keys(), "a race that is not reported"
    for key, size in found.items():
        # Of a pair of tasks each kind of race is a row.
        assert len(truth.sure.get(key, ())) <= size <= 3 * len(truth.possible[key]), key
