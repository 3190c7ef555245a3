"""Figures of a run with matplotlib (extra `tailrace[notebook]`): `run.plot.timeline()` and the others.

    Model --plot_data.py--> arrays --> matplotlib.figure.Figure

Invariants: pyplot is not used, so no figure is shown twice or kept in a global table, and no backend is chosen. Every
axis has a unit, colours are those of a palette that colour-blind people can tell apart (Okabe and Ito 2008,
jfly.uni-koeln.de/color), with hatches from the ninth on. Names of a run are plain text: matplotlib's math is off.

Matplotlib, since clusters have it, a figure needs no script and is the same in a saved notebook and in a paper, and can
be changed further. Plotly and Bokeh put megabytes of script into each notebook; Altair needs a browser for a PNG.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd

from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.notebook.plot_data import OverTime, PlotData
from tailrace.analyzer.util.formatting import BYTE_UNITS, bytes_text, count_text, shortened
from tailrace.base.text import visible
from tailrace.errors import QueryError, UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#555555")
_HATCHES = ("", "///", "...", "xxx")
_MOST_STAGES = 12
"""Stages of a stacked figure or a legend; the others are one."""
_MOST_BARS = 4000
"""Tasks of a timeline; the longest are drawn."""
_LETTERS = 28
_HEAT = {"read": "bytes read", "wrote": "bytes written", "busy": "processes in a call on a file"}


class PlottedRun(AnalyzedRun, Protocol):
    """What of `Run` the figures are made from."""

    def totals(self, by: Sequence[str] = (), aggs: Sequence[str] = ("count",), **where: Any) -> pd.DataFrame:
        """Totals of events; see `Run.totals`."""


class Plots:
    """Figures of one run. Each method returns a new matplotlib.figure.Figure, which a notebook shows and
    `figure.savefig(PATH)` writes. Times are in s from the run's first event, sizes in powers of 1024.

    Raises:
        UsageError: matplotlib is not installed; the message has the command that installs it.
    """

    def __init__(self, run: PlottedRun) -> None:
        self._run = run

    def __repr__(self) -> str:
        return "figures of a run: timeline(), bandwidth(), sizes(), heat_map(), flows()"

    @cached_property
    def _data(self) -> PlotData:
        return PlotData(self._run)

    def timeline(self) -> Figure:
        """Each task as a bar from its first call to its last, by stage; dark where it was inside a call on a file, by
        its share of the bar. Of a stage's tasks those that overlap are above each other."""
        rows = self._data.tasks
        if len(rows) > _MOST_BARS:
            rows = rows.sort_values("length_s", ascending=False, kind="stable").head(_MOST_BARS)
        rows = rows.sort_values(["stage", "start_s"], kind="stable")
        lane = _lanes(rows)
        ends = rows["start_s"].max() if len(rows) else 0.0
        height = float(np.clip(1.6 + 0.16 * (lane.max(initial=0) + 1), 2.4, 12))
        figure, axes = _figure(9, height)
        stage = rows["stage"].to_numpy(dtype=np.int64)
        colours = np.array([COLOURS[at % len(COLOURS)] for at in range(len(self._data.stages) or 1)], dtype=object)
        start, length, io_s = (rows[name].to_numpy(dtype=float) for name in ("start_s", "length_s", "io_s"))
        # As wide as can be seen, where a task took no time.
        seen = np.maximum(length, max(ends, 1e-6) / 1500)
        if len(rows):
            axes.barh(lane, seen, left=start, height=0.8, color=colours[stage], alpha=0.4, linewidth=0)
            axes.barh(lane, np.minimum(io_s, seen), left=start, height=0.8, color=colours[stage], linewidth=0)
        ticks = [(float(lane[stage == at].mean()), name) for at, name in enumerate(self._data.stages) if at in stage]
        axes.set_yticks([at for at, _ in ticks], [_name(name) for _, name in ticks])
        axes.invert_yaxis()
        axes.set_xlabel("time since the first event (s)")
        axes.set_ylabel("stage, a bar a task")
        axes.set_title(_title_of_tasks(self._data.tasks, len(rows)))
        return figure

    def bandwidth(self) -> Figure:
        """Bytes read and written per second, by stage over time: each call's bytes spread over its duration. Every call
        counts, those on pipes too."""
        read, wrote = self._data.over_time("read"), self._data.over_time("wrote")
        width_s = float(read.edges_s[1]) or 1.0
        figure, both = _figure(9, 4.8, rows=2)
        for axes, word, found in zip(both, ("read", "written"), (read, wrote), strict=True):
            unit, size = _byte_unit(float(found.values.sum(axis=0).max(initial=0)) / width_s)
            _stacked(axes, found, width_s * size)
            axes.set_ylabel(f"{word} ({unit}/s)")
            axes.set_ylim(bottom=0)
            axes.set_xlim(0, max(float(found.edges_s[-1]), 1e-9))
        both[1].set_xlabel("time since the first event (s)")
        both[0].set_title(f"Bandwidth by stage, bins of {_seconds(width_s)}")
        if len(read.stages):
            both[0].legend(title="stage", fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1.0))
        return figure

    def sizes(self, **where: Any) -> Figure:
        """How many calls moved how many bytes: a histogram in powers of two, reads and writes apart.

        Args:
            **where: as in `Run.events`: sizes(stage="align").

        Raises:
            QueryError: as in `Run.totals`.
        """
        table = self._run.totals(["size:log2", "dir"], ["count"], **where)
        table = table[table["size"].notna() & table["dir"].isin(["r", "w"])]
        figure, axes = _figure(9, 3.6)
        floors = np.array(sorted(table["size"].astype(np.int64).unique()), dtype=np.int64)
        if len(floors):
            powers = [0, *(1 << n for n in range(int(floors[-1]).bit_length()))]
            bins = [at for at in powers if floors[0] <= at <= floors[-1]]
            for at, (way, word) in enumerate((("r", "read"), ("w", "written"))):
                rows = table[table["dir"] == way]
                counts = dict(zip(rows["size"].astype(int), rows["count"].astype(int), strict=True))
                heights = [counts.get(low, 0) for low in bins]
                place = np.arange(len(bins)) + 0.4 * at - 0.2
                axes.bar(place, heights, width=0.4, color=COLOURS[at], label=f"{word}: {sum(heights):,} calls")
            axes.set_xticks(range(len(bins)), [bytes_text(low) for low in bins], rotation=45, ha="right", fontsize=8)
            axes.set_yscale("symlog", linthresh=1)
            axes.set_ylim(bottom=0)
            axes.legend(fontsize=8)
        axes.set_xlabel("bytes moved by a call: from this on, below the next")
        axes.set_ylabel("calls (log scale)")
        axes.set_title("Sizes of calls")
        return figure

    def heat_map(self, what: str = "read") -> Figure:
        """Stages over time, coloured by `what`: "read" or "wrote" (bytes per bin), or "busy" (mean number of processes
        inside a call on a file).

        Raises:
            QueryError: there is no such figure.
        """
        if what not in _HEAT:
            raise QueryError(f"there is no heat map of {what!r}; there are {', '.join(_HEAT)}")
        found = self._data.over_time(what)
        figure, axes = _figure(9, float(np.clip(1.6 + 0.32 * len(found.stages), 2.2, 12)))
        if found.values.any():
            rows = np.arange(len(found.stages) + 1) - 0.5
            scale = {"vmin": 0.0} if what == "busy" else {"norm": _logarithmic(found.values)}
            values = np.ma.masked_less_equal(found.values, 0)
            mesh = axes.pcolormesh(found.edges_s, rows, values, cmap="cividis", **scale)
            title = f"{_HEAT[what]} (mean number)" if what == "busy" else f"{_HEAT[what]} per bin (log scale)"
            figure.colorbar(mesh, ax=axes, label=title, **({} if what == "busy" else _byte_ticks()))
        axes.set_yticks(range(len(found.stages)), [_name(name) for name in found.stages])
        axes.invert_yaxis()
        axes.set_xlabel("time since the first event (s)")
        axes.set_ylabel("stage")
        axes.set_title(f"{_HEAT[what].capitalize()} by stage, bins of {_seconds(float(found.edges_s[1]))}")
        return figure

    def flows(self) -> Figure:
        """The bytes that went from stage to stage through files: who wrote in rows, who read in columns; what was there
        before, and what was left at the end."""
        table = self._data.flows
        table = table.loc[table.sum(axis=1) > 0, table.sum(axis=0) > 0]
        values = table.to_numpy(dtype=float)
        figure, axes = _figure(
            float(np.clip(3.6 + 0.75 * table.shape[1], 5, 16)), float(np.clip(2.2 + 0.42 * table.shape[0], 3, 14))
        )
        if values.any():
            norm = _logarithmic(values)
            shown = np.ma.masked_less_equal(values, 0)
            image = axes.imshow(shown, cmap="cividis", norm=norm, aspect="auto")
            figure.colorbar(image, ax=axes, label="bytes (log scale)", **_byte_ticks())
            for (row, column), value in np.ndenumerate(values):
                if value > 0:
                    colour = "white" if norm(value) < 0.5 else "black"
                    axes.text(column, row, bytes_text(value), ha="center", va="center", fontsize=7, color=colour)
        axes.set_xticks(range(table.shape[1]), [_name(name) for name in table.columns], rotation=35, ha="right")
        axes.set_yticks(range(table.shape[0]), [_name(name) for name in table.index])
        axes.set_xlabel("read by stage")
        axes.set_ylabel("written by stage")
        axes.set_title("Bytes from stage to stage through files")
        return figure


