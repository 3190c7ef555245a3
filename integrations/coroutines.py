"""The scope of a task that is a coroutine."""

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from tailrace import context


class Stepwise:
    """Awaits a coroutine in the context of `tags`: entered for each of its steps, and left before each await, since
    other coroutines run in its thread meanwhile."""

    def __init__(self, coroutine: Any, tags: str) -> None:
        self._coroutine = coroutine
        self._tags = tags

    def __await__(self) -> Generator[Any, Any, Any]:
        step: Callable[[], Any] = partial(self._coroutine.send, None)
        while True:
            with context.entered(self._tags, finish=False):
                try:
                    awaited = step()
                except StopIteration as result:
                    return result.value
            try:
                step = partial(self._coroutine.send, (yield awaited))
            except BaseException as error:
                step = partial(self._coroutine.throw, error)
