"""Runs against runs: two runs, or two groups of repeated runs, and a gate for regressions.

    run -> measure() -> figures of the run, its stages, flows and files
    compare([runs of A], [runs of B]) -> one row a figure: mean, standard deviation, 95 % interval, difference

Stages are matched by name, files by path below the folder that the run directory lies in, else below the working
directory of its command (so that runs in folders of their own can be compared), flows by their two stages; workflow
tags differ between runs and are left out. A missing figure is 0. What matters most comes first: the makespan, then the
others by the time that they stand for, bytes and calls with the time that the runs' own I/O took for so many.

    sd      sample standard deviation; the interval of the mean is mean +- t(0.975, n - 1) * sd / sqrt(n) (Student 1908)
    sure    the groups differ beyond their noise: Welch's interval of the difference of the means excludes 0. With one
            run on a side the noise is unknown, and every difference counts.
    notable above the noise floor (`FLOORS`), and sure. Two runs of one program on one machine differ by less.
    gate    `[STAGE.]FIGURE(>|<)[+-]N[%]`, as in `io_time>+10%` or `align.read_bytes>1e9`: fails when the difference of
            the means exceeds the limit and is sure. A sign or % compares the change from A to B, else the value of B
            itself is compared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

import numpy as np
import pandas as pd

from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.insights import insights
from tailrace.analyzer.insights.critical import PARTS
from tailrace.analyzer.model import dataflow, stages
from tailrace.analyzer.store import processes
from tailrace.analyzer.util.types import Floats, Row
from tailrace.errors import QueryError

RUN = ""
"""The scope of figures of the whole run."""
FIGURES = {
    "makespan": ("s", "from the first event to the last"),
    "span": ("s", "of a stage, from its first event to its last"),
    "io_time": ("s", "with at least one read, write or metadata call running"),
    "read_time": ("s", "with at least one read of a file running"),
    "write_time": ("s", "with at least one write of a file running"),
    "metadata_time": ("s", "with at least one metadata call running"),
    "stream_time": ("s", "with at least one call on a pipe or socket running"),
    "critical_compute": ("s", "computing, or not known, on the critical path"),
    "critical_ready": ("s", "waiting for a processor, on the critical path"),
    "critical_io": ("s", "in file I/O, on the critical path"),
    "critical_lock": ("s", "waiting for locks of files, on the critical path"),
    "critical_socket": ("s", "waiting on sockets, on the critical path"),
    "critical_sleep": ("s", "sleeping, on the critical path"),
    "critical_polling": ("s", "polling, on the critical path"),
    "critical_pipe": ("s", "waiting on pipes, on the critical path"),
    "critical_thread": ("s", "waiting for a program's own threads or signals, on the critical path"),
    "critical_elsewhere": ("s", "blocked outside of recorded calls, on the critical path"),
    "critical_wait": ("s", "waiting for processes outside of the task, on the critical path"),
    "critical_gap": ("s", "between tasks, on the critical path: scheduling, queue"),
    "critical_startup": ("s", "before the first task"),
    "critical_stop": ("s", "after the last task"),
    "critical_tracing": ("s", "in tailrace's own processes, while no task ran"),
    "bound": ("s", "the longest chain of work"),
    "read_bytes": ("B", "bytes read"),
    "written_bytes": ("B", "bytes written"),
    "calls": ("", "I/O calls"),
    "metadata_calls": ("", "metadata calls"),
    "failed_calls": ("", "calls that failed"),
    "tasks": ("", "task tags"),
    "processes": ("", "processes"),
    "peak_bytes": ("B", "largest amount of live data"),
}
"""figure -> unit, meaning."""
FLOORS = {"s": (0.05, 0.01), "B": (0.01, 1024), "": (0.01, 0)}
"""unit -> the share of the larger value, and the amount, that a notable difference exceeds; both."""
FLOOR_TEXT = "5% and 10 ms of a time, 1% and 1 KiB of bytes, 1% of a count"
# The 0.975 quantiles of Student's t for 1 to 30 degrees of freedom.
_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131),
    *(2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
COLUMNS = {
    "scope": ("", "stage; empty for the whole run"),
    "figure": ("", "name of the figure"),
    "unit": ("", "of the figure: s, B (bytes), or empty for a count"),
    "a_mean": ("unit", "mean of group A"),
    "a_sd": ("unit", "sample standard deviation of group A; null for one run"),
    "a_ci": ("unit", "half the 95 % interval of the mean of group A; null for one run"),
    "b_mean": ("unit", "mean of group B"),
    "b_sd": ("unit", "sample standard deviation of group B; null for one run"),
    "b_ci": ("unit", "half the 95 % interval of the mean of group B; null for one run"),
    "difference": ("unit", "b_mean - a_mean"),
    "share": ("ratio", "difference by a_mean; null where that is 0"),
    "sure": ("", "whether the groups differ beyond their noise"),
    "weight": ("s", "the time that the difference stands for, by which rows are sorted"),
    "notable": ("", "whether the difference is sure and above the noise floor"),
}
"""Columns of `Comparison.table`: unit, meaning."""
FLOW_COLUMNS = {
    "producer": ("", "stage that wrote"),
    "consumer": ("", "stage that read"),
    "a_bytes": ("bytes", "mean of group A"),
    "b_bytes": ("bytes", "mean of group B"),
    "difference": ("bytes", "b_bytes - a_bytes"),
    "notable": ("", "whether the difference is above the noise floor"),
}
"""Columns of `Comparison.flows`."""
FILE_COLUMNS = {
    "path": ("", "file, relative to the run's directory where it is below"),
    "a_read": ("bytes", "bytes read, mean of group A"),
    "b_read": ("bytes", "bytes read, mean of group B"),
    "a_written": ("bytes", "bytes written, mean of group A"),
    "b_written": ("bytes", "bytes written, mean of group B"),
    "only": ("", "a or b where the other group has no such file"),
    "notable": ("", "whether it is in one group only, or differs by more than the noise floor"),
}
"""Columns of `Comparison.files`."""
LIMIT_COLUMNS = {
    "limit": ("", "the limit as it was given"),
    "figure": ("", "the figure it is about, with both values and the unit"),
    "exceeded": ("", "whether it is exceeded"),
    "noise": ("", "whether it would be, but the groups differ within their noise"),
}
"""Columns of the verdicts in JSON."""
_GATE = re.compile(
    r"\s*(?:(?P<scope>.+)\.)?(?P<figure>[a-z_]+)\s*(?P<sense>[<>])\s*(?P<sign>[+-]?)"
    r"(?P<amount>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)\s*(?P<percent>%?)\s*"
)


@dataclass(frozen=True)
class Measured:
    """figures: (scope, figure) -> value, the scope a stage or `RUN`; flows: (producer stage, consumer stage) -> bytes;
    files: path -> (read bytes, written bytes)."""

    figures: dict[tuple[str, str], float]
    flows: dict[tuple[str, str], float]
    files: dict[str, tuple[float, float]]


@dataclass(frozen=True)
class Comparison:
    """
    table: columns `COLUMNS`; what matters most first.
    flows: columns `FLOW_COLUMNS`; those that differ, the largest difference first.
    files: columns `FILE_COLUMNS`; those that differ, the largest difference first.
    sizes: runs of A and of B.
    """

    table: pd.DataFrame
    flows: pd.DataFrame
    files: pd.DataFrame
    sizes: tuple[int, int]

    @property
    def identical(self) -> bool:
        """Whether nothing differs."""
        return bool((self.table["difference"] == 0).all()) and not len(self.flows) and not len(self.files)

    @property
    def same(self) -> bool:
        """Whether nothing differs notably."""
        return not any(bool(table["notable"].any()) for table in (self.table, self.flows, self.files))


def measure(run: AnalyzedRun) -> Measured:
    """The figures of a run."""
    m = dataflow.model(run)
    found = insights(run, m)
    table = stages.table(m)
    figures: dict[tuple[str, str], float] = {}
    every = found.critical
    figures[RUN, "makespan"] = found.inputs.makespan_ns / 1e9
    figures[RUN, "io_time"] = stages.io_ns(m) / 1e9
    figures[RUN, "bound"] = every.bound_ns / 1e9
    figures[RUN, "peak_bytes"] = found.lifetime.peak["live_bytes"]
    for part in PARTS:
        figures[RUN, f"critical_{part}"] = every.parts[part] / 1e9
    sums = ("read_bytes", "written_bytes", "calls", "metadata_calls", "failed_calls", "tasks", "processes")
    calls = ["read_calls", "write_calls", "metadata_calls", "stream_calls"]
    table = table.assign(calls=table[calls].sum(axis=1))
    for name in sums:
        figures[RUN, name] = float(table[name].sum())
    for stage, rows in table.groupby("stage", sort=False):
        scope = str(stage)
        figures[scope, "span"] = float(rows["last_ns"].max() - rows["first_ns"].min()) / 1e9
        for name in ("io", "read", "write", "metadata", "stream"):
            figures[scope, f"{name}_time"] = float(rows[f"{name}_ns"].sum()) / 1e9
        for name in sums:
            figures[scope, name] = float(rows[name].sum())
    figures[RUN, "processes"] = float(processes.count(m.who))  # a process may work for several stages
    own = (str(run.meta.get("cwd") or ""), str(Path(run.path).resolve().parent))
    return Measured(figures, _flows(m), _files(m, own))


def _flows(m: dataflow.Model) -> dict[tuple[str, str], float]:
    names = [*dataflow.activities(m, "stage")[1]["stage"].astype(str), dataflow.BEFORE_RUN]
    rows = dataflow.flow_table(m, "stage").groupby(["producer", "consumer"], as_index=False)["bytes"].sum()
    out: dict[tuple[str, str], float] = {}
    for producer, consumer, moved in rows.itertuples(index=False):
        key = (names[producer], names[consumer])
        out[key] = out.get(key, 0.0) + float(moved)
    return out


def _files(m: dataflow.Model, folders: Sequence[str]) -> dict[str, tuple[float, float]]:
    fates = stages.file_fates(m)
    fates = fates[fates["cls"] == 0]
    out: dict[str, tuple[float, float]] = {}
    inside = sorted({folder.rstrip("/") + "/" for folder in folders} - {"/"}, key=len, reverse=True)
    for code, read, wrote in fates[["read_bytes", "written_bytes"]].itertuples():
        path = str(m.paths[code])
        path = path[len(next((folder for folder in inside if path.startswith(folder)), "")) :]
        before = out.get(path, (0.0, 0.0))
        out[path] = (before[0] + float(read), before[1] + float(wrote))
    return out


def compare(a: Sequence[Measured], b: Sequence[Measured]) -> Comparison:
    """Group A against group B.

    Raises:
        QueryError: a group is empty.
    """
    if not a or not b:
        raise QueryError("a comparison needs at least one run on each side")
    keys = list(dict.fromkeys(key for run in (*a, *b) for key in run.figures))
    prices = _prices((*a, *b))
    rows = []
    for scope, figure in keys:
        left, right = (np.array([r.figures.get((scope, figure), 0.0) for r in group]) for group in (a, b))
        unit = FIGURES[figure][0]
        difference, share, sure = _difference(left, right)
        weight = abs(difference) * (1.0 if unit == "s" else prices.get(figure, prices[unit]))
        notable = sure and above_floor(float(left.mean()), float(right.mean()), unit)
        rows.append((scope, figure, unit, *_mean(left), *_mean(right), difference, share, sure, weight, notable))
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    first = ((table["scope"] == RUN) & (table["figure"] == "makespan")).to_numpy()
    order = np.lexsort((np.arange(len(table)), -table["weight"].to_numpy(), ~first))
    sizes = (len(a), len(b))
    return Comparison(table.iloc[order].reset_index(drop=True), _flow_rows(a, b), _file_rows(a, b), sizes)


def above_floor(a: float, b: float, unit: str) -> bool:
    """Whether the difference of two values exceeds the noise floor of their unit."""
    share, amount = FLOORS[unit]
    return abs(b - a) > max(share * max(abs(a), abs(b)), amount)


def _prices(runs: Sequence[Measured]) -> dict[str, float]:
    """Seconds that one unit of a unit or figure stands for, on the average of the runs."""

    def mean(*figures: str) -> float:
        return sum(run.figures.get((RUN, figure), 0.0) for run in runs for figure in figures) / len(runs)

    io, makespan = mean("io_time"), mean("makespan")
    counts = {figure: makespan / max(mean(figure), 1.0) for figure in ("tasks", "processes")}
    return {"B": io / max(mean("read_bytes", "written_bytes"), 1.0), "": io / max(mean("calls"), 1.0), **counts}


def _mean(values: Floats) -> tuple[float, float, float]:
    """Mean, standard deviation, half the 95 % interval; the latter are NaN for one value."""
    n = len(values)
    if n < 2:
        return float(values[0]), float("nan"), float("nan")
    sd = float(values.std(ddof=1))
    return float(values.mean()), sd, quantile(n - 1) * sd / sqrt(n)


def quantile(freedom: float) -> float:
    """The 0.975 quantile of Student's t; between whole degrees of freedom the lower one's, above 30 by Cornish and
    Fisher's expansion."""
    if freedom <= len(_T):
        return _T[max(int(freedom), 1) - 1]
    z = 1.959964
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def _difference(a: Floats, b: Floats) -> tuple[float, float, bool]:
    """Difference of the means, its share of A's mean, and whether it is sure."""
    difference = float(b.mean() - a.mean())
    share = difference / abs(float(a.mean())) if a.mean() else float("nan")
    if len(a) < 2 or len(b) < 2:
        return difference, share, difference != 0
    parts = [float(group.var(ddof=1)) / len(group) for group in (a, b)]
    if sum(parts) == 0:
        return difference, share, difference != 0
    # Welch and Satterthwaite's degrees of freedom.
    freedom = sum(parts) ** 2 / sum(p**2 / (len(g) - 1) for p, g in zip(parts, (a, b), strict=True))
    return difference, share, abs(difference) > quantile(freedom) * sqrt(sum(parts))


