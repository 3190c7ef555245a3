"""The coverage ledger: the bytes in the trace of each process, compared with the kernel's account of it.

    processes (exit, ledger) + reaped (what their parents read of them) + blocks  -->  table()  -->  totals()

Invariants: bytes are those that the kernel counts (rchar, wchar of /proc/PID/io), so sockets' send and recv,
splice and the like are left out of both sides, and mappings are in neither. Only a process with an account has a share.
A process that was waited for and left no trace has a row, too.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from signal import SIGABRT
from typing import TYPE_CHECKING, Any

from tailrace.analyzer.store.catalogue import Catalogue
from tailrace.analyzer.store.headers import documents, pair
from tailrace.analyzer.store.process_ends import Row, match
from tailrace.analyzer.store.processes import Process, keys
from tailrace.analyzer.util import no_journal
from tailrace.analyzer.util.lazy import lazy

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = lazy("pandas")

COMPLETE_SHARE = 0.999
"""From this share on a process counts as fully seen."""
LIBC_BYTES = 8 * 1024
"""Up to this much missing, and only reads: a file that libc read for itself in a call without a hook."""
LAST_WORDS_BYTES = 1024
"""The longest message that libc itself writes when it ends a program."""

NOT_TRACED = "not traced"
WITHOUT_SETTINGS = (
    "started without the settings, by a raw system call, or under a seccomp filter set by an untraced process"
)
CONFINED = "confined itself by a seccomp filter that kills for the tracer's calls; tracing ended before"
GAVE_WAY = "mapped memory over the tracer's, which got out of its way; tracing ended before"
OBSTACLES = {
    "static": "statically linked",
    "go": "static Go, which makes system calls without libc",
    "musl": "linked with musl",
    "setuid": "set-uid, set-gid or with capabilities",
    "machine": "for another processor or word size",
    "left_out": "left out by TAILRACE_UNTRACED",
    "dropped": "started without the settings, as TAILRACE_PROPAGATE permits",
    "too_long": "started without the settings, for which its arguments and environment left no room",
    "small_stack": "started without the settings, since its stack is limited to less than 32 KiB",
    "confined": CONFINED,
    "no_place": "as a user who can neither make a journal in TAILRACE_JOURNAL_DIR nor write to the run",
}
"""Why a program can't be traced, by the keyword in the trace (docs/trace-format.md)."""
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
LEFT_OUT = OBSTACLES["left_out"]
"""Left out on the user's request: such a process has a row, and no share."""
NO_ACCOUNT = (
    "no account: still running, lost with its node, killed without a traced process waiting for it, or its children's"
    " part is unknown"
)
WENT_ON_AS_ANOTHER = (
    "no account: it executed another program, which has its own row (it changed its user, or was followed from outside)"
)
WENT_ON = "went on as a program that is not traced"
BY_RAW_CALL = "or ended by a raw exit, or set a seccomp filter by a raw call"
KILLED = "killed with bytes read ahead in its buffers"
LAST_WORDS = "libc's last words: it ended the program for damage to its heap, stack or a buffer"
LOST = "events lost"
INSIDE_LIBC = "libc's own reads, in a call that is not hooked"
GO = "unseen calls: Go's own system calls"
RING = "io_uring, which is not seen"
"""Reported whatever the share is, since the kernel's account has no part of it."""
UNSEEN = "unseen calls: raw system calls, calls inside libraries"

COLUMNS = [
    *("host", "pid", "start", "exe", "traced", "account", "signal"),
    *("kernel_read", "kernel_written", "captured_read", "captured_written", "share", "cause"),
]
_COUNTS = ["pid", "signal", "kernel_read", "kernel_written", "captured_read", "captured_written"]

Totals = tuple[int, int]


def accounts(catalogue: Catalogue) -> list[Row]:
    """One row per process by start, then the untraced ones: `COLUMNS`, None for null. Imports no pandas.

    account is the source of the kernel's figures: "exit" (read at the process's end), "parent" (read by its waiter) or
    None. share is in 0..1, None without account. cause is why the share is below `COMPLETE_SHARE`, or that the process
    may have moved more than the account contains (`RING`), else "".
    """
    rows = _processes(catalogue)
    obstacles = _obstacles(catalogue)
    damaged = _damaged(catalogue)
    ends = match(rows, _reaped(catalogue), obstacles)
    gave_way = {key for (key,) in catalogue.rows("SELECT process_id FROM losses WHERE cause = 'gave_way'")}
    for row in rows:
        row["went_on"] = row["id"] in ends.went_on
        row["gave_way"] = row["id"] in gave_way
    lossy = lossy_ids(catalogue)
    out = [_row(row, ends.of.get(row["id"]), row["id"] in lossy, obstacles) for row in rows]
    return out + _untraced_rows(ends.unmatched, rows, out, obstacles, damaged)


