"""The declared files of a run that may belong to another user: what `tailrace flux collect` reads and replaces.

The owner of a Flux instance, who may be root, collects into directories that guests have named and own. So a run is
opened once, by the descriptor of its directory, and everything below it relative to that:

    run        a directory of the user whose jobs are collected, in which nobody else may write
    declared   a directory, no link, of that user
    file       a regular file with one name, no link, of that user

Invariants: no link is followed below the run. Root acts as the run's owner meanwhile (seteuid(2)), so it reads and
writes nothing that he could not. No wait without an end: a guest may hold the lock of a run as long as he likes.
"""

import fcntl
import os
import pwd
import stat
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tailrace.errors import NotARunError, RunError
from tailrace.integrations import rundir

FOLDER = "declared"
LOCK_WAIT_S = 10.0
LARGEST_BYTES = 1 << 30
"""No history is longer: a job takes less than a thousand bytes."""
LONGEST = 16 << 20
"""Characters of a line: more is another line, and none that is valid."""
_NO_GROUP = 65534
_AS_FOUND = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class DeclaredFolder:
    """The open folder of the declared files of a run of the user `owner`."""

    def __init__(self, descriptor: int, path: Path, owner: int) -> None:
        self._descriptor = descriptor
        self._path = path
        self._owner = owner

    def lines(self, name: str) -> Iterator[str]:
        """The lines of a file; none when it does not exist. Raises OSError, RunError."""
        path = self._path / name
        try:
            descriptor = os.open(name, os.O_RDONLY | _AS_FOUND, dir_fd=self._descriptor)
        except FileNotFoundError:
            return
        except OSError as error:
            raise RunError(f"can't read {path}: {error.strerror}") from error
        with os.fdopen(descriptor, encoding="utf-8", errors="replace") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1 or not _may_have(found.st_uid, self._owner):
                raise RunError(f"{path} is no file of the run's owner alone: remove it")
            if found.st_size > LARGEST_BYTES:
                raise RunError(f"{path} is larger than any job history: remove it")
            while line := file.readline(LONGEST):
                yield line.rstrip("\n")

    def publish(self, name: str, lines: Iterable[str]) -> None:
        """Writes or atomically replaces a file. Raises OSError."""
        scratch = f".{name}.{uuid.uuid4().hex}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _AS_FOUND
        try:
            descriptor = os.open(scratch, flags, 0o600, dir_fd=self._descriptor)
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
                file.writelines(f"{line}\n" for line in lines)
            os.replace(scratch, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(scratch, dir_fd=self._descriptor)


def owner_of(run: Path) -> int:
    """The user id of a run's directory; `run` has no links. Raises NotARunError."""
    try:
        found = os.lstat(run)
    except (OSError, ValueError) as error:
        raise NotARunError(f"{run} can't be opened: {error}") from error
    if not stat.S_ISDIR(found.st_mode):
        raise NotARunError(f"{run} is not a directory")
    return found.st_uid


@contextmanager
def opened(run: Path, owner: int) -> Iterator[DeclaredFolder]:
    """Locks the run `run` of the user `owner`, a path without links, and opens its declared files; creates their folder
    if needed.

    Raises RunError when something on the way to it is a link, belongs to another user, or can't be used.
    """
    with _as_owner(owner), _opened_run(run, owner) as run_descriptor:
        _lock(run_descriptor, run)
        path = run / FOLDER
        try:
            with suppress(FileExistsError):
                os.mkdir(FOLDER, 0o700, dir_fd=run_descriptor)
            descriptor = os.open(FOLDER, os.O_RDONLY | os.O_DIRECTORY | _AS_FOUND, dir_fd=run_descriptor)
        except OSError as error:
            raise RunError(f"can't use {path}: {error.strerror}") from error
        try:
            _check(descriptor, path, owner)
            yield DeclaredFolder(descriptor, path, owner)
        finally:
            os.close(descriptor)


@contextmanager
def _opened_run(run: Path, owner: int) -> Iterator[int]:
    try:
        descriptor = os.open(run, os.O_RDONLY | os.O_DIRECTORY | _AS_FOUND)
    except OSError as error:
        raise NotARunError(f"{run} can't be opened: {error.strerror}") from error
    try:
        if not _is_run(descriptor):
            raise NotARunError(f"{run} is not a run directory: it has neither {rundir.DESCRIPTION} nor trace/")
        _check(descriptor, run, owner)
        yield descriptor
    finally:
        os.close(descriptor)


def _check(descriptor: int, path: Path, owner: int) -> None:
    found = os.fstat(descriptor)
    if found.st_uid != owner:
        raise RunError(f"{path} belongs to user {found.st_uid}, not to {owner}, whose run this is")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise RunError(f"others may write to {path}: `chmod go-w {path}`")


def _is_run(descriptor: int) -> bool:
    kinds = ((rundir.DESCRIPTION, stat.S_ISREG), ("trace", stat.S_ISDIR))
    for name, is_kind in kinds:
        with suppress(OSError):
            if is_kind(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                return True
    return False


def _lock(descriptor: int, run: Path) -> None:
    end = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if time.monotonic() > end:
                raise RunError(f"{run} is locked by another process: collect again later") from error
            time.sleep(0.05)
        except OSError:
            return  # Some network file systems can't lock directories; then one of two simultaneous collects wins.


def _may_have(user: int, owner: int) -> bool:
    return user in (owner, os.geteuid())


@contextmanager
def _as_owner(owner: int) -> Iterator[None]:
    """Root as `owner`: for this process, with all its threads."""
    if os.geteuid() != 0 or owner == 0:
        yield
        return
    groups, group = os.getgroups(), os.getegid()
    try:
        os.setgroups([])
        os.setegid(_group_of(owner))
        os.seteuid(owner)
        yield
    finally:
        os.seteuid(0)
        os.setegid(group)
        os.setgroups(groups)


def _group_of(user: int) -> int:
    try:
        return pwd.getpwuid(user).pw_gid
    except KeyError:
        return _NO_GROUP
