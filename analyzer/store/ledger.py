"""The coverage ledger: the bytes in the trace of each process, compared with the kernel's account of it.

    catalogue: processes (exit, ledger) + reaped (what their parents read of them) + blocks
        -->  _native.accounts (core/native/accounts.cc, the arithmetic, which `tailrace run` has too)  -->  table()

Invariants: bytes are those that the kernel counts (rchar, wchar of /proc/PID/io), so sockets' send and recv,
splice and the like are left out of both sides, and mappings are in neither; what libc read ahead of the program is in
both. Only a process with an account has a share. A process that was waited for and left no trace has a row, too. Causes
are the rows of core/src/format/causes.def.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tailrace import _native
from tailrace.analyzer.store.catalogue import Catalogue
from tailrace.analyzer.store.headers import Time
from tailrace.analyzer.store.processes import Process, keys
from tailrace.analyzer.util.lazy import lazy

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = lazy("pandas")

Row = dict[str, Any]
"""A row of `accounts`, by the names of `COLUMNS`."""
COMPLETE_SHARE = _native.COMPLETE_SHARE
"""From this share on a process counts as fully seen."""
WORDS: dict[str, str] = {key: words for key, words, _ in _native.causes()}
"""The words of causes, by their keys."""
RING, NO_JOURNAL, GAVE_WAY = "ring", "no_journal", "gave_way"
"""Causes that are reported whatever the share is: the kernel's account has no part of it, or there is none of the
calls."""
DAMAGED = {
    "torn": "is cut off within its first block",
    "foreign": "is no trace",
    "version": "is of a newer format version",
    "damaged": "is damaged",
    "unreadable": "can't be read",
    "refused": "is refused: a link, a special file or another user's",
    "vanished": "vanished while the run was read",
    "empty": "is empty",
    "missing": "lacks blocks that were written",
    "gone": "is gone",
}
"""What is wrong with a trace file without a readable block, by the cause of the loss."""

COLUMNS = [
    *("host", "pid", "start", "exe", "traced", "account", "signal"),
    *("kernel_read", "kernel_written", "captured_read", "captured_written", "ahead", "share", "cause", "cause_key"),
    *Time._fields,
]
_COUNTS = ["pid", "signal", "kernel_read", "kernel_written", "captured_read", "captured_written", "ahead"]
_COUNTS += Time._fields


def accounts(catalogue: Catalogue) -> list[Row]:
    """One row per process by start, then the untraced ones: `COLUMNS`, None for null. Imports no pandas.

    account is the source of the kernel's figures: "exit" (read at the process's end), "parent" (read by its waiter) or
    None. ahead: bytes that libc read ahead and no call consumed, a part of kernel_read and captured_read. share is in
    0..1, None without account. cause is why the share is below `COMPLETE_SHARE`, or that the process may have moved
    more than the account contains (`RING`), else "", and cause_key its row in the table of causes. run_ns, ready_ns and
    ready_of_ns are the processor time of its threads (`headers.Time`).
    """
    processes = _processes(catalogue)
    at = {row[0]: place for place, row in enumerate(processes)}
    gave_way = {key for (key,) in catalogue.rows("SELECT process_id FROM losses WHERE cause = 'gave_way'")}
    lossy = lossy_ids(catalogue)
    found = _native.accounts(
        [(*row[1:-1], row[0] in lossy, row[-1], row[0] in gave_way) for row in processes],
        [(at.get(by, -1), *row) for by, *row in _waits(catalogue)],
        [(*row, at.get(by, -1)) for *row, by in _obstacles(catalogue)],
        _Damaged(catalogue).words,
    )
    return [_row(*row) for row in found]


def _row(process: int, host: str, pid: int, exe: str, start: str, *figures: Any) -> Row:
    account, signal, *counts, share, key, cause, run_ns, ready_ns, ready_of_ns = figures
    names = ("kernel_read", "kernel_written", "captured_read", "captured_written", "ahead")
    return {
        "host": host,
        "pid": pid,
        "start": start if process >= 0 else None,
        "exe": exe or None,
        "traced": process >= 0,
        "account": account,
        "signal": signal,
        **dict(zip(names, counts, strict=True)),
        "share": share,
        "cause": cause,
        "cause_key": key,
        **Time(run_ns, ready_ns, ready_of_ns)._asdict(),
    }


def table(rows: Sequence[Row]) -> pd.DataFrame:
    """`accounts` as a frame."""
    result: pd.DataFrame = pd.DataFrame(rows, columns=COLUMNS)
    for name in _COUNTS:
        result[name] = pd.array(list(result[name]), dtype="Int64")
    result["share"] = result["share"].astype("Float64")
    for name in ("host", "start", "exe", "account", "cause", "cause_key"):
        values = result[name].astype(object)
        result[name] = values.where(values.notna(), None)
    return result


def lossy_ids(catalogue: Catalogue) -> set[int]:
    """The ids of the processes that lost something, or that have blocks in a trace file which lost something of an
    unknown process, or whose node has lost a file."""
    rows = catalogue.rows(
        "SELECT process_id FROM losses WHERE process_id <> 0 AND count > 0 AND cause <> 'copied' UNION"
        " SELECT b.process_id FROM blocks b JOIN files f ON f.id = b.file_id"
        " WHERE f.file IN (SELECT file FROM losses WHERE process_id = 0 AND count > 0)"
    )
    return {int(key) for (key,) in rows} | _of_lost_files(catalogue)


def _of_lost_files(catalogue: Catalogue) -> set[int]:
    """The processes that may have had blocks in a trace file that is gone, by its name, or that have no end on a host
    whose journals were removed."""
    gone = catalogue.rows("SELECT file FROM losses WHERE cause = 'missing' AND file LIKE 'trace/%' AND unit = 'files'")
    removed = {str(host) for (host,) in catalogue.rows("SELECT problem FROM losses WHERE cause = 'journals_removed'")}
    if not gone and not removed:
        return set()
    stems = {str(file).removeprefix("trace/").removesuffix(".pfw.gz") for (file,) in gone}
    of_hosts = {stem.rpartition(".")[0] for stem in stems if "-" not in stem}
    rows = catalogue.rows("SELECT id, host, pid, start, account IS NULL FROM processes")
    named = ((key, re.sub(r"[^A-Za-z0-9._]", "_", host), *rest) for key, host, *rest in rows)
    return {
        int(key)
        for key, host, pid, start, is_cut in named
        if host in of_hosts or f"{host}-{pid}-{start}" in stems or (is_cut and host in removed)
    }


def totals(rows: Sequence[Row] | pd.DataFrame) -> dict[str, Any]:
    """The sums of `accounts` or `table`, JSON-ready: processes, accounted, untraced, left_out (by TAILRACE_UNTRACED,
    in no sum), below (share under `COMPLETE_SHARE`), kernel_read, kernel_written, captured_read, captured_written (of
    what the kernel counted), ahead (of kernel_read, read ahead by libc for nobody), share (None: no account)."""
    return _native.account_total([_packed(row) for row in _plain(rows)])


def _plain(rows: Sequence[Row] | pd.DataFrame) -> list[Row]:
    """The rows as dicts of plain values, None for null."""
    if isinstance(rows, Sequence):
        return list(rows)
    names = [name for name in COLUMNS if name in rows]
    columns = [rows[name].astype(object).where(rows[name].notna(), None).tolist() for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _packed(row: Row) -> tuple[Any, ...]:
    """A row as _native has it."""
    figures = (row[name] for name in ("kernel_read", "kernel_written", "captured_read", "captured_written"))
    return (
        *(0 if row["traced"] else -1, row["host"], row["pid"], row.get("exe"), row.get("start"), row.get("account")),
        *(row.get("signal"), *figures, row.get("ahead") or 0, row["share"], row.get("cause_key"), row.get("cause")),
    )


class CauseGroup(NamedTuple):
    """The processes that were not fully seen for one cause. advice: what shows their bytes, or ends the cause, "".
    program: of the one that misses most, "" where it is not known. rows: those of `accounts`, that misses most first,
    with kernel_bytes and missing_bytes."""

    key: str
    cause: str
    advice: str
    processes: int
    kernel_bytes: int
    missing_bytes: int
    program: str
    rows: list[Row]

    def sentence(self) -> str:
        """The cause, and what to do about it."""
        return f"{self.cause}: {self.advice}" if self.advice else self.cause

    def json(self) -> dict[str, Any]:
        """The group without its rows, JSON-ready."""
        return {name: value for name, value in self._asdict().items() if name != "rows"}


def by_cause(rows: Sequence[Row] | pd.DataFrame) -> list[CauseGroup]:
    """The processes of `accounts` or `table` that were not fully seen, by the kernel's account or by their cause, by
    cause: what misses most first."""
    plain = _plain(rows)
    found = _native.account_causes([_packed(row) for row in plain])
    return [CauseGroup(*group[:-1], [_with_missing(plain[at]) for at in group[-1]]) for group in found]


def _with_missing(row: Row) -> Row:
    kernel = int(row["kernel_read"] + row["kernel_written"])
    gone = sum(max(0, row[f"kernel_{way}"] - row[f"captured_{way}"]) for way in ("read", "written"))
    return {**row, "kernel_bytes": kernel, "missing_bytes": gone}


def partial_processes(processes: pd.DataFrame | None) -> set[Process] | None:
    """The processes that were not, or may not have been, fully seen; None for a run without accounts."""
    if processes is None or "share" not in processes or not processes["share"].notna().any():
        return None
    whole = (processes["share"] >= COMPLETE_SHARE).fillna(False).astype(bool)
    hides = processes["cause_key"].isin([RING, NO_JOURNAL, GAVE_WAY]) if "cause_key" in processes else ~whole
    return set(keys(processes[~whole | hides]))


def _processes(catalogue: Catalogue) -> list[tuple[Any, ...]]:
    """id, then what `_native.accounts` takes but for whether it is lossy."""
    return catalogue.rows(
        "SELECT p.id, p.host, p.pid, p.start, p.ppid, p.exe, p.t0, p.t1, p.account, p.ledger, p.facts,"
        " coalesce(sum(b.read - b.uncounted_read), 0), coalesce(sum(b.written - b.uncounted_written), 0), p.cut_off"
        " FROM processes p JOIN blocks b ON b.process_id = p.id GROUP BY p.id ORDER BY p.t0, p.host, p.pid, p.start"
    )


_WITHIN = "p.host, p.pid, p.start, r.rowid, r.host, r.pid"
"""All rows of a block have its time: they come by the process that wrote it, and then as they are in it."""


def _waits(catalogue: Catalogue) -> list[tuple[Any, ...]]:
    """The id of the waiter, then what `_native.accounts` takes."""
    names = ("process_id", "host", "pid", "status", "t1", "kind", "read", "written", "own", *Time._fields)
    return catalogue.rows(
        f"SELECT {', '.join(f'r.{name}' for name in names)} FROM reaped r LEFT JOIN processes p ON p.id = r.process_id"
        f" ORDER BY r.t1, {_WITHIN}"
    )


def _obstacles(catalogue: Catalogue) -> list[tuple[Any, ...]]:
    """host, pid, time, why, program of programs that can't be traced; the id of the process that reports it."""
    return catalogue.rows(
        "SELECT r.host, r.pid, r.t1, r.why, r.program, r.process_id FROM untraced r"
        f" LEFT JOIN processes p ON p.id = r.process_id ORDER BY r.t1, {_WITHIN}"
    )


