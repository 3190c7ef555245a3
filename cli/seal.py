"""`tailrace seal DIR`: seals the journals that dead processes left on this node."""

from pathlib import Path

import click

from tailrace.analyzer.util.formatting import count_text
from tailrace.cli.run import describe
from tailrace.errors import CoreError
from tailrace.integrations import launcher, rundir


@click.command()
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
def command(directory: Path) -> None:
    """Bring into the run DIR what processes recorded that died on this node before they could.

    `tailrace run` and the plugins do so by themselves; this is for processes that were started with `tailrace env`, or
    whose launcher was killed too.
    """
    run_dir = rundir.existing_run_directory(directory)
    before = launcher.trace_sizes(run_dir)
    try:
        account = launcher.seal(run_dir)
    except (OSError, RuntimeError) as error:
        raise CoreError(f"can't seal journals into {run_dir}: {error}") from error
    summary = launcher.Summary(alive=len(launcher.unsealed_pids(run_dir)))
    summary.lost.update(account["unrecorded_lost"])
    launcher.add_blocks(summary, run_dir, before)
    if account["failed"]:
        raise CoreError(launcher.waiting(account, run_dir))
    click.echo(f"{count_text(account['sealed_journals'], 'journal')} sealed: {describe(summary)}")
