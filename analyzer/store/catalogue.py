"""The catalogue of a run: a SQLite file made from block headers, run.json and the declared files; and, once the
dataflow was requested, the edge table (edge_cache.py).

Invariants: it is derived, so it may be deleted at any time, and a file that changed (size, mtime or inode) is scanned
again: only its new bytes when it grew. It is built in a node-local file and published by rename in the run directory,
so that no reader on any client sees it incomplete; a published file is never modified. Where the run directory can't be
written, or belongs to another tool (DFTracer), the local file serves this process only. A trace can be opened while it
is written: the bytes of an incomplete block count as torn until it is complete.

catalogue_tables.py has the tables and fills them; layout.py finds the files.
"""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import tempfile
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tailrace.analyzer.store import catalogue_tables
from tailrace.analyzer.store.layout import Layout, Source, layout
from tailrace.errors import RunError

FILE_NAME = "tailrace.db"


class Catalogue:
    """An open catalogue: read-only, the state of the files at the time of opening."""

    def __init__(self, where: Layout, connection: sqlite3.Connection) -> None:
        self.layout = where
        self._connection = connection

    def rows(self, query: str, parameters: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query. Raises RunError when SQLite fails."""
        try:
            return self._connection.execute(query, tuple(parameters)).fetchall()
        except sqlite3.Error as error:
            raise RunError(f"{self.layout.directory}: the catalogue can't be read: {error}") from error

    def table(self, query: str, parameters: Iterable[Any] = ()) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Column names and rows of a query. Raises RunError when SQLite fails."""
        try:
            cursor = self._connection.execute(query, tuple(parameters))
            return [column[0] for column in cursor.description], cursor.fetchall()
        except sqlite3.Error as error:
            raise RunError(f"{self.layout.directory}: the catalogue can't be read: {error}") from error

    def keep(self, change: Callable[[sqlite3.Connection], None]) -> bool:
        """Publishes the catalogue with the rows that `change` inserts; this object keeps the state that it was opened
        with.

        Returns False, and publishes nothing, where the directory belongs to another tool or can't be written, or where
        another process published a newer catalogue.
        """
        if not self.layout.owned:
            return False
        published = self.layout.directory / FILE_NAME
        try:
            local = _scratch()
        except OSError:
            return False
        try:
            shutil.copyfile(published, local)
            with closing(sqlite3.connect(local)) as connection:
                if catalogue_tables.version(connection) != catalogue_tables.VERSION or catalogue_tables.stamps(
                    connection
                ) != catalogue_tables.stamps(self._connection):
                    return False
                change(connection)
                connection.commit()
            return _publish(local, published)
        except (OSError, sqlite3.Error):
            return False
        finally:
            local.unlink()

    def close(self) -> None:
        """Closes the database."""
        self._connection.close()


def open_catalogue(directory: str | os.PathLike[str]) -> Catalogue:
    """Opens the catalogue of a run after updating it.

    Raises NotARunError when there is no run; RunError when it can't be read.
    """
    where = layout(directory)
    published = where.directory / FILE_NAME
    try:
        traces, others = where.traces(), where.others()
        if where.owned and (connection := _open_if_fresh(published, [*traces, *others])) is not None:
            return Catalogue(where, connection)
        return Catalogue(where, _rebuild(where, published, traces, others))
    except (OSError, sqlite3.Error) as error:
        raise RunError(f"{where.directory}: the catalogue can't be built: {error}") from error


def _scratch() -> Path:
    """An empty file on this node to build a catalogue in. Raises OSError."""
    handle, name = tempfile.mkstemp(prefix="tailrace-", suffix=".db")
    os.close(handle)
    return Path(name)


def _connect_read_only(path: Path) -> sqlite3.Connection:
    # The authority is empty, since SQLite would take one from a path that begins with two slashes.
    place = quote(os.fsencode(path.absolute()))
    return sqlite3.connect(f"file://{place}?mode=ro&immutable=1", uri=True, check_same_thread=False)


def _open_if_fresh(path: Path, sources: list[Source]) -> sqlite3.Connection | None:
    if not path.is_file():
        return None
    connection = _connect_read_only(path)
    try:
        if catalogue_tables.version(connection) == catalogue_tables.VERSION and catalogue_tables.stamps(connection) == {
            s.name: s.stamp for s in sources
        }:
            return connection
    except sqlite3.Error:
        pass  # damaged: it is rebuilt
    connection.close()
    return None


def _rebuild(where: Layout, published: Path, traces: list[Source], others: list[Source]) -> sqlite3.Connection:
    local = _scratch()
    try:
        if not (where.owned and _update_copy(published, local, traces, others)):
            local.write_bytes(b"")
            catalogue_tables.update(local, traces, others)
        if where.owned and _publish(local, published):
            return _connect_read_only(published)
        connection = _connect_read_only(local)
        # SQLite opens the file at the first query; only then can the name be removed.
        connection.execute("SELECT 1 FROM sources").fetchone()
        return connection
    finally:
        local.unlink()


def _update_copy(published: Path, local: Path, traces: list[Source], others: list[Source]) -> bool:
    """Brings a copy of the published catalogue up to date; False when it can't be used."""
    if not published.is_file():
        return False
    try:
        shutil.copyfile(published, local)
        with closing(sqlite3.connect(local)) as connection:
            if (
                catalogue_tables.version(connection) != catalogue_tables.VERSION
                or connection.execute("PRAGMA quick_check").fetchone()[0] != "ok"
            ):
                return False
        catalogue_tables.update(local, traces, others)
    except (OSError, sqlite3.Error):
        return False
    return True


def _publish(local: Path, published: Path) -> bool:
    """Puts the finished catalogue into the run directory by an atomic rename."""
    staged = published.with_name(f".{FILE_NAME}.{socket.gethostname()}.{os.getpid()}.{local.stem}")
    try:
        shutil.copyfile(local, staged)
        staged.chmod(published.parent.stat().st_mode & 0o666)
        staged.replace(published)
    except OSError:
        with suppress(OSError):
            staged.unlink()
        return False
    return True
