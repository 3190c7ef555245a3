"""A workflow, as its manager's adapter tells it: the API that all adapters build on.

    workflow = Workflow.begin("mymanager", "1.2", "genome")           in the manager's process
    workflow.submitted("sort:a", "sort", inputs=[...], outputs=[...])
    with workflow.task("sort:a", "sort"):                             in the thread that runs the task,
        ...
    environment = workflow.environment("sort:a", "sort")              or for the program that does
    workflow.ended("sort:a", "done")
    workflow.close()

    tags --> scope, environment              the events of a task carry its workflow, stage, name and try
    submitted, started, ended --> DeclaredLog    what the manager states, to be compared with what was observed

Invariants: no method raises an exception for a reason of tracing. Where tracing is impossible (no core, no usable
directory) there is one warning, `active` is false, and every method does nothing. A task has one name in tags and
declarations (task_tags.tag_value), whatever characters it has. All methods may be called by any thread.

An inner manager's tasks name the outer one by the tag `parent`. Rejected: tags of both levels (`outer.stage`), columns
for each level, though grouping by stage means the innermost.
"""

import atexit
import hashlib
import json
import logging
import os
import shlex
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from tailrace import context, hashed_names
from tailrace import tags as tag_strings
from tailrace.errors import CoreError, TailraceError
from tailrace.integrations import environment, launcher, rundir
from tailrace.integrations.declared_log import END_STATUSES, DeclaredLog, FilePath, declared_file, of_path
from tailrace.integrations.hashed_declarations import RecordedName
from tailrace.integrations.isolation import Isolation
from tailrace.integrations.messages import say
from tailrace.integrations.task_tags import TaskTags, tag_value

_log = logging.getLogger("tailrace.integrations")


