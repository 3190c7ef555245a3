"""From events to the edge table: who moved which bytes of which file, in which direction, when.

    partition of events --chunk (chunks.py)--> Partial --combine (a tree)--> Partial --> EdgeTable

A `Partial` holds long integer tables; its size is bounded by the numbers of actors, files and caps, not by events:

    who      an actor: (workflow, stage, task, host, pid); "" stands for "not set"
    files    an identity and its type; paths are aliases of it, kept with the times they were seen
    spells   (who, file, direction, spell): what the actor moved between two pauses; first, last, bytes, calls, ...
    extents  (spell, start, end): which bytes of the file, as a union; `times` likewise: when, in ns since the epoch
    busy     (who, kind, start, end): when the actor was inside calls of a kind (`KINDS`)
    counts   (who, kind): calls and bytes, with the ones that could not be put on a file
    facts    (who, file, what): create, unlink, rename, link, missed (a .pyc that was not there); first and last time
    kin      (who, what, pid, ns): fork, when the call began; wait, when it returned, for the child `pid`

What always holds: a byte is counted once, at the lowest layer that saw it (`UPPER_LAYERS` is left out); failed calls
make no edge; one and the same `fold` makes chunks and combines them, so the result depends on the partitioning only
where a cap coarsens. Caps close the smallest gaps first: a coarse spell or extent covers too much, never too little,
and says so.

Why spells: a version of a file (versions.py) begins in a pause of its readers and writers, so the edge table must know
the pauses to put each read on the version it saw; 16 a key are enough for that and don't grow with the events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tailrace.analyzer import grouping
from tailrace.analyzer import intervals as iv
from tailrace.analyzer.intervals import Bools, Intervals, Ints

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

READ, WRITE, META, STREAM, WAIT = 0, 1, 2, 3, 4
KINDS = ("read", "write", "metadata", "stream", "wait")
"""What a call's time counts as; calls on pipes and sockets wait for the other end, `wait` is for a child: no I/O."""

UPPER_LAYERS = frozenset({"MPIIO", "MPI", "HDF5", "NETCDF", "PNETCDF", "ADIOS", "ADIOS2"})
"""Categories whose calls are seen again below: their bytes would be counted twice."""
STREAM_TYPES = frozenset({"fifo", "sock", "anon"})

WHO = ["workflow", "stage", "task", "host", "pid"]
SPELL_KEY = ["who", "file", "dir"]
SPELL_SUMS = ["bytes", "calls", "loose_bytes", "mapped_bytes"]


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
    kin: pd.DataFrame


EdgeTable = Partial
"""A Partial that covers the whole run."""


# --- folding and combining -------------------------------------------------------------------------------------------


def fold(part: Partial) -> Partial:
    """Unites what belongs together in `part` and applies the caps; `part` may hold many rows for one key."""
    spells, number, order = _fold_spells(part.spells)
    extents, coarse = iv.cap(iv.union(_regroup(iv.reordered(part.extents, order), number)), MAX_EXTENTS)
    times, _ = iv.cap(iv.union(_regroup(iv.reordered(part.times, order), number)), MAX_TIMES)
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
        kin=part.kin,
    )


def _regroup(rows: Intervals, code: Ints) -> Intervals:
    return rows._replace(group=code[rows.group])


def _fold_spells(rows: pd.DataFrame) -> tuple[pd.DataFrame, Ints, Ints]:
    """The spells, for each row of `rows` the position of its spell, and the order of `rows` by these positions.

    Rows of a key join unless a pause lies between them or a truncation begins the second; if there are more than
    `MAX_SPELLS`, the shortest pauses are closed first, truncations last.
    """
    if len(rows) == 0:
        return rows.assign(exact=np.ones(0, dtype=np.bool_)), *(np.empty(0, dtype=np.int64),) * 2
    columns = {name: rows[name].to_numpy() for name in rows}
    key = grouping.pack(*(columns[name] for name in SPELL_KEY))
    order = grouping.order(~columns["fresh"], columns["first_ns"], key)
    columns = {name: values[order] for name, values in columns.items()}
    key, fresh = key[order], columns["fresh"]
    begins = iv.first_of_group(key)
    pause = np.zeros(len(rows), dtype=np.int64)
    pause[1:] = columns["first_ns"][1:] - iv.running_end(key, columns["last_ns"])[:-1]
    pause[fresh] = np.iinfo(np.int64).max - 1
    pause[begins] = np.iinfo(np.int64).max
    begins |= pause > MIN_PAUSE_NS
    candidates = np.flatnonzero(begins)
    begins[candidates] = _longest(key[candidates], pause[candidates])
    at = np.flatnonzero(begins)
    exact = columns.get("exact", np.ones(len(rows), dtype=np.bool_))
    out = {name: columns[name][at] for name in (*SPELL_KEY, "first_ns", "fresh")}
    out["last_ns"] = np.maximum.reduceat(columns["last_ns"], at)
    out.update({name: np.add.reduceat(columns[name], at) for name in SPELL_SUMS})
    out["exact"] = np.logical_and.reduceat(exact, at)
    number = np.empty(len(rows), dtype=np.int64)
    number[order] = np.cumsum(begins) - 1
    return grouping.frame(out), number, order


