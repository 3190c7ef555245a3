"""Declares what Dask's scheduler knows: tasks, dependencies, tries, ends, times, sizes, transfers.

    update_graph                     --> task lines
    transition  ... -> processing    --> try
                processing -> memory --> end: done, with the worker's times and sizes
                processing -> ...    --> the try is over without a result: failed, or its worker was lost
                ... -> erred         --> end: failed, killed, dep_failed

Why a try failed that is followed by another one is only known to its worker, which declares it (workers.py). A result
that was lost with its worker makes its task run again, as another try; one that was released, and is wanted again, is
another task (keys.py). A task that was sent to a worker counts as tried there: whether a worker that was lost had begun
with it is known to nobody.

Invariants: what Dask does is not changed, but for an annotation on tasks that run again, by which a worker knows the
try. A fault of ours is one warning in the scheduler's log.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from distributed import Scheduler, SchedulerPlugin

from tailrace.dask.keys import ANNOTATION, readable, stage_of, task_of
from tailrace.dask.workers import Followed
from tailrace.integrations.workflow import Workflow

_MOST_FORGOTTEN = 1_000_000
"""Keys of forgotten tasks that are remembered, in case they come again."""


@dataclass(slots=True)
class _Task:
    """What is known of a task that the scheduler knows. attempt: the current or next try; dependencies: tasks;
    retries, suspicious: Dask's counts at the launch; worker: where its result was made."""

    life: int = 1
    attempt: int = 0
    launched_ns: int = 0
    running: bool = False
    over: bool = False
    lost: bool = False
    retries: int = 0
    suspicious: int = 0
    worker: str = ""
    awaited: list[str] = field(default_factory=list)


