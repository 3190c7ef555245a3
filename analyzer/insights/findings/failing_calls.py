"""Calls that fail again and again."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table, file_classes
from tailrace.analyzer.insights import polls
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import IO, LEAST, TIME, Match, Rule, Threshold, more, rows_of
from tailrace.analyzer.insights.findings import _files
from tailrace.analyzer.model import calls
from tailrace.analyzer.store.loader import Part
from tailrace.analyzer.util import grouping, intervals
from tailrace.analyzer.util.formatting import time_text
from tailrace.analyzer.util.types import Bools

CALLS = Threshold(100, "failed reads or writes, or 1000 failed look-ups")
LOOKUPS = 1000
MOST_EVENTS = 1_000_000
"""Of the processes whose events are read for the reason; past it those with most events are left out."""
OF_DATA = (
    "Mend what makes them fail; with O_DIRECT address, offset and length are multiples of the block (posix_memalign,"
    " `stat -c %o`)."
)
OF_NAMES = "Look in fewer places, or list a directory once and look up names in that."
OF_WAITS = (
    "The loop waits for that file, and takes a processor meanwhile: declare that the one task depends on the other, or"
    " start it when the other one is over."
)
EXPECTED = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.EINTR, errno.EPIPE, errno.ECONNRESET, errno.EINPROGRESS})
"""How calls end that wait for nothing, or whose other end went: no fault of the call."""
ANSWERS = frozenset({errno.ENODATA, errno.EOPNOTSUPP})
"""What a look-up of an attribute that a file does not have returns (getxattr(2)): `ls -l` asks for each file."""
MOST = 0.9
"""Of the calls, that are in a directory that is named for them."""
_COLUMNS = ["name", "path", "dir", "dur", "errno", "flags", "calls"]


def find(found: Analyses) -> Iterator[Match]:
    """Reads and writes as one match, look-ups as another one."""
    rows = _failed(found)
    if not len(rows):
        return
    moves = rows["dir"].notna().to_numpy(dtype=np.bool_)
    yield from _match(found, rows[moves], CALLS.value, is_fault=True)
    # What asks for the journal of its database looks in the one place that there is.
    known = frozenset(map(str, found.inputs.m.paths))
    beside = _files.named_after(rows["path"].fillna("").astype(str), known)
    yield from _match(found, rows[~moves & ~beside & ~_software(rows["path"])], LOOKUPS, is_fault=False)


def _match(found: Analyses, rows: pd.DataFrame, least: float, is_fault: bool) -> Iterator[Match]:
    sums = rows.groupby(["task", "program", "name", "errno"], as_index=False).agg(
        calls=("calls", "sum"), cost_ns=("dur", "sum"), files=("path", "nunique"), path=("path", "first")
    )
    sums = sums[sums["calls"] >= least].sort_values("calls", ascending=False, kind="stable", ignore_index=True)
    cost = int(sums["cost_ns"].sum())
    if not len(sums) or (not is_fault and not LEAST.reached(cost, found.inputs.makespan_ns)):
        return
    top, gain = sums.iloc[0], found.replays.without(_left_out(found, rows), min(cost, found.inputs.makespan_ns))
    task, program = found.inputs.called(int(top["task"])), str(top["program"])
    by = "" if program in task or not program else f" by {program}"
    mine = rows[(rows["task"] == top["task"]) & (rows["name"] == top["name"]) & (rows["errno"] == top["errno"])]
    counts = mine.assign(path=mine["path"].astype(str)).groupby("path")["calls"].sum()
    where = _where(counts)
    maker = -1 if is_fault else _awaited(found, int(top["task"]), int(top["errno"]), counts)
    until = f", until {found.inputs.called(maker)} made it" if maker >= 0 else ""
    reason = f"{errno.errorcode.get(int(top['errno']), top['errno'])} ({os.strerror(int(top['errno']))})"
    is_direct = is_fault and int(top["errno"]) == errno.EINVAL and bool(mine["direct"].all())
    why = "; the file is open with O_DIRECT, which takes blocks at multiples of their size" if is_direct else ""
    yield Match(
        title=f"{task}: {int(top['calls']):,} calls of {top['name']}{by} on {where} failed with {reason}{until}, and"
        f" took {time_text(int(top['cost_ns']))}{why}{more(len(sums))}",
        names={
            "task": found.of_task(int(top["task"])),
            "name": str(top["name"]),
            "errno": str(int(top["errno"])),
        },
        cost_ns=gain.ns,
        least_ns=gain.least_ns,
        most_ns=gain.most_ns,
        estimate=True,
        count=len(sums),
        evidence=rows_of(sums.assign(task=[found.inputs.called(int(one)) for one in sums["task"]])),
        tasks=set(sums["task"].tolist()),
        fault=is_fault,
        advice=OF_DATA if is_fault else OF_WAITS if maker >= 0 else OF_NAMES,
        change="" if maker < 0 else "waiting without looking",
        where=f"in {task}",
    )


def _awaited(found: Analyses, task: int, code: int, counts: pd.Series[int]) -> int:
    """The task that made the path at which nearly all of a task's look-ups failed since it was not there; -1: none."""
    if code != errno.ENOENT or counts.max() < MOST * counts.sum():
        return -1
    inputs = found.inputs
    maker, _ = polls.maker_of(inputs, str(counts.idxmax()), inputs.start_ns, inputs.end_ns, absent=True)
    return maker if maker != task else -1


