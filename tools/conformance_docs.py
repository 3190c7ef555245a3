"""Writes the table of docs/conformance.md from what tests/integration/test_conformance*.py left in build/conformance,
and tests/bench/managers.py in build/conformance/overhead.

python tools/conformance_docs.py     write it; rows of managers that were not run stay, and costs not measured anew
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
COSTS = ("ms a task", "ms a workflow")


def page() -> str:
    """The whole page: the text that it has, with the rows of new results."""
    head, _, rest = PAGE.read_text().partition(BEGIN)
    table, _, tail = rest.partition(END)
    rows, costs = {}, {}
    names = [cell.strip() for cell in table.splitlines()[0].strip("|").split("|")]
    for line in table.splitlines()[2:]:
        cells = dict(zip(names, (cell.strip() for cell in line.strip("|").split("|")), strict=True))
        costs[cells["manager"]] = [cells.get(column, "") for column in COSTS]
        rows[cells["manager"]] = [cells["version"], *(cells[column] for column in COLUMNS)]
    for file in sorted(RESULTS.glob("*.json")):
        result = json.loads(file.read_text())
        counts = [result["counts"].get(column) for column in COLUMNS]
        rows[result["manager"]] = [result["version"], *("" if not n or not n[1] else f"{n[0]}/{n[1]}" for n in counts)]
    for file in sorted((RESULTS / "overhead").glob("*.json")):
        cost = json.loads(file.read_text())
        costs[cost["manager"]] = [f"{_mean(cost, 'more')} of {cost['plain_ms']:.0f}", _mean(cost, "once")]
    columns = (*COLUMNS, *COSTS)
    lines = [f"| manager | version | {' | '.join(columns)} |", "|---|---" + "|---:" * len(columns) + "|"]
    lines += [
        f"| {' | '.join([name, *cells, *costs.get(name, ('',) * len(COSTS))])} |"
        for name, cells in sorted(rows.items(), key=_order)
    ]
    return f"{head}{BEGIN}" + "\n".join(lines) + f"\n{END}{tail}"


def _mean(cost: dict[str, float], what: str) -> str:
    """Mean and standard deviation; of less than ten with a decimal."""
    mean, deviation = cost[f"{what}_ms"], cost[f"{what}_stdev_ms"]
    digits = 1 if abs(mean) < 10 and deviation < 10 else 0
    return f"{mean:.{digits}f} ± {deviation:.{digits}f}"


def _order(row: tuple[str, list[str]]) -> tuple[bool, str]:
    """The example of the documentation last."""
    return row[0] == "mini", row[0].lower()


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: page()}))
