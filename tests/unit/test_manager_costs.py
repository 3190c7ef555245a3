"""tests/bench/managers.py counts what all processes of a workflow take."""

import sys
from pathlib import Path

import pytest
from bench import managers
from bench.manager_ways import Way

BURN_MS = 300
PROGRAM = f"""
import os, signal, time
how = @HOW@
if how == "unwaited":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if os.fork() == 0:
    if how == "daemon":
        os.setsid()
        if os.fork():
            os._exit(0)
    while time.process_time() < {BURN_MS / 1e3}:
        pass
    os._exit(0)
if how == "unwaited":
    time.sleep({BURN_MS / 1e3})
"""


@pytest.mark.parametrize("how", ["daemon", "unwaited"])
def test_processes_that_nobody_waits_for_are_counted(tmp_path: Path, how: str) -> None:
    """A daemon that outlives its program, and children of which the kernel tells their parent nothing."""
    try:
        managers.control_groups()
    except SystemExit as missing:
        pytest.skip(str(missing))
    words = [sys.executable, "-c", PROGRAM.replace("@HOW@", repr(how))]
    assert managers.processor_ms(words, tmp_path, Way({}, [], [])) >= BURN_MS
