"""What is shown of each noun of `tailrace show`, as a document (util/document.py): the words for all renderers.

TaskProfile   status, time, processes, data, neighbours, what sets it apart
FileHistory   names, versions, who wrote and read each, what it was made from and used for
Accesses      sizes, order, bytes used again, metadata calls, balance; collective calls
GroupProfile  a stage, a host or a rank: tasks, time, I/O, files
HostFacts     mounts, cost of tracing, losses, clock
RankGroup     a parallel program: missing ranks, what differs between ranks
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tailrace.analyzer.model.time_model import WORDS
from tailrace.analyzer.util.document import (
    Bytes,
    Column,
    Command,
    Count,
    Document,
    Facts,
    Group,
    Lines,
    Moment,
    Part,
    Section,
    Span,
    Table,
    Value,
    first_rows,
    listing,
    named,
)

if TYPE_CHECKING:
    from tailrace.analyzer.insights.slowest_calls import Call
    from tailrace.analyzer.insights.task_profile import Data, Process, TaskProfile

# --- tasks ------------------------------------------------------------------------------------------------------------

MOST = 10
"""Rows of a list, unless another number is here."""
_MOST_OTHERS = 3
WAITS = {
    "data_ns": "waiting for data",
    "upstream_ns": "waiting for data whose writer was queued",
    "order_ns": "waiting for predecessors",
    "queue_ns": "waiting for a worker or nodes",
    "start_ns": "starting",
    "io_ns": "running, in calls on files",
    "wait_ns": "running, waiting for a processor or others, or asleep",
    "compute_ns": "running, computing",
    "stop_ns": "stopping",
}
"""The parts of a declared task's life, in their order."""
_VIA = {
    "data": "data",
    "fork": "it was started",
    "exit": "the end of a process",
    "declared": "a declared dependency",
    "inside": "a task inside",
    "resource": "the same worker, nodes or slot",
    "before": "",
    "rest": "",
}
_BYTES = ("read_bytes", "written_bytes")
_COUNTS = ("calls", "failed", "processes")
_FIGURES = {
    "duration": "duration",
    "calls": "calls",
    "failed": "failed calls",
    "processes": "processes",
    "read_bytes": "bytes read",
    "written_bytes": "bytes written",
}
TIME = (Column("time", number=True), Column("", "  "))


def task_document(profile: TaskProfile) -> Document:
    """How it ended, where its time went, its processes, data and neighbours, what sets it apart."""
    sections = (
        _manager_time(profile),
        _traced_time(profile),
        _requests(profile),
        _differences(profile),
        _task_processes(profile),
        _task_data("Read", "written by", profile.inputs),
        _task_data("Wrote", "read by", profile.outputs),
        _task_path(profile),
        _slowest(profile.slowest, profile.t0_ns),
    )
    return Document(profile.name or profile.task, [_task_head(profile), *(one for one in sections if one is not None)])


def _task_head(profile: TaskProfile) -> Facts:
    ids = [(word, value) for word in ("workflow", "stage", "task") if (value := getattr(profile, word))]
    ids += [("", profile.manager)] if profile.manager else []
    facts = []
    if profile.status is not None:
        tries = f" after {profile.tries} tries" if (profile.tries or 0) > 1 else ""
        facts.append(("status", f"{profile.status}{tries}"))
    if profile.error:
        facts.append(("error", profile.error.splitlines()[0]))
    if profile.arguments:
        facts.append(("arguments", profile.arguments_text))
    for word, names in (("declared after", profile.parents), ("declared before", profile.children)):
        facts += [(word, named(names, MOST))] if names else []
    if profile.begin_ns is None:
        facts.append(("", "no call of it was recorded"))
    return Facts([*ids, *facts], inline=len(ids))


def _manager_time(profile: TaskProfile) -> Section | None:
    rows = [(Span(ns), word) for name, word in WAITS.items() if (ns := profile.waits.get(name))]
    return listing("Time, by the workflow manager:", TIME, Group(rows))


def _traced_time(profile: TaskProfile) -> Section | None:
    if profile.begin_ns is None or profile.end_ns is None:
        return None
    begin, end = (Moment(ns, profile.t0_ns) for ns in (profile.begin_ns, profile.end_ns))
    spent = [(state, ns, profile.calls.get(state, 0)) for state, ns in profile.spent_ns.items()]
    rows = [
        (Span(ns), WORDS[state], Count(calls, "call") if calls else "") for state, ns, calls in spent if ns or calls
    ]
    moved = f"{Bytes(profile.read_bytes)} read, {Bytes(profile.written_bytes)} written"
    failed = f", {Count(profile.failed_calls, 'call')} failed" if profile.failed_calls else ""
    memory = "" if profile.max_rss_bytes is None else f", at most {Bytes(profile.max_rss_bytes)} of memory a process"
    return Section(
        f"Time, by the trace: {begin} to {end}, {Span(profile.end_ns - profile.begin_ns)}",
        [
            Table((*TIME, Column("calls", ", in ", number=True)), [Group(rows)]),
            Lines.flat([f"{moved}{failed}{memory}"]),
        ],
    )


