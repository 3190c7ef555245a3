"""When tasks did nothing but wait in recorded calls: for locks of files, and asleep; and what they looked at meanwhile.

    tasks that slept (busy times) -> their events -> locks, sleeps, look-ups --Waits--> by task

The edge table says how long tasks slept or waited for locks, but not for which file: the events are read again, of
tasks that did so for `SHARE` of the makespan.

    asleep   the time in calls that wait for a time to pass
             that of a shell is the `sleep` that it runs, and its looks are those of the programs that it runs and waits
             for: at a server, or at what their command line names
    locks    the time in calls that waited for a lock; and where a lock was refused, or a lock file was there, asleep
             until the task tried again (SQLite, `flock -n`)

Invariants: a task waits while all of its processes do, or wait for each other; nothing of it goes on. A task of
threads of which another one must have computed for half of that is left out. A run without such events waits nowhere.
"""

from __future__ import annotations

import errno
import os
from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
import pandas as pd

from tailrace import _native
from tailrace.analyzer.edges import channels, edge_table
from tailrace.analyzer.insights.critical import OWN_PARTS
from tailrace.analyzer.insights.inputs import Inputs
from tailrace.analyzer.insights.processors import Processors
from tailrace.analyzer.model import calls
from tailrace.analyzer.model.locks import OF_DESCRIPTION, RELEASE, Locks, callers, of_callers
from tailrace.analyzer.model.process_tree import EXIT, FORK
from tailrace.analyzer.store import processes
from tailrace.analyzer.store.loader import Part
from tailrace.analyzer.util import intervals
from tailrace.analyzer.util.intervals import Intervals
from tailrace.analyzer.util.types import Bools, Ints

SHARE = 0.01
"""Of the makespan: a task that slept for less can't have waited for more."""
MOST_EVENTS = 1_000_000
"""That are read; past it the tasks with most are left out."""
WAITED_NS = 1_000_000
"""From which on a call for a lock has waited, of those whose holder the kernel does not tell (flock, locks of open
file descriptions); a call for another one has where it tells one."""
PASSIVE = 0.9
"""Of a stretch of calls that share a line, from which on it is one wait for a child, a pipe or a socket."""
_OPENS = frozenset("open open64 openat openat64 fopen fopen64".split())
CONNECT, LISTEN = "connect", "listen"
LOOKUPS = _OPENS | frozenset(
    "connect stat stat64 lstat lstat64 fstatat fstatat64 newfstatat statx access faccessat euidaccess eaccess opendir"
    " scandir".split()
)
_MAKES = _OPENS | frozenset("mkdir mkdirat link linkat symlink symlinkat".split())
_REFUSED = (errno.EAGAIN, errno.EACCES)
_COLUMNS = ["name", "path", "file", "ts", "dur", "span", "calls", "errno", "flags", "holder", "at_once"]
_EVENTS = (
    *("who", "kind", "name", "path", "file", "own_path", "first_ns", "last_ns", "in_call_ns", "each_ns"),
    *("errno", "flags", "holder"),
)
LOCK, SLEEP = "lock", "sleep"
_NONE = np.empty((0, 2), dtype=np.int64)


@dataclass(frozen=True)
class LockWait:
    """A task (position in `Inputs.tasks`) that waited for a lock of a file: its path and identity, when (n, 2), in how
    many tries or calls, and the processes (of a host) that the kernel named as holders."""

    task: int
    path: str
    file: str
    times: Ints
    tries: int
    holders: frozenset[tuple[str, int]]

    @property
    def waited_ns(self) -> int:
        """How long it waited."""
        return intervals.total(self.times)