def _flow_rows(a: Sequence[Measured], b: Sequence[Measured]) -> pd.DataFrame:
    keys = sorted({key for run in (*a, *b) for key in run.flows})
    rows = []
    for key in keys:
        left, right = (sum(r.flows.get(key, 0.0) for r in group) / len(group) for group in (a, b))
        if left != right:
            rows.append((*key, left, right, right - left, above_floor(left, right, "B")))
    out = pd.DataFrame(rows, columns=list(FLOW_COLUMNS))
    order = out["difference"].abs().sort_values(ascending=False, kind="stable").index
    return out.loc[order].reset_index(drop=True)


def _file_rows(a: Sequence[Measured], b: Sequence[Measured]) -> pd.DataFrame:
    rows = []
    for path in sorted({path for run in (*a, *b) for path in run.files}):
        means = [
            sum(r.files.get(path, (0.0, 0.0))[way] for r in group) / len(group) for way in (0, 1) for group in (a, b)
        ]
        there = [any(path in r.files for r in group) for group in (a, b)]
        if means[0] != means[1] or means[2] != means[3] or not all(there):
            only = "" if all(there) else "a" if there[0] else "b"
            notable = bool(only) or any(above_floor(means[way], means[way + 1], "B") for way in (0, 2))
            rows.append((path, *means, only, notable))
    out = pd.DataFrame(rows, columns=list(FILE_COLUMNS))
    size = (out["a_read"] - out["b_read"]).abs() + (out["a_written"] - out["b_written"]).abs()
    return out.loc[size.sort_values(ascending=False, kind="stable").index].reset_index(drop=True)


