"""What is known to be missing of a trace."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Loss:
    """A row of `run.losses`. `file` is relative to the run, or to the root of another tracer's trace."""

    file: str
    cause: str
    unit: str
    count: int
    problem: str = ""
