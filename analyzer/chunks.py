"""From events to the edge table: a partition of events becomes a `Partial`, Dask combines them (edges.py).

What always holds: a byte is counted once, at the lowest layer that saw it (`UPPER_LAYERS` is left out); failed calls
make no edge. Nothing here loops over events in Python.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import dask as untyped_dask
import numpy as np
import numpy.typing as npt
import pandas as pd

from tailrace.analyzer import batch, channels, grouping
from tailrace.analyzer import intervals as iv
from tailrace.analyzer.batch import Texts
from tailrace.analyzer.edges import (
    KINDS,
    META,
    READ,
    STREAM,
    STREAM_TYPES,
    UPPER_LAYERS,
    WAIT,
    WHO,
    WRITE,
    EdgeTable,
    Partial,
    combine,
    fold,
    sum_facts,
)
from tailrace.analyzer.intervals import Bools, Intervals, Ints

dask: Any = untyped_dask
"""Dask says that it is typed, and is not."""

SPLIT_EVERY = 32
"""Partials combined at once in the tree; each level folds again what the one below it left."""
NOT_IO = frozenset({"PROCESS", "APP", "REGION", "PYTHON", "dftracer", "tailrace"}) | UPPER_LAYERS
"""Categories whose time is not time in an I/O call (or is counted below)."""
OPENS = frozenset(
    {"open", "open64", "openat", "openat64", "fopen", "fopen64", "freopen", "freopen64", "creat", "creat64"}
)
MAKES = frozenset({"creat", "creat64", "mkstemp", "mkostemp", "mkstemps", "mkostemps", "memfd_create", "tmpfile"})
MAPS = frozenset({"mmap", "mremap"})
"""What makes a mapping; `munmap` and `msync` end or write back what was stored through a shared one."""
PROT_WRITE, MAP_TYPE = 0x2, 0xF
SHARED = (0x1, 0x3)
"""MAP_SHARED and MAP_SHARED_VALIDATE (mmap(2))."""
MOVES = frozenset({"rename", "renameat", "renameat2"})
LINKS = frozenset({"link", "linkat"})
FORKS = frozenset({"fork", "vfork", "posix_spawn", "posix_spawnp", "clone", "popen"})
WAITS = frozenset({"wait", "system"})
"""Calls during which a process waits for a child."""
UNLINKS = frozenset({"unlink", "unlinkat", "remove"})
O_ACCMODE, O_WRONLY, O_RDWR, O_CREAT, O_TRUNC = 0o3, 0o1, 0o2, 0o100, 0o1000
TEXTS = ("name", "cat", "host", "path", "file", "ftype", "path2", "file2", "dir", "workflow", "stage", "task")
NUMBERS = {
    **dict.fromkeys(("ts", "dur", "size", "count", "ret", "errno", "flags", "prot"), 0),
    **dict.fromkeys(("pid", "offset"), -1),
    "calls": 1,
}
"""The columns of numbers, with what stands for null."""
COLUMNS = [*TEXTS, *NUMBERS]
"""The columns of the event frame that the edge table is made from."""


class Source(Protocol):
    """What this module needs of a run; `tailrace.analyzer.run.Run` is one."""

    def events(self, columns: list[str] | None = None, **predicates: Any) -> Any:
        """A Dask DataFrame of events."""


def build(run: Source) -> EdgeTable:
    """The edge table of a run, in one pass over its events (Dask; a tree of `combine`).

    Raises:
        RunError: the trace can't be read; a reader's errors pass through.
    """
    return reduce(run.events(columns=COLUMNS).to_delayed())


def reduce(parts: Sequence[Any]) -> EdgeTable:
    """The edge table of events in delayed pandas frames with the columns `COLUMNS`."""
    layer = [dask.delayed(chunk)(part) for part in parts]
    while len(layer) > 1:
        groups = [layer[i : i + SPLIT_EVERY] for i in range(0, len(layer), SPLIT_EVERY)]
        layer = [dask.delayed(combine)(group) for group in groups]
    if not layer:
        return chunk(pd.DataFrame({column: [] for column in COLUMNS}))
    table: EdgeTable = dask.compute(layer[0])[0]
    return table


# --- a partition of events -------------------------------------------------------------------------------------------


def chunk(frame: pd.DataFrame) -> Partial:
    """The Partial of one partition: events (columns `COLUMNS`, any row order) as spells of one call, then folded."""
    events = channels.datagrams(batch.of(frame, TEXTS, NUMBERS))
    who, actors = _actors(events)
    ok = _succeeded(events)
    sightings, identities = _sightings(events, ok)
    file, files = _files(sightings, identities)
    seen = grouping.groups(grouping.pack(sightings["file"], sightings["path"]))
    aliases = grouping.frame(
        {
            "file": file[seen.first(sightings["file"])],
            "path": identities.paths[seen.first(sightings["path"])],
            "first_ns": seen.reduce(np.minimum, sightings["ts"]),
            "last_ns": seen.reduce(np.maximum, sightings["ts"]),
        }
    )
    rows = Rows(events, who, ok, file[events.text["file"].code], file[identities.file2])
    accesses, offset = _accesses(rows)
    row = np.flatnonzero(offset >= 0)
    start, length = offset[row], (accesses["bytes"] + accesses["mapped_bytes"])[row]
    return fold(
        Partial(
            who=actors,
            files=files,
            aliases=aliases,
            spells=grouping.frame(accesses),
            extents=iv.make(row, start, start + length),
            times=iv.make(np.arange(len(offset), dtype=np.int64), accesses["first_ns"], accesses["last_ns"]),
            busy=_busy(rows),
            counts=_counts(rows),
            facts=_facts(rows),
            kin=_kin(rows),
        )
    )


@dataclass(frozen=True)
class Rows:
    """Events with what chunk has found of them: parallel arrays; `file` and `file2` are codes of files, -1 for none."""

    events: batch.Batch
    who: Ints
    ok: Bools
    file: Ints
    file2: Ints

    def text(self, name: str) -> batch.Text:
        """A column of texts."""
        return self.events.text[name]

    def number(self, name: str) -> Ints:
        """A column of numbers."""
        return self.events.number[name]

    def named(self, names: Container[str]) -> Bools:
        """Whether the call is one of `names`."""
        return self.events.text["name"].isin(names)

    @cached_property
    def kind(self) -> Ints:
        """What each call's time counts as, but for waits."""
        kind = np.full(len(self.who), META, dtype=np.int64)
        kind[self.text("dir").isin({"r"})] = READ
        kind[self.text("dir").isin({"w", "rw"})] = WRITE
        kind[self.text("ftype").isin(STREAM_TYPES) | self.text("cat").isin({"PIPE", "SOCKET"})] = STREAM
        return kind


