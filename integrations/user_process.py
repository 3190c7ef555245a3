"""Work that root does with the rights of one user alone: in a process that gives up all others for good.

Invariants: what that process tells is bounded in time and size, and so is its end: a process that has become a user can
be stopped by that user, and on a file system of that user's own (FUSE) it waits for him.
"""

import json
import os
import pwd
import select
import signal
import sys
import time
from collections.abc import Callable

END_S = 10
"""For the end of that process, once it has told its results, and again once it was killed."""
RESULT_BYTES = 64 << 20


class UserProcessError(Exception):
    """The process told no result; the text has the reason."""


def run_as(user: int, work: Callable[[], object], seconds: float) -> object:
    """What `work` returns (JSON), by a process with only that user's rights. Raises UserProcessError.

    seconds: for the work.
    """
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            become(user)
            result = work()
            with os.fdopen(writing, "w") as pipe:
                json.dump(result, pipe)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = _read_within(pipe.fileno(), seconds)
    status = _end(child, END_S if text is not None else 0)
    if text is not None and status == 0:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise UserProcessError("what it told is not readable") from None
    why = "killed, since its process did not end" if status == signal.SIGKILL else f"status {status}"
    if text is None:
        why = f"not done within {seconds:g} s"
    if status is None:
        why += f"; process {child} can't be ended, it waits for the kernel"
    raise UserProcessError(why)


def _end(child: int, seconds: float) -> int | None:
    """The wait status of a child that should end within `seconds`, and is killed then; None where even that has no
    effect."""
    for limit in (seconds, END_S):
        deadline = time.monotonic() + limit
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return status
            if time.monotonic() >= deadline:
                break
            time.sleep(0.01)
        os.kill(child, signal.SIGKILL)
    return None


def become(user: int) -> None:
    """Gives up all rights but those of the user, for good."""
    try:
        entry = pwd.getpwuid(user)
        os.initgroups(entry.pw_name, entry.pw_gid)
        group = entry.pw_gid
    except KeyError:
        os.setgroups([])
        group = user
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)
    os.umask(0o077)


def _read_within(descriptor: int, seconds: float) -> bytearray | None:
    """All bytes up to the end of a pipe; None when its end has not come in this time, or not within RESULT_BYTES."""
    deadline = time.monotonic() + seconds
    text = bytearray()
    while (left := deadline - time.monotonic()) > 0 and len(text) <= RESULT_BYTES:
        ready, _, _ = select.select([descriptor], [], [], left)
        if ready:
            part = os.read(descriptor, 1 << 16)
            if not part:
                return text
            text += part
    return None