def table(rows: Sequence[Row]) -> pd.DataFrame:
    """`accounts` as a frame."""
    result: pd.DataFrame = pd.DataFrame(rows, columns=COLUMNS)
    for name in _COUNTS:
        result[name] = pd.array(list(result[name]), dtype="Int64")
    result["share"] = result["share"].astype("Float64")
    for name in ("host", "start", "exe", "account", "cause"):
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
    what the kernel counted), share (None: no account)."""
    rows = _plain(rows)
    known = [row for row in rows if row["share"] is not None]
    kernel = {way: sum(row[f"kernel_{way}"] for row in known) for way in ("read", "written")}
    # Bytes in the trace beyond the kernel's account of one process don't offset missing bytes of another.
    captured = {way: sum(min(row[f"captured_{way}"], row[f"kernel_{way}"]) for row in known) for way in kernel}
    moved = sum(kernel.values())
    return {
        "processes": sum(row["traced"] for row in rows),
        "accounted": sum(row["traced"] and row["account"] is not None for row in rows),
        "untraced": sum(not row["traced"] and row["share"] is not None for row in rows),
        "left_out": sum(row["account"] is not None and row["share"] is None for row in rows),
        "below": sum(row["share"] < COMPLETE_SHARE for row in known),
        **{f"kernel_{way}": count for way, count in kernel.items()},
        **{f"captured_{way}": count for way, count in captured.items()},
        "share": (sum(captured.values()) / moved if moved else 1.0) if known else None,
    }


def _plain(rows: Sequence[Row] | pd.DataFrame) -> list[Row]:
    """The rows as dicts of plain values, None for null."""
    if isinstance(rows, Sequence):
        return list(rows)
    columns = [rows[name].astype(object).where(rows[name].notna(), None).tolist() for name in COLUMNS if name in rows]
    names = [name for name in COLUMNS if name in rows]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def short(rows: Sequence[Row] | pd.DataFrame) -> list[Row]:
    """The rows of `accounts` or `table` of processes that were not fully seen, by the kernel's account or by their
    cause; those that miss most first, with kernel_bytes and missing_bytes."""
    found = []
    for row in _plain(rows):
        if row["share"] is None or not (row["share"] < COMPLETE_SHARE or _hides(row["cause"])):
            continue
        kernel = int(row["kernel_read"] + row["kernel_written"])
        found.append({**row, "kernel_bytes": kernel, "missing_bytes": kernel - round(kernel * float(row["share"]))})
    return sorted(found, key=lambda row: (-row["missing_bytes"], row["host"], row["pid"]))


def _hides(cause: str) -> bool:
    """Whether a process with this cause may not have been fully seen, whatever its share is."""
    return cause in (RING, GAVE_WAY) or cause.startswith(no_journal.NO_JOURNAL)


def partial_processes(processes: pd.DataFrame | None) -> set[Process] | None:
    """The processes that were not, or may not have been, fully seen; None for a run without accounts."""
    if processes is None or "share" not in processes or not processes["share"].notna().any():
        return None
    whole = (processes["share"] >= COMPLETE_SHARE).fillna(False).astype(bool)
    rows = processes[~whole | processes["cause"].map(_hides).astype(bool)]
    return set(keys(rows))


def _processes(catalogue: Catalogue) -> list[Row]:
    query = (
        "SELECT p.id, p.host, p.pid, p.start, p.ppid, p.exe, p.t0, p.t1, p.account, p.ledger, p.facts,"
        " coalesce(sum(b.read - b.uncounted_read), 0), coalesce(sum(b.written - b.uncounted_written), 0)"
        " FROM processes p JOIN blocks b ON b.process_id = p.id GROUP BY p.id ORDER BY p.t0, p.host, p.pid, p.start"
    )
    names = [*("id", "host", "pid", "start", "ppid", "exe", "t0", "t1", "account", "ledger", "facts")]
    names += ["read", "written"]
    rows = [dict(zip(names, row, strict=True)) for row in catalogue.rows(query)]
    for key in ("account", "ledger", "facts"):
        for row, value in zip(rows, documents(row[key] for row in rows), strict=True):
            row[key] = value or {}
    return rows


_WITHIN = "p.host, p.pid, p.start, r.rowid, r.host, r.pid"
"""All rows of a block have its time: they come by the process that wrote it, and then as they are in it."""


def _reaped(catalogue: Catalogue) -> list[Row]:
    names = ("process_id", "host", "pid", "status", "read", "written", "t1")
    rows = catalogue.rows(
        f"SELECT {', '.join(f'r.{name}' for name in names)} FROM reaped r LEFT JOIN processes p ON p.id = r.process_id"
        f" ORDER BY r.t1, {_WITHIN}"
    )
    return [dict(zip(names, row, strict=True)) for row in rows]


Obstacles = dict[tuple[str, int], list[tuple[int, str, str, int]]]
"""(host, pid) -> (time in ns, why, program, id of the process that reports it, 0 for a launcher) of programs started
there that can't be traced."""


