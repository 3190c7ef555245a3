"""`tailrace tag [--stage S] [--task T] ... [--] CMD...`: executes CMD with these tags.

The command itself takes these options (core/launcher/options.cc), and comes here for the help, the completion, and what
is wrong with them. A new option belongs in both.
"""

import os
import signal

import click

from tailrace import tags as tag_rules
from tailrace.cli.options import parse_assignments
from tailrace.errors import TagError
from tailrace.integrations.messages import say

_VARIABLE = "TAILRACE_TAGS"


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--workflow", metavar="NAME", help="The workflow that the command belongs to.")
@click.option("--stage", metavar="NAME", help="Its stage: what tasks of one kind have in common.")
@click.option("--task", metavar="NAME", help="Its task.")
@click.option("--try", "try_", metavar="N", help="Which try of the task it is.")
@click.option("--job", metavar="ID", help="Its job of a resource manager.")
@click.option("--rank", metavar="N", help="Its rank.")
@click.option("--tag", "-t", "assignments", multiple=True, metavar="KEY=VALUE", help="Any other tag. May be repeated.")
@click.argument("cmd", nargs=-1, required=True, type=click.UNPROCESSED)
def command(assignments: tuple[str, ...], cmd: tuple[str, ...], try_: str | None, **named: str | None) -> int:
    """Execute CMD with tags, for managers and tools that have a wrapper, a prefix or a shell to set.

    \b
        parallel tailrace tag --stage align --task {} -- ./align.sh {} ::: *.fq
        make SHELL="$(command -v tailrace)" .SHELLFLAGS='tag --stage make --task $@ -- /bin/sh -c'

    CMD is traced where its surroundings are (`tailrace run`, `tailrace env`); elsewhere it just runs. Tags that are
    there already stay, unless given anew. CMD replaces this process: its exit code, signals and files are its own;
    127 when it is not found, 126 when it can't be executed.
    """
    given = {key: value for key, value in {**named, "try": try_}.items() if value is not None}
    tags = tag_rules.encode({**parse_assignments(assignments), **given})
    environment = dict(os.environ)
    try:
        tags = tag_rules.merge(environment.get(_VARIABLE, ""), tags)
    except TagError as error:
        # It must not keep the command from running.
        say(f"{_VARIABLE} is left out: {error}")
    if tags:
        environment[_VARIABLE] = tags
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        # Python ignores them.
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(cmd[0], cmd, environment)  # noqa: S606
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        say(f"{cmd[0]}: {'command not found' if missing else error.strerror}")
        return 127 if missing else 126