def _actors(events: batch.Batch) -> tuple[Ints, pd.DataFrame]:
    """The actor of each event, and the actors."""
    texts = {name: events.text[name] for name in WHO if name in events.text}
    keys = [texts[name].code if name in texts else events.number[name] for name in WHO]
    who, first = grouping.numbered(grouping.pack(*keys))
    columns = {name: texts[name].at(first) if name in texts else events.number[name][first] for name in WHO}
    return who, grouping.frame(columns)


def _succeeded(events: batch.Batch) -> Bools:
    ends = events.text["name"].isin(UNLINKS | MOVES | LINKS)
    return np.asarray((events.number["errno"] == 0) & ~(ends & (events.number["ret"] < 0)), dtype=np.bool_)


@dataclass(frozen=True)
class Identities:
    """One coding for both files and one for both paths of the events; code 0 is none."""

    files: Texts
    paths: Texts
    ftypes: Texts
    file2: Ints
    """The codes of the events' second files in `files`."""


def _sightings(events: batch.Batch, ok: Bools) -> tuple[dict[str, Ints], Identities]:
    """Every (file, ftype, path, ts) that the events show. After a rename the old file bears the new name."""
    text, ts = events.text, events.number["ts"]
    file, ftype, path = text["file"].code, text["ftype"].code, text["path"].code
    file2, files = batch.recode(text["file"].texts, text["file2"])
    path2, paths = batch.recode(text["path"].texts, text["path2"])
    ftypes = np.append(text["ftype"].texts, "reg")
    first, second = np.flatnonzero(file > 0), np.flatnonzero(file2 > 0)
    known = np.append(ftype, len(ftypes) - 1)[grouping.firsts(file, len(files))]  # -1 is the last, "reg"
    renames = text["name"].isin(MOVES | LINKS) & ok & (file > 0) & (path2 > 0)
    moved = np.flatnonzero(renames)
    sightings = {
        "file": np.concatenate((file[first], file2[second], file[moved])),
        "ftype": np.concatenate((ftype[first], known[file2[second]], ftype[moved])),
        "path": np.concatenate((path[first], path2[second], path2[moved])),
        # The new name is later than the old one, which the same event bears.
        "ts": np.concatenate((ts[first], ts[second], ts[moved] + 1)),
    }
    return sightings, Identities(files, paths, ftypes, file2)


