"""Who wrote each byte of a file: a map of its ranges, changed by writes and cuts in the order in which they ended.

    write(), cut(), clear()  ──►  pieces: [start, end) ─► whose, since when  ◄──  read(): the shares of a read

A byte is its last writer's. Where that can't be told, it is still given to one, or divided, and not `sure`:

    two wrote it, or wrote and cut it off, at the same time       whose call ended last
    written through a mapping                                     who mapped it, though it may not have stored there
    ranges that cover too much (edge_table.MAX_EXTENTS)           divided by how much of the range was written
    written at an unknown offset                                  never what others wrote: bytes that nobody else has

Invariants: pieces are sorted and disjoint; the shares of a read add up to its bytes. What nobody wrote is `NOBODY`'s in
a file that was made in the run, and `BEFORE`'s in another.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tailrace.analyzer.edges.edge_table import END

BEFORE = -1
"""The writer of bytes that existed before the run, or were written by an untraced process."""
NOBODY = -2
"""Of bytes that no one wrote: a hole, or what a truncation, a punched hole or a growth left: zeros."""
ANYBODY = -3
"""Among those who may have a byte: bytes of others may have been moved to its place."""
Range = tuple[int, int]
Holders = tuple[tuple[int, float], ...]
"""(writer, share), whose shares add up to 1."""
Doubts = frozenset[int]
_SURE: Doubts = frozenset()


class Piece(NamedTuple):
    """A range: who has it, the times (ns) in which it was written, and all who may have it instead; none: it is
    sure."""

    start: int
    end: int
    holders: Holders
    since: int
    until: int
    doubts: Doubts

    @property
    def all(self) -> Doubts:
        """Everyone who may have it."""
        return self.doubts.union(writer for writer, _ in self.holders)


class Write(NamedTuple):
    """What a writer wrote between two times (ns): `ranges` are (start, end, covered bytes), `loose` bytes lie at
    unknown offsets. `vague`: it may have left bytes of the ranges alone. `pending_below`: what nobody had below this
    offset may be nobody's still, since the write goes on; 0: it is over."""

    writer: int
    ranges: Sequence[tuple[int, int, int]]
    loose: int
    since: int
    until: int
    vague: bool
    pending_below: int = 0


@dataclass
class Shares:
    """The bytes of a read by writer, and the writers of whom more or fewer may have been read; `ANYBODY` among them:
    all."""

    bytes: dict[int, float] = field(default_factory=dict)
    unsure: set[int] = field(default_factory=set)

    def add(self, writer: int, count: float) -> None:
        if count > 0:
            self.bytes[writer] = self.bytes.get(writer, 0) + count


@dataclass
class _Rest:
    """Bytes of a read that nobody is known to have written: beyond the known end of the file, from before the run, and
    zeros."""

    beyond: float = 0
    before: float = 0
    zeros: float = 0

    def take(self, most: float) -> float:
        """Up to so many of them."""
        taken = 0.0
        for name in ("beyond", "before", "zeros"):
            part = min(most - taken, getattr(self, name))
            setattr(self, name, getattr(self, name) - part)
            taken += part
        return taken


