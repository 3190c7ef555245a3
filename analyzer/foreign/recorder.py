"""Recorder's traces, by its own converter: `recorder2text DIR` writes DIR/_text/RANK.txt, a line a call.

    0.0008861 0.0008949 write 0 0 ( /data/x %p 4096 )      begin, end (s), function, level, kind, args

Invariants: the trace itself is not written to: where it has no texts yet, a copy of it is converted. Recorder keeps no
results, so bytes are those that were requested, and a call that failed is one that moved them; that is noted. Begin is
since the start in recorder.mt.
"""

from __future__ import annotations

import math
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tailrace import _native
from tailrace.analyzer.foreign import calls
from tailrace.analyzer.foreign.importer import Format, Imported, Starts, UnreadableError, convert_each, name_in, walk
from tailrace.analyzer.util.losses import Loss
from tailrace.base.text import clean
from tailrace.errors import TraceError

_METADATA, _TEXTS, _CONVERTER = "recorder.mt", "_text", "recorder2text"
_HEAD = struct.Struct("<i4xdd")
"""Number of ranks, start (s since the epoch), resolution (s)."""
_LINE = re.compile(r"([0-9]{1,9}\.[0-9]+) ([0-9]{1,9}\.[0-9]+) (\S+) ([0-9]+) ([0-9]+) \((.*) \)")
_LATEST_S = 2**32
"""Of a start: with nine digits of seconds after it, ns fit into 64 bits."""
_KINDS = {"0": "POSIX", "1": "MPIIO", "2": "MPI", "3": "HDF5", "4": "APP"}
_NOTE = "Recorder keeps no results: bytes are those that were requested, and failed calls can't be told"
_FIELDS = {
    **dict.fromkeys(("read", "write"), ("path", "", "count")),
    **dict.fromkeys(("pread", "pread64", "pwrite", "pwrite64"), ("path", "", "count", "offset")),
    **dict.fromkeys(("fread", "fwrite"), ("", "item", "count", "path")),
    **dict.fromkeys(("lseek", "lseek64"), ("path", "offset", "whence")),
    **dict.fromkeys(("open", "open64", "creat", "creat64"), ("path", "flags", "")),
    **dict.fromkeys(("fopen", "fopen64"), ("path", "mode")),
    **dict.fromkeys(("rename", "link", "symlink"), ("path", "path2")),
}
"""Function -> its arguments. Of all others the first absolute path is the file."""
_LINE_BYTES = 1 << 20
_ABSOLUTE = 0
"""lseek's SEEK_SET."""


def files(path: Path) -> list[Path]:
    """The metadata of the trace at `path`, or of those below it: one of each process or MPI job."""
    return [found for found in walk(path, (_METADATA,)) if found.name == _METADATA]


def convert(root: Path, paths: list[Path], target: Path) -> Imported:
    """Writes a trace file for each process or MPI job."""

    def one(path: Path, made: Path, imported: Imported, starts: Starts) -> tuple[Imported, Starts]:
        try:
            _Trace(root, path, made, imported, starts).write()
        except TraceError as error:
            raise UnreadableError(str(error)) from error
        except (OSError, struct.error) as error:
            raise UnreadableError(f"{path}: can't be read: {error}") from error
        return imported, starts

    imported = convert_each(root, paths, target, "recorder", one)
    unreadable = [loss.problem for loss in imported.losses if loss.cause == "unreadable"]
    if len(unreadable) == len(paths):
        raise TraceError(unreadable[0])
    imported.notes.insert(0, _NOTE)
    return imported


class _DamagedError(Exception):
    """A line whose numbers no call can have."""


