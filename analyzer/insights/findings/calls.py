"""Findings about calls: small, random, repeated or failing ones, and their buffers."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table, file_classes
from tailrace.analyzer.insights import access_costs, call_costs, call_places, lost_writes, polls, whatif
from tailrace.analyzer.insights.access_costs import COPY_RATE, DENSE, LARGE_BYTES, LEAST_CALLS, METADATA_NS, SHORT_NS
from tailrace.analyzer.insights.access_order import RANDOM_SHARE
from tailrace.analyzer.insights.access_patterns import FLUSHES, STREAM_FLUSHES, ranks_of
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.finding import (
    EVIDENCE,
    IO,
    LEAST,
    TIME,
    Evidence,
    Match,
    Rule,
    Threshold,
    more,
    rows_of,
)
from tailrace.analyzer.insights.findings.files import named_after
from tailrace.analyzer.insights.inputs import FLOOR_BYTES
from tailrace.analyzer.insights.selections import Selection
from tailrace.analyzer.insights.whatif import Gain
from tailrace.analyzer.model import calls
from tailrace.analyzer.store.loader import Part
from tailrace.analyzer.util import grouping, intervals
from tailrace.analyzer.util.formatting import bytes_text, count_text, time_text
from tailrace.analyzer.util.intervals import Intervals
from tailrace.analyzer.util.types import Bools, Row

DATA_CALLS = Threshold(1000, "calls")


def call_matches(
    found: Analyses, rows: pd.DataFrame, gain_ns: int, calls: Intervals, title: Callable[[Row, int], str]
) -> Iterator[Match]:
    """One match for rows of `Costs.small` or `Costs.scattered`. title: of the first one, and how many there are."""
    rows = found.of_users(rows)
    gain_ns = min(gain_ns, int(rows["gain_ns"].sum())) if len(rows) else 0
    if not len(rows) or rows["calls"].sum() < DATA_CALLS.value or not LEAST.reached(gain_ns, found.inputs.makespan_ns):
        return
    top: Row = rows.iloc[0].to_dict()
    direction = str(top["direction"])[0]
    path = str(top["path"])
    place = call_places.words(found.call_places, int(top["stage_code"]), path=path, direction=direction)
    gain = found.replays.without(calls, gain_ns)
    yield Match(
        title=title(top, len(rows)) + place,
        names={
            "stage": found.of_stage(str(top["stage"])),
            "direction": direction,
            "path": path,
        },
        **gain.costs,
        count=len(rows),
        evidence=rows_of(rows.drop(columns="stage_code")),
        tasks=found.tasks_of_stages(set(rows["stage_code"])),
        where=f"in {top['stage']}",
    )


def of_stages(
    found: Analyses,
    rows: pd.DataFrame,
    title: Callable[[Row, int], str],
    names: Mapping[str, str] | None = None,
    calls: Mapping[str, Any] | None = None,
    kinds: Sequence[int] = (),
) -> Iterator[Match]:
    """One match for rows of a table of call_costs.py by gain_ns, if the run could be shorter by `LEAST`. calls:
    which of the first row's stage they are, for `call_places.longest`; kinds: of whose time its gain is
    a share; without them it is a bound."""
    rows = found.of_users(rows)
    cost = min(int(rows["gain_ns"].sum()), found.inputs.makespan_ns) if len(rows) else 0
    if not LEAST.reached(cost, found.inputs.makespan_ns):
        return
    top: Row = rows.iloc[0].to_dict()
    chosen: dict[str, str | list[str]] = {"stage": found.of_stage(str(top["stage"])), **(names or {})}
    place = call_places.words(found.call_places, int(top["stage_code"]), **calls) if calls else ""
    gain = found.replays.without(call_costs.left_out(found.inputs, rows, kinds), cost) if kinds else Gain(cost, 0, cost)
    yield Match(
        title=title(top, len(rows)) + place,
        names=chosen,
        **gain.costs,
        count=len(rows),
        evidence=rows_of(rows.drop(columns="stage_code")),
        tasks=found.tasks_of_stages(set(rows["stage_code"])),
        where=f"in {top['stage']}",
    )


_AT_RANDOM = (
    "Read the part of the file that is used into memory once, or map it (mmap); or sort the accesses by offset. A"
    " buffer does not serve jumps: each drops it."
)

_SYNCHRONOUS = (
    "Open it without O_SYNC and O_DSYNC, where a crash of the node may cost the last records (one fdatasync at the end"
    " or at a checkpoint keeps the rest), or let more pass in a call."
)


def small_calls(found: Analyses) -> Iterator[Match]:
    """All stages that do so, as one match."""
    costs = found.access_costs
    for match in call_matches(found, costs.small, costs.small_gain_ns, costs.small_calls, _small_calls_title):
        top: Row = found.of_users(costs.small).iloc[0].to_dict()
        flag = _synchronous(found, int(top["stage_code"]), str(top["path"])) if top["direction"] == "write" else ""
        if flag:
            title = f"{match.title}; it was opened with {flag}: each write waits for the device"
            yield replace(match, title=title, advice=_SYNCHRONOUS)
        else:
            yield replace(match, advice=_AT_RANDOM, change="reading the range once") if top["random"] else match


def _synchronous(found: Analyses, stage: int, path: str) -> str:
    """The flag with which the processes of a stage opened a file such that each write waits for the device; "" without
    one."""
    inputs, m = found.inputs, found.inputs.m
    bursts = m.bursts
    mine = (m.paths[bursts["file"].to_numpy()] == path) & (bursts["dir"] == edge_table.WRITE).to_numpy()
    users = np.unique(bursts["who"].to_numpy()[mine])
    users = users[call_costs.stage_of_who(inputs)[users] == stage]
    if inputs.run is None or not len(users):
        return ""
    # What the one does with a file of this name, the others do, too.
    events = m.table.counts.groupby("who")["calls"].sum().reindex(users, fill_value=0)
    who = np.zeros(len(m.who), dtype=np.bool_)
    who[int(users[events.to_numpy().argmin()])] = True
    if int(events.min()) > MOST_EVENTS:
        return ""
    rows = calls.events(inputs.run, m, who, ["name", "path", "flags", "errno"], _synchronous_of_part)
    flags = rows.loc[rows["path"].astype(str) == path, "flags"].tolist() if len(rows) else []
    return "" if not flags else "O_SYNC" if all(flag & os.O_SYNC == os.O_SYNC for flag in flags) else "O_DSYNC"


def _synchronous_of_part(part: Part) -> pd.DataFrame:
    """The opens of a partition with which each write waits."""
    frame = part()
    flags = frame["flags"].fillna(0).astype(np.int64)
    opened = frame["name"].astype(str).str.startswith("open") & (frame["errno"].fillna(0) == 0)
    rows = frame[(opened & (flags & os.O_DSYNC != 0)).to_numpy(dtype=np.bool_)]
    return rows.assign(
        flags=flags[rows.index], **{name: rows[name].astype(object) for name in edge_table.WHO if name != "pid"}
    )


def _small_calls_title(top: Row, count: int) -> str:
    random = " at random offsets" if top["random"] else ""
    size, took = bytes_text(float(top["mean_bytes"])), time_text(int(top["time_ns"]))
    return (
        f"{top['stage']}: {top['calls']:,} {top['direction']} calls of {size} on average{random}, on"
        f" {count_text(int(top['files']), 'file')} (most on {top['path']}), took {took};"
        f" {count_text(int(top['needed']), 'call')} of {bytes_text(LARGE_BYTES)} would do{more(count)}"
    )


SMALL_CALLS = Rule(
    kind="small calls",
    about=TIME,
    title="Data read or written in small calls",
    definition=(
        f"A process read or wrote a file of data in {LEAST_CALLS} calls or more of less than"
        f" {bytes_text(FLOOR_BYTES)} (a page) on average, and most of them less: one after the other, or at random"
        f" offsets of a range at most {DENSE} times as large as what it moved. The estimate is the time for which such"
        f" calls ran, less what moving the bytes takes at least ({COPY_RATE} GB/s), and less the share of the calls"
        f" that are needed in calls of {bytes_text(LARGE_BYTES)}. Of the file with most calls it is told if it was"
        " opened with O_SYNC or O_DSYNC."
    ),
    advice=(
        "Let more pass in a call: a larger buffer (setvbuf, open(..., buffering=), std::ifstream's pubsetbuf, dd bs=,"
        " HDF5's chunk cache), whole files or large parts at once instead of lines and fields."
    ),
    source="Bez et al. 2022 (Drishti); Xu et al. 2017 (DXT)",
    query="tailrace query {run} {stage} --where dir={direction} --by size:log2,path --agg count --agg sum:dur",
    find=small_calls,
    thresholds=(DATA_CALLS, LEAST),
    change="larger calls",
    explains=(IO,),
)


def random_offsets(found: Analyses) -> Iterator[Match]:
    """All stages that do so, as one match."""
    costs = found.access_costs
    yield from call_matches(
        found, costs.scattered, costs.scattered_gain_ns, costs.scattered_calls, _random_offsets_title
    )


def _random_offsets_title(top: Row, count: int) -> str:
    size, took = bytes_text(float(top["mean_bytes"])), time_text(int(top["time_ns"]))
    return (
        f"{top['stage']}: {top['calls']:,} {top['direction']} calls of {size} on average at random offsets of"
        f" {count_text(int(top['files']), 'file')} (most of {top['path']}) took {took}{more(count)}"
    )


RANDOM_OFFSETS = Rule(
    kind="random offsets",
    about=TIME,
    title="Data read or written at random offsets",
    definition=(
        f"Of a process's calls on a file of data, {LEAST_CALLS} or more and smaller than {bytes_text(LARGE_BYTES)} on"
        f" average, more than {RANDOM_SHARE:.0%} began before the end of the one before, and no buffer serves them:"
        " they are not small, or spread over more than they move. The estimate is the time for which such calls ran,"
        f" less what moving the bytes takes at least ({COPY_RATE} GB/s), and less the share of those that are"
        f" needed in calls of {bytes_text(LARGE_BYTES)}."
    ),
    advice=(
        "Sort the accesses by offset, read the part of the file that is used into memory once, store what is used"
        " together next to each other (HDF5: chunks in the shape of the accesses), or use node-local flash."
    ),
    source="Bez et al. 2022 (Drishti)",
    query=(
        "tailrace query {run} {stage} --path {path} --where dir={direction} --columns ts,path,offset,size,dur"
        " --sort -ts --limit 50"
    ),
    find=random_offsets,
    thresholds=(DATA_CALLS, LEAST),
    change="calls in the order of the file",
    explains=(IO,),
)


FLUSH_CALLS = Threshold(100, "flushes in a stage")


def many_flushes(found: Analyses) -> Iterator[Match]:
    """All stages that do so, as one match."""
    rows = _needless(call_costs.flushes(found.inputs), FLUSH_CALLS)
    yield from of_stages(found, rows, _many_flushes_title, calls={"names": FLUSHES}, kinds=(edge_table.META,))


def _needless(rows: pd.DataFrame, least: Threshold) -> pd.DataFrame:
    """The stages with so many flushes, of which half or less are needed."""
    return rows[(rows["calls"] >= least.value) & (rows["calls"] >= 2 * rows["needed"])] if len(rows) else rows


def _many_flushes_title(top: Row, count: int) -> str:
    calls = int(top["calls"])
    return (
        f"{top['stage']}: {calls:,} flushes to disk (fsync and the like), one for each"
        f" {bytes_text(int(top['written_bytes']) / calls)} written, took {time_text(int(top['time_ns']))};"
        f" {count_text(int(top['needed']), 'flush', 'es')}, one a file, would do{more(count)}"
    )


MANY_FLUSHES = Rule(
    kind="many flushes",
    about=TIME,
    title="Data forced to disk again and again",
    definition=(
        "The processes of a stage called fsync, fdatasync, sync, syncfs, sync_file_range or msync"
        f" {FLUSH_CALLS.value:g} times or more, and at least twice as often as they wrote files. The estimate is the"
        " time in these calls, less the share of one flush for each process and file that it wrote."
    ),
    advice=(
        "Flush once, when a file is complete, or after a batch of records; let a database commit many changes in one"
        " transaction (SQLite: BEGIN ... COMMIT, journal_mode=WAL, synchronous=NORMAL); drop O_SYNC."
    ),
    source="fsync(2): it returns when the device has the data; Carns et al. 2011 (Darshan counts it per file)",
    query="tailrace query {run} {stage} --where 'name=*sync*' --by name,path --agg count --agg sum:dur --sort sum_dur",
    find=many_flushes,
    thresholds=(FLUSH_CALLS, LEAST),
    change="fewer flushes",
    explains=(IO,),
)


STREAM_FLUSH_CALLS = Threshold(1000, "flushes in a stage")


def stream_flushes(found: Analyses) -> Iterator[Match]:
    """All stages that do so, as one match."""
    rows = _needless(call_costs.stream_flushes(found.inputs), STREAM_FLUSH_CALLS)
    calls = {"names": STREAM_FLUSHES}
    yield from of_stages(found, rows, _stream_flushes_title, calls=calls, kinds=(edge_table.META,))


def _stream_flushes_title(top: Row, count: int) -> str:
    calls = int(top["calls"])
    return (
        f"{top['stage']}: {calls:,} calls of fflush, one for each {bytes_text(int(top['written_bytes']) / calls)}"
        f" written, took {time_text(int(top['time_ns']))}: each is a call to the kernel, where a full buffer would be"
        f" {int(top['needed']):,}{more(count)}"
    )


STREAM_FLUSHED = Rule(
    kind="stream flushes",
    about=TIME,
    title="Streams of the C library that are flushed again and again",
    definition=(
        f"The processes of a stage called fflush {STREAM_FLUSH_CALLS.value:g} times or more, and at least twice for"
        f" each {bytes_text(FLOOR_BYTES)} that they wrote. The estimate is the time in these calls, less the share of"
        " one for each such page."
    ),
    advice=(
        "Leave the flush out, or flush where somebody must see the output (a prompt, a checkpoint); in a log that must"
        " be whole after a crash each record's flush is its price."
    ),
    source="fflush(3): what the buffer holds goes to the kernel; setvbuf(3)",
    query="tailrace query {run} {stage} --where name=fflush --by path --agg count --agg sum:dur",
    find=stream_flushes,
    thresholds=(STREAM_FLUSH_CALLS, LEAST),
    change="fewer flushes",
    explains=(IO, "stream buffers"),
)


METADATA_CALLS = Threshold(1000, "calls")


_REMEDIES = (
    (
        "open|close|creat",
        "Open a file once and keep it open, or put many small files into one (tar, HDF5, a database).",
    ),
    (
        "stat|access|readlink|readdir|opendir|scandir|getdents",
        "List a directory once instead of looking up each name, keep what was found, and shorten search paths (PATH,"
        " PYTHONPATH, LD_LIBRARY_PATH).",
    ),
    ("fcntl|lock", "Let a database do many statements in one transaction: it locks its file in each."),
    ("unlink|remove|rename|link|mkdir|rmdir|mknod|utime|chmod|chown", "Make fewer files: one for many records."),
)
"""Parts of names of functions, and what makes such calls fewer."""


def metadata_load(found: Analyses) -> Iterator[Match]:
    """All stages and programs, as one match."""
    rows = found.of_users(found.access_costs.metadata)
    rows = rows[(rows["calls"] >= METADATA_CALLS.value).to_numpy()] if len(rows) else rows
    cost = min(found.access_costs.metadata_gain_ns, int(rows["time_ns"].sum())) if len(rows) else 0
    if not len(rows) or not LEAST.reached(cost, found.inputs.makespan_ns):
        return
    top, gain = rows.iloc[0], found.replays.without(found.access_costs.metadata_calls, cost)
    program = "" if top["program"] in ("?", *str(top["stage"]).strip("()").split()) else f" by {top['program']}"
    unused = int(top["unused_opens"])
    opens = f"; {count_text(unused, 'open')} moved nothing" if unused * 10 > int(top["calls"]) else ""
    yield Match(
        title=f"{top['stage']}: {top['calls']:,} metadata calls (mostly {top['names']}){program}, beside"
        f" {count_text(int(top['data_calls']), 'call')} for data, took {time_text(int(top['time_ns']))}{opens}"
        f"{more(len(rows))}{call_places.words(found.call_places, int(top['stage_code']), direction='')}",
        names={"stage": found.of_stage(str(top["stage"]))},
        **gain.costs,
        count=len(rows),
        evidence=rows_of(rows.drop(columns="stage_code")),
        tasks=found.tasks_of_stages(set(rows["stage_code"])),
        where=f"in {top['stage']}",
        advice=" ".join(words for names, words in _REMEDIES if re.search(names, str(top["names"]))),
    )


METADATA_LOAD = Rule(
    kind="metadata load",
    about=TIME,
    title="Time in calls on names and directories",
    definition=(
        "A program made more calls that open, close, look up, list, lock or change files than reads and writes, or"
        f" spent {time_text(METADATA_NS)} in them, and lived longer than {time_text(SHORT_NS)}; seeks, flushes and"
        " waits for locks do not count, nor does the time in which a program loads itself and its modules, or a program"
        " that opens hardly any data. The estimate is the time for which at least one such call of these programs was"
        " running."
    ),
    advice=" ".join(words for _, words in _REMEDIES),
    source="Bez et al. 2022 (Drishti: 30 s of metadata)",
    query="tailrace query {run} {stage} --by name --agg count --agg sum:dur --where 'size=' --sort sum_dur",
    find=metadata_load,
    thresholds=(METADATA_CALLS, LEAST),
    change="fewer calls on names",
    explains=(IO,),
)


SEEK_CALLS = Threshold(1000, "seeks in a stage")


def useless_seeks(found: Analyses) -> Iterator[Match]:
    """All stages that do so, as one match."""
    rows = call_costs.seeks(found.inputs)
    rows = rows[(rows["seeks"] >= SEEK_CALLS.value) & (rows["useless"] * 2 > rows["seeks"])] if len(rows) else rows
    names = call_costs.event_names(found.inputs, "seek")
    yield from of_stages(found, rows, _useless_seeks_title, calls={"names": names}, kinds=(edge_table.META,))


def _useless_seeks_title(top: Row, count: int) -> str:
    return (
        f"{top['stage']}: at least {top['useless']:,} of {top['seeks']:,} seeks went where the file was already, or"
        f" only asked for the place, and took {time_text(int(top['gain_ns']))}{more(count)}"
    )


USELESS_SEEKS = Rule(
    kind="useless seeks",
    about=TIME,
    title="Seeks that change nothing",
    definition=(
        f"More than half of {SEEK_CALLS.value:g} seeks or more of a stage are beyond what its accesses need: one for"
        " each access that does not begin where the one before ended, and one for each open. The estimate is the time"
        " in seeks by their share."
    ),
    advice=(
        "Seek only to go elsewhere: drop lseek and tell() before each call and count the place in the program, or give"
        " the offset in the call (pread, pwrite; os.pread)."
    ),
    source="Carns et al. 2011 (Darshan counts seeks); lseek(2)",
    query="tailrace query {run} {stage} --where 'name=*seek*' --by name,path --agg count --agg sum:dur",
    find=useless_seeks,
    thresholds=(SEEK_CALLS, LEAST),
    change="no seeks",
    explains=(IO,),
)


SHARE = Threshold(10, "% of all bytes read and written")
STREAMED = Threshold(32, "MiB in a stage")


def stream_buffers(found: Analyses) -> Iterator[Match]:
    """All stages that do so, as one match."""
    rows = call_costs.streams(found.inputs)
    if len(rows):
        much = (rows["bytes"] >= STREAMED.value * 2**20) & (rows["bytes"] >= SHARE.value / 100 * found.moved_bytes)
        rows = rows[much]
    moves = (edge_table.READ, edge_table.WRITE)
    yield from of_stages(found, rows, _stream_buffers_title, calls={"names": call_costs.STREAM}, kinds=moves)


def _stream_buffers_title(top: Row, count: int) -> str:
    moved, mean = bytes_text(int(top["bytes"])), bytes_text(float(top["mean_bytes"]))
    return (
        f"{top['stage']}: {moved} went through streams of the C library in {top['calls']:,} calls of {mean} on average,"
        f" which took {time_text(int(top['time_ns']))}; with the usual buffer that is a call to the kernel for each"
        f" {bytes_text(FLOOR_BYTES)}, {top['kernel_calls']:,} in all{more(count)}"
    )


STREAM_BUFFERS = Rule(
    kind="stream buffers",
    about=TIME,
    title="Much data through small buffers of the C library",
    definition=(
        f"Processes moved {STREAMED} or more, and {SHARE}, through stdio (fread, fwrite, fgets, fprintf, ...) in calls"
        f" smaller than {bytes_text(FLOOR_BYTES)} on average. General tools (sort, uniq) are left out, and processes"
        " that jump in their files, since a seek drops the buffer. The estimate is at most"
        f" {time_text(call_costs.KERNEL_CALL_NS)} for each call to the kernel, and at most the time in these calls."
    ),
    advice=(
        "Give the stream a buffer of your own of 1 MiB before its first use (setvbuf(file, buffer, _IOFBF, 1 << 20);"
        " glibc ignores the size where the buffer is NULL), read and write whole arrays with one fread or fwrite, or"
        " use read(2), write(2) or mmap with large parts."
    ),
    source="Bez et al. 2022 (Drishti: stdio from 10% of the bytes on); setvbuf(3)",
    query="tailrace query {run} {stage} --where cat=STDIO --by name,path --agg count --agg sum:size --agg sum:dur",
    find=stream_buffers,
    thresholds=(STREAMED, SHARE, LEAST),
    change="larger buffers",
    explains=(IO,),
)


SHARED_CALLS = Threshold(1000, "calls on the file")


def shared_file(found: Analyses) -> Iterator[Match]:
    """All such files, as one match."""
    rows = call_costs.shared(found.inputs)
    rows = rows[rows["calls"] >= SHARED_CALLS.value] if len(rows) else rows
    names = {"path": str(rows["path"].iat[0])} if len(rows) else {}
    calls = {**names, "direction": "w"}
    yield from of_stages(found, rows, _shared_file_title, names, calls, kinds=(edge_table.WRITE,))


def _shared_file_title(top: Row, count: int) -> str:
    return (
        f"{top['stage']}: {top['processes']:,} processes at once wrote {top['path']} in {top['calls']:,} calls of"
        f" {bytes_text(float(top['mean_bytes']))} on average, which took {time_text(int(top['time_ns']))}{more(count)}"
    )


SHARED_FILE = Rule(
    kind="shared file",
    about=TIME,
    title="Several processes that write one file at once in small calls",
    definition=(
        f"{call_costs.WRITERS} or more processes of a stage wrote one file of data during the same time, in"
        f" {SHARED_CALLS.value:g} calls or more of less than {bytes_text(LARGE_BYTES)} on average: each waits for the"
        " file's lock. The estimate is the time in which such a call was running, less what moving the bytes takes at"
        f" least ({COPY_RATE} GB/s), and less the share of the calls that are needed in calls of"
        f" {bytes_text(LARGE_BYTES)}."
    ),
    advice=(
        "Collect the parts in one process, or in few, before they are written (MPI_File_write_all, a queue to one"
        " writer), write large parts that begin at multiples of the file system's block or stripe, or give each process"
        " a file of its own."
    ),
    source="Bez et al. 2022 (Drishti: small requests to a shared file)",
    query="tailrace query {run} {stage} --path {path} --where dir=w --by host,pid --agg count --agg sum:size",
    find=shared_file,
    thresholds=(SHARED_CALLS, LEAST),
    change="a file for each writer",
    explains=(IO,),
)


MPIIO_CALLS = Threshold(1000, "calls in a stage")


def independent_mpiio(found: Analyses) -> Iterator[Match]:
    """All stages that do so, as one match."""
    rows = call_costs.independent(found.inputs)
    rows = rows[rows["independent"] >= MPIIO_CALLS.value] if len(rows) else rows
    calls = {"names": call_costs.event_names(found.inputs, call_costs.MPI)}
    yield from of_stages(found, rows, _independent_mpiio_title, calls=calls, kinds=(edge_table.READ, edge_table.WRITE))


def _independent_mpiio_title(top: Row, count: int) -> str:
    together = int(top["collective"])
    beside = f", beside {together:,} collective ones" if together else ""
    return (
        f"{top['stage']}: {top['processes']:,} processes read or wrote by MPI-IO in {top['independent']:,} independent"
        f" calls{beside}{more(count)}"
    )


INDEPENDENT_MPIIO = Rule(
    kind="independent MPI-IO",
    about=TIME,
    title="MPI-IO without its collective calls",
    definition=(
        f"Of the reads and writes that several processes of a stage made by MPI-IO, {MPIIO_CALLS.value:g} or more and"
        f" over {call_costs.INDEPENDENT_SHARE:.0%} are independent (MPI_File_write and the like, not"
        " MPI_File_write_all). The estimate is the time in which one of these processes was reading or writing, by the"
        " share of these calls."
    ),
    advice=(
        "Use the collective forms (MPI_File_write_all, MPI_File_read_at_all; parallel HDF5:"
        " H5Pset_dxpl_mpio(..., H5FD_MPIO_COLLECTIVE)), so that a few ranks make large calls for all."
    ),
    source="Bez et al. 2022 (Drishti: from 50% independent calls on)",
    query="tailrace query {run} {stage} --where cat=MPIIO --by name,rank --agg count --agg sum:size",
    find=independent_mpiio,
    thresholds=(MPIIO_CALLS, LEAST),
    change="collective calls",
    explains=(IO,),
)


FAILED_CALLS = Threshold(100, "failed reads or writes, or 1000 failed look-ups")
LOOKUPS = 1000
MOST_EVENTS = 1_000_000
"""Of the processes whose events are read for the reason; past it those with most events are left out."""
OF_DATA = "Mend what makes them fail: what they were for is done in another way, or not at all."
OF_ERROR = {
    errno.EINVAL: (
        "Mend what makes them fail; with O_DIRECT address, offset and length are multiples of the block"
        " (posix_memalign, `stat -c %o`)."
    ),
    **dict.fromkeys(lost_writes.REASONS, "Make room or raise the quota, and check the results of writes and of close."),
    errno.EIO: "The device or the file system failed: see the kernel's log (dmesg), and copy what can still be read.",
    errno.EBADF: "The descriptor is closed, or open for the other direction alone: open the file for both (O_RDWR).",
    errno.EISDIR: "It is a directory: list it, or name a file in it.",
}
OF_LOOK_UP = dict.fromkeys((errno.EACCES, errno.EPERM), "Grant the permission (chmod, ACLs), or leave them out.")
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


def failing_calls(found: Analyses) -> Iterator[Match]:
    """Reads and writes as one match, look-ups as another one."""
    rows = _failed(found)
    if not len(rows):
        return
    moves = rows["dir"].notna().to_numpy(dtype=np.bool_)
    told = {(one.task, one.path, one.errno) for one in found.lost_writes}
    keys = zip(rows["task"].tolist(), rows["path"].tolist(), rows["errno"].tolist(), strict=True)
    untold = moves & [key not in told for key in keys]
    yield from _match(found, rows[untold], FAILED_CALLS.value, is_fault=True)
    # What asks for the journal of its database looks in the one place that there is.
    known = frozenset(map(str, found.inputs.m.paths))
    beside = named_after(rows["path"].fillna("").astype(str), known)
    yield from _match(found, rows[~moves & ~beside & ~_software(rows["path"])], LOOKUPS, is_fault=False)


def _match(found: Analyses, rows: pd.DataFrame, least: float, is_fault: bool) -> Iterator[Match]:
    sums = rows.groupby(["task", "program", "name", "errno"], as_index=False).agg(
        calls=("calls", "sum"), cost_ns=("dur", "sum"), files=("path", "nunique"), path=("path", "first")
    )
    sums = sums[sums["calls"] >= least].sort_values("calls", ascending=False, kind="stable", ignore_index=True)
    cost = int(sums["cost_ns"].sum())
    if not len(sums) or (not is_fault and not LEAST.reached(cost, found.inputs.makespan_ns)):
        return
    top, gain = sums.iloc[0], found.replays.without(_failing_left_out(found, rows), min(cost, found.inputs.makespan_ns))
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
        **gain.costs,
        count=len(sums),
        evidence=rows_of(sums.assign(task=[found.inputs.called(int(one)) for one in sums["task"]])),
        tasks=set(sums["task"].tolist()),
        fault=is_fault,
        advice=_advice(int(top["errno"]), is_fault, maker),
        change="" if maker < 0 else "waiting without looking",
        where=f"in {task}",
    )


def _advice(code: int, is_fault: bool, maker: int) -> str:
    """What to do about calls that fail for a reason; maker: the task that they wait for, -1: none."""
    if is_fault:
        return OF_ERROR.get(code, OF_DATA)
    return OF_WAITS if maker >= 0 else OF_LOOK_UP.get(code, OF_NAMES)


def _awaited(found: Analyses, task: int, code: int, counts: pd.Series[int]) -> int:
    """The task that made the path at which nearly all of a task's look-ups failed since it was not there; -1: none."""
    if code != errno.ENOENT or counts.max() < MOST * counts.sum():
        return -1
    inputs = found.inputs
    maker, _ = polls.maker_of(inputs, str(counts.idxmax()), inputs.start_ns, inputs.end_ns, absent=True)
    return maker if maker != task else -1


