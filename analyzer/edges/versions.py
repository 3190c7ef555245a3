"""Versions of files: the state of a file that a reader saw, computed from the edge table, not from single events.

A file is an identity (device, inode, birth time; identities.py), so renaming keeps it, and replacing it by rename or by
unlink and create makes another file. The content of one identity changes, too. The rule for regular files:

    file@0   the file before the first write of the run
    file@n   begins 1. when the file is truncated, to nothing or to a part, or
                    2. when a unit that is not among the writers of the current version begins to write; unless one of
                       these writers writes again later (they overlap in time) and no other unit read the file in the
                       pause before: then they share the version

A unit is a task, or a process without a task. A read belongs to the version that is current when its burst begins; if
another version begins before the burst ends, the burst is `raced`. A version that did not begin by truncation to
nothing still contains the bytes of the previous version, its `base`, that were not overwritten or cut off. A hole that
is punched is a write of nobody's zeros: it begins a version where a write would. Pipes, sockets and other streams have
no states: one version, 1.

Consequence: a read never belongs to a version that began after the burst did, so file@version graphs have no cycle that
contradicts time. The remaining cycles are units that read their own writing, and units that ran at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import identities
from tailrace.analyzer.edges.edge_table import BURST_ORDER, BURST_SUMS, STREAM_TYPES, WHO, WRITE, EdgeTable
from tailrace.analyzer.util import grouping
from tailrace.analyzer.util.tabular import Tabular
from tailrace.analyzer.util.types import Bools, Ints

BIRTH_SLACK_NS = 20_000_000
"""Tolerance for birth times, whose clock ticks every 4 or 10 ms."""


@dataclass(frozen=True, repr=False)
class Versions(Tabular):
    """All versions of a run.

    table: one row per version: file (code), number, begin_ns, end_ns (last write; begin and end are 0 for file@0),
        truncated (to nothing), base (position of the version that it continues, -1 if none), stream.
    of_burst: position in `table` for each burst.
    raced: True for each burst that read while a newer version began.
    """

    table: pd.DataFrame
    of_burst: Ints
    raced: Bools


def units(who: pd.DataFrame) -> tuple[Ints, pd.DataFrame]:
    """The unit of each actor, and the units: columns `WHO`; host and start are "" and pid is -1 where the unit is a
    task."""
    out: pd.DataFrame = who.copy()
    tagged = out["task"] != ""
    if tagged.any():
        out.loc[tagged, ["host", "start"]] = ""
        out.loc[tagged, "pid"] = -1
    codes, first = grouping.numbered(grouping.pack(*(out[name].to_numpy(dtype=object) for name in WHO)))
    return codes, out.iloc[first].reset_index(drop=True)


def birth_ns(identity: str) -> int:
    """The birth time at the end of an identity, ns since the epoch; 0 when it has none."""
    tail = identities.raw(identity).rsplit(":", 1)[-1]
    return int(tail) if tail.isdigit() and len(tail) >= 18 else 0


def with_created(table: EdgeTable) -> pd.DataFrame:
    """The bursts, and an empty write for every file that was created in the run and never written (`touch done`).

    O_CREAT alone doesn't show that a call created the file, its birth time does; files without one are left out.
    """
    bursts = table.bursts
    made = table.facts[table.facts["what"] == "create"]
    made = made[~made["file"].isin(bursts["file"][bursts["dir"] == WRITE])]
    made = made.sort_values("first_ns", kind="stable").drop_duplicates("file")
    births = np.array([birth_ns(str(name)) for name in table.files["file"].to_numpy()[made["file"]]], dtype=np.int64)
    made = made[(births > 0) & (births >= made["first_ns"].to_numpy() - BIRTH_SLACK_NS)]
    if made.empty:
        return bursts
    rows = made[["who", "file", "first_ns", "last_ns"]].assign(
        dir=WRITE, fresh=True, cut=False, hides=False, exact=True, **dict.fromkeys(BURST_SUMS, 0), **BURST_ORDER
    )
    return pd.concat([bursts, rows], ignore_index=True)[list(bursts.columns)]


def assign(table: EdgeTable, bursts: pd.DataFrame) -> Versions:
    """The versions of every file in `bursts` (of `with_created`)."""
    unit = units(table.who)[0][bursts["who"].to_numpy()]
    stream = table.files["ftype"].isin(STREAM_TYPES).to_numpy(dtype=np.bool_)
    writes = bursts["dir"].to_numpy() == WRITE
    rows = pd.DataFrame({"file": bursts["file"], "unit": unit, "fresh": bursts["fresh"]})
    rows["begins"] = bursts["fresh"] | _cuts_off(table, bursts)
    rows["first_ns"], rows["last_ns"] = bursts["first_ns"], bursts["last_ns"]
    never = np.iinfo(np.int64).max  # a fill value, since NaN would turn ns into floats, which lose precision
    first_write = rows[writes].groupby("file")["first_ns"].min().reindex(range(len(stream)), fill_value=never)
    began = first_write.to_numpy(dtype=np.int64)[rows["file"]]
    number = np.where(writes | (rows["first_ns"].to_numpy() >= began), 1, 0)
    number[stream[rows["file"]]] = 1
    truncated = np.zeros(len(rows), dtype=np.bool_)
    for code in _contested(rows, writes, stream, began):
        at = np.flatnonzero(rows["file"].to_numpy() == code)
        number[at], truncated[at] = _sequence(rows.iloc[at], writes[at])
    simple_start = writes & (rows["first_ns"].to_numpy() == began) & rows["fresh"].to_numpy()
    return _tabulate(table, rows, writes, number.astype(np.int64), truncated | simple_start, stream)


def _cuts_off(table: EdgeTable, bursts: pd.DataFrame) -> Bools:
    """Whether each burst begins with a truncation that left a part of the file."""
    found: Bools = bursts["cut"].to_numpy(dtype=np.bool_, copy=True)
    if not found.any():
        return found
    cuts = table.cuts[table.cuts["what"] == "truncate"]
    when = set(zip(cuts["who"].tolist(), cuts["file"].tolist(), cuts["last_ns"].tolist(), strict=True))
    rows = bursts[found]
    keys = zip(rows["who"].tolist(), rows["file"].tolist(), rows["first_ns"].tolist(), strict=True)
    found[found] = [key in when for key in keys]
    return found


def _contested(rows: pd.DataFrame, writes: Bools, stream: Bools, began: Ints) -> Ints:
    """Files with more than one written version: several units wrote, or the file was truncated after the first
    write."""
    written = rows[writes]
    several = written.groupby("file")["unit"].nunique()
    again = written["file"][(written["begins"]) & (written["first_ns"] > began[writes])]
    codes = np.union1d(several.index.to_numpy()[several.to_numpy() > 1], again.to_numpy())
    return np.asarray(codes[~stream[codes.astype(np.int64)]], dtype=np.int64)


def _sequence(rows: pd.DataFrame, writes: Bools) -> tuple[Ints, Bools]:
    """The version number of each burst of one file, and whether the burst truncated it into that version."""
    first, last = rows["first_ns"].to_numpy(), rows["last_ns"].to_numpy()
    unit, fresh, begin = rows["unit"].to_numpy(), rows["fresh"].to_numpy(), rows["begins"].to_numpy()
    order = np.flatnonzero(writes)[np.lexsort((~begin[writes], first[writes]))]
    era = np.cumsum(begin[order])
    until: dict[tuple[int, int], int] = {}
    for i, e in zip(order, era, strict=True):
        until[(int(e), int(unit[i]))] = max(until.get((int(e), int(unit[i])), 0), int(last[i]))
    number = np.zeros(len(rows), dtype=np.int64)
    begins: list[int] = []
    writers: set[int] = set()
    end = 0
    reads = (first[~writes], last[~writes], unit[~writes])
    for i, e in zip(order, era, strict=True):
        u = int(unit[i])
        if not begins or begin[i] or (u not in writers and not _shares(reads, writers, until, int(e), end, first[i])):
            begins.append(int(first[i]))
            writers, end = set(), 0
        writers.add(u)
        end = max(end, int(last[i]))
        number[i] = len(begins)
    number[~writes] = np.searchsorted(np.array(begins), first[~writes], side="right")
    return number, np.asarray(fresh & writes, dtype=np.bool_)


def _shares(
    reads: tuple[Ints, Ints, Ints], writers: set[int], until: dict[tuple[int, int], int], era: int, end: int, at: int
) -> bool:
    """Whether a new writer that begins at `at` shares the version whose last write so far ended at `end`."""
    if end >= at:
        return True
    if max((until.get((era, w), 0) for w in writers), default=0) < at:
        return False
    first, last, unit = reads
    between = (first < at) & (last > end)
    return not np.any(between & ~np.isin(unit, list(writers)))


def _tabulate(
    table: EdgeTable, rows: pd.DataFrame, writes: Bools, number: Ints, truncated: Bools, stream: Bools
) -> Versions:
    """The table of versions from the version numbers of the bursts."""
    file, first, last = (rows[name].to_numpy() for name in ("file", "first_ns", "last_ns"))
    _, heads, of_burst = np.unique(grouping.pack(file, number), return_index=True, return_inverse=True)
    size, place = len(heads), of_burst[writes]
    columns = {
        "file": file[heads],
        "number": number[heads],
        "begin_ns": grouping.least(place, first[writes], size, 0),
        "end_ns": grouping.most(place, last[writes], size, 0),
        "truncated": grouping.sums(place, truncated[writes], size) > 0,
        "stream": stream[file[heads]],
    }
    out: pd.DataFrame = pd.DataFrame(columns)
    out["base"] = _bases(table, out)
    return Versions(out, np.asarray(of_burst, dtype=np.int64), _raced(rows, writes, out, of_burst))


def _bases(table: EdgeTable, out: pd.DataFrame) -> Ints:
    """The position of the version that each version continues; rows are sorted by file and number."""
    base = np.full(len(out), -1, dtype=np.int64)
    file, number = out["file"].to_numpy(), out["number"].to_numpy()
    follows = np.flatnonzero((file[1:] == file[:-1]) & (number[1:] == number[:-1] + 1)) + 1
    base[follows] = follows - 1
    base[out["truncated"].to_numpy() | out["stream"].to_numpy()] = -1
    return base


def _raced(rows: pd.DataFrame, writes: Bools, out: pd.DataFrame, of_burst: Ints) -> Bools:
    """Reads during which the next version began."""
    next_begin = np.full(len(out), np.iinfo(np.int64).max)
    file = out["file"].to_numpy()
    same = np.flatnonzero(file[1:] == file[:-1])
    next_begin[same] = out["begin_ns"].to_numpy()[same + 1]
    late = next_begin[of_burst] < rows["last_ns"].to_numpy()
    return np.asarray(late & ~writes & ~out["stream"].to_numpy()[of_burst], dtype=np.bool_)


def made(table: EdgeTable) -> Bools:
    """For each file whether a traced process made it in the run, so that it was empty at first."""
    facts, count = table.facts, len(table.files)
    created, new = np.zeros((2, count), dtype=np.bool_)
    for mark, what in ((created, ("create", "new")), (new, ("new",))):
        rows = facts["file"].to_numpy(dtype=np.int64)[facts["what"].isin(what).to_numpy()]
        mark[rows[rows >= 0]] = True
    started = int(table.counts["first_ns"].min()) if len(table.counts) else 0
    at = np.flatnonzero(created & ~new)
    births = [birth_ns(str(name)) for name in table.files["file"].to_numpy()[at]]
    created[at] = np.array(births, dtype=np.int64) > started - BIRTH_SLACK_NS
    return np.asarray(created, dtype=np.bool_)


def whole(table: EdgeTable, versions: Versions) -> Bools:
    """True for versions that contain only their own writers' bytes: truncated ones, streams, and first versions of
    files created in the run. Other versions also contain bytes of their base, or from before the run.
    """
    v = versions.table
    started = int(table.counts["first_ns"].min()) if len(table.counts) else 0
    complete = (v["truncated"] | v["stream"]).to_numpy(dtype=np.bool_, copy=True)
    firsts = np.flatnonzero(~complete & (v["number"] == 1).to_numpy())
    names = table.files["file"].to_numpy()[v["file"].to_numpy()[firsts]]
    complete[firsts] = [birth_ns(str(name)) > started - BIRTH_SLACK_NS for name in names]
    return complete
