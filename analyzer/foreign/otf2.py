"""OTF2 archives, as Score-P and TAU write them, by the otf2 package (`pip install tailrace[otf2]`).

Invariants: an I/O operation (IoOperationBegin to its IoOperationComplete) is an event with its file and bytes; regions
(Enter to Leave) are events of category REGION, or MPI, whose time is no time in I/O calls: an operation lies in one. A
location group is a process, a location a thread. What neither is (messages, metrics) is left out, and noted.
"""

from __future__ import annotations

import io
import re
from collections import Counter, defaultdict
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

from tailrace import _native
from tailrace.analyzer.foreign import calls
from tailrace.analyzer.foreign.importer import Format, Imported, Starts, UnreadableError, convert_each, name_in, walk
from tailrace.analyzer.util.losses import Loss
from tailrace.errors import TraceError

_ENDING = ".otf2"
_PARADIGMS = {"POSIX": "POSIX", "ISOC": "STDIO", "MPI-IO": "MPIIO", "HDF5": "HDF5", "netCDF": "NETCDF"}
"""The identification of an I/O paradigm -> category."""
_NAMES = {"POSIX": ("read", "write"), "STDIO": ("fread", "fwrite"), "MPIIO": ("MPI_File_read", "MPI_File_write")}
_UNKNOWN_BYTES = 2**64 - 1
_YEAR_2000_S, _YEAR_2100_S = 946_684_800, 4_102_444_800
_NOTE = "messages, metrics and other events that are neither regions nor I/O operations are left out"


def files(path: Path) -> list[Path]:
    """The anchor files."""
    return walk(path, (_ENDING,))


def convert(root: Path, paths: list[Path], target: Path) -> Imported:
    """Writes a trace file for each archive."""
    try:
        import otf2
    except ImportError as error:
        raise TraceError(
            f"{root}: OTF2 archives are read by the otf2 package, which is missing: pip install 'tailrace[otf2]'"
        ) from error

    def one(path: Path, made: Path, imported: Imported, starts: Starts) -> tuple[Imported, Starts]:
        try:
            # The package writes a traceback for what it then raises as an error of its own.
            with redirect_stderr(io.StringIO()), otf2.reader.open(str(path)) as archive:
                _Archive(otf2, archive, name_in(root, path), imported, starts, _native.ForeignWriter(made)).write()
        except TraceError:
            raise
        except Exception as error:  # what the package raises is not documented
            raise UnreadableError(f"{path}: the otf2 package can't read it: {error}") from error
        return imported, starts

    return convert_each(root, paths, target, "otf2", one)


class _Archive:
    """One archive: its events in the order of time."""

    def __init__(
        self,
        otf2: Any,
        archive: Any,
        name: str,
        imported: Imported,
        starts: Starts,
        writer: _native.ForeignWriter,
    ) -> None:
        self._otf2, self._archive, self._name, self._imported, self._writer = otf2, archive, name, imported, writer
        clock = archive.definitions.clock_properties
        self._resolution, self._offset = clock.timer_resolution, clock.global_offset
        real = clock.realtime_timestamp
        self._begin_ns = real if real is not None and 0 < real < 2**62 else self._absolute()
        # Ranks of two archives have one number.
        self._start = starts.of(self._begin_ns)
        self._left: Counter[str] = Counter()
        self._regions: dict[int, list[tuple[Any, int]]] = defaultdict(list)
        self._operations: dict[tuple[int, int], tuple[Any, int]] = {}
        self._threads: dict[int, tuple[int, int, int]] = {}

    def write(self) -> None:
        """Writes all events."""
        kinds = self._otf2.events
        others = 0
        for location, event in self._archive.events:
            key = location._ref
            time = self._ns(event.time)
            if isinstance(event, kinds.Enter):
                self._regions[key].append((event.region, time))
            elif isinstance(event, kinds.Leave):
                self._leave(location, time)
            elif isinstance(event, kinds.IoOperationBegin):
                self._operations[key, event.matching_id] = (event, time)
            elif isinstance(event, kinds.IoOperationComplete):
                self._complete(location, event, time)
            else:
                others += 1
        if others:
            self._imported.notes.append(_NOTE)
        unfinished = self._left["unfinished"] + len(self._operations) + sum(map(len, self._regions.values()))
        if unfinished:
            self._imported.losses.append(Loss(self._name, "unfinished", "lines", unfinished))
        self._writer.finish()

    def _absolute(self) -> int:
        """The begin of a clock that counts from the epoch, in ns; 0 of any other one."""
        seconds = self._offset / self._resolution
        return int(self._offset * 10**9 // self._resolution) if _YEAR_2000_S < seconds < _YEAR_2100_S else 0

    def _ns(self, ticks: int) -> int:
        return self._begin_ns + int((ticks - self._offset) * 10**9 // self._resolution)

    def _thread(self, location: Any) -> tuple[int, int, int]:
        """The number of a location's process, its tid, and its context."""
        if location._ref not in self._threads:
            group = location.group
            node = group.system_tree_parent
            rank = re.fullmatch(r"MPI Rank (\d+)", str(group.name))
            digits = re.search(r"(\d+)$", str(group.name))
            pid = int(digits[1]) if digits and int(digits[1]) < 2**31 else group._ref
            process = self._writer.process(str(node.name) if node is not None else "unknown", pid, self._start)
            context = self._writer.context(*calls.context(rank=rank[1])) if rank else 0
            self._threads[location._ref] = process, location._ref % 2**31, context
        return self._threads[location._ref]

    def _leave(self, location: Any, time: int) -> None:
        if not self._regions[location._ref]:
            self._left["unfinished"] += 1
            return
        region, begin = self._regions[location._ref].pop()
        process, tid, context = self._thread(location)
        category = "MPI" if region.paradigm == self._otf2.Paradigm.MPI else "REGION"
        self._writer.event(process, str(region.name), category, tid, begin, time - begin, context=context)

    def _complete(self, location: Any, event: Any, time: int) -> None:
        found = self._operations.pop((location._ref, event.matching_id), None)
        if found is None:
            self._left["unfinished"] += 1
            return
        begun, begin = found
        mode = self._otf2.IoOperationMode
        handle = begun.handle
        category = _PARADIGMS.get(str(handle.io_paradigm.identification), str(handle.io_paradigm.identification))
        names = _NAMES.get(category, ("read", "write"))
        way = "r" if begun.mode == mode.READ else "w" if begun.mode == mode.WRITE else ""
        name = names[0] if way == "r" else names[1] if way == "w" else "flush"
        size = event.bytes_result if event.bytes_result < _UNKNOWN_BYTES else None
        process, tid, context = self._thread(location)
        self._writer.event(
            process,
            name,
            category,
            tid,
            begin,
            time - begin,
            self._writer.file(str(handle.file.name)) if handle.file is not None else -1,
            size=size if way else None,
            count=begun.bytes_request if way and begun.bytes_request < _UNKNOWN_BYTES else None,
            dir=way,
            context=context,
        )


FORMAT = Format("otf2", "an OTF2 archive", files, convert, version=2)
