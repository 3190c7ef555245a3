"""Declared graphs after the fact: from what a workflow manager left on disk into a run's declared DAG.

    importers(), of all installed adapters and of formats that no manager owns
      -- load(source, kind): importer_of() --> Importer.read(source) --> ImportedWorkflow
      -- traced_names(run, workflow) --> the task tag of each task
      -- write(run_dir, ...) --> declared/<kind>-<hash>-import.jsonl (docs/declared-dag.md)

Invariants: an importer reads; it runs nothing of what it finds, and never unpickles. It does so in a process whose
memory and time are bounded, since a file of some kilobytes may expand to any size (aliases of YAML). A file or folder
that it can't use is a UsageError that names it. Importing again replaces what was imported of the same workflow, as a
whole.

A task has several names, since what a manager keeps rarely has the name that its adapter tags with.
"""

import csv
import errno
import hashlib
import io
import json
import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal

from tailrace import hashed_names
from tailrace.base import child, ownership
from tailrace.base.published import published
from tailrace.errors import CoreError, UsageError
from tailrace.integrations.declared_log import declared_line, of_path
from tailrace.integrations.task_tags import tag_value

_SUFFIX = "-import.jsonl"
_LARGEST = 1 << 30
"""Bytes of a file that is read at once."""
_LIMITS = child.Limits(seconds=300, memory_bytes=4 << 30, result_bytes=1 << 30)
_MOST_VALUES = 50_000_000
_SECOND = 1_000_000_000
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class ImportedTask:
    """A task as its manager kept it. What is not known is left out.

    names: what may be its `task` tag in a trace, the likeliest first; unique in the workflow.
    after: tasks (by their first name) that it waited for beyond those that wrote its inputs, and in vias the manager's
    word where it is another one than the workflow's; inputs, outputs: paths, absolute or relative to the workflow's
    root; times in ns since the epoch (t_alloc_ns: when what the manager starts for the task began, t_start_ns: when the
    task itself did); status: of docs/declared-dag.md; requested: resources, by its words or the manager's own.
    """

    names: tuple[str, ...]
    stage: str
    kind: str = "job"
    label: str = ""
    after: tuple[str, ...] = ()
    vias: Mapping[str, str] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    t_submit_ns: int | None = None
    t_alloc_ns: int | None = None
    t_start_ns: int | None = None
    t_end_ns: int | None = None
    status: str = ""
    tries: int = 1
    error: str | None = None
    requested: Mapping[str, Any] = field(default_factory=dict)
    annotations: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ImportedWorkflow:
    """A workflow as its manager kept it.

    root: the folder of relative paths, None: not known; via: what a task gets from those in `after` that wrote none of
    its inputs: "order", or "future" where values pass; explicit: `after` has all dependencies, and a file tells only
    what one of them is for; ends: whether what is kept tells how tasks ended, "all", "some" (nothing is said of a task
    without a status) or "none"; own_directories: folders and files in which the manager keeps what is no data; times:
    "exact", or cut to "seconds", or of "polls": cut, and told when the manager looked (`with_seen_times`).
    """

    manager: str
    version: str
    name: str
    tasks: Sequence[ImportedTask]
    root: Path | None = None
    via: str = "order"
    explicit: bool = False
    ends: Literal["all", "some", "none"] = "all"
    own_directories: Sequence[str] = ()
    times: Literal["exact", "seconds", "polls"] = "exact"
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Importer:
    """A kind of file or folder. kind: its name on the command line; what: for the help, "a WfFormat instance".

    recognizes: whether a path is of this kind; may open files, and False where it raises an exception. read: raises
    UsageError naming the path; any other exception says that the file is not of this kind.
    """

    kind: str
    what: str
    recognizes: Callable[[Path], bool]
    read: Callable[[Path], ImportedWorkflow]


def local_moment(text: str | None) -> int | None:
    """A local time as a manager prints it, ns since the epoch; None where it is none, as its words for unknown are."""
    try:
        return int(datetime.fromisoformat(text or "").timestamp()) * 1_000_000_000
    except ValueError:
        return None


