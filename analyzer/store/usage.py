"""Events, bytes and times of each context: by headers for the blocks of one context, by events for mixed ones.

    blocks of one context --SQLite--> rows()
    mixed blocks --loader.py--> their sums, kept in the catalogue --> rows() --> stages()

Invariants: the figures are exact. Rows are plain values and nothing of pandas is imported, unless mixed blocks have to
be read: once for a state of the trace, then their sums are in the catalogue.
"""

from __future__ import annotations

import json
import sqlite3
from typing import NamedTuple

from tailrace.analyzer.store import loader
from tailrace.analyzer.store.catalogue import Catalogue
from tailrace.analyzer.util.types import SqlRow


class Usage(NamedTuple):
    """What one context did; "" for a tag that is not set."""

    workflow: str
    stage: str
    task: str
    job: str
    events: int
    read_bytes: int
    written_bytes: int
    t0_ns: int
    t1_ns: int


class Stage(NamedTuple):
    """What a stage did; None for a tag that is not set."""

    workflow: str | None
    stage: str | None
    tasks: int
    processes: int
    events: int
    read_bytes: int
    written_bytes: int
    t0_ns: int
    t1_ns: int


_ONE = "SELECT count(*) FROM block_contexts l WHERE l.block_id = b.id"


def rows(catalogue: Catalogue) -> list[Usage]:
    """A row for each (workflow, stage, task, job); there may be several of one."""
    keys = ", ".join(f"coalesce(c.{key}, '')" for key in loader.USAGE_KEYS)
    pure = catalogue.rows(
        f"SELECT {keys}, sum(b.calls), sum(b.read), sum(b.written), min(b.t0), max(b.t1) FROM blocks b"
        " JOIN block_contexts l ON l.block_id = b.id JOIN contexts c ON c.id = l.context_id"
        f" WHERE b.events > 0 AND ({_ONE}) = 1 GROUP BY c.id"
    )
    return [Usage(*row) for row in (*pure, *_mixed(catalogue))]


def stages(catalogue: Catalogue) -> list[Stage]:
    """The stages by start."""
    of: dict[tuple[str, str], list[Usage]] = {}
    for row in rows(catalogue):
        of.setdefault((row.workflow, row.stage), []).append(row)
    processes = {
        (workflow, stage): count
        for workflow, stage, count in catalogue.rows(
            "SELECT coalesce(c.workflow, ''), coalesce(c.stage, ''), count(DISTINCT b.process_id) FROM contexts c"
            " JOIN block_contexts l ON l.context_id = c.id JOIN blocks b ON b.id = l.block_id WHERE b.events > 0"
            " GROUP BY 1, 2"
        )
    }
    found = [
        Stage(
            key[0] or None,
            key[1] or None,
            len({row.task for row in of[key]} - {""}),
            processes[key],
            sum(row.events for row in of[key]),
            sum(row.read_bytes for row in of[key]),
            sum(row.written_bytes for row in of[key]),
            min(row.t0_ns for row in of[key]),
            max(row.t1_ns for row in of[key]),
        )
        for key in sorted(of)
    ]
    return sorted(found, key=lambda stage: stage.t0_ns)


def _mixed(catalogue: Catalogue) -> list[SqlRow]:
    """The sums of the blocks of several contexts, which have to be read for them."""
    found = catalogue.rows(
        "SELECT f.file, b.offset, b.member_bytes, b.raw, b.events FROM blocks b"
        f" JOIN files f ON f.id = b.file_id WHERE b.events > 0 AND ({_ONE}) > 1 ORDER BY f.file, b.offset"
    )
    if not found:
        return []
    state = json.dumps([len(found), sum(block[1] + block[2] for block in found), sum(block[4] for block in found)])
    for stamp, data in catalogue.rows("SELECT state, data FROM mixed_usage"):
        if stamp == state:
            return [tuple(row) for row in json.loads(data)]
    sums: list[SqlRow] = [tuple(row) for row in loader.usage_of(catalogue, found)]

    def save(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM mixed_usage")
        connection.execute("INSERT INTO mixed_usage VALUES (?, ?)", (state, json.dumps(sums)))

    catalogue.keep(save)
    return sums
