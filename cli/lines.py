"""Lines of text that fit the terminal, for commands whose answer is no table.

Invariants: text of a trace is printed with control characters escaped. A line breaks behind a space, a slash or another
mark of a name, and goes on further to the right. Without a terminal lines have `WIDTH` columns.
"""

import json
import shutil

import click

from tailrace.analyzer.util.formatting import moment_text as since
from tailrace.analyzer.util.formatting import time_text
from tailrace.analyzer.util.types import Document
from tailrace.base.text import visible
from tailrace.cli.options import utf8_output
from tailrace.cli.tables import broken

__all__ = ["command_text", "lasted", "put", "put_json", "put_left_out", "since"]

WIDTH = 80
LEAST = 24
"""Columns that a line has at least, however far to the right it begins."""
HANG = 2


def put(text: str = "", indent: int = 0) -> None:
    """Prints a line, `indent` columns to the right."""
    width = min(shutil.get_terminal_size((WIDTH, 24)).columns, 120)
    for number, piece in enumerate(broken(visible(text), max(width - indent - HANG, LEAST))):
        click.echo((" " * (indent + (HANG if number else 0)) + piece).rstrip())


def put_left_out(hidden: int, what: str, indent: int = 0) -> None:
    """Prints how many rows a list has left out, if any. what: the words before "more"."""
    if hidden > 0:
        put(f"{what} more: --format json has them", indent)


def put_json(document: Document) -> None:
    """Prints an answer as JSON, in UTF-8 whatever the terminal's encoding is."""
    utf8_output().write(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def command_text(words: list[str]) -> str:
    """A command line as a shell takes it."""
    import shlex

    return shlex.join(words)


def lasted(ns: int | None) -> str:
    """How long something took; "unknown"."""
    return "unknown" if ns is None else time_text(ns)
