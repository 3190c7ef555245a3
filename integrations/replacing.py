"""Functions of a manager that an adapter replaces, where the manager has no better place to follow its tasks.

    replace("Luigi 3.8.1", [Replaced(Worker, "run", ("self",), around), ...])

`around(original, *arguments, **keywords)` is called in the place of the original, and calls it. All are checked before
the first is replaced, so that a version that the adapter doesn't know is left as it is.
"""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from typing import Any


@dataclass(frozen=True)
class Replaced:
    """owner: a class or a module; parameters: that the function needs to have."""

    owner: Any
    name: str
    parameters: tuple[str, ...]
    around: Callable[..., Any]


def replace(manager: str, functions: Iterable[Replaced]) -> None:
    """Raises RuntimeError when one is not as it is known. manager: with its version, for the message."""
    known = list(functions)
    for one in known:
        found = getattr(one.owner, one.name, None)
        if not callable(found) or not set(one.parameters) <= set(inspect.signature(found).parameters):
            raise RuntimeError(f"{manager} has another {one.name} than those known")
    for one in known:
        setattr(one.owner, one.name, _replacement(getattr(one.owner, one.name), one.around))


def _replacement(original: Callable[..., Any], around: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def replaced(*arguments: Any, **keywords: Any) -> Any:
        return around(original, *arguments, **keywords)

    return replaced
