"""`tailrace env -o DIR`: prints the environment that traces a process, for workflow managers without a plugin."""

import json
import shlex
import sys
from pathlib import Path

import click

from tailrace.cli.options import PATH, canonical_tags, settings_options, tag_option, take_settings
from tailrace.errors import UsageError
from tailrace.integrations import environment, rundir
from tailrace.integrations.messages import say


@click.command()
@click.option("-o", "--output", type=PATH, required=True, metavar="DIR", help="The run directory.")
@tag_option
@settings_options
@click.option(
    "--format",
    "form",
    type=click.Choice(["shell", "json"]),
    default="shell",
    help="shell: export lines for eval. json: one object.",
)
def command(output: Path, tags: tuple[str, ...], config: Path | None, chosen: tuple[str, ...], form: str) -> None:
    """Print the environment that traces a process, and create its run directory.

    \b
        eval "$(tailrace env -o DIR --tag stage=align)"

    DIR must be reachable under the same path on every node. Run `tailrace seal DIR` on each node at the end: it
    recovers the records of killed processes.
    """
    canonical = canonical_tags(tags)
    take_settings(config, chosen)
    if rundir.is_run_directory(output):
        run_dir = rundir.existing_run_directory(output)
    else:
        run_dir = rundir.open_run_directory(output, rundir.command_line(), canonical)
    try:
        environment.check_journal_directory()
    except UsageError as error:
        # The node that is to be traced may have it.
        say(str(error))
    variables = environment.task_environment(run_dir, canonical)
    # TAILRACE_CLOCK is left out: the clock reference is valid on this node only.
    names = ("LD_PRELOAD", "TAILRACE_RUN", "TAILRACE_TAGS", *environment.chosen_settings())
    shown = {name: variables[name] for name in names if name in variables}
    if form == "json":
        json.dump(shown, sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        for name, value in shown.items():
            sys.stdout.write(f"export {name}={shlex.quote(value)}\n")
