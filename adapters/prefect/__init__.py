"""Tracing for Prefect: the I/O of every task run is tagged with workflow, task, run and try.

import tailrace.prefect
tailrace.prefect.trace()

runs.py       what is replaced in the flow's process, and what is declared of each task run
manager.py    for `tailrace managers`
"""

from typing import Any

__all__ = ["trace"]


def __getattr__(name: str) -> Any:
    if name == "trace":
        from tailrace.prefect.runs import trace

        return trace
    raise AttributeError(f"module 'tailrace.prefect' has no attribute {name!r}")
