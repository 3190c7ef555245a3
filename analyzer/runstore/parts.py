"""The files of a store: who may read which, how a part appears, and which parts there are at one moment.

    STORE/store.json                                  {"format": 1, ...}
    STORE/data/<access>/day=YYYY-MM-DD/<part>/        runs.parquet and the other tables, as far as they have rows;
                                                      events.parquet with events.crc where they were asked for

    <access>  u<uid>-<mode>[-g<gid>]: whose runs, and the permission bits by which they can be read (`Access`)
    <part>    e-<run>-<ns>-<state>, one entry; or m-<ns>-<random>, the entries of several parts (compaction.py)

A part is written beside its place under a name that begins with `.`, synced, and renamed. So it is there as a whole or
not at all, and nothing needs a lock. What is removed is renamed to such a name first.

A directory is not listed at one moment: while it is, a merged part can appear behind the reader, and a part that it
replaces vanish before him. So a listing counts once the next one equals it (`listing`). A part that it lacks then was
published after the second one began, and what that part replaces was there all the time of the first.

Invariants: parts of a user are believed only where directory and files are that user's or root's, none is a symbolic
link, and nobody else may write to them: whoever may add a part can say anything about his own runs, and nothing about
another user's.

Rejected: table formats with a log (Delta Lake, Iceberg), which need a compare-and-swap of the newest entry that shared
file systems don't give without locks; a file for each table, eight renames for one index; one file with rows of all
users, which needs a server that all trust.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tailrace.analyzer.foreign import conversion
from tailrace.analyzer.runstore.columns import TABLES
from tailrace.analyzer.store.layout import layout
from tailrace.base import ownership
from tailrace.errors import RunError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 1
DESCRIPTION = "store.json"
DATA = "data"
RUNS = "runs"
ENTRY, MERGED = "e", "m"
_ACCESS = re.compile(r"u(\d{1,10})-([0-7]{3})(?:-g(\d{1,10}))?")
_DAY = re.compile(r"day=(\d{4}-\d{2}-\d{2})")
ENTRY_PATTERN = r"^e-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{16})$"
_ENTRY = re.compile(ENTRY_PATTERN)
_MERGED = re.compile(r"m-([0-9a-f]{16})-[0-9a-f]{8}")
_STALE_S = 24 * 3600
"""A hidden directory of this age is a dead writer's."""
_UNKNOWN_DAY = "1970-01-01"
_LISTINGS = 100


@dataclass(frozen=True, order=True)
class Access:
    """Who may read runs: their owner, and by `mode` (0o700, 0o750, 0o755, 0o705) the group `gid` and others."""

    uid: int
    mode: int = 0o700
    gid: int = -1

    @property
    def name(self) -> str:
        return f"u{self.uid}-{self.mode:03o}" + (f"-g{self.gid}" if self.mode & stat.S_IRGRP else "")


class Refused(ValueError):
    """A part, or a file of one, that is not read: whoever may add parts could stop its readers with it."""


class Entry(NamedTuple):
    """A run as it was indexed once; state: 16 hexadecimal digits, equal for an unchanged run."""

    run: str
    indexed_ns: int
    state: str

    @property
    def name(self) -> str:
        return f"{ENTRY}-{self.run}-{self.indexed_ns:016x}-{self.state}"

    @classmethod
    def of(cls, name: str) -> Entry | None:
        """The entry of this name; None for any other text."""
        match = _ENTRY.fullmatch(name)
        return None if match is None else cls(match[1], int(match[2], 16), match[3])


@dataclass(frozen=True)
class Part:
    """A published part. entry: its only one; None where it has those of several parts. order: of two parts with one
    entry, the one with the higher order counts; a part that replaces others has a higher one than these."""

    path: Path
    access: Access
    day: str
    entry: Entry | None
    order: tuple[bool, int, str]

    @property
    def name(self) -> str:
        return self.path.name

    def table(self, name: str) -> Path:
        """The file of a table, which may be missing where the table has no rows."""
        return self.path / f"{name}.parquet"

    def tables(self) -> dict[str, os.stat_result]:
        """The tables that it has, and their files. Raises OSError when it is gone, Refused where it or a file of it is
        not what its user wrote."""
        known = {f"{name}.parquet": name for name in TABLES}
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if why := _obstacle(os.fstat(descriptor), self.access.uid):
                raise Refused(why)
            with os.scandir(descriptor) as entries:
                found = {entry.name: entry.stat(follow_symlinks=False) for entry in entries if entry.name in known}
            for name, status in found.items():
                if why := _obstacle_of_file(status, self.access.uid):
                    raise Refused(f"{name}: {why}")
            return {known[name]: status for name, status in found.items()}
        finally:
            os.close(descriptor)

    def open(self, name: str) -> pa.NativeFile:
        """The file of a table, to read. Raises OSError, and Refused as `tables` does."""
        return open_file(self.table(name), self.access.uid)


