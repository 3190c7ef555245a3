"""Files by any of their names.

    FileNames(edge table, working directory of the run).choose(["a.nc"]) -> conditions.Files, a predicate on events

A file is one identity, or one use of it (identities.py); its names are those under which events met it (before and
after a rename, hard links), and those that it got when a directory above it was renamed. A name is searched for in this
order, and the first kind that is there counts:

    whole       as it stands
    relative    below the directory in which the run was started, then below the current one
    ending      as the last components of a path: a base name, or `sub/a.nc`
    link        as a symbolic link of this machine, resolved: events name what a link leads to, not the link

Invariants: a pattern (`*`, `?`, `[...]`; `*` crosses `/`) also finds the name that equals it. A name that only calls
without a file have (a failed open) is found in the events, since the edge table doesn't have it; a name that nothing
has is an error, never an empty result.
"""

from __future__ import annotations

import difflib
import glob
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table, identities
from tailrace.analyzer.edges.edge_table import EdgeTable
from tailrace.analyzer.store.conditions import Files, Glob, Wanted
from tailrace.analyzer.util.types import Ints
from tailrace.errors import QueryError

WHOLE, RELATIVE, ENDING, LINK = "whole", "relative", "ending", "link"
NEAREST = 5
"""Names that an error offers."""


@dataclass(frozen=True)
class Found:
    """The names that a name or pattern means, sorted, and how it was found: `WHOLE`, `RELATIVE`, `ENDING`, `LINK`."""

    names: tuple[str, ...]
    how: str


class FileNames:
    """All names of all files of an edge table. cwd: "" where it isn't known; unmet: gives the names in calls that met
    no file, by reading the events."""

    def __init__(self, table: EdgeTable, cwd: str = "", unmet: Callable[[], set[str]] = set) -> None:
        self._table, self._cwd, self._unmet = table, cwd, unmet

    @cached_property
    def codes(self) -> dict[str, list[int]]:
        """name -> file codes, in the order in which they had it."""
        aliases = self._table.aliases.sort_values("first_ns", kind="stable")
        out: dict[str, list[int]] = {}
        for code, path in zip(aliases["file"].tolist(), aliases["path"].tolist(), strict=True):
            out.setdefault(path, []).append(code)
        for before, after, until in self._renamed_directories():
            seen = aliases[aliases["first_ns"] < until]
            for code, path in zip(seen["file"].tolist(), seen["path"].tolist(), strict=True):
                if path.startswith(before):
                    _add(out, after + path[len(before) :], code)
        for code, path in enumerate(edge_table.last_paths(self._table)):
            if path:
                _add(out, str(path), code)
        return out

    def _renamed_directories(self) -> Iterator[tuple[str, str, int]]:
        """(beginning of names before, after, when), in the order of time."""
        facts = self._table.facts[self._table.facts["what"] == "rename"]
        of_directory = (self._table.files["ftype"].to_numpy() == "dir")[facts["file"].to_numpy(dtype=np.int64)]
        for fact in facts[of_directory].sort_values("last_ns").to_dict("records"):
            yield f"{str(fact['path']).rstrip('/')}/", f"{str(fact['path2']).rstrip('/')}/", int(fact["last_ns"])

    def find(self, name: str | Glob) -> pd.DataFrame:
        """The files of a name: file (identity), path (its last name), ftype, found (the first of its names that the
        name means), how. Raises QueryError when no event has it."""
        found = self._found(name) or self._found_unmet(name)
        rows = {code: path for path in found.names for code in self.codes.get(path, ())}
        codes = np.array(sorted(rows), dtype=np.int64)
        files = self._table.files.iloc[codes]
        table: pd.DataFrame = files[["file", "ftype"]].reset_index(drop=True)
        table.insert(1, "path", edge_table.last_paths(self._table)[codes])
        table["found"] = [rows[code] for code in codes.tolist()]
        table["how"] = found.how
        return table

    def codes_of(self, names: Sequence[str | Glob]) -> Ints:
        """The positions in the table's `files` of the files of names. Raises QueryError when no event has one."""
        found = [path for name in names for path in (self._found(name) or self._found_unmet(name)).names]
        return np.array(sorted({code for path in found for code in self.codes.get(path, ())}), dtype=np.int64)

    def choose(self, names: Sequence[Wanted]) -> Files:
        """The predicate on events for names and patterns; "" chooses calls without a name. Raises QueryError when no
        event has one of them."""
        chosen_codes, chosen, patterns = set[int](), set[str](), list[str]()
        for name in names:
            if name == "":
                continue
            wanted = name if isinstance(name, Glob) else str(name)
            found = self._found(wanted)
            if isinstance(wanted, Glob):
                patterns += self._patterns(wanted)
            if found is None:
                found = self._found_unmet(wanted)
            chosen.update(found.names)
            chosen_codes.update(code for path in found.names for code in self.codes.get(path, ()))
        uses = identities.uses(self._table)
        split = {use.identity for use in uses if use.code not in chosen_codes}
        parts = [use for use in uses if use.code in chosen_codes and use.identity in split]
        part_codes = {use.code for use in parts}
        every = self._table.files["file"].to_numpy()
        return Files(
            frozenset(identities.raw(str(every[code])) for code in chosen_codes - part_codes),
            frozenset(chosen),
            tuple(patterns),
            "" in names,
            tuple((use.identity, use.begin_ns, use.end_ns) for use in parts),
        )

    def _found(self, name: str | Glob) -> Found | None:
        found = search(name, self.codes, self._cwd)
        if isinstance(name, Glob) or (found and not self._are_links(found)):
            return found
        target = self._followed(name)
        return Found((*(found.names if found else ()), target), LINK) if target else found

    def _found_unmet(self, name: str | Glob) -> Found:
        unmet = self._unmet()
        found = search(name, unmet, self._cwd)
        if found:
            return found
        if isinstance(name, Glob):
            raise QueryError(f"no event is on a file that fits {name.pattern!r}")
        near = self.nearest(name, unmet)
        hint = f"the nearest are {', '.join(map(repr, near))}" if near else "no name is like it"
        raise QueryError(f"no event is on a file called {name!r}; {hint}")

    def _patterns(self, name: Glob) -> list[str]:
        return [_below(glob.escape(folder), name.pattern) for folder in _folders(name.pattern, self._cwd)]

    def _are_links(self, found: Found) -> bool:
        types = self._table.files["ftype"].to_numpy()
        return all(types[code] == "lnk" for name in found.names for code in self.codes[name])

    def _followed(self, name: str) -> str | None:
        """Where a symbolic link of this machine leads, if to a name of the run."""
        for folder in _folders(name, self._cwd):
            place = _below(folder, name)
            target = os.path.realpath(place) if _is_whole(place) else place
            if target != place and target in self.codes:
                return target
        return None

    def nearest(self, name: str, others: Collection[str] = ()) -> list[str]:
        """The names most like one that isn't there, by their last components, the most similar first."""
        by_end: dict[str, list[str]] = {}
        for path in {*self.codes, *others}:
            by_end.setdefault(_end(path), []).append(path)
        ends = difflib.get_close_matches(_end(name), by_end, n=NEAREST, cutoff=0.5)
        return [path for end in ends for path in sorted(by_end[end])][:NEAREST]


