"""A copy of a store for publishing: without names, paths and arguments.

    store --each column by its `Column.secret` (columns.py)--> another store, of this user alone

What is named is replaced by a keyed hash (HMAC-SHA-256, 64 bits of it; 128 for runs), paths component by component, so
that equal things stay equal and a directory stays the parent of its files; command lines, tags, texts of errors and
findings are left out. The key is the store's own: it is made at the first copy, and without it nobody can try names.

Invariants: a text column without a `secret` has words of tailrace's own; a test looks for every name of real runs in
the copy. Numbers stay: sizes and times of known runs can be recognized.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from tailrace import _native
from tailrace.analyzer.runstore import events, parts
from tailrace.analyzer.runstore.columns import CALL, DROP, EVENTS, TABLES, TEXTS, Column
from tailrace.analyzer.runstore.parts import Access, Entry
from tailrace.analyzer.runstore.store import Store
from tailrace.base import ownership
from tailrace.errors import UsageError

KEY = "export.key"
_BYTES = 32
_CALLS = frozenset().union(*_native.meanings())
"""Names of calls and categories that tailrace gives: those of an application's own events are its own."""


def copy(store: Store, target: Path) -> int:
    """Writes the copy to `target`, and returns how many runs it has. Raises UsageError, RunError, OSError."""
    if target.exists() and any(target.iterdir()):
        raise UsageError(f"{target} is not empty: give a new directory")
    hashing = _Hashing(_key(store.path))
    parts.create(target)
    access, runs = Access(os.geteuid()), 0
    days = sorted({part.day for part in store.current.names})
    for day in days:
        of_day = ds.field("day") == day
        tables = {name: _table(hashing, name, store.read(name, None, of_day)) for name in TABLES if name != EVENTS}
        runs += tables["runs"].num_rows
        with parts.publishing(parts.place_of(target, access, day), parts.merged_name([]), access) as scratch:
            counts: Counter[str] = Counter()
            events.write_batches(scratch, _events(hashing, store, day, counts))
            tables["runs"] = _with_event_rows(tables["runs"], counts)
            parts.write(scratch, tables)
    return runs


def _events(hashing: _Hashing, store: Store, day: str, counts: Counter[str]) -> Iterator[pa.Table]:
    """The events of a day, in pieces; adds those of each entry to `counts`."""
    for part, out in store.sources(EVENTS):
        if part.day == day:
            for rows in events.batches(part, out):
                table = _table(hashing, EVENTS, rows)
                for group in table["entry"].value_counts().to_pylist():
                    counts[group["values"]] += group["counts"]
                yield table


def _with_event_rows(runs: pa.Table, counts: Counter[str]) -> pa.Table:
    """The runs with the numbers of rows that the copy has."""
    at = runs.column_names.index("event_rows")
    pairs = zip(runs["entry"].to_pylist(), runs["event_rows"].to_pylist(), strict=True)
    kept = [count and counts.get(entry) for entry, count in pairs]
    return runs.set_column(at, "event_rows", pa.array(kept, pa.int64()))


def _key(store: Path) -> bytes:
    """The key of a store, made where there is none. Raises UsageError."""
    path = store / KEY
    try:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            key = ownership.read_regular(path, _BYTES)
        else:
            key = secrets.token_bytes(_BYTES)
            with os.fdopen(descriptor, "wb") as file:
                file.write(key)
                file.flush()
                os.fsync(file.fileno())
    except OSError as error:
        raise UsageError(f"{path}: the key can't be read or made: {error.strerror or error}") from error
    if len(key) != _BYTES:
        raise UsageError(f"{path}: not a key of {_BYTES} bytes: remove it to have another one made")
    return key


class _Hashing:
    """The hashes of one key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def digits(self, text: str, count: int = 16) -> str:
        """So many hexadecimal digits."""
        return hmac.digest(self._key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hex()[:count]

    def path(self, text: str) -> str:
        """A path with each component hashed, together with those before it."""
        out, before = [], ""
        for component in text.split("/"):
            before = f"{before}/{component}"
            out.append(self.digits(before, 12) if component else "")
        return "/".join(out)

    def entry(self, text: str) -> str:
        """The name of an entry of a run that is hashed."""
        known = Entry.of(text)
        if known is None:
            return ""
        return Entry(self.digits(known.run, 32), known.indexed_ns, self.digits(known.state)).name


def _table(hashing: _Hashing, name: str, rows: pa.Table) -> pa.Table:
    columns = []
    for key, column in TABLES[name].columns.items():
        values = rows[key].combine_chunks() if rows.num_rows else rows[key]
        if pa.types.is_dictionary(values.type):
            columns.append(_coded(hashing, key, column, values))
        else:
            columns.append(_column(hashing, key, column, values))
    return pa.Table.from_arrays(columns, names=list(TABLES[name].columns))


def _coded(hashing: _Hashing, key: str, column: Column, values: pa.DictionaryArray) -> pa.Array:
    """`_column` of codes: of the texts alone."""
    if isinstance(values, pa.ChunkedArray):
        values = values.unify_dictionaries().combine_chunks()
    if column.secret == DROP:
        return pa.nulls(len(values), values.type)
    return pa.DictionaryArray.from_arrays(values.indices, _column(hashing, key, column, values.dictionary))


def _column(hashing: _Hashing, key: str, column: Column, values: pa.Array) -> pa.Array:
    ways: dict[str, Callable[[str], str]] = {
        "run": lambda text: hashing.digits(text, 32),
        "entry": hashing.entry,
        "name": hashing.digits,
        "path": hashing.path,
        CALL: lambda text: text if text in _CALLS else hashing.digits(text),
    }
    if column.secret == DROP:
        return pa.nulls(len(values), values.type)
    way = ways.get(key if key in ("run", "entry") else column.secret)
    if way is None:
        return values
    if column.kind == TEXTS:
        lists = [None if row is None else [way(text) for text in row] for row in values.to_pylist()]
        return pa.array(lists, values.type)
    known: dict[str | None, str | None] = {
        text: None if text is None else way(text) for text in set(values.to_pylist())
    }
    return pa.array([known[text] for text in values.to_pylist()], values.type)