class Workflow:
    """One run of one workflow. Made by `begin`."""

    def __init__(
        self, manager: str, directory: Path | None, name: str, tags: str = "", outer: Mapping[str, str] | None = None
    ) -> None:
        """Of a run directory that exists; None: nothing is traced. tags: canonical, of all tasks. outer: what
        `surrounding_task` says in the manager's process. Raises TagError."""
        self.manager = manager
        self.directory = directory
        self.name = name
        self.isolated = Isolation(logging.getLogger(f"tailrace.{manager}"))
        """`with workflow.isolated("find a task's files"): ...` for an adapter's own steps."""
        self._outer = dict(outer or {})
        parent = tag_strings.encode({"parent": self._outer["parent"]}) if self._outer else ""
        self.base_tags = tag_strings.merge(parent, tags)
        """Of all tasks, but for the workflow's name; canonical."""
        self._tags = TaskTags(self.base_tags, name)
        self._declared = DeclaredLog(directory, manager) if directory is not None else None
        if directory is not None:
            atexit.register(self.close)
        self._process = os.getpid()
        self._lock = threading.Lock()
        _workflows.add(self)
        self._tries: dict[str, int] = {}
        self._writers: dict[str, str] = {}

    @classmethod
    def begin(
        cls,
        manager: str,
        version: str,
        name: str,
        *,
        run_dir: FilePath | None = None,
        attach: bool = False,
        tags: Mapping[str, str | int] | None = None,
        config: Mapping[str, Any] | None = None,
        own_directories: Iterable[FilePath] = (),
        own_processes: bool = False,
    ) -> "Workflow":
        """A workflow that begins now, in the process that submits its tasks.

        manager, version: the manager's; name: the workflow's, to which "-2" is appended when the run has one of that
            name.
        run_dir: where to trace, when this process isn't traced already (by `tailrace run`). None: a new directory under
            ./tailrace-runs with `attach`, else nothing is traced.
        attach: start tracing in this process too, and in all that it starts from now on.
        tags: further tags of every task.
        config: what the report may show of the manager's configuration, as JSON.
        own_directories: what the manager keeps for itself there is not the workflow's data.
        own_processes: this process, and what it starts outside of tasks, is the manager's program and none of the
            user's: nobody is advised on what it reads and writes.
        """
        try:
            own: dict[str, Any] = {"own_directories": [str(Path(path).absolute()) for path in own_directories]}
            own |= {"own_processes": True} if own_processes else {}
            return cls._begun(manager, version, name, run_dir, attach, tags or {}, {**(config or {}), **own})
        except Exception as error:
            _log.warning("tailrace: this workflow is not traced: %s", error)
            return cls(manager, None, "-")

    @classmethod
    def _begun(
        cls,
        manager: str,
        version: str,
        name: str,
        run_dir: FilePath | None,
        attach: bool,
        tags: Mapping[str, str | int],
        config: dict[str, Any],
    ) -> "Workflow":
        directory = _directory(run_dir, attach, tag_value(name))
        if directory is None:
            return cls(manager, None, tag_value(name))
        given = tag_strings.encode(tags)
        workflow = cls(manager, directory, unused_name(directory, tag_value(name)), given, surrounding_task())
        workflow.write("workflow", manager=manager, version=str(version), t_ns=time.time_ns(), config=config)
        workflow.flush()  # so that the next one sees its name
        return workflow

    @property
    def active(self) -> bool:
        """Whether anything is traced."""
        return self._declared is not None

    # Tags

    def tags(self, task: str, stage: str, attempt: int = 0) -> str:
        """The tags of a try of a task as one string, for `running` in a worker; "" when nothing is traced.

        task: its name, unique in the workflow, and the same at each execution of the workflow where that is possible;
        stage: what tasks of one kind have in common; attempt: from 0.
        """
        if self._declared is not None:
            with self.isolated("tag a task"):
                return self._tags.of(tag_value(stage), task, attempt)
        return ""

    def task(self, task: str, stage: str, attempt: int = 0) -> AbstractContextManager[None]:
        """The scope of a try of a task, for the thread of this process that runs it. Processes and threads started
        inside belong to the task. Must not span an `await`."""
        return running(self.tags(task, stage, attempt))

    def environment(
        self,
        task: str | None = None,
        stage: str | None = None,
        attempt: int = 0,
        *,
        base: Mapping[str, str] | None = None,
    ) -> dict[str, str]:
        """`base` (this process's environment when None), with what traces a program that is started with it.

        Without a task: for a process of the manager itself, such as a worker that opens scopes of tasks. Needed only
        where a program isn't started by a traced process, or not by the thread in a task's scope.
        """
        base = dict(os.environ if base is None else base)
        if self.directory is not None:
            with self.isolated("trace a program"):
                return environment.task_environment(self.directory, self._tags_of(task, stage, attempt), base)
        return base

    def variables(self, task: str | None = None, stage: str | None = None, attempt: int = 0) -> dict[str, str]:
        """The variables alone that trace a program, on any node that reaches the run directory. LD_PRELOAD has our
        library only: put it in front of what the program's own has (`shell_exports`)."""
        if self.directory is not None:
            with self.isolated("trace a program"):
                return {
                    **environment.chosen_settings(),
                    "LD_PRELOAD": str(environment.library_path()),
                    "TAILRACE_RUN": str(self.directory),
                    "TAILRACE_TAGS": self._tags_of(task, stage, attempt),
                }
        return {}

    def shell_exports(self, task: str | None = None, stage: str | None = None, attempt: int = 0) -> str:
        """A line of sh that traces the commands after it, ending in "; "; "" when nothing is traced."""
        words = [f"{name}={shlex.quote(value)}" for name, value in self.variables(task, stage, attempt).items()]
        words = [f"{word}${{LD_PRELOAD:+:$LD_PRELOAD}}" if word.startswith("LD_PRELOAD=") else word for word in words]
        return f"export {' '.join(words)}; " if words else ""

    def _tags_of(self, task: str | None, stage: str | None, attempt: int) -> str:
        if task is None:
            return self._tags.of_none()
        return self._tags.of(tag_value(task if stage is None else stage), task, attempt)

    # Declarations

    def submitted(
        self,
        task: str,
        stage: str,
        *,
        kind: str = "job",
        name: str | None = None,
        deps: Iterable[str | Mapping[str, str]] = (),
        inputs: Iterable[FilePath] = (),
        outputs: Iterable[FilePath] = (),
        t_ns: int | None = None,
        requested: Mapping[str, Any] | None = None,
        annotations: Mapping[str, Any] | None = None,
        **keys: Any,
    ) -> None:
        """States that the manager has a task to run. Once a task, before its first try.

        kind: python, bash, job, ...; name: for people, when it is not the stage.
        deps: tasks that it waits for, as names (only its order is known then), or as objects
            {"task": NAME, "via": "future", "file" or the manager's word, "path": ...}. A task that declared one of its
            inputs as an output needs no mention.
        inputs, outputs: the files, relative to the working directory or absolute.
        t_ns: when it was submitted; now when None.
        requested: the resources that it asked for: cores, gpus, memory_bytes, disk_bytes, time_s, or the manager's
            words. annotations: other facts for the report. keys: further keys of a task line (docs/declared-dag.md).
        """
        if self._declared is None:
            return
        with self.isolated("declare a task"):
            own = tag_value(task)
            read, written = _files(inputs), _files(outputs)
            with self._lock:
                self._writers.update({file["path"]: own for file in written})
                dependencies = self._dependencies(own, deps, read)
            resources = dict(requested or {})
            facts = {**(annotations or {}), **({"requested": resources} if resources else {})}
            self.write(
                "task",
                **keys,
                stage=tag_value(stage),
                task=own,
                kind=kind,
                name=name or tag_value(stage),
                t_submit_ns=time.time_ns() if t_ns is None else t_ns,
                deps=dependencies,
                inputs=read,
                outputs=written,
                cores=resources.get("cores"),
                gpus=resources.get("gpus"),
                annotations=facts or None,
            )

    def _dependencies(
        self, own: str, deps: Iterable[str | Mapping[str, str]], inputs: list[dict[str, str]]
    ) -> list[dict[str, str]]:
        """Lock held."""
        found: list[dict[str, str]] = []
        for file in inputs:
            writer = of_path(file["path"], self._writers)
            if writer is not None and writer != own:
                found.append({"task": writer, "via": "file", "path": file["path"]})
        by_file = {dependency["task"] for dependency in found}
        for dependency in deps:
            given = {"task": dependency, "via": "order"} if isinstance(dependency, str) else dict(dependency)
            given["task"] = tag_value(given["task"])
            if given["task"] not in by_file or not isinstance(dependency, str):
                found.append(given)
        return found

    def started(self, task: str, attempt: int = 0, *, t_ns: int | None = None, **keys: Any) -> None:
        """States that a try of a task was given to a worker."""
        if self._declared is None:
            return
        with self.isolated("declare a try"):
            own = tag_value(task)
            with self._lock:
                self._tries[own] = max(self._tries.get(own, 0), attempt + 1)
            launched = time.time_ns() if t_ns is None else t_ns
            self.write("try", **keys, task=own, t_launch_ns=launched, **{"try": attempt})

    def retried(self, task: str, attempt: int, error: str, *, t_launch_ns: int, t_ns: int | None = None) -> None:
        """States that a try failed, and that another one follows."""
        ended = time.time_ns() if t_ns is None else t_ns
        self.started(task, attempt, t_ns=t_launch_ns, t_end_ns=ended, status="failed", error=error)

    def ended(
        self,
        task: str,
        status: str = "done",
        *,
        error: str | None = None,
        t_ns: int | None = None,
        tries: int | None = None,
        **keys: Any,
    ) -> None:
        """States how a task ended: a status of docs/declared-dag.md. task: its name, or that of one of the
        `declared_lines`, as RecordedName. tries: as many as `started` told when None."""
        if self._declared is None:
            return
        with self.isolated("declare a task's end"):
            if status not in END_STATUSES:
                raise ValueError(f"there is no status {status!r}: give one of {', '.join(END_STATUSES)}")
            own = task if isinstance(task, RecordedName) else tag_value(task)
            with self._lock:
                counted = self._tries.pop(own, 0)
            end = time.time_ns() if t_ns is None else t_ns
            told = counted if tries is None else tries
            self.write("end", **keys, task=own, t_end_ns=end, status=status, tries=told, error=error)

    def write(self, type_: str, /, **keys: Any) -> None:
        """Adds a line of docs/declared-dag.md to the declarations of this workflow, for what the methods above don't
        say. Raises TypeError for a missing key."""
        if self._declared is not None:
            if type_ == "task" and self._outer and keys.get("parent") is None:
                keys |= self._outer
            keys["workflow"] = self.name
            self._declared.add(type_, keys)

    def write_later(self, type_: str, keys: Callable[[], dict[str, Any]]) -> None:
        """`write` of a line whose keys are asked for when it is written, 50 ms later: of what is told of many tasks at
        once."""
        if self._declared is not None:
            self._declared.add_later(type_, lambda: {"workflow": self.name, **keys()})

    # What is declared

    def declared_lines(self) -> Iterator[dict[str, Any]]:
        """The lines of this workflow that its processes on all nodes have written until now, as its manager's adapter
        declared them (docs/declared-dag.md), those of a process in their order. Names are as the run has them:
        `as_declared`."""
        if self._declared is None or self.directory is None:
            return
        name = self.as_declared("workflow", self.name)
        for path in (self.directory / "declared").glob(f"{self.manager}-*.jsonl"):
            with path.open(encoding="utf-8", errors="replace") as lines:
                for text in lines:
                    try:
                        line = json.loads(text)
                    except ValueError:
                        continue  # not written to its end yet
                    if isinstance(line, dict) and line.get("workflow") == name:
                        yield line

    def as_declared(self, key: str, text: str) -> str:
        """What a declared line of this run has for `text` as the value of `key`: a name may be hashed there."""
        return str(self._declared.recorded({key: text})[key]) if self._declared is not None else text

    # End

    def flush(self) -> None:
        """Writes what was declared until now; otherwise that happens after 50 ms."""
        if self._declared is not None:
            self._declared.flush()

    def close(self, wait_s: float = 0) -> None:
        """Writes what was declared, and seals what dead processes of this node left.

        wait_s: how long to wait for traced processes of this node that end by themselves, such as workers. Is called
        at the end of the process, too, and may be called again. In a child that was forked it only writes.
        """
        if self._declared is None or self.directory is None:
            return
        with self.isolated("write the declared tasks"):
            self._declared.close()
        context.flush()
        if self._process != os.getpid():
            return
        end = time.monotonic() + wait_s
        while seal(self.directory) and time.monotonic() < end:
            time.sleep(0.05)


