"""A run as an instance of WfFormat 1.6 (https://wfcommons.org/format), for WfCommons, WRENCH and other readers.

Tasks are the run's tasks (and processes that exchange files with them); parents are the writers of a task's inputs and
the declared dependencies. The format has neither versions nor cycles, and few characters in identifiers:

    a version of a file   `path` alone, or `path#1`, `path#2` for a path that changed; `path#0` is from before the run
    identifiers           every byte outside [0-9a-zA-Z-_./] as `:` and two hex digits
    a cycle               the parents that began later are left out, and counted in the notes
    an empty argument     the shell's ''; the format wants at least one character

`coreCount` is how many cores the task's CPU time would fill, rounded up: its allocation is not known. It and
`avgCPU` are left out for tasks shorter than `SHORTEST_NS`, whose CPU time the kernel measures too coarsely.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import partial
from typing import TextIO

import tailrace
from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.exports.format import Format
from tailrace.analyzer.exports.lineage import Artifact, Job, Lineage, acyclic, distinct, escaped, lineage, utc
from tailrace.analyzer.store.mounts import descriptions
from tailrace.analyzer.util.types import Json
from tailrace.base.text import clean
from tailrace.errors import RunError

SHORTEST_NS = 100_000_000
PLAIN = "A-Za-z0-9_./-"


def write(run: AnalyzedRun, file: TextIO, hashed: bool = False) -> list[str]:
    """Writes the instance as one JSON object; returns notes on what is left out.

    Raises:
        RunError: the run has no task, and WfFormat wants one.
    """
    flow = lineage(run, hashed)
    if not flow.jobs:
        raise RunError("there is no task in the run, and WfFormat has no empty workflow")
    parents, dropped = acyclic(flow.jobs)
    json.dump(_instance(run, flow, parents), file, indent=1)
    file.write("\n")
    what = "1 dependency" if dropped == 1 else f"{dropped:,} dependencies"
    cycles = [f"left out, since the format has no cycles: {what}"] if dropped else []
    return [*flow.notes, *cycles]


def task_ids(jobs: list[Job]) -> list[str]:
    """The identifier of each job: a task's tag, a process's whole key; whole keys for all where tags are not enough."""
    keys = ["/".join(escaped(part, ":", "A-Za-z0-9_.-") for part in job.key) for job in jobs]
    tags = [escaped(job.task, ":", PLAIN) if job.task else key for job, key in zip(jobs, keys, strict=True)]
    return tags if distinct(tags) else keys


def file_id(artifact: Artifact) -> str:
    """The identifier of a version of a file."""
    name = escaped(artifact.path, ":", PLAIN)
    return name if artifact.versions == 1 else f"{name}#{artifact.number}"


def _instance(run: AnalyzedRun, flow: Lineage, parents: list[list[int]]) -> dict[str, Json]:
    meta = run.meta
    jobs, ids = flow.jobs, task_ids(flow.jobs)
    workflows = sorted({job.workflow for job in jobs if job.workflow})
    first, last = min(job.first_ns for job in jobs), max(job.last_ns for job in jobs)
    machines = _machines(meta, jobs)
    return {
        "name": clean(workflows[0] if len(workflows) == 1 else str(meta.get("run_id") or "run")),
        "description": f"Observed by tailrace {tailrace.__version__}, run {meta.get('run_id') or 'without id'}",
        "createdAt": utc(first),
        "schemaVersion": "1.6",
        "runtimeSystem": _system(run),
        # Not of the format, which allows for more keys: `tailrace declare` sees by it that identifiers are escaped.
        "tailrace": {"escape": ":", "version": "#"},
        "workflow": {
            "specification": _specification(flow, ids, parents),
            "execution": {
                "makespanInSeconds": (last - first) / 1e9,
                "executedAt": utc(first),
                "tasks": [_execution(job, name) for job, name in zip(jobs, ids, strict=True)],
                **({"machines": machines} if machines else {}),
            },
        },
    }


def _system(run: AnalyzedRun) -> dict[str, str]:
    """The workflow manager that declared the run, else tailrace, which started it."""
    known = run.declared_workflows
    if len(known) == 1:
        row = known.iloc[0]
        return {"name": str(row["manager"]) or "unknown", "version": str(row["version"] or "unknown")}
    return {"name": "tailrace", "version": tailrace.__version__}


def _specification(flow: Lineage, ids: list[str], parents: list[list[int]]) -> dict[str, Json]:
    files = [file_id(artifact) for artifact in flow.artifacts]
    children: list[list[str]] = [[] for _ in ids]
    for i, mine in enumerate(parents):
        for parent in mine:
            children[parent].append(ids[i])
    tasks = [
        {
            "name": clean(job.stage or job.label) or ids[i],
            "id": ids[i],
            "parents": [ids[p] for p in parents[i]],
            "children": children[i],
            "inputFiles": [files[a] for a in job.inputs],
            "outputFiles": [files[a] for a in job.outputs],
        }
        for i, job in enumerate(flow.jobs)
    ]
    sizes: list[dict[str, Json]] = [
        # The format has no word for a checksum, as for a failure.
        {"id": name, "sizeInBytes": a.size, **({"tailrace": {"sha256": a.sha256}} if a.sha256 else {})}
        for name, a in zip(files, flow.artifacts, strict=True)
    ]
    return {"tasks": tasks, "files": sizes}


def _execution(job: Job, name: str) -> dict[str, Json]:
    seconds = (job.last_ns - job.first_ns) / 1e9
    out: dict[str, Json] = {
        "id": name,
        "runtimeInSeconds": seconds,
        "executedAt": utc(job.first_ns),
        "readBytes": job.read_bytes,
        "writtenBytes": job.written_bytes,
        "machines": [clean(host) for host in job.hosts],
    }
    program, *arguments = [clean(argument) or "''" for argument in job.command] or [clean(job.program)]
    if program:
        out["command"] = {"program": program, "arguments": arguments}
    if job.cpu_ns is not None and job.last_ns - job.first_ns >= SHORTEST_NS:
        out["avgCPU"] = round(job.cpu_ns / 1e7 / seconds, 3)
        out["coreCount"] = max(1, math.ceil(job.cpu_ns / 1e9 / seconds))
    if job.rss_bytes is not None:
        out["memoryInBytes"] = job.rss_bytes
    if job.outcome:
        out["tailrace"] = job.outcome  # not of the format, which has no word for a failure
    return out


def _machines(meta: Mapping[str, object], jobs: list[Job]) -> list[dict[str, Json]]:
    """The nodes on which jobs ran, with their description in run.json."""
    known = {str(part.get("host")): part for part in reversed(descriptions(meta))}
    out: list[dict[str, Json]] = []
    for name in sorted({host for job in jobs for host in job.hosts}):
        machine: dict[str, Json] = {"nodeName": clean(name), "system": "linux"}
        described = known.get(name, {})
        if described.get("kernel"):
            machine["release"] = str(described["kernel"])
        cpu = described.get("cpu")
        if isinstance(cpu, dict) and isinstance(cpu.get("count"), int) and cpu["count"] > 0:
            vendor = {"vendor": str(cpu["model"])} if cpu.get("model") else {}
            machine["cpu"] = {"coreCount": cpu["count"], **vendor}
        out.append(machine)
    return out


FORMAT = Format(write, "WfFormat 1.6, for WfCommons and WRENCH", hashed=partial(write, hashed=True))
