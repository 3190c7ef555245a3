"""`python -m tailrace.toil ARGUMENTS` is `toil-cwl-runner ARGUMENTS`, with the jobs followed."""

import logging
import sys

from toil.cwl import cwltoil

from tailrace.integrations.isolation import Isolation
from tailrace.integrations.programs import document_name

_isolated = Isolation(logging.getLogger("tailrace.toil"))

if __name__ == "__main__":
    sys.argv[0] = "toil-cwl-runner"
    with _isolated("follow toil"):
        from tailrace.toil import leader

        leader.follow(document_name(sys.argv[1:], "cwl"))
    sys.exit(cwltoil.main())
