"""What the I/O of a run is like: sizes, order, ranges used again, metadata calls, balance; by stage, program, task,
rank, host or file.

    edge table (patterns, sizes, functions, bursts, extents) -> by group and direction -> Accesses

Reads no events, so it is the same under `--detail totals`. Files of data alone count, but for metadata calls, which are
the group's on all files.

Alignment is to the block of the file: what its file system prefers to move at a time (st_blksize, stat(2)). A call is
*unaligned* where it touches a block more than as many bytes would at the begin of one, and does not go on where the one
before ended. Where no block is known (other tracers, older traces) nothing is said.

The orders of calls are those of access_order.py. Under totals strided ones are known only in pieces of a line in which
all calls go forward (docs/trace-format.md, "Totals").

Balance: the largest over the mean, and Gini's coefficient (0: all alike, 1: one has it all), over the group's tasks, or
its ranks where it has several. Stragglers are two sets: of the modified z-score by median and median absolute deviation
(Iglewicz and Hoaglin 1993), and of the box plot (Tukey 1977: beyond the third quartile by 1.5 quartile ranges), as
DXT's paper marks ranks (Xu et al. 2017).

The block is what statx says for the file's identity anyway. Rejected: statfs of each mount, which may wait for a dead
server; options of mounts, which st_blksize follows; the xattr of Lustre's layout, a call for each open file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table, file_classes
from tailrace.analyzer.insights import access_order
from tailrace.analyzer.insights.inputs import Inputs
from tailrace.analyzer.insights.views import access_document
from tailrace.analyzer.model import stages
from tailrace.analyzer.model.collectives import Collectives
from tailrace.analyzer.store.processes import PROCESS
from tailrace.analyzer.util import grouping, intervals
from tailrace.analyzer.util.document import Document, Shown
from tailrace.analyzer.util.types import Bools, Floats, Ints, Objects
from tailrace.errors import QueryError

BY = ("stage", "program", "task", "rank", "host", "file")
"""What accesses are summed by."""
FAR = 3.5
"""Of the modified z-score, from which on a value is an outlier."""
_MAD_TO_SIGMA = 0.6745
WHISKER = 1.5
LEAST_MEMBERS = 5
"""Fewer tasks or ranks have no outliers."""
OPENS = frozenset({"open", "openat", "openat2", "creat", "fopen", "freopen", "fdopen", "open64", "openat64", "fopen64"})
FLUSHES = frozenset({"fsync", "fdatasync", "sync", "syncfs", "sync_file_range", "msync"})
STREAM_FLUSHES = frozenset({"fflush", "fflush_unlocked"})
"""To the kernel, not to the disk."""


@dataclass(frozen=True, repr=False)
class Accesses(Shown):
    """Rows by group.

    data: a row for each group and direction (read, write): group, direction, files, calls, bytes, mean_bytes, sizes
        (dict: binary digits of the size -> calls), consecutive, sequential, strided, random (calls; the rest are first
        calls and those of unknown order), unlocated (calls at unknown offsets), backward (of the strided and random
        ones, those to a smaller offset), pattern (the order of most calls), again_bytes (moved more than once by one
        task), shared_bytes (of ranges that another task of the group used before), time_ns (in which a call was
        running), gap_ns (mean time between two calls of a burst), placed, unaligned (calls at a known offset of a file
        with a known block; of these, that touch one more than they need), blocks (dict: bytes of a block -> [placed,
        unaligned]).
    metadata: a row for each group: group, calls, data_calls, files, time_ns, span_ns (from its first call to its last),
        opens, unused_opens (of a file of which the process moved nothing), seeks, useless_seeks (at least; more than
        accesses that go elsewhere), flushes, flush_ns, ahead_bytes (that streams of the C library read ahead and
        dropped).
    balance: a row for each group with several members: group, members, of (task or rank), figure (bytes or time_ns),
        largest_over_mean, gini, stragglers and beyond_box (names).
    """

    by: str
    data: pd.DataFrame
    metadata: pd.DataFrame
    balance: pd.DataFrame

    def document(self, collectives: Collectives | None = None) -> Document:
        """What is shown of it; collectives: where the groups are ranks."""
        return access_document(self, collectives)

    def to_json(self) -> dict[str, Any]:
        """The tables as lists of plain rows."""
        return {"by": self.by, **{name: plain_rows(getattr(self, name)) for name in ("data", "metadata", "balance")}}


def accesses(inputs: Inputs, by: str = "stage", actors: Bools | None = None) -> Accesses:
    """The accesses of a run by `BY`.

    Args:
        inputs: with the table `ranks` where `by` is "rank".
        by: what they are summed by.
        actors: only those of these actors (positions in `Inputs.m.who`).

    Raises:
        QueryError: there is no such `by`.
    """
    if by not in BY:
        raise QueryError(f"accesses are summed by {', '.join(BY)}, not by {by!r}")
    group, names = groups(inputs, by)
    keep = np.ones(len(group), dtype=np.bool_) if actors is None else actors
    data = _data(inputs, group, names, keep, by == "file")
    if by == "file":
        return Accesses(by, data, _opens(inputs, names, keep), pd.DataFrame())
    group = np.where(keep, group, -1)
    return Accesses(by, data, _metadata(inputs, group, names), _balance(inputs, group, names, by))


def plain_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table, JSON-ready."""
    rows = table.to_dict("records")
    return [{str(key): one.item() if isinstance(one, np.generic) else one for key, one in row.items()} for row in rows]


