"""Options that several subcommands share."""

import io
import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click

from tailrace.errors import UsageError
from tailrace.tags import encode, parse_assignment

_Command = TypeVar("_Command", bound=Callable[..., Any])


class _GivenPath(click.Path):
    """A path that is not empty: that is what the shell makes of a variable that is not set, and would be the working
    directory."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the path is empty; is it a shell variable that is not set?", param, ctx)
        return super().convert(value, param, ctx)


PATH = _GivenPath(path_type=Path)


def tag_option(function: _Command) -> _Command:
    """`--tag KEY=VALUE`, repeatable; the parameter `tags` is a tuple of strings."""
    return click.option(
        "--tag",
        "-t",
        "tags",
        multiple=True,
        metavar="KEY=VALUE",
        help="Add a tag to all recorded events (workflow, stage, task, job, rank or any other key). May be repeated.",
    )(function)


def settings_options(function: _Command) -> _Command:
    """`--config FILE` and `--set NAME=VALUE`; the parameters `config` and `chosen` are for `take_settings`."""
    function = click.option(
        "--set",
        "chosen",
        multiple=True,
        metavar="NAME=VALUE",
        help="Choose a setting (`tailrace config`), as in --set exclude=*.log. May be repeated.",
    )(function)
    return click.option(
        "--config",
        type=PATH,
        metavar="FILE",
        help="A YAML file with settings, for those that no variable and no option gives. Default: TAILRACE_CONFIG.",
    )(function)


def take_settings(config: Path | None, chosen: tuple[str, ...]) -> None:
    """Puts what was chosen into this process's environment. Raises UsageError: there is no such setting or value."""
    from tailrace.integrations import settings

    if config is not None:
        os.environ[settings.CONFIG] = str(config.absolute())
    pairs = [item.partition("=") for item in chosen]
    for item, (_, equals, _) in zip(chosen, pairs, strict=True):
        if not equals:
            raise UsageError(f"--set {item}: give NAME=VALUE, as in detail=auto")
    settings.choose({name: value for name, _, value in pairs}, "--set")
    settings.load_file()
    settings.check()


def format_option(function: _Command) -> _Command:
    """`--format text|json`, of a command whose answer is no table; the parameter is `form`."""
    return click.option(
        "--format",
        "form",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="json: everything, as one document.",
    )(function)


def scheduler_option(function: _Command) -> _Command:
    """`--scheduler ADDRESS`, nearest to the function, which computes there: see tailrace.cli.cluster."""

    @wraps(function)
    def computing(*args: Any, scheduler: str | None, **kwargs: Any) -> Any:
        from tailrace.cli.cluster import computing_on

        with computing_on(scheduler):
            return function(*args, **kwargs)

    return click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Compute on this Dask scheduler, as in tcp://node1:8786, or that of a scheduler file (FILE.json). Default:"
        " Dask's configuration (DASK_SCHEDULER_ADDRESS), else this machine.",
    )(computing)  # type: ignore[return-value]


def utf8_output() -> TextIO:
    """Standard output for machine-readable formats: UTF-8 whatever the locale, like the files that `-o` writes."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    return sys.stdout


def canonical_tags(assignments: tuple[str, ...]) -> str:
    """The canonical string of `--tag` options. Raises TagError."""
    return encode(parse_assignments(assignments))


def parse_assignments(assignments: tuple[str, ...]) -> dict[str, str]:
    """The tags of `--tag` options; the last one counts for a repeated key. Raises TagError where one has no `=`."""
    return dict(parse_assignment(assignment) for assignment in assignments)
