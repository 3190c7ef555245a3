"""Files by any of their names.

    FileNames(names of a run, its working directory).choose(["a.nc"]) -> conditions.Files, a predicate on events

A file is one identity, or one use of it (identities.py); its names are those under which events met it (before and
after a rename, hard links), and those that it got when a directory above it was renamed. A name is searched for in this
order, and the first kind that is there counts:

    whole       as it stands
    relative    below the directory in which the run was started, then below the current one
    ending      as the last components of a path: a base name, or `sub/a.nc`
    link        as a symbolic link of this machine, resolved: events name what a link leads to, not the link

Invariants: a pattern (`*`, `?`, `[...]`; `*` crosses `/`) also finds the name that equals it. A name that only calls
without a file have (a failed open) is found in the events, since the edge table doesn't have it; a name that nothing
has is an error, never an empty result. A name is asked for as Python has a file's, with surrogates for bytes that are
not text; the trace has U+FFFD for bytes that are not UTF-8, so that a name with such finds all files that differ in
them alone.
"""

from __future__ import annotations

import difflib
import glob
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tailrace.analyzer.edges import name_table
from tailrace.analyzer.edges.name_table import NameTable
from tailrace.analyzer.store.conditions import Files, Glob, Wanted
from tailrace.analyzer.util.lazy import lazy
from tailrace.analyzer.util.types import Ints
from tailrace.errors import QueryError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
else:
    np = lazy("numpy")
    pd = lazy("pandas")

WHOLE, RELATIVE, ENDING, LINK = "whole", "relative", "ending", "link"
NEAREST = 5
"""Names that an error offers."""


@dataclass(frozen=True)
class Found:
    """The names that a name or pattern means, sorted, and how it was found: `WHOLE`, `RELATIVE`, `ENDING`, `LINK`."""

    names: tuple[str, ...]
    how: str


class Row(NamedTuple):
    """A file of a name: its identity, its last name, its type, the first of its names that the name means, how."""

    file: str
    path: str
    ftype: str
    found: str
    how: str


class FileNames:
    """All names of all files of a run. cwd: "" where it isn't known; unmet: gives the names in calls that met no file,
    by reading the events; looks: whether links below cwd may be followed (named_files.py)."""

    def __init__(
        self, table: NameTable, cwd: str = "", unmet: Callable[[], set[str]] = set, looks: bool = False
    ) -> None:
        self._table, self._cwd, self._unmet, self._looks = table, cwd, unmet, looks

    @property
    def codes(self) -> dict[str, list[int]]:
        """name -> file codes, in the order in which they had it."""
        return self._table.codes

    def find(self, name: str | Glob) -> pd.DataFrame:
        """`rows` as a frame with their columns."""
        return pd.DataFrame(self.rows(name), columns=list(Row._fields))

    def rows(self, name: str | Glob) -> list[Row]:
        """The files of a name. Raises QueryError when no event has it."""
        found = self._found(name) or self._found_unmet(name)
        by_code = {code: path for path in found.names for code in self.codes.get(path, ())}
        files = self._table.files
        return [
            Row(files[code].identity, files[code].path, files[code].ftype, path, found.how)
            for code, path in sorted(by_code.items())
        ]

    def codes_of(self, names: Sequence[str | Glob]) -> Ints:
        """The positions in the table's `files` of the files of names. Raises QueryError when no event has one."""
        found = [path for name in names for path in (self._found(name) or self._found_unmet(name)).names]
        return np.array(sorted({code for path in found for code in self.codes.get(path, ())}), dtype=np.int64)

    def choose(self, names: Sequence[Wanted], may_lack: bool = False) -> Files:
        """The predicate on events for names and patterns; "" chooses calls without a name. Raises QueryError when no
        event has one of them, unless it `may_lack`."""
        chosen_codes, chosen, patterns = set[int](), set[str](), list[str]()
        for name in names:
            if name == "":
                continue
            wanted = name if isinstance(name, Glob) else str(name)
            found = self._found(wanted)
            if isinstance(wanted, Glob):
                patterns += [one for spelling in _spellings(wanted) for one in self._patterns(spelling)]
            if found is None and may_lack:
                found = self._search(wanted, self._unmet()) or Found((), WHOLE)
            if found is None:
                found = self._found_unmet(wanted)
            chosen.update(found.names)
            chosen_codes.update(code for path in found.names for code in self.codes.get(path, ()))
        uses = self._table.uses
        split = {identity for identity, code, *_ in uses if code not in chosen_codes}
        parts = [use for use in uses if use[1] in chosen_codes and use[0] in split]
        whole = chosen_codes - {code for _, code, *_ in parts}
        return Files(
            frozenset(self._table.files[code].kernel for code in whole),
            frozenset(chosen),
            tuple(patterns),
            "" in names,
            tuple((identity, begin, end) for identity, _, begin, end in parts),
            len(self.codes) <= name_table.MOST,
        )

    def _search(self, name: str | Glob, names: Collection[str]) -> Found | None:
        return next((found for spelling in _spellings(name) if (found := search(spelling, names, self._cwd))), None)

    def _found(self, name: str | Glob) -> Found | None:
        found = self._search(name, self.codes)
        if isinstance(name, Glob) or (found and not self._are_links(found)):
            return found
        target = self._followed(name)
        return Found((*(found.names if found else ()), target), LINK) if target else found

    def _found_unmet(self, name: str | Glob) -> Found:
        unmet = self._unmet()
        found = self._search(name, unmet)
        if found:
            return found
        raise not_found(name, {*self.codes, *unmet})

    def _patterns(self, name: Glob) -> list[str]:
        return [_below(glob.escape(folder), name.pattern) for folder in _folders(name.pattern, self._cwd)]

    def _are_links(self, found: Found) -> bool:
        files = self._table.files
        return all(files[code].ftype == "lnk" for name in found.names for code in self.codes[name])

    def _followed(self, name: str) -> str | None:
        """Where a symbolic link of this machine leads, if to a name of the run."""
        for folder in _folders(name, self._cwd if self._looks else ""):
            place = _below(folder, name)
            target = os.path.realpath(place) if _is_whole(place) else place
            if target != place and target in self.codes:
                return target
        return None


def not_found(name: str | Glob, known: Iterable[str]) -> QueryError:
    """The error for a name that no event has."""
    if isinstance(name, Glob):
        return QueryError(f"no event is on a file that fits {name.pattern!r}")
    near = nearest(name, known)
    hint = f"the nearest are {', '.join(map(repr, near))}" if near else "no name is like it"
    return QueryError(f"no event is on a file called {name!r}; {hint}")


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The names most like one that isn't there, by their last components, the most similar first."""
    by_end: dict[str, list[str]] = {}
    for path in known:
        by_end.setdefault(_end(path), []).append(path)
    ends = difflib.get_close_matches(_end(name), by_end, n=NEAREST, cutoff=0.5)
    return [path for end in ends for path in sorted(by_end[end])][:NEAREST]


def _spellings(name: str | Glob) -> list[Any]:
    """A name as it was given, and as the trace has it if its characters stand for bytes of the system's encoding."""
    text = name.pattern if isinstance(name, Glob) else name
    try:
        found = os.fsencode(text)
    except UnicodeEncodeError:  # text of another encoding than the system's
        found = text.encode("utf-8", "surrogateescape")
    spellings = list(dict.fromkeys((text, found.decode("utf-8", "replace"))))
    return [Glob(one) for one in spellings] if isinstance(name, Glob) else list(spellings)


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
