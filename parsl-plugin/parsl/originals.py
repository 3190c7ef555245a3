"""The attributes of executors as they were before tailrace first changed them, kept on the instance."""

from typing import Any

from parsl.executors.base import ParslExecutor

_ORIGINALS = "_tailrace_originals"


def original(executor: ParslExecutor, name: str) -> Any:
    """The attribute as it was, so that a configuration can be traced again."""
    kept: dict[str, Any] = executor.__dict__.setdefault(_ORIGINALS, {})
    return kept.setdefault(name, getattr(executor, name))
