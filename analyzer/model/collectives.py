"""The collective calls of MPI-IO of a run: when each rank came, and what the time of its call was.

    events (MPIIO) --_calls--> a row for each rank's call --_numbered--> which of them are one call
    events (system calls on their files) --_inside--> union by call ------> I/O, and I/O before the last rank came

The time of a rank's call has three parts: in system calls on its file, before the last rank came (without the first
part), and the rest, in which ranks exchange and copy data (Xu et al. 2017, DXT's figure 6, calls the last two
communication). The calls of one file are matched by their order: the n-th collective call after the k-th open is the
same on all ranks.

Invariants: parts add up to the call's time, as unions: nothing counts twice. A call that can't be matched (a rank's
record is missing, two handles of one file at a time, communicators that share a file) has no arrival, and its time
before the last rank came is in the rest. I/O that another thread or another rank does for the call is not its own.

Rejected: PMPI wrappers of sends and barriers, which see none of an MPI-IO library's own messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.store import engine
from tailrace.analyzer.store.loader import EventSource, Part
from tailrace.analyzer.store.processes import PROCESS
from tailrace.analyzer.util import intervals
from tailrace.analyzer.util.lazy import lazy
from tailrace.analyzer.util.types import Ints

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
else:
    np = lazy("numpy")
    pd = lazy("pandas")

OPEN = "MPI_File_open"
BELOW = ("POSIX", "STDIO", "AIO", "MMAP")
"""Categories of the system calls on files."""
THREAD = (*PROCESS, "tid")
_CALL_COLUMNS = (*dict.fromkeys((*THREAD, "rank", "stage", "name", "path", "file", "ranks", "size", "ts", "dur")),)
_BELOW_COLUMNS = (*dict.fromkeys((*THREAD, "file", "ts", "dur", "span")),)
_SUMS = ("time_ns", "io_ns", "waited_ns", "rest_ns")


@dataclass(frozen=True)
class Collectives:
    """The collective calls of a run.

    calls: a row for each call of a rank, by time: rank, stage, name, path, ranks (of the communicator), size (bytes of
    this rank), call (its number: equal for the ranks of one call; -1: not matched), begin_ns, time_ns, io_ns (in system
    calls on the file), waited_ns (before the last rank came), rest_ns (the rest of time_ns), after_ns (how long after
    the first rank it came), last (whether it came last), host, pid, start, tid. Where a call is not matched waited_ns
    is 0, and after_ns and last are NA.
    """

    calls: pd.DataFrame

    def table(self) -> pd.DataFrame:
        """A row for each rank and name, the longest first: rank, name, calls, matched, time_ns, io_ns, waited_ns,
        rest_ns, last (calls to which it came last), after_ns (mean of the matched ones)."""
        rows = self.calls.assign(matched=self.calls["call"] >= 0)
        sums = {name: (name, "sum") for name in ("matched", *_SUMS, "last")}
        grouped = rows.groupby(["rank", "name"], sort=False, observed=True)
        table = grouped.agg(calls=("time_ns", "size"), after_ns=("after_ns", "mean"), **sums).reset_index()
        names = ["rank", "name", "calls", "matched", *_SUMS, "last", "after_ns"]
        return table.sort_values("time_ns", ascending=False, kind="stable", ignore_index=True)[names]

    def total(self) -> dict[str, int] | None:
        """The sums over all ranks: calls (of each rank), ranks (that made some), time_ns, io_ns, waited_ns, rest_ns.
        None where there is no call."""
        if not len(self.calls):
            return None
        sums = {name: int(self.calls[name].sum()) for name in _SUMS}
        return {"calls": len(self.calls), "ranks": int(self.calls["rank"].nunique()), **sums}

    def of_rank(self, rank: str) -> list[dict[str, Any]]:
        """The rows of `table` of a rank, JSON-ready: after_ns is None where no call is matched."""
        table = self.table()
        return [
            {
                **{name: int(row[name]) for name in ("calls", "matched", *_SUMS, "last")},
                "name": str(row["name"]),
                "after_ns": None if pd.isna(row["after_ns"]) else int(row["after_ns"]),
            }
            for row in table[table["rank"] == rank].to_dict("records")
        ]


def of_model(run: EventSource, m: Model) -> Collectives:
    """The collective calls of a run with this model. Reads events if a function of MPI-IO was called."""
    called = m.table.functions["name"].astype(str).str.startswith("MPI_File_").any()
    return of(run if called else None, m.ahead)


def of(run: EventSource | None, ahead: Mapping[str, int]) -> Collectives:
    """The collective calls of a run. Reads events.

    Args:
        run: its events; None: it has no such calls.
        ahead: by how many ns the clock of each host is ahead (`Model.ahead`).

    Raises:
        TraceError: a block is damaged.
    """
    parts = run.parts(columns=_CALL_COLUMNS, cat="MPIIO") if run else []
    found = engine.compute([partial(_calls, part) for part in parts])
    rows = pd.concat(found, ignore_index=True) if found else _calls_of(pd.DataFrame(columns=list(_CALL_COLUMNS)))
    rows = rows.sort_values(["begin", *THREAD], ignore_index=True)
    _number(rows)
    rows = rows.sort_values([*THREAD, "begin"], ignore_index=True)
    shift = rows["host"].map(lambda host: ahead.get(host, 0)).to_numpy(dtype=np.int64)
    rows["begin_ns"] = rows["begin"].to_numpy() - shift
    _arrivals(rows)
    _split(rows, _inside(run, rows))
    rows = rows.sort_values("begin_ns", kind="stable", ignore_index=True)
    names = ["rank", "stage", "name", "path", "ranks", "size", "call", "begin_ns", *_SUMS, "after_ns", "last", *THREAD]
    return Collectives(rows[names])


def _calls(part: Part) -> pd.DataFrame:
    frame = part()
    return _calls_of(frame[frame["ranks"].notna().to_numpy() & frame["file"].notna().to_numpy()])


def _calls_of(frame: pd.DataFrame) -> pd.DataFrame:
    texts = ("host", "start", "rank", "stage", "name", "path", "file")
    rows = {name: frame[name].astype(object).where(frame[name].notna(), "") for name in texts}
    rows |= {name: frame[name].fillna(0).astype("int64") for name in ("pid", "tid", "ranks", "size")}
    rows |= {"begin": frame["ts"].astype("int64"), "time_ns": frame["dur"].astype("int64")}
    return pd.DataFrame(rows).reset_index(drop=True)


def _number(rows: pd.DataFrame) -> None:
    """Adds `call`; `rows` are in the order of time."""
    handle = [rows[key] for key in (*PROCESS, "file")]
    rows["opened"] = (rows["name"] == OPEN).astype("int64").groupby(handle).cumsum()
    rows["place"] = rows.groupby([*PROCESS, "file", "opened"]).cumcount()
    group = rows.groupby(["file", "opened", "place"], sort=False)
    process = rows.groupby(list(PROCESS), sort=False).ngroup()
    same = group["name"].transform("nunique") == 1
    same &= process.groupby([rows[key] for key in ("file", "opened", "place")]).transform("nunique") == rows["ranks"]
    same &= (group["ranks"].transform("size") == rows["ranks"]) & (group["ranks"].transform("nunique") == 1)
    rows["call"] = np.where(same, group.ngroup(), -1)


def _arrivals(rows: pd.DataFrame) -> None:
    """Adds after_ns, last and last_begin, the time at which the last rank came (-1: not known)."""
    matched = rows["call"] >= 0
    begins = rows["begin_ns"].where(matched).groupby(rows["call"])
    first, latest = begins.transform("min"), begins.transform("max")
    rows["after_ns"] = (rows["begin_ns"] - first).where(matched).astype("Int64")
    rows["last"] = (rows["begin_ns"] == latest).where(matched).astype("boolean")
    rows["last_begin"] = latest.where(matched).fillna(-1).astype("int64")


def _inside(run: EventSource | None, rows: pd.DataFrame) -> intervals.Intervals:
    """The times of system calls in each row's call on its file, by the clock of its host."""
    nothing = np.zeros(0, dtype=np.int64)
    united = intervals.make(nothing, nothing, nothing)
    if run is None or not len(rows):
        return united
    threads = pd.MultiIndex.from_frame(rows[list(THREAD)])
    code, names = threads.factorize()
    where = {"cat": list(BELOW), "file": sorted(set(rows["file"]))}
    parts = run.parts(columns=_BELOW_COLUMNS, t0=int(rows["begin"].min()), **where)
    calls = _Threads(names, code, rows)
    for found in engine.compute([partial(_fold, part, calls) for part in parts]):
        both = [np.concatenate(pair) for pair in zip(united[:3], found[:3], strict=True)]
        united = intervals.union(intervals.make(*both))
    return united


