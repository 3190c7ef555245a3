"""A run that several batch jobs share has no command of its own; that of a command which submits jobs has."""

from __future__ import annotations

from pathlib import Path

import pytest

import tailrace
from support import trace_writer as tw
from tailrace.cli.info import _jobs

OF_A_JOB = {"tags": "stage=a,job=/%C6%92A"}
OF_A_COMMAND = {"tags": "project=p"}


def run_of(folder: Path, own: str, described: dict[str, str], jobs: list[dict[str, str]]) -> tailrace.Run:
    files = {f"n-{pid}-1": tw.block([tw.event(pid=pid, stage="s", **tags)]) for pid, tags in enumerate(jobs, 7)}
    return tailrace.open(tw.make_run(folder / "run", files, {"batch": {"system": "s", "job": own}, **described}))


@pytest.mark.parametrize(
    ("own", "described", "jobs", "shared"),
    [
        ("/ƒA", OF_A_JOB, [{"job": "/ƒA"}, {"job": "/ƒB"}], ["ƒA", "ƒB"]),
        ("/ƒA", OF_A_JOB, [{"job": "/ƒA"}, {"job": "/ƒA/ƒX", "parent": "/ƒA"}], []),
        ("/ƒA", OF_A_JOB, [{"job": "/ƒA/ƒX", "parent": "/ƒA"}, {"job": "/ƒB/ƒX", "parent": "/ƒB"}], ["ƒA", "ƒB"]),
        ("12_3", {"tags": "job=12_3"}, [{"job": "12_3"}, {"job": "12_4"}], []),
        ("12_3", {"tags": "job=12_3"}, [{"job": "12_3"}, {"job": "13"}], ["12", "13"]),
        ("12", OF_A_COMMAND, [{"job": "12"}, {"job": "13"}], []),
    ],
    ids=["two jobs", "an instance", "two instances", "an array", "an array and a job", "a command in a job"],
)
def test_a_run_is_shared_by_the_outermost_jobs(
    tmp_path: Path, own: str, described: dict[str, str], jobs: list[dict[str, str]], shared: list[str]
) -> None:
    run = run_of(tmp_path, own, described, jobs)
    assert run.info()["jobs"] == shared
    assert run.info()["command"] == (None if shared else ["make"])


def test_a_few_jobs_are_named() -> None:
    assert _jobs([]) == ""
    assert _jobs(["1", "2"]) == "2, which share the run: 1, 2"
    assert _jobs(["1", "2", "3", "4"]) == "4, which share the run: 1, 2, 3, ..."