def _failing_left_out(found: Analyses, rows: pd.DataFrame) -> intervals.Intervals:
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
    many = many[(data & (many["failed"] >= FAILED_CALLS.value)) | (many["failed"] >= LOOKUPS)]
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
    return rows.assign(
        task=inputs.of_who[who], program=[file_classes.program(str(exe)) for exe in programs]
    ).reset_index(drop=True)


def _of_part(part: Part) -> pd.DataFrame:
    """The failed calls of a partition by their actor, name, path and reason."""
    frame = part()
    opened = frame[frame["flags"].fillna(0).astype(np.int64) & os.O_DIRECT != 0]
    direct = set(zip(opened["host"].astype(str), opened["pid"], opened["path"].astype(str), strict=True))
    reason = frame["errno"].fillna(0)
    answered = frame["name"].astype(str).str.contains("xattr", regex=False) & reason.isin(ANSWERS)
    failed = frame[reason.gt(0) & ~reason.isin(EXPECTED) & ~answered]
    if not len(failed):
        return pd.DataFrame()
    by = [*edge_table.WHO, "name", "path", "dir", "errno"]
    rows = failed.assign(**{name: failed[name].astype(object) for name in by if name not in ("pid", "errno")})
    rows["calls"] = rows["calls"].fillna(1).clip(lower=1)
    places = zip(rows["host"].astype(str), rows["pid"], rows["path"].astype(str), strict=True)
    rows["direct"] = [place in direct for place in places]
    return rows.groupby([*by, "direct"], dropna=False, as_index=False)[["calls", "dur"]].sum()