def ranks_of(inputs: Inputs) -> Objects:
    """The rank of each actor, "" for none."""
    table = inputs.tables.get("ranks")
    if table is None or not len(table):
        return np.full(len(inputs.m.who), "", dtype=object)
    known = dict(zip(table[PROCESS].itertuples(index=False, name=None), table["rank"], strict=True))
    keys = inputs.m.who[PROCESS].itertuples(index=False, name=None)
    return np.array([str(known.get(key, "")) for key in keys], dtype=object)


def groups(inputs: Inputs, by: str) -> tuple[Ints, Objects]:
    """The group of each actor (of files: of each file), -1 for none, and the groups' names."""
    m = inputs.m
    if by == "file":
        return np.arange(len(m.who), dtype=np.int64), m.paths
    if by == "task":
        return inputs.of_who, np.array([inputs.called(task) for task in range(len(inputs.tasks))], dtype=object)
    if by == "stage":
        return (
            inputs.tasks["stage_code"].to_numpy(dtype=np.int64)[inputs.of_who],
            inputs.stages["stage"].to_numpy(dtype=object),
        )
    if by == "program":
        values = [file_classes.program(str(exe)) or "?" for exe in m.who["exe"]]
    else:
        values = [str(one) for one in (ranks_of(inputs) if by == "rank" else m.who["host"])]
    names = sorted(set(values) - {""}, key=lambda name: (not name.isdigit(), int(name) if name.isdigit() else 0, name))
    code = {name: at for at, name in enumerate(names)}
    group = np.array([code[value] if value else -1 for value in values], dtype=np.int64)
    return group, np.array(names, dtype=object)


# --- reads and writes ------------------------------------------------------------------------------------------------


