"""Writes that failed for want of room, or since the device failed, and whose bytes are missing in their file.

    functions that failed --events of their processes--> failed writes --what came later--> LostWrites

A failed write is made good by a later success at its offset, or when the file is removed, cut off, made anew or
replaced before another process reads it. The C library drops its buffer when a call can't write it out: no later
success makes that good, and how many bytes are missing is not known.

Invariants: what can't be told is left out: databases, which roll back; caches, and files that the program then wrote
somewhere else, unless others read them; the files of programs that told of their failure, likewise.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from functools import partial
from posixpath import basename
from typing import NamedTuple

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import file_classes
from tailrace.analyzer.edges.edge_table import READ, WRITE
from tailrace.analyzer.edges.identities import raw
from tailrace.analyzer.insights.inputs import Inputs
from tailrace.analyzer.model import calls
from tailrace.analyzer.store.loader import Part
from tailrace.analyzer.store.schema import UPPER_LAYERS
from tailrace.analyzer.util.intervals import Intervals
from tailrace.analyzer.util.types import Bools, Row

REASONS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
SETTLES = ("close", "fclose", "fflush", "fsync", "fdatasync", "msync")
"""What writes out bytes that were written before."""
MOST_EVENTS = 1_000_000
"""Of the processes whose events are read; past it those with most events are left out."""
MOST_PLACES = 1000
"""Offsets of failed writes that are looked at."""
UNKNOWN, STREAM = -1, -2
"""Offsets: of a call at an unknown one, and of what the C library had in its buffer."""
_JOURNALS = ("-journal", "-wal")
_COLUMNS = ["name", "cat", "path", "file", "ftype", "dir", "ts", "offset", "count", "errno", "calls"]


@dataclass(frozen=True)
class LostWrites:
    """The failed writes of a process (position in `Inputs.lives`) to a file, for one reason.

    who, task: the actor and its task; file: a code of the model, -1: none; calls: how many failed, the first one with
    the name `name`; bytes: that they were to write, 0: not known; readers: the tasks of other processes that read the
    file afterwards; noticed: the program or task failed.
    """

    process: int
    who: int
    task: int
    file: int
    path: str
    name: str
    errno: int
    calls: int
    bytes: int
    readers: tuple[int, ...]
    noticed: bool


def lost_writes(inputs: Inputs, failed: frozenset[int]) -> list[LostWrites]:
    """The lost writes of a run; those that nothing tells of come first, then those whose files others read, then by
    bytes.

    Args:
        failed: tasks of which their manager said that they failed.
    """
    rows = _failed_writes(inputs)
    if not len(rows):
        return []
    ends, later = inputs.ends, dict[int, _Later]()
    found = []
    for _, group in rows.groupby(["process", "code", "path", "errno"], sort=False):
        top: Row = group.iloc[0].to_dict()
        process, file = int(top["process"]), int(top["code"])
        if file not in later:
            later[file] = _Later(inputs, file)
        missing = [later[file].readers(process, row) for row in _writes(group)]
        lost = group[[tasks is not None for tasks in missing]]
        if not len(lost):
            continue
        readers = {reader for tasks in missing if tasks for reader in tasks}
        noticed = bool(ends.code[process] or ends.signal[process])
        one = _lost(inputs, lost, tuple(sorted(readers)), noticed, failed)
        if readers or not (one.noticed or _elsewhere(inputs, process, one.path, int(lost["at"].min()))):
            found.append(one)
    return sorted(found, key=lambda one: (one.noticed, not one.readers, -one.bytes, -one.calls))


def _lost(
    inputs: Inputs, rows: pd.DataFrame, readers: tuple[int, ...], noticed: bool, failed: frozenset[int]
) -> LostWrites:
    """The rows of `_failed_writes` of one process, file and reason, as one."""
    top: Row = rows.iloc[0].to_dict()
    who = int(top["who"])
    task = int(inputs.of_who[who])
    return LostWrites(
        process=int(top["process"]),
        who=who,
        task=task,
        file=int(top["code"]),
        path=str(top["path"]),
        name=str(top["name"]),
        errno=int(top["errno"]),
        calls=int(rows["calls"].sum()),
        bytes=int(rows["count"].sum()) if (rows["offset"] >= 0).all() else 0,
        readers=readers,
        noticed=noticed or task in failed,
    )


def _failed_writes(inputs: Inputs) -> pd.DataFrame:
    """process, code (of the file, -1: none), path, errno, offset; who, name (of the first), at (ns, of the last), count
    and calls (sums) of failed writes to data files."""
    m, run = inputs.m, inputs.run
    functions, none = m.table.functions, pd.DataFrame()
    writes = (functions["kind"] == WRITE) | functions["name"].isin(SETTLES)
    functions = functions[(writes & (functions["failed"] > 0)).to_numpy(dtype=np.bool_)]
    users = functions["who"].unique()
    users = users[~m.of_manager[users]] if len(users) else users
    events = m.table.counts.groupby("who")["calls"].sum().reindex(users, fill_value=0).sort_values()
    chosen = events.index[events.cumsum() <= MOST_EVENTS].to_numpy(dtype=np.int64)
    if run is None or not len(chosen):
        return none
    mine = np.zeros(len(m.who), dtype=np.bool_)
    mine[chosen] = True
    names = sorted(set(functions["name"].astype(str)))
    rows = calls.events(run, m, mine, _COLUMNS, partial(_of_part, names=frozenset(names)), name=names)
    if not len(rows):
        return none
    who = rows["who"].to_numpy(dtype=np.int64)
    is_call = (rows["cat"] == "POSIX") & rows["dir"].notna()
    rows = rows.assign(
        process=inputs.lives.process[who],
        at=rows["ts"].to_numpy(dtype=np.int64) - calls.ahead_ns(run, m)[who],
        offset=rows["offset"].where(is_call).fillna(UNKNOWN).where(is_call, STREAM).astype(np.int64),
        code=_codes(inputs, rows),
        count=rows["count"].fillna(0).astype(np.int64),
        calls=rows["calls"].fillna(1).clip(lower=1).astype(np.int64),
    )
    rows = rows[_of_data(inputs, rows)].sort_values("at", kind="stable")
    sums = {"who": "first", "name": "first", "at": "last", "count": "sum", "calls": "sum"}
    by = ["process", "code", "path", "errno", "offset"]
    return rows.groupby(by, sort=False, as_index=False).agg(sums).head(MOST_PLACES)


def _of_part(part: Part, names: frozenset[str]) -> pd.DataFrame:
    frame = part()
    settles = frame["name"].isin(SETTLES)
    conditions = (
        frame["errno"].isin(REASONS),
        frame["ftype"] == "reg",
        frame["path"].notna(),
        frame["name"].isin(names) & ~frame["cat"].isin(UPPER_LAYERS),
        (frame["dir"].astype(object) == "w") | settles,
    )
    rows = frame[np.logical_and.reduce([one.fillna(False).to_numpy(dtype=np.bool_) for one in conditions])]
    texts = ("name", "cat", "path", "file", "ftype", "dir")
    return rows.assign(**{name: rows[name].astype(object) for name in texts})


def _codes(inputs: Inputs, rows: pd.DataFrame) -> list[int]:
    """The file of each row: of several with its identity the one with its path."""
    of_name: dict[str, list[int]] = {}
    for code, name in enumerate(inputs.m.table.files["file"].astype(str)):
        of_name.setdefault(raw(name), []).append(code)
    paths = inputs.m.paths
    found = []
    for file, path in zip(rows["file"].astype(str), rows["path"].astype(str), strict=True):
        codes = of_name.get(file, [])
        found.append(next((code for code in codes if str(paths[code]) == path), codes[-1] if codes else -1))
    return found


def _of_data(inputs: Inputs, rows: pd.DataFrame) -> list[bool]:
    """Whether each is on a file of data, and no database, by its class, or its name where nothing is known of it."""
    classes, data = inputs.m.class_of_file, file_classes.CLASSES.index("data")
    known = frozenset(map(str, inputs.m.paths))
    kept = []
    for code, path in zip(rows["code"].tolist(), rows["path"].astype(str), strict=True):
        own = classes[code] if code >= 0 else -1
        other = any(of.search(path) for of in (file_classes.SYSTEM_PATHS, file_classes.SOFTWARE_PATHS))
        is_data = own == data or (own < 0 and not other and not file_classes.MANAGER_FILES.search(path))
        kept.append(is_data and not any(f"{path}{end}" in known for end in _JOURNALS))
    return kept


class _Write(NamedTuple):
    """When a write failed last, and where: an offset, `UNKNOWN` or `STREAM`."""

    at: int
    offset: int


def _writes(rows: pd.DataFrame) -> list[_Write]:
    return [_Write(at, offset) for at, offset in zip(rows["at"].tolist(), rows["offset"].tolist(), strict=True)]


class _Later:
    """What happened to a file afterwards."""

    def __init__(self, inputs: Inputs, file: int) -> None:
        self._inputs, m = inputs, inputs.m
        # The positions of its bursts are the groups of their extents.
        at = np.flatnonzero((m.bursts["file"] == file).to_numpy())
        self._bursts = m.bursts.iloc[at]
        self._process = inputs.lives.process[self._bursts["who"].to_numpy(dtype=np.int64)]
        self._wrote = (self._bursts["dir"] == WRITE).to_numpy()
        extents = m.table.extents
        mine = np.isin(extents.group, at)
        self._extents = Intervals(*(column[mine] for column in extents))
        self._of_extent = np.searchsorted(at, self._extents.group)
        self._gone = self._removed(file)

    def readers(self, process: int, row: _Write) -> set[int] | None:
        """The tasks of other processes that read the file while the bytes of a failed write were missing; None: it was
        made good before anybody could."""
        later = (self._bursts["last_ns"] > row.at).to_numpy()
        if self._succeeded(later & self._wrote, process, row):
            return None
        until = self._mended(later & self._wrote, row.at)
        reads = later & (self._bursts["dir"] == READ).to_numpy() & (self._process != process)
        if until is not None:
            reads &= (self._bursts["first_ns"] < until).to_numpy()
        tasks = {int(task) for task in self._inputs.of_who[self._bursts["who"].to_numpy()[reads]]}
        return tasks if tasks or until is None else None

    def _succeeded(self, writes: Bools, process: int, row: _Write) -> bool:
        """Whether one of these bursts has the first byte of a failed write; of one at an unknown place whether its
        process wrote on."""
        if row.offset == STREAM:
            return False
        if row.offset == UNKNOWN:
            return bool((self._process[writes] == process).any())
        inside = (self._extents.start <= row.offset) & (self._extents.end > row.offset)
        return bool(writes[self._of_extent[inside]].any())

    def _removed(self, file: int) -> list[int]:
        """When the file was removed, cut off or replaced."""
        m = self._inputs.m
        facts, cuts = m.table.facts, m.table.cuts
        path = str(m.paths[file]) if file >= 0 else ""
        gone = (facts["file"] == file) & (facts["what"] == "unlink")
        over = (facts["what"] == "rename") & (facts["path2"].astype(object) == path) & (facts["file"] != file)
        cut = (cuts["file"] == file) & (cuts["what"] == "truncate")
        picked = ((facts, gone | over), (cuts, cut))
        return [int(time) for rows, which in picked for time in rows.loc[which.to_numpy(dtype=np.bool_), "last_ns"]]

    def _mended(self, writes: Bools, at: int) -> int | None:
        """When the file was removed, cut off, made anew or replaced after a time; None: never."""
        anew = self._bursts["first_ns"][writes & (self._bursts["fresh"] > 0).to_numpy()]
        return min((int(time) for time in (*anew, *self._gone) if time > at), default=None)


def _elsewhere(inputs: Inputs, process: int, path: str, at: int) -> bool:
    """Whether a file is a cache's, or its process wrote one of the same name afterwards."""
    bursts = inputs.m.bursts
    mine = inputs.lives.process[bursts["who"].to_numpy(dtype=np.int64)] == process
    begun = mine & (bursts["dir"] == WRITE).to_numpy() & (bursts["first_ns"] > at).to_numpy()
    others = {str(inputs.m.paths[file]) for file in bursts["file"].to_numpy()[begun]} - {path}
    return "/.cache/" in path or basename(path) in map(basename, others)
