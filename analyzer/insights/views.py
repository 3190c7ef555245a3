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
    Cells,
    Column,
    Command,
    Count,
    Document,
    Facts,
    Group,
    LeftOut,
    Lines,
    Moment,
    Part,
    Section,
    Span,
    Table,
    Tree,
    Value,
    first_rows,
    listing,
    named,
)

if TYPE_CHECKING:
    from tailrace.analyzer.insights.file_history import Access, File, FileHistory, Node, Version
    from tailrace.analyzer.insights.present_files import Copy
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


# --- files ------------------------------------------------------------------------------------------------------------

MOST_OF_FILE = 20
"""Accesses of a version are listed up to it, as are files of a name, and nodes of a tree up to twice it."""
_MOST_RANGES = 3
_STATES = {
    "same": "still there as the run left it",
    "changed": "still there, but changed since the run",
    "gone": "no longer there under this name",
    "another": "replaced by another file of this name",
    "unreadable": "there, but it can't be read",
}
_ACCESS = (
    Column(""),
    Column("who", " "),
    Column("process", " (", ")"),
    Column("from", number=True),
    Column("to", " to ", number=True),
    Column("run", "\nin "),
    Column("user", " of "),
    Column("command", "\n"),
    Column("", "\n"),
    Column("bytes", "\n", number=True),
    Column("calls", " in ", number=True),
    Column("mean", " of ", " on average", True),
    Column("pattern"),
    Column("ranges", ", bytes "),
)
_NODE = (
    Column(""),
    Column("bytes", number=True),
    Column("SHA-256", ", sha256 "),
    Column("", " (", ")"),
    Column("run"),
    Column("command", "\n"),
)


def file_document(history: FileHistory) -> Document:
    """Its names and versions, who wrote and read each, and where its data came from and went."""
    parts: list[Part] = [_file(file, history.t0_ns) for file in history.files[:MOST_OF_FILE]]
    if not parts:
        parts.append(Lines([(0, f"{history.name}: programs looked for it, and it was never there")]))
    parts.append(LeftOut(len(history.files) - MOST_OF_FILE, "file"))
    for title, nodes, mark in (("Made from:", history.up, "<-"), ("Used for:", history.down, "->")):
        if nodes:
            shown = [_node(node) for node in nodes[: 2 * MOST_OF_FILE]]
            parts.append(Section(title, [Tree(_NODE, shown, mark, LeftOut(len(nodes) - len(shown), "line"))]))
    return Document("", parts)


def _file(file: File, first_ns: int | None) -> Section:
    identity = f"identity {file.identity}"
    lines = [", ".join([file.kind or "no data", file.type or "unknown type", str(Bytes(file.size)), identity])]
    if file.block_bytes is not None:
        sides = " and ".join(
            f"{crossing:,} of {Count(placed, way)}" for way, (placed, crossing) in file.unaligned.items()
        )
        lines.append(f"block of {Bytes(file.block_bytes)}: {sides} touch one more than they need")
    if others := [name for name in file.names if name != file.path]:
        lines.append(f"also called {', '.join(others)}")
    if file.born_ns is not None:
        made = "first written" if file.written_bytes or any(v.writers for v in file.versions) else "first read"
        begin, end = Moment(file.born_ns, first_ns), Moment(file.last_use_ns, first_ns)
        lived = "unknown" if file.lived_ns is None else Span(file.lived_ns)
        lines.append(f"{made} at {begin}, last used at {end}: in use for {lived}")
    if file.gone_ns is not None:
        lines.append(f"removed at {Moment(file.gone_ns, first_ns)}")
    if file.now is not None:
        lines.append(_now(file.now))
    continued = {version.continues for version in file.versions}
    groups = [one for version in file.versions for one in _version(version, version.number in continued, first_ns)]
    return Section(file.path or file.identity, [Lines.flat(lines), Table(_ACCESS, groups)])


def _now(copy: Copy) -> str:
    size = "" if copy.size is None else f", {Bytes(copy.size)}"
    return f"{_STATES[copy.state]}{size}" + ("" if copy.sha256 is None else f", sha256 {copy.sha256}")


def _version(version: Version, is_continued: bool, first_ns: int | None) -> Sequence[Group]:
    """Its writers, and its readers."""
    before = "" if version.continues is None else f", continues version {version.continues}"
    emptied = ", emptied first" if version.truncated and version.number > 1 else ""
    before_run = "as it was before the run" if first_ns != 0 else "as it was before all runs"
    before_run += ", or as another host wrote it" if version.undecided else ""
    state = before_run if version.number == 0 else f"written until {Moment(version.end_ns, first_ns)}"

    def side(word: str, accesses: Sequence[Access]) -> Group:
        left_out = LeftOut(0, "process", "es", word)
        return first_rows(accesses, lambda access: _access(word, access, first_ns), MOST_OF_FILE, left_out)

    writers, readers = side("written by", version.writers), side("read by", version.readers)
    if not version.readers and not is_continued:
        readers = Group([("not read", *[""] * (len(_ACCESS) - 1))])
    return Group(writers.rows, f"version {version.number}: {state}{before}{emptied}", writers.left_out), readers


def _access(word: str, access: Access, first_ns: int | None) -> Cells:
    begin, end = Moment(access.begin_ns, first_ns), Moment(access.end_ns, first_ns)
    is_empty = not access.calls and access.pattern != "mapped"
    moved: Cells = (
        Bytes(access.bytes),
        Count(access.calls, "call"),
        Bytes(access.mean_bytes) if access.calls > 1 else "",
        access.pattern,
        _ranges(access) if access.pattern else "",
    )
    return (
        word,
        access.who,
        f"{access.host}:{access.pid}" if access.task else "",
        begin,
        end if str(end) != str(begin) else "",
        access.run,
        access.user if access.run else "",
        Command(access.command),
        "created or emptied it, and wrote nothing" if is_empty else "",
        *([""] * len(moved) if is_empty else moved),
    )


def _ranges(access: Access) -> str:
    shown = ", ".join(f"{start}-{end}" for start, end in access.ranges[:_MOST_RANGES])
    hidden = len(access.ranges) - _MOST_RANGES
    return f"{shown}{f' and {hidden} more' if hidden > 0 else ''}{'' if access.exact or not shown else ' at most'}"


def _node(node: Node) -> tuple[int, Cells]:
    is_run = node.kind != "file" and node.end != "above"
    size = "" if node.bytes is None or not node.depth else Bytes(node.bytes)
    command = Command(node.command if is_run else [])
    return node.depth, (node.name, size, node.sha256 or "", node.end, node.run, command)
