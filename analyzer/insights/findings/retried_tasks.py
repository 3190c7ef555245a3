"""Tasks that succeeded, but not at their first try."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.failures import first_line
from tailrace.analyzer.insights.finding import EVIDENCE, GAPS, TIME, Match, Rule
from tailrace.analyzer.model import outcomes
from tailrace.analyzer.model.outcomes import RETRIED
from tailrace.analyzer.util import intervals
from tailrace.analyzer.util.formatting import count_text, time_text


def find(found: Analyses) -> Iterator[Match]:
    """All such tasks, as one match."""
    rows = found.outcomes[found.outcomes["status"] == RETRIED]
    if len(rows) == 0:
        return
    rows = rows.sort_values("lost_ns", ascending=False, kind="stable")
    first, lost = rows.iloc[0], int(rows["lost_ns"].sum())
    why = first_line(str(first["error"]))
    who = f"{count_text(len(rows), 'task')} needed more than one try, most of all {found.called(first)}"
    who = who if len(rows) > 1 else f"{found.called(first)} needed {first['tries']} tries"
    took = f"; the failed tries ended {time_text(lost)} after their launch" if lost else ""
    yield Match(
        title=f"{who}{f': {why}' if why else ''}{took}",
        cost_ns=min(lost, _together(found, rows)),
        estimate=True,
        fault=True,
        names={"task": str(first["task"])},
        count=len(rows),
        evidence=[
            {
                "task": found.called(row),
                "tries": int(row["tries"]),
                "lost_ns": int(row["lost_ns"]),
                "error": str(row["error"])[:400],
            }
            for _, row in rows.head(EVIDENCE).iterrows()
        ],
    )


def _together(found: Analyses, rows: pd.DataFrame) -> int:
    """For how long at least one of the failed tries lasted, from its launch to its end, ns: they run side by side."""
    tries, mine = found.inputs.tables.get("declared_tries"), set(outcomes.task_keys(rows))
    if tries is None or not len(tries):
        return int(rows["lost_ns"].sum())
    tries = tries.assign(workflow=tries["workflow"].fillna(""))
    last = tries.groupby(["workflow", "task"])["try"].transform("max")
    known = tries["t_launch_ns"].notna() & tries["t_end_ns"].notna() & (tries["try"] < last)
    failed = tries[known & np.array([key in mine for key in outcomes.task_keys(tries)], dtype=np.bool_)]
    begin, end = (failed[name].to_numpy(dtype=np.int64) for name in ("t_launch_ns", "t_end_ns"))
    united = intervals.union(intervals.make(np.zeros(len(failed), dtype=np.int64), begin, np.maximum(end, begin)))
    return int(intervals.length(united, 1)[0])


RULE = Rule(
    kind="retried tasks",
    about=TIME,
    title="Tasks that succeeded at a later try",
    definition=(
        "The workflow manager started a task again after it had failed, and then it succeeded. The cost is the time in"
        " which at least one of the failed tries lasted, from launch to end: waiting for a worker included, so it is an"
        " upper bound."
    ),
    advice="Mend what made the first try fail: a retry costs its time, and hides a fault that may come again.",
    source="The workflow manager's own word (docs/declared-dag.md)",
    query="tailrace task {run} {task}",
    find=find,
    change="no failed tries",
    explains=(GAPS,),
)
