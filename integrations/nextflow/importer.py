"""Nextflow's work directories, the trace file of `-with-trace`, and what tailrace.config notes of a run.

    work/ab/cdef.../.command.run     the task's name and outputs in its first lines; nxf_stage() links its inputs
                   /.command.begin   made when it began      /.exitcode   when it ended, and how
    trace.txt                        the tasks of one run, with what they asked for
    .nextflow/tailrace/NAME.json     those of one run that had the configuration, as Nextflow knows them: their files,
                                     which of them gave a value to another, and between which processes something passes

A task is named by the last two folders of its work directory, as tailrace tags Nextflow's tasks by themselves, as
tailrace.nextflow tags them, and by Nextflow's name for it, `ALIGN (a)`. With a trace file only its tasks are read: a
work directory has those of all runs. A retried task is a task of its own, in a work directory of its own.

Without notes a work directory tells files alone: values that pass are in none (`declares`), and of a pattern of outputs
that are kept elsewhere (storeDir) nobody can tell whose a file is, unless another task takes it.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tailrace.errors import UsageError
from tailrace.integrations.importing import (
    ImportedTask,
    ImportedWorkflow,
    Importer,
    contents,
    first_line,
    json_of,
    lines_of,
    rows_of,
)

_SCRIPT = ".command.run"
_NOTES = ".nextflow/tailrace"
_LARGEST = 16 << 20
_NAME = re.compile(r"^### name: '(.*)'$")
_OUTPUT = re.compile(r"^### - '(.*)'$")
_KEPT = re.compile(r"^\s*nxf_fs_\w+ \"\$name\" (.+?)(?: \|\| true)?$")
_DEEP = re.compile(r"(^|/)\*\*(?=[^/])")
"""Any folders and the begin of a name, for which pathlib has two components."""
_BRACES = re.compile(r"\{([^{}]*)\}")
_MOST_NAMES = 1000
"""Patterns that the braces of one may stand for."""
_STAGING = ("ln", "cp")
_UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_STATUS = {"COMPLETED": "done", "FAILED": "failed", "ABORTED": "canceled", "CACHED": "memoized"}
_MOST_ERROR = 500

Row = Mapping[str, str]


@dataclass(frozen=True)
class _Sources:
    """What a path leads to: the trace file (None: there is none), and the folder in which Nextflow was started."""

    trace: Path | None
    launch: Path
    work: Path


@dataclass(frozen=True)
class _Note:
    """A task as Nextflow knew it. after: the tasks that gave it a value, by their places in its run."""

    name: str
    process: str
    folder: Path | None
    cached: bool
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    after: tuple[int, ...]


@dataclass(frozen=True)
class _Run:
    """The notes of a run. stages: process, and one that takes of it; host, pid: of Nextflow itself."""

    tasks: Sequence[_Note] = ()
    stages: Sequence[tuple[str, str]] = ()
    host: str = ""
    pid: int = 0


def recognizes(path: Path) -> bool:
    """Whether a path is a trace file, a work directory, or the folder in which Nextflow was started."""
    return _sources(path) is not None


def read(path: Path) -> ImportedWorkflow:
    """The tasks of a run, or of all runs in a work directory. Raises UsageError, OSError."""
    sources = _sources(path)
    if sources is None:
        raise UsageError(f"{path} is neither a trace file of Nextflow nor a folder with its work directory")
    rows = _rows(sources.trace) if sources.trace is not None else {}
    runs = _runs(sources.launch, rows)
    tasks = _tasks(sources, rows, runs)
    # What ran in Nextflow itself (exec:) has no folder.
    if not any(task.t_start_ns for task in tasks) and not all(row.get("native_id") == "-" for row in rows.values()):
        raise UsageError(f"{sources.work} has no task of {path}: give the work directory that the run had (-work-dir)")
    told: dict[str, Any] = {}
    if runs:
        told["stage_deps"] = sorted({pair for run in runs for pair in run.stages})
        told["own_processes"] = [{"host": run.host, "pid": run.pid} for run in runs]
    return ImportedWorkflow(
        manager="nextflow",
        version="",
        name=sources.launch.resolve().name,
        tasks=_with_taken_outputs(tasks),
        root=sources.launch.resolve(),
        via="future",
        times="polls",
        config={"declares": "path inputs and outputs", **told},
    )


def _sources(path: Path) -> _Sources | None:
    if path.is_file():
        if not _is_trace(path):
            return None
        launch = path.resolve().parent
        return _Sources(path, launch, launch / "work")
    for launch, work in ((path, path / "work"), (path.resolve().parent, path)):
        if next(_folders(work), None) is not None:
            return _Sources(None, launch, work)
    return None


def _is_trace(path: Path) -> bool:
    head = first_line(path, 10_000).rstrip("\n").split("\t")
    return "hash" in head and "name" in head and "task_id" in head


def _folders(work: Path) -> Iterator[Path]:
    for script in sorted(work.glob(f"[0-9a-f][0-9a-f]/*/{_SCRIPT}")):
        yield script.parent


def _rows(trace: Path) -> dict[str, Row]:
    """The rows of a trace file by the beginning of the work directory's name, "ab/cdef01"."""
    return {str(row["hash"]): row for row in rows_of(trace, "\t") if row.get("hash")}


