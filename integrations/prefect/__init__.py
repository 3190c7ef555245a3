"""Tracing for Prefect: the I/O of every task run is tagged with workflow, task, run and try.

import tailrace.prefect
tailrace.prefect.trace()

runs.py       what is replaced in the flow's process, and what is declared of each task run
"""

from tailrace.integrations.lazy_names import on_first_use

__all__ = ["trace"]
__getattr__ = on_first_use(__name__, {"trace": "runs"})
