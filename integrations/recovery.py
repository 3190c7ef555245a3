"""Recovers the records that wait in this node's journals: of a run that is opened, or of all runs.

    recover(run)    before a run is read: seals what its dead processes left here
    seal_all()      for an epilog or a cron job: all journals of this user, or as root of all users

Invariants: nothing here raises for what it finds; it says what could not be done. A run or a journal of another user is
never touched with this user's rights: root becomes that user first, in a process of its own.
"""

import json
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

from tailrace.base import ownership
from tailrace.errors import TailraceError
from tailrace.integrations import environment, host_description, launcher, rundir, user_process

_ONE_USER_S = 600
"""For the journals of one user."""
_MOST_PLACES = 1000


@dataclass
class Recovered:
    """What this node's journals of one run came to.

    user: whose they are. journals, events: sealed now. lost: cause -> events that no block records. alive: processes
    that still run. failed, failed_events: journals that can't be sealed now, since the run can't be written.
    unreadable: journals of another version of tailrace. refused: journals that name another process's trace file.
    waiting: journals of another user, not looked into. fault: why the journals could not be looked through. gone: the
    run's directory was removed; journals, bytes: what is left of it here, or was removed.
    """

    run: str
    user: int
    journals: int = 0
    events: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    alive: int = 0
    failed: int = 0
    failed_events: int = 0
    unreadable: int = 0
    refused: int = 0
    waiting: int = 0
    fault: str = ""
    gone: bool = False
    removed: bool = False
    bytes: int = 0


def recover(directory: Path) -> Recovered | None:
    """Seals this node's journals of dead processes of a run of this user, and counts those of another's run; None where
    there is no such run."""
    run = directory.absolute().resolve()
    try:
        folders = [os.lstat(path) for path in (run, run / "trace")]
    except OSError:
        return None
    owner = folders[0].st_uid
    if not all(stat.S_ISDIR(folder.st_mode) and folder.st_uid == owner for folder in folders):
        return None
    return _seal(run, _chosen_places(run)) if owner == os.geteuid() else _count_of_another(run, owner)


def _count_of_another(run: Path, owner: int) -> Recovered:
    """Root may look into any user's directory."""
    found = Recovered(str(run), owner)
    for directory in environment.journal_directories(run):
        place = directory.parent.parent
        found.waiting += len(list((place / f"tailrace-{owner}" / directory.name).glob("*.tj")))
    return found


def _chosen_places(run: Path) -> list[str]:
    """What TAILRACE_JOURNAL_DIR was for the run, by its run.json, and is here; and the default.

    The run.json of a run that was sent may name any place, which is not even looked at: of this node, since it was
    started, are only descriptions with its boot id.
    """
    described = _description(run)
    listed = described.get("restarts")
    descriptions = [described, *(listed if isinstance(listed, list) else [])]
    boot = rundir.boot_id()
    found = [one.get("journal_dir") for one in descriptions if isinstance(one, dict) and one.get("boot_id") == boot]
    found = found[:_MOST_PLACES] if boot else []
    chosen = [environment.journal_directory(), environment.default_journal_directory(), *found]
    return list(dict.fromkeys(place for place in chosen if isinstance(place, str) and place.startswith("/")))


def _description(run: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError, RecursionError):
        value = json.loads(ownership.read_regular(run / "run.json", ownership.JSON_LIMIT))
        return value if isinstance(value, dict) else {}
    return {}


def _seal(run: Path, places: list[str]) -> Recovered:
    """Seals the run's journals in these places, and counts what is left."""
    from tailrace import _native

    found = Recovered(str(run), os.geteuid())
    left: set[Path] = set()
    alive = 0
    for place in places:
        try:
            account = launcher.seal(run, {"TAILRACE_JOURNAL_DIR": place})
            found.journals += account["sealed_journals"]
            found.events += account["events"]
            alive += account["alive"]
            found.failed += account["failed"]
            found.failed_events += account["failed_events"]
            found.lost.update(account["unrecorded_lost"])
        except TailraceError as error:
            found.fault = str(error)
        left.update(launcher.journals(run, {"TAILRACE_JOURNAL_DIR": place}))
    if found.journals:
        host_description.add(run)
    readable = {path for path in left if _native.journal_trace_file(str(path)) is not None}
    # A journal without content yet is one that a process has just begun.
    found.unreadable = sum(1 for path in left - readable if _size(path))
    if not alive:
        found.refused = max(0, len(readable) - found.failed)
        return found
    pids = launcher.pids_of(readable)
    if found.failed:
        pids = {pid for pid in pids if Path(f"/proc/{pid}").exists()}
    found.alive = len(pids)
    return found


