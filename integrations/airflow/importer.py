"""A DAG run of Airflow, as its REST API gives it: the tasks of the DAG, and their instances in a run.

    GET .../dags/DAG/tasks                          {"tasks": [{"task_id", "downstream_task_ids", ...}]}
    GET .../dags/DAG/dagRuns/RUN/taskInstances      {"task_instances": [{"task_id", "dag_run_id", "state", ...}]}

The answers are in the .json files of a folder, or one file has both lists. A task is named by its run and id, as
tailrace tags Airflow's tasks by themselves; an instance of a mapped task has its index behind.
"""

from datetime import datetime
from pathlib import Path
from typing import Any

from tailrace.errors import UsageError
from tailrace.integrations.importing import ImportedTask, ImportedWorkflow, Importer, json_of

_LISTS = ("tasks", "task_instances")
_STATES = {
    "success": "done",
    "failed": "failed",
    "upstream_failed": "dep_failed",
    "skipped": "canceled",
    "removed": "canceled",
}


def recognizes(path: Path) -> bool:
    """Whether a file, or a folder's files, have both lists."""
    found = _lists(path)
    return all(found.values()) and "downstream_task_ids" in found["tasks"][0]


def read(path: Path) -> ImportedWorkflow:
    """The task instances. Raises UsageError, OSError."""
    found = _lists(path, whole=True)
    for name, rows in found.items():
        if not rows:
            raise UsageError(f"{path} has no {name}: keep the answers of .../tasks and .../taskInstances in one folder")
    instances: dict[tuple[str, str], list[Any]] = {}
    for row in found["task_instances"]:
        instances.setdefault((str(row["dag_run_id"]), str(row["task_id"])), []).append(row)
    before: dict[str, list[str]] = {}
    for task in found["tasks"]:
        for down in task.get("downstream_task_ids") or ():
            before.setdefault(str(down), []).append(str(task["task_id"]))
    first = found["task_instances"][0]
    return ImportedWorkflow(
        manager="airflow",
        version="",
        name=str(first.get("dag_id") or path.stem),
        tasks=[
            _task(row, [_name(other) for task in before.get(name, ()) for other in instances.get((run, task), ())])
            for (run, name), rows in instances.items()
            for row in rows
        ],
    )


def _lists(path: Path, whole: bool = False) -> dict[str, list[Any]]:
    """The rows of each list; empty where there is none. whole: raises UsageError where answers are missing."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path] if path.suffix == ".json" else []
    found: dict[str, list[Any]] = {name: [] for name in _LISTS}
    answers = []
    for file in files:
        data = json_of(file)
        for name, rows in found.items():
            told = data.get(name) or [] if isinstance(data, dict) else []
            rows += told
            answers += [(file, name, told, data.get("total_entries"))] if told else []
    for file, name, told, total in answers if whole else ():
        # An answer for all runs of a DAG (dagRuns/~) counts the instances of all.
        runs = {row.get("dag_run_id") for row in told}
        known = sum(len(runs) > 1 or row.get("dag_run_id") in runs for row in found[name])
        if isinstance(total, int) and known < total:
            raise UsageError(
                f"{file} has {known:,} of {total:,} {name}: ask for the others, too, by ?limit=100&offset=100 and so"
                " on, and keep each answer in the folder"
            )
    return found


def _name(row: Any) -> str:
    index = row.get("map_index", -1)
    name = f"{row['dag_run_id']}/{row['task_id']}"
    return name if index is None or index < 0 else f"{name}[{index}]"


def _task(row: Any, after: list[str]) -> ImportedTask:
    state = str(row.get("state") or "")
    return ImportedTask(
        names=(_name(row), f"{row['dag_run_id']}/{row['task_id']}", str(row["task_id"]))
        if row.get("map_index", -1) in (None, -1)
        else (_name(row),),
        stage=str(row["task_id"]),
        kind=str(row.get("operator") or row.get("operator_name") or "task"),
        after=tuple(after),
        t_submit_ns=_moment(row.get("queued_when")),
        t_start_ns=_moment(row.get("start_date")),
        t_end_ns=_moment(row.get("end_date")),
        status=_STATES.get(state, ""),
        tries=int(row.get("try_number") or 0),
        error="Airflow's state failed" if state == "failed" else None,
    )


def _moment(text: Any) -> int | None:
    if not text:
        return None
    return int(datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp() * 1e6) * 1000


IMPORTER = Importer("airflow", "a DAG run of Airflow (answers of its API)", recognizes, read)