@dataclass(frozen=True)
class Listing:
    """The parts at a moment; hidden: of how many users' or groups' runs none may be read; refused: why others are left
    out, sentences."""

    parts: tuple[Part, ...]
    hidden: int = 0
    refused: tuple[str, ...] = field(default=())


def is_store(path: str | os.PathLike[str]) -> bool:
    """Whether there is a store at this path."""
    return (Path(path) / DESCRIPTION).is_file()


def create(path: Path, shared: bool = False) -> None:
    """Makes a store, or leaves one as it is. shared: other users may add their runs (as in /tmp, none can remove
    another's). Raises UsageError."""
    try:
        if is_store(path):
            is_shared = check(path)
            if shared and not is_shared:
                raise UsageError(f"{path} exists and is not shared: make a new one")
            return
        if path.exists() and not path.is_dir():
            raise UsageError(f"{path} is a file: a store is a directory; the store comes before the runs")
        if path.is_dir() and any(entry.name != DATA for entry in path.iterdir()):
            raise UsageError(f"{path} is neither empty nor a store: give a new or an empty directory")
        path.mkdir(mode=0o755 if shared else 0o700, parents=True, exist_ok=True)
        if shared:
            _set_mode(path, 0o755)
        data = path / DATA
        data.mkdir(mode=0o700, exist_ok=True)
        _set_mode(data, 0o1777 if shared else 0o700)
        text = json.dumps({"format": FORMAT, "created": datetime.now(timezone.utc).isoformat(), "shared": shared})
        scratch = path / f".{DESCRIPTION}.{secrets.token_hex(4)}"
        with scratch.open("x", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o644 if shared else 0o600)
            file.write(f"{text}\n")
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path / DESCRIPTION)
        _sync(path)
    except OSError as error:
        raise UsageError(f"can't make the store {path}: {error.strerror or error}") from error


