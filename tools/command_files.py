#!/usr/bin/env python3
"""Writes what accompanies the `tailrace` command: its man pages and shell completion, in cli/share.

    python tools/command_files.py            write them
    python tools/command_files.py --check    exit with 1 and name the files that are out of date

Both come from the click commands themselves, so a help text is written once. The wheel installs cli/share below
PREFIX/share, where man, bash, zsh and fish look.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from click.shell_completion import get_completion_class
from click_man.man import ManPage
from generated import write_or_check

from tailrace.cli.main import COMPLETION, group

SHARE = Path(__file__).resolve().parent.parent / "cli" / "share"
SCRIPTS = {
    "bash": "bash-completion/completions/tailrace",
    "zsh": "zsh/site-functions/_tailrace",
    "fish": "fish/vendor_completions.d/tailrace.fish",
}


def files() -> dict[Path, str]:
    """Path -> content of each file."""
    found = {SHARE / "man/man1" / f"{'-'.join(path)}.1": page for path, page in man_pages(group, ("tailrace",))}
    for shell, place in SCRIPTS.items():
        kind = get_completion_class(shell)
        assert kind is not None
        source = kind(group, {}, "tailrace", COMPLETION).source()
        # click's script for fish cuts a help text at its first comma.
        source = source.replace('string split ","', 'string split --max 1 ","')
        found[SHARE / place] = "\n".join(line.rstrip() for line in source.strip().splitlines()) + "\n"
    return found


def man_pages(
    command: click.Command, path: tuple[str, ...], parent: click.Context | None = None
) -> Iterator[tuple[tuple[str, ...], str]]:
    """(command path, page) of the command and of all below it."""
    context = click.Context(command, info_name=path[-1], parent=parent, **command.context_settings)
    below = {}
    if isinstance(command, click.Group):
        below = {name: command.get_command(context, name) for name in command.list_commands(context)}
    yield path, man_page(context, {name: sub.get_short_help_str(200) for name, sub in below.items() if sub})
    for name, sub in below.items():
        if sub is not None:
            yield from man_pages(sub, (*path, name), context)


def man_page(context: click.Context, below: dict[str, str]) -> str:
    """The page of one command, without date and version, which would change it at every release."""
    command = context.command
    page = ManPage(context.command_path)
    page.date = page.version = ""
    page.short_help = roff(command.get_short_help_str(200).rstrip("."))
    page.synopsis = " ".join(command.collect_usage_pieces(context))
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    page.description = "\n\n".join(map(paragraph, [*paragraphs, command.epilog] if command.epilog else paragraphs))
    page.options = [
        (option, roff(text))
        for parameter in command.get_params(context)
        if isinstance(parameter, click.Option) and (record := parameter.get_help_record(context)) is not None
        for option, text in (record,)
    ]
    page.commands = [(name, roff(text)) for name, text in below.items()]
    # ManPage joins the parts of a page's name by a blank.
    name = context.command_path
    text = str(page).replace(f"{name}-", f"{name.replace(' ', '-')}-")
    if context.parent is not None:
        text += f".SH SEE ALSO\n.BR {context.parent.command_path.replace(' ', '-')} (1)\n"
    return text


def paragraph(text: str) -> str:
    """A paragraph of a help text; one that begins with click's \\b keeps its lines."""
    if text.startswith("\b"):
        lines = text.removeprefix("\b").strip("\n").splitlines()
        return ".nf\n" + "\n".join(map(roff, lines)) + "\n.fi"
    return roff(" ".join(text.split("\n")))


def roff(text: str) -> str:
    """Text as a line of roff(7)."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


if __name__ == "__main__":
    sys.exit(write_or_check(files(), (path for path in SHARE.rglob("*") if path.is_file())))
