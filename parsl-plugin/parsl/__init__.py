"""Tracing for Parsl: every task's I/O, and that of all it starts, carries workflow, stage, task and try.

    import parsl
    from tailrace.parsl import trace

    parsl.load(trace(config))

    plugin.py     trace(): puts the parts together, never at the workflow's expense
    executors.py  the way to the workers: the pool's launch command, each executor's submit
    memoizer.py   the way into the DataFlowKernel: sees each task at launch and at its end
    declare.py    a task record as lines of the declared DAG
    call.py       what runs on the worker, around the task's function
    demo.py       a small workflow on real text, for `tailrace demo`

A worker imports this package to unpickle TracedCall, so nothing is loaded before it is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailrace.parsl.plugin import trace

__all__ = ["trace"]


def __getattr__(name: str) -> Any:
    if name == "trace":
        return import_module("tailrace.parsl.plugin").trace
    raise AttributeError(f"module 'tailrace.parsl' has no attribute {name!r}")
