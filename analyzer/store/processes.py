"""The identity of a process: host, pid and start.

A pid is reused: when the kernel's counter wraps, after a reboot, and in every pid namespace under one host name
(containers, `unshare -p`). `start`, the time at which tracing of the process began, tells its processes apart. Every
trace file has it in its name (docs/trace-format.md); execve keeps it, and a forked child has another one. A process
that changed its user and executes another program is two processes of one pid, since the program can't continue the
first one's trace file.

Reports show host and pid: `node1:7`. From the second process with a pid on they add its number: `node1:7#2`. Traces of
other tools have no start: "".

`start` is a column of events, one text a block. Rejected: an actor code for each block, a byte a row less, which only
our own reader could make.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tailrace.analyzer.util import grouping
from tailrace.analyzer.util.lazy import lazy
from tailrace.analyzer.util.types import Ints

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
else:
    np = lazy("numpy")
    pd = lazy("pandas")

PROCESS = ["host", "pid", "start"]
Process = tuple[str, int, str]
"""(host, pid, start)."""


class SignalEnd(NamedTuple):
    """The end of a process by a signal. tasks: the (workflow, task) of all that it did; task None: outside of tasks;
    process: host, pid, start."""

    signal: int
    tasks: Collection[tuple[str, str | None]]
    process: Process = ("", 0, "")


def keys(frame: pd.DataFrame) -> list[Process]:
    """The process of each row of a frame with the columns `PROCESS`; start may be missing or null: ""."""
    size = len(frame)
    starts = frame["start"].tolist() if "start" in frame else [""] * size
    texts = (start if isinstance(start, str) else "" for start in starts)
    hosts, pids = frame["host"].astype(str).tolist(), frame["pid"].astype(int).tolist()
    return list(zip(hosts, pids, texts, strict=True))


def numbers(frame: pd.DataFrame, columns: Sequence[str] = PROCESS) -> Ints:
    """Dense codes, in order of first appearance, of the processes of a frame with the columns `PROCESS`."""
    return grouping.numbered(grouping.pack(*(frame[name].to_numpy() for name in columns)))[0]


def pid_uses(frame: pd.DataFrame) -> tuple[Ints, Ints]:
    """(pid_use, pid_uses) of each row of a frame with the columns `PROCESS`: the number of the process among those with
    its pid on its host, from 1 in the order of their starts; and how many of these the frame has."""
    place, process = numbers(frame, PROCESS[:2]), numbers(frame)
    of_place: list[set[str]] = [set() for _ in range(int(place.max(initial=-1)) + 1)]
    if int(process.max(initial=-1)) + 1 == len(of_place):
        return np.ones(len(frame), dtype=np.int64), np.ones(len(frame), dtype=np.int64)
    starts = frame["start"].tolist()
    for at, start in zip(place.tolist(), starts, strict=True):
        of_place[at].add(start)
    # Hexadecimal numbers without leading zeros: the longer one is the larger one.
    order = [
        {start: n for n, start in enumerate(sorted(of, key=lambda start: (len(start), start)), 1)} for of in of_place
    ]
    found = [(order[at][start], len(order[at])) for at, start in zip(place.tolist(), starts, strict=True)]
    table = np.array(found, dtype=np.int64)
    return table[:, 0], table[:, 1]


def count(frame: pd.DataFrame) -> int:
    """How many processes a frame with the columns `PROCESS` has."""
    return int(numbers(frame).max(initial=-1)) + 1


def pid_texts(frame: pd.DataFrame) -> list[str]:
    """The pid of each row of a frame with the columns `PROCESS` and `pid_use`; from the second process with a pid on
    with its number: `7#2`."""
    rows = zip(frame["pid"].tolist(), frame["pid_use"].tolist(), strict=True)
    return [f"{pid}#{pid_use}" if pid_use > 1 else str(pid) for pid, pid_use in rows]


def names(frame: pd.DataFrame) -> list[str]:
    """`pid_texts` with the host in front, where it is known."""
    rows = zip(frame["host"].tolist(), pid_texts(frame), strict=True)
    return [f"{host}:{pid}" if host else pid for host, pid in rows]