def _obstacles(catalogue: Catalogue) -> Obstacles:
    found: Obstacles = defaultdict(list)
    query = (
        "SELECT r.host, r.pid, r.t1, r.why, r.program, coalesce(r.process_id, 0) FROM untraced r"
        f" LEFT JOIN processes p ON p.id = r.process_id ORDER BY r.t1, {_WITHIN}"
    )
    for host, pid, t1, why, program, by in catalogue.rows(query):
        found[host, pid].append((t1, OBSTACLES.get(str(why), str(why)), program, by))
    return found


Damaged = tuple[dict[str, str], dict[str, str]]
"""What is wrong with a trace file, in words: of processes' files, by `trace/<host>-<pid>`; of nodes' files, by
`trace/<host>`."""


def _damaged(catalogue: Catalogue) -> Damaged:
    """The trace files that may have had all blocks of a process: a process's of which nothing can be read, a node's
    of which anything can't be."""
    query = (
        "SELECT f.file AS file, min(CASE WHEN l.cause = 'missing' AND l.unit = 'files' THEN 'empty'"
        " ELSE coalesce(l.cause, 'empty') END), EXISTS (SELECT 1 FROM blocks b WHERE b.file_id = f.id)"
        " FROM files f LEFT JOIN losses l ON l.file = f.file AND l.process_id = 0 GROUP BY f.file"
        " UNION SELECT file, 'gone', 0 FROM losses WHERE cause = 'missing' AND unit = 'files'"
        " AND file NOT IN (SELECT file FROM files) ORDER BY file"
    )
    of_processes: dict[str, str] = {}
    of_nodes: dict[str, str] = {}
    for file, cause, has_blocks in catalogue.rows(query):
        words = DAMAGED.get(str(cause), str(cause))
        name = str(file).removesuffix(".pfw.gz")
        if name.count("-") == 2:
            if not has_blocks:
                of_processes.setdefault(name.rpartition("-")[0], f"its trace file {file} {words}")
        elif cause != "empty" or not has_blocks:
            words = "is cut off" if cause == "torn" else words
            of_nodes.setdefault(name.rpartition(".")[0], f"it may be in {file}, which {words}")
    return of_processes, of_nodes


def _damaged_file(wait: Row, damaged: Damaged) -> str | None:
    """What is wrong with the trace file that has the blocks of a process that was waited for, by the names of the files
    (docs/trace-format.md); None where no such file is damaged."""
    of_processes, of_nodes = damaged
    host = f"trace/{re.sub(r'[^A-Za-z0-9._]', '_', wait['host'])}"
    return of_processes.get(f"{host}-{wait['pid']}") or of_nodes.get(host)


def _row(row: Row, end: Row | None, lossy: bool, obstacles: Obstacles) -> Row:
    signal = (end["status"] & 0x7F) or None if end else None
    account, kernel = _kernel(row["account"], row["ledger"], end)
    captured = (row["read"], row["written"])
    share = None if kernel is None else _share(kernel, captured)
    if share is None or kernel is None:
        cause = WENT_ON_AS_ANOTHER if row.get("went_on") else NO_ACCOUNT
    elif share < COMPLETE_SHARE and account == "parent" and _last_obstacle(row, obstacles) == CONFINED:
        cause = CONFINED
    elif share < COMPLETE_SHARE and account == "parent" and signal is None:
        known = _last_obstacle(row, obstacles)
        without = LOST if lossy else f"{WENT_ON}, {BY_RAW_CALL}"
        cause = f"{WENT_ON}: {known}" if known else without
        share = None if cause.endswith(LEFT_OUT) else share
    else:
        cause = _cause(share, kernel, captured, lossy)
        cause = GO if cause == UNSEEN and row["facts"].get("runtime") == "go" else cause
        cause = KILLED if signal is not None and cause == INSIDE_LIBC else cause
        cause = LAST_WORDS if signal == SIGABRT and cause == UNSEEN and _are_last_words(kernel, captured) else cause
    figures = _figures(kernel, captured)
    cause = RING if row["ledger"].get("ring") and cause in ("", UNSEEN, INSIDE_LIBC) else cause
    cause = no_journal.reason(row["facts"]) or cause
    cause = GAVE_WAY if row.get("gave_way") else cause
    place = {key: row[key] for key in ("host", "pid", "start", "exe")}
    return {**place, "traced": True, "account": account, "signal": signal, **figures, "share": share, "cause": cause}


