"""The catalogue of a run: a SQLite file made from block headers, run.json and the declared files; and, once the
dataflow was requested, the edge table (edge_cache.py).

Invariants: it is derived, so it may be deleted at any time, and a file that changed (size, mtime or inode) is scanned
again: only its new bytes when it grew. It is built in a node-local file and published by rename, so that no reader on
any client sees it incomplete; a published file is never modified. It is published in the run directory where that is
this user's and nobody else may write to it, else in the user's cache; where neither can be written, the local file
serves this process only. A trace can be opened while it is written:
the bytes of an incomplete block count as torn until it is complete.

A catalogue may also have come with a run from elsewhere, and contain anything. So it is used only if it is this user's,
has exactly our tables, and knows a file of the run by its inode, which no copy keeps. And it may have been damaged
since: it carries a checksum of all its bytes, in the four that SQLite leaves to the application, and is made anew where
that is wrong.

catalogue_tables.py has the tables and fills them; layout.py finds the files.

Rejected: a signature as the proof, whose key would be in the home directory, which many compute nodes lack.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import stat
import struct
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

from tailrace.analyzer.store import catalogue_tables, problems
from tailrace.analyzer.store.layout import Layout, Source, layout
from tailrace.analyzer.util.types import SqlRow, SqlValue
from tailrace.base import ownership
from tailrace.errors import RunError

FILE_NAME = "tailrace.db"


class Catalogue:
    """An open catalogue: read-only, the state of the files at the time of opening."""

    def __init__(self, where: Layout, connection: sqlite3.Connection) -> None:
        self.layout = where
        self.place = os.path.abspath(where.directory)  # noqa: PTH100 (resolves no link)
        self._connection = connection

    def rows(self, query: str, parameters: Iterable[SqlValue] = ()) -> list[SqlRow]:
        """All rows of a query. Raises RunError when SQLite fails."""
        try:
            return self._connection.execute(query, tuple(parameters)).fetchall()
        except sqlite3.Error as error:
            raise RunError(f"{self.layout.directory}: the catalogue can't be read: {error}") from error

    def table(self, query: str, parameters: Iterable[SqlValue] = ()) -> tuple[list[str], list[SqlRow]]:
        """Column names and rows of a query. Raises RunError when SQLite fails."""
        try:
            cursor = self._connection.execute(query, tuple(parameters))
            return [column[0] for column in cursor.description], cursor.fetchall()
        except sqlite3.Error as error:
            raise RunError(f"{self.layout.directory}: the catalogue can't be read: {error}") from error

    def keep(self, change: Callable[[sqlite3.Connection], None]) -> bool:
        """Publishes the catalogue with the rows that `change` inserts; this object keeps the state that it was opened
        with.

        Returns False, and publishes nothing, where no directory can be written, or where another process published a
        newer catalogue.
        """
        published = _place(self.layout)
        if published is None:
            return False
        try:
            local = _scratch()
        except OSError:
            return False
        try:
            if not _is_usable(published):
                return False
            shutil.copyfile(published, local)
            if not _is_whole(local):
                return False
            with closing(sqlite3.connect(local)) as connection:
                if not catalogue_tables.is_ours(connection) or catalogue_tables.stamps(
                    connection
                ) != catalogue_tables.stamps(self._connection):
                    return False
                change(connection)
                self.left_out(connection)
                connection.commit()
            _seal(local)
            return _publish(local, published)
        except (OSError, sqlite3.Error):
            return False
        finally:
            local.unlink()

    def left_out(self, connection: sqlite3.Connection) -> None:
        """Makes losses of the damaged blocks that this process met: what is kept was computed without them."""
        for file, offset, _, problem in problems.met(self.place):
            catalogue_tables.leave_out(connection, file, offset, problem)

    def close(self) -> None:
        """Closes the database."""
        self._connection.close()


def open_catalogue(directory: str | os.PathLike[str]) -> Catalogue:
    """Opens the catalogue of a run after updating it.

    Raises NotARunError when there is no run; RunError when it can't be read.
    """
    where = layout(directory)
    try:
        published = _place(where)
        others = where.others()  # first: the files that a manifest names were written before
        traces = where.traces()
        if published is not None and (connection := _open_if_fresh(published, [*traces, *others])) is not None:
            return Catalogue(where, connection)
        return Catalogue(where, _rebuild(published, traces, others))
    except (OSError, sqlite3.Error) as error:
        raise RunError(f"{where.directory}: the catalogue can't be built: {error}") from error


_CHECKSUM_AT = 68
"""The application id in SQLite's header (https://www.sqlite.org/fileformat2.html)."""


def _checksum(path: Path) -> bytes:
    """The CRC-32 of a database, as if its place were zero. Raises OSError."""
    value = 0
    with path.open("rb") as file:
        head = bytearray(file.read(100))
        head[_CHECKSUM_AT : _CHECKSUM_AT + 4] = bytes(4)
        value = zlib.crc32(head)
        while chunk := file.read(1 << 20):
            value = zlib.crc32(chunk, value)
    return struct.pack(">I", value)


