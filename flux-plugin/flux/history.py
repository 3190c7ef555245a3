"""Reads the job history of a Flux instance, and of the instances that run inside its jobs, as JSON lines on stdout.

    flux python history.py [--since TIME]      TIME as `flux jobs --since` takes it

The Python that Flux was built with runs this file, and it may lack tailrace: the file imports the standard library and
Flux's bindings only, and is written for Python 3.6. `collect.py` runs it and converts its output to declared lines.

Each line is an object with one key:

    instance     path ("/" or the job id path of the job it runs in), host (of rank 0), hosts, level, owner, version,
                 started (s), nodes, cores, jobs_seen
    job          instance (its path), id (f58), number, events, exec_events (RFC 21, as Flux has them), jobspec (less
                 its environment), resources (nodes, ranks, cores, gpus; {} before it has any), annotations, waits_for
                 (list of [scheme, f58 or text])
    unreachable  path, reason: a running inner instance that can't be queried

The instance's owner reads the job manager's journal. A guest may not, and looks up each of its own jobs. What a guest's
jobspec has may be of any type.

The journal has all events, jobspecs and R in one stream; when the first task began is in each job's exec log. Not by
job-list, which lags behind, and has no dependencies of finished jobs.
"""

import argparse
import json
import os
import platform
import re
import sys
from typing import Any, Dict, Iterator, List, Tuple

import flux
from flux.constants import FLUX_USERID_UNKNOWN
from flux.hostlist import Hostlist
from flux.job import JobID, JobKVSLookup, JournalConsumer
from flux.job.list import job_list
from flux.resource import ResourceSet, resource_list
from flux.uri import JobURI
from flux.util import parse_datetime

LOOKUPS_AT_ONCE = 512
LATEST_S = 2.0**33
"""Later times don't fit into 64 bits as nanoseconds."""
SAFE_URI = re.compile(r"(local://|ssh://[A-Za-z0-9][A-Za-z0-9.-]*)/[A-Za-z0-9._/+-]*\Z")


def main() -> int:
    """Writes the history of the surrounding instance; the exit code is 0, or 1 with a message."""
    parser = argparse.ArgumentParser(prog="history.py")
    parser.add_argument("--since", default="")
    args = parser.parse_args()
    # Job ids are not ASCII; the locale of a batch job may be.
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    try:
        since = seconds_of(args.since) if args.since else 0.0
    except ValueError as error:
        return fail(f"--since {args.since!r} is not a time: {error}; give one as for `flux jobs --since`")
    try:
        handle = flux.Flux()
    except OSError as error:
        return fail(f"no Flux instance is reachable ({error}): run this inside one, or set FLUX_URI")
    write_instance(handle, since)
    return 0


def seconds_of(time: str) -> float:
    """A time ("-2h", a date, a number of seconds) as s since the epoch. Raises ValueError."""
    if time[0] not in "+-":
        try:
            return float(time)
        except ValueError:
            pass
    return float(parse_datetime(time).timestamp())


def fail(message: str) -> int:
    """Writes an error to stderr; returns the exit code."""
    sys.stderr.write(message + "\n")
    return 1


def write_line(kind: str, **fields: Any) -> None:
    """Writes a line of the output."""
    sys.stdout.write(json.dumps({kind: fields}, separators=(",", ":")) + "\n")


