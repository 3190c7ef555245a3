"""A run as a notebook shows it: what ran, how it ended, its stages. Reads no events."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, Protocol

from tailrace.analyzer.store.usage import Stage
from tailrace.analyzer.util import html
from tailrace.analyzer.util.formatting import bytes_text, count_text, moment_text, time_text

MOST = 30
"""Stages that are listed."""


class ListedRun(Protocol):
    """What of `Run` is shown."""

    @property
    def path(self) -> Path:
        """Its directory."""

    @property
    def problems(self) -> list[str]:
        """What of it is missing, a sentence each."""

    def info(self) -> dict[str, Any]:
        """An overview; see `Run.info`."""

    def stage_rows(self) -> list[Stage]:
        """Its stages."""


def markup(run: ListedRun) -> str:
    """The run as HTML."""
    told = run.info()
    facts: list[tuple[str, str]] = [("directory", told["path"])]
    command = told["command"]
    if command:
        facts.append(("command", shlex.join(map(str, command)) if isinstance(command, list) else str(command)))
    if told["outcome"]:
        facts.append(("outcome", told["outcome"]))
    if told["events"]:
        facts.append(("time", time_text(told["t1_ns"] - told["t0_ns"])))
    hosts = ", ".join(told["hosts"][:5]) + (", ..." if len(told["hosts"]) > 5 else "")
    counts = (told["events"], "event"), (told["tasks"], "task")
    said = [count_text(number, one) for number, one in counts]
    facts.append(("recorded", f"{', '.join(said)}, {count_text(told['processes'], 'process', 'es')} on {hosts}"))
    facts.append(("moved", f"{bytes_text(told['read_bytes'])} read, {bytes_text(told['written_bytes'])} written"))
    facts += [("missing", problem) for problem in run.problems[:5]]
    rows = [
        (
            stage.stage or "(untagged)",
            f"{stage.tasks:,}",
            f"{stage.processes:,}",
            f"{stage.events:,}",
            bytes_text(stage.read_bytes),
            bytes_text(stage.written_bytes),
            moment_text(stage.t0_ns, told["t0_ns"]),
            time_text(stage.t1_ns - stage.t0_ns),
        )
        for stage in run.stage_rows()
    ]
    numbers = ("tasks", "processes", "events", "read", "written", "begin", "time")
    table = html.table(("stage", *numbers), rows[:MOST], numbers, len(rows) - MOST)
    name = str(run.path.name or run.path)
    return html.output(f"Run {name}", html.table(("", ""), facts), table if rows else "")
