"""From events to the edge table: a partition of events becomes a `Partial`, Dask combines them (edges.py).

What always holds: a byte is counted once, at the lowest layer that saw it (`UPPER_LAYERS` is left out); failed calls
make no edge. Nothing here loops over events in Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import dask as untyped_dask
import numpy as np
import pandas as pd

from tailrace.analyzer import channels
from tailrace.analyzer import intervals as iv
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
    codes,
    combine,
    fold,
    sum_counts,
    sum_facts,
)
from tailrace.analyzer.intervals import Bools, Intervals, Ints

dask: Any = untyped_dask
"""Dask says that it is typed, and is not."""

SPLIT_EVERY = 8
"""Partials combined at once in the tree."""
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
COLUMNS = [
    *("name", "cat", "ts", "dur", "host", "pid", "path", "file", "ftype", "path2", "file2", "offset", "size", "count"),
    *("ret", "errno", "dir", "flags", "prot", "calls", "workflow", "stage", "task"),
]
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


def chunk(events: pd.DataFrame) -> Partial:
    """The Partial of one partition: events (columns `COLUMNS`, any row order) as spells of one call, then folded."""
    events = channels.datagrams(_plain(events))
    who_code, who = codes(events[WHO])
    events["who"] = who_code
    events["ok"] = _succeeded(events)
    paths = _sightings(events)
    file_code, file_names = pd.factorize(paths["file"])
    paths["file"] = file_code
    files = pd.DataFrame(
        {"file": file_names.astype(object), "ftype": paths.groupby("file")["ftype"].first().to_numpy()}
    )
    for column in ("file", "file2"):
        events[column + "_code"] = pd.Index(file_names).get_indexer(events[column])
    accesses = _accesses(events)
    row = np.arange(len(accesses), dtype=np.int64)
    placed = accesses["offset"].to_numpy() >= 0
    start = accesses["offset"].to_numpy()[placed]
    length = (accesses["bytes"] + accesses["mapped_bytes"]).to_numpy()[placed]
    return fold(
        Partial(
            who=who,
            files=files,
            aliases=paths.groupby(["file", "path"], as_index=False).agg(first_ns=("ts", "min"), last_ns=("ts", "max")),
            spells=accesses.drop(columns="offset"),
            extents=iv.make(row[placed], start, start + length),
            times=iv.make(row, accesses["first_ns"].to_numpy(), accesses["last_ns"].to_numpy()),
            busy=_busy(events),
            counts=_counts(events),
            facts=_facts(events),
            kin=_kin(events),
        )
    )


def _plain(events: pd.DataFrame) -> pd.DataFrame:
    """Plain numpy columns: strings are objects with "" for null, integers int64 with -1 (0 for sizes) for null."""
    out: dict[str, Any] = {}
    for column in COLUMNS:
        if column not in events:
            out[column] = pd.Series([None] * len(events), dtype=object)
        else:
            out[column] = events[column].reset_index(drop=True)
    for column in (
        "name",
        "cat",
        "host",
        "path",
        "file",
        "ftype",
        "path2",
        "file2",
        "dir",
        "workflow",
        "stage",
        "task",
    ):
        out[column] = _strings(out[column])
    for column, null in (("ts", 0), ("dur", 0), ("pid", -1), ("offset", -1), ("size", 0), ("count", 0), ("calls", 1)):
        out[column] = _integers(out[column], null)
    for column in ("ret", "errno", "flags", "prot"):
        out[column] = _integers(out[column], 0)
    result: pd.DataFrame = pd.DataFrame(out)
    return result


def _strings(column: pd.Series[Any]) -> Any:
    """Objects, "" for null; a category's texts are converted once, not once a row, and stay objects."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        texts = np.append(column.cat.categories.astype(object), "")
        return pd.Series(texts[column.cat.codes.to_numpy()], dtype=object)
    return column.astype(object).where(column.notna(), "")


def _integers(column: pd.Series[Any], null: int) -> pd.Series[Any]:
    if column.dtype == np.int64:
        return column
    if column.isna().all():
        return pd.Series(np.full(len(column), null, dtype=np.int64))
    return column.astype("Int64").fillna(null).astype(np.int64)


def _succeeded(events: pd.DataFrame) -> Bools:
    return np.asarray(events["errno"].to_numpy() == 0, dtype=np.bool_) & ~(
        events["name"].isin(UNLINKS | MOVES | LINKS).to_numpy() & (events["ret"].to_numpy() < 0)
    )


