"""The history of a file over all runs of a store: who made it, from what, who used it since, and what is stale.

    name --files--> identities --_Cone: the runs that wrote or read them, and what these read and wrote--> History

Identity and version join runs as they join tasks. An identity (device, inode and birth time; on a network file system
the mount's source instead of the host and device) is the same in every run. Its versions are those of all runs by the
time of their first write, numbered from 1; 0 is the file as it was before anything traced wrote it. A read belongs to
the version that its run says, unless another run wrote a newer one before the read began.

A result is *stale* when one of its inputs, or an input of these, was written again by a later run: its latest version
is one that was read before. A file that was replaced by another one of its name (written beside it and renamed) counts
as written again. Not stale is what its own run rewrote: the run would do so again. Nor is what is there no longer.

Invariants: only what the store has is known: an untraced program's write is not seen. Other users' rows say what those
users say. At most `MOST_RUNS` runs are followed, the newest; `History.left_out` says how many were not.
"""

from __future__ import annotations

import fnmatch
import os
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tailrace.analyzer.edges import file_classes, identities
from tailrace.analyzer.insights import file_history
from tailrace.analyzer.insights.file_history import Access, File, FileHistory, Node
from tailrace.analyzer.util.formatting import with_stage
from tailrace.analyzer.util.types import Row
from tailrace.errors import QueryError

if TYPE_CHECKING:
    from tailrace.analyzer.runstore.store import Store

MOST_RUNS = 2000
MOST_LEVELS = 64
_PATTERN = frozenset("*?[")
_FILE = ["owner", "run", "file", "identity", "path", "names", "ftype", "size_bytes", "read_bytes", "written_bytes"]
_FILE += ["versions", "first_ns", "last_ns", "gone_ns", "day"]
_RUN = ["owner", "run", "path", "user", "t0_ns", "day"]
_PROCESS = ["owner", "run", "host", "pid", "start", "command"]

Run = tuple[int, str]
"""Owner and id."""
Activity = tuple[Run, tuple[Any, ...]]
"""A task, or a process without one, of a run."""


class State(NamedTuple):
    """A version of an identity in the order of all runs; number 0: before all of them."""

    identity: str
    number: int


@dataclass(frozen=True)
class Cause:
    """An input that was written again: the version that was read, when, and when, by whom and in which run the newer
    one was written."""

    path: str
    read: str
    read_ns: int
    newer: str
    changed_ns: int
    changed_by: str
    command: list[str]
    run: str


@dataclass(frozen=True)
class Stale:
    """A result whose input changed. by: who made it; causes: the inputs that changed, its own or those of its
    inputs."""

    path: str
    version: str
    by: str
    command: list[str]
    run: str
    made_ns: int
    causes: list[Cause]


@dataclass(frozen=True)
class History:
    """The history of the files of a name; t0_ns of `file` is 0: times are dates. stale: of the file and of what was
    made from it; runs: how many runs it goes through."""

    file: FileHistory
    stale: list[Stale]
    runs: int
    left_out: int = 0

    def to_json(self) -> dict[str, Any]:
        """The history as plain values."""
        return asdict(self)


def history(store: Store, name: str, *, up: bool = True, down: bool = True) -> History:
    """The history of the files of a name: whole, relative to the current directory, the end of a path, a pattern with
    *, ? or [, or an identity; any name that a file had in any run. Raises QueryError when no run has such a name."""
    wanted = _find(store, name)
    cone = _Cone(store)
    cone.follow(wanted, up=True, down=True)
    known = [identity for identity in wanted if identity in cone.files]
    known.sort(key=lambda identity: min(row["first_ns"] for row in cone.files[identity]))
    shown = [_file(cone, identity) for identity in known]
    tree = _Tree(cone)
    ups, downs = tree.up(known), tree.down(known)
    return History(
        FileHistory(name, 0, shown, ups if up else None, downs if down else None),
        _stale(cone, tree),
        len(cone.runs),
        cone.left_out,
    )


# --- by name ---------------------------------------------------------------------------------------------------------


def _find(store: Store, name: str) -> list[str]:
    """The identities of a name. Raises QueryError when there is none."""
    exact = {name, os.path.normpath(Path.cwd() / name)}
    end = f"/{name.lstrip('/')}"
    ends: dict[str, None] = {}
    whole: dict[str, None] = {}
    columns, is_data = ["identity", "path", "names"], ds.field("class") == "data"
    for identity, path in store.picked("files", columns, is_data, lambda batch: _named(batch, name, end, exact)):
        (whole if path in exact or identity == name else ends)[identity] = None
    found = list(whole or ends)
    if not found:
        raise QueryError(f"{store.path}: no run used a data file called {name!r}")
    return found


