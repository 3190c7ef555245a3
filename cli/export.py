"""`tailrace export`: a run in a format of other tools."""

from pathlib import Path

import click

import tailrace
from tailrace.cli.options import utf8_output

# As in tailrace.analyzer.exports.FORMATS, which is not imported before it is needed.
FORMATS = ("wfformat", "perfetto", "rocrate", "prov", "openlineage", "graphml", "dot", "json")
LEVELS = ("workflow", "stage", "task", "process")


@click.command()
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--to", required=True, type=click.Choice(FORMATS), help="The format.")
@click.option(
    "--level", type=click.Choice(LEVELS), help="Of graphml, dot and json: what nodes stand for. Default: task."
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Where to write, gzip'd when it ends in .gz; for rocrate a folder will do. Default: standard output.",
)
def command(directory: Path, to: str, level: str | None, output: str | None) -> None:
    """Write the run DIR in a format of other tools.

    wfformat: WfFormat 1.6 (WfCommons); perfetto: a timeline (ui.perfetto.dev); rocrate: a Process Run RO-Crate; prov:
    W3C PROV-JSON; openlineage: OpenLineage events; graphml, dot, json: the dataflow graph.
    """
    from tailrace.analyzer import exports

    if output is None:
        utf8_output()
    for note in exports.export(tailrace.open(directory), to, output, level):
        click.echo(f"tailrace: {note}", err=True)