def _last_obstacle(row: Row, obstacles: Obstacles) -> str | None:
    """Why the program that a traced process went on as can't be traced, by its own words."""
    known = [why for _, why, _, by in obstacles.get((row["host"], row["pid"]), ()) if by == row["id"]]
    return known[-1] if known else None


def _figures(kernel: Totals | None, captured: Totals) -> Row:
    read, written = kernel or (None, None)
    return {
        "kernel_read": read,
        "kernel_written": written,
        "captured_read": captured[0],
        "captured_written": captured[1],
    }


def _kernel(account: Row, ledger: Row, end: Row | None) -> tuple[str | None, Totals | None]:
    """The source of the kernel's account, and its totals over all programs that the process executed."""
    done = pair(ledger.get("done")) or (0, 0)
    own_end = pair([account.get("rchar"), account.get("wchar")])
    if own_end is not None:
        return "exit", (done[0] + own_end[0], done[1] + own_end[1])
    taken_off = [pair(ledger.get(key)) for key in ("base", "own", "reaped")]
    if end is None or end["read"] is None or None in taken_off:
        return None, None
    off = [sum(p[way] for p in taken_off if p is not None) for way in (0, 1)]
    off[0] += sum(ledger[key] for key in ("ahead", "loaded") if isinstance(ledger.get(key), int))
    return "parent", (max(0, done[0] + end["read"] - off[0]), max(0, done[1] + end["written"] - off[1]))


def _missing(kernel: Totals, captured: Totals) -> Totals:
    return max(0, kernel[0] - captured[0]), max(0, kernel[1] - captured[1])


def _share(kernel: Totals, captured: Totals) -> float:
    return 1 - sum(_missing(kernel, captured)) / sum(kernel) if sum(kernel) else 1.0


def _are_last_words(kernel: Totals, captured: Totals) -> bool:
    read, written = _missing(kernel, captured)
    return read == 0 and written <= LAST_WORDS_BYTES


def _cause(share: float, kernel: Totals, captured: Totals, lossy: bool) -> str:
    if share >= COMPLETE_SHARE:
        return ""
    if lossy:
        return LOST
    read, written = _missing(kernel, captured)
    return INSIDE_LIBC if written == 0 and read <= LIBC_BYTES else UNSEEN


def _untraced_rows(
    waits: list[Row], rows: list[Row], accounts: list[Row], obstacles: Obstacles, damaged: Damaged
) -> list[Row]:
    """Processes that were waited for and left no readable trace, without the bytes of their traced children."""
    children: dict[tuple[str, int], list[tuple[Row, int]]] = defaultdict(list)
    for row, account in zip(rows, accounts, strict=True):
        if account["kernel_read"] is not None:
            children[row["host"], row["ppid"]].append((account, row["t1"] or 0))
    out = []
    for wait in waits:
        if wait["read"] is None:
            continue
        below = [account for account, t1 in children[wait["host"], wait["pid"]] if t1 <= wait["t1"]]
        read = max(0, wait["read"] - sum(c["kernel_read"] for c in below))
        written = max(0, wait["written"] - sum(c["kernel_written"] for c in below))
        if read + written == 0:
            continue
        known = obstacles.get((wait["host"], wait["pid"]), ())
        unreadable = _damaged_file(wait, damaged)
        _, why, program, _ = max(
            (obstacle for obstacle in known if obstacle[0] <= wait["t1"]),
            default=(0, unreadable or WITHOUT_SETTINGS, None, 0),
        )
        place = {"host": wait["host"], "pid": wait["pid"], "start": None, "exe": program or None, "traced": False}
        signal = (wait["status"] & 0x7F) or None
        figures = _figures((read, written), (0, 0))
        cause = why if why == unreadable else f"{NOT_TRACED}: {why}"
        share = None if why == LEFT_OUT else 0.0
        out.append({**place, "account": "parent", "signal": signal, **figures, "share": share, "cause": cause})
    return out
