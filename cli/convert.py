"""`tailrace convert`: writes another tracer's trace as a run directory of tailrace, and a run as an OTF2 archive."""

from pathlib import Path

import click

import tailrace
from tailrace.analyzer.foreign import conversion
from tailrace.analyzer.foreign.formats import titles
from tailrace.analyzer.util.formatting import count_text
from tailrace.cli.opening import open_run
from tailrace.cli.options import PATH, scheduler_option
from tailrace.errors import NotARunError, UsageError
from tailrace.integrations.messages import say


@click.command()
@click.argument("source", type=PATH, metavar="SOURCE")
@click.argument("directory", type=PATH, metavar="DIR")
@click.option("--to", type=click.Choice(["otf2"]), help="Write an OTF2 archive (for Vampir) instead of a run.")
@scheduler_option
def command(source: Path, directory: Path, to: str | None) -> None:
    """Write SOURCE, the trace of another tracer, as the run DIR.

    All commands read SOURCE itself, too, and keep what they converted in the user's cache; a run that was written by
    `convert` is independent of both. With `--to otf2` SOURCE may be a run, too; on a Dask scheduler the
    workers read its events.
    """
    if not source.exists():
        raise NotARunError(f"{source}: there is no such file or directory")
    if to is not None:
        _to_otf2(source, directory)
        return
    if (source / "run.json").is_file() or (source / "trace").is_dir():
        raise UsageError(f"{source} is a run of tailrace already")
    _refuse_existing(directory)
    found = conversion.find(source)
    if found is None:
        raise NotARunError(f"{source}: not {titles()}")
    conversion.convert(found, directory)
    run = tailrace.open(directory)
    for text in run.problems:
        say(f"incomplete: {text}")
    info = run.info()
    click.echo(f"{count_text(info['events'], 'event')} of {found.format.title} written to {directory}", err=True)


def _refuse_existing(directory: Path) -> None:
    if directory.exists() or directory.is_symlink():
        raise UsageError(f"{directory} exists: name a new directory")


def _to_otf2(source: Path, directory: Path) -> None:
    from tailrace.analyzer.exports import otf2_archive

    _refuse_existing(directory)
    run = open_run(source)
    for text in run.problems:
        say(f"incomplete: {text}")
    events = int(run.info()["events"])
    otf2_archive.write(run, directory, events)
    click.echo(f"{count_text(events, 'event')} written to {directory / 'traces.otf2'}", err=True)