class _Threads:
    """The calls of each thread, to find the one that a time is in; a thread's calls don't overlap."""

    def __init__(self, names: pd.MultiIndex, code: Ints, rows: pd.DataFrame) -> None:
        self.names = names
        self.bounds = np.searchsorted(code, np.arange(len(names) + 1))
        self.begin = rows["begin"].to_numpy()
        self.end = self.begin + rows["time_ns"].to_numpy()
        self.file = rows["file"].to_numpy()

    def at(self, thread: int, times: Ints) -> Ints:
        """The row whose call each time is in; -1: none."""
        low, high = self.bounds[thread], self.bounds[thread + 1]
        place = low + np.searchsorted(self.begin[low:high], times, side="right") - 1
        inside = (place >= low) & (times < self.end[np.maximum(place, 0)])
        return np.where(inside, place, -1)


def _fold(part: Part, calls: _Threads) -> intervals.Intervals:
    frame = part()
    thread = calls.names.get_indexer(pd.MultiIndex.from_frame(_plain(frame[list(THREAD)])))
    begin = frame["ts"].to_numpy(dtype=np.int64)
    # A line of totals stands for the time from its first call to the end of its last one.
    length = frame["span"].fillna(frame["dur"]).to_numpy(dtype=np.int64)
    row = np.full(len(frame), -1, dtype=np.int64)
    for code in np.unique(thread[thread >= 0]).tolist():
        mine = np.flatnonzero(thread == code)
        row[mine] = calls.at(code, begin[mine])
    file = frame["file"].astype(object).to_numpy()
    row[(row >= 0) & (calls.file[np.maximum(row, 0)] != file)] = -1
    kept = row >= 0
    end = np.minimum((begin + length)[kept], calls.end[row[kept]])
    return intervals.union(intervals.make(row[kept], begin[kept], end))


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    columns = {
        name: frame[name].astype(object).where(frame[name].notna(), "")
        if name in ("host", "start")
        else frame[name].astype("int64")
        for name in frame.columns
    }
    return pd.DataFrame(columns)


def _split(rows: pd.DataFrame, inside: intervals.Intervals) -> None:
    """Adds io_ns, waited_ns and rest_ns."""
    begin, time = rows["begin"].to_numpy(), rows["time_ns"].to_numpy()
    # How long it was there before the last one, on its own clock.
    alone = np.where(rows["last_begin"] < 0, 0, rows["last_begin"].to_numpy() - rows["begin_ns"].to_numpy())
    alone = np.clip(alone, 0, time)
    cover = intervals.cover(inside, len(rows))
    early = cover.inside(np.arange(len(rows)), begin, begin + alone)
    rows["io_ns"] = cover.length()
    rows["waited_ns"] = alone - early
    rows["rest_ns"] = time - rows["io_ns"] - rows["waited_ns"]
