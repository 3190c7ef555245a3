"""Hooks into the DataFlowKernel: a memoizer that is called at every task's launch and end, and delegates to another.

An executor does not know which task it runs, but DataFlowKernel.launch_task() calls the memoizer and then submits, on
one thread. check_memo() puts the task's tags into a thread-local Handoff, which the executor's shadowed submit
(executors.py) takes. Every step of ours is isolated: the first failure is logged, and the task continues without
tracing. Those of every task are so by `try`, which takes no time where nothing is raised.

A task that waits is declared when it is submitted, so that a killed program's run has it, and again at its launch if
its arguments say more by then. Not so all tasks: one without dependencies may have ended before submit() returns.
"""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from types import MappingProxyType
from typing import Any

from parsl.dataflow.dflow import DataFlowKernel
from parsl.dataflow.errors import DependencyError
from parsl.dataflow.memoization import Memoizer
from parsl.dataflow.states import FINAL_STATES, States
from parsl.dataflow.taskrecord import TaskRecord
from tailrace.integrations.task_tags import tag_value
from tailrace.integrations.workflow import Workflow
from tailrace.parsl import arguments, task_log, waits
from tailrace.parsl.executors import Handoff, shadow_submit
from tailrace.parsl.stages import declared_stage
from tailrace.parsl.task_outcome import status_and_error

StageNamer = Callable[[TaskRecord], str | None]
RetryHandler = Callable[[Exception, TaskRecord], float]
_NOT_RUN = ("memoized", "dep_failed")


def _to_tell(keys: dict[str, Any]) -> int:
    """A hash of what a task's line can tell more of once the arguments are there: they, and the files in them."""
    told = (keys["annotations"] or {}).get("arguments") or {}
    return hash((tuple(told.items()), tuple(file["path"] for file in keys["inputs"])))


