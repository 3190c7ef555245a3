"""`tailrace export`: writes a run in the format of another tool."""

from pathlib import Path

import click

from tailrace.analyzer import exports
from tailrace.cli.opening import open_run, strict_option
from tailrace.cli.options import PATH, scheduler_option, utf8_output
from tailrace.integrations.messages import say

LEVELS = ("workflow", "stage", "task", "process")


@click.command()
@click.argument("directory", type=PATH, metavar="DIR")
@click.option("--to", required=True, type=click.Choice(exports.NAMES), help="Output format.")
@click.option("--level", type=click.Choice(LEVELS), help="For graphml, dot and json: what a node is. Default: task.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Output file, compressed when its name ends in .gz; for rocrate a file or a folder. Default: standard output.",
)
@click.option(
    "--hash",
    "hashed",
    is_flag=True,
    help="Add the SHA-256 of each file that is still there as the run left it; not in perfetto.",
)
@scheduler_option
@strict_option
def command(directory: Path, to: str, level: str | None, output: str | None, hashed: bool, strict: bool) -> None:
    """Write the run DIR in the format of another tool.

    wfformat: WfFormat 1.6 (WfCommons); perfetto: a timeline (ui.perfetto.dev); rocrate: a Process Run RO-Crate; prov:
    W3C PROV-JSON; openlineage: OpenLineage events; graphml, dot, json: the dataflow graph.
    """
    if output is None:
        utf8_output()
    for note in exports.export(open_run(directory, strict), to, output, level, hashed=hashed):
        say(note)
