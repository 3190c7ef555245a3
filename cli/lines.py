"""What commands print: lines and tables that fit the terminal (analyzer/util/terminal.py), documents, JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tailrace.analyzer.util import terminal
from tailrace.analyzer.util.types import Document as JsonObject
from tailrace.cli.options import utf8_output

if TYPE_CHECKING:
    from tailrace.analyzer.util.document import Document, Shown

_REST = ": --format json has them"


def put(text: str = "", indent: int = 0) -> None:
    """Prints a line, `indent` columns to the right."""
    _write(terminal.line(text, indent, terminal.standard_output()))


def put_noun(noun: Shown, form: str) -> None:
    """Prints a noun as `--format` wants it."""
    if form == "json":
        put_json(noun.to_json())
    else:
        put_document(noun.document())


def put_document(document: Document) -> None:
    """Prints a document."""
    _write(terminal.document_lines(document, terminal.standard_output(_REST)))


def render(
    names: Sequence[str],
    rows: Sequence[Sequence[Any]],
    title: str | None = None,
    numbers: bool = True,
    spare: Sequence[str] = (),
) -> None:
    """Prints a table: `terminal.table_lines`."""
    _write(terminal.table_lines(names, rows, title, terminal.standard_output(), numbers=numbers, spare=spare))


def _write(lines: Iterable[str]) -> None:
    """Not by click.echo, which takes styles away where FORCE_COLOR wants them, and main's encoding of odd names."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def put_json(answer: JsonObject) -> None:
    """Prints an answer as JSON, in UTF-8 whatever the terminal's encoding is."""
    utf8_output().write(json.dumps(answer, indent=1, ensure_ascii=False) + "\n")
