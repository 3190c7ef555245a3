"""`tailrace report`: what a run did to its data, on the terminal or as one web page."""

from pathlib import Path

import click

import tailrace
from tailrace.errors import UsageError


@click.command()
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--html", type=click.Path(path_type=Path), help="Write one self-contained page to this file instead.")
def command(directory: Path, html: Path | None) -> None:
    """Show the stages of the run DIR, their dataflow, and what was lost."""
    from rich.console import Console

    from tailrace.analyzer import report

    run = tailrace.open(directory)
    if html is None:
        report.render_terminal(run, Console())
        return
    try:
        report.write_html(run, html)
    except OSError as error:
        raise UsageError(f"can't write {html}: {error.strerror}") from error
    click.echo(f"{html}: open it in a browser", err=True)
