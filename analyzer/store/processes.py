"""Which process: host, pid and start.

A pid comes again: when the kernel has gone round, after a reboot, and in every pid namespace under one host name
(containers, `unshare -p`). What stays one process's own is when it was first seen, `start`, which every trace file has
in its name (docs/trace-format.md): kept over execve, another one in a forked child. A process that changed its user and
executes another program is two processes of one pid, since the program can't go on with the first one's trace file.

People are shown host and pid, and with it which bearer of the pid it is where that isn't the first: `node1:7`,
`node1:7#2`. Traces of other tools have no start: "".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from tailrace.analyzer.util import grouping
from tailrace.analyzer.util.types import Ints

PROCESS = ["host", "pid", "start"]
Process = tuple[str, int, str]
"""(host, pid, start)."""


def keys(frame: pd.DataFrame) -> list[Process]:
    """The process of each row of a frame with the columns `PROCESS`; start may be missing or null: ""."""
    size = len(frame)
    starts = frame["start"].tolist() if "start" in frame else [""] * size
    texts = (start if isinstance(start, str) else "" for start in starts)
    hosts, pids = frame["host"].astype(str).tolist(), frame["pid"].astype(int).tolist()
    return list(zip(hosts, pids, texts, strict=True))


def numbers(frame: pd.DataFrame, columns: Sequence[str] = PROCESS) -> Ints:
    """Dense codes of the processes of a frame with the columns `PROCESS`, by first appearance."""
    return grouping.numbered(grouping.pack(*(frame[name].to_numpy() for name in columns)))[0]


def bearers(frame: pd.DataFrame) -> tuple[Ints, Ints]:
    """For each row of a frame with the columns `PROCESS`: which bearer of its pid on its host the process is, from 1 in
    the order of their starts, and how many there are in the frame."""
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
    """The pid of each row of a frame with the columns `PROCESS` and `bearer`; from the second bearer on with its
    number."""
    rows = zip(frame["pid"].tolist(), frame["bearer"].tolist(), strict=True)
    return [f"{pid}#{bearer}" if bearer > 1 else str(pid) for pid, bearer in rows]


def names(frame: pd.DataFrame) -> list[str]:
    """The same with the host in front, where it is known."""
    rows = zip(frame["host"].tolist(), pid_texts(frame), strict=True)
    return [f"{host}:{pid}" if host else pid for host, pid in rows]
