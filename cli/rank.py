"""`tailrace rank`: one rank of a run, or its parallel programs and what differs between their ranks."""

from __future__ import annotations

from pathlib import Path

import click

from tailrace.cli.lines import put_document, put_json
from tailrace.cli.opening import open_run, strict_option
from tailrace.cli.options import PATH, format_option, scheduler_option


@click.command()
@click.argument("directory", type=PATH, metavar="DIR")
@click.argument("name", metavar="[RANK]", required=False)
@format_option
@strict_option
@scheduler_option
def command(directory: Path, name: str | None, form: str, strict: bool) -> None:
    """Show the rank RANK of the run DIR, or its parallel programs.

    Printed are, of RANK, its tasks and how they ended, where its time went, its files, and what its I/O is like.
    Without RANK, of each program: how many ranks were started and which are not in the trace, on which hosts they ran,
    what differs between them, and each rank's bytes of data and times.
    """
    run = open_run(directory, strict)
    if name is not None:
        profile, together = run.rank(name), run.collectives.of_rank(name)
        if form == "json":
            put_json({**profile.to_json(), "collectives": together})
        else:
            put_document(profile.document(together))
        return
    groups = run.ranks()
    if form == "json":
        put_json({"programs": [group.to_json() for group in groups]})
    else:
        from tailrace.analyzer.insights.views import programs_document

        put_document(programs_document(groups, run.insights().inputs.start_ns))
