"""How those tasks ended of which no worker told: from the workers' tries, and from the events that Ray's control
service keeps of each task, while the cluster runs.

    a failed last try            failed, with its error
    a try that no one ended      killed: its worker was lost
    none, and Ray says failed    dep_failed where a task that it needs has no result, else failed

A task that is not over when the program shuts Ray down is canceled by that.
"""

import re
import time
from dataclasses import dataclass, field
from typing import Any

from ray._private.state import state as ray_state
from ray.core.generated import common_pb2, gcs_pb2

from tailrace.integrations.declared_log import error_text
from tailrace.integrations.hashed_declarations import RecordedName
from tailrace.integrations.workflow import Workflow

_PATIENCE_S = 3.0
"""Workers and the program tell the control service of events once a second."""
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_OVER = (common_pb2.TaskStatus.FINISHED, common_pb2.TaskStatus.FAILED)


@dataclass
class Told:
    """What the declared lines say of a task. tries: how many began; failed: the last failed one's line."""

    id: str = ""
    needs: list[str] = field(default_factory=list)
    tries: int = 0
    failed: dict[str, Any] | None = None
    status: str = ""


@dataclass(frozen=True)
class Event:
    """The last state of a task's last try that Ray knows."""

    attempt: int
    over: bool
    failed: bool
    error: str
    t_ns: int


def declare(workflow: Workflow) -> None:
    """Writes the missing ends."""
    if workflow.directory is None:
        return
    workflow.flush()
    end = time.monotonic() + _PATIENCE_S
    while True:
        told = _told(workflow)
        missing = {name: task for name, task in told.items() if task.id and not task.status}
        events = _events(workflow, {task.id for task in missing.values()}) if missing else {}
        unknown = [task for task in missing.values() if not (task.id in events and events[task.id].over)]
        if not unknown or time.monotonic() > end:
            break
        time.sleep(0.2)
    # In the order of submission: what a task needs comes before it.
    for name, task in missing.items():
        _end(workflow, name, task, told, events.get(task.id))


def _end(workflow: Workflow, name: str, task: Told, told: dict[str, Told], event: Event | None) -> None:
    error, t_ns = (event.error, event.t_ns) if event is not None and event.over else ("", None)
    if event is None or not event.over:
        task.status = "canceled"
    elif not event.failed:
        task.status = "done"
    elif task.failed is not None and task.failed["try"] == task.tries - 1:
        task.status, error, t_ns = "failed", task.failed["error"], task.failed["t_end_ns"]
    elif task.tries:
        task.status = "killed"
    else:
        lost = [one for one in task.needs if one in told and told[one].status not in ("done", "memoized")]
        task.status = "dep_failed" if lost else "failed"
    tries = max(task.tries, event.attempt + 1) if event is not None and task.tries else task.tries
    words = (error or "Ray tells no error") if task.status not in ("done", "canceled") else None
    workflow.ended(RecordedName(name), task.status, error=words, t_ns=t_ns, tries=tries)


def _told(workflow: Workflow) -> dict[str, Told]:
    """The tasks of a workflow, by name, as all processes have declared them until now, in the order of submission."""
    found: dict[str, Told] = {}
    submitted: dict[str, int] = {}
    for line in workflow.declared_lines():
        if "task" in line:
            _add(found.setdefault(line["task"], Told()), line)
        if line["type"] == "task":
            submitted[line["task"]] = line["t_submit_ns"]
    return {name: found[name] for name in sorted(found, key=lambda one: submitted.get(one, 0))}


def _add(task: Told, line: dict[str, Any]) -> None:
    if line["type"] == "task":
        task.id = line["annotations"]["id"]
        task.needs = [one["task"] for one in line["deps"]]
    elif line["type"] == "try":
        task.tries = max(task.tries, line["try"] + 1)
        if line.get("status") == "failed" and (task.failed is None or task.failed["try"] <= line["try"]):
            task.failed = line
    elif line["type"] == "end":
        task.status = line["status"]


def _events(workflow: Workflow, wanted: set[str]) -> dict[str, Event]:
    """By task ids, as they are declared."""
    found: dict[str, Event] = {}
    for data in ray_state._connect_and_get_accessor().get_task_events():
        events = gcs_pb2.TaskEvents.FromString(data)
        one, update = workflow.as_declared("id", events.task_id.hex()), events.state_updates
        if one in wanted and (one not in found or found[one].attempt <= events.attempt_number):
            times = {state: t_ns for state, t_ns in update.state_ts_ns.items() if state in _OVER}
            found[one] = Event(
                attempt=events.attempt_number,
                over=bool(times),
                failed=common_pb2.TaskStatus.FAILED in times,
                error=error_text(_COLOR.sub("", update.error_info.error_message)),
                t_ns=max(times.values(), default=0),
            )
    return found
