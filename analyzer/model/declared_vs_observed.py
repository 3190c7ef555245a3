"""The declared DAG against the observed dataflow.

The workflow manager declares which task waited for which (docs/declared-dag.md); the trace shows which task read whose
bytes. Each pair (producer, consumer) gets one status:

    observed        the consumer read bytes that the producer wrote; possibly through untagged processes (a staging
                    copy), or from or to the tasks inside one of them (of a join app, of an instance)
    value only      a future was passed between them, but no bytes of a traced file
    order only      the manager passes no values (Flux: `afterok`, `afterany`, ...), and no bytes of a traced file
                    passed
    not observed    a file was declared between them, and the consumer read none of the producer's bytes
    untraced        a file was declared between them, and one of the two has no events: it was not traced, its result
                    was known, or it never ran
    undeclared      bytes passed, and no dependency was declared, also none between tasks around them

What orders the two of an undeclared pair is its `order`, the first of these that holds:

    declared        declared dependencies over other tasks, or one task is inside the other
    awaited         the submitting program waited for the producer's end before it submitted the consumer, or a task
                    between the two (`AnalyzedRun.declared_waits`)
    in time         the consumer was submitted after the producer's end, by the manager's one clock. A loop that submits
                    slowly does that, too: in this run they could not overlap, and in the next one they may
    none            they overlapped, or could have: a race

Bytes can pass through an untagged process only if it read before its last write. Over the pipes and sockets of a
workflow manager's own process it communicates with its workers about tasks: these bytes are no data of a task.

A task may have a parent: it begins after the parent begins, and ends before the parent ends. So a task that waits for a
parent waits for all tasks inside it, and the tasks inside a waiting task have waited. A parent starts its tasks and
waits for them itself, so flows between it and them are ordered.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import pandas as pd

from tailrace.analyzer.edges.edge_table import WRITE
from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.model import dataflow
from tailrace.analyzer.store.processes import Process

STATUSES = ("observed", "value only", "order only", "not observed", "untraced", "undeclared")
COLUMNS = [
    "workflow",
    "producer",
    "consumer",
    "producer_stage",
    "consumer_stage",
    "via",
    "path",
    "status",
    "through",
    "bytes",
    "files",
    "order",
    "consumer_workflow",
]
WORKFLOW_OF = {"producer": "workflow", "consumer": "consumer_workflow"}
"""The column with the workflow of each end."""
DECLARED, AWAITED, IN_TIME, NONE = ORDERS = ("declared", "awaited", "in time", "none")
"""What orders two tasks, the strongest first."""

Task = tuple[str, str]
"""(workflow, task); a task name is unique in its workflow."""
Pair = tuple[Task, Task]
"""(producer, consumer)."""
Endpoint = Task | str
"""A task, or an untagged process by its label."""


class Hop(NamedTuple):
    """A consumer's reads of a version: the producer's last write, the first and the last read (ns)."""

    consumer: Endpoint
    written_ns: int
    first_ns: int
    last_ns: int


Carriers = Mapping[Endpoint, list[Hop]]
"""Producer -> its flows; a task is a `Task`, an untagged process its label."""


def compare_declared(run: AnalyzedRun, model: dataflow.Model | None = None) -> pd.DataFrame:
    """One row per declared or observed (workflow, producer, consumer); empty when nothing was declared.

    Columns:
        workflow; producer and consumer (task tags); producer_stage and consumer_stage (as declared);
        consumer_workflow, which is another one than `workflow` only for undeclared pairs
        via: "future", "file", the manager's keyword for an order ("afterok"), or several of them joined by "+"; "" for
            undeclared
        path: a declared path, or ""
        status: one of `STATUSES`
        through: the untagged process, or the task inside one of them, through which the bytes passed, or ""; of several
            inner tasks the first and the number of others
        bytes, files: read by the consumer of the producer's writing, summed over the tasks inside both; 0 when the
        bytes
            passed through another process
        order: one of `ORDERS`
    """
    declared = _declared_edges(run)
    tasks = run.declared_tasks
    if len(tasks) == 0:
        nothing: pd.DataFrame = pd.DataFrame(columns=COLUMNS)
        return nothing
    m = model or dataflow.model(run)
    observed, carriers = _observed(m, run.manager_processes)
    traced = set(zip(m.who["workflow"], m.who["task"], strict=True))
    parents = parents_of(tasks)
    inner = inside_of(parents)
    after = successors(declared, parents)
    after_waits = successors(declared, parents, waits_of(run.declared_waits))
    times = Times(tasks)
    known = {(str(w or ""), str(t)) for w, t in zip(tasks["workflow"], tasks["task"], strict=True)}
    covered: dict[Pair, list[Pair]] = {}
    rows = []
    for pair, (moved, files) in observed.items():
        around = next((outer for outer in _around(pair, parents) if outer in declared), None)
        if around is not None:
            covered.setdefault(around, []).append(pair)
        elif known.issuperset(pair):
            producer, consumer = pair
            if nested(*pair, parents) or _reaches(after, *pair):
                order = DECLARED
            elif _reaches(after_waits, *pair):
                order = AWAITED
            else:
                order = IN_TIME if times.apart(*pair) else NONE
            rows.append((*producer, consumer[1], "", "", "undeclared", "", moved, files, order, consumer[0]))
    for pair, (via, path) in declared.items():
        moved, files, ends = _passed(pair, covered.get(pair, []), observed)
        through = _named([m.task_name(*end) for end in ends])
        if not files:
            through = _carrier(carriers, *([end, *inner.get(end, ())] for end in pair))
        blind = any(traced.isdisjoint((end, *inner.get(end, ()))) for end in pair)
        status = "observed" if files or through else _unseen(via, blind)
        rows.append((*pair[0], pair[1][1], via, path, status, through, moved, files, DECLARED, pair[1][0]))
    out = pd.DataFrame(rows, columns=[c for c in COLUMNS if not c.endswith("_stage")])
    stages = dict(zip(zip(tasks["workflow"], tasks["task"], strict=True), tasks["stage"], strict=True))
    for end, workflow in WORKFLOW_OF.items():
        names = [str(stages.get(key) or "") for key in zip(out[workflow], out[end], strict=True)]
        out[f"{end}_stage"] = pd.Series(names, dtype=object)
    return worst_first(out[COLUMNS])


def worst_first(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of `compare_declared` by status, those with the weakest order first, then by name."""
    shown = ("not observed", "undeclared", "order only", "untraced", "value only", "observed")
    place = table["status"].map({s: i for i, s in enumerate(shown)})
    strength = table["order"].map({name: -at for at, name in enumerate(ORDERS)})
    keys = ["place", "strength", "workflow", "producer", "consumer"]
    result: pd.DataFrame = table.assign(place=place, strength=strength).sort_values(keys, ignore_index=True)[COLUMNS]
    return result


