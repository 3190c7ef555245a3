"""WfFormat instances (https://wfcommons.org/format, 1.5 and 1.6): the DAG of any workflow manager.

    read(path) --> Instance, which is replayed, or imported() into a run's declared DAG

Invariants: an Instance has tasks with distinct ids, and their parents are among them; a dependency counts when either
of its ends names it. In an instance that `tailrace export` wrote, escaped names and versions are decoded, and pipes are
omitted: their names are valid in one run only and no file has them.

It is not in the analyzer, which never writes to a run.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tailrace.errors import UsageError
from tailrace.integrations.importing import ImportedTask, ImportedWorkflow, Importer, json_of

KIND = "wfformat"
_TASK_NUMBER = re.compile(r"[_.-](ID)?\d+$")
"""The suffix by which instances number the tasks of a stage: mProject_ID0000006. Steps of several programs that end in
numbers, step_1 and step_2, are stages of their own."""
_EXPORT_MARK = "tailrace"
"""The key with which `tailrace export` marks an instance whose identifiers are escaped."""


@dataclass(frozen=True)
class InstanceTask:
    """A declared task: `inputs` and `outputs` are file ids, `parents` task ids; runtime_s is 0 if unknown."""

    id: str
    stage: str
    program: str
    parents: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    runtime_s: float


@dataclass(frozen=True)
class Instance:
    """A workflow: tasks by id, each after its parents; sizes of files in bytes."""

    name: str
    system: str
    version: str
    tasks: Mapping[str, InstanceTask]
    sizes: Mapping[str, int]
    makespan_s: float

    def producers(self) -> dict[str, list[str]]:
        """File -> the tasks that write it."""
        out: dict[str, list[str]] = {}
        for task in self.tasks.values():
            for file in task.outputs:
                out.setdefault(file, []).append(task.id)
        return out

    def external_inputs(self) -> set[str]:
        """Files that tasks read and none writes."""
        return {file for task in self.tasks.values() for file in task.inputs} - set(self.producers())


def read(path: str | Path) -> Instance:
    """The instance in the file `path`.

    Raises:
        UsageError: it can't be read, is not WfFormat, or is inconsistent (a duplicate task, an unknown parent, a
            cycle).
    """
    try:
        data = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}") from error
    try:
        return _instance(data)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        what = f"has no {error}" if isinstance(error, KeyError) else str(error)
        raise UsageError(f"{path} is not a WfFormat instance of version 1.5 or 1.6: {what}") from error


def _instance(data: Any) -> Instance:
    workflow = data["workflow"]
    specification, execution = workflow["specification"], workflow.get("execution") or {}
    decoded = _decode if _EXPORT_MARK in data else str
    done = {str(task["id"]): task for task in execution.get("tasks", [])}
    tasks: dict[str, InstanceTask] = {}
    for task in specification["tasks"]:
        name = decoded(str(task["id"]))
        if name in tasks:
            raise ValueError(f"it has two tasks {name!r}")
        tasks[name] = _task(task, name, done.get(str(task["id"]), {}), decoded)
    parents = {name: dict.fromkeys(task.parents) for name, task in tasks.items()}
    for task in specification["tasks"]:
        for child in task.get("children", []):
            parents.setdefault(decoded(str(child)), {})[decoded(str(task["id"]))] = None
    system = data.get("runtimeSystem") or {}
    tasks = dict(_staged(tasks, decoded))
    return Instance(
        name=str(data["name"]),
        system=str(system.get("name", "unknown")),
        version=str(system.get("version", "unknown")),
        tasks=_ordered(tasks, parents),
        sizes={decoded(str(f["id"])): int(f["sizeInBytes"]) for f in specification.get("files", [])},
        makespan_s=float(execution.get("makespanInSeconds", 0)),
    )


def _decode(name: str) -> str:
    """The name in an identifier that `tailrace export` escaped, without its version number."""
    return unquote(name.split("#", 1)[0].replace(":", "%"), errors="replace")


def _task(task: Any, name: str, done: Any, decoded: Any) -> InstanceTask:
    command = done.get("command") or {}
    return InstanceTask(
        id=name,
        stage=str(task.get("name") or name),
        program=str(command.get("program", "")),
        parents=tuple(decoded(str(parent)) for parent in task.get("parents", [])),
        inputs=_files(task.get("inputFiles", []), decoded),
        outputs=_files(task.get("outputFiles", []), decoded),
        runtime_s=float(done.get("runtimeInSeconds", 0)),
    )


def _staged(tasks: Mapping[str, InstanceTask], decoded: Any) -> Iterator[tuple[str, InstanceTask]]:
    """The tasks with the stages that their names tell."""
    stems = {name: _TASK_NUMBER.sub("", task.stage) if decoded is str else "" for name, task in tasks.items()}
    programs: dict[str, set[str]] = {}
    for name, task in tasks.items():
        programs.setdefault(stems[name], set()).add(task.program)
    for name, task in tasks.items():
        stem = stems[name]
        yield name, replace(task, stage=stem) if stem and len(programs[stem]) == 1 else task


def _files(ids: Any, decoded: Any) -> tuple[str, ...]:
    names = dict.fromkeys(decoded(str(file)) for file in ids)
    return tuple(name for name in names if decoded is str or name.startswith("/"))


def _ordered(tasks: dict[str, InstanceTask], parents: dict[str, dict[str, None]]) -> dict[str, InstanceTask]:
    """The tasks with all their parents, in topological order. Raises ValueError for unknown tasks and cycles."""
    after: dict[str, list[str]] = {name: [] for name in tasks}
    waits: dict[str, int] = {}
    for name, mine in parents.items():
        for parent in mine:
            if parent not in tasks or name not in tasks:
                raise ValueError(
                    f"{parent!r} is declared as a parent of {name!r}, but one of them is not among its tasks"
                )
            after[parent].append(name)
        waits[name] = len(mine)
    ready = [name for name in tasks if not waits[name]]
    out: dict[str, InstanceTask] = {}
    for name in ready:  # grows during the iteration
        task = tasks[name]
        out[name] = InstanceTask(**{**task.__dict__, "parents": tuple(parents[name])})
        for child in after[name]:
            waits[child] -= 1
            if not waits[child]:
                ready.append(child)
    if len(out) < len(tasks):
        stuck = sorted(name for name in tasks if name not in out)
        raise ValueError(f"its dependencies form a cycle among {', '.join(map(repr, stuck[:5]))}")
    return out


def imported(path: Path) -> ImportedWorkflow:
    """The instance in the file `path`, to be imported into a run. Raises UsageError."""
    instance = read(path)
    return ImportedWorkflow(
        manager=KIND,
        version="1.6",
        name=instance.name,
        tasks=[
            ImportedTask(
                names=(task.id,),
                stage=task.stage,
                label=task.program or task.stage,
                after=task.parents,
                inputs=task.inputs,
                outputs=task.outputs,
            )
            for task in instance.tasks.values()
        ],
        via="future",
        explicit=True,
        ends="none",
        config={"system": instance.system, "name": instance.name},
    )


def recognizes(path: Path) -> bool:
    """Whether a file looks like an instance."""
    if path.suffix != ".json" or not path.is_file():
        return False
    data = json_of(path)
    return isinstance(data, dict) and isinstance(data.get("workflow"), dict) and "schemaVersion" in data


IMPORTER = Importer(KIND, "a WfFormat instance (.json)", recognizes, imported)
