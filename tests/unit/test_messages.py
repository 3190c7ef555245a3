"""Lines on stderr: a name in them can't act on the terminal."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.commands import run_cli
from tailrace.integrations import rundir
from tailrace.integrations.messages import say

HOSTILE = "evil\x1b[31m\n\u202ename"
SHOWN = "evil\\x1b[31m\\n\\u202ename"


def test_a_name_is_shown_with_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    say(HOSTILE)
    assert capsys.readouterr() == ("", f"tailrace: {SHOWN}\n")


def test_a_worker_pool_with_a_hostile_journal_directory(tmp_path: Path) -> None:
    settings = [f"TAILRACE_RUN={tmp_path}", f"TAILRACE_JOURNAL_DIR={tmp_path / HOSTILE}"]
    command = [sys.executable, "-m", "tailrace.integrations.pool", *settings, "--", "true"]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    said, end = done.stderr.split("\n")
    assert said.startswith("tailrace: this worker pool is not traced: ") and SHOWN in said and end == ""


def test_a_hostile_job_history(tmp_path: Path) -> None:
    """Of a `flux` that prints it: the reason is an inner instance's, where another user may have put it."""
    run = rundir.open_run_directory(tmp_path / HOSTILE, ["test"])
    inner = {"unreachable": {"path": "/f1", "reason": HOSTILE}}
    outer = {"instance": {"path": "/", "host": "n1", "hosts": "n1", "version": "0.88.0", "started": 1.0}}
    flux = tmp_path / "flux"
    flux.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(outer)}\n{json.dumps(inner)}\nEND\n")
    flux.chmod(0o755)
    done = run_cli("flux", "collect", run, "--flux", flux)
    unreachable, collected, end = done.stderr.split("\n")
    assert done.returncode == 0 and end == ""
    assert f"instance in job /f1 ({SHOWN})" in unreachable
    assert collected.endswith(SHOWN)
