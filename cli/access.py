"""`tailrace access`: what the I/O of a run is like: sizes, order, bytes used again, metadata calls, balance."""

from __future__ import annotations

from pathlib import Path

import click

from tailrace.cli.lines import put_document, put_json
from tailrace.cli.opening import open_run, strict_option
from tailrace.cli.options import PATH, format_option, scheduler_option

BY = ("stage", "program", "task", "rank", "host", "file")


@click.command()
@click.argument("directory", type=PATH, metavar="DIR")
@click.option("--by", type=click.Choice(BY), default="stage", show_default=True, help="What calls are summed by.")
@format_option
@strict_option
@scheduler_option
def command(directory: Path, by: str, form: str, strict: bool) -> None:
    """Show what the I/O of the run DIR is like.

    Printed are, of files of data, sizes of reads and writes, the order of their offsets (consecutive, sequential,
    strided, random), bytes that were moved again or that several tasks used; then metadata calls, seeks, opens and
    flushes; and how even tasks and ranks are. By rank also what the time of collective calls of MPI-IO was: in system
    calls on the file, before the last rank came, and within MPI, which exchanges and copies data then.

    A call touches a block more than it needs where it begins inside of one and the call before ended elsewhere; the
    block is what the file's file system prefers to move at a time. All is the same under `--detail totals`.
    """
    run = open_run(directory, strict)
    found = run.accesses(by)
    collectives = run.collectives if by == "rank" else None
    if form != "json":
        put_document(found.document(collectives))
        return
    rows = found.to_json()
    if collectives:
        ranks = sorted(set(collectives.calls["rank"]))
        rows["collectives"] = [{"group": rank, **row} for rank in ranks for row in collectives.of_rank(rank)]
    put_json(rows)
