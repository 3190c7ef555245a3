"""What is shown of each noun of `tailrace show`, as a document (util/document.py): the words for all renderers.

TaskProfile   status, time, processes, data, neighbours, what sets it apart
FileHistory   names, versions, who wrote and read each, what it was made from and used for
Accesses      sizes, order, bytes used again, metadata calls, balance; collective calls
GroupProfile  a stage, a host or a rank: tasks, time, I/O, files
HostFacts     mounts, cost of tracing, losses, clock
RankGroup     a parallel program: missing ranks, what differs between ranks
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from tailrace.analyzer.insights.access_order import CALLS
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
from tailrace.analyzer.util.formatting import BYTE_UNITS, percent_text

if TYPE_CHECKING:
    from tailrace.analyzer.insights.access_patterns import Accesses
    from tailrace.analyzer.insights.file_history import Access, File, FileHistory, Node, Version
    from tailrace.analyzer.insights.group_profile import GroupProfile
    from tailrace.analyzer.insights.host_facts import HostFacts, MountUse
    from tailrace.analyzer.insights.present_files import Copy
    from tailrace.analyzer.insights.rank_groups import RankGroup, Spread
    from tailrace.analyzer.insights.slowest_calls import Call
    from tailrace.analyzer.insights.task_profile import Data, Process, TaskProfile
    from tailrace.analyzer.model.collectives import Collectives

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
    "awaited": "the program waited for it",
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


# --- accesses ---------------------------------------------------------------------------------------------------------

MOST_GROUPS = 20
"""Groups that are listed."""
_MOST_FUNCTIONS, _MOST_NAMES, _MOST_SIZES = 5, 5, 4

_Line = tuple[int, str]


def access_document(found: Accesses, collectives: Collectives | None = None) -> Document:
    """Accesses, a section for each group; collectives: where the groups are ranks."""
    rows = found.to_json()
    names = list(dict.fromkeys(row["group"] for name in ("data", "metadata") for row in rows[name]))
    if not names:
        whose = "No process with a rank made a call" if found.by == "rank" else "No calls"
        return Document("", [Lines([(0, f"{whose} on files of data.")])])
    sections = [
        Section(name or "(no name)", [_group_accesses(rows, name, collectives.of_rank(name) if collectives else ())])
        for name in names[:MOST_GROUPS]
    ]
    return Document("", [*sections, LeftOut(len(names) - MOST_GROUPS, found.by)])


def _group_accesses(rows: Mapping[str, Any], name: str, collectives: Sequence[Mapping[str, Any]] = ()) -> Lines:
    """The accesses of one group, of `Accesses.to_json`; collectives: of a rank, of `Collectives.of_rank`."""
    lines: list[_Line] = []
    for table, words in (("data", _access_data), ("metadata", _metadata), ("balance", _balance)):
        for row in rows[table]:
            if row["group"] == name:
                lines += words(row)
    return Lines([*lines, *_collectives(collectives)])


def _access_data(row: Mapping[str, Any]) -> list[_Line]:
    if not row["calls"]:
        return []
    moved = f"{Bytes(row['bytes'])} of {Count(row['files'], 'file')}, {Bytes(row['mean_bytes'])} on average"
    direction = "reads" if row["direction"] == "read" else "writes"
    lines = [
        (0, f"{direction}: {Count(row['calls'], 'call')}, {moved}, {Span(row['time_ns'])}"),
        (1, f"sizes: {_access_sizes(row['sizes'])}"),
    ]
    if ordered := sum(row[name] for name in CALLS):
        shares = [f"{name} {percent_text(row[name], ordered)}" for name in CALLS if row[name]]
        back = f"; {percent_text(row['backward'], ordered)} backward" if row["backward"] else ""
        lines.append((1, f"order: {', '.join(shares)}{back}"))
    if row["unlocated"]:
        share = percent_text(row["unlocated"], row["calls"])
        lines.append((1, f"{share} at offsets that are not known, as through an inherited descriptor"))
    notes = [f"{Bytes(row['again_bytes'])} moved again by the same task"] if row["again_bytes"] else []
    notes += [f"{Bytes(row['shared_bytes'])} that another task used, too"] if row["shared_bytes"] else []
    notes += [
        f"{percent_text(unaligned, placed)} touch a block of {Bytes(block)} more than they need"
        for block, (placed, unaligned) in sorted(row["blocks"].items())
    ]
    notes += [f"{Span(row['gap_ns'])} between two calls"] if row["gap_ns"] else []
    return [*lines, *([(1, "; ".join(notes))] if notes else [])]


def _access_sizes(sizes: Mapping[int, int]) -> str:
    """The histogram, the most frequent sizes first."""
    total = sum(sizes.values())
    parts = []
    for bits, calls in sorted(sizes.items(), key=lambda pair: -pair[1])[:_MOST_SIZES]:
        words = "0 B (end of file)" if bits == 0 else f"{_power(bits - 1)} to {_power(bits)}"
        parts.append(f"{percent_text(calls, total)} {words}")
    return ", ".join(parts) + (", ..." if len(sizes) > len(parts) else "")


def _power(bits: int) -> str:
    """A power of two in its unit: 512 B, 4 KiB."""
    unit = min(bits // 10, 6)
    return f"{1 << (bits - 10 * unit)} {(*BYTE_UNITS, 'EiB')[unit]}"


def _metadata(row: Mapping[str, Any]) -> list[_Line]:
    ahead = f"; {Bytes(row['ahead_bytes'])} read ahead by streams and dropped" if row["ahead_bytes"] > 0 else ""
    if "calls" not in row:  # of a file
        unused = f", {row['unused_opens']:,} of them without moving anything" if row["unused_opens"] else ""
        return [(0, f"{Count(row['opens'], 'open')}{unused}, {Count(row['seeks'], 'seek')}{ahead}")]
    rates = [
        f"{row['calls'] / row[name]:,.2f} for each {word}"
        for name, word in (("data_calls", "read or write"), ("files", "file"))
        if row[name]
    ]
    rates += [f"{row['calls'] / row['span_ns'] * 1e9:,.0f} a second"] if row["span_ns"] else []
    parts = []
    if row["opens"]:
        unused = f" ({row['unused_opens']:,} moved nothing)" if row["unused_opens"] else ""
        parts.append(f"{Count(row['opens'], 'open')}{unused}")
    if row["seeks"]:
        useless = f" (at least {row['useless_seeks']:,} changed nothing)" if row["useless_seeks"] else ""
        parts.append(f"{Count(row['seeks'], 'seek')}{useless}")
    if row["flushes"]:
        parts.append(f"{Count(row['flushes'], 'flush', 'es')} in {Span(row['flush_ns'])}")
    calls = (0, f"metadata: {Count(row['calls'], 'call')}, {Span(row['time_ns'])}; {', '.join(rates)}")
    return [calls, *([(1, ", ".join(parts) + ahead)] if parts else [])]


def _balance(row: Mapping[str, Any]) -> list[_Line]:
    figure = "bytes" if row["figure"] == "bytes" else "time in I/O"
    largest = f"the largest is {row['largest_over_mean']:.2f} times the mean, Gini {row['gini']:.2f}"
    lists = (("stragglers", row["stragglers"]), ("outside of the box plot", row["beyond_box"]))
    far = [(1, f"{words}: {named(names, _MOST_NAMES)}") for words, names in lists if names]
    return [(0, f"{figure} of {Count(row['members'], row['of'])}: {largest}"), *far]


# --- collective calls ------------------------------------------------------------------------------------------------


def _collectives(rows: Sequence[Mapping[str, Any]]) -> list[_Line]:
    """What the time of a rank's collective calls was."""
    if not rows:
        return []
    total = {name: sum(row[name] for row in rows) for name in ("calls", "time_ns", "io_ns", "waited_ns", "rest_ns")}
    lines = [(0, f"collective calls of MPI-IO: {Count(total['calls'], 'call')}, {_collective_time(total)}")]
    for row in rows[:_MOST_FUNCTIONS]:
        lines.append((1, f"{row['name']}: {Count(row['calls'], 'call')}, {_collective_time(row)}{_arrival(row)}"))
    hidden = LeftOut(len(rows) - _MOST_FUNCTIONS, "other function").text()
    return [*lines, *([(1, hidden)] if hidden else [])]


