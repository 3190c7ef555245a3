"""The edge table: which actor moved which bytes of which file, in which direction, and when.

    partition of events --event_fold.py--> Partial --combine (a tree)--> Partial --> EdgeTable

A `Partial` holds long integer tables; its size is bounded by the numbers of actors, files and caps, not by events:

    who      an actor: (workflow, stage, task, host, pid, start); "" is "not set"
    files    an identity and its type; `aliases`: its paths, with the times at which they occurred
    bursts   (who, file, direction, burst): an access burst, between two pauses; first, last, `BURST_SUMS`,
             `BURST_ORDER`
    extents  (burst, start, end): which bytes of the file, as a union; `times` likewise: when, in ns since the epoch
    thread_calls  (row of threads, kind, start, end): when the thread was inside calls of a kind (`KINDS`)
    counts   (who, kind): calls (`CALLS`) and bytes, including those of unknown files; buffered_calls: on the C
             library's streams, of which most stay in the process
    patterns (who, file, direction): `PATTERN_HOWS`: in which order of offsets its calls came, and how they lie to the
             file's blocks
    sizes    (who, file, direction, bits): calls that moved a number of bytes of so many binary digits
    functions  (who, kind, cat, name): calls, failed, bytes, time_ns (sum over the calls), also those of upper layers
    lengths  (kind, cat, name, range): calls of the whole run that moved bytes, by how many each moved, in ranges
             narrower than a hundredth, with the least and the most in each; range -1: not known, of totals
    threads  (who, tid): which threads made calls; first, last, and the kernel's account (`ACCOUNT`)
    facts    (who, file, what): create, new (certainly by this call), nameless (O_TMPFILE), unlink, rename, link, append
             (opened with O_APPEND), each call by itself, missed (a .pyc that did not exist); begin of the first, end of
             the last
    cuts     (who, file, what, start, end): what changed a file's size or took bytes out of it, each call by itself
             (`CUTS`)
    process_events  (who, what, pid, ns): fork, when the call began; wait, when it returned, for the child `pid`

Invariants: a byte is counted once, at the lowest layer that recorded it (`schema.UPPER_LAYERS` is left out). Failed
calls make no edge. The same fold (core/native/bursts.cc) makes partial tables and combines them, so the result depends
on the partitioning only where a cap coarsens. Caps close the smallest gaps first: a coarse burst or extent covers too
much, never too little, and is marked inexact. So is a burst with bytes from before and after a cut of its actor.

Why bursts: a version of a file (versions.py) begins in a pause of its readers and writers, so the edge table needs the
pauses to assign each read to its version. 16 per key are enough for that and don't grow with the number of events.

`patterns`, `sizes`, `functions` and `lengths` take 2 to 10 % of the fold. Rejected: a second pass over the events for
each report, 19 s for the quartiles of ten million, and nothing under totals.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import pandas as pd

from tailrace import _native
from tailrace.analyzer.store.processes import PROCESS
from tailrace.analyzer.util import grouping, intervals
from tailrace.analyzer.util.intervals import Intervals
from tailrace.analyzer.util.tabular import Tabular
from tailrace.analyzer.util.types import Array, Ints, Objects

MAX_BURSTS = 16
"""Bursts kept for one (actor, file, direction)."""
MIN_PAUSE_NS = 10_000
"""Calls closer than this belong to one burst: no other process can wake up, write and wake the reader in 10 us."""
MAX_EXTENTS = 64
"""Byte ranges kept for one burst."""
MAX_TIMES = 64
"""Time intervals kept for one burst; past it `io_ns` is an upper bound."""
MAX_FACTS = 64
"""Calls of one actor that created, opened, removed or named a file in the same way, kept by their times."""
MAX_CUTS = 64
"""Calls of one actor that cut one file, kept by their times."""
MAX_BUSY = 2048
"""Time intervals kept for one actor and kind of call; past it I/O times are upper bounds."""

CALLS = ("read", "write", "metadata", "stream")
"""What a call does, the kinds of `counts`, `functions` and `lengths`. stream: on a pipe or socket; metadata: on a file,
but to read or write it."""
READ, WRITE, META, STREAM = range(len(CALLS))
KINDS = (
    *("read", "write", "metadata", "flush", "lock", "socket"),
    *("sleep", "polling", "pipe", "thread", "signal", "child"),
)
"""What the time in a call is (core/native/accesses.h). lock: of a file, if the call waited for it; polling: until one
of several descriptors is ready, or one that is no pipe and no socket; thread: for a condition, a semaphore or another
thread; child: for a process's end. The first three have the codes of `CALLS`."""
FLUSH, LOCK, SOCKET, SLEEP, POLLING, PIPE, THREAD, SIGNAL, CHILD = range(META + 1, len(KINDS))
FILES = (READ, WRITE, META, FLUSH)
"""I/O time: on files. All others wait for somebody or something."""
STREAMS = (SOCKET, PIPE)
TIMES = {READ: (READ,), WRITE: (WRITE,), META: (META, FLUSH, LOCK), STREAM: STREAMS}
"""The kinds of time of each of `CALLS`."""

