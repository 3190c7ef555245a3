"""Commands that failed and were run again, where no workflow manager says so: GNU parallel --retries, `until COMMAND`,
`COMMAND || COMMAND`, make -k and make.

    processes (argv, cwd, end), forks, bursts --retries()--> Retry
    events of the process in which it began   --last_failed_call()--> the call, and its error

A try is a process with all that it made. The next one is of the same parent and task, has the same arguments and
directory, and began when it was over. Both worked on the same: what the failed one read, the next one reads, and nobody
wrote it in between; what the failed one left, the next one writes anew.

Invariants: what looks whether something is there or true is no try: it moves no data, ends with the exit code 1 of grep
or test, or finds other bytes the next time. Nor is what other processes fed: the input may have been another one.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table, file_classes
from tailrace.analyzer.insights import failures
from tailrace.analyzer.insights.inputs import FLOOR_BYTES, Inputs
from tailrace.analyzer.model import calls, outcomes
from tailrace.analyzer.store import processes
from tailrace.analyzer.store.loader import Part

UNLIKELY = frozenset({errno.ESPIPE, errno.ENOTTY, errno.EAGAIN, errno.EINTR, errno.EINPROGRESS})
"""How calls fail for which no program ends."""


class Retry(NamedTuple):
    """Processes (positions in `Inputs.lives`) that failed, in order; origin: the one below the first, or itself, in
    which it began; processes: all tries, also the one that succeeded then, with what is below them."""

    failed: tuple[int, ...]
    origin: int
    processes: tuple[int, ...]


class FailedCall(NamedTuple):
    name: str
    path: str
    errno: int


class _Use(NamedTuple):
    """What a try read that it had not written (file -> bytes), the paths of what it wrote, how much it moved, and
    whether others fed it."""

    reads: dict[int, int]
    writes: frozenset[str]
    bytes: int
    fed: bool


def retries(inputs: Inputs) -> list[Retry]:
    """The commands of a run that were run again after they had failed, by begin."""
    return [] if "signal" not in inputs.m.processes else _Tries(inputs).found()


class _Tries:
    def __init__(self, inputs: Inputs) -> None:
        self.inputs, self.m, self.lives = inputs, inputs.m, inputs.lives
        self.ends = inputs.ends
        self.keys = processes.keys(self.m.who.iloc[[of[0] for of in self.lives.actors]])
        self.uses: dict[int, _Use] = {}

    def found(self) -> list[Retry]:
        """As `retries`."""
        if not ((self.ends.code != 0) | (self.ends.signal != 0)).any():
            return []
        self.below: dict[int, list[int]] = {}
        for process, parent in enumerate(self.inputs.order.shared_files.parents.tolist()):
            self.below.setdefault(parent, []).append(process)
        families = [family for family in self._families() if any(self._failed(process) for process in family)]
        if not families:
            return []
        self._read_bursts({one for family in families for process in family for one in self._tree(process)})
        rows = [retry for family in families for retry in self._of(family)]
        return sorted(rows, key=lambda row: int(self.lives.begun[row.failed[0]]))

    def _families(self) -> Iterator[list[int]]:
        """The processes of one parent with the same arguments and directory, of one task, by begin; several."""
        table, lines = self.m.processes, self.m.command_lines
        cwd = dict(zip(processes.keys(table), map(str, table["cwd"]), strict=True)) if "cwd" in table else {}
        told = self.inputs.tables.get("outcomes")
        again = told[told["tries"] > 1] if told is not None and len(told) else None
        declared = set() if again is None else set(outcomes.task_keys(again))
        tags = outcomes.task_keys(self.m.who)
        families: dict[tuple[object, ...], list[int]] = {}
        for parent, children in self.below.items():
            for process in children if parent >= 0 else ():
                actors, key = self.lives.actors[process], self.keys[process]
                mine = {tags[actor] for actor in actors if tags[actor][1]}
                alone = len(mine) < 2 and mine.isdisjoint(declared) and not self.m.of_manager[actors].any()
                if key in lines and alone:
                    families.setdefault((parent, *mine, cwd.get(key), *lines[key]), []).append(process)
        for family in families.values():
            if len(family) > 1:
                yield sorted(family, key=lambda process: int(self.lives.begun[process]))

    def _of(self, family: list[int]) -> Iterator[Retry]:
        failed: list[int] = []
        for process in family:
            if failed and self.lives.begun[process] < self.lives.over[failed[-1]]:
                failed = []
            if self._failed(process):
                failed.append(process)
                continue
            alike = [one for one in failed if self._works_alike(one, process)]
            if alike and self.ends.known[process]:
                every = (one for top in (*alike, process) for one in self._tree(top))
                yield Retry(tuple(alike), self._origin(alike[0]), tuple(every))
            failed = []

    def _failed(self, process: int) -> bool:
        return bool(self.ends.code[process] or self.ends.signal[process])

    def _works_alike(self, failed: int, then: int) -> bool:
        origin = self._origin(failed)
        if failures.is_answer(self.m.program(self.lives.last(origin)), int(self.ends.code[origin])):
            return False
        one, other = self._use(failed), self._use(then)
        if one.fed or other.fed or one.bytes < FLOOR_BYTES or not one.writes <= other.writes:
            return False
        since, until = int(self.lives.begun[failed]), int(self.lives.begun[then])
        mine = {*self._tree(failed)}
        for file in one.reads:
            wrote = self.writers.get(file, ())
            if file not in other.reads or any(
                first < until and last > since for by, first, last in wrote if by not in mine
            ):
                return False
        return bool(one.reads or one.writes)

    def _tree(self, process: int) -> Iterator[int]:
        """The process and all below it; without recursion, since processes may be thousands deep."""
        pending = [process]
        while pending:
            yield (one := pending.pop())
            pending += self.below.get(one, ())

    def _origin(self, process: int) -> int:
        """Of the children that failed the one that ended last, and so on: as `failures.process_faults` has it."""
        while failed := [child for child in self.below.get(process, ()) if self._failed(child)]:
            process = max(failed, key=lambda child: int(self.lives.over[child]))
        return process

    def _read_bursts(self, wanted: set[int]) -> None:
        """Reads what these processes used, and who else wrote that."""
        m = self.m
        rows = m.bursts[m.classed(("data", "stream")) & (m.bursts["bytes"] > 0).to_numpy()]
        rows = rows.assign(process=self.lives.process[rows["who"].to_numpy()])
        rows = rows[rows["file"].isin(rows["file"][rows["process"].isin(wanted)])]
        stream = m.class_of_file[rows["file"].to_numpy()] == file_classes.STREAM
        facts = m.table.facts
        self.gone = set(facts.loc[(facts["what"] == "unlink").to_numpy(), "file"].tolist())
        self.reads: dict[int, dict[int, int]] = {}
        self.writes: dict[int, dict[int, int]] = {}
        self.streams: dict[int, tuple[set[int], set[int]]] = {}
        self.writers: dict[int, list[tuple[int, int, int]]] = {}
        columns = (rows[name].tolist() for name in ("process", "file", "dir", "bytes", "first_ns", "last_ns"))
        for process, file, way, moved, first, last, through in zip(*columns, stream.tolist(), strict=True):
            if through:
                self.streams.setdefault(process, (set(), set()))[way == edge_table.WRITE].add(file)
                continue
            of = (self.writes if way == edge_table.WRITE else self.reads).setdefault(process, {})
            of[file] = of.get(file, 0) + moved
            if way == edge_table.WRITE:
                self.writers.setdefault(file, []).append((process, first, last))

    def _use(self, process: int) -> _Use:
        if process not in self.uses:
            self.uses[process] = self._used_by(process)
        return self.uses[process]

    def _used_by(self, process: int) -> _Use:
        reads: dict[int, int] = {}
        writes: dict[int, int] = {}
        taken: set[int] = set()
        given: set[int] = set()
        for one in self._tree(process):
            for of, into in ((self.reads, reads), (self.writes, writes)):
                for file, moved in of.get(one, {}).items():
                    into[file] = into.get(file, 0) + moved
            got, gave = self.streams.get(one, (set(), set()))
            taken |= got
            given |= gave
        kept = frozenset(str(self.m.paths[file]) for file in writes if file not in self.gone)
        read = {file: moved for file, moved in reads.items() if file not in writes}
        return _Use(read, kept, sum(read.values()) + sum(writes.values()), not taken <= given)


def last_failed_call(inputs: Inputs, process: int) -> FailedCall | None:
    """The last call of a process (a position in `Inputs.lives`) on a file of data, or one that is not there, that
    failed; None without one, and where events can't be read again."""
    if inputs.run is None:
        return None
    who = inputs.lives.process == process
    rows = calls.events(inputs.run, inputs.m, who, ["ts", "name", "path", "path2", "errno"], _failed_of_part)
    if not len(rows):
        return None
    last = rows.iloc[int(rows["ts"].to_numpy().argmax())]
    other = last["path2"] if isinstance(last["path2"], str) and last["path2"] else ""
    return FailedCall(str(last["name"]), str(other or last["path"]), int(last["errno"]))


def _failed_of_part(part: Part) -> pd.DataFrame:
    frame = part()
    reason = frame["errno"].fillna(0)
    failed = frame[(reason.gt(0) & ~reason.isin(UNLIKELY) & frame["path"].notna()).to_numpy(dtype=np.bool_)]
    texts = (*edge_table.WHO, "name", "path", "path2")
    rows = failed.assign(**{name: failed[name].astype(object) for name in texts if name != "pid"})
    own = [
        path.startswith("/")
        and not file_classes.SOFTWARE_PATHS.search(path)
        and not file_classes.SYSTEM_PATHS.search(path)
        for path in map(str, rows["path"])
    ]
    return rows[np.array(own, dtype=np.bool_)]
