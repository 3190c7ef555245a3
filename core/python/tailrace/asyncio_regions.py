"""Regions of coroutines: the thread is in the region of the coroutine that runs.

    task A: with region("a"): await ...        the variable of task A's context has a
    task B: reads                              in B's region, though the thread has begun a last

An event loop runs each step of a task as a handle with the task's context, and `asyncio.to_thread` a function in a
copy of its caller's. Both are wrapped here to move the thread to the region that the context has, and back. Python
tells nobody of a change of context before 3.14, and no function of the interpreter's own (`Context.run`) can be
wrapped.

Not reached: loops with handles of their own (uvloop), and a name `to_thread` that was imported before.
"""

from __future__ import annotations

import asyncio
import asyncio.threads
import functools
from collections.abc import Callable
from typing import Any, TypeVar

from tailrace import _regions

_T = TypeVar("_T")


def follow() -> None:
    """Moves each thread to the region of the coroutine that it runs, from now on. Called again, it does nothing."""
    if not hasattr(asyncio.Handle._run, "__wrapped__"):
        asyncio.Handle._run = _in_region_of_handle(asyncio.Handle._run)  # type: ignore[method-assign]
        asyncio.to_thread = asyncio.threads.to_thread = _in_region_of_caller(asyncio.to_thread)


def _in_region_of_handle(run: Callable[[asyncio.Handle], Any]) -> Any:
    variable, enter, suspend = _regions.variable, _regions.follow, _regions.suspend

    @functools.wraps(run)
    def _run(self: asyncio.Handle) -> Any:
        before = enter(self._context.get(variable))  # type: ignore[attr-defined]
        try:
            return run(self)
        finally:
            suspend(before)

    return _run


def _in_region_of_caller(to_thread: Callable[..., Any]) -> Any:
    @functools.wraps(to_thread)
    async def in_thread(function: Callable[..., _T], /, *args: Any, **kwargs: Any) -> _T:
        return await to_thread(_call, function, *args, **kwargs)

    return in_thread


def _call(function: Callable[..., _T], /, *args: Any, **kwargs: Any) -> _T:
    before = _regions.follow(_regions.variable.get(None))
    try:
        return function(*args, **kwargs)
    finally:
        _regions.suspend(before)
