"""`python -m tailrace.cwl ARGUMENTS` is `cwltool ARGUMENTS`, with the jobs followed."""

import logging
import sys
from pathlib import Path

from cwltool import main

from tailrace.integrations.isolation import Isolation

_isolated = Isolation(logging.getLogger("tailrace.cwltool"))

if __name__ == "__main__":
    sys.argv[0] = "cwltool"
    with _isolated("follow cwltool"):
        from tailrace.cwl import jobs

        documents = [word for word in sys.argv[1:] if Path(word.partition("#")[0]).is_file()]
        jobs.follow(Path(documents[0].partition("#")[0]).stem if documents else "cwl")
    sys.exit(main.run())
