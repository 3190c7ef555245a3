"""The declared DAG against the observed dataflow.

The workflow manager declares which task waited for which (docs/declared-dag.md); the trace shows which task read whose
bytes. Each pair (producer, consumer) gets one status:

    observed        the consumer read bytes that the producer wrote, or ran a program of its (0 bytes); possibly through
                    untagged processes (a staging copy), or from or to the tasks inside one of them (of a join app, of
                    an instance)
    value only      a future was passed between them, but no bytes of a traced file
    order only      the manager passes no values (Flux: `afterok`, `afterany`, ...), and no bytes of a traced file
                    passed
    not observed    a file was declared between them, and the consumer read none of the producer's bytes
    untraced        a file was declared between them, and its use is in no trace: one of the two has no events (it was
                    not traced, its result was known, or it never ran), or the file is a shared object, which the
                    dynamic linker reads
    undeclared      bytes passed, and no dependency was declared, also none between tasks around them

What orders the two of an undeclared pair is its `order` (order.py): with "none" it is a race. Bytes of a file that both
write, each under the lock of a database, of the file or of its directory, pass in the order in which they got the lock:
no dependency. That holds for a file that each replaces under the lock, too.

Bytes can pass through an untagged process only if it read before its last write. Over the pipes and sockets of a
workflow manager's own process it communicates with its workers about tasks: these bytes are no data of a task.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from tailrace.analyzer.edges.edge_table import WRITE
from tailrace.analyzer.edges.file_classes import SHARED_OBJECT
from tailrace.analyzer.edges.identities import raw
from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.model import calls, dataflow
from tailrace.analyzer.model import order as orders
from tailrace.analyzer.model.locks import Hold, Locks
from tailrace.analyzer.model.locks import of_callers as locks_of_callers
from tailrace.analyzer.model.order import DECLARED, ORDERS, Pair, Task, line_of
from tailrace.analyzer.store.processes import Process
from tailrace.analyzer.util.types import Bools, Ints

STATUSES = {
    "observed": "bytes passed as declared",
    "value only": "a future passed, no file",
    "order only": "one waited for the other, no bytes passed",
    "not observed": "a file was declared, no bytes passed",
    "untraced": "a file was declared, and one of the two tasks has no events",
    "undeclared": "bytes passed, nothing was declared",
}
"""What reports say of each status."""
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
        return pd.DataFrame(columns=COLUMNS)
    m = model or dataflow.model(run)
    order = orders.of_run(run, m)
    observed, carriers = _observed(run, order)
    traced = set(zip(m.who["workflow"], m.who["task"], strict=True))
    inner = orders.inside_of(order.parents)
    known = {(str(w or ""), str(t)) for w, t in zip(tasks["workflow"], tasks["task"], strict=True)}
    covered: dict[Pair, list[Pair]] = {}
    rows = []
    for pair, (moved, files) in observed.items():
        around = next((outer for outer in _around(pair, order.parents) if outer in declared), None)
        if around is not None:
            covered.setdefault(around, []).append(pair)
        elif known.issuperset(pair):
            producer, consumer = pair
            what = ("", "", "undeclared", "", moved, files, order.relation(*pair), consumer[0])
            rows.append((*producer, consumer[1], *what))
    for pair, (via, path) in declared.items():
        moved, files, ends = _passed(pair, covered.get(pair, []), observed)
        through = _named([m.task_name(*end) for end in ends])
        if not files:
            through = _carrier(carriers, *([end, *inner.get(end, ())] for end in pair))
        blind = any(traced.isdisjoint((end, *inner.get(end, ()))) for end in pair) or SHARED_OBJECT.search(path)
        status = "observed" if files or through else _unseen(via, bool(blind))
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
    return table.assign(place=place, strength=strength).sort_values(keys, ignore_index=True)[COLUMNS]


def _unseen(via: str, blind: bool) -> str:
    """The status of a dependency for which no bytes passed. A `via` that is neither file nor future is an order; blind:
    no use of its file could be recorded."""
    ways = via.split("+")
    if "file" in ways:
        return "untraced" if blind else "not observed"
    return "value only" if "future" in ways else "order only"


def _declared_edges(run: AnalyzedRun) -> dict[Pair, tuple[str, str]]:
    """(producer, consumer) -> (via, path), with the dependencies of a pair joined."""
    out: dict[Pair, tuple[str, str]] = {}
    for pair, rows in orders.pairs_of(run.declared_deps).items():
        ways = {way for row in rows for way in str(row.get("via") or "future").split("+")}
        paths = (row.get("path") for row in rows)
        out[pair] = ("+".join(sorted(ways, reverse=True)), next((p for p in paths if isinstance(p, str) and p), ""))
    return out


def _around(pair: Pair, parents: Mapping[Task, Task]) -> Iterator[Pair]:
    """The pair, and the pairs of tasks around its ends."""
    producer, consumer = pair
    return ((p, c) for c in line_of(consumer, parents) for p in line_of(producer, parents))


def _observed(run: AnalyzedRun, order: orders.Order) -> tuple[dict[Pair, tuple[int, int]], dict[Endpoint, list[Hop]]]:
    """(producer, consumer) -> (bytes, files) between tasks; and producer -> all flows, with untagged processes as
    labels.

    Both leave out the managers' streams, the first one files that two tasks take in turns.
    """
    m, code = order.m, order.of_who
    names: list[Endpoint] = [
        (r["workflow"], r["task"]) if r["task"] else r["label"] for r in order.tasks.to_dict("records")
    ]
    flows = dataflow.flow_table(m, "task")
    flows = flows[(flows["producer"] >= 0) & ~flows["version"].isin(_manager_streams(m, run.manager_processes))]
    bursts = m.bursts.assign(producer=code[m.bursts["who"].to_numpy()], version=m.version)
    written = bursts[bursts["dir"] == WRITE].groupby(["producer", "version"])["last_ns"].max().to_dict()
    passed = flows[~_in_turns(run, order, flows)]
    sums = passed.groupby(["producer", "consumer"], as_index=False).agg(
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


def _in_turns(run: AnalyzedRun, order: orders.Order, flows: pd.DataFrame) -> Bools:
    """Which flows pass through a file that both ends write, and that both lock or only use under one lock."""
    m, code = order.m, order.of_who
    file, wrote = m.bursts["file"].to_numpy(), m.bursts["dir"].to_numpy() == WRITE
    task = code[m.bursts["who"].to_numpy()]
    ends = flows["producer"].to_numpy(dtype=np.int64), flows["consumer"].to_numpy(dtype=np.int64)
    at = flows["file"].to_numpy(dtype=np.int64)
    identity, names = pd.factorize(np.array([raw(str(name)) for name in m.table.files["file"]], dtype=object))
    # A file that is replaced is another one of the same path.
    path, _ = pd.factorize(m.paths)
    same_file, same_path = (_both(ends, of[at], task[wrote], of[file[wrote]]) for of in (identity, path))
    if not same_file.any() and not same_path.any():
        return np.zeros(len(flows), dtype=np.bool_)
    locked = calls.locked(run, m)
    locker = code[locked["who"].to_numpy(dtype=np.int64)]
    turns = same_file & _both(ends, identity[at], locker, pd.Index(names).get_indexer(locked["file"]))
    left = np.flatnonzero((same_file | same_path) & ~turns & (ends[0] != ends[1]))
    if not len(left):
        return turns
    locks = _locks_of(run, order, np.isin(code, np.concatenate([of[left] for of in ends])))
    process = order.lives.process[m.bursts["who"].to_numpy()]
    times = [m.bursts[name].to_numpy() for name in ("first_ns", "last_ns")]
    held: dict[tuple[int, int, bool], frozenset[Hold]] = {}
    for row in left.tolist() if locks.holds else ():
        keys = [(int(of[row]), int(at[row]), way) for of, way in zip(ends, (True, False), strict=True)]
        for key in keys:
            if key not in held:
                mine = (task == key[0]) & (file == key[1]) & (wrote == key[2])
                held[key] = locks.throughout(process[mine], *(when[mine] for when in times))
        turns[row] = any(one.meets(other) for one in held[keys[0]] for other in held[keys[1]])
    return turns


def _both(ends: tuple[Ints, Ints], of: Ints, task: Ints, mine: Ints) -> Bools:
    """Whether what each flow passes through (`of`) is among what each of its ends has (task, mine)."""
    size = int(max(of.max(initial=0), mine.max(initial=0))) + 1
    has = task[mine >= 0] * size + mine[mine >= 0]
    return np.asarray(np.isin(ends[0] * size + of, has) & np.isin(ends[1] * size + of, has), dtype=np.bool_)


def _locks_of(run: AnalyzedRun, order: orders.Order, who: Bools) -> Locks:
    """The locks of some actors; past `MAX_LOCKS` of their calls lock files alone."""
    counts = order.m.table.counts
    few = int(counts["calls"][who[counts["who"].to_numpy(dtype=np.int64)]].sum()) <= calls.MAX_LOCKS
    return locks_of_callers(run, order, who & few)


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
