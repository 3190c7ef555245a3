"""The analyses on the graph: attributes of `graphs.graph`'s nodes and edges about the critical path and lifetimes.

task, process   slack_ns, path_ns (of the makespan on the critical path), critical (without slack); of declared tasks
                status (model/outcomes.py), tries, error; commands: of its processes, quoted for a shell
stage           path_ns, `critical.TASK_PARTS` (of the path), least_slack_ns, in_max, out_max (fan)
file            size, live_ns, again_bytes, never_read, intermediate (lifetime.py), of data files
flow, read      critical: the path goes over it
the graph       makespan_ns, bound_ns
"""

from __future__ import annotations

from tailrace.analyzer.insights import command_lines
from tailrace.analyzer.insights.analyses import Analyses
from tailrace.analyzer.insights.critical import TASK_PARTS
from tailrace.analyzer.model import dataflow
from tailrace.analyzer.model.outcomes import UNENDED
from tailrace.analyzer.util.types import Graph


def annotate(out: Graph, found: Analyses) -> None:
    """Adds the attributes of the module's table to a graph of the same model, in place."""
    inputs, level = found.inputs, str(out.graph["level"])
    out.graph["makespan_ns"], out.graph["bound_ns"] = inputs.makespan_ns, found.critical.bound_ns
    names = {
        "task": [dataflow.activity_id("task", row) for row in inputs.tasks.to_dict("records")],
        "stage": [dataflow.activity_id("stage", row) for row in inputs.stages.to_dict("records")],
    }
    if level in ("task", "process"):
        _commands(out, found, level)
    if level == "task":
        _tasks(out, found, names["task"])
    if level == "stage":
        _stages(out, found, names["stage"])
    _files(out, found)
    if level in names:
        _path(out, found, names, level)


def _commands(out: Graph, found: Analyses, level: str) -> None:
    code, activities = dataflow.activities(found.inputs.m, level)
    ran = command_lines.of_activities(found.inputs.m, code)
    for activity, row in enumerate(activities.to_dict("records")):
        name = dataflow.activity_id(level, row)
        if name in out and activity in ran:
            out.nodes[name]["commands"] = ran[activity]


def _tasks(out: Graph, found: Analyses, ids: list[str]) -> None:
    ends = {(row["workflow"], row["task"]): row for row in found.outcomes.to_dict("records")}
    for name, task in zip(ids, found.inputs.tasks.to_dict("records"), strict=True):
        end = ends.get((task["workflow"], task["task"]))
        if name in out and end is not None and task["task"]:
            error = {"error": str(end["error"])} if end["error"] else {}
            out.nodes[name].update(status=str(end["status"] or UNENDED), tries=int(end["tries"]), **error)
    for name, row in zip(ids, found.critical.tasks.to_dict("records"), strict=True):
        if name in out:
            out.nodes[name].update(
                slack_ns=int(row["slack_ns"]), path_ns=int(row["path_ns"]), critical=bool(row["critical"])
            )


def _stages(out: Graph, found: Analyses, ids: list[str]) -> None:
    place = dict(zip(zip(found.inputs.stages["workflow"], found.inputs.stages["stage"], strict=True), ids, strict=True))
    fans = {(row["workflow"], row["stage"]): row for row in found.fans.to_dict("records")}
    for row in found.critical.stages.to_dict("records"):
        key = (row["workflow"], row["stage"])
        if place[key] in out:
            out.nodes[place[key]].update(
                path_ns=int(row["path_ns"]),
                least_slack_ns=int(row["least_slack_ns"]),
                **{f"{part}_ns": int(row[part]) for part in TASK_PARTS},
                **{name: int(fans[key][name]) for name in ("in_max", "out_max")},
            )


def _files(out: Graph, found: Analyses) -> None:
    wanted = {d["file"] for _, d in out.nodes(data=True) if d["kind"] == "file"}
    if not wanted:
        return
    files = found.lifetime.files
    identity = found.inputs.m.table.files["file"].to_numpy(dtype=object)[files.index.to_numpy()]
    columns = ["size", "live_ns", "again_bytes", "never_read", "intermediate"]
    rows = dict(zip(identity, files[columns].to_dict("records"), strict=True))
    for _, attributes in out.nodes(data=True):
        row = rows.get(attributes.get("file"))
        if row is not None:
            attributes.update({str(k): v if isinstance(v, bool) else int(v) for k, v in row.items()})


def _path(out: Graph, found: Analyses, names: dict[str, list[str]], level: str) -> None:
    inputs = found.inputs
    code = range(len(inputs.tasks)) if level == "task" else inputs.tasks["stage_code"].tolist()
    rows = found.critical.path
    hops = zip(rows["task"].tolist()[:-1], rows["task"].tolist()[1:], rows["version"].tolist()[1:], strict=True)
    for before, task, version in hops:
        if before < 0 or task < 0 or version < 0:
            continue
        producer, consumer = (names[level][code[t]] for t in (before, task))
        if out.has_edge(producer, consumer, key="flow"):
            out.edges[producer, consumer, "flow"]["critical"] = True
        file = dataflow.file_id(inputs.m, version)
        for ends, key in (((producer, file), "write"), ((file, consumer), "read")):
            if out.has_edge(ends[0], ends[1], key):
                out.edges[ends[0], ends[1], key]["critical"] = True
