"""Whoever ends a run adds it to the user's store, where TAILRACE_STORE or the caller names one.

    index_at_end   `tailrace run`, `seal`, `seal --all`, `flux collect`: at once
    index_after    `tailrace.parsl.trace()`: once this process, which is traced itself, has ended

Invariants: in a process of its own with a limit of time, and a failure is a line on stderr: indexing never changes how
a job ends. The process is not traced, and has the priority of `nice 10`.

A Parsl program's own records are sealed at its end, so its `atexit` would index a run that still changes. Flux's shells
index nothing: it would take Python, hold the nodes, and happen once a shell; `flux collect` does it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tailrace.integrations import launcher, programs
from tailrace.integrations.messages import say

STORE = "TAILRACE_STORE"
"""The variable with the store's directory."""
LIMIT_S = 60
_RUN_S = 5
"""More for each further run."""
_SEALED_S = 10
"""For the sealing of what ended with this process."""
_KEPT = ("TAILRACE_JOURNAL_DIR",)
_held: list[int] = []
"""Ends of pipes that are open as long as this process lives."""


def chosen(store: str | os.PathLike[str] | None = None) -> str:
    """The store to add runs to: the given one, else that of TAILRACE_STORE; "" where there is none."""
    return os.fspath(store) if store is not None else os.environ.get(STORE, "")


def index_at_end(
    run_dirs: Path | Sequence[Path], store: str | os.PathLike[str] | None = None, seconds: float | None = None
) -> None:
    """Adds runs that have ended to a store (`chosen`); nothing where there is none. seconds: to be done in."""
    place, runs = chosen(store), [run_dirs] if isinstance(run_dirs, Path) else list(run_dirs)
    if not place or not runs:
        return
    limit = LIMIT_S + _RUN_S * (len(runs) - 1) if seconds is None else max(seconds, 0.1)
    words = ["nice", "-n", "10", *programs.module_command("tailrace.cli.main"), "index", "--", place, *map(str, runs)]
    try:
        done = subprocess.run(
            words, env=_own(), stdin=subprocess.DEVNULL, capture_output=True, timeout=limit, check=False
        )
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        left = [line for line in said if " is left out: " in line] or (said if done.returncode != 0 else [])
        if left or done.returncode != 0:
            why = left[-1].removeprefix("tailrace: ") if left else f"exit code {done.returncode}"
            say(f"not added to the store {place}: {why}")
    except subprocess.TimeoutExpired:
        say(f"not added to the store {place}: not done within {limit:.0f} s; `tailrace index` does it later")
    except OSError as error:
        say(f"not added to the store {place}: {error.strerror or error}")


def index_after(run_dir: Path, store: str | os.PathLike[str]) -> None:
    """Adds a run to a store once this process and those that it forked have ended.

    To be called before this process is traced: what it starts then would be traced, and be a part of the run. Until
    then only a shell waits. Who reads this process's stderr to its end waits for the store, too.
    """
    place = Path(store).expanduser().absolute()
    reading, writing = os.pipe()
    command = [*programs.module_command("tailrace.integrations.indexing"), str(place), str(run_dir)]
    try:
        # Nothing is written: the shell reads the end of the pipe when its last writer has ended.
        subprocess.Popen(
            ["/bin/sh", "-c", 'read -r nothing; exec "$@"', "sh", *command],
            stdin=reading,
            stdout=subprocess.DEVNULL,
            env=_own(),
            start_new_session=True,
        )
        _held.append(writing)
    except OSError as error:
        os.close(writing)
        say(f"not added to the store {place}: {error.strerror or error}")
    finally:
        os.close(reading)


def _own() -> dict[str, str]:
    """The environment of a process of ours: untraced."""
    return {
        name: text
        for name, text in os.environ.items()
        if name in _KEPT or (not name.startswith("TAILRACE_") and name != "LD_PRELOAD")
    }


def _main(store: str, run: str) -> None:
    """Seals what the process left that this one waited for, and adds the run."""
    directory, end = Path(run), time.monotonic() + _SEALED_S
    try:
        while not launcher.seal(directory)["failed"] and launcher.unsealed_pids(directory):
            if time.monotonic() >= end:
                break
            time.sleep(0.05)
    except Exception as error:
        say(f"the journals of {directory} are not sealed: {error}")
    index_at_end(directory, store)


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2])
