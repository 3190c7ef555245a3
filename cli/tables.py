"""Tables on the terminal, for the subcommands that print them.

Invariants: text of a trace is printed literally, without markup and with control characters escaped. Without a
terminal nothing is cut to a width.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from tailrace.analyzer.util.formatting import visible


def shown(value: Any) -> str:
    """A cell's text: "" for null, integers in full, other numbers with six digits, text with control
    characters escaped."""
    if value is None or value is pd.NA or (isinstance(value, float) and value != value):
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return visible(str(value))


def render(names: Sequence[str], rows: Sequence[Sequence[Any]], title: str | None = None, numbers: bool = True) -> None:
    """Prints a table on standard output; with `numbers`, columns of numbers are right-aligned."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(markup=False, highlight=False, emoji=False, soft_wrap=False)
    if not console.is_terminal:
        console = Console(markup=False, highlight=False, emoji=False, width=1 << 16)
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for i, name in enumerate(names):
        right = numbers and any(isinstance(row[i], int | float) for row in rows)
        table.add_column(Text(shown(name)), justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(shown(cell)) for cell in row))
    console.print(table)
