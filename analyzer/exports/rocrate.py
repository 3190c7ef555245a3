"""A run as a Process Run Crate 0.5 (https://w3id.org/ro/wfrun/process/0.5), a profile of RO-Crate 1.1.

The crate is the metadata file alone: the run's files stay where they are and are named by file URIs. A job is a
CreateAction with the program as instrument, the files it read as object and the files it wrote as result. A version of
a file that was not the path's only one is `file:///path#1`.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TextIO

import tailrace
from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.exports.format import Format
from tailrace.analyzer.exports.lineage import Artifact, Job, escaped, file_uri, lineage, utc
from tailrace.analyzer.util.types import Json
from tailrace.base.text import clean

METADATA = "ro-crate-metadata.json"
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
CRATE = "https://w3id.org/ro/crate/1.1"
CONTEXT = f"{CRATE}/context"
CHECKSUM = {"sha256": "https://w3id.org/ro/terms/workflow-run#sha256"}
"""RO-Crate 1.1 has no term for checksums; the vocabulary of workflow runs has."""
LICENSE = "Nobody has chosen a licence for this run: ask whoever made it."
"""RO-Crate 1.1 demands the property, and allows a text in it; a trace doesn't know the terms of anybody's data."""


def write(run: AnalyzedRun, file: TextIO, hashed: bool = False) -> list[str]:
    """Writes ro-crate-metadata.json; returns notes on what is left out."""
    flow = lineage(run, hashed)
    files = [_uri(artifact) for artifact in flow.artifacts]
    actions = [_action(job, n, files) for n, job in enumerate(flow.jobs)]
    programs = {_program_id(job): job for job in flow.jobs}
    user = str(run.meta.get("user") or "")
    graph = [
        {"@id": METADATA, "@type": "CreativeWork", "conformsTo": {"@id": CRATE}, "about": {"@id": "./"}},
        _root(run, files, flow.jobs),
        {"@id": PROFILE, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"},
        *([_person(user)] if user else []),
        *(_program(name, job) for name, job in programs.items()),
        *(_file(artifact, name) for artifact, name in zip(flow.artifacts, files, strict=True)),
        *({**action, **({"agent": {"@id": _person(user)["@id"]}} if user else {})} for action in actions),
    ]
    context = [CONTEXT, CHECKSUM] if any(artifact.sha256 for artifact in flow.artifacts) else CONTEXT
    json.dump({"@context": context, "@graph": graph}, file, indent=1)
    file.write("\n")
    return flow.notes


def _root(run: AnalyzedRun, files: list[str], jobs: list[Job]) -> dict[str, Json]:
    run_id = str(run.meta.get("run_id") or "without id")
    ended = utc(max(job.last_ns for job in jobs)) if jobs else str(run.meta.get("created") or "1970-01-01T00:00:00Z")
    return {
        "@id": "./",
        "@type": "Dataset",
        "name": f"Run {run_id}",
        "description": f"What the processes of the run did to files, observed by tailrace {tailrace.__version__}",
        "datePublished": ended,
        "license": LICENSE,
        "conformsTo": {"@id": PROFILE},
        "hasPart": [{"@id": name} for name in files],
        "mentions": [{"@id": _action_id(number)} for number in range(len(jobs))],
    }


def _uri(artifact: Artifact) -> str:
    uri = file_uri(artifact.path)
    return uri if artifact.versions == 1 else f"{uri}#{artifact.number}"


def _file(artifact: Artifact, name: str) -> dict[str, Json]:
    shown = clean(artifact.path)
    entity: dict[str, Json] = {
        "@id": name,
        "@type": "File",
        "name": shown.rsplit("/", 1)[-1] or shown,
        "alternateName": shown,
        "contentSize": str(artifact.size),
    }
    if not artifact.external:
        entity["dateModified"] = utc(artifact.end_ns)
    if artifact.versions > 1:
        entity["version"] = str(artifact.number)
    if artifact.sha256:
        entity["sha256"] = artifact.sha256
    return entity


def _person(user: str) -> dict[str, str]:
    return {"@id": f"#user/{escaped(user)}", "@type": "Person", "name": clean(user)}


def _program_id(job: Job) -> str:
    return file_uri(job.exe) if job.exe.startswith("/") else f"#program/{escaped(job.program)}"


def _program(name: str, job: Job) -> dict[str, str]:
    out = {"@id": name, "@type": "SoftwareApplication", "name": clean(job.program), "softwareVersion": "unknown"}
    return {**out, "url": name} if job.exe.startswith("/") else out


def _action_id(number: int) -> str:
    return f"#action/{number}"


def _action(job: Job, number: int, files: list[str]) -> dict[str, Json]:
    label = f"{job.stage} / {job.task}" if job.task else job.label
    action: dict[str, Json] = {
        "@id": _action_id(number),
        "@type": "CreateAction",
        "name": clean(label) or f"job {number}",
        "instrument": {"@id": _program_id(job)},
        "startTime": utc(job.first_ns),
        "endTime": utc(job.last_ns),
        "actionStatus": {"@id": f"http://schema.org/{'Failed' if job.failed else 'Completed'}ActionStatus"},
        "object": [{"@id": files[a]} for a in job.inputs],
        "result": [{"@id": files[a]} for a in job.outputs],
    }
    if job.failed:
        action["error"] = clean(job.error) or str(job.status)
    if job.command:
        action["description"] = clean(" ".join(job.command))
    return action


FORMAT = Format(write, "Process Run RO-Crate, for publishing", file_name=METADATA, hashed=partial(write, hashed=True))
