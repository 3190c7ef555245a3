"""Flows: reads of versions joined to the writers of the bytes that were read.

`project` gives one row per (reader, version, writer) with the bytes of that writer that the reader read.
A reader's bytes are attributed, in this order, to the writers of the version it read, where their byte extents overlap
the reader's (of two writers of the same byte, to the one that finished later); then to the writers of the versions that
this one continues; then to "before the run" (writer -1). Bytes at unknown offsets are divided among the version's
writers in proportion to the bytes they wrote.

Invariants: the bytes of all writers of a (reader, version) sum up to what the reader read of it; nothing is
counted twice. A writer whose bytes were not read has no row. Bytes that were read again count again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from tailrace.analyzer.util import grouping, intervals
from tailrace.analyzer.util.intervals import Intervals
from tailrace.analyzer.util.types import Bools, Ints

BEFORE = -1
"""The writer of bytes that existed before the run, or were written by an untraced process."""
COLUMNS = ["reader", "version", "writer", "bytes", "unique_bytes", "first_ns", "last_ns"]


@dataclass(frozen=True)
class Side:
    """All reads, or all writes: one row per (version, activity), sorted by them, with the union of its byte extents.

    Parallel int64 arrays: version, activity, bytes, loose_bytes (at unknown offsets), first_ns, last_ns. The extents of
    row i are ranges[at[i]:at[i + 1]]; `ranges` has shape (n, 2), `at` one element more than there are rows.
    """

    version: Ints
    activity: Ints
    bytes: Ints
    loose_bytes: Ints
    first_ns: Ints
    last_ns: Ints
    at: Ints
    ranges: Ints

    def extents(self, row: int) -> Ints:
        """The byte ranges of a row, shape (n, 2)."""
        return self.ranges[self.at[row] : self.at[row + 1]]

    def unique_bytes(self) -> Ints:
        """The covered bytes of each row."""
        upto = np.append(0, np.cumsum(self.ranges[:, 1] - self.ranges[:, 0]))
        return np.asarray(upto[self.at[1:]] - upto[self.at[:-1]], dtype=np.int64)


def side(bursts: pd.DataFrame, version: Ints, activity: Ints, pick: Bools, extents: Intervals) -> Side:
    """The rows of `bursts` where `pick` is True, summed by (version, activity); `extents` are grouped by position in
    `bursts`."""
    at_burst = np.flatnonzero(pick)
    key = grouping.pack(version[at_burst], activity[at_burst])
    groups = grouping.groups(key)
    group_of_burst = np.full(len(bursts), -1, dtype=np.int64)
    group_of_burst[at_burst[groups.order]] = np.cumsum(grouping.first_of_run(key[groups.order])) - 1
    mine = group_of_burst[extents.group]
    keep = mine >= 0
    united = intervals.union(intervals.make(mine[keep], extents.start[keep], extents.end[keep]))
    hows = {"bytes": np.add, "loose_bytes": np.add, "first_ns": np.minimum, "last_ns": np.maximum}
    columns = {name: groups.reduce(how, bursts[name].to_numpy()[at_burst]) for name, how in hows.items()}
    return Side(
        version=groups.first(version[at_burst]),
        activity=groups.first(activity[at_burst]),
        **columns,
        at=np.searchsorted(united.group, np.arange(len(groups.at) + 1)).astype(np.int64),
        ranges=np.column_stack((united.start, united.end)),
    )


def project(reads: Side, writes: Side, base: Ints, whole: Bools) -> pd.DataFrame:
    """Rows `COLUMNS` (int64; bytes, ns since the epoch; first_ns and last_ns are the reader's).

    Args:
        base: for each version the version that it continues, or -1 (`versions.Versions`).
        whole: for each version whether all of its bytes were written in it (`versions.whole`).
    """
    bounds = np.searchsorted(writes.version, np.arange(len(base) + 1)).astype(np.int64)
    writers = np.diff(bounds)[reads.version]
    unwritten = (writers == 0) & (base[reads.version] < 0)
    simple = (writers == 1) & whole[reads.version]
    writer = np.full(len(reads.version), BEFORE, dtype=np.int64)
    writer[simple] = writes.activity[bounds[reads.version[simple]]]
    direct = np.flatnonzero(unwritten | simple)
    out = [_rows(reads, direct, writer[direct], reads.bytes[direct], reads.unique_bytes()[direct])]
    for row in np.flatnonzero(~unwritten & ~simple).tolist():
        shares = _trace(row, reads, writes, bounds, base)
        taken = np.array([(who, moved, unique) for who, (moved, unique) in shares.items()], dtype=np.int64)
        out.append(_rows(reads, np.full(len(taken), row), taken[:, 0], taken[:, 1], taken[:, 2]))
    return pd.concat(out, ignore_index=True)


def _rows(reads: Side, row: Ints, writer: Ints, moved: Ints, unique: Ints) -> pd.DataFrame:
    columns = (reads.activity[row], reads.version[row], writer, moved, unique, reads.first_ns[row], reads.last_ns[row])
    result: pd.DataFrame = pd.DataFrame(dict(zip(COLUMNS, columns, strict=True)))
    return result


def _trace(row: int, reads: Side, writes: Side, bounds: Ints, base: Ints) -> dict[int, tuple[int, int]]:
    """writer -> (bytes, unique bytes) for one reader of one version."""
    left = reads.extents(row)
    taken: dict[int, int] = {}
    version = int(reads.version[row])
    own = range(int(bounds[version]), int(bounds[version + 1]))
    while version >= 0 and len(left):
        mine = range(int(bounds[version]), int(bounds[version + 1]))
        left = _take(left, sorted(mine, key=lambda w: -int(writes.last_ns[w])), writes, taken)
        version = int(base[version])
    if len(left):
        taken[BEFORE] = taken.get(BEFORE, 0) + intervals.total(left)
    loose = int(reads.loose_bytes[row])
    placed = int(reads.bytes[row]) - loose
    shares = _split(placed, taken)
    if loose or not shares:
        wrote = {int(writes.activity[w]): int(writes.bytes[w]) for w in own} or {BEFORE: 1}
        for who, moved in _split(loose if shares else placed + loose, wrote).items():
            shares[who] = shares.get(who, 0) + moved
    return {who: (moved, taken.get(who, 0)) for who, moved in shares.items()}


def _take(left: Ints, mine: list[int], writes: Side, taken: dict[int, int]) -> Ints:
    """Attributes the bytes of `left` to the writers `mine` of one version, adding to `taken`; returns the rest.

    Bytes outside of the known extents are attributed to a writer at unknown offsets, if there is one.
    """
    for w in mine:
        got = intervals.intersect(left, writes.extents(w))
        if len(got):
            activity = int(writes.activity[w])
            taken[activity] = taken.get(activity, 0) + intervals.total(got)
            left = intervals.subtract(left, got)
    loose = next((w for w in mine if writes.loose_bytes[w] > 0), None)
    if loose is None or not len(left):
        return left
    activity = int(writes.activity[loose])
    taken[activity] = taken.get(activity, 0) + intervals.total(left)
    return left[:0]


def _split(amount: int, weights: dict[int, int]) -> dict[int, int]:
    """`amount` divided in proportion to `weights`, in whole bytes with the sum `amount`; equal parts if all weights are
    0."""
    if not weights:
        return {}
    if not any(weights.values()):
        weights = dict.fromkeys(weights, 1)
    whole = sum(weights.values())
    bounds, seen = [0], 0
    for weight in weights.values():
        seen += weight
        bounds.append(amount * seen // whole)
    return {who: high - low for who, low, high in zip(weights, bounds[:-1], bounds[1:], strict=True)}
