"""The command lines of processes, tasks and other activities."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import numpy as np

from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.store import processes
from tailrace.analyzer.util.types import Ints
from tailrace.base.text import clean

MOST_COMMANDS = 20
"""Command lines of an activity that are told."""
LONGEST = 60
"""Characters of a command line in a sentence."""


def shown(command: Sequence[str]) -> str:
    """A command line for a sentence."""
    words = clean(shlex.join(command))
    return words if len(words) <= LONGEST else f"{words[: LONGEST - 1].rstrip()}\u2026"


def of_activities(m: Model, code: Ints) -> dict[int, list[str]]:
    """The command lines of each activity's processes, each once, quoted for a shell; the first `MOST_COMMANDS`.

    Args:
        code: the activity of each actor, as of `dataflow.activities`.
    """
    known = m.command_lines
    found: dict[int, dict[str, None]] = {}
    for activity, process in zip(code.tolist(), processes.keys(m.who), strict=True):
        if process in known:
            found.setdefault(activity, {})[clean(shlex.join(known[process]))] = None
    return {activity: [*lines][:MOST_COMMANDS] for activity, lines in found.items()}


def own_actors(m: Model, code: Ints) -> dict[int, int]:
    """Activity -> its first actor whose process worked for it alone. A worker's command line says nothing of the tasks
    that it ran."""
    keys, activities = processes.keys(m.who), code.tolist()
    of: dict[processes.Process, set[int]] = {}
    for key, activity in zip(keys, activities, strict=True):
        of.setdefault(key, set()).add(activity)
    begun = np.full(len(m.who), np.iinfo(np.int64).max)
    np.minimum.at(begun, m.table.counts["who"].to_numpy(), m.table.counts["first_ns"].to_numpy())
    own: dict[int, int] = {}
    for at in np.argsort(begun, kind="stable").tolist():
        if len(of[keys[at]]) == 1:
            own.setdefault(activities[at], at)
    return own
