"""Which process had which lock when, and which accesses locks keep apart.

    calls on locks (calls.py), names that came and went (EdgeTable.facts) --> holds --Locks--> the locks of an access

    fcntl, lockf    ranges of a file, of a process: released by unlock, by close of any descriptor of the file, at exit
    OFD, flock      ranges, or a whole file, of an open file description, which children inherit: released by unlock, by
                    the last close, at the end of the last process that has it
    names           a lock file: who makes a name that must not exist (O_EXCL, mkdir, symlink, link) has it until the
                    name is removed; who renames a file away has it until one is renamed back

Two accesses that lie in holds of the same lock, one of them exclusive, of two holders never overlap, whoever comes
first: no schedule lets them race. So do two holds of one process that ran two tasks one after the other, which another
schedule gives to two workers. A lock orders nothing that lies outside of its holds, even where one was released before
the other began, unless something passed under the lock (conflicts.py). A hold covers what its holder does and what the
processes do that were made during it: a script that locks runs commands.

Invariants: a hold is rather too long than too short, but ends where the next holder, whom it would exclude, has the
lock. A lock whose kind was not recorded is exclusive, of the whole file, and lasts to the end of the process. A lock
of a file that was removed and made again is one lock, by its name (`_renewed`).

Rejected: release before acquire as happens-before, as in dynamic race detectors. It hides the race of what lies outside
of the holds, which no other run may show.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import pandas as pd

from tailrace.analyzer.edges.edge_table import WRITE
from tailrace.analyzer.edges.identities import raw
from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.model.calls import CLOSE, FLOCK, LOCKED, LOCKS, OPEN, USES, read
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.model.order import NEVER, Edges, Order, edges_of
from tailrace.analyzer.util.types import Bools, Ints

EXCLUSIVE, RELEASE, OF_DESCRIPTION = 2, 8, 16
"""`flags` of a lock call (docs/trace-format.md)."""
LOOKED_AT = 64
"""Ranges of a file, and earlier holds of each, among which those are sought that a hold came after."""
Key = tuple[str, str]
"""The kind of lock, and the file or name."""


@dataclass(frozen=True)
class Hold:
    """A lock that a process (its number in `Lives`) had: bytes from `low` to `high` of what `key` names."""

    key: Key
    low: int
    high: int
    exclusive: bool
    process: int
    since_ns: int
    until_ns: int = NEVER

    def excludes(self, other: Hold) -> bool:
        """Whether two holders can't have the two at a time."""
        return self.process != other.process and self.meets(other)

    def meets(self, other: Hold) -> bool:
        """Whether they are of the same lock, and one of them is exclusive."""
        return (
            self.key == other.key
            and (self.exclusive or other.exclusive)
            and self.low < other.high
            and other.low < self.high
        )


