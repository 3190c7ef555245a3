"""`tailrace seal DIR`: seals the journals of dead processes on this node."""

from pathlib import Path

import click

from tailrace.analyzer.util.formatting import count_text
from tailrace.cli.run import describe
from tailrace.errors import CoreError
from tailrace.integrations import launcher, rundir


@click.command()
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
def command(directory: Path) -> None:
    """Recover records of killed processes on this node into the run DIR.

    `tailrace run` and the plugins do this at their end. The command is for processes that were started with
    `tailrace env`, or whose launcher was killed as well.
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
        raise CoreError(launcher.unsealed_message(account, run_dir))
    click.echo(f"{count_text(account['sealed_journals'], 'journal')} sealed: {describe(summary)}")