@dataclass(frozen=True)
class Waits:
    """
    events: who (actor), kind (`LOCK`, `SLEEP`, "" of a look-up), name, path (of a connection its other end), file,
        own_path (of a connection both ends), first_ns, last_ns, in_call_ns (less than their difference where it is
        several calls), each_ns (of one call on average), errno (0: none), flags, holder (-1: none), by time.
    helpers: the actor that each other one looked for, itself of most.
    """

    inputs: Inputs
    processors: Processors
    events: pd.DataFrame
    helpers: Ints
    _listens: dict[str, pd.DataFrame] = field(default_factory=dict, repr=False)

    @cached_property
    def task(self) -> Ints:
        """The task of each event."""
        return self.inputs.of_who[self.events["who"].to_numpy(dtype=np.int64)]

    @cached_property
    def of_task(self) -> dict[int, Ints]:
        """Task -> its events (positions), by time."""
        order = np.argsort(self.task, kind="stable")
        found, first = np.unique(self.task[order], return_index=True)
        return dict(zip(found.tolist(), _cut(order, first), strict=True))

    @cached_property
    def asleep(self) -> dict[int, Ints]:
        """Task -> when it did nothing but sleep, (n, 2)."""
        return self._alone((self.events["kind"] == SLEEP).to_numpy(dtype=np.bool_))

    @cached_property
    def written(self) -> pd.DataFrame:
        """When tasks wrote data: task, first_ns, last_ns of each burst."""
        return self._writes("data")

    @cached_property
    def sent(self) -> pd.DataFrame:
        """The same of what they wrote into pipes and sockets."""
        return self._writes("stream")

    def _writes(self, of_class: str) -> pd.DataFrame:
        m, bursts = self.inputs.m, self.inputs.m.table.bursts
        mine = m.classed((of_class,))[: len(bursts)] & (bursts["dir"] == edge_table.WRITE).to_numpy()
        rows: pd.DataFrame = bursts.loc[mine & (bursts["bytes"] > 0).to_numpy(), ["who", "first_ns", "last_ns"]]
        return rows.assign(task=self.inputs.of_who[self.helpers[rows["who"].to_numpy(dtype=np.int64)]])

    @cached_property
    def locks(self) -> list[LockWait]:
        """The waits for locks, the longest first."""
        rows = self.events
        tries = self._tries()
        refused = tries & (rows["errno"] != 0).to_numpy()
        waited = tries & ~refused & (rows["kind"] == LOCK).to_numpy()
        untold = (rows["name"] == calls.FLOCK).to_numpy() | (
            rows["flags"].to_numpy(dtype=np.int64) & OF_DESCRIPTION != 0
        )
        waited &= (rows["holder"] > 0).to_numpy() | (untold & (rows["in_call_ns"] >= WAITED_NS).to_numpy())
        in_calls = self._alone(waited)
        found = []
        for task in np.unique(self.task[waited | refused]).tolist():
            mine = self.of_task[task][tries[self.of_task[task]]]
            alone = (self.asleep.get(task, _NONE), in_calls.get(task, _NONE))
            for path, of_path in rows.iloc[mine].groupby("path", sort=False):
                at = of_path.index.to_numpy(dtype=np.int64)
                wait = self._lock_wait(task, str(path), of_path, (refused[at], waited[at]), alone)
                found += [wait] if len(wait.times) else []
        return sorted(found, key=lambda wait: -wait.waited_ns)

    def _lock_wait(
        self, task: int, path: str, tries: pd.DataFrame, how: tuple[Bools, Bools], alone: tuple[Ints, Ints]
    ) -> LockWait:
        """The wait of a task by its tries to lock a file. how: which were refused, and which waited; alone: when the
        task was asleep, and in such calls."""
        refused, waited = how
        first, last = (tries[name].to_numpy(dtype=np.int64) for name in ("first_ns", "last_ns"))
        between = np.column_stack((last[:-1], first[1:]))[refused[:-1]]
        between = between[between[:, 1] > between[:, 0]]
        asleep = intervals.intersect(between, alone[0])
        blocked = intervals.intersect(np.column_stack((first, last))[waited], alone[1])
        named = tries[(waited | refused) & (tries["holder"] > 0).to_numpy()]
        hosts = self.inputs.m.who["host"].to_numpy(dtype=object)[named["who"].to_numpy(dtype=np.int64)]
        return LockWait(
            task=task,
            path=path,
            file=str(tries["file"].iat[0]),
            times=intervals.united(asleep, blocked),
            tries=int((waited | refused).sum()),
            holders=frozenset(zip(map(str, hosts), named["holder"].tolist(), strict=True)),
        )

    @cached_property
    def held(self) -> Locks:
        """What processes had of the files that tasks waited for, as far as their calls can be read."""
        if self.inputs.run is None or not self.locks:
            return Locks(self.inputs.order)
        lockers = callers(self.inputs.m)
        lockers[_too_many(self.inputs, np.flatnonzero(lockers))] = False
        return of_callers(self.inputs.run, self.inputs.order, lockers)

    def listens(self, address: str) -> pd.DataFrame:
        """The calls of listen of those who answer at an address, or made who does, as in `events`."""
        if address not in self._listens:
            self._listens[address] = _read(self.inputs, self._servers(address), {LISTEN})
        return self._listens[address]

    def _servers(self, address: str) -> Ints:
        inputs, bursts = self.inputs, self.inputs.m.bursts
        answered = (bursts["dir"] == edge_table.WRITE) & bursts["file"].isin(self._files_at.get(address, ()))
        servers = set(inputs.lives.process[bursts["who"].to_numpy()[answered.to_numpy()]].tolist())
        # What listens may leave the answers to processes that it makes.
        parents = inputs.order.shared_files.parents
        for server in [*servers]:
            while (server := int(parents[server])) >= 0 and server not in servers:
                servers.add(server)
        return np.flatnonzero(np.isin(inputs.lives.process, [*servers])).astype(np.int64)

    @cached_property
    def _files_at(self) -> dict[str, list[int]]:
        """Address -> the connections of which it is the own end."""
        aliases, found = self.inputs.m.table.aliases, dict[str, list[int]]()
        for file, path in zip(aliases["file"].tolist(), aliases["path"], strict=True):
            found.setdefault(channels.ends(path)[0], []).append(file)
        return found

    def on_path(self, path: pd.DataFrame, times: dict[int, Ints]) -> dict[int, int]:
        """Task -> how much of its times lies on the critical path (`Critical.path`), ns."""
        pieces = path[path["task"].isin(list(times))]
        out: dict[int, int] = {}
        own = pieces[[*OWN_PARTS]].sum(axis=1)
        for task, high, length in zip(pieces["task"].tolist(), pieces["end_ns"].tolist(), own.tolist(), strict=True):
            piece = np.array([[high - length, high]], dtype=np.int64)
            out[task] = out.get(task, 0) + intervals.total(intervals.intersect(piece, times[task]))
        return {task: ns for task, ns in out.items() if ns > 0}

    def _tries(self) -> Bools:
        """Which events try to get a lock, or to make a name that must not be there."""
        rows = self.events
        flags, failed = rows["flags"].to_numpy(dtype=np.int64), rows["errno"].to_numpy(dtype=np.int64)
        is_lock = (rows["kind"] == LOCK).to_numpy(dtype=np.bool_)
        locks = np.where(failed == 0, (flags > 0) & (flags & RELEASE == 0), np.isin(failed, _REFUSED))
        makes = rows["name"].isin(_MAKES).to_numpy(dtype=np.bool_)
        # Who waits for a name makes it in the end; others are content that it is there (mkdir -p).
        opens = rows["name"].isin(_OPENS).to_numpy(dtype=np.bool_)
        there, made = makes & (failed == errno.EEXIST), makes & (failed == 0) & (~opens | (flags & os.O_EXCL != 0))
        at, name = np.arange(len(rows)), [self.task, rows["path"].to_numpy(dtype=object)]
        first = pd.Series(at, dtype=np.float64).where(there).groupby(name).transform("min")
        last = pd.Series(at, dtype=np.float64).where(made).groupby(name).transform("max")
        makes = (there | made) & ((first < last) & (last >= at)).to_numpy()
        return ((is_lock & locks) | makes) & (rows["path"] != "").to_numpy()

    def _alone(self, pick: Bools) -> dict[int, Ints]:
        """When each task was in calls of these events and in nothing else."""
        inputs = self.inputs
        rows = self.events[pick]
        who, first = rows["who"].to_numpy(dtype=np.int64), rows["first_ns"].to_numpy(dtype=np.int64)
        waits = intervals.make(who, first, first + rows["in_call_ns"].to_numpy(dtype=np.int64))
        if not len(who):
            return {}
        users = np.isin(inputs.of_who, inputs.of_who[np.unique(who)])
        busy = inputs.m.table.busy
        owner, kind = edge_table.owners_and_kinds(busy)
        passive = np.isin(kind, (edge_table.CHILD, *edge_table.STREAMS))
        passive &= (busy.weight >= PASSIVE * (busy.end - busy.start)) & users[owner]
        others = Intervals(*(column[passive] for column in busy._replace(group=owner)))
        still = intervals.union(_both(waits, others))
        actors = np.flatnonzero(users & (inputs.m.sleeps_for == np.arange(len(users)))).astype(np.int64)
        lives = intervals.make(actors, inputs.lives.start[actors], inputs.lives.end[actors])
        awake = _of_tasks(intervals.outside(lives, still), inputs.of_who)
        alone = intervals.outside(_of_tasks(waits, inputs.of_who), awake)
        out: dict[int, Ints] = {}
        used = self.processors.of_task
        spans = (inputs.tasks["end_ns"] - inputs.tasks["start_ns"]).to_numpy(dtype=np.int64)
        found, first = np.unique(alone.group, return_index=True)
        every = np.column_stack((alone.start, alone.end))
        for task, times in zip(found.tolist(), _cut(every, first), strict=True):
            # With several threads one may have waited while another one computed.
            slept = intervals.total(times)
            if slept + used[task] - spans[task] <= slept / 2:
                out[task] = times
        return out