def _open(file: Path) -> BinaryIO:
    """Opens a file that a manager wrote. Raises OSError, and UsageError where it is no file: a pipe would keep its
    reader waiting, and another user's link leads to what only that one may read."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno != errno.ELOOP or not ownership.is_safe(file.lstat(), of_link=True):
            raise
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    opened = os.fdopen(descriptor, "rb")
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        opened.close()
        raise UsageError(f"{file} is not a file")
    return opened


def contents(file: Path, largest: int = _LARGEST) -> bytes:
    """The bytes of a file that a manager wrote. Raises OSError, UsageError: it is larger than `largest`, or no file."""
    with _open(file) as opened:
        if os.fstat(opened.fileno()).st_size > largest:
            raise UsageError(f"{file} is larger than {largest >> 20:,} MiB: none of a workflow is")
        return opened.read(largest)


def lines_of(file: Path, largest: int = _LARGEST) -> list[str]:
    """The lines of a text. Raises as `contents`."""
    return contents(file, largest).decode("utf-8", "replace").splitlines()


def first_line(file: Path, longest: int) -> str:
    """The begin of a text, up to the end of its first line. Raises as `contents`."""
    with _open(file) as opened:
        return opened.readline(longest).decode("utf-8", "replace")


def rows_of(file: Path, delimiter: str = ",") -> list[dict[str, str]]:
    """The rows of a table whose first line has the names of columns. Raises as `contents`, and UsageError."""
    try:
        text = contents(file).decode("utf-8", "replace")
        return list(csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error as error:
        raise UsageError(f"{file} is no table ({error})") from error


def yaml_of(file: Path) -> Any:
    """What a YAML file has. Raises as `contents`, and UsageError where it is not YAML, or where its aliases make so
    many values of it that who goes through them never ends."""
    import yaml  # Dask needs it, too

    try:
        found = yaml.safe_load(contents(file))
        if _number_of_values(found, {}) > _MOST_VALUES:
            raise UsageError(
                f"{file} expands to more than {_MOST_VALUES:,} values by its aliases: none of a workflow does"
            )
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"{file} is not YAML: {' '.join(str(error).split())}") from error
    return found


def _number_of_values(value: Any, known: dict[int, int]) -> int:
    """With all that is in it, each as often as it is met. known: by the id of a list or mapping, infinite while it is
    counted: it may be in itself."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        known[id(value)] = _MOST_VALUES
        parts = [*value.keys(), *value.values()] if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_number_of_values(part, known) for part in parts)
    return known[id(value)]


def json_of(file: Path, largest: int = _LARGEST) -> Any:
    """What a JSON file has. Raises as `contents`, and UsageError where it is not JSON."""
    try:
        return json.loads(contents(file, largest))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file} is not JSON, or not all of it was written ({error})") from error


def load(source: Path, kind: str | None, importers: Iterable[Importer]) -> tuple[Importer, ImportedWorkflow]:
    """The importer of `importer_of`, and what `read` gives, by a process of bounded memory and time. Raises
    UsageError."""
    known = list(importers)

    def told() -> object:
        try:
            importer = importer_of(source, kind, known)
            workflow = read(importer, source)
        except UsageError as error:
            return {"fault": str(error)}
        except OSError as error:
            return {"fault": f"can't read {error.filename or source}: {error.strerror or error}"}
        return {"kind": importer.kind, "workflow": json.dumps(asdict(workflow), default=str)}

    try:
        found: Any = child.bounded(told, _LIMITS)
    except child.OverLimitError as error:
        raise UsageError(f"{source}: reading it {error}: no workflow is that large") from None
    if "fault" in found:
        raise UsageError(found["fault"])
    return next(one for one in known if one.kind == found["kind"]), _workflow_of(json.loads(found["workflow"]))


def _workflow_of(data: Mapping[str, Any]) -> ImportedWorkflow:
    """What `asdict` and JSON made of a workflow."""
    tuples = ("names", "after", "inputs", "outputs")
    rows: list[dict[str, Any]] = data["tasks"]
    for row in rows:
        row.update({name: tuple(row[name]) for name in tuples})
    tasks = [ImportedTask(**row) for row in rows]
    root = data["root"]
    return ImportedWorkflow(**{**data, "tasks": tasks, "root": None if root is None else Path(root)})


