"""Declared lines of a run whose names are hashed (tailrace.hashed_names).

Invariant: of a text nothing stays as it is, unless `_PLAIN` has its key or the hashing itself keeps it. So what an
adapter adds is hashed without a change here.
"""

import os
import re
from collections.abc import Mapping
from typing import Any

from tailrace.hashed_names import HashedNames

HIDDEN = "[redacted]"
_PLAIN = frozenset({"type", "manager", "version", "kind", "status", "via", "host", "nodes", "ranks", "user"})
"""Words of managers and of docs/declared-dag.md, and what run.json has, too: hosts and users."""
_TAGS = {"parent": "task", "awaited": "task", "also": "task", "after": "task", "parent_workflow": "workflow"}
"""Keys whose values are names of other tasks -> the tag that such a name is."""
_OWN_TAGS = frozenset({"workflow", "stage", "task", "job"})
_LEFT_OUT = frozenset({"arguments"})
_HIDDEN = frozenset({"error"})
"""Sentences: of their words no one could be found again."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_FILE_URL = "file://"
_DIRECTORIES = frozenset({"own_directories", "run_dir"})
"""A file belongs to one of them if its path begins with that of the directory. Paths in the trace have no links."""


class RecordedName(str):
    """A name that was read in the run's own files, where it is as a line is to have it."""


def hashed(line: Mapping[str, Any], names: HashedNames) -> dict[str, Any]:
    """The line as the run may have it."""
    return {_key(key, names): _value(key, value, names) for key, value in line.items() if key not in _LEFT_OUT}


def _key(key: object, names: HashedNames) -> str:
    text = str(key)
    return text if _NAME.fullmatch(text) else names.text(text)


def _value(key: object, value: Any, names: HashedNames) -> Any:
    if value is None or isinstance(value, bool | int | float | RecordedName):
        return value
    if isinstance(value, Mapping):
        return hashed(value, names)
    if isinstance(value, list | tuple | set | frozenset):
        return [_value(key, one, names) for one in value]
    return _text(str(key), str(value), names)


def _text(key: str, text: str, names: HashedNames) -> str:
    if key in _PLAIN:
        return text
    if key in _HIDDEN:
        return HIDDEN
    if key in _OWN_TAGS or key in _TAGS:
        return names.tag(_TAGS.get(key, key), text)
    if key == "url" and text.startswith(_FILE_URL):
        return _FILE_URL + names.path(text.removeprefix(_FILE_URL))
    if key in _DIRECTORIES:
        text = os.path.realpath(text)
    return names.path(text) if text.startswith("/") else names.text(text)
