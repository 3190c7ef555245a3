"""Nextflow's work directories, and the trace file of `-with-trace`.

    work/ab/cdef.../.command.run     the task's name and outputs in its first lines; nxf_stage() links its inputs
                   /.command.begin   made when it began      /.exitcode   when it ended, and how
    trace.txt                        the tasks of one run, with what they asked for

A task is named by the last two folders of its work directory, as tailrace tags Nextflow's tasks by themselves, as
tailrace.nextflow tags them, and by Nextflow's name for it, `ALIGN (a)`. With a trace file only its tasks are read: a
work directory has those of all runs. A retried task is a task of its own, in a work directory of its own.
"""

import csv
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tailrace.errors import UsageError
from tailrace.integrations.importing import ImportedTask, ImportedWorkflow, Importer, contents

_SCRIPT = ".command.run"
_LARGEST = 16 << 20
_NAME = re.compile(r"^### name: '(.*)'$")
_OUTPUT = re.compile(r"^### - '(.*)'$")
_STAGING = ("ln", "cp")
_UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_STATUS = {"COMPLETED": "done", "FAILED": "failed", "ABORTED": "canceled", "CACHED": "memoized"}
_MOST_ERROR = 500

Row = Mapping[str, str]


@dataclass(frozen=True)
class _Sources:
    """What a path leads to: the trace file (None: there is none), and the work directory."""

    trace: Path | None
    work: Path


def recognizes(path: Path) -> bool:
    """Whether a path is a trace file, a work directory, or the folder in which Nextflow was started."""
    return _sources(path) is not None


def read(path: Path) -> ImportedWorkflow:
    """The tasks of a run, or of all runs in a work directory. Raises UsageError, OSError."""
    sources = _sources(path)
    if sources is None:
        raise UsageError(f"{path} is neither a trace file of Nextflow nor a folder with its work directory")
    rows = _rows(sources.trace) if sources.trace is not None else {}
    folders = list(_folders(sources.work))
    if rows:
        folders = [folder for folder in folders if _row_of(folder, rows) is not None]
    if not folders:
        raise UsageError(f"{sources.work} has no task of {path}: give the work directory that the run had (-work-dir)")
    return ImportedWorkflow(
        manager="nextflow",
        version="",
        name=sources.work.resolve().parent.name,
        tasks=[_task(folder, _row_of(folder, rows) or {}) for folder in folders],
        root=sources.work.resolve().parent,
    )


def _sources(path: Path) -> _Sources | None:
    if path.is_file():
        if not _is_trace(path):
            return None
        return _Sources(path, path.resolve().parent / "work")
    for work in (path / "work", path):
        if next(_folders(work), None) is not None:
            return _Sources(None, work)
    return None


def _is_trace(path: Path) -> bool:
    with path.open(encoding="utf-8", errors="replace") as lines:
        head = lines.readline(10_000).rstrip("\n").split("\t")
    return "hash" in head and "name" in head and "task_id" in head


def _folders(work: Path) -> Iterator[Path]:
    for script in sorted(work.glob(f"[0-9a-f][0-9a-f]/*/{_SCRIPT}")):
        yield script.parent


def _rows(trace: Path) -> dict[str, Row]:
    """The rows of a trace file by the beginning of the work directory's name, "ab/cdef01"."""
    with trace.open(encoding="utf-8", errors="replace", newline="") as lines:
        return {str(row["hash"]): row for row in csv.DictReader(lines, delimiter="\t") if row.get("hash")}


def _row_of(folder: Path, rows: Mapping[str, Row]) -> Row | None:
    return rows.get(f"{folder.parent.name}/{folder.name[:6]}")


def _task(folder: Path, row: Row) -> ImportedTask:
    script = folder / _SCRIPT
    lines = contents(script, _LARGEST).decode("utf-8", "replace").splitlines()
    name = next((found[1] for line in lines if (found := _NAME.match(line))), "") or row.get("name", "")
    begun, ended, status = _times(folder, row)
    staged = dict(_staged(lines))
    failed = status == "failed"
    return ImportedTask(
        names=tuple(filter(None, (f"{folder.parent.name}/{folder.name}", _as_tagged(folder, name), name))),
        stage=re.sub(r" \(.*\)$", "", name) or folder.name,
        label=name,
        inputs=tuple(staged),
        outputs=tuple(_outputs(folder, lines, set(staged.values()))),
        t_submit_ns=_moment(row.get("submit")),
        t_start_ns=begun,
        t_end_ns=ended,
        status=status,
        error=_error(folder, row) if failed else None,
        requested=_requested(row),
    )


def _as_tagged(folder: Path, name: str) -> str:
    """The tag that tailrace.nextflow gives the task: as Nextflow prints it."""
    return f"{folder.parent.name}/{folder.name[:6]} {name}"


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


def _outputs(folder: Path, lines: Iterable[str], staged: set[str]) -> Iterator[str]:
    """Those in the script's head; of a pattern what matched it."""
    for line in lines:
        if not line.startswith("#"):
            return
        found = _OUTPUT.match(line)
        if found is None:
            continue
        name = found[1]
        if any(mark in name for mark in "*?[{"):
            yield from (str(path) for path in sorted(folder.glob(name)) if path.name not in staged)
        else:
            yield str(folder / name)


def _times(folder: Path, row: Row) -> tuple[int | None, int | None, str]:
    """Begin, end and status."""
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
