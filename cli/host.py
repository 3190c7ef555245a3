"""`tailrace host`: one host of a run in short, with its mounts, cost of tracing, losses and clock."""

from __future__ import annotations

from pathlib import Path

import click

from tailrace.cli.lines import put_document, put_json, put_noun
from tailrace.cli.opening import open_run, strict_option
from tailrace.cli.options import PATH, format_option, scheduler_option


@click.command()
@click.argument("directory", type=PATH, metavar="DIR")
@click.argument("name", metavar="[HOST]", required=False)
@format_option
@strict_option
@scheduler_option
def command(directory: Path, name: str | None, form: str, strict: bool) -> None:
    """Show the host HOST of the run DIR, or its hosts.

    Printed are the mounts and how fast data files on them were read and written, the processor time that sealing took,
    what was lost and why, and the clock; of HOST also its tasks and how they ended, where its time went, its files,
    and what its I/O is like. Of a run on one host, HOST is that one.
    """
    run = open_run(directory, strict)
    facts = run.hosts()
    if name is None and len(facts) == 1:
        name = facts[0].host
    if name is not None:
        put_noun(run.host(name), form)
    elif form == "json":
        put_json({"hosts": [one.to_json() for one in facts]})
    else:
        from tailrace.analyzer.insights.views import hosts_document

        put_document(hosts_document(facts))