def _short(folder: Path) -> str:
    """As Nextflow prints a work directory."""
    return f"{folder.parent.name}/{folder.name[:6]}"


# --- what tailrace.config notes --------------------------------------------------------------------------------------


def _runs(launch: Path, rows: Mapping[str, Row]) -> list[_Run]:
    """The notes of the runs in a folder, the newest first; with a trace file of the one that it is of."""
    files = sorted((launch / _NOTES).glob("*.json"), key=lambda file: file.stat().st_mtime_ns, reverse=True)
    runs = [_run(json_of(file)) for file in files]
    if not rows:
        return runs
    known = [sum(_short(task.folder) in rows for task in run.tasks if task.folder is not None) for run in runs]
    return [runs[known.index(max(known))]] if any(known) else []


def _run(value: Any) -> _Run:
    """Raises what values of other types raise: the file is not ours."""
    return _Run(
        [
            _Note(
                name=str(task["name"]),
                process=str(task["process"]),
                folder=Path(_path(task["work"])) if task["work"] else None,
                cached=bool(task["cached"]),
                inputs=tuple(map(_path, task["inputs"])),
                outputs=tuple(map(_path, task["outputs"])),
                after=tuple(map(int, task["after"])),
            )
            for task in value["tasks"]
        ],
        [(str(one), str(then)) for one, then in value["stages"]],
        str(value["host"]),
        int(value["pid"]),
    )


def _path(uri: str) -> str:
    """Of a file of this host; else the URI, as no path is."""
    parts = urlsplit(uri)
    return unquote(parts.path).rstrip("/") if parts.scheme == "file" else uri


# --- tasks -----------------------------------------------------------------------------------------------------------


def _tasks(sources: _Sources, rows: Mapping[str, Row], runs: Sequence[_Run]) -> list[ImportedTask]:
    noted = {note.folder: (run, note) for run in reversed(runs) for note in run.tasks if note.folder is not None}
    folders = dict.fromkeys((*_folders(sources.work), *(one for one in noted if (one / _SCRIPT).is_file())))
    found: dict[str, ImportedTask] = {}
    for folder in folders:
        if not rows or _short(folder) in rows:
            row = rows.get(_short(folder), {})
            found[_short(folder)] = _noted(_task(folder, row), *noted.get(folder, (_Run(), None)))
    for short, row in rows.items():
        if short not in found:
            # It ran in Nextflow itself (exec:), or its work directory is gone.
            found[short] = _of_row(row)
    known = {task.label for task in found.values()}
    for run in runs[:1]:
        # What had been stored by another run has no work directory, and no row.
        stored = (note for note in run.tasks if note.cached and note.name not in known)
        found |= {note.name: _noted(_memoized(note), run, note) for note in stored}
    return list(found.values())


