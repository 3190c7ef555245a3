"""`tailrace whatif`: how long a run would take on other resources."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tailrace.analyzer.util.formatting import count_text, time_text
from tailrace.cli.lines import put, put_json
from tailrace.cli.opening import open_run, strict_option
from tailrace.cli.options import PATH, format_option, scheduler_option

if TYPE_CHECKING:
    from tailrace.analyzer.insights.whatif import Estimate

MOST = 8
"""Stages of the chain that are listed; --format json has all."""


@click.command()
@click.argument("directory", type=PATH, metavar="DIR")
@click.option(
    "--tier",
    multiple=True,
    metavar="PATTERN=SPEED",
    help="Files that fit PATTERN at SPEED for each task (2GB/s), or so many times as fast (4x). May be repeated.",
)
@click.option(
    "--together",
    multiple=True,
    metavar="STAGE,STAGE",
    help="The second stage takes the files of the first one while they are written. May be repeated.",
)
@click.option(
    "--drop",
    multiple=True,
    metavar="WHAT",
    help="Without some declared order: 'declared edges without data', or STAGE,STAGE. May be repeated.",
)
@click.option("--workers", type=int, metavar="N", help="With N workers on each host.")
@format_option
@strict_option
@scheduler_option
def command(
    directory: Path,
    tier: tuple[str, ...],
    together: tuple[str, ...],
    drop: tuple[str, ...],
    workers: int | None,
    form: str,
    strict: bool,
) -> None:
    """Estimate how long the run DIR would take on other resources.

    The observed tasks are replayed with all changes that the options name: each computes for as long as it did, reads
    what the same tasks wrote, waits for what it had to wait for, and for a worker. Printed are the estimate with its
    interval, what is assumed, and the stages that determine the makespan then.
    """
    found = open_run(directory, strict).whatif(tier=tier, together=together, drop=drop, workers=workers)
    if form == "json":
        put_json(found.to_json())
        return
    _print(found)


def _print(found: Estimate) -> None:
    saved = abs(found.saved_ns)
    share = saved / found.makespan_ns if found.makespan_ns else 0.0
    word = "less" if found.saved_ns >= 0 else "more"
    put(f"Measured: {time_text(found.makespan_ns)}")
    put(
        f"Estimate: {time_text(found.estimate_ns)}, between {time_text(found.low_ns)} and {time_text(found.high_ns)}:"
        f" {time_text(saved)} {word} ({share:.0%})"
    )
    for title, lines in (("Assumed", found.assumed), ("As it was", found.kept), ("The interval", found.interval)):
        put()
        put(f"{title}:")
        for line in lines:
            put(f"- {line}", 2)
    put()
    put("Chain of tasks that determines the makespan, by stage (in the run -> then):")
    for part in found.parts[:MOST]:
        put(f"{part.stage}: {_of(part.ns, part.tasks)} -> {_of(part.ns_then, part.tasks_then)}", 2)
    if len(found.parts) > MOST:
        put(f"and {len(found.parts) - MOST} more: --format json has them", 2)


def _of(ns: int, tasks: int) -> str:
    return f"{time_text(ns)} in {count_text(tasks, 'task')}" if tasks else "not on it"
