"""Whose a file is: what of a run is read and trusted, where other users may have put files (SECURITY.md)."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

JSON_LIMIT = 64 << 20
"""Bytes of a run.json or an account that are read; a run with 10,000 restarts has 20 MB."""
_ROOT = 0
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def is_private(status: os.stat_result) -> bool:
    """Whether the file or directory is this user's and nobody else may write to it."""
    return status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_WRITE


def is_safe(status: os.stat_result, of_link: bool = False) -> bool:
    """Whether nobody but this user and root may change the file, or in a directory put another one in one's place.
    of_link: the mode of a symbolic link means nothing."""
    replaceable = not of_link and status.st_mode & _OTHERS_WRITE and not status.st_mode & stat.S_ISVTX
    return status.st_uid in (os.geteuid(), _ROOT) and not replaceable


def obstacle(status: os.stat_result, owner: int) -> str:
    """Why a directory entry (of lstat) is not read as a file of the user `owner`; "" where it is.

    Root's count as everybody's, since root's launcher seals the journals of others.
    """
    if stat.S_ISLNK(status.st_mode):
        return "it is a symbolic link"
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file"
    if status.st_uid not in (owner, _ROOT):
        return f"it belongs to user {status.st_uid}, the run to user {owner}"
    # Where the kernel allows it (fs.protected_hardlinks = 0), the run's owner can link root's private files.
    if status.st_uid != owner and status.st_nlink > 1:
        return f"it is a hard link to a file of user {status.st_uid}, the run belongs to user {owner}"
    return ""


def open_regular(path: Path, limit: int) -> BinaryIO:
    """Opens a regular file of at most `limit` bytes; links are not followed, and a FIFO is not waited for.

    Raises OSError.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    file = os.fdopen(descriptor, "rb")
    status = os.fstat(descriptor)
    problem = "it is not a regular file" if not stat.S_ISREG(status.st_mode) else ""
    if not problem and status.st_size > limit:
        problem = f"it has {status.st_size:,} bytes, more than the {limit:,} that are read"
    if problem:
        file.close()
        raise OSError(None, problem)
    return file


def read_regular(path: Path, limit: int) -> bytes:
    """The content of a file, as `open_regular` opens it. Raises OSError."""
    with open_regular(path, limit) as file:
        return file.read(limit)


def private_cache() -> Path | None:
    """The user's directory of files that can be made again ($XDG_CACHE_HOME/tailrace); None where there is none that
    only this user may write to."""
    try:
        directory = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tailrace"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        private = is_private(directory.lstat())
        directory = directory.resolve()
        return directory if private and all(is_safe(above.stat()) for above in directory.parents) else None
    except (OSError, RuntimeError):
        return None


def give(path: Path, user: int, group: int, mode: int) -> None:
    """Gives a file or directory of this program's an owner, a group (-1: each as it is) and a mode, through a
    descriptor: what took its name's place keeps its own. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        now = os.fstat(descriptor)
        if user not in (-1, now.st_uid) or group not in (-1, now.st_gid):
            os.fchown(descriptor, user, group)
        os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)
