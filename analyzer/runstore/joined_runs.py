"""The runs that the history of some files goes through, loaded from a store, and their versions over all of them.

    identities --files, edges, versions, processes--> JoinedRuns: who wrote and read which `State`

Identity and version join runs as they join tasks. An identity (device, inode and birth time; on a network file system
the mount's source instead of the host and device) is the same in every run. Its versions are those of all runs by the
time of their first write, numbered from 1; 0 is the file as it was before anything traced wrote it. A read belongs to
the version that its run says, unless another run wrote a newer one before the read began.

Invariants: at most `MOST_RUNS` runs are followed, the newest; `JoinedRuns.left_out` says how many were not. A run is
known by its owner and its id.

Runs are joined when a file is asked for: an edge between runs depends on runs that are indexed later. Rejected: an
index beside the Parquet files, which each writer and compaction would have to keep, and no reader could believe.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds

from tailrace.analyzer.edges import file_classes, identities
from tailrace.analyzer.util.formatting import with_stage
from tailrace.analyzer.util.types import Row

if TYPE_CHECKING:
    from tailrace.analyzer.runstore.store import Store

MOST_RUNS = 2000
MOST_LEVELS = 64
_FILE = ["owner", "run", "file", "identity", "path", "names", "ftype", "size_bytes", "read_bytes", "written_bytes"]
_FILE += ["versions", "first_ns", "last_ns", "gone_ns", "day"]
_RUN = ["owner", "run", "path", "user", "t0_ns", "day", "undescribed"]
_PROCESS = ["owner", "run", "host", "pid", "start", "command"]

Run = tuple[int, str]
"""Owner and id."""
Activity = tuple[Run, tuple[Any, ...]]
"""A task, or a process without one, of a run."""


class State(NamedTuple):
    """A version of an identity in the order of all runs; number 0: before all of them."""

    identity: str
    number: int


class _Order(NamedTuple):
    """The written versions of an identity by their begin, their begins, the number of each, and when it was removed."""

    rows: list[Row]
    begins: list[int]
    places: dict[tuple[Run, str, int], int]
    gone: list[int]


@dataclass
class JoinedRuns:
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
                rows = self.edges.get((run_of(file), file["file"]), ())
                found |= {activity_of(row) for row in rows if row["direction"] == way}
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
            is_data = ds.field("class") == "data"
            known = self._rows("files", ["path", "day"], place)
            of_path = _among("path", {row["path"] for row in known if row["path"]})
            if readers:
                used = named | (ds.field("versions") > 0)
            wanted_rows = (named | of_path) & used & is_data
            # The few columns of the condition first: a part whose day has no such row is not read for the others.
            # Identities and paths are most of what is read: those of `known` are not read again.
            rest = of_path & (ds.field("versions") > 0) & is_data if readers else wanted_rows
            days = {str(row["day"]) for row in self._rows("files", ["day"], rest)}
            days |= {str(row["day"]) for row in known} if readers else set()
            for row in self._rows("files", _FILE, _among("day", days) & wanted_rows) if days else ():
                if (run_of(row), row["file"]) not in self._known:
                    self._known.add((run_of(row), row["file"]))
                    self.files.setdefault(row["identity"], []).append(row)
                    self.of_path.setdefault(row["path"], set()).add(row["identity"])
            self._forget()
        mine = [row for identity in wanted for row in self.files.get(identity, ())]
        others = [row for path in {row["path"] for row in mine} for i in self.of_path[path] for row in self.files[i]]
        runs: dict[Run, tuple[int, str]] = {}
        for row in (*(row for row in others if row["versions"]), *(mine if readers else ())):
            used = (row["last_ns"], row["day"])
            runs[run_of(row)] = max(used, runs.get(run_of(row), used))
        order = sorted(set(runs) - set(self.runs), key=lambda run: (runs[run], run), reverse=True)
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
            if run_of(row) in new:
                self.runs[run_of(row)] = row
        for row in self._rows("edges", None, place):
            if run_of(row) in new:
                self.edges.setdefault((run_of(row), row["file"]), []).append(row)
                self.moved.setdefault(activity_of(row), []).append(row)
        for row in self._rows("versions", None, place):
            if run_of(row) in new:
                self.versions.setdefault((run_of(row), row["file"]), []).append(row)
        for row in self._rows("processes", _PROCESS, place):
            self.commands[run_of(row), row["host"], row["pid"], row["start"]] = row["command"] or []
        self._forget()

    def _rows(self, table: str, columns: list[str] | None, where: ds.Expression) -> list[Row]:
        return self.store.read(table, columns, where).to_pylist()

    # ---- versions of all runs ----

    def _forget(self) -> None:
        self._orders.clear()
        self._reads.clear()

    def _order(self, identity: str) -> _Order:
        if identity not in self._orders:
            rows = [
                version
                for file in self.files.get(identity, ())
                for version in self.versions.get((run_of(file), file["file"]), ())
                if version["version"] and version["begin_ns"] is not None
            ]
            rows.sort(key=lambda row: (row["begin_ns"], run_of(row), row["version"]))
            places = {(run_of(row), row["file"], row["version"]): number for number, row in enumerate(rows, 1)}
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
        if own and run_of(row) == run:
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
        edges = self.edges.get((run_of(row), row["file"]), ())
        return [edge for edge in edges if edge["direction"] == "w" and edge["version"] == row["version"]]

    def readers(self, state: State) -> list[Row]:
        """The edges that read a version, in any loaded run."""
        if state.identity not in self._reads:
            found: dict[State, list[Row]] = {}
            for file in self.files.get(state.identity, ()):
                for edge in self.edges.get((run_of(file), file["file"]), ()):
                    if edge["direction"] == "r":
                        found.setdefault(self.read_state(edge), []).append(edge)
            self._reads[state.identity] = found
        return self._reads[state.identity].get(state, [])

    def read_state(self, edge: Row) -> State:
        """The version that an edge read."""
        return self.state_of(run_of(edge), edge["file"], edge["version"], edge["first_ns"])

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
        rows = sorted(self.files.get(identity, ()), key=lambda row: (row["last_ns"], run_of(row)))
        if ns is not None:
            rows = [row for row in rows if row["first_ns"] <= ns] or rows[:1]
        return str(rows[-1]["path"] or identity) if rows else identity

    def newer(self, edge: Row) -> State | None:
        """The latest version of an input that another run began to write after this read; also of the file that took
        its name."""
        read = self.read_state(edge)
        found = []
        # What the reading run itself removed was its own temporary file: another one of that name is no change of it.
        own = any(
            row["gone_ns"] is not None and run_of(row) == run_of(edge) for row in self.files.get(read.identity, ())
        )
        for identity in (read.identity, *(() if own else self.successors(read.identity, edge["last_ns"]))):
            number = len(self.states(identity))
            if not number:
                continue
            row = self.states(identity)[number - 1]
            if row["begin_ns"] > edge["last_ns"] and run_of(row) != run_of(edge):
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

    def undecided(self, identity: str) -> bool:
        """Whether what no run wrote under this identity may be what one wrote under the same name on another host: the
        mounts of one of the two hosts are not known, so whether they have the file system in common is not, either."""
        if self.states(identity):
            return False
        host, known = _host(identity), self._described(identity)
        for path in {row["path"] for row in self.files.get(identity, ())}:
            for other in self.of_path.get(path, ()):
                if _host(other) != host and self.states(other) and not (known and self._described(other)):
                    return True
        return False

    def _described(self, identity: str) -> bool:
        """Whether the file's host is described in all runs that used it."""
        runs = (self.runs.get(run_of(row), {}) for row in self.files.get(identity, ()))
        return not any(_host(identity) in (run.get("undescribed") or ()) for run in runs)

    def who(self, edge: Row) -> str:
        """The task, or the program and process, of an edge."""
        if edge["task"]:
            return with_stage(str(edge["task"]), str(edge["stage"] or ""))
        return f"{file_classes.program(str(edge['program'] or '')) or 'process'} {edge['host']}:{edge['pid']}"

    def command(self, edge: Row) -> list[str]:
        """The command line of an edge's process."""
        return self.commands.get((run_of(edge), edge["host"], edge["pid"], edge["start"]), [])

    def where(self, run: Run) -> str:
        """The directory of a run."""
        return str(self.runs.get(run, {}).get("path") or run[1])


def _among(column: str, values: Iterable[str]) -> ds.Expression:
    """A filter on a text column; it fits nothing where there are no values."""
    return ds.field(column).isin(pa.array(sorted(values), pa.string()))


def _host(identity: str) -> str:
    """The host of a file; of one on a network file system its server."""
    return identity.partition(":")[0]


def run_of(row: Row) -> Run:
    """The run of a row."""
    return int(row["owner"]), str(row["run"])


def activity_of(edge: Row) -> Activity:
    """Who moved what an edge says."""
    if edge["task"]:
        return run_of(edge), (edge["workflow"], edge["stage"], edge["task"])
    return run_of(edge), (edge["host"], edge["pid"], edge["start"])