def _files(sightings: dict[str, Ints], identities: Identities) -> tuple[Ints, pd.DataFrame]:
    """The file of each identity, -1 for none, and the files, in the order in which they were seen."""
    first = grouping.firsts(sightings["file"], len(identities.files))
    seen = np.flatnonzero(first >= 0)
    seen = seen[np.argsort(first[seen])]
    file = np.full(len(first), -1, dtype=np.int64)
    file[seen] = np.arange(len(seen))
    ftype = identities.ftypes[sightings["ftype"][first[seen]]]
    return file, grouping.frame({"file": identities.files[seen], "ftype": ftype})


def _accesses(rows: Rows) -> tuple[dict[str, npt.NDArray[Any]], Ints]:
    """One row an access of a file: `SPELL_KEY`, first_ns, last_ns, sums, fresh; and its offset (-1: unknown).

    `fresh` marks a truncation: what the actor writes from here on is a new version of the file.
    """
    layer = ~rows.text("cat").isin(UPPER_LAYERS) & rows.ok
    direction, flags = rows.text("dir"), rows.number("flags")
    writing, both = layer & direction.isin({"w"}), layer & direction.isin({"rw"})
    target = np.where(rows.file2 < 0, rows.file, rows.file2)
    truncating = rows.named(OPENS) & (flags & O_TRUNC != 0) & (flags & O_ACCMODE != 0)
    truncating |= rows.named({"creat", "creat64"})
    truncating |= rows.named({"truncate", "ftruncate"}) & (rows.number("offset") == 0)
    mapping = layer & rows.text("cat").isin({"MMAP"}) & rows.text("ftype").isin({"reg"}) & (direction.code == 0)
    stores = mapping & (rows.number("prot") & PROT_WRITE != 0) & np.isin(flags & MAP_TYPE, SHARED)
    named = rows.file >= 0
    picks = [
        (layer & (direction.code > 0) & ~writing & named, READ),
        (writing & named, WRITE),
        (both & (target >= 0), WRITE),
        (layer & truncating & named, WRITE),
        (mapping & rows.named(MAPS) & named, READ),
        (stores & named, WRITE),
    ]
    found = [np.flatnonzero(mask) for mask, _ in picks]
    counts = [len(at) for at in found]
    at, case = np.concatenate(found), np.repeat(np.arange(len(picks)), counts)
    way = np.repeat(np.array([direction for _, direction in picks], dtype=np.int64), counts)
    fresh, mapped = case == 3, case >= 4
    offset = rows.number("offset")[at]
    # The offset of a two-descriptor copy is the read side's.
    offset[fresh | ((way == WRITE) & both[at])] = -1
    first = rows.number("ts")[at]
    moved = np.where(case < 3, rows.number("size")[at], 0)
    accesses = {
        "who": rows.who[at],
        "file": np.where(case == 2, target[at], rows.file[at]),
        "dir": way,
        "first_ns": first,
        "last_ns": first + rows.number("dur")[at],
        "bytes": moved,
        "calls": np.where(fresh, 0, rows.number("calls")[at]),
        "loose_bytes": np.where(offset < 0, moved, 0),
        "mapped_bytes": np.where(mapped, rows.number("count")[at], 0),
        "fresh": fresh,
    }
    return accesses, offset


def _busy(rows: Rows) -> Intervals:
    waits = rows.text("cat").isin({"PROCESS"}) & rows.named(WAITS)
    io = np.flatnonzero(~rows.text("cat").isin(NOT_IO) | waits)
    group = rows.who * len(KINDS) + np.where(waits, WAIT, rows.kind)
    start = rows.number("ts")[io]
    return iv.make(group[io], start, start + rows.number("dur")[io])


