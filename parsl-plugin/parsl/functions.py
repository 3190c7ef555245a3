"""The functions that a task's function wraps: those of Parsl's decorators and staging, and in the end the user's own.

python app   timeout -> wrap_error -> user's            `__wrapped__`
bash app     wrap_error -> partial(remote_side_bash_executor, user's)
either       in-task staging around it                  a closure over `func`
"""

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

from parsl.app.bash import remote_side_bash_executor

_MOST = 32
"""Wrappers; each file that a task stages itself adds one."""


_MOST_REMEMBERED = 1024
_remembered: dict[int, tuple[Any, ...]] = {}
"""id() of a function -> itself, so that no other one gets this id, and its layers. Not a cache by equality, which may
be the user's code."""


def wrapped(function: Any) -> tuple[Any, ...]:
    """`function`, what it wraps, what that wraps, ..."""
    found = _remembered.get(id(function))
    if found is None:
        if len(_remembered) >= _MOST_REMEMBERED:
            _remembered.clear()
        found = _remembered[id(function)] = tuple(islice(_layers(function), _MOST))
    return found


def users_own(function: Any) -> Any:
    """The function that the user decorated."""
    return wrapped(function)[-1]


def is_bash(function: Any) -> bool:
    """Whether a task's function is a bash app's."""
    return any(isinstance(one, partial) and one.func is remote_side_bash_executor for one in wrapped(function))


def _layers(function: Any) -> Iterator[Any]:
    while function is not None:
        yield function
        if isinstance(function, partial):
            function = function.args[0] if function.func is remote_side_bash_executor else None
        else:
            function = getattr(function, "__wrapped__", None) or _enclosed(function)


def _enclosed(function: Any) -> Any:
    """The `func` that a wrapper of Parsl's own closes over, where it has no `__wrapped__`."""
    code = getattr(function, "__code__", None)
    if code is None or "func" not in code.co_freevars or not str(function.__module__).startswith("parsl."):
        return None
    return function.__closure__[code.co_freevars.index("func")].cell_contents
