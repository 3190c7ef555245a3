"""Slurm's jobs, as `scontrol show job` prints them: names, dependencies, times, states.

Slurm forgets a job's dependencies once they are fulfilled, and the job itself some minutes after its end
(MinJobAge). So what is to be imported is printed right after the submission, and again at the end, into one file: of
each job the last word counts, but for dependencies. A job is named by its id, as tailrace tags Slurm's jobs by
themselves.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tailrace.errors import UsageError
from tailrace.integrations.importing import ImportedTask, ImportedWorkflow, Importer, local_moment

_FIELD = re.compile(r"(?:^|\s)([A-Za-z/:]+)=")
_WAITS = re.compile(r"(after\w*|singleton):?([0-9_+:\[\]*]*)")
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
    with path.open(encoding="utf-8", errors="replace") as lines:
        return re.match(r"\s*JobId=\d+ .*JobName=", lines.readline(10_000)) is not None


def read(path: Path) -> ImportedWorkflow:
    """The jobs of a file. Raises UsageError, OSError."""
    jobs: dict[str, dict[str, str]] = {}
    for job in _jobs(path.read_text(encoding="utf-8", errors="replace")):
        known = jobs.setdefault(job["JobId"], {})
        waits = known.get("Dependency", "(null)")
        known.update(job)
        if job.get("Dependency", "(null)") == "(null)":
            known["Dependency"] = waits
    if not jobs:
        raise UsageError(f"{path} has no jobs: give what `scontrol show job` printed")
    return ImportedWorkflow(
        manager="slurm", version="", name=path.stem, tasks=[_task(job, set(jobs)) for job in jobs.values()]
    )


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


def _task(job: Job, known: set[str]) -> ImportedTask:
    waits: dict[str, str] = {}
    for word, ids in _WAITS.findall(job.get("Dependency", "")):
        # afterok:6:8, each perhaps with a time (+5) or an index of an array (_3)
        waits.update({number: word for number in re.findall(r"\d+", re.sub(r"[+_]\d+", "", ids)) if number in known})
    state = job.get("JobState", "").split()[0] if job.get("JobState") else ""
    code, _, signal = job.get("ExitCode", "").partition(":")
    never = job.get("Reason") in _NEVER
    status = "dep_failed" if never else _STATES.get(state, "")
    return ImportedTask(
        names=(job["JobId"],),
        stage=job.get("JobName", "job"),
        after=tuple(waits),
        vias=waits,
        t_submit_ns=local_moment(job.get("SubmitTime")),
        t_start_ns=local_moment(job.get("StartTime")),
        t_end_ns=local_moment(job.get("EndTime")) if status else None,
        status=status,
        tries=0 if never else 1 + int(job.get("Restarts") or 0),
        error=(f"signal {signal}" if signal not in ("", "0") else f"exit code {code}") if status == "failed" else None,
        requested={"cores": int(job["NumCPUs"])} if job.get("NumCPUs", "").isdigit() else {},
    )


IMPORTER = Importer("slurm", "jobs of Slurm (scontrol show job)", recognizes, read)
