"""`tailrace seal DIR`, `tailrace seal --all`: seals the journals of dead processes on this node."""

import os
from pathlib import Path

import click

from tailrace import _native
from tailrace.analyzer.util.formatting import count_text
from tailrace.base.text import visible
from tailrace.cli.opening import lines
from tailrace.cli.options import PATH
from tailrace.errors import CoreError, UsageError
from tailrace.integrations import host_description, launcher, recovery, rundir
from tailrace.integrations.indexing import index_at_end


@click.command()
@click.argument("directory", type=PATH, metavar="[DIR]", required=False)
@click.option(
    "-a",
    "--all",
    "everything",
    is_flag=True,
    help="Seal the journals of all runs on this node; as root, those of all users, each with that user's rights.",
)
@click.option("--remove", is_flag=True, help="With --all: also remove the journals of runs that are gone.")
def command(directory: Path | None, everything: bool, remove: bool) -> None:
    """Recover records of killed processes on this node into the run DIR.

    `tailrace run` and the plugins do this at their end, and `tailrace info`, `report` and `query` before they read a
    run. The command is for nodes on which none of these runs: with --all in a job's epilog, or from cron.
    """
    if (directory is None) != everything:
        raise UsageError("give a run directory, or --all for all runs of this node")
    if remove and not everything:
        raise UsageError("--remove goes with --all: it removes the journals of runs that are gone")
    if directory is None:
        _seal_all(remove)
        return
    run_dir = rundir.existing_run_directory(directory)
    before = launcher.whole_sizes(run_dir)
    try:
        account = launcher.seal(run_dir)
    except CoreError as error:
        raise CoreError(f"can't seal journals into {run_dir}: {error}") from error
    host_description.add(run_dir)
    summary = launcher.Summary()
    summary.alive = len(launcher.unsealed_pids(run_dir))
    for cause, events in account["unrecorded_lost"].items():
        summary.add_lost(cause, events)
    launcher.add_blocks(summary, run_dir, before)
    _native.add_to_manifest(run_dir)
    if account["failed"]:
        raise CoreError(launcher.unsealed_message(account, run_dir))
    click.echo(visible(f"{count_text(account['sealed_journals'], 'journal')} sealed: {summary.describe()}"))
    if not summary.alive:
        index_at_end(run_dir)


def _seal_all(remove: bool) -> None:
    """Prints a line per run and fact. Raises CoreError when journals could not be sealed."""
    unsealed, ended = 0, []
    for found in recovery.seal_all(remove):
        whose = "" if found.user == os.geteuid() else f"user {found.user}: "
        for line in lines(found):
            click.echo(visible(f"{whose}{found.run}: {line}"))
        unsealed += found.failed + bool(found.fault)
        if found.journals and not (found.alive or found.failed or found.gone):
            ended.append(Path(found.run))
    index_at_end(ended)
    if unsealed:
        raise CoreError("not all journals could be sealed: see the lines above")