def _figure(width: float, height: float, rows: int = 1) -> tuple[Figure, Any]:
    """A figure of `width` x `height` inches, and its axes: one, or an array of `rows` that share the time."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError(
            f"figures need matplotlib ({error}): pip install 'tailrace[notebook]'; the tables need nothing more"
        ) from error

    class ShownFigure(Figure):
        """A Figure that a notebook shows without pyplot and its inline backend."""

        def _repr_png_(self) -> bytes:
            out = io.BytesIO()
            self.savefig(out, format="png", dpi=110)
            return out.getvalue()

    figure = ShownFigure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, 1, sharex=True)
    for one in np.ravel(axes):
        one.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _stacked(axes: Any, found: OverTime, per: float) -> None:
    """The stages that moved most on top of each other; the others as one."""
    order = np.argsort(-found.values.sum(axis=1), kind="stable")
    kept = np.sort(order[:_MOST_STAGES])
    rows = [(_name(found.stages[at]), at, found.values[at]) for at in kept.tolist()]
    if len(order) > _MOST_STAGES:
        rest = order[_MOST_STAGES:]
        rows.append((f"{len(rest)} others", len(found.stages), found.values[rest].sum(axis=0)))
    under = np.zeros(found.values.shape[1])
    for name, at, values in rows:
        top = under + values / per
        colour, hatch = COLOURS[at % len(COLOURS)], _HATCHES[at // len(COLOURS) % len(_HATCHES)]
        axes.stairs(top, found.edges_s, baseline=under, fill=True, color=colour, hatch=hatch, label=name, linewidth=0)
        under = top


def _lanes(rows: pd.DataFrame) -> Any:
    """The row of each bar: stages below each other, and in a stage the first lane that is free at its begin."""
    import heapq

    out = np.zeros(len(rows), dtype=np.int64)
    base, at = 0, 0
    for _, part in rows.groupby("stage", sort=True):
        free: list[int] = []
        busy: list[tuple[float, int]] = []
        used = 0
        for start, length in zip(part["start_s"].tolist(), part["length_s"].tolist(), strict=True):
            while busy and busy[0][0] <= start:
                heapq.heappush(free, heapq.heappop(busy)[1])
            lane = heapq.heappop(free) if free else used
            used = max(used, lane + 1)
            heapq.heappush(busy, (start + length, lane))
            out[at] = base + lane
            at += 1
        base += used + 1
    return out


def _title_of_tasks(tasks: pd.DataFrame, drawn: int) -> str:
    named = int(tasks["tagged"].sum())
    counts = [(named, "task", "s"), (len(tasks) - named, "process", "es")]
    what = " and ".join(count_text(number, one, plural) for number, one, plural in counts if number) or "No task"
    return f"{what} by stage{f' (the {drawn:,} longest)' if drawn < len(tasks) else ''}; solid: in calls on files"


def _logarithmic(values: Any) -> Any:
    """A scale of colours from the least positive value to the largest."""
    from matplotlib.colors import LogNorm

    low, high = float(values[values > 0].min()), float(values.max())
    return LogNorm(low, high if high > low else low * 10)


def _byte_ticks() -> dict[str, Any]:
    """A colour bar's ticks at powers of two."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    formatter = FuncFormatter(lambda value, _: bytes_text(value))
    return {"ticks": LogLocator(base=4, numticks=12), "format": formatter}


def _byte_unit(most: float) -> tuple[str, float]:
    """The unit in which `most` bytes are a number from 1 to 1024, and its size."""
    power = 0
    while most >= 1024 and power < len(BYTE_UNITS) - 1:
        most, power = most / 1024, power + 1
    return BYTE_UNITS[power], float(1024**power)


def _seconds(width_s: float) -> str:
    return f"{width_s:.3g} s" if width_s >= 1 else f"{width_s * 1e3:.3g} ms"


def _name(text: str) -> str:
    """A name as matplotlib shows it as it is: `$` would begin math."""
    return shortened(visible(text), _LETTERS).replace("$", r"\$")
