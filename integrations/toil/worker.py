"""`_toil_worker` with the jobs followed. Its arguments are the workflow's name, and then toil's."""

import logging
import sys

from toil import worker

from tailrace.integrations.isolation import Isolation

_isolated = Isolation(logging.getLogger("tailrace.toil"))


def main() -> None:
    """Ends the process, as toil's does."""
    name = sys.argv.pop(1)
    sys.argv[0] = "_toil_worker"
    with _isolated("follow toil's jobs"):
        from tailrace.toil import jobs

        jobs.follow(name)
    sys.exit(worker.main())
