"""A run as a timeline in Chrome's trace event format, for https://ui.perfetto.dev and chrome://tracing.

    https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU

A task (or an untagged process) is a track group, named "stage / task"; it has its slice, from its first event to its
last, and one track a thread. A flow arrow goes from the producer's write to the consumer's read, one a (producer,
consumer, version of a file): from the last write that was over when the reading began, else from the first write to the
last read. A flow whose calls are not among the events is an instant on the consumer's track instead, which says why in
its arguments. The first track group has the bandwidth of each stage (bandwidth_counters.py).

What failed has the category `failed` beside its own, and another name (`openat (ENOENT)`, `stage / task (failed)`),
since viewers colour slices by their names.

Times are us with three decimals since the run's first event, whose time stands in `otherData`: as us since the epoch
they would not fit a double. Events are written a partition at a time; memory grows with tasks, threads and flows only.
"""

from __future__ import annotations

import errno as errnos
import json
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple, TextIO

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table, identities
from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.exports.bandwidth_counters import counters
from tailrace.analyzer.exports.format import Format
from tailrace.analyzer.insights import command_lines
from tailrace.analyzer.model import dataflow, outcomes
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.store import engine, processes
from tailrace.analyzer.store.loader import Part
from tailrace.analyzer.store.processes import Process
from tailrace.analyzer.util.formatting import count_text
from tailrace.analyzer.util.types import Ints, Json
from tailrace.base.text import clean

SOCKET = "sock"
COLUMNS = [
    *edge_table.WHO,
    *(
        "name",
        "cat",
        "ts",
        "dur",
        "tid",
        "path",
        "path2",
        "file",
        "file2",
        "ftype",
        "offset",
        "size",
        "errno",
        "calls",
        "span",
    ),
]

Thread = tuple[int, Process, int]
"""(track group, process, tid)"""
Ends = dict[tuple[Process, str, int], list[tuple[int, str]]]
"""(process, file, ns at which the call began or ended) -> [(flow, "s" or "f")]. The file is "" for a connection, which
has an identity of its own beside those of the sockets at its ends."""


def write(run: AnalyzedRun, file: TextIO) -> list[str]:
    """Writes {"otherData", "displayTimeUnit", "traceEvents"}, one event a line; returns what is not in it, in words."""
    m = dataflow.model(run)
    code, activities = dataflow.activities(m, "task")
    counts = m.table.counts
    origin = int(counts["first_ns"].min()) if len(counts) else 0
    last = int(counts["last_ns"].max()) if len(counts) else 0
    ends, flows = _flow_ends(m, code)
    pids = zip(processes.keys(m.who), processes.pid_texts(m.who), strict=True)
    called = {key: f"{key[0]} {pid}" for key, pid in pids}
    activity_of = {
        tuple(row): int(code[i]) for i, row in enumerate(m.who[edge_table.WHO].itertuples(index=False, name=None))
    }
    about = {"run": str(run.meta.get("run_id") or ""), "t0_ns": str(origin), "flows": len(flows)}
    file.write('{"displayTimeUnit":"ns","otherData":' + json.dumps(about) + ',"traceEvents":[\n')
    file.write(",\n".join(_tasks(m, code, activities, origin, _ends(run))))
    for line in counters(m, len(activities) + 1, origin, last):
        file.write(",\n" + line)
    tracks = _Tracks()
    for line in _threads(m, code, called, tracks):
        file.write(",\n" + line)
    drawn: dict[int, set[str]] = {}
    for events in _partitions(run):
        for line in _lines(events, activity_of, origin, ends, tracks, drawn):
            file.write(",\n" + line)
    missing = [flow for flow in flows if len(drawn.get(flow.number, ())) < 2]
    for line in _explained(m, activities, missing, drawn, origin):
        file.write(",\n" + line)
    file.write("\n]}\n")
    return (
        [f"without an arrow, since their calls were not found: {count_text(len(missing), 'flow')}"] if missing else []
    )


class _Flow(NamedTuple):
    """number: its id; producer, consumer: activities; file: its position; at_ns: when the consumer read."""

    number: int
    producer: int
    consumer: int
    file: int
    bytes: int
    at_ns: int


def _explained(
    m: Model, activities: pd.DataFrame, flows: list[_Flow], drawn: dict[int, set[str]], origin: int
) -> Iterator[str]:
    """An instant on the consumer's own track for each flow without an arrow."""
    for flow in flows:
        group = flow.consumer + 1
        have = drawn.get(flow.number, set())
        ends = [what for way, what in (("s", "write"), ("f", "read")) if way not in have]
        calls = " and that of the ".join(ends)
        why = f"the call of the {calls} is not among the events: lost, damaged, or a part of other calls"
        about = {
            "from": _group_name(activities, flow.producer),
            "path": clean(str(m.paths[flow.file])),
            "bytes": flow.bytes,
            "why there is no arrow": why,
        }
        head = f'"pid":{group},"tid":{group},"ts":{_us(flow.at_ns - origin)},"s":"t"'
        yield f'{{"ph":"i","cat":"dataflow","name":"data without an arrow",{head},"args":{json.dumps(about)}}}'


