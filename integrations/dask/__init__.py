"""Tracing for Dask distributed: the I/O of every task is tagged with workflow, stage, task and try.

    from dask.distributed import Client
    from tailrace.dask import trace

    client = trace(Client(...))

    tracing.py    trace(): the run directory, and the plugins of the scheduler, the workers and the nannies
    workers.py    runs each task in its context, wherever a worker runs it
    scheduler.py  declares tasks, dependencies, tries and ends
    keys.py       Dask's keys as stages and tasks
    preload.py    dask_setup: the same by Dask's configuration, without a line in the program

Every worker imports this package, so everything else is imported on first use.
"""

from typing import TYPE_CHECKING

from tailrace.integrations.lazy_names import on_first_use

if TYPE_CHECKING:
    from tailrace.dask.preload import dask_setup
    from tailrace.dask.tracing import trace

__all__ = ["dask_setup", "trace"]
__getattr__ = on_first_use(__name__, {"trace": "tracing", "dask_setup": "preload"})