class TaskDeclarations(SchedulerPlugin):  # type: ignore[misc]  # distributed is not typed here
    """Writes the declared lines of all tasks of a scheduler."""

    name = "tailrace"
    idempotent = True

    def __init__(self, followed: Followed) -> None:
        self.followed = followed
        self._tasks: dict[Any, _Task] = {}
        self._lives: dict[int, int] = {}
        self._workflow: Workflow | None = None
        self._scheduler: Scheduler | None = None

    def __reduce__(self) -> tuple[type["TaskDeclarations"], tuple[Followed]]:
        return TaskDeclarations, (self.followed,)

    async def start(self, scheduler: Scheduler) -> None:
        self._scheduler, self._workflow = scheduler, self.followed.begin()
        with self._workflow.isolated("declare the tasks that there are"):
            self._submit(list(scheduler.tasks))

    def update_graph(self, scheduler: Scheduler, *, tasks: Iterable[Any], **_: Any) -> None:
        if self._workflow is not None:
            with self._workflow.isolated("declare a graph"):
                self._submit(tasks)

    def transition(self, key: Any, start: str, finish: str, *_: Any, **facts: Any) -> None:
        task = self._tasks.get(key)
        if task is None or self._workflow is None or self._scheduler is None:
            return
        with self._workflow.isolated("declare a task's state"):
            state = self._scheduler.tasks[key]
            if start == "processing" and task.running:
                self._left(task, state, finish, facts)
            elif start == "memory" and finish != "memory":
                task.lost = task.worker not in self._scheduler.workers
            if finish == "waiting" and task.over:
                self._again(task, state)
            elif finish == "processing":
                self._launched(task, state)
            elif finish == "erred" and not task.over:
                self._erred(task, state, facts)
            elif finish == "forgotten":
                self._forgotten(key, task)

    async def before_close(self) -> None:
        """Also reached when the program ends without closing the cluster's client."""
        if self._workflow is not None:
            with self._workflow.isolated("declare the tasks that did not end"):
                for key, task in self._tasks.items():
                    if not task.over:
                        self._end(task, key, "canceled", error="the scheduler was closed before the task ended")
            self._workflow.close()

    def _submit(self, keys: Iterable[Any]) -> None:
        assert self._scheduler is not None
        for key in keys:
            state = self._scheduler.tasks[key]
            # Data that the program scattered has no run_spec.
            if key not in self._tasks and state.run_spec is not None:
                self._tasks[key] = _Task(life=self._lives.get(hash(key), 0) + 1)
        for key in keys:
            task = self._tasks.get(key)
            if task is not None and not task.launched_ns and not task.over:
                state = self._scheduler.tasks[key]
                self._declare(task, state)
                if task.life > 1:
                    _annotate(state, task)

    def _declare(self, task: _Task, state: Any) -> None:
        assert self._workflow is not None
        stage = stage_of(state.key, self.followed.stages)
        known = [(other.key, self._tasks.get(other.key)) for other in state.dependencies]
        deps = [{"task": task_of(key, of.life), "via": "future"} for key, of in known if of is not None]
        span = ".".join((state.annotations or {}).get("span", {}).get("name", ()))
        task.launched_ns = -1  # declared
        self._workflow.submitted(
            task_of(state.key, task.life),
            stage,
            kind="python",
            name=readable(state.key, stage, task.life),
            deps=deps,
            requested=state.resource_restrictions,
            annotations={"span": span} if span else None,
        )

    def _launched(self, task: _Task, state: Any) -> None:
        assert self._workflow is not None
        task.running, task.launched_ns = True, time.time_ns()
        task.retries, task.suspicious = state.retries, state.suspicious
        self._workflow.started(task_of(state.key, task.life), task.attempt, t_ns=task.launched_ns)

    def _left(self, task: _Task, state: Any, finish: str, facts: Mapping[str, Any]) -> None:
        """A task is no longer processing: its try is over."""
        task.running = False
        if finish == "memory":
            task.worker = str(facts.get("worker"))
            self._end(task, state.key, "done", **_measured(facts, task.launched_ns))
            return
        if state.suspicious > task.suspicious:
            self._lost_try(task, state.key, "killed", "its worker was lost")
        elif finish != "erred" and state.retries >= task.retries:
            self._lost_try(task, state.key, "canceled", "it was taken from its worker before it had ended")
        task.attempt += 1
        if finish != "erred":
            _annotate(state, task)

    def _lost_try(self, task: _Task, key: Any, status: str, error: str) -> None:
        assert self._workflow is not None
        self._workflow.write(
            "try",
            task=task_of(key, task.life),
            t_launch_ns=task.launched_ns,
            t_end_ns=time.time_ns(),
            status=status,
            error=error,
            **{"try": task.attempt},
        )

    def _erred(self, task: _Task, state: Any, facts: Mapping[str, Any]) -> None:
        blamed = state.exception_blame
        if state.suspicious > task.suspicious and task.attempt:
            self._end(task, state.key, "killed", error=f"KilledWorker: {state.suspicious} workers were lost with it")
        elif blamed is not None and blamed.key != state.key:
            of = self._tasks.get(blamed.key)
            name = task_of(blamed.key, of.life if of is not None else 1)
            self._end(task, state.key, "dep_failed", error=f"{name} failed")
        else:
            text = facts.get("exception_text") or state.exception_text or "no worker could run it"
            self._end(task, state.key, "failed", error=str(text), **_measured(facts, task.launched_ns))

    def _again(self, task: _Task, state: Any) -> None:
        """A task that had ended will run again: its result was lost, was released, or the program retries it."""
        task.over = False
        if task.lost:
            self._lost_try(task, state.key, "killed", "its result was lost with its worker")
            task.attempt += 1
        elif task.worker:
            task.life, task.attempt = task.life + 1, 0
            self._declare(task, state)
        task.lost, task.worker = False, ""
        _annotate(state, task)

    def _forgotten(self, key: Any, task: _Task) -> None:
        if not task.over:
            self._end(task, key, "canceled", error="the program released the task before it had ended")
        del self._tasks[key]
        if len(self._lives) >= _MOST_FORGOTTEN:
            self._lives.clear()
        self._lives[hash(key)] = task.life

    def _end(self, task: _Task, key: Any, status: str, *, error: str | None = None, **keys: Any) -> None:
        assert self._workflow is not None
        task.over = True
        tries = task.attempt + (status == "done" or task.running)
        ended = keys.pop("t_end_ns", None)
        self._workflow.ended(task_of(key, task.life), status, error=error, t_ns=ended, tries=tries, **keys)


def _annotate(state: Any, task: _Task) -> None:
    state.annotations = {**(state.annotations or {}), ANNOTATION: (task.life, task.attempt)}


def _measured(facts: Mapping[str, Any], launched_ns: int) -> dict[str, Any]:
    """What a worker says of a task that it ran, as keys of an `end` line."""
    keys: dict[str, Any] = {"worker": facts.get("worker"), "result_bytes": facts.get("nbytes")}
    keys["result_type"] = facts.get("typename")
    for span in facts.get("startstops") or ():
        begin, end = (round(span[name] * 1e9) for name in ("start", "stop"))
        if span["action"] == "compute":
            keys["t_start_ns"], keys["t_end_ns"] = _moved(begin, end, launched_ns, time.time_ns())
        else:
            name = {"transfer": "transfer_ns", "disk-read": "unspill_ns"}.get(span["action"])
            if name:
                keys[name] = keys.get(name, 0) + end - begin
    return keys


def _moved(begin: int, end: int, earliest: int, latest: int) -> tuple[int, int]:
    """A span of a worker's clock between the two times of ours that it must lie between. Dask's estimate of the
    difference of the clocks, which is in it, is wrong by the delay of its own messages: some ten ms on one machine."""
    shift = min(0, latest - end) or max(0, earliest - begin)
    return begin + shift, min(end + shift, latest)
