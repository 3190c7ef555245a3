"""The files of a run as they are on this machine now, with the checksums of what the run left there.

    Model --PresentFiles--> of(file) -> Copy(state, size, sha256)

Invariants: only files of a run of this user are looked at, since a run may name any (named_files.py). Nothing is
followed, waited for or changed: a link, a pipe or a device in a file's place is another file. A file is the run's by
its inode, and as the run left it where it was not modified after the run's last write, or, where
the run only read it, after its last use; one that changes while it is read has changed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tailrace.analyzer.edges import edge_table, identities
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.util import named_files
from tailrace.errors import QueryError
from tailrace.hashed_names import fingerprint_in

HASHED_SLACK_NS = 20_000_000
"""Tolerance for times of modification, whose clock ticks every 4 or 10 ms."""
SAME, CHANGED, GONE, ANOTHER, UNREADABLE = "same", "changed", "gone", "another", "unreadable"


@dataclass(frozen=True)
class Copy:
    """The file on this machine now. state: same (as the run left it), changed, gone, another (of this name),
    unreadable; size in bytes; sha256 (hex) is known for the first two."""

    state: str
    size: int | None = None
    sha256: str | None = None


def check(directory: str | os.PathLike[str], meta: Mapping[str, object]) -> None:
    """Raises QueryError where the names in the run at this path, of this run.json, are hashed, so that each file would
    seem to be gone, and where the run is not this user's."""
    if fingerprint_in(meta) is not None:
        raise QueryError("the run's names are hashed, so that no file of it can be found here: leave --hash out")
    if not named_files.made_by_this_user(directory, meta):
        who = meta.get("user") or "another user"
        raise QueryError(
            f"the run was made by {who}: with --hash you would read what it names by your own rights: leave --hash out"
        )


class PresentFiles:
    """The files of a model by their codes, each read once."""

    def __init__(self, m: Model) -> None:
        self._m = m
        self._known: dict[int, Copy] = {}

    def of(self, code: int) -> Copy:
        """The file on this machine now; reads all of it."""
        if code not in self._known:
            self._known[code] = self._look(code)
        return self._known[code]

    def _look(self, code: int) -> Copy:
        m = self._m
        path, identity = str(m.paths[code]), str(m.table.files["file"].iat[code])
        try:
            with named_files.open_named(path, follow=False) as file:
                before = os.fstat(file.fileno())
                if not _is_same(identity, before):
                    return Copy(ANOTHER, before.st_size)
                digest = _digest(file)
                now = os.fstat(file.fileno())
        except FileNotFoundError:
            return Copy(GONE)
        except named_files.NoFileError as error:
            return Copy(ANOTHER, error.size)
        except OSError:
            return Copy(UNREADABLE)
        same = now.st_mtime_ns == before.st_mtime_ns and now.st_mtime_ns <= self._left_ns(code) + HASHED_SLACK_NS
        return Copy(SAME if same else CHANGED, now.st_size, digest)

    def _left_ns(self, code: int) -> int:
        """When the run wrote the file last, else when it used it last; ns since the epoch, 0: never."""
        bursts = self._m.bursts
        mine = bursts["file"].to_numpy() == code
        writes = mine & (bursts["dir"].to_numpy() == edge_table.WRITE)
        last = bursts["last_ns"].to_numpy()[writes if writes.any() else mine]
        return int(last.max()) if len(last) else 0


def _digest(file: Any) -> str:
    found = hashlib.sha256()
    while data := file.read(1 << 20):
        found.update(data)
    return found.hexdigest()


def _is_same(identity: str, now: os.stat_result) -> bool:
    """Whether the inode in an identity is the file's; True where the identity has none (other tracers)."""
    parts = identities.raw(identity).split(":")
    return not (len(parts) >= 3 and parts[-2].isdigit()) or int(parts[-2]) == now.st_ino
