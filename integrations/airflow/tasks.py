"""A task instance, in the process that runs it.

    begun    it is declared, and `execute` of its operator, a copy made for this try, is put into its scope
    over     it is done, or failed, or is tried again

Airflow leaves its variables of the task in the environment (AIRFLOW_CTX_...), by which the core tags the whole process.
They are taken out of it when `execute` returns, since what follows is Airflow's own; `os.environ` keeps them.

Invariants: what a task returns and raises is what it does untraced; a fault of ours is one warning.

Not the time between a listener's two calls, in which Airflow also sends results to its database.
"""

import functools
import logging
import os
import time
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tailrace import context
from tailrace.integrations.declared_log import error_text
from tailrace.integrations.isolation import Isolation
from tailrace.integrations.workflow import Workflow, claimed, running

isolated = Isolation(logging.getLogger("tailrace.airflow"))
_VARIABLES = "AIRFLOW_CTX_"
_begun_ns: dict[str, int] = {}


@functools.cache
def workflow_of(dag_id: str) -> Workflow | None:
    """The DAG, in this process; None: not traced."""
    directory = context.run_directory()
    if directory is None:
        return None
    workflow = Workflow("airflow", Path(directory), dag_id)
    if claimed(Path(directory), dag_id):
        # Each process writes declarations of its own; that of the first one has the workflow's line.
        version = metadata.version("apache-airflow-core")
        config = {"own_directories": _own_directories(), "own_processes": True}
        workflow.write("workflow", manager="airflow", version=version, t_ns=time.time_ns(), config=config)
        workflow.flush()
    return workflow


def _own_directories() -> list[str]:
    with isolated("find Airflow's own files"):
        from airflow.sdk.configuration import conf

        return [str(Path(conf.get("logging", "base_log_folder")).absolute())]
    return []


def task_name(run_id: str, task_id: str, map_index: int | None) -> str:
    """As the importer of Airflow's API names them (importer.py)."""
    name = f"{run_id}/{task_id}"
    return name if map_index is None or map_index < 0 else f"{name}[{map_index}]"


def begun(instance: Any) -> None:
    """A try begins. instance: a RuntimeTaskInstance."""
    with isolated("follow a task"):
        workflow = workflow_of(instance.dag_id)
        if workflow is None:
            return
        name = task_name(instance.run_id, instance.task_id, instance.map_index)
        attempt = int(instance.try_number) - 1
        _begun_ns[name] = time.time_ns()
        if attempt == 0:
            _declare(workflow, name, instance)
        workflow.started(name, attempt, t_ns=_begun_ns[name])
        workflow.flush()
        _put_into_scope(instance.task, workflow.tags(name, instance.task_id, attempt))


def _declare(workflow: Workflow, name: str, instance: Any) -> None:
    """With the tasks before it that are no mapped ones: how many of those there are is known at the end."""
    task = instance.task
    before = [one for one in task.upstream_list if not _mapped(one)]
    workflow.submitted(
        name,
        str(task.task_id),
        kind=str(task.task_type),
        name=name,
        deps=[{"task": task_name(instance.run_id, one.task_id, None), "via": "upstream"} for one in before],
        inputs=_files(task.inlets),
        outputs=_files(task.outlets),
        t_ns=_begun_ns[name],
        annotations={"queue": task.queue, "pool": task.pool},
    )


def _mapped(task: Any) -> bool:
    return bool(getattr(task, "is_mapped", False)) or task.get_closest_mapped_task_group() is not None


def _files(assets: Iterable[Any]) -> list[str]:
    """The paths of the assets that are local files."""
    parts = [urlsplit(str(one.uri)) for one in assets or () if getattr(one, "uri", None)]
    return [unquote(one.path) for one in parts if one.scheme == "file"]


def _put_into_scope(task: Any, tags: str) -> None:
    execute = task.execute

    @functools.wraps(execute)
    def traced(*arguments: Any, **keywords: Any) -> Any:
        try:
            with running(tags):
                return execute(*arguments, **keywords)
        finally:
            for variable in [one for one in os.environ if one.startswith(_VARIABLES)]:
                os.unsetenv(variable)

    task.execute = traced


def over(instance: Any, error: Any) -> None:
    """A try ended."""
    with isolated("declare the end of a task"):
        workflow = workflow_of(instance.dag_id)
        if workflow is None:
            return
        name = task_name(instance.run_id, instance.task_id, instance.map_index)
        attempt, state = int(instance.try_number) - 1, str(getattr(instance.state, "value", instance.state))
        text = error_text(error or state)
        begun_ns = _begun_ns.pop(name, None)
        if state == "up_for_retry" and begun_ns is not None:
            workflow.retried(name, attempt, text, t_launch_ns=begun_ns)
        elif state == "failed":
            workflow.ended(name, "failed", error=text, tries=attempt + 1)
        elif state in ("success", "skipped"):
            workflow.ended(name, "done", tries=attempt + 1, result=state)
        workflow.flush()  # the process ends without Python's clean-up