def _set_mode(path: Path, mode: int) -> None:
    """Sets the mode of a directory of this user, and of nothing that a link leads to. Raises OSError, UsageError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except NotADirectoryError as error:
        raise UsageError(f"{path} is not a directory, or a link to one: give a new or an empty directory") from error
    try:
        if (owner := os.fstat(descriptor).st_uid) != os.geteuid():
            raise UsageError(f"{path} belongs to user {owner}: give a new directory, or one of yours")
        os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)


def check(path: str | os.PathLike[str]) -> bool:
    """Whether the store of this format is shared. Raises RunError where there is none."""
    if not is_store(path):
        raise RunError(f"{path}: not a store: it has no {DESCRIPTION} (`tailrace index STORE RUN...` makes one)")
    try:
        content = json.loads(ownership.read_regular(Path(path) / DESCRIPTION, 1 << 20))
        known = isinstance(content, dict) and content.get("format") == FORMAT
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(f"{path}/{DESCRIPTION} can't be read: {error}") from error
    if not known:
        raise RunError(f"{path}: a store of another format: use the tailrace that made it")
    return content.get("shared") is True


# --- reading ---------------------------------------------------------------------------------------------------------


def listing(store: Path) -> Listing:
    """The parts of a store that this user may read. Raises RunError."""
    check(store)
    known = _listed(store)
    for _ in range(_LISTINGS):
        again = _listed(store)
        if again == known:
            return again
        known = again
    raise RunError(f"{store}: its files change all the time: repeat this when fewer runs are indexed")


def _listed(store: Path) -> Listing:
    parts: list[Part] = []
    hidden = 0
    refused: list[str] = []
    for access, folder in _folders(store, refused):
        try:
            days = sorted(entry.path for entry in os.scandir(folder) if _DAY.fullmatch(entry.name))
            for day in days:
                parts += _parts(Path(day), access, refused)
        except PermissionError:
            hidden += 1
        except FileNotFoundError:
            continue  # removed meanwhile
    return Listing(tuple(parts), hidden, tuple(refused))


def _folders(store: Path, refused: list[str]) -> Iterator[tuple[Access, Path]]:
    with os.scandir(store / DATA) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        match = _ACCESS.fullmatch(entry.name)
        if match is None:
            continue
        access = Access(int(match[1]), int(match[2], 8), int(match[3] or -1))
        why = _obstacle(entry.stat(follow_symlinks=False), access.uid)
        if why:
            refused.append(f"{entry.name}: {why}")
        else:
            yield access, Path(entry.path)


def _parts(day: Path, access: Access, refused: list[str]) -> Iterator[Part]:
    why = _obstacle(day.lstat(), access.uid)
    if why:
        refused.append(f"{access.name}/{day.name}: {why}")
        return
    with os.scandir(day) as entries:
        # The kind comes with the name. Whose a part is, `Part.tables` asks: that would be a request for each part.
        folders = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
    for name, is_folder in sorted(folders.items()):
        entry, merged = Entry.of(name), _MERGED.fullmatch(name)
        if (entry is not None or merged is not None) and not is_folder:
            refused.append(f"{access.name}/{day.name}/{name}: it is not a directory")
        elif entry is not None or merged is not None:
            number = int(merged[1], 16) if merged is not None else 0
            yield Part(day / name, access, day.name.removeprefix("day="), entry, (merged is not None, number, name))


def _obstacle(status: os.stat_result, uid: int) -> str:
    """Why a directory is not believed to hold what the user `uid` says; "" where it does. Below it nobody else can
    put anything."""
    if not stat.S_ISDIR(status.st_mode):
        return "it is not a directory"
    if status.st_uid not in (uid, 0):
        return f"it belongs to user {status.st_uid}, not to user {uid}"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "others may write to it"
    return ""


def _obstacle_of_file(status: os.stat_result, uid: int) -> str:
    """Why a file is not read as one of the user `uid`; "" where it is."""
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file"
    if status.st_uid not in (uid, 0):
        return f"it belongs to user {status.st_uid}, not to user {uid}"
    return ""


def open_file(path: Path, uid: int) -> pa.NativeFile:
    """Opens a file of a part of the user `uid`: nothing that would be waited for, and no link, whatever took the
    file's place since it was listed. Raises OSError, Refused."""
    import pyarrow as pa

    descriptor = open_descriptor(path, uid)
    try:
        # Arrow opens files by name alone; this name is that of the file just looked at.
        return pa.OSFile(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def open_descriptor(path: Path, uid: int) -> int:
    """A descriptor of what `open_file` opens; the caller closes it. Raises OSError, Refused."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    why = _obstacle_of_file(os.fstat(descriptor), uid)
    if why:
        os.close(descriptor)
        raise Refused(f"{path.name}: {why}")
    return descriptor


# --- writing ---------------------------------------------------------------------------------------------------------


def access_of(directory: Path, shared: bool) -> Access:
    """By which bits a run can be read, by those of its directory, its files, their folders and all directories above.

    A run of another user is indexed for this one alone: he can't give away what is not his. So is every run in a store
    that is not shared.
    """
    status = directory.stat()
    me = os.geteuid()
    if not shared or me != status.st_uid:
        return Access(me)
    group, others = True, True
    for path in _sources(directory):
        with suppress(FileNotFoundError):
            now = path.lstat()
            search = stat.S_ISDIR(now.st_mode)
            # With an access control list, the bits of the group are those of its mask.
            same = now.st_gid == status.st_gid and not _has_list(path)
            group &= same and _may(now.st_mode, stat.S_IRGRP, stat.S_IXGRP, search)
            others &= _may(now.st_mode, stat.S_IROTH, stat.S_IXOTH, search)
    for above in directory.resolve().parents:
        now = above.stat()
        passes = bool(now.st_mode & stat.S_IXOTH)
        others &= passes
        group &= passes or (now.st_gid == status.st_gid and bool(now.st_mode & stat.S_IXGRP) and not _has_list(above))
    mode = 0o700 | (0o050 if group else 0) | (0o005 if others else 0)
    return Access(status.st_uid, mode, status.st_gid if group else -1)


def _sources(directory: Path) -> set[Path]:
    """All that the rows of a run come from (what `rows.state_of` covers), with the folders on the way to it."""
    where = layout(directory)
    if where.directory != where.given:  # of another tracer: what was converted lies in this user's cache
        found = conversion.find(directory)
        files = [] if found is None else list(found.files)
    else:
        files = [where.trace, *(source.path for source in (*where.others(), *where.traces()))]
    folders = {above for file in files for above in file.parents if directory in above.parents}
    return {directory, *files, *folders}


def _may(mode: int, read: int, search: int, is_directory: bool) -> bool:
    return bool(mode & read) and (not is_directory or bool(mode & search))


def _has_list(path: Path) -> bool:
    try:
        return "system.posix_acl_access" in os.listxattr(path, follow_symlinks=False)
    except OSError:
        return False


def day_of(ns: int | None) -> str:
    """The day of a time, UTC; 1970-01-01 where it is unknown."""
    try:
        return datetime.fromtimestamp((ns or 0) / 1e9, timezone.utc).strftime("%Y-%m-%d") if ns else _UNKNOWN_DAY
    except (OverflowError, OSError, ValueError):
        return _UNKNOWN_DAY


def merged_name(replaced: Sequence[Part]) -> str:
    """The name of a new part with the entries of others, of a higher order than these, whatever the clocks say."""
    number = max([time.time_ns(), *(part.order[1] + 1 for part in replaced)])
    return f"{MERGED}-{number:016x}-{secrets.token_hex(4)}"


def place_of(store: Path, access: Access, day: str) -> Path:
    """The directory of a day's parts, made where it is missing. Raises OSError."""
    folder = store / DATA / access.name
    for path in (folder, folder / f"day={day}"):
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
            _give(path, access, 0)
            _sync(path.parent)
        why = _obstacle(path.lstat(), access.uid)
        if why:
            raise OSError(None, f"{path}: {why}")
    return folder / f"day={day}"


@contextmanager
def publishing(day: Path, name: str, access: Access) -> Iterator[Path]:
    """A directory to write the tables of a part to; it becomes the part at the end, unless there is an exception.
    Raises OSError."""
    scratch = day / f".{name}"
    scratch.mkdir(mode=0o700)
    try:
        yield scratch
        for path in scratch.iterdir():
            _give(path, access, stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
            _sync(path)
        _give(scratch, access, 0)
        _sync(scratch)
        scratch.rename(day / name)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    _sync(day)


def _give(path: Path, access: Access, without: int) -> None:
    """Gives a new file or directory the owner and mode of its access."""
    ownership.give(path, access.uid, max(access.gid, -1), access.mode & ~without)


def write(place: Path, tables: Mapping[str, pa.Table]) -> None:
    """Writes the tables that have rows. Raises OSError."""
    import pyarrow.parquet as pq

    for name, rows in tables.items():
        if rows.num_rows:
            # Arrow's own copy of the schema would be a third of a small file.
            pq.write_table(
                rows,
                place / f"{name}.parquet",
                compression="zstd",
                row_group_size=ROW_GROUP,
                store_schema=False,
                write_page_checksum=True,
            )


ROW_GROUP = 32_768
"""Rows of a row group: what a look-up of one run reads of a merged part."""


def remove(part: Part) -> None:
    """Removes a part; it is gone at once. Raises OSError."""
    hidden = part.path.with_name(f".{part.name}.{secrets.token_hex(4)}")
    with suppress(FileNotFoundError):
        part.path.rename(hidden)
        shutil.rmtree(hidden, ignore_errors=True)


def sweep(store: Path, may: Callable[[Access], bool]) -> None:
    """Removes what writers that were killed left behind, and directories that became empty."""
    now = time.time()
    for access, folder in _folders(store, []):
        if not may(access):
            continue
        with suppress(OSError):
            for day in [Path(entry.path) for entry in os.scandir(folder) if _DAY.fullmatch(entry.name)]:
                for entry in [entry for entry in os.scandir(day) if entry.name.startswith(".")]:
                    if now - entry.stat(follow_symlinks=False).st_mtime > _STALE_S:
                        shutil.rmtree(entry.path, ignore_errors=True)
                with suppress(OSError):
                    day.rmdir()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