def importer_of(source: Path, kind: str | None, importers: Iterable[Importer]) -> Importer:
    """The importer of that kind, or the one that recognizes `source`. Raises UsageError."""
    known = {importer.kind: importer for importer in importers}
    if not source.exists():
        raise UsageError(f"there is no {source}: give a file or folder that a workflow manager wrote")
    if not (source.is_file() or source.is_dir()):
        raise UsageError(f"{source} is neither a file nor a folder")
    _refuse_large(source)
    if kind is not None:
        if kind not in known:
            raise UsageError(f"there is no kind {kind!r}: give one of {', '.join(sorted(known))}")
        return known[kind]
    faults: dict[str, None] = {}
    found = [importer for importer in known.values() if _recognizes(importer, source, faults)]
    if not found:
        kinds = "; ".join(f"{one.kind}: {one.what}" for one in sorted(known.values(), key=lambda one: one.kind))
        why = "".join(f"; {fault}" for fault in faults if not fault.startswith(f"{source} "))
        if faults and not why:
            raise UsageError(next(iter(faults)))
        raise UsageError(f"{source} is nothing that can be imported ({kinds}){why}")
    if len(found) > 1:
        raise UsageError(f"{source} may be {' or '.join(one.what for one in found)}: say which by --kind")
    return found[0]


def _refuse_large(source: Path) -> None:
    if source.is_file() and source.stat().st_size > _LARGEST:
        raise UsageError(f"{source} is larger than {_LARGEST >> 30} GiB: no workflow is")


def _recognizes(importer: Importer, source: Path, faults: dict[str, None]) -> bool:
    """faults: gets what it says of a file that it can't read."""
    try:
        return importer.recognizes(source)
    except UsageError as error:
        faults[str(error)] = None
    except MemoryError:
        raise
    except Exception:
        return False
    return False


def read(importer: Importer, source: Path) -> ImportedWorkflow:
    """The workflow in `source`. Raises UsageError."""
    _refuse_large(source)
    try:
        workflow = importer.read(source)
    except (MemoryError, UsageError):
        raise
    except OSError as error:
        raise UsageError(f"can't read {error.filename or source}: {error.strerror or error}") from error
    except Exception as error:
        what = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise UsageError(f"{source} is not {importer.what} that can be read ({what})") from error
    seen: set[str] = set()
    for task in workflow.tasks:
        if task.names[0] in seen:
            raise UsageError(f"{source} has two tasks {task.names[0]!r}")
        seen.add(task.names[0])
    for task in workflow.tasks:
        for other in task.after:
            if other not in seen:
                raise UsageError(f"{source}: {task.names[0]!r} depends on {other!r}, which is not among its tasks")
    return workflow


def traced_names(
    tasks: Iterable[ImportedTask], traced: set[str], writers: Callable[[], Mapping[str, str]], root: Path
) -> tuple[dict[str, str], int]:
    """First name -> the task's tag in the trace; how many were told by the files that they wrote.

    traced: the task tags of the run; writers: path -> the tag of the task that wrote it, asked for only where a name is
    not among the tags. A task that was not traced keeps its first name.
    """
    found: dict[str, str] = {}
    left: list[ImportedTask] = []
    for task in tasks:
        name = next((tag for tag in map(tag_value, task.names) if tag in traced), None)
        if name is None:
            left.append(task)
        else:
            found[task.names[0]] = name
    by_file = 0
    taken = set(found.values())
    written = writers() if any(task.outputs for task in left) and traced - taken else {}
    for task in left:
        wrote = {written[path] for path in (str(root / output) for output in task.outputs) if path in written}
        wrote -= taken
        by_file += len(wrote) == 1
        own = wrote.pop() if len(wrote) == 1 else tag_value(task.names[0])
        found[task.names[0]] = own
        taken.add(own)
    return found, by_file


def with_seen_times(
    workflow: ImportedWorkflow, names: Mapping[str, str], seen: Mapping[str, tuple[int, int]]
) -> ImportedWorkflow:
    """The workflow with the times of the trace where the manager doesn't tell them.

    A task that ended at an unknown time did so with its last event. Where the manager's times are only known to the
    second, a traced task has those of its first and last event: one that is over in less would have no time at all.

    names: of `traced_names`; seen: those times (ns since the epoch) by the task's tag.
    """
    exact, late = workflow.times == "exact", workflow.times == "polls"
    tasks = []
    for task in workflow.tasks:
        first, last = seen.get(names[task.names[0]], (0, 0))
        start, end, submitted = task.t_start_ns, task.t_end_ns, task.t_submit_ns
        if last and end is None and task.status:
            end = last
        if exact:
            tasks.append(replace(task, t_end_ns=end))
            continue
        # The manager's begin is that of the last try, the trace's of the first one.
        if first and start is not None and (task.tries < 2 or first >= start) and (late or first < start + _SECOND):
            start = first
        if last and end is not None:
            end = last if late or last >= end else end
        if submitted is not None and start is not None:
            submitted = min(submitted, start)
        alloc = task.t_alloc_ns
        if alloc is not None and start is not None:
            alloc = min(alloc, start)
        if alloc is not None and submitted is not None:
            submitted = min(submitted, alloc)
        tasks.append(replace(task, t_alloc_ns=alloc, t_start_ns=start, t_end_ns=end, t_submit_ns=submitted))
    return replace(workflow, tasks=tasks)