def waits(inputs: Inputs, processors: Processors) -> Waits:
    """The waits of a run's tasks. Reads the events of those that slept, and what they looked at."""
    chosen = _sleepers(inputs)
    chosen = np.setdiff1d(chosen, _too_many(inputs, chosen))
    kinds = _native.time_kinds()
    waited = _read(inputs, chosen, {name for name, kind in kinds.items() if kind in (LOCK, SLEEP)})
    asleep = inputs.m.sleeps_for[waited["who"].to_numpy(dtype=np.int64)]
    waited = waited.assign(who=asleep)
    sleepers, sleeps = np.unique(asleep[(waited["kind"] == SLEEP).to_numpy()], return_counts=True)
    looks = _read(inputs, chosen[np.isin(inputs.of_who[chosen], inputs.of_who[sleepers])], LOOKUPS | _MAKES)
    helpers = _helpers(inputs, set(sleepers[sleeps > 1].tolist()))
    others = np.flatnonzero(helpers != np.arange(len(helpers))).astype(np.int64)
    seen = _named(inputs, _read(inputs, np.setdiff1d(others, _too_many(inputs, others)), LOOKUPS))
    parts = [waited, looks, seen.assign(who=helpers[seen["who"].to_numpy(dtype=np.int64)])]
    rows = pd.concat([one for one in parts if len(one)] or parts[:1], ignore_index=True)
    in_order: pd.DataFrame = rows.sort_values(["first_ns", "last_ns"], kind="stable", ignore_index=True)
    return Waits(inputs, processors, _with_ends(inputs, in_order), helpers)