def _named(batch: pa.RecordBatch, name: str, end: str, exact: set[str]) -> Iterator[tuple[str, str]]:
    """(identity, name) of the rows that fit."""
    names = batch.column("names")
    fits = re.compile(fnmatch.translate(name))  # RE2, which Arrow has, does not know its groups
    parents = pc.list_parent_indices(names)
    for texts, rows in ((batch.column("path"), None), (pc.list_flatten(names), parents)):
        if _PATTERN & set(name):
            mine = pa.array([text is not None and bool(fits.match(text)) for text in texts.to_pylist()], pa.bool_())
        else:
            mine = pc.or_(pc.ends_with(texts, end), pc.is_in(texts, pa.array(sorted(exact))))
        if rows is None:
            mine = pc.or_(mine, pc.equal(batch.column("identity"), name))
        at = pc.indices_nonzero(pc.fill_null(mine, False))
        of = at if rows is None else pc.take(rows, at)
        yield from zip(pc.take(batch.column("identity"), of).to_pylist(), pc.take(texts, at).to_pylist(), strict=True)


# --- the runs around some files --------------------------------------------------------------------------------------


class _Order(NamedTuple):
    """The written versions of an identity by their begin, their begins, the number of each, and when it was removed."""

    rows: list[Row]
    begins: list[int]
    places: dict[tuple[Run, str, int], int]
    gone: list[int]