def _sightings(events: pd.DataFrame) -> pd.DataFrame:
    """Every (file, ftype, path, ts) that the events show. After a rename the old file bears the new name."""
    first = events.loc[events["file"] != "", ["file", "ftype", "path", "ts"]]
    second = events.loc[events["file2"] != "", ["file2", "ftype", "path2", "ts"]]
    second = second.set_axis(["file", "ftype", "path", "ts"], axis=1)
    if len(second):
        known = first.drop_duplicates("file").set_index("file")["ftype"]
        second["ftype"] = second["file"].map(known).fillna("reg")
    renames = events["name"].isin(MOVES | LINKS) & events["ok"] & (events["file"] != "") & (events["path2"] != "")
    moved = events.loc[renames, ["file", "ftype", "path2", "ts"]].set_axis(["file", "ftype", "path", "ts"], axis=1)
    moved["ts"] += 1  # the new name is later than the old one, which the same event bears
    result: pd.DataFrame = pd.concat([first, second, moved], ignore_index=True)
    return result


def _accesses(events: pd.DataFrame) -> pd.DataFrame:
    """One row an access of a file: `SPELL_KEY`, first_ns, last_ns, sums, offset (-1: unknown), fresh.

    `fresh` marks a truncation: what the actor writes from here on is a new version of the file.
    """
    layer = ~events["cat"].isin(UPPER_LAYERS) & events["ok"]
    moving = layer & (events["dir"] != "")
    both = moving & (events["dir"] == "rw")
    target = events["file_code"].where(events["file2_code"] < 0, events["file2_code"])
    flags = events["flags"]
    truncating = events["name"].isin(OPENS) & (flags & O_TRUNC != 0) & (flags & O_ACCMODE != 0)
    truncating |= events["name"].isin({"creat", "creat64"})
    truncating |= events["name"].isin({"truncate", "ftruncate"}) & (events["offset"] == 0)
    mapping = layer & events["cat"].eq("MMAP") & (events["ftype"] == "reg") & (events["dir"] == "")
    begins = mapping & events["name"].isin(MAPS)
    stores = mapping & (events["prot"] & PROT_WRITE != 0) & (flags & MAP_TYPE).isin(SHARED)
    picks = [
        (moving & (events["dir"] != "w"), READ, events["file_code"], "size", ""),
        (moving & (events["dir"] == "w"), WRITE, events["file_code"], "size", ""),
        (both, WRITE, target, "size", ""),
        (layer & truncating, WRITE, events["file_code"], "", ""),
        (begins, READ, events["file_code"], "", "count"),
        (stores, WRITE, events["file_code"], "", "count"),
    ]
    parts = [_access(events, *pick) for pick in picks]
    return pd.concat(parts, ignore_index=True)


def _access(
    events: pd.DataFrame, mask: pd.Series[Any], direction: int, file: pd.Series[Any], size: str, mapped: str
) -> pd.DataFrame:
    """The rows of `_accesses` for one of its cases; `size` and `mapped` name the columns the bytes stand in."""
    mask = mask & (file >= 0)
    rows = events[mask]
    moved = rows[size].to_numpy() if size else np.zeros(len(rows), dtype=np.int64)
    mapping = rows[mapped].to_numpy() if mapped else np.zeros(len(rows), dtype=np.int64)
    fresh = np.full(len(rows), not size and not mapped)
    offset = rows["offset"].to_numpy().copy()
    offset[fresh] = -1
    if direction == WRITE:
        offset[(rows["dir"] == "rw").to_numpy()] = -1  # the offset of a two-descriptor copy is the read side's
    result: pd.DataFrame = pd.DataFrame(
        {
            "who": rows["who"].to_numpy(),
            "file": file[mask].to_numpy(),
            "dir": np.int64(direction),
            "first_ns": rows["ts"].to_numpy(),
            "last_ns": (rows["ts"] + rows["dur"]).to_numpy(),
            "bytes": moved,
            "calls": np.where(fresh, 0, rows["calls"].to_numpy()),
            "loose_bytes": np.where(offset < 0, moved, 0),
            "mapped_bytes": mapping,
            "fresh": fresh,
            "offset": offset,
        }
    )
    return result


