"""What of a run is missing without a trace of it: blocks that others of their segment came after, files and blocks that
a manifest has (docs/trace-format.md, "The manifest"), run.json, descriptions of hosts, and
what of a host's times can't be compared (clock_steps.py).

Invariant: what is missing both ways counts once. Two segments of one number hide a gap, and make none.

Blocks are counted by segment (`block`), since epochs and slots may be skipped: an epoch without events has no block.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator

from tailrace.analyzer.store import clock_steps, headers, mounts
from tailrace.analyzer.util.types import Document, SqlRow
from tailrace.base.text import clean

TABLES = "CREATE TABLE manifest (file TEXT PRIMARY KEY, blocks INTEGER, place TEXT);"
"""place: the manifest."""

_LINE = (
    "INSERT INTO manifest VALUES (?, ?, ?)"
    " ON CONFLICT (file) DO UPDATE SET"
    " blocks = max(coalesce(blocks, excluded.blocks), coalesce(excluded.blocks, blocks))"
)
_NUMBERED = (
    "SELECT process_id, seg, number, joined FROM blocks WHERE number IS NOT NULL"
    " GROUP BY process_id, seg, number, joined"
)
_FIRST_FILE = (
    "SELECT min(f.file) FROM blocks b JOIN files f ON f.id = b.file_id"
    " WHERE b.process_id = g.process_id AND b.seg = g.seg AND b.number IS NOT NULL"
)
"""By name: ids of files are in the order in which they were found while the run grew."""
_GAPS = (
    "INSERT INTO losses SELECT min(file), process_id, 'missing', 'blocks', sum(gap), '' FROM"
    f" (SELECT process_id, gap, ({_FIRST_FILE}) AS file FROM"
    " (SELECT process_id, seg, max(number) + 1 - sum(joined) AS gap FROM"
    f" ({_NUMBERED}) GROUP BY process_id, seg) g WHERE gap > 0) GROUP BY process_id"
)
_KNOWN = (
    "SELECT m.file, m.place, m.blocks, f.id, (SELECT count(*) FROM blocks b WHERE b.file_id = f.id),"
    " EXISTS (SELECT 1 FROM losses l WHERE l.file = m.file)"
    " FROM manifest m LEFT JOIN files f ON f.file = m.file ORDER BY m.file"
)
_LOSS = "INSERT INTO losses VALUES (?, 0, 'missing', ?, ?, ?)"
_REMOVED = (
    "INSERT INTO losses VALUES (?, 0, 'journals_removed', 'hosts', 1, ?)"
    " ON CONFLICT (file, process_id, cause, unit) DO NOTHING"
)


def add(connection: sqlite3.Connection, place: str, text: bytes) -> int:
    """Adds the lines of a manifest; returns how many are damaged. The last one may be cut off by its writer's death. A
    line is empty where two writers ended such a one."""
    damaged = 0
    for line in text.splitlines(keepends=True):
        row = parsed(line)
        if row is not None:
            connection.execute(_LINE, (f"trace/{row[0]}", row[1], place))
        elif (_object(line) or {}).get("journals") == "removed":
            host = place.rpartition("/")[2].removesuffix(".jsonl")
            connection.execute(_REMOVED, (place, host))
        elif line.endswith(b"\n") and line.strip():
            damaged += 1
    return damaged


def parsed(line: bytes) -> tuple[str, int | None] | None:
    """A trace file's name and number of blocks (None: not counted); None where the line is damaged."""
    row = _object(line) or {}
    file, blocks = row.get("file"), headers.whole(row.get("blocks"))
    if not isinstance(file, str) or (blocks is not None and not 0 <= blocks < 2**32):
        return None
    return clean(file), blocks


def _object(line: bytes) -> Document | None:
    """What a line has; None where it is damaged."""
    text, _, rest = line.partition(b',"crc":"')
    if rest.rstrip() != b'%08x"}' % zlib.crc32(text):
        return None
    try:
        row = json.loads(text + b"}")
    except (RecursionError, ValueError):
        return None
    return row if isinstance(row, dict) else None


def line_of(file: str, blocks: int) -> bytes:
    """A line of a manifest."""
    text = json.dumps({"file": file, "blocks": blocks}, separators=(",", ":"))[:-1].encode()
    return text + b',"crc":"%08x"}\n' % zlib.crc32(text)


def note(connection: sqlite3.Connection) -> None:
    """Makes losses of what is missing now."""
    _note_blocks(connection)
    connection.execute("DELETE FROM losses WHERE cause = 'undescribed' AND unit = 'hosts'")
    (text,) = connection.execute("SELECT json FROM meta").fetchone() or ("{}",)
    hosts = [str(host) for (host,) in connection.execute("SELECT DISTINCT host FROM processes")]
    meta = json.loads(text)
    _note_description(connection, meta)
    for host in mounts.undescribed(meta, hosts) if "foreign" not in meta else ():
        connection.execute("INSERT INTO losses VALUES (?, 0, 'undescribed', 'hosts', 1, ?)", (f"hosts/{host}", host))
    connection.execute("DELETE FROM losses WHERE cause = ? AND unit = 'hosts'", (CLOCK_SET,))
    for host, words in clock_steps.find(lived(connection.execute(LIVED))).said.items():
        connection.execute("INSERT INTO losses VALUES (?, 0, ?, 'hosts', 1, ?)", (f"hosts/{host}", CLOCK_SET, words))


def _note_description(connection: sqlite3.Connection, meta: Document) -> None:
    """Notes that run.json is gone; one that is damaged or refused is said to be that."""
    is_said = connection.execute("SELECT 1 FROM losses WHERE file = 'run.json'").fetchone()
    if not (meta.keys() - {"hosts"} or is_said):
        connection.execute(_LOSS, ("run.json", "files", 1, "run.json, which says what was run, where and when"))


CLOCK_SET = "clock_set"
"""The cause of the row that says by how much a host's clock was set."""
LIVED = "SELECT host, pid, start, ppid, mono, t0, t1 FROM processes WHERE mono IS NOT NULL AND t0 IS NOT NULL"


def lived(rows: Iterable[SqlRow]) -> Iterator[clock_steps.Lived]:
    """The rows of `LIVED`, but for those of damaged headers."""
    for host, pid, start, ppid, mono, t0, t1 in rows:
        try:
            realtime = int(start, 16)
        except ValueError:
            continue
        yield clock_steps.Lived((host, pid, start), ppid, realtime, mono, t0, t1)


def _note_blocks(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM losses WHERE cause = 'missing' AND unit IN ('blocks', 'files')")
    connection.execute(_GAPS)
    of_gaps = "SELECT coalesce(sum(count), 0) FROM losses WHERE cause = 'missing' AND unit = 'blocks'"
    (gaps,) = connection.execute(of_gaps).fetchone()
    for file, place, blocks, file_id, found, is_said in connection.execute(_KNOWN).fetchall():
        if file_id is None:
            how_many = f" with {blocks:,} blocks" if blocks else ""
            connection.execute(_LOSS, (file, "files", 1, f"{file}, which {place} has{how_many}, is gone"))
        elif blocks is None and not found and not is_said:
            connection.execute(_LOSS, (file, "files", 1, f"{file}, which {place} has, is empty"))
        elif blocks is not None and blocks > found:
            # The gaps don't tell from which file their blocks are.
            if beyond := max(0, blocks - found - gaps):
                connection.execute(_LOSS, (file, "blocks", beyond, ""))
            gaps = max(0, gaps - (blocks - found))