def surrounding_task() -> dict[str, str]:
    """The task of another manager that this process is, as keys of a `task` line; {} where it is none."""
    text = context.setting("TAILRACE_TAGS")
    tags = tag_strings.decode(text) if text else {}
    return {"parent": tags["task"], "parent_workflow": tags.get("workflow", "")} if tags.get("task") else {}


_workflows: weakref.WeakSet[Workflow] = weakref.WeakSet()


def _unlock() -> None:
    """In a child that was forked: a thread that it does not have may hold a lock."""
    for workflow in _workflows:
        workflow._lock = threading.Lock()


os.register_at_fork(after_in_child=_unlock)


def running(tags: str) -> AbstractContextManager[None]:
    """The scope of the task with these tags (`Workflow.tags`), for the thread of a worker that runs it. Does nothing
    where the worker is not traced, or the tags are ""."""
    return context.entered(tags) if tags else nullcontext()


def seal(directory: Path) -> set[int]:
    """Seals the journals of this node's dead processes; a failure is a warning.

    Returns the processes with unsealed ones: alive, or being sealed by another process.
    """
    try:
        if launcher.seal(directory)["failed"]:
            raise CoreError("the run directory is not writable")
        return launcher.unsealed_pids(directory)
    except (TailraceError, OSError) as error:
        _log.warning("tailrace: can't seal the workers' journals: %s; run `tailrace seal %s`", error, directory)
        return set()