# --- the gate --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gate:
    """One limit; see the module's definition. scope None: the run's figure, or for a figure that only stages have any
    stage's."""

    text: str
    scope: str | None
    figure: str
    above: bool
    change: bool
    percent: bool
    amount: float


def gate(text: str) -> Gate:
    """The gate of a text. Raises QueryError, naming what is valid."""
    match = _GATE.fullmatch(text)
    if match is None:
        raise QueryError(
            f"{text!r} is not a limit: write FIGURE>+10%, STAGE.FIGURE>5, ...; figures: {', '.join(FIGURES)}"
        )
    parts: Mapping[str, str | None] = match.groupdict()
    figure, sign, percent = str(parts["figure"]), str(parts["sign"] or ""), bool(parts["percent"])
    if figure not in FIGURES:
        raise QueryError(f"there is no figure {figure!r}; there are {', '.join(FIGURES)}")
    amount = float(str(parts["amount"])) * (-1 if sign == "-" else 1)
    return Gate(text, parts["scope"], figure, parts["sense"] == ">", bool(sign) or percent, percent, amount)


@dataclass(frozen=True)
class Verdict:
    """What came of a limit. text: the figure in A and B; exceeded; noise: it would be, but the groups differ within
    their noise."""

    limit: Gate
    text: str
    exceeded: bool
    noise: bool = False

    def __str__(self) -> str:
        word = "exceeded" if self.exceeded else "passed, within noise" if self.noise else "passed"
        return f"{word}: {self.limit.text} ({self.text})"


