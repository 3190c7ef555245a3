"""Data quality: losses by cause, and the share of bytes that was captured."""

from __future__ import annotations

import pandas as pd

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.store import ledger, problems
from tailrace.analyzer.summary.limits import LIMITS, JsonObject
from tailrace.analyzer.util.formatting import bytes_text, count_text, percent_text, time_text
from tailrace.analyzer.util.losses import Loss

CALL_NS, NAME_NS, PROCESS_NS = 50, 240, 370_000
"""What recording adds to a call for data, to one that names a file, and to a process (docs/benchmarks.md, tests/bench):
about the same on other machines, as a read of a page from the cache is."""


def losses(run: AnalyzedRun) -> list[JsonObject]:
    """What the run lost, by `run.losses` (cause, unit, count): cause, unit, count, files, text."""
    of: dict[tuple[str, str], list[Loss]] = {}
    for row in run.losses.to_dict("records"):
        loss = Loss(*(row.get(name, "") for name in ("file", "cause", "unit", "count", "problem")))
        of.setdefault((loss.cause, loss.unit), []).append(loss)
    return [
        {
            "cause": cause,
            "unit": unit,
            "count": int(sum(row.count for row in rows)),
            "files": len(rows),
            "text": problems.sentence(cause, unit, rows),
        }
        for (cause, unit), rows in sorted(of.items())
    ]


def coverage(run: AnalyzedRun, m: Model) -> JsonObject:
    """How complete the trace is: `text`, and the numbers in it.

    The share is that of `ledger.totals`: processes without an account are counted and left out of it, processes that
    were waited for and left no trace are in it with nothing captured. `causes` lists why processes were not fully seen.
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
    share = _share_text(total, captured, kernel)
    text = f"Coverage: {named}{share}.{_ring_text(table)}{_detail_text(run)}{_cost_text(run, m)}"
    return {
        "text": text,
        "moved_bytes": moved,
        "unnamed_bytes": unnamed,
        "kernel_bytes": kernel,
        "captured_bytes": captured,
        "processes": total.get("processes", 0),
        "accounted": total.get("accounted", 0),
        "untraced": total.get("untraced", 0),
        "causes": causes(table),
    }


def _ring_text(table: pd.DataFrame) -> str:
    """How many processes moved data that neither the trace nor the kernel's numbers have; "" where none did."""
    rings = int((table["cause_key"] == ledger.RING).sum()) if "cause_key" in table else 0
    if not rings:
        return ""
    used = f"{count_text(rings, 'process', 'es')} used an io_uring that is not seen"
    return f" {used}: what it moved is in neither number."


def _detail_text(run: AnalyzedRun) -> str:
    """From when on lines of totals stand for calls; "" under full detail."""
    info = run.info()
    lines, since, begin = (info.get(key) for key in ("totals", "totals_since_ns", "t0_ns"))
    if not isinstance(lines, int) or not lines or not isinstance(since, int) or not isinstance(begin, int):
        return ""
    when = f" from {(since - begin) / 1e9:.3f} s on" if since > begin else ""
    return f" Detail: totals{when} ({count_text(lines, 'line')} for several calls each)."


def _cost_text(run: AnalyzedRun, m: Model) -> str:
    """What sealing took, and about what recording took; "" where the trace does not say."""
    info = run.info()
    beside, within, events = (info.get(key) for key in ("sealing_ns", "self_sealing_ns", "events"))
    if not isinstance(beside, int) or not isinstance(within, int) or not beside + within:
        return ""
    where = f", {time_text(within)} of it in the processes" if within else ""
    names = m.table.counts["kind"].to_numpy() == edge_table.META
    calls = m.table.counts["calls"].to_numpy()
    # Characters that the C library gives of its buffer are counted, and no record, unless all calls are totals.
    others = int(calls[~names].sum())
    if isinstance(events, int) and not info.get("totals"):
        others = min(others, events)
    recorded = others * CALL_NS + int(calls[names].sum()) * NAME_NS + len(m.processes) * PROCESS_NS
    return (
        f" Cost of tracing: sealing took {time_text(beside + within)} of processor time{where}; recording about"
        f" {time_text(recorded)} in all processes ({CALL_NS} ns a call, {NAME_NS} of files' names)."
    )


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


def causes(table: pd.DataFrame) -> list[JsonObject]:
    """The processes that were not fully seen by cause (`ledger.by_cause`), with the one that misses most (host, pid,
    exe); cut at `LIMITS`."""
    return [
        {
            **{name: str(group.rows[0][name] or "") for name in ("host", "exe")},
            "pid": int(group.rows[0]["pid"]),
            "cause": group.sentence(),
            "processes": group.processes,
            "kernel_bytes": group.kernel_bytes,
            "missing_bytes": group.missing_bytes,
            "share": 1 - group.missing_bytes / group.kernel_bytes if group.kernel_bytes else 1.0,
        }
        for group in ledger.by_cause(table)[: LIMITS["causes"]]
    ]