def _unseen(via: str, blind: bool) -> str:
    """The status of a dependency for which no bytes passed. A `via` that is neither file nor future is an order; blind:
    one of its ends has no events."""
    ways = via.split("+")
    if "file" in ways:
        return "untraced" if blind else "not observed"
    return "value only" if "future" in ways else "order only"


def _declared_edges(run: AnalyzedRun) -> dict[Pair, tuple[str, str]]:
    """(producer, consumer) -> (via, path), with the dependencies of a pair joined."""
    out: dict[Pair, tuple[str, str]] = {}
    for row in run.declared_deps.to_dict("records"):
        workflow = str(row.get("workflow") or "")
        pair = ((workflow, str(row["dep"])), (workflow, str(row["task"])))
        via, path = out.get(pair, ("", ""))
        ways = {w for w in (*via.split("+"), str(row.get("via") or "future")) if w}
        this_path = row.get("path")
        out[pair] = (
            "+".join(sorted(ways, reverse=True)),
            path or (str(this_path) if isinstance(this_path, str) else ""),
        )
    return out


_DEEPEST = 256
"""Of tasks in tasks. No manager nests so deep; time and memory go by the depth of every task."""


def parents_of(tasks: pd.DataFrame) -> dict[Task, Task]:
    """Inner task -> its parent, which may be of another workflow."""
    rows = tasks[tasks["parent"].notna()].to_dict("records") if "parent" in tasks else []
    out: dict[Task, Task] = {}
    for row in rows:
        own = str(row["workflow"] or "")
        of_other = row.get("parent_workflow")
        outer = (of_other if isinstance(of_other, str) else own, str(row["parent"]))
        if outer != (own, str(row["task"])):
            out[own, str(row["task"])] = outer
    return out


def inside_of(parents: Mapping[Task, Task]) -> dict[Task, list[Task]]:
    """Task -> the tasks inside it, at any depth."""
    out: dict[Task, list[Task]] = {}
    for task in parents:
        for outer in line_of(task, parents)[1:]:
            out.setdefault(outer, []).append(task)
    return out


