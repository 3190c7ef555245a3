"""A host's clock that is set in the middle of a run changes no flow, makes no race, and is said."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import tailrace
from support.clock_step import set_clock
from support.commands import TAILRACE, run_cli
from tailrace.analyzer.run import Run

SECOND = 1_000_000_000
STEPS = {
    "make": "seq 2000 > a.txt; seq 30 > b.txt",
    "sort": "sort -r a.txt > c.txt; cat b.txt c.txt | sort > d.txt",
    "count": "wc d.txt c.txt > e.txt; sort e.txt > b.txt",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("clock-steps")
    for stage, script in STEPS.items():
        words = [*TAILRACE, "run", "-q", "-o", "run", "--tag", f"stage={stage}", "--", "sh", "-c", script]
        subprocess.run(words, cwd=work, check=True, timeout=120)
    return work / "run"


def answers(run: Run) -> dict[str, Any]:
    found = run.findings()
    return {
        "flows": sorted((a, b, data["bytes"]) for a, b, data in run.dataflow("stage").edges(data=True)),
        "processes": sorted(data.get("bytes", 0) for _, _, data in run.dataflow("process").edges(data=True)),
        "findings": sorted(finding.kind for finding in found),
    }


def begins(run: Path) -> list[int]:
    return sorted(int(start, 16) for start in tailrace.open(run).processes["start"])


@pytest.mark.parametrize(("share", "by_s"), [(0.3, -3600), (0.3, 1), (0.5, 1), (0.5, -1), (0.8, 3600), (0.8, -1)])
def test_a_clock_that_is_set_changes_nothing_and_is_said(run: Path, tmp_path: Path, share: float, by_s: int) -> None:
    """Between any processes, of one command or of two."""
    wanted = answers(tailrace.open(run))
    assert wanted["flows"] and tailrace.open(run).problems == []
    copy = tmp_path / "run"
    shutil.copytree(run, copy, ignore=shutil.ignore_patterns("tailrace.db"))
    starts = begins(run)
    moment = starts[int(len(starts) * share)]
    set_clock(copy, by_s * SECOND, lambda header: int(header["start"], 16) >= moment)
    found = tailrace.open(copy)
    assert answers(found) == wanted
    (problem,) = found.problems
    words = {-3600: "-60 min", -1: "-1.00 s", 1: "+1.00 s", 3600: "+60 min"}[by_s]
    assert problem.startswith("1 host whose clock was set") and problem.endswith(f" by {words}")
    (facts,) = found.hosts()
    assert facts.clock_set == words and facts.losses == []
    if share == 0.5 and by_s == 1:
        assert "Clock: set during the run by +1.00 s; corrected" in run_cli("host", copy).stdout
        assert "clock was set" in run_cli("report", copy).stdout and "clock_set" in run_cli("info", copy).stdout
