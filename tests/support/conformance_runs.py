"""Runs the conformance workflow by a manager, and keeps the counts for docs/conformance.md."""

import json
import os
import subprocess
import sys
from pathlib import Path

from support import conformance
from support.conformance import Adapter
from support.managers import SOURCE

RESULTS = SOURCE / "build" / "conformance"


def judged(adapter: Adapter, folder: Path) -> conformance.Verdict:
    """Runs and judges; keeps the counts for the page."""
    folder = folder / "flow"
    conformance.prepare(folder)
    workflow = conformance.steps(adapter.names, adapter.retries)
    run_dir = adapter.run(folder, workflow)
    verdict = conformance.judge(adapter, folder, run_dir, workflow)
    RESULTS.mkdir(parents=True, exist_ok=True)
    row = {"manager": adapter.manager, "version": adapter.version, "counts": verdict.counts}
    (RESULTS / f"{adapter.manager}.json").write_text(json.dumps(row))
    return verdict


def program(words: list[str], folder: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **variables}
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert "tailrace: can't" not in done.stderr, done.stderr
    return done


def assert_all_but_the_task_that_never_ran(verdict: conformance.Verdict) -> None:
    """Of managers that declare a task when it runs, or ran."""
    assert [fault.partition(":")[0] for fault in verdict.faults] == ["declared", "files", "files"], verdict.faults
    assert verdict.faults[0].endswith("data/checked -> data/never")
    assert verdict.faults[1].endswith("data/checked") and verdict.faults[2].endswith("data/never")