def _data(inputs: Inputs, group: Ints, names: Objects, keep: Bools, by_file: bool) -> pd.DataFrame:
    m = inputs.m
    data = m.classed(("data",)) & keep[m.bursts["who"].to_numpy()]
    regular = (m.table.files["ftype"] == "reg").to_numpy()
    data &= regular[m.bursts["file"].to_numpy()]
    bursts = m.bursts[data]
    who, file, way = (bursts[name].to_numpy() for name in ("who", "file", "dir"))
    of_burst = _pair(file if by_file else group[who], way)
    moved = of_burst >= 0
    place, keys = _numbered(of_burst[moved])
    count = len(keys)
    out: pd.DataFrame = pd.DataFrame(
        {"group": names[keys // 2], "direction": np.array(edge_table.CALLS[:2], dtype=object)[keys % 2]}
    )
    out["files"] = pd.Series(file[moved]).groupby(place).nunique().to_numpy() if count else 0
    out["calls"], out["bytes"] = (_sums(place, bursts[name].to_numpy()[moved], count) for name in ("calls", "bytes"))
    out["mean_bytes"] = out["bytes"] / np.maximum(out["calls"], 1)
    uses = _of_uses(inputs, bursts, m.table.patterns)
    at = _places(_pair(uses["file"].to_numpy() if by_file else group[uses["who"].to_numpy()], uses["dir"]), keys)
    sums = {name: _sums(at, uses[name].to_numpy(), count) for name in edge_table.PATTERN_SUMS[1:5]}
    firsts = _sums(at, np.ones(len(uses), dtype=np.int64), count)
    sizes = _of_uses(inputs, bursts, m.table.sizes)
    at = _places(_pair(sizes["file"].to_numpy() if by_file else group[sizes["who"].to_numpy()], sizes["dir"]), keys)
    out["sizes"] = pd.Series(_histograms(at, sizes["bits"].to_numpy(), sizes["calls"].to_numpy(), count), dtype=object)
    empty = np.array([row.get(0, 0) for row in out["sizes"]], dtype=np.int64)
    orders, out["pattern"] = access_order.of_calls(out["calls"].to_numpy() - empty - sums["unlocated"], firsts, sums)
    for name, calls in orders.items():
        out[name] = calls
    out["unlocated"] = sums["unlocated"]
    again, shared = _ranges(inputs, data, place, np.flatnonzero(data)[moved], count, bursts[moved])
    out["again_bytes"], out["shared_bytes"] = again, shared
    # A burst without a call is an open that truncated the file, whose time is that of a metadata call.
    called = bursts["calls"].to_numpy()[moved] > 0
    running = np.where(called, place, -1)
    code = np.full(len(m.bursts), -1, dtype=np.int64)
    code[np.flatnonzero(data)[moved]] = running
    times = intervals.regrouped(m.table.times, code)
    out["time_ns"] = intervals.length(intervals.union(times), count)
    busy, span = _sums(times.group, times.weight, count), bursts["last_ns"] - bursts["first_ns"]
    calls = out["calls"].to_numpy() - np.bincount(place[called], minlength=count)
    idle = np.maximum(_sums(running, span.to_numpy()[moved], count) - busy, 0)
    out["gap_ns"] = np.where(calls > 0, idle / np.maximum(calls, 1), 0).astype(np.int64)
    uses = uses[(uses["placed"] > 0) & (uses["least_block"] == uses["most_block"])]
    at = _places(_pair(uses["file"].to_numpy() if by_file else group[uses["who"].to_numpy()], uses["dir"]), keys)
    out["blocks"] = pd.Series(_blocks(at, uses, count), dtype=object)
    for place_of, name in enumerate(("placed", "unaligned")):
        out[name] = [sum(pair[place_of] for pair in row.values()) for row in out["blocks"]]
    return out.sort_values(["bytes", "calls"], ascending=False, kind="stable", ignore_index=True)


def _blocks(group: Ints, uses: pd.DataFrame, count: int) -> list[dict[int, list[int]]]:
    """By group: bytes of a block -> placed and unaligned calls."""
    found: list[dict[int, list[int]]] = [{} for _ in range(count)]
    sums = uses.assign(group=group).groupby(["group", "most_block"])[["placed", "unaligned"]].sum().reset_index()
    for place, block, placed, unaligned in sums.itertuples(index=False):
        if place >= 0:
            found[int(place)][int(block)] = [int(placed), int(unaligned)]
    return found


def _ranges(
    inputs: Inputs, data: Bools, place: Ints, rows: Ints, count: int, bursts: pd.DataFrame
) -> tuple[Ints, Ints]:
    """By group: bytes that one task moved more than once, and bytes of ranges that several tasks used, less one use."""
    m = inputs.m
    task, file = inputs.of_who[bursts["who"].to_numpy()], bursts["file"].to_numpy()
    own, own_first = grouping.numbered(grouping.pack(place, file, task))
    common, common_first = grouping.numbered(grouping.pack(place, file))
    lengths = []
    for code, first in ((own, own_first), (common, common_first)):
        of_burst = np.full(len(m.bursts), -1, dtype=np.int64)
        of_burst[rows] = code
        covered = intervals.length(intervals.union(intervals.regrouped(m.table.extents, of_burst)), len(first))
        lengths.append(_sums(place[first], covered, count))
    known = bursts["bytes"].to_numpy() - bursts["loose_bytes"].to_numpy() + bursts["mapped_bytes"].to_numpy()
    moved = _sums(place, known, count)
    return np.maximum(moved - lengths[0], 0), np.maximum(lengths[0] - lengths[1], 0)


def _of_uses(inputs: Inputs, bursts: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows by actor, file and direction that have a burst of these."""
    if not len(rows) or not len(bursts):
        return rows.iloc[:0]
    keys = [np.concatenate([bursts[name].to_numpy(), rows[name].to_numpy()]) for name in edge_table.BURST_KEY]
    code = grouping.numbered(grouping.pack(*keys))[0]
    known = np.zeros(int(code.max()) + 1, dtype=np.bool_)
    known[code[: len(bursts)]] = True
    return rows[known[code[len(bursts) :]]]


def _pair(group: Ints, way: Any) -> Ints:
    code = np.asarray(group, dtype=np.int64) * 2 + np.asarray(way, dtype=np.int64)
    return np.where(np.asarray(group) >= 0, code, -1)


def _numbered(keys: Ints) -> tuple[Ints, Ints]:
    found, place = np.unique(keys, return_inverse=True)
    return place.astype(np.int64).reshape(-1), found


def _places(keys: Ints, known: Ints) -> Ints:
    """The position of each key in `known`, -1 for none."""
    if not len(known):
        return np.full(len(keys), -1, dtype=np.int64)
    at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.where(known[at] == keys, at, -1)


def _sums(group: Ints, values: Ints, count: int) -> Ints:
    total = np.zeros(count, dtype=np.int64)
    keep = group >= 0
    np.add.at(total, group[keep], values[keep])
    return total


def _histograms(group: Ints, bits: Ints, calls: Ints, count: int) -> list[dict[int, int]]:
    found: list[dict[int, int]] = [{} for _ in range(count)]
    table = pd.DataFrame({"group": group, "bits": bits, "calls": calls})
    table = table[table["group"] >= 0].groupby(["group", "bits"], as_index=False)["calls"].sum()
    for at, size, number in table.itertuples(index=False, name=None):
        found[int(at)][int(size)] = int(number)
    return found


# --- calls that move nothing -----------------------------------------------------------------------------------------


def function_sums(inputs: Inputs, group: Ints, count: int, names: frozenset[str], column: str = "calls") -> Ints:
    """The sum of a column of the table of functions by group (of each actor, -1: none), of functions of these names."""
    rows = inputs.m.table.functions
    rows = rows[rows["name"].isin(names)]
    return _sums(group[rows["who"].to_numpy()], rows[column].to_numpy(), count)


def unused_opens(inputs: Inputs) -> pd.DataFrame:
    """who, file, opens: opens of files of data of which the process moved nothing."""
    m = inputs.m
    rows = m.table.patterns
    rows = rows[rows["opens"] > 0]
    used = (m.bursts["bytes"] + m.bursts["mapped_bytes"]).to_numpy() > 0
    pairs = m.bursts[used]
    code = grouping.numbered(grouping.pack(*(np.concatenate([pairs[name], rows[name]]) for name in ("who", "file"))))[0]
    known = np.zeros(int(code.max(initial=0)) + 1, dtype=np.bool_)
    known[code[: len(pairs)]] = True
    unused = rows[~known[code[len(pairs) :]]]
    # A file that nobody used has no class: a created lock counts, a library that was looked at does not.
    data = m.class_of_file[unused["file"].to_numpy()] == file_classes.CLASSES.index("data")
    return unused.loc[data, ["who", "file", "opens"]]


def _metadata(inputs: Inputs, group: Ints, names: Objects) -> pd.DataFrame:
    m, count = inputs.m, len(names)
    counts = m.table.counts
    of_row, kind = group[counts["who"].to_numpy()], counts["kind"].to_numpy()
    out: pd.DataFrame = pd.DataFrame({"group": names})
    calls = counts["calls"].to_numpy()
    out["calls"] = _sums(np.where(kind == edge_table.META, of_row, -1), calls, count)
    out["data_calls"] = _sums(np.where(kind <= edge_table.WRITE, of_row, -1), calls, count)
    pairs = m.bursts[["who", "file"]].drop_duplicates()
    of_pair = group[pairs["who"].to_numpy()]
    distinct = pd.DataFrame({"group": of_pair, "file": pairs["file"].to_numpy()})[of_pair >= 0].drop_duplicates()
    out["files"] = np.bincount(distinct["group"].to_numpy(dtype=np.int64), minlength=count)
    out["time_ns"] = stages.covered(m, group, stages.NAMES, count)
    first, last = np.full(count, np.iinfo(np.int64).max), np.zeros(count, dtype=np.int64)
    mine = of_row >= 0
    np.minimum.at(first, of_row[mine], counts["first_ns"].to_numpy()[mine])
    np.maximum.at(last, of_row[mine], counts["last_ns"].to_numpy()[mine])
    out["span_ns"] = np.where(last > 0, last - first, 0)
    out["opens"] = function_sums(inputs, group, count, OPENS)
    unused = unused_opens(inputs)
    out["unused_opens"] = _sums(group[unused["who"].to_numpy()], unused["opens"].to_numpy(), count)
    sought = m.table.patterns
    out["seeks"] = _sums(group[sought["who"].to_numpy()], sought["seeks"].to_numpy(), count)
    out["ahead_bytes"] = _sums(group[sought["who"].to_numpy()], sought["ahead"].to_numpy(), count)
    out["useless_seeks"] = _sums(group, useless_seeks(inputs), count)
    out["flushes"] = function_sums(inputs, group, count, FLUSHES)
    out["flush_ns"] = function_sums(inputs, group, count, FLUSHES, "time_ns")
    kept = out[(out["calls"] + out["data_calls"] > 0).to_numpy() & np.isin(np.arange(count), group)]
    return kept.sort_values("calls", ascending=False, kind="stable", ignore_index=True)


def useless_seeks(inputs: Inputs) -> Ints:
    """By actor: its seeks in each file beyond one for each access that goes elsewhere, and one for each time that it
    opened it. At least so many changed nothing, or only asked for the place."""
    m, rows = inputs.m, inputs.m.table.patterns
    key, first = grouping.numbered(grouping.pack(rows["who"].to_numpy(), rows["file"].to_numpy()))
    columns = {
        name: _sums(key, rows[name].to_numpy(), len(first)) for name in ("calls", "consecutive", "opens", "seeks")
    }
    needed = columns["calls"] - columns["consecutive"] + np.maximum(columns["opens"], 1)
    beyond = np.maximum(columns["seeks"] - needed, 0)
    return _sums(rows["who"].to_numpy()[first], beyond, len(m.who))


def _opens(inputs: Inputs, names: Objects, keep: Bools) -> pd.DataFrame:
    """Of files of data: how often each was opened, opened without that the process moved anything, and sought in; bytes
    of it that streams read ahead and dropped."""
    data = inputs.m.bursts["file"].to_numpy()[inputs.m.classed(("data",))]
    rows = inputs.m.table.patterns
    rows = rows[(rows["dir"] == edge_table.META).to_numpy() & keep[rows["who"].to_numpy()]]
    rows = rows[np.isin(rows["file"].to_numpy(), data)]
    unused = unused_opens(inputs)
    unused = unused[keep[unused["who"].to_numpy()]]
    sums = rows.groupby("file")[["opens", "seeks", "ahead"]].sum()
    out: pd.DataFrame = pd.DataFrame({"group": names[sums.index.to_numpy()], "opens": sums["opens"].to_numpy()})
    out["unused_opens"] = unused.groupby("file")["opens"].sum().reindex(sums.index, fill_value=0).to_numpy()
    out["seeks"] = sums["seeks"].to_numpy()
    out["ahead_bytes"] = sums["ahead"].to_numpy()
    return out.sort_values("opens", ascending=False, kind="stable", ignore_index=True)


# --- balance ---------------------------------------------------------------------------------------------------------


def _balance(inputs: Inputs, group: Ints, names: Objects, by: str) -> pd.DataFrame:
    if by == "task":
        return pd.DataFrame()
    rows = []
    ranks = ranks_of(inputs)
    tasks = np.array([inputs.called(task) for task in range(len(inputs.tasks))], dtype=object)
    figures = member_figures(inputs)
    for at in np.unique(group[group >= 0]):
        mine = group == at
        several = len(set(ranks[mine]) - {""}) > 1 and by != "rank"
        of = "rank" if several else "task"
        mine &= (ranks != "") if several else inputs.works[inputs.of_who]
        member, found = pd.factorize(ranks[mine] if several else inputs.of_who[mine])
        if len(found) < 2:
            continue
        words = [str(one) for one in (found if several else tasks[found])]
        for figure, values in figures.items():
            sums = _sums(member.astype(np.int64), values[mine], len(found))
            if sums.sum() == 0:
                continue
            late, outside = outliers(sums)
            rows.append(
                {
                    "group": str(names[at]),
                    "of": of,
                    "members": len(found),
                    "figure": figure,
                    "largest_over_mean": float(sums.max() / sums.mean()),
                    "gini": gini(sums),
                    "stragglers": [words[i] for i in late],
                    "beyond_box": [words[i] for i in outside],
                }
            )
    return pd.DataFrame(rows)


def member_figures(inputs: Inputs) -> dict[str, Ints]:
    """bytes and time_ns (in reads, writes and metadata calls, summed over kinds) of each actor."""
    m = inputs.m
    who = m.table.counts["who"].to_numpy()
    moved = (m.table.counts["read_bytes"] + m.table.counts["written_bytes"]).to_numpy()
    files = np.where((m.table.counts["kind"] <= edge_table.META).to_numpy(), who, -1)
    busy = m.table.busy
    owner, kind = edge_table.owners_and_kinds(busy)
    times = np.where(np.isin(kind, edge_table.FILES), owner, -1)
    return {"bytes": _sums(files, moved, len(m.who)), "time_ns": _sums(times, busy.weight, len(m.who))}


def gini(values: Ints) -> float:
    """Gini's coefficient of numbers that are not negative: 0 where all are alike."""
    ordered, count = np.sort(values.astype(float)), len(values)
    total = ordered.sum()
    if count == 0 or total == 0:
        return 0.0
    return float((2 * np.arange(1, count + 1) - count - 1) @ ordered / (count * total))


def outliers(values: Ints | Floats) -> tuple[list[int], list[int]]:
    """Positions of values far above the others, the largest first: by median and median absolute deviation, and by the
    box plot."""
    if len(values) < LEAST_MEMBERS:
        return [], []
    numbers = np.asarray(values, dtype=float)
    median = float(np.median(numbers))
    spread = float(np.median(np.abs(numbers - median)))
    low, high = np.percentile(numbers, [25, 75])
    order = np.argsort(-numbers, kind="stable")
    late = [int(i) for i in order if numbers[i] > median and (numbers[i] - median) * _MAD_TO_SIGMA > FAR * spread]
    return late, [int(i) for i in order if numbers[i] > high + WHISKER * (high - low)]


def size_text(bits: int) -> tuple[int, int]:
    """The sizes that a number of binary digits stands for: from, up to."""
    return (0, 0) if bits == 0 else (1 << (bits - 1), (1 << bits) - 1)