def collective_text(total: Mapping[str, int]) -> str:
    """The sums over all ranks (`Collectives.total`), in words."""
    return f"{Count(total['calls'], 'call')} of {Count(total['ranks'], 'rank')} of MPI-IO, {_collective_time(total)}"


def _collective_time(row: Mapping[str, Any]) -> str:
    return (
        f"{Span(row['time_ns'])}: {Span(row['io_ns'])} in system calls on the file,"
        f" {Span(row['waited_ns'])} before the last rank came, {Span(row['rest_ns'])} within MPI"
    )


def _arrival(row: Mapping[str, Any]) -> str:
    if row["after_ns"] is None:
        return "; no call has all its ranks in the trace"
    missing = row["calls"] - row["matched"]
    unknown = f"; of {Count(missing, 'call')} the arrival of all ranks is not known" if missing else ""
    came = f"; came last to {row['last']:,}, {Span(row['after_ns'])} after the first on average"
    return f"{came if row['last'] else ''}{unknown}"


# --- stages, hosts, ranks ---------------------------------------------------------------------------------------------

_FILE = (Column("file"), Column("read", ": ", " read", True), Column("written", tail=" written", number=True))
_MOUNT = (
    Column("mount"),
    Column("files", ": ", number=True),
    Column("read", tail=" read", number=True),
    Column("in", " in ", number=True),
    Column("a second", " (", "/s)", True),
    Column("written", tail=" written", number=True),
    Column("in", " in ", number=True),
    Column("a second", " (", "/s)", True),
    Column(""),
)


