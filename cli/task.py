"""`tailrace task`: one task: how it ended, where its time went, its processes, data and neighbours."""

from __future__ import annotations

from pathlib import Path

import click

from tailrace.cli.lines import put_noun
from tailrace.cli.opening import open_run, strict_option
from tailrace.cli.options import PATH, format_option, scheduler_option


@click.command()
@click.argument("directory", type=PATH, metavar="DIR")
@click.argument("task", metavar="ID")
@format_option
@strict_option
@scheduler_option
def command(directory: Path, task: str, form: str, strict: bool) -> None:
    """Show the task ID of the run DIR.

    ID is the task's tag, its name as reports show it (with or without its stage), WORKFLOW/TASK, or HOST:PID of a
    process without a task. Printed are its status, where its time went, its processes with their command lines, its
    data and who made and used it, its place on the critical path, its slowest calls, and what sets it apart from the
    other tasks of its stage.
    """
    put_noun(open_run(directory, strict).task(task), form)
