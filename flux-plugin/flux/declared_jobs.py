"""The jobs of a Flux instance as declared lines (docs/declared-dag.md): their tags, run, workflow and times.

Input is the history that history.py prints; collect.py reads it and writes the lines. Times are Flux's, microseconds
since the epoch, converted to ns.
"""

import os
import pwd
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tailrace.base.exit_codes import ended, signal_text
from tailrace.integrations.declared_log import declared_line

TRACE_EVENT = "tailrace.trace"
DEFAULT_RUN = "tailrace-runs/{{id.f58plain}}"
_USER = re.compile(r"(?<!\{)\{(user|home)\}(?!\})")
_TEMPLATE = re.compile(r"\{\{([a-z0-9.]+)\}\}")
# The parts of a wait status: wait(2).
_SIGNAL, _EXIT_SHIFT = 0x7F, 8
_CANCELED = {"cancel": "CANCELED", "timeout": "TIMEOUT"}

# The options of flux-broker(1) and flux-start(1) whose value is the next word; flux-plugin/request.cc has them, too.
_TAKING_A_VALUE = frozenset(
    "-S -c -o -s --setattr --config-path --conf --broker-opts --wrap --test-size --test-hosts --test-exit-timeout "
    "--test-exit-mode --test-start-mode --test-rundir --test-pmi-clique --killer-timeout".split()
)

# A `job` object of history.py.
Job = Mapping[str, Any]


@dataclass
class Instance:
    """A Flux instance: `path` ("/", or the job id path of the job that it runs in), its facts and jobs."""

    path: str
    facts: dict[str, Any]
    jobs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def host(self) -> str:
        """The host of its rank 0."""
        return str(self.facts["host"])

    @property
    def enclosing_job(self) -> str:
        """The path of the job that the instance runs in; "/" without one. A script may have started the instance there:
        then its own path has a name below the job's."""
        outer, _, name = self.path.rpartition("/")
        return outer or "/" if name.startswith("start-") else self.path

    def task(self, job: str) -> str:
        """The task tag that the shell plugin gives a job of this instance: its job id path in ASCII."""
        return ascii_path(f"{self.path}/{job}")


def ascii_path(job_path: str) -> str:
    """A job id path as a task tag: "/ƒA/ƒB" is "fA/fB"."""
    return job_path.strip("/").replace("//", "/").replace("ƒ", "f")


def run_of(job: Job) -> Path | None:
    """The run directory of a traced job; None for an untraced job, and for a directory that only its shell knows.

    The directory may be a template (flux-submit(1), MUSTACHE TEMPLATES), relative to the job's working directory. The
    tags that name the job are expanded, and {user} and {home}.
    """
    asked = requested(job)
    given = trace_event(job).get("run", (asked or {}).get("run"))
    # Where the job manager lacks our plugin, the shell's follows the job's attributes, with the default configuration.
    template = given if given is not None or asked is None else DEFAULT_RUN
    if not isinstance(template, str):
        return None
    plain = str(job["id"]).replace("ƒ", "f")
    names = {"id.f58plain": plain, "id.dec": job.get("number"), "name": job_name(job)}
    # In a job without a UTF-8 locale, f58 is the plain form.
    forms = [{**names, "id": id_, "id.f58": id_, "jobid": id_} for id_ in (str(job["id"]), plain)]
    of_user = _user(job)
    template = _USER.sub(lambda match: of_user[match[1]], template)
    cwd = _dig(job.get("jobspec"), "attributes", "system").get("cwd")
    filled = [Path(str(cwd or "/"), _filled(template, names)) for names in forms]
    # Neither raises for a directory out of reach, as a guest's may be.
    found = next((path for path in filled if os.path.isdir(path)), filled[0])  # noqa: PTH112
    if "{{" in str(found) or (given is None and not os.path.isdir(found / "trace")):  # noqa: PTH112
        return None
    return Path(os.path.realpath(found))


