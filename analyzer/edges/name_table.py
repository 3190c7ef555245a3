"""The names of the files of a run, as plain data: what a question for files by name takes, without the edge table.

    edge table --of--> NameTable --kept--> catalogue (edge_tables) --load--> NameTable

The edge table is read with pandas, whose import takes longer than such a question. Here is what it says of names.

Invariants: names are those of the whole run, else there are none: with a new block, and when the edge table is made
again, they are gone. Of more than `MOST` names none are kept, since reading them would take longer than the table.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tailrace.analyzer.edges.edge_version import VERSION
from tailrace.analyzer.store.catalogue import Catalogue

if TYPE_CHECKING:
    from tailrace.analyzer.edges.edge_table import EdgeTable

NAMES_ROW = "names"
MOST = 50_000
_NEW_BLOCK = (
    "SELECT 1 FROM blocks b JOIN files f ON f.id = b.file_id LEFT JOIN edge_files e ON e.file = f.file"
    " WHERE b.events > 0 AND b.offset >= coalesce(e.upto, 0) LIMIT 1"
)


class NamedFile(NamedTuple):
    """A file: its identity, that without the number of its use, its last name, its type."""

    identity: str
    kernel: str
    path: str
    ftype: str


@dataclass(frozen=True)
class NameTable:
    """The files, each by its position: `codes` has them by all their names, in the order in which they had these.

    uses: of identities that name several files: identity as the kernel gave it, file, from when on, until when
    (identities.Use).
    """

    files: list[NamedFile]
    codes: dict[str, list[int]]
    uses: list[tuple[str, int, int, int]]


def of(table: EdgeTable) -> NameTable:
    """The names of an edge table."""
    from tailrace.analyzer.edges import edge_table, identities

    paths = [str(path) for path in edge_table.last_paths(table)]
    types = table.files["ftype"].tolist()
    files = [
        NamedFile(identity, identities.raw(identity), path, ftype)
        for identity, path, ftype in zip(map(str, table.files["file"]), paths, types, strict=True)
    ]
    uses = [(one.identity, one.code, one.begin_ns, one.end_ns) for one in identities.uses(table)]
    return NameTable(files, _codes(table, paths), uses)


def load(catalogue: Catalogue) -> NameTable | None:
    """The names in a catalogue; None where it has none of all its events."""
    rows = catalogue.rows("SELECT data FROM edge_tables WHERE name = ?", [NAMES_ROW])
    if not rows or catalogue.rows(_NEW_BLOCK):
        return None
    found = json.loads(zlib.decompress(rows[0][0]))
    if found["version"] != VERSION:
        return None
    uses: list[tuple[str, int, int, int]] = list(map(tuple, found["uses"]))
    return NameTable([NamedFile(*row) for row in found["files"]], found["codes"], uses)


def kept(catalogue: Catalogue, table: EdgeTable) -> NameTable:
    """The names of the run's edge table, put into its catalogue where they are few."""
    made = of(table)
    if len(made.codes) <= MOST:
        content = {"version": VERSION, "files": made.files, "codes": made.codes, "uses": made.uses}
        data = zlib.compress(json.dumps(content).encode(), 1)
        catalogue.keep(lambda connection: _save(connection, data))
    return made


def _save(connection: sqlite3.Connection, data: bytes) -> None:
    connection.execute("INSERT OR REPLACE INTO edge_tables VALUES (?, ?)", (NAMES_ROW, data))


def _codes(table: EdgeTable, paths: list[str]) -> dict[str, list[int]]:
    aliases = table.aliases.sort_values("first_ns", kind="stable")
    out: dict[str, list[int]] = {}
    for code, path in zip(aliases["file"].tolist(), aliases["path"].tolist(), strict=True):
        out.setdefault(path, []).append(code)
    for before, after, until in _renamed_directories(table):
        seen = aliases[aliases["first_ns"] < until]
        for code, path in zip(seen["file"].tolist(), seen["path"].tolist(), strict=True):
            if path.startswith(before):
                _add(out, after + path[len(before) :], code)
    for code, path in enumerate(paths):
        if path:
            _add(out, path, code)
    return out


def _renamed_directories(table: EdgeTable) -> Iterator[tuple[str, str, int]]:
    """(beginning of names before, after, when), in the order of time."""
    facts = table.facts[table.facts["what"] == "rename"]
    of_directory = (table.files["ftype"].to_numpy() == "dir")[facts["file"].to_numpy(dtype="int64")]
    for fact in facts[of_directory].sort_values("last_ns", kind="stable").to_dict("records"):
        yield f"{str(fact['path']).rstrip('/')}/", f"{str(fact['path2']).rstrip('/')}/", int(fact["last_ns"])


def _add(names: dict[str, list[int]], name: str, code: int) -> None:
    codes = names.setdefault(name, [])
    if code not in codes:
        codes.append(code)
