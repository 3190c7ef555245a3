"""Conflicts: two tasks access the same bytes of a file, one of them writes, and nothing orders the two.

    read during write   a read overlapped in time with another task's write of the same bytes (or its truncation)
    read before write   the read was over when the other task wrote; a later read would have returned other bytes, or
                        more of them: the read found the end of a file that the other task went on writing
    two writers         both wrote the same bytes; which of the two stays depends on the schedule

    bursts of the edge table --pairs that may be in conflict--> events of their files, read again --> conflicts

Bursts cover too much: past a limit their ranges and pauses are closed. So they only tell where to look. There the calls
are read again (model/calls.py), and a conflict is one of single calls, with their bytes and times. What is not exact
then, since offsets are not known, a file is mapped, a line of totals stands for many calls, or too much had to be read,
is counted as `unknown`.

Order is happens-before (model/order.py). Two accesses that each lie in a hold of the same lock are kept apart
(model/locks.py). Two that append (O_APPEND) never get the same bytes (`Conflicts.appended`), nor do two writers that
have the file open from a common ancestor, as a log that is their standard output. Times alone order nothing, but a pair
of which the manager submitted the later task when the other one was over could not overlap: it is marked `in_time`.
Accesses that overlap in time have no order. A task that waited for another one is ordered with it, also when that one
ran again later. What orders the ranks of a parallel program outside of tasks, the messages of MPI, is not recorded:
their pairs are marked `ranks`, and said to be no more than not known.

Shared memory of two processes outside of tasks, in a run with tasks, belongs to the workflow manager and is left out,
as is what two of its own processes (model/managers_own.py) do to a file.
Reads after the write are no conflict here; whether they were ordered is compared with the declared DAG
(declared_vs_observed.py).

Rejected: all ranges in the edge table, whose size must not grow with the events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table, file_classes
from tailrace.analyzer.edges.edge_table import READ, WRITE
from tailrace.analyzer.edges.identities import raw
from tailrace.analyzer.insights.access_patterns import ranks_of
from tailrace.analyzer.insights.inputs import Inputs
from tailrace.analyzer.model import calls
from tailrace.analyzer.model.calls import END, LOCKS, OPEN, Calls
from tailrace.analyzer.model.locks import Locks
from tailrace.analyzer.model.order import HappensBefore
from tailrace.analyzer.store.processes import keys
from tailrace.analyzer.util import grouping, intervals
from tailrace.analyzer.util.intervals import Intervals
from tailrace.analyzer.util.tabular import Tabular
from tailrace.analyzer.util.types import Bools, Ints, Objects

DURING, BEFORE, WRITERS = "read during write", "read before write", "two writers"
COLUMNS = [
    "kind",
    "path",
    "file",
    "first",
    "second",
    "bytes",
    "start",
    "end",
    "first_ns",
    "second_ns",
    "overlap",
    "in_time",
    "ranks",
]
MAX_PAIRS = 2_000_000
"""Pairs of accesses that are compared, of bursts and again of calls; past it files are left out, and counted."""
MAX_WALKED = 10_000_000
"""Points of the graph that are visited to order pairs of tasks; past it pairs are left out, and counted."""
MAX_EVENTS = 5_000_000
"""Calls of the processes whose events are read again; past it files are left out, and counted."""
MAX_COMPARED = 50_000_000
"""Accesses that are compared to know which readers found the end of a file that grew; past it they are left out."""
WHOLE = np.iinfo(np.int64).max
_APPEND, _ACCESS_MODE = 0o2000, 0o3  # open(2)


@dataclass(frozen=True, repr=False)
class Conflicts(Tabular):
    """
    rows: columns `COLUMNS`: first and second are tasks (of a read and a write the reader is first), bytes in conflict,
        the first of the common ranges (start, end), when each access began, overlap (they overlapped in time), in_time
        (the manager submitted the later task when the other one was over), ranks (they are two ranks of parallel
        programs); those that overlapped first, those in time last, then by bytes.
    unknown: pairs of tasks at one file that nothing orders, and whose bytes or times are not exactly known, or which
        may order themselves in memory that they share (`_families`).
    unchecked: files past `MAX_PAIRS` and `MAX_EVENTS`, and pairs of tasks past `MAX_WALKED`.
    appended: file, path, first, second (tasks) that appended to a file at the same time, and that nothing orders.
    """

    rows: pd.DataFrame
    unknown: int
    unchecked: int
    appended: pd.DataFrame


def conflicts(inputs: Inputs) -> Conflicts:
    """The conflicts of a run; see the module's definition."""
    search = _Search(inputs)
    coarse = search.of_bursts()
    pairs, crowded = search.pairs(coarse)
    pairs = pairs.at(search.judged(coarse, pairs)[1])
    together = search.appended()
    chosen = np.isin(coarse.file, crowded)
    chosen[np.concatenate((pairs.one, pairs.other))] = True
    chosen |= search.growing(coarse)
    rows, known = search.exact(coarse.at(chosen), together)
    pairs, crowded = search.pairs(rows)
    certain, possible = search.judged(rows, pairs)
    if known is not None and certain.any() and search.add_edges(rows, known):
        certain, possible = search.judged(rows, pairs)
    if certain.any():
        family = _families(inputs)[rows.task]
        certain &= (family[pairs.one] < 0) | (family[pairs.one] != family[pairs.other])
    unsure = pairs.at(possible & ~certain)
    ends = zip(rows.task[unsure.one].tolist(), rows.task[unsure.other].tolist(), strict=True)
    return Conflicts(
        rows=_table(inputs, rows, pairs.at(certain)),
        unknown=len({(min(pair), max(pair)) for pair in ends}),
        unchecked=search.unchecked + len(crowded),
        appended=search.unlocked(together, rows),
    )


