"""What is left of memory for this process, and readers' refusal to take more: a file of some kilobytes can promise, or
inflate to, any number of gigabytes.

Rejected: fixed limits, which refuse the large runs that the readers are made for, or fill a small machine.
"""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tailrace.errors import TraceError

_NO_LIMIT = 1 << 62
_SHARE = 2
"""One reader takes at most the half: tables are copied when they are joined, and readers run in parallel."""

_SMALL_JSON, _JSON_RATIO = 1 << 20, 24
"""An empty list in a list, "[],", takes 64 bytes."""


def left() -> int:
    """Bytes that this process can still take: the least of the kernel's estimate (proc(5), MemAvailable), its control
    groups' limits and its own (setrlimit(2), RLIMIT_AS). Very many where the kernel tells none of them."""
    return max(0, min([_NO_LIMIT, *_available(), *_of_groups(), *_of_limits()]))


class Budget:
    """The memory that reading one file takes, against what was left when it began."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._limit = left() // _SHARE
        self._taken = 0

    def take(self, count: int) -> None:
        """Counts `count` bytes more. Raises TraceError, with the file and the limit, where they are too many."""
        self._taken += count
        if self._taken > self._limit:
            raise TraceError(
                f"{self._path}: reading it takes more than {_megabytes(self._limit)}, half of the memory that is left: "
                "read it where there is more, or move it out of its folder"
            )


def check_json(path: str | os.PathLike[str], count: int) -> None:
    """Raises TraceError where a JSON text of `count` bytes, as Python's objects, may take more than there is."""
    if count > _SMALL_JSON:
        Budget(path).take(count * _JSON_RATIO)


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"


def _numbers(path: Path, pattern: str) -> list[int]:
    with suppress(OSError):
        found = re.search(pattern, path.read_text(encoding="ascii", errors="replace"), re.MULTILINE)
        return [int(found[1])] if found else []
    return []


def _available() -> list[int]:
    return [kilobytes << 10 for kilobytes in _numbers(Path("/proc/meminfo"), r"^MemAvailable:\s*(\d+) kB")]


def _of_groups(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> Iterator[int]:
    """What the limits of the process's group and of those above it leave (cgroup v2). Pages of files that the kernel
    can drop are not counted as taken."""
    with suppress(OSError):
        (name,) = re.findall(r"^0::(/.*)$", own.read_text(errors="replace"), re.MULTILINE)[:1] or [""]
        group = root / name.lstrip("/")
        for directory in (group, *group.parents):
            for limit in _numbers(directory / "memory.max", r"^(\d+)$"):
                used = _numbers(directory / "memory.current", r"^(\d+)$") or [0]
                cached = _numbers(directory / "memory.stat", r"^inactive_file (\d+)$") or [0]
                yield limit - used[0] + cached[0]
            if directory == root:
                break


def _of_limits() -> list[int]:
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY:
        return []
    pages = _numbers(Path("/proc/self/statm"), r"^(\d+)") or [0]
    return [soft - pages[0] * resource.getpagesize()]
