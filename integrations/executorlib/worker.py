"""A call as a worker gets it: with the tags of its task."""

import inspect
from collections.abc import Callable
from typing import Any

from tailrace.integrations.workflow import running


class Tagged:
    """Calls `function` in the scope of `tags`; looks like it, since the worker asks for its parameters."""

    def __init__(self, function: Callable[..., Any], tags: str) -> None:
        self.function = function
        self.tags = tags
        self.__signature__ = inspect.signature(function)
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __call__(self, /, *arguments: Any, **keywords: Any) -> Any:
        with running(self.tags):
            return self.function(*arguments, **keywords)

    def __str__(self) -> str:
        return str(self.function)
