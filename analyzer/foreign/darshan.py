"""Darshan's logs, by PyDarshan (`pip install tailrace[darshan]`): counters as lines of totals, DXT's segments as calls.

Invariants: a log's calls and bytes are those of its counters. Where DXT has the segments of a file and rank, they are
events; what the counters have beyond them (DXT keeps a limited number) is one line of totals. Counters have no order:
a line of totals spans from the first call's begin to the last one's end. A record that all ranks share is of one
process, whose rank is `shared`.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tailrace import _native
from tailrace.analyzer.foreign import calls
from tailrace.analyzer.foreign.importer import Format, Imported, Starts, UnreadableError, convert_each, name_in, walk
from tailrace.analyzer.util.losses import Loss
from tailrace.base import child, memory
from tailrace.base.exit_codes import signal_text
from tailrace.errors import TraceError

_ENDINGS = (".darshan",)
_SHARED = -1
_LATEST_S = 2**32
"""Of times: as ns they fit into 64 bits, also the sum of a start and what is since then."""
_STREAMS = ("<STDIN>", "<STDOUT>", "<STDERR>")
_NOTE_TOTALS = "counters are totals of each file: the order of its calls is not known"
_NOTE_SHARED = "records that all ranks share are of one process, rank shared"


@dataclass(frozen=True)
class _Kind:
    """A kind of call of a module: its event, its counters of calls, and of bytes; times are F_<time>_...: `stamps` of
    first begin and last end, `time` the sum."""

    name: str
    category: str
    direction: str
    counted: tuple[str, ...]
    moved: str
    stamps: str
    time: str


def _kinds(module: str, category: str, rows: tuple[tuple[str, str, tuple[str, ...]], ...]) -> tuple[_Kind, ...]:
    ways = {"r": ("BYTES_READ", "READ", "READ"), "w": ("BYTES_WRITTEN", "WRITE", "WRITE"), "": ("", "OPEN", "META")}
    found = []
    for name, way, counted in rows:
        moved, stamps, time = ways[way]
        counters = tuple(f"{module}_{counter}" for counter in counted)
        found.append(_Kind(name, category, way, counters, f"{module}_{moved}" if moved else "", stamps, time))
    return tuple(found)


_MODULES = {
    "POSIX": (
        "POSIX",
        _kinds(
            "POSIX",
            "POSIX",
            (
                ("open", "", ("OPENS",)),
                ("read", "r", ("READS",)),
                ("write", "w", ("WRITES",)),
                ("lseek", "", ("SEEKS",)),
                ("stat", "", ("STATS",)),
                ("fsync", "", ("FSYNCS",)),
                ("fdatasync", "", ("FDSYNCS",)),
            ),
        ),
    ),
    "STDIO": (
        "STDIO",
        _kinds(
            "STDIO",
            "STDIO",
            (
                ("fopen", "", ("OPENS", "FDOPENS")),
                ("fread", "r", ("READS",)),
                ("fwrite", "w", ("WRITES",)),
                ("fseek", "", ("SEEKS",)),
                ("fflush", "", ("FLUSHES",)),
            ),
        ),
    ),
    "MPI-IO": (
        "MPIIO",
        _kinds(
            "MPIIO",
            "MPIIO",
            (
                ("MPI_File_open", "", ("INDEP_OPENS", "COLL_OPENS")),
                ("MPI_File_read", "r", ("INDEP_READS", "COLL_READS", "SPLIT_READS", "NB_READS")),
                ("MPI_File_write", "w", ("INDEP_WRITES", "COLL_WRITES", "SPLIT_WRITES", "NB_WRITES")),
                ("MPI_File_sync", "", ("SYNCS",)),
            ),
        ),
    ),
    "H5F": ("H5F", _kinds("H5F", "HDF5", (("H5Fopen", "", ("OPENS",)), ("H5Fflush", "", ("FLUSHES",))))),
    "H5D": (
        "H5D",
        _kinds(
            "H5D",
            "HDF5",
            (("H5Dopen", "", ("OPENS",)), ("H5Dread", "r", ("READS",)), ("H5Dwrite", "w", ("WRITES",))),
        ),
    ),
}
"""Module -> (the prefix of its times, its kinds of calls). Of STDIO's OPENS, FDOPENS are a part."""
_SEGMENTS = {"POSIX": ("DXT_POSIX", "read", "write"), "MPI-IO": ("DXT_MPIIO", "MPI_File_read", "MPI_File_write")}
_END_S = 10
"""For the end of the process that read a log."""
_NO_CALLS = {"LUSTRE", "HEATMAP", "DXT_POSIX", "DXT_MPIIO", "BG/Q", "OVERHEAD"}


