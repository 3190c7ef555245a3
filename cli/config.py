"""`tailrace config`: the settings, their values, where those come from, and what they mean."""

import json
import os
import re
import sys
from dataclasses import asdict
from pathlib import Path

import click

from tailrace import _native
from tailrace.cli.options import PATH, format_option
from tailrace.errors import UsageError
from tailrace.integrations import settings
from tailrace.integrations.messages import say

_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")
_COLUMNS = 96


@click.command()
@click.argument("names", nargs=-1, metavar="[SETTING]...")
@click.option("--config", type=PATH, metavar="FILE", help="With the settings of this file, too.")
@format_option
def command(names: tuple[str, ...], config: Path | None, form: str) -> int:
    """Print the settings: the value that a process traced from here has, where it comes from, what it means.

    An argument of `tailrace run` wins over the environment, that over the file that TAILRACE_CONFIG names, that over
    the default. Exits with 2 when a variable or the file has a value that its setting can't have.
    """
    if config is not None:
        os.environ[settings.CONFIG] = str(config.absolute())
    rows = [settings.named(name, "tailrace config", own=True) for name in names] or list(settings.table().values())
    fault = _fault()
    for words in _native.mistyped_settings():
        say(words)
    if form == "json":
        json.dump([_described(row) for row in rows], sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        sys.stdout.write("\n".join(_printed(row) for row in rows))
    if fault is not None:
        raise UsageError(fault)
    return 0


def _fault() -> str | None:
    try:
        settings.load_file()
        settings.check()
    except UsageError as error:
        return str(error)
    return None


def _described(row: settings.Setting) -> dict[str, object]:
    value, source = settings.value_and_source(row)
    fields = asdict(row)
    return {
        "setting": fields["name"],
        "key": row.key,
        "value": value,
        "source": source,
        "default": row.default,
        "choices": row.choices,
        "meaning": row.doc,
    }


def _printed(row: settings.Setting) -> str:
    import textwrap

    value, source = settings.value_and_source(row)
    plain = _LINK.sub(r"\1", row.doc).replace("`", "")
    meaning = textwrap.fill(f"{plain}.", _COLUMNS, initial_indent="    ", subsequent_indent="    ")
    choices = textwrap.fill(f"Values: {row.choices}.", _COLUMNS, initial_indent="    ", subsequent_indent="      ")
    return f"{row.name}={value!r} ({source})\n{meaning}\n{choices}\n"