def _user(job: Job) -> dict[str, str]:
    """The name and the home of the job's user, as flux-plugin/job_context.cc has them."""
    user = user_of(job)
    try:
        entry = pwd.getpwuid(user) if user is not None else None
    except KeyError:
        entry = None
    name, home = (entry.pw_name, entry.pw_dir) if entry else ("", "")
    usable = name and "/" not in name and name[0] != "."
    return {"user": name if usable else str(user), "home": home if home.startswith("/") else "/nonexistent"}


def _filled(template: str, names: Mapping[str, Any]) -> str:
    return _TEMPLATE.sub(lambda match: str(names.get(match[1], match[0])), template)


def user_of(job: Job) -> int | None:
    """The user id of the submitter, by the job manager; None when unknown."""
    user = _context(job, "submit").get("userid")
    return user if isinstance(user, int) else None


def workflow_of(instance: Instance, job: Job) -> str | None:
    """The workflow tag that the plugins gave a traced job; None for an untraced job.

    As in flux-plugin/job_context.cc: an instance inside a job is one workflow with everything in it, named after the
    outermost such job unless a name is given; other jobs have none. One that a script started has the script's.
    """
    if not trace_event(job) and requested(job) is None:
        return None
    given = tags_of(job).get("workflow")
    if given is not None or trace_event(job).get("within"):
        return str(given or "")
    outermost, *inner = instance.task(job["id"]).split("/")
    return outermost if inner or _runs_instance(job) else ""


def default_workflow(instance: Instance, jobs: Iterable[Job]) -> str:
    """The workflow of untraced jobs: that of the traced ones if it is the same for all, else the instance's."""
    names = {name for job in jobs if (name := workflow_of(instance, job)) is not None}
    return names.pop() if len(names) == 1 else ascii_path(instance.path).split("/")[0]


def describe(instance: Instance, jobs: Iterable[Job], workflow: str) -> list[list[str]]:
    """Groups of declared lines: one per workflow, and one per job, which begins with its `task` line."""
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
        stage=str(tags_of(job).get("stage") or _stage(job)),
        kind="instance" if _runs_instance(job) else "job",
        name=name,
        executor=str(system.get("queue") or "flux"),
        job=f"{instance.path.rstrip('/')}/{job['id']}",
        parent=ascii_path(instance.enclosing_job) or None,
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
        user=user_of(job),
        annotations=_annotations(job, system) or None,
        submitter=_submitter(job),
    )
    if _time(job, "finish") or _time(job, "clean"):
        yield declared_line("end", **key, **_end(job))


def _annotations(job: Job, system: Mapping[str, Any]) -> dict[str, Any]:
    """Flux's annotations, and what the job was submitted with: bank, queue, and the time that it asked for."""
    given = job.get("annotations")
    out = dict(given) if isinstance(given, dict) else {}
    out.update({key: system[key] for key in ("bank", "queue") if isinstance(system.get(key), str)})
    duration = system.get("duration")
    if isinstance(duration, (int, float)) and duration > 0:
        out["requested"] = {"time_s": duration}
    return out


def _key(instance: Instance, job: Job, workflow: str, tasks: Mapping[str, str]) -> dict[str, str]:
    tagged = workflow_of(instance, job)
    return {"workflow": workflow if tagged is None else tagged, "task": tasks[job["id"]]}


def _end(job: Job) -> dict[str, Any]:
    """The keys of the `end` line. A job that never ran ends with its cleanup."""
    result, error = outcome(job)
    statuses = {"COMPLETED": "done", "CANCELED": "canceled", "TIMEOUT": "timeout"}
    dependency_failed = any(e["context"].get("type") == "dependency" for e in _events(job, "exception"))
    by_signal = error.startswith("signal ")
    return {
        "t_end_ns": _time(job, "finish") or _time(job, "clean"),
        "t_clean_ns": _time(job, "clean"),
        "status": "dep_failed" if dependency_failed else statuses.get(result, "killed" if by_signal else "failed"),
        "result": result,
        "tries": len(_events(job, "alloc")),  # a job whose nodes failed is queued again
        "error": error or None,
    }


