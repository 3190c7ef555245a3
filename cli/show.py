"""`tailrace show KIND DIR ...`: one thing of a run; each kind is a command of its own, too (main.SHOWN)."""

from __future__ import annotations

import click

from tailrace.cli.main import SHOWN, Commands


@click.group(cls=Commands, groups={"What is shown": SHOWN})
def command() -> None:
    """Show one thing of a run: `tailrace show task DIR ID`, or short `tailrace task DIR ID`."""