STREAM_TYPES = frozenset({"fifo", "sock", "anon"})

WHO = ["workflow", "stage", "task", *PROCESS]
CUTS = ("truncate", "zero", "collapse", "insert", "grow", "some")
"""What a cut does with the bytes from `start` up to `end`: cuts off what lies behind `start`; makes zeros of them;
takes them out, so that what lies behind moves up; puts zeros in, so that it moves down. grow: the file has at least
`end` bytes from then on. some: several cuts, past `MAX_CUTS`, somewhere in there."""
BURST_KEY = ["who", "file", "dir"]
BURST_SUMS = ["bytes", "calls", "loose_bytes", "mapped_bytes"]
BURST_ORDER = {"relayed_bytes": 0, "backward": 0, "from_offset": -1, "to_offset": -1}
"""The other numbers of a burst, with their values for one that moved nothing: bytes that the kernel moved from file to
file (copy_file_range, sendfile); accesses that began before the end of the one before; where the first one began and
the last one ended, -1 where no offset is known."""
PATTERN_SUMS = [
    *("calls", "consecutive", "strided", "backward", "unlocated", "placed", "unaligned", "opens", "seeks", "ahead")
]
"""Calls of an actor on a file in a direction: all; that began where the one before ended; as far from the one before as
that one from its own, and not consecutive; before the end of the one before. unlocated: that moved bytes at an unknown
offset (through an inherited descriptor), or, in a line of totals, in a piece with such a call. placed: that moved bytes
at a known offset of a file whose block is known (st_blksize); unaligned: of these, that touch a block more than as many
bytes at the begin of one, and are not consecutive. opens, seeks: of the file, in rows of direction `META`, and ahead:
bytes of it that the C library read ahead and dropped. The first
call on a file, and the first in a partition of events, are in none of the orders."""
PATTERN_HOWS: dict[str, np.ufunc] = {
    **dict.fromkeys(PATTERN_SUMS, np.add),
    "least_block": np.minimum,
    "most_block": np.maximum,
}
"""How the columns of patterns are combined. least_block, most_block: of the placed calls' file, bytes: where these are
not one number, its calls are not placed by one."""
FUNCTION = ["kind", "cat", "name"]
FUNCTION_SUMS = ["calls", "failed", "bytes", "time_ns"]
ACCOUNT: dict[str, np.ufunc] = {
    **dict.fromkeys(("life_run_ns", "life_ready_ns"), np.maximum),
    **dict.fromkeys(("span_run_ns", "span_ready_ns", "begun", "ended", "unready"), np.add),
}
"""What the kernel says of a thread, and how its numbers are combined. life: on a processor, and ready, from its begin
to its end, -1 where that is not known; span: the same while it was in a context that it entered and left, `begun` and
`ended` times, `unready` of them without the second number."""
LENGTH_SUMS: dict[str, np.ufunc] = {"calls": np.add, "least": np.minimum, "most": np.maximum}


