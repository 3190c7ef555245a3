"""Reads the job history of a Flux instance, and of the instances that run inside its jobs, as JSON lines on stdout.

    flux python history.py [--since TIME]      TIME as `flux jobs --since` takes it

This file is run by the Python that Flux was built with, which need not be the one that tailrace is installed in: it
imports the standard library and Flux's bindings, nothing else, and keeps to Python 3.6.
`collect.py` runs it and makes declared lines of what it says.

One object a line, by its only key:

    instance     path ("/" or the job id path of the job it runs in), host (of rank 0), hosts, level, owner, version,
                 started (s), nodes, cores, jobs_seen
    job          instance (its path), id (f58), number, events, exec_events (RFC 21, as Flux has them), jobspec (less
                 its environment), resources (nodes, ranks, cores, gpus; {} before it has any), annotations, waits_for
                 (list of [scheme, f58 or text])
    unreachable  path, reason: an inner instance that runs and can't be asked

The instance's owner has the job manager's journal; a guest is not given it, and looks up each job of its own.
"""

import argparse
import json
import os
import platform
import re
import sys
from typing import Any, Dict, List

import flux
from flux.constants import FLUX_USERID_UNKNOWN
from flux.hostlist import Hostlist
from flux.job import JobID, JobKVSLookup, JournalConsumer
from flux.job.list import job_list
from flux.resource import ResourceSet, resource_list
from flux.uri import JobURI
from flux.util import parse_datetime

LOOKUPS_AT_ONCE = 512
SAFE_URI = re.compile(r"(local://|ssh://[A-Za-z0-9][A-Za-z0-9.-]*)/[A-Za-z0-9._/+-]*\Z")


def main() -> int:
    """Writes the history of the surrounding instance; the exit code is 0, or 1 with a message."""
    parser = argparse.ArgumentParser(prog="history.py")
    parser.add_argument("--since", default="")
    args = parser.parse_args()
    # Job ids are not ASCII, and the locale of a batch job may be.
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    try:
        since = seconds_of(args.since) if args.since else 0.0
    except ValueError as error:
        return fail(f"--since {args.since!r} is no time that Flux knows: {error}")
    try:
        handle = flux.Flux()
    except OSError as error:
        return fail(f"no Flux instance is reachable ({error}): run this inside one, or set FLUX_URI")
    tell_instance(handle, since)
    return 0


def seconds_of(time: str) -> float:
    """A time as s since the epoch; "-2h" is two hours ago, a number is one already. Raises ValueError."""
    if time[0] not in "+-":
        try:
            return float(time)
        except ValueError:
            pass
    return float(parse_datetime(time).timestamp())


def fail(message: str) -> int:
    """Says what is wrong on stderr; returns the exit code."""
    sys.stderr.write(message + "\n")
    return 1


def say(kind: str, **fields: Any) -> None:
    """Writes one line."""
    sys.stdout.write(json.dumps({kind: fields}, separators=(",", ":")) + "\n")


def tell_instance(handle: Any, since: float, path: str = "") -> None:
    """Writes an instance, its jobs, and the instances that run inside them.

    path: of an inner instance the path of its job, whatever it calls itself: it replaces no other instance.
    """
    path = path or attribute(handle, "jobid-path") or "/"
    owner = int(handle.attr_get("security.owner")) == os.getuid()
    listed = listed_jobs(handle, owner)
    jobs = journal(handle) if owner else lookups(handle, sorted(listed), ["jobspec", "eventlog"])
    wanted = [job for job in sorted(jobs) if not over_before(jobs[job]["events"], since)]
    say(
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
        say(
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
        tell_instance(handle, since, path)
    except (OSError, ValueError) as error:
        say("unreachable", path=path, reason=str(error))


def attribute(handle: Any, name: str) -> Any:
    """A broker attribute, or None where this Flux or this instance hasn't got it."""
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


def journal(handle: Any) -> Dict[int, Any]:
    """Every job that the job manager remembers: id -> events, jobspec, R."""
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
    """What job-list knows of each job, annotations among it, which no eventlog has: id -> object."""
    user = FLUX_USERID_UNKNOWN if owner else os.getuid()
    rows = job_list(handle, max_entries=0, attrs=["all"], userid=user).get_jobs()
    return {int(row["id"]): row for row in rows}


def lookups(handle: Any, jobs: List[int], keys: List[str]) -> Dict[int, Any]:
    """id -> jobspec, R, events, exec_events, of those of `keys` that the KVS has; jobs that lack one are left out."""
    found = {}
    for start in range(0, len(jobs), LOOKUPS_AT_ONCE):
        some = jobs[start : start + LOOKUPS_AT_ONCE]
        for row in JobKVSLookup(handle, some, keys=keys).data():
            out = {key: row[key] for key in ("jobspec", "R") if key in row}
            for key, name in (("eventlog", "events"), ("guest.exec.eventlog", "exec_events")):
                if key in row:
                    out[name] = [json.loads(line) for line in row[key].splitlines()]
            found[int(row["id"])] = out
    return found


def resources(assigned: Any) -> Dict[str, Any]:
    """What the job was given, of its R (RFC 20)."""
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
    """Whether an event of this name is among `events`."""
    return any(event["name"] == name for event in events)


def over_before(events: List[Any], since: float) -> bool:
    """Whether the job was inactive before `since` (s since the epoch)."""
    return any(event["name"] == "clean" and event["timestamp"] < since for event in events)


def inner_uri(events: List[Any]) -> Any:
    """Where the instance that the job runs can be reached; None when it runs none."""
    uris = [event["context"].get("uri") for event in events if event["name"] == "memo"]
    return next((uri for uri in reversed(uris) if isinstance(uri, str)), None)


def user_of(events: List[Any]) -> Any:
    """The user id of the submitter; None when unknown."""
    return next((event["context"].get("userid") for event in events if event["name"] == "submit"), None)


def without_environment(jobspec: Any) -> Any:
    """`jobspec` without the environment: it may hold secrets, and is large."""
    if isinstance(jobspec, dict):
        jobspec.get("attributes", {}).get("system", {}).pop("environment", None)
    return jobspec


def dependencies(job: Any) -> List[List[str]]:
    """What the job had to wait for: [scheme, job id in f58] where it is a job, else [scheme, text].

    By its jobspec, and by dependency-add events, which plugins post for what no jobspec says. Those events name the
    jobspec's own dependencies again, with another spelling of the scheme or the value: a job is taken once, and of what
    is no job each scheme.
    """
    asked = (job.get("jobspec") or {}).get("attributes", {}).get("system", {}).get("dependencies", [])
    found = [plain(entry.get("scheme"), entry.get("value")) for entry in asked if isinstance(entry, dict)]
    known = {text for dependency in found for text in dependency}
    for event in job["events"]:
        if event["name"] == "dependency-add":
            scheme, _, value = str(event["context"].get("description", "")).partition("=")
            scheme, value = plain(scheme, value)
            if value not in known and scheme not in known:
                found.append([scheme, value])
    return found


def plain(scheme: Any, value: Any) -> List[str]:
    """A dependency with its job id in f58, where it is one."""
    scheme, value = str(scheme), str(value)
    if scheme.startswith("after"):
        try:
            return [scheme, JobID(value).f58]
        except ValueError:
            pass
    return [scheme, value]


if __name__ == "__main__":
    sys.exit(main())
