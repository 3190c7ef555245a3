"""The tree of processes: forks, exits that another process waited for, and files that a child has from its parent.

    starts (processes) + forks, waits (EdgeTable.process_events), by time --> Family of each (host, pid) --> fork, exit

Forks and waits name the child by its pid, and pids are reused: when the kernel's counter wraps, and at the same time in
each pid namespace of a host. So the events of a pid of a host are followed in order: a fork opens a child, whose first
event follows, and a wait closes it. Of two forks by different processes the maker is the one whose pid the child has as
its parent; an orphan gets another parent (pid 1 as a rule). A process that changed its user continues as another one,
where its next program can't write to its trace (processes.py).

Invariants: an ambiguous hand-over is left out. A process begins in the life of its parent; for pid 1 that counts only
where the fork was seen (a traced program may be a container's pid 1). A process that was waited for began after the
waiter, and was over before the wait was.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.edges.identities import raw
from tailrace.analyzer.model import own_time
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.store import processes
from tailrace.analyzer.util.types import Ints

FORK, EXIT = "fork", "exit"
COLUMNS = ["producer", "consumer", "given_ns", "taken_ns", "via"]
_UNKNOWN = -1
Place = tuple[str, int]
"""Host and pid."""
MOST_OPEN = 256
"""Open forks and children of one pid that are kept; past it the oldest are dropped."""


@dataclass(frozen=True)
class Lives:
    """When actors (rows of `who`) and processes were seen. The actors of a process are its contexts, one after the
    other.

    process: of each actor; start, end: when each actor was seen.
    actors: of each process, by start; begun, over: when each process was seen.
    """

    process: Ints
    start: Ints
    end: Ints
    actors: list[list[int]]
    begun: Ints
    over: Ints

    def first(self, process: int) -> int:
        """The actor as which a process began."""
        return self.actors[process][0]

    def last(self, process: int) -> int:
        """The actor of a process that was seen last."""
        if len(self.actors[process]) == 1:
            return self.actors[process][0]
        return max(self.actors[process], key=lambda actor: int(self.end[actor]))

    def at(self, process: int, when: int) -> int:
        """The actor that a process was at a time in its life: the one that began last before it."""
        return [actor for actor in self.actors[process] if self.start[actor] <= when][-1]


def lives_of(m: Model) -> Lives:
    """The lives of a model's actors."""
    start, end = own_time.seen(m)
    process = processes.numbers(m.who)
    actors: list[list[int]] = [[] for _ in range(int(process.max(initial=-1)) + 1)]
    for actor in np.argsort(start, kind="stable").tolist():
        actors[int(process[actor])].append(actor)
    begun = start[[of_process[0] for of_process in actors]]
    over = np.zeros(len(actors), dtype=np.int64)
    np.maximum.at(over, process, end)
    return Lives(process, start, end, actors, begun, over)


@dataclass
class _Child:
    """A process that was not waited for yet; `maker` is the process that made it, or `_UNKNOWN`."""

    process: int
    maker: int


@dataclass
class _Family:
    """The open forks (actor, ns) of one pid of one host, whose child was not seen yet, and its open children."""

    forks: list[tuple[int, int]] = field(default_factory=list)
    children: list[_Child] = field(default_factory=list)


