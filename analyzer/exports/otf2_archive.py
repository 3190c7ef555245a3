"""A run as an OTF2 archive, for Vampir and others, by the otf2 package (`pip install tailrace[otf2]`).

    host -> system tree node, process -> location group, thread -> location
    call -> region (Enter, Leave), and in it an I/O operation where it moves bytes of a file

Invariants: the events of a thread are in the order of time, and regions are nested: a call that ends after the one
around it, as lines of totals may, is cut at that end. Times are ns since the epoch. Sums of bytes are those of the
run's calls at the system-call level; layers above (HDF5, MPI-IO) are regions without an operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd

from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.store import engine
from tailrace.analyzer.store.schema import UPPER_LAYERS
from tailrace.base import memory
from tailrace.base.text import clean
from tailrace.errors import RunError, UsageError

_THREAD = ["host", "pid", "start", "tid"]
_COLUMNS = [*_THREAD, "name", "cat", "ts", "dur", "span", "path", "size", "count", "dir"]
_EVENT_BYTES = 400
"""Of an event in memory, sorted."""
_MODES = {"r": "READ", "w": "WRITE"}
_PARADIGMS = {"POSIX": "POSIX I/O", "STDIO": "ISO C I/O"}


def write(run: AnalyzedRun, directory: Path, events: int) -> None:
    """Writes the archive DIRECTORY/traces.otf2; `events` of the run are held in memory. Raises RunError, UsageError."""
    try:
        import otf2
    except ImportError as error:
        raise UsageError(
            "OTF2 is written by the otf2 package, which is missing: pip install 'tailrace[otf2]'"
        ) from error
    if events * _EVENT_BYTES > memory.left() // 2:
        raise RunError(f"{run.path}: its {events:,} events take more than half of the memory that is left")
    parts = engine.compute(run.parts(columns=_COLUMNS))
    frame = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=_COLUMNS)
    frame = frame.astype({name: object for name in ("host", "start", "name", "cat", "path", "dir")})
    frame["end"] = frame["ts"] + frame["span"].fillna(frame["dur"]).astype("int64")
    frame = frame.sort_values([*_THREAD, "ts", "end"], ascending=[True] * 5 + [False], ignore_index=True)
    with otf2.writer.open(str(directory), timer_resolution=1_000_000_000) as archive:
        names = _Definitions(otf2, archive)
        for thread, calls in frame.groupby(_THREAD, sort=False, dropna=False, observed=True):
            writer = archive.event_writer_from_location(names.location(*thread))
            _Thread(otf2, writer, names).write(calls.itertuples(index=False))
        if len(frame):
            # The package takes the time of writing for that of the first event.
            archive._realtime_timestamp = Fraction(int(frame["ts"].min()), 10**9)


class _Definitions:
    """The definitions of an archive, each made on first use."""

    def __init__(self, otf2: Any, archive: Any) -> None:
        self._otf2, self._definitions = otf2, archive.definitions
        self._root = self._definitions.system_tree_node("run")
        self._made: dict[tuple[object, ...], Any] = {}

    def _once(self, key: tuple[object, ...], make: Callable[[], Any]) -> Any:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def location(self, host: object, pid: object, start: object, tid: object) -> Any:
        """The location of a thread."""
        of = self._definitions
        node = self._once(("node", host), lambda: of.system_tree_node(clean(str(host)), parent=self._root))
        name = f"Process {pid}"
        group = self._once(("group", host, pid, start), lambda: of.location_group(name, system_tree_parent=node))
        return self._once(("thread", host, pid, start, tid), lambda: of.location(f"Thread {tid}", group=group))

    def region(self, name: str) -> Any:
        """The region of a function."""
        return self._once(("region", name), lambda: self._definitions.region(name))

    def handle(self, category: str, path: str) -> Any:
        """The handle of a file under a paradigm."""
        of, kinds = self._definitions, self._otf2
        title = _PARADIGMS.get(category, category)
        paradigm = self._once(
            ("paradigm", category),
            lambda: of.io_paradigm(
                identification={"STDIO": "ISOC"}.get(category, category),
                name=title,
                io_paradigm_class=kinds.IoParadigmClass.SERIAL,
                io_paradigm_flags=kinds.IoParadigmFlag.NONE,
            ),
        )
        file = self._once(("file", path), lambda: of.io_regular_file(path, scope=self._root))
        return self._once(("handle", category, path), lambda: of.io_handle(file=file, io_paradigm=paradigm, name=path))


class _Thread:
    """The calls of one thread, as nested regions."""

    def __init__(self, otf2: Any, writer: Any, names: _Definitions) -> None:
        self._otf2, self._writer, self._names = otf2, writer, names
        self._open: list[tuple[int, Any, Any]] = []
        self._at = 0

    def write(self, calls: Iterator[Any]) -> None:
        """Writes all calls, which are in the order of their begins."""
        for number, call in enumerate(calls):
            begin = max(int(call.ts), self._at)
            self._leave(begin)
            end = max(int(call.end), begin)
            if self._open:
                end = min(end, self._open[-1][0])
            region = self._names.region(clean(str(call.name)))
            self._writer.enter(begin, region)
            self._at = begin
            self._open.append((end, region, self._operation(call, begin, number)))
        self._leave(None)

    def _operation(self, call: Any, begin: int, number: int) -> Any:
        """Begins the operation of a call that moves bytes of a file; returns what ends it."""
        if pd.isna(call.size) or pd.isna(call.path) or call.dir not in _MODES or call.cat in UPPER_LAYERS:
            return None
        handle = self._names.handle(str(call.cat), clean(str(call.path)))
        mode = getattr(self._otf2.IoOperationMode, _MODES[call.dir])
        wanted = int(call.size if pd.isna(call.count) else call.count)
        self._writer.io_operation_begin(begin, handle, mode, self._otf2.IoOperationFlag.NONE, wanted, number)
        return handle, int(call.size), number

    def _leave(self, until: int | None) -> None:
        """Ends the calls that are over at `until`, all at the end."""
        while self._open and (until is None or self._open[-1][0] <= until):
            end, region, operation = self._open.pop()
            end = max(end, self._at)
            if operation is not None:
                self._writer.io_operation_complete(end, *operation)
            self._writer.leave(end, region)
            self._at = end