def line_of(task: Task, parents: Mapping[Task, Task]) -> list[Task]:
    """The task, its parent, its parent's parent, and so on, up to _DEEPEST of them."""
    line = {task: None}
    while (task in parents) and parents[task] not in line and len(line) < _DEEPEST:
        task = parents[task]
        line[task] = None
    return list(line)


def _around(pair: Pair, parents: Mapping[Task, Task]) -> Iterator[Pair]:
    """The pair, and the pairs of tasks around its ends."""
    producer, consumer = pair
    return ((p, c) for c in line_of(consumer, parents) for p in line_of(producer, parents))


def _observed(
    m: dataflow.Model, managers: Collection[Process]
) -> tuple[dict[Pair, tuple[int, int]], dict[Endpoint, list[Hop]]]:
    """(producer, consumer) -> (bytes, files) between tasks; and producer -> all flows, with untagged processes as
    labels.

    Both leave out streams of the `managers`.
    """
    code, activities = dataflow.activities(m, "task")
    names: list[Endpoint] = [
        (r["workflow"], r["task"]) if r["task"] else r["label"] for r in activities.to_dict("records")
    ]
    flows = dataflow.flow_table(m, "task")
    flows = flows[(flows["producer"] >= 0) & ~flows["version"].isin(_manager_streams(m, managers))]
    bursts = m.bursts.assign(producer=code[m.bursts["who"].to_numpy()], version=m.version)
    written = bursts[bursts["dir"] == WRITE].groupby(["producer", "version"])["last_ns"].max().to_dict()
    sums = flows.groupby(["producer", "consumer"], as_index=False).agg(
        bytes=("bytes", "sum"), files=("file", "nunique")
    )
    direct: dict[Pair, tuple[int, int]] = {}
    for row in sums.to_dict("records"):
        producer, consumer = names[row["producer"]], names[row["consumer"]]
        if isinstance(producer, tuple) and isinstance(consumer, tuple) and producer != consumer:
            moved, files = direct.get((producer, consumer), (0, 0))
            direct[(producer, consumer)] = (moved + int(row["bytes"]), files + int(row["files"]))
    after: dict[Endpoint, list[Hop]] = {}
    for row in flows.to_dict("records"):
        first_ns, last_ns = int(row["first_ns"]), int(row["last_ns"])
        # The version may be a later one to which others wrote, which contains this producer's earlier bytes.
        written_ns = int(written.get((row["producer"], row["version"]), last_ns))
        after.setdefault(names[row["producer"]], []).append(Hop(names[row["consumer"]], written_ns, first_ns, last_ns))
    return direct, after


def _manager_streams(m: dataflow.Model, managers: Collection[Process]) -> list[int]:
    """The versions of pipes and sockets that a manager's process read or wrote."""
    touched = m.of_processes(managers)[m.bursts["who"].to_numpy()] & m.versions.table["stream"].to_numpy()[m.version]
    return [int(version) for version in set(m.version[touched].tolist())]


def _passed(declared: Pair, pairs: list[Pair], observed: Mapping[Pair, tuple[int, int]]) -> tuple[int, int, list[Task]]:
    """(bytes, files, through) of a declared dependency, summed over the `pairs` that it covers. through: the tasks
    inside its ends through which bytes passed; empty when they passed between the ends themselves."""
    moved, files = (sum(observed[pair][i] for pair in pairs) for i in (0, 1))
    inner = (end for pair in pairs for end, outer in zip(pair, declared, strict=True) if end != outer)
    return moved, files, [] if declared in pairs else list(dict.fromkeys(inner))


def _named(names: list[str]) -> str:
    """The first, and the number of others."""
    return f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else "".join(names)


def _carrier(carriers: Carriers, producers: list[Task], consumers: list[Task]) -> str:
    """The first process on a path of untagged processes from one of the producers to one of the consumers that bytes
    can have taken: each process was reached before its last write. "" if there is none."""
    targets = frozenset(consumers)
    # The earliest time at which each process can have had bytes of the producers (Dijkstra's algorithm).
    reached: dict[str, int] = {}
    queue: list[tuple[int, str, str]] = []
    for task in producers:
        for hop in carriers.get(task, ()):
            if isinstance(hop.consumer, str):
                queue.append((hop.first_ns, hop.consumer, hop.consumer))
    heapq.heapify(queue)
    while queue:
        now, node, through = heapq.heappop(queue)
        if reached.get(node, now + 1) <= now:
            continue
        reached[node] = now
        for hop in carriers.get(node, ()):
            if min(hop.written_ns, hop.last_ns) < now:
                continue
            if hop.consumer in targets:
                return through
            if isinstance(hop.consumer, str):
                heapq.heappush(queue, (max(now, hop.first_ns), hop.consumer, through))
    return ""


