"""The parallel programs of a run: their ranks, how many there should be, on which hosts, and what differs between them.

    processes with a rank --parent of the same rank--> the first process of each rank --its parent--> launches
    launch and program of the first processes --> RankGroup, a row a rank, a Spread a figure

What a rank starts (a shell's commands, a worker's tasks) counts for the rank, whatever its tags are. A launch starts
its ranks of one host by one process. The parts of a launch on several hosts are told by their ranks: of those with the
same tags and number of ranks ("world size") each joins the first launch that has none of its ranks. So where two such
launches ran at once, untagged, on the same hosts, a part may be counted for the other one.

A rank that lacks in a group may be in another one of its launch (`mpirun -n 1 ./a : -n 3 ./b`), and is *missing* only
if none has it. Invariant: reads no events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table, file_classes
from tailrace.analyzer.insights.access_patterns import gini, outliers, plain_rows
from tailrace.analyzer.insights.call_costs import IMBALANCE
from tailrace.analyzer.insights.inputs import Inputs
from tailrace.analyzer.insights.views import program_document
from tailrace.analyzer.model import stages
from tailrace.analyzer.store import processes
from tailrace.analyzer.util.document import Document, Shown
from tailrace.analyzer.util.types import Ints

FIGURES = ("read_bytes", "written_bytes", "io_ns", "lasted_ns", "begin_ns")
"""What ranks are compared by; begin_ns: after the first rank's first call."""


@dataclass(frozen=True)
class Spread:
    """A figure over the ranks of a group: the least and the largest with their ranks, the median, Gini's coefficient
    (0: all alike, 1: one has it all), and the ranks far above the others, the largest first: `access_patterns.outliers`
    that have 15 % more than the median (Bez et al. 2022, Drishti), and of times a hundredth of the program's."""

    figure: str
    least: int
    least_rank: str
    median: int
    most: int
    most_rank: str
    gini: float
    far: list[str]


@dataclass(frozen=True, repr=False)
class RankGroup(Shown):
    """A parallel program. Times are ns since the epoch, spans ns.

    program: of the ranks' first processes, or where that is a shell, of what it started; workflow, stage, task: their
    tags, "" for none. world_size: how many ranks were started, None: not known. missing: ranks that are not in the
    trace, as [first, last]. hosts: by name. nodes, cores: what the task was given, by its manager; [] and None where
    that did not say. rows: a dict a rank, by number: rank, hosts, cpus (of its first process, as 0-3,8; "" where it is
    not known), processes, read_bytes, written_bytes (of files of data), io_ns (in which at least one of its processes
    was in a call on any file), begin_ns, end_ns (its first call's begin and its last one's end). spreads: none for a
    single rank.
    """

    program: str
    workflow: str
    stage: str
    task: str
    world_size: int | None
    missing: list[list[int]]
    hosts: list[str]
    nodes: list[str]
    cores: int | None
    processes: int
    begin_ns: int
    end_ns: int
    rows: list[dict[str, Any]]
    spreads: list[Spread]

    def document(self) -> Document:
        """What is shown of it."""
        return program_document(self)

    @property
    def ranks(self) -> int:
        """How many ranks are in the trace. Darshan's records of files that ranks share are of none."""
        return sum(row["rank"].isdigit() for row in self.rows)

    @property
    def lacking(self) -> int:
        """How many ranks are missing."""
        return sum(last - first + 1 for first, last in self.missing)


_ROW = ["rank", "hosts", "cpus", "processes", "read_bytes", "written_bytes", "io_ns", "begin_ns", "end_ns"]
_TAGS = ["workflow", "stage", "task"]
_LEAST_SHARE = 0.01
_UNFILLED = 64
"""Launches of one kind that are looked at for a part."""
_LAUNCH = [*_TAGS, "size", "launch"]


def rank_groups(inputs: Inputs) -> list[RankGroup]:
    """The parallel programs by their first call. inputs: with the table `ranks` (`Run.process_ranks`)."""
    members = _members(inputs)
    if not len(members):
        return []
    code, cells = edge_table.codes(members[[*_LAUNCH, "program", "rank"]])
    cells = cells.assign(**_figures(inputs, members["process"].to_numpy(dtype=np.int64), code, len(cells)))
    hosts = inputs.m.who["host"].astype(str).to_numpy(dtype=object)[members["actor"].to_numpy(dtype=np.int64)]
    cells["hosts"] = pd.Series(hosts).groupby(code).agg(lambda of: sorted(set(of)))
    cells["cpus"] = members["cpus"].groupby(code).first()
    cells["processes"] = np.bincount(code, minlength=len(cells))
    # Plain dicts: there may be as many launches as processes.
    launches: dict[tuple[Any, ...], dict[str, list[dict[str, Any]]]] = {}
    rows = plain_rows(cells[_ROW])
    for launch, program, row in zip(
        zip(*(cells[name] for name in _LAUNCH), strict=True), cells["program"], rows, strict=True
    ):
        launches.setdefault(launch, {}).setdefault(str(program), []).append(row)
    given = _given(inputs)
    found = []
    for launch, programs in launches.items():
        missing = _missing([row["rank"] for rows in programs.values() for row in rows], int(launch[3]))
        found += [_group(program, launch, missing, rows, given) for program, rows in programs.items()]
    return sorted(found, key=lambda group: (group.begin_ns, group.task, group.program))


