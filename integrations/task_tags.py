"""The tags of each try of a task, as canonical strings; names of managers as values of tags."""

import hashlib
import re
from functools import lru_cache

from tailrace import tags as tag_strings

MOST_BYTES = 1024
"""Of a tag's value (docs/trace-format.md, "Tags")."""
_PLAIN = re.compile(r"[A-Za-z0-9_.:/@+-]{1,64}")
"""Values that are written as they are, and can't be too long for that."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_UNNAMED = "-"


def tag_value(name: object) -> str:
    """A manager's name of a task or stage as a tag's value: the name itself wherever the rules of tags permit it.

    A control character and what is no UTF-8 become escapes (`\\n`), a longer name is cut and ends in a hash of the
    whole, so that names that differ stay different; "" becomes "-".
    """
    text = str(name)
    if _PLAIN.fullmatch(text):
        return text
    text = _CONTROL.sub(_escaped, text).encode("utf-8", "backslashreplace").decode()
    data = text.encode()
    if len(data) > MOST_BYTES:
        end = "~" + hashlib.sha256(data).hexdigest()[:16]
        text = data[: MOST_BYTES - len(end)].decode("utf-8", "ignore") + end
    return text or _UNNAMED


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


class TaskTags:
    """`base`, the canonical tags of all tasks, with a workflow, and a stage, task and try of its own for each.

    Tasks of a stage differ in their names and tries only, so a stage's tags are checked and encoded once.
    """

    def __init__(self, base: str, workflow: str) -> None:
        self._base = tag_strings.merge(base, tag_strings.encode({"workflow": workflow}))
        # Bounded: a stage may be a callable's answer, another one for each task.
        self._form_of = lru_cache(maxsize=1024)(self._form)

    def of(self, stage: str, task: object, attempt: int = 0) -> str:
        """Raises TagError when the stage, or all tags together, break the rules of tags."""
        name = tag_value(task)
        form = self._form_of(stage)
        if _PLAIN.fullmatch(name):
            return form % (name, attempt)
        own = tag_strings.encode({"stage": stage, "task": name, "try": attempt})
        return tag_strings.merge(self._base, own)

    def of_none(self) -> str:
        """The tags of what belongs to no task: the manager's own processes."""
        return self._base

    def _form(self, stage: str) -> str:
        # What fits with the longest of the plain names fits with all of them.
        longest = {"task": "x" * 64, "try": str(2**63)}
        text = tag_strings.merge(self._base, tag_strings.encode({"stage": stage, **longest}))
        pairs = [pair.partition("=") for pair in text.replace("%", "%%").split(",")]
        # In the canonical order `task`, which has a column of its own, comes before every free key.
        return ",".join(f"{key}={_PLACES.get(key, value)}" for key, _, value in pairs)


_PLACES = {"task": "%s", "try": "%d"}
