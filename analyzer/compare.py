"""The declared DAG against the observed dataflow.

A workflow manager knows which task waited for which (docs/declared-dag.md); the trace knows which task read whose
bytes. Each pair (producer, consumer) gets one status:

    observed        bytes that the producer wrote were read by the consumer; maybe through processes that no task claims
                    (a staging copy), or, when the producer is a join task, out of one of its inner tasks
    value only      a future passed between them, and no bytes of a traced file did
    not observed    a file was declared between them, and the consumer read nothing that the producer wrote
    undeclared      bytes passed, no dependency was declared; `ordered` tells whether declared dependencies over other
    tasks
                    still force the producer to be first. If not, the two may race.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import pandas as pd

from tailrace.analyzer import dataflow

STATUSES = ("observed", "value only", "not observed", "undeclared")
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
    "ordered",
]

Task = tuple[str, str]
"""(workflow, task); a task name is unique in its workflow."""


def compare_declared(run: Any, model: dataflow.Model | None = None) -> pd.DataFrame:
    """One row a declared or observed (workflow, producer, consumer); empty when nothing was declared.

    Columns:
        workflow; producer and consumer (task tags); producer_stage and consumer_stage (as declared)
        via: "future", "file" or "future+file"; "" for undeclared
        path: a declared path, or ""
        status: one of `STATUSES`
        through: label of the untagged process or inner task between them, or ""
        bytes, files: read by the consumer of what the producer wrote; 0 when it went through another
        ordered: a declared path leads from one to the other
    """
    declared = _declared_edges(run)
    tasks = getattr(run, "declared_tasks", None)
    if tasks is None or len(tasks) == 0:
        nothing: pd.DataFrame = pd.DataFrame(columns=COLUMNS)
        return nothing
    m = model or dataflow.model(run)
    observed, carriers = _observed(m)
    inner = _inner_tasks(tasks)
    after = _successors(declared)
    known = {(str(w or ""), str(t)) for w, t in zip(tasks["workflow"], tasks["task"], strict=True)}
    rows = []
    for (producer, consumer), (via, path) in declared.items():
        moved, files, through = _find(observed, carriers, inner, producer, consumer)
        missing = "not observed" if "file" in via else "value only"
        status = "observed" if files or through else missing
        rows.append((*producer, consumer[1], via, path, status, through, moved, files, True))
    for (producer, consumer), (moved, files) in observed.items():
        if producer in known and consumer in known and (producer, consumer) not in declared:
            ordered = _reaches(after, producer, consumer)
            rows.append((*producer, consumer[1], "", "", "undeclared", "", moved, files, ordered))
    out = pd.DataFrame(rows, columns=[c for c in COLUMNS if not c.endswith("_stage")])
    stages = dict(zip(zip(tasks["workflow"], tasks["task"], strict=True), tasks["stage"], strict=True))
    for end in ("producer", "consumer"):
        names = [str(stages.get(key) or "") for key in zip(out["workflow"], out[end], strict=True)]
        out[f"{end}_stage"] = pd.Series(names, dtype=object)
    order = out["status"].map({s: i for i, s in enumerate(("not observed", "undeclared", "value only", "observed"))})
    keys = ["order", "workflow", "producer", "consumer"]
    result: pd.DataFrame = out.assign(order=order).sort_values(keys, ignore_index=True)[COLUMNS]
    return result


def _declared_edges(run: Any) -> dict[tuple[Task, Task], tuple[str, str]]:
    """(producer, consumer) -> (via, path), dependencies of one pair joined."""
    deps = getattr(run, "declared_deps", None)
    out: dict[tuple[Task, Task], tuple[str, str]] = {}
    if deps is None:
        return out
    for row in deps.to_dict("records"):
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


def _inner_tasks(tasks: pd.DataFrame) -> dict[Task, list[Task]]:
    """The tasks inside each join task."""
    out: dict[Task, list[Task]] = {}
    if "parent" in tasks:
        for row in tasks[tasks["parent"].notna()].to_dict("records"):
            workflow = str(row["workflow"] or "")
            out.setdefault((workflow, str(row["parent"])), []).append((workflow, str(row["task"])))
    return out


def _observed(m: dataflow.Model) -> tuple[dict[tuple[Task, Task], tuple[int, int]], dict[Any, dict[Any, None]]]:
    """(producer, consumer) -> (bytes, files) between tasks; and every flow, where an untagged process is its label."""
    _, parties = dataflow.parties(m, "task")
    names: list[Any] = [(r["workflow"], r["task"]) if r["task"] else r["label"] for r in parties.to_dict("records")]
    flows = dataflow.flow_table(m, "task")
    flows = flows[flows["producer"] >= 0]
    sums = flows.groupby(["producer", "consumer"], as_index=False).agg(
        bytes=("bytes", "sum"), files=("file", "nunique")
    )
    direct: dict[tuple[Task, Task], tuple[int, int]] = {}
    after: dict[Any, dict[Any, None]] = {}
    for row in sums.to_dict("records"):
        producer, consumer = names[row["producer"]], names[row["consumer"]]
        after.setdefault(producer, {})[consumer] = None
        if isinstance(producer, tuple) and isinstance(consumer, tuple) and producer != consumer:
            moved, files = direct.get((producer, consumer), (0, 0))
            direct[(producer, consumer)] = (moved + int(row["bytes"]), files + int(row["files"]))
    return direct, after


def _find(
    observed: dict[tuple[Task, Task], tuple[int, int]],
    carriers: dict[Any, dict[Any, None]],
    inner: dict[Task, list[Task]],
    producer: Task,
    consumer: Task,
) -> tuple[int, int, str]:
    """(bytes, files, through) of what passed from producer to consumer."""
    if (producer, consumer) in observed:
        return (*observed[(producer, consumer)], "")
    for child in _family(inner, producer):
        if (child, consumer) in observed:
            return (*observed[(child, consumer)], child[1])
    for source in (producer, *_family(inner, producer)):
        carrier = _carrier(carriers, source, consumer)
        if carrier:
            return (0, 0, carrier)
    return (0, 0, "")


def _family(inner: dict[Task, list[Task]], task: Task) -> list[Task]:
    """All tasks inside a join task, at any depth."""
    out: list[Task] = []
    queue = deque(inner.get(task, []))
    while queue:
        child = queue.popleft()
        if child not in out:
            out.append(child)
            queue.extend(inner.get(child, []))
    return out


def _carrier(carriers: dict[Any, dict[Any, None]], producer: Task, consumer: Task) -> str:
    """The first untagged process on a way from producer to consumer that touches no other task; "" if there is none."""
    queue = deque((label, label) for label in carriers.get(producer, {}) if isinstance(label, str))
    seen = {label for label, _ in queue}
    while queue:
        node, first = queue.popleft()
        for following in carriers.get(node, {}):
            if following == consumer:
                return first
            if isinstance(following, str) and following not in seen:
                seen.add(following)
                queue.append((following, first))
    return ""


def _successors(declared: dict[tuple[Task, Task], tuple[str, str]]) -> dict[Task, list[Task]]:
    out: dict[Task, list[Task]] = {}
    for producer, consumer in declared:
        out.setdefault(producer, []).append(consumer)
    return out


def _reaches(after: dict[Task, list[Task]], source: Task, target: Task) -> bool:
    queue, seen = deque([source]), {source}
    while queue:
        for following in after.get(queue.popleft(), []):
            if following == target:
                return True
            if following not in seen:
                seen.add(following)
                queue.append(following)
    return False
