"""SQL over a store: a connection of DuckDB whose views are the tables.

    parts --Arrow datasets (Store.datasets)--> views
    files of events --descriptors, which DuckDB reads itself in a third of the time--> the view events

Invariants: a query sees the tables alone: no other file, no network, no extension, no variable of this process. Files
are opened without following a link or waiting, as all of a store (parts.py); DuckDB gets the names of descriptors, and
only for statements that can't write.

DuckDB is an extra, 24 MB: what runs on compute nodes (TAILRACE_STORE, `tailrace file --store`) has pyarrow anyway.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tailrace.analyzer.runstore import parts
from tailrace.analyzer.runstore.columns import EVENTS, TABLES, arrow_schema
from tailrace.analyzer.runstore.parts import Part
from tailrace.errors import QueryError, UsageError

if TYPE_CHECKING:
    import duckdb

    from tailrace.analyzer.runstore.store import Store

_MOST_DIRECT = 200
"""Files, and branches of a view, that DuckDB reads itself: each takes a descriptor and time to plan."""


@contextmanager
def connected(
    store: Store, queries: Sequence[str], events: bool, direct: bool = True
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with views of the tables that the queries name, or of all where they name none. events: with those,
    which are checked first; direct: let DuckDB read their files itself. Raises UsageError without DuckDB."""
    try:
        import duckdb
    except ImportError as error:
        raise UsageError("SQL over a store needs DuckDB: pip install 'tailrace[store]'") from error
    with ExitStack() as stack:
        connection = stack.enter_context(
            duckdb.connect(
                ":memory:",
                config={
                    "autoinstall_known_extensions": "false",
                    "autoload_known_extensions": "false",
                    "python_enable_replacements": "false",
                    "temp_directory": "",
                },
            )
        )
        text, others = " ".join(queries).lower(), [table for table in TABLES if table != EVENTS]
        named = [table for table in others if table in text] or others
        named = [*named, EVENTS] if events else named
        opened: dict[Part, str] = {}
        if events and direct and _only_reads(connection, queries):
            opened = _opened(store, stack)
            paths = ", ".join(f"'{path}'" for path in opened.values())
            connection.execute(f"SET allowed_paths = [{paths}]")
        connection.execute("SET enable_external_access = false")
        for table in named:
            selects = list(_selects(store, connection, table, opened if table == EVENTS else {}))
            connection.execute(f"CREATE VIEW {table} AS {' UNION ALL '.join(selects)}")
        connection.execute("SET lock_configuration = true")
        yield connection


class EventsAsked(Exception):
    """A query has the table of events, and the connection was made without it."""


def _only_reads(connection: duckdb.DuckDBPyConnection, queries: Sequence[str]) -> bool:
    """Whether no query can write, as COPY does; what can't be parsed is answered as any other."""
    import duckdb

    reading = (duckdb.StatementType.SELECT, duckdb.StatementType.MULTI)
    with suppress(duckdb.Error):
        return all(one.type in reading for query in queries for one in connection.extract_statements(query))
    return False


def _opened(store: Store, stack: ExitStack) -> dict[Part, str]:
    """Parts with events that DuckDB can read itself, and the names of their open files; none where they are many."""
    sources = store.sources(EVENTS)
    branches = {(part.access.uid, part.day, frozenset(out)) for part, out in sources}
    if len(sources) > _MOST_DIRECT or len(branches) > _MOST_DIRECT:
        return {}
    wanted = arrow_schema(EVENTS)
    found = {}
    for part, _ in sources:
        with suppress(OSError, parts.Refused):
            descriptor = parts.open_descriptor(part.table(EVENTS), part.access.uid)
            stack.callback(os.close, descriptor)
            name = f"/proc/self/fd/{descriptor}"
            if pq.read_schema(name).equals(wanted):
                found[part] = name
    return found


def _selects(store: Store, connection: duckdb.DuckDBPyConnection, table: str, opened: dict[Part, str]) -> Iterator[str]:
    """The queries that together are a table."""
    sources = [(part, out) for part, out in store.sources(table) if part in opened]
    key = [(part.access.uid, part.day, tuple(sorted(out)), opened[part]) for part, out in sources]
    for number, ((owner, day, out), rows) in enumerate(groupby(sorted(key), key=lambda row: row[:3])):
        files = ", ".join(f"'{path}'" for *_, path in rows)
        yield (
            f"SELECT *, {owner}::BIGINT AS owner, '{day}' AS day FROM read_parquet([{files}])"
            f"{_without(connection, f'file_{number}_of_{table}', out)}"
        )
    for number, (data, without) in enumerate(store.datasets(table, leave=opened.keys(), coded=table == EVENTS)):
        source = f"part_{number}_of_{table}"
        connection.register(source, data)
        yield f"SELECT * FROM {source}{_without(connection, source, sorted(without))}"


def _without(connection: duckdb.DuckDBPyConnection, source: str, entries: Sequence[str]) -> str:
    """A condition that leaves entries out."""
    if not entries:
        return ""
    connection.register(f"out_of_{source}", pa.table({"entry": pa.array(entries, pa.string())}))
    return f" WHERE entry NOT IN (SELECT entry FROM out_of_{source})"


def answer(connection: duckdb.DuckDBPyConnection, query: str, parameters: Sequence[Any]) -> pa.Table:
    """The answer of a query. Raises QueryError for what is the query's own fault, whatever the parts are like, and
    EventsAsked."""
    import duckdb

    try:
        found = connection.sql(query, params=list(parameters) or None)
        if found is None:
            raise QueryError("the statement has no result: give a select")
        return _with_integers(found.to_arrow_table())
    except (
        duckdb.ParserException,
        duckdb.BinderException,
        duckdb.CatalogException,
        duckdb.ConversionException,
    ) as error:
        if isinstance(error, duckdb.CatalogException) and f"name {EVENTS} does not exist" in str(error).lower():
            raise EventsAsked from error
        raise QueryError(str(error).strip()) from error


def _with_integers(table: pa.Table) -> pa.Table:
    """The sums of integers, which DuckDB makes of 128 bits, as integers of 64 bits where they fit."""
    for at, column in enumerate(table.columns):
        if pa.types.is_decimal(column.type) and column.type.scale == 0:
            with suppress(pa.ArrowInvalid):
                table = table.set_column(at, table.column_names[at], column.cast(pa.int64()))
    return table
