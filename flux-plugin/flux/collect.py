"""A Flux instance's job history as declared lines of a run (docs/declared-dag.md).

    flux python history.py -> Instance, with dicts of jobs -> a group of lines a job -> declared/flux-<host>....jsonl

What always holds: an instance has one file in a run, published whole; the lines of a job replace those that an earlier
collect wrote, so collecting again adds what is new and doubles nothing. A job that was traced into another run is left
out. Times are Flux's own, microseconds since the epoch, as ns.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from tailrace.errors import ManagerError, UsageError
from tailrace.integrations import rundir
from tailrace.integrations.declared_log import declared_line, publish

TRACE_EVENT = "tailrace.trace"
HISTORY_TIMEOUT_S = 300
_TEMPLATE = re.compile(r"\{\{([a-z0-9.]+)\}\}")
# The signals that a wait status names, of 8 bits each: wait(2).
_SIGNAL, _EXIT_SHIFT = 0x7F, 8
_CANCELED = {"cancel": "CANCELED", "timeout": "TIMEOUT"}

# As history.py gives it.
Job = Mapping[str, Any]


@dataclass
class Instance:
    """A Flux instance: `path` ("/" or the job id path of the job that it runs in), what is known of it, its jobs."""

    path: str
    facts: dict[str, Any]
    jobs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def host(self) -> str:
        """Where its rank 0 runs."""
        return str(self.facts["host"])

    def task(self, job: str) -> str:
        """The task name of a job of this instance, as the jobtap plugin makes it: its job id path in ASCII."""
        return ascii_path(f"{self.path}/{job}")


def ascii_path(job_path: str) -> str:
    """A job id path as a task name: "/ƒA/ƒB" is "fA/fB"."""
    return job_path.strip("/").replace("//", "/").replace("ƒ", "f")


@dataclass
class Collected:
    """What one collect did. files: the declared files; jobs: in them; elsewhere: jobs left out, traced into other runs;
    unreachable: (job id path, reason) of inner instances that run and could not be asked."""

    run_dir: Path
    files: list[Path] = field(default_factory=list)
    jobs: int = 0
    instances: int = 0
    elsewhere: int = 0
    unreachable: list[tuple[str, str]] = field(default_factory=list)


def find_flux(given: str | Path | None = None) -> Path:
    """The `flux` command: the one given, on PATH, or that of the job we are in. Raises ManagerError."""
    if given is not None:
        path = Path(given)
        if not path.is_file():
            raise UsageError(f"there is no {path}: --flux takes the path of the flux command")
        return path
    found = shutil.which("flux")
    if found:
        return Path(found)
    # A job's environment names <prefix>/libexec/flux/cmd even where PATH was emptied.
    for directory in os.environ.get("FLUX_EXEC_PATH", "").split(":"):
        candidate = Path(directory, "../../../bin/flux")
        if directory and candidate.is_file():
            return candidate.resolve()
    raise ManagerError("there is no flux command on PATH: load Flux's module, or give its path with --flux")


def read_history(flux: Path, since: str = "") -> tuple[list[Instance], list[tuple[str, str]]]:
    """The history of the surrounding instance and of those that run inside it; and which could not be asked, and why.

    since: leaves out jobs that were over before it; a time as `flux jobs --since` takes it. Raises ManagerError.
    """
    script = Path(__file__).with_name("history.py")
    command = [str(flux), "python", str(script), *([f"--since={since}"] if since else [])]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=HISTORY_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise ManagerError(
            f"Flux has not told its history within {HISTORY_TIMEOUT_S} s: is the broker alive?"
        ) from error
    except OSError as error:
        raise ManagerError(f"can't run {flux}: {error.strerror}") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise ManagerError(_why_not_asked(said[-1] if said else f"exit code {done.returncode}", flux))
    return parse_history(done.stdout.decode("utf-8", "replace").splitlines())


def _why_not_asked(said: str, flux: Path) -> str:
    if "ModuleNotFoundError" in said or "ImportError" in said:
        needs = "install what they need (python3-cffi, python3-yaml, python3-ply)"
        return f"`{flux} python` can't import Flux's bindings ({said}): {needs}"
    return f"Flux can't be asked: {said}"


def parse_history(lines: Iterable[str]) -> tuple[list[Instance], list[tuple[str, str]]]:
    """What history.py wrote, as instances and (path, reason) of those that could not be asked. Raises ManagerError."""
    instances: dict[str, Instance] = {}
    unreachable = []
    for line in lines:
        try:
            ((kind, value),) = json.loads(line).items()
        except ValueError as error:
            raise ManagerError(f"`flux python` wrote what is no job history: {line[:80]!r}") from error
        if kind == "instance":
            if value["path"] in instances:
                raise ManagerError(f"two instances of the job history have the path {value['path']}")
            instances[value["path"]] = Instance(value["path"], value)
        elif kind == "job":
            instances[value["instance"]].jobs.append(value)
        else:
            unreachable.append((value["path"], value["reason"]))
    return list(instances.values()), unreachable


def collect(
    run_dir: str | Path | None = None, since: str = "", workflow: str | None = None, flux: str | Path | None = None
) -> list[Collected]:
    """Writes the history of the surrounding Flux instance, and of those that run inside it, to runs.

    run_dir: the run; None: every run that a job of these instances was traced into, on whose directory we may write;
    jobs that were not traced go along where that is one run. since: as in `read_history`. workflow: the workflow of
    jobs that are not traced. Raises ManagerError, UsageError; OSError when a declared file can't be written.
    """
    return store(*read_history(find_flux(flux), since), run_dir, workflow)


def store(
    instances: list[Instance],
    unreachable: list[tuple[str, str]],
    run_dir: str | Path | None = None,
    workflow: str | None = None,
) -> list[Collected]:
    """Writes a history that was read; see `collect`."""
    shares = jobs_by_run(instances)
    if run_dir is not None:
        directory = Path(run_dir)
        if not rundir.is_run_directory(directory):
            directory = rundir.open_run_directory(directory, rundir.command_line())
        wanted = [directory.resolve()]
    else:
        wanted = sorted(run for run in shares if run is not None)
    with_untraced = run_dir is not None or len(wanted) == 1
    by_path = {instance.path: instance for instance in instances}
    total = sum(len(instance.jobs) for instance in instances)
    collected = []
    for run in wanted:
        if run_dir is None and not (rundir.is_run_directory(run) and _takes_declarations(run)):
            continue
        share = [*shares.get(run, []), *(shares.get(None, []) if with_untraced else [])]
        done = Collected(run, unreachable=unreachable)
        for path, jobs in _by_instance(share).items():
            _collect_into(done, by_path[path], jobs, workflow)
        done.elsewhere = total - done.jobs
        collected.append(done)
    return collected


def jobs_by_run(instances: Iterable[Instance]) -> dict[Path | None, list[tuple[str, int, Job]]]:
    """The jobs of each run that jobs of these instances were traced into; of None, those without one.

    Each is (path of its instance, its number in it, job).
    """
    shares: dict[Path | None, list[tuple[str, int, Job]]] = {}
    for instance in instances:
        for number, job in enumerate(instance.jobs):
            shares.setdefault(run_of(job), []).append((instance.path, number, job))
    return shares


def _by_instance(share: Iterable[tuple[str, int, Job]]) -> dict[str, list[Job]]:
    """A share's jobs by the path of their instance, in the order that the instance has them."""
    numbered: dict[str, list[tuple[int, Job]]] = {}
    for path, number, job in share:
        numbered.setdefault(path, []).append((number, job))
    return {path: [job for _, job in sorted(jobs, key=lambda entry: entry[0])] for path, jobs in numbered.items()}


