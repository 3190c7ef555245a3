"""Options that more than one subcommand has."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tailrace.tags import encode, parse_assignment

_Command = TypeVar("_Command", bound=Callable[..., Any])


def tag_option(function: _Command) -> _Command:
    """`--tag KEY=VALUE`, as often as wanted; the parameter `tags` is a tuple of strings."""
    return click.option(
        "--tag",
        "-t",
        "tags",
        multiple=True,
        metavar="KEY=VALUE",
        help="A tag for all that is recorded (workflow, stage, task, job, rank or any other key). May be repeated.",
    )(function)


def canonical_tags(assignments: tuple[str, ...]) -> str:
    """The canonical string of `--tag` options; of a key given twice the last counts. Raises TagError."""
    return encode(dict(parse_assignment(assignment) for assignment in assignments))
