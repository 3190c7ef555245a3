"""Run directories: creates or opens them and describes the run in run.json (schemas/run.schema.json).

Invariants: run.json is complete at every moment: it is published by link or rename, never written in place. A later
run in the same directory, and a host on which a plugin starts workers, only add an object to `restarts`. The Flux
shell plugin writes the same file (flux-plugin/rundir.cc).
"""

import ctypes
import errno
import fcntl
import json
import os
import platform
import pwd
import re
import shutil
import socket
import stat
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import tailrace
from tailrace import _native
from tailrace.errors import NotARunError, RunError, TailraceError, TraceError, UsageError
from tailrace.integrations import environment, launcher
from tailrace.integrations.messages import say

FORMAT = 1
DESCRIPTION = "run.json"
_SUBDIRECTORIES = ("trace", "declared")
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)  # errors of a file system without hard links


def open_run_directory(path: str | Path, command: Sequence[str], tags: str = "") -> Path:
    """Creates the run directory `path`, or opens it for a further run, and describes this run in its run.json.

    command: the traced command line; tags: canonical string. Returns the absolute path with links resolved.
    Raises UsageError when the directory can't be created or written, or contains something other than a run.
    """
    directory = Path(path).expanduser()
    try:
        str(directory).encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{str(path)!r} is not UTF-8: give a run directory whose path is") from error
    try:
        directory = directory.absolute()
        _make_directories(directory)
        directory = directory.resolve()
        _check_owner(directory)
        began = time.time_ns()
        # In this order: a run that starts at the same time creates trace/ first.
        if any(directory.iterdir()) and not is_run_directory(directory):
            raise UsageError(f"{directory} is neither empty nor a run directory: give a new or an empty one")
        is_new = not is_run_directory(directory)
        for name in _SUBDIRECTORIES:
            (directory / name).mkdir(mode=0o700, exist_ok=True)
        for name in (*_SUBDIRECTORIES, "accounts"):
            if os.path.lexists(directory / name):
                _check_owner(directory / name)
        if is_new:
            _drop_leftovers(directory, began)
        describe_run(directory, command, tags)
    except FileExistsError as error:
        raise UsageError(f"{error.filename} is not a directory: give a new or empty one, or a run") from error
    except OSError as error:
        raise UsageError(f"can't use {directory} as a run directory: {error.strerror or error}") from error
    return directory


def _make_directories(directory: Path) -> None:
    """Makes the directory, and those above it that are missing, for this user alone, whatever the umask."""
    for path in (*reversed(directory.parents), directory):
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
    if not directory.is_dir():
        raise FileExistsError(errno.EEXIST, "it is not a directory", str(directory))


def _check_owner(directory: Path) -> None:
    """Raises UsageError for a directory in which another user may replace files, or a link to one."""
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise FileExistsError(errno.EEXIST, "it is not a directory", str(directory))
    if status.st_uid != os.geteuid():
        raise UsageError(f"{directory} belongs to user {status.st_uid}: give a new directory, or one of your own")
    # A group of the user's own has no other member (useradd(8), USERGROUPS_ENAB).
    others = stat.S_IWOTH | (0 if status.st_gid == os.getegid() == os.geteuid() else stat.S_IWGRP)
    if status.st_mode & others:
        raise UsageError(f"other users may write to {directory}: give another one, or `chmod go-w {directory}`")


def _drop_leftovers(directory: Path, began: int) -> None:
    """Drops journals on this node of an earlier, killed run of the same path, whose directory was removed.

    Journals are found by the run's path, so they would count as the new run's, which began after `began`, ns.
    """
    # If they can't be sealed now, they can't be later.
    with suppress(TailraceError, OSError, RuntimeError):
        launcher.seal(directory)
    dropped: set[tuple[str, ...]] = set()
    for file in (directory / "trace").glob("*.pfw.gz"):
        with suppress(ValueError, TraceError):  # of no process of ours
            found = launcher.processes_in(file)
            if found and all(int(start, 16) < began for *_, start in found):
                file.unlink(missing_ok=True)
                dropped |= found
    if dropped:
        shutil.rmtree(directory / "manifest", ignore_errors=True)
        processes = "a process" if len(dropped) == 1 else f"{len(dropped)} processes"
        say(f"dropped the unsealed events of {processes} of an earlier run in {directory}, which was removed")


