"""`tailrace graph`: writes the dataflow of a run as a file for Graphviz, yEd, Gephi or a program."""

from pathlib import Path

import click

from tailrace.base.text import visible
from tailrace.cli.opening import open_run, strict_option
from tailrace.cli.options import PATH, scheduler_option, utf8_output
from tailrace.errors import UsageError

LEVELS = ("workflow", "stage", "task", "process")
FORMATS = ("graphml", "dot", "json")
ENDINGS = {".graphml": "graphml", ".dot": "dot", ".gv": "dot", ".json": "json"}


@click.command()
@click.argument("directory", type=PATH, metavar="DIR")
@click.option("--level", type=click.Choice(LEVELS), default="stage", show_default=True, help="What a node is.")
@click.option("--stage", multiple=True, help="Only this stage and its neighbors. May be repeated.")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="Output format. Default: by the ending of the output's name, else dot.",
)
@click.option(
    "--files",
    type=click.Choice(["none", "shared", "all"]),
    help="File nodes: none (edges from stage to stage), shared (written by one stage, read by another), or all. "
    "Default: none at the levels workflow and stage, all at task and process.",
)
@click.option(
    "--software",
    type=click.Choice(["packages", "files"]),
    is_flag=False,
    flag_value="packages",
    help="Add programs and libraries: packages (the default of this option) or files, which adds system files, too.",
)
@click.option(
    "--datasets",
    is_flag=True,
    help="Add HDF5 datasets with their writers and readers. Implies --files all unless given.",
)
@click.option("-o", "--output", type=PATH, help="Output file. Default: standard output.")
@scheduler_option
@strict_option
def command(
    directory: Path,
    level: str,
    stage: tuple[str, ...],
    form: str | None,
    files: str | None,
    software: str | None,
    datasets: bool,
    output: Path | None,
    strict: bool,
) -> None:
    """Write the dataflow of the run DIR as a graph."""
    from tailrace.analyzer import exports
    from tailrace.analyzer.edges import file_classes
    from tailrace.analyzer.insights import insights
    from tailrace.analyzer.insights.annotate import annotate
    from tailrace.analyzer.model import dataflow, graphs
    from tailrace.base.published import published

    classes = file_classes.CLASSES if software == "files" else dataflow.DEFAULT_CLASSES
    packages = ("software",) if software == "packages" else ()
    run = open_run(directory, strict)
    graph = graphs.graph(
        run, level=level, files=files, classes=classes, packages=packages, stage=stage, with_datasets=datasets
    )
    annotate(graph, insights(run))
    form = form or ENDINGS.get(output.suffix.lower() if output else "", "dot")
    write = exports.FORMATS[form].graph
    assert write is not None, f"{form} is no graph format"
    if output is None:
        write(graph, utf8_output())
        return
    try:
        with published(output) as place, place.open("w", encoding="utf-8") as file:
            write(graph, file)
    except OSError as error:
        raise UsageError(f"can't write {output}: {error.strerror or error}") from error
    click.echo(f"{visible(str(output))}: {graph.number_of_nodes()} nodes, {graph.number_of_edges()} edges", err=True)
