"""Rewrites the trace files of a finished run: fewer files, larger blocks, the best deflate stream.

    trace/*.pfw.gz --repack.py--> trace.compact/*.pfw.gz, compared --> exchanged with trace/ --> removed

Invariants: the originals stay until every line of the new files was read and compared. The change is one rename
(RENAME_EXCHANGE of the two directories), so a crash at any moment leaves one whole run in `trace/`; what is left beside
it is removed by the next compaction. The manifest is away meanwhile, since it would miss files of one of the two. Where
the file system can't exchange directories, each file is replaced by its own compacted one, and files are not merged:
then a crash leaves some files compacted. A block that comes twice in the run, which readers recognize by its length
among others, is kept byte for byte. So are damaged blocks, and files with anything but whole blocks.

Rejected: a list of the files that count, which every reader, also `zcat trace/*`, would have to know.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import re
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO

from tailrace import _native
from tailrace.analyzer.store import engine, headers, missing
from tailrace.analyzer.store.layout import MANIFEST, Layout, Source, layout
from tailrace.analyzer.store.repack import Block, Made, Unit, compressed, difference, process_of, units
from tailrace.analyzer.util.formatting import count_text
from tailrace.analyzer.util.types import Document
from tailrace.base import ownership
from tailrace.errors import RunError

BEST = 12
"""libdeflate's highest level."""
NEW = "trace.compact"
"""The directory of the new files; after the exchange, of the old ones."""
_OLD_MANIFEST, _NEW_MANIFEST = f"{MANIFEST}.old", f"{MANIFEST}.compact"
FILE_BYTES = 1 << 30
"""A file is followed by the next one at this size."""
_ATTEMPTS, _PAUSE_SECONDS = 50, 0.02
"""To lock a run directory, which a launcher does, too, for the moment in which it notes a restart."""
_NAME = re.compile(r"(?!u[0-9]+\.[^-]+-)[^-]+(\.[0-9]+|-[0-9]+-[0-9a-f]+)\.pfw\.gz")
"""Of a node's file and of a process's; not of what a process left under another user's rights."""


@dataclass
class Account:
    """What a compaction came to. kept: what was left as it is, a sentence each. merged: whether files were merged."""

    files: int = 0
    blocks: int = 0
    bytes: int = 0
    new_files: int = 0
    new_blocks: int = 0
    new_bytes: int = 0
    events: int = 0
    merged: bool = True
    kept: list[str] = field(default_factory=list)


_Compress = Callable[[Unit], list[Made]]


def compact(directory: str | os.PathLike[str], level: int = BEST, keep_offsets: bool = False) -> Account:
    """Compacts the run at `directory`, which nothing writes to any more.

    level: of libdeflate, 1 to 12. keep_offsets: each line keeps its offset, also one that follows on.
    Raises RunError when the run can't be compacted; then its files are as before.
    """
    where = layout(directory)
    if where.given != where.directory:
        raise RunError(f"{where.given}: its files are not tailrace's, so they are not compacted")
    owner = where.directory.stat().st_uid
    if owner != os.geteuid():
        raise RunError(f"{where.directory} belongs to user {owner}: only that user can compact it")
    with _alone(where):
        new = where.directory / NEW
        try:
            _remove_all(where)
            merges = _can_exchange(new)
            return _Compaction(where, new, merges, partial(compressed, level=level, keep_offsets=keep_offsets)).run()
        except OSError as error:
            what = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
            raise RunError(f"{where.directory}: not compacted, its trace files are as before: {what}") from error
        finally:
            with suppress(OSError):
                _remove_all(where)


def _rights(path: Path) -> tuple[int, int]:
    """The mode and the group of a file or directory. Raises OSError."""
    found = path.stat()
    return found.st_mode & 0o7777, found.st_gid


def _common_rights(sources: Sequence[Source]) -> tuple[int, int]:
    """What all of the files allow, and their group; the process's own where they differ. Raises OSError."""
    found = [_rights(source.path) for source in sources]
    groups = {group for _, group in found}
    mode = 0o777
    for one, _ in found:
        mode &= one
    # A file of another group would give its readers what they could not read.
    return (mode, groups.pop()) if len(groups) == 1 else (mode & 0o700, os.getegid())


def _give(path: Path, mode: int, group: int) -> None:
    """Gives a new file the rights of those that it replaces, as far as this user may. Raises OSError."""
    try:
        ownership.give(path, -1, group, mode | 0o600)
    except PermissionError:  # another group than this user's: not to them
        ownership.give(path, -1, -1, (mode & 0o707) | 0o600)


