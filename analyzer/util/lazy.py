"""Libraries that are imported at the first use of one of their names.

pandas, pyarrow and Dask take longer to import than most commands take to answer. A module that a command may import
without using them gets them from here (Scientific Python's SPEC 1); mypy sees the real module:

    if TYPE_CHECKING:
        import pandas as pd
    else:
        pd = lazy("pandas")
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any


def lazy(name: str) -> ModuleType:
    """A stand-in for the module `name`; nothing is imported now."""
    return _Lazy(name)


class _Lazy(ModuleType):
    """Not importlib.util.LazyLoader, whose unfinished module everyone else would import, too."""

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(self.__name__), attribute)
        setattr(self, attribute, value)  # found without this function next time
        return value