class Owners:
    """The map of one file.

    made: whether a traced process made the file in the run, so that it was empty. leaky: whether a process that was not
        fully seen used it: then what nobody is known to have written may be such a one's.
    """

    def __init__(self, made: bool, leaky: bool) -> None:
        self._starts: list[int] = []
        self._pieces: list[Piece] = []
        self._loose: list[Write] = []
        self._rest = NOBODY if made else BEFORE
        self._leaky = leaky
        self._size = 0
        # What began before them and ended after them may have been done to the file of before.
        self._cleared_ns = self._shifted_ns = 0

    # --- changes -----------------------------------------------------------------------------------------------------

    def clear(self, at: int) -> None:
        """The file was truncated to nothing at `at`."""
        self._starts, self._pieces, self._loose = [], [], []
        self._rest, self._size, self._cleared_ns = NOBODY, 0, at

    def write(self, w: Write) -> None:
        """Somebody wrote."""
        doubts = self._doubts_since(w.since, frozenset((w.writer, NOBODY)))
        for start, end, covered in w.ranges:
            if start < end:
                share = min(covered / (end - start), 1.0)
                self._put(start, end, w, share, doubts)
                self._size = max(self._size, end)
        if w.loose > 0:
            self._loose.append(w)

    def _doubts_since(self, since: int, cleared: Doubts) -> Doubts:
        """Who may have the bytes of a change that began then: `cleared` if the file was emptied in the meantime."""
        if since < self._shifted_ns:
            self._blur(0, END)
            return cleared | {ANYBODY}
        return _SURE if since >= self._cleared_ns else cleared

    def cut(self, what: str, start: int, end: int, since: int, until: int, vague: bool = False) -> None:
        """A cut (`edge_table.CUTS`). vague: it may not have been made yet."""
        nobody = Write(NOBODY, (), 0, since, until, vague)
        if what == "grow":
            self._size = max(self._size, end)
            return
        doubts = self._doubts_since(since, frozenset((NOBODY,)))
        if vague and what in ("collapse", "insert"):
            self._blur(0, END)
        if what == "truncate":
            self._put(start, END, nobody, 1.0, doubts)
            self._size = start
        elif what == "zero":
            self._put(start, end, nobody, 1.0, doubts)
        elif what == "collapse":
            self._put(start, end, nobody, 1.0, doubts)
            self._shift(end, start - end, until)
        elif what == "insert":
            self._split(start)
            self._shift(start, end - start, until)
            self._put(start, end, nobody._replace(since=until), 1.0, doubts)
        else:
            self._blur(start, end)

    def _blur(self, start: int, end: int) -> None:
        """Bytes of the range may be anybody's."""
        self._split(start)
        self._split(end)
        found = list(self._around(start, end))
        at, made = start, list[Piece]()
        for _, piece in found:
            if piece.start > at:
                made.append(self._rest_piece(at, piece.start))
            made.append(piece._replace(doubts=piece.all | {ANYBODY}))
            at = piece.end
        if at < end:
            made.append(self._rest_piece(at, end))
        first = found[0][0] if found else bisect_left(self._starts, start)
        self._replace(first, first + len(found), made)

    def _rest_piece(self, start: int, end: int) -> Piece:
        return Piece(start, end, ((self._rest, 1.0),), 0, 0, frozenset((self._rest, ANYBODY)))

    def _shift(self, start: int, by: int, until: int) -> None:
        """Moves the pieces from `start` on; with a negative `by` those in its way are dropped."""
        at = bisect_left(self._starts, start)
        kept = [piece for piece in self._pieces[:at] if by > 0 or piece.start < start + by]
        moved = [
            piece._replace(start=piece.start + by, end=piece.end if piece.end == END else piece.end + by)
            for piece in self._pieces[at:]
        ]
        self._pieces = kept + moved
        self._starts = [piece.start for piece in self._pieces]
        self._size = max(self._size + by, 0)
        self._shifted_ns = until

    def _split(self, at: int) -> None:
        for i, piece in self._around(at, at + 1):
            if piece.start < at:
                self._replace(i, i + 1, [piece._replace(end=at), piece._replace(start=at)])

    def _around(self, start: int, end: int) -> Iterator[tuple[int, Piece]]:
        """The pieces that have bytes of the range, with their places."""
        first = max(bisect_right(self._starts, start) - 1, 0)
        if first < len(self._pieces) and self._pieces[first].end <= start:
            first += 1
        last = bisect_left(self._starts, end)
        for i in range(first, last):
            yield i, self._pieces[i]

    def _replace(self, first: int, last: int, pieces: list[Piece]) -> None:
        self._pieces[first:last] = pieces
        self._starts[first:last] = [piece.start for piece in pieces]

    def _put(self, start: int, end: int, w: Write, share: float, doubts: Doubts) -> None:
        found = list(self._around(start, end))
        first = found[0][0] if found else bisect_left(self._starts, start)
        made: list[Piece] = []
        if found and found[0][1].start < start:
            made.append(found[0][1]._replace(end=start))
        at = start
        for _, old in found:
            if old.start > at:
                made.append(self._over_rest(at, old.start, w, share, doubts))
                at = old.start
            upto = min(old.end, end)
            made.append(_over(old, at, upto, w, share, doubts))
            at = upto
        if at < end:
            made.append(self._over_rest(at, end, w, share, doubts))
        if found and found[-1][1].end > end:
            made.append(found[-1][1]._replace(start=end))
        self._replace(first, first + len(found), _joined(made))

    def _over_rest(self, start: int, end: int, w: Write, share: float, doubts: Doubts) -> Piece:
        whole = share >= 1.0
        holders = ((w.writer, 1.0),) if whole else ((w.writer, share), (self._rest, 1.0 - share))
        if not whole or start < w.pending_below or (w.vague and (self._rest == BEFORE or self._loose)):
            doubts = doubts.union((w.writer, self._rest), (loose.writer for loose in self._loose))
        return Piece(start, end, holders, w.since, w.until, doubts)

    # --- reads -------------------------------------------------------------------------------------------------------

    def read(self, ranges: Iterable[Range], writers: Mapping[int, int]) -> Shares:
        """The shares of the ranges. writers: writer -> bytes that it wrote of the version that is read, for what
        somebody must have written whom nobody saw."""
        shares = Shares()
        rest = _Rest()
        for start, end in ranges:
            at = start
            for _, piece in self._around(start, end):
                self._add_gap(rest, at, piece.start)
                low, high = max(piece.start, start), min(piece.end, end)
                doubts = piece.doubts.union(w.writer for w in self._loose if w.until > piece.since)
                if doubts - {piece.holders[0][0]} or len(piece.holders) > 1:
                    shares.unsure |= doubts | piece.all
                for writer, share in piece.holders:
                    if writer == NOBODY:
                        rest.zeros += (high - low) * share
                    elif writer == BEFORE:
                        rest.before += (high - low) * share
                    else:
                        shares.add(writer, (high - low) * share)
                at = max(at, high)
            self._add_gap(rest, at, end)
        self._share_rest(shares, rest, writers)
        return shares

    def _add_gap(self, rest: _Rest, start: int, end: int) -> None:
        """Bytes without a piece."""
        if end <= start:
            return
        if self._rest == BEFORE:
            rest.before += end - start
            return
        edge = start if self._leaky else min(max(self._size, start), end)
        rest.zeros += edge - start
        rest.beyond += end - edge

    def _share_rest(self, shares: Shares, rest: _Rest, writers: Mapping[int, int]) -> None:
        """What nobody is known to have written: first to those who wrote at unknown offsets, at most what they
        wrote."""
        if self._loose and (rest.beyond or rest.before or rest.zeros):
            shares.unsure.update((BEFORE, NOBODY), writers, (w.writer for w in self._loose))
        for w in reversed(self._loose):
            shares.add(w.writer, rest.take(w.loose))
        # Beyond the end of all that is known somebody has written, whom nobody saw.
        for writer, count in split(round(rest.beyond), writers or {BEFORE: 1}).items():
            shares.add(writer, count)
            if writer != BEFORE and count:
                shares.unsure.add(writer)
        shares.add(BEFORE, rest.before)
        shares.add(NOBODY, rest.zeros)

    def part(self, ranges: Iterable[Range]) -> Owners:
        """The map of these ranges alone, to be changed apart from this one."""
        other = Owners(self._rest == NOBODY, self._leaky)
        pieces = {piece.start: piece for start, end in ranges for _, piece in self._around(start, end)}
        other._replace(0, 0, [pieces[start] for start in sorted(pieces)])
        other._loose, other._size = list(self._loose), self._size
        other._cleared_ns, other._shifted_ns = self._cleared_ns, self._shifted_ns
        return other

    def content(self) -> dict[int, float]:
        """writer -> bytes that the file has of it."""
        found: dict[int, float] = {}
        for piece in self._pieces:
            for writer, share in piece.holders:
                if writer >= 0:
                    found[writer] = found.get(writer, 0) + (piece.end - piece.start) * share
        for w in self._loose:
            found[w.writer] = found.get(w.writer, 0) + w.loose
        return found

    @property
    def size(self) -> int:
        """The known end of the file."""
        return self._size

    @property
    def rest(self) -> int:
        """Whose the bytes are that nobody wrote in the run."""
        return self._rest


