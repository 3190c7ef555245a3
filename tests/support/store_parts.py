"""Stores whose entries are written by hand, and what a reader sees of them."""

from __future__ import annotations

import os
import secrets
from collections import Counter
from pathlib import Path

import pyarrow as pa

from tailrace.analyzer.runstore import parts
from tailrace.analyzer.runstore.columns import arrow_schema
from tailrace.analyzer.runstore.parts import Access, Entry
from tailrace.analyzer.runstore.store import Store

DAY = "2026-11-20"
EXPECTED = Counter({(n, 2 if n == 3 else 1): 1 for n in range(4)})
"""What `seen` gives of `make_store`."""


def put(store: Path, number: int, indexed_ns: int = 1, day: str = DAY, access: Access | None = None) -> Entry:
    """An entry of the run `number`, whose `events` are its time of indexing."""
    entry = Entry(f"{number:032x}", indexed_ns, secrets.token_hex(8))
    access = access or Access(os.geteuid())
    row = {"run": entry.run, "entry": entry.name, "indexed_ns": indexed_ns, "events": indexed_ns}
    with parts.publishing(parts.place_of(store, access, day), entry.name, access) as scratch:
        parts.write(scratch, {"runs": pa.Table.from_pylist([row], schema=arrow_schema("runs"))})
    return entry


def seen(store: Path) -> Counter[tuple[int, int]]:
    """(run, time of indexing) -> rows."""
    rows = Store(store).read("runs", ["run", "events"]).to_pylist()
    return Counter((int(row["run"], 16), row["events"]) for row in rows)


def make_store(path: Path) -> Path:
    """A store of four runs, one of them indexed twice."""
    parts.create(path)
    for number in range(4):
        put(path, number)
    put(path, 3, indexed_ns=2)
    return path
