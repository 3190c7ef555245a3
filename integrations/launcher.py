"""Runs a command traced, as `tailrace run` does: put the core into it, wait, seal what its dead processes left, sum up.

What always holds: the command's fate is its own. It gets the signals that we get, our exit code is its exit code, and
a fault of the tracer (no core, a run directory that goes away) is a line on stderr, never a reason not to run it.
"""

import errno
import json
import os
import re
import shutil
import signal
import socket
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import time_ns
from typing import TypedDict, cast

from tailrace import context
from tailrace.errors import TailraceError
from tailrace.integrations import environment, programs

NOT_EXECUTABLE = 126
NOT_FOUND = 127
_SIGNALLED = 128
_SHELL = "/bin/sh"
_HEAD_BYTES = 256
"""Where a program has a zero byte, and a text has none."""

# Passed on to the command. Not SIGTSTP and SIGCONT: the terminal stops and continues the whole job by itself.
_FORWARDED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)


@dataclass
class Summary:
    """What a run recorded. Bytes are those moved by calls, each byte once; lost: cause -> number of events."""

    events: int = 0
    processes: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    torn_bytes: int = 0
    alive: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    fault: str | None = None


def run_traced(command: Sequence[str], run_dir: Path, tags: str = "") -> tuple[int, Summary]:
    """Runs `command` traced into `run_dir` (absolute, exists) with `tags` (canonical) and waits for it.

    Returns its exit code as a shell has it (128+n for signal n, 127 not found, 126 not executable) and what was
    recorded by this run; `Summary.fault` says what kept tailrace from doing its part.
    """
    summary = Summary()
    before = trace_sizes(run_dir)
    env: Mapping[str, str] = os.environ
    obstacle = programs.find_obstacle(command[0])
    if obstacle is not None:
        summary.fault = f"not traced: {obstacle.reason}"
    try:
        if obstacle is None or not obstacle.breaks:
            env = environment.task_environment(run_dir, tags)
    except TailraceError as error:
        summary.fault = f"not traced: {error}"
    code = run_command(command, env, run_dir)
    try:
        account = seal(run_dir, env)
        summary.lost.update(account["unrecorded_lost"])
        if account["failed"]:
            summary.fault = summary.fault or waiting(account, run_dir)
        else:
            summary.alive = len(unsealed_pids(run_dir, env))
        add_blocks(summary, run_dir, before)
    except (TailraceError, OSError, RuntimeError, ValueError) as error:
        summary.fault = summary.fault or f"the trace in {run_dir} is not whole: {error}"
    return code, summary


class SealAccount(TypedDict):
    """What sealing did.

    Journals: sealed, left to live processes, failed (with their events). Events: sealed; lost without a block that
    tells of it, by cause.
    """

    sealed_journals: int
    alive: int
    failed: int
    failed_events: int
    events: int
    unrecorded_lost: dict[str, int]


def waiting(account: SealAccount, run_dir: Path) -> str:
    """What to do about journals that could not be sealed, as a sentence."""
    return (
        f"{account['failed_events']} events of {account['failed']} journals wait on this node, as {run_dir} can't be "
        f"written to: do `tailrace seal {run_dir}` when it can"
    )


def seal(run_dir: Path, env: Mapping[str, str] | None = None) -> SealAccount:
    """Seals what this node's dead processes left in their journals into `run_dir`.

    env: where TAILRACE_JOURNAL_DIR may be set. Raises OSError, RuntimeError when `run_dir` can't be written.
    """
    from tailrace import _native

    with context.own_io():
        return cast(SealAccount, _native.seal_journals(str(run_dir), environment.journal_directory(env)))


def unsealed_pids(run_dir: Path, env: Mapping[str, str] | None = None) -> set[int]:
    """This node's processes with a journal of `run_dir`, alive or not sealed yet, but for us and those above us."""
    from tailrace import _native

    journals = Path(_native.journal_directory(str(run_dir), environment.journal_directory(env)))
    # A host's name has no "-" there.
    named = (re.fullmatch(r"[^-]+-(\d+)-[^-]+", path.stem) for path in journals.glob("*.tj"))
    return {int(match[1]) for match in named if match} - _own_line()


def _own_line() -> set[int]:
    found, pid = set(), os.getpid()
    with suppress(OSError):  # another user's process may be hidden from us (hidepid, proc(5)), and with it its parents
        while pid > 0:
            found.add(pid)
            # The parent's pid is the second field behind the name in parentheses; the name may hold anything.
            pid = int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    return found


def trace_sizes(run_dir: Path) -> dict[Path, int]:
    """The bytes of each trace file now, to tell later what a run has added."""
    sizes = {}
    for path in sorted((run_dir / "trace").glob("*.pfw.gz")):
        with suppress(FileNotFoundError):  # taken away meanwhile
            sizes[path] = path.stat().st_size
    return sizes


def add_blocks(summary: Summary, run_dir: Path, before: Mapping[Path, int]) -> None:
    """Adds to `summary` the blocks that were appended since `before` (trace_sizes())."""
    from tailrace import _native

    for path, size in trace_sizes(run_dir).items():
        if size == before.get(path):
            continue
        with context.own_io():
            blocks, torn_bytes, _, _ = _native.scan_blocks(str(path), before.get(path, 0))
        summary.processes += 1
        summary.torn_bytes += torn_bytes
        for header in (json.loads(text) for _, _, text in blocks):
            summary.events += header["events"]
            summary.read_bytes += header["read"]
            summary.written_bytes += header["written"]
            summary.lost.update(header.get("lost", {}))


