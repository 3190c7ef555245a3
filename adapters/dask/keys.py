"""Dask's keys as stages and tasks.

    "load-1f0c"                ->  stage load,      task load-1f0c
    ("read-csv-9be2", 3)       ->  stage read-csv,  task ('read-csv-9be2', 3),  for people: read-csv 3

A task's name is what Dask itself shows and logs. A key that comes again (the same call after its result was forgotten)
is another task: with "~2" behind it, as files whose identity comes again.
"""

from collections.abc import Callable, Mapping
from typing import Any

from dask.utils import key_split

StageNames = Callable[[Any], str | None] | Mapping[str, str] | None
ANNOTATION = "tailrace"
"""Of a task that is not at its first try: [which life of its key, from 1; which try, from 0]."""


def stage_of(key: Any, names: StageNames = None) -> str:
    """What Dask calls the prefix of a key, or what `names` makes of it: a mapping of prefixes, or a callable that takes
    the key."""
    prefix = str(key_split(key))
    if names is None:
        return prefix
    named = names(key) if callable(names) else names.get(prefix)
    return prefix if named is None else str(named)


def task_of(key: Any, life: int = 1) -> str:
    """The task tag."""
    name = key if isinstance(key, str) else str(key)
    return name if life == 1 else f"{name}~{life}"


def readable(key: Any, stage: str) -> str | None:
    """A short name of a collection's part; None: the key says more."""
    if isinstance(key, tuple) and len(key) > 1:
        return f"{stage} {', '.join(map(str, key[1:]))}"
    return None
