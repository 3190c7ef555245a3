"""The history of a file: its names and versions, who wrote and read each, how, and where its data came from and went.

    name, pattern or identity --FileNames--> file codes --Model--> FileHistory(files, up, down)

An access is what one process under one task did to one version in one direction. How it went over the file follows from
the edge table, without events: `access_order.WORDS`.

A tree goes by versions and activities (tasks, or processes without one). Up: a version was made by its writers, and by
the version that it continues; a writer used what it read before it wrote for the last time. Down: a version was used by
its readers, and they made what they wrote after they began to read. Its leaves are inputs nobody made, or results
nobody read.

Invariants: reads no events, unless the name is of no file. Trees are lists in preorder with depths, since a chain of
tasks may be deeper than Python's recursion. A node that comes again is named, and not followed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

import numpy as np
import pandas as pd

from tailrace.analyzer.edges import edge_table, file_classes, identities, name_table
from tailrace.analyzer.edges.file_names import FileNames
from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.insights import access_order
from tailrace.analyzer.insights.command_lines import own_actors
from tailrace.analyzer.insights.present_files import Copy, PresentFiles
from tailrace.analyzer.insights.views import file_document
from tailrace.analyzer.model import dataflow, undecided
from tailrace.analyzer.model.dataflow import Model
from tailrace.analyzer.store import processes
from tailrace.analyzer.store.conditions import Glob
from tailrace.analyzer.util import intervals
from tailrace.analyzer.util.document import Document, Shown
from tailrace.analyzer.util.formatting import with_stage
from tailrace.analyzer.util.named_files import may_open
from tailrace.analyzer.util.types import Array, Ints, Row

MOST_RANGES = 64
"""Byte ranges that are listed of an access; the edge table keeps no more of a burst."""


@dataclass(frozen=True)
class Access:
    """What a process moved of a version. Times are ns since the epoch; exact: False where ranges cover too much; run,
    user: the run's directory and user, in a history over several runs."""

    direction: str
    workflow: str
    stage: str
    task: str
    who: str
    host: str
    pid: int
    start: str
    program: str
    command: list[str]
    begin_ns: int
    end_ns: int
    bytes: int
    calls: int
    pattern: str
    mean_bytes: float
    ranges: list[list[int]]
    exact: bool
    run: str = ""
    user: str = ""


@dataclass(frozen=True)
class Version:
    """A state of the file: 0 is that before the run. continues: the number of the version whose bytes remain in it.
    undecided: 0 may as well have been written in the run, on a host whose mounts nobody described."""

    number: int
    begin_ns: int | None
    end_ns: int | None
    truncated: bool
    continues: int | None
    writers: list[Access]
    readers: list[Access]
    undecided: bool = False


