"""A run's I/O in figures: what ran, on what data, where the time went, and each function's calls, sizes and bandwidth.

The four parts are those of DFTracer's analyzer (Devarajan et al. 2024, section on DFAnalyzer): allocation, data set,
time, and a table of functions. Times of a kind of call are exact over processes: when at least one was running.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.model import dataflow, stages
from tailrace.analyzer.store import conditions
from tailrace.analyzer.util import intervals
from tailrace.analyzer.util.lazy import lazy

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

else:
    np = lazy("numpy")
    pd = lazy("pandas")

_FIGURES = (
    "count",
    "sum:dur",
    "sum:size",
    "min:size",
    "p25:size",
    "p50:size",
    "p75:size",
    "max:size",
    "rate:size",
)


class FiguredRun(AnalyzedRun, Protocol):
    """What of `Run` the figures are made from."""

    def info(self) -> dict[str, Any]:
        """An overview; see `Run.info`."""

    def totals(self, by: Sequence[str] = (), aggs: Sequence[str] = ("count",), **where: Any) -> pd.DataFrame:
        """Totals of events; see `Run.totals`."""


@dataclass(frozen=True)
class Function:
    """The calls of a function in a layer, those on pipes and sockets apart, which wait for the other end. Sizes in
    bytes, of the calls that move bytes; None where none does, or where lines of totals stand for calls. bandwidth:
    bytes per second in calls."""

    layer: str
    name: str
    calls: int
    time_ns: int
    bytes: int
    min: int | None
    p25: float | None
    median: float | None
    p75: float | None
    max: int | None
    bandwidth: float | None


@dataclass(frozen=True)
class Summary:
    """The figures of a run.

    threads, processes, hosts, jobs, stages, tasks: how many. files: data files and other files that were read or
    written. span_ns: from the first event to the last. io_ns, read_ns, write_ns, metadata_ns: in which at least one
    call on a file was running, of any kind and of each; processor_ns: of all processes that told it (None: none did).
    functions: by time, the longest first.
    """

    hosts: int
    processes: int
    threads: int
    jobs: int
    stages: int
    tasks: int
    files: int
    data_files: int
    read_bytes: int
    written_bytes: int
    span_ns: int
    io_ns: int
    read_ns: int
    write_ns: int
    metadata_ns: int
    processor_ns: int | None
    functions: list[Function]

    def to_json(self) -> dict[str, object]:
        """JSON-ready."""
        return asdict(self)


def io_summary(run: FiguredRun) -> Summary:
    """The figures of a run. Reads its events."""
    told = run.info()
    m = dataflow.model(run)
    regular = (m.table.files["ftype"] == "reg").to_numpy()
    used = np.unique(m.bursts["file"].to_numpy())
    data = np.unique(m.bursts["file"].to_numpy()[m.classed(("data",))])
    threads = run.totals(["host", "pid", "start"], ["nunique:tid"])["nunique_tid"]
    jobs = run.totals(["job"])["job"].dropna()
    return Summary(
        hosts=len(told["hosts"]),
        processes=int(told["processes"]),
        threads=int(threads.sum()),
        jobs=len(jobs),
        stages=int(told["stages"]),
        tasks=int(told["tasks"]),
        files=int(regular[used].sum()),
        data_files=int(regular[data].sum()),
        read_bytes=int(told["read_bytes"]),
        written_bytes=int(told["written_bytes"]),
        span_ns=int(told["t1_ns"] - told["t0_ns"]) if told["events"] else 0,
        io_ns=stages.io_ns(m),
        read_ns=running_ns(m, edge_table.READ),
        write_ns=running_ns(m, edge_table.WRITE),
        metadata_ns=running_ns(m, edge_table.META),
        processor_ns=processor_ns(run),
        functions=_functions(run),
    )


def processor_ns(run: AnalyzedRun) -> int | None:
    """Processor time of all processes that told it; None: none did."""
    if not {"utime_ns", "stime_ns"} <= {*run.processes}:
        return None
    times = run.processes[["utime_ns", "stime_ns"]].dropna()
    return int(times.to_numpy().sum()) if len(times) else None


def running_ns(m: dataflow.Model, kind: int) -> int:
    """For how long at least one call of a kind (`edge_table.KINDS`) was running in any process."""
    busy = m.table.busy
    pick = busy.group % len(edge_table.KINDS) == kind
    one = np.zeros(int(pick.sum()), dtype=np.int64)
    rows = intervals.Intervals(one, *(column[pick] for column in busy[1:]))
    return int(intervals.length(intervals.union(rows), 1)[0])


def _functions(run: FiguredRun) -> list[Function]:
    streams = conditions.Not(tuple(edge_table.STREAM_TYPES))
    files = _rows(run, "", ftype=streams)
    waiting = _rows(run, " (pipe, socket)", ftype=list(edge_table.STREAM_TYPES))
    return sorted(files + waiting, key=lambda one: (-one.time_ns, one.layer, one.name))


def _rows(run: FiguredRun, mark: str, **where: Any) -> list[Function]:
    table = run.totals(["cat", "name"], _FIGURES, **where)
    known = not table.attrs["totals"]
    table = table[table["cat"] != "PROCESS"]
    rows = table.astype(object).where(table.notna(), None).to_dict("records")
    return [
        Function(
            layer=str(row["cat"]),
            name=f"{row['name']}{mark}",
            calls=int(row["count"]),
            time_ns=int(row["sum_dur"] or 0),
            bytes=int(row["sum_size"] or 0),
            min=row["min_size"] if known else None,
            p25=row["p25_size"] if known else None,
            median=row["p50_size"] if known else None,
            p75=row["p75_size"] if known else None,
            max=row["max_size"] if known else None,
            bandwidth=row["rate_size"] if row["sum_size"] else None,
        )
        for row in rows
    ]
