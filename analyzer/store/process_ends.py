"""Whose end each wait saw: processes and waits, which name the child by its pid alone, brought together.

A pid comes again, one after the other or in several pid namespaces at the same time. Who waited tells: the child has
the waiter's pid for its parent's and began in the waiter's life; whoever outlived its parent was somebody else's in the
end. As many waits as can be have a process, the likeliest (a maximum matching for each pid of a host).

Where there are more processes than waits, one that has no end of its own and is followed by another of its parent is
that one's process, too: it changed its user and went on as a program that can't have its trace file, and the wait is
the last one's. The first process of a pid namespace has a pid of its own there, and 0 for its parent's: it is taken for
the child of a wait without a process that it lies before.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

Row = dict[str, Any]
"""A process or a wait, as SQLite gives it."""


class Ends(NamedTuple):
    """of: process id -> the wait that saw its end, where that is known. went_on: ids of processes that went on as
    another row. strangers: the waits for which no process was seen."""

    of: dict[int, Row]
    went_on: set[int]
    strangers: list[Row]


def match(rows: Sequence[Row], waits: Iterable[Row], untraced: Container[tuple[str, int]] = ()) -> Ends:
    """Brings processes and waits together.

    Args:
        rows: processes by start: id, host, pid, ppid, t0, t1 (ns; None: it recorded no call) and account (of the `exit`
            event, {} without one).
        waits: by time: process_id (of the waiter; None: a launcher that isn't traced), host, pid, status, t1 (not
            before the wait).
        untraced: (host, pid) of what is known to have been started and can't be traced.
    """
    found = Ends({}, set(), [])
    by_id = {row["id"]: row for row in rows}
    images: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in rows:
        images[row["host"], row["pid"]].append(row)
    of_place: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for wait in waits:
        of_place[wait["host"], wait["pid"]].append(wait)
    for place, told in of_place.items():
        _one_pid(images[place], told, by_id, found)
    _first_of_namespaces(rows, by_id, untraced, found)
    return found


def _one_pid(images: Sequence[Row], waits: Sequence[Row], by_id: Mapping[int, Row], found: Ends) -> None:
    if len(images) == len(waits) == 1:  # as nearly all are
        if _fits(images[0], waits[0], by_id):
            found.of[images[0]["id"]] = waits[0]
        else:
            found.strangers.append(waits[0])
        return
    told = _Waits(waits, by_id)
    offers = [told.offers(image) for image in images]
    goes_on = _followed(images, images)
    order = sorted(range(len(images)), key=lambda at: (goes_on[at], not offers[at].of_parent, _end(images[at])))
    pairs = _matching(order, [offer.waits for offer in offers])
    for at, wait in pairs.items():
        if offers[at].of_one or images[at]["account"]:  # whose wait it was matters for the killed alone
            found.of[images[at]["id"]] = waits[wait]
    ended = _followed(images, [images[at] for at in pairs])
    found.went_on.update(image["id"] for at, image in enumerate(images) if ended[at] and at not in pairs)
    taken = set(pairs.values())
    found.strangers.extend(wait for at, wait in enumerate(waits) if at not in taken)


def _fits(image: Row, wait: Row, by_id: Mapping[int, Row]) -> bool:
    """Whether a wait may have seen a process end."""
    waiter = by_id.get(wait["process_id"] or 0)
    near = waiter is None or _begin(waiter) <= _begin(image) or image["ppid"] in (None, waiter["pid"])
    return near and _end(image) <= wait["t1"] and _may_end(image, wait)


class _Offers(NamedTuple):
    """The waits that may have seen a process end, the likeliest first; whether that one is its parent's, and whether
    all that are as likely are one process's."""

    waits: list[int]
    of_parent: bool
    of_one: bool


class _Waits:
    """The waits for one pid of a host, as arrays: the rule of `_fits` for many."""

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
        # A parent that was not there has changed its user since, and is two rows itself.
        at = np.flatnonzero(fits & (self.begin <= _begin(image)))
        at = at if len(at) else np.flatnonzero(fits & parent)
        if not len(at):
            return _Offers([], False, True)
        at = at[np.argsort(~parent[at], kind="stable")]
        likely = self.waiter[at[parent[at] == parent[at[0]]]]
        return _Offers(at.tolist(), bool(parent[at[0]]), bool((likely == likely[0]).all()))


def _matching(order: Sequence[int], offers: Sequence[list[int]]) -> dict[int, int]:
    """Who has which offer: each, in its order, takes the first of its own that is free, else one that somebody can do
    without for another (the shortest augmenting path, so that as many as can be have one)."""
    owner: dict[int, int] = {}
    held: dict[int, int] = {}
    for one in order:
        asked_by: dict[int, int] = {}
        queue = deque([one])
        free: int | None = None
        while queue and free is None:
            who = queue.popleft()
            for offer in offers[who]:
                if offer not in asked_by:
                    asked_by[offer] = who
                    if offer not in owner:
                        free = offer
                        break
                    queue.append(owner[offer])
        while free is not None:
            who = asked_by[free]
            owner[free] = who
            held[who], free = free, held.get(who)
    return held


def _first_of_namespaces(
    rows: Sequence[Row], by_id: Mapping[int, Row], untraced: Container[tuple[str, int]], found: Ends
) -> None:
    strangers = [wait for wait in found.strangers if (wait["host"], wait["pid"]) not in untraced]
    for image in sorted((row for row in rows if row["ppid"] == 0 and row["id"] not in found.of), key=_end):
        fits = [wait for wait in strangers if _waits_outside(wait, image, by_id)]
        if fits:
            if len(fits) == 1 or image["account"]:
                found.of[image["id"]] = fits[0]
            strangers.remove(fits[0])
            found.strangers.remove(fits[0])


def _waits_outside(wait: Row, image: Row, by_id: Mapping[int, Row]) -> bool:
    waiter = by_id.get(wait["process_id"] or 0)
    inside = waiter is not None and _begin(waiter) <= _begin(image) and _end(image) <= wait["t1"]
    return inside and wait["host"] == image["host"] and _may_end(image, wait)


def _begin(row: Row) -> int:
    return int(row["t0"] or 0)


def _end(row: Row) -> int:
    return int(row["t1"] or row["t0"] or 0)


def _followed(rows: Sequence[Row], others: Sequence[Row]) -> list[bool]:
    """Whether each of `rows` may have gone on as one of `others`: it has no end of its own, and that one begins behind
    it and has the same parent, or nobody knows which."""
    begin: dict[int | None, int] = {}
    for row in others:
        begin[row["ppid"]] = max(begin.get(row["ppid"], 0), _begin(row))
    last = max(begin.values(), default=-1)
    limits = (last if row["ppid"] is None else max(begin.get(row["ppid"], -1), begin.get(None, -1)) for row in rows)
    return [not row["account"] and _end(row) <= limit for row, limit in zip(rows, limits, strict=True)]


def _may_end(image: Row, wait: Row) -> bool:
    """Whether the process can have ended as the wait says: with its exit code; by a signal where it has none."""
    code = image["account"].get("code")
    return not isinstance(code, int) or wait["status"] == (code & 0xFF) << 8
