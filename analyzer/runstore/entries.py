"""Which entries of a store count, and where.

    listing (parts.py) --entries of each part--> Current: part -> the entries of it that don't count

Two rules: of the entries of one run the newest counts; of several parts with one entry the one of the highest order
does (`parts.Part`), as long as a compaction that was killed has not removed what it replaced. A run is known by its
owner and its id, so nobody's entry takes the place of another user's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import repeat
from operator import itemgetter

from tailrace.analyzer.runstore.parts import ENTRY, ENTRY_PATTERN, RUNS, Entry, Part

Key = tuple[int, str]
"""Owner, and the name of an entry or its begin."""
_RUN_ENDS = len(ENTRY) + 34
"""So many characters of the name of an entry are those of its run."""
_OF_RUN = itemgetter(slice(_RUN_ENDS))


@dataclass(frozen=True)
class Current:
    """The parts with their entries; without: the entries of a part that don't count, where it has any; damaged: parts
    that can't be read, with the reason."""

    names: dict[Part, list[str]]
    without: dict[Part, set[str]]
    damaged: dict[Part, str] = field(default_factory=dict)

    def whole(self) -> list[Part]:
        """The parts of which all entries count."""
        return [part for part in self.names if part not in self.without]

    def some(self) -> dict[Part, set[str]]:
        """The parts of which some entries count, with those that don't."""
        return {part: out for part, out in self.without.items() if len(out) < len(self.names[part])}

    def of_run(self, owner: int, run: str) -> list[tuple[Entry, Part]]:
        """The entries of a run that count, with their parts; one or none."""
        begin = f"{ENTRY}-{run}-"
        return [
            (entry, part)
            for part, names in self.names.items()
            if part.access.uid == owner
            for name in names
            if name.startswith(begin) and name not in self.without.get(part, ()) and (entry := Entry.of(name))
        ]


def current(parts: Iterable[Part]) -> Current:
    """The entries that count. Raises FileNotFoundError when a part was removed since it was listed."""
    names: dict[Part, list[str]] = {}
    damaged: dict[Part, str] = {}
    for part in parts:
        if part.entry is not None:
            names[part] = [part.name]
            continue
        try:
            names[part] = _names(part)
        except Exception as error:  # of any kind: it is another user's file
            if isinstance(error, FileNotFoundError) and not os.path.lexists(part.path):
                raise
            damaged[part] = in_short(error)
    return Current(names, _without(names), damaged)


def in_short(error: Exception) -> str:
    """What is wrong with a part, for one line."""
    return " ".join(str(error).split())[:200]


def _without(names: dict[Part, list[str]]) -> dict[Part, set[str]]:
    """The entries of each part that don't count."""
    runs = set[Key]()
    for part, mine in names.items():
        runs.update(zip(repeat(part.access.uid), map(_OF_RUN, mine)))
    if len(runs) == sum(map(len, names.values())):
        return {}  # each run once, as nearly always
    newest: dict[Key, str] = {}
    place: dict[Key, Part] = {}
    for part in sorted(names, key=lambda part: part.order):
        owner = part.access.uid
        for name in names[part]:
            place[owner, name] = part
            # Of one run the names are ordered as the times in them are.
            newest[owner, name[:_RUN_ENDS]] = max(newest.get((owner, name[:_RUN_ENDS]), ""), name)
    found: dict[Part, set[str]] = {}
    for part, mine in names.items():
        owner = part.access.uid
        out = {name for name in mine if newest[owner, name[:_RUN_ENDS]] != name or place[owner, name] is not part}
        if out:
            found[part] = out
    return found


def _names(part: Part) -> list[str]:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    part.tables()
    with part.open(RUNS) as file:
        column = pq.ParquetFile(file, page_checksum_verification=True).read(columns=["entry"])["entry"]
    names: list[str] = column.to_pylist()
    fits = pc.all(pc.match_substring_regex(column, ENTRY_PATTERN), skip_nulls=False).as_py()
    if (names and not fits) or len(set(names)) < len(names):
        raise ValueError("its entries are damaged")
    return names
