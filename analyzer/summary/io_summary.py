"""A run's I/O in figures: what ran, on what data, where the time went, and each function's calls, sizes and bandwidth.

The four parts are those of DFTracer's analyzer (Devarajan et al. 2024, section on DFAnalyzer): allocation, data set,
time, and a table of functions. Times of a kind of call are exact over processes: when at least one was running.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.model import dataflow, stages
from tailrace.analyzer.model.collectives import Collectives
from tailrace.analyzer.store.processes import PROCESS
from tailrace.analyzer.util.lazy import lazy

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
else:
    np = lazy("numpy")

_QUARTILES = (0.25, 0.5, 0.75)


class FiguredRun(AnalyzedRun, Protocol):
    """What of `Run` the figures are made from."""

    def info(self) -> dict[str, Any]:
        """An overview; see `Run.info`."""

    @property
    def collectives(self) -> Collectives:
        """The collective calls of MPI-IO; see `Run.collectives`."""

    def totals(self, by: Sequence[str] = (), aggs: Sequence[str] = ("count",), **where: Any) -> pd.DataFrame:
        """Totals of events; see `Run.totals`."""


@dataclass(frozen=True)
class Function:
    """The calls of a function in a layer, those on pipes and sockets apart, which wait for the other end. Sizes in
    bytes, of the calls that move bytes and succeed, within a hundredth where their sizes are many; None where none
    does, or where lines of totals stand for calls. bandwidth: bytes per second in calls."""

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

    def to_json(self) -> dict[str, object]:
        """JSON-ready."""
        return asdict(self)


@dataclass(frozen=True)
class Summary:
    """The figures of a run.

    threads, processes, hosts, jobs, stages, tasks: how many. files: data files and other files that were read or
    written. span_ns: from the first event to the last. io_ns, read_ns, write_ns, metadata_ns: in which at least one
    call on a file was running, of any kind and of each; processor_ns: of all processes that told it (None: none did).
    collectives: the collective calls of MPI-IO, as `Collectives.total` (None: there was none).
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
    collectives: dict[str, int] | None
    functions: list[Function]

    def to_json(self) -> dict[str, object]:
        """JSON-ready."""
        return asdict(self)


def io_summary(run: FiguredRun) -> Summary:
    """The figures of a run, from its edge table; where MPI-IO was called, also from events."""
    told = run.info()
    m = dataflow.model(run)
    regular = (m.table.files["ftype"] == "reg").to_numpy()
    used = np.unique(m.bursts["file"].to_numpy())
    data = np.unique(m.bursts["file"].to_numpy()[m.classed(("data",))])
    jobs = run.totals(["job"])["job"].dropna()
    return Summary(
        hosts=len(told["hosts"]),
        processes=int(told["processes"]),
        threads=threads(m),
        jobs=len(jobs),
        stages=int(told["stages"]),
        tasks=int(told["tasks"]),
        files=int(regular[used].sum()),
        data_files=int(regular[data].sum()),
        read_bytes=int(told["read_bytes"]),
        written_bytes=int(told["written_bytes"]),
        span_ns=int(told["t1_ns"] - told["t0_ns"]) if told["events"] else 0,
        io_ns=stages.io_ns(m),
        read_ns=stages.running_ns(m, (edge_table.READ,)),
        write_ns=stages.running_ns(m, (edge_table.WRITE,)),
        metadata_ns=stages.running_ns(m, stages.NAMES),
        processor_ns=processor_ns(run),
        collectives=run.collectives.total(),
        functions=functions(m.table),
    )


def threads(m: dataflow.Model) -> int:
    """How many threads made calls."""
    rows = m.table.threads
    return len(m.who[PROCESS].iloc[rows["who"]].assign(tid=rows["tid"].to_numpy()).drop_duplicates())


def processor_ns(run: AnalyzedRun) -> int | None:
    """Processor time of all processes that told it; None: none did."""
    if not {"utime_ns", "stime_ns"} <= {*run.processes}:
        return None
    times = run.processes[["utime_ns", "stime_ns"]].dropna()
    return int(times.to_numpy().sum()) if len(times) else None


def functions(table: edge_table.EdgeTable) -> list[Function]:
    """The functions of a run, those that took the most time first."""
    key = ["cat", "name", "waits"]
    every = table.functions.assign(waits=table.functions["kind"] == edge_table.STREAM)
    lengths = table.lengths.assign(waits=table.lengths["kind"] == edge_table.STREAM)
    sizes = {name: _sizes(rows) for name, rows in lengths.groupby(key, sort=False)}
    found = [
        Function(
            layer=str(cat),
            name=f"{name} (pipe, socket)" if waits else str(name),
            calls=int(row.calls),
            time_ns=int(row.time_ns),
            bytes=int(row.bytes),
            bandwidth=row.bytes / (row.time_ns / 1e9) if row.bytes and row.time_ns else None,
            **sizes.get((cat, name, waits), _NO_SIZES),
        )
        for (cat, name, waits), row in every.groupby(key, sort=False)[edge_table.FUNCTION_SUMS].sum().iterrows()
    ]
    return sorted(found, key=lambda one: (-one.time_ns, one.layer, one.name))


_NO_SIZES: dict[str, Any] = dict.fromkeys(("min", "p25", "median", "p75", "max"))


def _sizes(rows: pd.DataFrame) -> dict[str, Any]:
    """The least size, the quartiles and the largest of calls counted in ranges of sizes (`EdgeTable.lengths`)."""
    rows = rows.sort_values("range", kind="stable")
    if rows["range"].iloc[0] < 0:
        return _NO_SIZES
    calls, least, most = (rows[name].to_numpy(dtype=np.int64) for name in ("calls", "least", "most"))
    ends = np.cumsum(calls)

    def at(place: int) -> float:
        """The size of the call at a place, counted from 0 by size; in a range they are taken to lie evenly."""
        row = int(np.searchsorted(ends, place, side="right"))
        inside = (place - (ends[row] - calls[row])) / max(int(calls[row]) - 1, 1)
        return float(least[row] + (most[row] - least[row]) * inside)

    quartiles = []
    for share in _QUARTILES:
        place = (int(ends[-1]) - 1) * share
        low, high = at(int(place)), at(math.ceil(place))
        quartiles.append(low + (high - low) * (place % 1))
    return dict(zip(_NO_SIZES, [int(least[0]), *quartiles, int(most[-1])], strict=True))
