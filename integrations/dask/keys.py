"""Dask's keys as stages and tasks.

    "load-1f0c...(32 digits)"  ->  stage load,      task the same,          for people: load-1f0c9a7e
    ("read-csv-9be2", 3)       ->  stage read-csv,  task ('read-csv-9be2', 3),  for people: read-csv 3

A task's name is what Dask itself shows and logs. A key that comes again (the same call after its result was forgotten)
is another task: with "~2" behind it, as files whose identity comes again.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from dask.utils import key_split

_TOKEN = re.compile(r"-([0-9a-f]{8})(?:[0-9a-f]{24}|-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})$")
"""Of arguments (MD5), or at random (UUID)."""
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


def readable(key: Any, stage: str, life: int = 1) -> str | None:
    """A short name of a collection's part, or of a key that ends in a token; None: the key itself is one."""
    if isinstance(key, tuple) and len(key) > 1:
        return f"{stage} {', '.join(map(str, key[1:]))}"
    name = task_of(key)
    short = _TOKEN.sub(r"-\1", name)
    return None if short == name else task_of(short, life)