def nested(one: Task, other: Task, parents: Mapping[Task, Task]) -> bool:
    """Whether one of the tasks is inside the other one, which orders the two."""
    return one in line_of(other, parents) or other in line_of(one, parents)


SUBMITTED, BEGUN, OVER = range(3)
Moment = tuple[Task, int]
"""`SUBMITTED`, `BEGUN` or `OVER` of a task."""


class Waits(NamedTuple):
    """awaited: the submission of a task -> the tasks that were waited for before; after: submission of a task -> the
    earlier submission by the same line of execution."""

    awaited: dict[Task, list[Task]]
    after: dict[Task, Task]


def waits_of(rows: pd.DataFrame | None) -> Waits:
    """The waits of a run, from its `declared_waits`."""
    found = Waits({}, {})
    for row in rows.to_dict("records") if rows is not None else ():
        workflow = str(row["workflow"] or "")
        task = (workflow, str(row["task"]))
        if isinstance(row["awaited"], str):
            found.awaited.setdefault(task, []).append((workflow, row["awaited"]))
        if isinstance(row["after"], str):
            found.after[task] = (workflow, row["after"])
    return found


def successors(
    declared: Mapping[Pair, object], parents: Mapping[Task, Task], waits: Waits | None = None
) -> dict[Moment, list[Moment]]:
    """Moment -> the moments that come after it by declaration, and by what the submitting program waited for."""
    out: dict[Moment, list[Moment]] = {}

    def add(first: Moment, then: Moment) -> None:
        out.setdefault(first, []).append(then)

    for producer, consumer in declared:
        add((producer, OVER), (consumer, BEGUN))
        add((consumer, BEGUN), (consumer, OVER))
    for task, parent in parents.items():
        add((parent, BEGUN), (task, BEGUN))
        add((task, BEGUN), (task, OVER))
        add((task, OVER), (parent, OVER))
    for task in dict.fromkeys((*waits.awaited, *waits.after)) if waits else ():
        add((task, SUBMITTED), (task, BEGUN))
        add((task, BEGUN), (task, OVER))
    for task, tasks in waits.awaited.items() if waits else ():
        for over in tasks:
            add((over, OVER), (task, SUBMITTED))
    for task, earlier in waits.after.items() if waits else ():
        add((earlier, SUBMITTED), (task, SUBMITTED))
    return out


class Times:
    """The declared times of tasks, by their workflow manager's clock: an instance inside a job has its own."""

    def __init__(self, tasks: pd.DataFrame | None) -> None:
        self._submitted: dict[Task, int] = {}
        self._over: dict[Task, int] = {}
        self._clock: dict[Task, Task] = {}
        if tasks is None or not {"t_submit_ns", "t_end_ns"} <= set(tasks.columns):
            return
        parents = parents_of(tasks)
        rows = tasks.assign(kind=tasks.get("kind"))
        columns = ["workflow", "task", "kind", "t_submit_ns", "t_end_ns"]
        named = [((str(w or ""), str(t)), *rest) for w, t, *rest in rows[columns].itertuples(index=False)]
        instances = {name for name, kind, *_ in named if kind == "instance"}
        for name, kind, submitted, over in named:
            # Jobs of one Flux instance may belong to several workflows.
            outside = ("" if kind in ("job", "instance") else name[0], "")
            self._clock[name] = next((t for t in line_of(name, parents)[1:] if t in instances), outside)
            # 0 is a time that the manager did not know.
            if not pd.isna(submitted) and submitted > 0:
                self._submitted[name] = int(submitted)
            if not pd.isna(over) and over > 0:
                self._over[name] = int(over)

    def apart(self, first: Task, then: Task) -> bool:
        """Whether `then` was submitted when `first` was over: the two could not overlap in this run."""
        if first not in self._over or then not in self._submitted or self._clock[first] != self._clock[then]:
            return False
        return self._submitted[then] >= self._over[first]


def _reaches(after: Mapping[Moment, list[Moment]], source: Task, target: Task) -> bool:
    """Whether the source ends before the target begins."""
    queue: deque[Moment] = deque([(source, OVER)])
    seen = set(queue)
    while queue:
        for following in after.get(queue.popleft(), []):
            if following == (target, BEGUN):
                return True
            if following not in seen:
                seen.add(following)
                queue.append(following)
    return False