def _kind(events: pd.DataFrame) -> Ints:
    kind = np.full(len(events), META, dtype=np.int64)
    kind[(events["dir"] == "r").to_numpy()] = READ
    kind[events["dir"].isin(("w", "rw")).to_numpy()] = WRITE
    waits = events["ftype"].isin(STREAM_TYPES) | events["cat"].isin(("PIPE", "SOCKET"))
    kind[waits.to_numpy()] = STREAM
    return kind


def _busy(events: pd.DataFrame) -> Intervals:
    waits = (events["cat"].eq("PROCESS") & events["name"].isin(WAITS)).to_numpy()
    io = (~events["cat"].isin(NOT_IO)).to_numpy() | waits
    group = events["who"].to_numpy() * len(KINDS) + np.where(waits, WAIT, _kind(events))
    start = events["ts"].to_numpy()
    return iv.make(group[io], start[io], (start + events["dur"].to_numpy())[io])


def _counts(events: pd.DataFrame) -> pd.DataFrame:
    """(who, kind) -> calls, read and written bytes, those of them without a file, first_ns, last_ns (of all events)."""
    io = ~events["cat"].isin(NOT_IO)
    size = events["size"].where(io & events["ok"], 0)
    read, write = size.where(events["dir"].isin(("r", "rw")), 0), size.where(events["dir"].isin(("w", "rw")), 0)
    unnamed = (events["file_code"] < 0) | (events["dir"].eq("rw") & (events["file2_code"] < 0))
    unnamed &= events["cat"] != "LIBC"  # libc's own files have no name for the program either
    rows = pd.DataFrame(
        {
            "who": events["who"],
            "kind": _kind(events),
            "calls": events["calls"].where(io, 0),
            "failed": np.where(io & ~events["ok"], 1, 0),
            "read_bytes": read,
            "written_bytes": write,
            "unnamed_bytes": (read + write).where(unnamed, 0),
            "first_ns": events["ts"],
            "last_ns": events["ts"] + events["dur"],
        }
    )
    return sum_counts(rows)


def _facts(events: pd.DataFrame) -> pd.DataFrame:
    """(who, file, what, path, path2) -> first_ns, last_ns: what was done to names."""
    flags = events["flags"]
    opens = events["name"].isin(OPENS) & (flags & O_CREAT != 0) & (flags & O_ACCMODE != 0)
    whats = [
        ("create", events["name"].isin(MAKES) | opens),
        ("unlink", events["name"].isin(UNLINKS)),
        ("rename", events["name"].isin(MOVES)),
        ("link", events["name"].isin(LINKS)),
    ]
    parts = []
    for what, mask in whats:
        rows = events.loc[mask & events["ok"] & (events["file_code"] >= 0), ["who", "file_code", "path", "path2", "ts"]]
        if what in ("create", "unlink"):
            rows["path"], rows["path2"] = "", ""
        parts.append(rows.assign(what=what))
    parts.append(_missed(events))
    rows = pd.concat(parts, ignore_index=True).rename(columns={"file_code": "file", "ts": "first_ns"})
    return sum_facts(rows.assign(last_ns=rows["first_ns"]))


def _kin(events: pd.DataFrame) -> pd.DataFrame:
    """(who, what, pid, ns): the children that were made, and the ones whose end was seen."""
    of_process = events["cat"].eq("PROCESS") & events["ok"] & (events["ret"] > 0)
    made = events[of_process & events["name"].isin(FORKS)]
    ended = events[of_process & events["name"].eq("wait")]
    parts = [
        pd.DataFrame({"who": made["who"], "what": "fork", "pid": made["ret"], "ns": made["ts"]}),
        pd.DataFrame({"who": ended["who"], "what": "wait", "pid": ended["ret"], "ns": ended["ts"] + ended["dur"]}),
    ]
    types = {"who": np.int64, "what": object, "pid": np.int64, "ns": np.int64}
    kin: pd.DataFrame = pd.concat(parts, ignore_index=True).astype(types)
    return kin


def _missed(events: pd.DataFrame) -> pd.DataFrame:
    """Byte-compiled Python files looked for in vain: their sources were imported (fileclass.py). No file: -1."""
    rows = events.loc[events["name"].isin(OPENS) & ~events["ok"], ["who", "file_code", "path", "path2", "ts"]]
    rows = rows[rows["path"].str.endswith((".pyc", ".pyo"))]
    missed: pd.DataFrame = rows.assign(file_code=-1, path2="", what="missed")
    return missed