@dataclass(frozen=True, repr=False)
class Partial(Tabular):
    """The tables of the module's docstring; codes are positions in `who` and `files`, bursts in `bursts`."""

    title: ClassVar[str] = "EdgeTable"
    who: pd.DataFrame
    files: pd.DataFrame
    aliases: pd.DataFrame
    bursts: pd.DataFrame
    extents: Intervals
    times: Intervals
    thread_calls: Intervals
    counts: pd.DataFrame
    patterns: pd.DataFrame
    sizes: pd.DataFrame
    functions: pd.DataFrame
    lengths: pd.DataFrame
    threads: pd.DataFrame
    facts: pd.DataFrame
    cuts: pd.DataFrame
    process_events: pd.DataFrame

    @cached_property
    def busy(self) -> Intervals:
        """When each actor was inside calls of each kind, by `keyed`: the union over its threads."""
        thread, kind = owners_and_kinds(self.thread_calls)
        rows = self.thread_calls._replace(group=keyed(self.threads["who"].to_numpy(dtype=np.int64)[thread], kind))
        alone = bool((np.diff(self.threads["who"].to_numpy()) > 0).all())
        return rows if alone else intervals.union(rows)


EdgeTable = Partial
"""A Partial that covers the whole run."""


# --- time in calls ---------------------------------------------------------------------------------------------------


def keyed(owner: Ints, kind: Ints | int) -> Ints:
    """The groups of intervals that say when an owner (an actor, a task, a thread) was inside calls of a kind."""
    return owner * len(KINDS) + kind


def owners_and_kinds(busy: Intervals) -> tuple[Ints, Ints]:
    """The owner and the kind of each row, of which `keyed` made the group."""
    return busy.group // len(KINDS), busy.group % len(KINDS)


def spent(busy: Intervals, kinds: Collection[int] | None = None, of: Ints | None = None) -> Intervals:
    """When each owner was inside calls of these kinds (None: of any), united; by owner, or by of[owner] where that is
    not negative."""
    owner, kind = owners_and_kinds(busy)
    owner = owner if of is None else of[owner]
    keep = owner >= 0 if kinds is None else (owner >= 0) & np.isin(kind, [*kinds])
    return intervals.union(Intervals(owner[keep], *(column[keep] for column in busy[1:])))


def regrouped(busy: Intervals, of: Ints) -> Intervals:
    """When each of[owner] that is not negative was inside calls of each kind, united, by `keyed`."""
    owner, kind = owners_and_kinds(busy)
    keep = of[owner] >= 0
    return intervals.union(Intervals(keyed(of[owner], kind)[keep], *(column[keep] for column in busy[1:])))


def by_kind(busy: Intervals, owners: int) -> Ints:
    """For how long each owner was inside calls of each kind, ns: a row an owner, a column a kind."""
    return intervals.length(busy, owners * len(KINDS)).reshape(owners, len(KINDS))


# --- combining -------------------------------------------------------------------------------------------------------


def limits() -> tuple[int, int, int, int]:
    """The limits of the native fold."""
    return MIN_PAUSE_NS, MAX_BURSTS, MAX_EXTENTS, MAX_TIMES


Edges = tuple[pd.DataFrame, Intervals, Intervals]
"""bursts, extents, times."""
_Arrays = tuple[Ints, Ints, Ints, Ints]


def edges_of(found: tuple[Mapping[str, Array], _Arrays, _Arrays]) -> Edges:
    """The tables of edges from the result of the native fold."""
    bursts, extents, times = found
    return grouping.frame(bursts), Intervals(*extents), Intervals(*times)