def _members(inputs: Inputs) -> pd.DataFrame:
    """The processes with a rank: process (position in `Inputs.lives`), actor (its first), rank, and of the first
    process of the rank the tags, size (of the world, 0: not known) and program."""
    table, m, lives = inputs.tables.get("ranks"), inputs.m, inputs.lives
    if table is None or not len(table):
        return pd.DataFrame()
    first = [actors[0] for actors in lives.actors]
    place = {key: at for at, key in enumerate(processes.keys(m.who.iloc[first]))}
    table = table[[key in place for key in processes.keys(table)]]
    at = [place[key] for key in processes.keys(table)]
    ranks = list(zip(table["rank"].astype(str), table["world_size"].fillna(0).clip(0).astype(int), strict=True))
    starters = _starters(inputs, at)
    parent = _parents(inputs, at, ranks, starters)
    root = list(range(len(at)))
    for row in np.argsort(lives.begun[at], kind="stable").tolist():
        root[row] = row if parent[row] < 0 else root[parent[row]]
    names, cpus = _programs(inputs, at, parent), _cpus(inputs, first)
    tags = m.who.iloc[[first[at[row]] for row in root]][_TAGS].reset_index(drop=True)
    members: pd.DataFrame = tags.assign(
        process=at,
        actor=[first[process] for process in at],
        rank=[rank for rank, _ in ranks],
        size=[size for _, size in ranks],
        program=[names[row] for row in root],
        cpus=[cpus[at[row]] for row in root],
    )
    begun = lives.begun[[at[row] for row in root]]
    members["launch"] = _launches(members, [starters[row] for row in root], begun)
    return members


def _starters(inputs: Inputs, at: Sequence[int]) -> list[tuple[str, int]]:
    """Host and pid of the parent of each of these processes; -1: not known."""
    first = [inputs.lives.first(process) for process in at]
    known = inputs.m.processes[inputs.m.processes["ppid"].notna()]
    parent_of = dict(zip(processes.keys(known), known["ppid"].astype(int).tolist(), strict=True))
    return [(key[0], parent_of.get(key, -1)) for key in processes.keys(inputs.m.who.iloc[first])]


def _parents(
    inputs: Inputs, at: Sequence[int], ranks: Sequence[tuple[str, int]], starters: Sequence[tuple[str, int]]
) -> list[int]:
    """Which of these processes made each one, where that has the same rank of the same world; -1: none."""
    pids = inputs.m.who["pid"].to_numpy()
    parent = [-1] * len(at)
    last_of: dict[tuple[str, int], int] = {}
    for row in np.argsort(inputs.lives.begun[at], kind="stable").tolist():
        maker = last_of.get(starters[row])
        if maker is not None and ranks[maker] == ranks[row]:
            parent[row] = maker
        last_of[starters[row][0], int(pids[inputs.lives.first(at[row])])] = row
    return parent


def _programs(inputs: Inputs, at: Sequence[int], parent: Sequence[int]) -> list[str]:
    """The program of each of these processes; of what only starts another one, that of its longest child."""
    lives = inputs.lives
    exes = inputs.m.who["exe"].iloc[[lives.last(process) for process in at]]
    names = [file_classes.program(str(exe)) or "?" for exe in exes]
    lasted = (lives.over - lives.begun)[at]
    longest: dict[int, int] = {}
    for row in np.argsort(lasted, kind="stable").tolist():
        longest[parent[row]] = row
    # A child began after its parent.
    for row in np.argsort(-lives.begun[at], kind="stable").tolist():
        if names[row] in file_classes.STARTERS and row in longest:
            names[row] = names[longest[row]]
    return names


def _cpus(inputs: Inputs, first: Sequence[int]) -> list[str]:
    """The processors that each process might run on. first: the first actor of each."""
    known = inputs.m.processes
    if "cpus" not in known:
        return [""] * len(first)
    cpus = dict(zip(processes.keys(known), known["cpus"].fillna("").tolist(), strict=True))
    return [str(cpus.get(key, "")) for key in processes.keys(inputs.m.who.iloc[list(first)])]


def _given(inputs: Inputs) -> dict[tuple[str, str], tuple[list[str], int | None]]:
    """(workflow, task) -> the nodes and cores that its manager declared."""
    tasks = inputs.tables.get("declared_tasks")
    if tasks is None or "nodes" not in tasks or "cores" not in tasks:
        return {}
    found = {}
    for workflow, task, nodes, cores in zip(
        *(tasks[name] for name in ("workflow", "task", "nodes", "cores")), strict=True
    ):
        names = [str(node) for node in nodes] if isinstance(nodes, list) else []
        found[str(workflow or ""), str(task)] = (names, None if pd.isna(cores) else int(cores))
    return found


