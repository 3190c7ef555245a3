"""The numbers of the figures: stages over time, tasks, flows, from the model of a run, without reading events again."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd

from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.model import dataflow, stages
from tailrace.analyzer.summary import fold, heat, stageflows, tasks
from tailrace.analyzer.util.types import Floats, Ints


class OverTime(NamedTuple):
    """A figure by stage and bin of time: `edges_s` has one more entry than `values` columns; s of the run."""

    stages: list[str]
    edges_s: Floats
    values: Floats


class PlotData:
    """What the figures of one run are drawn from, each computed on first use."""

    def __init__(self, run: AnalyzedRun) -> None:
        self._run = run
        self._whole = dataflow.model(run)
        self._m = fold.folded(self._whole)
        self._table = stages.table(self._m)
        self._code, activities = dataflow.activities(self._m, "stage")
        place = pd.MultiIndex.from_frame(self._table[["workflow", "stage"]])
        own = pd.MultiIndex.from_frame(activities[["workflow", "stage"]])
        self._index: Ints = np.asarray(place.get_indexer(own), dtype=np.int64)
        named = self._table["workflow"]
        several = named[named != ""].nunique() > 1
        self.stages: list[str] = [
            f"{row['workflow']}: {row['stage']}" if several and row["workflow"] else str(row["stage"])
            for row in self._table.to_dict("records")
        ]
        self.start_ns = int(self._table["first_ns"].min()) if len(self._table) else 0

    @cached_property
    def _window(self) -> tuple[int, int]:
        if not len(self._table):
            return 0, 0
        return self.start_ns, int(self._table["last_ns"].max())

    @cached_property
    def _heat(self) -> dict[str, object]:
        return heat.over_time(self._m, self._code, self._index, self.start_ns, self._window, len(self._table))

    def over_time(self, what: str) -> OverTime:
        """what: read, wrote (bytes of each bin) or busy (mean number of processes inside a call on a file)."""
        found = self._heat
        rows = np.asarray(found["stage"], dtype=np.int64)
        width_s = (self._window[1] - self._window[0]) / 1e9 / heat.BINS
        values = np.asarray(found[what], dtype=np.float64).reshape(len(rows), heat.BINS)
        edges_s: Floats = np.arange(heat.BINS + 1, dtype=np.float64) * np.float64(width_s)
        return OverTime([self.stages[row] for row in rows.tolist()], edges_s, values)

    @cached_property
    def tasks(self) -> pd.DataFrame:
        """A row a task, or a process without one (tagged: False): stage (position), name, start_s, length_s, io_s; by
        stage and start."""
        run, m = self._run, self._m
        rows = tasks.tasks(m, self._whole, self._code, self._index, self.start_ns, run.declared_tasks)["rows"]
        made = [(r["stage"], r["name"], r["start"] / 1e3, r["dur"] / 1e3, r["io"] / 1e3, "pid" not in r) for r in rows]
        return pd.DataFrame(made, columns=["stage", "name", "start_s", "length_s", "io_s", "tagged"])

    @cached_property
    def flows(self) -> pd.DataFrame:
        """Bytes from stage (row) to stage (column); the row "(before the run)" and the column "(left at the end)"."""
        found = stageflows.flows(self._m, self._code, self._index)
        names = [*self.stages, "(before the run)"], [*self.stages, stageflows.RESULT]
        out = np.zeros((len(names[0]), len(names[1])))
        for flow in found:
            out[flow["source"], flow["target"]] += flow["bytes"]
        return pd.DataFrame(out, index=names[0], columns=names[1])