def group_document(profile: GroupProfile, collectives: Sequence[Mapping[str, Any]] = ()) -> Document:
    """The profile as a document; collectives: of a rank, as `Collectives.of_rank`."""
    many = [str(Count(profile.tasks, "task"))] if profile.tasks else []
    head = [", ".join([*many, str(Count(profile.processes, "process", "es"))])]
    if profile.statuses:
        tries = f"; {profile.retried:,} after several tries" if profile.retried else ""
        head.append(", ".join(f"{count:,} {status}" for status, count in profile.statuses.items()) + tries)
    parts: list[Part] = [Lines.flat(head), _group_time(profile)]
    parts.append(Section("I/O on files:", [_group_accesses(profile.accesses, profile.name, collectives)]))
    if profile.files:
        rows = [(row["path"], Bytes(row["read_bytes"]), Bytes(row["written_bytes"])) for row in profile.files]
        parts.append(Section("Files, the most moved first:", [Table(_FILE, [Group(rows)])]))
    if profile.facts is not None:
        parts.append(Section("", _facts(profile.facts)))
    return Document(f"{profile.kind} {profile.name}", parts)


def _group_time(profile: GroupProfile) -> Section:
    begin, end = (Moment(ns, profile.t0_ns) for ns in (profile.begin_ns, profile.end_ns))
    rows = [(Span(ns), WORDS[state]) for state, ns in profile.spent_ns.items() if ns]
    failed = f", {Count(profile.failed_calls, 'call')} failed" if profile.failed_calls else ""
    lines = [f"{Bytes(profile.read_bytes)} read, {Bytes(profile.written_bytes)} written{failed}"]
    for word, stages in (("Reads data of", profile.sources), ("Its data are read by", profile.targets)):
        if stages:
            moved = [f"{row['stage']} ({Bytes(row['bytes'])})" for row in stages[:MOST]]
            lines.append(f"{word} {', '.join(moved)}")
    lines += _others(profile)
    return Section(
        f"Time: {begin} to {end}, {Span(profile.end_ns - profile.begin_ns)}",
        [Table(TIME, [Group(rows)]), Lines.flat(lines)],
    )


