"""Unions of half-open integer intervals, many groups at once, on numpy arrays.

Bytes of files and times of calls are both sets of intervals, so the edge table needs one algebra for both. Every
function takes parallel arrays (one element an interval) and returns parallel arrays sorted by (group, start). A group
is a dense or sparse int64 code; intervals of different groups never meet. Nothing here loops over intervals in Python.

What always holds: a union is idempotent and associative, so partial unions may be united in any order and any grouping
(`tests/unit/test_edges.py` checks it against sets of integers). `cap` is the only lossy step; it closes the smallest
gaps first, so it never loses a byte or an instant that was covered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tailrace.analyzer import grouping

Ints = grouping.Ints
Bools = grouping.Bools


class Intervals(NamedTuple):
    """Parallel int64 arrays: group, start (inclusive), end (exclusive), weight (covered, at most end - start)."""

    group: Ints
    start: Ints
    end: Ints
    weight: Ints


def make(group: Ints, start: Ints, end: Ints, weight: Ints | None = None) -> Intervals:
    """Intervals from parallel arrays; without `weight` every interval is fully covered."""
    return Intervals(group, start, end, end - start if weight is None else weight)


def empty() -> Intervals:
    nothing = np.empty(0, dtype=np.int64)
    return Intervals(nothing, nothing, nothing, nothing)


def concat(parts: list[Intervals]) -> Intervals:
    """All intervals of `parts`, not yet united."""
    if not parts:
        return empty()
    return Intervals(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def running_end(group: Ints, end: Ints) -> Ints:
    """For rows sorted by group: the largest `end` of the rows of the same group up to and including each row."""
    if len(end) == 0:
        return end
    number = np.cumsum(first_of_group(group)) - 1
    low = int(end.min())
    span = int(end.max()) - low + 1
    if span * (int(number[-1]) + 1) < 2**63:
        base = number * span
        return np.asarray(np.maximum.accumulate(base + (end - low)) - base + low, dtype=np.int64)
    # Ends that lie far apart times a group number overflow 64 bits; their ranks don't.
    values, rank = np.unique(end, return_inverse=True)
    base = number * len(values)
    return np.asarray(values[np.maximum.accumulate(base + rank) - base], dtype=np.int64)


def first_of_group(group: Ints) -> Bools:
    """For rows sorted by group: True where a group begins."""
    return grouping.first_of_run(group)


def join(rows: Intervals, begins: Bools) -> Intervals:
    """Joins each run of rows (a run starts where `begins`) to one interval; rows are sorted by (group, start).

    The weight of the result is the sum of the weights, but at most its length: for fully covered rows that touch this
    is exactly the length of their union; after `cap` it is an upper bound.
    """
    at = np.flatnonzero(begins)
    start = rows.start[at]
    end = np.maximum.reduceat(rows.end, at)
    weight = np.minimum(np.add.reduceat(rows.weight, at), end - start)
    return Intervals(rows.group[at], start, end, weight)


def union(rows: Intervals) -> Intervals:
    """The union within each group; touching intervals become one."""
    if len(rows.group) == 0:
        return rows
    rows = _sorted(rows)
    begins = first_of_group(rows.group)
    begins[1:] |= rows.start[1:] > running_end(rows.group, rows.end)[:-1]
    return join(rows, begins)


def _sorted(rows: Intervals) -> Intervals:
    """The rows by (group, start)."""
    group, start = rows.group, rows.start
    if bool((rows.end < start).any()):  # a damaged time: what joins what would depend on the order of the rows
        order = grouping.order(rows.end, start, group)
        return Intervals(*(column[order] for column in rows))
    if not bool((group[1:] >= group[:-1]).all()):
        order = grouping.order(start, group)
        return Intervals(*(column[order] for column in rows))
    behind = np.flatnonzero((group[1:] == group[:-1]) & (start[1:] < start[:-1]))
    if len(behind) == 0:
        return rows
    # Rows that come from unions are in order but in a few groups: only these are sorted.
    number = np.cumsum(first_of_group(group)) - 1
    is_mixed = np.zeros(int(number[-1]) + 1, dtype=np.bool_)
    is_mixed[number[behind]] = True
    mixed = np.flatnonzero(is_mixed[number])
    order = np.arange(len(group), dtype=np.int64)
    order[mixed] = mixed[grouping.order(start[mixed], group[mixed])]
    return Intervals(*(column[order] for column in rows))


def reordered(rows: Intervals, order: Ints) -> Intervals:
    """`rows`, sorted by group 0 .. len(order) - 1, with the groups in another order; the codes stay."""
    group = rows.group
    if not bool((group[1:] >= group[:-1]).all()):
        return rows
    sizes = np.bincount(group, minlength=len(order))
    begin = np.cumsum(sizes) - sizes
    taken = sizes[order]
    row = np.arange(len(group), dtype=np.int64) + np.repeat(begin[order] - (np.cumsum(taken) - taken), taken)
    return Intervals(*(column[row] for column in rows))


def rank_in_group(group: Ints, key: Ints) -> Ints:
    """The position (0 is the largest key) of each row among the rows of its group; ties by order."""
    order = grouping.order(-key, group)
    at = np.flatnonzero(first_of_group(group[order]))
    sizes = np.diff(np.append(at, len(group)))
    rank = np.empty(len(group), dtype=np.int64)
    rank[order] = np.arange(len(group), dtype=np.int64) - np.repeat(at, sizes)
    return rank


def cap(rows: Intervals, limit: int) -> tuple[Intervals, Ints]:
    """At most `limit` intervals a group: the smallest gaps are closed first. `rows` is a union.

    Returns:
        The intervals, and the codes of the groups that were coarsened.
    """
    if len(rows.group) <= limit:
        return rows, np.empty(0, dtype=np.int64)
    begins = first_of_group(rows.group)
    sizes = np.diff(np.append(np.flatnonzero(begins), len(begins)))
    if sizes.max() <= limit:
        return rows, np.empty(0, dtype=np.int64)
    large = np.flatnonzero(np.repeat(sizes > limit, sizes))
    gap = np.zeros(len(rows.group), dtype=np.int64)
    gap[1:] = rows.start[1:] - rows.end[:-1]
    gap[begins] = np.iinfo(np.int64).max
    keep = np.ones(len(begins), dtype=np.bool_)
    keep[large] = rank_in_group(rows.group[large], gap[large]) < limit
    return join(rows, keep), np.unique(rows.group[~keep])


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
    """What of union `a` is not in union `b`; shapes as in `intersect`."""
    if len(a) == 0 or len(b) == 0:
        return a
    low, high = min(a[0, 0], b[0, 0]), max(a[-1, 1], b[-1, 1])
    outside = np.column_stack((np.append(low, b[:, 1]), np.append(b[:, 0], high)))
    return intersect(a, outside[outside[:, 0] < outside[:, 1]])


def total(a: Ints) -> int:
    """The length of a union of shape (n, 2)."""
    return int((a[:, 1] - a[:, 0]).sum())


def cover(rows: Intervals, groups: int) -> Cover:
    """The cover of a union with the groups 0 .. groups - 1."""
    return Cover(rows, np.searchsorted(rows.group, np.arange(groups + 1)).astype(np.int64))


@dataclass(frozen=True)
class Cover:
    """A union, for what it covers of many ranges at once. Group i is rows bounds[i] to bounds[i + 1] (`cover`)."""

    rows: Intervals
    bounds: Ints

    def length(self) -> Ints:
        """All that is covered of each group."""
        return length(self.rows, len(self.bounds) - 1)

    def inside(self, group: Ints, low: Ints, high: Ints) -> Ints:
        """What is covered of each group between two points; parallel arrays. Past `cap` a share is an estimate."""
        return self._upto(group, high) - self._upto(group, low)

    def _upto(self, group: Ints, point: Ints) -> Ints:
        """What is covered of each group before a point."""
        begin, end = self.bounds[group], self.bounds[group + 1]
        if len(self.rows.start) == 0:
            return np.zeros(len(group), dtype=np.int64)
        # One sorted search for all groups, over ranks of (group, point) pairs, since ns times a group number overflow.
        order = np.lexsort((np.append(self.rows.start, point), np.append(self.rows.group, group)))
        is_row = order < len(self.rows.start)
        before = np.empty(len(order), dtype=np.int64)
        before[order] = np.cumsum(is_row)
        at = np.clip(before[len(self.rows.start) :], begin, end)
        sums = np.append(0, np.cumsum(self.rows.weight))
        last = np.maximum(at - 1, 0)
        over = np.where(at > begin, np.maximum(self.rows.end[last] - point, 0), 0)
        return np.asarray(sums[at] - sums[begin] - np.minimum(over, self.rows.weight[last]), dtype=np.int64)
