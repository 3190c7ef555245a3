"""Writes a Flux instance's job history to the declared DAG of runs (docs/declared-dag.md).

    flux python history.py -> Instances with their jobs -> lines (declared_jobs.py) -> declared/flux-<host>....jsonl

Invariants: an instance has one file per run, replaced atomically. The lines of a job replace those of an earlier
collect, so collecting again adds what is new and never duplicates. A job that was traced into another run is omitted.
A run gets only jobs of the user it belongs to, whatever other users' jobs claim; what can't be written is listed, and
the others are written (declared_folder.py). What a guest's run has is read and merged in a child of bounded memory and
time, since it holds up the collection of all.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from time import monotonic
from typing import Any

from tailrace import hashed_names
from tailrace.base import child
from tailrace.errors import ManagerError, NotARunError, RunError, TailraceError, UsageError
from tailrace.flux import declared_folder
from tailrace.flux.declared_jobs import (
    Instance,
    Job,
    ascii_path,
    default_workflow,
    describe,
    run_of,
    trace_event,
    user_of,
)
from tailrace.integrations import launcher, rundir

HISTORY_TIMEOUT_S = 300
_LIMITS = child.Limits(seconds=60, memory_bytes=1 << 30)
"""Of a run, beside what its jobs take."""
_JOB_S, _JOB_BYTES = 0.002, 16 << 10
_NO_TIME = "no time was left: run `tailrace flux collect` again"
_MOST_INVALID = 1000
"""Lines of an earlier file: a few were torn when a disk was full; a file with more is none that was written here."""


@dataclass
class Collected:
    """The result for one run. files: its declared files; jobs, instances: their numbers in these; elsewhere: jobs
    omitted because they were traced into other runs; others: jobs omitted because another user submitted them;
    unreachable: (job id path, reason) of running inner instances that could not be queried; fault: why the run was
    left out, or ""; store: the store that the policy of its jobs names, or ""."""

    run_dir: Path
    files: list[Path] = field(default_factory=list)
    jobs: int = 0
    instances: int = 0
    elsewhere: int = 0
    others: int = 0
    unreachable: list[tuple[str, str]] = field(default_factory=list)
    fault: str = ""
    store: str = ""


def find_flux(given: str | Path | None = None) -> Path:
    """The `flux` command: the given one, else on PATH, else of the surrounding job. Raises ManagerError, UsageError."""
    if given is not None:
        path = Path(given)
        if not path.is_file():
            raise UsageError(f"{path} does not exist: --flux takes the path of the flux command")
        return path
    found = shutil.which("flux")
    if found:
        return Path(found)
    # A job's environment has <prefix>/libexec/flux/cmd even if its PATH is empty.
    for directory in os.environ.get("FLUX_EXEC_PATH", "").split(":"):
        candidate = Path(directory, "../../../bin/flux")
        if directory and candidate.is_file():
            return candidate.resolve()
    raise ManagerError("the flux command is not on PATH: load Flux's module, or give its path with --flux")


def read_history(
    flux: Path, since: str = "", within: float = HISTORY_TIMEOUT_S
) -> tuple[list[Instance], list[tuple[str, str]]]:
    """The history of the surrounding instance and of those inside it; (path, reason) of those that did not answer.

    since: omits jobs that ended before it; a time as for `flux jobs --since`. within: s. Raises ManagerError.
    """
    script = Path(__file__).with_name("history.py")
    command = [str(flux), "python", str(script), *([f"--since={since}"] if since else [])]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=max(within, 0))
    except subprocess.TimeoutExpired as error:
        raise ManagerError(
            f"Flux did not return its job history within {within:.0f} s: collect again later, or give --since"
        ) from error
    except OSError as error:
        raise ManagerError(f"can't run {flux}: {error.strerror}") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise ManagerError(_query_error(said[-1] if said else f"exit code {done.returncode}", flux))
    return parse_history(done.stdout.decode("utf-8", "replace").splitlines())


def _query_error(said: str, flux: Path) -> str:
    if "ModuleNotFoundError" in said or "ImportError" in said:
        needs = "install python3-cffi, python3-yaml and python3-ply"
        return f"`{flux} python` can't import Flux's bindings ({said}): {needs}"
    return f"can't query Flux: {said}"


def parse_history(lines: Iterable[str]) -> tuple[list[Instance], list[tuple[str, str]]]:
    """history.py's output: instances, and (path, reason) of those that did not answer. Raises ManagerError."""
    instances: dict[str, Instance] = {}
    unreachable = []
    for line in lines:
        try:
            ((kind, value),) = json.loads(line).items()
        except ValueError as error:
            raise ManagerError(f"`flux python` printed something other than a job history: {line[:80]!r}") from error
        if kind == "instance":
            if value["path"] in instances:
                raise ManagerError(f"two instances of the job history have the path {value['path']}")
            instances[value["path"]] = Instance(value["path"], value)
        elif kind == "job":
            instances[value["instance"]].jobs.append(value)
        else:
            unreachable.append((value["path"], value["reason"]))
    return _placed(list(instances.values())), unreachable