def _left_out(found: Analyses, rows: pd.DataFrame) -> intervals.Intervals:
    """When their programs were in calls of the kind, by weight how long in those that failed."""
    m = found.inputs.m
    who, took = (rows[name].to_numpy(dtype=np.int64) for name in ("who", "dur"))
    every = grouping.sums(who, took, len(m.who))
    times = edge_table.spent(m.table.busy, edge_table.FILES, np.where(every > 0, np.arange(len(every)), -1))
    share = np.minimum(every / np.maximum(intervals.length(times, len(every)), 1), 1)
    return intervals.parts(times, share, found.inputs.of_who)


def _where(counts: pd.Series[int]) -> str:
    """One path, or the directory in which most of several are (index: paths)."""
    if len(counts) == 1:
        return str(counts.index[0])
    parent, rest = "", counts
    while True:
        below = rest.groupby([path[len(parent) + 1 :].partition("/")[0] for path in rest.index]).sum()
        top = str(below.idxmax())
        inside = rest[[path.startswith(f"{parent}/{top}/") for path in rest.index]]
        if int(inside.sum()) < MOST * int(counts.sum()):
            return f"{parent or '/'} ({len(rest):,} names in it)"
        parent, rest = f"{parent}/{top}", inside


def _software(paths: pd.Series) -> Bools:
    """Whether each is where programs look for their libraries and modules."""
    wanted = [
        bool(file_classes.SOFTWARE_PATHS.search(path) or file_classes.SYSTEM_PATHS.search(path))
        for path in paths.fillna("").astype(str)
    ]
    return np.array(wanted, dtype=np.bool_)


def _failed(found: Analyses) -> pd.DataFrame:
    """name, path, dir, errno, calls, dur, direct (its file was opened with O_DIRECT), task, program: failed calls of
    processes with many."""
    inputs, m = found.inputs, found.inputs.m
    none: pd.DataFrame = pd.DataFrame()
    functions = m.table.functions
    many = functions[functions["failed"] > 0].groupby(["who", "kind"])["failed"].sum().reset_index()
    data = many["kind"].isin((edge_table.READ, edge_table.WRITE))
    many = many[(data & (many["failed"] >= CALLS.value)) | (many["failed"] >= LOOKUPS)]
    users = many["who"].unique()
    users = users[inputs.works[inputs.of_who[users]] & ~m.of_manager[users]] if len(users) else users
    events = m.table.counts.groupby("who")["calls"].sum().reindex(users, fill_value=0).sort_values()
    chosen = events.index[events.cumsum() <= MOST_EVENTS].to_numpy(dtype=np.int64)
    if inputs.run is None or not len(chosen):
        return none
    mine = np.zeros(len(m.who), dtype=np.bool_)
    mine[chosen] = True
    rows = calls.events(inputs.run, m, mine, _COLUMNS, _of_part)
    if not len(rows):
        return none
    who = rows["who"].to_numpy(dtype=np.int64)
    programs = m.who["exe"].to_numpy()[who]
    out: pd.DataFrame = rows.assign(
        task=inputs.of_who[who], program=[file_classes.program(str(exe)) for exe in programs]
    ).reset_index(drop=True)
    return out


def _of_part(part: Part) -> pd.DataFrame:
    """The failed calls of a partition by their actor, name, path and reason."""
    frame = part()
    opened = frame[frame["flags"].fillna(0).astype(np.int64) & os.O_DIRECT != 0]
    direct = set(zip(opened["host"].astype(str), opened["pid"], opened["path"].astype(str), strict=True))
    reason = frame["errno"].fillna(0)
    answered = frame["name"].astype(str).str.contains("xattr", regex=False) & reason.isin(ANSWERS)
    failed = frame[reason.gt(0) & ~reason.isin(EXPECTED) & ~answered]
    if not len(failed):
        none: pd.DataFrame = pd.DataFrame()
        return none
    by = [*edge_table.WHO, "name", "path", "dir", "errno"]
    rows = failed.assign(**{name: failed[name].astype(object) for name in by if name not in ("pid", "errno")})
    rows["calls"] = rows["calls"].fillna(1).clip(lower=1)
    places = zip(rows["host"].astype(str), rows["pid"], rows["path"].astype(str), strict=True)
    rows["direct"] = [place in direct for place in places]
    sums: pd.DataFrame = rows.groupby([*by, "direct"], dropna=False, as_index=False)[["calls", "dur"]].sum()
    return sums


RULE = Rule(
    kind="failing calls",
    about=TIME,
    title="Calls that fail again and again",
    definition=(
        f"A task's program made {CALLS} of one kind that failed for the same reason. Reads and writes that fail are"
        " told whatever they cost: what they were for is done in another way, or not at all. Look-ups of names that are"
        " not there count by their time; those of libraries and modules belong to the start-up of their program. Calls"
        " that would have had to wait (EAGAIN, EINTR), or whose other end was gone (EPIPE), are no such. The cost is"
        " the time in these calls."
    ),
    advice=f"{OF_DATA} {OF_NAMES}",
    source="errno(3), open(2): O_DIRECT",
    query="tailrace query {run} {task} --name {name} --where errno={errno} --by path --agg count --agg sum:dur",
    find=find,
    thresholds=(CALLS,),
    change="no calls that fail",
    explains=(IO, "metadata load"),
)