class _Damaged:
    """The trace files that may have had all blocks of a process, and what is wrong with them: a process's of which
    nothing can be read, a node's of which anything can't be."""

    def __init__(self, catalogue: Catalogue) -> None:
        query = (
            "SELECT f.file AS file, min(CASE WHEN l.cause = 'missing' AND l.unit = 'files' THEN 'empty'"
            " ELSE coalesce(l.cause, 'empty') END), EXISTS (SELECT 1 FROM blocks b WHERE b.file_id = f.id)"
            " FROM files f LEFT JOIN losses l ON l.file = f.file AND l.process_id = 0 GROUP BY f.file"
            " UNION SELECT file, 'gone', 0 FROM losses WHERE cause = 'missing' AND unit = 'files'"
            " AND file NOT IN (SELECT file FROM files) ORDER BY file"
        )
        self._of_processes: dict[str, str] = {}  # by trace/<host>-<pid>
        self._of_nodes: dict[str, str] = {}  # by trace/<host>
        for file, cause, has_blocks in catalogue.rows(query):
            words = DAMAGED.get(str(cause), str(cause))
            name = str(file).removesuffix(".pfw.gz")
            if name.count("-") == 2:
                if not has_blocks:
                    self._of_processes.setdefault(name.rpartition("-")[0], f"its trace file {file} {words}")
            elif cause != "empty" or not has_blocks:
                words = "is cut off" if cause == "torn" else words
                self._of_nodes.setdefault(name.rpartition(".")[0], f"it may be in {file}, which {words}")

    def words(self, host: str, pid: int) -> str:
        """What is wrong with the trace file that has the blocks of a process that was waited for, by the names of the
        files (docs/trace-format.md); "" where no such file is damaged."""
        stem = f"trace/{re.sub(r'[^A-Za-z0-9._]', '_', host)}"
        return self._of_processes.get(f"{stem}-{pid}") or self._of_nodes.get(stem, "")
