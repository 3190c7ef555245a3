"""How long data lives, how often it is read, and how much of it there is at a time. Data files only (file_classes.py).

    size        the end of the last byte that was written or read, by known offsets; else bytes written
    born        first write (for a file from before the run: its first read)
    last use    end of the last access
    gone        its removal, or that of its name by a rename over it, where one was seen
    live        from born to last use: the file is needed. `held`: from born to gone, or to the end of the run.
    reread      bytes read less distinct bytes read, per reader; `again` over all readers
    copy        an actor (process in a task) that read one data file and nothing else, and wrote one: all bytes moved by
                the kernel (`KERNEL`); or by a program that copies, through both from front to back (`COPIER`); or the
                same byte ranges of both by another one (`RANGES`), which may be any bytes
    node-local  made in the run and used from one host only

An intermediate is a data file that was written in the run and read by another task than its writers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table, identities
from tailrace.analyzer.insights.inputs import Inputs
from tailrace.analyzer.model import stages
from tailrace.analyzer.util import grouping, intervals
from tailrace.analyzer.util.tabular import Tabular
from tailrace.analyzer.util.types import Array, Bools, Ints

KERNEL, COPIER, RANGES = "kernel", "copier", "ranges"
"""What shows that one file is a copy of another one."""
COPIERS = frozenset({"cp", "install", "mv", "rsync", "scp"})
"""Programs that change no byte of what they read and write again."""
STEPS = 400
"""Points of the footprint that are kept."""


@dataclass(frozen=True, repr=False)
class Lifetime(Tabular):
    """
    files: one row a data file (index: file code): path, size, born_ns, last_use_ns, gone_ns (-1: not removed),
        live_ns, written_bytes, read_bytes, unique_bytes (each reader's distinct bytes, summed), unread_bytes (of what
        was written, those that nobody read; 0 if an offset is not known), again_bytes (read less unique),
        rewritten_bytes (written less each writer's distinct bytes of a version), writers, readers (tasks),
        hosts, local (its file system belongs to one host), intermediate, never_read, removed, node_local.
    copies: source and target (file codes), task, bytes.
    footprint: time_ns, live_bytes, held_bytes: right-continuous steps, at most `STEPS` rows, peaks kept.
    peak: live_bytes, live_at_ns, held_bytes, held_at_ns.
    """

    files: pd.DataFrame
    copies: pd.DataFrame
    footprint: pd.DataFrame
    peak: dict[str, int]


def lifetime(inputs: Inputs) -> Lifetime:
    """Lifetime and reuse of a run's data files."""
    files = _files(inputs)
    live = _steps(files["born_ns"].to_numpy(), files["last_use_ns"].to_numpy(), files["size"].to_numpy())
    gone = files["gone_ns"].where(files["removed"], inputs.end_ns).to_numpy(dtype=np.int64)
    held = _steps(files["born_ns"].to_numpy(), np.maximum(gone, files["born_ns"].to_numpy()), files["size"].to_numpy())
    peak = {
        "live_bytes": int(live[1].max(initial=0)),
        "live_at_ns": int(live[0][live[1].argmax()]) if len(live[0]) else 0,
        "held_bytes": int(held[1].max(initial=0)),
        "held_at_ns": int(held[0][held[1].argmax()]) if len(held[0]) else 0,
    }
    return Lifetime(files, _copies(inputs), _footprint(live, held), peak)


def _data(inputs: Inputs) -> Bools:
    return inputs.m.classed(("data",))


def _files(inputs: Inputs) -> pd.DataFrame:
    m, data = inputs.m, _data(inputs)
    size = len(m.table.files)
    file, who, way, first, last, moved, loose = (
        m.bursts[name].to_numpy()[data]
        for name in ("file", "who", "dir", "first_ns", "last_ns", "bytes", "loose_bytes")
    )
    task = inputs.of_who[who]
    host_of_who, host_names = pd.factorize(m.who["host"])
    host = host_of_who[who]
    code = np.unique(file)
    sides = {edge_table.READ: way == edge_table.READ, edge_table.WRITE: way == edge_table.WRITE}

    def of_way(direction: int, values: Array) -> Ints:
        return grouping.sums(file[sides[direction]], values[sides[direction]], size)[code]

    def tasks(direction: int) -> Ints:
        return grouping.distinct(file[sides[direction]], task[sides[direction]], size)[code]

    wrote = sides[edge_table.WRITE]
    begun = grouping.least(file[wrote], first[wrote], size, -1)[code]
    born = np.where(begun >= 0, begun, grouping.least(file, first, size, -1)[code])
    last_use = grouping.most(file, last, size, -1)[code]
    hosts = grouping.distinct(file, host, size)[code]
    read_bytes, written_bytes = of_way(edge_table.READ, moved), of_way(edge_table.WRITE, moved)
    readers, writers = tasks(edge_table.READ), tasks(edge_table.WRITE)
    known = np.maximum(_sizes(inputs, data, code), 0)
    unique = _unique(inputs, data, code)
    mapped = m.bursts["mapped_bytes"].to_numpy()[data]
    placed = (of_way(edge_table.READ, loose) == 0) & (grouping.sums(file, mapped, size)[code] == 0)
    reading = data & (m.bursts["dir"].to_numpy() == edge_table.READ)
    read = intervals.regrouped(m.table.extents, np.where(reading, m.bursts["file"].to_numpy(), -1))
    seen = intervals.length(intervals.union(read), size)[code]
    rewritten = written_bytes - of_way(edge_table.WRITE, loose) - _unique(inputs, data, code, edge_table.WRITE)
    removals = identities.removals(m.table)
    gone = grouping.most(removals["file"].to_numpy(), removals["ns"].to_numpy(), size, -1)[code]
    fates = stages.file_fates(m)
    never_read, removed, passed_on = (fates[name].to_numpy()[code] for name in ("never_read", "removed", "passed_on"))
    names = m.table.files["file"].to_numpy()[code]
    of_file = np.asarray(host_names, dtype=object)[host[grouping.firsts(file, size)[code]]]
    columns = {
        "last_use_ns": last_use,
        "hosts": hosts,
        "born_ns": born,
        "written_bytes": written_bytes,
        "read_bytes": read_bytes,
        "writers": writers,
        "readers": readers,
        "size": np.where(known == 0, np.maximum(written_bytes, read_bytes), known),
        "unique_bytes": unique,
        "unread_bytes": np.where(placed & (writers > 0), np.maximum(known - seen, 0), 0),
        "again_bytes": np.maximum(read_bytes - of_way(edge_table.READ, loose) - unique, 0),
        "rewritten_bytes": np.maximum(rewritten, 0),
        "gone_ns": gone,
        "live_ns": last_use - born,
        "never_read": never_read,
        "removed": removed,
        "intermediate": passed_on,
        "path": m.paths[code],
        "local": np.array([str(n).startswith(f"{h}:") for n, h in zip(names, of_file, strict=True)], dtype=np.bool_),
        "node_local": (hosts == 1) & (writers > 0) & (readers > 0),
    }
    return pd.DataFrame(columns, index=pd.Index(code, name="file"))


def _sizes(inputs: Inputs, data: Bools, code: Ints) -> Ints:
    """The end of the last known byte of each file of `code`."""
    ends = np.zeros(len(inputs.m.table.files), dtype=np.int64)
    extents = inputs.m.table.extents
    keep = data[extents.group]
    np.maximum.at(ends, inputs.m.bursts["file"].to_numpy()[extents.group[keep]], extents.end[keep])
    return ends[code]


def _unique(inputs: Inputs, data: Bools, code: Ints, way: int = edge_table.READ) -> Ints:
    """Distinct bytes that each task read (or wrote) of each version of each file, summed over the tasks."""
    reading = data & (inputs.m.bursts["dir"].to_numpy() == way)
    version = inputs.m.bursts["fresh"].groupby(inputs.m.bursts["file"]).cumsum().to_numpy()
    keys = pd.MultiIndex.from_arrays(
        [
            inputs.m.bursts["file"].to_numpy(),
            inputs.of_who[inputs.m.bursts["who"].to_numpy()],
            version if way == edge_table.WRITE else np.zeros(len(version), dtype=np.int64),
        ]
    )
    group, pairs = pd.factorize(keys)
    extents = inputs.m.table.extents
    keep = reading[extents.group]
    united = intervals.union(intervals.make(group[extents.group[keep]], extents.start[keep], extents.end[keep]))
    total = np.zeros(len(inputs.m.table.files), dtype=np.int64)
    np.add.at(total, pairs.get_level_values(0).to_numpy(), intervals.length(united, len(pairs)))
    return total[code]


# --- copies ----------------------------------------------------------------------------------------------------------


def _copies(inputs: Inputs) -> pd.DataFrame:
    """source, target (file codes), task, bytes, evidence (`KERNEL`, `COPIER`, `RANGES`); the largest first."""
    pairs = _alone(inputs)
    both = pairs.rename(columns={"file_read": "source", "file_written": "target"})[["source", "target"]]
    ranges = _ranges(inputs, both)
    rows = []
    for who, pair in zip(pairs.index.tolist(), pairs.to_dict("records"), strict=True):
        read, wrote = ranges.get((who, edge_table.READ)), ranges.get((who, edge_table.WRITE))
        same = intervals.total(read) if read is not None and wrote is not None and np.array_equal(read, wrote) else 0
        moved = int(pair["bytes_read"])
        once = same == moved and not pair["mapped_bytes_read"] + pair["mapped_bytes_written"]
        last = pair["calls_read"] - pair["calls_written"]  # the read that finds the end of the file
        ordered = last in (0, 1) and pair["calls_written"] > 1 and not pair["backward_read"] + pair["backward_written"]
        if pair["relayed_bytes_read"] == pair["relayed_bytes_written"] == moved > 0:
            evidence = KERNEL
        elif once and ordered and inputs.m.program(int(who)) in COPIERS:
            evidence = COPIER
        elif same:
            evidence, moved = RANGES, same
        else:
            continue
        rows.append((int(pair["file_read"]), int(pair["file_written"]), int(inputs.of_who[who]), moved, evidence))
    out = pd.DataFrame(rows, columns=["source", "target", "task", "bytes", "evidence"])
    out = out.astype(dict.fromkeys(("source", "target", "task", "bytes"), np.int64))
    return out.sort_values("bytes", ascending=False, kind="stable", ignore_index=True)


def _alone(inputs: Inputs) -> pd.DataFrame:
    """The actors that read one file, and wrote as many bytes of another one: file, and sums of `_COPIED`, of each
    side."""
    m = inputs.m
    kept = m.classed(("data", "stream")) & ((m.bursts["bytes"] > 0) | (m.bursts["mapped_bytes"] > 0)).to_numpy()
    data, who, file, way = _data(inputs)[kept], *(m.bursts[name].to_numpy()[kept] for name in ("who", "file", "dir"))
    values = {name: m.bursts[name].to_numpy()[kept] for name in _COPIED}
    size = len(m.who)
    columns: dict[str, Ints] = {}
    mine = np.ones(size, dtype=np.bool_)
    for side, direction in (("read", edge_table.READ), ("written", edge_table.WRITE)):
        rows = (way == direction) & (data | (direction == edge_table.READ))  # messages may go elsewhere
        least = grouping.least(who[rows], file[rows], size, -1)
        others = grouping.sums(who[rows], ~data[rows], size)
        mine &= (least >= 0) & (least == grouping.most(who[rows], file[rows], size, -1)) & (others == 0)
        columns[f"file_{side}"] = least
        columns.update((f"{name}_{side}", grouping.sums(who[rows], values[name][rows], size)) for name in _COPIED)
    mine &= columns["file_read"] != columns["file_written"]
    mine &= columns["bytes_read"] == columns["bytes_written"]
    actors = np.flatnonzero(mine)
    pairs: pd.DataFrame = pd.DataFrame({name: column[actors] for name, column in columns.items()}, index=actors)
    if len(pairs):
        some = np.flatnonzero(kept)[np.isin(who, actors)]
        bursts = m.bursts.iloc[some].assign(data=_data(inputs)[some]).sort_values("first_ns", kind="stable")
        before = bursts.groupby(["who", "file", "dir"])["to_offset"].shift(fill_value=0)
        back = bursts[(bursts["from_offset"] >= 0) & (bursts["from_offset"] < before)]
        for side, direction in (("read", edge_table.READ), ("written", edge_table.WRITE)):
            rows = (back["dir"] == direction) & (back["data"] | (direction == edge_table.READ))
            of = back["who"].to_numpy()[rows.to_numpy()]
            pairs[f"backward_{side}"] += np.bincount(of, minlength=size)[actors]
    return pairs


_COPIED = ("bytes", "calls", "mapped_bytes", "relayed_bytes", "backward")
"""What is summed of an actor's side."""


def _ranges(inputs: Inputs, both: pd.DataFrame) -> dict[tuple[int, int], Ints]:
    """(actor, direction) -> the united byte ranges of its one file, for the actors of `both` without loose bytes."""
    bursts = inputs.m.bursts
    who, direction, file = (bursts[name].to_numpy() for name in ("who", "dir", "file"))
    side = {edge_table.READ: both["source"], edge_table.WRITE: both["target"]}
    mine = np.zeros(len(bursts), dtype=np.bool_)
    for way, files in side.items():
        wanted = files.reindex(who, fill_value=-1).to_numpy()
        mine |= (direction == way) & (file == wanted)
    loose = set(who[mine & (bursts["loose_bytes"].to_numpy() > 0)].tolist())
    extents = inputs.m.table.extents
    keep = mine[extents.group]
    key = who[extents.group[keep]] * 2 + direction[extents.group[keep]]
    united = intervals.union(intervals.make(key, extents.start[keep], extents.end[keep]))
    found, first = np.unique(united.group, return_index=True)
    parts = np.split(np.column_stack((united.start, united.end)), first[1:])
    return {(int(k) // 2, int(k) % 2): part for k, part in zip(found, parts, strict=False) if int(k) // 2 not in loose}


# --- footprint -------------------------------------------------------------------------------------------------------


def _steps(begin: Ints, end: Ints, size: Ints) -> tuple[Ints, Ints]:
    """Times, and the bytes that exist from each on: begins count at their time, ends after it."""
    when = np.concatenate([begin, end + 1])
    change = np.concatenate([size, -size])
    order = np.argsort(when, kind="stable")
    when, level = when[order], np.cumsum(change[order])
    last = np.ones(len(when), dtype=np.bool_)
    last[:-1] = when[1:] != when[:-1]
    return when[last], level[last]


def _footprint(live: tuple[Ints, Ints], held: tuple[Ints, Ints]) -> pd.DataFrame:
    times = np.union1d(live[0], held[0])
    columns = {"time_ns": times}
    for name, (when, level) in (("live_bytes", live), ("held_bytes", held)):
        at = np.searchsorted(when, times, side="right") - 1
        columns[name] = np.where(at >= 0, level[np.maximum(at, 0)], 0) if len(when) else np.zeros(0, dtype=np.int64)
    out: pd.DataFrame = pd.DataFrame(columns)
    if len(out) > STEPS:
        # The highest step of each bucket is kept, so that a peak stays a peak.
        bucket = np.arange(len(out)) * (STEPS // 2) // len(out)
        keep = [out[name].groupby(bucket).idxmax() for name in ("live_bytes", "held_bytes")]
        out = out.loc[np.unique(np.concatenate([rows.to_numpy() for rows in keep]))].reset_index(drop=True)
    return out
