"""Snakemake's records of finished jobs: .snakemake/metadata, one JSON file an output.

    .snakemake/metadata/<base64 of the output's path>     {"rule", "input", "log", "starttime", "endtime", ...}

A job is told by what its outputs' records have in common. Records have no wildcards, so a job of a rule with several is
named by its first output here, and found in a trace by the files that it wrote. Snakemake 9 keeps a record of a job
that failed, too, without saying so, and removes its outputs: only a job whose outputs are there counts as done. Written
by Snakemake 5.3 to 9; a database in the place of the files (`--persistence-backend db`) isn't read.
"""

import base64
import binascii
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tailrace.errors import UsageError
from tailrace.integrations.importing import ImportedTask, ImportedWorkflow, Importer, json_of

_FOLDER = Path(".snakemake/metadata")
_LARGEST = 64 << 20
"""Bytes of a record: that of a job with a million inputs."""
_LATEST = 1 << 33
"""Seconds since the epoch; what is later is no time."""
_KEY = ("rule", "job_hash", "input", "log", "params", "shellcmd")
"""What is the same in the records of all outputs of a job, and in those of no two jobs."""


def recognizes(path: Path) -> bool:
    """Whether a folder is a working directory of Snakemake, its .snakemake, or the records themselves."""
    return _records(path) is not None


def read(path: Path) -> ImportedWorkflow:
    """The finished jobs of all executions in a working directory. Raises UsageError, OSError."""
    folder = _records(path)
    if folder is None:
        raise UsageError(f"{path} has no {_FOLDER}: give the working directory of a Snakemake workflow")
    jobs: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for output, record in _read(folder):
        key = json.dumps([record.get(name) for name in _KEY])
        jobs.setdefault(key, []).append((output, record))
    of_rule = Counter(str(records[0][1]["rule"]) for records in jobs.values())
    root = folder.resolve().parents[1]
    return ImportedWorkflow(
        manager="snakemake",
        version="",
        name=root.name,
        tasks=[_task(records, of_rule, root) for records in jobs.values()],
        root=root,
        ends="some",
        own_directories=[".snakemake"],
    )


def _records(path: Path) -> Path | None:
    for folder in (path / _FOLDER, path / _FOLDER.name, path):
        if folder.name == _FOLDER.name and folder.resolve().parent.name == _FOLDER.parent.name and folder.is_dir():
            return folder
    return None


def _read(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The path of each output and its record. One that Snakemake was writing when it was killed is left out."""
    for file in sorted(folder.rglob("*")):
        if not file.is_file():
            continue
        *chunks, last = file.relative_to(folder).parts
        # A long name is cut into folders that begin with "@".
        encoded = "".join(chunk.removeprefix("@") for chunk in chunks) + last
        try:
            output = base64.urlsafe_b64decode(encoded).decode()
            record = json_of(file, _LARGEST)
        except (binascii.Error, ValueError, UsageError):
            continue
        if isinstance(record, dict) and isinstance(record.get("rule"), str):
            yield output, record


def _task(records: list[tuple[str, dict[str, Any]]], of_rule: Counter[str], root: Path) -> ImportedTask:
    outputs, first = [output for output, _ in records], records[0][1]
    rule = str(first["rule"])
    made = all(os.path.lexists(root / output) for output in outputs)
    start, end = _ns(first.get("starttime")), _ns(first.get("endtime"))
    return ImportedTask(
        names=(rule,) if of_rule[rule] == 1 else (f"{rule}:{outputs[0]}",),
        stage=rule,
        kind="bash" if first.get("shellcmd") else "python",
        inputs=_paths(first.get("input")),
        outputs=(*outputs, *_paths(first.get("log"))),
        # The end is the last output's time of modification, which may be before what Snakemake calls the start.
        t_start_ns=min(start, end) if start and end else start,
        t_end_ns=end,
        status="done" if made and not first.get("incomplete") else "",
        annotations={
            ours: first[theirs]
            for ours, theirs in (("conda", "conda_env"), ("container", "container_img_url"), ("job", "external_jobid"))
            if first.get(theirs)
        },
    )


def _paths(value: Any) -> tuple[str, ...]:
    return tuple(path for path in value if isinstance(path, str)) if isinstance(value, list) else ()


def _ns(seconds: Any) -> int | None:
    return int(seconds * 1e9) if isinstance(seconds, int | float) and 0 < seconds < _LATEST else None


IMPORTER = Importer("snakemake", "a working directory of Snakemake (.snakemake/metadata)", recognizes, read)