def combine(parts: Sequence[Partial]) -> Partial:
    """One Partial for all of `parts`: codes are made common, then rows of equal key are united and capped."""
    who_codes, who = codes(pd.concat([p.who for p in parts], ignore_index=True))
    all_files = pd.concat([p.files for p in parts], ignore_index=True)
    file_codes, names = pd.factorize(all_files["file"])
    ftype = _types(file_codes, all_files["ftype"].to_numpy(), len(names))
    aliases, edges, counts, facts, cuts, process_events = [], [], [], [], [], []
    patterns: list[pd.DataFrame] = []
    sizes: list[pd.DataFrame] = []
    functions, threads = [], []
    who_at = file_at = 0
    for p in parts:
        w, f = who_codes[who_at : who_at + len(p.who)], file_codes[file_at : file_at + len(p.files)]
        aliases.append(p.aliases.assign(file=f[p.aliases["file"].to_numpy()]))
        edges.append(({str(name): p.bursts[name].to_numpy() for name in p.bursts}, p.extents, p.times, w, f))
        counts.append(p.counts.assign(who=w[p.counts["who"].to_numpy()]))
        for mine, theirs in ((p.patterns, patterns), (p.sizes, sizes)):
            theirs.append(mine.assign(who=w[mine["who"].to_numpy()], file=f[mine["file"].to_numpy()]))
        functions.append(p.functions.assign(who=w[p.functions["who"].to_numpy()]))
        threads.append(p.threads.assign(who=w[p.threads["who"].to_numpy()]))
        facts.append(
            p.facts.assign(who=w[p.facts["who"].to_numpy()], file=np.append(f, -1)[p.facts["file"].to_numpy()])
        )
        cuts.append(p.cuts.assign(who=w[p.cuts["who"].to_numpy()], file=f[p.cuts["file"].to_numpy()]))
        process_events.append(p.process_events.assign(who=w[p.process_events["who"].to_numpy()]))
        who_at, file_at = who_at + len(p.who), file_at + len(p.files)
    bursts, extents, times = edges_of(_native.fold_bursts(edges, len(who), limits()))
    return Partial(
        who=who,
        files=grouping.frame({"file": np.asarray(names, dtype=object), "ftype": ftype}),
        aliases=sum_aliases(pd.concat(aliases, ignore_index=True)),
        bursts=bursts,
        extents=extents,
        times=times,
        thread_calls=intervals.cap(_recoded(parts, threads), MAX_BUSY)[0],
        counts=sum_counts(pd.concat(counts, ignore_index=True)),
        patterns=summed(pd.concat(patterns, ignore_index=True), BURST_KEY, PATTERN_HOWS),
        sizes=summed(pd.concat(sizes, ignore_index=True), [*BURST_KEY, "bits"], {"calls": np.add}),
        functions=summed(
            pd.concat(functions, ignore_index=True), ["who", *FUNCTION], dict.fromkeys(FUNCTION_SUMS, np.add)
        ),
        lengths=summed(pd.concat([p.lengths for p in parts], ignore_index=True), [*FUNCTION, "range"], LENGTH_SUMS),
        threads=sum_threads(pd.concat(threads, ignore_index=True)),
        facts=sum_facts(pd.concat(facts, ignore_index=True)),
        cuts=sum_cuts(pd.concat(cuts, ignore_index=True)),
        process_events=pd.concat(process_events, ignore_index=True),
    )


def _recoded(parts: Sequence[Partial], threads: Sequence[pd.DataFrame]) -> list[Intervals]:
    """The parts' `thread_calls` by the rows of the threads of all of them, as `sum_threads` gives these."""
    key = grouping.pack(*(np.concatenate([own[name].to_numpy() for own in threads]) for name in THREAD_KEY))
    code = grouping.groups(key).numbers()
    out, at = [], 0
    for part, own in zip(parts, threads, strict=True):
        thread, kind = owners_and_kinds(part.thread_calls)
        out.append(part.thread_calls._replace(group=keyed(code[at + thread], kind)))
        at += len(own)
    return out


def _types(code: Ints, ftype: Objects, files: int) -> Objects:
    """The type of each file: what is said of it. `reg` also stands for a file that a part has as a second one only."""
    known, kinds = pd.factorize(ftype)
    rank = np.argsort(sorted(range(len(kinds)), key=lambda i: (kinds[i] == "", kinds[i] == "reg", kinds[i])))
    found = np.full(files, len(kinds), dtype=np.int64)
    np.minimum.at(found, code, rank[known])
    return kinds[np.argsort(rank)][found]


Actor = tuple[str, str, str, str, int, str]
"""workflow, stage, task, host, pid, start, as in `WHO`; "" where not set."""


def actors(events: pd.DataFrame) -> list[Actor]:
    """The actor of each event: its values of the columns `WHO`, "" for null."""
    columns = (
        events[name].tolist() if name == "pid" else events[name].astype(object).where(events[name].notna(), "").tolist()
        for name in WHO
    )
    return list(zip(*columns, strict=True))


