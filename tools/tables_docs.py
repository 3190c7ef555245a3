"""Writes docs/tables.md, the columns and units of every table, from the analyzer's tables of them.

python tools/tables_docs.py            write it
python tools/tables_docs.py --check    exit with 1 where the page differs
"""

from __future__ import annotations

import sys
from pathlib import Path

from generated import write_or_check

from tailrace.analyzer.insights import run_comparison
from tailrace.analyzer.store import schema
from tailrace.analyzer.util.table_columns import TABLES, Columns, Table

PAGE = Path(__file__).parents[1] / "docs" / "tables.md"
HEAD = """\
# Tables and units

The columns of every table that tailrace prints as CSV or JSON, or returns as a pandas frame, with
their units. A column without a unit is a name, a flag (true or false) or a count. Times are integers
of ns: those since the epoch exceed 2^53, so read them as 64-bit integers. Null is an empty cell in
CSV. Names of files may begin like a formula: `tailrace query --format csv-text` writes a `'` before such
cells. This page is made from the code (`tools/tables_docs.py`).
"""
EVENTS = """\
`tailrace query RUN --columns ...` prints these, and `run.events()` returns them. On the terminal the
unit stands in the head of a column; a Parquet file has it as the field's metadata `unit`. The totals
of `--by` and `--agg` have the grouping columns, `count` (events), and `HOW_COLUMN` for `HOW:COLUMN`
in the column's unit (`sum_size`: bytes, `max_ts`: ns since the epoch); `nunique_COLUMN` is a count."""
_COMPARE = "`tailrace compare A B --format json`"
COMPARED = {
    "table": (f"figures of {_COMPARE}", "a figure of the run or of a stage", run_comparison.COLUMNS),
    "flows": (f"flows of {_COMPARE}", "two stages", run_comparison.FLOW_COLUMNS),
    "files": (f"files of {_COMPARE}", "a file", run_comparison.FILE_COLUMNS),
    "limits": (f"limits of {_COMPARE}", "a verdict on a --fail-on", run_comparison.LIMIT_COLUMNS),
}


def page() -> str:
    """The whole page."""
    events = {c.name: (c.unit, c.doc) for c in schema.COLUMNS}
    free = {f"{schema.TAG_PREFIX}KEY": ("", "a tag of the user's, by its key")}
    figures = {name: (unit or "", meaning) for name, (unit, meaning) in run_comparison.FIGURES.items()}
    parts = [
        HEAD,
        f"## Events\n\n{EVENTS}\n\n{_columns({**events, **free})}",
        *(f"## {name}\n\n{_about(table)}\n\n{_columns(table.columns)}" for name, table in TABLES.items()),
        *(
            f"## compare.{name}\n\n{_about(Table(source, row, columns))}\n\n{_columns(columns)}"
            for name, (source, row, columns) in COMPARED.items()
        ),
        f"## Figures of a comparison\n\n{_columns(figures)}",
    ]
    return "\n".join(parts)


def _about(table: Table) -> str:
    sources = table.source if "`" in table.source else f"`{table.source}`"
    return f"{sources}. A row: {table.row}."


def _columns(columns: Columns) -> str:
    rows = [f"| `{name}` | {unit} | {meaning} |" for name, (unit, meaning) in columns.items()]
    return "\n".join(["| column | unit | meaning |", "|---|---|---|", *rows]) + "\n"


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: page()}))