def _placed(instances: list[Instance]) -> list[Instance]:
    """The same; below the path that the plugins gave to the instance that a script started (`flux start`), if the first
    one is that or in it. As in flux-plugin/job_context.cc."""
    events = (trace_event(job) for one in instances[:1] for job in one.jobs)
    within = next((path for event in events if isinstance(path := event.get("within"), str)), None)
    if within is not None:
        outer = within.rpartition("/")[0]
        for instance in instances:
            path = instance.path.rstrip("/")
            instance.path = within + (path[len(outer) :] if f"{path}/".startswith(f"{outer}/") else path)
    return instances


def collect(
    run_dir: str | Path | None = None,
    since: str = "",
    workflow: str | None = None,
    flux: str | Path | None = None,
    within: float | None = None,
) -> list[Collected]:
    """Writes the history of the surrounding Flux instance, and of those inside it, to runs.

    run_dir: the run; None: every run that a job of these instances was traced into. Untraced jobs are included if that
    is a single run. since: as in `read_history`. workflow: the workflow of untraced jobs. within: s, after which runs
    are left for a later collect; those that have nothing of these instances come first.
    Also seals the journals of dead processes on this node, in the user's own runs.
    Raises ManagerError, UsageError; OSError, RunError when `run_dir` can't be written.
    """
    end = None if within is None else monotonic() + within
    history = read_history(find_flux(flux), since, HISTORY_TIMEOUT_S if within is None else within)
    return store(*history, run_dir, workflow, end)


def store(
    instances: list[Instance],
    unreachable: list[tuple[str, str]],
    run_dir: str | Path | None = None,
    workflow: str | None = None,
    end: float | None = None,
) -> list[Collected]:
    """Writes a history of `read_history`; see `collect`. end: by monotonic()."""
    shares = jobs_by_run(instances)
    if run_dir is not None:
        directory = Path(run_dir)
        if not rundir.is_run_directory(directory):
            directory = rundir.open_run_directory(directory, rundir.command_line())
        wanted = [directory.resolve()]
    else:
        names = [file_name(instance) for instance in instances]
        wanted = sorted((run for run in shares if run is not None), key=lambda run: (_has_any(run, names), run))
    with_untraced = run_dir is not None or len(wanted) == 1
    by_path = {instance.path: instance for instance in instances}
    collected = []
    for run in wanted:
        share = [*shares.get(run, []), *(shares.get(None, []) if with_untraced else [])]
        done = Collected(run, unreachable=unreachable)
        if end is not None and monotonic() >= end:
            collected.append(replace(done, fault=_NO_TIME))
            continue
        try:
            _collect_into(done, by_path, share, workflow, end)
        except (OSError, TailraceError) as error:
            if run_dir is not None:
                raise
            done.fault = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
        collected.append(done)
    return collected


def jobs_by_run(instances: Iterable[Instance]) -> dict[Path | None, list[tuple[str, int, Job]]]:
    """Run -> its jobs, None -> untraced ones; each as (path of its instance, its position there, job)."""
    shares: dict[Path | None, list[tuple[str, int, Job]]] = {}
    for instance in instances:
        for number, job in enumerate(instance.jobs):
            shares.setdefault(run_of(job), []).append((instance.path, number, job))
    return shares


def _by_instance(share: Iterable[tuple[str, int, Job]]) -> dict[str, list[Job]]:
    """Path of an instance -> its jobs among `share`, in the instance's order."""
    numbered: dict[str, list[tuple[int, Job]]] = {}
    for path, number, job in share:
        numbered.setdefault(path, []).append((number, job))
    return {path: [job for _, job in sorted(jobs, key=lambda entry: entry[0])] for path, jobs in numbered.items()}