def codes(frame: pd.DataFrame) -> tuple[Ints, pd.DataFrame]:
    """Dense codes of the distinct rows, and the distinct rows in the order of their codes."""
    if len(frame) == 0:
        return np.empty(0, dtype=np.int64), frame
    code, first = grouping.numbered(grouping.pack(*(frame[name].to_numpy() for name in frame)))
    return code, frame.iloc[first].reset_index(drop=True)


def summed(rows: pd.DataFrame, key: Sequence[str], hows: Mapping[str, np.ufunc]) -> pd.DataFrame:
    """One row for each distinct `key`, its other columns reduced as `hows` says."""
    if len(rows) == 0:
        return rows[[*key, *hows]]
    groups = grouping.groups(grouping.pack(*(rows[name].to_numpy() for name in key)))
    made = {name: groups.first(rows[name].to_numpy()) for name in key}
    made.update({name: groups.reduce(how, rows[name].to_numpy()) for name, how in hows.items()})
    return grouping.frame(made)


THREAD_KEY = ["who", "tid"]


def sum_threads(rows: pd.DataFrame) -> pd.DataFrame:
    """One row for each (who, tid): first and last time, `ACCOUNT`."""
    return summed(rows, THREAD_KEY, {**SPAN, **ACCOUNT})


SPAN = {"first_ns": np.minimum, "last_ns": np.maximum}
COUNT_SUMS = ("calls", "failed", "read_bytes", "written_bytes", "unnamed_bytes", "buffered_calls")


def sum_counts(rows: pd.DataFrame) -> pd.DataFrame:
    """One row for each (who, kind): calls and bytes summed, first and last time."""
    return summed(rows, ["who", "kind"], {**dict.fromkeys(COUNT_SUMS, np.add), **SPAN})


FACT = ["who", "file", "what", "path", "path2"]


def sum_facts(rows: pd.DataFrame) -> pd.DataFrame:
    """One row for each (who, file, what, path, path2) and begin, the last of `MAX_FACTS` for all later ones; one in all
    for missed files. first_ns: begin of the first call; last_ns: end of the last."""
    once = (rows["what"] == "missed").to_numpy(dtype=np.bool_)
    each = summed(rows.assign(at=np.where(once, 0, rows["first_ns"])), [*FACT, "at"], SPAN)
    key = grouping.pack(*(each[name].to_numpy() for name in FACT))
    by_key = grouping.order(each["at"].to_numpy(), key)
    heads = np.flatnonzero(grouping.first_of_run(key[by_key])) if len(each) else np.empty(0, dtype=np.int64)
    place = np.empty(len(each), dtype=np.int64)
    place[by_key] = np.arange(len(each)) - np.repeat(heads, np.diff(np.append(heads, len(each))))
    result: pd.DataFrame = each.drop(columns="at")
    if (place >= MAX_FACTS).any():
        capped = summed(result.assign(at=np.minimum(place, MAX_FACTS - 1)), [*FACT, "at"], SPAN)
        result = capped.drop(columns="at")
    return result


END = 1 << 62
"""Past every file."""
CUT = ["who", "file", "what", "start", "end", "first_ns", "last_ns"]


def sum_cuts(rows: pd.DataFrame) -> pd.DataFrame:
    """The cuts (columns `CUT`), each once; the last of `MAX_CUTS` of an actor and file for all later ones, and
    likewise of growths, of which there are many in some programs."""
    each = summed(rows, CUT, {})
    grows = (each["what"] == "grow").to_numpy(dtype=np.bool_)
    key = grouping.pack(2 * each["who"].to_numpy() + grows, each["file"].to_numpy())
    by_key = grouping.order(each["last_ns"].to_numpy(), key)
    heads = np.flatnonzero(grouping.first_of_run(key[by_key])) if len(each) else np.empty(0, dtype=np.int64)
    counts = np.diff(np.append(heads, len(each)))
    place, count = np.empty((2, len(each)), dtype=np.int64)
    place[by_key] = np.arange(len(each)) - np.repeat(heads, counts)
    count[by_key] = np.repeat(counts, counts)
    late = (count > MAX_CUTS) & ((place >= MAX_CUTS - 1) | (each["what"] == "some").to_numpy(dtype=np.bool_))
    # What lies behind is moved, too.
    to_end = np.where(each["what"].isin(("collapse", "insert")), END, each["end"])
    several = each.assign(what=np.where(grows, "grow", "some"), end=to_end)[late]
    hows = {"start": np.minimum, "end": np.maximum, **SPAN}
    summary = summed(several, ["who", "file", "what"], hows)[CUT]
    return pd.concat([each[~late], summary], ignore_index=True)


