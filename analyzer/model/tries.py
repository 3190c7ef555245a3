"""The time between the tries of a task, in which it did not run: its manager waits before it tries again.

A try that failed has an end, and the next one a launch (docs/declared-dag.md). What the task was seen to do in between,
as the clean-up of a process that goes on, is no pause.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from tailrace.analyzer.util import intervals
from tailrace.analyzer.util.intervals import Intervals


def pauses(tries: pd.DataFrame | None, place: Mapping[tuple[str, str], int], busy: Intervals) -> Intervals:
    """From each failed try's end to the next launch, united.

    Args:
        tries: `declared_tries` of a run.
        place: (workflow, task) -> the group of a task. busy: when each group was in calls, united.
    """
    rows: list[tuple[int, int, int]] = []
    if tries is not None and len(tries):
        ordered = tries.sort_values(["workflow", "task", "try"], kind="stable", na_position="first")
        over: tuple[int, int] | None = None
        columns = (ordered[name] for name in ("workflow", "task", "t_launch_ns", "t_end_ns"))
        for workflow, task, launched, ended in zip(*columns, strict=True):
            group = place.get(("" if pd.isna(workflow) else str(workflow), str(task)), -1)
            if over is not None and group == over[0] and pd.notna(launched) and int(launched) > over[1]:
                rows.append((*over, int(launched)))
            over = (group, int(ended)) if group >= 0 and pd.notna(ended) else None
    group, start, end = np.array(rows, dtype=np.int64).reshape(-1, 3).T.copy()
    return intervals.outside(intervals.union(intervals.make(group, start, end)), busy)
