"""The tags of each try of a task, as canonical strings."""

from functools import lru_cache

from tailrace import tags as tag_strings

_LONGEST = str(2**63)
"""In the place of a number: what fits with it fits with every number."""


class TaskTags:
    """`base`, the canonical tags of all tasks, with a workflow, and a stage, task and try of its own for each.

    All tasks of a stage differ in two numbers only, so a stage's tags are checked and encoded once.
    """

    def __init__(self, base: str, workflow: str) -> None:
        self._base = tag_strings.merge(base, tag_strings.encode({"workflow": workflow}))
        # Bounded: a stage may be a callable's answer, another one for each task.
        self._form_of = lru_cache(maxsize=1024)(self._form)

    def of(self, stage: str, task: int, attempt: int) -> str:
        """Raises TagError when the stage breaks the rules of tags."""
        return self._form_of(stage) % (task, attempt)

    def _form(self, stage: str) -> str:
        numbers = {"task": _LONGEST, "try": _LONGEST}
        text = tag_strings.merge(self._base, tag_strings.encode({"stage": stage, **numbers}))
        pairs = [pair.partition("=") for pair in text.replace("%", "%%").split(",")]
        # In the canonical order `task`, which has a column of its own, comes before every free key.
        return ",".join(f"{key}={'%d' if key in numbers else value}" for key, _, value in pairs)
