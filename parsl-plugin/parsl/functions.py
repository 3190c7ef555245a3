"""The functions that a task's function wraps: those of Parsl's decorators and staging, and in the end the user's own.

python app   timeout -> wrap_error -> user's            `__wrapped__`
bash app     wrap_error -> partial(remote_side_bash_executor, user's)
either       in-task staging around it                  a closure over `func`
"""

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from parsl.app.bash import remote_side_bash_executor

_MOST = 32
"""Wrappers; each file that a task stages itself adds one."""


_MOST_REMEMBERED = 1024


class Function(NamedTuple):
    """A task's function: `wrapped`, itself, what it wraps, what that wraps, ..., and whether it is a bash app's."""

    wrapped: tuple[Any, ...]
    is_bash: bool


_remembered: dict[int, Function] = {}
"""By id(), which no other object gets while `wrapped` has the function. A cache by equality may run the user's code."""


def described(function: Any) -> Function:
    """What is known of a task's function."""
    found = _remembered.get(id(function))
    if found is None:
        layers = tuple(islice(_layers(function), _MOST))
        is_bash = any(isinstance(one, partial) and one.func is remote_side_bash_executor for one in layers)
        if len(_remembered) >= _MOST_REMEMBERED:
            _remembered.clear()
        found = _remembered[id(function)] = Function(layers, is_bash)
    return found


def users_own(function: Any) -> Any:
    """The function that the user decorated."""
    return described(function).wrapped[-1]


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