def convert(root: Path, paths: list[Path], target: Path) -> Imported:
    """Writes a trace file for each log."""
    try:
        from darshan.backend import cffi_backend as backend
    except ImportError as error:
        raise TraceError(
            f"{root}: Darshan's logs are read by PyDarshan, which is missing: pip install 'tailrace[darshan]'"
        ) from error

    def one(path: Path, made: Path, imported: Imported, starts: Starts) -> _Converted:
        return _in_child(path, partial(_convert, backend, root, path, made, imported, starts))

    return convert_each(root, paths, target, "darshan", one)


_Converted = tuple[Imported, Starts]


def _convert(backend: Any, root: Path, path: Path, made: Path, imported: Imported, starts: Starts) -> _Converted:
    """Writes the trace file of a log, and adds to what was found in those before."""
    try:
        log = _Log(backend, path, name_in(root, path), imported, starts, _native.ForeignWriter(made))
    except Exception as error:  # what PyDarshan raises is not documented
        raise UnreadableError(f"{path}: PyDarshan can't read it: {error}") from error
    try:
        log.write()
    except TraceError:
        raise
    except Exception as error:  # of PyDarshan, or values that no log has
        raise UnreadableError(f"{path}: it is damaged: {error}") from error
    finally:
        log.close()
    return imported, starts


def _in_child(path: Path, work: Callable[[], _Converted]) -> _Converted:
    """What `work` returns or raises (TraceError, UnreadableError) in a child of this process: Darshan's library
    crashes on damaged logs, and inflates what a log has."""
    most = memory.left() // 2

    def told() -> object:
        child.limit_memory(most)
        try:
            imported, starts = work()
        except MemoryError:
            return {"unreadable": f"{path}: reading it takes more than {most >> 20:,} MiB of memory"}
        except TraceError as error:
            return {"error": str(error)}
        except UnreadableError as error:
            return {"unreadable": str(error)}
        return {"imported": asdict(imported), "starts": sorted(starts.taken)}

    ended = child.run(told, None, _END_S)
    if ended.status != 0:
        died_of = signal_text(os.WTERMSIG(ended.status or signal.SIGKILL))
        raise UnreadableError(f"{path}: PyDarshan's library crashed on it ({died_of})")
    found: Any = ended.result()
    if "error" in found:
        raise TraceError(found["error"])
    if "unreadable" in found:
        raise UnreadableError(found["unreadable"])
    losses = [Loss(**row) for row in found["imported"].pop("losses")]
    return Imported(**found["imported"], losses=losses), Starts(found["starts"])