class _Rows(NamedTuple):
    """Accesses of ranges of bytes, parallel arrays. whole: a truncation, of all bytes; sure: exactly these bytes were
    accessed; single: it is one call, else calls at any times from first to last; held, some: the locks that cover all
    and some of it (numbers of `Locks.sets`)."""

    file: Ints
    task: Ints
    who: Ints
    first: Ints
    last: Ints
    start: Ints
    end: Ints
    write: Bools
    whole: Bools
    sure: Bools
    single: Bools
    held: Ints
    some: Ints

    def at(self, rows: Ints | Bools) -> _Rows:
        """These rows."""
        return self._replace(**{name: column[rows] for name, column in self._asdict().items()})

    def and_those(self, other: _Rows) -> _Rows:
        """These rows and others."""
        more = other._asdict()
        return self._replace(**{name: np.concatenate((of, more[name])) for name, of in self._asdict().items()})


class _Pairs(NamedTuple):
    """Pairs of rows that may be in conflict: positions."""

    one: Ints
    other: Ints

    def at(self, rows: Ints | Bools) -> _Pairs:
        """These pairs."""
        return _Pairs(self.one[rows], self.other[rows])


class _Search:
    """The search for conflicts, step by step; unchecked: what was left out so far."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs, self.m, self.order = inputs, inputs.m, inputs.order
        self.locks, self.unchecked = Locks(self.order), 0
        facts = self.m.table.facts[(self.m.table.facts["what"] == "append").to_numpy(dtype=np.bool_)]
        process = self.order.lives.process
        self.appenders = set(zip(process[facts["who"]].tolist(), facts["file"].tolist(), strict=True))
        """(process, file) of those that only append to it."""

    @cached_property
    def graph(self) -> HappensBefore:
        """The order of the run; `add_edges` replaces it."""
        return self.order.happens_before

    # --- accesses ---

    def of_bursts(self) -> _Rows:
        """The accesses of data files by the edge table, of files that a task wrote beside others' accesses."""
        bursts, lost = self.m.bursts, np.iinfo(np.int64).max
        file, first, last = (bursts[name].to_numpy() for name in ("file", "first_ns", "last_ns"))
        task, size = self.inputs.of_who[bursts["who"].to_numpy()], len(self.m.table.files)
        data = self.m.classed(("data",)) & ~self.m.versions.table["stream"].to_numpy()[self.m.version]
        wrote = data & (bursts["dir"].to_numpy() == WRITE)
        # A file that one task wrote before any task read it is the common case, and has no pairs.
        writers = grouping.distinct(file[wrote], task[wrote], size)
        done = grouping.most(file[wrote], last[wrote], size, 0)
        read = grouping.least(file[data & ~wrote], first[data & ~wrote], size, lost)
        odd = (grouping.distinct(file[data], task[data], size) > 1) & ((writers > 1) | ((writers > 0) & (read < done)))
        return self._rows(*calls.kept(bursts, self.m.table.extents, data & odd[file]))

    def _rows(self, accesses: pd.DataFrame, extents: Intervals) -> _Rows:
        """Accesses, or bursts, by their ranges: all bytes for a truncation, and for what moved at unknown offsets."""
        moved = extents.end > extents.start
        extents = Intervals(*(column[moved] for column in extents))
        loose, fresh = (np.flatnonzero(accesses[name].to_numpy() > 0) for name in ("loose_bytes", "fresh"))
        key = [accesses[name].to_numpy()[loose] for name in edge_table.BURST_KEY]
        of_loose = grouping.groups(grouping.pack(*key))
        count = (len(extents.group), len(of_loose.at), len(fresh))
        at = np.concatenate((extents.group, of_loose.first(loose), fresh))
        kind = np.repeat(("range", "loose", "whole"), count)
        names = (*edge_table.BURST_KEY, "first_ns", "last_ns", "calls", "exact", "mapped_bytes")
        column = {name: accesses[name].to_numpy()[at] for name in names}
        first, last = column["first_ns"].copy(), column["last_ns"].copy()
        first[kind == "loose"] = of_loose.reduce(np.minimum, accesses["first_ns"].to_numpy()[loose])
        last[kind == "loose"] = of_loose.reduce(np.maximum, accesses["last_ns"].to_numpy()[loose])
        # Of a burst it is the first call.
        begins = (kind == "whole") & (column["calls"] > 0)
        last[begins] = first[begins]
        rest = sum(count[1:])
        nothing = np.zeros(len(at), dtype=np.int64)
        return _Rows(
            file=column["file"],
            task=self.inputs.of_who[column["who"]],
            who=column["who"],
            first=first,
            last=last,
            start=np.concatenate((extents.start, np.zeros(rest, dtype=np.int64))),
            end=np.concatenate((extents.end, np.full(rest, WHOLE))),
            write=column["dir"] == WRITE,
            whole=kind == "whole",
            sure=(kind == "whole") | ((kind == "range") & column["exact"] & (column["mapped_bytes"] == 0)),
            single=(kind == "whole") | ((kind == "range") & (column["calls"] <= 1)),
            held=nothing,
            some=nothing,
        )

    def exact(self, coarse: _Rows, together: pd.DataFrame) -> tuple[_Rows, Calls | None]:
        """The accesses to the same files call by call, as far as they can be read again; else as they are."""
        lockers = self._tasks_of(self.m.table.functions, "name", LOCKS)
        kept = together["first"].isin(lockers) & together["second"].isin(lockers)
        together = together[kept.to_numpy(dtype=np.bool_)]
        log, reader = self._logs(coarse.file, lockers)
        files = np.concatenate((np.repeat(together["file"], 2), coarse.file, log)).astype(np.int64)
        tasks = np.concatenate((together[["first", "second"]].to_numpy().ravel(), coarse.task, reader)).astype(np.int64)
        if self.inputs.run is None or not len(files):
            return coarse, None
        chosen, who = self._within_budget(files, tasks)
        known = calls.read(self.inputs.run, self.m, who, chosen)
        self.locks = Locks(self.order, known.uses)
        self._forget_other_writers(known)
        mine = np.isin(known.accesses["file"].to_numpy(), chosen)
        rows = self._rows(*calls.kept(known.accesses, known.extents, mine))
        # What was not found again: a file that a worker copied (edges/staged.py).
        both = rows.and_those(coarse)
        key = grouping.pack(both.who, both.file, both.write.astype(np.int64))
        left = ~np.isin(key[len(rows.file) :], key[: len(rows.file)]) & np.isin(coarse.file, chosen)
        rows = rows.and_those(coarse.at(left)).and_those(self._ends(rows, known))
        held, some = self.locks.held(self.order.lives.process[rows.who], rows.first, rows.last)
        return rows._replace(held=held, some=some), known

    def growing(self, rows: _Rows) -> Bools:
        """The rows of files of which a task read what another one had written so far, which then wrote on."""
        until = grouping.most(rows.file[rows.write], rows.first[rows.write], len(self.m.table.files), 0)
        group, first = grouping.numbered(grouping.pack(rows.file, rows.who))
        last = grouping.most(group[~rows.write], rows.last[~rows.write], len(first), 0)
        before = (last > 0) & (last < until[rows.file[first]])
        ends = zip(*(column[before].tolist() for column in (rows.file[first], rows.who[first], last)), strict=True)
        return np.isin(rows.file, [file for file, *_ in self._ends_seen(rows, ends)])

    def _logs(self, files: Ints, lockers: set[int]) -> tuple[Ints, Ints]:
        """The files that these tasks read and that are named after one of some, and who of the tasks did."""
        file, task = self.m.bursts["file"].to_numpy(), self.inputs.of_who[self.m.bursts["who"].to_numpy()]
        mine = np.isin(task, [*lockers]) & (self.m.bursts["dir"] == READ).to_numpy()
        found = self._named_after(files, file[mine])
        mine &= np.isin(file, [log for logs in found.values() for log in logs])
        return file[mine], task[mine]

    def _named_after(self, files: Ints, among: Ints) -> dict[int, list[int]]:
        """File -> those of some others that are named after it (base-wal, base.journal)."""
        code_of = {str(self.m.paths[file]): file for file in np.unique(files).tolist()}
        found: dict[int, list[int]] = {}
        for other in np.unique(among).tolist() if code_of else ():
            for stem in file_classes.stems(str(self.m.paths[other])):
                if stem in code_of:
                    found.setdefault(code_of[stem], []).append(other)
        return found

    def _ends(self, rows: _Rows, known: Calls) -> _Rows:
        """The reads that found such an end, as reads of all bytes behind it."""
        codes: dict[str, list[int]] = {}
        for code in np.unique(rows.file).tolist():
            codes.setdefault(raw(str(self.m.table.files["file"].iat[code])), []).append(code)
        ends = known.uses[((known.uses["what"] == END) & known.uses["file"].isin(list(codes))).to_numpy(dtype=np.bool_)]
        ends = ends.drop_duplicates(["who", "file"], keep="last")
        seen = [
            (code, int(who), int(first))
            for who, identity, first in ends[["who", "file", "first_ns"]].itertuples(index=False)
            for code in codes[identity]
        ]
        found = np.array([*self._ends_seen(rows, seen)], dtype=np.int64).reshape(-1, 4)
        file, who, when, place = found.T
        no, yes = np.zeros(len(found), dtype=np.bool_), np.ones(len(found), dtype=np.bool_)
        none, whole = np.zeros(len(found), dtype=np.int64), np.full(len(found), WHOLE)
        task = self.inputs.of_who[who]
        return _Rows(file, task, who, when, when, place, whole, no, no, yes, yes, none, none)

    def _ends_seen(self, rows: _Rows, reads: Iterable[tuple[int, int, int]]) -> Iterator[tuple[int, int, int, int]]:
        """Of reads (file, actor, when) those whose actor had come to the end (the fourth) of what another task had
        written until then, and behind which that one wrote later."""
        groups, left = grouping.groups(rows.file), MAX_COMPARED
        place_of = dict(zip(rows.file[groups.order[groups.at]].tolist(), range(len(groups.at)), strict=True))
        bounds = [*groups.at.tolist(), len(rows.file)]
        for file, who, when in reads:
            if (at := place_of.get(file)) is None:
                continue
            mine = groups.order[bounds[at] : bounds[at + 1]]
            left -= len(mine)
            if left < 0:
                self.unchecked += 1
                return
            of = rows.at(mine[rows.sure[mine] & ~rows.whole[mine]])
            end = int(of.end[~of.write & (of.who == who)].max(initial=0))
            others = of.write & (of.task != self.inputs.of_who[who])
            writers = np.unique(of.task[others & (of.start < end) & (of.first < when)])
            if (others & np.isin(of.task, writers) & (of.end > end) & (of.last > when)).any():
                yield file, who, when, end

    def _tasks_of(self, rows: pd.DataFrame, column: str, values: tuple[str, ...]) -> set[int]:
        mine = rows["who"].to_numpy(dtype=np.int64)[rows[column].isin(values).to_numpy(dtype=np.bool_)]
        return set(self.inputs.of_who[mine].tolist())

    def _within_budget(self, files: Ints, tasks: Ints) -> tuple[Ints, Bools]:
        """The files that are read again, those of few events first, and the actors whose events that takes: those of
        their tasks, their ancestors, which may have a lock for them, and those who send or receive what may order two
        of them, through others."""
        counts = self.m.table.counts
        events = np.zeros(len(self.m.who), dtype=np.int64)
        np.add.at(events, counts["who"].to_numpy(), counts["calls"].to_numpy())
        of_task = grouping.sums(self.inputs.of_who, events, len(self.inputs.tasks))
        users: dict[int, set[int]] = {}
        for file, task in zip(files.tolist(), tasks.tolist(), strict=True):
            users.setdefault(file, set()).add(task)
        chosen, mine, left = list[int](), set[int](), MAX_EVENTS
        for file in sorted(users, key=lambda file: sum(int(of_task[task]) for task in users[file])):
            more = sum(int(of_task[task]) for task in users[file] - mine)
            if more > left:
                self.unchecked += 1
                continue
            chosen.append(file)
            mine |= users[file]
            left -= more
        who = np.isin(self.inputs.of_who, [*mine])
        parents, process = self.order.shared_files.parents, self.order.lives.process
        around = set[int]()
        for line in np.unique(process[who]).tolist():
            while (line := int(parents[line])) >= 0 and line not in around:
                around.add(line)
        ends = [(actor,) for actor in np.flatnonzero(np.isin(process, [*around])).tolist()]
        for actors in (*ends, *sorted(self._ends_of_streams(), key=lambda one: int(events[[*one]].sum()))):
            new = [actor for actor in actors if not who[actor]]
            if (more := int(events[new].sum())) <= left:
                who[new] = True
                left -= more
        return np.array(chosen, dtype=np.int64), who

    def _ends_of_streams(self) -> list[tuple[int, ...]]:
        """The actors at each pipe or socket that several tasks use."""
        table = self.m.table
        stream = self.m.class_of_file == file_classes.STREAM
        rows = table.bursts[stream[table.bursts["file"].to_numpy(dtype=np.int64)]][["file", "who"]].drop_duplicates()
        found = rows.groupby("file")["who"].agg(tuple).tolist()
        return [one for one in found if len(set(self.inputs.of_who[[*one]].tolist())) > 1]

    def _forget_other_writers(self, known: Calls) -> None:
        """Of who opened a file not only to append it is not known which of its writes do."""
        opened = known.uses[((known.uses["what"] == OPEN) & (known.uses["flags"] >= 0)).to_numpy(dtype=np.bool_)]
        flags = opened["flags"].to_numpy(dtype=np.int64)
        other = opened[((flags & _ACCESS_MODE) != 0) & ((flags & _APPEND) == 0)]
        process = self.order.lives.process[other["who"].to_numpy(dtype=np.int64)].tolist()
        pairs = set(zip(process, other["file"].tolist(), strict=True))
        names = self.m.table.files["file"].to_numpy()
        self.appenders = {key for key in self.appenders if (key[0], raw(names[key[1]])) not in pairs}

    # --- pairs ---

    def pairs(self, rows: _Rows) -> tuple[_Pairs, Ints]:
        """The pairs of two tasks' accesses of the same bytes, one of which writes, and that no lock keeps apart; and
        the files with more of them than are compared."""
        appends = self._appends(rows)
        at = np.flatnonzero(_met(rows, appends))
        # Calls that differ in their times alone are compared once.
        kinds = [
            column[at].astype(np.int64) for name, column in rows._asdict().items() if name not in ("first", "last")
        ]
        code, first = grouping.numbered(grouping.pack(*kinds))
        members = np.argsort(code, kind="stable")
        begin = np.searchsorted(code[members], np.arange(len(first) + 1))
        one, other, crowded = self._overlapping(rows.at(at[first]), appends[at[first]])
        wide = (begin[1:] - begin[:-1])[other]
        size = (begin[1:] - begin[:-1])[one] * wide
        fits = np.cumsum(size) <= MAX_PAIRS
        crowded += np.unique(rows.file[at[first[one[~fits]]]]).tolist()
        one, other, size, wide = one[fits], other[fits], size[fits], wide[fits]
        place = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
        left, right = np.divmod(place, np.repeat(wide, size))
        ends = (members[np.repeat(begin[end], size) + at_end] for end, at_end in ((one, left), (other, right)))
        return _Pairs(*(at[end] for end in ends)), np.array(crowded, dtype=np.int64)

    def _overlapping(self, rows: _Rows, appends: Bools) -> tuple[Ints, Ints, list[int]]:
        by_start = np.lexsort((rows.start, rows.file))
        begins = np.flatnonzero(grouping.first_of_run(rows.file[by_start])).tolist()
        found, crowded, left = [(by_start[:0], by_start[:0])], list[int](), MAX_PAIRS
        for low, high in pairwise([*begins, len(by_start)] if begins else []):
            mine = by_start[low:high]
            more = np.searchsorted(rows.start[mine], rows.end[mine]) - np.arange(1, len(mine) + 1)
            if more.sum() > left:
                crowded.append(int(rows.file[mine[0]]))
                continue
            left -= int(more.sum())
            one = np.repeat(np.arange(len(mine)), more)
            other = one + 1 + np.arange(len(one)) - np.repeat(np.cumsum(more) - more, more)
            one, other = mine[one], mine[other]
            keep = self._may_conflict(rows, one, other, appends)
            found.append((one[keep], other[keep]))
        ones, others = zip(*found, strict=True)
        return np.concatenate(ones), np.concatenate(others), crowded

    def _appends(self, rows: _Rows) -> Bools:
        process = self.order.lives.process[rows.who]
        mine = rows.write & ~rows.whole & np.isin(rows.file, [file for _, file in self.appenders])
        for at in np.flatnonzero(mine).tolist():
            mine[at] = (int(process[at]), int(rows.file[at])) in self.appenders
        return mine

    def _may_conflict(self, rows: _Rows, one: Ints, other: Ints, appends: Bools) -> Bools:
        hosts = self.m.who["host"].to_numpy()[rows.who]
        keep = (rows.task[one] != rows.task[other]) & (rows.write[one] | rows.write[other])
        keep &= ~(rows.whole[one] & rows.whole[other])
        # Over a network file system two hosts may get the same end of a file (open(2)).
        keep &= ~(appends[one] & appends[other] & (hosts[one] == hosts[other]))
        memory = np.array([str(self.m.paths[f]).startswith("/dev/shm/") for f in rows.file], dtype=np.bool_)
        own = self.inputs.of_manager[rows.task] | (memory & ~self.inputs.works[rows.task])
        keep &= ~(own[one] & own[other])
        if self.locks.holds:
            keep &= ~_each(self.locks.keep_apart, rows.held[one], rows.held[other])
            keep &= ~(
                _each(self._both_lock, rows.who[one], rows.who[other], rows.file[one])
                & ~(rows.sure[one] & rows.sure[other])
            )
        return keep

    def _both_lock(self, one: int, other: int, file: int) -> bool:
        """Whether two actors lock a file that they have in common: if they map it, they know when."""
        lockers = self.locks.lockers.get(raw(str(self.m.table.files["file"].iat[file])), set())
        return lockers.issuperset(self.order.lives.process[[one, other]].tolist())

    # --- order ---

    def judged(self, rows: _Rows, pairs: _Pairs) -> tuple[Bools, Bools]:
        """Which pairs are in conflict for certain, and which may be."""
        one, other = pairs
        early, late = np.where(rows.single, rows.last, rows.first), np.where(rows.single, rows.first, rows.last)
        # A read, or what a truncation removes, is in conflict with what came later.
        change = np.where(rows.whole[one] | (rows.write[one] & ~rows.whole[other]), one, other)
        use = one + other - change
        both = rows.write[one] & rows.write[other] & ~rows.whole[one] & ~rows.whole[other]
        possible = both | (rows.first[use] < rows.last[change])
        certain = possible & (both | (late[use] < early[change])) & rows.sure[one] & rows.sure[other]
        at = np.flatnonzero(possible)
        loosely, strictly = self._ordered(rows, pairs.at(at), early, late)
        possible[at] = ~strictly
        certain[at] &= ~loosely
        at = np.flatnonzero(certain)
        certain[at] = ~_each(self.locks.keep_apart, rows.some[one[at]], rows.some[other[at]])
        possible &= ~self._taken_anew(rows, pairs, possible)
        certain &= possible
        at = np.flatnonzero(certain & both)
        process = self.order.lives.process[rows.who]
        certain[at] = ~_each(
            self.order.shared_files.is_shared, process[one[at]], process[other[at]], rows.file[one[at]]
        )
        again = self._reads_under_lock(rows)
        looked = np.flatnonzero(certain & ~both & (rows.held[change] > 0))
        logs = self._named_after(rows.file[use[looked]], rows.file)
        for at in looked.tolist():
            possible[at] = not self._is_read_again(rows, int(use[at]), int(change[at]), again, logs)
        return certain & possible, possible

    def _taken_anew(self, rows: _Rows, pairs: _Pairs, which: Bools) -> Bools:
        """Which of the pairs one process made under two holds of a lock."""
        one, other = pairs
        locked = which & (rows.held[one] > 0) & (rows.held[other] > 0)
        for at in np.flatnonzero(locked).tolist():
            locked[at] = self._anew(rows, int(one[at]), int(other[at]))
        return locked

    def _anew(self, rows: _Rows, one: int, other: int) -> bool:
        x, y = sorted((one, other), key=lambda row: int(rows.first[row]))
        return self.locks.taken_anew(int(rows.held[x]), int(rows.held[y]), int(rows.last[x]), int(rows.first[y]))

    def _reads_under_lock(self, rows: _Rows) -> dict[tuple[int, int], list[int]]:
        """(who, file) -> reads within holds, by time."""
        found: dict[tuple[int, int], list[int]] = {}
        mine = np.flatnonzero(~rows.write & (rows.held > 0))
        for at in mine[np.argsort(rows.first[mine], kind="stable")].tolist():
            found.setdefault((int(rows.who[at]), int(rows.file[at])), []).append(at)
        return found

    def _is_read_again(
        self,
        rows: _Rows,
        read: int,
        write: int,
        again: dict[tuple[int, int], list[int]],
        logs: dict[int, list[int]],
    ) -> bool:
        """Whether who read without a lock looked again under one: at the same bytes, while it kept the writer apart, or
        at a log in which newer ones stand. SQLite does so with the head of a database, as whoever looks before they
        lock."""
        low, high = max(rows.start[read], rows.start[write]), min(rows.end[read], rows.end[write])
        who, file = int(rows.who[read]), int(rows.file[read])
        if any(rows.first[at] >= rows.last[read] for log in logs.get(file, ()) for at in again.get((who, log), ())):
            return True
        return any(
            rows.first[at] >= rows.last[read]
            and rows.start[at] <= low
            and high <= rows.end[at]
            and (self.locks.keep_apart(int(rows.held[at]), int(rows.held[write])) or self._anew(rows, at, write))
            for at in again.get((who, file), ())
        )

    def _ordered(self, rows: _Rows, pairs: _Pairs, early: Ints, late: Ints) -> tuple[Bools, Bools]:
        """Whether each pair is ordered if each access came at the best of its times for that, and at the worst."""
        swap = rows.first[pairs.one] > rows.first[pairs.other]
        one, other = np.where(swap, pairs.other, pairs.one), np.where(swap, pairs.one, pairs.other)
        loosely, strictly = (np.ones(len(one), dtype=np.bool_) for _ in range(2))
        groups = grouping.groups(grouping.pack(rows.task[other], rows.task[one]))
        for low, high in pairwise([*groups.at.tolist(), len(one)]):
            at = groups.order[low:high]
            x, y = one[at], other[at]
            first, then = int(rows.task[x[0]]), int(rows.task[y[0]])
            if self.order.nested(first, then):
                continue
            if self.graph.walked > MAX_WALKED:
                self.unchecked += 1
                continue
            strictly[at] = loosely[at] = self._before(first, rows.last[x], then, rows.first[y])
            if self.order.ran_again(then):
                again = (rows.last[x] <= rows.first[y]) & self._after(then, rows.last[y], first, rows.first[x])
                strictly[at] |= again
                loosely[at] |= again
            if not (rows.single[x] & rows.single[y]).all():
                loosely[at] |= self._before(first, early[x], then, late[y]) | self._before(
                    then, early[y], first, late[x]
                )
        return loosely, strictly

    def _before(self, first: int, over: Ints, then: int, begun: Ints) -> Bools:
        return (over <= begun) & self._after(first, over, then, begun)

    def _after(self, first: int, over: Ints, then: int, begun: Ints) -> Bools:
        """Whether what one task did up to its times happened before what the other one did from its times on."""
        return begun >= self.graph.earliest(first, over, then)

    def add_edges(self, rows: _Rows, known: Calls) -> bool:
        """Adds what calls that were read again tell of order; False: nothing."""
        used = set(zip(rows.held.tolist(), rows.file.tolist(), rows.write.tolist(), strict=True))
        edges = (calls.messages(self.order, known, self.inputs.works), self.locks.handed_on(used))
        more = [one for one in edges if len(one.source)]
        self.graph = self.graph.with_edges(*more)
        return bool(more)

    # --- appends ---

    def appended(self) -> pd.DataFrame:
        """`Conflicts.appended`, with those that a lock keeps apart."""
        bursts = self.m.bursts
        mine = self.m.classed(("data",)) & np.isin(bursts["file"].to_numpy(), [file for _, file in self.appenders])
        wrote = bursts[mine & (bursts["dir"] == WRITE).to_numpy() & (bursts["bytes"] > 0).to_numpy()]
        process = self.order.lives.process[wrote["who"].to_numpy()].tolist()
        appends = [key in self.appenders for key in zip(process, wrote["file"].tolist(), strict=True)]
        wrote = wrote[np.array(appends, dtype=np.bool_)].assign(
            task=lambda of: self.inputs.of_who[of["who"].to_numpy()]
        )
        spans = wrote.groupby(["file", "task"], as_index=False).agg(
            first_ns=("first_ns", "min"), last_ns=("last_ns", "max")
        )
        found = []
        for file, tasks in spans.sort_values(["file", "first_ns"], kind="stable").groupby("file"):
            last, until = -1, 0
            for task, first_ns, last_ns in zip(
                *(tasks[n].tolist() for n in ("task", "first_ns", "last_ns")), strict=True
            ):
                ends = (last, task) if last >= 0 and first_ns < until else None
                if ends and not self.order.nested(*ends) and not self.graph.before(last, until, task, first_ns):
                    found.append((file, *ends))
                last, until = (task, last_ns) if last < 0 or last_ns > until else (last, until)
        made = pd.DataFrame(found, columns=["file", "first", "second"]).astype(np.int64)
        return made.assign(path=self.m.paths[made["file"].to_numpy()])

    def unlocked(self, together: pd.DataFrame, rows: _Rows) -> pd.DataFrame:
        """The pairs that no lock keeps apart."""
        if not len(together) or not self.locks.holds:
            return together
        sets: dict[tuple[int, int], set[int]] = {}
        wrote = rows.at(rows.write)
        for file, task, held in zip(wrote.file.tolist(), wrote.task.tolist(), wrote.held.tolist(), strict=True):
            sets.setdefault((file, task), set()).add(held)
        apart = [
            all(self.locks.keep_apart(a, b) for a in sets[file, first] for b in sets[file, second])
            if (file, first) in sets and (file, second) in sets
            else False
            for file, first, second in zip(*(together[n].tolist() for n in ("file", "first", "second")), strict=True)
        ]
        return together[~np.array(apart, dtype=np.bool_)].reset_index(drop=True)


