"""What it costs how files are used: small calls, calls at random offsets, calls that move no data, short processes.

    bursts and times of the edge table -> by (actor, file, direction) -> by stage and direction -> estimates

Reads no events. A file is used in small calls where their mean is small, and most of them are: of a file that is read
a page at a time, the last call has less. The C library makes large calls of small ones on its streams, so what goes
forward is in small calls only where the actor's calls on streams can't be most of them. The estimate of each table is
a time that was spent in calls and that other calls would not take: not what moving the bytes takes at least (`saved`);
of the rest, each call of a row is taken to cost the same. `gain_ns` of several rows together counts each moment once:
what runs at the same time ends at the same time. `*_calls` say when (whatif.py).

Sources: Bez et al. 2022 (Drishti) for what to look at (small, random, metadata) and for the share of random calls from
which it speaks; FLOOR_BYTES (a page) in place of its 1 MiB for what is small, since the run's own time decides here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table, event_fold, file_classes
from tailrace.analyzer.insights import access_order, access_patterns
from tailrace.analyzer.insights.inputs import FLOOR_BYTES, Inputs
from tailrace.analyzer.insights.start_ups import SOFTWARE, StartUps
from tailrace.analyzer.model import stages
from tailrace.analyzer.util import grouping, intervals
from tailrace.analyzer.util.intervals import Intervals
from tailrace.analyzer.util.tabular import Tabular
from tailrace.analyzer.util.types import Array, Bools, Floats, Ints

LARGE_BYTES = 1 << 20
"""A call of so many bytes costs little more than the transfer."""
COPY_RATE = 5
"""Bytes a ns that a copy within memory moves at most: in calls of any size, bytes take so long at least."""
LEAST_PLACES = 16
"""Of a file, each as large as a call: in a file of fewer, reading from the front over and over goes backward as often.
"""
DENSE = 4
"""A range that is so many times the bytes that are moved of it at random costs less to read as a whole: the calls go,
and a page is read whole anyway."""
LEAST_CALLS = 32
"""Of an actor on a file in a direction: fewer are a header, or a file of settings."""
Numbers: TypeAlias = "Array | pd.Series[Any] | float"
_NONE = np.empty(0, dtype=np.int64)
MOSTLY = 0.2
"""Of the opens, up to which those of other files than software are beside the point."""
CALLS_AROUND = 32
"""Metadata calls for each file that a program loads: it is sought on a path, looked at, opened and closed."""
_NO_NAMES = access_patterns.FLUSHES | access_patterns.STREAM_FLUSHES | event_fold.SEEKS
"""Metadata calls that are not about names."""
METADATA_NS = 30_000_000_000
"""Of a program in a stage: so much time in metadata calls is much, whatever else it does (Drishti)."""
MOST_NAMES = 3
"""Functions that are named of many."""
SHORT_NS = 20_000_000
"""A process that lives no longer has done little but start and end."""


@dataclass(frozen=True, repr=False)
class Costs(Tabular):
    """Rows by cost, the largest first; gain_ns: of all rows together; calls: as `whatif.Replays.without` takes them.

    small: stage, direction, files, calls, bytes, mean_bytes, random (whether most calls were), needed (calls of
        LARGE_BYTES for the same bytes), time_ns, gain_ns, path (of the file with most calls).
    scattered: the same columns: calls at random offsets, smaller than LARGE_BYTES, that no buffer would serve.
    metadata: stage, program, calls, data_calls, unused_opens (of files of which nothing was moved), time_ns: opens,
        closes, stats and the like, where they are more than reads and writes or take METADATA_NS; without short
        processes, and without seeks, flushes and waits for locks, which are told of elsewhere; time_ns is without
        start-ups, too. names: the functions with most of these calls.
    processes: program, processes, time_ns (in which at least one of them lived), mean_ns: the short ones, from the
        parent's fork to its wait where these are known.
    """

    small: pd.DataFrame
    small_gain_ns: int
    small_calls: Intervals
    scattered: pd.DataFrame
    scattered_gain_ns: int
    scattered_calls: Intervals
    metadata: pd.DataFrame
    metadata_gain_ns: int
    metadata_calls: Intervals
    processes: pd.DataFrame
    processes_gain_ns: int


def costs(inputs: Inputs, loads: StartUps) -> Costs:
    """The costs of a run's accesses. loads: its start-ups, whose metadata calls have a finding of their own."""
    uses, times = _uses(inputs)
    dense = uses["span"] <= DENSE * uses["bytes"]
    small = uses["is_small"] & np.where(uses["is_random"], dense, ~uses["is_buffered"])
    # What goes from the back to the front has an order, and takes no place at random.
    backward = uses["backward"] >= access_order.BACKWARD_SHARE * uses["calls"]
    scattered = uses["is_random"] & ~backward & ~small & (uses["mean_bytes"] < LARGE_BYTES)
    short = np.flatnonzero(inputs.lives.over - inputs.lives.begun <= SHORT_NS)
    short = short[~np.isin(short, inputs.lives.process[inputs.m.of_manager])] if inputs.m.of_manager.any() else short
    metadata = _metadata(inputs, loads, ~np.isin(inputs.lives.process, short))
    processes, processes_ns = _processes(inputs, short)
    return Costs(
        *_by_stage(inputs, uses, times, small.to_numpy(dtype=np.bool_)),
        *_by_stage(inputs, uses, times, scattered.to_numpy(dtype=np.bool_)),
        *metadata,
        processes,
        processes_ns,
    )


