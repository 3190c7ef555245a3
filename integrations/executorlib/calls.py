"""Follows the calls that are submitted to executorlib's executors, in the program's process.

    BaseExecutor.submit                  a call is declared, with the futures in its arguments
    _execute_task_without_cache, _execute_task_with_cache    a try of it begins, in the thread that waits for its worker
    SocketInterface.send_and_receive_dict                    what that thread sends: the function with its tags
    the future's callback                it is over

The tags are added to what is sent, not to what is submitted: executorlib's cache knows a call by its function.
Invariants: what a call returns and raises is what it does untraced; a fault of ours is one warning.
"""

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from executorlib.executor import base
from executorlib.standalone.interactive import communication
from executorlib.task_scheduler.interactive import shared

from tailrace.executorlib.worker import Tagged
from tailrace.integrations.declared_log import error_text
from tailrace.integrations.isolation import Isolation
from tailrace.integrations.replacing import Replaced, replace
from tailrace.integrations.workflow import Workflow

_isolated = Isolation(logging.getLogger("tailrace.executorlib"))
_OWN_DIRECTORIES = ("executorlib_cache",)


@dataclass
class _Call:
    """A call that was submitted. attempt: -1 before its first try."""

    name: str
    stage: str
    attempt: int = -1
    begun_ns: int = 0
    needs: tuple["Future[Any]", ...] = ()


class _Followed:
    """The calls of this process's executors."""

    def __init__(self, name: str) -> None:
        self.workflow = Workflow.begin(
            "executorlib", metadata.version("executorlib"), name, attach=True, own_directories=_OWN_DIRECTORIES
        )
        self.submitting = threading.RLock()
        """Held until a call that was submitted is known here, since its thread may run it at once."""
        self._calls: WeakKeyDictionary[Future[Any], _Call] = WeakKeyDictionary()
        self._numbers: dict[str, int] = {}

    def submitted(
        self,
        future: "Future[Any]",
        function: Callable[..., Any],
        needs: Iterable["Future[Any]"] = (),
        requested: Mapping[str, Any] | None = None,
    ) -> _Call:
        stage = str(getattr(function, "__name__", type(function).__name__))
        with self.submitting:
            self._numbers[stage] = self._numbers.get(stage, 0) + 1
            call = self._calls[future] = _Call(f"{stage}:{self._numbers[stage]}", stage, needs=tuple(needs))
            known = [self._calls[one].name for one in call.needs if one in self._calls]
        self.workflow.submitted(
            call.name,
            stage,
            kind="python",
            name=call.name,
            deps=[{"task": name, "via": "future"} for name in dict.fromkeys(known)],
            requested={name: value for name, value in (requested or {}).items() if value is not None},
        )
        future.add_done_callback(self._over)
        return call

    def call_of(self, future: "Future[Any]", function: Callable[..., Any]) -> _Call:
        """What map() and executors of executorlib itself submit is declared when it is about to run."""
        with self.submitting:
            return self._calls.get(future) or self.submitted(future, function)

    def launched(self, call: _Call) -> str:
        """The tags of the try that begins."""
        if call.attempt >= 0:
            self.workflow.retried(call.name, call.attempt, "its worker was lost", t_launch_ns=call.begun_ns)
        call.attempt, call.begun_ns = call.attempt + 1, time.time_ns()
        self.workflow.started(call.name, call.attempt, t_ns=call.begun_ns)
        return self.workflow.tags(call.name, call.stage, call.attempt)

    def _over(self, future: "Future[Any]") -> None:
        with _isolated("declare a call's end"):
            call = self._calls.get(future)
            if call is not None:
                status, error = _outcome(future, call)
                self.workflow.ended(call.name, status, error=error, tries=call.attempt + 1)


def _outcome(future: "Future[Any]", call: _Call) -> tuple[str, str | None]:
    if future.cancelled():
        return "canceled", None
    error = future.exception()
    if error is None:
        # A call of which nothing was sent was found in the cache.
        return ("done" if call.attempt >= 0 else "memoized"), None
    text = error_text(error)
    if any(one.done() and not one.cancelled() and one.exception() is error for one in call.needs):
        return "dep_failed", text
    return ("killed" if isinstance(error, communication.ExecutorlibSocketError) else "failed"), text


_followed: _Followed | None = None
_running = threading.local()
"""call: that the thread waits for."""


def trace() -> None:
    """Traces what this process submits to executorlib's executors from now on; again: does nothing. Before an executor
    is made, whose workers may start at once. A version of executorlib that sends calls in another way is one warning,
    and they run untraced."""
    global _followed
    if _followed is not None:
        return
    with _isolated("follow executorlib's calls"):
        replace(f"executorlib {metadata.version('executorlib')}", _REPLACED)
        _followed = _Followed(_program_name())


def _submit(original: Callable[..., Any], executor: Any, function: Any, /, *arguments: Any, **keywords: Any) -> Any:
    with nullcontext() if _followed is None else _followed.submitting:
        future = original(executor, function, *arguments, **keywords)
        with _isolated("declare a call"):
            if _followed is not None:
                needs = [*_futures(arguments), *_futures(keywords)]
                _followed.submitted(future, function, needs, keywords.get("resource_dict"))
    return future


def _execute(original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    with _isolated("follow a call"):
        if _followed is not None:
            _running.call = _followed.call_of(keywords["future_obj"], keywords["task_dict"]["fn"])
    try:
        return original(*arguments, **keywords)
    finally:
        _running.call = None


def _send(original: Callable[..., Any], interface: Any, input_dict: dict[str, Any]) -> Any:
    call = getattr(_running, "call", None)
    with _isolated("tag a call"):
        if call is not None and _followed is not None and "fn" in input_dict:
            tags = _followed.launched(call)
            input_dict = {**input_dict, "fn": Tagged(input_dict["fn"], tags)} if tags else input_dict
    return original(interface, input_dict=input_dict)


_REPLACED = (
    Replaced(base.BaseExecutor, "submit", ("self", "fn"), _submit),
    Replaced(shared, "_execute_task_without_cache", ("task_dict", "future_obj", "interface"), _execute),
    Replaced(shared, "_execute_task_with_cache", ("task_dict", "future_obj", "interface"), _execute),
    Replaced(communication.SocketInterface, "send_and_receive_dict", ("self", "input_dict"), _send),
)


def _futures(values: Any) -> Iterator["Future[Any]"]:
    """The futures in arguments, where executorlib looks for them; of a part of a result, that of the whole."""
    for value in values.values() if isinstance(values, Mapping) else values:
        if isinstance(value, Future):
            whole = getattr(value, "_future", value)
            yield whole if isinstance(whole, Future) else value
        elif isinstance(value, list | dict):
            yield from _futures(value)


def _program_name() -> str:
    name = Path(sys.argv[0]).stem if sys.argv else ""
    return name if name not in ("", "-c", "-m") else "executorlib"