def _over(old: Piece, start: int, end: int, w: Write, share: float, doubts: Doubts) -> Piece:
    """The part of an old piece that is written again."""
    holders: Holders = ((w.writer, 1.0),)
    if share < 1.0 and old.holders != holders:
        parts = {w.writer: share}
        for writer, part in old.holders:
            parts[writer] = parts.get(writer, 0.0) + part * (1.0 - share)
        holders = tuple(parts.items())
    if share < 1.0 or w.vague or old.until > w.since:
        others = old.all - {w.writer}
        doubts = doubts | others | {w.writer} if others else doubts
    return Piece(start, end, holders, w.since, max(w.until, old.until), doubts)


def _joined(pieces: list[Piece]) -> list[Piece]:
    """The pieces, those that touch and are alike as one."""
    made: list[Piece] = []
    for piece in pieces:
        if made and made[-1].end == piece.start and made[-1][2:] == piece[2:]:
            made[-1] = made[-1]._replace(end=piece.end)
        else:
            made.append(piece)
    return made


def split(amount: int, weights: Mapping[int, float]) -> dict[int, int]:
    """`amount` divided in proportion to `weights`, in whole numbers with the sum `amount`; equal parts if all weights
    are 0."""
    if not weights:
        return {}
    if not any(weights.values()):
        weights = dict.fromkeys(weights, 1)
    whole = sum(weights.values())
    bounds, seen = [0], 0.0
    for weight in weights.values():
        seen += weight
        bounds.append(round(amount * seen / whole) if seen < whole else amount)
    return {who: high - low for who, low, high in zip(weights, bounds[:-1], bounds[1:], strict=True)}