def _noted(task: ImportedTask, run: _Run, note: _Note | None) -> ImportedTask:
    """The task with the files and values that Nextflow knew it to take and give."""
    if note is None:
        return task
    before = tuple(_first_name(run.tasks[at]) for at in note.after)
    # Nextflow looks for no outputs of a task that failed.
    outputs = task.outputs if task.status == "failed" else note.outputs
    return replace(task, stage=note.process, after=before, inputs=note.inputs, outputs=outputs)


def _first_name(note: _Note) -> str:
    return _first_of(note.folder) if note.folder is not None and (note.folder / _SCRIPT).is_file() else note.name


def _first_of(folder: Path) -> str:
    return f"{folder.parent.name}/{folder.name}"


def _memoized(note: _Note) -> ImportedTask:
    return ImportedTask(names=(note.name,), stage=note.process, label=note.name, status="memoized", tries=0)


def _of_row(row: Row) -> ImportedTask:
    name, submitted, lasted = row.get("name", ""), _moment(row.get("submit")), _lasted(row.get("duration"))
    end = submitted + lasted if submitted is not None and lasted is not None else None
    return ImportedTask(
        names=(f"{row['hash']} {name}",),
        stage=_stage(name),
        label=name,
        t_submit_ns=submitted,
        t_end_ns=end,
        status=_STATUS.get(row.get("status", ""), ""),
        requested=_requested(row),
    )


def _stage(name: str) -> str:
    return re.sub(r" \(.*\)$", "", name)


def _with_taken_outputs(tasks: Sequence[ImportedTask]) -> list[ImportedTask]:
    """What a task takes out of another one's work directory is an output of that one, whatever it is called there now:
    it may have been moved since (publishDir)."""
    by_folder = {task.names[0]: task for task in tasks}
    given: dict[str, dict[str, None]] = {}
    for task in tasks:
        for path in task.inputs:
            parts = path.split("/")
            owner = next(
                (name for at in range(len(parts) - 1, 1, -1) if (name := "/".join(parts[at - 2 : at])) in by_folder), ""
            )
            if owner and owner != task.names[0]:
                given.setdefault(owner, {})[path] = None
    return [
        replace(task, outputs=tuple(dict.fromkeys((*task.outputs, *given.get(task.names[0], ()))))) for task in tasks
    ]


def _task(folder: Path, row: Row) -> ImportedTask:
    script = folder / _SCRIPT
    lines = lines_of(script, _LARGEST)
    name = next((found[1] for line in lines if (found := _NAME.match(line))), "") or row.get("name", "")
    begun, ended, status = _times(folder, row)
    staged = dict(_staged(lines))
    failed = status == "failed"
    return ImportedTask(
        names=tuple(filter(None, (_first_of(folder), f"{_short(folder)} {name}", name))),
        stage=_stage(name) or folder.name,
        label=name,
        inputs=tuple(staged),
        outputs=tuple(_outputs(folder, lines, set(staged.values()))),
        t_submit_ns=_moment(row.get("submit")),
        t_alloc_ns=begun,
        t_start_ns=begun,
        t_end_ns=ended,
        status=status,
        error=_error(folder, row) if failed else None,
        requested=_requested(row),
    )


