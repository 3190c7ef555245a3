"""What the submitting program had waited for before it submitted a task: the program's own order of two tasks.

    result(), exception(), a done callback, concurrent.futures.wait() and as_completed(),
    DataFlowKernel.wait_for_current_tasks()  --> Waits --> `wait` lines of the declared log

`make(p).result(); use(p)` declares nothing and is no race: the second task is submitted when the first is over. That
the first happened to be over is no such evidence (a loop that submits slowly), so only what waits counts: `done()` does
not. A wait orders what the same line of execution submits later: a thread, an asyncio task, one call of a done
callback, one body of a join app. What a thread passes to another one is unknown, and orders nothing.

Invariants: futures of kernels that are not traced are left alone. The methods that are replaced return and raise what
they did, also when what is added here fails. Each wait is written once: a `wait` line names the tasks waited for since
an earlier one of its line of execution, and that one as `after` (docs/declared-dag.md).
"""

import asyncio
import concurrent.futures
import logging
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

from parsl.app.futures import DataFuture
from parsl.dataflow.dflow import DataFlowKernel
from parsl.dataflow.futures import AppFuture

_log = logging.getLogger("tailrace.parsl")

MOST_KNOWN = 1_000_000
"""Tasks that a line of execution remembers; past it what they ordered counts as unordered."""


class _Line:
    """A line of execution. awaited: tasks waited for since the last `wait` line, which was of task `after`; known: all
    tasks waited for."""

    __slots__ = ("__weakref__", "after", "awaited", "known")

    def __init__(self, awaited: Iterable[int] = ()) -> None:
        self.awaited = dict.fromkeys(awaited)
        self.known = set(self.awaited)
        self.after: str | None = None

    def saw(self, task: int) -> None:
        if task in self.known:
            return
        if len(self.known) >= MOST_KNOWN:
            self.known.clear()
            self.awaited.clear()
        self.known.add(task)
        self.awaited[task] = None


class Submission:
    """What was waited for when a submission began: `awaited` tasks, and those of the `wait` line of task `after`."""

    def __init__(self, line: _Line) -> None:
        self._line = line
        self.awaited = list(line.awaited)
        self.after = line.after

    def is_of(self, task: int) -> None:
        """The submission became `task`. Called after a line was written for it."""
        for known in self.awaited:
            self._line.awaited.pop(known, None)
        if self.awaited:
            self._line.after = str(task)


class Waits:
    """The waits for the tasks of one kernel."""

    def __init__(self) -> None:
        self._here = threading.local()
        self._of_asyncio: weakref.WeakKeyDictionary[asyncio.Task[Any], _Line] = weakref.WeakKeyDictionary()

    def saw(self, task: int) -> None:
        """This line of execution has waited for the end of `task`."""
        self._line().saw(task)

    def submission(self) -> Submission:
        """What has been waited for, before a submission."""
        return Submission(self._line())

    @contextmanager
    def separately(self, awaited: Iterable[int] = ()) -> Iterator[None]:
        """Inside of it is a line of execution of its own, which has waited for `awaited`."""
        before = getattr(self._here, "line", None)
        self._here.line = _Line(awaited)
        try:
            yield
        finally:
            self._here.line = before

    def _line(self) -> _Line:
        # get_running_loop() raises where there is none, which takes a microsecond.
        if asyncio._get_running_loop() is None:
            line: _Line | None = getattr(self._here, "line", None)
            if line is None:
                line = self._here.line = _Line()
            return line
        task = asyncio.current_task()
        # The loop's own callbacks take results for whichever task awaits them.
        return _Line() if task is None else self._of_asyncio.setdefault(task, _Line())


_waits_of: weakref.WeakKeyDictionary[DataFlowKernel, Waits] = weakref.WeakKeyDictionary()
_install_lock = threading.Lock()
_installed = False


def follow(kernel: DataFlowKernel) -> Waits:
    """The waits for the tasks of `kernel`, from now on."""
    waits = _waits_of.setdefault(kernel, Waits())
    wait_for_all = kernel.wait_for_current_tasks

    def wait_for_current_tasks() -> None:
        count = kernel.task_count
        wait_for_all()
        for task in range(count):
            waits.saw(task)

    kernel.wait_for_current_tasks = wait_for_current_tasks  # type: ignore[method-assign]  # on this instance
    return waits


def install() -> None:
    """Makes Parsl's futures, and the functions that wait for futures, tell `Waits`. Again: does nothing more.

    The methods belong to the classes, because a program may wait for its first future before the kernel is known.
    """
    global _installed
    with _install_lock:
        if _installed:
            return
        _installed = True
        for future_class in (AppFuture, DataFuture):
            for name in ("result", "exception"):
                setattr(future_class, name, _seen_by(getattr(future_class, name)))
            future_class.add_done_callback = _calling_back(future_class.add_done_callback)  # type: ignore[method-assign]
        _replace(concurrent.futures.wait, _wait(concurrent.futures.wait))
        _replace(concurrent.futures.as_completed, _as_completed(concurrent.futures.as_completed))


def _task_of(future: Any) -> tuple[Waits, int] | None:
    """The task that a future is of, if its kernel is traced. Never raises."""
    try:
        while isinstance(future, DataFuture):  # stage-out nests them
            future = future.parent
        if not isinstance(future, AppFuture):
            return None
        waits = _waits_of.get(future.task_record["dfk"])
        return None if waits is None else (waits, int(future.tid))
    except Exception:
        _log.debug("tailrace: can't tell which task a future is of", exc_info=True)
        return None


def _saw(future: Any) -> None:
    found = _task_of(future)
    if found is not None:
        waits, task = found
        waits.saw(task)


def _seen_by(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def waiting(self: Future[Any], timeout: float | None = None) -> Any:
        try:
            return method(self, timeout)
        finally:
            if self.done():  # no timeout
                _saw(self)

    return waiting


def _calling_back(method: Callable[..., None]) -> Callable[..., None]:
    @wraps(method)
    def add_done_callback(self: Future[Any], fn: Callable[[Future[Any]], Any]) -> None:
        inner = fn.func if isinstance(fn, partial) else fn
        own = str(getattr(inner, "__module__", "")).startswith("parsl.")
        method(self, fn if own else partial(_call_back, fn))

    return add_done_callback


def _call_back(fn: Callable[[Future[Any]], Any], future: Future[Any]) -> None:
    found = _task_of(future)
    if found is None:
        fn(future)
        return
    waits, task = found
    with waits.separately([task]):
        fn(future)


def _wait(wait: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(wait)
    def waiting(fs: Any, timeout: float | None = None, return_when: str = concurrent.futures.ALL_COMPLETED) -> Any:
        found = wait(fs, timeout, return_when)
        for future in found.done:
            _saw(future)
        return found

    return waiting


def _as_completed(as_completed: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    @wraps(as_completed)
    def completing(fs: Any, timeout: float | None = None) -> Iterator[Any]:
        for future in as_completed(fs, timeout):
            _saw(future)
            yield future

    return completing


def _replace(function: Callable[..., Any], by: Callable[..., Any]) -> None:
    """Replaces a function under its name in every module that has imported it."""
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", {})
        if names.get(function.__name__) is function:
            names[function.__name__] = by
