"""Tables on the terminal, for the subcommands that print them.

Invariants: text of a trace is printed literally, without markup and with control characters escaped. Nothing is left
out but columns that a table can spare, which is said, and a name breaks only behind a space, a slash or another mark in
it: where the columns of a table can't be made that narrow, each row is a list of its own. Without a terminal nothing is
fitted to a width.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from tailrace.base.text import visible

GAP = 3
"""Columns between two columns of a table."""
MARGIN = 1
EDGES = 4
"""Columns of a table beside its columns and the gaps between them: the rule under the heads is that much wider."""
LONGEST_PIECE = 32
"""A piece of a name that is longer may be cut: a hash, or a name without any mark."""
_PARTS = (re.compile(r"[^\s/]*[\s/]+|[^\s/]+"), re.compile(r"[^\s/_.,:;=-]*[\s/_.,:;=-]+|[^\s/_.,:;=-]+"))
"""Where a name may break: behind spaces and slashes; where that is not enough, behind other marks."""


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


def render(
    names: Sequence[str],
    rows: Sequence[Sequence[Any]],
    title: str | None = None,
    numbers: bool = True,
    spare: Sequence[str] = (),
) -> None:
    """Prints a table on standard output; with `numbers`, columns of numbers are right-aligned. spare: names of columns
    that a terminal which is too narrow for the table does without, the first ones first."""
    width, styled = _terminal()
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
        _render_lists(heads, cells, title, width)
        return
    lines = [] if title is None else [_style(line, "3", styled) for line in broken(title, width)]
    lines += ["", *(_style(line, "1", styled) for line in _row(heads, widths, right))]
    lines.append(" " * MARGIN + _rule() * (sum(widths) + GAP * (len(widths) - 1) + 2))
    lines += [line for row in cells for line in _row(row, widths, right)]
    sys.stdout.write("\n".join([*lines, "", ""]))


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


def _terminal() -> tuple[int, bool]:
    """The columns of standard output, and whether it shows styles; FORCE_COLOR makes a pipe a terminal."""
    if not (sys.stdout.isatty() or os.environ.get("FORCE_COLOR")):
        return 1 << 16, False
    return shutil.get_terminal_size().columns, os.environ.get("TERM", "dumb") not in ("dumb", "unknown")


def _rule() -> str:
    try:
        "─".encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return "-"
    return "─"


def _style(line: str, code: str, styled: bool) -> str:
    return f"\x1b[{code}m{line}\x1b[0m" if styled and line else line


def _row(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> Iterator[str]:
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


def _render_lists(heads: Sequence[str], cells: Sequence[Sequence[str]], title: str | None, width: int) -> None:
    """Each row as lines "head  cell", for a terminal that is too narrow for the table."""
    import click

    lead = max(map(len, heads)) + GAP
    click.echo(f"\n{title or ''}".rstrip())
    for row in cells:
        for head, cell in zip(heads, row, strict=True):
            first, *rest = list(broken(cell, max(width - lead - MARGIN, 1))) or [""]
            click.echo(f"{' ' * MARGIN}{head:<{lead}}{first}".rstrip())
            for line in rest:
                click.echo(" " * (MARGIN + lead) + line)
        click.echo()


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