def run_command(command: Sequence[str], env: Mapping[str, str], run_dir: Path | None = None) -> int:
    """Runs `command`, found by PATH, and passes on the signals that come for us; returns its exit code as a shell.

    run_dir: gets the kernel's account of the command (docs/trace-format.md, "accounts").
    """
    watched = {*_FORWARDED, signal.SIGCHLD}
    filters = seccomp_filters()
    if filters is not None and "TAILRACE_RUN" in env:
        # A process of ours that finds itself under more than these asks nothing of the kernel (core/src/session/session.cc).
        env = {**env, "TAILRACE_PROCESS": f"{filters}:{os.geteuid()}"}
    # A caller may have it ignored, and the kernel then keeps no exit status for us.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    try:
        pid = _spawn(command, dict(env), mask)
        return exit_code(_wait(pid, watched, run_dir, command[0]))
    except FileNotFoundError:
        print(f"tailrace: {command[0]}: command not found", file=sys.stderr)
        return NOT_FOUND
    except OSError as error:
        print(f"tailrace: {command[0]}: {error.strerror or error}", file=sys.stderr)
        return NOT_EXECUTABLE
    finally:
        for number in signal.sigpending() & watched:
            # It came after the command's end: too late for it, and we have yet to seal.
            signal.sigwait({number})
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _spawn(command: Sequence[str], env: dict[str, str], mask: Iterable[int]) -> int:
    """Starts the command with the signal mask `mask`; returns its pid. Raises OSError."""
    # Python ignores these two; the command is to find them as any program does.
    found = (signal.SIGPIPE, signal.SIGXFSZ)
    try:
        return os.posix_spawnp(command[0], list(command), env, setsigmask=mask, setsigdef=found)
    except OSError as error:
        script = shutil.which(command[0])
        if error.errno != errno.ENOEXEC or script is None:
            raise
        with Path(script).open("rb") as text:
            if b"\0" in text.read(_HEAD_BYTES):
                raise
        # A text without "#!" is the shell's, as shells and execvp(3) have it.
        words = [_SHELL, script, *command[1:]]
        return os.posix_spawn(_SHELL, words, env, setsigmask=mask, setsigdef=found)


def seccomp_filters() -> int | None:
    """How many seccomp filters this process is under; before Linux 5.9 the mode, 0 or 2. None: nobody says."""
    with suppress(OSError):
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        found = dict(re.findall(r"^(Seccomp(?:_filters)?):\s*(\d+)$", status, re.MULTILINE))
        count = found.get("Seccomp_filters", found.get("Seccomp"))
        return int(count) if count is not None else None
    return None


def exit_code(status: int) -> int:
    """A wait status as a shell's exit code: 128+n for a command that signal n ended."""
    code = os.waitstatus_to_exitcode(status)
    return _SIGNALLED - code if code < 0 else code


def _wait(pid: int, watched: set[signal.Signals], run_dir: Path | None, command: str) -> int:
    while True:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is not None:
            status, account = _take(ended.si_pid)
            if ended.si_pid != pid:
                continue  # an orphan that pool.py has adopted
            if account is not None and run_dir is not None:
                write_account(run_dir, pid, status, account, command)
            return status
        received = signal.sigwaitinfo(watched)
        # A positive code is the kernel's: the terminal's Ctrl-C has reached the command, which is in our group, too.
        if received.si_signo != signal.SIGCHLD and received.si_code <= 0:
            os.kill(pid, received.si_signo)


def _take(pid: int) -> tuple[int, tuple[int, int] | None]:
    """Takes a child that has ended: its status; its rchar and wchar, None where the kernel doesn't say."""
    if context.active():
        return os.waitpid(pid, 0)[1], None  # the core takes the account, and puts it into the trace
    found = context.kernel_account(pid)
    # Only root may look at a zombie. For others its account is what the wait adds to their own, if no thread does.
    alone = Path("/proc/self/task").stat().st_nlink == 3  # the thread, ".", ".."
    before = context.kernel_account("self") if found is None and alone else None
    _, status = os.waitpid(pid, 0)
    after = context.kernel_account("self") if before is not None else None
    if before is not None and after is not None:
        found = (after[0] - before[0] - before[2], after[1] - before[1], 0)
    return status, found[:2] if found is not None else None


def write_account(run_dir: Path, pid: int, status: int, account: tuple[int, int], command: str) -> None:
    """Puts what the kernel counted of a command into the run; where it can't, the run has no account of it."""
    host, ns = socket.gethostname(), time_ns()
    row = {"host": host, "pid": pid, "status": status, "rchar": account[0], "wchar": account[1], "ns": ns}
    if obstacle := programs.find_obstacle(command):
        row |= {"untraced": obstacle.word, "program": obstacle.program}
    with suppress(OSError):
        directory = run_dir / "accounts"
        directory.mkdir(exist_ok=True)
        name = re.sub(r"[^A-Za-z0-9._]", "_", host)
        (directory / f"{name}-{pid}-{ns:x}.json").write_text(json.dumps(row) + "\n")
