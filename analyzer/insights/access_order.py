"""How accesses lie in a file: the words, and the two computations that give one.

    bursts + ranges of bytes --of_accesses--> the order of each access: one process, one version, one direction
    counts of calls          --of_calls-----> calls by order, and the order of most calls of a group of accesses

The words are Darshan's (Carns et al. 2011): *consecutive* calls begin where the one before ended, *sequential* ones at
or behind that place. *Strided* ones are as far from the one before as that one from its own. What is neither forward
nor strided is *random*. An order holds among the calls of one process on one file in one direction.

Invariants: reads no events.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from tailrace.analyzer.util import grouping, intervals
from tailrace.analyzer.util.intervals import Intervals
from tailrace.analyzer.util.types import Array, Ints, Objects

RANDOM_SHARE = 0.2
"""Of the calls, from which on an access whose calls begin before the end of the one before is at random offsets."""
WORDS = {
    "consecutive": "each call began where the one before had ended",
    "repeated": "the same, several times from the front",
    "strided": "forward, pieces of one size at one distance",
    "sequential": "forward, with gaps",
    "random": f"more than {RANDOM_SHARE:.0%} of the calls began before the end of the one before",
    "mixed": "forward, but for some of the calls",
    "mapped": "mostly through a mapping, which makes no calls",
    "unknown": "at unknown offsets, as on a pipe or a redirected output",
}
"""The order of an access, and what it means."""
NAMES = tuple(WORDS)
CALLS = ("consecutive", "sequential", "strided", "random")
"""The orders of single calls."""
BACKWARD_SHARE = 0.9
"""Of the calls, from which on a group's accesses go backward."""
_MOST = 0.5
"""Of the calls, from which on a group is called by an order."""


def of_accesses(bursts: pd.DataFrame, code: Ints, extents: Intervals, accesses: int) -> Ints:
    """The order of each access, as its position in `NAMES`.

    Args:
        bursts: rows of `EdgeTable.bursts`.
        code: the access of each of these, 0 to accesses - 1.
        extents: the ranges of bytes that they touched; group: the access.
    """
    names = ("calls", "bytes", "mapped_bytes", "loose_bytes", "backward")
    calls, size, mapped, loose, backward = (grouping.sums(code, bursts[name].to_numpy(), accesses) for name in names)
    exact = grouping.sums(code, ~bursts["exact"].to_numpy(dtype=np.bool_), accesses) == 0
    back = backward + _again(code, bursts, accesses)
    ranges, distinct, even = _ranges(extents, accesses)
    rounds = -(-size // np.maximum(distinct, 1)) - 1
    cases = {
        "mapped": mapped > size,
        "unknown": (ranges == 0) | (loose * 2 > size),
        "consecutive": (back == 0) & (ranges == 1),
        "strided": (back == 0) & exact & (ranges > 2) & even,
        "sequential": back == 0,
        "repeated": (ranges == 1) & (back <= np.maximum(rounds, 0)),
        "random": back > RANDOM_SHARE * calls,
    }
    names_of = [NAMES.index(name) for name in cases]
    return np.select([*cases.values()], names_of, NAMES.index("mixed")).astype(np.int64)


def _again(code: Ints, bursts: pd.DataFrame, accesses: int) -> Ints:
    """How many bursts of each access began before the end of the one before."""
    order = np.lexsort((bursts["first_ns"].to_numpy(), code))
    begins, ends = (bursts[name].to_numpy()[order] for name in ("from_offset", "to_offset"))
    ordered = code[order]
    back = (ordered[1:] == ordered[:-1]) & (begins[1:] < ends[:-1])
    return grouping.sums(ordered[1:], back, accesses)


def _ranges(extents: Intervals, accesses: int) -> tuple[Ints, Ints, Array]:
    """Of each access: the number of ranges that it touched, their bytes, and whether they have one size and one
    distance."""
    united = intervals.union(extents)
    length = united.end - united.start
    first = grouping.first_of_run(united.group) if len(united.group) else np.zeros(0, dtype=np.bool_)
    even = np.ones(accesses, dtype=np.bool_)
    if len(length):
        head = np.flatnonzero(first)[np.cumsum(first) - 1]  # the first range of each range's access
        np.logical_and.at(even, united.group, length == length[head])
        inner = np.flatnonzero(~first)
        step = united.start[inner] - united.start[inner - 1]
        first_step = united.start[np.minimum(head[inner] + 1, len(length) - 1)] - united.start[head[inner]]
        np.logical_and.at(even, united.group[inner], step == first_step)
    return np.bincount(united.group, minlength=accesses), grouping.sums(united.group, length, accesses), even


def of_calls(known: Ints, firsts: Ints, sums: Mapping[str, Ints]) -> tuple[dict[str, Ints], Objects]:
    """The calls of each group by order (`CALLS`; the rest are first calls) and those to a smaller offset (backward,
    which are strided or random); and the order of most of them, "" without any, "mixed" where none has most.

    Args:
        known: calls at known offsets.
        firsts: of these, those that no other one precedes.
        sums: consecutive, strided and backward calls (`EdgeTable.patterns`).
    """
    others = np.maximum(known - firsts - sums["consecutive"], 0)
    strided = np.minimum(sums["strided"], others)
    random = np.minimum(np.maximum(sums["backward"] - strided, 0), others - strided)
    # A jump forward among jumps backward is one more place at random, not progress.
    forward = others - strided - random
    jumps = np.minimum(random, forward)
    calls = dict(zip(CALLS, (sums["consecutive"], forward - jumps, strided, random + jumps), strict=True))
    backward = np.minimum(sums["backward"], others)
    table = np.stack([*calls.values()], axis=1)
    ordered = table.sum(axis=1)
    back = (backward >= BACKWARD_SHARE * np.maximum(ordered, 1)) & (ordered > 0)
    words = np.where(back, "backward", np.array(CALLS, dtype=object)[table.argmax(axis=1)])
    most = (table.max(axis=1) > _MOST * ordered) | back
    return {**calls, "backward": backward}, np.where(ordered == 0, "", np.where(most, words, "mixed"))
