"""`python -m tailrace.luigi ARGUMENTS` is `luigi ARGUMENTS`, with the tasks followed."""

import logging
import sys

from luigi.cmdline import luigi_run

from tailrace.integrations.isolation import Isolation

_isolated = Isolation(logging.getLogger("tailrace.luigi"))

if __name__ == "__main__":
    sys.argv[0] = "luigi"
    with _isolated("follow Luigi's tasks"):
        from tailrace.luigi import trace

        trace(own_processes=True)
    luigi_run(sys.argv[1:])