def aliases_of(rows: list[tuple[int, str, int, int]]) -> pd.DataFrame:
    """Rows for `EdgeTable.aliases`: file, path, first_ns, last_ns."""
    numbers = dict.fromkeys(("file", "first_ns", "last_ns"), np.int64)
    # Of no rows all columns would be objects.
    return pd.DataFrame(rows, columns=["file", "path", "first_ns", "last_ns"]).astype(numbers)


def sum_aliases(rows: pd.DataFrame) -> pd.DataFrame:
    """One row for each (file, path): first and last time."""
    return summed(rows, ["file", "path"], SPAN)


# --- the table for people -------------------------------------------------------------------------------------------


def frame(table: EdgeTable) -> pd.DataFrame:
    """One row per edge (workflow, stage, task, host, pid, start, file, direction): the documented edge table.

    Columns: `WHO`; file (identity), path (last name), direction ("r" or "w"), bytes, calls, first_ns, last_ns (int64,
    ns since the epoch), io_ns (union of the calls' intervals), extents (list of [start, end), united), loose_bytes
    (moved at an unknown offset), mapped_bytes (mapped, not counted in bytes), exact (False: extents cover too much, or
    lack bytes at unknown offsets).
    """
    bursts = table.bursts
    key, edges = codes(bursts[BURST_KEY])
    sums = bursts.groupby(key)[BURST_SUMS].sum()
    out: pd.DataFrame = table.who.iloc[edges["who"]].reset_index(drop=True)
    out["file"] = table.files["file"].to_numpy()[edges["file"]]
    out["path"] = last_paths(table)[edges["file"]]
    out["direction"] = np.where(edges["dir"] == READ, "r", "w")
    out = out.join(sums)
    out["first_ns"] = bursts.groupby(key)["first_ns"].min()
    out["last_ns"] = bursts.groupby(key)["last_ns"].max()
    out["io_ns"] = intervals.length(intervals.union(_regroup(table.times, key)), len(edges))
    extents = intervals.union(_regroup(table.extents, key))
    ranges = np.split(
        np.column_stack((extents.start, extents.end)), np.searchsorted(extents.group, range(1, len(edges)))
    )
    out["extents"] = pd.Series([r.tolist() for r in ranges[: len(edges)]], dtype=object)
    stream = table.files["ftype"].isin(STREAM_TYPES).to_numpy(dtype=np.bool_)[edges["file"]]
    out["exact"] = bursts.groupby(key)["exact"].all() & ((out["loose_bytes"] == 0) | stream)
    return out


def _regroup(rows: Intervals, code: Ints) -> Intervals:
    return rows._replace(group=code[rows.group])


def last_paths(table: EdgeTable) -> Objects:
    """The display path of each file code: its last path, after renames of directories above it."""
    paths = np.full(len(table.files), "", dtype=object)
    seen = np.zeros(len(table.files), dtype=np.int64)
    aliases = table.aliases.sort_values(["last_ns", "path"], kind="stable")
    paths[aliases["file"].to_numpy()] = aliases["path"].to_numpy()
    seen[aliases["file"].to_numpy()] = aliases["last_ns"].to_numpy()
    directories = table.files["ftype"].to_numpy() == "dir"
    facts = table.facts[table.facts["what"] == "rename"]
    if facts.empty:
        return paths
    facts = facts[directories[facts["file"].to_numpy()]].sort_values("last_ns", kind="stable")
    for fact in facts.itertuples():
        inside = fact.path.rstrip("/") + "/"
        for code in np.flatnonzero(seen < fact.last_ns):
            if paths[code].startswith(inside):
                paths[code] = fact.path2.rstrip("/") + "/" + paths[code][len(inside) :]
    return paths