def _collect_into(
    done: Collected,
    by_path: dict[str, Instance],
    share: list[tuple[str, int, Job]],
    workflow: str | None,
    end: float | None,
) -> None:
    owner = declared_folder.owner_of(done.run_dir)
    hashed_names.refuse(done.run_dir, "names of jobs would not be")
    own = [entry for entry in share if user_of(entry[2]) == owner]
    done.others = len(share) - len(own)
    done.elsewhere = sum(len(instance.jobs) for instance in by_path.values()) - len(share)
    stores = (trace_event(job).get("store") for _, _, job in own)
    done.store = next((store for store in stores if isinstance(store, str)), "")
    of_instance = [(by_path[path], jobs) for path, jobs in _by_instance(own).items()]
    _write(done.run_dir, owner, of_instance, workflow, end)
    for instance, jobs in of_instance:
        done.files.append(done.run_dir / declared_folder.FOLDER / file_name(instance))
        done.jobs += len(jobs)
        done.instances += 1
    if owner == os.geteuid():
        _seal(done.run_dir, [job for _, _, job in own])


def _write(
    run: Path, owner: int, of_instance: list[tuple[Instance, list[Job]]], workflow: str | None, end: float | None
) -> None:
    """Writes the declared file of each instance, in a child. Raises OSError, RunError, NotARunError."""

    files = run / declared_folder.FOLDER

    def told() -> object:
        try:
            with declared_folder.opened(run, owner) as folder:
                for instance, jobs in of_instance:
                    name = file_name(instance)
                    described = describe(instance, jobs, workflow or default_workflow(instance, jobs))
                    folder.publish(name, _merged(_groups_of(folder.lines(name), files / name), described))
        except NotARunError as error:
            return {"no_run": str(error)}
        except TailraceError as error:
            return {"fault": str(error)}
        except OSError as error:
            return {"errno": error.errno, "path": str(error.filename or run)}
        return {}

    jobs = sum(len(jobs) for _, jobs in of_instance)
    seconds = _LIMITS.seconds + jobs * _JOB_S
    if end is not None:
        seconds = max(min(seconds, end - monotonic()), 0)
    limits = replace(_LIMITS, seconds=seconds, memory_bytes=_LIMITS.memory_bytes + jobs * _JOB_BYTES)
    try:
        found: Any = child.bounded(told, limits)
    except child.OverLimitError as error:
        if end is not None and monotonic() >= end:
            raise RunError(_NO_TIME) from None
        raise RunError(f"reading what {files} has {error}: remove its flux-*.jsonl") from None
    if "no_run" in found:
        raise NotARunError(found["no_run"])
    if "fault" in found:
        raise RunError(found["fault"])
    if "errno" in found:
        raise OSError(found["errno"], os.strerror(found["errno"] or 0), found["path"])


def _seal(run: Path, jobs: Iterable[Job]) -> None:
    """Seals this node's journals of the jobs' dead processes: a shell that was killed has left them."""
    directories = {trace_event(job).get("journal-dir") for job in jobs}
    for directory in sorted(str(one or "") for one in directories):
        env = {**os.environ, "TAILRACE_JOURNAL_DIR": directory} if directory else None
        account = launcher.seal(run, env)
        if account["failed"]:
            raise RunError(launcher.unsealed_message(account, run))


def _has_any(run: Path, names: Iterable[str]) -> bool:
    return any(os.path.lexists(run / declared_folder.FOLDER / name) for name in names)


def file_name(instance: Instance) -> str:
    """The name of the declared file of an instance: always the same, and distinct from other instances of a run."""
    parts = [part for part in (instance.host, *ascii_path(instance.path).split("/")) if part]
    return "-".join(["flux", *(re.sub(r"[^A-Za-z0-9._]", "_", part) for part in parts)]) + ".jsonl"


def _groups_of(lines: Iterable[str], path: Path) -> Iterator[list[str]]:
    """The groups of an earlier file, without invalid lines. Raises RunError where these are many."""
    group: list[str] = []
    invalid = 0
    for line in lines:
        try:
            begins = json.loads(line)["type"] in ("workflow", "task")
        except (ValueError, TypeError, KeyError, RecursionError):
            invalid += 1
            if invalid > _MOST_INVALID:
                raise RunError(f"{path} has lines that are no job history: remove it") from None
            continue
        if begins and group:
            yield group
            group = []
        group.append(line)
    if group:
        yield group


def _merged(*groups: Iterable[list[str]]) -> Iterator[str]:
    """The lines of all groups; a later group replaces an earlier one of the same workflow or job.

    A job is identified by its task and its time of submission, not by its workflow: that of an untraced job may change
    between two collects.
    """
    kept: dict[Any, list[str]] = {}
    for group in chain(*groups):
        value = json.loads(group[0])
        keys = ("type", "workflow") if value["type"] == "workflow" else ("type", "task", "t_submit_ns")
        kept[tuple(value.get(key) for key in keys)] = group
    return chain.from_iterable(kept.values())
