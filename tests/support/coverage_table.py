"""The coverage ledger of whole workflows, as lines of one table."""

from typing import Any

import tailrace
from support.harm import Table
from tailrace.analyzer.store import ledger

COMPLETE = 0.999
"""The share of a run's bytes that must be in the trace."""

HEADING = (
    f"{'bytes by the kernel, and their share that is in the trace':58} {'processes':>9} {'read':>14} {'written':>14}"
)


def check_coverage(table: Table, name: str, run: tailrace.Run) -> None:
    """Adds a run to the table, with what is missing by its cause; fails where more than a thousandth of it is."""
    rows = run.coverage
    total = ledger.totals(rows)
    table.heading = f"{HEADING} {'seen':>9}"
    processes = total["processes"] + total["untraced"]
    share = total["share"] or 0.0
    figures = f"{processes:9} {total['kernel_read']:14,} {total['kernel_written']:14,} {share:9.4%}"
    table.rows.append(f"{name:58} {figures}")
    for cause, part in _missing(rows).items():
        table.rows.append(f"  {part[0]:,} bytes of {part[1]} processes: {cause}")
    assert share >= COMPLETE, rows.to_string()
    assert not run.info()["losses"]


def _missing(rows: Any) -> dict[str, tuple[int, int]]:
    """cause -> (bytes, processes) of the processes that were not seen whole."""
    found: dict[str, tuple[int, int]] = {}
    for group in ledger.by_cause(rows):
        bytes_before, processes = found.get(group.cause, (0, 0))
        found[group.cause] = (bytes_before + group.missing_bytes, processes + group.processes)
    return found
