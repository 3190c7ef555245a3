"""Data quality: losses by cause, and the share of bytes that was captured."""

from __future__ import annotations

import pandas as pd

from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.store import ledger
from tailrace.analyzer.summary.limits import LIMITS, JsonObject
from tailrace.analyzer.util.formatting import bytes_text, count_text, percent_text

LOSSES = {
    "no_journal": "not recorded: no buffer available (journal directory full or not writable)",
    "not_written": "recorded, but not written to the run directory (full, removed, or no permission)",
    "torn": "cut off: the process was killed, or the file ends, within a record",
    "unnamed": "without a file: the descriptor was closed and reused during the call",
    "ambiguous": "without a file: two names have one hash in the trace",
    "not_json": "not JSON",
    "refused": "refused: links, special files or other users' files",
    "foreign": "not files of a known tracer",
    "version": "of a newer format version",
    "damaged": "damaged",
    "unreadable": "that can't be read",
    "vanished": "that vanished while the run was read",
}
"""cause -> words; any other cause is shown by its name."""
_NAMED = 3
"""So many different problems are named in a line."""


def losses(run: AnalyzedRun) -> list[JsonObject]:
    """What the run lost, by `run.losses` (cause, unit, count): cause, unit, count, files, text."""
    rows = run.losses
    if len(rows) == 0:
        return []
    out = []
    for (cause, unit), group in rows.groupby(["cause", "unit"], sort=True):
        number = int(group["count"].sum())
        text = _loss_text(str(cause), str(unit), number, group)
        out.append({"cause": str(cause), "unit": str(unit), "count": number, "files": len(group), "text": text})
    return out


def _loss_text(cause: str, unit: str, number: int, group: pd.DataFrame) -> str:
    """A line on a cause; with the first problems where it is not a matter of counting."""
    problems = list(dict.fromkeys(group["problem"].tolist())) if "problem" in group else []
    named = "; ".join([*problems[:_NAMED], *([f"and {len(problems) - _NAMED} more"] if len(problems) > _NAMED else [])])
    if unit == "processes":
        return f"{count_text(number, 'process', 'es')} recorded nothing ({named})"
    if unit == "files":
        return f"{count_text(number, 'file')} {LOSSES.get(cause, cause)}: {named}"
    return f"{number:,} {unit} {LOSSES.get(cause, cause)}"


def coverage(run: AnalyzedRun, m: Model) -> JsonObject:
    """How complete the trace is: `text`, and the numbers in it.

    The share is that of `ledger.totals`: processes without an account are counted and left out of it, processes that
    were waited for and left no trace are in it with nothing captured. `below` lists the least covered, with the cause.
    """
    counts = m.table.counts
    moved = int(counts["read_bytes"].sum() + counts["written_bytes"].sum())
    unnamed = int(counts["unnamed_bytes"].sum())
    named = (
        f"{percent_text(moved - unnamed, moved)} of {bytes_text(moved)} in calls on known files"
        if moved
        else "no bytes were moved"
    )
    table = run.coverage
    total = ledger.totals(table)
    kernel = total.get("kernel_read", 0) + total.get("kernel_written", 0)
    captured = total.get("captured_read", 0) + total.get("captured_written", 0)
    text = f"Coverage: {named}{_share_text(total, captured, kernel)}."
    return {
        "text": text,
        "moved_bytes": moved,
        "unnamed_bytes": unnamed,
        "kernel_bytes": kernel,
        "captured_bytes": captured,
        "processes": total.get("processes", 0),
        "accounted": total.get("accounted", 0),
        "untraced": total.get("untraced", 0),
        "below": below(table),
    }


def _share_text(total: JsonObject, captured: int, kernel: int) -> str:
    if not kernel:
        return ""
    notes = []
    missing = total["processes"] - total["accounted"]
    if missing:
        notes.append(f"{missing} of {total['processes']} processes without an account")
    if total["untraced"]:
        notes.append(f"{count_text(total['untraced'], 'process', 'es')} not traced")
    if total["left_out"]:
        notes.append(f"without {count_text(total['left_out'], 'process', 'es')} left out by TAILRACE_UNTRACED")
    text = f" ({'; '.join(notes)})" if notes else ""
    return f"; {percent_text(captured, kernel)} of the kernel's count captured{text}"


def below(table: pd.DataFrame) -> list[JsonObject]:
    """The processes of `ledger.short`, cut at `LIMITS`."""
    return [
        {
            **{name: str(row[name] or "") for name in ("host", "exe", "cause")},
            "pid": int(row["pid"]),
            "share": float(row["share"]),
            **{name: row[name] for name in ("kernel_bytes", "missing_bytes")},
        }
        for row in ledger.short(table)[: LIMITS["below"]]
    ]