def _takes_declarations(run: Path) -> bool:
    declared = run / "declared"
    return os.access(declared if declared.is_dir() else run, os.W_OK)


def run_of(job: Job) -> Path | None:
    """The run directory of a traced job; None when it isn't traced, or only its shell knew the directory.

    The directory may be a template of the job's shell (flux-submit(1), MUSTACHE TEMPLATES), relative to the job's
    working directory. Of the templates, those are filled in that name the job.
    """
    told = trace_event(job).get("run", (asked(job) or {}).get("run"))
    if not isinstance(told, str):
        return None
    plain = str(job["id"]).replace("ƒ", "f")
    names = {"id.f58plain": plain, "id.dec": job.get("number"), "name": job_name(job)}
    # In a job without a UTF-8 locale, f58 is the plain form.
    spellings = [{**names, "id": id_, "id.f58": id_, "jobid": id_} for id_ in (str(job["id"]), plain)]
    cwd = _dig(job.get("jobspec"), "attributes", "system").get("cwd")
    filled = [Path(str(cwd or "/"), _filled(told, names)) for names in spellings]
    found = next((path for path in filled if path.is_dir()), filled[0])
    return None if "{{" in str(found) else found.resolve()


def _filled(template: str, names: Mapping[str, Any]) -> str:
    return _TEMPLATE.sub(lambda match: str(names.get(match[1], match[0])), template)


