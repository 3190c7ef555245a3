"""Waiting is order: what a Parsl program waited for before it submitted a task, over thread pools and HTEX."""

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
