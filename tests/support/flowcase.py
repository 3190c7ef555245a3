"""Stories for the dataflow tests: events written by hand, and a run that hands them out in partitions.

    story = Story()
    story.write("a.dat", 0, 100, stage="make", task="m1")
    run = story.run(partitions=3)

Each call is one event, 1 ms after the one before unless `at_ms` is given; a file's identity is its path with a
device and inode made up, until `rename` gives it another path. Nothing here is taken from the code under test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import event_fold
from tailrace.analyzer.edges.edge_table import EdgeTable
from tailrace.analyzer.store import ledger
from tailrace.analyzer.store.processes import Process, SignalEnd

T0_NS = 1_763_600_000_000_000_000
MS = 1_000_000
O_TRUNC_WRITE = 0o1101

STRINGS = (*event_fold.TEXTS, "job", "region", "object", "dims", "chunk", "slab")
INTEGERS = (
    *(name for name in event_fold.NUMBERS if name not in ("ts", "dur", "pid")),
    *("rank", "timeout_ns", "at_once", "holder"),
)


def empty(*columns: str) -> pd.DataFrame:
    """A table without rows."""
    return pd.DataFrame(columns=list(columns), dtype=object)


def frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Events as the loader gives them: strings and nullable integers, ts and dur int64."""
    out = {name: pd.Series([row.get(name) for row in rows], dtype="string") for name in STRINGS}
    out.update({name: pd.Series([row.get(name) for row in rows], dtype="Int64") for name in INTEGERS})
    for name in ("ts", "dur", "pid", "tid"):
        out[name] = pd.Series([row.get(name, 0) for row in rows], dtype=np.int64)
    return pd.DataFrame(out)


@dataclass(eq=False)
class FakeRun:
    """A run (`run_protocol.AnalyzedRun`) of events written by hand. Tables that a test doesn't give are empty."""

    rows: list[dict[str, Any]]
    partitions: int = 1
    processes: pd.DataFrame = field(default_factory=lambda: empty("host", "pid", "exe", "argv"))
    coverage: pd.DataFrame = field(default_factory=lambda: empty(*ledger.COLUMNS))
    losses: pd.DataFrame = field(default_factory=lambda: empty("file", "cause", "unit", "count", "problem"))
    lossy_processes: set[Process] = field(default_factory=set)
    process_clocks: dict[Process, int] = field(default_factory=dict)
    process_ranks: pd.DataFrame = field(default_factory=lambda: empty("host", "pid", "start", "rank", "world_size"))
    manager_processes: set[Process] = field(default_factory=set)
    own_processes: set[Process] = field(default_factory=set)
    declared_workflows: pd.DataFrame = field(default_factory=lambda: empty("workflow", "manager", "version"))
    declared_tasks: pd.DataFrame = field(default_factory=lambda: empty("workflow", "stage", "task", "name", "parent"))
    declared_tries: pd.DataFrame = field(
        default_factory=lambda: empty("workflow", "task", "try", "t_launch_ns", "t_end_ns", "status", "error")
    )
    command_ends: pd.DataFrame = field(default_factory=lambda: empty("host", "pid", "status", "end_ns"))
    signal_ends: list[SignalEnd] = field(default_factory=list)
    declared_deps: pd.DataFrame = field(default_factory=lambda: empty("workflow", "task", "dep", "via", "path"))
    declared_waits: pd.DataFrame = field(default_factory=lambda: empty("workflow", "task", "awaited", "after"))
    declared_files: pd.DataFrame = field(default_factory=lambda: empty("workflow", "task", "direction", "path"))
    meta: dict[str, Any] = field(default_factory=dict)
    path: Path = Path("/runs/story")
    has_regions: bool = False

    def stack_blocks(self) -> list[Any]:
        return []

    def info(self) -> dict[str, Any]:
        return {"t0_ns": min((row["ts"] for row in self.rows), default=None)}

    def edges(self) -> EdgeTable:
        return event_fold.build(self)

    def parts(self, columns: list[str] | None = None, **_: Any) -> list[Callable[[], pd.DataFrame]]:
        parts = [part for part in np.array_split(np.arange(len(self.rows)), self.partitions) if len(part)]
        frames = [frame([self.rows[i] for i in part]) for part in parts] or [frame([])]
        picked = [f[[c for c in columns if c in f]] if columns else f for f in frames]
        return [partial(pd.DataFrame.copy, one) for one in picked]


@dataclass
class Story:
    """Events in the order in which they are added."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    identities: dict[str, str] = field(default_factory=dict)
    files: int = 0
    now_ms: float = 0.0
    exes: dict[int, tuple[str, str]] = field(default_factory=dict)

    def event(self, name: str, path: str | None = None, at_ms: float | None = None, **values: Any) -> None:
        self.now_ms = self.now_ms + 1 if at_ms is None else at_ms
        row: dict[str, Any] = {
            "name": name,
            "cat": "POSIX",
            "host": "n1",
            "pid": 1,
            "workflow": "w",
            "dur": 1000,
            "ret": 0,
        }
        if path is not None:
            row.update(path=path, file=self.identity(path), ftype="reg")
        row.update(ts=T0_NS + round(self.now_ms * MS))
        row.update(values)
        row.setdefault("tid", row["pid"])
        self.rows.append(row)

    def identity(self, path: str) -> str:
        if path not in self.identities:
            self.files += 1
            self.identities[path] = f"8:1:{1000 + self.files}"
        return self.identities[path]

    def read(self, path: str, offset: int | None = 0, size: int = 100, **values: Any) -> None:
        self.event(values.pop("name", "read"), path, dir="r", offset=offset, size=size, count=size, **values)

    def write(self, path: str, offset: int | None = 0, size: int = 100, **values: Any) -> None:
        self.event(values.pop("name", "write"), path, dir="w", offset=offset, size=size, count=size, **values)

    def create(self, path: str, **values: Any) -> None:
        self.event("openat", path, flags=O_TRUNC_WRITE, fd=3, **values)

    def rename(self, old: str, new: str, **values: Any) -> None:
        identity = self.identity(old)
        self.event("rename", old, path2=new, file2=identity, **values)
        self.identities[new] = identity
        del self.identities[old]

    def process(self, pid: int, exe: str, argv: str = "") -> None:
        self.exes[pid] = (exe, argv)

    def run(self, partitions: int = 1, **values: Any) -> FakeRun:
        processes = pd.DataFrame(
            [{"host": "n1", "pid": p, "exe": e, "argv": a} for p, (e, a) in self.exes.items()],
            columns=["host", "pid", "exe", "argv"],
        )
        return FakeRun(self.rows, partitions, **{"processes": processes, **values})
