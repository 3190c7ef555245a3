"""`python -m tailrace.cwl ARGUMENTS` is `cwltool ARGUMENTS`, with the jobs followed."""

import logging
import sys

from cwltool import main

from tailrace.integrations.isolation import Isolation
from tailrace.integrations.programs import document_name

_isolated = Isolation(logging.getLogger("tailrace.cwltool"))

if __name__ == "__main__":
    sys.argv[0] = "cwltool"
    with _isolated("follow cwltool"):
        from tailrace.cwl import jobs

        jobs.follow(document_name(sys.argv[1:], "cwl"))
    sys.exit(main.run())
