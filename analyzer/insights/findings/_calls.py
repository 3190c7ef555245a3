"""What the findings about calls on files of data share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from tailrace.analyzer.insights import call_costs, call_places
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import LEAST, Match, Threshold, rows_of
from tailrace.analyzer.insights.whatif import Gain
from tailrace.analyzer.util.intervals import Intervals
from tailrace.analyzer.util.types import Row

CALLS = Threshold(1000, "calls")


def matches(
    found: Analyses, rows: pd.DataFrame, gain_ns: int, calls: Intervals, title: Callable[[Row, int], str]
) -> Iterator[Match]:
    """One match for rows of `Costs.small` or `Costs.scattered`. title: of the first one, and how many there are."""
    rows = found.of_users(rows)
    gain_ns = min(gain_ns, int(rows["gain_ns"].sum())) if len(rows) else 0
    if not len(rows) or rows["calls"].sum() < CALLS.value or not LEAST.reached(gain_ns, found.inputs.makespan_ns):
        return
    top: Row = rows.iloc[0].to_dict()
    direction = str(top["direction"])[0]
    path = str(top["path"])
    place = call_places.words(found.call_places, int(top["stage_code"]), path=path, direction=direction)
    gain = found.replays.without(calls, gain_ns)
    yield Match(
        title=title(top, len(rows)) + place,
        names={
            "stage": found.of_stage(str(top["stage"])),
            "direction": direction,
            "path": path,
        },
        cost_ns=gain.ns,
        least_ns=gain.least_ns,
        most_ns=gain.most_ns,
        estimate=True,
        count=len(rows),
        evidence=rows_of(rows.drop(columns="stage_code")),
        tasks=found.tasks_of_stages(set(rows["stage_code"])),
        where=f"in {top['stage']}",
    )


def of_stages(
    found: Analyses,
    rows: pd.DataFrame,
    title: Callable[[Row, int], str],
    names: Mapping[str, str] | None = None,
    calls: Mapping[str, Any] | None = None,
    kinds: Sequence[int] = (),
) -> Iterator[Match]:
    """One match for rows of a table of call_costs.py by gain_ns, if the run could be shorter by `LEAST`. calls:
    which of the first row's stage they are, for `call_places.longest`; kinds: of whose time its gain is
    a share; without them it is a bound."""
    rows = found.of_users(rows)
    cost = min(int(rows["gain_ns"].sum()), found.inputs.makespan_ns) if len(rows) else 0
    if not LEAST.reached(cost, found.inputs.makespan_ns):
        return
    top: Row = rows.iloc[0].to_dict()
    chosen: dict[str, str | list[str]] = {"stage": found.of_stage(str(top["stage"])), **(names or {})}
    place = call_places.words(found.call_places, int(top["stage_code"]), **calls) if calls else ""
    gain = found.replays.without(call_costs.left_out(found.inputs, rows, kinds), cost) if kinds else Gain(cost, 0, cost)
    yield Match(
        title=title(top, len(rows)) + place,
        names=chosen,
        cost_ns=gain.ns,
        least_ns=gain.least_ns,
        most_ns=gain.most_ns,
        estimate=True,
        count=len(rows),
        evidence=rows_of(rows.drop(columns="stage_code")),
        tasks=found.tasks_of_stages(set(rows["stage_code"])),
        where=f"in {top['stage']}",
    )