def _others(profile: GroupProfile) -> list[str]:
    rest = [row for row in profile.others if row["name"] != profile.name]
    own = [row for row in profile.others if row["name"] == profile.name]
    if not rest or not own:
        return []
    usual = {name: median(row[name] for row in rest) for name in ("time_ns", "bytes")}
    mine, others = (f"{Span(row['time_ns'])} and {Bytes(row['bytes'])}" for row in (own[0], usual))
    return [f"In calls on files: {mine}; the {Count(len(rest), f'other {profile.kind}')}: {others} (median)"]


# --- hosts -----------------------------------------------------------------------------------------------------------


def host_document(facts: HostFacts) -> Document:
    """What is known of a host beside what its processes did."""
    return Document(f"host {facts.host}", [_processes(facts), *_facts(facts)])


def hosts_document(found: Sequence[HostFacts]) -> Document:
    """Several hosts."""
    return Document("", [Section(f"host {one.host}", [_processes(one), *_facts(one)]) for one in found])


def _processes(facts: HostFacts) -> Lines:
    return Lines([(0, str(Count(facts.processes, "process", "es")))])


def _facts(facts: HostFacts) -> list[Part]:
    parts: list[Part] = []
    if facts.mounts:
        title = "Mounts, by bytes of data files (bandwidth while calls ran, page cache included):"
        parts.append(Table(_MOUNT, [first_rows(facts.mounts, _mount, MOST, LeftOut(0, "mount"))], title))
    rows = []
    if facts.sealing_ns or facts.self_sealing_ns:
        sealing = f"sealing took {Span(facts.sealing_ns + facts.self_sealing_ns)} of processor time"
        own = f"{Span(facts.self_sealing_ns)} of it in the traced processes"
        rows.append(("Cost of tracing", f"{sealing}, {own}; what recording takes is not measured"))
    rows.append(("Lost", "; ".join(map(_loss, facts.losses)) or "nothing that is known"))
    clock = []
    if facts.clock_ahead_ns:
        word = "ahead of" if facts.clock_ahead_ns > 0 else "behind"
        clock.append(f"{Span(abs(facts.clock_ahead_ns))} {word} the other hosts, by files that passed; corrected")
    if facts.clock_set:
        clock.append(f"set during the run by {facts.clock_set}; corrected")
    return [*parts, Facts([*rows, ("Clock", "; ".join(clock) or "nothing contradicts it")])]


def _mount(one: MountUse) -> Cells:
    source = f", {one.source}" if one.source not in ("", one.fstype) else ""
    cells: list[Any] = [f"{one.point} ({one.fstype}{source})" if one.point else "(not known)", Count(one.files, "file")]
    for moved, ns in ((one.read_bytes, one.read_ns), (one.written_bytes, one.written_ns)):
        cells += [Bytes(moved), Span(ns), Bytes(moved / ns * 1e9) if ns else ""] if moved else ["", "", ""]
    return (*cells, "" if one.read_bytes or one.written_bytes else "no bytes")


def _loss(row: Mapping[str, Any]) -> str:
    count = f"{row['count']:,}" if isinstance(row["count"], int) else str(row["count"])
    words = f"{count} {row['unit']} ({str(row['cause']).replace('_', ' ')})"
    return f"{words}, {row['problem']}" if row["problem"] else words


# --- parallel programs ------------------------------------------------------------------------------------------------

_SPREAD_FIGURES: dict[str, tuple[str, type[Bytes | Span]]] = {
    "read_bytes": ("data read", Bytes),
    "written_bytes": ("data written", Bytes),
    "io_ns": ("file I/O", Span),
    "lasted_ns": ("first to last call", Span),
    "begin_ns": ("began after the first", Span),
}
_SPREADS = tuple(map(Column, ("of each rank", "least (rank)", "median", "most (rank)", "Gini")))
_RANK = tuple(map(Column, ("rank", "data read", "written", "file I/O", "begin", "lasted", "cpus", "host")))


def programs_document(groups: Sequence[RankGroup], start_ns: int) -> Document:
    """Those of several ranks; start_ns: the run's begin."""
    if not groups:
        return Document("", [Lines([(0, "No process has a rank.")])])
    several = [group for group in groups if group.ranks > 1 or (group.world_size or 1) > 1]
    parts: list[Part] = [Section(_program_title(group), _program(group, start_ns)) for group in several[:MOST]]
    single = len(groups) - len(several)
    rest = [(0, f"{Count(single, 'program')} of one rank")] if single else []
    return Document("", [*parts, LeftOut(len(several) - MOST, "program"), Lines(rest)])


