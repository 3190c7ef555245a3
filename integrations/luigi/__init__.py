"""Tracing for Luigi: the I/O of every task is tagged with workflow, family, task and try.

    python -m tailrace.luigi --module flow Target --local-scheduler

or, in a program that calls luigi.build() itself:

    import tailrace.luigi
    tailrace.luigi.trace()

__main__.py   is `luigi`, with the tasks followed
tasks.py      the methods of Luigi's worker that run a task and tell its state
"""

from tailrace.integrations.lazy_names import on_first_use

__all__ = ["trace"]
__getattr__ = on_first_use(__name__, {"trace": "tasks"})