def _counts(rows: Rows) -> pd.DataFrame:
    """(who, kind) -> calls, read and written bytes, those of them without a file, first_ns, last_ns (of all events)."""
    io = ~rows.text("cat").isin(NOT_IO)
    both = rows.text("dir").isin({"rw"})
    size = np.where(io & rows.ok, rows.number("size"), 0)
    read = np.where(rows.text("dir").isin({"r", "rw"}), size, 0)
    written = np.where(rows.text("dir").isin({"w", "rw"}), size, 0)
    # libc's own files have no name for the program either
    unnamed = ((rows.file < 0) | (both & (rows.file2 < 0))) & ~rows.text("cat").isin({"LIBC"})
    ts = rows.number("ts")
    sums = {
        "calls": np.where(io, rows.number("calls"), 0),
        "failed": (io & ~rows.ok).astype(np.int64),
        "read_bytes": read,
        "written_bytes": written,
        "unnamed_bytes": np.where(unnamed, read + written, 0),
    }
    cell = rows.who * len(KINDS) + rows.kind
    cells = (int(cell.max()) + 1) if len(cell) else 0
    found = np.flatnonzero(np.bincount(cell, minlength=cells))
    made = {"who": found // len(KINDS), "kind": found % len(KINDS)}
    made.update({name: grouping.reduce_at(np.add, cell, values, cells)[found] for name, values in sums.items()})
    made["first_ns"] = grouping.reduce_at(np.minimum, cell, ts, cells)[found]
    made["last_ns"] = grouping.reduce_at(np.maximum, cell, ts + rows.number("dur"), cells)[found]
    return grouping.frame(made)


def _facts(rows: Rows) -> pd.DataFrame:
    """(who, file, what, path, path2) -> first_ns, last_ns: what was done to names."""
    flags = rows.number("flags")
    opens = rows.named(OPENS)
    creates = rows.named(MAKES) | (opens & (flags & O_CREAT != 0) & (flags & O_ACCMODE != 0))
    done = rows.ok & (rows.file >= 0)
    parts = [
        _done(rows, "create", done & creates),
        _done(rows, "unlink", done & rows.named(UNLINKS)),
        _done(rows, "rename", done & rows.named(MOVES), paths=True),
        _done(rows, "link", done & rows.named(LINKS), paths=True),
        _missed(rows, opens & ~rows.ok),
    ]
    facts = pd.concat(parts, ignore_index=True)
    return sum_facts(facts.assign(last_ns=facts["first_ns"]))


def _done(rows: Rows, what: str, mask: Bools, paths: bool = False) -> pd.DataFrame:
    """Rows of facts; only moves and links say of which names."""
    at = np.flatnonzero(mask)
    path = [rows.text(name).at(at) if paths else np.full(len(at), "", dtype=object) for name in ("path", "path2")]
    return _fact_rows(rows, at, what, rows.file[at], path)


def _missed(rows: Rows, failed_opens: Bools) -> pd.DataFrame:
    """Byte-compiled Python files looked for in vain: their sources were imported (fileclass.py). No file: -1."""
    at = np.flatnonzero(failed_opens)
    path = rows.text("path").at(at)
    compiled = np.array([text.endswith((".pyc", ".pyo")) for text in path], dtype=np.bool_)
    at, path = at[compiled], path[compiled]
    none = np.full(len(at), -1, dtype=np.int64)
    return _fact_rows(rows, at, "missed", none, [path, np.full(len(at), "", dtype=object)])


def _fact_rows(rows: Rows, at: Ints, what: str, file: Ints, paths: Sequence[Texts]) -> pd.DataFrame:
    texts = {"what": np.full(len(at), what, dtype=object), "path": paths[0], "path2": paths[1]}
    return grouping.frame({"who": rows.who[at], "file": file, **texts, "first_ns": rows.number("ts")[at]})


def _kin(rows: Rows) -> pd.DataFrame:
    """(who, what, pid, ns): the children that were made, and the ones whose end was seen."""
    child, ts = rows.number("ret"), rows.number("ts")
    of_process = rows.text("cat").isin({"PROCESS"}) & rows.ok & (child > 0)
    made = np.flatnonzero(of_process & rows.named(FORKS))
    ended = np.flatnonzero(of_process & rows.named({"wait"}))
    at = np.concatenate((made, ended))
    what = np.repeat(np.array(["fork", "wait"], dtype=object), (len(made), len(ended)))
    ns = np.concatenate((ts[made], ts[ended] + rows.number("dur")[ended]))
    return grouping.frame({"who": rows.who[at], "what": what, "pid": child[at], "ns": ns})