def _seal(path: Path) -> None:
    """Writes the checksum into a finished database. Raises OSError."""
    with path.open("r+b") as file:
        file.seek(_CHECKSUM_AT)
        file.write(bytes(4))
    value = _checksum(path)
    with path.open("r+b") as file:
        file.seek(_CHECKSUM_AT)
        file.write(value)


def _is_whole(path: Path) -> bool:
    """Whether the database is as it was written."""
    try:
        with path.open("rb") as file:
            head = file.read(100)
        return head[_CHECKSUM_AT : _CHECKSUM_AT + 4] == _checksum(path)
    except OSError:
        return False


_CACHE_DAYS = 30
"""Days after which an unused catalogue is removed from the cache."""


def _place(where: Layout) -> Path | None:
    """Where the run's catalogue is published; None: nowhere. Raises OSError."""
    status = where.directory.stat()
    if ownership.is_private(status) and os.access(where.directory, os.W_OK):
        return where.directory / FILE_NAME
    cache = ownership.private_cache()
    if cache is None:
        return None
    key = hashlib.sha256(os.fsencode(where.directory.resolve())).hexdigest()[:32]
    return cache / f"{key}-{status.st_dev:x}-{status.st_ino:x}.db"


def _is_usable(path: Path) -> bool:
    """Whether it is a regular file that only this user can have written."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and ownership.is_private(status)


def _scratch() -> Path:
    """An empty file on this node to build a catalogue in. Raises OSError."""
    handle, name = tempfile.mkstemp(prefix="tailrace-", suffix=".db")
    os.close(handle)
    return Path(name)


def _connect_read_only(path: Path) -> sqlite3.Connection:
    # The authority is empty, since SQLite would take one from a path that begins with two slashes.
    place = quote(os.fsencode(path.absolute()))
    connection = sqlite3.connect(f"file://{place}?mode=ro&immutable=1", uri=True, check_same_thread=False)
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _open_if_fresh(path: Path, sources: list[Source]) -> sqlite3.Connection | None:
    # Of a run without any file, every catalogue would be a fresh one.
    if not sources or not _is_usable(path) or not _is_whole(path):
        return None
    connection = _connect_read_only(path)
    try:
        if catalogue_tables.is_ours(connection) and catalogue_tables.stamps(connection) == {
            s.name: s.stamp for s in sources
        }:
            if path.name != FILE_NAME:
                os.utime(path)
            return connection
    except sqlite3.Error:
        pass  # damaged: it is rebuilt
    connection.close()
    return None


def _rebuild(published: Path | None, traces: list[Source], others: list[Source]) -> sqlite3.Connection:
    local = _scratch()
    try:
        if published is None or not _update_copy(published, local, traces, others):
            local.write_bytes(b"")
            catalogue_tables.update(local, traces, others)
        _seal(local)
        if published is not None and _publish(local, published):
            return _connect_read_only(published)
        connection = _connect_read_only(local)
        # SQLite opens the file at the first query; only then can the name be removed.
        connection.execute("SELECT 1 FROM sources").fetchone()
        return connection
    finally:
        local.unlink()


def _update_copy(published: Path, local: Path, traces: list[Source], others: list[Source]) -> bool:
    """Brings a copy of the published catalogue up to date; False when it can't be used."""
    if not _is_usable(published):
        return False
    try:
        shutil.copyfile(published, local)
        if not _is_whole(local):
            return False
        with closing(sqlite3.connect(local)) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            if not catalogue_tables.is_ours(connection) or not _knows_one(
                catalogue_tables.stamps(connection), [*traces, *others]
            ):
                return False
        catalogue_tables.update(local, traces, others)
    except (OSError, sqlite3.Error, catalogue_tables.NotUpdatableError):
        return False
    return True


def _knows_one(stamps: dict[str, tuple[int, int, int]], sources: list[Source]) -> bool:
    """Whether one of the files is that of which the catalogue was made, though it may have grown since."""
    return any(stamps.get(source.name, (0, 0, None))[2] == source.inode for source in sources)


def _publish(local: Path, published: Path) -> bool:
    """Puts the finished catalogue into its directory by an atomic rename, readable for its user alone."""
    staged = None
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{FILE_NAME}.", dir=published.parent)
        staged = Path(name)
        with os.fdopen(descriptor, "wb") as target, local.open("rb") as source:
            shutil.copyfileobj(source, target, 1 << 20)
        staged.replace(published)
        if published.name != FILE_NAME:
            _prune(published.parent)
    except OSError:
        with suppress(OSError):
            if staged is not None:
                staged.unlink()
        return False
    return True


def _prune(cache: Path) -> None:
    oldest = time.time() - _CACHE_DAYS * 86400
    for path in cache.glob("*.db"):
        with suppress(FileNotFoundError):
            if path.lstat().st_mtime < oldest:
                path.unlink()
