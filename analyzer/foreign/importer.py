"""What a module of a format offers: which files at a path are such a trace, and its events as trace files of ours.

    files(path) -> the trace's files         convert(root, files, target) -> target/*.pfw.gz, Imported

Invariants: a module writes by `_native.ForeignWriter` only, so blocks, headers and sums are right by construction, and
names of files without an identity are theirs ("path:" and the name). What it leaves out it counts by cause, or refuses
by name (TraceError); it never guesses. A file of which nothing can be read is a loss (`unreadable`), and the others are
read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISREG

from tailrace.analyzer.util.losses import Loss


@dataclass
class Imported:
    """What a conversion found beside the events."""

    command: list[str] = field(default_factory=list)
    cwd: str = ""
    host: str = ""
    tags: str = ""
    losses: list[Loss] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What the format does not have, in sentences: no order, no bytes."""

    def add_unreadable(self, root: Path, path: Path, problem: str) -> None:
        """Counts a file of the trace at `root` of which nothing could be read."""
        self.losses.append(Loss(name_in(root, path), "unreadable", "files", 1, problem))


class Starts:
    """Starts of processes that tell those of one conversion apart: the begins of their traces."""

    def __init__(self, taken: Iterable[int] = ()) -> None:
        self.taken = set(taken)

    def of(self, begin_ns: int) -> str:
        """The start for the processes of a trace that begins then. Begins may be equal (a clock of whole seconds, one
        without an origin): the next ns that is free, since a start is read as a time."""
        while begin_ns in self.taken:
            begin_ns += 1
        self.taken.add(begin_ns)
        return f"{begin_ns:x}"


class UnreadableError(Exception):
    """Nothing of a file can be read; the text names it and says why."""


def convert_each(
    root: Path,
    paths: list[Path],
    target: Path,
    name: str,
    convert: Callable[[Path, Path, Imported, Starts], tuple[Imported, Starts]],
) -> Imported:
    """Converts files that are a trace of their own, one after another: `convert` writes the trace file of one, and
    returns what is known with it. One that raises UnreadableError is a loss, and leaves no trace file."""
    imported, starts = Imported(), Starts()
    for number, path in enumerate(paths):
        made = target / f"{name}.{number}.pfw.gz"
        try:
            imported, starts = convert(path, made, imported, starts)
        except UnreadableError as error:
            made.unlink(missing_ok=True)
            imported.add_unreadable(root, path, str(error))
    return imported


@dataclass(frozen=True)
class Format:
    """A format: its word in run.json, its name for users, and its two functions."""

    name: str
    title: str
    files: Callable[[Path], list[Path]]
    """The files at a path (a file or a directory) that are a trace of this format; [] where it is none."""
    convert: Callable[[Path, list[Path], Path], Imported]
    """Converts these files of the trace at a root into trace files in a directory. Raises TailraceError."""
    version: int = 1
    """Of the conversion: kept results of another one are made again."""


def walk(path: Path, endings: tuple[str, ...]) -> list[Path]:
    """The regular files with these endings at `path`, itself or below it, by name. Links to directories are not
    followed; a run of tailrace is left out."""
    if path.is_file():
        return [path] if path.name.endswith(endings) else []
    return sorted(_below(path, endings))


def _below(path: Path, endings: tuple[str, ...]) -> Iterator[Path]:
    for directory, folders, names in os.walk(path):
        if "run.json" in names:
            folders.clear()
            continue
        for name in names:
            file = Path(directory, name)
            if name.endswith(endings) and is_regular(file):
                yield file


def is_regular(path: Path) -> bool:
    """Whether it is a regular file, or a link to one: opening a FIFO would wait."""
    try:
        return S_ISREG(path.stat().st_mode)
    except OSError:
        return False


def name_in(root: Path, file: Path) -> str:
    """A file's name relative to the trace's root, as it may be printed."""
    inside = file.name if file == root else str(file.relative_to(root))
    return os.fsencode(inside).decode("utf-8", "backslashreplace")
