"""A run as OpenLineage events (https://openlineage.io/spec/2-0-2/OpenLineage.json), one JSON object a line.

Each job (task, or untagged process) has a START and a COMPLETE, FAIL or ABORT event; a parent run stands for the whole.
A dataset is a file: namespace `file://HOST` (`file` where the job ran on several), name its path, its version in the
facet `version`. Run ids follow from tailrace's run id and the job, so that the same run exports the same events.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from functools import partial
from typing import TextIO

import tailrace
from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.exports.format import Format
from tailrace.analyzer.exports.lineage import Artifact, Job, escaped, lineage, utc
from tailrace.analyzer.util.types import Json
from tailrace.base.text import clean

SPEC = "https://openlineage.io/spec"
EVENT = f"{SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
PARENT = f"{SPEC}/facets/1-1-0/ParentRunFacet.json#/$defs/ParentRunFacet"
VERSION = f"{SPEC}/facets/1-0-1/DatasetVersionDatasetFacet.json#/$defs/DatasetVersionDatasetFacet"
FACET = f"{SPEC}/2-0-2/OpenLineage.json#/$defs"
"""A facet of our own is one of the base's: it has further keys, and a name with our prefix."""
OUTPUT = f"{SPEC}/facets/1-0-2/OutputStatisticsOutputDatasetFacet.json#/$defs/OutputStatisticsOutputDatasetFacet"
ERROR = f"{SPEC}/facets/1-0-1/ErrorMessageRunFacet.json#/$defs/ErrorMessageRunFacet"
PRODUCER = f"urn:tailrace:{tailrace.__version__}"
NAMESPACE = "tailrace"


def write(run: AnalyzedRun, file: TextIO, hashed: bool = False) -> list[str]:
    """Writes the events in the order of their times; returns what they can't hold, in words."""
    flow = lineage(run, hashed)
    base = uuid.uuid5(uuid.NAMESPACE_URL, f"tailrace:{run.meta.get('run_id') or run.path}")
    events = []
    for number, job in enumerate(flow.jobs):
        name = str(uuid.uuid5(base, str(number)))
        ended = "ABORT" if job.status == "canceled" else "FAIL" if job.failed else "COMPLETE"
        inputs = [_dataset(flow.artifacts[a], job) for a in job.inputs]
        outputs = [_dataset(flow.artifacts[a], job, written=True) for a in job.outputs]
        events.append((job.first_ns, _event("START", job.first_ns, name, job, base, inputs, [])))
        events.append((job.last_ns, _event(ended, job.last_ns, name, job, base, inputs, outputs)))
    for _, event in sorted(events, key=lambda pair: pair[0]):
        file.write(json.dumps(event) + "\n")
    return flow.notes


def _event(
    kind: str,
    at_ns: int,
    name: str,
    job: Job,
    base: uuid.UUID,
    inputs: Sequence[Json],
    outputs: Sequence[Json],
) -> dict[str, Json]:
    facets: dict[str, Json] = {
        "parent": {
            "_producer": PRODUCER,
            "_schemaURL": PARENT,
            "run": {"runId": str(base)},
            "job": {"namespace": NAMESPACE, "name": clean(job.workflow) or "run"},
        }
    }
    command = {"command": [clean(word) for word in job.command]} if job.command else {}
    if kind != "START" and (known := {**command, **job.outcome}):
        facets["tailrace_task"] = {"_producer": PRODUCER, "_schemaURL": f"{FACET}/RunFacet", **known}
    if kind in ("FAIL", "ABORT"):
        words = clean(job.error) or f"the workflow manager says: {job.status}"
        message = {"message": words, "programmingLanguage": "unknown"}
        facets["errorMessage"] = {"_producer": PRODUCER, "_schemaURL": ERROR, **message}
    return {
        "eventType": kind,
        "eventTime": utc(at_ns),
        "run": {"runId": name, "facets": facets},
        "job": {"namespace": NAMESPACE, "name": ".".join(_words(job)), "facets": {}},
        "inputs": inputs,
        "outputs": outputs,
        "producer": PRODUCER,
        "schemaURL": EVENT,
    }


def _words(job: Job) -> list[str]:
    """A job's name in OpenLineage is the step, not the invocation: workflow and stage, or the program."""
    words = [job.workflow, job.stage or job.program] if job.task else [job.program]
    return [escaped(word, plain="A-Za-z0-9_-") for word in words if word]


def _dataset(artifact: Artifact, job: Job, written: bool = False) -> dict[str, Json]:
    version = {"_producer": PRODUCER, "_schemaURL": VERSION, "datasetVersion": str(artifact.number)}
    host = job.hosts[0] if len(job.hosts) == 1 else ""
    facets: dict[str, Json] = {"version": version}
    if artifact.sha256:
        checksum = {"_producer": PRODUCER, "_schemaURL": f"{FACET}/DatasetFacet", "sha256": artifact.sha256}
        facets["tailrace_checksum"] = checksum
    out: dict[str, Json] = {
        "namespace": f"file://{escaped(host)}" if host else "file",
        "name": clean(artifact.path),
        "facets": facets,
    }
    if written:
        statistics: dict[str, Json] = {"_producer": PRODUCER, "_schemaURL": OUTPUT, "size": artifact.size}
        out["outputFacets"] = {"outputStatistics": statistics}
    return out


FORMAT = Format(write, "OpenLineage events, for Marquez and others", hashed=partial(write, hashed=True))
