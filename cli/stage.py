"""`tailrace stage`: one stage of a run in short."""

from __future__ import annotations

from pathlib import Path

import click

from tailrace.cli.lines import put_noun
from tailrace.cli.opening import open_run, strict_option
from tailrace.cli.options import PATH, format_option, scheduler_option


@click.command()
@click.argument("directory", type=PATH, metavar="DIR")
@click.argument("name", metavar="STAGE")
@format_option
@strict_option
@scheduler_option
def command(directory: Path, name: str, form: str, strict: bool) -> None:
    """Show the stage STAGE of the run DIR: its tasks and how they ended, where its time went, its files, and what its
    I/O is like."""
    put_noun(open_run(directory, strict).stage(name), form)