def _group_name(activities: pd.DataFrame, activity: int) -> str:
    row = activities.iloc[activity]
    return clean(f"{row['stage']} / {row['label']}" if row["task"] else str(row["label"]))


class _Tracks:
    """The number of each thread's track: its id, or the next one that is free in the group (threads of two hosts).

    The group's own number is the track of the task's slice: viewers show it first, as they do a process's main thread.
    """

    def __init__(self) -> None:
        self._of: dict[Thread, int] = {}
        self._taken: set[tuple[int, int]] = set()
        self._totals = 0

    def next_totals(self) -> int:
        """The id of a slice of totals."""
        self._totals += 1
        return self._totals

    def of(self, thread: Thread) -> int:
        """The number."""
        if thread in self._of:
            return self._of[thread]
        group, track = thread[0], thread[2]
        while track == group or (group, track) in self._taken:
            track += 1
        self._of[thread] = track
        self._taken.add((group, track))
        return track


def _threads(m: Model, code: Ints, called: dict[Process, str], tracks: _Tracks) -> Iterator[str]:
    """The names of the threads' tracks, which get their numbers here: the trace's files come in any order."""
    keys = processes.keys(m.who)
    for who, tid in m.table.threads[["who", "tid"]].to_numpy().tolist():
        process, group = keys[who], int(code[who]) + 1
        track = tracks.of((group, process, tid))
        label = _text(called[process] if tid == process[1] else f"{called[process]} thread {tid}")
        yield f'{{"ph":"M","name":"thread_name","pid":{group},"tid":{track},"args":{{"name":{label}}}}}'


def _partitions(run: AnalyzedRun) -> Iterator[pd.DataFrame]:
    yield from engine.stream([partial(_in_order, part) for part in run.parts(columns=COLUMNS)], ahead=1)


def _in_order(part: Part) -> pd.DataFrame:
    return part().sort_values(["ts", "dur"], ascending=[True, False], kind="stable")