def _helpers(inputs: Inputs, sleepers: Collection[int]) -> Ints:
    """The actor that each one works for, itself of most: of a program that has another task than who made it, waits for
    it and sleeps (a script's commands, in a run without tags), or of one that it made and waited for, that one. What
    runs beside a sleep is in the background."""
    m, lives = inputs.m, inputs.lives
    slept: dict[int, list[int]] = {}
    for child in np.flatnonzero(m.sleeps_for != np.arange(len(m.who))).tolist():
        insort(slept.setdefault(int(m.sleeps_for[child]), []), int(lives.start[child]))
    found = np.arange(len(m.who), dtype=np.int64)
    made = {consumer: producer for producer, consumer, _, _, via in inputs.order.tree if via == FORK}
    ended = {producer: consumer for producer, consumer, _, _, via in inputs.order.tree if via == EXIT}
    for actor in sorted(made, key=lambda one: int(inputs.lives.start[one])):
        parent = made[actor]
        if inputs.of_who[actor] != inputs.of_who[parent] and ended.get(actor) == parent:
            parent = int(found[parent])
            times = slept.get(parent, [])
            beside = bisect_left(times, lives.end[actor]) > bisect_right(times, lives.start[actor])
            found[actor] = parent if parent in sleepers and not beside else actor
    return found


def _named(inputs: Inputs, rows: pd.DataFrame) -> pd.DataFrame:
    """The look-ups at servers, and those at what the command line of their process names: the last one of each process
    at each."""
    lines, keys = inputs.m.command_lines, processes.keys(inputs.m.who)
    words = {
        who: {word.rstrip("/").rpartition("/")[2] for word in lines.get(keys[who], [])[1:]} for who in {*rows["who"]}
    }
    ends = zip(rows["who"], rows["path"], rows["name"] == CONNECT, strict=True)
    keep = [connects or str(path).rpartition("/")[2] in words[who] for who, path, connects in ends]
    picked: pd.DataFrame = rows[np.array(keep, dtype=np.bool_)].sort_values("first_ns", kind="stable")
    return picked.drop_duplicates(["who", "path"], keep="last")


def _with_ends(inputs: Inputs, rows: pd.DataFrame) -> pd.DataFrame:
    """The events, in which a connection that was only begun (EINPROGRESS) has no error where bytes passed over it."""
    begun = ((rows["name"] == CONNECT) & (rows["errno"] == errno.EINPROGRESS)).to_numpy(dtype=np.bool_)
    if not begun.any():
        return rows
    return rows.assign(errno=np.where(begun & had_bytes(inputs, rows["own_path"]), 0, rows["errno"]))


def had_bytes(inputs: Inputs, connections: Iterable[str]) -> Bools:
    """Whether bytes ever passed over each of these connections (names of both ends)."""
    m = inputs.m
    used = np.zeros(len(m.table.files), dtype=np.bool_)
    used[m.bursts["file"].to_numpy()[(m.bursts["bytes"] > 0).to_numpy()]] = True
    sockets = used & (m.table.files["ftype"] == "sock").to_numpy(dtype=np.bool_)
    aliases = m.table.aliases
    names = {channels.ends(path) for path in aliases["path"][sockets[aliases["file"].to_numpy(dtype=np.int64)]]}
    return np.array([channels.ends(path) in names for path in connections], dtype=np.bool_)