@dataclass
class _Cone:
    """What is loaded of a store: the runs that the history of some files goes through."""

    store: Store
    files: dict[str, list[Row]] = field(default_factory=dict)
    of_path: dict[str, set[str]] = field(default_factory=dict)
    runs: dict[Run, Row] = field(default_factory=dict)
    edges: dict[tuple[Run, str], list[Row]] = field(default_factory=dict)
    moved: dict[Activity, list[Row]] = field(default_factory=dict)
    versions: dict[tuple[Run, str], list[Row]] = field(default_factory=dict)
    commands: dict[tuple[Any, ...], list[str]] = field(default_factory=dict)
    left_out: int = 0
    _known: set[tuple[Run, str]] = field(default_factory=set)
    _whole: set[str] = field(default_factory=set)
    _orders: dict[str, _Order] = field(default_factory=dict)
    _reads: dict[str, dict[State, list[Row]]] = field(default_factory=dict)

    def follow(self, wanted: Iterable[str], up: bool, down: bool) -> None:
        """Loads what the files were made from and used for."""
        start = set(wanted)
        reached = self._levels(start, "r") if down else start
        if up:
            self._levels(reached | start, "w")

    def _levels(self, start: set[str], way: str) -> set[str]:
        """Loads level by level from activities that read (r) or wrote (w) a file to what they wrote or read."""
        seen, frontier = set(start), set(start)
        for _ in range(MOST_LEVELS):
            self._load(frontier, readers=way == "r")
            following: set[str] = set()
            for activity in self._activities(frontier, way):
                following |= {identities.raw(row["file"]) for row in self.moved[activity] if row["direction"] != way}
            frontier = following - seen
            if not frontier:
                break
            seen |= frontier
        # What was read beside, and who wrote it: a change of it makes the result stale.
        self._load({identities.raw(row["file"]) for rows in self.moved.values() for row in rows}, readers=False)
        return seen

    def _activities(self, wanted: set[str], way: str) -> set[Activity]:
        found = set()
        for identity in wanted:
            for file in self.files.get(identity, ()):
                rows = self.edges.get((_run(file), file["file"]), ())
                found |= {_activity(row) for row in rows if row["direction"] == way}
        return found

    def _load(self, wanted: set[str], readers: bool) -> None:
        """The rows of files, and the runs that wrote them; with `readers` also those that read them."""
        new = sorted(wanted - (self._whole if readers else self.files.keys()))
        if readers:
            self._whole |= wanted
        if new:
            named = _among("identity", new)
            if readers:
                place, used = named, named
            else:
                # An input may have been read by every run of the store: of those only the ones around matter.
                near = named & self._near()
                used = near | (ds.field("versions") > 0) | ds.field("gone_ns").is_valid()
                place = near
            paths = {row["path"] for row in self._rows("files", ["path"], place)}
            place = named | _among("path", filter(None, paths))
            if readers:
                used = named | (ds.field("versions") > 0)
            for row in self._rows("files", _FILE, place & used & (ds.field("class") == "data")):
                if (_run(row), row["file"]) not in self._known:
                    self._known.add((_run(row), row["file"]))
                    self.files.setdefault(row["identity"], []).append(row)
                    self.of_path.setdefault(row["path"], set()).add(row["identity"])
            self._forget()
        mine = [row for identity in wanted for row in self.files.get(identity, ())]
        others = [row for path in {row["path"] for row in mine} for i in self.of_path[path] for row in self.files[i]]
        runs = {_run(row): (row["last_ns"], row["day"]) for row in others if row["versions"]}
        if readers:
            runs |= {_run(row): (row["last_ns"], row["day"]) for row in mine}
        order = sorted(set(runs) - set(self.runs), key=lambda run: runs[run], reverse=True)
        self._load_runs(order, {run: day for run, (_, day) in runs.items()})

    def _near(self) -> ds.Expression:
        days = sorted({str(row["day"]) for row in self.runs.values()})
        return _among("day", days) & _among("run", {run for _, run in self.runs})

    def _load_runs(self, runs: list[Run], day_of: dict[Run, str]) -> None:
        room = MOST_RUNS - len(self.runs)
        self.left_out += max(len(runs) - room, 0)
        new = set(runs[: max(room, 0)])
        if not new:
            return
        # By the day whole files are left out.
        place = _among("day", {day_of[run] for run in new})
        place = place & _among("run", {run for _, run in new})
        for row in self._rows("runs", _RUN, place):
            if _run(row) in new:
                self.runs[_run(row)] = row
        for row in self._rows("edges", None, place):
            if _run(row) in new:
                self.edges.setdefault((_run(row), row["file"]), []).append(row)
                self.moved.setdefault(_activity(row), []).append(row)
        for row in self._rows("versions", None, place):
            if _run(row) in new:
                self.versions.setdefault((_run(row), row["file"]), []).append(row)
        for row in self._rows("processes", _PROCESS, place):
            self.commands[_run(row), row["host"], row["pid"], row["start"]] = row["command"] or []
        self._forget()

    def _rows(self, table: str, columns: list[str] | None, where: ds.Expression) -> list[Row]:
        rows: list[Row] = self.store.read(table, columns, where).to_pylist()
        return rows

    # ---- versions of all runs ----

    def _forget(self) -> None:
        self._orders.clear()
        self._reads.clear()

    def _order(self, identity: str) -> _Order:
        if identity not in self._orders:
            rows = [
                version
                for file in self.files.get(identity, ())
                for version in self.versions.get((_run(file), file["file"]), ())
                if version["version"] and version["begin_ns"] is not None
            ]
            rows.sort(key=lambda row: (row["begin_ns"], _run(row), row["version"]))
            places = {(_run(row), row["file"], row["version"]): number for number, row in enumerate(rows, 1)}
            gone = [file["gone_ns"] for file in self.files.get(identity, ()) if file["gone_ns"] is not None]
            self._orders[identity] = _Order(rows, [row["begin_ns"] for row in rows], places, sorted(gone))
        return self._orders[identity]

    def states(self, identity: str) -> list[Row]:
        """The written versions of an identity, by their begin: the first is number 1."""
        return self._order(identity).rows

    def state_of(self, run: Run, file: str, version: int, first_ns: int) -> State:
        """The version that an access was on, over all runs."""
        identity = identities.raw(file)
        order = self._order(identity)
        own = order.places.get((run, file, version), 0)
        latest = bisect_right(order.begins, first_ns)
        if not latest or latest <= own:
            return State(identity, own)
        row = order.rows[latest - 1]
        # Between versions of its own run the run knows better: it has each access, and clocks that agree.
        if own and _run(row) == run:
            return State(identity, own)
        removed = bisect_left(order.gone, row["end_ns"])
        if removed < len(order.gone) and order.gone[removed] < first_ns:
            return State(identity, own)  # an inode that was used again
        return State(identity, latest)

    def writers(self, state: State) -> list[Row]:
        """The edges that wrote a version."""
        if not state.number:
            return []
        row = self.states(state.identity)[state.number - 1]
        edges = self.edges.get((_run(row), row["file"]), ())
        return [edge for edge in edges if edge["direction"] == "w" and edge["version"] == row["version"]]

    def readers(self, state: State) -> list[Row]:
        """The edges that read a version, in any loaded run."""
        if state.identity not in self._reads:
            found: dict[State, list[Row]] = {}
            for file in self.files.get(state.identity, ()):
                for edge in self.edges.get((_run(file), file["file"]), ()):
                    if edge["direction"] == "r":
                        found.setdefault(self.read_state(edge), []).append(edge)
            self._reads[state.identity] = found
        return self._reads[state.identity].get(state, [])

    def read_state(self, edge: Row) -> State:
        """The version that an edge read."""
        return self.state_of(_run(edge), edge["file"], edge["version"], edge["first_ns"])

    def base(self, state: State) -> State | None:
        """The version whose bytes remain in this one."""
        if not state.number:
            return None
        row = self.states(state.identity)[state.number - 1]
        if row["whole"]:
            return None
        return State(state.identity, state.number - 1)

    def last(self, identity: str) -> State:
        """The latest version."""
        return State(identity, len(self.states(identity)))

    def path(self, identity: str, ns: int | None = None) -> str:
        """The last name of a file, or that at a time."""
        rows = sorted(self.files.get(identity, ()), key=lambda row: row["last_ns"])
        if ns is not None:
            rows = [row for row in rows if row["first_ns"] <= ns] or rows[:1]
        return str(rows[-1]["path"] or identity) if rows else identity

    def newer(self, edge: Row) -> State | None:
        """The latest version of an input that another run began to write after this read; also of the file that took
        its name."""
        read = self.read_state(edge)
        found = []
        # What the reading run itself removed was its own temporary file: another one of that name is no change of it.
        own = any(row["gone_ns"] is not None and _run(row) == _run(edge) for row in self.files.get(read.identity, ()))
        for identity in (read.identity, *(() if own else self.successors(read.identity, edge["last_ns"]))):
            number = len(self.states(identity))
            if not number:
                continue
            row = self.states(identity)[number - 1]
            if row["begin_ns"] > edge["last_ns"] and _run(row) != _run(edge):
                found.append((row["begin_ns"], State(identity, number)))
        return max(found)[1] if found else None

    def replaced(self, state: State) -> bool:
        """Whether the file is there no longer: it was removed, or another file was written and got its name."""
        ns = self.states(state.identity)[state.number - 1]["begin_ns"]
        if any((row["gone_ns"] or 0) >= ns for row in self.files[state.identity]):
            return True
        last = max(row["last_ns"] for row in self.files[state.identity])
        later = (self._order(other).begins for other in self.successors(state.identity, last))
        return any(begins and begins[0] > ns for begins in later)

    def successors(self, identity: str, ns: int) -> Iterator[str]:
        """Other files on the same file system that had the name which this one had at that time."""
        path = self.path(identity, ns)
        for other in self.of_path.get(path, ()):
            if other != identity and other.rsplit(":", 2)[0] == identity.rsplit(":", 2)[0]:
                yield other

    def who(self, edge: Row) -> str:
        """The task, or the program and process, of an edge."""
        if edge["task"]:
            return with_stage(str(edge["task"]), str(edge["stage"] or ""))
        return f"{file_classes.program(str(edge['program'] or '')) or 'process'} {edge['host']}:{edge['pid']}"

    def command(self, edge: Row) -> list[str]:
        """The command line of an edge's process."""
        return self.commands.get((_run(edge), edge["host"], edge["pid"], edge["start"]), [])

    def where(self, run: Run) -> str:
        """The directory of a run."""
        return str(self.runs.get(run, {}).get("path") or run[1])