class _Tree:
    """The processes of a model, and the hand-overs between them."""

    def __init__(self, m: Model, lives: Lives) -> None:
        self.m, self.lives = m, lives
        self.process, self.begun, self.over = (of.tolist() for of in (lives.process, lives.begun, lives.over))
        self.rows: list[tuple[int, int, int, int, str]] = []
        """`COLUMNS`, producer and consumer as actors."""
        first = np.array([actors[0] for actors in lives.actors], dtype=np.int64)
        keys = processes.keys(m.who.iloc[first])
        self.place = [(host, pid) for host, pid, _ in keys]
        known = m.processes[m.processes["ppid"].notna()]
        parents = dict(zip(processes.keys(known), known["ppid"].astype(int).tolist(), strict=True))
        self.ppid = [parents.get(key) for key in keys]
        """None: the process is not known to have a parent."""
        ends = known["exit"].isna().tolist() if "exit" in known else [False] * len(known)
        open_ended = {key for key, without in zip(processes.keys(known), ends, strict=True) if without}
        self.open_ended = [key in open_ended for key in keys]
        self.with_pid: dict[tuple[str, int], list[int]] = {}
        for process, place in enumerate(self.place):
            self.with_pid.setdefault(place, []).append(process)

    def follow(self) -> None:
        """Handles the events of all pids by time; of one moment forks, starts, waits in this order."""
        events = self.m.table.process_events
        made = (events["what"] == "fork").to_numpy(dtype=np.bool_)
        hosts = self.m.who["host"].to_numpy(dtype=object)[events["who"].to_numpy(dtype=np.int64)]
        places = [*self.place, *zip(hosts.tolist(), events["pid"].tolist(), strict=True)]
        actors = [*range(len(self.place)), *events["who"].tolist()]
        ns = np.concatenate((self.lives.begun, events["ns"].to_numpy(dtype=np.int64)))
        what = np.concatenate((np.full(len(self.place), 1), np.where(made, 0, 2)))
        handlers = (self._forked, self._born, self._waited)
        families: dict[tuple[str, int], _Family] = {place: _Family() for place in self.with_pid}
        order = np.lexsort((what, ns))
        for at, handler, when in zip(order.tolist(), what[order].tolist(), ns[order].tolist(), strict=True):
            family = families.get(places[at])
            if family is not None:
                handlers[handler](family, actors[at], when)

    def _forked(self, family: _Family, actor: int, ns: int) -> None:
        maker = self.process[actor]
        # A process has one child of a pid at a time: the earlier child was never seen.
        family.forks = [fork for fork in family.forks if self.process[fork[0]] != maker]
        family.children = [child for child in family.children if child.maker != maker]
        family.forks = [*family.forks[-MOST_OPEN:], (actor, ns)]

    def _born(self, family: _Family, process: int, ns: int) -> None:
        forks = [fork for fork in family.forks if self._may_be_parent(self.process[fork[0]], process)]
        before = [child for child in family.children if self._goes_on_as(child, process)]
        maker, first = _UNKNOWN, self.lives.first(process)
        if len(forks) == 1 and not before:
            actor, given = forks[0]
            family.forks.remove(forks[0])
            maker = self.process[actor]
            self._hand_over(actor, first, FORK, given, ns)
        elif len(before) == 1 and not forks:
            image = before[0].process
            self._hand_over(self.lives.last(image), first, FORK, self.over[image], ns)
            before[0].process = process
            return
        elif not forks and not before:
            maker = self._parent_at(process, ns)
        family.children = [*family.children[-MOST_OPEN:], _Child(process, maker)]

    def _may_be_parent(self, maker: int, child: int) -> bool:
        """Whether a fork of `maker` agrees with the child's parent: the maker's pid, or another one after the maker's
        end."""
        ppid = self.ppid[child]
        return ppid in (None, self.place[maker][1]) or self.over[maker] <= self.over[child]

    def _goes_on_as(self, child: _Child, process: int) -> bool:
        """Whether a child without a recorded exit may have executed a program that could not write to its trace."""
        before, over = child.process, self.over
        alone = child.maker == _UNKNOWN or over[child.maker] <= over[process]
        of_it = alone or self.ppid[before] == self.ppid[process]
        return of_it and self.open_ended[before] and over[before] <= self.begun[process]

    def _parent_at(self, process: int, ns: int) -> int:
        """The process with the parent's pid when a process begins, as a fork; `_UNKNOWN` where several have it."""
        ppid = self.ppid[process]
        if ppid is None or ppid <= 1:
            return _UNKNOWN
        there = [
            parent
            for parent in self.with_pid.get((self.place[process][0], ppid), ())
            if self.begun[parent] <= ns <= self.over[parent]
        ]
        if len(there) != 1:
            return _UNKNOWN
        self._hand_over(self.lives.at(there[0], ns), self.lives.first(process), FORK, ns, ns)
        return there[0]

    def _waited(self, family: _Family, actor: int, ns: int) -> None:
        waiter = self.process[actor]
        family.forks = [fork for fork in family.forks if self.process[fork[0]] != waiter]
        fits = [child for child in family.children if child.maker == waiter]
        if not fits:
            fits = [child for child in family.children if self._may_wait(waiter, child, ns)]
        if len(fits) != 1:
            return
        process = fits[0].process
        family.children.remove(fits[0])
        strangers = (child.process for child in family.children if child.maker == _UNKNOWN)
        end = self.over[process]
        if end <= ns and not any(self._goes_on_as(fits[0], stranger) for stranger in strangers):
            self._hand_over(self.lives.last(process), actor, EXIT, end, ns)

    def _may_wait(self, waiter: int, child: _Child, ns: int) -> bool:
        """Whether a process other than the maker may wait for a child: the parent that the child names, or its parent
        after the end of the maker."""
        begun, over = self.begun, self.over
        if child.maker == _UNKNOWN:
            taken = self.ppid[child.process] in (None, self.place[waiter][1])
        else:
            taken = over[child.maker] <= ns
        return taken and begun[waiter] <= begun[child.process] and over[child.process] <= ns

    def _hand_over(self, producer: int, consumer: int, via: str, given_ns: int, taken_ns: int) -> None:
        self.rows.append((producer, consumer, given_ns, taken_ns, via))


