"""The calls of some processes on some files, read from the events again: exact where the edge table is coarse.

    actors, files --read--> Calls: each access with its time and bytes, what was done to locks, how files were opened

An access is that of the edge table (event_fold.py folds both), but for a burst of its own: one call, or a piece of a
line of totals, of which nothing is known but the times of its first and last call.

Invariants: actors, files and times are the model's: identities that were used again are told apart by the bursts that
the accesses are in, times are by the clocks that the model corrected. What can't be told is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from tailrace import _native
from tailrace.analyzer.edges import edge_table, event_fold, file_classes
from tailrace.analyzer.edges.edge_table import READ, STREAM_TYPES, WRITE, Actor
from tailrace.analyzer.edges.identities import raw
from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.model.order import Edges, Order, edges_of
from tailrace.analyzer.store import engine, processes
from tailrace.analyzer.store.loader import Part
from tailrace.analyzer.util import grouping
from tailrace.analyzer.util.intervals import Intervals
from tailrace.analyzer.util.types import Bools, Ints

LOCK, FLOCK, OPEN, CLOSE, END = "lock", "flock", "open", "close", "end"
LOCKED = (LOCK, FLOCK)
LOCKS = ("fcntl", "flock", "lockf")
_CLOSES = ("close", "fclose")
_COPIES = ("dup", "dup2", "dup3")
_READS = ("read", "readv", "pread", "pread64", "preadv", "preadv2", "fread", "fread_unlocked")
"""What of a file returns less than was asked for at its end alone (read(2))."""
_OPENS = tuple(name for name, bits in event_fold.MEANINGS["name"].items() if bits & _native.bits()["opens"])
MAX_LOCKS = 2_000_000
"""Calls on locks that are read to know which files are locked at all: a second or two."""
USES = ("who", "file", "path", "what", "first_ns", "last_ns", "flags", "low", "count")
_ACCESS = (*edge_table.BURST_KEY, "first_ns", "last_ns", *edge_table.BURST_SUMS, "fresh", "exact")


@dataclass(frozen=True)
class Calls:
    """
    accesses: who, file (codes of the model), and the other columns of `EdgeTable.bursts` but those of order; extents:
        the bytes of each (group: its position), as in the edge table.
    uses: `USES`: file is an identity, path that of locks, what `LOCK` of a range, `FLOCK`, `OPEN`, `CLOSE` or `END` (a
        read at the file's end), flags as recorded (-1: not), low and count the range of a lock; by time.
    """

    accesses: pd.DataFrame
    extents: Intervals
    uses: pd.DataFrame


def read(run: AnalyzedRun, m: Model, who: Bools, files: Ints) -> Calls:
    """The accesses of actors (True in `who`) to files (codes of the model) and to all pipes and sockets, and all that
    they did to locks. Reads their events."""
    names = m.table.files["file"].to_numpy()
    wanted = frozenset(raw(name) for name in names[files])
    actors = chosen(m, who)
    parts = run.parts(columns=event_fold.COLUMNS, **places(m, who))
    found = engine.compute([partial(_of_part, part, wanted, actors) for part in parts])
    code: dict[str, int] = {}
    for one, _, _, of_part in found:
        one["file"] = np.array([code.setdefault(name, len(code)) for name in of_part])[one["file"].to_numpy()]
    accesses, uses = (pd.concat(tables, ignore_index=True) for tables in ([f[0] for f in found], [f[2] for f in found]))
    first = np.cumsum([0, *(len(one[0]) for one in found)])
    extents = Intervals(*map(np.concatenate, zip(*(one[1] for one in found), strict=True)))
    extents = extents._replace(group=extents.group + np.repeat(first[:-1], [len(one[1].group) for one in found]))
    shift = ahead_ns(run, m)
    for rows in (accesses, uses):
        ahead = shift[rows["who"].to_numpy(dtype=np.int64)]
        for name in ("first_ns", "last_ns"):
            rows[name] = rows[name].to_numpy(dtype=np.int64) - ahead
    accesses["file"] = _codes(m, accesses, list(code))
    uses = uses.sort_values(["first_ns", "last_ns"], kind="stable", ignore_index=True)
    return Calls(*kept(accesses, extents, accesses["file"].to_numpy() >= 0), uses)


def kept(accesses: pd.DataFrame, extents: Intervals, keep: Bools) -> tuple[pd.DataFrame, Intervals]:
    """Some accesses or bursts, and their ranges."""
    mine = keep[extents.group]
    at = np.cumsum(keep) - 1
    kept = Intervals(*(column[mine] for column in extents))
    return accesses[keep].reset_index(drop=True), kept._replace(group=at[kept.group])


def _of_part(
    part: Part, files: frozenset[str], actors: Mapping[Actor, int]
) -> tuple[pd.DataFrame, Intervals, pd.DataFrame, list[str]]:
    """Accesses, their ranges, uses, and the identities that the first ones' files are positions in."""
    frame = part()
    mine = frame["file"].isin(files) | frame["file2"].isin(files)
    mine |= frame["ftype"].isin(STREAM_TYPES) & frame["dir"].notna()
    table = event_fold.chunk(frame[mine.to_numpy(dtype=np.bool_)], event_fold.EACH)
    who = _actor_codes(table.who, actors)[table.bursts["who"].to_numpy()]
    accesses = grouping.frame({**{name: table.bursts[name].to_numpy() for name in _ACCESS}, "who": who})
    names = [raw(name) for name in table.files["file"]]
    return *kept(accesses, table.extents, who >= 0), _uses(frame, actors), names


def _uses(frame: pd.DataFrame, actors: Mapping[Actor, int]) -> pd.DataFrame:
    """What successful calls did to locks and descriptors of files, and which reads found the end."""
    known = (*LOCKS, *_OPENS, *_CLOSES, *_COPIES)
    ended = frame["name"].isin(_READS) & (frame["ftype"] == "reg") & (frame["size"].fillna(0) < frame["count"])
    keep = (frame["name"].isin(known) | ended) & frame["file"].notna() & (frame["errno"].fillna(0) == 0)
    rows = frame[keep.fillna(False).to_numpy(dtype=np.bool_)]
    number = {
        name: rows[name].fillna(-1).to_numpy(dtype=np.int64) for name in ("ts", "dur", "flags", "offset", "count")
    }
    name = rows["name"].astype(str).to_numpy(dtype=object)
    copies = np.isin(name, _COPIES) | ((name == "fcntl") & (rows["ret"].fillna(0) != 0).to_numpy(dtype=np.bool_))
    ends = np.isin(name, _READS)
    kinds = (ends, np.isin(name, _CLOSES), np.isin(name, _OPENS) | copies, name == FLOCK)
    what = np.select(kinds, (END, CLOSE, OPEN, FLOCK), LOCK).astype(object)
    who = actors_of(rows, actors)
    made = grouping.frame(
        {
            "who": who,
            "file": rows["file"].astype(str).to_numpy(dtype=object),
            "path": np.where(np.isin(what, LOCKED), rows["path"].astype(str).to_numpy(dtype=object), ""),
            "what": what,
            "first_ns": number["ts"],
            "last_ns": number["ts"] + number["dur"],
            "flags": np.where(copies, -1, number["flags"]),
            "low": number["offset"],
            "count": number["count"],
        }
    )
    return made[who >= 0]


# --- events of some actors -------------------------------------------------------------------------------------------


def events(
    run: AnalyzedRun,
    m: Model,
    who: Bools,
    columns: Sequence[str],
    of_part: Callable[[Part], pd.DataFrame],
    **where: Any,
) -> pd.DataFrame:
    """What `of_part` keeps of the partitions with events of these actors, and `who`, the actor of each row; empty, and
    without columns, where there is nothing. where: what else `AnalyzedRun.parts` is asked for."""
    parts = run.parts(columns=list(dict.fromkeys([*columns, *edge_table.WHO])), **where, **places(m, who))
    frames = [frame for frame in engine.compute([partial(of_part, part) for part in parts]) if len(frame)]
    if not frames:
        return pd.DataFrame()
    rows = pd.concat(frames, ignore_index=True)
    rows["who"] = actors_of(rows, chosen(m, who))
    return rows[rows["who"] >= 0].reset_index(drop=True)


def locked(run: AnalyzedRun, m: Model) -> pd.DataFrame:
    """who, file (an identity): what each actor ever locked; nothing past `MAX_LOCKS`."""
    functions, mine = m.table.functions, np.zeros(len(m.who), dtype=np.bool_)
    locks = functions[functions["name"].isin(LOCKS).to_numpy()]
    mine[locks["who"].to_numpy(dtype=np.int64)] = locks["calls"].sum() <= MAX_LOCKS
    none = grouping.frame({"who": np.zeros(0, dtype=np.int64), "file": np.zeros(0, dtype=object)})
    if not mine.any():
        return none
    rows = events(run, m, mine, ["name", "file", "flags", "errno"], _locked_of_part, name=[*LOCKS])
    return rows[["who", "file"]].drop_duplicates() if len(rows) else none


def _locked_of_part(part: Part) -> pd.DataFrame:
    frame = part()
    keep = frame["name"].isin(LOCKS) & (frame["flags"].fillna(0) > 0) & (frame["errno"].fillna(0) == 0)
    rows = frame[(keep & frame["file"].notna()).to_numpy(dtype=np.bool_)][["file", *edge_table.WHO]].drop_duplicates()
    return rows.assign(file=rows["file"].astype(str).astype(object))


def places(m: Model, who: Bools) -> dict[str, list[str] | list[int]]:
    """What `AnalyzedRun.parts` is asked for to have the events of these actors, and of few others."""
    return {
        "host": sorted({str(host) for host in m.who["host"][who]}),
        "pid": sorted({int(pid) for pid in m.who["pid"][who]}),
    }


def chosen(m: Model, who: Bools) -> dict[Actor, int]:
    """These actors by what events say of them."""
    columns = m.who[edge_table.WHO].itertuples(index=False, name=None)
    return {key: at for at, key in enumerate(columns) if who[at]}


def actors_of(rows: pd.DataFrame, actors: Mapping[Actor, int]) -> Ints:
    """The actor of each event, -1: none of these."""
    columns = {
        name: rows[name].to_numpy() if name == "pid" else rows[name].astype(object).fillna("").to_numpy(dtype=object)
        for name in edge_table.WHO
    }
    code, first = edge_table.codes(grouping.frame(columns))
    return _actor_codes(first, actors)[code]


def _actor_codes(who: pd.DataFrame, actors: Mapping[Actor, int]) -> Ints:
    keys = who[edge_table.WHO].itertuples(index=False, name=None)
    return np.array([actors.get(key, -1) for key in keys], dtype=np.int64)


def ahead_ns(run: AnalyzedRun, m: Model) -> Ints:
    """By how many ns the times of each actor are ahead of the model's."""
    ahead = np.array([m.ahead.get(str(host), 0) for host in m.who["host"]], dtype=np.int64)
    if clocks := run.process_clocks:
        ahead += np.array([clocks.get(key, 0) for key in processes.keys(m.who)], dtype=np.int64)
    return ahead


def _codes(m: Model, rows: pd.DataFrame, names: list[str]) -> Ints:
    """The file of each access (a position in `names`), as a code of the model: the one of its identity; of several that
    had it, or of none (sockets are joined to channels), that of the actor's burst that begins with the access, or last
    before it."""
    of_name: dict[str, list[int]] = {name: [] for name in names}
    for code, name in enumerate(map(raw, m.table.files["file"])):
        if name in of_name:
            of_name[name].append(code)
    own = m.table.bursts[np.isin(m.table.bursts["who"].to_numpy(), rows["who"].unique())]
    of_burst = {key: own.iloc[at] for key, at in own.groupby(["who", "dir"]).indices.items()}
    out = np.full(len(rows), -1, dtype=np.int64)
    key = [rows[name].to_numpy(dtype=np.int64) for name in (*edge_table.BURST_KEY, "first_ns")]
    groups = grouping.groups(grouping.pack(*key[:3]))
    for low, high in pairwise([*groups.at.tolist(), len(rows)]):
        at = groups.order[low:high]
        who, file, way, _ = (int(column[at[0]]) for column in key)
        codes, bursts, first = of_name[names[file]], of_burst.get((who, way)), key[3][at]
        mine = None if bursts is None else bursts[bursts["file"].isin(codes)]
        if mine is not None and len(codes) > 1 and len(mine):
            mine = mine.sort_values("first_ns", kind="stable")
            place = np.searchsorted(mine["first_ns"].to_numpy(), first, side="right") - 1
            out[at] = np.where(place >= 0, mine["file"].to_numpy()[place], -1)
        elif mine is not None and len(mine):
            out[at] = codes[0]
        elif bursts is not None:
            begun = bursts[(bursts["first_ns"] == first.min()).to_numpy()]
            out[at] = int(begun["file"].iat[0]) if len(begun) == 1 else -1
    return out


def messages(order: Order, known: Calls, works: Bools) -> Edges:
    """Each read of a pipe or socket between tasks (True in `works`) comes after the writes of its bytes, where all that
    went through it was read again: the n-th byte that is read is the n-th that was written."""
    m, of_who = order.m, order.of_who
    stream = m.class_of_file == file_classes.STREAM
    rows = known.accesses[stream[known.accesses["file"].to_numpy(dtype=np.int64)]]
    found: list[tuple[int, int, int, int]] = []
    for file in rows["file"].unique().tolist():
        mine = rows[(rows["file"] == file).to_numpy()]
        users = set(m.table.bursts["who"][(m.table.bursts["file"] == file).to_numpy()].tolist())
        ways = [mine[(mine["dir"] == way).to_numpy()].sort_values("first_ns", kind="stable") for way in (WRITE, READ)]
        sent, got = (np.cumsum(of["bytes"].to_numpy(dtype=np.int64)) for of in ways)
        whole = users <= set(mine["who"].tolist()) and works[of_who[[*users]]].all()
        if not whole or not len(sent) or not len(got) or got[-1] > sent[-1]:
            continue
        before = np.append(0, got[:-1])
        low, high = np.searchsorted(sent, before, side="right"), np.searchsorted(sent, got)
        count = np.where(got > before, high - low + 1, 0)
        read = np.repeat(np.arange(len(got)), count)
        write = np.arange(len(read)) - np.repeat(np.cumsum(count) - count, count) + low[read]
        gives, takes = ((of_who[of["who"].to_numpy()[at]], at) for of, at in zip(ways, (write, read), strict=True))
        given, taken = ways[0]["first_ns"].to_numpy()[gives[1]], ways[1]["last_ns"].to_numpy()[takes[1]]
        found += zip(gives[0].tolist(), given.tolist(), takes[0].tolist(), taken.tolist(), strict=True)
    return edges_of(edge for edge in found if edge[0] != edge[2])
