"""Work that root does with the rights of one user alone: in a process that gives up all others for good.

Invariants: what that process tells is bounded in time and size, and so is its end: a process that has become a user can
be stopped by that user, and on a file system of that user's own (FUSE) it waits for him.
"""

import os
import pwd
import signal
from collections.abc import Callable

from tailrace.base import child

END_S = 10
"""For the end of that process, once it has told its results, and again once it was killed."""


class UserProcessError(Exception):
    """The process told no result; the text has the reason."""


def run_as(user: int, work: Callable[[], object], seconds: float) -> object:
    """What `work` returns (JSON), by a process with only that user's rights. Raises UserProcessError.

    seconds: for the work.
    """

    def as_user() -> object:
        become(user)
        return work()

    ended = child.run(as_user, seconds, END_S)
    if ended.text is not None and ended.status == 0:
        try:
            return ended.result()
        except ValueError:
            raise UserProcessError("what it told is not readable") from None
    killed = ended.status == signal.SIGKILL
    why = "killed, since its process did not end" if killed else f"status {ended.status}"
    if ended.text is None:
        why = f"not done within {seconds:g} s"
    if ended.status is None:
        why += f"; process {ended.pid} can't be ended, it waits for the kernel"
    raise UserProcessError(why)


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
