"""Tracing for Luigi: the I/O of every task is tagged with workflow, family, task and try.

    python -m tailrace.luigi --module flow Target --local-scheduler

or, in a program that calls luigi.build() itself:

    import tailrace.luigi
    tailrace.luigi.trace()

__main__.py   is `luigi`, with the tasks followed
tasks.py      the methods of Luigi's worker that run a task and tell its state
manager.py    for `tailrace managers`
"""

from typing import Any

__all__ = ["trace"]


def __getattr__(name: str) -> Any:
    if name == "trace":
        from tailrace.luigi.tasks import trace

        return trace
    raise AttributeError(f"module 'tailrace.luigi' has no attribute {name!r}")
