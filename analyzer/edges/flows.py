"""Flows: reads of versions joined to the writers of the bytes that were read.

    bursts, cuts ──► project ──► one row per (reader, version, writer): the bytes of that writer that the reader read
                        │
                        └─ several writers, holes, unknown offsets: the file is replayed in order of time (owners.py)

Bytes at unknown offsets are divided among all that the file then has, in proportion. Those of pipes and sockets, which
have no offsets, are divided in proportion to what was written.

Invariants: the bytes of all writers of a (reader, version), with those that nobody wrote, sum up to what the reader
read of it; nothing is counted twice. A writer whose bytes were not read has no row. Bytes that were read again count
again. A row is `exact` only where the accesses leave no other answer: divided bytes never are, nor those of a read
during which another version began.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import owners
from tailrace.analyzer.edges.edge_table import END
from tailrace.analyzer.edges.owners import BEFORE, NOBODY, Owners, Range, Write
from tailrace.analyzer.edges.versions import Versions
from tailrace.analyzer.util import grouping, intervals
from tailrace.analyzer.util.intervals import Intervals
from tailrace.analyzer.util.types import Bools, Ints

__all__ = ["BEFORE", "COLUMNS", "NOBODY", "Accesses", "Files", "project"]

COLUMNS = ["reader", "version", "writer", "bytes", "unique_bytes", "first_ns", "last_ns", "exact"]


@dataclass(frozen=True)
class Accesses:
    """Bursts of one direction, as parallel arrays: version, activity, file, bytes, loose_bytes (at unknown offsets),
    first_ns, last_ns, fresh (begins with a truncation), hides (has another one), vague (may have left bytes of its
    ranges alone), in_order (each call began where the one before ended, or behind it), raced (`versions.raced`). The
    ranges of burst i are rows at[i] to at[i + 1] of `ranges`, shape (n, 3): start, end, covered
    bytes."""

    version: Ints
    activity: Ints
    file: Ints
    bytes: Ints
    loose_bytes: Ints
    first_ns: Ints
    last_ns: Ints
    fresh: Bools
    hides: Bools
    vague: Bools
    in_order: Bools
    raced: Bools
    at: Ints
    ranges: Ints

    def of(self, burst: int) -> Ints:
        """The ranges of a burst."""
        return self.ranges[self.at[burst] : self.at[burst + 1]]


@dataclass(frozen=True)
class Files:
    """What is known of the files. By file code: `made`, a traced process made it in the run; `leaky`, a process that
    was not fully seen used it. `cuts` is `EdgeTable.cuts`. By version: `base`, the one that it continues, or -1;
    `whole` (`versions.whole`); `stream`."""

    made: Bools
    leaky: Bools
    cuts: pd.DataFrame
    base: Ints
    whole: Bools
    stream: Bools


def accesses(bursts: pd.DataFrame, versions: Versions, activity: Ints, pick: Bools, extents: Intervals) -> Accesses:
    """The bursts where `pick` is True; `extents` are grouped by position in `bursts`."""
    rows = np.flatnonzero(pick)
    place = np.full(len(bursts), -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    mine = place[extents.group]
    keep = mine >= 0
    ranges = np.column_stack((extents.start[keep], extents.end[keep], extents.weight[keep]))
    columns = {
        name: bursts[name].to_numpy()[rows]
        for name in ("file", "bytes", "loose_bytes", "first_ns", "last_ns", "fresh", "hides")
    }
    mapped, exact = bursts["mapped_bytes"].to_numpy()[rows] > 0, bursts["exact"].to_numpy(dtype=np.bool_)[rows]
    order = grouping.order(mine[keep])
    return Accesses(
        version=versions.of_burst[rows],
        activity=activity[rows],
        **columns,
        vague=mapped | ~exact,
        in_order=(bursts["backward"].to_numpy()[rows] == 0) & ~mapped,
        raced=versions.raced[rows],
        at=np.searchsorted(mine[keep][order], np.arange(len(rows) + 1)).astype(np.int64),
        ranges=ranges[order],
    )


def project(reads: Accesses, writes: Accesses, files: Files) -> pd.DataFrame:
    """Rows `COLUMNS` (int64, exact bool; bytes, ns since the epoch; first_ns and last_ns are the reader's)."""
    pairs = _Pairs(reads)
    writer, several = _sole_writers(writes, len(files.base))
    sole = writer[pairs.version]
    unwritten = (sole < 0) & ~several[pairs.version] & (files.base[pairs.version] < 0)
    plain = (sole >= 0) & files.whole[pairs.version] & ~_is_cut(files, pairs.file)
    plain &= pairs.all(_is_sole_writers(reads, writes, writer))
    direct = np.flatnonzero(unwritten | plain)
    source = np.where(unwritten, BEFORE, sole)[direct]
    sums = (pairs.bytes[direct], pairs.unique_bytes()[direct])
    out = [_rows(pairs, direct, source, *sums, np.ones(len(direct), dtype=np.bool_))]
    rest = np.flatnonzero(~unwritten & ~plain)
    streams = files.stream[pairs.version[rest]]
    out += [_stream(pairs, row, writes) for row in rest[streams].tolist()]
    out += _replays(pairs, rest[~streams], reads, writes, files)
    return pd.concat(out, ignore_index=True)


class _Pairs:
    """The reads summed by (version, activity): parallel arrays. `of_burst`: the row of each burst."""

    def __init__(self, reads: Accesses) -> None:
        key = grouping.pack(reads.version, reads.activity)
        groups = grouping.groups(key)
        self.of_burst = np.empty(len(key), dtype=np.int64)
        self.of_burst[groups.order] = np.cumsum(grouping.first_of_run(key[groups.order])) - 1
        self._groups = groups
        self.version, self.activity = groups.first(reads.version), groups.first(reads.activity)
        self.file = groups.first(reads.file)
        self.bytes, self.loose = (groups.reduce(np.add, column) for column in (reads.bytes, reads.loose_bytes))
        self.first_ns = groups.reduce(np.minimum, reads.first_ns)
        self.last_ns = groups.reduce(np.maximum, reads.last_ns)
        self.raced = np.asarray(groups.reduce(np.logical_or, reads.raced), dtype=np.bool_)
        self._reads = reads

    def unique_bytes(self) -> Ints:
        """The distinct bytes of each row."""
        group = np.repeat(self.of_burst, np.diff(self._reads.at))
        united = intervals.union(intervals.make(group, self._reads.ranges[:, 0], self._reads.ranges[:, 1]))
        return grouping.sums(united.group, united.end - united.start, len(self.version))

    def all(self, of_burst: Bools) -> Bools:
        """Whether it holds for all bursts of each row."""
        return np.asarray(self._groups.reduce(np.logical_and, of_burst), dtype=np.bool_)

    def bursts(self, row: int) -> list[int]:
        """The bursts of a row."""
        at = np.append(self._groups.at, len(self._groups.order))
        return self._groups.order[at[row] : at[row + 1]].tolist()


def _rows(pairs: _Pairs, row: Ints, writer: Ints, moved: Ints, unique: Ints, exact: Bools) -> pd.DataFrame:
    ends = (pairs.first_ns[row], pairs.last_ns[row])
    columns = (pairs.activity[row], pairs.version[row], writer, moved, unique, *ends, exact & ~pairs.raced[row])
    return pd.DataFrame(dict(zip(COLUMNS, columns, strict=True)))


# --- one writer ------------------------------------------------------------------------------------------------------


def _sole_writers(writes: Accesses, versions: int) -> tuple[Ints, Bools]:
    """The writer of each version that has one alone, else -1; and whether it has several."""
    low = grouping.least(writes.version, writes.activity, versions, -1)
    high = grouping.most(writes.version, writes.activity, versions, -1)
    return np.where(low == high, low, -1), np.asarray(low != high, dtype=np.bool_)


def _is_cut(files: Files, file: Ints) -> Bools:
    """Whether a part of the file was cut off or out."""
    cut = np.zeros(len(files.made), dtype=np.bool_)
    cut[files.cuts["file"].to_numpy(dtype=np.int64)] = True
    return cut[file]


def _is_sole_writers(reads: Accesses, writes: Accesses, writer: Ints) -> Bools:
    """Whether all bytes of each burst were written by the version's only writer: those at known offsets, and those of a
    stream."""
    versions = len(writer)
    unplaced = grouping.sums(writes.version, writes.loose_bytes, versions) > 0
    of_range = np.repeat(reads.version, np.diff(reads.at))
    group = np.repeat(writes.version, np.diff(writes.at))
    start, end, weight = writes.ranges.T
    written = intervals.cover(intervals.union(intervals.make(group, start, end, weight)), versions)
    low, high = reads.ranges[:, 0], reads.ranges[:, 1]
    missing = (high - low) - written.inside(of_range, low, high)
    burst = np.repeat(np.arange(len(reads.version)), np.diff(reads.at))
    whole = grouping.sums(burst, missing, len(reads.version)) == 0
    placed = reads.bytes > reads.loose_bytes
    is_known = np.where(placed | (np.diff(reads.at) > 0), whole, True)
    is_stream = (np.diff(reads.at) == 0) & (reads.loose_bytes > 0) & unplaced[reads.version]
    return np.asarray((writer[reads.version] >= 0) & is_known & ((reads.loose_bytes == 0) | is_stream), dtype=np.bool_)


# --- several writers of a stream -------------------------------------------------------------------------------------


def _stream(pairs: _Pairs, row: int, writes: Accesses) -> pd.DataFrame:
    """Of a pipe or socket: in proportion to what was written, which is exact where all of it was read."""
    mine = np.flatnonzero(writes.version == pairs.version[row])
    wrote: dict[int, int] = {}
    for burst in mine.tolist():
        who = int(writes.activity[burst])
        wrote[who] = wrote.get(who, 0) + int(writes.bytes[burst])
    shares = owners.split(int(pairs.bytes[row]), wrote or {BEFORE: 1})
    exact = len(shares) == 1 or int(pairs.bytes[row]) == sum(wrote.values())
    return _shared(pairs, row, {who: (moved, 0, exact) for who, moved in shares.items()})


def _shared(pairs: _Pairs, row: int, shares: Mapping[int, tuple[int, int, bool]]) -> pd.DataFrame:
    """writer -> (bytes, unique bytes, exact) as rows."""
    taken = np.array([(who, *values) for who, values in shares.items()], dtype=np.int64).reshape(-1, 4)
    who, moved, unique, exact = taken.T
    return _rows(pairs, np.full(len(taken), row), who, moved, unique, np.asarray(exact > 0, dtype=np.bool_))


# --- replayed --------------------------------------------------------------------------------------------------------


def _replays(pairs: _Pairs, rows: Ints, reads: Accesses, writes: Accesses, files: Files) -> list[pd.DataFrame]:
    wanted = np.unique(pairs.file[rows])
    of_file = np.isin(writes.file, wanted)
    places = np.flatnonzero(of_file)[grouping.order(writes.file[of_file])]
    bounds = (
        np.searchsorted(writes.file[places], wanted, side="left"),
        np.searchsorted(writes.file[places], wanted, "right"),
    )
    rows_by_file = {int(file): rows[pairs.file[rows] == file].tolist() for file in wanted.tolist()}
    of_cut = files.cuts["file"].to_numpy(dtype=np.int64)
    cuts = {file: files.cuts[of_cut == file] for file in wanted[np.isin(wanted, of_cut)].tolist()}
    out = []
    for file, low, high in zip(wanted.tolist(), *bounds, strict=True):
        replay = _Replay(writes, places[low:high], cuts.get(file), files, file)
        found = replay.run(reads, [(burst, row) for row in rows_by_file[file] for burst in pairs.bursts(row)])
        out += [_shared(pairs, row, found.get(row, {})) for row in rows_by_file[file]]
    return out


@dataclass
class _Taken:
    """Of a (reader, version): writer -> bytes, distinct bytes; the writers whose bytes are not sure; the ranges
    read."""

    bytes: dict[int, int]
    unique: dict[int, float]
    unsure: set[int]
    seen: Ints


@dataclass(frozen=True)
class _Change:
    """What changed the file: a burst of writes, a truncation to nothing (None), or a cut (kind, start, end)."""

    since: int
    until: int
    version: int
    what: Write | tuple[str, int, int] | None
    in_order: bool = False

    def apply(self, to: Owners) -> None:
        """Changes the map."""
        if self.what is None:
            to.clear(self.since)
        elif isinstance(self.what, Write):
            to.write(self.what)
        else:
            to.cut(*self.what, self.since, self.until)

    def apply_during(self, to: Owners, alone: bool) -> None:
        """Changes the map for a read that was made at the same time. alone: no other change was.

        What is read behind the file's end of before was written by then, if one alone writes, and in order.
        """
        if self.what is None:
            to.clear(self.since)
        elif isinstance(self.what, Write):
            below = to.size if alone and self.in_order else END
            to.write(self.what._replace(vague=True, pending_below=below))
        else:
            to.cut(*self.what, self.since, self.until, vague=True)


class _Replay:
    """The changes of one file, in the order in which they ended, and the reads between them."""

    def __init__(self, writes: Accesses, bursts: Ints, cuts: pd.DataFrame | None, files: Files, file: int) -> None:
        self._writes = writes
        self._made, self._leaky = bool(files.made[file]), bool(files.leaky[file])
        changes = [*self._of_bursts(bursts), *self._of_cuts(cuts)]
        self._changes = sorted(changes, key=lambda one: (one.until, isinstance(one.what, Write)))
        self._since = np.array([one.since for one in self._changes], dtype=np.int64)
        self._until = np.array([one.until for one in self._changes], dtype=np.int64)
        self._version = np.array([one.version for one in self._changes], dtype=np.int64)
        self._wrote: dict[int, dict[int, int]] = {}
        for burst in bursts.tolist():
            of_version = self._wrote.setdefault(int(writes.version[burst]), {})
            who = int(writes.activity[burst])
            of_version[who] = of_version.get(who, 0) + int(writes.bytes[burst])

    def _of_bursts(self, bursts: Ints) -> Iterator[_Change]:
        w = self._writes
        for burst in bursts.tolist():
            since, until, version = int(w.first_ns[burst]), int(w.last_ns[burst]), int(w.version[burst])
            if w.fresh[burst]:
                yield _Change(since, since, version, None)
            if w.hides[burst]:
                yield _Change(since, until, version, ("some", 0, END))
            ranges = [(int(a), int(b), int(c)) for a, b, c in w.of(burst)]
            who, loose = int(w.activity[burst]), int(w.loose_bytes[burst])
            if ranges or loose:
                write = Write(who, ranges, loose, since, until, bool(w.vague[burst]))
                yield _Change(since, until, version, write, bool(w.in_order[burst]))

    def _of_cuts(self, cuts: pd.DataFrame | None) -> Iterator[_Change]:
        for row in cuts.to_dict("records") if cuts is not None else ():
            yield _Change(row["first_ns"], row["last_ns"], -1, (str(row["what"]), row["start"], row["end"]))

    def run(self, reads: Accesses, bursts: list[tuple[int, int]]) -> dict[int, dict[int, tuple[int, int, bool]]]:
        """row -> writer -> (bytes, distinct bytes, exact), of the read bursts (burst, row)."""
        now, done = Owners(self._made, self._leaky), 0
        found: dict[int, _Taken] = {}
        for burst, row in sorted(bursts, key=lambda pair: (int(reads.first_ns[pair[0]]), pair[0])):
            ready = int(np.searchsorted(self._until, reads.first_ns[burst], side="right"))
            for change in self._changes[done:ready]:
                change.apply(now)
            done = max(done, ready)
            taken = found.setdefault(row, _Taken({}, {}, set(), np.empty((0, 2), dtype=np.int64)))
            self._read(self._seen_by(now, done, reads, burst), reads, burst, taken)
        return {row: _rounded(taken) for row, taken in found.items()}

    def _seen_by(self, now: Owners, done: int, reads: Accesses, burst: int) -> Owners:
        """The file with the changes that were made during the read."""
        last, version = reads.last_ns[burst], reads.version[burst]
        during = np.flatnonzero((self._since[done:] <= last) & (self._version[done:] <= version)) + done
        if not len(during):
            return now
        there = now.part([(int(a), int(b)) for a, b, _ in reads.of(burst)])
        for place in during.tolist():
            self._changes[place].apply_during(there, alone=len(during) == 1)
        return there

    def _read(self, there: Owners, reads: Accesses, burst: int, taken: _Taken) -> None:
        ranges = reads.of(burst)[:, :2]
        loose = int(reads.loose_bytes[burst])
        placed = int(reads.bytes[burst]) - loose
        wrote = self._wrote.get(int(reads.version[burst]), {})
        shares = there.read(_pairs(ranges), wrote)
        moved = owners.split(placed, shares.bytes)
        if loose:
            for who, count in _of_content(loose, there, wrote).items():
                moved[who] = moved.get(who, 0) + count
        elif not moved:
            moved = owners.split(placed, dict.fromkeys(wrote, 0) or {BEFORE: 1})
        # Bytes that were read again are divided as if all of them were.
        again = placed != intervals.total(ranges) and len(shares.bytes) > 1
        vague = bool(reads.vague[burst]) and len(shares.bytes) > 1
        taken.unsure |= set(moved) if loose or again or vague else shares.unsure
        for who, count in moved.items():
            taken.bytes[who] = taken.bytes.get(who, 0) + count
        new = intervals.subtract(ranges, taken.seen)
        distinct = shares if len(new) == len(ranges) and (new == ranges).all() else there.read(_pairs(new), wrote)
        for who, part in distinct.bytes.items():
            taken.unique[who] = taken.unique.get(who, 0) + part
        taken.seen = intervals.united(taken.seen, ranges)


def _pairs(ranges: Ints) -> list[Range]:
    return [(int(start), int(end)) for start, end in ranges]


def _of_content(loose: int, there: Owners, wrote: Mapping[int, int]) -> dict[int, int]:
    """Bytes read at unknown offsets, divided among all that the file has."""
    content = there.content()
    known = sum(content.values())
    if there.rest == BEFORE and loose > known:
        content[BEFORE] = loose - known
    return owners.split(loose, content or wrote or {BEFORE: 1})


def _rounded(taken: _Taken) -> dict[int, tuple[int, int, bool]]:
    unique = owners.split(round(sum(taken.unique.values())), taken.unique)
    writers = list(dict.fromkeys([*taken.bytes, *taken.unique]))
    some = [who for who in writers if taken.bytes.get(who, 0) or unique.get(who, 0)]
    unsure = taken.unsure | set(writers) if owners.ANYBODY in taken.unsure else taken.unsure
    return {who: (taken.bytes.get(who, 0), unique.get(who, 0), who not in unsure) for who in some or writers}
