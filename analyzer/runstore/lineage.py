"""The history of a file over all runs of a store: who made it, from what, who used it since, and what is stale.

    name --files--> identities --JoinedRuns (joined_runs.py)--> versions, who wrote and read them --> History

A result is *stale* when one of its inputs, or an input of these, was written again by a later run: its latest version
is one that was read before. A file that was replaced by another one of its name (written beside it and renamed) counts
as written again. Not stale is what its own run rewrote: the run would do so again. Nor is what is there no longer.

Invariants: only what the store has is known: an untraced program's write is not seen. Other users' rows say what those
users say.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tailrace.analyzer.insights import file_history
from tailrace.analyzer.insights.file_history import Access, File, FileHistory, Node
from tailrace.analyzer.runstore.joined_runs import Activity, JoinedRuns, State, activity_of, run_of
from tailrace.analyzer.util.types import Row
from tailrace.errors import QueryError

if TYPE_CHECKING:
    from tailrace.analyzer.runstore.store import Store

_PATTERN = frozenset("*?[")


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
    joined = JoinedRuns(store)
    joined.follow(wanted, up=True, down=True)
    known = [identity for identity in wanted if identity in joined.files]
    known.sort(key=lambda identity: (min(row["first_ns"] for row in joined.files[identity]), identity))
    shown = [_file(joined, identity) for identity in known]
    tree = _Tree(joined)
    ups, downs = tree.up(known), tree.down(known)
    return History(
        FileHistory(name, 0, shown, ups if up else None, downs if down else None),
        _stale(joined, tree),
        len(joined.runs),
        joined.left_out,
    )


# --- by name ---------------------------------------------------------------------------------------------------------


def _find(store: Store, name: str) -> list[str]:
    """The identities of a name. Raises QueryError when there is none."""
    exact = {name, os.path.normpath(Path.cwd() / name)}
    end = f"/{name.lstrip('/')}"
    ends: dict[str, None] = {}
    whole: dict[str, None] = {}
    columns, place = ["identity", "path", "names"], ds.field("class") == "data"
    if ":" not in name:  # no identity, so that they are read of the days that have the name alone
        days = store.picked("files", ["day", *columns[1:]], place, lambda batch: _named(batch, name, end, exact, "day"))
        place = ds.field("day").isin(pa.array(sorted({day for day, _ in days}), pa.string())) & place
    for identity, path in store.picked("files", columns, place, lambda batch: _named(batch, name, end, exact)):
        (whole if path in exact or identity == name else ends)[identity] = None
    found = list(whole or ends)
    if not found:
        raise QueryError(f"{store.path}: no run used a data file called {name!r}")
    return found


def _named(
    batch: pa.RecordBatch, name: str, end: str, exact: set[str], column: str = "identity"
) -> Iterator[tuple[str, str]]:
    """(value of the column, name) of the rows that fit."""
    names = batch.column("names")
    fits = re.compile(fnmatch.translate(name))  # RE2, which Arrow has, does not know its groups
    parents = pc.list_parent_indices(names)
    for texts, rows in ((batch.column("path"), None), (pc.list_flatten(names), parents)):
        if _PATTERN & set(name):
            mine = pa.array([text is not None and bool(fits.match(text)) for text in texts.to_pylist()], pa.bool_())
        else:
            mine = pc.or_(pc.ends_with(texts, end), pc.is_in(texts, pa.array(sorted(exact))))
        if rows is None and column == "identity":
            mine = pc.or_(mine, pc.equal(batch.column("identity"), name))
        at = pc.indices_nonzero(pc.fill_null(mine, False))
        of = at if rows is None else pc.take(rows, at)
        yield from zip(pc.take(batch.column(column), of).to_pylist(), pc.take(texts, at).to_pylist(), strict=True)


# --- the file --------------------------------------------------------------------------------------------------------


def _file(joined: JoinedRuns, identity: str) -> File:
    rows = sorted(joined.files[identity], key=lambda row: (row["first_ns"], run_of(row)))
    last = joined.last(identity).number
    gone = [row["gone_ns"] for row in rows if row["gone_ns"] is not None]
    names = [name for row in rows for name in (*(row["names"] or ()), row["path"]) if name]
    states = joined.states(identity)
    begun = [row["begin_ns"] for row in states]
    born, used = (begun[0] if begun else rows[0]["first_ns"]), max(row["last_ns"] for row in rows)
    return File(
        identity=identity,
        path=joined.path(identity),
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
            if (version := _version(joined, State(identity, number))).number or version.readers
        ],
    )


def _version(joined: JoinedRuns, state: State) -> file_history.Version:
    row = joined.states(state.identity)[state.number - 1] if state.number else {}
    base = joined.base(state)
    return file_history.Version(
        number=state.number,
        begin_ns=row.get("begin_ns"),
        end_ns=row.get("end_ns"),
        truncated=bool(row.get("whole")) and state.number > 1,
        continues=None if base is None else base.number,
        writers=[_access(joined, edge) for edge in _by_time(joined.writers(state))],
        readers=[_access(joined, edge) for edge in _by_time(joined.readers(state))],
        undecided=not state.number and joined.undecided(state.identity),
    )


_EDGE = ("program", "host", "pid", "start", "workflow", "stage", "task", "file", "version", "direction")
"""What tells apart edges that began at the same time."""


def _by_time(edges: Iterable[Row]) -> list[Row]:
    return sorted(edges, key=lambda edge: (edge["first_ns"], *(str(edge[name]) for name in _EDGE), run_of(edge)))


def _access(joined: JoinedRuns, edge: Row) -> Access:
    run = joined.runs.get(run_of(edge), {})
    calls = edge["calls"] or 0
    return Access(
        direction=str(edge["direction"]),
        workflow=str(edge["workflow"] or ""),
        stage=str(edge["stage"] or ""),
        task=str(edge["task"] or ""),
        who=joined.who(edge),
        host=str(edge["host"] or ""),
        pid=int(edge["pid"] or 0),
        start=str(edge["start"] or ""),
        program=str(edge["program"] or ""),
        command=joined.command(edge),
        begin_ns=edge["first_ns"],
        end_ns=edge["last_ns"],
        bytes=edge["bytes"] or 0,
        calls=calls,
        pattern="",
        mean_bytes=(edge["bytes"] or 0) / calls if calls else 0.0,
        ranges=[],
        exact=bool(edge["exact"]),
        run=joined.where(run_of(edge)),
        user=str(run.get("user") or ""),
    )


# --- the trees -------------------------------------------------------------------------------------------------------


class _Tree:
    """Versions and activities of all runs, and which leads to which."""

    def __init__(self, joined: JoinedRuns) -> None:
        self._joined = joined
        self.reached: dict[State, None] = {}

    def up(self, wanted: Iterable[str]) -> list[Node]:
        """From the last version of each file to what nobody traced made."""
        return self._walk([self._joined.last(identity) for identity in wanted], "w")

    def down(self, wanted: Iterable[str]) -> list[Node]:
        """From the last version of each file to what nobody read."""
        starts = [
            next(
                (State(i, n) for n in range(self._joined.last(i).number + 1) if self._joined.readers(State(i, n))), None
            )
            or self._joined.last(i)
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
        joined = self._joined
        if kind == "version":
            self.reached[node] = None
            edges = joined.writers(node) if way == "w" else joined.readers(node)
            sums: dict[Activity, int] = {}
            for edge in _by_time(edges):
                sums[activity_of(edge)] = sums.get(activity_of(edge), 0) + (edge["bytes"] or 0)
            for activity, size in sums.items():
                yield "activity", activity, size
            if way == "w" and (base := joined.base(node)) is not None:
                yield "version", base, None
            after = State(node.identity, node.number + 1)
            if way == "r" and node.number < joined.last(node.identity).number and joined.base(after) == node:
                yield "version", after, None
            return
        mine = joined.moved[node]
        pivot = [edge for edge in mine if edge["direction"] == way]
        written = {(edge["file"], edge["version"]) for edge in mine if edge["direction"] == "w"}
        sums2: dict[State, int] = {}
        for edge in _by_time(edge for edge in mine if edge["direction"] != way):
            if way == "w":
                used = (edge["file"], edge["version"]) not in written
                used = used and any(edge["first_ns"] <= other["last_ns"] for other in pivot)
                state = joined.read_state(edge)
            else:
                used = any(other["first_ns"] <= edge["last_ns"] for other in pivot)
                state = joined.state_of(run_of(edge), edge["file"], edge["version"], edge["first_ns"])
            if used:
                sums2[state] = sums2.get(state, 0) + (edge["bytes"] or 0)
        for state, size in sums2.items():
            yield "version", state, size

    def _node(self, depth: int, kind: str, node: Any, size: int | None, again: bool, more: bool, way: str) -> Node:
        joined = self._joined
        if kind == "version":
            before = "nobody traced made it"
            before += ", or another host did" if joined.undecided(node.identity) else ""
            end = before if not node.number else "no traced writer"
            end = "above" if again else "" if more else end if way == "w" else "not read"
            return Node(depth, "file", f"{joined.path(node.identity)}@{node.number}", end, size)
        first = _by_time(joined.moved[node])[0]
        end = "above" if again else "" if more else "no input" if way == "w" else "no output"
        kind = "task" if first["task"] else "process"
        program, command = str(first["program"] or ""), joined.command(first)
        return Node(depth, kind, joined.who(first), end, size, program, command, run=joined.where(node[0]))


# --- what is stale ---------------------------------------------------------------------------------------------------


def _stale(joined: JoinedRuns, tree: _Tree) -> list[Stale]:
    """The latest versions among those of the trees whose inputs changed, by time."""
    found = []
    for state in [state for state in tree.reached if state.number and state == joined.last(state.identity)]:
        writers = _by_time(joined.writers(state))
        if not writers or joined.replaced(state):
            continue
        causes = _causes(joined, tree, state)
        if causes:
            edge = writers[-1]
            path, where = joined.path(state.identity), joined.where(run_of(edge))
            name = f"{path}@{state.number}"
            found.append(Stale(path, name, joined.who(edge), joined.command(edge), where, edge["last_ns"], causes))
    return sorted(found, key=lambda one: (one.made_ns, one.version))


def _causes(joined: JoinedRuns, tree: _Tree, state: State) -> list[Cause]:
    """The inputs of a version that changed since they were read, its own or those of its inputs."""
    found: dict[State, Cause] = {}
    stack, seen = [state], {state}
    while stack:
        now = stack.pop()
        base = joined.base(now)
        following = [base] if base is not None else []
        for kind, activity, _ in tree.following("version", now, "w"):
            if kind != "activity":
                continue
            used = {node for _, node, _ in tree.following("activity", activity, "w")}
            for edge in joined.moved[activity]:
                read = joined.read_state(edge) if edge["direction"] == "r" else None
                if read is None or read not in used or read.identity == state.identity:
                    continue
                newer = joined.newer(edge)
                if newer is None:
                    following.append(read)
                elif read not in found:
                    found[read] = _cause(joined, edge, read, newer)
        fresh = [one for one in following if one not in seen]
        seen.update(fresh)
        stack += fresh
    return [found[state] for state in sorted(found, key=lambda state: (found[state].changed_ns, state))]


def _cause(joined: JoinedRuns, edge: Row, read: State, newer: State) -> Cause:
    writer = _by_time(joined.writers(newer))[-1] if joined.writers(newer) else None
    row = joined.states(newer.identity)[newer.number - 1]
    path = joined.path(read.identity, edge["last_ns"])
    after = newer.number if newer.identity == read.identity else f"{newer.number} of another file of this name"
    return Cause(
        path=path,
        read=f"{path}@{read.number}",
        read_ns=edge["first_ns"],
        newer=f"{joined.path(newer.identity)}@{after}",
        changed_ns=row["end_ns"],
        changed_by=joined.who(writer) if writer else "",
        command=joined.command(writer) if writer else [],
        run=joined.where(run_of(row)),
    )