def _among(column: str, values: Iterable[str]) -> ds.Expression:
    """A filter on a text column; it fits nothing where there are no values."""
    return ds.field(column).isin(pa.array(sorted(values), pa.string()))


def _run(row: Row) -> Run:
    return int(row["owner"]), str(row["run"])


def _activity(edge: Row) -> Activity:
    if edge["task"]:
        return _run(edge), (edge["workflow"], edge["stage"], edge["task"])
    return _run(edge), (edge["host"], edge["pid"], edge["start"])


# --- the file --------------------------------------------------------------------------------------------------------


def _file(cone: _Cone, identity: str) -> File:
    rows = sorted(cone.files[identity], key=lambda row: row["first_ns"])
    last = cone.last(identity).number
    gone = [row["gone_ns"] for row in rows if row["gone_ns"] is not None]
    names = [name for row in rows for name in (*(row["names"] or ()), row["path"]) if name]
    states = cone.states(identity)
    begun = [row["begin_ns"] for row in states]
    born, used = (begun[0] if begun else rows[0]["first_ns"]), max(row["last_ns"] for row in rows)
    return File(
        identity=identity,
        path=cone.path(identity),
        names=list(dict.fromkeys(names)),
        type=str(rows[-1]["ftype"] or ""),
        kind="data",
        size=rows[-1]["size_bytes"] or 0,
        born_ns=born,
        last_use_ns=used,
        gone_ns=max(gone) if gone and max(gone) >= (begun[-1] if begun else 0) else None,
        lived_ns=max(used - born, 0),
        read_bytes=sum(row["read_bytes"] or 0 for row in rows),
        written_bytes=sum(row["written_bytes"] or 0 for row in rows),
        versions=[
            version
            for number in range(last + 1)
            if (version := _version(cone, State(identity, number))).number or version.readers
        ],
    )


