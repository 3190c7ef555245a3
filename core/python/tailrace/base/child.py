"""Work in a process of its own, which may crash, hang or be taken over by another user: what it tells is bounded.

    run(work, seconds) -> what `work` returns, as JSON over a pipe
    bounded(work, Limits) -> the same, or an OverLimitError: for what reads the files of others

Invariants: the result is bounded in time and in size, and so is the end of the process: it is killed when it does not
end, and given up when even that has no effect (it waits for the kernel). So a file of some kilobytes that promises, or
expands to, any number of gigabytes ends its own reading, and that of no other file.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tailrace.base import memory

RESULT_BYTES = 64 << 20
_END_S = 10
_LEAST_BYTES = 64 << 20


@dataclass(frozen=True)
class Limits:
    """What reading the files of others, of one run or workflow, may take. Never more memory than the half of what is
    left (memory.py)."""

    seconds: float = 60
    memory_bytes: int = 2 << 30
    result_bytes: int = RESULT_BYTES


class OverLimitError(Exception):
    """Work took more than its limits, or its process died of it. The text says what: "takes more than ..."."""


@dataclass(frozen=True)
class Ended:
    """How the process ended.

    Attributes:
        pid: which it was.
        text: what it told; None: not all of it within the time and size.
        status: its wait status; None: it can't be ended.
    """

    pid: int
    text: bytearray | None
    status: int | None

    def result(self) -> object:
        """What `work` returned. Raises ValueError where it told nothing that can be read."""
        try:
            return json.loads(self.text or b"")
        except RecursionError:
            raise ValueError("it is nested too deeply") from None


def bounded(work: Callable[[], object], limits: Limits) -> object:
    """What `work` returns, as JSON data. Raises OverLimitError."""
    most = max(min(limits.memory_bytes, memory.left() // 2), _LEAST_BYTES)

    def limited() -> object:
        limit_memory(most)
        try:
            return [work()]
        except MemoryError:
            return []

    ended = run(limited, limits.seconds, _END_S, limits.result_bytes)
    if ended.text is None:
        most_told = limits.result_bytes >> 20
        raise OverLimitError(f"takes more than {limits.seconds:g} s, or has more than {most_told:,} MiB to tell")
    try:
        found = ended.result()
    except ValueError:
        found = None
    if isinstance(found, list) and found:
        return found[0]
    if found == []:
        raise OverLimitError(f"takes more than {most >> 20:,} MiB of memory")
    raise OverLimitError(f"ended the process that read it (status {ended.status})")


def limit_memory(count: int) -> None:
    """This process takes at most `count` bytes more than it has."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + count
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def run(work: Callable[[], object], seconds: float | None, end_s: float, result_bytes: int = RESULT_BYTES) -> Ended:
    """Calls `work` in a child and waits for its end.

    Args:
        work: returns JSON data. What it raises is printed by nobody: it ends the child with status 1.
        seconds: for the work; None: as long as it takes.
        end_s: for the end of the child once it has told its result, and again once it was killed.
        result_bytes: at most, of the result.
    """
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            result = work()
            with os.fdopen(writing, "w") as pipe:
                json.dump(result, pipe)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = _read_within(pipe.fileno(), seconds, result_bytes)
    return Ended(child, text, _end(child, end_s if text is not None else 0, end_s))


def _end(child: int, seconds: float, killed_s: float) -> int | None:
    """The wait status of a child that should end within `seconds`, and is killed then; None where even that has no
    effect."""
    for limit in (seconds, killed_s):
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


def _read_within(descriptor: int, seconds: float | None, most: int) -> bytearray | None:
    """All bytes up to the end of a pipe; None when its end has not come in this time, or not within so many bytes."""
    deadline = None if seconds is None else time.monotonic() + seconds
    text = bytearray()
    # Not select(), which takes no descriptor from 1024 on.
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    while len(text) <= most:
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            return None
        if poll.poll(None if left is None else left * 1000):
            part = os.read(descriptor, 1 << 16)
            if not part:
                return text
            text += part
    return None
