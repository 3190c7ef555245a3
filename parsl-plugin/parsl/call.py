"""What a worker runs in place of a task's function: the function, in the context that the task's tags name.

A class of this module and not a wrapping closure: Parsl pickles a closure with the globals of its module, and anew for
every task, at 1.7 ms each. Two TracedCalls of one function are equal, so Parsl's cache of pickled functions works as
it does untraced. The tags travel as a keyword argument, beside the function and not in it.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from tailrace import context

TAGS_KEYWORD = "_tailrace_tags"


class TracedCall:
    """Calls `func`; with TAGS_KEYWORD (canonical tags) among the keywords, under these tags."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func
        # Parsl names functions in its messages.
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
    """The TracedCall of `func`, the same object for the same function: Work Queue caches functions by id()."""
    try:
        return _remembered(func)
    except TypeError:  # unhashable
        return TracedCall(func)