class TracingMemoizer(Memoizer):
    """Delegates to `inner`, declares each task of `workflow`, and passes its tags to the submit.

    stage_of: a task's stage, when it is launched; early_stage_of: the same when it is submitted, before its arguments
    are there, None where that can't be told; redaction: of the arguments that are declared, None: they are not; config:
    `config` of the `workflow` line; on_end: called after the kernel's cleanup.
    """

    def __init__(
        self,
        inner: Memoizer,
        workflow: Workflow,
        *,
        config: dict[str, Any],
        stage_of: StageNamer,
        early_stage_of: StageNamer | None,
        redaction: str | None,
        on_end: Callable[[], None],
    ) -> None:
        self._inner = inner
        self._workflow = workflow
        self._isolated, self._write = workflow.isolated, workflow.write
        self._config = config
        self._stage_of = stage_of
        self._early_stage_of = early_stage_of
        self._redaction = redaction
        self._on_end = on_end
        self._handoff = Handoff()
        self._kernel: DataFlowKernel | None = None
        self._waits = waits.Waits()
        self._seen_executors = 0
        self._stages_of_open_tasks: dict[int, str] = {}
        self._declared_early: dict[int, int] = {}
        """Of tasks that wait: `_to_tell` of their line."""
        # A task that a join body submits is launched on another thread, possibly before submit() has returned its
        # id: the join body holds this lock during submit, and _log_task takes it. It guards what is known of tasks.
        self._parents_lock = threading.RLock()
        self._parents: dict[int, str] = {}
        self._join_body = threading.local()
        self._after_lock = threading.Lock()
        self._also_after: dict[str, list[str]] = {}
        """Of `wait` lines that are not written yet, by their `after`: the tasks besides the first."""

    def __getattr__(self, name: str) -> Any:
        # Methods beyond the interface, such as BasicMemoizer.checkpoint().
        if name == "_inner":
            raise AttributeError(name)
        return getattr(self._inner, name)

    def start(self, **where: str) -> None:  # versions of Parsl tell less, or more
        self._inner.start(**where)
        with self._isolated("follow what the program waits for"):
            waits.install()
        with self._isolated("declare the workflow"):
            import parsl

            self._write(
                "workflow",
                manager="parsl",
                version=parsl.__version__,
                t_ns=time.time_ns(),
                config={**self._config, "run_dir": where.get("run_dir")},
            )
            self._workflow.flush()  # so that the next one sees its name

    def check_memo(self, task: TaskRecord) -> Future[Any] | None:
        memoized = self._inner.check_memo(task)
        try:
            self._adopt(task["dfk"])
            if memoized is None:
                self._launch(task)
            else:
                self._log_task(task)
        except Exception as error:
            self._isolated.failed("trace a task", error)
        return memoized

    def update_memo_result(self, task: TaskRecord, r: Any) -> None:
        try:
            self._log_end(task, "memoized" if task["from_memo"] else "done")
        except Exception as error:
            self._isolated.failed("declare a task's end", error)
        self._inner.update_memo_result(task, r)

    def update_memo_exception(self, task: TaskRecord, e: BaseException) -> None:
        with self._isolated("declare a task's end"):
            self._log_end(task, *status_and_error(e))
        self._inner.update_memo_exception(task, e)

    def retry_handler(self, inner: RetryHandler | None) -> RetryHandler:
        """Parsl's hook for a failed try, which logs it: a failure that is retried reaches no memoizer. It costs what
        `inner` says, or as much as without a handler."""

        def handler(e: Exception, task: TaskRecord) -> float:
            with self._isolated("declare a failed try"):
                self._log_failed_try(task, e)
            return 1 if inner is None else inner(e, task)

        return handler

    def close(self) -> None:
        with self._isolated("declare the tasks that did not end"):
            for task in list(self._kernel.tasks.values()) if self._kernel is not None else []:
                if task["status"] not in FINAL_STATES:
                    self._log_end(task, "canceled", "Parsl was shut down before the task ended")
        self._inner.close()

    def _adopt(self, kernel: DataFlowKernel) -> None:
        """Shadows the executors that `kernel` added since the last call, and once its submit and cleanup."""
        if self._kernel is None:
            self._kernel = kernel
            self._waits = waits.follow(kernel)
            kernel.submit = partial(self._submit_of_kernel, kernel.submit)  # type: ignore[method-assign]
            kernel.cleanup = partial(self._cleanup_of_kernel, kernel.cleanup)  # type: ignore[method-assign]
            for task in list(kernel.tasks.values()):
                self._log_waiting(task)
        if len(kernel.executors) != self._seen_executors:
            self._seen_executors = len(kernel.executors)
            for executor in list(kernel.executors.values()):
                shadow_submit(executor, self._handoff)

    def _launch(self, task: TaskRecord) -> None:
        number, attempt = str(task["id"]), int(task["try_id"])
        launch = {"try": attempt, "t_launch_ns": task_log.to_ns(task["try_time_launched"])}
        stage, is_told = self._log_task(task, launch)
        if not is_told:
            self._write("try", task=number, **launch)
        body = partial(self._in_join_body, number) if task["join"] else None
        self._handoff.give(self._workflow.tags(number, stage, attempt), body)

    def _log_task(self, task: TaskRecord, launch: Mapping[str, int | None] = MappingProxyType({})) -> tuple[str, bool]:
        """Writes the task's line, if there is more to tell than before: its stage, and whether that told of `launch`,
        the keys of its try."""
        number = task["id"]
        with self._parents_lock:
            early = self._declared_early.pop(number, None)
            stage = self._stages_of_open_tasks.get(number)
            if stage is not None and early is None:
                return stage, False
            if stage is None:
                stage = self._stages_of_open_tasks[number] = self._stage(task, self._stage_of)
            parent = self._parents.pop(number, None)
        keys = self._task_keys(task, parent)
        has_more = early is None or early != _to_tell(keys)
        if has_more:
            self._write("task", stage=stage, **keys, **launch)
        return stage, has_more

    def _log_waiting(self, task: TaskRecord) -> None:
        """Writes the line of a task that waits for others: when the program is killed it was submitted all the same."""
        number = task["id"]
        if not task["depends"] or self._early_stage_of is None:
            return
        with self._parents_lock:
            # Who launches or ends it takes this lock after the last of them is done.
            if all(future.done() for future in task["depends"]) or number in self._stages_of_open_tasks:
                return
            stage = self._stages_of_open_tasks[number] = self._stage(task, self._early_stage_of)
            parent = self._parents.get(number)
            keys = self._task_keys(task, parent)
            self._declared_early[number] = _to_tell(keys)
            self._write("task", stage=stage, **keys)

    def _task_keys(self, task: TaskRecord, parent: str | None) -> dict[str, Any]:
        told = None
        if self._redaction is not None:
            try:
                told = arguments.of_task(task, self._redaction)
            except Exception as error:
                self._isolated.failed("describe a task's arguments", error)
        return task_log.task_keys(task, parent, told)

    def _log_failed_try(self, task: TaskRecord, error: Exception) -> None:
        if isinstance(error, DependencyError):
            return  # it was not launched
        status, text = status_and_error(error)
        self._write(
            "try",
            task=str(task["id"]),
            t_launch_ns=task_log.to_ns(task["try_time_launched"]) or 0,
            t_end_ns=task_log.to_ns(task["try_time_returned"]) or time.time_ns(),
            status=status,
            error=text,
            **{"try": int(task["try_id"])},
        )

    def _log_end(self, task: TaskRecord, status: str, error: str | None = None) -> None:
        # Parsl leaves failed predecessors out of the arguments of a task that is not launched.
        self._declared_early.pop(task["id"], None)
        self._log_task(task)
        self._stages_of_open_tasks.pop(task["id"], None)
        # A task that is pending was not launched again after its last try.
        running = status not in _NOT_RUN and task["status"] != States.pending
        self._write(
            "end",
            task=str(task["id"]),
            t_end_ns=task_log.to_ns(task["time_returned"]) or time.time_ns(),
            status=status,
            tries=int(task["try_id"]) + running,
            error=error,
            joins=task_log.joined_tasks(task) if task["join"] else None,
        )

    def _stage(self, task: TaskRecord, stage_of: StageNamer) -> str:
        stage = None
        try:
            stage = stage_of(task) or declared_stage(task["func"])
        except Exception as error:
            self._isolated.failed("name a stage", error)
        return tag_value(stage or task["func_name"])

    def _in_join_body(self, parent: str, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._join_body.task = parent
        try:
            with self._waits.separately():
                return func(*args, **kwargs)
        finally:
            self._join_body.task = None

    def _submit_of_kernel(self, submit: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        submission: waits.Submission | None = None
        try:
            submission = self._waits.submission()
        except Exception as error:
            self._isolated.failed("tell what was waited for", error)
        parent = getattr(self._join_body, "task", None)
        if parent is None:
            future = submit(*args, **kwargs)
        else:
            with self._parents_lock:
                future = submit(*args, **kwargs)
                self._parents[future.tid] = parent
        try:
            self._log_waiting(future.task_record)
            if submission is not None:
                self._log_waits(submission, int(future.tid))
        except Exception as error:
            self._isolated.failed("declare what a task waits for", error)
        return future

    def _log_waits(self, submission: waits.Submission, task: int) -> None:
        after = submission.after
        if submission.awaited:
            awaited = [str(known) for known in submission.awaited]
            self._write("wait", task=str(task), awaited=awaited, after=after)
            submission.is_of(task)
        elif after is not None:
            with self._after_lock:
                others = self._also_after.get(after)
                if others is not None:
                    others.append(str(task))
                    return
                self._also_after[after] = []
            self._workflow.write_later("wait", partial(self._wait_keys, after, task))

    def _wait_keys(self, after: str, task: int) -> dict[str, Any]:
        """Of the tasks after `after` that nothing more was waited for, since the last such line: one for a loop."""
        with self._after_lock:
            others = self._also_after.pop(after)
        return {"task": str(task), "awaited": [], "after": after, "also": others or None}

    def _cleanup_of_kernel(self, cleanup: Callable[[], None]) -> None:
        try:
            cleanup()
        finally:
            with self._isolated("seal the trace"):
                self._on_end()