def _staged(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(input, its name in the work directory), of the links and copies in nxf_stage()."""
    within = False
    for line in lines:
        if line.startswith("nxf_stage()"):
            within = True
        elif within and line.startswith("}"):
            return
        elif within and line.strip().startswith(_STAGING):
            try:
                _, *words = shlex.split(line)
            except ValueError:
                continue
            names = [word for word in words if not word.startswith("-")]
            if len(names) == 2 and names[0].startswith("/"):
                yield names[0], names[1]


def _outputs(folder: Path, lines: Sequence[str], staged: set[str]) -> Iterator[str]:
    """Those in the script's head, where they are kept; of a pattern what matched it."""
    kept = _kept(lines) or folder
    for line in lines:
        if not line.startswith("#"):
            return
        found = _OUTPUT.match(line)
        if found is None:
            continue
        if not any(mark in found[1] for mark in "*?[{"):
            yield str(kept / found[1])
        elif kept == folder:
            yield from _matching(folder, found[1], staged)


def _kept(lines: Iterable[str]) -> Path | None:
    """Where nxf_unstage() puts the outputs, if not where they are: storeDir, or from a scratch directory."""
    for line in lines:
        if found := _KEPT.match(line):
            with suppress(ValueError):
                return Path(*shlex.split(found[1])[:1])
    return None


def _matching(folder: Path, pattern: str, staged: set[str]) -> Iterator[str]:
    """As Nextflow finds outputs: braces are alternatives, hidden files and inputs are none unless they are named."""
    paths: set[Path] = set()
    for one in islice(_alternatives(pattern), _MOST_NAMES):
        hidden = any(part.startswith(".") for part in one.split("/"))
        with suppress(ValueError, NotImplementedError):  # no pattern of a path below the folder
            for path in folder.glob(_DEEP.sub(r"\1**/*", one)):
                parts = path.relative_to(folder).parts
                if parts and parts[0] not in staged and (hidden or not any(part.startswith(".") for part in parts)):
                    paths.add(path)
    yield from (str(path) for path in sorted(paths))


def _alternatives(pattern: str) -> Iterator[str]:
    """ "*.{html,zip}" is "*.html" and "*.zip"; those of inner braces first."""
    braces = _BRACES.search(pattern)
    if braces is None:
        yield pattern
        return
    for word in braces[1].split(","):
        yield from _alternatives(f"{pattern[: braces.start()]}{word}{pattern[braces.end() :]}")


def _times(folder: Path, row: Row) -> tuple[int | None, int | None, str]:
    """Begin (of the wrapper, which stages before it starts the script), end and status."""
    begin, end = (_made(folder / name) for name in (".command.begin", ".exitcode"))
    submitted, lasted = _moment(row.get("submit")), _lasted(row.get("duration"))
    if end is None and submitted is not None and lasted is not None:
        end = submitted + lasted
    status = _STATUS.get(row.get("status", ""), "")
    if not status and end is not None:
        status = "done" if _exit_code(folder) == "0" else "failed"
    return begin, end, status


def _exit_code(folder: Path) -> str:
    try:
        return contents(folder / ".exitcode").decode("utf-8", "replace").strip()
    except (OSError, UsageError):
        return "unknown"


def _made(file: Path) -> int | None:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return None


def _error(folder: Path, row: Row) -> str:
    try:
        text = contents(folder / ".command.err", _LARGEST)[-_MOST_ERROR:].decode("utf-8", "replace").strip()
    except (OSError, UsageError):
        text = ""
    return text or f"exit code {row.get('exit') or _exit_code(folder)}"


def _requested(row: Row) -> dict[str, Any]:
    """What the columns of the trace file say that a task asked for: those of -with-trace have none of them."""
    found: dict[str, Any] = {}
    if row.get("cpus", "").isdigit():
        found["cores"] = int(row["cpus"])
    for column, key in (("memory", "memory_bytes"), ("disk", "disk_bytes")):
        number, _, unit = row.get(column, "").partition(" ")
        if unit in _UNITS:
            found[key] = int(float(number) * _UNITS[unit])
    lasted = _lasted(row.get("time"))
    if lasted is not None:
        found["time_s"] = lasted // 1_000_000_000
    return found


def _moment(text: str | None) -> int | None:
    """ "2026-11-22 22:58:16.436", this machine's local time, or ms since the epoch (trace.raw)."""
    if not text or text == "-":
        return None
    if text.isdigit():
        return int(text) * 1_000_000
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000) * 1_000_000
    except ValueError:
        return None


def _lasted(text: str | None) -> int | None:
    """ "1m 4s" or ms as ns."""
    if not text or text == "-":
        return None
    if text.isdigit():
        return int(text) * 1_000_000
    parts = re.findall(r"([\d.]+)(ms|s|m|h|d)\b", text)
    return int(sum(float(number) * _SECONDS[unit] for number, unit in parts) * 1e9) if parts else None


IMPORTER = Importer("nextflow", "a work directory or a trace file of Nextflow", recognizes, read)
