"""The samples of a run's nodes and processes that its launchers took (`TAILRACE_SAMPLE`; docs/trace-format.md).

    <run>/samples/*.jsonl --read--> node, processes: sums as they were --rates--> what there was between two samples

Invariants: a line that can't be used is counted and the others are used. Samples are numbered, so a
missing one is seen; the rates over the gap are those of the longer time. A rate is of two samples of one file and, of
a process, of one process.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from tailrace.analyzer.store.layout import Layout, Source
from tailrace.analyzer.util.formatting import count_text
from tailrace.analyzer.util.lazy import lazy
from tailrace.base import ownership

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = lazy("pandas")

NODE = (
    *("processors", "user_ns", "system_ns", "idle_ns", "iowait_ns", "steal_ns", "switches", "running", "blocked"),
    *("memory_bytes", "available_bytes", "dirty_bytes", "writeback_bytes", "swapped_bytes"),
    *("cpu_some_ns", "cpu_full_ns", "memory_some_ns", "memory_full_ns", "io_some_ns", "io_full_ns"),
)
PROCESS = ("user_ns", "system_ns", "memory_bytes", "threads", "major_faults", "switches")
_SUMS = frozenset(
    {"user_ns", "system_ns", "idle_ns", "iowait_ns", "steal_ns", "switches", "major_faults"}
    | {name for name in NODE if name.endswith(("_some_ns", "_full_ns"))}
)
"""What grows; the others are as they were at the time."""
_FILE_LIMIT = 4 << 30
_LINE_LIMIT = 1 << 16


@dataclass(frozen=True)
class Samples:
    """The samples of a run; times are ns since the epoch.

    node: host, ts, file, n (number in its file), and NODE: processor time of the node since it was started (in ns, as
    fine as the kernel's tick), context switches, tasks that run and that wait for a disk, memory, and by resource the
    time in which some or all tasks waited for it (PSI). processes: host, pid, start (as in events), ts, file, n, and
    PROCESS. What a kernel doesn't tell is NA. problems: what is wrong with the files, in words.
    """

    node: pd.DataFrame
    processes: pd.DataFrame
    problems: list[str]

    def node_rates(self) -> pd.DataFrame:
        """A row for each two samples that follow each other: host, begin_ns, end_ns, and the columns of `node`: of sums
        their growth a second (of times in ns: a share of 1, or processors), of the others the later value."""
        return _rates(self.node, ["file"], ["host"])

    def process_rates(self) -> pd.DataFrame:
        """The same of processes: host, pid, start, begin_ns, end_ns, ..."""
        return _rates(self.processes, ["file", "pid", "start"], ["host", "pid", "start"])


def read(directory: Path) -> Samples:
    """The samples of the run in a directory; without rows where none were taken."""
    node: list[dict[str, Any]] = []
    processes: list[dict[str, Any]] = []
    problems: list[str] = []
    sources = Layout(directory, directory / "trace", directory).samples() if directory.is_dir() else []
    for source in sources:
        if source.obstacle:
            problems.append(f"{source.name}: not read: {source.obstacle}")
            continue
        try:
            with ownership.open_regular(source.path, _FILE_LIMIT) as file:
                problems += _read(file, source, node, processes)
        except (OSError, ValueError) as error:
            problems.append(f"{source.name}: not read: {error}")
    return Samples(_frame(node, ["host", "ts", "file", "n"], NODE), _processes(processes), problems)


def _read(file: BinaryIO, source: Source, node: list[dict[str, Any]], processes: list[dict[str, Any]]) -> list[str]:
    """Adds the rows of a file, and returns what is wrong with it."""
    damaged = missing = 0
    host, next_number = "", 0
    for line in iter(lambda: file.readline(_LINE_LIMIT), b""):
        if line == b"\n":
            continue
        row = _row(line)
        if row is None:
            damaged += 1
            continue
        kind, row["file"] = row.pop("name"), source.name
        if kind == "node":
            host = row["host"] = str(row.get("host", ""))
            missing += max(row["n"] - next_number, 0)
            next_number = row["n"] + 1
            node.append(row)
        else:
            processes.append({**row, "host": host})
    counts = ((damaged, "damaged line"), (missing, "missing sample"))
    return [f"{source.name}: {count_text(count, what)}" for count, what in counts if count]


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
        args = event["args"]
        row = {key: value for key, value in args.items() if key != "ns"}
        row |= {"name": str(event["name"]), "pid": int(event["pid"]), "ts": int(event["ts"]) * 1000 + int(args["ns"])}
        row["n"] = int(row["n"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    numbers = all(isinstance(row.get(key, 0), int) for key in (*NODE, *PROCESS))
    known = row["name"] == "node" or (row["name"] == "process" and isinstance(row.get("start"), str))
    return row if numbers and known and abs(row["ts"]) < 1 << 62 and 0 <= row["n"] < 1 << 62 else None


def _processes(rows: list[dict[str, Any]]) -> pd.DataFrame:
    return _frame(rows, ["host", "pid", "start", "ts", "file", "n"], PROCESS)


def _frame(rows: list[dict[str, Any]], names: list[str], values: tuple[str, ...]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=[*names, *values])
    for name in values:
        frame[name] = pd.array([_number(value) for value in frame[name]], dtype="Int64")
    whole = [name for name in ("ts", "n", "pid") if name in names]
    made: pd.DataFrame = frame.astype(dict.fromkeys(whole, "int64"))
    return made.sort_values("ts", kind="stable", ignore_index=True)


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and abs(value) < 1 << 62 else None


def _rates(frame: pd.DataFrame, group: list[str], names: list[str]) -> pd.DataFrame:
    values = [name for name in frame.columns if name in NODE or name in PROCESS]
    grouped = frame.groupby(group, sort=False)
    before = grouped["ts"].shift(1)
    span = (frame["ts"] - before).astype("Float64") / 1e9
    out = frame[[*names, "file", "n"]].copy()
    out["begin_ns"], out["end_ns"] = before.astype("Int64"), frame["ts"]
    for name in values:
        if name not in _SUMS:
            out[name] = frame[name]
            continue
        # A sum that shrank is that of another boot, or of a counter that the kernel sets back.
        growth = grouped[name].diff()
        rate = growth.where(growth >= 0).astype("Float64") / span
        out[name] = rate / 1e9 if name.endswith("_ns") else rate
    kept = out[before.notna().to_numpy() & (span > 0).fillna(False).to_numpy(dtype=bool)].reset_index(drop=True)
    kept["begin_ns"] = kept["begin_ns"].astype("int64")
    return kept
