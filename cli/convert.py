"""`tailrace convert`: writes another tracer's trace as a run directory of tailrace."""

from pathlib import Path

import click

import tailrace
from tailrace.analyzer.foreign import conversion
from tailrace.analyzer.foreign.formats import titles
from tailrace.analyzer.util.formatting import count_text
from tailrace.errors import NotARunError, UsageError
from tailrace.integrations.messages import say


@click.command()
@click.argument("source", type=click.Path(path_type=Path), metavar="SOURCE")
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
def command(source: Path, directory: Path) -> None:
    """Write SOURCE, the trace of another tracer, as the run DIR.

    All commands read SOURCE itself, too, and keep what they converted in the user's cache; a run that was written by
    `convert` is independent of both.
    """
    if not source.exists():
        raise NotARunError(f"{source}: there is no such file or directory")
    if (source / "run.json").is_file() or (source / "trace").is_dir():
        raise UsageError(f"{source} is a run of tailrace already")
    if directory.exists() or directory.is_symlink():
        raise UsageError(f"{directory} exists: name a new directory")
    found = conversion.find(source)
    if found is None:
        raise NotARunError(f"{source}: not {titles()}")
    conversion.convert(found, directory)
    run = tailrace.open(directory)
    for text in run.problems:
        say(f"incomplete: {text}")
    info = run.info()
    click.echo(f"{count_text(info['events'], 'event')} of {found.format.title} written to {directory}", err=True)