def unused_name(directory: Path, name: str) -> str:
    """`name`, with a number appended if the run has a workflow of that name: many managers number their tasks anew in
    each. No other process gets the same. Raises UsageError where the run's names are hashed with another key than this
    process has."""
    names = hashed_names.of_run(directory)
    candidate, number, taken = name, 1, _declared_workflows(directory)
    while True:
        recorded = candidate if names is None else names.tag("workflow", candidate)
        if recorded not in taken and _claimed(directory, recorded):
            return candidate
        number += 1
        candidate = f"{name}-{number}"


def claimed(directory: Path, name: str) -> bool:
    """Whether this is the first process that asks, and the run has no workflow of that name. Raises UsageError as
    `unused_name` does."""
    names = hashed_names.of_run(directory)
    recorded = name if names is None else names.tag("workflow", name)
    return recorded not in _declared_workflows(directory) and _claimed(directory, recorded)


def _claimed(directory: Path, recorded: str) -> bool:
    """By a directory, which only one process can make: lines are read by others some time after it began."""
    folder = directory / "declared"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / f"{hashlib.sha256(recorded.encode()).hexdigest()[:32]}.name").mkdir(mode=0o700)
    except FileExistsError:
        return False
    except OSError:
        return True  # as the lines will say that can't be written either
    return True


def _declared_workflows(directory: Path) -> set[str]:
    """The names of workflows, as they are in the run."""
    taken = set()
    for path in (directory / "declared").glob("*.jsonl"):
        with path.open(encoding="utf-8", errors="replace") as lines:
            try:
                taken.add(json.loads(next(lines, "{}")).get("workflow"))
            except (ValueError, AttributeError):
                continue
    return taken


def opened_run(wanted: FilePath | None, program: str, tags: str = "") -> Path:
    """A run directory, created or opened: `wanted`, else a new one under ./tailrace-runs, which is said. Raises
    UsageError."""
    directory = rundir.open_run_directory(
        Path(wanted) if wanted is not None else rundir.default_run_directory([program]), rundir.command_line(), tags
    )
    if wanted is None:
        say(f"tracing into {directory}")
    return directory


def _directory(wanted: FilePath | None, attach: bool, program: str) -> Path | None:
    """Where this process traces its tasks; None: nowhere."""
    into = context.run_directory() if context.active() else None
    if into is not None:
        if wanted is not None and Path(wanted).expanduser().resolve() != Path(into).resolve():
            _log.warning("tailrace: this process is already traced into %s: tracing the workflow there", into)
        return Path(into)
    if wanted is None and not attach:
        return None
    directory = opened_run(wanted, program)
    if attach:
        try:
            environment.attach(directory)
        except TailraceError as error:
            _log.warning("tailrace: tasks inside this process are not traced: %s", error)
    return directory


def _files(paths: Iterable[FilePath]) -> list[dict[str, str]]:
    """The keys of files, each once."""
    return list({keys["path"]: keys for keys in map(declared_file, paths)}.values())