def _read(inputs: Inputs, actors: Ints, names: Collection[str]) -> pd.DataFrame:
    """The events of actors with these names; columns of `Waits.events`."""
    none: pd.DataFrame = pd.DataFrame({name: np.empty(0, dtype=np.int64) for name in _EVENTS})
    if inputs.run is None or not len(actors):
        return none
    mine = np.zeros(len(inputs.m.who), dtype=np.bool_)
    mine[actors] = True
    of_part = partial(_of_part, names=frozenset(names))
    rows = calls.events(inputs.run, inputs.m, mine, _COLUMNS, of_part, name=sorted(names))
    if not len(rows):
        return none
    first = rows["ts"].to_numpy(dtype=np.int64) - calls.ahead_ns(inputs.run, inputs.m)[rows["who"].to_numpy()]
    made = rows.assign(first_ns=first, last_ns=first + rows["length_ns"], in_call_ns=rows["dur"])
    return made[list(_EVENTS)]


def _sleepers(inputs: Inputs) -> Ints:
    """The actors of tasks that were asleep, or in calls for locks, for `SHARE` of the makespan."""
    kinds = (edge_table.SLEEP, edge_table.LOCK)
    slept = intervals.length(edge_table.spent(inputs.busy, kinds), len(inputs.tasks))
    mine = (slept >= SHARE * inputs.makespan_ns) & inputs.works & ~inputs.of_manager
    return np.flatnonzero(mine[inputs.of_who]).astype(np.int64)


def _too_many(inputs: Inputs, actors: Ints) -> Ints:
    """The actors with most events, past `MOST_EVENTS` in all."""
    count = inputs.m.table.counts.groupby("who")["calls"].sum().reindex(actors, fill_value=0).sort_values()
    fits = (count.cumsum() <= MOST_EVENTS).to_numpy(dtype=np.bool_)
    return np.asarray(actors[np.isin(actors, count.index[~fits])], dtype=np.int64)


def _of_part(part: Part, names: Collection[str]) -> pd.DataFrame:
    """The locks, sleeps and look-ups of a partition that have one of these names."""
    frame = part()
    frame = frame[frame["name"].isin(names).to_numpy(dtype=np.bool_)]
    kinds = _native.time_kinds()
    name = frame["name"].astype(str)
    kind = name.map(kinds).fillna("")
    failed = frame["errno"].fillna(0).astype(np.int64)
    # fcntl(2) does more than locks: what locked has flags, what was refused has that reason.
    locked = (kind == LOCK) & (frame["flags"].notna() | failed.isin(_REFUSED))
    slept = (kind == SLEEP) & frame["at_once"].isna()
    keep = locked | slept | (name.isin(LOOKUPS | _MAKES | {LISTEN}) & frame["path"].notna())
    rows = frame[keep.to_numpy(dtype=np.bool_)]
    texts = ("name", "path", "file", *(one for one in edge_table.WHO if one != "pid"))
    plain = {one: rows[one].astype(object).where(rows[one].notna(), "") for one in texts}
    connects = (rows["name"] == CONNECT).to_numpy(dtype=np.bool_)
    plain["own_path"] = plain["path"].where(connects, "")
    plain["path"] = plain["path"].mask(connects, plain["path"][connects].map(channels.peer_address))
    numbers = {one: rows[one].fillna(-1).astype(np.int64) for one in ("flags", "holder")}
    return rows[["ts", "dur", "pid"]].assign(
        **plain,
        **numbers,
        errno=rows["errno"].fillna(0).astype(np.int64),
        each_ns=rows["dur"] // rows["calls"].fillna(1).clip(lower=1).astype(np.int64),
        length_ns=rows["span"].fillna(rows["dur"]).astype(np.int64),
        kind=np.select([locked[rows.index], slept[rows.index]], [LOCK, SLEEP], ""),
    )


def _of_tasks(rows: Intervals, of_who: Ints) -> Intervals:
    return intervals.union(rows._replace(group=of_who[rows.group]))


def _cut(rows: Ints, first: Ints) -> list[Ints]:
    """Rows cut where each group begins."""
    return np.split(rows, first[1:]) if len(first) else []


def _both(one: Intervals, other: Intervals) -> Intervals:
    return Intervals(*(np.concatenate(columns) for columns in zip(one, other, strict=True)))
