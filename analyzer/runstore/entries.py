"""Which entries of a store count, and where.

    listing (parts.py) --entries of each part--> Current: part -> the entries of it that don't count

Two rules: of the entries of one run the newest counts; of several parts with one entry the one of the highest order
does (`parts.Part`), as long as a compaction that was killed has not removed what it replaced. A run is known by its
owner and its id, so nobody's entry takes the place of another user's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tailrace.analyzer.runstore.parts import RUNS, Entry, Part

Key = tuple[int, str]
"""Owner and id of a run."""


@dataclass(frozen=True)
class Current:
    """The parts with their entries; without: the entries of a part that don't count, where it has any; newest: the
    entry of each run that does; of: all entries of a part; damaged: parts that can't be read, with the reason."""

    of: dict[Part, list[Entry]]
    without: dict[Part, set[str]]
    newest: dict[Key, Entry]
    damaged: dict[Part, str] = field(default_factory=dict)

    def whole(self) -> list[Part]:
        """The parts of which all entries count."""
        return [part for part in self.of if part not in self.without]

    def some(self) -> dict[Part, set[str]]:
        """The parts of which some entries count, with those that don't."""
        return {part: out for part, out in self.without.items() if len(out) < len(self.of[part])}


def current(parts: Iterable[Part]) -> Current:
    """The entries that count. Raises FileNotFoundError when a part was removed since it was listed."""
    of: dict[Part, list[Entry]] = {}
    damaged: dict[Part, str] = {}
    for part in parts:
        if part.entry is not None:
            of[part] = [part.entry]
            continue
        try:
            of[part] = _entries(part)
        except FileNotFoundError:
            raise
        except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors
            damaged[part] = str(error)
    newest: dict[Key, Entry] = {}
    place: dict[tuple[int, str], Part] = {}
    total = 0
    for part in sorted(of, key=lambda part: part.order):
        owner = part.access.uid
        for entry in of[part]:
            total += 1
            place[owner, entry.name] = part
            known = newest.get((owner, entry.run))
            if known is None or known[1:] < entry[1:]:
                newest[owner, entry.run] = entry
    without: dict[Part, set[str]] = {}
    if total > len(newest):
        counted = {(owner, entry.name) for (owner, _), entry in newest.items()}
        for part, entries in of.items():
            owner = part.access.uid
            names = (entry.name for entry in entries)
            out = {name for name in names if (owner, name) not in counted or place[owner, name] is not part}
            if out:
                without[part] = out
    return Current(of, without, newest, damaged)


def _entries(part: Part) -> list[Entry]:
    import pyarrow.parquet as pq

    names = pq.read_table(part.table(RUNS), columns=["entry"], partitioning=None)["entry"].to_pylist()
    found = [Entry.of(str(name)) for name in names]
    if None in found or len(set(names)) < len(names):
        raise ValueError("its entries are damaged")
    return [entry for entry in found if entry is not None]
