"""The keys of a task's declared lines (docs/declared-dag.md), from its Parsl record.

memoizer.py calls this when the DataFlowKernel launches or ends a task, because with `garbage_collect` it drops the
record afterwards. Paths are those of the submit side: absolute, links in their folder resolved, as in the trace.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from datetime import datetime
from typing import Any

from parsl.app.futures import DataFuture
from parsl.data_provider.files import File
from parsl.dataflow.futures import AppFuture
from parsl.dataflow.taskrecord import TaskRecord
from tailrace.integrations.declared_log import declared_file
from tailrace.parsl import functions

_STREAMS = ("stdout", "stderr")
_PLAIN = frozenset({int, float, str, bytes, bool, type(None)})
_RESOURCES = {
    "cores": ("cores", 1),
    "gpus": ("gpus", 1),
    "memory": ("memory_bytes", 1 << 20),
    "disk": ("disk_bytes", 1 << 20),
    "running_time_min": ("time_s", 60),
}
"""Words of a `parsl_resource_specification` (Work Queue, TaskVine; MB there are MiB) -> the resource, its unit."""
_LONGEST = 100


def task_keys(record: TaskRecord, parent: str | None, arguments: dict[str, str] | None) -> dict[str, Any]:
    """The keys of a `task` line without `workflow` and `stage`.

    Files in what a predecessor returns are inputs once the arguments are resolved. arguments: those to be declared.
    """
    kind = task_kind(record)
    asked = requested(record)
    facts = {name: value for name, value in (("requested", asked), ("arguments", arguments)) if value}
    return {
        "task": str(record["id"]),
        "kind": kind,
        "name": record["func_name"],
        "executor": record["executor"],
        "t_submit_ns": to_ns(record["time_invoked"]),
        "deps": list(_dependencies(record)),
        "inputs": [_file_keys(file) for file in _inputs(record)],
        "outputs": [_file_keys(file) for file in _outputs(record, kind)],
        "parent": parent,
        "cores": asked.get("cores"),
        "gpus": asked.get("gpus"),
        "annotations": facts or None,
    }


def requested(record: TaskRecord) -> dict[str, Any]:
    """The resources that a task asked for: those of docs/declared-dag.md, and the rest in its executor's words."""
    if not record["resource_specification"]:
        return {}
    given = {str(name): value for name, value in record["resource_specification"].items()}
    found: dict[str, Any] = {}
    for name, (resource, unit) in _RESOURCES.items():
        if (number := _number(given.get(name))) is not None:
            found[resource] = number * unit
            del given[name]
    if "num_tasks" in given or "cores_per_task" in given or "gpus_per_task" in given:
        # Of FluxExecutor: a task that runs as several processes.
        processes = _number(given.get("num_tasks", 1)) or 1
        for name, default in (("cores", 1), ("gpus", 0)):
            number = processes * (_number(given.get(f"{name}_per_task", default)) or 0)
            found |= {name: number} if number else {}
    return {**found, **{name: _plain(value) for name, value in given.items()}}


def _number(value: object) -> int | float | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    return int(value) if isinstance(value, str) and value.isdigit() else None


def _plain(value: object) -> object:
    return value if type(value) in _PLAIN else str(value)[:_LONGEST]


def task_kind(record: TaskRecord) -> str:
    """`join`, `staging`, `bash` or `python`."""
    if record["join"]:
        return "join"
    if record["kwargs"].get("_parsl_staging_inhibit"):
        return "staging"
    return "bash" if functions.described(record["func"]).is_bash else "python"


def joined_tasks(record: TaskRecord) -> list[str]:
    """The tasks whose futures the body of a join task returned."""
    joins = record["joins"]
    futures = joins if isinstance(joins, list) else [joins]
    return [str(future.tid) for future in futures if isinstance(future, (AppFuture, DataFuture))]


def to_ns(time: datetime | None) -> int | None:
    """Parsl's naive local time as ns since the epoch, exact to the microsecond."""
    return None if time is None else int(time.timestamp()) * 1_000_000_000 + time.microsecond * 1000


def _dependencies(record: TaskRecord) -> Iterator[dict[str, str]]:
    seen = set()
    for future in record["depends"] or []:
        if not isinstance(future, (AppFuture, DataFuture)) or not _is_own(future, record):
            continue
        keys = {"task": str(future.tid), "via": "future"}
        if isinstance(future, DataFuture):
            keys = {**keys, "via": "file", "path": declared_file(_path(future.file_obj))["path"]}
        identity = tuple(keys.values())
        if identity not in seen:
            seen.add(identity)
            yield keys


def _is_own(future: Future[Any], record: TaskRecord) -> bool:
    """Whether `future` is of a task of the same DataFlowKernel: each numbers its tasks from 0."""
    while isinstance(future, DataFuture):  # stage-in nests them
        future = future.parent
    return isinstance(future, AppFuture) and future.task_record["dfk"] is record["dfk"]


def _inputs(record: TaskRecord) -> Iterable[File]:
    found: dict[str, File] = {}
    # Parsl drops the files of tasks that failed from the arguments.
    for future in record["depends"] or []:
        _collect_files(future, found)
    for value in record["args"]:
        _collect_files(value, found)
    for key, value in record["kwargs"].items():
        if key != "outputs" and key not in _STREAMS:
            _collect_files(value, found)
    return found.values()


def _outputs(record: TaskRecord, kind: str) -> Iterable[File]:
    found: dict[str, File] = {}
    kwargs = record["kwargs"]
    _collect_files(kwargs.get("outputs"), found)
    for name in _STREAMS:
        target = kwargs.get(name)
        if isinstance(target, tuple) and target:
            target = target[0]
        if kind == "bash" and isinstance(target, (str, os.PathLike)):
            target = File(os.fspath(target))
        if isinstance(target, File):
            _collect_files(target, found)
    return found.values()


def _collect_files(value: Any, found: dict[str, File]) -> None:
    """Adds the files in `value`, however nested, to `found`, by URL."""
    # Most arguments, each of which would take five tests below.
    if type(value) in _PLAIN:
        return
    if isinstance(value, File):
        found[value.url] = value
    elif isinstance(value, DataFuture):
        found[value.file_obj.url] = value.file_obj
    elif isinstance(value, Mapping):
        for element in value.values():
            _collect_files(element, found)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for element in value:
            _collect_files(element, found)


def _file_keys(file: File) -> dict[str, str]:
    return declared_file(_path(file), file.url)


def _path(file: File) -> str:
    return str(file.local_path or file.path)
