"""The slowest calls of a task, for its profile (task_profile.py).

Invariant: only the events of blocks that may hold calls of this task are read, and `SLOWEST` calls of
each partition are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.store import engine
from tailrace.analyzer.store.processes import PROCESS
from tailrace.analyzer.util.types import Row

SLOWEST = 10
_CALLS = ["name", "cat", "path", "ts", "dur", "size", "calls", "host", "pid"]


@dataclass(frozen=True)
class Call:
    """A call, times in ns; where `calls` of them have one line in the trace, their mean."""

    name: str
    category: str
    path: str | None
    begin_ns: int
    duration_ns: int
    calls: int
    bytes: int | None
    host: str
    pid: int


def slowest(run: AnalyzedRun, row: Row) -> list[Call]:
    """The slowest calls of a task, or of a process without one, the slowest first. row: its row of `Inputs.tasks`."""
    names = ("workflow", "task") if row["task"] else PROCESS
    where = {name: row[name] for name in names if name != "start" or row[name]}
    parts = [_Slowest(part) for part in run.parts(columns=_CALLS, **where)]
    frames = [frame for frame in engine.compute(parts) if len(frame)]
    if not frames:
        return []
    table = _ordered(pd.concat(frames, ignore_index=True))
    return [
        Call(
            name=str(one["name"]),
            category=str(one["cat"]),
            path=one["path"] if isinstance(one["path"], str) else None,
            begin_ns=int(one["ts"]),
            duration_ns=int(one["each"]),
            calls=int(one["calls"]),
            bytes=None if pd.isna(one["size"]) else int(one["size"]),
            host=str(one["host"]),
            pid=int(one["pid"]),
        )
        for one in table.head(SLOWEST).to_dict("records")
    ]


@dataclass(frozen=True)
class _Slowest:
    """Reads the slowest calls of a partition: a task of engine.py."""

    part: Any

    def __call__(self) -> pd.DataFrame:
        frame = self.part()
        calls = frame[~frame["cat"].isin(["PROCESS", "WAIT"]).to_numpy()]
        rows: pd.DataFrame = calls.assign(each=calls["dur"] // calls["calls"].clip(lower=1))
        rows = rows.nlargest(SLOWEST, "each", keep="all")
        texts: Sequence[str] = ("name", "cat", "path", "host")
        plain: pd.DataFrame = rows.assign(**{name: rows[name].astype(object) for name in texts})
        return _ordered(plain).head(SLOWEST)


def _ordered(rows: pd.DataFrame) -> pd.DataFrame:
    """Of calls that took as long, the earlier one first, and then by names: a trace's files come in any order."""
    keys = ["each", "ts", "host", "pid", "name", "path", "size", "calls"]
    return rows.sort_values(keys, ascending=[False, *[True] * (len(keys) - 1)])