class Locks:
    """The holds of a run's locks, of the processes whose calls `uses` has (`Calls.uses`); None: no lock.

    holds: by their begin; kinds: the different ones but for their times; kind: of each hold, a position in `kinds`.
    sets: sets of kinds, by number; 0 is the empty one.
    """

    def __init__(self, order: Order, uses: pd.DataFrame | None = None) -> None:
        self._order = order
        found = [] if uses is None else [*_Files(order).holds(uses), *_of_names(order)]
        self._first = {} if uses is None else _renewed(found, uses)
        renamed = [replace(one, key=(one.key[0], self._first.get(one.key[1], one.key[1]))) for one in found]
        self.holds = sorted(_capped(renamed), key=lambda hold: hold.since_ns)
        plain = [replace(hold, since_ns=0, until_ns=0) for hold in self.holds]
        self.kinds = list(dict.fromkeys(plain))
        numbers = {kind: number for number, kind in enumerate(self.kinds)}
        self.kind = [numbers[one] for one in plain]
        self._of: dict[int, list[int]] = {}
        self.lockers: dict[str, set[int]] = {}
        """File -> the processes that ever locked it."""
        for number, hold in enumerate(self.holds):
            self._of.setdefault(hold.process, []).append(number)
        for hold in found:
            self.lockers.setdefault(hold.key[1], set()).add(hold.process)
        self._timelines: dict[int, tuple[list[int], list[int]]] = {}
        self.sets: list[frozenset[int]] = [frozenset()]
        self._numbers = {self.sets[0]: 0}
        self._apart: dict[tuple[int, int], bool] = {}

    def named(self, file: str) -> str:
        """The file in the keys of the holds of this one (an identity): the first one of its name."""
        return self._first.get(file, file)

    def held(self, process: Ints, first_ns: Ints, last_ns: Ints) -> tuple[Ints, Ints]:
        """For each access of a process (its number in `Lives`) the locks that cover all of it, and those that cover a
        part, as numbers of `sets`."""
        sure, some = (np.zeros(len(process), dtype=np.int64) for _ in range(2))
        for one in np.unique(process).tolist() if self.holds else ():
            times, sets = self._timeline(one)
            if len(times) > 1:
                rows = np.flatnonzero(process == one)
                low, high = (np.searchsorted(times, when[rows], side="right") - 1 for when in (first_ns, last_ns))
                sure[rows] = some[rows] = np.array(sets)[low]
                for at in np.flatnonzero(low != high).tolist():
                    mine = [self.sets[number] for number in sets[low[at] : high[at] + 1]]
                    sure[rows[at]] = self._number(frozenset.intersection(*mine))
                    some[rows[at]] = self._number(frozenset.union(*mine))
        return sure, some

    def throughout(self, process: Ints, first_ns: Ints, last_ns: Ints) -> frozenset[Hold]:
        """The kinds of locks, whoever has them, that were held when each of some accesses began and when it ended:
        accesses that are summed up may lie in several holds."""
        if not self.holds or not len(process):
            return frozenset()
        at = np.concatenate((self.held(process, first_ns, first_ns)[0], self.held(process, last_ns, last_ns)[0]))
        return frozenset.intersection(*(self._whoevers(number) for number in np.unique(at).tolist()))

    def _whoevers(self, number: int) -> frozenset[Hold]:
        return frozenset(replace(self.kinds[kind], process=-1) for kind in self.sets[number])

    def keep_apart(self, one: int, other: int) -> bool:
        """Whether two sets have a lock in common that only one of two accesses can have at a time."""
        key = (min(one, other), max(one, other))
        if key not in self._apart:
            pairs = ((self.kinds[a], self.kinds[b]) for a in self.sets[one] for b in self.sets[other])
            self._apart[key] = any(a.excludes(b) for a, b in pairs)
        return self._apart[key]

    def taken_anew(self, one: int, other: int, until_ns: int, since_ns: int) -> bool:
        """Whether two sets have a lock of one holder in common that it released between two accesses: the first one was
        over at `until_ns`, the other one began at `since_ns`."""
        return any(
            a.process == b.process and a.meets(b) and self._released(number, until_ns, since_ns)
            for number, a in ((number, self.kinds[number]) for number in self.sets[one])
            for b in (self.kinds[number] for number in self.sets[other])
        )

    def _released(self, kind: int, until_ns: int, since_ns: int) -> bool:
        since, until = self._spans[kind]
        at = bisect_right(since, until_ns) - 1
        return at >= 0 and until_ns <= until[at] <= since_ns

    @cached_property
    def _spans(self) -> list[tuple[list[int], list[int]]]:
        """The begins and ends of the holds of each kind, by time."""
        found: list[tuple[list[int], list[int]]] = [([], []) for _ in self.kinds]
        for kind, hold in zip(self.kind, self.holds, strict=True):
            found[kind][0].append(hold.since_ns)
            found[kind][1].append(hold.until_ns)
        return found

    def handed_on(self, used: Collection[tuple[int, int, bool]]) -> Edges:
        """From the end of a hold to the next one's begin, where something passed: one wrote under it what the other
        read under it, or both map the locked file, and what passes through memory is not seen.

        Args:
            used: accesses: the set of locks that covered it, the file, whether it wrote.
        """
        files: dict[tuple[int, bool], set[int]] = {}
        for held, file, write in used:
            for kind in self.sets[held]:
                files.setdefault((kind, write), set()).add(file)
        bursts, lives = self._order.m.table.bursts, self._order.lives
        mapped = bursts[((bursts["dir"] == WRITE) & (bursts["mapped_bytes"] > 0)).to_numpy(dtype=np.bool_)]
        names = map(raw, self._order.m.table.files["file"].to_numpy()[mapped["file"]])
        maps = set(zip(lives.process[mapped["who"]].tolist(), map(self.named, names), strict=True))
        rows = []
        for one, other in self._one_after_another():
            first, then = self.holds[one], self.holds[other]
            passed = files.get((self.kind[one], True), set()) & files.get((self.kind[other], False), set())
            if passed or {(first.process, first.key[1]), (then.process, first.key[1])} <= maps:
                ends = ((first.process, first.until_ns), (then.process, then.since_ns))
                source, target = (int(self._order.of_who[lives.at(process, when)]) for process, when in ends)
                rows.append((source, first.until_ns, target, then.since_ns))
        return edges_of(row for row in rows if row[0] != row[2])

    def _one_after_another(self) -> Iterator[tuple[int, int]]:
        """Pairs of holds (positions), of which the second could begin only when the first was over."""
        before: dict[Key, dict[tuple[int, int], list[int]]] = {}
        for at, hold in enumerate(self.holds):
            mine = before.setdefault(hold.key, {})
            for low, high in list(mine)[-LOOKED_AT:]:
                for earlier in reversed(mine[low, high][-LOOKED_AT:]) if low < hold.high and hold.low < high else ():
                    one = self.holds[earlier]
                    if one.excludes(hold) and one.until_ns <= hold.since_ns:
                        yield earlier, at
                        if one.exclusive:
                            break  # it was after those before it
            mine.setdefault((hold.low, hold.high), []).append(at)

    def _number(self, holds: frozenset[int]) -> int:
        if holds not in self._numbers:
            self._numbers[holds] = len(self.sets)
            self.sets.append(holds)
        return self._numbers[holds]

    def _timeline(self, process: int) -> tuple[list[int], list[int]]:
        """Times from which on a process has a set of holds, from the begin of time on, and the sets."""
        if process not in self._timelines:
            changes: list[tuple[int, bool, int]] = []
            since, line = -NEVER, process
            met: set[int] = set()
            while line >= 0 and line not in met:
                met.add(line)
                for number in self._of.get(line, ()):
                    hold = self.holds[number]
                    # Of an ancestor those that it had when it made the one that leads here.
                    if line == process or hold.since_ns <= since < hold.until_ns:
                        changes += [(hold.since_ns, True, number), (min(hold.until_ns, NEVER - 1) + 1, False, number)]
                since, line = int(self._order.shared_files.made[line]), int(self._order.shared_files.parents[line])
            times, sets, now = [-NEVER], [0], set[int]()
            for when, begins, number in sorted(changes):
                (now.add if begins else now.discard)(number)
                held = self._number(frozenset(self.kind[one] for one in now))
                if when == times[-1]:
                    sets[-1] = held
                else:
                    times.append(when)
                    sets.append(held)
            self._timelines[process] = (times, sets)
        return self._timelines[process]


