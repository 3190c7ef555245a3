"""A DAG run that is over, in the process of Airflow that finds it so: the scheduler, or `airflow dags test`.

Declared are the dependencies between all task instances, also of mapped tasks and groups, and how those ended of which
no process told: they never ran, were skipped, or their process was lost.

The end is declared by the caller's session: the scheduler holds locks on rows, and refuses another one's commit.
"""

from collections.abc import Iterator
from typing import Any

from sqlalchemy.orm import object_session

from tailrace.airflow.tasks import isolated, task_name, workflow_of
from tailrace.integrations.task_tags import tag_value
from tailrace.integrations.workflow import Workflow

_STATUSES = {
    "success": "done",
    "failed": "killed",
    "upstream_failed": "dep_failed",
    "skipped": "canceled",
    "removed": "canceled",
}


def over(dag_run: Any) -> None:
    """Declares the whole graph. dag_run: a DagRun of Airflow's database."""
    with isolated("declare a DAG run"):
        workflow = workflow_of(dag_run.dag_id)
        if workflow is None or dag_run.dag is None:
            return
        instances: dict[str, list[Any]] = {}
        for instance in _instances(dag_run):
            instances.setdefault(instance.task_id, []).append(instance)
        ended = {line["task"] for line in workflow.declared_lines() if line["type"] == "end"}
        for task_id, own in instances.items():
            task = dag_run.dag.task_dict[task_id]
            for instance in own:
                _declare(workflow, task, instance, instances)
                if workflow.as_declared("task", tag_value(_name(instance))) not in ended:
                    _end(workflow, instance)
        workflow.flush()


def _instances(dag_run: Any) -> list[Any]:
    """By the caller's session, where there is one: the scheduler holds locks that end with a transaction of ours."""
    session = object_session(dag_run)
    return list(dag_run.get_task_instances(**({"session": session} if session is not None else {})))


def _name(instance: Any) -> str:
    return task_name(instance.run_id, instance.task_id, instance.map_index)


def _declare(workflow: Workflow, task: Any, instance: Any, instances: dict[str, list[Any]]) -> None:
    """Without a time: that of its first try is known to the process, if it ran."""
    workflow.write(
        "task",
        task=tag_value(_name(instance)),
        stage=tag_value(instance.task_id),
        kind=str(instance.operator or "task"),
        name=tag_value(_name(instance)),
        deps=[{"task": tag_value(_name(one)), "via": "upstream"} for one in _before(task, instance, instances)],
        inputs=[],
        outputs=[],
    )


def _before(task: Any, instance: Any, instances: dict[str, list[Any]]) -> Iterator[Any]:
    """The instances that it waits for: of tasks in its own mapped group those of its index."""
    group = task.get_closest_mapped_task_group()
    for before in task.upstream_list:
        same = group is not None and before.get_closest_mapped_task_group() is group
        for one in instances.get(before.task_id, ()):
            if not same or one.map_index == instance.map_index:
                yield one


def _end(workflow: Workflow, instance: Any) -> None:
    state = str(getattr(instance.state, "value", instance.state))
    status = _STATUSES.get(state)
    if status is None:
        return
    ran = instance.start_date is not None and status in ("done", "killed")
    workflow.ended(
        _name(instance),
        status,
        error="Airflow lost its process" if status == "killed" else None,
        tries=int(instance.try_number) if ran else 0,
        result=state,
        **({"t_ns": int(instance.end_date.timestamp() * 1e6) * 1000} if instance.end_date is not None else {}),
    )
