"""Which blocks of a run can hold matching events, how many match by their headers, and blocks cut into partitions.

    Where -> blocks(catalogue) -> cut() -> partitions, which loader.py reads

Invariants: a block is skipped only when its header rules it out; nothing here reads an event.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tailrace.analyzer.store import engine, schema
from tailrace.analyzer.store.catalogue import Catalogue
from tailrace.analyzer.store.conditions import Where, all_plain, fits
from tailrace.analyzer.store.processes import PROCESS
from tailrace.analyzer.util.types import SqlValue

PARTITION_RAW_BYTES = 96 << 20
"""Raw JSON in a partition, about 350,000 events."""
SMALLEST_RAW_BYTES = 8 << 20
"""The smallest partitions that are made to give every core one."""
_EVENT_BYTES = 128
"""No event of the core has a shorter line."""


@dataclass(frozen=True)
class FilePart:
    """Blocks of one trace file, as (offset, member bytes), and the events of each."""

    path: str
    places: tuple[tuple[int, int], ...]
    counts: tuple[int, ...]

    @property
    def events(self) -> int:
        return sum(self.counts)


Partition = tuple[FilePart, ...]
Block = tuple[str, int, int, int, int]
"""A row: file, offset, member bytes, raw bytes, events."""


def blocks(catalogue: Catalogue, predicates: Where) -> list[Block]:
    """The blocks that can hold matching events, in file order."""
    tests, parameters = ["b.events > 0"], list[SqlValue]()
    contexts, context_parameters = _context_tests(predicates)
    if contexts:
        tests.append(
            "b.id IN (SELECT l.block_id FROM block_contexts l JOIN contexts c ON c.id = l.context_id WHERE "
            + " AND ".join(contexts)
            + ")"
        )
        parameters += context_parameters
    for name, wanted in predicates.values:
        if name in PROCESS and all_plain(wanted):
            tests.append(f"p.{name} IN (SELECT value FROM json_each(?))")
            parameters.append(json.dumps(list(wanted)))
    for test, bound in (("b.t1 >= ?", predicates.t0), ("b.t0 < ?", predicates.t1)):
        if bound is not None:
            tests.append(test)
            parameters.append(min(max(bound, -(2**63)), 2**63 - 1))
    return catalogue.rows(
        "SELECT f.file, b.offset, b.member_bytes, b.raw, b.events FROM blocks b"
        " JOIN files f ON f.id = b.file_id"
        f" JOIN processes p ON p.id = b.process_id WHERE {' AND '.join(tests)} ORDER BY f.file, b.offset",
        parameters,
    )


def _context_tests(predicates: Where) -> tuple[list[str], list[SqlValue]]:
    """SQL tests on a row of contexts, with their parameters."""
    tests, parameters = [], list[SqlValue]()
    for name, wanted in predicates.values:
        if not all_plain(wanted):
            continue
        if name in schema.TAGS:
            value = f"c.{name}"
        elif name.startswith(schema.TAG_PREFIX):
            value = "(SELECT j.value FROM json_each(c.free) j WHERE j.key = ?)"
            parameters.append(name[len(schema.TAG_PREFIX) :])
        else:
            continue
        tests.append(f"coalesce({value}, '') IN (SELECT value FROM json_each(?))")
        parameters.append(json.dumps(list(wanted)))
    return tests, parameters


def stack_blocks(catalogue: Catalogue) -> list[Block]:
    """The blocks with a call that has a stack."""
    return catalogue.rows(
        "SELECT f.file, b.offset, b.member_bytes, b.raw, b.events FROM blocks b JOIN files f ON f.id = b.file_id"
        " WHERE b.stacks > 0 ORDER BY f.file, b.offset"
    )


BLOCK_COLUMNS = (*schema.TAGS, *PROCESS)
"""The columns that block headers have, besides the free tags."""


class Counts(NamedTuple):
    """Matching events by the values of columns (None: null), from block headers. rest: the blocks whose headers can't
    tell, since they may hold events of several groups, or matching and other ones."""

    groups: dict[tuple[SqlValue, ...], int]
    rest: list[Block]


def counts(catalogue: Catalogue, by: Sequence[str], predicates: Where) -> Counts:
    """How many events match, by the columns `by`, without reading any. Everything is in `rest` where a column is not
    in headers."""
    found = blocks(catalogue, predicates)
    named = [name for name, _ in predicates.values]
    if predicates.files or predicates.without or not all(_in_headers(name) for name in (*by, *named)):
        return Counts({}, found)
    rows = catalogue.rows(
        "SELECT f.file, b.offset, b.calls, b.t0, b.t1, p.host, p.pid, p.start, c.workflow, c.stage, c.task,"
        " c.job, c.rank, c.free FROM blocks b JOIN files f ON f.id = b.file_id JOIN processes p ON p.id = b.process_id"
        " JOIN block_contexts l ON l.block_id = b.id JOIN contexts c ON c.id = l.context_id WHERE b.events > 0"
    )
    places = {(block[0], block[1]): block for block in found}
    kinds: dict[tuple[str, int], set[tuple[SqlValue, ...] | None]] = {}
    events: dict[tuple[str, int], int] = {}
    for file, offset, calls, t0, t1, host, pid, start, *tags, free in rows:
        place = (file, offset)
        events[place] = calls
        if place not in places:
            continue
        values = dict(zip(BLOCK_COLUMNS, (*tags, host, pid, start), strict=True))
        if any(name.startswith(schema.TAG_PREFIX) for name in (*by, *named)):
            values.update((schema.TAG_PREFIX + key, value) for key, value in json.loads(free).items())
        whole = _inside(t0, t1, predicates)
        held = kinds.setdefault(place, set())
        if not whole:
            held.update((("",), None))  # two groups: its events have to be read
        elif all(fits(values.get(name), wanted) for name, wanted in predicates.values):
            held.add(tuple(values.get(name) for name in by))
        else:
            held.add(None)
    groups: dict[tuple[SqlValue, ...], int] = {}
    rest = []
    for place, block in places.items():
        held = kinds.get(place, set())
        if len(held) != 1:
            rest.append(block)
        elif (key := next(iter(held))) is not None:
            groups[key] = groups.get(key, 0) + events[place]
    return Counts(groups, rest)


def _in_headers(name: str) -> bool:
    return name in BLOCK_COLUMNS or name.startswith(schema.TAG_PREFIX)


def _inside(t0: int, t1: int, predicates: Where) -> bool:
    """Whether all events of a block lie in the time asked for."""
    return (predicates.t0 is None or t0 >= predicates.t0) and (predicates.t1 is None or t1 < predicates.t1)


def partitions(catalogue: Catalogue, predicates: Where) -> list[Partition]:
    """The matching blocks in lists of about equal weight, each of at most about PARTITION_RAW_BYTES."""
    return cut(catalogue, blocks(catalogue, predicates))


def _weight(block: Block) -> int:
    """The raw size of a block, as if no event were shorter than those of the core: memory goes by events."""
    return max(block[3], block[4] * _EVENT_BYTES)


def cut(catalogue: Catalogue, found: list[Block], largest: int | None = None) -> list[Partition]:
    """The blocks in partitions of at most about `largest` raw bytes (None: PARTITION_RAW_BYTES)."""
    total = sum(_weight(block) for block in found)
    count = max(-(-total // (largest or PARTITION_RAW_BYTES)), min(engine.cores(), total // SMALLEST_RAW_BYTES), 1)
    # Absolute, since a worker of a cluster has another working directory; joined as text, since pathlib is slow for
    # 100,000 files.
    directory = os.path.abspath(catalogue.layout.directory)  # noqa: PTH100 (resolves no link)
    made: list[Partition] = []
    part: list[tuple[str, list[tuple[int, int, int]]]] = []
    done = 0

    def finished() -> Partition:
        return tuple(
            FilePart(f"{directory}/{file}", tuple((at, size) for at, size, _ in rows), tuple(n for *_, n in rows))
            for file, rows in part
        )

    for block in found:
        file, offset, member_bytes, _, events = block
        if not part or part[-1][0] != file:
            part.append((file, []))
        part[-1][1].append((offset, member_bytes, events))
        done += _weight(block)
        if done * count >= total * (len(made) + 1):
            made.append(finished())
            part = []
    return [*made, finished()] if part else made