def write_instance(handle: Any, since: float, path: str = "") -> None:
    """Writes an instance, its jobs, and the instances that run inside them.

    path: for an inner instance, the path of its job. The instance's own claim is ignored, so it can't replace another.
    """
    path = path or attribute(handle, "jobid-path") or "/"
    owner, jobs = read_jobs(handle)
    listed = listed_jobs(handle, owner)
    if not owner:
        jobs = lookups(handle, sorted(listed), ["jobspec", "eventlog"])
    wanted = [job for job in sorted(jobs) if not over_before(jobs[job]["events"], since)]
    write_line(
        "instance",
        path=path,
        host=str(Hostlist(handle.attr_get("hostlist"))[0]),
        hosts=handle.attr_get("hostlist"),
        level=int(handle.attr_get("instance-level")),
        owner=owner,
        version=handle.attr_get("version"),
        started=float(attribute(handle, "broker.starttime") or 0),
        jobs_seen=len(jobs),
        **size_of(handle),
    )
    ran = [job for job in wanted if happened(jobs[job]["events"], "alloc")]
    started = [job for job in ran if happened(jobs[job]["events"], "start")]
    assigned = lookups(handle, [job for job in ran if not jobs[job].get("R")], ["R"])
    execs = lookups(handle, started, ["guest.exec.eventlog"])
    for job in wanted:
        found = jobs[job]
        write_line(
            "job",
            instance=path,
            id=JobID(job).f58,
            number=job,
            events=found["events"],
            exec_events=execs.get(job, {}).get("exec_events", []),
            jobspec=without_environment(found.get("jobspec")),
            resources=resources(found.get("R") or assigned.get(job, {}).get("R")),
            annotations=listed.get(job, {}).get("annotations", {}),
            waits_for=dependencies(found),
        )
    for job in wanted:
        uri = inner_uri(jobs[job]["events"])
        if uri and not happened(jobs[job]["events"], "finish"):
            follow(path.rstrip("/") + "/" + JobID(job).f58, uri, user_of(jobs[job]["events"]), since)


def follow(path: str, uri: str, user: Any, since: float) -> None:
    """Writes the history of the instance in the job `path`, or why it can't be read.

    A job's user sets its memos, and Flux connects to an ssh URI by running ssh(1): only instances of our own user are
    read, and only under a URI that no shell and no option parser can take for anything else.
    """
    try:
        if user != os.getuid():
            raise ValueError(f"it belongs to user {user}, who can collect it")
        if not SAFE_URI.match(uri):
            raise ValueError(f"its URI is neither local:///PATH nor ssh://HOST/PATH: {uri[:80]!r}")
        where = JobURI(uri)
        here = where.netloc in ("", platform.uname()[1])
        handle = flux.Flux(where.local if here else where.remote)
        claimed = attribute(handle, "jobid-path")
        if claimed is not None and claimed != path:
            raise ValueError("its URI leads to the instance of {}".format(claimed))
        write_instance(handle, since, path)
    except (OSError, ValueError) as error:
        write_line("unreachable", path=path, reason=str(error))


def attribute(handle: Any, name: str) -> Any:
    """A broker attribute; None where this version of Flux or this instance lacks it."""
    try:
        return handle.attr_get(name)
    except OSError:
        return None


def size_of(handle: Any) -> Dict[str, int]:
    """The instance's nodes and cores."""
    try:
        everything = resource_list(handle).get().all
        return {"nodes": everything.nnodes, "cores": everything.ncores}
    except OSError:
        return {}


def read_jobs(handle: Any) -> Tuple[bool, Dict[int, Any]]:
    """Whether we may read all users' jobs, and these."""
    user = os.getuid()
    if user not in (int(handle.attr_get("security.owner")), 0):
        return False, {}
    try:
        return True, journal(handle)
    except PermissionError:
        # Root is a guest of another user's instance, unless that sets access.allow-root-owner.
        if user:
            raise
        return False, {}


def journal(handle: Any) -> Dict[int, Any]:
    """Every job in the job manager's journal: id -> events, jobspec, R."""
    jobs: Dict[int, Any] = {}
    consumer = JournalConsumer(handle, full=True, include_sentinel=True).start()
    while True:
        event = consumer.poll(timeout=60.0)
        if event is None or event.is_empty():
            break
        job = jobs.setdefault(int(event.jobid), {"events": []})
        job["events"].append({"timestamp": event.timestamp, "name": event.name, "context": event.context})
        if event.jobspec:
            job["jobspec"] = event.jobspec
        if event.R:
            job["R"] = event.R
    consumer.stop()
    return jobs