def callers(m: Model) -> Bools:
    """The actors that called for a lock."""
    functions, lockers = m.table.functions, np.zeros(len(m.who), dtype=np.bool_)
    lockers[functions["who"][functions["name"].isin(LOCKS).to_numpy()].to_numpy(dtype=np.int64)] = True
    return lockers


def of_callers(run: AnalyzedRun | None, order: Order, who: Bools) -> Locks:
    """The holds by the calls on locks of some actors, and by names. Reads the events of those that call any."""
    lockers = callers(order.m) & who
    if run is None or not lockers.any():
        return Locks(order, pd.DataFrame(columns=[*USES]))
    return Locks(order, read(run, order.m, lockers, np.empty(0, dtype=np.int64)).uses)


def _capped(holds: list[Hold]) -> list[Hold]:
    """The holds, each over at the latest when another one begins that it excludes."""
    by_key: dict[Key, list[Hold]] = {}
    for hold in sorted(holds, key=lambda hold: hold.since_ns):
        by_key.setdefault(hold.key, []).append(hold)
    out: list[Hold] = []
    for mine in by_key.values():
        now: list[Hold] = []
        for hold in mine:
            ended = [one for one in now if one.until_ns <= hold.since_ns or one.excludes(hold)]
            out += [replace(one, until_ns=min(one.until_ns, hold.since_ns)) for one in ended]
            now = [one for one in now if one.until_ns > hold.since_ns and not one.excludes(hold)] + [hold]
        out += now
    return out