FAILING_CALLS = Rule(
    kind="failing calls",
    about=TIME,
    title="Calls that fail again and again",
    definition=(
        f"A task's program made {FAILED_CALLS} of one kind that failed for the same reason. Reads and writes that fail"
        " are told whatever they cost, but not again those of lost data. Look-ups of names that"
        " are not there count by their time; those of libraries and modules belong to the start-up of their program."
        " Calls that would have had to wait (EAGAIN, EINTR), or whose other end was gone (EPIPE), are no such. The cost"
        " is the time in these calls."
    ),
    advice=f"{OF_ERROR[errno.EINVAL]} {OF_NAMES}",
    source="errno(3), open(2): O_DIRECT",
    query="tailrace query {run} {task} --name {name} --where errno={errno} --by path --agg count --agg sum:dur",
    find=failing_calls,
    thresholds=(FAILED_CALLS,),
    change="no calls that fail",
    explains=(IO, "metadata load"),
)


AMPLIFIED = Threshold(4, "times the bytes that were asked for")


def read_amplification(found: Analyses) -> Iterator[Match]:
    """All such reads, as one match."""
    inputs = found.inputs
    rows = [one for one in found.selections if 0 < AMPLIFIED.value * one.given_bytes <= one.read_bytes]
    cost = min(sum(map(_gain, rows)), inputs.makespan_ns)
    if not LEAST.reached(cost, inputs.makespan_ns):
        return
    rows.sort(key=lambda one: -_gain(one))
    top, gain = rows[0], found.replays.without(intervals.joined([*map(_amplified_left_out, rows)]), cost)
    part = f", {top.shape} of {top.dims} each" if top.shape and top.dims else ""
    chunks = f" (chunks of {top.chunk})" if top.chunk else ""
    yield Match(
        title=f"{inputs.called(top.task)} read {bytes_text(top.given_bytes)} of the dataset {top.dataset}{chunks} by"
        f" {count_text(top.calls, 'call')}{part}, for which {bytes_text(top.read_bytes)} of {top.path} were read, in"
        f" {time_text(top.time_ns)}{more(len(rows))}",
        names={"path": top.path},
        **gain.costs,
        count=len(rows),
        evidence=[
            Evidence(
                task=inputs.called(one.task), path=one.path, dataset=one.dataset, calls=one.calls, time_ns=one.time_ns
            )
            for one in rows[:EVIDENCE]
        ],
        tasks={one.task for one in rows},
        where=f"of {top.path.rpartition('/')[2]}",
    )