def _size(path: Path) -> int:
    """0 for what is no file."""
    try:
        about = os.lstat(path)
    except OSError:
        return 0
    return about.st_size if stat.S_ISREG(about.st_mode) else 0


def seal_all(remove: bool = False) -> list[Recovered]:
    """Seals all journals of this user on this node, as root of all users; one result per run that had any.

    Looks into TAILRACE_JOURNAL_DIR, the default directory and the users' temporary directories. Journals whose run is
    gone are counted, and with `remove` those of its dead processes are deleted.
    """
    found = []
    for user, directories in sorted(_users_directories().items()):
        if user == os.geteuid():
            found += _seal_users(directories, remove)
        elif os.geteuid() == 0:
            found += _as_user(user, directories, remove)
    return found


def _users_directories() -> dict[int, list[Path]]:
    """User -> the directories of his journals, those that are his."""
    roots = {Path(environment.journal_directory()), Path(environment.default_journal_directory())}
    with suppress(OSError):
        roots |= {Path(entry.path) for entry in os.scandir("/run/user")}
    found: dict[int, list[Path]] = {}
    for root in sorted(roots):
        with suppress(OSError), os.scandir(root) as entries:
            for entry in entries:
                match = re.fullmatch(r"tailrace-(\d+)", entry.name)
                if not match or not entry.is_dir(follow_symlinks=False):
                    continue
                if entry.stat(follow_symlinks=False).st_uid == int(match[1]):
                    found.setdefault(int(match[1]), []).append(Path(entry.path))
    return found


def _seal_users(directories: list[Path], remove: bool) -> list[Recovered]:
    """Seals this user's journals in these directories `tailrace-<uid>`."""
    keys = [key for directory in directories for key in _subdirectories(directory)]
    return [result for key in keys for result in _seal_key(key, remove)]


def _subdirectories(directory: Path) -> list[Path]:
    try:
        with os.scandir(directory) as entries:
            return sorted(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _seal_key(key: Path, remove: bool) -> Iterator[Recovered]:
    """The journals of one run: those in <place>/tailrace-<uid>/<key>."""
    from tailrace import _native

    journals = sorted(key.glob("*.tj"))
    place = str(key.parent.parent)
    traces = [_native.journal_trace_file(str(path)) for path in journals]
    runs = {Path(trace).parent.parent for trace in traces if trace is not None and Path(trace).parent.name == "trace"}
    runs = {run for run in runs if Path(_native.journal_directory(str(run), place)).name == key.name}
    if not runs:
        unreadable = sum(1 for path in journals if _size(path))
        if unreadable:
            yield Recovered(f"the run of {key}", os.geteuid(), unreadable=unreadable)
        with suppress(OSError):
            if not journals:  # the marks of hosts that are described (core/src/format/host_description.h)
                for mark in key.glob("*.host"):
                    mark.unlink()
            key.rmdir()
    for run in runs:
        if (run / "trace").is_dir():
            result = _seal(run, [place])
            yield result
        else:
            gone = Recovered(str(run), os.geteuid(), gone=True, journals=len(journals), removed=remove)
            gone.bytes = sum(map(_size, journals))
            if remove:
                sealed = _seal(run, [place])
                gone.journals, gone.alive, gone.fault = sealed.journals, sealed.alive, sealed.fault
                gone.failed, gone.failed_events = sealed.failed, sealed.failed_events
            yield gone


def _as_user(user: int, directories: list[Path], remove: bool) -> list[Recovered]:
    """`_seal_users` in a process that has only that user's rights."""
    # Loaded while this process may read the installation.
    from tailrace import _native  # noqa: F401

    try:
        rows = user_process.run_as(user, lambda: [asdict(row) for row in _seal_users(directories, remove)], _ONE_USER_S)
        return [Recovered(**{**row, "lost": Counter(row["lost"])}) for row in cast(list[dict[str, Any]], rows)]
    except user_process.UserProcessError as error:
        return [Recovered(", ".join(map(str, directories)), user, fault=f"sealing as user {user} failed: {error}")]