# --- locks of files ---------------------------------------------------------------------------------------------------


@dataclass
class _Had:
    """What one holder has of a file: ranges (low, high, exclusive, since) that don't overlap."""

    key: Key
    process: int
    ranges: list[tuple[int, int, bool, int]] = field(default_factory=list)

    def change(self, low: int, high: int, mode: bool | None, begun_ns: int, done_ns: int) -> Iterator[Hold]:
        """Sets bytes to exclusive, shared or (None) released; yields what ended. A lock begins when it is granted, and
        is over when its release, or a weaker one, is asked for."""
        kept: list[tuple[int, int, bool, int]] = []
        for a, b, exclusive, since in self.ranges:
            inside = (max(a, low), min(b, high))
            if inside[0] >= inside[1] or exclusive == mode:
                kept.append((a, b, exclusive, since))
                continue
            yield Hold(self.key, *inside, exclusive, self.process, since, done_ns if mode else begun_ns)
            kept += [(x, y, exclusive, since) for x, y in ((a, inside[0]), (inside[1], b)) if x < y]
        had = sorted((a, b) for a, b, exclusive, _ in kept if exclusive == mode and a < high and low < b)
        for a, b in [*had, (high, high)] if mode is not None else ():
            if low < a:
                kept.append((low, a, mode is True, done_ns))
            low = max(low, b)
        self.ranges = kept


class _Files:
    """The locks of files, followed call by call."""

    def __init__(self, order: Order) -> None:
        self.order, self.lives = order, order.lives
        self.had: dict[tuple[str, str, int], _Had] = {}
        self.descriptors: dict[tuple[int, str], tuple[int, int]] = {}
        """How many of a file a process has open, and since when any."""
        self.children: dict[int, list[int]] = {}
        for process, parent in enumerate(order.shared_files.parents.tolist()):
            self.children.setdefault(parent, []).append(process)

    def holds(self, uses: pd.DataFrame) -> Iterator[Hold]:
        """The holds by `Calls.uses`."""
        locked = set(uses["file"][uses["what"].isin(LOCKED).to_numpy(dtype=np.bool_)])
        rows = uses[uses["file"].isin(locked).to_numpy(dtype=np.bool_)]
        columns = ("file", "what", "first_ns", "last_ns", "flags", "low", "count")
        process = self.lives.process[rows["who"].to_numpy(dtype=np.int64)].tolist()
        for one, file, what, *numbers in zip(process, *(rows[name].tolist() for name in columns), strict=True):
            if what == OPEN:
                count, since = self.descriptors.get((one, file), (0, 0))
                self.descriptors[one, file] = (count + 1, since if count else numbers[0])
            elif what == CLOSE:
                yield from self._closed(one, file, numbers[0])
            else:
                yield from self._locked(one, file, what, *numbers)
        for kind, _, holder in list(self.had):
            yield from self._over(self.had[kind, _, holder], kind, int(self.lives.over[holder]))

    def _locked(
        self, process: int, file: str, what: str, begun: int, done: int, flags: int, low: int, count: int
    ) -> Iterator[Hold]:
        kind = "flock" if what == FLOCK else "description" if flags >= 0 and flags & OF_DESCRIPTION else "process"
        holder = process if kind == "process" else self.order.shared_files.opener(process, file)
        mine = self.had.setdefault((kind, file, holder), _Had(("flock" if what == FLOCK else "range", file), holder))
        known = flags > 0 and low >= 0
        begin, end = (low, low + count if count > 0 else NEVER) if known else (0, NEVER)
        mode = None if flags > 0 and flags & RELEASE else flags < 0 or bool(flags & EXCLUSIVE)
        if flags > 0 or (flags < 0 and not mine.ranges):
            yield from mine.change(begin, end, mode, begun, done)

    def _closed(self, process: int, file: str, begun: int) -> Iterator[Hold]:
        count, since = self.descriptors.get((process, file), (0, 0))
        self.descriptors[process, file] = (max(count - 1, 0), since)
        for kind in ("process", "flock", "description"):
            mine = self.had.get((kind, file, process))
            if mine is not None and (kind == "process" or count <= 1):
                yield from self._over(mine, kind, begun)

    def _over(self, mine: _Had, kind: str, when: int) -> Iterator[Hold]:
        """Ends all that a holder has; a lock of a description lasts as long as a child that was made with it."""
        since = self.descriptors.get((mine.process, mine.key[1]), (0, 0))[1]
        last = when if kind == "process" else max(when, self._last_of(mine.process, since, when))
        return mine.change(0, NEVER, None, last, last)

    def _last_of(self, process: int, since: int, when: int) -> int:
        """When the last of the processes ended that one made from a time on, and theirs, of those that were alive at
        another time; 0 without one."""
        last, queue, met = 0, [process], {process}
        made = self.order.shared_files.made
        while queue:
            for child in self.children.get(queue.pop(), ()):
                if child not in met and made[child] >= since:
                    met.add(child)
                    queue.append(child)
                    if made[child] <= when < self.lives.over[child]:
                        last = max(last, int(self.lives.over[child]))
        return last


