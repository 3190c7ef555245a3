"""Writes the part of docs/store.md about the tables, from analyzer/runstore/columns.py.

python tools/store_docs.py            rewrite it
python tools/store_docs.py --check    exit with 1 where the page differs
"""

from __future__ import annotations

import sys
from pathlib import Path

from generated import write_or_check

from tailrace.analyzer.runstore.columns import PLACE, TABLES, VERSION, Column

PAGE = Path(__file__).parents[1] / "docs" / "store.md"
BEGIN, END = "<!-- tables: tools/store_docs.py -->\n", "<!-- end of tables -->\n"


def documented() -> str:
    """Every table with its columns."""
    parts = [f"\nVersion {VERSION} of the tables. Every view also has:\n\n{_columns(PLACE)}"]
    for name, table in TABLES.items():
        columns = {key: value for key, value in table.columns.items() if name == "runs" or key not in ("run", "entry")}
        keys = "" if name == "runs" else " With `run` and `entry`."
        parts.append(f"### {name}\n\nA row: {table.row}.{keys}\n\n{_columns(columns)}")
    return "\n".join(parts) + "\n"


def _columns(columns: dict[str, Column]) -> str:
    rows = [f"| `{name}` | {column.kind} | {column.unit} | {column.meaning} |" for name, column in columns.items()]
    return "\n".join(["| column | type | unit | meaning |", "|---|---|---|---|", *rows]) + "\n"


def page(text: str) -> str:
    """The page with that part written anew."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + documented() + END + rest.split(END)[1]


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: page(PAGE.read_text(encoding="utf-8"))}))
