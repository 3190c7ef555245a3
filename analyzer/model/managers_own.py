"""The actors that are a workflow manager's own: its processes and what they start, as far as it belongs to no task.

    processes that their manager declared as its own (`own_processes`, docs/declared-dag.md), and their descendants
      -- without a stage and a task --> actors()

Nobody who uses a workflow can act on what those do, so reports say it in one line. A parent is the process with its pid
that began last before the child; where that is wrong, a pid was reused between two processes of one minute.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pandas as pd

from tailrace.analyzer.store import processes
from tailrace.analyzer.store.processes import Process
from tailrace.analyzer.util.types import Bools


def actors(who: pd.DataFrame, table: pd.DataFrame | None, own: Collection[Process]) -> Bools:
    """Whether each actor (row of `who`) is a manager's own.

    Args:
        table: `Run.processes`, with the column ppid; None: nobody's parent is known. own: `Run.own_processes`.
    """
    found = np.zeros(len(who), dtype=np.bool_)
    if not own:
        return found
    mine = _with_descendants(table, set(own)) if table is not None and "ppid" in table else set(own)
    keys = processes.keys(who)
    return np.fromiter((key in mine for key in keys), np.bool_, len(keys)) & _untagged(who)


def _untagged(who: pd.DataFrame) -> Bools:
    return (who["stage"] + who["task"] == "").to_numpy(dtype=np.bool_)


def _with_descendants(table: pd.DataFrame, own: set[Process]) -> set[Process]:
    keys = sorted(processes.keys(table), key=_began)
    parent_pid = dict(zip(processes.keys(table), table["ppid"].tolist(), strict=True))
    last: dict[tuple[str, int], Process] = {}
    for key in keys:
        ppid = parent_pid[key]
        parent = None if pd.isna(ppid) else last.get((key[0], int(ppid)))
        if parent in own:
            own.add(key)
        last[key[0], key[1]] = key
    return own


def _began(process: Process) -> tuple[int, str]:
    """Hexadecimal numbers without leading zeros."""
    return len(process[2]), process[2]
