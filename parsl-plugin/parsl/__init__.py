"""Tracing for Parsl: the I/O of every task and its processes is tagged with workflow, stage, task and try.

    import parsl
    from tailrace.parsl import trace

    parsl.load(trace(config))

    plugin.py     trace(): combines the parts; a fault never stops the workflow
    executors.py  traces the workers: the pool's launch command, each executor's submit
    flux_jobs.py  traces the jobs of Parsl's FluxExecutor
    memoizer.py   hooks into the DataFlowKernel at each task's launch and end
    stages.py     @stage("align"): an app's stage
    task_log.py   the keys of a task's declared lines, from its Parsl record
    arguments.py  a task's arguments as text
    functions.py  what a task's function wraps
    task_outcome.py  how a task ended, from its exception
    call.py       runs a task's function on the worker, in its context
    demo.py       a small workflow on real text, for `tailrace demo`

A worker imports this package to unpickle TracedCall, so everything else is imported on first use.
"""

from typing import TYPE_CHECKING

from tailrace.integrations.lazy_names import on_first_use

if TYPE_CHECKING:
    from tailrace.parsl.plugin import trace
    from tailrace.parsl.stages import stage

__all__ = ["stage", "trace"]
__getattr__ = on_first_use(__name__, {"stage": "stages", "trace": "plugin"})
