"""The order of an edge table's rows: by what they are and when, not by which trace file was read first.

    EdgeTable of any partitions --ordered--> actors and files by their first call, the rows of each table by their keys

The fold numbers actors and files as it meets them, so their codes depend on the names of the trace files, on the
partitions, and on when a growing run was read. Whatever is sorted by a time or a size further up keeps the order of
codes among equals. So it is here, once, that the same run gets the same order.

Invariants: of two actors or files that were seen first at the same time, their own keys decide. Ordering twice changes
nothing.

Rejected: a further key for each of a hundred sorts, which the next sort would lack.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from tailrace.analyzer.edges.edge_table import THREAD_KEY, EdgeTable, keyed, owners_and_kinds
from tailrace.analyzer.util import grouping
from tailrace.analyzer.util.intervals import Intervals
from tailrace.analyzer.util.types import Array, Ints, Objects

_NEVER = np.iinfo(np.int64).max
_KEYS: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "aliases": (("file", "first_ns", "last_ns"), ("path",)),
    "counts": (("who", "kind"), ()),
    "patterns": (("who", "file", "dir"), ()),
    "sizes": (("who", "file", "dir", "bits"), ()),
    "functions": (("who", "kind"), ("cat", "name")),
    "lengths": (("kind", "range"), ("cat", "name")),
    "facts": (("who", "file", "first_ns", "last_ns"), ("what", "path", "path2")),
    "cuts": (("who", "file", "last_ns", "first_ns", "start", "end"), ("what",)),
    "process_events": (("who", "ns", "pid"), ("what",)),
}
"""Table -> the columns of numbers and then those of texts that its rows are ordered by."""
_BURST = ("who", "file", "dir", "first_ns")


def ordered(table: EdgeTable) -> EdgeTable:
    """The table with its actors, files and rows in their order."""
    who, files = _actors(table), _files(table)
    if who is not None:
        table = _with_actors(table, who)
    if files is not None:
        table = _with_files(table, files)
    # Any, since mypy gives all keywords of a dictionary one type.
    rows: dict[str, Any] = {name: _sorted(getattr(table, name), *keys) for name, keys in _KEYS.items()}
    return _with_bursts(_with_threads(replace(table, **rows)))


def _actors(table: EdgeTable) -> Ints | None:
    counts = table.counts
    seen = grouping.least(counts["who"].to_numpy(), counts["first_ns"].to_numpy(), len(table.who), _NEVER)
    texts = [table.who[name].to_numpy() for name in ("host", "start", "workflow", "stage", "task")]
    return order([seen, table.who["pid"].to_numpy()], texts)


def _files(table: EdgeTable) -> Ints | None:
    seen = np.full(len(table.files) + 1, _NEVER)  # the last: facts without a file
    for rows in (table.aliases, table.facts, table.bursts):
        np.minimum.at(seen, rows["file"].to_numpy(dtype=np.int64), rows["first_ns"].to_numpy(dtype=np.int64))
    return order([seen[:-1]], [table.files["file"].to_numpy()])


def order(numbers: Sequence[Ints], texts: Sequence[Objects] = ()) -> Ints | None:
    """The rows' positions in their order: by the numbers, the first the primary ones, then by the texts. None where
    they are in it. Equal rows keep their order."""
    at = None if _ascending(numbers) else grouping.order(*reversed(numbers))
    if not texts or not len(numbers[0]):
        return at
    # Few rows have equal numbers, and sorting a million paths takes a second.
    first = grouping.first_of_run(*(column if at is None else column[at] for column in numbers))
    equal = ~first
    equal[:-1] |= ~first[1:]
    places = np.flatnonzero(equal)
    if not len(places):
        return at
    rows = places if at is None else at[places]
    ranks = [np.unique(column[rows], return_inverse=True)[1].astype(np.int64) for column in texts]
    among = [np.cumsum(first)[places], *ranks]
    if _ascending(among):
        return at
    at = np.arange(len(first), dtype=np.int64) if at is None else at
    at[places] = rows[grouping.order(*reversed(among))]
    return at


def _ascending(columns: Sequence[Array]) -> bool:
    """Whether the rows are in the order of these columns."""
    equal = np.ones(max(len(columns[0]) - 1, 0), dtype=np.bool_)
    for column in columns:
        after, before = column[1:], column[:-1]
        if (equal & (after < before)).any():
            return False
        equal &= after == before
    return True


def _sorted(rows: pd.DataFrame, numbers: Sequence[str], texts: Sequence[str]) -> pd.DataFrame:
    at = order([rows[name].to_numpy() for name in numbers], [rows[name].to_numpy() for name in texts])
    return rows if at is None else _taken(rows, at)


def _taken(rows: pd.DataFrame, at: Ints) -> pd.DataFrame:
    return grouping.frame({str(name): rows[name].to_numpy()[at] for name in rows})


def _places(at: Ints) -> Ints:
    """The new position of each row."""
    places = np.empty(len(at), dtype=np.int64)
    places[at] = np.arange(len(at))
    return places


def _with_actors(table: EdgeTable, at: Ints) -> EdgeTable:
    place = _places(at)
    tables = ("bursts", "counts", "patterns", "sizes", "functions", "threads", "facts", "cuts", "process_events")
    coded = {name: rows.assign(who=place[rows["who"].to_numpy()]) for name in tables for rows in [getattr(table, name)]}
    return replace(table, **coded, who=_taken(table.who, at))


def _with_threads(table: EdgeTable) -> EdgeTable:
    at = order([table.threads[name].to_numpy() for name in THREAD_KEY])
    if at is None:
        return table
    thread, kind = owners_and_kinds(table.thread_calls)
    calls = _grouped(table.thread_calls, keyed(_places(at)[thread], kind))
    return replace(table, threads=_taken(table.threads, at), thread_calls=calls)


def _with_files(table: EdgeTable, at: Ints) -> EdgeTable:
    place = np.append(_places(at), -1)  # the last: facts without a file
    tables = ("aliases", "bursts", "patterns", "sizes", "facts", "cuts")
    coded = {
        name: rows.assign(file=place[rows["file"].to_numpy()]) for name in tables for rows in [getattr(table, name)]
    }
    return replace(table, **coded, files=_taken(table.files, at))


def _with_bursts(table: EdgeTable) -> EdgeTable:
    """Of bursts of a key that begin at once, the truncation comes first, as in the fold."""
    bursts = table.bursts
    stale = (~(bursts["fresh"] | bursts["cut"]).to_numpy(dtype=np.bool_)).astype(np.int64)
    at = order([*(bursts[name].to_numpy() for name in _BURST), stale, bursts["last_ns"].to_numpy()])
    if at is None:
        return table
    place = _places(at)
    extents, times = (_grouped(rows, place[rows.group]) for rows in (table.extents, table.times))
    return replace(table, bursts=_taken(bursts, at), extents=extents, times=times)


def _grouped(rows: Intervals, group: Ints) -> Intervals:
    """Intervals with other groups, in their order."""
    at = grouping.order(group)
    return Intervals(group[at], *(column[at] for column in rows[1:]))
