"""What it costs which functions are called, and how ranks and processes share the work: flushes, seeks, stream buffers,
files that several processes write at once, MPI-IO without collective calls, ranks that lag, calls across blocks, what
streams read ahead for nothing.

    functions, patterns and bursts of the edge table -> by stage -> tables, the largest cost first

Reads no events. The time that a group spent in some functions is not in the edge table, only the sum over their calls:
its wall time is taken to be the same share of the time in which calls of the kind were running.

Sources of the thresholds: Bez et al. 2022 (Drishti: its defaults for small, misaligned, independent and imbalanced),
Xu et al. 2017 (DXT: ranks outside of the box plot).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table, file_classes
from tailrace.analyzer.insights import access_patterns
from tailrace.analyzer.insights.access_costs import LARGE_BYTES, saved
from tailrace.analyzer.insights.access_order import RANDOM_SHARE
from tailrace.analyzer.insights.inputs import FLOOR_BYTES, Inputs
from tailrace.analyzer.util import grouping, intervals
from tailrace.analyzer.util.types import Array, Bools, Ints

UNALIGNED_SHARE = 0.1
"""Of the calls on a file, from which on they are misaligned (Drishti)."""
INDEPENDENT_SHARE = 0.5
"""Of the calls of MPI-IO that move data, from which on it is used independently (Drishti)."""
IMBALANCE = 0.15
"""Of the largest rank's time above the mean (Drishti)."""
RANKS = 2
"""Of a stage, from which on one may do more than the others."""
ALONE = 0.9
"""Of all bytes, by one of a few ranks."""
LAG_NS = 1_000_000_000
"""A rank that moved no more than the others lags by so much: less is what a cache or a scheduler does by chance."""
WRITERS = 2
"""Processes that write one file at once."""
STREAM = frozenset(
    "fread fread_unlocked fwrite fwrite_unlocked fgets fgets_unlocked fputs fputs_unlocked fgetc getc fputc putc"
    " getline getdelim fprintf vfprintf fscanf vfscanf puts printf vprintf".split()
)
KERNEL_CALL_NS = 5_000
"""At most what a call to the kernel for a page costs beside the page itself."""
MPI = "MPI_File_"
LAST_CALLS = 2
"""Of a file that is read a page at a time: its last piece is shorter, and one more call finds the end."""
_COLLECTIVE = ("_all", "_ordered")


def stage_of_who(inputs: Inputs) -> Ints:
    """The stage of each actor (position in `Inputs.stages`)."""
    return inputs.tasks["stage_code"].to_numpy(dtype=np.int64)[inputs.of_who]


def flushes(inputs: Inputs) -> pd.DataFrame:
    """Flushes to the disk, of which one a process and file written is needed; see `_flushes`."""
    bursts = inputs.m.bursts[inputs.m.bursts["dir"] == edge_table.WRITE]
    # By name: a journal that is made anew for each change is the database's, which needs one flush.
    names = bursts[["who"]].assign(path=inputs.m.paths[bursts["file"].to_numpy()])
    return _flushes(inputs, access_patterns.FLUSHES, names.drop_duplicates().groupby("who").size())


