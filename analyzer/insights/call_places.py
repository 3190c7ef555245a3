"""Where in the program calls were made, as far as call stacks were recorded (docs/functions.md).

blocks with stacks -> events with a caller -> one row an actor, function, file, direction and caller
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pandas as pd

from tailrace.analyzer.edges.edge_table import WHO
from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.insights.inputs import Inputs
from tailrace.analyzer.store.conditions import Not

TABLE = "call_places"
"""Of `Inputs.tables`."""
_KEYS = [*WHO, "name", "path", "dir", "caller"]


def table(run: AnalyzedRun) -> pd.DataFrame:
    """The columns of an actor (`edge_table.WHO`), name, path, dir (r, w, ""), caller, calls, time_ns: of the calls
    whose stacks were recorded, the most time first. Reads the blocks that have such calls."""
    blocks = run.stack_blocks()
    if not blocks:
        return _none()
    parts = run.parts([*_KEYS, "dur"], blocks=blocks, caller=Not(("",)))
    sums = [_sums(frame) for part in parts if len(frame := part())]
    if not sums:
        return _none()
    found = pd.concat(sums).groupby(_KEYS, as_index=False)[["calls", "time_ns"]].sum()
    return found.sort_values("time_ns", ascending=False, kind="stable", ignore_index=True)


def _sums(frame: pd.DataFrame) -> pd.DataFrame:
    keys = {name: frame[name].astype(object).where(frame[name].notna(), "") for name in _KEYS}
    rows = pd.DataFrame(keys).assign(time_ns=frame["dur"].to_numpy())
    return rows.groupby(_KEYS, as_index=False)["time_ns"].agg(calls="count", time_ns="sum")


def _none() -> pd.DataFrame:
    return pd.DataFrame({name: [] for name in (*_KEYS, "calls", "time_ns")})


def staged(inputs: Inputs) -> pd.DataFrame:
    """The run's table with stage_code, the stage's position in `Inputs.stages`."""
    rows = inputs.tables.get(TABLE)
    if rows is None or rows.empty:
        rows = _none()
    stages = inputs.tasks["stage_code"].to_numpy()[inputs.of_who]
    code = dict(zip(inputs.m.who[WHO].itertuples(index=False, name=None), stages.tolist(), strict=True))
    codes = [code.get(actor, -1) for actor in rows[WHO].itertuples(index=False, name=None)]
    return rows.assign(stage_code=codes)


def longest(
    rows: pd.DataFrame,
    stage: int,
    *,
    path: str | None = None,
    direction: str | None = None,
    names: Collection[str] | None = None,
) -> str:
    """The caller of those that took the most time, of a stage's calls; "" where no stack of one was recorded.

    Args:
        rows: as `staged` returns them. stage: its position in `Inputs.stages`.
        path: only calls on this file. direction: only reads (r), writes (w), or calls that move nothing ("").
        names: only these functions.
    """
    mine = rows[rows["stage_code"] == stage]
    for column, chosen in (("path", path), ("dir", direction)):
        if chosen is not None:
            mine = mine[mine[column] == chosen]
    if names is not None:
        mine = mine[mine["name"].isin(names)]
    return str(mine["caller"].iat[0]) if len(mine) else ""


def words(*place: Any, **calls: Any) -> str:
    """The end of a finding's title that names `longest` of these calls; "" where it is not known."""
    caller = longest(*place, **calls)
    return f"; most of the time at {caller}" if caller else ""
