"""The tables of the catalogue, and how they are filled from the files of a run.

    trace/*.pfw.gz  -scan_file->  files, blocks, contexts, block_contexts, processes, reaped, untraced, losses
    run.json, declared/*.jsonl  ->  meta, declared_* (declared_tables.py)

Invariants: an update is one transaction. Of a file that grew, only the new bytes are scanned. A file that changed
otherwise is scanned completely after its rows were deleted. Rows are of the process in their block's header, whatever
the file: one has the blocks of many processes, and a process has blocks in several. A block with the id of another run
is a loss (`other_run`): a file that was copied here. catalogue.py opens and publishes the database.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from functools import cache
from pathlib import Path

from tailrace import _native
from tailrace.analyzer.store import declared_tables, headers, missing
from tailrace.analyzer.store.headers import FileScan, Header, first_run, scan_file
from tailrace.analyzer.store.layout import ACCOUNTS, HOSTS, MANIFEST, Source
from tailrace.analyzer.store.mounts import Mount, descriptions, mount_rows
from tailrace.analyzer.util.types import Document, SqlValue
from tailrace.base import memory, ownership
from tailrace.base.text import clean
from tailrace.errors import TraceError

VERSION = 24
"""Of the tables below; a catalogue of another version is rebuilt."""

TABLES = """ CREATE TABLE sources (path TEXT PRIMARY KEY, size INTEGER, mtime_ns INTEGER, inode INTEGER); CREATE TABLE
meta (json TEXT); CREATE TABLE files (id INTEGER PRIMARY KEY, file TEXT UNIQUE, kind TEXT, size INTEGER, mtime_ns
INTEGER, scanned INTEGER); CREATE TABLE processes (id INTEGER PRIMARY KEY, host TEXT, pid INTEGER, start TEXT, ppid
INTEGER, exe TEXT, argv TEXT,
  cwd TEXT, uid INTEGER, facts TEXT, rank TEXT, t0 INTEGER, t1 INTEGER, exit INTEGER, account TEXT, ledger TEXT,
  began INTEGER, ended INTEGER, counted INTEGER, mono INTEGER, cut_off TEXT, UNIQUE (host, pid, start));
CREATE TABLE blocks (id INTEGER PRIMARY KEY, file_id INTEGER, process_id INTEGER, offset INTEGER, member_bytes INTEGER,
  raw INTEGER, events INTEGER, t0 INTEGER, t1 INTEGER, read INTEGER, written INTEGER, uncounted_read INTEGER,
  uncounted_written INTEGER, seg INTEGER, epoch INTEGER, slots INTEGER, number INTEGER, joined INTEGER,
  totals INTEGER, calls INTEGER, sealing_ns INTEGER, self_sealing_ns INTEGER, stacks INTEGER);
CREATE INDEX blocks_file ON blocks (file_id);
CREATE INDEX blocks_sealed ON blocks (process_id, seg, epoch, slots);
CREATE INDEX blocks_time ON blocks (t0, t1);
CREATE TABLE contexts (id INTEGER PRIMARY KEY, tags TEXT UNIQUE, workflow TEXT, stage TEXT, task TEXT, job TEXT,
  rank TEXT, free TEXT);
CREATE INDEX contexts_stage ON contexts (stage);
CREATE INDEX contexts_task ON contexts (task);
CREATE TABLE block_contexts (context_id INTEGER, block_id INTEGER, PRIMARY KEY (context_id, block_id)) WITHOUT ROWID;
CREATE INDEX block_contexts_block ON block_contexts (block_id);
CREATE TABLE reaped (file TEXT, process_id INTEGER, host TEXT, pid INTEGER, status INTEGER, read INTEGER,
  written INTEGER, t1 INTEGER, is_task INTEGER, kind INTEGER, own INTEGER, run_ns INTEGER, ready_ns INTEGER,
  ready_of_ns INTEGER);
CREATE TABLE untraced (file TEXT, process_id INTEGER, host TEXT, pid INTEGER, why TEXT, program TEXT, t1 INTEGER);
CREATE TABLE edge_files (file TEXT PRIMARY KEY, upto INTEGER);
CREATE TABLE edge_tables (name TEXT PRIMARY KEY, data BLOB);
CREATE TABLE mixed_usage (state TEXT, data TEXT);
CREATE TABLE losses (file TEXT, process_id INTEGER, cause TEXT, unit TEXT, count INTEGER, problem TEXT,
  PRIMARY KEY (file, process_id, cause, unit));