def stream_flushes(inputs: Inputs) -> pd.DataFrame:
    """Flushes of streams to the kernel, of which one a page written is what the stream's buffer does by itself; see
    `_flushes`."""
    return _flushes(inputs, access_patterns.STREAM_FLUSHES, -(-_written(inputs) // FLOOR_BYTES))


def _written(inputs: Inputs) -> pd.Series:
    """Bytes that each actor wrote."""
    return inputs.m.table.counts.groupby("who")["written_bytes"].sum()


def _flushes(inputs: Inputs, names: frozenset[str], needed: pd.Series) -> pd.DataFrame:
    """stage, calls, written_bytes (of the processes that flush), needed, time_ns, gain_ns: the time less that of the
    needed ones. needed: by actor."""
    rows = _functions(inputs, names, edge_table.META)
    if rows.empty:
        return _largest([])
    group = stage_of_who(inputs)
    wall = _wall(inputs, rows, group, (edge_table.META,))
    wrote = _written(inputs)
    table = []
    for stage, mine in _by_stage(rows, group):
        calls, time = int(mine["calls"].sum()), wall[stage]
        users = mine["who"].unique()
        least = int(needed.reindex(users, fill_value=0).sum())
        table.append(
            {
                "stage": _stage(inputs, stage),
                "calls": calls,
                "written_bytes": int(wrote.reindex(users, fill_value=0).sum()),
                "needed": min(least, calls),
                "time_ns": time,
                "gain_ns": int(time * max(1 - least / calls, 0)),
                "stage_code": stage,
            }
        )
    return _largest(table)


def seeks(inputs: Inputs) -> pd.DataFrame:
    """stage, seeks, useless (at least), data_calls, gain_ns: the useless ones' share of the time in seeks."""
    rows = _functions(inputs, event_names(inputs, "seek"), edge_table.META)
    if rows.empty:
        return _largest([])
    group = stage_of_who(inputs)
    wall = _wall(inputs, rows, group, (edge_table.META,))
    useless = access_patterns.useless_seeks(inputs)
    counts = inputs.m.table.counts
    data = counts[counts["kind"] <= edge_table.WRITE]
    table = []
    for stage, mine in _by_stage(rows, group):
        calls, lost = int(mine["calls"].sum()), int(useless[group == stage].sum())
        table.append(
            {
                "stage": _stage(inputs, stage),
                "seeks": calls,
                "useless": min(lost, calls),
                "data_calls": int(data["calls"][group[data["who"].to_numpy()] == stage].sum()),
                "gain_ns": int(wall[stage] * min(lost / calls, 1)),
                "stage_code": stage,
            }
        )
    return _largest(table)


def streams(inputs: Inputs) -> pd.DataFrame:
    """stage, calls, bytes, mean_bytes, kernel_calls (of a page each), time_ns, gain_ns (`KERNEL_CALL_NS` each, at most
    the time): what went through streams of the C library in calls smaller than a page, of processes with such calls on
    average; not of the general tools (sort, uniq, ...), which nobody changes, nor of processes that jump in their
    files: a stream drops its buffer at a seek. The time is also that of formatting and copying, which stays."""
    group = stage_of_who(inputs)
    every = inputs.m.table.functions
    rows = every[every["name"].isin(STREAM) & (every["kind"] <= edge_table.WRITE)]
    sums = rows.groupby("who")[["calls", "bytes"]].sum()
    files = inputs.m.bursts[["who", "file"]].drop_duplicates().groupby("who").size().reindex(sums.index, fill_value=0)
    small = sums.index[sums["bytes"] < FLOOR_BYTES * (sums["calls"] - LAST_CALLS * files)]
    given = [who for who in small if inputs.m.program(who) in file_classes.TOOLS]
    places = inputs.m.table.patterns
    places = places[places["dir"] <= edge_table.WRITE].groupby("who")[["calls", "consecutive"]].sum()
    jumping = places.index[places["calls"] - places["consecutive"] > RANDOM_SHARE * places["calls"]]
    # Most of it: else the streams are those of an interpreter that loads its own packages.
    data = inputs.m.bursts[inputs.m.classed(("data", "stream"))].groupby("who")["bytes"].sum()
    loading = sums.index[data.reindex(sums.index, fill_value=0) < sums["bytes"] / 2]
    rows = rows[rows["who"].isin(small) & ~rows["who"].isin([*given, *jumping, *loading])]
    if rows.empty:
        return _largest([])
    wall = _wall(inputs, rows, group, (edge_table.READ, edge_table.WRITE))
    table = []
    for stage, mine in _by_stage(rows, group):
        calls, moved = int(mine["calls"].sum()), int(mine["bytes"].sum())
        time, of_kernel = wall[stage], -(-moved // FLOOR_BYTES)
        table.append(
            {
                "stage": _stage(inputs, stage),
                "calls": calls,
                "bytes": moved,
                "mean_bytes": moved / max(calls, 1),
                "kernel_calls": of_kernel,
                "time_ns": time,
                "gain_ns": min(time, of_kernel * KERNEL_CALL_NS),
                "stage_code": stage,
            }
        )
    return _largest(table)


def shared(inputs: Inputs) -> pd.DataFrame:
    """stage, path, processes, calls, bytes, mean_bytes, time_ns, gain_ns: files that several processes of a stage wrote
    at the same time in calls smaller than `LARGE_BYTES`. gain_ns: what larger ones would save of the time."""
    m = inputs.m
    picked = m.classed(("data",)) & m.of_type("reg") & (m.bursts["dir"] == edge_table.WRITE).to_numpy()
    picked &= (m.bursts["calls"] > 0).to_numpy()
    file, who = m.bursts["file"].to_numpy(), m.bursts["who"].to_numpy()
    picked &= (grouping.distinct(file[picked], who[picked], len(m.table.files)) >= WRITERS)[file]
    bursts = m.bursts[picked]
    if bursts.empty:
        return _largest([])
    bursts = bursts.assign(stage=stage_of_who(inputs)[bursts["who"].to_numpy()])
    by_file = bursts.groupby(["stage", "file"])
    code = by_file.ngroup().to_numpy(dtype=np.int64)
    sums = by_file.agg(calls=("calls", "sum"), bytes=("bytes", "sum"))
    sums["together"] = _at_once(bursts.assign(code=code), len(sums))
    of_burst = np.full(len(m.bursts), -1, dtype=np.int64)
    of_burst[picked] = code
    running = intervals.regrouped(m.table.times, of_burst)
    sums["time_ns"] = intervals.length(intervals.union(running), len(sums))
    sums = sums[(sums["together"] >= WRITERS) & (sums["bytes"] < LARGE_BYTES * sums["calls"])]
    table = []
    for row in sums.reset_index().to_dict("records"):
        calls, moved, time = int(row["calls"]), int(row["bytes"]), int(row["time_ns"])
        table.append(
            {
                "stage": _stage(inputs, row["stage"]),
                "path": str(m.paths[int(row["file"])]),
                "processes": int(row["together"]),
                "calls": calls,
                "bytes": moved,
                "mean_bytes": moved / calls,
                "time_ns": time,
                "gain_ns": int(time * float(saved(time, calls, moved, -(-moved // LARGE_BYTES)))),
                "stage_code": int(row["stage"]),
            }
        )
    return _largest(table)


def independent(inputs: Inputs) -> pd.DataFrame:
    """stage, independent, collective (calls of MPI-IO that move data), processes, gain_ns: the time in which their
    processes were reading or writing, by the share of the independent ones. Stages with several processes."""
    rows = inputs.m.table.functions
    rows = rows[rows["name"].astype(str).str.startswith(MPI) & (rows["kind"] <= edge_table.WRITE)]
    group = stage_of_who(inputs)
    together = rows["name"].astype(str).str.contains("|".join(_COLLECTIVE)).to_numpy(dtype=np.bool_)
    table = []
    for stage, mine in _by_stage(rows.assign(together=together), group):
        users = mine["who"].unique()
        collective = int(mine["calls"][mine["together"]].sum())
        alone = int(mine["calls"].sum()) - collective
        if len(users) < WRITERS or alone <= INDEPENDENT_SHARE * (alone + collective):
            continue
        time = _busy(inputs, np.isin(np.arange(len(inputs.m.who)), users), (edge_table.READ, edge_table.WRITE))
        table.append(
            {
                "stage": _stage(inputs, stage),
                "independent": alone,
                "collective": collective,
                "processes": len(users),
                "gain_ns": int(time * alone / (alone + collective)),
                "stage_code": stage,
            }
        )
    return _largest(table)


def ranks(inputs: Inputs) -> pd.DataFrame:
    """stage, rank (the slowest), ranks, time_ns (its I/O), mean_ns, largest_over_mean, gini, bytes, all_bytes, outside
    (`_outside`), gain_ns: its time above the mean. Stages of several ranks.
    """
    group, rank_of = stage_of_who(inputs), access_patterns.ranks_of(inputs)
    figures = access_patterns.member_figures(inputs)
    table = []
    for stage in np.unique(group[rank_of != ""]):
        mine = (group == stage) & (rank_of != "")
        member, found = pd.factorize(rank_of[mine])
        if len(found) < RANKS:
            continue
        sums = {name: np.bincount(member, weights=values[mine]) for name, values in figures.items()}
        time, moved = sums["time_ns"], sums["bytes"]
        top = int(time.argmax())
        table.append(
            {
                "stage": _stage(inputs, stage),
                "rank": str(found[top]),
                "ranks": len(found),
                "time_ns": int(time[top]),
                "mean_ns": int(time.mean()),
                "largest_over_mean": float(time[top] / max(time.mean(), 1)),
                "gini": access_patterns.gini(time.astype(np.int64)),
                "bytes": int(moved[top]),
                "all_bytes": int(moved.sum()),
                "outside": _outside(top, time, moved),
                "gain_ns": int(time[top] - time.mean()),
                "stage_code": int(stage),
            }
        )
    return _largest(table)


def _outside(top: int, time: Array, moved: Array) -> bool:
    """Whether the slowest rank is beyond the box plot, and moved more than the mean or lags by LAG_NS. Of so few ranks
    that they have no quartiles: whether it moved nearly all."""
    if len(time) < access_patterns.LEAST_MEMBERS:
        return bool(moved[top] >= ALONE * moved.sum())
    more = moved[top] * (1 - IMBALANCE) > moved.mean() or time[top] - time.mean() >= LAG_NS
    return bool(more) and top in access_patterns.outliers(time)[1]


def misaligned(inputs: Inputs) -> pd.DataFrame:
    """stage, path (with most), files, calls, unaligned, block_bytes, bytes (at most what unaligned calls move more: a
    block each, or as much as such a call moves): of files on network file systems whose block is known."""
    m = inputs.m
    rows = m.table.patterns
    names = m.table.files["file"].astype(str).to_numpy()
    hosts = tuple(f"{host}:" for host in m.who["host"].astype(str).unique())
    remote = np.array([not name.startswith((*hosts, "path:")) for name in names], dtype=np.bool_)
    bursts = m.bursts[m.classed(("data",)) & remote[m.bursts["file"].to_numpy()]]
    if bursts.empty:
        return _largest([])
    sums = bursts.groupby(edge_table.BURST_KEY)[["calls", "bytes"]].sum().reset_index()
    rows = rows[(rows["least_block"] == rows["most_block"]) & (rows["unaligned"] > UNALIGNED_SHARE * rows["placed"])]
    found = sums.merge(rows[[*edge_table.BURST_KEY, "placed", "unaligned", "most_block"]], on=edge_table.BURST_KEY)
    found["more"] = found["unaligned"] * np.minimum(found["most_block"], found["bytes"] // found["calls"].clip(1))
    group = stage_of_who(inputs)
    table = []
    parts = ((stage, *part) for stage, mine in _by_stage(found, group) for part in grouping.parts(mine, "most_block"))
    for stage, block, mine in parts:
        top = mine.iloc[int(mine["unaligned"].to_numpy().argmax())]
        table.append(
            {
                "stage": _stage(inputs, stage),
                "path": str(m.paths[int(top["file"])]),
                "files": int(mine["file"].nunique()),
                "calls": int(mine["placed"].sum()),
                "unaligned": int(mine["unaligned"].sum()),
                "block_bytes": block,
                "bytes": int(mine["more"].sum()),
                "gain_ns": 0,
                "stage_code": stage,
            }
        )
    return _largest(table, "bytes")


def read_ahead(inputs: Inputs) -> pd.DataFrame:
    """stage, path (with most), files, seeks, asked (bytes that the program took of these files), ahead (bytes that the
    C library read of them beside, and dropped at a seek or a close): of files of data of which more was dropped than
    asked for."""
    m = inputs.m
    rows = m.table.patterns[m.table.patterns["ahead"] > 0][["who", "file", "seeks", "ahead"]]
    data = m.bursts[m.classed(("data",)) & (m.bursts["dir"] == edge_table.READ).to_numpy()]
    asked = data.groupby(["who", "file"])["bytes"].sum().rename("asked").reset_index()
    rows = rows.merge(asked, on=["who", "file"])
    rows = rows[rows["ahead"] > rows["asked"]]
    if rows.empty:
        return _largest([])
    table = []
    for stage, mine in _by_stage(rows, stage_of_who(inputs)):
        by_file = mine.groupby("file")["ahead"].sum()
        table.append(
            {
                "stage": _stage(inputs, stage),
                "path": str(m.paths[by_file.index[int(by_file.to_numpy().argmax())]]),
                "files": len(by_file),
                **{name: int(mine[name].sum()) for name in ("seeks", "asked", "ahead")},
                "gain_ns": 0,
                "stage_code": stage,
            }
        )
    return _largest(table, "ahead")


# --- what they share -------------------------------------------------------------------------------------------------


def left_out(inputs: Inputs, rows: pd.DataFrame, kinds: Sequence[int]) -> intervals.Intervals:
    """When the tasks of stages were in calls of kinds (`edge_table.CALLS`), by weight how long these would take less:
    as `whatif.Replays.without` takes them. rows: of a table with stage_code, gain_ns."""
    stage, gains = stage_of_who(inputs), dict(zip(rows["stage_code"], rows["gain_ns"], strict=True))
    share = np.zeros(len(inputs.stages))
    for code, gain in gains.items():
        share[code] = min(gain / max(_busy(inputs, stage == code, kinds), 1), 1)
    mine = np.where(share[stage] > 0, np.arange(len(stage)), -1)
    times = edge_table.spent(inputs.m.table.busy, [time for kind in kinds for time in edge_table.TIMES[kind]], mine)
    return intervals.parts(times, share[stage], inputs.of_who)


def event_names(inputs: Inputs, part: str) -> frozenset[str]:
    """The names of recorded functions that contain a text."""
    return frozenset(name for name in inputs.m.table.functions["name"].astype(str).unique() if part in name)


def _stage(inputs: Inputs, code: int) -> str:
    return str(inputs.stages["stage"].iat[code])


def _by_stage(rows: pd.DataFrame, group: Ints) -> Iterator[tuple[int, pd.DataFrame]]:
    """The rows of each stage. group: of each actor (`who`), its stage."""
    return grouping.parts(rows.assign(stage=group[rows["who"].to_numpy()]), "stage")


def _functions(inputs: Inputs, names: frozenset[str], kind: int) -> pd.DataFrame:
    rows = inputs.m.table.functions
    return rows[rows["name"].isin(names) & (rows["kind"] == kind) & (rows["calls"] > 0)]


def _wall(inputs: Inputs, rows: pd.DataFrame, group: Ints, kinds: Sequence[int]) -> dict[int, int]:
    """The wall time of each group in the calls of these rows of functions."""
    if rows.empty:
        return {}
    every = inputs.m.table.functions
    every = every[every["kind"].isin(kinds) & ~every["name"].astype(str).str.startswith(MPI)]
    whole = every.groupby(group[every["who"].to_numpy()])["time_ns"].sum()
    part = rows.groupby(group[rows["who"].to_numpy()])["time_ns"].sum()
    return {
        code: int(_busy(inputs, group == code, kinds) * min(int(ns) / max(int(whole[code]), 1), 1))
        for code, ns in zip(part.index.tolist(), part.tolist(), strict=True)
    }


def _busy(inputs: Inputs, actors: Bools, kinds: Sequence[int]) -> int:
    """For how long at least one of these actors was inside a call of these kinds (`edge_table.CALLS`), ns."""
    times = [time for kind in kinds for time in edge_table.TIMES[kind]]
    rows = edge_table.spent(inputs.m.table.busy, times, np.where(actors, 0, -1))
    return int(intervals.length(rows, 1)[0])


def _at_once(bursts: pd.DataFrame, count: int) -> Ints:
    """By code the most actors whose spans on a file overlap."""
    if bursts.empty:
        return np.zeros(count, dtype=np.int64)
    code, who = (bursts[name].to_numpy(dtype=np.int64) for name in ("code", "who"))
    actors = grouping.groups(grouping.pack(code, who))
    first = actors.reduce(np.minimum, bursts["first_ns"].to_numpy())
    when = np.concatenate([first, actors.reduce(np.maximum, bursts["last_ns"].to_numpy())])
    step, code = np.repeat((1, -1), len(first)), np.tile(actors.first(code), 2)
    order = np.lexsort((step, when, code))
    most = np.zeros(count, dtype=np.int64)
    # The steps of a code sum to 0, so the next one begins at 0 again.
    np.maximum.at(most, code[order], np.cumsum(step[order]))
    return most


def _largest(rows: Sequence[Mapping[str, object]], by: str = "gain_ns") -> pd.DataFrame:
    table: pd.DataFrame = pd.DataFrame(rows)
    if len(table):
        table = table.sort_values(by, ascending=False, kind="stable", ignore_index=True)
    return table