def check(found: Comparison, limits: Sequence[Gate]) -> list[Verdict]:
    """The verdict on each limit; of several stages that it holds for, those that exceed it, else the nearest.

    Raises:
        QueryError: a limit names a stage, or a figure of one, that neither group has.
    """
    out: list[Verdict] = []
    for limit in limits:
        verdicts = [(_value(row, limit)[0], _verdict(row, limit)) for row in _rows_of(found.table, limit)]
        exceeded = [verdict for _, verdict in verdicts if verdict.exceeded]
        nearest = sorted(verdicts, key=lambda one: one[0], reverse=limit.above)[0][1]
        out += exceeded or [next((verdict for _, verdict in verdicts if verdict.noise), nearest)]
    return out


def _verdict(row: Row, limit: Gate) -> Verdict:
    value, what = _value(row, limit)
    beyond = (value > limit.amount) if limit.above else (value < limit.amount)
    noise = beyond and limit.change and not row["sure"]
    scope = f"{row['scope']}." if row["scope"] else ""
    unit = f" {row['unit']}" if row["unit"] else ""
    text = f"{scope}{row['figure']}: {row['a_mean']:.6g} -> {row['b_mean']:.6g}{unit}{what}"
    return Verdict(limit, text, beyond and not noise, noise)


def _rows_of(table: pd.DataFrame, limit: Gate) -> list[Row]:
    of_figure = table[table["figure"] == limit.figure]
    if limit.scope is None:
        whole = of_figure[of_figure["scope"] == RUN]
        rows = whole if len(whole) else of_figure
    else:
        rows = of_figure[of_figure["scope"] == limit.scope]
    if len(rows) == 0:
        there = sorted(set(table["scope"]) - {RUN})
        raise QueryError(f"{limit.text!r}: no such figure in these runs; stages are {', '.join(there)}")
    return [{str(key): value for key, value in row.items()} for row in rows.to_dict("records")]


def _value(row: Row, limit: Gate) -> tuple[float, str]:
    """The value that is compared with the limit, and its words."""
    if not limit.change:
        return float(row["b_mean"]), ""
    if not limit.percent:
        return float(row["difference"]), f" ({row['difference']:+.6g})"
    share = float(row["share"])
    if np.isnan(share):  # 0 in A
        share = float(np.sign(row["difference"])) * float("inf") if row["difference"] else 0.0
    return 100 * share, f" ({100 * share:+.1f}%)"
