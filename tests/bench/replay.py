"""Workflow instances (WfFormat) as runs: trace files that a traced execution of them would leave.

    montage(N), or wfformat.read(FILE) -> Instance -> write_many(run directory, [Instance, ...], tasks, files)

A task begins when its parents have ended, reads its inputs, computes, writes its outputs, ends; the times are those of
the instance. Every task is a process with a trace file of its own, as docs/trace-format.md has it. Copies of a workflow
are workflows of their own with files of their own; where more files are asked for than the copies have, tasks write
scratch files.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

from support import trace_writer as tw
from tailrace.integrations.wfformat import Instance, InstanceTask


def montage(tasks: int) -> Instance:
    """A workflow in Montage's shape: project, fit differences of neighbours, one model, correct, add."""
    width = max(tasks // 4, 2)
    made: dict[str, InstanceTask] = {}

    def add(name: str, stage: str, inputs: list[str], outputs: list[str], parents: list[str]) -> None:
        made[name] = InstanceTask(name, stage, stage, tuple(parents), tuple(inputs), tuple(outputs), 1.0)

    for i in range(width):
        add(f"project{i}", "project", [f"raw{i}", "header"], [f"p{i}", f"area{i}"], [])
    for i in range(2 * width - 2):
        pair = [i // 2, i // 2 + 1]
        inputs = [f"p{n}" for n in pair] + [f"area{n}" for n in pair]
        add(f"diff{i}", "diff", inputs, [f"fit{i}"], [f"project{n}" for n in pair])
    fits = [f"fit{i}" for i in range(2 * width - 2)]
    add("model", "model", fits, ["corrections"], [f"diff{i}" for i in range(2 * width - 2)])
    for i in range(width):
        add(f"correct{i}", "correct", [f"p{i}", "corrections"], [f"c{i}"], ["model"])
    add("add", "add", [f"c{i}" for i in range(width)], ["mosaic"], [f"correct{i}" for i in range(width)])
    names = {n for t in made.values() for n in (*t.inputs, *t.outputs)}
    return Instance("montage", "", "", made, dict.fromkeys(sorted(names), 1 << 20), 0.0)


def starts(workflow: Instance, gap_s: float = 0.1) -> dict[str, float]:
    """When each task begins, s after the first: `gap_s` after its last parent's end."""
    end: dict[str, float] = {}
    begin = {}
    for task in workflow.tasks.values():
        begin[task.id] = max((end[p] + gap_s for p in task.parents), default=0.0)
        end[task.id] = begin[task.id] + task.runtime_s
    return begin


def task_lines(
    workflow: Instance,
    task: InstanceTask,
    begin_s: float,
    pid: int,
    tag: str,
    first_ino: dict[str, int],
    scratch: int = 0,
) -> list[tw.Line]:
    """All lines of one task's process."""
    base_us = tw.T0_US + round(begin_s * 1e6)
    io_us = max(min(round(task.runtime_s * 1e6) // 10, 1000), len(task.inputs) + len(task.outputs) + scratch + 1)
    end_us = base_us + max(round(task.runtime_s * 1e6), 3 * io_us)
    tags = {"workflow": tag, "stage": task.stage, "task": task.id}
    outputs = [*task.outputs, *(f"{task.id}.tmp{i}" for i in range(scratch))]
    lines: list[tw.Line] = [tw.host_line()]
    events: list[tw.Line] = [
        tw.event("start", base_us, 1.0, pid, "PROCESS", **tags, ppid=1, exe="/opt/bin/" + task.stage)
    ]
    for names, way, at_us in ((task.inputs, "r", base_us), (outputs, "w", end_us - io_us)):
        each = max(io_us // max(len(names), 1), 1)
        for number, name in enumerate(names):
            ino = first_ino.setdefault(f"{tag}/{name}", len(first_ino) + 1)
            fhash = f"{ino:016x}"
            lines.append(tw.file_line(fhash, f"/data/{tag}/{name}", ino, btime=None))
            size = workflow.sizes.get(name, 4096)
            when, took = at_us + number * each, float(each) * 0.9
            flags = 0 if way == "r" else 0o1101
            events.append(tw.event("openat", when, took * 0.1, pid, fhash=fhash, flags=flags, ret=3, **tags))
            moved: dict[str, Any] = {"offset": 0, "count": size, "size": size, "ret": size, "dir": way}
            call = "read" if way == "r" else "write"
            events.append(tw.event(call, when + 1, took * 0.8, pid, fhash=fhash, **moved, **tags))
    events.append(tw.event("exit", end_us, 0.0, pid, "PROCESS", code=0, **tags))
    return lines + events


def write_many(run: Path, workflows: list[Instance], tasks: int, files: int) -> dict[str, Any]:
    """A run of about `tasks` tasks and `files` files: the workflows in turn, copied until there are enough. Returns
    tasks, files, events and edges as written."""
    tw.make_run(run, {})
    written = {"tasks": 0, "files": 0, "events": 0, "edges": 0}
    inos: dict[str, int] = {}
    scratch_of = _scratch(workflows, tasks, files)
    pid = copy = 0
    while written["tasks"] < tasks:
        workflow = workflows[copy % len(workflows)]
        begin = starts(workflow)
        for task in islice(workflow.tasks.values(), tasks - written["tasks"]):
            pid += 1
            scratch = int(pid * scratch_of) - int((pid - 1) * scratch_of)
            lines = task_lines(workflow, task, begin[task.id], pid, f"{workflow.name}-{copy}", inos, scratch)
            data = tw.block(lines, {"pid": pid, "start": "1"})
            (run / "trace" / f"node_1-{pid}-1.pfw.gz").write_bytes(data)
            written["tasks"] += 1
            written["events"] += sum(line["ph"] == "X" for line in lines)
            written["edges"] += len(task.inputs) + len(task.outputs) + scratch
        copy += 1
    written["files"] = len(inos)
    return written


def _scratch(workflows: list[Instance], tasks: int, files: int) -> float:
    """Scratch files a task, so that there are about `files` in all."""
    each = sum(len(w.sizes) for w in workflows) / sum(len(w.tasks) for w in workflows)
    return max(files / tasks - each, 0.0)