def listed_jobs(handle: Any, owner: bool) -> Dict[int, Any]:
    """The job-list entry of each job, with its annotations, which no eventlog has: id -> object."""
    user = FLUX_USERID_UNKNOWN if owner else os.getuid()
    rows = job_list(handle, max_entries=0, attrs=["all"], userid=user).get_jobs()
    return {int(row["id"]): row for row in rows}


def lookups(handle: Any, jobs: List[int], keys: List[str]) -> Dict[int, Any]:
    """id -> jobspec, R, events, exec_events, for `keys` in the KVS; jobs that lack a key are omitted."""
    found = {}
    for start in range(0, len(jobs), LOOKUPS_AT_ONCE):
        some = jobs[start : start + LOOKUPS_AT_ONCE]
        for row in JobKVSLookup(handle, some, keys=keys).data():
            out = {key: row[key] for key in ("jobspec", "R") if key in row}
            for key, name in (("eventlog", "events"), ("guest.exec.eventlog", "exec_events")):
                if key in row:
                    out[name] = list(events_in(row[key]))
            found[int(row["id"])] = out
    return found


def events_in(eventlog: str) -> Iterator[Dict[str, Any]]:
    """The events of an eventlog. A job's user may write anything into that of its shell: what is none is left out."""
    for line in eventlog.splitlines():
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(event, dict) or not isinstance(event.get("name"), str):
            continue
        at = event.get("timestamp")
        if isinstance(at, (int, float)) and 0 <= at < LATEST_S:
            yield event


def resources(assigned: Any) -> Dict[str, Any]:
    """The job's resources, from its R (RFC 20)."""
    if not assigned:
        return {}
    given = ResourceSet(assigned)
    return {
        "nodes": list(given.nodelist),
        "ranks": str(given.ranks),
        "cores": given.ncores,
        "gpus": given.count("gpu"),
    }


def happened(events: List[Any], name: str) -> bool:
    """Whether `events` has one of this name."""
    return any(event["name"] == name for event in events)


def over_before(events: List[Any], since: float) -> bool:
    """Whether the job was inactive before `since` (s since the epoch)."""
    return any(event["name"] == "clean" and event["timestamp"] < since for event in events)


def inner_uri(events: List[Any]) -> Any:
    """The URI of the instance that the job runs; None when it runs none."""
    uris = [section(event, "context").get("uri") for event in events if event["name"] == "memo"]
    return next((uri for uri in reversed(uris) if isinstance(uri, str)), None)


def user_of(events: List[Any]) -> Any:
    """The user id of the submitter; None when unknown."""
    return next((section(event, "context").get("userid") for event in events if event["name"] == "submit"), None)


def without_environment(jobspec: Any) -> Any:
    """`jobspec` without the environment: it may hold secrets, and is large."""
    section(jobspec, "attributes", "system").pop("environment", None)
    return jobspec


def section(value: Any, *keys: str) -> Dict[str, Any]:
    """The object under `keys`; an empty one where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def dependencies(job: Any) -> List[List[str]]:
    """The job's dependencies: [scheme, job id in f58] for one on a job, else [scheme, text].

    Taken from its jobspec, and from dependency-add events, which plugins post for further ones. These events repeat the
    jobspec's dependencies with the scheme or the value written differently: each job counts once, and each other
    dependency once per scheme.
    """
    declared = section(job.get("jobspec"), "attributes", "system").get("dependencies") or []
    found = [plain(entry.get("scheme"), entry.get("value")) for entry in declared if isinstance(entry, dict)]
    known = {text for dependency in found for text in dependency}
    for event in job["events"]:
        if event["name"] == "dependency-add":
            scheme, _, value = str(event["context"].get("description", "")).partition("=")
            scheme, value = plain(scheme, value)
            if value not in known and scheme not in known:
                found.append([scheme, value])
    return found


def plain(scheme: Any, value: Any) -> List[str]:
    """A dependency, with a job id converted to f58."""
    scheme, value = str(scheme), str(value)
    if scheme.startswith("after"):
        try:
            return [scheme, JobID(value).f58]
        except ValueError:
            pass
    return [scheme, value]


if __name__ == "__main__":
    sys.exit(main())
