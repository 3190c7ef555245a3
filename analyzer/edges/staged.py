"""Files that a worker copies into a task's own directory, and back: one file, under the name that was declared.

    in the trace   task 0 writes W/t.1/a   the worker sends it, the manager writes /data/a, reads it and sends it
                   the other worker writes X/cache/file-7-HASH-a   task 2 reads X/t.1/a
    afterwards     task 0 writes /data/a   task 2 reads /data/a

Of Work Queue's and TaskVine's workers, whose directories W, X have known names. A task's access counts as one of the
declared file where the name in its directory is the relative one by which the file was declared. What copies it, an
untagged process that writes the declared path after a task wrote the file, keeps its accesses: as those of a file
`W/cached/a` of the worker, which is no data (file_classes.py). So a dependency over files that are copied is as one in
a shared directory.

Rejected: to follow the workers' messages, which say nothing where a worker is not traced; to declare each task's
directory from its worker, a file each on the run's file system.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from posixpath import basename, normpath
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.analyzer.edges.edge_table import WRITE, EdgeTable, aliases_of

SANDBOX = re.compile(r"^(?P<worker>.*/worker-\d+-\d+)/(?:t|task|func)\.\d+/(?P<name>.+)$", re.DOTALL)
_KEYED = ("bursts", "facts", "cuts", "patterns", "sizes")
"""The tables with rows of (who, file)."""


class _Copy(NamedTuple):
    """An actor's accesses of the copy `file` are those of the file that was declared as `path`."""

    who: int
    file: int
    path: str
    worker: str


def join(table: EdgeTable, declared: pd.DataFrame) -> EdgeTable:
    """The edge table with the tasks' accesses of copies moved to what was copied. declared: `Run.declared_files`."""
    copies = list(_copies(table, declared))
    if not copies:
        return table
    moved: dict[tuple[int, int], int] = {}
    names: dict[int, str] = {}
    more: list[tuple[int, str, int, int]] = []
    codes = _codes_of(table, {copy.path for copy in copies})
    by_path: dict[str, list[_Copy]] = {}
    for copy in copies:
        by_path.setdefault(copy.path, []).append(copy)
    untagged = set(np.flatnonzero((table.who["task"] == "").to_numpy()).tolist())
    for path, of_path in by_path.items():
        target = codes.get(path, of_path[0].file)
        if path not in codes:
            more.append((target, path, *_span(table, target)))
        moved.update({(copy.who, copy.file): target for copy in of_path if copy.file != target})
        names.update({copy.file: f"{copy.worker}/cached/{basename(path)}" for copy in of_path if copy.file != target})
        for who in _copiers(table, target, of_path, untagged):
            moved[who, target] = of_path[0].file
    return _moved(table, moved, names, more)


def _copies(table: EdgeTable, declared: pd.DataFrame) -> Iterator[_Copy]:
    """The accesses of copies."""
    if len(declared) == 0 or "url" not in declared:
        return
    wanted = {
        (str(row.workflow or ""), str(row.task), normpath(str(row.url))): str(row.path)
        for row in declared.itertuples()
        if isinstance(row.url, str) and not row.url.startswith("/") and "://" not in row.url
    }
    found: dict[int, list[tuple[str, str]]] = {}
    if wanted:
        # Few files have such names, of millions.
        likely = pc.match_substring(pa.array(table.aliases["path"], pa.large_string()), "/worker-").to_numpy(False)
        names = table.aliases[likely]
        for file, path in zip(names["file"].tolist(), names["path"].tolist(), strict=True):
            if match := SANDBOX.match(path):
                found.setdefault(int(file), []).append((match["worker"], match["name"]))
    if not found:
        return
    actors = list(zip(table.who["workflow"], table.who["task"], strict=True))
    pairs = pd.concat([table.bursts[["who", "file"]], table.facts[["who", "file"]]]).drop_duplicates()
    pairs = pairs[pairs["file"].isin(list(found))]
    for who, file in zip(pairs["who"].tolist(), pairs["file"].tolist(), strict=True):
        for worker, name in found[file]:
            path = wanted.get((*actors[who], normpath(name)))
            if path is not None and SANDBOX.match(path) is None:
                yield _Copy(who, file, path, worker)
                break


def _codes_of(table: EdgeTable, paths: set[str]) -> dict[str, int]:
    """The file that last had each of these paths."""
    rows = table.aliases[table.aliases["path"].isin(list(paths))].sort_values("last_ns", kind="stable")
    return {str(path): int(file) for path, file in zip(rows["path"], rows["file"], strict=True)}


def _span(table: EdgeTable, file: int) -> tuple[int, int]:
    """The times of a further name of a file, which becomes its last one."""
    rows = table.aliases[table.aliases["file"] == file]
    return int(rows["first_ns"].min()), int(rows["last_ns"].max()) + 1


def _copiers(table: EdgeTable, target: int, copies: list[_Copy], untagged: set[int]) -> set[int]:
    """The untagged actors that wrote the file after a task had begun to write a copy."""
    writes = table.bursts[table.bursts["dir"] == WRITE]
    keys = {(copy.who, copy.file) for copy in copies}
    of_tasks = [
        first
        for who, file, first in zip(writes["who"].tolist(), writes["file"].tolist(), writes["first_ns"], strict=True)
        if (who, file) in keys
    ]
    if not of_tasks:
        return set()
    later = writes[(writes["file"] == target) & (writes["first_ns"] > min(of_tasks))]
    return {who for who in later["who"].tolist() if who in untagged}


def _moved(
    table: EdgeTable,
    moved: dict[tuple[int, int], int],
    names: dict[int, str],
    more: list[tuple[int, str, int, int]],
) -> EdgeTable:
    """The table with the rows of these (who, file) at other files, and with other names of files."""
    files = {file for _, file in moved}
    changed = {}
    for name in _KEYED:
        rows = getattr(table, name)
        at = np.flatnonzero(rows["file"].isin(list(files)).to_numpy())
        file = rows["file"].to_numpy(copy=True)
        who = rows["who"].to_numpy()
        file[at] = [moved.get((int(who[i]), int(file[i])), int(file[i])) for i in at]
        changed[name] = rows.assign(file=file)
    aliases = table.aliases
    path = aliases["path"].to_numpy(copy=True)
    at = np.flatnonzero(aliases["file"].isin(list(names)).to_numpy())
    path[at] = [names[int(file)] for file in aliases["file"].to_numpy()[at]]
    aliases = pd.concat([aliases.assign(path=path), aliases_of(more)])
    aliases = aliases.groupby(["file", "path"], as_index=False).agg(
        first_ns=("first_ns", "min"), last_ns=("last_ns", "max")
    )
    return dataclasses.replace(table, **changed, aliases=aliases)
