"""Where in the program calls on a file were made, as far as call stacks were recorded (docs/functions.md).

blocks with stacks -> events with a caller -> one row a file, direction and caller
"""

from __future__ import annotations

import pandas as pd

from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.insights.inputs import Inputs
from tailrace.analyzer.store.conditions import Not

TABLE = "call_places"
"""Of `Inputs.tables`."""
_KEYS = ["path", "dir", "caller"]


def table(run: AnalyzedRun) -> pd.DataFrame:
    """path, dir (r, w), caller, calls, time_ns: of the calls whose stacks were recorded, the most time first. Reads the
    blocks that have such calls."""
    blocks = run.stack_blocks()
    if not blocks:
        return _none()
    parts = run.parts([*_KEYS, "dur"], blocks=blocks, caller=Not(("",)))
    frames = [frame for part in parts if len(frame := part())]
    sums = [frame.groupby(_KEYS, observed=True)["dur"].agg(["count", "sum"]) for frame in frames]
    if not sums:
        return _none()
    joined = pd.concat([part.reset_index().astype(dict.fromkeys(_KEYS, "str")) for part in sums])
    found = joined.groupby(_KEYS, as_index=False)[["count", "sum"]].sum()
    found = found.rename(columns={"count": "calls", "sum": "time_ns"})
    ordered: pd.DataFrame = found.sort_values("time_ns", ascending=False, kind="stable", ignore_index=True)
    return ordered


def _none() -> pd.DataFrame:
    made: pd.DataFrame = pd.DataFrame({name: [] for name in (*_KEYS, "calls", "time_ns")})
    return made


def longest(inputs: Inputs, path: str, direction: str) -> str:
    """The caller of those that took the most time, of calls on the file in the direction (r, w); "" where no stack of
    one was recorded."""
    places = inputs.tables.get(TABLE)
    if places is None or places.empty:
        return ""
    mine: pd.DataFrame = places[(places["path"] == path) & (places["dir"] == direction)]
    return str(mine["caller"].iat[0]) if len(mine) else ""