"""
"""processes: began, ended and counted are the times of the blocks that its start, its exit and its ledger are from.
untraced: process_id is that of the reporting process. losses: process_id is 0 where it is not known."""


def version(connection: sqlite3.Connection) -> int:
    """The version of the tables of a database, 0 for an empty one."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def stamps(connection: sqlite3.Connection) -> dict[str, tuple[int, int, int]]:
    """File in the run -> `Source.stamp` when the database was filled."""
    rows = connection.execute("SELECT path, size, mtime_ns, inode FROM sources")
    return {path: (size, mtime_ns, inode) for path, size, mtime_ns, inode in rows}


def is_ours(connection: sqlite3.Connection) -> bool:
    """Whether the database has exactly our tables and indexes, of this version: no view or trigger, which a query
    would run."""
    schema = connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY type, name").fetchall()
    return schema == _schema() and version(connection) == VERSION


@cache
def _schema() -> list[tuple[str, str, str | None]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        _create(connection)
        return connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY type, name").fetchall()


def _create(connection: sqlite3.Connection) -> None:
    for statement in (TABLES + missing.TABLES + declared_tables.TABLES).split(";"):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION}")


BLOCKS_AT_ONCE = 4096
"""The rows of so many blocks, or of so many files, are buffered before they are inserted."""

_FILE = "INSERT INTO files VALUES (?, ?, ?, ?, ?, ?)"
_FILE_GREW = "UPDATE files SET kind = ?, size = ?, mtime_ns = ?, scanned = ? WHERE id = ?"
_PROCESS_KEY, _PROCESS_START = ("host", "pid", "start"), ("ppid", "exe", "argv", "cwd", "uid", "facts", "rank")
_LATEST = {"began": _PROCESS_START, "ended": ("exit", "account"), "counted": ("ledger",)}
"""The columns that the last block with a start, an exit or a ledger decides, by the column with its time."""
_PROCESS_COLUMNS = (
    *_PROCESS_KEY,
    "mono",
    "cut_off",
    "t0",
    "t1",
    *(name for at, names in _LATEST.items() for name in (*names, at)),
)


def _set_latest(at: str, names: tuple[str, ...]) -> str:
    """Keeps the old values where the new row has none, or earlier ones. SET sees the old row throughout."""
    is_later = f"excluded.{at} >= coalesce({at}, excluded.{at})"
    return ",".join(f" {name} = CASE WHEN {is_later} THEN excluded.{name} ELSE {name} END" for name in (*names, at))


_PROCESS = (
    f"INSERT INTO processes (id, {', '.join(_PROCESS_COLUMNS)}) VALUES ({', '.join('?' * (len(_PROCESS_COLUMNS) + 1))})"
    " ON CONFLICT (id) DO UPDATE SET mono = coalesce(mono, excluded.mono),"
    " cut_off = coalesce(excluded.cut_off, cut_off),"
    " t0 = min(coalesce(t0, excluded.t0), coalesce(excluded.t0, t0)),"
    " t1 = max(coalesce(t1, excluded.t1), coalesce(excluded.t1, t1)),"
    + ",".join(_set_latest(at, names) for at, names in _LATEST.items())
)
_BLOCK = f"INSERT INTO blocks VALUES ({', '.join('?' * 23)})"
_CONTEXT = "INSERT INTO contexts VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_CONTEXT_OF_BLOCK = "INSERT INTO block_contexts VALUES (?, ?)"
_REAPED = "INSERT INTO reaped VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?)"
_UNTRACED = "INSERT INTO untraced VALUES (?, ?, ?, ?, ?, ?, ?)"
_LOSS = (
    "INSERT INTO losses VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (file, process_id, cause, unit) DO UPDATE SET count = count + excluded.count"
)


_OTHER_RUN = "other_run"


class NotUpdatableError(Exception):
    """Only a new database is right: rows of a process came from a file that is gone, and others from one that is not;
    or run.json has other ids than those by which blocks were taken."""


