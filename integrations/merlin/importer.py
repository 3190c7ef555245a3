"""A study's folder of Merlin: merlin_info/*.expanded.yaml has steps, parameters and samples, each workspace's
MERLIN_STATUS.json what became of it.

    step of the specification --> instances: one for each combination of the parameters that it uses, those of the
                                  steps that it depends on (but by `_*`) included, as Maestro expands them
    instance --> tasks: one for each sample, named by the folders behind the step's: sim_N.10/00/17

A task depends on the instances of its step's predecessors with its parameters, and on all of a step named with `_*`;
on its own sample alone where Merlin runs two steps as a chain. Merlin keeps no times but those of its files.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tailrace.errors import UsageError
from tailrace.integrations.importing import ImportedTask, ImportedWorkflow, Importer, json_of, yaml_of

_SPECIFICATIONS = "merlin_info/*.expanded.yaml"
_STATUS = "MERLIN_STATUS.json"
_FINISHED = "MERLIN_FINISHED"
_WORKSPACE = re.compile(r"\$\(([^()]+)\.workspace\)")
_SAMPLE = ("MERLIN_SAMPLE_ID", "MERLIN_SAMPLE_PATH", "merlin_sample_id", "merlin_sample_path")
_OF_ALL = "_*"
_MOST_SAMPLES = 1000
"""Each of which may depend on all of another step."""


@dataclass(frozen=True)
class _Instance:
    """A step with values of the parameters that it uses."""

    name: str
    step: str
    values: Mapping[str, Any]
    folder: str


@dataclass
class _Step:
    """alike, all_of: the steps that it depends on, in which its own values count, or not."""

    alike: list[str] = field(default_factory=list)
    all_of: list[str] = field(default_factory=list)
    sampled: bool = False
    instances: list[_Instance] = field(default_factory=list)


@dataclass(frozen=True)
class _Row:
    """What a status file says of a workspace. sample: its folders behind the instance's, "/00"."""

    sample: str
    status: Mapping[str, Any]
    folder: Path


def recognizes(path: Path) -> bool:
    """Whether a folder is a study's."""
    return path.is_dir() and any(path.glob(_SPECIFICATIONS))


def read(path: Path) -> ImportedWorkflow:
    """The steps of a study. Raises UsageError, OSError."""
    files = sorted(path.glob(_SPECIFICATIONS))
    if not files:
        raise UsageError(f"{path} has no {_SPECIFICATIONS}: give the folder of a Merlin study, STUDY_DATE-TIME")
    data = yaml_of(files[0])
    steps = _steps(data)
    found = _rows(path.resolve(), steps)
    tasks = [task for step in steps.values() for one in step.instances for task in _tasks(one, steps, found)]
    return ImportedWorkflow(
        manager="merlin",
        version="",
        name=str(data["description"]["name"]),
        tasks=_without_lost_ones(tasks),
        root=path.resolve(),
        own_directories=["merlin_info"],
    )


def _steps(data: Mapping[str, Any]) -> dict[str, _Step]:
    """In the order of the specification, with their instances."""
    samples = (data.get("merlin") or {}).get("samples") or {}
    tokens = [f"$({label})" for label in (*(samples.get("column_labels") or ()), *_SAMPLE)]
    parameters: Mapping[str, Any] = data.get("global.parameters") or {}
    texts = {str(step["name"]): json.dumps(step, default=str) for step in data["study"]}
    steps = {}
    for about in data["study"]:
        needed = [str(name) for name in about["run"].get("depends") or ()]
        command = f"{about['run'].get('cmd', '')} {about['run'].get('restart', '')}"
        steps[str(about["name"])] = _Step(
            alike=[name for name in needed if not name.endswith(_OF_ALL)],
            all_of=[name.removesuffix(_OF_ALL) for name in needed if name.endswith(_OF_ALL)],
            sampled=any(token in command for token in tokens),
        )
    used: dict[str, set[str]] = {}
    for name, step in steps.items():
        step.instances = list(_instances(name, parameters, _used(name, steps, texts, parameters, used)))
    return steps


def _used(
    name: str, steps: Mapping[str, _Step], texts: Mapping[str, str], parameters: Any, known: dict[str, set[str]]
) -> set[str]:
    """The parameters of a step."""
    if name in known or name not in steps:
        return known.get(name, set())
    own = {one for one in parameters if f"$({one})" in texts[name] or f"$({one}.label)" in texts[name]}
    known[name] = own
    workspaces = [one for one in _WORKSPACE.findall(texts[name]) if one not in steps[name].all_of]
    for other in (*steps[name].alike, *workspaces):
        own |= _used(other, steps, texts, parameters, known)
    return own