def is_run_directory(directory: Path) -> bool:
    """Whether `directory` is a run (has a run.json or a trace folder)."""
    return (directory / DESCRIPTION).is_file() or (directory / "trace").is_dir()


def existing_run_directory(path: str | Path) -> Path:
    """The absolute path of an existing run, links resolved. Raises NotARunError."""
    directory = Path(path).expanduser().absolute()
    if not directory.is_dir():
        raise NotARunError(f"{directory} is not a directory: give one that `tailrace run` or a plugin wrote")
    if not is_run_directory(directory):
        raise NotARunError(f"{directory} is not a run directory: it has neither {DESCRIPTION} nor trace/")
    return directory.resolve()


def default_run_directory(command: Sequence[str], parent: str | Path = "tailrace-runs") -> Path:
    """An unused directory: `tailrace-runs/<local time>-<program>`, with a number appended if needed.

    Raises UsageError where `parent` is another user's, who could replace the run at any time.
    """
    _check_parent(Path(parent))
    program = re.sub(r"[^A-Za-z0-9._]", "_", Path(command[0]).name)[:40] if command else "run"
    stem = Path(parent) / f"{time.strftime('%Y%m%d-%H%M%S')}-{program}"
    candidate, number = stem, 1
    while candidate.exists():
        number += 1
        candidate = stem.with_name(f"{stem.name}-{number}")
    return candidate


def _check_parent(parent: Path) -> None:
    """A directory for runs that nobody named may be another user's trap; root's is a site's choice."""
    try:
        found, target = parent.lstat(), parent.stat()
    except OSError:
        return  # it is made
    for status in (found, target):
        if status.st_uid not in (os.geteuid(), 0):
            raise UsageError(f"{parent} belongs to user {status.st_uid}: give the run's directory with -o")
    if target.st_mode & stat.S_IWOTH and not target.st_mode & stat.S_ISVTX:
        raise UsageError(f"other users may replace what is in {parent}: give the run's directory with -o")


def describe_run(directory: Path, command: Sequence[str], tags: str = "") -> None:
    """Writes run.json, or adds this run to the `restarts` of an existing one. Raises OSError, RunError."""
    description = _description(command, tags)
    path = directory / DESCRIPTION
    scratch = _write_scratch(directory, {"format": FORMAT, **description, "restarts": []})
    try:
        # link() fails if the name exists: of two runs that start together, one describes, the other restarts.
        os.link(scratch, path)
    except FileExistsError:
        _add_restart(directory, lambda known: description)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def describe_host(directory: Path, command: Sequence[str], tags: str = "") -> None:
    """Adds this host (mounts, kernel, clock error) to run.json unless present. Raises OSError, RunError."""
    host = socket.gethostname()

    def unless_known(known: dict[str, Any]) -> dict[str, Any] | None:
        described = (known, *known.get("restarts", []))
        hosts = {one.get("host") for one in described if isinstance(one, dict)}
        return None if host in hosts else _description(command, tags)

    _add_restart(directory, unless_known)


