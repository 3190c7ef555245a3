"""A run as W3C PROV in its JSON form (https://www.w3.org/submissions/prov-json/).

    activity   a job (task, or untagged process)         entity     a version of a file
    used       it read                                   wasGeneratedBy   it wrote
    wasInformedBy   a job after one that it depends on   wasDerivedFrom   a version that continues an older one
    agent      the user, for whom the jobs ran (wasAssociatedWith)

Identifiers are `run:job/N` and `run:file/N`; what they stand for is in attributes (`prov:label`, `tailrace:path`, ...),
so no name of a file or task can break a qualified name.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TextIO

from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.exports.format import Format
from tailrace.analyzer.exports.lineage import Artifact, Job, escaped, lineage, utc
from tailrace.analyzer.util.types import Json
from tailrace.base.text import clean

NAMESPACE = "urn:tailrace:terms:"


def write(run: AnalyzedRun, file: TextIO, hashed: bool = False) -> list[str]:
    """Writes one PROV document; returns notes on what is left out."""
    flow = lineage(run, hashed)
    jobs = [f"run:job/{n}" for n in range(len(flow.jobs))]
    files = [f"run:file/{n}" for n in range(len(flow.artifacts))]
    place = {id(artifact): name for artifact, name in zip(flow.artifacts, files, strict=True)}
    used, generated, informed = [], [], []
    for job, name in zip(flow.jobs, jobs, strict=True):
        used += [{"prov:activity": name, "prov:entity": files[a]} for a in job.inputs]
        generated += [{"prov:activity": name, "prov:entity": files[a]} for a in job.outputs]
        informed += [{"prov:informed": name, "prov:informant": jobs[p]} for p in sorted(job.parents)]
    derived = [
        {"prov:generatedEntity": name, "prov:usedEntity": place[id(artifact.base)]}
        for artifact, name in zip(flow.artifacts, files, strict=True)
        if artifact.base is not None
    ]
    user = clean(str(run.meta.get("user") or ""))
    associated = [{"prov:activity": name, "prov:agent": "run:user"} for name in jobs] if user else []
    run_id = escaped(str(run.meta.get("run_id") or "unknown"))
    records = {
        "prefix": {"run": f"urn:tailrace:run:{run_id}:", "tailrace": NAMESPACE},
        "entity": {n: _entity(a) for n, a in zip(files, flow.artifacts, strict=True)},
        "activity": {n: _activity(job) for n, job in zip(jobs, flow.jobs, strict=True)},
        "agent": {"run:user": {"prov:label": user, "prov:type": _name("prov:Person")}} if user else {},
        "used": _numbered("u", used),
        "wasGeneratedBy": _numbered("g", generated),
        "wasInformedBy": _numbered("i", informed),
        "wasDerivedFrom": _numbered("d", derived),
        "wasAssociatedWith": _numbered("a", associated),
    }
    json.dump({kind: values for kind, values in records.items() if values}, file, indent=1)
    file.write("\n")
    return flow.notes


def _numbered(letter: str, records: list[dict[str, str]]) -> dict[str, dict[str, str]]:
    return {f"_:{letter}{n}": record for n, record in enumerate(records)}


def _name(value: str) -> dict[str, str]:
    return {"$": value, "type": "prov:QUALIFIED_NAME"}


def _entity(artifact: Artifact) -> dict[str, Json]:
    path = clean(artifact.path)
    return {
        "prov:label": path.rsplit("/", 1)[-1] or path,
        "tailrace:path": path,
        "tailrace:version": artifact.number,
        "tailrace:bytes": artifact.size,
        "tailrace:external": artifact.external,
        **({"tailrace:sha256": artifact.sha256} if artifact.sha256 else {}),
    }


def _activity(job: Job) -> dict[str, Json]:
    out: dict[str, Json] = {
        "prov:startTime": utc(job.first_ns),
        "prov:endTime": utc(job.last_ns),
        "prov:label": clean(job.label),
        "tailrace:readBytes": job.read_bytes,
        "tailrace:writtenBytes": job.written_bytes,
    }
    words = {"workflow": job.workflow, "stage": job.stage, "task": job.task, "program": job.program}
    words.update(host=" ".join(job.hosts), command=json.dumps(job.command) if job.command else "")
    out.update({f"tailrace:{key}": clean(value) for key, value in words.items() if value})
    out.update({f"tailrace:{key}": value for key, value in job.outcome.items()})
    return out


FORMAT = Format(write, "W3C PROV-JSON, for provenance stores", hashed=partial(write, hashed=True))