def _launches(members: pd.DataFrame, starters: Sequence[tuple[str, int]], begun: Ints) -> list[int]:
    """The launch of each member, as a number among those of the same tags and size. starters: host and pid of what
    started its rank; begun: when that began."""
    of_part: dict[tuple[Any, ...], list[int]] = {}
    worlds = list(members[[*_TAGS, "size"]].itertuples(index=False, name=None))
    for row in np.argsort(begun, kind="stable").tolist():
        of_part.setdefault((worlds[row], starters[row]), []).append(row)
    ranks = members["rank"].tolist()
    unfilled: dict[Any, dict[int, set[str]]] = {}
    out = [0] * len(members)
    for number, ((world, _), rows) in enumerate(of_part.items()):
        mine = {ranks[row] for row in rows}
        launches = unfilled.setdefault(world, {})
        launch = next((at for at, have in launches.items() if not have & mine), number)
        have = launches.setdefault(launch, set())
        have |= mine
        if len(have) == world[-1]:
            del launches[launch]
        elif len(launches) > _UNFILLED:
            del launches[next(iter(launches))]
        for row in rows:
            out[row] = launch
    return out


def _figures(inputs: Inputs, process: Ints, code: Ints, count: int) -> dict[str, Ints]:
    """Of each code, of these processes: bytes of data, time in calls on files, first and last call."""
    m = inputs.m
    of_process = np.full(len(inputs.lives.actors), -1, dtype=np.int64)
    of_process[process] = code
    group = of_process[inputs.lives.process]
    data = m.bursts[m.classed(("data",)) & (group[m.bursts["who"].to_numpy()] >= 0)]
    out = {name: np.zeros(count, dtype=np.int64) for name in ("read_bytes", "written_bytes")}
    for direction, sums in zip((edge_table.READ, edge_table.WRITE), out.values(), strict=True):
        rows = data[data["dir"] == direction]
        np.add.at(sums, group[rows["who"].to_numpy()], rows["bytes"].to_numpy())
    counts = m.table.counts
    of_row = group[counts["who"].to_numpy()]
    mine = of_row >= 0
    begin, end = np.full(count, np.iinfo(np.int64).max), np.zeros(count, dtype=np.int64)
    np.minimum.at(begin, of_row[mine], counts["first_ns"].to_numpy()[mine])
    np.maximum.at(end, of_row[mine], counts["last_ns"].to_numpy()[mine])
    return {**out, "io_ns": stages.covered(m, group, edge_table.FILES, count), "begin_ns": begin, "end_ns": end}


def _missing(ranks: Sequence[str], size: int) -> list[list[int]]:
    """The ranks of a world that are not among these, as [first, last]; none where they are numbered otherwise."""
    if not size or any(not rank.isdigit() or int(rank) >= size for rank in ranks):
        return []
    have = [-1, *sorted({int(rank) for rank in ranks}), size]
    return [[low + 1, high - 1] for low, high in pairwise(have) if high - low > 1]


def _group(
    program: str,
    launch: Sequence[Any],
    missing: list[list[int]],
    rows: list[dict[str, Any]],
    given: Mapping[tuple[str, str], tuple[list[str], int | None]],
) -> RankGroup:
    workflow, stage, task, size, _ = launch
    nodes, cores = given.get((str(workflow), str(task)), ([], None))
    ordered = sorted(rows, key=lambda row: _by_number(row["rank"]))
    numbered = [row for row in ordered if row["rank"].isdigit()]
    begin = min(row["begin_ns"] for row in rows)
    return RankGroup(
        program=program,
        workflow=str(workflow),
        stage=str(stage),
        task=str(task),
        world_size=int(size) or None,
        missing=missing,
        hosts=sorted({host for row in rows for host in row["hosts"]}),
        nodes=nodes,
        cores=cores,
        processes=sum(row["processes"] for row in rows),
        begin_ns=begin,
        end_ns=max(row["end_ns"] for row in rows),
        rows=ordered,
        spreads=[_spread(name, numbered, begin) for name in FIGURES] if len(numbered) > 1 else [],
    )


def _by_number(rank: str) -> tuple[bool, int, str]:
    return not rank.isdigit(), int(rank) if rank.isdigit() else 0, rank


def _spread(figure: str, rows: Sequence[Mapping[str, Any]], begin_ns: int) -> Spread:
    lasted = max(row["end_ns"] for row in rows) - begin_ns
    if figure == "lasted_ns":
        values = [row["end_ns"] - row["begin_ns"] for row in rows]
    else:
        values = [row[figure] - (begin_ns if figure == "begin_ns" else 0) for row in rows]
    names = [row["rank"] for row in rows]
    least, most = values.index(min(values)), values.index(max(values))
    numbers, middle = np.array(values, dtype=np.int64), int(median(values))
    # Where most ranks are alike, a byte more would be far from them, and a millisecond of an hour.
    least_gap = _LEAST_SHARE * lasted if figure.endswith("_ns") else 0.0
    far = [at for at in outliers(numbers)[0] if values[at] - middle > max(IMBALANCE * values[at], least_gap)]
    return Spread(
        figure=figure,
        least=values[least],
        least_rank=names[least],
        median=middle,
        most=values[most],
        most_rank=names[most],
        gini=gini(numbers),
        far=[names[at] for at in far],
    )