def search(name: str | Glob, names: Collection[str], cwd: str = "") -> Found | None:
    """Those of `names` that a name or pattern means; links are not followed."""
    text = name.pattern if isinstance(name, Glob) else name
    for folder in _folders(text, cwd):
        found = {_below(folder, text)} & set(names)
        if isinstance(name, Glob):
            found |= _fitting(_below(glob.escape(folder), text), names)
        if found:
            return Found(tuple(sorted(found)), RELATIVE if folder else WHOLE)
    if _is_whole(text):
        return None
    if isinstance(name, Glob) and "/" not in text:
        ends = _fitting(text, {_end(path) for path in names})
        ending = {path for path in names if _end(path) in ends}
    elif isinstance(name, Glob):
        ending = _fitting(f"*/{text}", names)
    else:
        ending = {path for path in names if path.endswith("/" + os.path.normpath(text))}
    return Found(tuple(sorted(ending)), ENDING) if ending else None


def _fitting(pattern: str, names: Collection[str]) -> set[str]:
    return {path for path, fits in zip(names, Glob(pattern).fits(names), strict=True) if fits}


def _folders(name: str, cwd: str) -> list[str]:
    """Where a name may begin: "" for a whole one, else the directories that it may be relative to."""
    if _is_whole(name):
        return [""]
    return list(dict.fromkeys(["", *(folder for folder in (cwd, str(Path.cwd())) if folder)]))


def _is_whole(name: str) -> bool:
    return not name or name.startswith("/")


def _below(folder: str, name: str) -> str:
    return os.path.normpath(f"{folder}/{name}" if folder else name) if folder or _is_whole(name) else name


def _end(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[-1]


def _add(names: dict[str, list[int]], name: str, code: int) -> None:
    codes = names.setdefault(name, [])
    if code not in codes:
        codes.append(code)