class _Log:
    """One log: its records, module by module. By PyDarshan's backend, since its report holds all records in memory,
    and reads the mounts, on which it fails for some logs of Darshan 3.5. A module's records can be read once."""

    def __init__(
        self,
        backend: Any,
        path: Path,
        name: str,
        imported: Imported,
        starts: Starts,
        writer: _native.ForeignWriter,
    ) -> None:
        self._backend, self._path, self._name, self._imported, self._writer = backend, path, name, imported, writer
        self._log = backend.log_open(str(path))
        if not self._log["handle"]:
            raise ValueError("it is no log, or it is damaged")
        job = backend.log_get_job(self._log)
        self._modules = list(backend.log_get_modules(self._log))
        self._names = backend.log_get_name_records(self._log)
        self._begin_ns = int(job["start_time_sec"]) * 10**9 + int(job.get("start_time_nsec", 0))
        if not 0 <= self._begin_ns < _LATEST_S * 10**9:
            raise ValueError(f"its start, {job['start_time_sec']} s since the epoch, is no time")
        # Logs of one host and rank are of different processes.
        self._start = starts.of(self._begin_ns)
        self._ranks = int(job["nprocs"])
        found = re.search(r"_id(\d+)-(\d+)_", path.name)
        self._pid = int(found[2]) if found else 0
        self._job = "" if found and found[1] == str(job["jobid"]) == found[2] else str(int(job["jobid"]))
        words = str(backend.log_get_exe(self._log) or "").split()
        self._facts = json.dumps({"exe": words[0], "argv": words}) if words else ""
        if words and not imported.command:
            imported.command = words
        self._hosts: dict[int, str] = {}
        self._damaged = 0

    def write(self) -> None:
        """Writes all modules. A module that can't be read is a loss."""
        # Segments tell the hosts.
        for module in sorted(self._modules, key=lambda module: module not in _SEGMENTS):
            if module in _MODULES:
                self._module(module)
            elif module not in _NO_CALLS:
                self._lose(f"the records of module {module} are left out")
        if self._damaged:
            self._imported.losses.append(Loss(self._name, "damaged", "records", self._damaged, str(self._path)))
        self._writer.finish()

    def close(self) -> None:
        """Closes the log."""
        self._backend.log_close(self._log)

    def _lose(self, problem: str) -> None:
        self._imported.losses.append(Loss(self._name, "unreadable", "modules", 1, f"{self._path}: {problem}"))

    def _note(self, note: str) -> None:
        if note not in self._imported.notes:
            self._imported.notes.append(note)

    def _records(self, module: str) -> Iterator[dict[str, Any]]:
        """The records of a module, one after another; none where PyDarshan can't read it, which is a loss."""
        if module not in self._modules:
            return
        is_dxt = module.startswith("DXT")
        read = self._backend.log_get_dxt_record if is_dxt else self._backend.log_get_record
        count = 0
        try:
            while (record := read(self._log, module, dtype="dict" if is_dxt else "numpy")) is not None:
                count += 1
                yield record
        except Exception as error:
            self._lose(f"PyDarshan can't read module {module}: {error}")
            return
        if count == 0:
            self._lose(f"PyDarshan can't read module {module}: it is of another version")

    def _process(self, rank: int) -> tuple[int, int, int]:
        """The number of a rank's process, its tid, and its context."""
        rank = max(rank, 0) if self._ranks == 1 else rank
        pid = self._pid if self._ranks == 1 and self._pid else self._ranks if rank == _SHARED else rank
        host = self._hosts.get(rank) or next(iter(self._hosts.values()), "unknown")
        tags = {"job": self._job} if self._job else {}
        if self._ranks > 1:
            tags["rank"] = "shared" if rank == _SHARED else str(rank)
        if rank == _SHARED:
            self._note(_NOTE_SHARED)
        context = self._writer.context(*calls.context(**tags)) if tags else 0
        return self._writer.process(host, pid, self._start, self._facts), pid, context

    def _file(self, number: int) -> int:
        path = self._names.get(number)
        if path is None:
            return -1
        return self._writer.file(path, "chr" if path in _STREAMS else "")

    def _module(self, module: str) -> None:
        done = self._segments(module)
        prefix, kinds = _MODULES[module]
        names = _counter_names(module)
        for record in self._records(module):
            counters = dict(zip(names["counters"], map(int, record["counters"]), strict=False))
            times = dict(zip(names["fcounters"], map(float, record["fcounters"]), strict=False))
            if module == "STDIO":
                counters["STDIO_FDOPENS"] = 0  # they are among OPENS
            seconds = (value for name, value in times.items() if name.endswith(("_TIME", "_TIMESTAMP")))
            if self._is_sound(int(record["rank"]), seconds):
                self._totals(int(record["id"]), int(record["rank"]), prefix, kinds, counters, times, done)

    def _segments(self, module: str) -> dict[tuple[int, int, str], tuple[int, int]]:
        """Writes DXT's segments. Returns (file, rank, direction) -> calls and bytes, of rank -1 of all ranks."""
        done: dict[tuple[int, int, str], tuple[int, int]] = defaultdict(lambda: (0, 0))
        dxt, reads, writes = _SEGMENTS.get(module, ("", "", ""))
        for record in self._records(dxt):
            number, rank = int(record["id"]), int(record["rank"])
            segments = [*record["read_segments"], *record["write_segments"]]
            if not self._is_sound(rank, (float(one[time]) for one in segments for time in ("start_time", "end_time"))):
                continue
            self._hosts.setdefault(rank, str(record["hostname"]))
            process, pid, context = self._process(rank)
            file = self._file(number)
            for way, name in (("r", reads), ("w", writes)):
                segments = record["read_segments" if way == "r" else "write_segments"]
                moved = 0
                for segment in segments:
                    size = int(segment["length"])
                    begin = self._at(float(segment["start_time"]))
                    self._writer.event(
                        process,
                        name,
                        "MPIIO" if dxt == "DXT_MPIIO" else "POSIX",
                        pid,
                        begin,
                        self._at(float(segment["end_time"])) - begin,
                        file,
                        offset=int(segment["offset"]),
                        size=size,
                        ret=size,
                        dir=way,
                        context=context,
                    )
                    moved += size
                for key in ((number, rank, way), (number, _SHARED, way)):
                    before = done[key]
                    done[key] = (before[0] + len(segments), before[1] + moved)
        return done

    def _is_sound(self, rank: int, times: Iterable[float]) -> bool:
        """Whether a record can be of this log; one that can't is counted as damaged."""
        if _SHARED <= rank < self._ranks and all(abs(time) < _LATEST_S for time in times):
            return True
        self._damaged += 1
        return False

    def _at(self, seconds: float) -> int:
        return self._begin_ns + round(seconds * 1e9)

    def _totals(
        self,
        number: int,
        rank: int,
        prefix: str,
        kinds: tuple[_Kind, ...],
        counters: dict[str, int],
        times: dict[str, float],
        done: dict[tuple[int, int, str], tuple[int, int]],
    ) -> None:
        process, pid, context = self._process(rank)
        file = self._file(number)
        meta_s = max(times.get(f"{prefix}_F_META_TIME", 0.0), 0.0)
        for kind in kinds:
            count = sum(max(counters.get(name, 0), 0) for name in kind.counted)
            size = max(counters.get(kind.moved, 0), 0) if kind.moved else None
            busy_s = max(times.get(f"{prefix}_F_{kind.time}_TIME", 0.0), 0.0)
            if kind.direction and (number, rank, kind.direction) in done:
                calls_done, bytes_done = done[number, rank, kind.direction]
                # DXT has the first of them.
                busy_s *= max(count - calls_done, 0) / count if count else 0.0
                count, size = count - calls_done, max((size or 0) - bytes_done, 0)
            if count <= 0:
                continue
            if not kind.direction:
                busy_s, meta_s = meta_s, 0.0  # one number for all calls that move nothing
            begin, end = self._span(prefix, kind, times)
            self._note(_NOTE_TOTALS)
            self._writer.event(
                process,
                kind.name,
                kind.category,
                pid,
                begin,
                round(busy_s * 1e9),
                file,
                size=size,
                dir=kind.direction,
                context=context,
                calls=count,
                lines=count,
                span=end - begin,
            )

    def _span(self, prefix: str, kind: _Kind, times: dict[str, float]) -> tuple[int, int]:
        """From the begin of the first call to the end of the last one; of calls without times the whole record's."""

        def stamps(which: str, what: str) -> list[float]:
            found = times.get(f"{prefix}_F_{which}_{what}_TIMESTAMP", 0.0)
            return [found] if found > 0 else []

        begins, ends = stamps(kind.stamps, "START"), stamps(kind.stamps, "END")
        if not begins or not ends:
            all_of = ("OPEN", "READ", "WRITE", "CLOSE")
            begins = begins or [time for which in all_of for time in stamps(which, "START")]
            ends = ends or [time for which in all_of for time in stamps(which, "END")]
        begin = self._at(min(begins, default=0.0))
        return begin, max(self._at(max(ends, default=0.0)), begin)


def _counter_names(module: str) -> dict[str, list[str]]:
    from darshan.backend.cffi_backend import counter_names, fcounter_names

    return {"counters": list(counter_names(module)), "fcounters": list(fcounter_names(module))}


def files(path: Path) -> list[Path]:
    """The logs."""
    return walk(path, _ENDINGS)


FORMAT = Format("darshan", "a log of Darshan", files, convert, version=2)
