"""What the findings about tasks that could run side by side share."""

from __future__ import annotations

import numpy as np

from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import Threshold
from tailrace.analyzer.model import time_model
from tailrace.analyzer.util import intervals

LEAST = Threshold(25, "% of the makespan")
MUCH_USED = 0.75
"""Of the processors' time, from which on more workers would mostly share them."""


def used_share(found: Analyses, waits: intervals.Intervals, tasks: set[int]) -> float:
    """The share of the processors that was used meanwhile; where all tasks are threads of one process, of one, by them:
    what computes in an interpreter does so one by one."""
    inputs, used = found.inputs, found.processors.used(waits)
    mine = np.isin(inputs.of_who, [*tasks])
    if len(tasks) < 2 or len(np.unique(inputs.lives.process[mine])) > 1:
        return used
    spent = inputs.spent.parts().loc[[*tasks]]
    if 2 * int(spent[time_model.UNKNOWN].sum()) > int(spent.to_numpy().sum()):
        return min(used * found.processors.count, 1.0)
    lasted = intervals.total(intervals.united(inputs.tasks.loc[[*tasks], ["start_ns", "end_ns"]].to_numpy(np.int64)))
    return min(int(spent[[time_model.COMPUTING, time_model.READY]].to_numpy().sum()) / max(lasted, 1), 1.0)