def _version(cone: _Cone, state: State) -> file_history.Version:
    row = cone.states(state.identity)[state.number - 1] if state.number else {}
    base = cone.base(state)
    return file_history.Version(
        number=state.number,
        begin_ns=row.get("begin_ns"),
        end_ns=row.get("end_ns"),
        truncated=bool(row.get("whole")) and state.number > 1,
        continues=None if base is None else base.number,
        writers=[_access(cone, edge) for edge in _by_time(cone.writers(state))],
        readers=[_access(cone, edge) for edge in _by_time(cone.readers(state))],
    )


def _by_time(edges: Iterable[Row]) -> list[Row]:
    return sorted(edges, key=lambda edge: (edge["first_ns"], str(edge["program"])))


def _access(cone: _Cone, edge: Row) -> Access:
    run = cone.runs.get(_run(edge), {})
    calls = edge["calls"] or 0
    return Access(
        direction=str(edge["direction"]),
        workflow=str(edge["workflow"] or ""),
        stage=str(edge["stage"] or ""),
        task=str(edge["task"] or ""),
        who=cone.who(edge),
        host=str(edge["host"] or ""),
        pid=int(edge["pid"] or 0),
        start=str(edge["start"] or ""),
        program=str(edge["program"] or ""),
        command=cone.command(edge),
        begin_ns=edge["first_ns"],
        end_ns=edge["last_ns"],
        bytes=edge["bytes"] or 0,
        calls=calls,
        pattern="",
        mean_bytes=(edge["bytes"] or 0) / calls if calls else 0.0,
        ranges=[],
        exact=bool(edge["exact"]),
        run=cone.where(_run(edge)),
        user=str(run.get("user") or ""),
    )


# --- the trees -------------------------------------------------------------------------------------------------------


