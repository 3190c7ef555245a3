"""Stories several times beside each other, under other names: all that they say in times and sizes, several say alike.

    run = beside([make for make, _ in finding_cases.CASES.values()], copies=3)

A copy has names of tasks and files, processes and identities of its own, and the times, stages and sizes of the others.
The order of its processes is not that of its names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from support.flowcase import FakeRun

TABLES = ("declared_tasks", "declared_deps", "declared_files", "declared_waits", "declared_tries", "processes")
TABLES += ("command_ends", "process_ranks")
TASKS = ("task", "dep", "awaited", "after", "parent", "name")
APART = 1100
"""More than the pids of a story."""
FILES = 100_000
"""More than the inodes of a story."""


def beside(stories: Sequence[Callable[[], FakeRun]], copies: int = 3) -> FakeRun:
    """The stories of each function, `copies` times, as one run."""
    rows: list[dict[str, Any]] = []
    tables: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    for number, make in enumerate(stories):
        for copy in range(copies):
            run = make()
            place = _Place(f"{number}x{copy}", number * copies + (copies - copy) % copies)
            rows += [place.event(row) for row in run.rows]
            for name in TABLES:
                tables[name] += [place.row(row) for row in getattr(run, name).to_dict("records")]
    rows.sort(key=lambda row: int(row["ts"]))
    return FakeRun(rows, **{name: pd.DataFrame(known, dtype=object) for name, known in tables.items() if known})


class _Place:
    """One copy: its name, and its number, by which it has its pids and inodes."""

    def __init__(self, name: str, number: int) -> None:
        self.name, self.number = name, number

    def event(self, row: dict[str, Any]) -> dict[str, Any]:
        """An event of the copy."""
        own = self.row(row) | {"tid": row["tid"] + APART * self.number}
        if row["name"] in ("fork", "wait"):
            own["ret"] = row["ret"] + APART * self.number
        return own

    def row(self, row: dict[str, Any]) -> dict[str, Any]:
        """An event, or a row of a table."""
        own = dict(row)
        for key, value in row.items():
            if key in ("pid", "ppid") and not pd.isna(value):
                own[key] = value + APART * self.number
            elif not isinstance(value, str) or not value:
                continue
            elif (key in TASKS and "cat" not in row) or key == "task":
                own[key] = f"{value}.{self.name}"
            elif key in ("path", "path2"):
                own[key] = f"/d{self.name}{value}"
            elif key in ("file", "file2"):
                device, inode = value.rsplit(":", 1)
                own[key] = f"{device}:{int(inode) + FILES * self.number}"
        return own
