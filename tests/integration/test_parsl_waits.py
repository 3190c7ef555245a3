"""Waiting is order: what a Parsl program waited for before it submitted a task, over thread pools and HTEX."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tailrace

pytest.importorskip("parsl", reason="the plugin's tests need Parsl: pip install 'tailrace[parsl]'")

from support import parsl_waits

PROGRAM = Path(parsl_waits.__file__)


@pytest.fixture(scope="module", params=["threads", "htex"])
def found(request, tmp_path_factory):
    """The analyses of the program's run."""
    folder = tmp_path_factory.mktemp(request.param)
    command = [sys.executable, str(PROGRAM), request.param, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "tailrace: can't" not in done.stderr
    return tailrace.open(folder / "run").insights()


def orders(found):
    """case -> what orders its two tasks."""
    rows = found.declared.undeclared
    return {
        row.consumer_stage.removeprefix("use "): row.order
        for row in rows.itertuples()
        if row.producer_stage.split()[1] == row.consumer_stage.split()[1]
    }


@pytest.mark.parametrize(
    ("cases", "order"),
    [(parsl_waits.AWAITED, "awaited"), (parsl_waits.IN_TIME, "in time"), (parsl_waits.RACES, "none")],
    ids=["awaited", "in time", "races"],
)
def test_what_orders_a_task_and_its_undeclared_reader(found, cases, order):
    got = orders(found)
    assert {case.__name__: got.get(case.__name__) for case in cases} == {case.__name__: order for case in cases}


def test_only_what_could_overlap_is_a_race(found):
    kinds = {finding.kind: (finding.about, finding.count) for finding in found.findings()}
    assert kinds["undeclared dependency"] == ("race", len(parsl_waits.RACES))
    assert kinds["undeclared, in order this time"] == ("order", len(parsl_waits.IN_TIME))
    assert kinds["undeclared, but awaited"] == ("note", len(parsl_waits.AWAITED))
    abouts = [finding.about for finding in found.findings()]
    assert abouts.index("race") < abouts.index("order") < abouts.index("note")


COUNTED = """
import sys
import parsl
from parsl import Config, HighThroughputExecutor, ThreadPoolExecutor, python_app
from parsl.providers import LocalProvider
from tailrace.parsl import trace
@python_app
def count(locked):
    import fcntl, os
    file = os.open("count", os.O_RDWR)
    if locked:
        fcntl.lockf(file, fcntl.LOCK_EX)
    number = int(os.pread(file, 8, 0))
    os.pwrite(file, b"%8d" % (number + 1), 0)
    os.close(file)
if __name__ == "__main__":
    open("count", "w").write("%8d" % 0)
    htex = HighThroughputExecutor(max_workers_per_node=1, provider=LocalProvider(init_blocks=1, max_blocks=1))
    executor = htex if sys.argv[1] == "htex" else ThreadPoolExecutor(max_threads=1)
    parsl.load(trace(Config(executors=[executor]), run_dir="run"))
    for one in [count(sys.argv[2] == "locked") for _ in range(4)]:
        one.result()
    parsl.dfk().cleanup()
"""


@pytest.mark.parametrize(("executor", "lock"), [("threads", "not"), ("htex", "locked")])
def test_a_lock_keeps_tasks_apart_that_one_worker_ran_by_chance(tmp_path, executor, lock):
    (tmp_path / "counted.py").write_text(COUNTED)
    command = [sys.executable, "counted.py", executor, lock]
    # HTEX starts its programs by their names.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    settings = {"env": {**os.environ, "PATH": path}, "cwd": tmp_path}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **settings)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "count").read_text() == "       4", "the truth"
    findings = tailrace.open(tmp_path / "run").insights().findings()
    races = {one.kind for one in findings if one.about in ("race", "order")}
    assert races == set() if lock == "locked" else races > {"two writers", "undeclared dependency"}