def saved(time_ns: Numbers, calls: Numbers, whole: Numbers, needed: Numbers) -> Floats:
    """The share of the time in calls that so many fewer would not take, which move `whole` bytes."""
    fixed = np.maximum(1 - whole / COPY_RATE / np.maximum(time_ns, 1), 0)
    return np.asarray(fixed * np.maximum(1 - needed / np.maximum(calls, 1), 0), dtype=np.float64)


def smaller_calls(inputs: Inputs, uses: pd.DataFrame) -> Bools:
    """Whether calls of each (actor, file, direction) move less than a page on average, and most of them do. uses: with
    their calls and bytes."""
    sizes = inputs.m.table.sizes
    moving = sizes[(sizes["bits"] > 0).to_numpy()]
    less = (moving["bits"] < FLOOR_BYTES.bit_length()).to_numpy()
    size = len(inputs.m.table.files) * 2
    actors, files, ways = (np.concatenate([rows[name] for rows in (moving, uses)]) for name in edge_table.BURST_KEY)
    known, code = np.unique(actors * size + files * 2 + ways, return_inverse=True)
    calls = moving["calls"].to_numpy(dtype=np.int64)
    of_key = code[: len(moving)]
    all_of, less_of = (grouping.sums(of_key, calls * pick, len(known)) for pick in (np.ones_like(less), less))
    mostly: Bools = (less_of * 2 > all_of) | (all_of == 0)
    mean_is: Bools = (uses["bytes"] < FLOOR_BYTES * uses["calls"]).to_numpy(dtype=np.bool_)
    return np.logical_and(mean_is, mostly[code[len(moving) :]])


def _uses(inputs: Inputs) -> tuple[pd.DataFrame, Intervals]:
    """One row for each (actor, file, direction) with at least LEAST_CALLS calls on a regular file of data, and when it
    was inside them (group: the row)."""
    m = inputs.m
    data = m.of_type("reg") & (m.cls == file_classes.CLASSES.index("data"))
    picked_at = np.flatnonzero(data & (m.bursts["calls"] > 0).to_numpy())
    picked = m.bursts.iloc[picked_at]
    key, rows = edge_table.codes(picked[edge_table.BURST_KEY])
    uses = rows.assign(**{name: _sum(picked[name], key, len(rows)) for name in ("calls", "bytes", "backward")})
    of_burst = np.full(len(m.bursts), -1, dtype=np.int64)
    of_burst[picked_at] = key
    low, high = np.full(len(rows), np.iinfo(np.int64).max), np.zeros(len(rows), dtype=np.int64)
    extents = intervals.regrouped(m.table.extents, of_burst)
    np.minimum.at(low, extents.group, extents.start)
    np.maximum.at(high, extents.group, extents.end)
    uses["span"] = np.where(high > 0, high - low, 0)
    uses["mean_bytes"] = uses["bytes"] / np.maximum(uses["calls"], 1)
    places = uses["span"] >= LEAST_PLACES * uses["mean_bytes"]
    uses["is_random"] = (uses["backward"] > access_order.RANDOM_SHARE * uses["calls"]) & places
    uses["is_small"] = smaller_calls(inputs, uses)
    uses["is_buffered"] = _buffered(inputs, uses) * 2 > uses["calls"].to_numpy()
    uses["stage"] = inputs.tasks["stage_code"].to_numpy()[inputs.of_who[uses["who"].to_numpy()]]
    many = (uses["calls"] >= LEAST_CALLS).to_numpy()
    place = np.where(many, np.cumsum(many) - 1, -1)
    of_burst[picked_at] = place[key]
    times = intervals.union(intervals.regrouped(m.table.times, of_burst))
    uses = uses[many].reset_index(drop=True)
    uses["time_ns"] = intervals.length(times, len(uses))
    return uses, times


