"""Tracing for executorlib: the I/O of every call is tagged with workflow, function, call and try.

    import tailrace.executorlib
    tailrace.executorlib.trace()

    calls.py      what is replaced in the program's process, and what is declared of each call
    worker.py     a call with its tags, as it is sent to a worker

Every worker imports this package, so the rest is imported on first use.
"""

from tailrace.integrations.lazy_names import on_first_use

__all__ = ["trace"]
__getattr__ = on_first_use(__name__, {"trace": "calls"})