def _instances(step: str, parameters: Mapping[str, Any], used: set[str]) -> Iterator[_Instance]:
    if not used:
        yield _Instance(step, step, {}, step)
        return
    seen = set()
    for number in range(len(parameters[min(used)]["values"])):
        values = {name: parameters[name]["values"][number] for name in sorted(used)}
        labels = ".".join(_label(parameters[name], number) for name in sorted(used))
        if labels not in seen:
            seen.add(labels)
            yield _Instance(f"{step}_{labels}", step, values, f"{step}/{labels}")


def _label(parameter: Mapping[str, Any], number: int) -> str:
    label = parameter["label"]
    text = label[number] if isinstance(label, list) else label
    return str(text).replace("%%", str(parameter["values"][number]))


def _rows(root: Path, steps: Mapping[str, _Step]) -> dict[str, list[_Row]]:
    """What the status files say, by the names of instances."""
    folders = {one.name: one.folder for step in steps.values() for one in step.instances}
    found: dict[str, dict[str, _Row]] = {}
    for folder, _, names in os.walk(root):
        if _STATUS not in names:
            continue
        try:
            statuses = json_of(Path(folder) / _STATUS)
        except UsageError:
            continue  # not written to its end: Merlin was killed
        for name, about in statuses.items():
            for workspace, status in about.items():
                if name in folders and isinstance(status, dict) and workspace.startswith(folders[name]):
                    sample = workspace.removeprefix(folders[name])
                    found.setdefault(name, {})[sample] = _Row(sample, status, root / workspace)
    return {name: list(rows.values()) for name, rows in found.items()}


def _tasks(one: _Instance, steps: Mapping[str, _Step], found: Mapping[str, list[_Row]]) -> Iterator[ImportedTask]:
    """Of an instance: as many as it has samples. One with samples that never began has an unknown number of them."""
    rows = sorted(found.get(one.name, ()), key=lambda row: row.sample)
    for row in rows:
        tries = int(row.status.get("restarts") or 0) + 1
        status, error = _outcome(row.status)
        yield ImportedTask(
            names=(f"{one.name}{row.sample}",),
            stage=one.step,
            kind="bash",
            after=tuple(_before(one, row.sample, steps, found)),
            t_end_ns=_written(row.folder / _FINISHED) if status == "done" else None,
            status=status,
            tries=tries,
            error=error,
        )
    if not rows and not steps[one.step].sampled:
        yield ImportedTask((one.name,), one.step, kind="bash", after=tuple(_before(one, "", steps, found)), tries=0)


def _outcome(status: Mapping[str, Any]) -> tuple[str, str | None]:
    code = str(status.get("return_code") or "")
    match status.get("status"):
        case "FINISHED" if code == "MERLIN_SUCCESS":
            return "done", None
        case "FAILED" | "UNKNOWN":  # an exit code that is Merlin's, or another one
            return "failed", code
        case "CANCELLED":
            return "canceled", None
    return "", None


def _written(file: Path) -> int | None:
    return file.stat().st_mtime_ns if file.exists() else None


def _before(one: _Instance, sample: str, steps: Mapping[str, _Step], found: Mapping[str, list[_Row]]) -> Iterator[str]:
    for parent in _parents(one, steps):
        samples = [row.sample for row in found.get(parent.name, ())] or [""] * (not steps[parent.step].sampled)
        alike = sample in samples and steps[one.step].sampled and steps[parent.step].sampled
        chained = len(_parents(one, steps)) == 1 and len(_children(parent, steps)) == 1
        if alike and (chained or len(samples) > _MOST_SAMPLES):
            samples = [sample]
        yield from (f"{parent.name}{each}" for each in samples)


def _parents(one: _Instance, steps: Mapping[str, _Step]) -> list[_Instance]:
    step = steps[one.step]
    alike = (parent for name in step.alike if name in steps for parent in steps[name].instances)
    parents = [parent for parent in alike if all(parent.values[name] == one.values.get(name) for name in parent.values)]
    return parents + [parent for name in step.all_of if name in steps for parent in steps[name].instances]


def _children(one: _Instance, steps: Mapping[str, _Step]) -> list[_Instance]:
    below = [step for step in steps.values() if one.step in (*step.alike, *step.all_of)]
    return [child for step in below for child in step.instances if one in _parents(child, steps)]


def _without_lost_ones(tasks: list[ImportedTask]) -> list[ImportedTask]:
    """The same, where those that never ran behind a failed one say so."""
    lost = {task.names[0] for task in tasks if task.status == "failed"}
    while more := {
        task.names[0] for task in tasks
        if not task.tries and task.names[0] not in lost and lost.intersection(task.after)
    }:  # fmt: skip
        lost |= more
    return [replace(task, status="dep_failed") if not task.tries and task.names[0] in lost else task for task in tasks]


IMPORTER = Importer("merlin", "a study's folder of Merlin (with merlin_info)", recognizes, read)
