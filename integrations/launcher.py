"""Runs a command traced, as `tailrace run` does: preload the core, wait, seal the journals of dead processes, sum up.

The work is the native launcher's (core/launcher), which the `tailrace` command is made of too.

Invariants: signals sent to this process reach the command; its exit code becomes ours; a fault of the tracer (missing
core, run directory removed) is a line on stderr and never keeps the command from running.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypedDict, cast

from tailrace import _native, context
from tailrace._native import Summary, add_blocks, whole_sizes
from tailrace.integrations import environment

__all__ = [
    "NodeSealer",
    "SealAccount",
    "Summary",
    "add_blocks",
    "journals",
    "pids_of",
    "run_command",
    "run_traced",
    "seal",
    "unsealed_message",
    "unsealed_pids",
    "whole_sizes",
]


def run_traced(command: Sequence[str], run_dir: Path, tags: str = "") -> tuple[int, Summary]:
    """Runs `command` traced into `run_dir` (absolute, exists) with `tags` (canonical) and waits for it.

    Returns its exit code in the shell's convention (128+n for signal n, 127 not found, 126 not executable) and what
    this run recorded.
    """
    return _native.run_traced(command, run_dir, tags, environment.installed_library())


class SealAccount(TypedDict):
    """The result of sealing.

    Journals: sealed_journals; alive: of running processes; failed, with their failed_events. Events: sealed in
    events; unrecorded_lost: cause -> losses that no block records. processor_ns: what a sealer's thread
    took; writing_ns: of that, writing.
    """

    sealed_journals: int
    alive: int
    failed: int
    failed_events: int
    events: int
    unrecorded_lost: dict[str, int]
    processor_ns: int
    writing_ns: int


def unsealed_message(account: SealAccount, run_dir: Path) -> str:
    """A sentence on the journals that could not be sealed, and what to do."""
    return _native.unsealed_message(account["failed"], account["failed_events"], run_dir)


def seal(run_dir: Path, env: Mapping[str, str] | None = None) -> SealAccount:
    """Seals the journals of this node's dead processes into `run_dir`.

    env: may set TAILRACE_JOURNAL_DIR. Raises CoreError when the journals can't be looked through.
    """
    return cast(SealAccount, _native.seal_journals(run_dir, environment.journal_directory(env)))


class NodeSealer:
    """Seals what a run's processes on this node hand over, from now until `finish`, in a thread of the lowest priority.

    Without one, where this process is traced itself or `env` traces nothing, the processes seal for themselves.
    """

    def __init__(self, run_dir: Path, env: Mapping[str, str]) -> None:
        self._run_dir, self._env = run_dir, env
        # The I/O of a thread beside the program's would be missing in the trace of a traced launcher.
        possible = "TAILRACE_RUN" in env and not context.active()
        self._sealer = _native.Sealer(run_dir, environment.journal_directory(env)) if possible else None

    def finish(self) -> SealAccount:
        """Ends the thread, and seals as `seal` does; its counts are of all that was sealed."""
        if self._sealer is None:
            return seal(self._run_dir, self._env)
        return cast(SealAccount, self._sealer.finish())


def journals(run_dir: Path, env: Mapping[str, str] | None = None) -> list[Path]:
    """This user's journals of `run_dir` on this node."""
    found: list[Path] = []
    for place in environment.journal_directories(run_dir, env):
        # In a user namespace the number may be another user's, whose folder it is then.
        with suppress(PermissionError):
            found += place.glob("*.tj")
    return found


def pids_of(paths: Iterable[Path]) -> set[int]:
    """The processes of these journals, without this process and its ancestors."""
    return _native.processes_of([path.name for path in paths])


def unsealed_pids(run_dir: Path, env: Mapping[str, str] | None = None) -> set[int]:
    """This node's processes with an unsealed journal of `run_dir`, without this process and its ancestors."""
    return pids_of(journals(run_dir, env))


def run_command(command: Sequence[str], env: Mapping[str, str], run_dir: Path | None = None) -> int:
    """Runs `command`, found by PATH, and forwards our signals to it; returns its exit code in the shell's convention.

    run_dir: receives the byte accounting of the command (docs/trace-format.md, "accounts").
    """
    return _native.run_command(command, env, run_dir)
