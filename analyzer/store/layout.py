"""The places of a run's files: trace files, run.json, declared files and the launchers' accounts.

DIR/trace/*.pfw.gz, DIR/run.json, DIR/declared/*.jsonl, DIR/accounts/*.json; or DIR/*.pfw.gz of DFTracer
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tailrace.errors import NotARunError

ACCOUNTS = "accounts"
"""The folder of the launchers' accounts."""


@dataclass(frozen=True)
class Source:
    """One input file of the catalogue, at `place`; `name` is relative to the run."""

    name: str
    place: str
    size: int
    mtime_ns: int
    inode: int

    @property
    def path(self) -> Path:
        return Path(self.place)

    @property
    def stamp(self) -> tuple[int, int, int]:
        """Equal for an unchanged file."""
        return self.size, self.mtime_ns, self.inode


@dataclass(frozen=True)
class Layout:
    """The directories of a run. `owned`: it is tailrace's, so the catalogue may be written there."""

    directory: Path
    trace: Path
    owned: bool

    def traces(self) -> list[Source]:
        """The trace files, by name."""
        return _sources(self.directory, self.trace, (".pfw.gz", ".pfw"))

    def others(self) -> list[Source]:
        """run.json, the declared files and the launchers' accounts, by name."""
        if not self.owned:
            return []
        folders = ((ACCOUNTS, ".json"), ("declared", ".jsonl"))
        found = [source for name, end in folders for source in _sources(self.directory, self.directory / name, (end,))]
        return found + [s for s in _sources(self.directory, self.directory, (".json",)) if s.name == "run.json"]


def layout(directory: str | os.PathLike[str]) -> Layout:
    """The layout of the run at `directory`. Raises NotARunError when there is neither a run nor a file of
    DFTracer's."""
    path = Path(directory)
    if not path.is_dir():
        what = "is a file: give the run's directory" if path.exists() else "there is no such directory"
        raise NotARunError(f"{path}: {what}")
    if (path / "run.json").is_file() or (path / "trace").is_dir():
        return Layout(path, path / "trace", owned=True)
    if any(path.glob("*.pfw")) or any(path.glob("*.pfw.gz")):
        return Layout(path, path, owned=False)
    raise NotARunError(f"{path}: not a run directory: it has no run.json, no trace/ and no *.pfw.gz")


def _sources(directory: Path, folder: Path, endings: tuple[str, ...]) -> list[Source]:
    """The files of a folder with these endings, by name; none where there is no such folder."""
    try:
        with os.scandir(folder) as entries:
            named = sorted((entry.name, entry) for entry in entries if entry.name.endswith(endings))
    except (FileNotFoundError, NotADirectoryError):
        return []
    inside = "" if folder == directory else f"{folder.relative_to(directory)}/"
    found = []
    for plain, entry in named:
        with suppress(FileNotFoundError):
            status = entry.stat()
            name = inside + os.fsencode(plain).decode("utf-8", "backslashreplace")
            found.append(Source(name, entry.path, status.st_size, status.st_mtime_ns, status.st_ino))
    return found