@contextmanager
def _alone(where: Layout) -> Iterator[None]:
    """Keeps a second compaction out. Raises RunError."""
    descriptor = os.open(where.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        why = f"{where.directory} is being compacted already"
        _lock(descriptor, fcntl.LOCK_EX, why, attempts=_ATTEMPTS)
        yield
    finally:
        os.close(descriptor)


def _remove_all(where: Layout) -> None:
    """Removes what a compaction leaves beside the run. Raises OSError."""
    for name in (NEW, _OLD_MANIFEST, _NEW_MANIFEST):
        path = where.directory / name
        if path.is_symlink():
            path.unlink()
        elif path.exists():
            shutil.rmtree(path)


class _Compaction:
    """One compaction. merges: the blocks of a node's files and of its processes' go into one file."""

    def __init__(self, where: Layout, new: Path, merges: bool, compressed: _Compress) -> None:
        self._where, self._new, self._merges, self._compressed = where, new, merges, compressed
        self._account = Account(merged=merges)
        self._kept: list[Source] = []
        self._promised: dict[str, int] = {}
        self._compacted: set[str] = set()
        self._rights = (0o600, os.getegid())
        self._written: list[tuple[str, tuple[int, int], tuple[Block, ...]]] = []

    def run(self) -> Account:
        """Raises OSError, RunError."""
        sources = self._where.traces()
        files = self._files(sources)
        self._new.mkdir(0o700)
        self._rights = _common_rights(sources)
        self._compacted = {source.path.name for source in sources} - {kept.path.name for kept in self._kept}
        names = {source.path.name for source in self._kept} | (self._promised.keys() - self._compacted)
        for name, made_of in files:
            self._write(name, made_of, names)
        self._verify()
        _give(self._new, *_rights(self._where.trace))
        _sync(self._new)
        self._make_manifest()
        if [source.stamp for source in self._where.traces()] != [source.stamp for source in sources]:
            raise RunError(f"{self._where.directory} is still being written: its files changed while they were read")
        with self._manifest_away():
            self._replace(sources)
        account = self._account
        account.files = len(sources)
        account.bytes = sum(source.size for source in sources)
        account.new_bytes += sum(source.size for source in self._kept)
        account.new_files += len(self._kept)
        return account

    # ---- plan ----

    def _files(self, sources: Sequence[Source]) -> list[tuple[str, list[Unit]]]:
        """The new files, without number, and their units in order. Raises RunError."""
        blocks: dict[str, list[Block]] = {}
        promised = self._promised = self._read_manifest()
        copies: dict[tuple[object, ...], int] = defaultdict(int)
        for source in sources:
            found, why = ([], source.obstacle) if source.obstacle else self._scan(source)
            for block in found:
                copies[block.copied] += 1
            if not why and len(found) < promised.get(source.path.name, 0):
                why = f"it lacks {count_text(promised[source.path.name] - len(found), 'block')}"
            if why or not found:
                self._kept.append(source)
            else:
                blocks[source.place] = found
            if why:
                self._account.kept.append(f"{source.name}: {why}")
        if not self._merges:
            return [(Path(path).name, units(found, copies)) for path, found in blocks.items()]
        of_host: dict[str, list[tuple[int, int, int, Block]]] = defaultdict(list)
        for number, found in enumerate(blocks.values()):
            for block in found:
                host = re.sub("[^A-Za-z0-9._]", "_", block.about.host)
                of_host[host].append((block.until, number, block.about.offset, block))
        for rows in of_host.values():
            rows.sort(key=lambda row: row[:3])
        return [(host, units([row[3] for row in rows], copies)) for host, rows in sorted(of_host.items())]

    def _scan(self, source: Source) -> tuple[list[Block], str]:
        """The blocks of a file, and why it is kept as it is; "" where it isn't. Raises RunError."""
        _refuse_locked(source)
        found, torn_bytes, _, why = _native.scan_blocks(source.place)
        if torn_bytes and not why:
            why = f"{count_text(torn_bytes, 'byte')} of it are in no whole block"
        if not _NAME.fullmatch(source.path.name):
            why = "it is no file of a node, nor of a process with its user's rights"
        reached: dict[tuple[object, ...], int] = {}
        blocks = []
        for offset, member_bytes, text in found:
            try:
                about = headers.parse(offset, member_bytes, text)
                header: Document = json.loads(text, strict=False)
            except (ValueError, RecursionError) as error:
                why = f"block at byte {offset}: the header is damaged: {error}"
                continue
            process = process_of(about)
            until = reached[process] = max(about.t1, reached.get(process, 0))
            blocks.append(Block(source.place, about, header, until))
        return blocks, why

    # ---- write ----

    def _write(self, name: str, made_of: Sequence[Unit], names: set[str]) -> None:
        """Writes the new files of a node, or the one in the place of an old one. Raises OSError."""
        number = 0
        file = None
        tasks = [partial(self._compressed, unit) for unit in made_of]
        try:
            for made in (made for unit in engine.stream(tasks) for made in unit):
                if file is None or (self._merges and file.tell() and file.tell() + len(made.member) > FILE_BYTES):
                    if file is not None:
                        _close(file)
                    while self._merges and f"{name}.{number}.pfw.gz" in names:
                        number += 1
                    path = self._new / (f"{name}.{number}.pfw.gz" if self._merges else name)
                    number += 1
                    file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")
                    _give(path, *self._rights)
                    self._account.new_files += 1
                self._note(path, (file.tell(), len(made.member)), made)
                file.write(made.member)
        finally:
            if file is not None:
                _close(file)

    def _note(self, path: Path, place: tuple[int, int], made: Made) -> None:
        account = self._account
        account.blocks += len(made.of)
        account.new_blocks += 1
        account.new_bytes += place[1]
        account.events += sum(block.about.events for block in made.of)
        if made.problem:
            account.kept.append(made.problem)
        self._written.append((str(path), place, made.of))

    def _verify(self) -> None:
        """Compares each block of the new files with the originals. Raises RunError."""
        tasks = [partial(difference, path, place, of) for path, place, of in self._written]
        for problem in engine.stream(tasks):
            if problem:
                raise RunError(
                    f"{self._where.directory}: not compacted, its trace files are as before: {problem}; try --offsets"
                )

    # ---- replace ----

    def _read_manifest(self) -> dict[str, int]:
        """Trace file -> how many blocks it has by the manifest. Raises OSError."""
        promised: dict[str, int] = {}
        for path in self._manifests():
            for row in filter(None, map(missing.parsed, path.read_bytes().splitlines(keepends=True))):
                promised[row[0]] = max(row[1] or 0, promised.get(row[0], 0))
        return promised

    def _manifests(self) -> list[Path]:
        return [source.path for source in self._where.others() if source.name.startswith(f"{MANIFEST}/")]

    def _make_manifest(self) -> None:
        """The manifest of the new files: all lines but those of compacted ones, and lines of the new. Raises
        OSError."""
        old = self._manifests()
        if not old:
            return
        new = self._where.directory / _NEW_MANIFEST
        new.mkdir(mode=0o700)
        blocks = Counter(Path(path).name for path, _, _ in self._written)
        lines = {old[0].name: b"".join(missing.line_of(name, count) for name, count in sorted(blocks.items()))}
        for path in old:
            kept = lines.get(path.name, b"")
            for line in path.read_bytes().splitlines(keepends=True):
                row = missing.parsed(line)
                kept += line if row is None or row[0] not in self._compacted else b""
            with (new / path.name).open("xb") as file:
                file.write(kept)
                file.flush()
                os.fsync(file.fileno())

    @contextmanager
    def _manifest_away(self) -> Iterator[None]:
        """Takes the manifest away, and puts the new one, or after an error the old one, in its place."""
        directory = self._where.directory
        if not (directory / _NEW_MANIFEST).exists():
            yield
            return
        (directory / MANIFEST).rename(directory / _OLD_MANIFEST)
        put_back = _OLD_MANIFEST
        try:
            yield
            put_back = _NEW_MANIFEST
        finally:
            (directory / put_back).rename(directory / MANIFEST)
            _sync(directory)

    def _replace(self, sources: Sequence[Source]) -> None:
        """Raises OSError."""
        trace = self._where.trace
        if self._merges:
            for entry in sorted(trace.iterdir()):
                if entry.name not in self._compacted:
                    os.link(entry, self._new / entry.name, follow_symlinks=False)
            _sync(self._new)
            _exchange(self._new, trace)
            if any(_stamp(self._new / source.path.name) != source.stamp for source in sources):
                _exchange(self._new, trace)
                raise RunError(f"{self._where.directory} is still being written: its files changed in the meantime")
            _sync(self._where.directory)
            return
        for path in sorted(self._new.iterdir()):
            path.replace(trace / path.name)
        _sync(trace)


def _stamp(path: Path) -> tuple[int, int, int]:
    status = path.lstat()
    return status.st_size, status.st_mtime_ns, status.st_ino


_RENAME_EXCHANGE = 2
_AT_FDCWD = -100


def _exchange(one: Path, other: Path) -> None:
    """Exchanges two directories by one rename. Raises OSError."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from None
    if renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(other))


def _can_exchange(new: Path) -> bool:
    """Whether the file system exchanges directories. Raises OSError."""
    new.mkdir(mode=0o700)
    try:
        for name in ("one", "other"):
            (new / name).mkdir()
        _exchange(new / "one", new / "other")
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
        return False
    finally:
        shutil.rmtree(new)
    return True


def _close(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
    file.close()


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # not every file system has it for directories
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _refuse_locked(source: Source) -> None:
    """The sealer of a node locks its file while it may write to it. Raises RunError."""
    with source.path.open("rb") as file:
        why = f"{source.place} is being written: compact the run when its command has ended"
        _lock(file.fileno(), fcntl.LOCK_SH, why)


def _lock(descriptor: int, how: int, why: str, attempts: int = 1) -> None:
    """Raises RunError, with the reason, where another process holds the lock at each of the attempts."""
    for attempt in range(attempts):
        if attempt:
            time.sleep(_PAUSE_SECONDS)
        with suppress(OSError):  # a file system without locks
            try:
                fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
        return
    raise RunError(why)