def between_actors(m: Model, lives: Lives) -> list[tuple[int, int, int, int, str]]:
    """The forks, and the exits that were waited for: `COLUMNS`, producer and consumer as actors."""
    if "ppid" not in m.processes or not len(m.processes):
        return []
    tree = _Tree(m, lives)
    tree.follow()
    return tree.rows


class Commands:
    """The processes and the forks and waits of each host and pid."""

    def __init__(self, m: Model, lives: Lives) -> None:
        self.lives = lives
        self.with_pid: dict[Place, list[int]] = {}
        first = [actors[0] for actors in lives.actors]
        for process, (host, pid, _) in enumerate(processes.keys(m.who.iloc[first])):
            self.with_pid.setdefault((host, pid), []).append(process)
        events = m.table.process_events
        who = events["who"].to_numpy(dtype=np.int64)
        hosts = m.who["host"].to_numpy(dtype=object)[who].tolist()
        self.events: dict[Place, list[tuple[int, str, int]]] = {}
        of_all = zip(hosts, *(events[name].tolist() for name in ("pid", "ns", "what")), lives.process[who], strict=True)
        for host, pid, ns, what, process in of_all:
            self.events.setdefault((host, pid), []).append((int(ns), str(what), int(process)))

    def traced(self, where: Place, before: int) -> int:
        """The process with a pid that began last before a time; -1 without one."""
        begun = self.lives.begun
        found = [process for process in self.with_pid.get(where, ()) if begun[process] <= before]
        return max(found, key=lambda process: int(begun[process]), default=-1)

    def untraced(self, where: Place, start: int, end: int) -> tuple[int, int, int | None]:
        """Who made the process with a pid last before `start`, when, and when the same one waited for it after `end`;
        (-1, 0, None) where that is not known."""
        events = sorted(self.events.get(where, ()))
        made = [(ns, process) for ns, what, process in events if what == "fork" and ns <= start]
        if not made:
            return -1, 0, None
        made_ns, maker = made[-1]
        after = [(ns, what) for ns, what, process in events if process == maker and ns > made_ns]
        waited = after[0][0] if after and after[0][1] != "fork" and after[0][0] >= end else None
        return maker, made_ns, waited


class SharedFiles:
    """Files that processes inherited open.

    A process that uses a file which it didn't open has the descriptor of the process that made it. Processes that have
    one open file from a common ancestor share its position and its lock (open(2), "open file description"): the kernel
    takes and moves the position in one step for each read and write (write(2)), so two of them never write the same
    bytes, unless they seek. The trace has the position that such a call left, read after it, where another process may
    have moved it on: of bytes that two of them seem to have written both, the offsets are not known.

    Invariants: processes without a common ancestor in the trace share nothing here, since nobody knows who opened their
    files. Files are told apart by their identity alone (edges/identities.py): which use of one a process opened is not
    known of files without accesses.
    """

    def __init__(self, m: Model, lives: Lives, tree: list[tuple[int, int, int, int, str]]) -> None:
        self.parents = np.full(len(lives.actors), _UNKNOWN, dtype=np.int64)
        """The process that made each one, or that it was before it changed its user; -1: none that is known."""
        self.made = lives.begun.copy()
        """When it did (ns): a child inherits what its parent has then, and may begin much later."""
        for producer, consumer, given, _, via in tree:
            if via == FORK:
                self.parents[lives.process[consumer]] = lives.process[producer]
                self.made[lives.process[consumer]] = given
        rows = m.table.patterns
        rows = rows[((rows["dir"] == edge_table.META) & (rows["opens"] > 0)).to_numpy(dtype=np.bool_)]
        process = lives.process[rows["who"].to_numpy(dtype=np.int64)]
        names = [raw(str(name)) for name in m.table.files["file"]]
        self._names = names
        self._opened = {(one, names[file]) for one, file in zip(process.tolist(), rows["file"].tolist(), strict=True)}
        self._chains: dict[tuple[int, str], tuple[int, ...]] = {}

    def is_shared(self, one: int, other: int, file: int) -> bool:
        """Whether two different processes have a file (a code of the model) open from a common ancestor."""
        name = self._names[file]
        return one != other and not set(self._chain(one, name)).isdisjoint(self._chain(other, name))

    def opener(self, process: int, file: str) -> int:
        """The process that opened the file (an identity) that a process uses: itself, or the nearest ancestor; itself
        without one."""
        last = self._chain(process, file)[-1]
        return last if (last, file) in self._opened else process

    def _chain(self, process: int, file: str) -> tuple[int, ...]:
        """The process and its ancestors, up to the first that opened the file itself, and with that one."""
        key = (process, file)
        if key not in self._chains:
            found: dict[int, None] = {}
            while process >= 0 and process not in found:
                found[process] = None
                process = -1 if (process, file) in self._opened else int(self.parents[process])
            self._chains[key] = tuple(found)
        return self._chains[key]