def _collect_into(done: Collected, instance: Instance, jobs: list[Job], workflow: str | None) -> None:
    path = done.run_dir / "declared" / file_name(instance)
    with rundir.locked(done.run_dir):
        publish(path, _merged(_groups_of(path), describe(instance, jobs, workflow or default_workflow(instance, jobs))))
    done.files.append(path)
    done.jobs += len(jobs)
    done.instances += 1


def file_name(instance: Instance) -> str:
    """The declared file of an instance: the same one each time, another one for any other instance of a run."""
    parts = [part for part in (instance.host, *ascii_path(instance.path).split("/")) if part]
    return "-".join(["flux", *(re.sub(r"[^A-Za-z0-9._]", "_", part) for part in parts)]) + ".jsonl"


def workflow_of(instance: Instance, job: Job) -> str | None:
    """The workflow tag that the plugins gave a traced job; None for a job that is not traced.

    As in flux-plugin/shell.cc: an instance in a job is one workflow with all in it, named after the outermost such job,
    unless another name was given; a job beside others has none.
    """
    if not trace_event(job) and asked(job) is None:
        return None
    told = tags_of(job).get("workflow")
    outermost, *inner = instance.task(job["id"]).split("/")
    return str(told) if told is not None else outermost if inner or _runs_instance(job) else ""


def default_workflow(instance: Instance, jobs: Iterable[Job]) -> str:
    """The workflow of jobs that are not traced: that of those which are, when they agree, else the instance's."""
    told = {name for job in jobs if (name := workflow_of(instance, job)) is not None}
    return told.pop() if len(told) == 1 else ascii_path(instance.path).split("/")[0]


# --- one job as lines ------------------------------------------------------------------------------------------------


def describe(instance: Instance, jobs: Iterable[Job], workflow: str) -> list[list[str]]:
    """Groups of declared lines: one a workflow, and one a job, which its `task` line begins."""
    jobs = list(jobs)
    tasks = {job["id"]: str(tags_of(job).get("task") or instance.task(job["id"])) for job in jobs}
    groups = [list(_job_lines(instance, job, workflow, tasks)) for job in jobs]
    names = dict.fromkeys(_key(instance, job, workflow, tasks)["workflow"] for job in jobs)
    keys = ("hosts", "level", "nodes", "cores")
    config = {"instance": instance.path, **{key: instance.facts.get(key) for key in keys}}
    version = str(instance.facts.get("version") or "")
    started = to_ns(instance.facts.get("started")) or 0
    heads = [
        [declared_line("workflow", workflow=name, manager="flux", version=version, t_ns=started, config=config)]
        for name in names
    ]
    return [*heads, *groups]


def _job_lines(instance: Instance, job: Job, workflow: str, tasks: Mapping[str, str]) -> Iterator[str]:
    key = _key(instance, job, workflow, tasks)
    system = _dig(job.get("jobspec"), "attributes", "system")
    waits = job.get("waits_for", [])
    after = [wait for wait in waits if wait[0].startswith("after")]
    resources = job.get("resources") or {}
    name = job_name(job)
    yield declared_line(
        "task",
        **key,
        stage=str(tags_of(job).get("stage") or name),
        kind="instance" if _runs_instance(job) else "job",
        name=name,
        executor=str(system.get("queue") or "flux"),
        job=f"{instance.path.rstrip('/')}/{job['id']}",
        parent=ascii_path(instance.path) or None,
        deps=[{"task": tasks.get(value) or instance.task(value), "via": scheme} for scheme, value in after],
        holds=[f"{scheme}={value}" if value else scheme for scheme, value in waits if [scheme, value] not in after],
        inputs=[],
        outputs=[],
        t_submit_ns=_time(job, "submit") or 0,
        t_depend_ns=_time(job, "depend"),
        t_alloc_ns=_time(job, "alloc"),
        t_start_ns=_first_task(job),
        nodes=resources.get("nodes"),
        ranks=resources.get("ranks"),
        cores=resources.get("cores"),
        gpus=resources.get("gpus") or None,
        user=_context(job, "submit").get("userid"),
        annotations=job.get("annotations") or None,
    )
    if _time(job, "finish") or _time(job, "clean"):
        yield declared_line("end", **key, **_end(job))


def _key(instance: Instance, job: Job, workflow: str, tasks: Mapping[str, str]) -> dict[str, str]:
    tagged = workflow_of(instance, job)
    return {"workflow": workflow if tagged is None else tagged, "task": tasks[job["id"]]}


def _end(job: Job) -> dict[str, Any]:
    """The end of a job that has one; one that never ran ends when it is cleaned up."""
    result, error = outcome(job)
    statuses = {"COMPLETED": "done", "CANCELED": "canceled"}
    dependency_failed = any(e["context"].get("type") == "dependency" for e in _events(job, "exception"))
    return {
        "t_end_ns": _time(job, "finish") or _time(job, "clean"),
        "t_clean_ns": _time(job, "clean"),
        "status": "dep_failed" if dependency_failed else statuses.get(result, "failed"),
        "result": result,
        "tries": 1 if _time(job, "alloc") else 0,
        "error": error or None,
    }


