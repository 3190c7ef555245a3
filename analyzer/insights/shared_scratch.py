"""Files of one name that several tasks of a stage each write anew and then read: scratch files that should be apart.

Who cuts a file off before it first reads it wants nothing of what was there: what it gets from another task is a
mistake, and no dependency to declare. Invariants: reads no events.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import pandas as pd

from tailrace.analyzer.edges.edge_table import READ, WRITE
from tailrace.analyzer.insights.inputs import Inputs


class Scratch(NamedTuple):
    """A path, and the tasks of a stage of which each wrote the file there anew before it read it."""

    path: str
    stage: int
    tasks: frozenset[int]


def shared_scratch(inputs: Inputs) -> list[Scratch]:
    """The scratch files of a run that two tasks or more share; those of most tasks first."""
    m = inputs.m
    data = m.classed(("data",)) & m.of_type("reg")
    rows = m.bursts[data]
    table = pd.DataFrame(
        {
            "task": inputs.of_who[rows["who"].to_numpy()],
            "path": m.paths[rows["file"].to_numpy()],
            "reads": (rows["dir"] == READ).to_numpy(),
            "anew": ((rows["dir"] == WRITE) & (rows["fresh"] > 0)).to_numpy(),
            "first_ns": rows["first_ns"].to_numpy(),
        }
    )
    users = table[table["anew"]].drop_duplicates(["task", "path"])["path"]
    table = table[table["path"].isin(users[users.duplicated()])]
    first = table.groupby(["task", "path"])["first_ns"].min().to_dict()
    anew = table[table["anew"]].groupby(["task", "path"])["first_ns"].min().to_dict()
    readers = set(zip(table.loc[table["reads"], "task"], table.loc[table["reads"], "path"], strict=True))
    stages = inputs.tasks["stage_code"].to_numpy()
    found: dict[tuple[str, int], set[int]] = {}
    for (task, path), at in anew.items():
        if (task, path) in readers and first[task, path] == at and inputs.works[task]:
            found.setdefault((str(path), int(stages[task])), set()).add(int(task))
    shared = [Scratch(*key, frozenset(tasks)) for key, tasks in found.items() if len(tasks) > 1]
    return sorted(shared, key=lambda one: (-len(one.tasks), one.path))


def of_pair(shared: Collection[Scratch], one: int, other: int, path: str = "") -> Scratch | None:
    """The scratch file that two tasks share; path: it must be this one."""
    both = (each for each in shared if {one, other} <= each.tasks and path in ("", each.path))
    return next(both, None)
