"""Tracing for Ray: the I/O of every task and actor call is tagged with workflow, function, task and try.

    import tailrace.ray
    tailrace.ray.trace()

    calls.py      what is replaced in the program's process and in workers that submit tasks, and what is declared
    worker.py     what Ray's workers import at their start: the scope of each task, its tries and its end
    ends.py       how those tasks ended that no worker could tell of
    names.py      names of tasks, and how the program tells its workers the workflow's

Every worker imports this package, so the rest is imported on first use.
"""

from tailrace.integrations.lazy_names import on_first_use

__all__ = ["trace"]
__getattr__ = on_first_use(__name__, {"trace": "calls"})