def _us(ns: int) -> str:
    """ns as us with three decimals."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{ns // 1000}.{ns % 1000:03d}"


def _text(value: object) -> str:
    return json.dumps(clean(str(value)))


def _ends(run: AnalyzedRun) -> dict[tuple[str, str], dict[str, Json]]:
    """(workflow, task) -> status, tries and error of the declared tasks."""
    rows = outcomes.table(run)
    values = [
        {"status": status or outcomes.UNENDED, "tries": int(tries), **({"error": clean(error)} if error else {})}
        for status, tries, error in zip(rows["status"], rows["tries"], rows["error"], strict=True)
    ]
    return dict(zip(zip(rows["workflow"], rows["task"], strict=True), values, strict=True))


def _tasks(
    m: Model, code: Ints, activities: pd.DataFrame, origin: int, ends: dict[tuple[str, str], dict[str, Json]]
) -> Iterator[str]:
    """The names of the track groups, in the order of their first events, and each one's own slice, which a viewer that
    knows colour names draws red where the task failed."""
    counts = m.table.counts.assign(activity=code[m.table.counts["who"].to_numpy()])
    ran = command_lines.of_activities(m, code)
    spans = (
        counts.groupby("activity")
        .agg(first=("first_ns", "min"), last=("last_ns", "max"))
        .sort_values("first", kind="stable")
    )
    for rank, (activity, first, last) in enumerate(zip(spans.index, spans["first"], spans["last"], strict=True)):
        row = activities.iloc[int(activity)]
        name = _group_name(activities, int(activity))
        group = int(activity) + 1
        head = f'"pid":{group},"tid":{group}'
        yield f'{{"ph":"M","name":"process_name",{head},"args":{{"name":{_text(name)}}}}}'
        yield f'{{"ph":"M","name":"process_sort_index",{head},"args":{{"sort_index":{rank}}}}}'
        yield f'{{"ph":"M","name":"thread_name",{head},"args":{{"name":"task"}}}}'
        keys: dict[str, Json] = {
            key: clean(str(row[key])) for key in (*edge_table.WHO, "exe") if str(row[key]) not in ("", "-1")
        }
        end = ends.get((str(row["workflow"]), str(row["task"])), {}) if row["task"] else {}
        keys.update(end)
        if int(activity) in ran:
            keys["commands"] = ran[int(activity)]
        bad = end.get("status") in (*outcomes.FAILED, outcomes.NEVER_RAN)
        called = _text(f"{name} ({end['status']})" if bad else name)
        times = f'"ts":{_us(first - origin)},"dur":{_us(last - first)}' + (',"cname":"terrible"' if bad else "")
        cat = "task,failed" if bad else "task"
        yield f'{{"ph":"X","cat":"{cat}","name":{called},{head},{times},"args":{json.dumps(keys)}}}'


def _lines(
    events: pd.DataFrame,
    activity_of: dict[edge_table.Actor, int],
    origin: int,
    ends: Ends,
    tracks: _Tracks,
    drawn: dict[int, set[str]],
) -> Iterator[str]:
    """The events of a partition, each with the flow ends that bind to it."""
    texts = {name: events[name].astype(object).where(events[name].notna(), "").to_numpy() for name in _TEXTS}
    spelled: dict[str, str] = {}

    def quoted(value: str) -> str:
        if value not in spelled:
            spelled[value] = _text(value)
        return spelled[value]

    rows = zip(
        edge_table.actors(events),
        *texts.values(),
        *(events[name].tolist() for name in ("ts", "dur", "tid")),
        *(
            events[name].astype(object).where(events[name].notna(), None)
            for name in ("offset", "size", "errno", "span")
        ),
        events["calls"].tolist(),
        strict=True,
    )
    for who, name, cat, path, path2, file, file2, ftype, ts, dur, tid, offset, size, errno, span, calls in rows:
        group = activity_of[who] + 1
        process = who[3:]
        track = tracks.of((group, process, tid))
        head = f'"pid":{group},"tid":{track},"ts":{_us(ts - origin)}'
        error = errnos.errorcode.get(errno, str(errno)) if errno else ""
        parts = [
            f'"{key}":{quoted(value)}' for key, value in (("path", path), ("to", path2), ("error", error)) if value
        ]
        numbers = (("offset", offset), ("size", size), ("errno", errno))
        parts += [f'"{key}":{value}' for key, value in numbers if value is not None]
        shown, kind = (f"{name} ({error})", f"{cat},failed") if error else (name, cat)
        title = f'"name":{quoted(shown)},"cat":{quoted(kind)}'
        args = ",".join(parts)
        end = ts + (dur if span is None else span)
        if span is None:
            yield f'{{"ph":"X",{title},{head},"dur":{_us(dur)},"args":{{{args}}}}}'
        else:
            yield from _totals(title, head, args, tracks, (ts, end, dur, calls), origin)
        files = [one for one in (file, file2) if one] + ([""] if ftype == SOCKET else [])
        for key in [(process, one, at) for one in files for at in (ts, end)]:
            for flow, way in ends.pop(key, ()):
                drawn.setdefault(flow, set()).add(way)
                bound = ',"bp":"e"' if way == "f" else ""
                yield f'{{"ph":"{way}","name":"data","cat":"dataflow","id":{flow},{head}{bound}}}'


def _totals(
    name: str, head: str, args: str, tracks: _Tracks, times: tuple[int, int, int, int], origin: int
) -> Iterator[str]:
    """A line of totals as an asynchronous slice from its first call to its last one: calls on other files lie in
    between, which the slices of one track may not."""
    ts, end, dur, calls = times
    number = tracks.next_totals()
    about = ",".join([*([args] if args else []), f'"calls":{calls}', f'"us in calls":{_us(dur)}'])
    yield f'{{"ph":"b","id":{number},{name},{head},"args":{{{about}}}}}'
    yield f'{{"ph":"e","id":{number},{name},{head.rsplit(",", 1)[0]},"ts":{_us(end - origin)}}}'


_TEXTS = ("name", "cat", "path", "path2", "file", "file2", "ftype")


def _flow_ends(m: Model, code: Ints) -> tuple[Ends, list[_Flow]]:
    """Where each flow's arrow begins and ends, and the flows."""
    rows = dataflow.flow_table(m, "task")
    rows = rows[(rows["producer"] >= 0)]
    bursts = m.bursts.assign(activity=code[m.bursts["who"].to_numpy()])
    wrote = bursts[bursts["dir"] == edge_table.WRITE].groupby(["activity", "file"]).indices
    read = bursts[bursts["dir"] == edge_table.READ].assign(
        version=m.version[(bursts["dir"] == edge_table.READ).to_numpy()]
    )
    read_at = read.groupby(["activity", "version"]).indices
    writes = bursts[bursts["dir"] == edge_table.WRITE]
    identity, types = m.table.files["file"].to_numpy(), m.table.files["ftype"].to_numpy()
    process_of = processes.keys(m.who)
    ends: Ends = {}
    flows: list[_Flow] = []
    wanted = rows[["producer", "consumer", "version", "file", "bytes"]].to_numpy().tolist()
    for flow, (producer, consumer, version, file, moved) in enumerate(wanted, 1):
        source, sink = writes.iloc[wrote[(producer, file)]], read.iloc[read_at[(consumer, version)]]
        begin = sink.iloc[int(np.argmin(sink["first_ns"]))]
        flows.append(_Flow(flow, producer, consumer, file, moved, int(begin["first_ns"])))
        before = source[source["last_ns"] <= begin["first_ns"]]
        if len(before):
            start = before.iloc[int(np.argmax(before["last_ns"]))]
            places = (("s", start["who"], start["last_ns"]), ("f", begin["who"], begin["first_ns"]))
        else:
            start = source.iloc[int(np.argmin(source["first_ns"]))]
            end = sink.iloc[int(np.argmax(sink["last_ns"]))]
            places = (("s", start["who"], start["first_ns"]), ("f", end["who"], end["last_ns"]))
        for way, who, at in places:
            named = "" if types[file] == SOCKET else identities.raw(str(identity[file]))
            key = (process_of[int(who)], named, int(at))
            ends.setdefault(key, []).append((flow, way))
    return ends, flows


FORMAT = Format(write, "timeline with arrows from write to read, for ui.perfetto.dev")
