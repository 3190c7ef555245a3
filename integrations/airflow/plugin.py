"""The plugin `tailrace` of Airflow, which finds it by the group of entry points `airflow.plugins`.

Every process of Airflow loads it. So it imports what follows tasks only where this process is traced.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from airflow.listeners import hookimpl
from airflow.plugins_manager import AirflowPlugin

from tailrace import context

_Function = TypeVar("_Function", bound=Callable[..., None])
_hook: Callable[[_Function], _Function] = hookimpl


class _Listener:
    """Airflow logs what a listener raises, and goes on."""

    @_hook
    def on_task_instance_running(self, task_instance: Any) -> None:
        if context.active():
            from tailrace.airflow import tasks

            tasks.begun(task_instance)

    @_hook
    def on_task_instance_success(self, task_instance: Any) -> None:
        self._over(task_instance, None)

    @_hook
    def on_task_instance_skipped(self, task_instance: Any) -> None:
        self._over(task_instance, None)

    @_hook
    def on_task_instance_failed(self, task_instance: Any, error: Any) -> None:
        self._over(task_instance, error)

    def _over(self, task_instance: Any, error: Any) -> None:
        if context.active():
            from tailrace.airflow import tasks

            tasks.over(task_instance, error)

    @_hook
    def on_dag_run_success(self, dag_run: Any) -> None:
        self._dag_run_over(dag_run)

    @_hook
    def on_dag_run_failed(self, dag_run: Any) -> None:
        self._dag_run_over(dag_run)

    def _dag_run_over(self, dag_run: Any) -> None:
        if context.active():
            from tailrace.airflow import dag_runs

            dag_runs.over(dag_run)


class TailracePlugin(AirflowPlugin):  # type: ignore[misc]  # airflow is not typed here
    """Listens to task instances and DAG runs."""

    name = "tailrace"
    listeners = (_Listener(),)