def _each(test: Callable[..., bool], *columns: Ints) -> Bools:
    """The test of each row of integers; once for equal ones."""
    code, first = grouping.numbered(grouping.pack(*columns))
    found = [test(*(int(column[at]) for column in columns)) for at in first.tolist()]
    return np.array(found, dtype=np.bool_)[code]


def _close(rows: _Rows) -> Bools:
    """The rows of chains of overlapping rows that several tasks are in, some of which write; more of them where files
    are large or many."""
    files, file = np.unique(rows.file, return_inverse=True)
    start, end = (file << 42 | np.minimum(of, (1 << 42) - 1) for of in (rows.start, rows.end - 1))
    by_start = np.argsort(start, kind="stable")
    begins = np.ones(len(start), dtype=np.bool_)
    begins[1:] = start[by_start][1:] > np.maximum.accumulate(end[by_start])[:-1]
    chain = np.empty(len(start), dtype=np.int64)
    chain[by_start] = np.cumsum(begins) - 1
    size = int(begins.sum())
    several = grouping.distinct(chain, rows.task, size) > 1
    return (several & (np.bincount(chain[rows.write], minlength=size) > 0))[chain] | (len(files) >> 20 > 0)


def _met(rows: _Rows, appends: Bools) -> Bools:
    """The rows with bytes that two tasks access, one of which writes, and not both by appending."""
    met = _close(rows)
    if not met.any():
        return met
    rows, appends, near = rows.at(met), appends[met], np.flatnonzero(met)
    tasks = int(rows.task.max()) + 1
    group = rows.file * tasks + rows.task
    kinds = (rows.start >= 0, ~rows.write, rows.write, rows.write & ~appends)
    united = [intervals.union(intervals.make(group[of], rows.start[of], rows.end[of])) for of in kinds]
    file = np.concatenate([np.tile(of.group // tasks, 2) for of in united])
    point = np.concatenate([when for of in united for when in (of.start, of.end)])
    kind = np.repeat(np.arange(len(kinds)), [2 * len(of.group) for of in united])
    step = np.concatenate([np.repeat((1, -1), len(of.group)) for of in united])
    by_place = np.lexsort((point, file))
    file, point = file[by_place], point[by_place]
    users, reads, writes, others = (np.cumsum(np.where(kind == of, step, 0)[by_place])[:-1] for of in range(len(kinds)))
    between = (point[1:] > point[:-1]) & (file[1:] == file[:-1])
    hot = np.flatnonzero(between & (users > 1) & ((others > 0) | ((writes > 0) & (reads > 0))))
    met[:] = False
    by_file = np.argsort(rows.file, kind="stable")
    for one in np.unique(file[hot]).tolist():
        low, high = np.searchsorted(rows.file[by_file], (one, one + 1))
        mine = by_file[low:high]
        begin, end = (point[hot[file[hot] == one] + at] for at in range(2))
        at = np.searchsorted(begin, rows.end[mine]) - 1
        met[near[mine]] = (at >= 0) & (end[at] > rows.start[mine])
    return met


def _table(inputs: Inputs, rows: _Rows, pairs: _Pairs) -> pd.DataFrame:
    """One row a (kind, file, two tasks), with all bytes of its pairs, and the times of one, rather that overlapped."""
    one, other = pairs
    # The reader is the first; of two writers who began before, and of two at the same time the first of the tasks.
    later = (rows.first[one] > rows.first[other]) | (
        (rows.first[one] == rows.first[other]) & (rows.task[one] > rows.task[other])
    )
    swap = np.where(rows.write[one] == rows.write[other], later, rows.write[one])
    one, other = np.where(swap, other, one), np.where(swap, one, other)
    overlap = (rows.first[one] < rows.last[other]) & (rows.first[other] < rows.last[one])
    kind = np.where(rows.write[one], WRITERS, np.where(overlap, DURING, BEFORE)).astype(object)
    ends = [np.minimum(rows.task[one], rows.task[other]), np.maximum(rows.task[one], rows.task[other])]
    group, _ = grouping.numbered(grouping.pack(kind, rows.file[one], *ends))
    start, end = np.maximum(rows.start[one], rows.start[other]), np.minimum(rows.end[one], rows.end[other])
    size = int(group.max(initial=-1)) + 1
    united = intervals.union(intervals.make(group, start, end))
    by_time = np.lexsort((start, rows.first[one], np.maximum(rows.first[one], rows.first[other]), ~overlap, group))
    at = by_time[grouping.first_of_run(group[by_time])] if len(group) else by_time
    range_at = np.searchsorted(united.group, np.arange(size))
    first, second = rows.task[one[at]], rows.task[other[at]]
    times = rows.first[one[at]], rows.first[other[at]]
    earlier = (times[0] <= times[1]).tolist()
    apart = inputs.order.apart
    in_time = [
        apart(a, b) if e else apart(b, a) for a, b, e in zip(first.tolist(), second.tolist(), earlier, strict=True)
    ]
    rank = _ranks(inputs)
    out = pd.DataFrame(
        {
            "kind": kind[at],
            "path": inputs.m.paths[rows.file[one[at]]],
            "file": rows.file[one[at]],
            "first": first,
            "second": second,
            "bytes": intervals.length(united, size),
            "start": united.start[range_at],
            "end": united.end[range_at],
            "first_ns": times[0],
            "second_ns": times[1],
            "overlap": overlap[at],
            "in_time": np.array(in_time, dtype=np.bool_),
            "ranks": (rank[first] != "") & (rank[second] != "") & (rank[first] != rank[second]),
        }
    )
    by = ["overlap", "in_time", "bytes"]
    return out.sort_values(by, ascending=[False, True, False], kind="stable", ignore_index=True)[COLUMNS]


def _families(inputs: Inputs) -> Ints:
    """Of each task that is a process without a tag the family whose memory it shares, -1: none: processes that were
    forked from one without executing another program (same program and arguments), of which two mapped one file to
    write to it. They may have locks in that memory, of which no call tells, as those of a database server do. What
    orders the tasks of a manager is the manager's."""
    table, bursts = inputs.m.processes, inputs.m.bursts
    found = np.full(len(inputs.tasks), -1, dtype=np.int64)
    mapped = ((bursts["dir"] == WRITE) & (bursts["mapped_bytes"] > 0)).to_numpy()
    if not mapped.any() or "argv" not in table:
        return found
    place = {key: at for at, key in enumerate(keys(table))}
    row = np.array([place.get(key, -1) for key in keys(inputs.m.who)], dtype=np.int64)
    first = _first_images(table)
    plain = (row >= 0) & (inputs.tasks["task"] == "").to_numpy(dtype=np.bool_)[inputs.of_who]
    found[inputs.of_who[plain]] = first[row[plain]]
    uses = pd.DataFrame({"task": inputs.of_who[bursts["who"].to_numpy()[mapped]], "file": bursts["file"][mapped]})
    uses = uses.assign(family=found[uses["task"].to_numpy()]).drop_duplicates()
    users = uses[uses["family"] >= 0].groupby(["family", "file"]).size()
    share = users.index.get_level_values("family")[users.to_numpy() > 1]
    return np.where(np.isin(found, share), found, -1)


def _first_images(table: pd.DataFrame) -> Ints:
    """Of each process (row of `Run.processes`) the first one above it with the same program and arguments: the parent
    of which it is a copy, or that one's."""
    images = [(exe, str(argv)) for exe, argv in zip(table["exe"], table["argv"], strict=True)]
    above = np.arange(len(table))
    hosts, pids, makers = table["host"].tolist(), table["pid"].tolist(), table["ppid"].tolist()
    last: dict[tuple[str, int], int] = {}  # by time: the latest process of each number
    for at in np.argsort(table["t0_ns"].to_numpy(), kind="stable").tolist():
        maker = last.get((hosts[at], makers[at]), -1)
        if maker >= 0 and images[maker] == images[at]:
            above[at] = above[maker]
        last[hosts[at], pids[at]] = at
    return above


def _ranks(inputs: Inputs) -> Objects:
    """The rank of each task that is a process, "" for others."""
    found = np.full(len(inputs.tasks), "", dtype=object)
    found[inputs.of_who] = ranks_of(inputs)
    found[(inputs.tasks["task"] != "").to_numpy(dtype=np.bool_)] = ""
    return found