def outcome(job: Job) -> tuple[str, str]:
    """The result as Flux names it (COMPLETED, FAILED, CANCELED, TIMEOUT), and what went wrong, or ""."""
    fatal = [event["context"] for event in _events(job, "exception") if event["context"].get("severity") == 0]
    status = _context(job, "finish").get("status")
    if fatal:
        kind, note = str(fatal[0].get("type") or ""), str(fatal[0].get("note") or "")
        return _CANCELED.get(kind, "FAILED"), f"{kind}: {note}" if note else kind
    if status == 0:
        return "COMPLETED", ""
    if not isinstance(status, int):
        return "FAILED", "never ran"
    signal = status & _SIGNAL
    return "FAILED", f"signal {signal}" if signal else f"exit code {status >> _EXIT_SHIFT}"


def trace_event(job: Job) -> dict[str, Any]:
    """What the jobtap plugin said of the job's tracing, the last time; {} for a job that is not traced."""
    return _context(job, TRACE_EVENT, last=True)


def asked(job: Job) -> dict[str, Any] | None:
    """How the job asks to be traced; None when it doesn't."""
    user = _dig(job.get("jobspec"), "attributes", "user")
    wish = user.get("trace")
    return wish if isinstance(wish, dict) else {} if wish is True else None


def tags_of(job: Job) -> dict[str, Any]:
    """The job's tags by the jobtap plugin's word; of one without it, what its jobspec asks for."""
    tags = trace_event(job).get("tags")
    if isinstance(tags, dict):
        return tags
    wish = asked(job) or {}
    return {key: wish[key] for key in ("workflow", "stage", "task") if isinstance(wish.get(key), str)}


def to_ns(seconds: float | None) -> int | None:
    """Flux's time, a double that is exact to the microsecond, as ns since the epoch."""
    return None if seconds is None else round(seconds * 1e6) * 1000


def _events(job: Job, name: str) -> list[dict[str, Any]]:
    return [{"context": {}, **event} for event in job.get("events", []) if event["name"] == name]


def _context(job: Job, name: str, last: bool = False) -> dict[str, Any]:
    found = _events(job, name)
    context_of: dict[str, Any] = (found[-1 if last else 0]["context"] or {}) if found else {}
    return context_of


def _time(job: Job, name: str) -> int | None:
    found = _events(job, name)
    return to_ns(found[0]["timestamp"]) if found else None


def _first_task(job: Job) -> int | None:
    """When the shells had started the tasks; of a job whose shell's log is not to be had, when the shells ran."""
    starts = [event for event in job.get("exec_events", []) if event["name"] == "shell.start"]
    return to_ns(starts[0]["timestamp"]) if starts else _time(job, "start")


def _runs_instance(job: Job) -> bool:
    return _command(job)[:2] == ["flux", "broker"]


def _program(job: Job) -> str:
    return Path(str((_command(job) or ["job"])[0])).name or "job"


def job_name(job: Job) -> str:
    """The job's name, or that of its program."""
    return str(_dig(job.get("jobspec"), "attributes", "system", "job").get("name") or _program(job))


def _command(job: Job) -> list[Any]:
    tasks = (job.get("jobspec") or {}).get("tasks") or [{}]
    command = tasks[0].get("command")
    return command if isinstance(command, list) else []


def _dig(value: Any, *keys: str) -> dict[str, Any]:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


# --- the file --------------------------------------------------------------------------------------------------------


def _groups_of(path: Path) -> Iterator[list[str]]:
    """The groups of a file that was written here before; what is no declared line is dropped."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return
    group: list[str] = []
    for line in lines:
        with suppress(ValueError, TypeError, KeyError):
            if json.loads(line)["type"] in ("workflow", "task") and group:
                yield group
                group = []
            group.append(line)
    if group:
        yield group


def _merged(*groups: Iterable[list[str]]) -> Iterator[str]:
    """The lines of all groups; a later one stands for an earlier one of the same workflow or job.

    A job is known by its task and when it was submitted, not by its workflow: that of an untraced job may be another
    one when more is known.
    """
    kept: dict[Any, list[str]] = {}
    for group in chain(*groups):
        value = json.loads(group[0])
        keys = ("type", "workflow") if value["type"] == "workflow" else ("type", "task", "t_submit_ns")
        kept[tuple(value.get(key) for key in keys)] = group
    return chain.from_iterable(kept.values())
