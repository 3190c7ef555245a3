"""Starts a worker pool traced, and seals the journals of its workers.

    python -m tailrace.integrations.pool NAME=VALUE... -- CMD...

Plugins put this in front of the command that starts a pool on a node. SIGTERM ends the workers without any clean-up;
this process outlives them to seal their journals on this node. NAME=VALUE are the tracer's settings (TAILRACE_RUN is
required) and any other variables for CMD.
"""

import ctypes
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tailrace.errors import TailraceError, UsageError
from tailrace.integrations import environment, launcher, rundir
from tailrace.integrations.messages import say

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_ORPHANS_WAIT_S = 3.0
_PR_SET_CHILD_SUBREAPER = 36


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the pool; returns its exit code in the shell's convention."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    settings, command = _split(words)
    if not command or "TAILRACE_RUN" not in settings:
        print("usage: python -m tailrace.integrations.pool TAILRACE_RUN=DIR [NAME=VALUE...] -- CMD...", file=sys.stderr)
        return 2
    run_dir = Path(settings["TAILRACE_RUN"])
    env = {**os.environ, **{name: value for name, value in settings.items() if name != "TAILRACE_TAGS"}}
    try:
        environment.check_journal_directory(env)
        env = environment.task_environment(run_dir, settings.get("TAILRACE_TAGS", ""), env)
        rundir.describe_host(run_dir, command)
    except UsageError as error:
        say(f"this worker pool is not traced: {error}")
        return launcher.run_command(command, {**os.environ, **_other_than_settings(settings)})
    except (TailraceError, OSError) as error:
        say(f"this worker pool is traced incompletely: {error}")
    _adopt_orphans()
    sealer = launcher.NodeSealer(run_dir, env)
    code = launcher.run_command(command, env)
    _reap_orphans()
    try:
        sealer.finish()
    except TailraceError as error:
        say(f"can't seal the workers' journals into {run_dir}: {error}; run `tailrace seal {run_dir}`")
    return code


def _split(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """The settings before `--`, with the assignments at the command's beginning (as in a shell); the command."""
    border = words.index("--") if "--" in words else len(words)
    assignments, command = words[:border], words[border + 1 :]
    while command and _ASSIGNMENT.match(command[0]):
        assignments.append(command.pop(0))
    settings = {}
    for assignment in assignments:
        name, _, value = assignment.partition("=")
        settings[name] = value
    return settings, command


def _other_than_settings(settings: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in settings.items() if not name.startswith("TAILRACE_")}


def _adopt_orphans() -> None:
    """Makes this process the parent of workers that outlive their pool, so that it can wait for them."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _reap_orphans() -> None:
    """Waits until no worker is left, at most a few seconds: a task's background process may run for ever."""
    end = time.monotonic() + _ORPHANS_WAIT_S
    while time.monotonic() < end:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            time.sleep(0.01)


if __name__ == "__main__":
    sys.exit(main())