def _buffered(inputs: Inputs, uses: pd.DataFrame) -> Ints:
    """The calls on the C library's streams of each use's actor in its direction, on whichever files."""
    counts = inputs.m.table.counts
    buffered = np.zeros((len(inputs.m.who), len(edge_table.CALLS)), dtype=np.int64)
    np.add.at(buffered, (counts["who"].to_numpy(), counts["kind"].to_numpy()), counts["buffered_calls"].to_numpy())
    return buffered[uses["who"].to_numpy(), uses["dir"].to_numpy()]


def _sum(column: pd.Series, key: Ints, groups: int) -> Ints:
    sums = np.zeros(groups, dtype=np.int64)
    np.add.at(sums, key, column.to_numpy(dtype=np.int64))
    return sums


def _by_stage(inputs: Inputs, uses: pd.DataFrame, times: Intervals, keep: Bools) -> tuple[pd.DataFrame, int, Intervals]:
    """The uses of `keep` by stage and direction, what they cost together, and when."""
    rows = uses[keep]
    whole = np.where(rows["is_random"] & (rows["span"] <= DENSE * rows["bytes"]), rows["span"], rows["bytes"])
    needed = np.maximum(-(-whole // LARGE_BYTES), 1)
    share_of = saved(rows["time_ns"], rows["calls"], whole, needed)
    rows = rows.assign(needed=needed, gain_ns=(rows["time_ns"] * share_of).astype(np.int64))
    table = []
    for (stage, direction), mine in rows.groupby(["stage", "dir"]):
        top = mine.loc[mine["calls"].idxmax()]
        calls, moved = int(mine["calls"].sum()), int(mine["bytes"].sum())
        together = _together(times, mine.index.to_numpy())
        share = float(mine["gain_ns"].sum()) / max(int(mine["time_ns"].sum()), 1)
        table.append(
            {
                "stage": str(inputs.stages["stage"].iat[int(stage)]),
                "direction": edge_table.CALLS[int(direction)],
                "files": int(mine["file"].nunique()),
                "calls": calls,
                "bytes": moved,
                "mean_bytes": moved / calls,
                "random": int(mine.loc[mine["is_random"], "calls"].sum()) * 2 > calls,
                "needed": int(mine["needed"].sum()),
                "time_ns": together,
                "gain_ns": int(together * share),
                "path": str(inputs.m.paths[int(top["file"])]),
                "stage_code": int(stage),
            }
        )
    share = float(rows["gain_ns"].sum()) / max(int(rows["time_ns"].sum()), 1)
    of_use = np.zeros(len(uses))
    of_use[keep] = share_of
    return (
        _largest(table, "gain_ns"),
        int(_together(times, rows.index.to_numpy()) * share),
        intervals.parts(times, of_use, inputs.of_who[uses["who"].to_numpy()]),
    )


def _together(times: Intervals, rows: Ints) -> int:
    """For how long at least one of these uses was inside a call, ns."""
    keep = np.isin(times.group, rows)
    group = np.zeros(int(keep.sum()), dtype=np.int64)
    return int(intervals.length(intervals.union(Intervals(group, *(column[keep] for column in times[1:]))), 1)[0])


def _largest(rows: Sequence[Mapping[str, object]], by: str) -> pd.DataFrame:
    table: pd.DataFrame = pd.DataFrame(rows)
    if len(table):
        table = table.sort_values(by, ascending=False, kind="stable", ignore_index=True)
    return table


def _metadata(inputs: Inputs, loads: StartUps, keep: Bools) -> tuple[pd.DataFrame, int, Intervals]:
    m = inputs.m
    stage_of_who = inputs.tasks["stage_code"].to_numpy()[inputs.of_who]
    program_of_who, programs = pd.factorize(np.array([file_classes.program(exe) for exe in m.who["exe"]], dtype=object))
    group_of_who, first = grouping.numbered(grouping.pack(stage_of_who, program_of_who))
    calls = {
        kind: _sum(rows["calls"], group_of_who[rows["who"].to_numpy()], len(first))
        for kind in (edge_table.READ, edge_table.WRITE, edge_table.META)
        for rows in [m.table.counts[(m.table.counts["kind"] == kind) & keep[m.table.counts["who"].to_numpy()]]]
    }
    data_calls = calls[edge_table.READ] + calls[edge_table.WRITE]
    times = edge_table.spent(m.table.busy, stages.NAMES, np.where(keep, group_of_who, -1))
    others, share = _without(inputs, np.where(keep, group_of_who, -1), len(first))
    most = _most_called(inputs, np.where(keep, group_of_who, -1))
    lengths = intervals.length(times, len(first)) * share
    lengths = (lengths * _after_start_up(inputs, loads, np.where(keep, group_of_who, -1), len(first))).astype(np.int64)
    unused = access_patterns.unused_opens(inputs)
    opens = np.zeros(len(first), dtype=np.int64)
    np.add.at(opens, group_of_who[unused["who"].to_numpy()], unused["opens"].to_numpy())
    names = np.maximum(calls[edge_table.META] - others, 0)
    table = [
        {
            "stage": str(inputs.stages["stage"].iat[int(stage_of_who[actor])]),
            "program": str(programs[program_of_who[actor]]) or "?",
            "calls": int(names[group]),
            "names": most.get(group, ""),
            "data_calls": int(data_calls[group]),
            "unused_opens": int(opens[group]),
            "time_ns": int(lengths[group]),
            "stage_code": int(stage_of_who[actor]),
        }
        for group, actor in enumerate(first)
    ]
    many = np.flatnonzero(((names > data_calls) | (lengths >= METADATA_NS)) & ~_loading(inputs, group_of_who, names))
    whole = int(intervals.length(times, len(first))[many].sum())
    gain = _together(times, many) * int(lengths[many].sum()) // max(whole, 1)
    share_of = np.zeros(len(first))
    share_of[many] = (lengths / np.maximum(intervals.length(times, len(first)), 1))[many]
    actors = edge_table.spent(m.table.busy, stages.NAMES, np.where(keep, np.arange(len(m.who)), -1))
    left_out = intervals.parts(actors, share_of[group_of_who], inputs.of_who)
    return _largest([table[group] for group in many], "time_ns"), gain, left_out


def _without(inputs: Inputs, group: Ints, count: int) -> tuple[Ints, Floats]:
    """By group: the calls that seek and flush, and the share of the time in metadata calls that is not theirs."""
    rows = _metadata_functions(inputs, group)
    both = rows[rows["name"].isin(_NO_NAMES)]
    waited = intervals.length(edge_table.spent(inputs.m.table.busy, (edge_table.LOCK,), group), count)
    # Waits for locks are no time in metadata calls.
    whole = np.maximum(_sum(rows["time_ns"], rows["group"].to_numpy(), count) - waited, 1)
    calls, time = (_sum(both[name], both["group"].to_numpy(), count) for name in ("calls", "time_ns"))
    return calls, 1 - time / whole


def _metadata_functions(inputs: Inputs, group: Ints) -> pd.DataFrame:
    """The rows of functions that move no data, of the groups."""
    rows = inputs.m.table.functions
    of_row = group[rows["who"].to_numpy()]
    return rows.assign(group=of_row)[(rows["kind"] == edge_table.META).to_numpy() & (of_row >= 0)]


def _most_called(inputs: Inputs, group: Ints) -> dict[int, str]:
    """By group: the metadata functions with most calls, but those that seek and flush."""
    rows = _metadata_functions(inputs, group)
    rows = rows[~rows["name"].isin(_NO_NAMES).to_numpy()]
    calls = rows.assign(name=rows["name"].astype(str)).groupby(["group", "name"])["calls"].sum()
    ranked = calls.sort_values(ascending=False, kind="stable").reset_index()
    return {int(number): ", ".join(each["name"].head(MOST_NAMES)) for number, each in ranked.groupby("group")}


def _loading(inputs: Inputs, group: Ints, names: Ints) -> Bools:
    """By group, with so many metadata calls: whether most of what it opened is software, and settings of the machine,
    and the calls are those around these: it loads itself, whenever it does. Files without accesses are no software."""
    m = inputs.m
    rows = m.table.patterns[m.table.patterns["opens"] > 0]
    software = [file_classes.CLASSES.index(one) for one in SOFTWARE]
    own = np.isin(m.class_of_file[rows["file"].to_numpy()], software)
    group = group[rows["who"].to_numpy()]
    opens = _sum(rows["opens"], group, len(names))
    of_software = _sum(rows["opens"].where(own, 0), group, len(names))
    few = names <= CALLS_AROUND * opens
    return np.asarray((opens >= LEAST_CALLS) & (of_software > (1 - MOSTLY) * opens) & few, dtype=np.bool_)


def _after_start_up(inputs: Inputs, loads: StartUps, group: Ints, count: int) -> Floats:
    """By group: the share of the time in metadata calls that is not in start-ups."""
    loading, ever = loads.in_calls(inputs.m, stages.NAMES)
    mine = group >= 0
    whole, part = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    np.add.at(whole, group[mine], ever[mine])
    np.add.at(part, group[mine], loading[mine])
    return 1 - part / np.maximum(whole, 1)


def _processes(inputs: Inputs, short: Ints) -> tuple[pd.DataFrame, int]:
    m, lives = inputs.m, inputs.lives
    actors = [lives.first(int(process)) for process in short]
    programs = [m.program(lives.last(int(process))) or "?" for process in short]
    births, deaths = _events_of_children(inputs, "fork"), _events_of_children(inputs, "wait")
    begin, end = lives.begun[short].copy(), lives.over[short].copy()
    hosts, pids = m.who["host"].tolist(), m.who["pid"].tolist()
    for i, actor in enumerate(actors):
        key = (str(hosts[actor]), pids[actor])
        born, died = births.get(key, _NONE), deaths.get(key, _NONE)
        at = int(np.searchsorted(born, begin[i], side="right")) - 1
        if at >= 0 and begin[i] - born[at] <= SHORT_NS:
            begin[i] = born[at]
        at = int(np.searchsorted(died, end[i]))
        if at < len(died) and died[at] - end[i] <= SHORT_NS:
            end[i] = died[at]
    code, names = pd.factorize(np.array(programs, dtype=object))
    times = intervals.union(intervals.make(code.astype(np.int64), begin, end))
    lengths = intervals.length(times, len(names))
    table = [
        {
            "program": str(name),
            "processes": int((code == number).sum()),
            "time_ns": int(lengths[number]),
            "mean_ns": int((end - begin)[code == number].mean()),
        }
        for number, name in enumerate(names)
    ]
    return _largest(table, "time_ns"), _together(times, np.arange(len(names)))


def _events_of_children(inputs: Inputs, what: str) -> dict[tuple[str, int], Ints]:
    """When processes of each (host, pid) were made, or waited for, by a traced parent: ns, ascending."""
    m = inputs.m
    rows = m.table.process_events[m.table.process_events["what"] == what].sort_values("ns", kind="stable")
    hosts = m.who["host"].to_numpy()[rows["who"].to_numpy()]
    found: dict[tuple[str, int], list[int]] = {}
    for host, pid, ns in zip(hosts, rows["pid"].tolist(), rows["ns"].tolist(), strict=True):
        found.setdefault((str(host), pid), []).append(ns)
    return {key: np.array(times, dtype=np.int64) for key, times in found.items()}
