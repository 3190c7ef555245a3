"""Random programs whose processes access the same bytes, with and without synchronization, and the truth about them.

    Program(seed) --run by WORKER, traced--> a log of each process: when each step began and ended --Truth--> races

The generator knows what it synchronized: forks and waits, messages through pipes, and locks of all kinds. Vector clocks
over the logged steps tell which accesses are ordered, a set of held locks for each access which are kept apart, and the
bytes are compared one by one.

Invariants: a process holds one lock at a time and waits for no message meanwhile, and messages are sent in one order of
all steps, so no program hangs.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

Step = list[Any]
Process = int
Bytes = set[int]

LOCKS = ("flock", "fcntl", "ofd", "shared", "excl", "mkdir", "link")
SIZE = 60
"""Bytes of each file that are accessed."""

WORKER = r"""
import fcntl, json, os, struct, sys, time
plan, folder = json.load(open(sys.argv[1])), sys.argv[2]
files = {}

def opened(name, flags):
    key = (name, flags)
    if key not in files:
        files[key] = os.open(os.path.join(folder, name), flags | os.O_CREAT, 0o644)
    return files[key]

def lock(kind, name, low, size):
    path = os.path.join(folder, name)
    if kind == "flock":
        file = os.open(path, os.O_RDWR | os.O_CREAT)
        fcntl.flock(file, fcntl.LOCK_EX)
        return lambda: os.close(file)
    if kind in ("fcntl", "shared"):
        file = opened(name, os.O_RDWR)
        fcntl.lockf(file, fcntl.LOCK_SH if kind == "shared" else fcntl.LOCK_EX, size, low)
        return lambda: fcntl.lockf(file, fcntl.LOCK_UN, size, low)
    if kind == "ofd":
        file = os.open(path, os.O_RDWR | os.O_CREAT)
        fcntl.fcntl(file, 38, struct.pack("hhqqi", fcntl.F_WRLCK, 0, low, size, 0))
        return lambda: os.close(file)
    mine = f"{path}.{os.getpid()}"
    if kind == "link":
        os.close(os.open(mine, os.O_CREAT | os.O_WRONLY))
    while True:
        try:
            if kind == "excl":
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            elif kind == "mkdir":
                os.mkdir(path)
            else:
                os.link(mine, path)
            break
        except FileExistsError:
            time.sleep(0.0005)
    return lambda: os.rmdir(path) if kind == "mkdir" else os.unlink(path)

def run(number):
    log, release, children = [], None, {}
    for step in plan["steps"][number]:
        begin = time.time_ns()
        what = step[0]
        if what == "write":
            os.pwrite(opened(step[1], os.O_RDWR), b"x" * step[3], step[2])
        elif what == "read":
            os.pread(opened(step[1], os.O_RDWR), step[3], step[2])
        elif what == "append":
            os.write(opened(step[1], os.O_WRONLY | os.O_APPEND), b"y" * step[2])
        elif what == "records":
            for at in step[2]:
                os.pwrite(opened(step[1], os.O_RDWR), b"r" * step[3], at)
        elif what == "lock":
            release = lock(*step[1:])
        elif what == "unlock":
            release()
        elif what == "send":
            os.write(plan["pipes"][step[1]][1], b"m" * step[2])
        elif what == "receive":
            left = step[2]
            while left:
                left -= len(os.read(plan["pipes"][step[1]][0], left))
        elif what == "fork":
            child = os.fork()
            if child == 0:
                files.clear()
                run(step[1])
                os._exit(0)
            children[step[1]] = child
        elif what == "wait":
            os.waitpid(children[step[1]], 0)
        elif what == "sleep":
            time.sleep(step[1])
        log.append([begin, time.time_ns()])
    with open(os.path.join(plan["logs"], f"{number}.json"), "w") as out:
        json.dump({"pid": os.getpid(), "log": log}, out)

run(int(sys.argv[3]))
"""

DRIVER = r"""
import json, os, subprocess, sys
plan = json.load(open(sys.argv[1]))
plan["pipes"] = [os.pipe() for _ in range(plan["pipes"])]
json.dump(plan, open(sys.argv[1], "w"))
ends = [end for pipe in plan["pipes"] for end in pipe]
running = [subprocess.Popen([*plan["prefix"][n], sys.executable, sys.argv[2], sys.argv[1], sys.argv[3], str(n)],
                            pass_fds=ends) for n in plan["first"]]
