"""Slurm's jobs, as `scontrol show job` prints them: names, dependencies, times, states.

Slurm forgets a job's dependencies once they are fulfilled, and the job itself some minutes after its end
(MinJobAge). So what is to be imported is printed right after the submission, and again at the end, into one file: of
each job the last word counts, but for dependencies. A job is named by its id, a task of an array by the array's and
its index (12_3), as the SPANK plugin tags them; by the variables alone such a task is tagged with an id of its own. The
tasks of an array that wait are one record of Slurm's, with all of their indices. The components of a heterogeneous job
are records of their own, but one job, which has the first one's id: no script runs in the others. What a job waited for
that no record shows before its begin is not known.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tailrace.errors import UsageError
from tailrace.integrations.importing import (
    ImportedTask,
    ImportedWorkflow,
    Importer,
    contents,
    first_line,
    local_moment,
)

_FIELD = re.compile(r"(?:^|\s)([A-Za-z/:]+)=")
_WAITS = re.compile(r"(after\w*|singleton):?([0-9_+:\[\]*]*)")
_AWAITED = re.compile(r"(\d+)(?:_(\d+|\*))?(?:\+\d+)?")
"""A job, perhaps with an index of its array or all of them (_*), and a time."""
_INDICES = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")
_MOST_INDICES = 1_000_000
"""Of an array: more than any Slurm is configured for."""
_STATES = {
    "COMPLETED": "done",
    "FAILED": "failed",
    "NODE_FAIL": "killed",
    "OUT_OF_MEMORY": "killed",
    "TIMEOUT": "timeout",
    "DEADLINE": "timeout",
    "CANCELLED": "canceled",
}
_NEVER = ("DependencyNeverSatisfied",)

Job = Mapping[str, str]


def recognizes(path: Path) -> bool:
    """Whether a file begins with a job."""
    if not path.is_file():
        return False
    return re.match(r"\s*JobId=\d+ .*JobName=", first_line(path, 10_000)) is not None


def read(path: Path) -> ImportedWorkflow:
    """The jobs of a file. Raises UsageError, OSError."""
    jobs: dict[str, dict[str, str]] = {}
    pending: set[str] = set()
    cores: dict[str, dict[str, int]] = {}
    for job in _jobs(contents(path).decode("utf-8", "replace")):
        if job.get("HetJobId"):
            cores.setdefault(job["HetJobId"], {})[job["JobId"]] = _number(job, "NumCPUs")
        if _number(job, "HetJobOffset"):
            continue
        for name in _names(job):
            known = jobs.setdefault(name, {})
            waits = known.get("Dependency", "(null)")
            known.update(job)
            if job.get("JobState", "").startswith("PENDING"):
                pending.add(name)
            if job.get("Dependency", "(null)") == "(null)":
                known["Dependency"] = waits
    for name, components in cores.items():
        if name in jobs and all(components.values()):
            jobs[name]["NumCPUs"] = str(sum(components.values()))
    if not jobs:
        raise UsageError(f"{path} has no jobs: give what `scontrol show job` printed")
    return ImportedWorkflow(
        manager="slurm",
        version="",
        name=path.stem,
        times="seconds",
        config={} if pending.issuperset(jobs) else {"declares": "dependencies of jobs that scontrol showed pending"},
        tasks=[_task(name, job, waits) for (name, job), waits in zip(jobs.items(), _dependencies(jobs), strict=True)],
    )


def _number(job: Job, field: str) -> int:
    return int(job.get(field, "")) if job.get(field, "").isdigit() else 0


def _names(job: Job) -> Iterator[str]:
    """The names of the job, or of the tasks of an array, that a record is about."""
    array, indices = job.get("ArrayJobId", ""), job.get("ArrayTaskId", "").partition("%")[0]
    found = list(_INDICES.finditer(indices)) if array.isdigit() else []
    if not found:
        yield job["JobId"]
    for first, last, step in (match.groups() for match in found):
        number = range(int(first), int(last or first) + 1, max(int(step or 1), 1))
        yield from (f"{array}_{index}" for index in number[:_MOST_INDICES])


def _dependencies(jobs: Mapping[str, Job]) -> Iterator[dict[str, str]]:
    """Of each job: the jobs that it waits for, and Slurm's word."""
    arrays: dict[str, list[str]] = {}
    own_ids: dict[str, str] = {}
    for name, job in jobs.items():
        arrays.setdefault(name.partition("_")[0], []).append(name)
        if job.get("ArrayTaskId", "").isdigit():  # a task with an id of its own
            own_ids.setdefault(job["JobId"], name)
    for name, job in jobs.items():
        waits: dict[str, str] = {}
        for word, ids in _WAITS.findall(job.get("Dependency", "")):
            for other, index in _AWAITED.findall(ids):
                one = f"{other}_{index}" if index.isdigit() else own_ids.get(other, "")
                awaited = arrays.get(other) or [one]
                if index.isdigit():
                    awaited = [one]
                elif word == "aftercorr":
                    awaited = [f"{other}_{name.partition('_')[2]}"]
                waits.update({each: word for each in awaited if each in jobs and each != name})
        yield waits


def _jobs(text: str) -> Iterator[dict[str, str]]:
    """The fields of each job. A value ends where the next field begins: it may have blanks."""
    for record in re.split(r"(?m)^(?=JobId=)", text):
        places = list(_FIELD.finditer(record))
        if not places:
            continue
        ends = [place.start() for place in places[1:]] + [len(record)]
        fields = {place[1]: record[place.end() : end].strip() for place, end in zip(places, ends, strict=True)}
        if fields.get("JobId", "").isdigit():
            yield fields


def _task(name: str, job: Job, waits: Mapping[str, str]) -> ImportedTask:
    state = job.get("JobState", "").split()[0] if job.get("JobState") else ""
    code, _, signal = job.get("ExitCode", "").partition(":")
    never = job.get("Reason") in _NEVER
    status = "dep_failed" if never else _STATES.get(state, "")
    return ImportedTask(
        names=(name, job["JobId"]) if job.get("ArrayTaskId", "").isdigit() else (name,),
        stage=job.get("JobName", "job"),
        after=tuple(waits),
        vias=waits,
        t_submit_ns=local_moment(job.get("SubmitTime")),
        t_start_ns=local_moment(job.get("StartTime")),
        t_end_ns=local_moment(job.get("EndTime")) if status else None,
        status=status,
        tries=0 if never else 1 + int(job.get("Restarts") or 0),
        error=(f"signal {signal}" if signal not in ("", "0") else f"exit code {code}") if status == "failed" else None,
        requested={"cores": cores} if (cores := _number(job, "NumCPUs")) else {},
    )


IMPORTER = Importer("slurm", "jobs of Slurm (scontrol show job)", recognizes, read)
