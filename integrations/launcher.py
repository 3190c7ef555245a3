"""Runs a command traced, as `tailrace run` does: preload the core, wait, seal the journals of dead processes, sum up.

Invariants: signals sent to this process reach the command; its exit code becomes ours; a fault of the tracer (missing
core, run directory removed) is a line on stderr and never keeps the command from running.
"""

import errno
import json
import operator
import os
import re
import shutil
import signal
import socket
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import time_ns
from typing import Any, TypedDict, cast

from tailrace import context
from tailrace.errors import TailraceError, TraceError
from tailrace.integrations import environment, manifest, programs
from tailrace.integrations.messages import say

NOT_EXECUTABLE = 126
NOT_FOUND = 127
_SIGNALLED = 128
_SHELL = "/bin/sh"
_BLOCKS_AT_ONCE = 4096
"""So many headers are held in memory at once."""
_READINGS = 100
"""Attempts to read two accounts while neither changes."""
_HEAD_BYTES = 256
"""A binary has a zero byte in its head, a script has none."""

# Passed on to the command. Not SIGTSTP and SIGCONT: the terminal stops and continues the whole process group.
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
    """What a run recorded. Bytes are those moved by calls, each byte once; lost: cause -> number of events; alive:
    processes that still run; without_journal: what kept a process from making one, as in its start event -> number of
    such processes, which recorded nothing; fault: why tailrace could not do its part."""

    events: int = 0
    processes: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    torn_bytes: int = 0
    alive: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    without_journal: Counter[str] = field(default_factory=Counter)
    fault: str | None = None