def outcome(job: Job) -> tuple[str, str]:
    """Flux's result (COMPLETED, FAILED, CANCELED, TIMEOUT), and the error or ""."""
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
    return "FAILED", signal_text(signal) if signal else ended(status >> _EXIT_SHIFT)[1]


def trace_event(job: Job) -> dict[str, Any]:
    """The context of the jobtap plugin's last event on the job; {} for an untraced job."""
    return _context(job, TRACE_EVENT, last=True)


def requested(job: Job) -> dict[str, Any] | None:
    """The tracing that the jobspec requests (attributes.user.trace); None without a request."""
    user = _dig(job.get("jobspec"), "attributes", "user")
    trace = user.get("trace")
    return trace if isinstance(trace, dict) else {} if trace is True else None


def tags_of(job: Job) -> dict[str, Any]:
    """The job's tags in the jobtap plugin's event; without an event, those that its jobspec requests."""
    tags = trace_event(job).get("tags")
    if isinstance(tags, dict):
        return tags
    trace = requested(job) or {}
    return {key: trace[key] for key in ("workflow", "stage", "task") if isinstance(trace.get(key), str)}


def to_ns(seconds: float | None) -> int | None:
    """Flux's time, a double that is exact to the microsecond, as ns since the epoch."""
    return None if seconds is None else round(seconds * 1e6) * 1000


def _events(job: Job, name: str) -> list[dict[str, Any]]:
    return [{"context": {}, **event} for event in job.get("events", []) if event["name"] == name]


def _context(job: Job, name: str, last: bool = False) -> dict[str, Any]:
    found = _events(job, name)
    return (found[-1 if last else 0]["context"] or {}) if found else {}


def _time(job: Job, name: str) -> int | None:
    found = _events(job, name)
    return to_ns(found[0]["timestamp"]) if found else None


def _first_task(job: Job) -> int | None:
    """When the shells had started the tasks; without the shell's log, when the shells started."""
    starts = [event for event in job.get("exec_events", []) if event["name"] == "shell.start"]
    return to_ns(starts[0]["timestamp"]) if starts else _time(job, "start")


def _submitter(job: Job) -> dict[str, Any] | None:
    """The process that submitted the job, as the command line plugin wrote it into the jobspec."""
    found = _dig(job.get("jobspec"), "attributes", "user", "tailrace", "submitter")
    host, pid, waits = (found.get(key) for key in ("host", "pid", "waits"))
    known = isinstance(host, str) and isinstance(pid, int) and isinstance(waits, bool)
    return {"host": host, "pid": pid, "waits": waits} if known else None


def _runs_instance(job: Job) -> bool:
    program, sub = [*map(str, _command(job)[:2]), "", ""][:2]
    return Path(program).name == "flux" and sub in ("broker", "start")


def _program(job: Job) -> str:
    return Path(str((_command(job) or ["job"])[0])).name or "job"


def _stage(job: Job) -> str:
    """The stage of a job that asks for none: its name; for an instance without one, the program that it starts."""
    named = _dig(job.get("jobspec"), "attributes", "system", "job").get("name")
    if named or not _runs_instance(job):
        return job_name(job)
    words = [str(word) for word in _command(job)[2:]]
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option == "--":
            break
        if option in _TAKING_A_VALUE and words:
            words.pop(0)
    program = (words[0].split() or [""])[0] if words else ""
    return Path(program).name or job_name(job)


def job_name(job: Job) -> str:
    """The job's name, else that of its program."""
    return str(_dig(job.get("jobspec"), "attributes", "system", "job").get("name") or _program(job))


def _command(job: Job) -> list[Any]:
    jobspec = job.get("jobspec")
    tasks = jobspec.get("tasks") if isinstance(jobspec, dict) else None
    first = tasks[0] if isinstance(tasks, list) and tasks else None
    command = first.get("command") if isinstance(first, dict) else None
    return command if isinstance(command, list) else []


def _dig(value: Any, *keys: str) -> dict[str, Any]:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}
