"""A DAG run of Airflow, as its REST API gives it: the tasks of the DAG, and their instances in a run.

    GET .../dags/DAG/tasks                          {"tasks": [{"task_id", "downstream_task_ids", ...}]}
    GET .../dags/DAG/dagRuns/RUN/taskInstances      {"task_instances": [{"task_id", "dag_run_id", "state", ...}]}

The answers are in the .json files of a folder, or one file has both lists. A task is named by its run and id, as
tailrace tags Airflow's tasks by themselves; an instance of a mapped task has its index behind.
"""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from tailrace.errors import UsageError
from tailrace.integrations.importing import ImportedTask, ImportedWorkflow, Importer

_LISTS = ("tasks", "task_instances")
_STATES = {"success": "done", "failed": "failed", "upstream_failed": "dep_failed", "removed": "canceled"}


def recognizes(path: Path) -> bool:
    """Whether a file, or a folder's files, have both lists."""
    found = _lists(path)
    return all(found.values()) and "downstream_task_ids" in found["tasks"][0]


def read(path: Path) -> ImportedWorkflow:
    """The task instances. Raises UsageError, OSError."""
    found = _lists(path)
    for name, rows in found.items():
        if not rows:
            raise UsageError(f"{path} has no {name}: keep the answers of .../tasks and .../taskInstances in one folder")
    instances: dict[str, list[Any]] = {}
    for row in found["task_instances"]:
        instances.setdefault(str(row["task_id"]), []).append(row)
    after: dict[str, list[str]] = {}
    for task in found["tasks"]:
        for down in task.get("downstream_task_ids") or ():
            after.setdefault(str(down), []).extend(_name(row) for row in instances.get(str(task["task_id"]), ()))
    first = found["task_instances"][0]
    return ImportedWorkflow(
        manager="airflow",
        version="",
        name=str(first.get("dag_id") or path.stem),
        tasks=[_task(row, after.get(name, [])) for name, rows in instances.items() for row in rows],
    )


def _lists(path: Path) -> dict[str, list[Any]]:
    """The rows of each list; empty where there is none."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path] if path.suffix == ".json" else []
    found: dict[str, list[Any]] = {name: [] for name in _LISTS}
    for file in files:
        data = json.loads(file.read_bytes())
        for name, rows in found.items():
            rows += data.get(name) or [] if isinstance(data, dict) else []
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
        kind=str(row.get("operator") or "task"),
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