sys.exit(any([process.wait() for process in running]))
"""


class Program:
    """The steps of each process. tagged: each is a task, and none has children, whose steps a task's order would cover.

    A third of the accesses lie in locks, of which some are not the lock of their bytes.
    """

    def __init__(self, seed: int, tagged: bool) -> None:
        self.random, self.tagged = random.Random(seed), tagged
        self.steps: dict[Process, list[Step]] = {n: [] for n in range(self.random.randint(2, 4))}
        self.first = list(self.steps)
        self.pipes: dict[tuple[Process, Process], int] = {}
        self.open: dict[Process, list[Process]] = {n: [] for n in self.steps}
        self.files = [f"f{n}" for n in range(self.random.randint(1, 3))]
        self.locks = [(self.random.choice(LOCKS), f"l{n}") for n in range(self.random.randint(1, 3))]
        for _ in range(self.random.randint(10, 60)):
            self._add(self.random.choice(list(self.open)))
        for mine in self.first:
            self._end(mine)

    def _end(self, process: Process) -> None:
        """The process waits for its children, and does nothing more."""
        for child in self.open.pop(process):
            self._end(child)
            self.steps[process].append(["wait", child])

    def _add(self, mine: Process) -> None:
        pick = self.random.random()
        steps = self.steps[mine]
        if pick < 0.35:
            steps.append(self._access())
        elif pick < 0.65:
            kind, name = self.random.choice(self.locks)
            low, size = (
                self.random.choice(((0, 0), (0, 10), (10, 10))) if kind in ("fcntl", "ofd", "shared") else (0, 0)
            )
            inside = [self._access() for _ in range(self.random.randint(1, 3))]
            steps += [["lock", kind, name, low, size], *inside, ["unlock"]]
        elif pick < 0.8 and len(self.open) > 1:
            other = self.random.choice([n for n in self.open if n != mine])
            pipe = self.pipes.setdefault((mine, other), len(self.pipes))
            size = self.random.randint(1, 9)
            steps.append(["send", pipe, size])
            self.steps[other].append(["receive", pipe, size])
        elif pick < 0.9 and not self.tagged and len(self.steps) < 8:
            child = len(self.steps)
            self.steps[child], self.open[child] = [], []
            steps.append(["fork", child])
            self.open[mine].append(child)
        elif self.open[mine]:
            child = self.open[mine].pop()
            self._end(child)
            steps.append(["wait", child])
        else:
            steps.append(["sleep", self.random.random() / 300])

    def _access(self) -> Step:
        file = self.random.choice(self.files)
        kind = self.random.choice(("write", "write", "write", "read", "read", "append", "records"))
        if kind == "append":
            return ["append", f"log-{file}", self.random.randint(1, 9)]
        if kind == "records":
            return self._records()
        size = self.random.randint(1, 8)
        return [kind, file, self.random.randrange(SIZE - size), size]

    def _records(self) -> Step:
        """Records that lie between those of others: more than a burst of the edge table has ranges. One such step of
        ten writes a byte too many."""
        place, several = self.random.randrange(5), self.random.randint(65, 200)
        at = [(number * 5 + place) * 4 for number in range(several)]
        return ["records", "records", at, 4 + (self.random.random() < 0.1)]

    def plan(self, logs: Path, prefix: dict[Process, list[str]]) -> str:
        """What `DRIVER` and `WORKER` take."""
        first = [prefix.get(n, []) for n in self.first]
        steps = [self.steps[n] for n in self.steps]
        return json.dumps(
            {"steps": steps, "pipes": len(self.pipes), "first": self.first, "prefix": first, "logs": str(logs)}
        )


@dataclass
class Access:
    """A read or write, when it was at the earliest and the latest, and what is known to have happened before it."""

    process: Process
    file: str
    write: bool
    bytes: Bytes
    begin_ns: int
    end_ns: int
    lock: tuple[Any, ...] | None
    clock: dict[Process, int] = field(default_factory=dict)
    loose_clock: dict[Process, int] = field(default_factory=dict)
    """The same with the order in which locks were had, which is another one in another run."""
    number: int = 0

    def before(self, other: Access, loosely: bool) -> bool:
        clock = other.loose_clock if loosely else other.clock
        return clock.get(self.process, -1) >= self.number


class Truth:
    """The races of a program that ran: (file, two processes) -> bytes; `sure` must be reported, `possible` may be."""

    def __init__(self, program: Program, logs: Path) -> None:
        self.program = program
        found = {n: json.loads((logs / f"{n}.json").read_text()) for n in program.steps}
        self.pids = {n: int(one["pid"]) for n, one in found.items()}
        self.log: dict[Process, list[list[int]]] = {n: one["log"] for n, one in found.items()}
        self.accesses = list(self._accesses())
        self._clocks()
        self.sure: dict[tuple[str, Process, Process], Bytes] = {}
        self.possible: dict[tuple[str, Process, Process], Bytes] = {}
        for one, other in combinations(self.accesses, 2):
            self._compare(one, other)

    def _accesses(self) -> Iterator[Access]:
        for process, steps in self.program.steps.items():
            lock = None
            for number, (step, (begin, end)) in enumerate(zip(steps, self.log[process], strict=True)):
                if step[0] == "lock":
                    lock = (*step[1:], number)
                elif step[0] == "unlock":
                    lock = None
                elif step[0] in ("write", "read", "records"):
                    places = step[2] if step[0] == "records" else [step[2]]
                    covered = {byte for at in places for byte in range(at, at + step[3])}
                    yield Access(process, step[1], step[0] != "read", covered, begin, end, lock, number=number)

    def _compare(self, one: Access, other: Access) -> None:
        both = one.bytes & other.bytes
        if one.process == other.process or one.file != other.file or not both or not (one.write or other.write):
            return
        if excludes(one.lock, other.lock) or one.before(other, False) or other.before(one, False):
            return
        key = (one.file, *sorted((one.process, other.process)))
        if not (one.write and other.write):
            read, write = (one, other) if other.write else (other, one)
            if read.begin_ns > write.end_ns:
                return  # it read what was written
            sure = read.end_ns < write.begin_ns
        else:
            sure = True
        again = any(
            a.process == r.process
            and not a.write
            and a.file == r.file
            and a.begin_ns >= r.begin_ns
            and both <= a.bytes
            and excludes(a.lock, w.lock)
            for r, w in ((one, other), (other, one))
            if not r.write
            for a in self.accesses
        )
        loosely = one.before(other, True) or other.before(one, True)
        self.possible.setdefault(key, set()).update(both)
        if sure and not loosely and not again:
            self.sure.setdefault(key, set()).update(both)

    def _clocks(self) -> None:
        """Vector clocks of all steps, in the order in which they were over for others."""
        program, gives = self.program, ("unlock", "fork", "send")
        steps = [
            (begin if program.steps[process][number][0] in gives else end, process, number)
            for process, log in self.log.items()
            for number, (begin, end) in enumerate(log)
        ]
        by_place = {(a.process, a.number): a for a in self.accesses}
        clocks: tuple[dict[Process, dict[Process, int]], ...] = ({n: {} for n in self.log}, {n: {} for n in self.log})
        sent: dict[int, list[tuple[int, Process, int]]] = {}
        for process, mine in program.steps.items():
            total: dict[int, int] = {}
            for number, step in enumerate(mine):
                if step[0] == "send":
                    total[step[1]] = total.get(step[1], 0) + step[2]
                    sent.setdefault(step[1], []).append((total[step[1]], process, number))
        got: dict[int, int] = {}
        done: list[dict[tuple[Process, int], dict[Process, int]]] = [{}, {}]
        released: dict[tuple[str, str], list[tuple[tuple[Any, ...], dict[Process, int]]]] = {}
        maker = {
            step[1]: (p, n) for p, mine in program.steps.items() for n, step in enumerate(mine) if step[0] == "fork"
        }
        held: dict[Process, tuple[Any, ...] | None] = dict.fromkeys(self.log)
        for _, process, number in sorted(steps, key=lambda s: (s[0], s[1])):
            step = program.steps[process][number]
            for loose, clock in enumerate(clocks):
                now = clock[process]
                if number == 0 and process in maker:
                    parent, at = maker[process]
                    join(now, done[loose][parent, at])
                if step[0] == "receive":
                    upto = got.get(step[1], 0) + step[2]
                    for total, sender, at in sent[step[1]]:
                        join(now, done[loose][sender, at])
                        if total >= upto:
                            break
                    if loose:
                        got[step[1]] = upto
                if step[0] == "wait":
                    last = len(self.log[step[1]]) - 1
                    join(now, done[loose].get((step[1], last), {}))
                if loose and step[0] == "lock":
                    for lock, before in released.get((step[1], step[2]), ()):
                        if excludes(lock, (*step[1:], number)):
                            join(now, before)
                now[process] = number
                done[loose][process, number] = dict(now)
                if loose and step[0] == "unlock" and held[process]:
                    lock = held[process]
                    assert lock is not None
                    released.setdefault((lock[0], lock[1]), []).append((lock, dict(now)))
                if (access := by_place.get((process, number))) is not None:
                    if loose:
                        access.loose_clock = dict(now)
                    else:
                        access.clock = dict(now)
            if step[0] == "lock":
                held[process] = (*step[1:], number)
            elif step[0] == "unlock":
                held[process] = None


def join(clock: dict[Process, int], other: dict[Process, int]) -> None:
    """Takes over what another process knew."""
    for process, number in other.items():
        clock[process] = max(clock.get(process, -1), number)


def excludes(one: tuple[Any, ...] | None, other: tuple[Any, ...] | None) -> bool:
    """Whether two processes can't have these locks (kind, name, low, size, step) at a time."""
    if one is None or other is None or one[1] != other[1]:
        return False
    ranges = {"fcntl", "ofd", "shared"}
    if one[0] == "shared" and other[0] == "shared":
        return False
    if not (one[0] == other[0] or {one[0], other[0]} <= ranges):
        return False
    (a, n), (b, k) = one[2:4], other[2:4]
    return (n == 0 or b < a + n) and (k == 0 or a < b + k)