def run_traced(command: Sequence[str], run_dir: Path, tags: str = "") -> tuple[int, Summary]:
    """Runs `command` traced into `run_dir` (absolute, exists) with `tags` (canonical) and waits for it.

    Returns its exit code in the shell's convention (128+n for signal n, 127 not found, 126 not executable) and what
    this run recorded.
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
    sealer = NodeSealer(run_dir, env)
    with _held(run_dir) as is_there:
        code = run_command(command, env, run_dir, is_there, sealer)
        moved = not is_there()
    if moved:
        summary.fault = summary.fault or moved_message(run_dir)
        return code, summary
    try:
        account = sealer.finish()
        summary.lost.update(account["unrecorded_lost"])
        if account["failed"]:
            summary.fault = summary.fault or unsealed_message(account, run_dir)
        else:
            summary.alive = len(unsealed_pids(run_dir, env))
        add_blocks(summary, run_dir, before)
        manifest.add(run_dir, trace_sizes(run_dir))
    except (TailraceError, OSError, RuntimeError, ValueError) as error:
        summary.fault = summary.fault or f"the trace in {run_dir} is incomplete: {error}"
    return code, summary


@contextmanager
def _held(run_dir: Path) -> Iterator[Callable[[], bool]]:
    """Keeps the run directory open; the function tells whether it still has its name. Another one in its place may be
    another user's, who may write to the directory above."""
    try:
        descriptor = os.open(run_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield lambda: True  # sealing says what is wrong with it
        return
    held = os.fstat(descriptor)

    def is_there() -> bool:
        try:
            found = run_dir.lstat()
        except FileNotFoundError:
            # Renamed, unless it was removed (proc(5)).
            return str(Path(f"/proc/self/fd/{descriptor}").readlink()).endswith(" (deleted)")
        except OSError:
            return True
        return (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino)

    try:
        yield is_there
    finally:
        os.close(descriptor)


def moved_message(run_dir: Path) -> str:
    """What to do about a run directory that has another name."""
    return (
        f"{run_dir} was renamed or replaced while the command ran, so that what was not written yet is not sealed: "
        f"give it its name back and run `tailrace seal {run_dir}`"
    )


class SealAccount(TypedDict):
    """The result of sealing.

    Journals: sealed_journals; alive: of running processes; failed, with their failed_events. Events: sealed in
    events; unrecorded_lost: cause -> losses that no block records.
    """

    sealed_journals: int
    alive: int
    failed: int
    failed_events: int
    events: int
    unrecorded_lost: dict[str, int]


def unsealed_message(account: SealAccount, run_dir: Path) -> str:
    """A sentence on the journals that could not be sealed, and what to do."""
    return (
        f"{account['failed_events']} events of {account['failed']} journals are unsealed on this node, because "
        f"{run_dir} is not writable: make room and run `tailrace seal {run_dir}`"
    )


def seal(run_dir: Path, env: Mapping[str, str] | None = None) -> SealAccount:
    """Seals the journals of this node's dead processes into `run_dir`.

    env: may set TAILRACE_JOURNAL_DIR. Raises OSError, RuntimeError when `run_dir` can't be written.
    """
    from tailrace import _native

    with context.own_io():
        return cast(SealAccount, _native.seal_journals(str(run_dir), environment.journal_directory(env)))


class NodeSealer:
    """Seals what a run's processes on this node hand over, from now until `finish`, in a thread of the lowest priority.

    Without one, where this process is traced itself or `env` traces nothing, the processes seal for themselves.
    """

    def __init__(self, run_dir: Path, env: Mapping[str, str]) -> None:
        from tailrace import _native

        self._run_dir, self._env = run_dir, env
        # The I/O of a thread beside the program's would be missing in the trace of a traced launcher.
        possible = "TAILRACE_RUN" in env and not context.active()
        self._sealer = _native.Sealer(str(run_dir), environment.journal_directory(env)) if possible else None

    def finish(self) -> SealAccount:
        """Ends the thread, and seals as `seal` does; its counts are of all that was sealed."""
        if self._sealer is None:
            return seal(self._run_dir, self._env)
        return cast(SealAccount, self._sealer.finish())

    @property
    def thread(self) -> int:
        """The id of the thread; 0: there is none."""
        return self._sealer.thread_id if self._sealer is not None else 0


def journals(run_dir: Path, env: Mapping[str, str] | None = None) -> list[Path]:
    """This user's journals of `run_dir` on this node."""
    return [path for place in environment.journal_directories(run_dir, env) for path in place.glob("*.tj")]


def pids_of(paths: Iterable[Path]) -> set[int]:
    """The processes of these journals, without this process and its ancestors."""
    # In a journal's name, the host has no "-".
    named = (re.fullmatch(r"[^-]+-(\d+)-[^-]+", path.stem) for path in paths)
    return {int(match[1]) for match in named if match} - _ancestry()


def unsealed_pids(run_dir: Path, env: Mapping[str, str] | None = None) -> set[int]:
    """This node's processes with an unsealed journal of `run_dir`, without this process and its ancestors."""
    return pids_of(journals(run_dir, env))


def _ancestry() -> set[int]:
    """This process and its ancestors."""
    found, pid = set(), os.getpid()
    with suppress(OSError):  # hidepid (proc(5)) hides other users' processes
        while pid > 0:
            found.add(pid)
            # The parent's pid is the second field after the name in parentheses; the name may contain any character.
            pid = int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    return found


def trace_sizes(run_dir: Path) -> dict[Path, int]:
    """The current size of each trace file, for add_blocks()."""
    sizes = {}
    for path in sorted((run_dir / "trace").glob("*.pfw.gz")):
        with suppress(OSError):  # removed meanwhile
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                sizes[path] = status.st_size
    return sizes


def add_blocks(summary: Summary, run_dir: Path, before: Mapping[Path, int]) -> None:
    """Adds to `summary` the blocks appended since `before` (trace_sizes()). Raises TraceError for a damaged header."""
    from tailrace import _native

    processes: set[tuple[str, int, str]] = set()
    for path, size in trace_sizes(run_dir).items():
        start = before.get(path, 0)
        if size == before.get(path):
            continue
        found_any = False
        while True:
            with context.own_io():
                blocks, torn_bytes, _, _ = _native.scan_blocks(str(path), start, _BLOCKS_AT_ONCE)
            summary.torn_bytes += torn_bytes
            found_any = found_any or bool(blocks)
            for _, _, text in blocks:
                try:
                    processes.add(_add_header(summary, json.loads(text)))
                except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
                    raise TraceError(f"{path}: the header of a block is damaged: {error}") from error
            if len(blocks) < _BLOCKS_AT_ONCE:
                break
            start = blocks[-1][0] + blocks[-1][1]
        # A process's own file without a readable block is a process, too.
        summary.processes += not found_any and path.name.count("-") == 2
    summary.processes += len(processes)


def processes_in(trace_file: Path) -> set[tuple[str, ...]]:
    """(host, pid, start) of the processes with blocks in a trace file; by its name where that is one process's. Raises
    TraceError."""
    from tailrace import _native

    fields = trace_file.name.removesuffix(".pfw.gz").split("-")
    if len(fields) == 3:
        return {tuple(fields)}
    found: set[tuple[str, ...]] = set()
    start = 0
    while blocks := _native.scan_blocks(str(trace_file), start, _BLOCKS_AT_ONCE)[0]:
        for _, _, text in blocks:
            with suppress(AttributeError, KeyError, RecursionError, TypeError, ValueError):
                header = json.loads(text)
                found.add((str(header["host"]), str(header["pid"]), str(header["start"])))
        start = blocks[-1][0] + blocks[-1][1]
    return found


def _add_header(summary: Summary, header: dict[str, Any]) -> tuple[str, int, str]:
    """Returns the block's process. Raises AttributeError, KeyError, TypeError for a header that is not the core's: a
    traced program may write into its run."""
    totals, stood_for = header.get("totals", (0, 0))
    summary.events += operator.index(header["events"]) - operator.index(totals) + operator.index(stood_for)
    summary.read_bytes += operator.index(header["read"])
    summary.written_bytes += operator.index(header["written"])
    summary.lost.update({str(cause): operator.index(count) for cause, count in header.get("lost", {}).items()})
    if fact := header.get("process", {}).get("no_journal"):
        summary.without_journal[json.dumps(fact)] += 1
    return str(header["host"]), operator.index(header["pid"]), str(header["start"])


def run_command(
    command: Sequence[str],
    env: Mapping[str, str],
    run_dir: Path | None = None,
    is_there: Callable[[], bool] = lambda: True,
    sealer: NodeSealer | None = None,
) -> int:
    """Runs `command`, found by PATH, and forwards our signals to it; returns its exit code in the shell's convention.

    run_dir: receives the byte accounting of the command (docs/trace-format.md, "accounts"), if it `is_there`.
    """
    watched = {*_FORWARDED, signal.SIGCHLD}
    filters = seccomp_filters()
    if filters is not None and "TAILRACE_RUN" in env:
        # A traced process under more filters than these avoids system calls that a filter may forbid
        # (core/src/session/session.cc).
        env = {**env, "TAILRACE_PROCESS": f"{filters}:{os.geteuid()}"}
    # The caller may ignore SIGCHLD; then the kernel keeps no exit status.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    try:
        pid = _spawn(command, dict(env), mask)
        status, account = _wait(pid, watched, sealer)
        if account is not None and run_dir is not None and is_there():
            write_account(run_dir, pid, status, account, command[0])
        return exit_code(status)
    except FileNotFoundError:
        say(f"{command[0]}: command not found")
        return NOT_FOUND
    except OSError as error:
        say(f"{command[0]}: {error.strerror or error}")
        return NOT_EXECUTABLE
    finally:
        for number in signal.sigpending() & watched:
            # Arrived after the command's end: discard it, sealing is still to come.
            signal.sigwait({number})
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _spawn(command: Sequence[str], env: dict[str, str], mask: Iterable[int]) -> int:
    """Starts the command with the signal mask `mask`; returns its pid. Raises OSError."""
    # Python ignores these two; the command gets the defaults.
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
        # The shell runs a text without "#!", as in execvp(3).
        words = [_SHELL, script, *command[1:]]
        return os.posix_spawn(_SHELL, words, env, setsigmask=mask, setsigdef=found)


def seccomp_filters() -> int | None:
    """The number of seccomp filters of this process; before Linux 5.9 the mode, 0 or 2; None where /proc is silent."""
    with suppress(OSError):
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        found = dict(re.findall(r"^(Seccomp(?:_filters)?):\s*(\d+)$", status, re.MULTILINE))
        count = found.get("Seccomp_filters", found.get("Seccomp"))
        return int(count) if count is not None else None
    return None


def exit_code(status: int) -> int:
    """A wait status as a shell's exit code: 128+n after signal n."""
    code = os.waitstatus_to_exitcode(status)
    return _SIGNALLED - code if code < 0 else code


def _wait(pid: int, watched: set[signal.Signals], sealer: NodeSealer | None) -> tuple[int, tuple[int, int] | None]:
    """The command's wait status and byte accounting, once it has ended."""
    while True:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is not None:
            status, account = _take(ended.si_pid, sealer)
            if ended.si_pid != pid:
                continue  # an orphan that pool.py adopted
            return status, account
        received = signal.sigwaitinfo(watched)
        # A positive code is the kernel's: a Ctrl-C of the terminal reaches the command too, which is in our group.
        if received.si_signo != signal.SIGCHLD and received.si_code <= 0:
            os.kill(pid, received.si_signo)


def _take(pid: int, sealer: NodeSealer | None) -> tuple[int, tuple[int, int] | None]:
    """Reaps a dead child: its status; its rchar and wchar, None where the kernel does not reveal them."""
    if context.active():
        return os.waitpid(pid, 0)[1], None  # the core records the account in the trace
    found = context.kernel_account(pid)
    # Only root may read a zombie's account. For others it is what the wait adds to our own, without other threads.
    thread = sealer.thread if sealer is not None else 0
    before = _account_beside(thread) if found is None else None
    _, status = os.waitpid(pid, 0)
    after = _account_beside(thread) if before is not None else None
    if before is not None and after is not None:
        found = (after[0] - before[0] - before[2], after[1] - before[1], 0)
    return status, found[:2] if found is not None else None


def _account_beside(thread: int) -> tuple[int, int, int] | None:
    """rchar and wchar of this process, as of now and without those of the sealer's thread (0: there is none), and the
    bytes that this reading adds to them. None where they can't be read, or further threads have a part in them."""
    if Path("/proc/self/task").stat().st_nlink != 3 + (thread != 0):  # the threads, ".", ".."
        return None
    if not thread:
        return context.kernel_account("self")
    read = 0
    for _ in range(_READINGS):
        readings = [context.kernel_account(whose) for whose in (f"self/task/{thread}", "self", f"self/task/{thread}")]
        first, own, last = readings
        if first is None or own is None or last is None:
            return None
        at_begin = own[0] - first[0] - first[2] - read
        read += first[2] + own[2] + last[2]
        if first[:2] == last[:2]:
            return at_begin, own[1] - first[1], read
    return None


def write_account(run_dir: Path, pid: int, status: int, account: tuple[int, int], command: str) -> None:
    """Writes the byte accounting of a command to the run; on a failure the run has none for it."""
    host, ns = socket.gethostname(), time_ns()
    row = {"host": host, "pid": pid, "status": status, "rchar": account[0], "wchar": account[1], "ns": ns}
    if obstacle := programs.find_obstacle(command):
        row |= {"untraced": obstacle.word, "program": obstacle.program}
    with suppress(OSError):
        directory = run_dir / "accounts"
        directory.mkdir(mode=0o700, exist_ok=True)
        name = re.sub(r"[^A-Za-z0-9._]", "_", host)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(directory / f"{name}-{pid}-{ns:x}.json", flags, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