def _requests(profile: TaskProfile) -> Section | None:
    """What the task requested of each resource and what it used, where its manager says."""
    ran = None if profile.begin_ns is None or profile.end_ns is None else profile.end_ns - profile.begin_ns
    used = {
        "cores": "" if profile.cores_used is None else f"{profile.cores_used:.3g}",
        "memory_bytes": "" if profile.max_rss_bytes is None else f"{Bytes(profile.max_rss_bytes)} a process",
        "time_s": "" if ran is None else Span(ran),
    }
    rows = [
        (name.partition("_")[0], _amount(name, value), used.get(name) or "unknown")
        for name, value in profile.requested.items()
    ]
    columns = (Column(""), Column("requested", ": ", " requested", True), Column("used", tail=" used", number=True))
    return listing("Requested and used:", columns, Group(rows))


def _amount(name: str, value: float) -> Value:
    if name.endswith("_bytes"):
        return Bytes(value)
    return Span(value * 1e9) if name.endswith("_s") else f"{value:g}"


def _differences(profile: TaskProfile) -> Section | None:
    if not profile.siblings:
        return None
    rows = [
        (_FIGURES.get(one.figure) or WORDS[one.figure], _figure(one.figure, one.value), _figure(one.figure, one.median))
        for one in profile.differences[:MOST]
    ]
    columns = (
        Column(""),
        Column("this task", ": ", number=True),
        Column("median of the others", ", where the others have ", " (median)", True),
    )
    nothing = "nothing sets it apart" if profile.siblings > 2 else "too few to compare"
    part: Part = Table(columns, [Group(rows)]) if rows else Lines([(0, nothing)])
    return Section(f"Beside the {Count(profile.siblings, 'other task')} of its stage:", [part])


def _figure(name: str, value: float) -> Value:
    if name in _BYTES:
        return Bytes(value)
    return f"{value:,.0f}" if name in _COUNTS else Span(value)


def _task_processes(profile: TaskProfile) -> Section | None:
    def row(one: Process) -> Sequence[Value]:
        if one.signal is not None:
            end = f"killed by signal {one.signal}"
        else:
            end = "end not seen" if one.exit_code is None else f"exit code {one.exit_code}"
        return (
            f"{one.host}:{one.pid}",
            Moment(one.begin_ns, profile.t0_ns),
            Moment(one.end_ns, profile.t0_ns),
            end,
            "" if one.max_rss_bytes is None else Bytes(one.max_rss_bytes),
            "also of other tasks" if one.shared else "",
            Command(one.command, one.program),
        )

    columns = (
        Column("process"),
        Column("begin", " ", number=True),
        Column("end", " to ", number=True),
        Column("how it ended"),
        Column("memory", number=True),
        Column(""),
        Column("command", "\n"),
    )
    rows = profile.processes
    title = f"{Count(len(rows), 'process', 'es')}:"
    return listing(title, columns, first_rows(rows, row, MOST))


def _task_data(title: str, way: str, rows: Sequence[Data]) -> Section | None:
    def row(one: Data) -> Sequence[Value]:
        version = f" (version {one.version})" if one.version > 1 else ""
        others = named(one.others, _MOST_OTHERS)
        return (f"{one.path}{version}", Bytes(one.bytes), Count(one.calls, "call"), others)

    columns = (
        Column("file"),
        Column("bytes", ": ", number=True),
        Column("calls", " in ", number=True),
        Column(way, f"; {way} "),
    )
    title = f"{title} {Count(len(rows), 'file')}, the largest first:"
    return listing(title, columns, first_rows(rows, row, MOST))


def _task_path(profile: TaskProfile) -> Section | None:
    if profile.slack_ns is None:
        return None
    if not profile.path_ns and not profile.before and not profile.after:
        return Section(f"Not on the critical path: it could have taken {Span(profile.slack_ns)} longer.", [])
    return Section(f"On the critical path with {Span(profile.path_ns)} of its time:", [Lines(list(_beside(profile)))])


def _beside(profile: TaskProfile) -> Iterator[tuple[int, str]]:
    for word, rows in (("after", profile.before), ("before", profile.after)):
        for one in rows[:MOST]:
            via = _VIA.get(one.via, one.via)
            yield 0, f"{word} {one.task}" + (f", through {via}" if via else "")


def _slowest(rows: Sequence[Call], t0_ns: int) -> Section | None:
    cells = [
        (
            Span(one.duration_ns),
            one.name,
            Moment(one.begin_ns, t0_ns),
            "" if one.bytes is None else Bytes(one.bytes),
            Count(one.calls, "call") if one.calls > 1 else "",
            one.path or "",
        )
        for one in rows
    ]
    columns = (
        *(Column("time", number=True), Column("call", "  "), Column("at", " at ", number=True)),
        *(Column("bytes", number=True), Column("calls", ", mean of ", number=True), Column("file", "\n")),
    )
    return listing("Slowest calls:", columns, Group(cells))