def _add_restart(directory: Path, restart: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
    from tailrace.analyzer.util import ownership

    path = directory / DESCRIPTION
    with locked(directory):
        try:
            known = json.loads(ownership.read_regular(path, ownership.JSON_LIMIT))
        except (RecursionError, ValueError) as error:
            raise RunError(f"{path} is not JSON ({error}): repair it or give another run directory") from error
        if not isinstance(known, dict) or not isinstance(known.get("restarts", []), list):
            raise RunError(f"{path} does not describe a run: repair it or give another run directory")
        added = restart(known)
        if added is not None:
            known.setdefault("restarts", []).append(added)
            _write_scratch(directory, known).replace(path)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Locks the run directory, if its file system supports that. Raises OSError when it can't be opened."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # Some network file systems can't lock directories; then one of two simultaneous restarts may be lost.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write_scratch(directory: Path, content: dict[str, Any]) -> Path:
    scratch = directory / f".{DESCRIPTION}.{uuid.uuid4().hex}"
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    try:
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except OSError:
        scratch.unlink(missing_ok=True)
        raise
    return scratch


def _description(command: Sequence[str], tags: str) -> dict[str, Any]:
    return {
        "run_id": uuid.uuid4().hex,
        "created": datetime.now(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "command": _redacted(command),
        "cwd": _working_directory(),
        "tags": tags,
        "user": _user_name(),
        "uid": os.getuid(),
        "host": socket.gethostname(),
        "kernel": platform.release(),
        "boot_id": boot_id(),
        "cpu": {"model": _cpu_model(), "count": os.cpu_count() or 1},
        "clock_error_ns": clock_error_ns(),
        "versions": {"tailrace": tailrace.__version__, "python": platform.python_version()},
        "mounts": mounts(),
        **_chosen_journal_directory(),
        **_batch_job(),
    }


_BATCH = {
    "slurm": ("SLURM_JOB_ID", "SLURM_JOB_ACCOUNT", "SLURM_JOB_PARTITION"),
    "pbs": ("PBS_JOBID", "PBS_ACCOUNT", "PBS_QUEUE"),
    "lsf": ("LSB_JOBID", "LSB_PROJECT_NAME", "LSB_QUEUE"),
    "flux": ("FLUX_JOB_ID", "", ""),
}
"""Batch system -> its variables with the job, the account and the queue; "" where it has none."""


def _batch_job() -> dict[str, dict[str, str]]:
    """The job of the batch system in which this process runs; the innermost where Flux runs in another's."""
    for system in ("flux", "slurm", "pbs", "lsf"):
        values = [os.environ.get(name, "") if name else "" for name in _BATCH[system]]
        if values[0]:
            names = ("job", "account", "queue")
            return {"batch": {"system": system, **{n: v for n, v in zip(names, values, strict=True) if v}}}
    return {}


def _chosen_journal_directory() -> dict[str, str]:
    """So that a later command on this node finds the journals without the setting."""
    chosen = environment.journal_directory()
    return {"journal_dir": chosen} if chosen != environment.default_journal_directory() else {}


def _redacted(command: Sequence[str]) -> list[str]:
    """The command line without the secrets in it, as the core records those of processes (TAILRACE_REDACT)."""
    words = _native.redact([os.fsencode(word) for word in command], os.environ.get("TAILRACE_REDACT", ""))
    return [os.fsdecode(word) for word in words]


def _working_directory() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return ""  # removed, or outside of a changed root


def boot_id() -> str | None:
    """The id of the running kernel, equal in all of its containers; random(4)."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _cpu_model(cpuinfo: str = "/proc/cpuinfo") -> str:
    with suppress(OSError):
        for line in Path(cpuinfo).read_text(errors="replace").splitlines():
            key, _, value = line.partition(":")
            # The keys of x86, POWER and RISC-V; ARM's kernel has numbers only.
            if key.strip() in ("model name", "cpu", "uarch"):
                return value.strip()
    return platform.machine()


def mounts(mountinfo: str | Path = "/proc/self/mountinfo") -> list[dict[str, str]]:
    """The mounts of this process: dicts of `dev` ("major:minor"), `source`, `root`, `point`, `fstype`. See proc(5)."""
    found = []
    for line in os.fsdecode(Path(mountinfo).read_bytes()).splitlines():
        mount, separator, filesystem = line.partition(" - ")
        fields, behind = mount.split(" "), filesystem.split(" ")
        if separator and len(fields) >= 6 and len(behind) >= 2:
            found.append(
                {
                    "dev": fields[2],
                    "source": _unescape(behind[1]),
                    "root": _unescape(fields[3]),
                    "point": _unescape(fields[4]),
                    "fstype": behind[0],
                }
            )
    return found


def _unescape(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


class _Timex(ctypes.Structure):
    """The head of struct timex (adjtimex(2)); `rest` is space for the fields behind."""

    _fields_ = [  # noqa: RUF012 (ctypes reads it from the class)
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 512),
    ]


def clock_error_ns() -> int | None:
    """The kernel's bound on this host's clock error in ns (adjtimex(2)); None when the clock is not synchronized."""
    unsynchronized = 0x40  # STA_UNSYNC
    timex = _Timex()
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex))
    except AttributeError:
        return None
    if state < 0 or timex.status & unsynchronized:
        return None
    return int(timex.maxerror) * 1000


def command_line() -> list[str]:
    """The command line of this Python program, for `describe_run`."""
    return list(sys.orig_argv)