def update(path: Path, traces: list[Source], others: list[Source]) -> None:
    """Brings the database at `path`, which may be empty, up to date with these files. Raises NotUpdatableError."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = MEMORY")
        connection.execute("PRAGMA synchronous = OFF")  # an incomplete database is discarded
        connection.execute("BEGIN")
        if version(connection) == 0:
            _create(connection)
        _Filler(connection).run(traces, others)
        connection.commit()


def leave_out(connection: sqlite3.Connection, file: str, offset: int, problem: str) -> None:
    """Makes a loss of a block whose events can't be read; it keeps its place in the file, and what its header says of
    its process."""
    block = "file_id = (SELECT id FROM files WHERE file = ?) AND offset = ? AND events > 0"
    row = connection.execute(f"SELECT process_id, calls FROM blocks WHERE {block}", (file, offset)).fetchone()
    if row is None:
        return
    none = "events = 0, calls = 0, totals = 0, read = 0, written = 0, uncounted_read = 0, uncounted_written = 0"
    connection.execute(f"UPDATE blocks SET {none} WHERE {block}", (file, offset))
    process_id, calls = row
    connection.execute(_LOSS, (file, process_id, "damaged", "events", calls, problem))


class _Filler:
    """One update. Rows are inserted by the thousand (`_put`, `_flush`), since statements of one row each would cost
    more than reading the headers; so this class assigns the ids."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self._known = stamps(connection)
        self._contexts: dict[str, int] = dict(connection.execute("SELECT tags, id FROM contexts"))
        rows = connection.execute("SELECT host, pid, start, id FROM processes")
        self._processes: dict[tuple[str, int, str], int] = {(host, pid, start): key for host, pid, start, key in rows}
        self._files = {row[0]: row[1:] for row in connection.execute("SELECT file, id, kind, scanned FROM files")}
        self._ids = {name: self._last_id(name) for name in ("files", "processes", "blocks", "contexts")}
        self._changed: dict[int, dict[str, SqlValue]] = {}
        self._rows: dict[str, list[tuple[SqlValue, ...]]] = {}
        self._waiting = 0
        self._reached: dict[int, int] = {}
        self._sealed: set[tuple[int, ...]] = set()
        self._run_ids: frozenset[str] = frozenset()

    def run(self, traces: list[Source], others: list[Source]) -> None:
        self._find_run_ids(traces, others)
        names = {source.name for source in traces}
        changed = [source for source in traces if self._known.get(source.name) != source.stamp]
        starts = {source.name: self._start(source) for source in changed}
        known = names | self._files.keys()
        self._forget([*(self._files.keys() - names), *(name for name, start in starts.items() if start is None)])
        for source in changed:
            self._trace(source, starts[source.name])
        self._flush()
        given = {source.name: source.stamp for source in others}
        if given != {name: stamp for name, stamp in self._known.items() if name not in known}:
            self._others(others)
        missing.note(self._db)
        self._db.execute("DELETE FROM sources")
        rows = ((source.name, *source.stamp) for source in [*traces, *others])
        self._db.executemany("INSERT INTO sources VALUES (?, ?, ?, ?)", rows)
        # Contexts that occurred only in a replaced file.
        self._db.execute("DELETE FROM contexts WHERE id NOT IN (SELECT context_id FROM block_contexts)")

    def _find_run_ids(self, traces: list[Source], others: list[Source]) -> None:
        """The ids of the runs in this directory, by which blocks are taken; none where no trace file begins with one of
        them: then run.json is another run's, or was given another id. Raises NotUpdatableError where blocks were taken
        by other ones."""
        (text,) = self._db.execute("SELECT json FROM meta").fetchone() or ("{}",)
        before = _ids_in(json.loads(text))
        sources = [source for source in others if source.name == "run.json" and not source.obstacle]
        try:
            value = self._parsed(sources[0]) if sources else {}
        except (OSError, ValueError, RecursionError, TraceError):
            value = {}  # _others says so
        now = _ids_in(value if isinstance(value, dict) else {})
        if any(first_run(source.place) in now for source in traces if not source.obstacle):
            self._run_ids = now
        if not self._files or before == now:
            return
        refused = self._db.execute("SELECT 1 FROM losses WHERE cause = ? LIMIT 1", (_OTHER_RUN,)).fetchone()
        if not before or before - now or refused:
            raise NotUpdatableError

    def _last_id(self, table: str) -> int:
        return int(self._db.execute(f"SELECT coalesce(max(id), 0) FROM {table}").fetchone()[0])

    def _next_id(self, table: str) -> int:
        self._ids[table] += 1
        return self._ids[table]

    def _put(self, statement: str, *row: SqlValue) -> None:
        self._rows.setdefault(statement, []).append(row)

    def _flush(self) -> None:
        for process_id, row in self._changed.items():
            self._put(_PROCESS, process_id, *map(row.get, _PROCESS_COLUMNS))
        for statement, rows in self._rows.items():
            self._db.executemany(statement, rows)
        self._changed, self._rows, self._waiting = {}, {}, 0
        self._sealed.clear()

    def _start(self, source: Source) -> int | None:
        """The first new byte of a changed file; None: all of the file is new."""
        known, before = self._known.get(source.name), self._files.get(source.name)
        if known is None or before is None or before[1] != headers.TAILRACE:
            return None
        return int(before[2]) if known[2] == source.inode and source.size > known[0] else None

    def _forget(self, names: list[str]) -> None:
        gone = [(name, self._files.pop(name)[0]) for name in names if name in self._files]
        if not gone:
            return
        self._db.execute("DELETE FROM mixed_usage")
        self._db.execute("CREATE TEMP TABLE gone (file TEXT PRIMARY KEY, id INTEGER)")
        self._db.executemany("INSERT INTO gone VALUES (?, ?)", gone)
        if self._db.execute("SELECT 1 FROM edge_files WHERE file IN (SELECT file FROM gone) LIMIT 1").fetchone():
            # Edge tables don't say which rows came from which file.
            self._db.execute("DELETE FROM edge_files")
            self._db.execute("DELETE FROM edge_tables")
        if self._db.execute("SELECT 1 FROM losses WHERE cause = 'copied' LIMIT 1").fetchone():
            raise NotUpdatableError  # the copy is all that is left, if the original is gone
        self._forget_processes()
        blocks = "SELECT id FROM blocks WHERE file_id IN (SELECT id FROM gone)"
        self._db.execute(f"DELETE FROM block_contexts WHERE block_id IN ({blocks})")
        self._db.execute("DELETE FROM blocks WHERE file_id IN (SELECT id FROM gone)")
        for table in ("files", "losses", "reaped", "untraced"):
            self._db.execute(f"DELETE FROM {table} WHERE file IN (SELECT file FROM gone)")
        self._db.execute("DROP TABLE gone")

    def _forget_processes(self) -> None:
        blocks = "SELECT process_id FROM blocks WHERE file_id"
        of_gone = f"{blocks} IN (SELECT id FROM gone)"
        elsewhere = f"{blocks} NOT IN (SELECT id FROM gone)"
        if self._db.execute(f"SELECT 1 FROM ({of_gone}) WHERE process_id IN ({elsewhere}) LIMIT 1").fetchone():
            raise NotUpdatableError
        for row in self._db.execute(f"SELECT host, pid, start FROM processes WHERE id IN ({of_gone})").fetchall():
            del self._processes[row]
        self._db.execute(f"DELETE FROM processes WHERE id IN ({of_gone})")

    def _trace(self, source: Source, start: int | None) -> None:
        """Adds a trace file from byte `start` on; None: a new file."""
        file_id = self._next_id("files") if start is None else self._files[source.name][0]
        kind, end = headers.FOREIGN, start or 0
        self._reached = {}
        if start is not None:
            self._torn_before(source.name, file_id, start)
            reached = "SELECT process_id, max(t1) FROM blocks WHERE file_id = ? GROUP BY process_id"
            self._reached = dict(self._db.execute(reached, (file_id,)).fetchall())
        for scan in [_refused(source)] if source.obstacle else scan_file(source.place, start or 0):
            kind = scan.kind
            for header in scan.headers:
                self._block(source.name, file_id, header)
                end = max(end, header.offset + header.member_bytes)
            for (cause, unit), count in scan.losses.items():
                self._put(_LOSS, source.name, 0, cause, unit, count, scan.problem)
            self._waiting += max(1, len(scan.headers))
            if self._waiting >= BLOCKS_AT_ONCE:
                self._flush()
        figures = (kind, source.size, source.mtime_ns, end)
        if start is None:
            self._put(_FILE, file_id, source.name, *figures)
        else:
            self._put(_FILE_GREW, *figures, file_id)

    def _torn_before(self, name: str, file_id: int, start: int) -> None:
        # Torn bytes are counted over the whole file each time, since a torn tail may have been completed.
        again = "FROM losses WHERE file = ? AND unit IN ('bytes', 'files')"
        problem = max((text for (text,) in self._db.execute(f"SELECT problem {again}", (name,)).fetchall()), default="")
        self._db.execute(f"DELETE {again}", (name,))
        query = "SELECT coalesce(sum(member_bytes), 0) FROM blocks WHERE file_id = ? AND offset < ?"
        (whole,) = self._db.execute(query, (file_id, start)).fetchone()
        if start > whole:
            self._put(_LOSS, name, 0, "damaged" if problem else "torn", "bytes", start - whole, problem)

    def _block(self, name: str, file_id: int, header: Header) -> None:
        block_id = self._next_id("blocks")
        place = (header.offset, header.member_bytes, header.raw)
        is_other = bool(self._run_ids) and header.run is not None and header.run not in self._run_ids
        process_id = 0 if is_other else self._process(header)
        if is_other or self._is_copy(process_id, header):
            self._put(_BLOCK, block_id, file_id, process_id, *place, *[0] * 7, None, None, None, None, 1, *[0] * 5)
            self._put(_LOSS, name, process_id, _OTHER_RUN if is_other else "copied", "blocks", 1, "")
            return
        figures = (header.events, header.t0, header.t1, header.read, header.written, *header.uncounted)
        sealed = header.sealed or (None, None, None)
        totals, of_events = header.totals
        calls = max(header.events - totals, 0) + of_events  # as many events as under full detail
        counted = (
            header.number,
            header.joined,
            totals,
            calls,
            header.sealing_ns,
            header.self_sealing_ns,
            header.stacks,
        )
        self._put(_BLOCK, block_id, file_id, process_id, *place, *figures, *sealed, *counted)
        for child in header.reaped:
            ends = (child.pid, child.status, child.read, child.written)
            known = (child.kind, child.own, *child.time)
            self._put(_REAPED, name, process_id, header.host, *ends, header.t1, *known)
        for row in header.untraced:
            self._put(_UNTRACED, name, process_id, header.host, row.pid, row.why, row.program, header.t1)
        for tags in header.contexts:
            self._put(_CONTEXT_OF_BLOCK, self._context(tags), block_id)
        for cause, count in header.lost.items():
            unit = "processes" if cause == "gave_way" else "events"
            self._put(_LOSS, name, process_id, cause, unit, count, "")
        if header.process is not None and (reason := _no_journal(header.process.facts)):
            self._put(_LOSS, name, process_id, "no_journal", "processes", 1, reason)

    def _is_copy(self, process_id: int, header: Header) -> bool:
        """Whether the process has this block already. Two without events may agree: what they lost happened twice."""
        if header.sealed is None or not header.events:
            return False
        key = (process_id, *header.sealed, header.member_bytes, header.t0, header.t1)
        query = (
            "SELECT 1 FROM blocks WHERE process_id = ? AND seg = ? AND epoch = ? AND slots = ? AND member_bytes = ?"
            " AND t0 = ? AND t1 = ?"
        )
        if key in self._sealed or self._db.execute(query, key).fetchone():
            return True
        self._sealed.add(key)
        return False

    def _context(self, tags: str) -> int:
        if tags not in self._contexts:
            self._contexts[tags] = self._next_id("contexts")
            values = Header.tags_of(tags)
            values.pop("region", None)  # a column, and in a converted trace on lines alone
            first = [values.pop(key, None) for key in ("workflow", "stage", "task", "job", "rank")]
            self._put(_CONTEXT, self._contexts[tags], tags, *first, json.dumps(values) if values else "{}")
        return self._contexts[tags]

    def _process(self, header: Header) -> int:
        key = (header.host, header.pid, header.start)
        if key not in self._processes:
            self._processes[key] = self._next_id("processes")
        process_id = self._processes[key]
        row = self._changed.setdefault(process_id, dict(zip(_PROCESS_KEY, key, strict=True)))
        if header.mono is not None:
            row["mono"] = header.mono
        if header.cut_off is not None:
            row["cut_off"] = header.cut_off
        if header.events:
            first, last = row.get("t0"), row.get("t1")
            row["t0"] = min(first, header.t0) if isinstance(first, int) else header.t0
            row["t1"] = max(last, header.t1) if isinstance(last, int) else header.t1
        # Within a file a process's blocks are in the order in which they were sealed.
        at = self._reached[process_id] = max(header.t1, self._reached.get(process_id, 0))
        if header.process is not None:
            _take_later(row, "began", at, (*header.process.row(), header.rank()))
        if header.exit is not None:
            _take_later(row, "ended", at, (header.exit_code(), json.dumps(header.exit)))
        if header.ledger is not None:
            # Only one segment of a process has it, and not every block of that one has events.
            _take_later(row, "counted", _order_in_segment(header, at), (json.dumps(header.ledger),))
        return process_id

    def _others(self, others: list[Source]) -> None:
        (before,) = self._db.execute("SELECT json FROM meta").fetchone() or ("{}",)
        self._db.execute("DELETE FROM meta")
        declared_tables.clear(self._db)
        self._db.execute("DELETE FROM losses WHERE file NOT IN (SELECT file FROM files)")
        meta: Document | None = None
        hosts: list[object] = []
        for source in others:
            if source.obstacle and not source.name.startswith("declared"):
                self._put(_LOSS, source.name, 0, "refused", "files", 1, f"{source.path}: {source.obstacle}")
            elif source.name == "run.json":
                meta = self._object_in(source)
                self._left_out(meta.get("foreign"))
            elif source.name.startswith(f"{HOSTS}/") and (host := self._object_in(source)):
                hosts.append(host)
        if meta is not None or hosts:
            both = {**(meta or {}), **({"hosts": hosts} if hosts else {})}
            self._db.execute("INSERT INTO meta VALUES (?)", (json.dumps(both),))
            self._forget_edges_of(set(mount_rows(json.loads(before))) ^ set(mount_rows(both)))
        self._db.execute("DELETE FROM manifest")
        for source in others:
            if source.name.startswith(f"{MANIFEST}/") and not source.obstacle:
                self._manifest(source)
        self._db.execute("DELETE FROM reaped WHERE process_id IS NULL")
        self._db.execute("DELETE FROM untraced WHERE file LIKE ? || '/%'", (ACCOUNTS,))
        for source in others:
            if source.name.startswith(f"{ACCOUNTS}/") and not source.obstacle:
                self._launched(source)
        self._flush()
        declared_tables.fill(self._db, [source for source in others if source.name.startswith("declared")])

    def _forget_edges_of(self, changed: set[Mount]) -> None:
        """Files have other identities where the mounts of a host, or what is known of them, are others than before."""
        of_edges = (
            "SELECT DISTINCT p.host FROM edge_files e JOIN files f ON f.file = e.file JOIN blocks b ON b.file_id = f.id"
            " JOIN processes p ON p.id = b.process_id"
        )
        if changed and {host for (host,) in self._db.execute(of_edges)} & {host for host, *_ in changed}:
            self._db.execute("DELETE FROM edge_files")
            self._db.execute("DELETE FROM edge_tables")

    def _object_in(self, source: Source) -> Document:
        """The JSON object in run.json or of a host; {} when it is damaged: a trace can be read without."""
        value = self._json_in(source, only=dict)
        return value if isinstance(value, dict) else {}

    def _left_out(self, foreign: object) -> None:
        """Adds what the conversion of another tracer's trace left out (foreign/conversion.py)."""
        rows = foreign.get("losses") if isinstance(foreign, dict) else None
        for row in rows if isinstance(rows, list) else []:
            texts = [row.get(key) for key in ("file", "cause", "unit", "problem")] if isinstance(row, dict) else []
            count = headers.whole(row.get("count")) if texts else None
            if count is not None and count > 0 and all(isinstance(text, str) for text in texts):
                file, cause, unit, problem = map(clean, map(str, texts))
                self._put(_LOSS, file, 0, cause, unit, min(count, 2**53), problem)

    def _json_in(self, source: Source, only: type | tuple[type, ...] = (dict, list)) -> object:
        """The JSON of run.json, a host or an account; None, and a loss, when it is damaged."""
        try:
            value = self._parsed(source)
            problem = "" if isinstance(value, only) else "it is not a JSON object"
        except OSError as error:
            value, problem = None, error.strerror or str(error)
        except (ValueError, RecursionError) as error:
            value, problem = None, f"it is not JSON: {error}"
        except TraceError as error:
            value, problem = None, str(error)
        if problem:
            self._damaged(source, problem)
        return value

    @staticmethod
    def _parsed(source: Source) -> object:
        """Raises OSError, ValueError, RecursionError, or TraceError where it takes more memory than there is."""
        text = ownership.read_regular(source.path, ownership.JSON_LIMIT)
        memory.check_json(source.path, len(text))
        return json.loads(text)

    def _damaged(self, source: Source, problem: str) -> None:
        said = problem if problem.startswith(source.place) else f"{source.path}: {problem}"
        self._put(_LOSS, source.name, 0, "damaged", "files", 1, said)

    def _manifest(self, source: Source) -> None:
        try:
            damaged = missing.add(self._db, source.name, ownership.read_regular(source.path, ownership.JSON_LIMIT))
        except OSError as error:
            self._damaged(source, error.strerror or str(error))
        else:
            if damaged:
                self._damaged(source, f"{damaged:,} damaged lines: a trace file that is gone may not be missed")

    def _launched(self, source: Source) -> None:
        """Adds the accounts of a file: the one that `tailrace run` wrote at its command's end, or those of the tasks of
        a Flux shell."""
        found = self._json_in(source)
        for row in found if isinstance(found, list) else [found]:
            if isinstance(row, dict):
                self._account(source, row, is_task=isinstance(found, list))

    def _account(self, source: Source, row: Document, *, is_task: bool) -> None:
        totals = headers.pair([row.get("rchar"), row.get("wchar")])
        numbers = [headers.whole(row.get(key)) for key in ("pid", "status", "ns")]
        host = row.get("host")
        if totals is None or not isinstance(host, str) or None in numbers:
            self._damaged(source, "the host, pid, status, time or bytes of an account are missing or impossible")
            return
        pid, status, ns = numbers
        host = clean(host)
        time = headers.Time.of(row.get(key) for key in headers.Time._fields)
        values = (source.name, host, pid, status, *totals, ns, is_task, 0, 0, *time)
        self._db.execute(f"INSERT INTO reaped VALUES (?, NULL{', ?' * len(values[1:])})", values)
        untraced, program = row.get("untraced"), row.get("program")
        if isinstance(untraced, str) and isinstance(program, str):
            why = (source.name, host, pid, clean(untraced), clean(program), ns)
            self._db.execute("INSERT INTO untraced VALUES (?, NULL, ?, ?, ?, ?, ?)", why)


