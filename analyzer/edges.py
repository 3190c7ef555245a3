"""From events to the edge table: who moved which bytes of which file, in which direction, when.

    partition of events --chunk--> Partial --combine (a tree)--> Partial --> EdgeTable

A `Partial` holds long integer tables; its size is bounded by the numbers of actors, files and caps, not by events:

    who      an actor: (workflow, stage, task, host, pid); "" stands for "not set"
    files    an identity and its type; paths are aliases of it, kept with the times they were seen
    spells   (who, file, direction, spell): what the actor moved between two pauses; first, last, bytes, calls, ...
    extents  (spell, start, end): which bytes of the file, as a union; `times` likewise: when, in ns since the epoch
    busy     (who, kind, start, end): when the actor was inside calls of a kind (`KINDS`)
    counts   (who, kind): calls and bytes, with the ones that could not be put on a file
    facts    (who, file, what): create, unlink, rename, link, missed (a .pyc that was not there); first and last time

What always holds: a byte is counted once, at the lowest layer that saw it (`UPPER_LAYERS` is left out); failed calls
make no edge; one and the same `fold` makes chunks and combines them, so the result depends on the partitioning only
where a cap coarsens. Caps close the smallest gaps first: a coarse spell or extent covers too much, never too little,
and says so.

Why spells: a version of a file (versions.py) begins in a pause of its readers and writers, so the edge table must know
the pauses to put each read on the version it saw; 16 a key are enough for that and don't grow with the events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import dask as untyped_dask
import numpy as np
import pandas as pd

from tailrace.analyzer import intervals as iv
from tailrace.analyzer.intervals import Bools, Intervals, Ints

dask: Any = untyped_dask
"""Dask says that it is typed, and is not."""

MAX_SPELLS = 16
"""Spells kept for one (actor, file, direction)."""
MIN_PAUSE_NS = 10_000
"""Calls closer than this belong to one spell: nobody can be woken, write and wake the reader again in 10 us."""
MAX_EXTENTS = 64
"""Byte ranges kept for one spell."""
MAX_TIMES = 64
"""Time intervals kept for one spell; past it `io_ns` is an upper bound."""
MAX_BUSY = 2048
"""Time intervals kept for one actor and kind of call; past it I/O times are upper bounds."""
SPLIT_EVERY = 8
"""Partials combined at once in the tree."""

READ, WRITE, META, STREAM = 0, 1, 2, 3
KINDS = ("read", "write", "metadata", "stream")
"""What a call's time counts as; calls on pipes and sockets wait for the other end, so they are kept apart."""

UPPER_LAYERS = frozenset({"MPIIO", "MPI", "HDF5", "NETCDF", "PNETCDF", "ADIOS", "ADIOS2"})
"""Categories whose calls are seen again below: their bytes would be counted twice."""
NOT_IO = frozenset({"PROCESS", "APP", "REGION", "PYTHON", "dftracer", "tailrace"}) | UPPER_LAYERS
"""Categories whose time is not time in an I/O call (or is counted below)."""
STREAM_TYPES = frozenset({"fifo", "sock", "anon"})
OPENS = frozenset(
    {"open", "open64", "openat", "openat64", "fopen", "fopen64", "freopen", "freopen64", "creat", "creat64"}
)
MAKES = frozenset({"creat", "creat64", "mkstemp", "mkostemp", "mkstemps", "mkostemps", "memfd_create", "tmpfile"})
MOVES = frozenset({"rename", "renameat", "renameat2"})
LINKS = frozenset({"link", "linkat"})
UNLINKS = frozenset({"unlink", "unlinkat", "remove"})
O_ACCMODE, O_WRONLY, O_RDWR, O_CREAT, O_TRUNC = 0o3, 0o1, 0o2, 0o100, 0o1000

WHO = ["workflow", "stage", "task", "host", "pid"]
COLUMNS = [
    *("name", "cat", "ts", "dur", "host", "pid", "path", "file", "ftype", "path2", "file2", "offset", "size", "count"),
    *("ret", "errno", "dir", "flags", "calls", "workflow", "stage", "task"),
]
"""The columns of the event frame that the edge table is made from."""
SPELL_KEY = ["who", "file", "dir"]
SPELL_SUMS = ["bytes", "calls", "loose_bytes", "mapped_bytes"]