class _Trace:
    """One directory with a recorder.mt."""

    def __init__(self, root: Path, path: Path, made: Path, imported: Imported, starts: Starts) -> None:
        self._name, self._directory, self._imported = name_in(root, path), path.parent, imported
        with path.open("rb") as file:
            self._ranks, begin_s, _ = _HEAD.unpack(file.read(_HEAD.size))
        if not (math.isfinite(begin_s) and 0 <= begin_s < _LATEST_S):
            raise TraceError(f"{path}: its start, {begin_s} s since the epoch, is no time: the file is damaged")
        self._begin_ns = round(begin_s * 1e9)
        # Ranks of two jobs have one number, and a pid is used again.
        self._start = starts.of(self._begin_ns)
        self._writer = _native.ForeignWriter(made)
        # HOST-USER-PROGRAM-PID-TIME
        found = re.fullmatch(r"(.+?)-[^-]*-(.*)-([0-9]{1,9})-[\d.]+", clean(self._directory.name))
        self._host, self._program, self._pid = (found[1], found[2], int(found[3])) if found else ("unknown", "", 0)

    def write(self) -> None:
        """Writes all ranks."""
        texts = self._directory / _TEXTS
        if texts.is_dir():
            self._write(texts)
        else:
            with tempfile.TemporaryDirectory(prefix="tailrace-recorder-") as place:
                self._write(_converted(self._directory, Path(place) / "trace"))
        self._writer.finish()

    def _write(self, texts: Path) -> None:
        ranks = {path: int(path.stem) for path in texts.glob("*.txt") if re.fullmatch("[0-9]{1,9}", path.stem)}
        found = sorted(ranks, key=lambda path: ranks[path])
        if len(found) != self._ranks:
            have = f"it has {self._ranks} ranks, and texts of {len(found)}"
            raise TraceError(f"{self._directory}: {have}: convert it again")
        for path in found:
            rank = ranks[path]
            pid = self._pid if self._ranks == 1 and self._pid else rank
            facts = f'{{"exe":"{self._program}"}}' if re.fullmatch(r"[\w.+-]+", self._program) else ""
            process = self._writer.process(self._host, pid, self._start, facts)
            context = self._writer.context(*calls.context(rank=str(rank))) if self._ranks > 1 else 0
            self._rank(path, process, pid, context)

    def _rank(self, path: Path, process: int, pid: int, context: int) -> None:
        unreadable = 0
        for line in _lines(path):
            match = _LINE.fullmatch(line)
            if match is None:
                unreadable += 1
                continue
            begin, end, function, _, kind, args = match.groups()
            begin_ns = self._begin_ns + _ns(begin)
            try:
                self._call(process, pid, context, function, kind, args.split(), begin_ns, _ns(end) - _ns(begin))
            except _DamagedError:
                unreadable += 1
        if unreadable:
            self._imported.losses.append(Loss(self._name, "damaged", "lines", unreadable, self._name))

    def _call(
        self, process: int, pid: int, context: int, function: str, kind: str, words: list[str], begin: int, dur: int
    ) -> None:
        name, category = calls.known().get(function, (function, _KINDS.get(kind, "APP")))
        fields = _FIELDS.get(function)
        found: dict[str, str] = {}
        if fields is None:
            found["path"] = next((word for word in words if word.startswith("/")), "")
        else:
            found = dict(zip(fields, _fitted(fields, words), strict=False))
        number = {key: int(text) for key, text in found.items() if re.fullmatch(r"-?[0-9]{1,18}", text)}
        count = number.get("count")
        if count is not None:
            count *= number.get("item", 1)
            if not 0 <= count < 2**63:
                raise _DamagedError
        flags = calls.flags_of_mode(found["mode"]) if "mode" in found else number.get("flags")
        offset = number.get("offset") if number.get("whence", _ABSOLUTE) == _ABSOLUTE else None
        self._writer.event(
            process,
            name,
            category,
            pid,
            begin,
            max(dur, 0),
            self._file(found.get("path", "")),
            self._file(found.get("path2", "")),
            offset=offset,
            size=count,
            count=count,
            flags=flags,
            dir="" if count is None else "w" if "write" in function else "r",
            context=context,
        )

    def _file(self, path: str) -> int:
        return self._writer.file(path) if path.startswith("/") else -1


def _fitted(fields: tuple[str, ...], words: list[str]) -> list[str]:
    """The words, joined where a path has blanks."""
    extra = len(words) - len(fields)
    if extra <= 0 or "path" not in fields:
        return words
    at = fields.index("path")
    return [*words[:at], " ".join(words[at : at + extra + 1]), *words[at + extra + 1 :]]


def _ns(seconds: str) -> int:
    whole, _, decimals = seconds.partition(".")
    return int(whole) * 10**9 + int(decimals[:9].ljust(9, "0"))


def _lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", errors="replace") as file:
        while line := file.readline(_LINE_BYTES):
            yield line.rstrip("\n")


def _converted(directory: Path, copy: Path) -> Path:
    """The texts of a copy of the trace. Raises TraceError."""
    program = shutil.which(_CONVERTER)
    if program is None:
        raise TraceError(f"{directory}: convert it with Recorder's {_CONVERTER}, or put that into PATH")
    shutil.copytree(directory, copy, symlinks=True)
    done = subprocess.run([program, str(copy)], capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0 or not (copy / _TEXTS).is_dir():
        raise TraceError(f"{directory}: {program} failed with exit code {done.returncode}")
    return copy / _TEXTS


FORMAT = Format("recorder", "a trace of Recorder", files, convert, version=2)
