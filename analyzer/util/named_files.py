"""Files that a run names: programs and libraries of call stacks, files of its events.

    may_open(run) / made_by_this_user(run)     whether names of the run are those of files at all
    open_named(path)                           the file, if it is one

A run may have been sent, and may name any path: a FIFO, whose opening waits; a device, whose opening acts; a file that
only its reader may read. So a name is looked at only in a run that this user made, and where nobody asked for the file,
on this host; what is opened is a regular file, and nothing else is even opened to find out. Whoever sends a run may
forge what it says of its maker. Therefore programs, which are parsed, must also be root's or this user's.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from tailrace import _native
from tailrace.base import ownership

_PATH_ONLY = os.O_PATH | os.O_CLOEXEC


def made_by_this_user(directory: str | os.PathLike[str], meta: Mapping[str, Any]) -> bool:
    """Whether the run's directory and its run.json say so. meta: what run.json has."""
    try:
        owner = os.lstat(directory).st_uid
    except OSError:
        return False
    return owner == os.geteuid() and meta.get("uid") == owner


def may_open(directory: str | os.PathLike[str]) -> bool:
    """Whether files that the run at this path names are looked at without being asked for: this user made it on this
    host, under whichever kernel."""
    return _may_open(Path(os.path.abspath(directory)))  # noqa: PTH100 (resolves no link)


@lru_cache(maxsize=1024)
def _may_open(run: Path) -> bool:
    meta = _described(run / "run.json")
    if not made_by_this_user(run, meta):
        return False
    restarts = meta.get("restarts")
    descriptions = [meta, *(one for one in (restarts if isinstance(restarts, list) else []) if isinstance(one, dict))]
    host, boot = os.uname().nodename, _native.boot_id()
    if any(one.get("host") == host or (boot is not None and one.get("boot_id") == boot) for one in descriptions):
        return True
    # Processes that no launcher started describe their host here (docs/trace-format.md, "Hosts").
    return _described(run / "hosts" / f"{re.sub('[^A-Za-z0-9._]', '_', host)}.json").get("host") == host


def _described(path: Path) -> Mapping[str, Any]:
    with suppress(OSError, ValueError, RecursionError):
        found = json.loads(ownership.read_regular(path, ownership.JSON_LIMIT))
        return found if isinstance(found, dict) else {}
    return {}


class NoFileError(OSError):
    """Something else than a regular file has the name. size: its bytes."""

    def __init__(self, size: int) -> None:
        super().__init__(None, "it is not a regular file")
        self.size = size


def open_named(path: str, *, trusted: bool = False, follow: bool = True) -> BinaryIO:
    """Opens a regular file.

    Args:
        trusted: only one that is root's or this user's and that nobody else may write to.
        follow: a link in its place.

    Raises:
        FileNotFoundError: there is none. OSError: it is no such file, or can't be read.
    """
    descriptor = os.open(path, _PATH_ONLY | (0 if follow else os.O_NOFOLLOW))
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise NoFileError(status.st_size)
        if trusted and not ownership.is_safe(status):
            raise OSError(None, f"user {status.st_uid} or others may write to it")
        # The same file, whatever has its name by now.
        readable = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    finally:
        os.close(descriptor)
    return os.fdopen(readable, "rb")
