"""Names of Ray's tasks, and how the program that submits them tells its workers the name of the workflow.

Ray makes a task's id of the job, the task that submitted it, and its number there, so that a program that submits in
the same order has the same ids again. The first 8 bytes tell the tasks of a cluster apart, but for the creation of
actors, whose next 8 do.

No numbers in the order of submission, as of other managers: a worker knows the id alone.
"""

import json
from typing import Any

_SPACE = b"tailrace"
_NO_TASK = "f" * 16


def stage_of(descriptor: Any) -> str:
    """Of what a task runs: the function's name, or CLASS.METHOD. descriptor: Ray's PythonFunctionDescriptor."""
    parts = [descriptor.class_name, descriptor.function_name] if descriptor.class_name else [descriptor.function_name]
    return ".".join(str(part).rpartition(".")[2] for part in parts)


def short_id(task_id: str) -> str:
    """The hexadecimal digits of a task's id that tell it from others."""
    return task_id[:16] if task_id[:16] != _NO_TASK else task_id[16:32]


def task_name(stage: str, task_id: str) -> str:
    """The tag of a task, and its name in what is declared."""
    return f"{stage}:{short_id(task_id)}"


def hand_over(worker: Any, name: str, tags: str) -> None:
    """Tells all workers of this job the workflow's name and tags; before the first task is submitted."""
    value = json.dumps({"name": name, "tags": tags}).encode()
    worker.gcs_client.internal_kv_put(worker.current_job_id.hex().encode(), value, True, _SPACE)


def handed_over(worker: Any, job_id: str) -> tuple[str, str] | None:
    """The name and the tags, in a worker; None: that job's program is not traced."""
    value = worker.gcs_client.internal_kv_get(job_id.encode(), _SPACE)
    if value is None:
        return None
    told = json.loads(value)
    return str(told["name"]), str(told["tags"])