def _longest(key: Ints, pause: Ints) -> Bools:
    """For the rows that begin a spell, sorted by key: whether it is among the `MAX_SPELLS` with the longest pauses."""
    sizes = np.diff(np.append(np.flatnonzero(iv.first_of_group(key)), len(key)))
    many = np.flatnonzero(np.repeat(sizes > MAX_SPELLS, sizes))
    kept = np.ones(len(key), dtype=np.bool_)
    kept[many] = iv.rank_in_group(key[many], pause[many]) < MAX_SPELLS
    return kept


def combine(parts: Sequence[Partial]) -> Partial:
    """One Partial for all of `parts`: codes are made common, then everything is folded."""
    who_codes, who = codes(pd.concat([p.who for p in parts], ignore_index=True))
    all_files = pd.concat([p.files for p in parts], ignore_index=True)
    file_codes, names = pd.factorize(all_files["file"])
    ftype = all_files["ftype"].to_numpy()[grouping.firsts(file_codes, len(names))]
    aliases, spells, counts, facts, kin = [], [], [], [], []
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
        kin.append(p.kin.assign(who=w[p.kin["who"].to_numpy()]))
        extents.append(p.extents._replace(group=p.extents.group + spell_at))
        times.append(p.times._replace(group=p.times.group + spell_at))
        kinds = len(KINDS)
        busy.append(p.busy._replace(group=w[p.busy.group // kinds] * kinds + p.busy.group % kinds))
        who_at, file_at, spell_at = who_at + len(p.who), file_at + len(p.files), spell_at + len(p.spells)
    return fold(
        Partial(
            who=who,
            files=grouping.frame({"file": np.asarray(names, dtype=object), "ftype": ftype}),
            aliases=sum_aliases(pd.concat(aliases, ignore_index=True)),
            spells=pd.concat(spells, ignore_index=True),
            extents=iv.concat(extents),
            times=iv.concat(times),
            busy=iv.concat(busy),
            counts=sum_counts(pd.concat(counts, ignore_index=True)),
            facts=sum_facts(pd.concat(facts, ignore_index=True)),
            kin=pd.concat(kin, ignore_index=True),
        )
    )


def codes(frame: pd.DataFrame) -> tuple[Ints, pd.DataFrame]:
    """Dense codes of the distinct rows, and the distinct rows in the order of their codes."""
    if len(frame) == 0:
        return np.empty(0, dtype=np.int64), frame
    code, first = grouping.numbered(grouping.pack(*(frame[name].to_numpy() for name in frame)))
    return code, frame.iloc[first].reset_index(drop=True)


def summed(rows: pd.DataFrame, key: Sequence[str], hows: Mapping[str, np.ufunc]) -> pd.DataFrame:
    """One row for each distinct `key`, its other columns reduced as `hows` says."""
    if len(rows) == 0:
        none: pd.DataFrame = rows[[*key, *hows]]
        return none
    groups = grouping.groups(grouping.pack(*(rows[name].to_numpy() for name in key)))
    made = {name: groups.first(rows[name].to_numpy()) for name in key}
    made.update({name: groups.reduce(how, rows[name].to_numpy()) for name, how in hows.items()})
    return grouping.frame(made)


SPAN = {"first_ns": np.minimum, "last_ns": np.maximum}
COUNT_SUMS = ("calls", "failed", "read_bytes", "written_bytes", "unnamed_bytes")


def sum_counts(rows: pd.DataFrame) -> pd.DataFrame:
    return summed(rows, ["who", "kind"], {**dict.fromkeys(COUNT_SUMS, np.add), **SPAN})


def sum_facts(rows: pd.DataFrame) -> pd.DataFrame:
    return summed(rows, ["who", "file", "what", "path", "path2"], SPAN)


def sum_aliases(rows: pd.DataFrame) -> pd.DataFrame:
    return summed(rows, ["file", "path"], SPAN)


# --- the table as a person reads it ----------------------------------------------------------------------------------


def frame(table: EdgeTable) -> pd.DataFrame:
    """One row an edge (workflow, stage, task, host, pid, file, direction): the documented edge table.

    Columns: `WHO`; file (identity), path (last name), direction ("r" or "w"), bytes, calls, first_ns, last_ns (int64,
    ns since the epoch), io_ns (union of the calls' intervals), extents (list of [start, end), united), loose_bytes
    (moved at an unknown offset), mapped_bytes (mapped, not counted in bytes), exact (False: extents cover too much).
    """
    spells = table.spells
    key, edges = codes(spells[SPELL_KEY])
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
