"""Lines and tables of text that fit a terminal, and documents made of them.

Invariants: text of a trace is shown literally, without markup and with control characters escaped. Nothing is left out
but rows and columns whose number is said. A line breaks behind a space, a slash or another mark of a name, and goes on
further to the right; where the columns of a table can't be made that narrow, each row is a list of its own. Without a
terminal lines have `WIDTH` columns, and tables are fitted to no width.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from tailrace.analyzer.util.document import (
    Cells,
    Column,
    Document,
    Facts,
    LeftOut,
    Lines,
    Part,
    Section,
    Table,
    Tree,
)
from tailrace.base.text import visible

WIDTH = 80
WIDEST = 120
"""Columns that a line has at most, however wide the terminal is."""
LEAST = 24
"""Columns that a line has at least, however far to the right it begins."""
HANG = 2
INDENT = 2
DEEPEST = 12
"""Depth of a tree up to which its nodes move to the right."""
NUMBER = 9
"""Columns of a number that a line begins with."""
GAP = 3
"""Columns between two columns of a table."""
MARGIN = 1
EDGES = 4
"""Columns of a table beside its columns and the gaps between them: the rule under the heads is that much wider."""
LONGEST_PIECE = 32
"""A piece of a name that is longer may be cut: a hash, or a name without any mark."""
_PARTS = (re.compile(r"[^\s/]*[\s/]+|[^\s/]+"), re.compile(r"[^\s/_.,:;=-]*[\s/_.,:;=-]+|[^\s/_.,:;=-]+"))
"""Where a name may break: behind spaces and slashes; where that is not enough, behind other marks."""


@dataclass(frozen=True)
class Screen:
    """What text is fitted to. rows: of a list, None: as many as the document has; rest: where the other ones are."""

    width: int = WIDTH
    table_width: int = WIDTH
    styled: bool = False
    rows: int | None = None
    rest: str = ""


CONSOLE = Screen(rows=5)
"""What an object prints of itself."""
MOST_LINES = 40


def standard_output(rest: str = "") -> Screen:
    """Standard output; FORCE_COLOR makes a pipe a terminal."""
    width = min(shutil.get_terminal_size((WIDTH, 24)).columns, WIDEST)
    if not (sys.stdout.isatty() or os.environ.get("FORCE_COLOR")):
        return Screen(width, 1 << 16, rest=rest)
    styled = os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
    return Screen(width, shutil.get_terminal_size().columns, styled, rest=rest)


# --- documents -------------------------------------------------------------------------------------------------------


def short(document: Document) -> str:
    """A document for a console: the first rows of its lists, at most `MOST_LINES` lines."""
    lines = document_lines(document, CONSOLE)
    hidden = len(lines) - MOST_LINES
    return "\n".join([*lines[:MOST_LINES], f"and {hidden:,} lines more"] if hidden > 1 else lines)


def document_lines(document: Document, screen: Screen) -> list[str]:
    """The lines of a document."""
    out = list(line(document.title, 0, screen)) if document.title else []
    for part in document.parts:
        _part(out, part, INDENT if document.title and not isinstance(part, Section) else 0, screen)
    return out


def _part(out: list[str], part: Part, indent: int, screen: Screen) -> None:
    if isinstance(part, Section):
        if out and out[-1]:
            out.append("")
        out += line(part.title, indent, screen) if part.title else []
        for inner in part.parts:
            _part(out, inner, indent + INDENT if part.title else indent, screen)
    elif isinstance(part, Facts):
        words = [f"{word} {value}".lstrip() for word, value in part.facts[: part.inline]]
        texts = [f"{word}: {value}" if word else str(value) for word, value in part.facts[part.inline :]]
        for text in [*([", ".join(words)] if words else []), *texts]:
            out += line(text, indent, screen)
    elif isinstance(part, Lines):
        for depth, text in part.lines:
            out += line(text, indent + INDENT * depth, screen)
    elif isinstance(part, LeftOut):
        out += _left_out(part, 0, indent, screen)
    elif isinstance(part, Tree):
        nodes = part.nodes[: screen.rows]
        for depth, cells in nodes:
            mark = f"{part.mark} " if depth else ""
            out += _row(part.columns, cells, indent + INDENT * min(depth, DEEPEST), screen, mark)
        out += _left_out(part.left_out, len(part.nodes) - len(nodes), indent, screen)
    elif part.grid:
        _grid(out, part, indent, screen)
    else:
        _table(out, part, indent, screen)


def _table(out: list[str], table: Table, indent: int, screen: Screen) -> None:
    """A table whose rows are sentences."""
    if table.title:
        out += line(table.title, indent, screen)
        indent += INDENT
    for group in table.groups:
        if group.title:
            out += ["", *line(group.title, indent, screen)]
        inner = indent + INDENT if any(one.title for one in table.groups) else indent
        rows = group.rows[: screen.rows]
        for cells in rows:
            out += _row(table.columns, cells, inner, screen)
        out += _left_out(group.left_out, len(group.rows) - len(rows), inner, screen)


def _row(
    columns: Sequence[Column], cells: Cells, indent: int, screen: Screen, mark: str | None = None
) -> Iterator[str]:
    """A row as a sentence; what goes on further to the right is under the first word behind a number or mark."""
    texts = [mark or ""]
    is_padded = columns[0].number
    for at, (column, cell) in enumerate(zip(columns, cells, strict=True)):
        text, lead = str(cell), column.lead
        if not text:
            continue
        if lead.startswith("\n"):
            texts.append("")
            lead = lead[1:]
        text = f"{text:>{NUMBER}}" if is_padded and not at else text
        texts[-1] += (lead if texts[-1] not in ("", mark) else "") + text + column.tail
    below = NUMBER + 2 if is_padded else INDENT if mark is None else INDENT + 1
    for number, text in enumerate(texts):
        yield from line(text, indent + below if number else indent, screen)


def _grid(out: list[str], table: Table, indent: int, screen: Screen) -> None:
    heads = [column.head for column in table.columns]
    for group in table.groups:
        rows = group.rows[: screen.rows]
        texts = [[str(cell) for cell in row] for row in rows]
        lines = table_lines(heads, texts, table.title or None, screen, numbers=False, spare=table.spare)
        out += lines[1:] if not lines[0] and out and not out[-1] else lines
        out += _left_out(group.left_out, len(group.rows) - len(rows), indent, screen)


def _left_out(left_out: LeftOut, more: int, indent: int, screen: Screen) -> Iterator[str]:
    if text := left_out.text(more):
        yield from line(text + screen.rest, indent, screen)


def line(text: str, indent: int, screen: Screen) -> Iterator[str]:
    """A line that begins `indent` columns to the right, as one or several."""
    for number, piece in enumerate(broken(visible(text), max(screen.width - indent - HANG, LEAST))):
        yield (" " * (indent + (HANG if number else 0)) + piece).rstrip()


# --- tables ----------------------------------------------------------------------------------------------------------


def shown(value: Any) -> str:
    """A cell's text: "" for null, integers in full, other numbers with six digits, or to the unit from a million on;
    text with control characters escaped."""
    if _is_null(value):
        return ""
    if isinstance(value, float):
        return f"{value:.0f}" if 1e6 <= abs(value) < 1e15 else f"{value:.6g}"
    return visible(str(value))


def _is_null(value: Any) -> bool:
    """Whether it is None, NaN or pandas.NA, which has no truth value."""
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True


def table_lines(
    names: Sequence[str],
    rows: Sequence[Sequence[Any]],
    title: str | None,
    screen: Screen,
    *,
    numbers: bool = True,
    spare: Sequence[str] = (),
) -> list[str]:
    """The lines of a table, the last one empty; with `numbers`, columns of numbers are right-aligned. spare: names of
    columns that a screen which is too narrow for the table does without, the first ones first."""
    width, styled = screen.table_width, screen.styled
    kept = _without(names, rows, spare, width)
    if len(kept) < len(names):
        rows = [[row[i] for i in kept] for row in rows]
        left_out = [name for i, name in enumerate(names) if i not in kept]
        names = [names[i] for i in kept]
        title = f"{title or ''} (left out in {width} columns: {', '.join(left_out)})".lstrip()
    right = [numbers and _are_numbers([row[i] for row in rows]) for i in range(len(names))]
    heads, cells = [shown(name) for name in names], [[shown(cell) for cell in row] for row in rows]
    widths = fitted(heads, cells, right, width)
    if widths is None:
        return _as_lists(heads, cells, title, width)
    lines = [] if title is None else [_style(text, "3", styled) for text in broken(title, width)]
    lines += ["", *(_style(text, "1", styled) for text in _cells(heads, widths, right))]
    lines.append(" " * MARGIN + _rule() * (sum(widths) + GAP * (len(widths) - 1) + 2))
    return [*lines, *(text for row in cells for text in _cells(row, widths, right)), ""]


def _without(names: Sequence[str], rows: Sequence[Sequence[Any]], spare: Sequence[str], width: int) -> list[int]:
    """The positions of the columns that are left when `spare` ones are left out until the others fit, but for the
    widest, whose cells may break."""
    needs = [max(_wide(shown(cell)) for cell in column) for column in zip(names, *rows, strict=True)]
    kept = list(range(len(names)))
    for name in spare:
        rest = sorted(needs[i] for i in kept)
        if sum(rest[:-1]) + min(rest[-1], LONGEST_PIECE // 2) + GAP * (len(kept) - 1) + EDGES <= width:
            break
        kept.remove(names.index(name))
    return kept


def _rule() -> str:
    try:
        "─".encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return "-"
    return "─"


def _style(line: str, code: str, styled: bool) -> str:
    return f"\x1b[{code}m{line}\x1b[0m" if styled and line else line


def _cells(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> Iterator[str]:
    """The lines of a row: more than one where a cell is broken."""
    columns = [list(broken(cell, width)) for cell, width in zip(cells, widths, strict=True)]
    for pieces in zip_longest(*columns, fillvalue=""):
        padded = []
        for piece, width, is_right in zip(pieces, widths, right, strict=True):
            space = " " * (width - _wide(piece))
            padded.append(space + piece if is_right else piece + space)
        yield (" " * MARGIN + (" " * GAP).join(padded)).rstrip()


def _are_numbers(values: Sequence[Any]) -> bool:
    """Whether a column has numbers, and nothing else but nulls."""
    known = [value for value in values if not _is_null(value)]
    return bool(known) and all(isinstance(value, int | float) for value in known)


def _as_lists(heads: Sequence[str], cells: Sequence[Sequence[str]], title: str | None, width: int) -> list[str]:
    """Each row as lines "head  cell", for a terminal that is too narrow for the table."""
    lead = max(map(len, heads)) + GAP
    lines = ["", *([title] if title else [])]
    for row in cells:
        for head, cell in zip(heads, row, strict=True):
            first, *rest = list(broken(cell, max(width - lead - MARGIN, 1))) or [""]
            lines.append(f"{' ' * MARGIN}{head:<{lead}}{first}".rstrip())
            lines += [" " * (MARGIN + lead) + text for text in rest]
        lines.append("")
    return lines


def fitted(heads: Sequence[str], cells: Sequence[Sequence[str]], whole: Sequence[bool], width: int) -> list[int] | None:
    """The width of each column so that the table fits into `width`; None where it can't.

    Args:
        whole: columns whose cells are never broken: numbers.
    """
    columns = [[head, *(row[i] for row in cells)] for i, head in enumerate(heads)]
    needs = [max(map(_wide, column)) for column in columns]
    least = [
        need if is_whole else min(need, max(min(_piece(cell), LONGEST_PIECE) for cell in column))
        for column, need, is_whole in zip(columns, needs, whole, strict=True)
    ]
    over = sum(needs) + GAP * (len(needs) - 1) + EDGES - width
    while over > 0 and (flexible := [i for i, need in enumerate(needs) if need > least[i]]):
        needs[max(flexible, key=lambda i: needs[i])] -= 1
        over -= 1
    return needs if over <= 0 else None


def _wide(text: str) -> int:
    if text.isascii():  # rich takes as long to import as all of `tailrace info`
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _piece(text: str) -> int:
    """The width of the longest piece of a text."""
    return max((_wide(piece.rstrip()) for piece in _PARTS[1].findall(text)), default=0)


def broken(text: str, width: int) -> Iterator[str]:
    """A text as lines of at most `width` columns."""
    line = ""
    for piece in _pieces(text, width):
        if line and _wide((line + piece).rstrip()) > width:
            yield line.rstrip()
            line = ""
        line += piece
    if line or not text:
        yield line.rstrip()


def _pieces(text: str, width: int) -> Iterator[str]:
    """The pieces of a text, none wider than `width`; as large as they may be."""
    for part in _PARTS[0].findall(text):
        if _wide(part.rstrip()) <= width:
            yield part
            continue
        for piece in _PARTS[1].findall(part):
            while _wide(piece.rstrip()) > width:
                cut = next(n for n in range(len(piece), 0, -1) if _wide(piece[:n]) <= width or n == 1)
                yield piece[:cut]
                piece = piece[cut:]
            yield piece
