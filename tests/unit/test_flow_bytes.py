"""Flows against a model that keeps the writer of every byte: random programs of tasks that write, append, truncate,
punch, collapse, insert, map, copy and read one file, one call after the other or at the same time.

What is called exact must be the model's. Where nothing is uncertain, all of it must be there and exact.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from support.flowcase import MS, T0_NS, Story
from tailrace.analyzer.edges import edge_table
from tailrace.analyzer.model import dataflow

PUNCH, COLLAPSE, ZERO, INSERT, KEEP = 0x02, 0x08, 0x10, 0x20, 0x01
NOBODY = "nobody"
Flows = dict[tuple[str, str], int]


@dataclass
class Bytes:
    """A file as the kernel has it: the writer of each byte."""

    owners: list[str]

    def write(self, who: str, start: int, size: int) -> None:
        self.grow(start + size)
        self.owners[start : start + size] = [who] * size

    def grow(self, size: int) -> None:
        self.owners += [NOBODY] * (size - len(self.owners))

    def truncate(self, size: int) -> int:
        cut = max(len(self.owners) - size, 0)
        del self.owners[size:]
        self.grow(size)
        return cut

    def zero(self, start: int, size: int, keep: bool) -> None:
        if not keep:
            self.grow(start + size)
        end = min(start + size, len(self.owners))
        self.owners[start:end] = [NOBODY] * max(end - start, 0)


@dataclass
class Program:
    """Calls of tasks on one file, and what each task read of whom. `certain`: as long as nothing was done that leaves
    open whose a byte is."""

    seed: int
    made: bool
    overlaps: bool
    story: Story = field(default_factory=Story)
    reads: Flows = field(default_factory=dict)
    certain: bool = True

    def run(self, turns: int, kinds: str) -> Program:
        r = self.random = random.Random(self.seed)
        self.now_ms = 0.0
        self.path = "/f"
        born = T0_NS if self.made else T0_NS - 10**15
        self.story.identities[self.path] = f"n1:8:1:5:{born}"
        self.bytes = Bytes([] if self.made else [dataflow.BEFORE_RUN] * 20)
        if self.made:
            self.call("openat", "t0", flags=0o101)
        for _ in range(turns):
            who = f"t{r.randint(0, 3)}"
            for _ in range(r.randint(1, 3)):
                getattr(self, r.choice(kinds.split()))(who)
        for who in ("last", "again"):
            self.read(who, whole=True)
        return self

    def call(self, name: str, who: str, **values: Any) -> None:
        # Calls lie 1 ms apart, so that they are bursts of their own; or each lasts into the next one.
        self.now_ms += 1
        long = self.overlaps and self.random.random() < 0.3
        dur = round((1.5 if long else 0.2) * MS)
        self.certain &= not long
        at_ms = self.now_ms if not long else self.now_ms - 0.6
        self.story.event(name, self.path, at_ms=at_ms, task=who, dur=dur, **values)

    def place(self) -> tuple[int, int]:
        return self.random.randint(0, len(self.bytes.owners)), self.random.randint(1, 12)

    def write(self, who: str) -> None:
        start, size = self.place()
        self.call("pwrite", who, dir="w", offset=start, size=size, count=size)
        self.bytes.write(who, start, size)

    def beyond(self, who: str) -> None:
        start, size = len(self.bytes.owners) + self.random.randint(0, 9), self.random.randint(1, 9)
        self.call("pwrite", who, dir="w", offset=start, size=size, count=size)
        self.bytes.write(who, start, size)

    def append(self, who: str) -> None:
        start, size = len(self.bytes.owners), self.random.randint(1, 12)
        self.call("write", who, dir="w", offset=start, size=size, count=size)
        self.bytes.write(who, start, size)

    def loose(self, who: str) -> None:
        size = self.random.randint(1, 12)
        self.call("fprintf", who, dir="w", size=size, count=size)
        self.bytes.write(who, len(self.bytes.owners), size)
        self.certain = False

    def copy(self, who: str) -> None:
        start, size = self.place()
        values = {"dir": "rw", "path2": self.path, "file2": self.story.identity(self.path), "ret": size}
        self.now_ms += 1
        source = self.story.identity("/other")
        self.story.event(
            "copy_file_range",
            "/other",
            at_ms=self.now_ms,
            task=who,
            dur=MS // 5,
            offset=0,
            offset2=start,
            size=size,
            count=size,
            file=source,
            **values,
        )
        self.bytes.write(who, start, size)

    def truncate(self, who: str) -> None:
        size = self.random.randint(1, len(self.bytes.owners) + 8)
        cut = max(len(self.bytes.owners) - size, 0)
        self.call("ftruncate", who, offset=size, count=cut)
        self.bytes.truncate(size)

    def empty(self, who: str) -> None:
        self.call("openat", who, flags=0o1001)
        self.bytes.owners = []

    def punch(self, who: str) -> None:
        start, size = self.place()
        self.call("fallocate", who, offset=start, count=size, flags=PUNCH | KEEP)
        self.bytes.zero(start, size, keep=True)

    def zero(self, who: str) -> None:
        start, size = self.place()
        self.call("fallocate", who, offset=start, count=size, flags=ZERO)
        self.bytes.zero(start, size, keep=False)

    def collapse(self, who: str) -> None:
        if len(self.bytes.owners) < 3:
            return
        start = self.random.randint(0, len(self.bytes.owners) - 2)
        size = self.random.randint(1, len(self.bytes.owners) - start - 1)
        self.call("fallocate", who, offset=start, count=size, flags=COLLAPSE)
        del self.bytes.owners[start : start + size]

    def insert(self, who: str) -> None:
        if not self.bytes.owners:
            return
        start, size = self.random.randint(0, len(self.bytes.owners) - 1), self.random.randint(1, 9)
        self.call("fallocate", who, offset=start, count=size, flags=INSERT)
        self.bytes.owners[start:start] = [NOBODY] * size

    def store(self, who: str) -> None:
        """A store through a mapping, which is of all or of some of it."""
        start, size = self.place()
        size = min(size, len(self.bytes.owners) - start)
        if size < 1:
            return
        self.call("munmap", who, cat="MMAP", prot=3, flags=1, offset=start, count=size)
        owners, stored = self.bytes.owners, self.random.randint(0, size)
        # Zeros that it left alone count as its own.
        for at in range(start, start + size):
            if at < start + stored or owners[at] == NOBODY:
                owners[at] = who
        self.certain = False

    def read(self, who: str, whole: bool = False) -> None:
        start, size = (0, len(self.bytes.owners)) if whole else self.place()
        owners = self.bytes.owners[start : start + size]
        self.call("pread", who, dir="r", offset=start, size=len(owners), count=max(size, 1))
        for owner in owners:
            if owner not in (who, NOBODY):
                self.reads[owner, who] = self.reads.get((owner, who), 0) + 1


def found(program: Program, partitions: int) -> tuple[Flows, set[tuple[str, str]], set[str]]:
    """The flows of the file, those of them that are exact, and the readers of whom some bytes may be another's."""
    m = dataflow.model(program.story.run(partitions))
    labels = [*dataflow.activities(m, "task")[1]["label"], dataflow.BEFORE_RUN]
    flows: Flows = {}
    inexact = set()
    for row in dataflow.flow_table(m, "task").itertuples():
        pair = (labels[row.producer], labels[row.consumer])
        if m.paths[row.file] != program.path or not row.bytes:
            continue
        flows[pair] = flows.get(pair, 0) + row.bytes
        if not row.exact:
            inexact.add(pair)
    every = dataflow.attributed(m, "task")
    return flows, set(flows) - inexact, {labels[reader] for reader in every["consumer"][~every["exact"]]}