class Source(Protocol):
    """What this module needs of a run; `tailrace.analyzer.run.Run` is one."""

    def events(self, columns: list[str] | None = None, **predicates: Any) -> Any:
        """A Dask DataFrame of events."""


@dataclass(frozen=True)
class Partial:
    """The tables of the module's docstring; codes are positions in `who` and `files`, spells in `spells`."""

    who: pd.DataFrame
    files: pd.DataFrame
    aliases: pd.DataFrame
    spells: pd.DataFrame
    extents: Intervals
    times: Intervals
    busy: Intervals
    counts: pd.DataFrame
    facts: pd.DataFrame


EdgeTable = Partial
"""A Partial that covers the whole run."""


# --- a partition of events -------------------------------------------------------------------------------------------


def chunk(events: pd.DataFrame) -> Partial:
    """The Partial of one partition: events (columns `COLUMNS`, any row order) as spells of one call, then folded."""
    events = _plain(events)
    who_code, who = _codes(events[WHO])
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
    for column in ("ret", "errno", "flags"):
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


def _codes(frame: pd.DataFrame) -> tuple[Ints, pd.DataFrame]:
    """Dense codes of the distinct rows, and the distinct rows in the order of their codes."""
    codes = frame.groupby(list(frame.columns), sort=False, dropna=False).ngroup().to_numpy(dtype=np.int64)
    first = np.unique(codes, return_index=True)[1]
    return codes, frame.iloc[first].reset_index(drop=True)


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
    mapping = events["cat"].eq("MMAP") & (events["ftype"] == "reg") & (events["dir"] == "")
    picks = [
        (moving & (events["dir"] != "w"), READ, events["file_code"], "size", ""),
        (moving & (events["dir"] == "w"), WRITE, events["file_code"], "size", ""),
        (both, WRITE, target, "size", ""),
        (layer & truncating, WRITE, events["file_code"], "", ""),
        (layer & mapping, READ, events["file_code"], "", "count"),
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
    io = (~events["cat"].isin(NOT_IO)).to_numpy()
    group = events["who"].to_numpy() * len(KINDS) + _kind(events)
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
    return _sum_counts(rows)


def _sum_counts(rows: pd.DataFrame) -> pd.DataFrame:
    sums = dict.fromkeys(("calls", "failed", "read_bytes", "written_bytes", "unnamed_bytes"), "sum")
    return rows.groupby(["who", "kind"], as_index=False).agg({**sums, "first_ns": "min", "last_ns": "max"})


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
    return _sum_facts(rows.assign(last_ns=rows["first_ns"]))


def _missed(events: pd.DataFrame) -> pd.DataFrame:
    """Byte-compiled Python files looked for in vain: their sources were imported (fileclass.py). No file: -1."""
    rows = events.loc[events["name"].isin(OPENS) & ~events["ok"], ["who", "file_code", "path", "path2", "ts"]]
    rows = rows[rows["path"].str.endswith((".pyc", ".pyo"))]
    missed: pd.DataFrame = rows.assign(file_code=-1, path2="", what="missed")
    return missed


def _sum_facts(rows: pd.DataFrame) -> pd.DataFrame:
    key = ["who", "file", "what", "path", "path2"]
    return rows.groupby(key, as_index=False).agg(first_ns=("first_ns", "min"), last_ns=("last_ns", "max"))


# --- folding and combining -------------------------------------------------------------------------------------------


def fold(part: Partial) -> Partial:
    """Unites what belongs together in `part` and applies the caps; `part` may hold many rows for one key."""
    spells, number = _fold_spells(part.spells)
    extents, coarse = iv.cap(iv.union(_regroup(part.extents, number)), MAX_EXTENTS)
    times, _ = iv.cap(iv.union(_regroup(part.times, number)), MAX_TIMES)
    exact = spells["exact"].to_numpy(copy=True)
    exact[coarse] = False
    return Partial(
        who=part.who,
        files=part.files,
        aliases=part.aliases,
        spells=spells.assign(exact=exact),
        extents=extents,
        times=times,
        busy=iv.cap(iv.union(part.busy), MAX_BUSY)[0],
        counts=part.counts,
        facts=part.facts,
    )


def _regroup(rows: Intervals, code: Ints) -> Intervals:
    return rows._replace(group=code[rows.group])


def _fold_spells(rows: pd.DataFrame) -> tuple[pd.DataFrame, Ints]:
    """The spells, and for each row of `rows` the position of its spell.

    Rows of a key join unless a pause lies between them or a truncation begins the second; if there are more than
    `MAX_SPELLS`, the shortest pauses are closed first, truncations last.
    """
    if len(rows) == 0:
        return rows.assign(exact=np.ones(0, dtype=np.bool_)), np.empty(0, dtype=np.int64)
    key, _ = _codes(rows[SPELL_KEY])
    order = np.lexsort((~rows["fresh"].to_numpy(), rows["first_ns"].to_numpy(), key))
    rows, key = rows.iloc[order], key[order]
    begins = iv.first_of_group(key)
    pause = np.zeros(len(rows), dtype=np.int64)
    pause[1:] = rows["first_ns"].to_numpy()[1:] - iv.running_end(key, rows["last_ns"].to_numpy())[:-1]
    pause[rows["fresh"].to_numpy()] = np.iinfo(np.int64).max - 1
    pause[begins] = np.iinfo(np.int64).max
    begins |= pause > MIN_PAUSE_NS
    candidates = np.flatnonzero(begins)
    begins[candidates] = iv.rank_in_group(key[candidates], pause[candidates]) < MAX_SPELLS
    at = np.flatnonzero(begins)
    exact = rows["exact"].to_numpy() if "exact" in rows else np.ones(len(rows), dtype=np.bool_)
    out = {name: rows[name].to_numpy()[at] for name in (*SPELL_KEY, "first_ns", "fresh")}
    out["last_ns"] = np.maximum.reduceat(rows["last_ns"].to_numpy(), at)
    out.update({name: np.add.reduceat(rows[name].to_numpy(), at) for name in SPELL_SUMS})
    out["exact"] = np.logical_and.reduceat(exact, at)
    number = np.empty(len(rows), dtype=np.int64)
    number[order] = np.cumsum(begins) - 1
    return pd.DataFrame(out), number


def combine(parts: Sequence[Partial]) -> Partial:
    """One Partial for all of `parts`: codes are made common, then everything is folded."""
    who_codes, who = _codes(pd.concat([p.who for p in parts], ignore_index=True))
    all_files = pd.concat([p.files for p in parts], ignore_index=True)
    file_codes, names = pd.factorize(all_files["file"])
    ftype = all_files["ftype"].groupby(file_codes).first()
    aliases, spells, counts, facts = [], [], [], []
    extents, times, busy = [], [], []
    who_at = file_at = spell_at = 0
    for p in parts:
        w, f = who_codes[who_at : who_at + len(p.who)], file_codes[file_at : file_at + len(p.files)]
        aliases.append(p.aliases.assign(file=f[p.aliases["file"].to_numpy()]))
        spells.append(p.spells.assign(who=w[p.spells["who"].to_numpy()], file=f[p.spells["file"].to_numpy()]))
        counts.append(p.counts.assign(who=w[p.counts["who"].to_numpy()]))
        facts.append(
            p.facts.assign(who=w[p.facts["who"].to_numpy()], file=np.append(f, -1)[p.facts["file"].to_numpy()])
        )
        extents.append(p.extents._replace(group=p.extents.group + spell_at))
        times.append(p.times._replace(group=p.times.group + spell_at))
        kinds = len(KINDS)
        busy.append(p.busy._replace(group=w[p.busy.group // kinds] * kinds + p.busy.group % kinds))
        who_at, file_at, spell_at = who_at + len(p.who), file_at + len(p.files), spell_at + len(p.spells)
    names_seen = pd.concat(aliases, ignore_index=True).groupby(["file", "path"], as_index=False)
    return fold(
        Partial(
            who=who,
            files=pd.DataFrame({"file": np.asarray(names, dtype=object), "ftype": ftype.to_numpy()}),
            aliases=names_seen.agg(first_ns=("first_ns", "min"), last_ns=("last_ns", "max")),
            spells=pd.concat(spells, ignore_index=True),
            extents=iv.concat(extents),
            times=iv.concat(times),
            busy=iv.concat(busy),
            counts=_sum_counts(pd.concat(counts, ignore_index=True)),
            facts=_sum_facts(pd.concat(facts, ignore_index=True)),
        )
    )


def build(run: Source) -> EdgeTable:
    """The edge table of a run, in one pass over its events (Dask; a tree of `combine`).

    Raises:
        RunError: the trace can't be read; a reader's errors pass through.
    """
    frame = run.events(columns=COLUMNS)
    layer = [dask.delayed(chunk)(part) for part in frame.to_delayed()]
    while len(layer) > 1:
        groups = [layer[i : i + SPLIT_EVERY] for i in range(0, len(layer), SPLIT_EVERY)]
        layer = [dask.delayed(combine)(group) for group in groups]
    if not layer:
        return chunk(pd.DataFrame({column: [] for column in COLUMNS}))
    table: EdgeTable = dask.compute(layer[0])[0]
    return table


# --- the table as a person reads it ----------------------------------------------------------------------------------


def frame(table: EdgeTable) -> pd.DataFrame:
    """One row an edge (workflow, stage, task, host, pid, file, direction): the documented edge table.

    Columns: `WHO`; file (identity), path (last name), direction ("r" or "w"), bytes, calls, first_ns, last_ns (int64,
    ns since the epoch), io_ns (union of the calls' intervals), extents (list of [start, end), united), loose_bytes
    (moved at an unknown offset), mapped_bytes (mapped, not counted in bytes), exact (False: extents cover too much).
    """
    spells = table.spells
    key, edges = _codes(spells[SPELL_KEY])
    sums = spells.groupby(key)[SPELL_SUMS].sum()
    out: pd.DataFrame = table.who.iloc[edges["who"]].reset_index(drop=True)
    out["file"] = table.files["file"].to_numpy()[edges["file"]]
    out["path"] = last_paths(table)[edges["file"]]
    out["direction"] = np.where(edges["dir"] == READ, "r", "w")
    out = out.join(sums)
    out["first_ns"] = spells.groupby(key)["first_ns"].min()
    out["last_ns"] = spells.groupby(key)["last_ns"].max()
    out["io_ns"] = iv.length(iv.union(_regroup(table.times, key)), len(edges))
    extents = iv.union(_regroup(table.extents, key))
    ranges = np.split(
        np.column_stack((extents.start, extents.end)), np.searchsorted(extents.group, range(1, len(edges)))
    )
    out["extents"] = pd.Series([r.tolist() for r in ranges[: len(edges)]], dtype=object)
    out["exact"] = spells.groupby(key)["exact"].all()
    return out


def last_paths(table: EdgeTable) -> Any:
    """The display path of each file code: the name it was last seen under, after renames of directories above it."""
    paths = np.full(len(table.files), "", dtype=object)
    seen = np.zeros(len(table.files), dtype=np.int64)
    aliases = table.aliases.sort_values(["last_ns", "path"], kind="stable")
    paths[aliases["file"].to_numpy()] = aliases["path"].to_numpy()
    seen[aliases["file"].to_numpy()] = aliases["last_ns"].to_numpy()
    directories = table.files["ftype"].to_numpy() == "dir"
    facts = table.facts[table.facts["what"] == "rename"]
    facts = facts[directories[facts["file"].to_numpy()]].sort_values("last_ns")
    for fact in facts.itertuples():
        inside = fact.path.rstrip("/") + "/"
        for code in np.flatnonzero(seen < fact.last_ns):
            if paths[code].startswith(inside):
                paths[code] = fact.path2.rstrip("/") + "/" + paths[code][len(inside) :]
    return paths