class _Tree:
    """Versions and activities of all runs, and which leads to which."""

    def __init__(self, cone: _Cone) -> None:
        self._cone = cone
        self.reached: dict[State, None] = {}

    def up(self, wanted: Iterable[str]) -> list[Node]:
        """From the last version of each file to what nobody traced made."""
        return self._walk([self._cone.last(identity) for identity in wanted], "w")

    def down(self, wanted: Iterable[str]) -> list[Node]:
        """From the last version of each file to what nobody read."""
        starts = [
            next((State(i, n) for n in range(self._cone.last(i).number + 1) if self._cone.readers(State(i, n))), None)
            or self._cone.last(i)
            for i in wanted
        ]
        return self._walk(starts, "r")

    def _walk(self, starts: list[State], way: str) -> list[Node]:
        return file_history.walk(
            [("version", state) for state in starts],
            lambda kind, node: list(self.following(kind, node, way)),
            lambda depth, kind, node, size, again, more: self._node(depth, kind, node, size, again, more, way),
        )

    def following(self, kind: str, node: Any, way: str) -> Iterator[tuple[str, Any, int | None]]:
        """What a node came from (w) or led to (r), with bytes."""
        cone = self._cone
        if kind == "version":
            self.reached[node] = None
            edges = cone.writers(node) if way == "w" else cone.readers(node)
            sums: dict[Activity, int] = {}
            for edge in _by_time(edges):
                sums[_activity(edge)] = sums.get(_activity(edge), 0) + (edge["bytes"] or 0)
            for activity, size in sums.items():
                yield "activity", activity, size
            if way == "w" and (base := cone.base(node)) is not None:
                yield "version", base, None
            after = State(node.identity, node.number + 1)
            if way == "r" and node.number < cone.last(node.identity).number and cone.base(after) == node:
                yield "version", after, None
            return
        mine = cone.moved[node]
        pivot = [edge for edge in mine if edge["direction"] == way]
        written = {(edge["file"], edge["version"]) for edge in mine if edge["direction"] == "w"}
        sums2: dict[State, int] = {}
        for edge in _by_time(edge for edge in mine if edge["direction"] != way):
            if way == "w":
                used = (edge["file"], edge["version"]) not in written
                used = used and any(edge["first_ns"] <= other["last_ns"] for other in pivot)
                state = cone.read_state(edge)
            else:
                used = any(other["first_ns"] <= edge["last_ns"] for other in pivot)
                state = cone.state_of(_run(edge), edge["file"], edge["version"], edge["first_ns"])
            if used:
                sums2[state] = sums2.get(state, 0) + (edge["bytes"] or 0)
        for state, size in sums2.items():
            yield "version", state, size

    def _node(self, depth: int, kind: str, node: Any, size: int | None, again: bool, more: bool, way: str) -> Node:
        cone = self._cone
        if kind == "version":
            end = "nobody traced made it" if not node.number else "no traced writer"
            end = "above" if again else "" if more else end if way == "w" else "not read"
            return Node(depth, "file", f"{cone.path(node.identity)}@{node.number}", end, size)
        first = _by_time(cone.moved[node])[0]
        end = "above" if again else "" if more else "no input" if way == "w" else "no output"
        kind = "task" if first["task"] else "process"
        program, command = str(first["program"] or ""), cone.command(first)
        return Node(depth, kind, cone.who(first), end, size, program, command, run=cone.where(node[0]))


# --- what is stale ---------------------------------------------------------------------------------------------------


def _stale(cone: _Cone, tree: _Tree) -> list[Stale]:
    """The latest versions among those of the trees whose inputs changed, by time."""
    found = []
    for state in [state for state in tree.reached if state.number and state == cone.last(state.identity)]:
        writers = _by_time(cone.writers(state))
        if not writers or cone.replaced(state):
            continue
        causes = _causes(cone, tree, state)
        if causes:
            edge = writers[-1]
            path, where = cone.path(state.identity), cone.where(_run(edge))
            name = f"{path}@{state.number}"
            found.append(Stale(path, name, cone.who(edge), cone.command(edge), where, edge["last_ns"], causes))
    return sorted(found, key=lambda one: one.made_ns)


def _causes(cone: _Cone, tree: _Tree, state: State) -> list[Cause]:
    """The inputs of a version that changed since they were read, its own or those of its inputs."""
    found: dict[State, Cause] = {}
    stack, seen = [state], {state}
    while stack:
        now = stack.pop()
        base = cone.base(now)
        following = [base] if base is not None else []
        for kind, activity, _ in tree.following("version", now, "w"):
            if kind != "activity":
                continue
            used = {node for _, node, _ in tree.following("activity", activity, "w")}
            for edge in cone.moved[activity]:
                read = cone.read_state(edge) if edge["direction"] == "r" else None
                if read is None or read not in used or read.identity == state.identity:
                    continue
                newer = cone.newer(edge)
                if newer is None:
                    following.append(read)
                elif read not in found:
                    found[read] = _cause(cone, edge, read, newer)
        fresh = [one for one in following if one not in seen]
        seen.update(fresh)
        stack += fresh
    return sorted(found.values(), key=lambda cause: cause.changed_ns)


def _cause(cone: _Cone, edge: Row, read: State, newer: State) -> Cause:
    writer = _by_time(cone.writers(newer))[-1] if cone.writers(newer) else None
    row = cone.states(newer.identity)[newer.number - 1]
    path = cone.path(read.identity, edge["last_ns"])
    after = newer.number if newer.identity == read.identity else f"{newer.number} of another file of this name"
    return Cause(
        path=path,
        read=f"{path}@{read.number}",
        read_ns=edge["first_ns"],
        newer=f"{cone.path(newer.identity)}@{after}",
        changed_ns=row["end_ns"],
        changed_by=cone.who(writer) if writer else "",
        command=cone.command(writer) if writer else [],
        run=cone.where(_run(row)),
    )
