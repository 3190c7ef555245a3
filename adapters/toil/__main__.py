"""`python -m tailrace.toil ARGUMENTS` is `toil-cwl-runner ARGUMENTS`, with the jobs followed."""

import logging
import sys
from pathlib import Path

from toil.cwl import cwltoil

from tailrace.integrations.isolation import Isolation

_isolated = Isolation(logging.getLogger("tailrace.toil"))

if __name__ == "__main__":
    sys.argv[0] = "toil-cwl-runner"
    with _isolated("follow toil"):
        from tailrace.toil import leader

        documents = [word for word in sys.argv[1:] if Path(word.partition("#")[0]).is_file()]
        leader.follow(Path(documents[0].partition("#")[0]).stem if documents else "cwl")
    sys.exit(cwltoil.main())