def write(
    run_dir: Path, kind: str, workflow: ImportedWorkflow, name: str, root: Path, names: Mapping[str, str]
) -> None:
    """Writes the workflow to the run's declared DAG.

    name: the `workflow` tag of its tasks; root: the folder of relative paths; names: of `traced_names`.
    Raises CoreError when it can't be written.
    """
    hashed_names.refuse(run_dir, "what is imported would not be")
    folder = run_dir / "declared"
    path = folder / f"{kind}-{hashlib.sha256(name.encode()).hexdigest()[:12]}{_SUFFIX}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        with published(path) as scratch, scratch.open("w", encoding="utf-8", errors="replace") as file:
            file.writelines(f"{line}\n" for line in _lines(workflow, name, root, names))
    except OSError as error:
        advice = "make room, and import again" if error.errno in _FULL else "import as the user who owns the run"
        raise CoreError(f"can't write {path}: {error.strerror}: {advice}") from error


def forget(run_dir: Path) -> int:
    """Removes what was imported into the run; returns how many workflows that were."""
    old = [path for pattern in (f"*{_SUFFIX}", "wfformat-*.jsonl") for path in (run_dir / "declared").glob(pattern)]
    for path in set(old):
        path.unlink(missing_ok=True)
    return len(set(old))


def is_import(path: str) -> bool:
    """Whether a declared file of a run was imported."""
    return path.endswith(_SUFFIX)


def _lines(workflow: ImportedWorkflow, name: str, root: Path, names: Mapping[str, str]) -> Iterable[str]:
    config = {**workflow.config, "own_directories": [str(root / folder) for folder in workflow.own_directories]}
    if workflow.ends != "all":
        config["ends"] = workflow.ends if workflow.ends == "some" else False
    times = [at for task in workflow.tasks for at in (task.t_submit_ns, task.t_start_ns) if at]
    begun = min(times, default=time.time_ns())
    yield declared_line(
        "workflow", workflow=name, manager=workflow.manager, version=workflow.version, t_ns=begun, config=config
    )
    writers: dict[str, list[str]] = {}
    for task in workflow.tasks:
        for output in task.outputs:
            writers.setdefault(str(root / output), []).append(task.names[0])
    for task in workflow.tasks:
        yield _task_line(workflow, task, name, root, names, writers)
        key = {"workflow": name, "task": names[task.names[0]]}
        if task.t_start_ns is not None:
            yield declared_line("try", **key, t_launch_ns=task.t_start_ns, **{"try": max(task.tries - 1, 0)})
        if task.status:
            yield declared_line(
                "end",
                **key,
                t_start_ns=task.t_start_ns,
                t_end_ns=task.t_end_ns or 0,
                status=task.status,
                tries=task.tries,
                error=task.error,
            )


def _task_line(
    workflow: ImportedWorkflow,
    task: ImportedTask,
    name: str,
    root: Path,
    names: Mapping[str, str],
    writers: Mapping[str, list[str]],
) -> str:
    own = task.names[0]
    inputs, outputs = ([{"path": str(root / path), "url": f"file://{root / path}"} for path in paths]
                       for paths in (task.inputs, task.outputs))  # fmt: skip
    deps = [
        {"task": names[writer], "via": "file", "path": file["path"]}
        for file in inputs
        for writer in of_path(file["path"], writers) or ()
        if writer != own and (writer in task.after or not workflow.explicit)
    ]
    by_file = {dependency["task"] for dependency in deps}
    deps += [
        {"task": names[one], "via": task.vias.get(one, workflow.via)} for one in task.after if names[one] not in by_file
    ]
    facts = {**task.annotations, **({"requested": dict(task.requested)} if task.requested else {})}
    return declared_line(
        "task",
        workflow=name,
        stage=tag_value(task.stage),
        task=names[own],
        kind=task.kind,
        name=task.label or own,
        t_submit_ns=task.t_submit_ns,
        t_alloc_ns=task.t_alloc_ns,
        deps=deps,
        inputs=inputs,
        outputs=outputs,
        cores=task.requested.get("cores"),
        gpus=task.requested.get("gpus"),
        annotations=facts or None,
    )