@dataclass(frozen=True)
class File:
    """One identity. gone_ns: when its last name was removed; lived_ns: from its first write, or first use, to its last
    use; size: the end of the last known byte. block_bytes: what its file system prefers to move at a time (st_blksize),
    None where that is not known, or changed; unaligned: read, write -> calls at known offsets, and those of them that
    touch a block more than they need (access_patterns.py)."""

    identity: str
    path: str
    names: list[str]
    type: str
    kind: str
    size: int
    born_ns: int | None
    last_use_ns: int | None
    gone_ns: int | None
    lived_ns: int | None
    read_bytes: int
    written_bytes: int
    versions: list[Version]
    now: Copy | None = None
    block_bytes: int | None = None
    unaligned: dict[str, list[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Node:
    """A node of a tree: a version of a file, or an activity. end: why it has no children ("" where it has some): before
    the run, not read, above (it was listed before), untraced. run: the run's directory, in a history over several."""

    depth: int
    kind: str
    name: str
    end: str = ""
    bytes: int | None = None
    program: str = ""
    command: list[str] = field(default_factory=list)
    sha256: str | None = None
    run: str = ""


@dataclass(frozen=True, repr=False)
class FileHistory(Shown):
    """All files that the name means. t0_ns: what times are shown from; 0: they are shown as dates. up, down: the trees
    of each file's versions, where they were asked for."""

    name: str
    t0_ns: int | None
    files: list[File]
    up: list[Node] | None
    down: list[Node] | None

    def document(self) -> Document:
        """What is shown of it."""
        return file_document(self)


def file_history(
    run: AnalyzedRun,
    name: str,
    *,
    up: bool = False,
    down: bool = False,
    hashed: bool = False,
    unmet: Callable[[], set[str]] = set,
) -> FileHistory:
    """The history of the files of a name.

    Args:
        run: the run.
        name: any name of the file, as `Run.find_files` takes it; a pattern with *, ? or [; or an identity.
        up, down: with the trees.
        hashed: with the checksums of what still exists.
        unmet: gives the names in calls that met no file.

    Raises:
        QueryError: no event has such a name; the message has the nearest ones.
    """
    m = dataflow.model(run)
    cwd = run.meta.get("cwd")
    codes = _codes(
        m, name, FileNames(name_table.of(m.table), cwd if isinstance(cwd, str) else "", unmet, may_open(run.path))
    )
    book = _Book(m, codes)
    hashes = PresentFiles(m) if hashed else None
    first = run.info().get("t0_ns")
    return FileHistory(
        name,
        first if isinstance(first, int) else None,
        [book.file(int(code), hashes) for code in codes],
        _Tree(m, hashes).up(codes) if up else None,
        _Tree(m, hashes).down(codes) if down else None,
    )


def _codes(m: Model, name: str, names: FileNames) -> Ints:
    every = m.table.files["file"].to_numpy()
    known = np.array([one == name or identities.raw(str(one)) == name for one in every], dtype=np.bool_)
    if known.any():
        return np.flatnonzero(known)
    return names.codes_of([Glob(name) if set(name) & set("*?[") else name])


class _Book:
    """The accesses of some files."""

    def __init__(self, m: Model, codes: Ints) -> None:
        self._m, self._undecided = m, undecided.files(m)
        of_file = np.isin(m.bursts["file"].to_numpy(), codes)
        at = np.flatnonzero(of_file)
        bursts = m.bursts.iloc[at].assign(version=m.version[at], burst=at)
        self._bursts = bursts.sort_values(["version", "who", "dir", "first_ns"], kind="stable")
        # Plain arrays: a pattern may mean thousands of accesses, and pandas takes a millisecond for each.
        self._columns = {str(name): self._bursts[name].to_numpy() for name in self._bursts}
        self._groups = _runs(*(self._columns[name] for name in ("version", "who", "dir")))
        self._versions = self._columns["version"][self._groups[:-1]]
        extents = m.table.extents
        mine = np.flatnonzero(of_file[extents.group])
        mine = mine[np.argsort(extents.group[mine], kind="stable")]
        self._extents = intervals.make(extents.group[mine], extents.start[mine], extents.end[mine])
        of_burst = np.full(len(m.bursts), -1, dtype=np.int64)
        count = len(self._groups) - 1
        code = np.repeat(np.arange(count, dtype=np.int64), np.diff(self._groups))
        of_burst[self._columns["burst"]] = code
        ranges = intervals.regrouped(self._extents, of_burst)
        self._orders = access_order.of_accesses(self._bursts, code, ranges, count)
        self._commands = m.command_lines
        self._actors: dict[int, tuple[Row, str]] = {}

    def file(self, code: int, hashes: PresentFiles | None) -> File:
        m = self._m
        bursts = self._bursts[self._bursts["file"] == code]
        writes = bursts["dir"] == edge_table.WRITE
        states = m.versions.table
        found = [self._version(int(at)) for at in np.flatnonzero(states["file"].to_numpy() == code)]
        facts = m.table.facts[m.table.facts["file"] == code]
        gone = facts["last_ns"][facts["what"] == "unlink"]
        born = int(bursts["first_ns"][writes if writes.any() else slice(None)].min()) if len(bursts) else None
        last = int(bursts["last_ns"].max()) if len(bursts) else None
        ends = self._extents.end[np.isin(self._extents.group, bursts["burst"].to_numpy())]
        aliases = m.table.aliases[m.table.aliases["file"] == code].sort_values("first_ns", kind="stable")
        path = str(m.paths[code])
        kinds = m.cls[bursts["burst"].to_numpy()]
        return File(
            identity=str(m.table.files["file"].iat[code]),
            path=path,
            names=list(dict.fromkeys([*map(str, aliases["path"]), path])),
            type=str(m.table.files["ftype"].iat[code]),
            kind=file_classes.CLASSES[int(kinds[0])] if len(kinds) else "",
            # Without offsets, as through an inherited descriptor, what was written to one version is a lower bound.
            size=max([int(ends.max(initial=0)), *(sum(access.bytes for access in one.writers) for one in found)]),
            born_ns=born,
            last_use_ns=last,
            gone_ns=int(gone.max()) if len(gone) else None,
            lived_ns=None if born is None or last is None else max(last - born, 0),
            read_bytes=int(bursts["bytes"][~writes].sum()),
            written_bytes=int(bursts["bytes"][writes].sum()),
            versions=found,
            now=None if hashes is None else hashes.of(code),
            **_alignment(m, code),
        )

    def _version(self, at: int) -> Version:
        state = row_of(self._m.versions.table, at)
        first, last = np.searchsorted(self._versions, [at, at + 1])
        sides: dict[int, list[Access]] = {edge_table.WRITE: [], edge_table.READ: []}
        for group in range(int(first), int(last)):
            way = int(self._columns["dir"][int(self._groups[group])])
            sides[way].append(self._access(group))
        before = int(state["base"])
        return Version(
            number=int(state["number"]),
            begin_ns=int(state["begin_ns"]) or None,
            end_ns=int(state["end_ns"]) or None,
            truncated=bool(state["truncated"]),
            continues=None if before < 0 else int(self._m.versions.table["number"].to_numpy()[before]),
            writers=sorted(sides[edge_table.WRITE], key=lambda access: access.begin_ns),
            readers=sorted(sides[edge_table.READ], key=lambda access: access.begin_ns),
            undecided=not state["number"] and bool(self._undecided[int(state["file"])]),
        )

    def _actor(self, code: int) -> tuple[Row, str]:
        """The row of an actor, and its name."""
        if code not in self._actors:
            who = row_of(self._m.who, code)
            self._actors[code] = who, actor_name(self._m, who)
        return self._actors[code]

    def _access(self, number: int) -> Access:
        of = slice(int(self._groups[number]), int(self._groups[number + 1]))
        rows = {name: values[of] for name, values in self._columns.items()}
        who, name = self._actor(int(rows["who"][0]))
        group = self._extents.group
        spans = [np.searchsorted(group, [burst, burst + 1]) for burst in rows["burst"].tolist()]
        mine = np.concatenate([np.arange(low, high) for low, high in spans])
        starts, ends = self._extents.start[mine], self._extents.end[mine]
        united = intervals.union(intervals.make(np.zeros(len(starts), dtype=np.int64), starts, ends))
        ranges = [[int(start), int(end)] for start, end in zip(united.start, united.end, strict=True)]
        size, calls = int(rows["bytes"].sum()), int(rows["calls"].sum())
        exact = bool(rows["exact"].all())
        return Access(
            direction="r" if rows["dir"][0] == edge_table.READ else "w",
            workflow=str(who["workflow"]),
            stage=str(who["stage"]),
            task=str(who["task"]),
            who=name,
            host=str(who["host"]),
            pid=int(who["pid"]),
            start=str(who["start"]),
            program=str(who["exe"]),
            command=self._commands.get((str(who["host"]), int(who["pid"]), str(who["start"])), []),
            begin_ns=int(rows["first_ns"].min()),
            end_ns=int(rows["last_ns"].max()),
            bytes=size,
            calls=calls,
            pattern=access_order.NAMES[int(self._orders[number])],
            mean_bytes=size / calls if calls else 0.0,
            ranges=ranges[:MOST_RANGES],
            exact=exact and len(ranges) <= MOST_RANGES,
        )


def _runs(*columns: Array) -> Ints:
    """Where equal rows of sorted parallel columns begin, and their number at the end."""
    size = len(columns[0])
    changed = np.zeros(max(size - 1, 0), dtype=np.bool_)
    for column in columns:
        changed |= column[1:] != column[:-1]
    starts = np.flatnonzero(changed) + 1
    return np.concatenate([[0] if size else [], starts, [size]]).astype(np.int64)


def row_of(table: pd.DataFrame, at: Any) -> Row:
    """A row by its position."""
    return {name: table[name].iat[at] for name in table.columns}


def actor_name(m: Model, who: Row) -> str:
    """The task of an actor with its stage, or its program and process."""
    if who["task"]:
        return with_stage(m.task_name(str(who["workflow"]), str(who["task"])), str(who["stage"]))
    program = file_classes.program(str(who["exe"])) or "process"
    return f"{program} {processes.names(pd.DataFrame([dict(who)]))[0]}"


class _Alignment(TypedDict):
    block_bytes: int | None
    unaligned: dict[str, list[int]]


def _alignment(m: Model, code: int) -> _Alignment:
    rows = m.table.patterns[(m.table.patterns["file"] == code) & (m.table.patterns["placed"] > 0)]
    blocks = {int(one) for name in ("least_block", "most_block") for one in rows[name]}
    if len(blocks) != 1:
        return {"block_bytes": None, "unaligned": {}}
    sums = rows.groupby("dir")[["placed", "unaligned"]].sum()
    found = {edge_table.CALLS[way]: row for way, row in zip(sums.index.tolist(), sums.to_numpy().tolist(), strict=True)}
    return {"block_bytes": blocks.pop(), "unaligned": found}


# --- the trees -------------------------------------------------------------------------------------------------------


def walk(
    starts: Sequence[tuple[str, Any]],
    following: Callable[[str, Any], list[tuple[str, Any, int | None]]],
    made: Callable[[int, str, Any, int | None, bool, bool], Node],
) -> list[Node]:
    """The trees below `starts` (kind, node) in preorder.

    Args:
        following: (kind, node) -> its children: kind, node, bytes.
        made: (depth, kind, node, bytes, whether it was listed before, whether it has children) -> what is listed.
    """
    nodes: list[Node] = []
    seen: set[tuple[str, Any]] = set()
    for kind_of_start, start in starts:
        stack: list[tuple[int, str, Any, int | None]] = [(0, kind_of_start, start, None)]
        while stack:
            depth, kind, node, size = stack.pop()
            again = (kind, node) in seen
            seen.add((kind, node))
            children = [] if again else following(kind, node)
            nodes.append(made(depth, kind, node, size, again, bool(children)))
            stack += [(depth + 1, *child) for child in reversed(children)]
    return nodes


class _Tree:
    """Versions and activities, and which leads to which."""

    def __init__(self, m: Model, hashes: PresentFiles | None) -> None:
        self._m, self._hashes, self._undecided = m, hashes, undecided.files(m)
        self._code, self._activities = dataflow.activities(m, "task")
        data = m.classed(dataflow.DEFAULT_CLASSES)
        rows = pd.DataFrame(
            {
                "activity": self._code[m.bursts["who"].to_numpy()],
                "version": m.version,
                **{name: m.bursts[name].to_numpy() for name in ("dir", "bytes", "first_ns", "last_ns")},
            }
        )[data]
        sums = rows.groupby(["activity", "version", "dir"], as_index=False).agg(
            {"bytes": "sum", "first_ns": "min", "last_ns": "max"}
        )
        self._of: dict[tuple[str, int, int], list[Row]] = {}
        for row in sums.to_dict("records"):
            self._of.setdefault(("version", int(row["version"]), int(row["dir"])), []).append(row)
            self._of.setdefault(("activity", int(row["activity"]), int(row["dir"])), []).append(row)
        self._first = {code: at for at, code in reversed(list(enumerate(self._code.tolist())))}
        self._own = own_actors(m, self._code)
        self._commands = m.command_lines

    def up(self, codes: Ints) -> list[Node]:
        """From the last version of each file to what nobody made."""
        return self._walk(codes, edge_table.WRITE)

    def down(self, codes: Ints) -> list[Node]:
        """From the first version of each file to what nobody read."""
        return self._walk(codes, edge_table.READ)

    def _walk(self, codes: Ints, way: int) -> list[Node]:
        file = self._m.versions.table["file"].to_numpy()
        places = [np.flatnonzero(file == code) for code in codes.tolist()]
        return walk(
            [("version", int(at[-1 if way == edge_table.WRITE else 0])) for at in places if len(at)],
            lambda kind, node: list(self._next(kind, node, way)),
            lambda depth, kind, node, size, again, more: self._node(depth, kind, node, size, again, more, way),
        )

    def _next(self, kind: str, node: int, way: int) -> Iterator[tuple[str, int, int | None]]:
        """What a node came from (way: WRITE) or led to (READ), with bytes."""
        other = edge_table.READ if way == edge_table.WRITE else edge_table.WRITE
        if kind == "version":
            for row in sorted(self._of.get((kind, node, way), ()), key=lambda row: int(row["first_ns"])):
                yield "activity", int(row["activity"]), int(row["bytes"])
            table = self._m.versions.table
            if way == edge_table.WRITE and (base := int(table["base"].to_numpy()[node])) >= 0:
                yield "version", base, None
            elif way == edge_table.READ:
                for after in np.flatnonzero(table["base"].to_numpy() == node).tolist():
                    yield "version", after, None
            return
        mine = self._of.get((kind, node, way), ())
        written = {int(row["version"]) for row in self._of.get((kind, node, edge_table.WRITE), ())}
        for row in sorted(self._of.get((kind, node, other), ()), key=lambda row: int(row["first_ns"])):
            if way == edge_table.WRITE:
                used = int(row["version"]) not in written and any(row["first_ns"] <= w["last_ns"] for w in mine)
            else:
                used = any(r["first_ns"] <= row["last_ns"] for r in mine)
            if used:
                yield "version", int(row["version"]), int(row["bytes"])

    def _node(self, depth: int, kind: str, node: int, size: int | None, again: bool, more: bool, way: int) -> Node:
        if kind == "version":
            row = row_of(self._m.versions.table, node)
            code, states = int(row["file"]), self._m.versions.table
            before = "before the run, or another host" if self._undecided[code] else "before the run"
            end = before if int(row["number"]) == 0 else "no traced writer"
            end = "above" if again else "" if more else end if way == edge_table.WRITE else "not read"
            now = None if self._hashes is None else self._hashes.of(code)
            name = f"{self._m.paths[code] or str(self._m.table.files['file'].iat[code])}@{int(row['number'])}"
            last = int(row["number"]) == int(states["number"][states["file"] == code].max())
            return Node(depth, "file", name, end, size, sha256=now.sha256 if now is not None and last else None)
        activity = row_of(self._activities, node)
        who = row_of(self._m.who, self._own.get(node, self._first[node]))
        end = "above" if again else "" if more else "no input" if way == edge_table.WRITE else "no output"
        process = (str(who["host"]), int(who["pid"]), str(who["start"]))
        command = self._commands.get(process, []) if node in self._own else []
        kind = "task" if activity["task"] else "process"
        return Node(depth, kind, actor_name(self._m, who), end, size, str(who["exe"]), command)
