"""Whoever ends a run adds it to the user's store, where TAILRACE_STORE names one.

Invariants: in a process of its own with a limit of time, and a failure is a line on stderr: indexing never changes how
a job ends. The process is not traced, and has the priority of `nice 10`.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tailrace.integrations import programs
from tailrace.integrations.messages import say

STORE = "TAILRACE_STORE"
"""The variable with the store's directory."""
LIMIT_S = 60


def index_at_end(run_dir: Path) -> None:
    """Adds a run that has ended to the store of TAILRACE_STORE; nothing where it is not set."""
    store = os.environ.get(STORE, "")
    if not store:
        return
    own = {name: text for name, text in os.environ.items() if not name.startswith("TAILRACE_") and name != "LD_PRELOAD"}
    words = ["nice", "-n", "10", *programs.module_command("tailrace.cli.main"), "index", "--", store, str(run_dir)]
    try:
        done = subprocess.run(
            words, env=own, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S, check=False
        )
        why = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2].removeprefix("tailrace: ")
        if done.returncode != 0:
            say(f"not added to the store {store}: {why or f'exit code {done.returncode}'}")
    except subprocess.TimeoutExpired:
        say(f"not added to the store {store}: not done within {LIMIT_S} s; `tailrace index` does it later")
    except OSError as error:
        say(f"not added to the store {store}: {error.strerror or error}")
