"""The Snakemake that runs a workflow: declares its tasks, tags those that it runs in threads of its own, and has those
that another Snakemake runs (on a node, for a `run:` directive, a group) tagged there (spawned.py).

Invariants: a task is declared before its first try, with the time at which Snakemake knew of it; those that never ran
are declared at the end. A Snakemake that only looks (`-n`, `--touch`) leaves no run behind.
"""

import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from tailrace import hashed_names
from tailrace import tags as tag_strings
from tailrace.integrations.declared_log import declared_file
from tailrace.integrations.messages import say
from tailrace.integrations.workflow import Workflow
from tailrace.snakemake import hooks, jobs
from tailrace.snakemake.hand_over import Orders, Told, heard
from tailrace.snakemake.running import Running

INNER = re.compile(r" -m snakemake(?= )")
"""Where a command starts another Snakemake."""


@dataclass
class _Task:
    """What is known of a task. known_ns: since when Snakemake has it."""

    job: Any
    known_ns: int
    declared: bool = False
    launched_ns: int = 0
    over: bool = False
    failed: bool = False
    told: list[Path] = field(default_factory=list)
    ran: list[Told] = field(default_factory=list)


class Driver:
    """hooks.Observer of the workflow of this process."""

    def __init__(self) -> None:
        self._workflow: Workflow | None = None
        self._tasks: dict[str, _Task] = {}
        self._writers: dict[str, str] = {}
        self._dag: Any = None
        self._told: Path | None = None

    def begin(self, scheduler: Any) -> None:
        self._workflow = None
        if jobs.only_looks(scheduler):
            return
        snakemake = scheduler.workflow
        self._dag = scheduler.dag if hasattr(scheduler, "dag") else snakemake.dag
        workflow = Workflow.begin(
            "snakemake",
            hooks.version(),
            jobs.workflow_name(getattr(snakemake, "main_snakefile", None) or "Snakefile"),
            run_dir=os.environ.get("TAILRACE_RUN") or None,
            attach=True,
            config={"arguments": sys.argv[1:]},
            own_processes=True,
        )
        if not workflow.active or workflow.directory is None:
            return
        if hashed_names.of_run(workflow.directory) is None:
            self._told = workflow.directory / "declared" / f"snakemake-{os.getpid()}-{time.time_ns():x}.told"
        else:
            # What is handed over has names of tasks as they are; jobs on other nodes then tell nothing.
            self._told = Path(tempfile.mkdtemp(prefix="tailrace-told-"))
        self._tasks, self._writers = {}, {}
        self._workflow = workflow
        self._look()

    def running(self, executor: Any, job: Any, spawned: bool) -> AbstractContextManager[None] | None:
        task = self._launched(job, executor)
        if task is None:
            return None
        if spawned:
            # The Snakemake that is started sets stage, task and try; its own I/O has none.
            return Running(self._tags(job, inner=True), partial(self._ran, job, False), finish=False)
        return Running(self._tags(job), partial(self._ran, job, True))

    def command(self, executor: Any, job: Any, command: str) -> str:
        if self._workflow is None or self._told is None:
            return command
        members = [one for one in jobs.members(job) if jobs.is_task(one)]
        for one in members:
            self._launched(one, executor)
        local = hasattr(executor, "cached_or_run")
        knows_us = executor.get_python_executable() == sys.executable
        ours, found = INNER.subn(" -m tailrace.snakemake", command, count=1)
        if not found or not knows_us:
            # Its Python may not have us: the whole Snakemake is the task's.
            exports = self._exports(job, "" if job.is_group() else self._tags(job))
            return command if local else exports + command
        told = self._told / f"{_file_name(job.jobid)}-{job.attempt}"
        self._told.mkdir(mode=0o700, parents=True, exist_ok=True)
        for one in members:
            self._tasks[jobs.task(one)].told.append(told)
        orders = Orders(self._workflow.name, str(told), {jobs.task(one): str(one.jobid) for one in members})
        exports = "" if local else self._exports(job, self._tags(job, inner=True))
        return f"{exports}export {orders.assignment()} && {ours}"

    def finished(self, job: Any) -> None:
        for one, task in self._known(job):
            task.over = True
            ran = self._last_try(one, task)
            if self._workflow is None or not task.launched_ns:
                continue
            end, start = (ran.t_end_ns, ran.t_start_ns) if ran else (None, None)
            tries = ran.attempt if ran else int(one.attempt)
            self._workflow.ended(jobs.task(one), "done", t_ns=end, tries=tries, t_start_ns=start)
        if any(getattr(one, "is_checkpoint", False) for one in jobs.members(job)):
            self._look()

    def failed(self, job: Any, attempt: int, again: bool) -> None:
        for one, task in self._known(job):
            ran = self._last_try(one, task)
            if self._workflow is None or not task.launched_ns:
                continue
            name, error = jobs.task(one), ran.error if ran else "the job failed: see Snakemake's log"
            error = error or "its commands ended well, but its outputs are missing or incomplete: see Snakemake's log"
            end, start = (ran.t_end_ns, ran.t_start_ns) if ran else (time.time_ns(), None)
            number = ran.attempt if ran else attempt
            self._workflow.retried(name, number - 1, error, t_launch_ns=task.launched_ns, t_ns=end)
            if again:
                task.launched_ns = 0
                continue
            task.over = task.failed = True
            self._workflow.ended(name, "failed", error=error, t_ns=end, tries=number, t_start_ns=start)

    def end(self) -> None:
        if self._workflow is None:
            return
        self._look()
        for task in list(self._tasks.values()):
            if not task.over:
                self._given_up(task)
        self._workflow.close()
        if self._told is not None and self._told.is_dir():
            for left in self._told.iterdir():
                left.unlink()
            self._told.rmdir()

    def _look(self) -> None:
        """Takes the jobs that Snakemake knows by now: a checkpoint adds some."""
        now = time.time_ns()
        for job in jobs.to_run(self._dag):
            if jobs.is_task(job):
                known = self._tasks.setdefault(jobs.task(job), _Task(job, now))
                # A job whose inputs were not known before is another object then.
                known.job = job

    def _known(self, job: Any) -> list[tuple[Any, _Task]]:
        """The tasks of a job or group that this process has launched."""
        if self._workflow is None:
            return []
        names = [(one, self._tasks.get(jobs.task(one))) for one in jobs.members(job)]
        return [(one, task) for one, task in names if task is not None]

    def _launched(self, job: Any, executor: Any) -> _Task | None:
        """Declares a task's try. None: it is none of ours, or runs nothing."""
        if self._workflow is None or job.is_group() or not jobs.is_task(job):
            return None
        task = self._tasks.setdefault(jobs.task(job), _Task(job, time.time_ns()))
        if task.launched_ns:
            return task
        self._declare(job, task, executor)
        task.launched_ns, task.ran = time.time_ns(), []
        self._workflow.started(jobs.task(job), int(job.attempt) - 1, t_ns=task.launched_ns)
        return task

    def _declare(self, job: Any, task: _Task, executor: Any = None) -> None:
        if task.declared or self._workflow is None:
            return
        task.declared = True
        requested: dict[str, Any] = {}
        with self._workflow.isolated("read a job's resources"):
            requested = jobs.requested(job)
        waits = jobs.predecessors(self._dag, job)
        marks = jobs.touched(job).union(*map(jobs.touched, waits))
        own = jobs.task(job)
        inputs, outputs = ([file for file in files(job) if file not in marks] for files in (jobs.inputs, jobs.outputs))
        self._writers.update(dict.fromkeys(outputs, own))
        before = [jobs.task(one) for one in waits]
        group = getattr(job, "group", None)
        self._workflow.submitted(
            own,
            jobs.stage(job),
            kind=jobs.kind(job),
            deps=[*(name for name in before if name in self._tasks), *self._through_folders(own, inputs)],
            inputs=inputs,
            outputs=outputs,
            t_ns=task.known_ns,
            requested=requested,
            annotations={"jobid": str(job.jobid), **({"group": str(group)} if group else {})},
            executor=_executor_name(executor) if executor is not None else None,
        )

    def _through_folders(self, own: str, inputs: list[str]) -> Iterator[dict[str, str]]:
        """Dependencies by files below a folder that another task has as its output: once a checkpoint is over, such a
        file is an input that Snakemake has no maker for."""
        for path in inputs:
            if path in self._writers:
                continue
            for folder in map(str, PurePath(path).parents):
                writer = self._writers.get(folder)
                if writer is not None and writer != own:
                    yield {"task": writer, "via": "file", "path": declared_file(path)["path"]}
                    break

    def _ran(self, job: Any, itself: bool, began_ns: int, ended_ns: int, error: str) -> None:
        """itself: not through another Snakemake, which tells."""
        task = self._tasks.get(jobs.task(job))
        if task is not None and itself:
            task.ran = [Told(jobs.task(job), int(job.attempt), began_ns, ended_ns, error)]

    def _last_try(self, job: Any, task: _Task) -> Told | None:
        """How the last try of a launched task ran, where that is known; declares those before it."""
        for path in task.told:
            for name, told in heard(path).items():
                if name in self._tasks:
                    self._tasks[name].ran = told
        task.told.clear()
        if not task.ran or self._workflow is None:
            return None
        *before, last = task.ran
        for ran in before:
            self._workflow.retried(ran.task, ran.attempt - 1, ran.error, t_launch_ns=ran.t_start_ns, t_ns=ran.t_end_ns)
        if before:
            self._workflow.started(last.task, last.attempt - 1, t_ns=last.t_start_ns)
        return last

    def _given_up(self, task: _Task) -> None:
        """A task that did not end, or was never launched."""
        assert self._workflow is not None
        task.over = True
        name = jobs.task(task.job)
        if task.launched_ns:
            error = "Snakemake ended before the job"
            self._workflow.ended(name, "canceled", error=error, tries=int(task.job.attempt))
            return
        self._declare(task.job, task)
        because = self._failed_before(name)
        if because:
            self._workflow.ended(name, "dep_failed", error=f"{because} failed", tries=0)
        else:
            self._workflow.ended(name, "canceled", error="Snakemake ended before it was run", tries=0)

    def _failed_before(self, name: str) -> str:
        """The failed task that a task waited for, directly or not; "" where there is none."""
        seen, left = {name}, [name]
        while left:
            task = self._tasks.get(left.pop())
            if task is None:
                continue
            if task.failed:
                return jobs.task(task.job)
            for job in jobs.predecessors(self._dag, task.job):
                before = jobs.task(job)
                if before not in seen:
                    seen.add(before)
                    left.append(before)
        return ""

    def _tags(self, job: Any, inner: bool = False) -> str:
        """inner: of the Snakemake that is started for the job, or group."""
        assert self._workflow is not None
        if inner:
            own = {"workflow": self._workflow.name, **({} if job.is_group() else {"jobid": str(job.jobid)})}
            return tag_strings.encode(own)
        tags = self._workflow.tags(jobs.task(job), jobs.stage(job), int(job.attempt) - 1)
        return tag_strings.merge(tags, tag_strings.encode({"jobid": str(job.jobid)})) if tags else ""

    def _exports(self, job: Any, tags: str) -> str:
        """What traces the command after it on any node."""
        assert self._workflow is not None
        line = self._workflow.shell_exports()
        return line + (f"export TAILRACE_TAGS={tags} && " if line and tags else "")


def _executor_name(executor: Any) -> str:
    module = type(executor).__module__
    found = re.search(r"snakemake_executor_plugin_(\w+)", module)
    return found[1].replace("_", "-") if found else "local" if hasattr(executor, "cached_or_run") else "remote"


def _file_name(jobid: Any) -> str:
    return re.sub(r"[^A-Za-z0-9-]", "_", str(jobid))


def start() -> None:
    """Follows the workflow of this process; a line on stderr where this Snakemake is unknown."""
    import logging

    from tailrace.integrations.isolation import Isolation

    obstacle = hooks.install(Driver(), Isolation(logging.getLogger("tailrace.snakemake")))
    if obstacle is not None:
        say(f"this adapter doesn't know Snakemake {hooks.version()}: {obstacle}; its jobs are not told apart")