SURE = "write beyond append copy truncate empty punch zero collapse insert read read read"


def of_the_run(flows: Flows) -> Flows:
    """Without bytes from before the run: how many the file had then is not recorded, so that a hole behind them counts
    as some."""
    return {pair: count for pair, count in flows.items() if pair[0] != dataflow.BEFORE_RUN}


def check_exact(program: Program, partitions: int) -> None:
    """What is exact is not too much; and all there is where all of a reader's is exact."""
    flows, exact, doubtful = found(program, partitions)
    shown = of_the_run({pair: flows[pair] for pair in exact})
    wanted = of_the_run(program.reads)
    assert {pair for pair, count in shown.items() if count > wanted.get(pair, 0)} == set()
    whole = {pair: count for pair, count in wanted.items() if pair[1] not in doubtful}
    assert {pair: count for pair, count in shown.items() if pair[1] not in doubtful} == whole


PROGRAMS = (st.integers(0, 10**6), st.booleans(), st.integers(1, 3))


@settings(max_examples=40, deadline=None)
@given(*PROGRAMS)
def test_bytes_of_calls_in_turn_are_their_writers_and_exact(seed: int, made: bool, partitions: int) -> None:
    program = Program(seed, made, overlaps=False).run(12, SURE)
    flows, exact, doubtful = found(program, partitions)
    assert program.certain
    assert not doubtful
    assert of_the_run(flows) == of_the_run(program.reads)
    assert exact == set(flows)


@settings(max_examples=40, deadline=None)
@given(*PROGRAMS)
def test_what_is_exact_is_right_whatever_is_unknown(seed: int, made: bool, partitions: int) -> None:
    check_exact(Program(seed, made, overlaps=False).run(10, f"{SURE} loose store"), partitions)


@settings(max_examples=40, deadline=None)
@given(*PROGRAMS)
def test_what_is_exact_is_right_where_calls_overlap(seed: int, made: bool, partitions: int) -> None:
    check_exact(Program(seed, made, overlaps=True).run(10, SURE), partitions)


@settings(max_examples=100, deadline=None)
@given(*PROGRAMS)
def test_what_is_exact_is_right_past_all_limits(seed: int, made: bool, partitions: int) -> None:
    with mock.patch.multiple(edge_table, MAX_BURSTS=2, MAX_EXTENTS=2, MAX_CUTS=2):
        check_exact(Program(seed, made, overlaps=False).run(14, SURE), partitions)
