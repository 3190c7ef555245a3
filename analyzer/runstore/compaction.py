"""Fewer and larger files, and the end of old ones.

    small parts of a user, access and day --> one part with those of their entries that count; then they are removed

Invariants: an entry is in at least one part at every moment. A part is removed only after one of a higher order with
all its entries that count was synced and published, or, where an entry does not count, after a newer one of its run
was. So nothing is lost, and by entries.py nothing counts twice, wherever a compaction is killed and however many run
at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tailrace.analyzer.runstore import events, parts
from tailrace.analyzer.runstore.columns import EVENTS, TABLES, arrow_schema
from tailrace.analyzer.runstore.entries import Current, current
from tailrace.analyzer.runstore.parts import Access, Part
from tailrace.analyzer.store import engine
from tailrace.errors import RunError

LARGE_BYTES = 32 << 20
"""A part of this size is left as it is; what is merged at once is at most twice as large, since it is sorted in
memory; events are not, they pass through in pieces."""
_ATTEMPTS = 20


@dataclass
class Done:
    """How many parts were merged into how many, and how many were removed with what they had."""

    merged: int = 0
    into: int = 0
    removed: int = 0


def mine(access: Access) -> bool:
    """Whether this user's compaction changes these parts: each user's own, with his rights alone."""
    return access.uid == os.geteuid()


def compact(store: Path) -> Done:
    """Merges this user's small parts, and removes what a killed writer or compaction left. Raises RunError, OSError."""
    done = Done()
    store = store.absolute()  # a worker of a cluster has another working directory
    for _ in range(_ATTEMPTS):
        try:
            _compact(store, done)
            break
        except FileNotFoundError:  # another compaction was faster
            continue
    parts.sweep(store, mine)
    return done


def _compact(store: Path, done: Done) -> None:
    listed = parts.listing(store)
    known = current(listed.parts)
    for part, names in known.names.items():
        if mine(part.access) and len(known.without.get(part, ())) == len(names):
            parts.remove(part)
            done.removed += 1
    groups = list(_groups(known))
    tasks = [partial(_merge, group, _of(group, known)) for group in groups]
    if groups and engine.uses_dask():
        tasks = [partial(_as_user, os.geteuid(), task) for task in tasks]
        merges: Iterable[None] = engine.stream(tasks)
    else:  # one after another: each may sort 64 MiB in memory
        merges = (task() for task in tasks)
    for group, _ in zip(groups, merges, strict=True):
        done.merged += len(group)
        done.into += 1


def _of(group: list[Part], known: Current) -> Current:
    """What is known of these parts."""
    return Current(
        {part: known.names[part] for part in group},
        {part: known.without[part] for part in group if part in known.without},
    )


def _as_user(uid: int, task: Callable[[], None]) -> None:
    """Runs a task on a worker. Raises RunError where that is another user's: parts are merged by their user alone."""
    if os.geteuid() != uid:
        raise RunError(f"the Dask workers run as user {os.geteuid()}, and only user {uid} can merge these runs")
    task()


def _groups(known: Current) -> Iterator[list[Part]]:
    """What is merged into one part each."""
    some = known.some()
    of: dict[tuple[Access, str], list[tuple[int, Part]]] = {}
    for part in (*known.whole(), *some):
        if not mine(part.access):
            continue
        try:
            size = sum(status.st_size for status in part.tables().values())
        except parts.Refused:
            continue
        if size < LARGE_BYTES or part in some:
            of.setdefault((part.access, part.day), []).append((size, part))
    for rows in of.values():
        group: list[Part] = []
        total = 0
        for size, part in sorted(rows, key=lambda row: row[1].order):
            if group and total + size > 2 * LARGE_BYTES:
                yield group
                group, total = [], 0
            group.append(part)
            total += size
        if len(group) > 1 or any(part in some for part in group):
            yield group


def _merge(group: list[Part], known: Current) -> None:
    name = parts.merged_name(group)
    first = group[0]
    with parts.publishing(first.path.parent, name, first.access) as scratch:
        events.write_batches(scratch, _events(group, known))
        for table in TABLES:
            if table == EVENTS:
                continue
            rows = _rows(table, group, known)
            if rows.num_rows:
                keys = [("run", "ascending"), *((column, "ascending") for column in TABLES[table].order)]
                parts.write(scratch, {table: rows.sort_by(keys)})
    for part in group:
        parts.remove(part)


def _events(group: list[Part], known: Current) -> Iterator[pa.Table]:
    """The events of a group, each run's together. What is not as it was written is left out: `copies.believed` says
    so, and it can be made again."""
    for part in sorted(group, key=lambda part: min(known.names[part])):
        if EVENTS in part.tables() and not events.fault(part):
            yield from events.batches(part, known.without.get(part, set()))


def _rows(table: str, group: list[Part], known: Current) -> pa.Table:
    found = []
    for part in group:
        if table not in part.tables():
            continue
        try:
            rows = read(part, table)
        except (ValueError, pa.ArrowException) as error:
            raise RunError(f"{part.table(table)}: {error}: remove the folder, and index its runs again") from error
        if out := known.without.get(part):
            rows = rows.filter(pc.invert(pc.is_in(rows["entry"], pa.array(sorted(out)))))
        found.append(rows)
    return pa.concat_tables(found) if found else arrow_schema(table).empty_table()


def read(part: Part, table: str) -> pa.Table:
    """A table of a part, with the columns of columns.py."""
    with part.open(table) as file:
        return _fitted(pq.ParquetFile(file, page_checksum_verification=True).read(), table)


def check(part: Part, table: str) -> None:
    """Raises an exception where `read` would, and needs the memory of a piece."""
    with part.open(table) as file:
        for batch in pq.ParquetFile(file, page_checksum_verification=True).iter_batches():
            _fitted(pa.Table.from_batches([batch]), table)


def _fitted(rows: pa.Table, table: str) -> pa.Table:
    schema = arrow_schema(table)
    columns = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


# --- retention -------------------------------------------------------------------------------------------------------


def expire(store: Path, before: str | None, most_bytes: int | None) -> tuple[int, int]:
    """Removes this user's parts of days before `before`, and of the oldest days until those of his that are left have
    at most `most_bytes`. Returns how many runs and bytes were removed. Raises RunError, OSError."""
    listed = parts.listing(store)
    sizes: dict[Part, int] = {}
    for part in filter(lambda part: mine(part.access), listed.parts):
        with suppress(FileNotFoundError, parts.Refused):
            sizes[part] = sum(status.st_size for status in part.tables().values())
    left = sum(sizes.values())
    runs = total = 0
    for day in sorted({part.day for part in sizes}):
        if not ((before is not None and day < before) or (most_bytes is not None and left > most_bytes)):
            break
        of_day = {part: size for part, size in sizes.items() if part.day == day}
        counted = current(of_day)
        for part, size in of_day.items():
            left -= size
            runs += len(counted.names.get(part, ())) - len(counted.without.get(part, ()))
            total += size
            parts.remove(part)
    return runs, total
