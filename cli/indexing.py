"""Indexing runs into a store: for `tailrace index`, and at the end of a run where TAILRACE_STORE names a store.

Invariants: a run that can't be indexed is named and counted, and stops no other. As root, with a store that is shared,
each user's runs are opened and written by a process with that user's rights alone, as `tailrace seal --all` does it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

from tailrace.analyzer.runstore.store import Store
from tailrace.analyzer.store import engine
from tailrace.analyzer.util.formatting import count_text
from tailrace.errors import TailraceError
from tailrace.integrations import user_process
from tailrace.integrations.messages import say

_MARKS = ("run.json", "trace")
_USER_S, _RUN_S = 600, 60
"""For one user's runs, and for each of them."""
_MOST_RUNS = 50
"""Runs of a task of a Dask worker: each lists the store once, and a killed one is done again."""


@dataclass
class Indexed:
    """What became of runs: indexed, already there as they are, left out (path and reason)."""

    added: int = 0
    known: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)

    def join(self, other: Indexed) -> None:
        """Adds another result."""
        self.added += other.added
        self.known += other.known
        self.failed += other.failed

    def text(self) -> str:
        """In words."""
        parts = [f"{count_text(self.added, 'run')} indexed"]
        if self.known:
            parts.append(f"{self.known:,} already there")
        if self.failed:
            parts.append(f"{len(self.failed):,} left out")
        return ", ".join(parts)


def index(store: Path, directories: Sequence[Path], events: bool = False) -> Indexed:
    """Adds runs to a store; events: with their events, as those that had them there. Raises RunError when there is
    none."""
    opened = Store(store)
    if os.geteuid() != 0 or not opened.shared:
        return _spread(opened, directories, events) if engine.uses_dask() else _index(opened, directories, events)
    found = Indexed()
    of: dict[int, list[Path]] = {}
    for directory in directories:
        with suppress(OSError):
            of.setdefault(directory.stat().st_uid, []).append(directory)
            continue
        of.setdefault(0, []).append(directory)
    for owner, runs in sorted(of.items()):
        found.join(_index(opened, runs, events) if owner == 0 else _index_as(owner, store, runs, events))
    return found


def _spread(store: Store, directories: Sequence[Path], events: bool) -> Indexed:
    """`_index` by the workers of the Dask scheduler that was chosen, some runs at a time each."""
    # Absolute, since a worker has another working directory. A task that is done again, since its worker was killed,
    # passes over the runs that are there.
    paths = [path.absolute() for path in directories]
    place = store.path.absolute()
    size = max(min(len(paths) // (8 * engine.width()), _MOST_RUNS), 1)
    tasks = [partial(_piece, place, paths[at : at + size], events) for at in range(0, len(paths), size)]
    found = Indexed()
    for told in engine.compute(tasks):
        found.join(Indexed(**told))
    for path, why in found.failed:
        say(f"{path} is left out: {why}")
    return found


def _piece(store: Path, directories: Sequence[Path], events: bool) -> dict[str, Any]:
    with engine.here():
        return asdict(_index(Store(store), directories, events, told=False))


def _index(store: Store, directories: Iterable[Path], events: bool, told: bool = True) -> Indexed:
    found = Indexed()
    for directory in directories:
        try:
            _add(store, directory, events, found)
        except (TailraceError, OSError, MemoryError, RecursionError, ValueError, ArithmeticError, LookupError) as error:
            why = " ".join(str(error).split()).removeprefix(f"{directory}: ") or type(error).__name__
            found.failed.append((str(directory), why))
            if told:
                say(f"{directory} is left out: {why}")
    return found


def _add(store: Store, directory: Path, events: bool, found: Indexed) -> None:
    from tailrace.cli.opening import open_run

    run = open_run(directory)
    events = events or store.had_events(run)
    if store.knows(directory, run, events):
        found.known += 1
        return
    store.add(run, events)
    found.added += 1


def _index_as(user: int, store: Path, directories: Sequence[Path], events: bool) -> Indexed:
    """`_index` by a process of that user."""
    seconds = _USER_S + _RUN_S * len(directories)
    try:
        told = user_process.run_as(user, lambda: asdict(_index(Store(store), directories, events)), seconds)
        content = cast(dict[str, Any], told)
        return Indexed(int(content["added"]), int(content["known"]), [(str(a), str(b)) for a, b in content["failed"]])
    except (user_process.UserProcessError, ValueError, LookupError, TypeError) as error:
        say(f"the runs of user {user} could not be indexed: {error}")
        return Indexed(failed=[(str(directory), f"indexing as user {user} failed") for directory in directories])


# --- a tree of runs --------------------------------------------------------------------------------------------------


def runs_below(tree: Path) -> Iterator[Path]:
    """The run directories in a tree, without following links. What can't be listed is passed over."""
    for folder, folders, files in os.walk(tree, followlinks=False):
        if _MARKS[0] in files and _MARKS[1] in folders:
            folders.clear()
            yield Path(folder)
        else:
            folders[:] = sorted(name for name in folders if not name.startswith("."))


def last_change(directory: Path) -> float:
    """When a file of the run changed last, s since the epoch. Raises OSError."""
    places = [directory / name for name in ("run.json", "trace", "declared", "accounts")]
    newest = 0.0
    for place in places:
        with suppress(FileNotFoundError):
            newest = max(newest, place.stat(follow_symlinks=False).st_mtime)
            if place.is_dir():
                times = (entry.stat(follow_symlinks=False).st_mtime for entry in os.scandir(place))
                newest = max(newest, *times, 0.0)
    return newest


def finished(tree: Path, quiet_s: float, seen: dict[Path, float]) -> Iterator[Path]:
    """The runs below that have not changed for `quiet_s` seconds, and have since they were seen last."""
    now = time.time()
    for directory in runs_below(tree):
        with suppress(OSError):
            changed = last_change(directory)
            if now - changed >= quiet_s and seen.get(directory) != changed:
                seen[directory] = changed
                yield directory
