"""Unions of half-open integer intervals, many groups at once, on numpy arrays.

Bytes of files and times of calls are both sets of intervals, so the edge table needs one algebra for both. Every
function takes parallel arrays (one element per interval) and returns parallel arrays sorted by (group, start). A group
is a dense or sparse int64 code; intervals of different groups never merge. Nothing here loops over intervals in Python:
core/native/intervals.cc computes unions.

Invariants: a union is idempotent and associative, so partial unions may be united in any order and any grouping
(`tests/unit/test_edge_table.py` checks it against sets of integers). `cap` is the only lossy step; it closes the
smallest gaps first, so that everything covered before is covered after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tailrace import _native
from tailrace.analyzer.util.types import Floats, Ints


class Intervals(NamedTuple):
    """Parallel int64 arrays: group, start (inclusive), end (exclusive), weight (covered, at most end - start)."""

    group: Ints
    start: Ints
    end: Ints
    weight: Ints


def make(group: Ints, start: Ints, end: Ints, weight: Ints | None = None) -> Intervals:
    """Intervals from parallel arrays; without `weight` each is fully covered."""
    return Intervals(group, start, end, end - start if weight is None else weight)


def union(rows: Intervals) -> Intervals:
    """The union within each group; touching intervals become one.

    The weight of an interval is the sum of the weights it was merged from, at most its length. For fully covered rows
    it is exactly the length of their union; after `cap` it is an upper bound.
    """
    return Intervals(*_native.unite_intervals([rows])[0])


def regrouped(rows: Intervals, code: Ints) -> Intervals:
    """The intervals with the code of their group in its place; those of a group with a negative code are left out."""
    group = code[rows.group]
    keep = group >= 0
    return Intervals(group[keep], *(column[keep] for column in rows[1:]))


def joined(parts: Sequence[Intervals]) -> Intervals:
    """The union of all parts within each group."""
    return Intervals(*_native.unite_intervals(list(parts))[0])


def cap(parts: Sequence[Intervals], limit: int) -> tuple[Intervals, Ints]:
    """The union of all parts within each group, at most `limit` intervals per group: the smallest gaps are closed
    first.

    Returns:
        The intervals, and the codes of the groups that were coarsened.
    """
    united, coarse = _native.unite_intervals(parts, limit)
    return Intervals(*united), coarse


def outside(rows: Intervals, holes: Intervals) -> Intervals:
    """The part of one union outside of another one, by group; each interval of both counts as fully covered."""
    count, other = len(rows.group), len(holes.group)
    group = np.concatenate((rows.group, rows.group, holes.group, holes.group))
    when = np.concatenate((rows.start, rows.end, holes.start, holes.end))
    inside = np.repeat(np.array((1, -1, 0, 0)), (count, count, other, other))
    hole = np.repeat(np.array((0, 0, 1, -1)), (count, count, other, other))
    order = np.lexsort((when, group))
    group, when = group[order], when[order]
    # Each group is over before the next one begins, so its last point is inside of nothing.
    kept = (np.cumsum(inside[order])[:-1] > 0) & (np.cumsum(hole[order])[:-1] == 0) & (when[1:] > when[:-1])
    return union(make(group[:-1][kept], when[:-1][kept], when[1:][kept]))


def length(rows: Intervals, groups: int) -> Ints:
    """The covered length of each group 0 .. groups - 1; `rows` is a union."""
    total = np.zeros(groups, dtype=np.int64)
    np.add.at(total, rows.group, rows.weight)
    return total


def intersect(a: Ints, b: Ints) -> Ints:
    """The common part of two unions, each an int64 array of shape (n, 2); result has shape (m, 2)."""
    if len(a) == 0 or len(b) == 0:
        return np.empty((0, 2), dtype=np.int64)
    low = np.searchsorted(b[:, 1], a[:, 0], side="right")
    high = np.searchsorted(b[:, 0], a[:, 1], side="left")
    count = np.maximum(high - low, 0)
    left = np.repeat(np.arange(len(a)), count)
    right = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count) + np.repeat(low, count)
    out = np.column_stack((np.maximum(a[left, 0], b[right, 0]), np.minimum(a[left, 1], b[right, 1])))
    return np.asarray(out[out[:, 0] < out[:, 1]], dtype=np.int64)


def subtract(a: Ints, b: Ints) -> Ints:
    """The part of union `a` outside of union `b`; shapes as in `intersect`."""
    if len(a) == 0 or len(b) == 0:
        return a
    low, high = min(a[0, 0], b[0, 0]), max(a[-1, 1], b[-1, 1])
    outside = np.column_stack((np.append(low, b[:, 1]), np.append(b[:, 0], high)))
    return intersect(a, outside[outside[:, 0] < outside[:, 1]])


def united(*parts: Ints) -> Ints:
    """The union of any ranges, each array of shape (n, 2); shape as in `intersect`."""
    start, end = np.concatenate(parts).T
    rows = union(make(np.zeros(len(start), dtype=np.int64), start, end))
    return np.column_stack((rows.start, rows.end))


def total(a: Ints) -> int:
    """The length of a union of shape (n, 2)."""
    return int((a[:, 1] - a[:, 0]).sum())


def begun(start: Ints, low: Ints, high: Ints, point: Ints) -> Ints:
    """For each point the end of those of the rows low to high (sorted by start) that begin at it or before: one binary
    search for all, since a search over group and start as one number would overflow."""
    low, high = low.copy(), high.copy()
    while (left := low < high).any():
        middle = (low + high) // 2
        before = left & (start[np.minimum(middle, len(start) - 1)] <= point)
        low, high = np.where(before, middle + 1, low), np.where(left & ~before, middle, high)
    return low


def parts(rows: Intervals, share: Floats, group: Ints) -> Intervals:
    """Of the rows of each group its share, by the weights, under another group; without the rows of no share."""
    keep = share[rows.group] > 0
    of, start, end, weight = (column[keep] for column in rows)
    return Intervals(group[of], start, end, (weight * share[of]).astype(np.int64))


def cover(rows: Intervals, groups: int) -> Cover:
    """The cover of a union with the groups 0 .. groups - 1."""
    return Cover(rows, np.searchsorted(rows.group, np.arange(groups + 1)).astype(np.int64))


@dataclass(frozen=True)
class Cover:
    """A union, to compute its coverage of many ranges at once. Group i is rows bounds[i] to bounds[i + 1] (`cover`)."""

    rows: Intervals
    bounds: Ints

    def length(self) -> Ints:
        """The covered length of each group."""
        return length(self.rows, len(self.bounds) - 1)

    def inside(self, group: Ints, low: Ints, high: Ints) -> Ints:
        """The covered length of each group between two points; parallel arrays. An estimate after `cap`."""
        return self._upto(group, high) - self._upto(group, low)

    def _upto(self, group: Ints, point: Ints) -> Ints:
        """The covered length of each group before a point."""
        begin, end = self.bounds[group], self.bounds[group + 1]
        if len(self.rows.start) == 0:
            return np.zeros(len(group), dtype=np.int64)
        at = begun(self.rows.start, begin, end, point)
        sums = np.append(0, np.cumsum(self.rows.weight))
        last = np.maximum(at - 1, 0)
        over = np.where(at > begin, np.maximum(self.rows.end[last] - point, 0), 0)
        return np.asarray(sums[at] - sums[begin] - np.minimum(over, self.rows.weight[last]), dtype=np.int64)