def _gain(one: Selection) -> int:
    return int(one.time_ns * (1 - one.given_bytes / one.read_bytes))


def _amplified_left_out(one: Selection) -> intervals.Intervals:
    begin, end = one.times.T
    weight = ((end - begin) * (1 - one.given_bytes / one.read_bytes)).astype(np.int64)
    return intervals.make(np.full(len(begin), one.task, dtype=np.int64), begin, end, weight)


READ_AMPLIFICATION = Rule(
    kind="read amplification",
    about=TIME,
    title="Parts of HDF5 datasets for which much more of the file was read",
    definition=(
        f"H5Dread gave bytes of datasets, and at least {AMPLIFIED} were read of the file: a chunk is read and expanded"
        " whole, and again where the cache does not hold it until the next call. The estimate is the time in these"
        " calls, less the share of what was asked for."
    ),
    advice=(
        "Select more in a call, as much as a row of chunks has; enlarge the chunk cache until it holds the chunks of a"
        " selection (H5Pset_chunk_cache, h5py's rdcc_nbytes); or store the dataset in chunks that are shaped like what"
        " is read (h5repack -l)."
    ),
    source="The HDF Group, Chunking in HDF5; H5Pset_chunk_cache",
    query="tailrace query {run} --path {path} --where dir=r --by cat,name --agg count --agg sum:size --agg sum:dur",
    find=read_amplification,
    thresholds=(AMPLIFIED, LEAST),
    change="reads that fit the chunks",
    explains=(IO, "repeated reads", "random offsets", "small calls"),
)


