"""The callable that a worker runs in place of a task's function: the function, under the task's tags.

A class, not a closure: Parsl pickles a closure with the globals of its module, again for every task, at 1.7 ms each.
Two TracedCalls of one function are equal, so Parsl's cache of pickled functions works as without tracing. The tags are
a keyword argument of the call, not part of the pickled function.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from tailrace import context

TAGS_KEYWORD = "_tailrace_tags"


class TracedCall:
    """Calls `func` under the canonical tags in the keyword argument TAGS_KEYWORD, if present."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func
        # Parsl's messages name functions.
        self.__name__ = getattr(func, "__name__", type(func).__name__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with context.entered(kwargs.pop(TAGS_KEYWORD, "")):
            return self.func(*args, **kwargs)

    def __reduce__(self) -> tuple[type["TracedCall"], tuple[Callable[..., Any]]]:
        return TracedCall, (self.func,)

    def __hash__(self) -> int:
        return hash(self.func)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TracedCall) and self.func == other.func


@lru_cache(maxsize=1024)
def _remembered(func: Callable[..., Any]) -> TracedCall:
    return TracedCall(func)


def traced_call(func: Callable[..., Any]) -> TracedCall:
    """The TracedCall of `func`, the same object for the same function, because Work Queue caches by id()."""
    try:
        return _remembered(func)
    except TypeError:  # unhashable
        return TracedCall(func)