def program_document(group: RankGroup) -> Document:
    """One program; times are from its begin on."""
    return Document(_program_title(group), _program(group, group.begin_ns))


def _program_title(group: RankGroup) -> str:
    tags = [f"{key} {value}" for key, value in (("stage", group.stage), ("task", group.task)) if value]
    return ": ".join([", ".join(tags), group.program]) if tags else group.program


def _program(group: RankGroup, start_ns: int) -> list[Part]:
    of_world = "" if group.world_size is None else f" of {group.world_size:,}"
    count = f"{group.ranks:,}{of_world} ranks" if of_world else Count(group.ranks, "rank")
    lines = [f"{count}, {Count(group.processes, 'process', 'es')} on {Count(len(group.hosts), 'host')}"]
    if group.cores is not None or group.nodes:
        cores = [str(Count(group.cores, "core"))] if group.cores is not None else []
        nodes = [f"on {named(group.nodes, MOST)}"] if group.nodes else []
        lines.append(f"Given by the manager: {' '.join([*cores, *nodes])}")
    if group.missing:
        words = [str(first) if first == last else f"{first}-{last}" for first, last in group.missing]
        plural = "s" if len(words) > 1 or "-" in words[0] else ""
        lines.append(f"Not in the trace: rank{plural} {named(words, MOST, ' ranges')}")
    spreads = [_spread(one) for one in group.spreads if one.most]
    parts: list[Part] = [Lines.flat(lines)]
    parts += [Table(_SPREADS, [Group(spreads)], grid=True)] if spreads else []
    return [*parts, Lines.flat(_far(group)), _ranks(group, start_ns)]


def _spread(spread: Spread) -> Cells:
    word, unit = _SPREAD_FIGURES[spread.figure]
    least, most = f"{unit(spread.least)} ({spread.least_rank})", f"{unit(spread.most)} ({spread.most_rank})"
    return word, least, unit(spread.median), most, f"{spread.gini:.2f}"


def _far(group: RankGroup) -> list[str]:
    """The ranks far above the others, by the figures in which they are."""
    far: dict[str, list[str]] = {}
    for spread in group.spreads:
        for rank in spread.far:
            far.setdefault(rank, []).append(_SPREAD_FIGURES[spread.figure][0])
    alike: dict[str, list[str]] = {}
    for rank, words in far.items():
        alike.setdefault(", ".join(words), []).append(rank)
    return [
        f"Far above the others in {figures}: rank{'s' * (len(ranks) > 1)} {named(ranks, MOST)}"
        for figures, ranks in alike.items()
    ]


def _ranks(group: RankGroup, start_ns: int) -> Table:
    """The ranks by number; of many, those longest in calls on files."""
    shown, title = group.rows, ""
    if len(shown) > MOST:
        longest = {row["rank"] for row in sorted(shown, key=lambda row: -row["io_ns"])[:MOST]}
        shown, title = [row for row in shown if row["rank"] in longest], f"The {MOST} ranks with the longest file I/O"
    cells = [_rank(row, start_ns) for row in shown]
    kept = [at for at, column in enumerate(_RANK) if column.head != "cpus" or any(row[at] for row in cells)]
    rows = Group([[row[at] for at in kept] for row in cells], left_out=LeftOut(len(group.rows) - len(shown), "rank"))
    return Table([_RANK[at] for at in kept], [rows], title, grid=True, spare=("lasted", "begin"))


def _rank(row: Mapping[str, Any], start_ns: int) -> Cells:
    hosts = row["hosts"]
    return (
        str(row["rank"]),
        Bytes(row["read_bytes"]),
        Bytes(row["written_bytes"]),
        Span(row["io_ns"]),
        Moment(row["begin_ns"], start_ns),
        Span(row["end_ns"] - row["begin_ns"]),
        row["cpus"],
        hosts[0] if len(hosts) == 1 else f"{len(hosts):,} hosts",
    )