def _renewed(holds: list[Hold], uses: pd.DataFrame) -> dict[str, str]:
    """File -> the first one that had its name, of locked files of which nobody had one any more when the next was
    locked: it was removed and made again, as SQLite's index of its log, and who locks it does so by its name."""
    lasted: dict[str, tuple[int, int]] = {}
    for hold in holds:
        since, until = lasted.get(hold.key[1], (NEVER, -NEVER))
        lasted[hold.key[1]] = (min(since, hold.since_ns), max(until, hold.until_ns))
    locked = uses[uses["what"].isin(LOCKED).to_numpy(dtype=np.bool_)].drop_duplicates(["file", "path"])
    named: dict[tuple[str, str], list[str]] = {}
    for file, path in zip(locked["file"].tolist(), locked["path"].tolist(), strict=True):
        if file in lasted:
            named.setdefault((file.rsplit(":", 2)[0], path), []).append(file)
    found: dict[str, str] = {}
    for files in named.values():
        files.sort(key=lasted.__getitem__)
        for one, then in pairwise(files):
            if lasted[one][1] <= lasted[then][0]:
                found[then] = found.get(one, one)
    return found


# --- lock files -------------------------------------------------------------------------------------------------------


def _of_names(order: Order) -> Iterator[Hold]:
    """The holds of names that several tasks or processes made that must not exist, or took away, and that went
    again."""
    facts = order.m.table.facts
    facts = facts[facts["what"].isin(("new", "link", "unlink", "rename")).to_numpy(dtype=np.bool_)]
    facts = facts.sort_values("first_ns", kind="stable")
    names = order.m.table.files["file"].to_numpy()
    actors = facts["who"].to_numpy(dtype=np.int64)
    process = order.lives.process
    places = [str(names[file]).rsplit(":", 2)[0] if file >= 0 else "" for file in facts["file"].tolist()]
    columns = (facts[name].tolist() for name in ("what", "path", "path2", "first_ns", "last_ns"))
    came: dict[Key, list[tuple[int, int]]] = {}
    went: dict[Key, list[int]] = {}
    for one, place, what, path, path2, first, last in zip(actors.tolist(), places, *columns, strict=True):
        name, away = (place, path2 or path), f"{place} away"
        if what in ("new", "link"):
            came.setdefault(name, []).append((last, one))
        if what in ("unlink", "rename"):
            went.setdefault((place, path), []).append(first)
        if what == "rename":
            came.setdefault((away, path), []).append((last, one))
        if what in ("link", "rename"):
            went.setdefault((away, path2), []).append(first)
    for key, made in came.items():
        ends = went.get(key, [])
        for since, one in made if len({one for _, one in made}) > 1 else ():
            at = bisect_right(ends, since)
            if at < len(ends):
                holder = _alive(order, int(process[one]), ends[at])
                yield Hold(("name", ":".join(key)), 0, 1, True, holder, since, ends[at])


def _alive(order: Order, process: int, when: int) -> int:
    """The process, or the nearest ancestor that was alive at a time: a script's lock may be made by a command of its
    own."""
    parents, over = order.shared_files.parents, order.lives.over
    line, met = process, {process}
    while over[line] < when and int(parents[line]) >= 0 and int(parents[line]) not in met:
        line = int(parents[line])
        met.add(line)
    return line if over[line] >= when else process
