"""Matches processes with the waits that saw their ends. A wait names the child by its pid alone.

A pid is reused, by later processes or in several pid namespaces at the same time. The waiter tells them apart: its pid
is the child's parent pid, and the child began during the waiter's life. A process that outlived its parent was waited
for by another process. As many waits as possible get a process, the likeliest one (a maximum matching for each pid of a
host).

Where there are more processes than waits, a process without an end that is followed by another process of its parent is
an earlier part of that one: it changed its user and went on as a program that can't continue its trace file, or was
followed from outside and executed one that is preloaded. The wait belongs to the last part. The first process of a pid
namespace has another pid there, and 0 as its parent's: it is matched with a wait without a process, whose waiter's life
contains it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tailrace.analyzer.util.lazy import lazy

if TYPE_CHECKING:
    import numpy as np
else:
    np = lazy("numpy")


Row = dict[str, Any]
"""A process or a wait, as SQLite gives it."""


class Ends(NamedTuple):
    """of: process id -> the wait that saw its end, where it is known. went_on: ids of processes that went on as another
    row. unmatched: the waits whose process left no trace."""

    of: dict[int, Row]
    went_on: set[int]
    unmatched: list[Row]


def match(rows: Sequence[Row], waits: Iterable[Row], untraced: Container[tuple[str, int]] = ()) -> Ends:
    """Matches processes with waits.

    Args:
        rows: processes by start: id, host, pid, ppid, t0, t1 (ns; None: no recorded call) and account (of the `exit`
            event, {} without one).
        waits: by time: process_id (of the waiter; None: an untraced launcher), host, pid, status, t1 (at or after the
            wait).
        untraced: (host, pid) of processes that are known to have started and can't be traced.
    """
    found = Ends({}, set(), [])
    by_id = {row["id"]: row for row in rows}
    images: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in rows:
        images[row["host"], row["pid"]].append(row)
    of_place: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for wait in waits:
        of_place[wait["host"], wait["pid"]].append(wait)
    for place, of_pid in of_place.items():
        _one_pid(images[place], of_pid, by_id, found)
    _first_of_namespaces(rows, by_id, untraced, found)
    return found


def _one_pid(images: Sequence[Row], waits: Sequence[Row], by_id: Mapping[int, Row], found: Ends) -> None:
    if len(images) == len(waits) == 1:  # nearly all
        if _fits(images[0], waits[0], by_id):
            found.of[images[0]["id"]] = waits[0]
        else:
            found.unmatched.append(waits[0])
        return
    candidates = _Waits(waits, by_id)
    offers = [candidates.offers(image) for image in images]
    goes_on = _followed(images, images)
    order = sorted(range(len(images)), key=lambda at: (goes_on[at], not offers[at].of_parent, _end(images[at])))
    pairs = _matching(order, [offer.waits for offer in offers])
    for at, wait in pairs.items():
        if offers[at].of_one or images[at]["account"]:  # only a killed process needs to know which wait it was
            found.of[images[at]["id"]] = waits[wait]
    ended = _followed(images, [images[at] for at in pairs])
    found.went_on.update(image["id"] for at, image in enumerate(images) if ended[at] and at not in pairs)
    taken = set(pairs.values())
    found.unmatched.extend(wait for at, wait in enumerate(waits) if at not in taken)


def _fits(image: Row, wait: Row, by_id: Mapping[int, Row]) -> bool:
    """Whether a wait may have seen the end of a process."""
    waiter = by_id.get(wait["process_id"] or 0)
    near = waiter is None or _begin(waiter) <= _begin(image) or image["ppid"] in (None, waiter["pid"])
    return near and _end(image) <= wait["t1"] and _may_end(image, wait)


class _Offers(NamedTuple):
    """The waits that may have seen the end of a process, the likeliest first. of_parent: the first one is by its
    parent. of_one: all waits that are as likely are by one process."""

    waits: list[int]
    of_parent: bool
    of_one: bool


class _Waits:
    """The waits for one pid of a host, as arrays: `_fits` for many at once."""

    def __init__(self, waits: Sequence[Row], by_id: Mapping[int, Row]) -> None:
        waiters = [by_id.get(wait["process_id"] or 0) for wait in waits]
        self.t1 = np.array([wait["t1"] for wait in waits], dtype=np.int64)
        self.status = np.array([wait["status"] for wait in waits], dtype=np.int64)
        self.waiter = np.array([wait["process_id"] or 0 for wait in waits], dtype=np.int64)
        self.pid = np.array([-1 if row is None else row["pid"] for row in waiters], dtype=np.int64)
        self.begin = np.array([0 if row is None else _begin(row) for row in waiters], dtype=np.int64)

    def offers(self, image: Row) -> _Offers:
        code, ppid = image["account"].get("code"), image["ppid"]
        fits = self.t1 >= _end(image)
        if isinstance(code, int):
            fits &= self.status == (code & 0xFF) << 8
        parent = self.pid >= 0 if ppid is None else self.pid == ppid
        # A parent that began later is the second row of a process that changed its user.
        at = np.flatnonzero(fits & (self.begin <= _begin(image)))
        at = at if len(at) else np.flatnonzero(fits & parent)
        if not len(at):
            return _Offers([], False, True)
        at = at[np.argsort(~parent[at], kind="stable")]
        likely = self.waiter[at[parent[at] == parent[at[0]]]]
        return _Offers(at.tolist(), bool(parent[at[0]]), bool((likely == likely[0]).all()))


def _matching(order: Sequence[int], offers: Sequence[list[int]]) -> dict[int, int]:
    """process -> wait, a maximum matching: each process, in `order`, takes the first free wait of its offers, or one
    whose process can take another wait instead (the shortest augmenting path)."""
    owner: dict[int, int] = {}
    matched: dict[int, int] = {}
    for one in order:
        reached_from: dict[int, int] = {}
        queue = deque([one])
        free: int | None = None
        while queue and free is None:
            who = queue.popleft()
            for offer in offers[who]:
                if offer not in reached_from:
                    reached_from[offer] = who
                    if offer not in owner:
                        free = offer
                        break
                    queue.append(owner[offer])
        while free is not None:
            who = reached_from[free]
            owner[free] = who
            matched[who], free = free, matched.get(who)
    return matched


def _first_of_namespaces(
    rows: Sequence[Row], by_id: Mapping[int, Row], untraced: Container[tuple[str, int]], found: Ends
) -> None:
    unmatched = [wait for wait in found.unmatched if (wait["host"], wait["pid"]) not in untraced]
    for image in sorted((row for row in rows if row["ppid"] == 0 and row["id"] not in found.of), key=_end):
        fits = [wait for wait in unmatched if _waits_outside(wait, image, by_id)]
        if fits:
            if len(fits) == 1 or image["account"]:
                found.of[image["id"]] = fits[0]
            unmatched.remove(fits[0])
            found.unmatched.remove(fits[0])


def _waits_outside(wait: Row, image: Row, by_id: Mapping[int, Row]) -> bool:
    waiter = by_id.get(wait["process_id"] or 0)
    inside = waiter is not None and _begin(waiter) <= _begin(image) and _end(image) <= wait["t1"]
    return inside and wait["host"] == image["host"] and _may_end(image, wait)


def _begin(row: Row) -> int:
    return int(row["t0"] or 0)


def _end(row: Row) -> int:
    return int(row["t1"] or row["t0"] or 0)


def _followed(rows: Sequence[Row], others: Sequence[Row]) -> list[bool]:
    """Whether each of `rows` may have gone on as one of `others`: it has no end, and the other one begins after it and
    has the same parent, or an unknown one."""
    begin: dict[int | None, int] = {}
    for row in others:
        begin[row["ppid"]] = max(begin.get(row["ppid"], 0), _begin(row))
    last = max(begin.values(), default=-1)
    limits = (last if row["ppid"] is None else max(begin.get(row["ppid"], -1), begin.get(None, -1)) for row in rows)
    return [not row["account"] and _end(row) <= limit for row, limit in zip(rows, limits, strict=True)]


def _may_end(image: Row, wait: Row) -> bool:
    """Whether the process can have ended with the wait's status: with its exit code, or by a signal where it has
    none."""
    code = image["account"].get("code")
    return not isinstance(code, int) or wait["status"] == (code & 0xFF) << 8