PIPE_WRITES = Threshold(10_000, "writes to a pipe")
PIPE_BYTES = 64 << 10
"""What a pipe holds: a call of so many bytes costs little more than the transfer."""


def _by(name: str, program: str) -> str:
    """Which program of a task it was, where its name does not say it."""
    return "" if program in (*name.split(), "?") else f" by {program}"


class _PipeWriter(NamedTuple):
    task: int
    program: str
    calls: int
    bytes: int
    needed: int
    time_ns: int
    gain_ns: int


def small_pipe_writes(found: Analyses) -> Iterator[Match]:
    """All writers, as one match."""
    inputs, m = found.inputs, found.inputs.m
    bursts = m.bursts
    writes = m.of_type("fifo") & (bursts["dir"] == edge_table.WRITE).to_numpy()
    pick = writes & inputs.works[inputs.of_who[bursts["who"]]]
    pick &= ~m.of_manager[bursts["who"].to_numpy()]
    key, uses = edge_table.codes(bursts[pick][edge_table.BURST_KEY])
    sums = {name: grouping.sums(key, bursts[pick][name].to_numpy(), len(uses)) for name in ("calls", "bytes")}
    pick[pick] = access_costs.smaller_calls(inputs, uses.assign(**sums))[key]
    counts = m.table.counts[m.table.counts["kind"] == edge_table.STREAM]
    buffered = counts.groupby("who")["buffered_calls"].sum().to_dict()
    rows: list[_PipeWriter] = []
    tasks: set[int] = set()
    left_out: list[intervals.Intervals] = []
    whole: list[intervals.Intervals] = []
    for actor, mine in grouping.parts(bursts[pick], "who"):
        calls, moved = int(mine["calls"].sum()), int(mine["bytes"].sum())
        if calls < PIPE_WRITES.value or buffered.get(actor, 0) * 2 > calls:
            continue
        task = int(inputs.of_who[actor])
        cover = whatif.io_cover(inputs, pick & (bursts["who"] == actor).to_numpy())
        took = int(cover.length()[task])
        needed = max(-(-moved // PIPE_BYTES), 1)
        program = m.program(actor) or "?"
        # What is no time on a processor is spent waiting for the reader, which larger writes do as well.
        own = float(inputs.time.told["stime_ns"][inputs.lives.process[actor]])
        busy = min(took, own) if own > 0 else took
        share = float(access_costs.saved(busy, calls, moved, needed))
        gain = int(busy * share)
        rows.append(_PipeWriter(task, program, calls, moved, needed, took, gain))
        tasks.add(task)
        left_out.append(cover.rows._replace(weight=(cover.rows.weight * (gain / max(took, 1))).astype(np.int64)))
        whole.append(cover.rows)
    rows.sort(key=lambda row: -row.gain_ns)
    cost = min(sum(row.gain_ns for row in rows), inputs.makespan_ns)
    if not LEAST.reached(cost, inputs.makespan_ns):
        return
    top = rows[0]
    saved = found.replays.without(intervals.joined(left_out), cost, intervals.joined(whole))
    name = inputs.called(top.task)
    by = _by(name, top.program)
    yield Match(
        title=f"{name}: {top.calls:,} writes{by} of {bytes_text(top.bytes / top.calls)} on average to a pipe took"
        f" {time_text(top.time_ns)}; {count_text(top.needed, 'write')} of {bytes_text(PIPE_BYTES)} would"
        f" do{more(len(rows))}",
        names={"task": found.of_task(top.task)},
        **saved.costs,
        count=len(rows),
        evidence=[{**row._asdict(), "task": inputs.called(row.task)} for row in rows[:5]],
        tasks=tasks,
        where=f"in {name}",
    )


SMALL_PIPE_WRITES = Rule(
    kind="small pipe writes",
    about=TIME,
    title="Data passed through a pipe in small pieces",
    definition=(
        f"A program made {PIPE_WRITES} or more past the C library's buffers, of less than {bytes_text(FLOOR_BYTES)} on"
        " average, and most of them less: each is a call to the kernel and may wake the reader. The estimate is the"
        " system time of the program, at most the time in these calls, less what moving the bytes takes at least"
        f" ({access_costs.COPY_RATE} GB/s), and less the share of those that are needed in calls of"
        f" {bytes_text(PIPE_BYTES)}, which a pipe holds: the rest of the time in them it waits for its reader."
    ),
    advice=(
        "Let the program buffer what it writes: no `python -u` and no flush for each line, sys.stdout.write in place of"
        " os.write, `stdbuf -o64K`, setvbuf, print(..., end='') of many lines at once."
    ),
    source="pipe(7): a pipe holds 64 KiB; setvbuf(3)",
    query="tailrace query {run} {task} --where dir=w --where ftype=fifo --by path,size:log2 --agg count --agg sum:dur",
    find=small_pipe_writes,
    thresholds=(PIPE_WRITES, LEAST),
    change="larger writes to the pipe",
    explains=(IO,),
)


REQUESTS = Threshold(10_000, "requests")


class _Client(NamedTuple):
    task: int
    program: str
    server: str
    requests: int
    answers: int
    mean_bytes: float
    time_ns: int
    lasted_ns: int


class _Way(NamedTuple):
    """What an actor moved one way; file: the channel with most calls."""

    calls: int
    bytes: int
    first_ns: int
    file: int

    @classmethod
    def of(cls, rows: pd.DataFrame) -> _Way:
        most = int(rows["file"].to_numpy()[rows["calls"].to_numpy().argmax()])
        return cls(int(rows["calls"].sum()), int(rows["bytes"].sum()), int(rows["first_ns"].min()), most)


def round_trips(found: Analyses) -> Iterator[Match]:
    """All clients, as one match."""
    inputs, bursts = found.inputs, found.inputs.m.bursts
    rows: list[_Client] = []
    left_out: list[intervals.Intervals] = []
    whole: list[intervals.Intervals] = []
    for actor, pick, sent, got in _conversations(found):
        task = int(inputs.of_who[actor])
        cover = whatif.io_cover(inputs, pick)
        begun, over = int(bursts["first_ns"][pick].min()), int(bursts["last_ns"][pick].max())
        moved = (sent.bytes + got.bytes) / (sent.calls + got.calls)
        program = inputs.m.program(actor) or "?"
        address = str(inputs.m.paths[sent.file]).rpartition("->")[2]
        address = address.partition("] ")[2] or address  # of a Unix socket
        took = int(cover.length()[task])
        rows.append(_Client(task, program, address, sent.calls, got.calls, moved, took, over - begun))
        left_out.append(cover.rows)
        whole.append(intervals.make(*(np.array([at], dtype=np.int64) for at in (task, begun, over))))
    rows.sort(key=lambda row: -row.time_ns)
    cost = min(sum(row.time_ns for row in rows), inputs.makespan_ns)
    if not LEAST.reached(cost, inputs.makespan_ns):
        return
    top = rows[0]
    gain = found.replays.without(intervals.joined(left_out), cost, intervals.joined(whole))
    name = inputs.called(top.task)
    by = _by(name, top.program)
    yield Match(
        title=f"{name}: {top.requests:,} requests{by} to {top.server}, and as many answers, of"
        f" {bytes_text(top.mean_bytes)} on average, one after the other, took {time_text(top.time_ns)} in"
        f" {time_text(top.lasted_ns)}{more(len(rows))}",
        names={"task": found.of_task(top.task)},
        **gain.costs,
        count=len(rows),
        evidence=[{**row._asdict(), "task": inputs.called(row.task)} for row in rows[:EVIDENCE]],
        tasks={row.task for row in rows},
        where=f"in {name}",
    )


def _conversations(found: Analyses) -> Iterator[tuple[int, Bools, _Way, _Way]]:
    """The actors that sent many small requests and got an answer to each: which bursts these are, what they sent and
    what they got. The ranks of a parallel program talk to each other, and are left out."""
    inputs, m = found.inputs, found.inputs.m
    sock = m.of_type("sock") & inputs.works[inputs.of_who[m.bursts["who"]]] & ~m.of_manager[m.bursts["who"].to_numpy()]
    sock &= (ranks_of(inputs) == "")[m.bursts["who"].to_numpy()]
    how = {"calls": "sum", "bytes": "sum", "first_ns": "min"}
    rows = m.bursts[sock].groupby(["who", "dir", "file"]).agg(how).reset_index()
    small = (rows["calls"] >= REQUESTS.value) & (rows["bytes"] < FLOOR_BYTES * rows["calls"])
    for actor, mine in grouping.parts(rows[small.to_numpy()], "who"):
        ways = dict(grouping.parts(mine, "dir"))
        if len(ways) < 2:
            continue
        sent, got = (_Way.of(ways[way]) for way in (edge_table.WRITE, edge_table.READ))
        if sent.first_ns < got.first_ns and got.calls <= 2 * sent.calls <= 4 * got.calls:
            here = (m.bursts["who"] == actor).to_numpy() & m.bursts["file"].isin(mine["file"]).to_numpy()
            yield actor, sock & here, sent, got


ROUND_TRIPS = Rule(
    kind="round trips",
    about=TIME,
    title="Small requests, each of which waits for its answer",
    definition=(
        f"A program sent {REQUESTS} of less than {bytes_text(FLOOR_BYTES)} on average over a connection, and read"
        " about as many answers, as small: each costs a switch to the server and back, whatever is asked. The ranks of"
        " a parallel program are left out. The estimate is the time in these calls; at most it is all of the time from"
        " the first request to the last answer."
    ),
    advice=(
        "Send many requests before the first answer is read, or ask for more in one: pipelines (redis-cli --pipe,"
        " libpq's pipeline mode), COPY or executemany, bulk and batch calls, ranges in place of single keys."
    ),
    source="Redis, Pipelining; PostgreSQL, 34.5 Pipeline Mode; RFC 9112, 9.3.2",
    query="tailrace query {run} {task} --by path,dir --agg count --agg sum:size --agg sum:dur",
    find=round_trips,
    thresholds=(REQUESTS, LEAST),
    change="fewer round trips",
    explains=(IO, "waiting for a server"),
)

RULES = (
    SMALL_CALLS,
    RANDOM_OFFSETS,
    MANY_FLUSHES,
    STREAM_FLUSHED,
    METADATA_LOAD,
    USELESS_SEEKS,
    STREAM_BUFFERS,
    SHARED_FILE,
    INDEPENDENT_MPIIO,
    FAILING_CALLS,
    READ_AMPLIFICATION,
    SMALL_PIPE_WRITES,
    ROUND_TRIPS,
)
