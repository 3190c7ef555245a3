"""Which copies of events are believed: those that are as they were written, of runs that are as they were then.

A copy is compared with its file's sum (events.py), with the number of rows that its run's row says, and with the
directory of the run, as far as that is there and this user's. What fails is left out and named, and `tailrace index
--events` makes it again.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from tailrace.analyzer.runstore import events, rows
from tailrace.analyzer.runstore.columns import EVENTS
from tailrace.analyzer.runstore.entries import Current
from tailrace.analyzer.runstore.parts import Entry, Part
from tailrace.analyzer.util.formatting import count_text
from tailrace.analyzer.util.types import Row
from tailrace.errors import TailraceError

MOST_COMPARED = 2000
"""Runs whose directories are looked at, the ones that were indexed last."""
_SHOWN = 3


def believed(
    current: Current,
    tables: Mapping[Part, Collection[str]],
    runs: Iterable[Row],
    damaged: Mapping[Path, str],
) -> tuple[dict[Part, set[str]], list[str]]:
    """The parts whose events are believed, with the entries of each that are not, and what is left out, sentences.

    runs: entry, owner, path, events and event_rows of all runs that count.
    """
    of = {(int(row["owner"]), str(row["entry"])): row for row in runs}
    stale = _stale([row for row in of.values() if row["event_rows"]])
    found: dict[Part, set[str]] = {}
    faults: dict[str, list[Row]] = {}
    for part, names in current.names.items():
        out = set(current.without.get(part, ()))
        mine = [row for name in names if name not in out and (row := of.get((part.access.uid, name)))]
        having = [row for row in mine if row["event_rows"]]
        if not having:
            continue
        why = damaged.get(part.path) or ("the file is missing" if EVENTS not in tables[part] else events.fault(part))
        if why:
            faults.setdefault(f"{part.path}: {why}", []).extend(having)
            continue
        old = {str(row["entry"]) for row in having if str(row["entry"]) in stale}
        if old:
            changed = [row for row in having if str(row["entry"]) in old]
            faults.setdefault("they have changed since they were indexed", []).extend(changed)
        if len(old) < len(having):
            found[part] = out | old
    without = [row for row in of.values() if row["event_rows"] is None and row["events"]]
    if without:
        faults["they were indexed without --events: `tailrace index --events STORE RUN...` copies them"] = without
    return found, [_sentence(why, left) for why, left in faults.items()]


def _sentence(why: str, left: list[Row]) -> str:
    shown = ", ".join(str(row["path"]) for row in left[:_SHOWN]) + (", ..." if len(left) > _SHOWN else "")
    return f"the events of {count_text(len(left), 'run')} are left out ({shown}), since {why}"


def _stale(having: list[Row]) -> set[str]:
    """The entries whose runs have changed since."""
    mine = sorted(
        ((entry, row) for row in having if row["owner"] == os.geteuid() and (entry := Entry.of(str(row["entry"])))),
        key=lambda pair: pair[0].indexed_ns,
    )
    found = set()
    for entry, row in mine[-MOST_COMPARED:]:
        path = Path(str(row["path"] or ""))
        try:
            if (path / "trace").is_dir() and rows.state_of(path) != entry.state:
                found.add(str(row["entry"]))
        except (TailraceError, OSError, ValueError):
            continue  # gone, or no longer to be read: then there is nothing to compare with
    return found