def _ids_in(run_json: Document) -> frozenset[str]:
    """The ids of a run and its restarts; empty: not known."""
    ids = (one.get("run_id") for one in descriptions(run_json))
    return frozenset(one for one in ids if isinstance(one, str))


def _order_in_segment(header: Header, at: int) -> int:
    """A number that grows with the blocks of a segment; their time `at` where none says which part of it it has."""
    if header.sealed is None:
        return at
    _, epoch, slots = header.sealed
    return min(epoch, 2**32) << 16 | min(slots, 2**16 - 1)


def _take_later(row: dict[str, SqlValue], at_name: str, at: int, values: tuple[SqlValue, ...]) -> None:
    known = row.get(at_name)
    if not isinstance(known, int) or at >= known:
        row.update(zip(_LATEST[at_name], values, strict=True))
        row[at_name] = at


def _no_journal(facts: Mapping[str, object]) -> str:
    """Why a process could make no journal, by the facts of its start event; "" for one with a journal."""
    fact = facts.get("no_journal")
    return _native.journal_reason(json.dumps(fact)) if isinstance(fact, dict) else ""


def _refused(source: Source) -> headers.FileScan:
    return FileScan(headers.FOREIGN, losses={("refused", "files"): 1}, problem=f"{source.path}: {source.obstacle}")
