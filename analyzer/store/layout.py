"""The places of a run's files: traces, run.json, declared files, launchers' accounts, sealers' manifest, hosts.

DIR/trace/*.pfw.gz, DIR/run.json, DIR/declared/*.jsonl, DIR/accounts/*.json, DIR/manifest/*.jsonl, DIR/hosts/*.json

A trace of another tracer has no such directory: it is converted into one (foreign/conversion.py), which is read.

Invariants: only regular files of the run's owner are read, and no link is followed, since whoever made the directory
may have put anything in it. What is refused is named, never passed over.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tailrace.analyzer.foreign import conversion
from tailrace.analyzer.foreign.formats import titles
from tailrace.base import ownership
from tailrace.errors import NotARunError

ACCOUNTS = "accounts"
"""The folder of the launchers' accounts."""
HOSTS = "hosts"
"""The folder of the descriptions of hosts."""
MANIFEST = "manifest"
"""The folder of what sealers say of the trace files they wrote."""
SAMPLES = "samples"
"""The directory of launchers' samples in a run."""


@dataclass(frozen=True)
class Source:
    """One input file of the catalogue, at `place`; `name` is relative to the run. `obstacle`: why it is not read."""

    name: str
    place: str
    size: int
    mtime_ns: int
    inode: int
    obstacle: str = ""

    @property
    def path(self) -> Path:
        return Path(self.place)

    @property
    def stamp(self) -> tuple[int, int, int]:
        """Equal for an unchanged file."""
        return self.size, self.mtime_ns, self.inode


@dataclass(frozen=True)
class Layout:
    """The directories of a run. `given`: the path that the user knows, of another tracer's trace not `directory`."""

    directory: Path
    trace: Path
    given: Path

    def traces(self) -> list[Source]:
        """The trace files, by name."""
        return self._sources(self.trace, (".pfw.gz", ".pfw"))

    def others(self) -> list[Source]:
        """run.json, the declared files, the launchers' accounts, the manifest and the hosts, by name."""
        folders = ((ACCOUNTS, ".json"), ("declared", ".jsonl"), (MANIFEST, ".jsonl"), (HOSTS, ".json"))
        found = [source for name, end in folders for source in self._sources(self.directory / name, (end,))]
        return found + [source for source in self._sources(self.directory, (".json",)) if source.name == "run.json"]

    def samples(self) -> list[Source]:
        """The samples of launchers (samples.py), by name. They are no part of the catalogue."""
        return self._sources(self.directory / SAMPLES, (".jsonl",))

    def _sources(self, folder: Path, endings: tuple[str, ...]) -> list[Source]:
        """The files of a folder with these endings, by name; none where there is no such folder."""
        owner = self.directory.stat().st_uid
        inside = "" if folder == self.directory else f"{folder.relative_to(self.directory)}/"
        try:
            if inside and folder.is_symlink():
                return [_source(inside.rstrip("/"), str(folder), folder.lstat(), owner)]
            with os.scandir(folder) as entries:
                named = sorted((entry.name, entry) for entry in entries if entry.name.endswith(endings))
        except (FileNotFoundError, NotADirectoryError):
            return []
        found = []
        for plain, entry in named:
            name = inside + os.fsencode(plain).decode("utf-8", "backslashreplace")
            try:
                status = entry.stat(follow_symlinks=False)
                found.append(_source(name, entry.path, status, owner))
            except FileNotFoundError:
                # It is read next, and then said to have vanished.
                found.append(Source(name, entry.path, 0, 0, 0))
        return found


def layout(directory: str | os.PathLike[str]) -> Layout:
    """The layout of the run at `directory`, or of the trace of another tracer at that path. Raises NotARunError when
    there is neither."""
    path = Path(directory)
    if (path / "run.json").is_file() or (path / "trace").is_dir():
        return Layout(path, path / "trace", path)
    if not path.exists():
        raise NotARunError(f"{path}: there is no such directory")
    if (found := conversion.find(path)) is not None:
        made = conversion.cached(found)
        return Layout(made, made / "trace", path)
    if path.is_dir():
        raise NotARunError(f"{path}: not a run directory: it has no run.json, no trace/, and is not {titles()}")
    raise NotARunError(f"{path}: is a file, and not {titles()}: give the run's directory")


def _source(name: str, place: str, status: os.stat_result, owner: int) -> Source:
    """owner: the run's."""
    why = ownership.obstacle(status, owner)
    return Source(name, place, status.st_size, status.st_mtime_ns, status.st_ino, why)
