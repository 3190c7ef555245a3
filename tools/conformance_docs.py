"""Writes the table of docs/conformance.md from what tests/integration/test_conformance.py left in build/conformance.

python tools/conformance_docs.py     write it; rows of managers that were not run stay
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from generated import write_or_check

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "conformance.md"
RESULTS = ROOT / "build" / "conformance"
BEGIN, END = "<!-- tools/conformance_docs.py -->\n", "<!-- end -->\n"
COLUMNS = ("stage", "task", "declared", "observed", "files", "retries", "failures", "own I/O apart", "results")


def page() -> str:
    """The whole page: the text that it has, with the rows of new results."""
    head, _, rest = PAGE.read_text().partition(BEGIN)
    table, _, tail = rest.partition(END)
    rows = {}
    for line in table.splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        rows[cells[0]] = cells[1:]
    for file in sorted(RESULTS.glob("*.json")):
        result = json.loads(file.read_text())
        counts = [result["counts"].get(column) for column in COLUMNS]
        rows[result["manager"]] = [result["version"], *("" if not n or not n[1] else f"{n[0]}/{n[1]}" for n in counts)]
    lines = [f"| manager | version | {' | '.join(COLUMNS)} |", "|---|---" + "|---:" * len(COLUMNS) + "|"]
    lines += [f"| {name} | {' | '.join(cells)} |" for name, cells in sorted(rows.items(), key=_order)]
    return f"{head}{BEGIN}" + "\n".join(lines) + f"\n{END}{tail}"


def _order(row: tuple[str, list[str]]) -> tuple[bool, str]:
    """The example of the documentation last."""
    return row[0] == "mini", row[0].lower()


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: page()}))
