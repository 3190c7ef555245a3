"""At the end of a Flux instance: writes its job history to the runs of its traced jobs (`tailrace flux collect`).

Found by FLUX_MODPROBE_PATH_APPEND, or in Flux's etc/flux/modprobe. It runs on rank 0, before the instance is taken
down. Without a traced job it does nothing. A failure is a line on stderr and never keeps an instance from ending.
The `tailrace` command is $TAILRACE_COMMAND, else that of this installation, else the one on PATH.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from flux.job import JournalConsumer
from flux.modprobe import task

TIMEOUT_S = 300


@task("tailrace-collect", ranks="0", before=["*"])  # type: ignore[misc]
def collect(context: Any) -> None:
    """Runs `tailrace flux collect` if this instance had a traced job."""
    try:
        if traced_jobs(context.handle):
            subprocess.run([tailrace_command(), "flux", "collect", "--quiet"], timeout=TIMEOUT_S, check=True)
    except Exception as error:
        sys.stderr.write(f"tailrace: the history of this instance's jobs was not collected: {error}\n")


def traced_jobs(handle: Any) -> bool:
    """Whether a job has the jobtap plugin's event, or asks to be traced, which the shell plugin follows without it."""
    consumer = JournalConsumer(handle, full=True, include_sentinel=True).start()
    while True:
        event = consumer.poll(timeout=60.0)
        if event is None or event.is_empty():
            consumer.stop()
            return False
        if event.name == "tailrace.trace" or is_request(event.jobspec):
            consumer.stop()
            return True


def is_request(jobspec: Any) -> bool:
    """Whether the jobspec, or None, asks for tracing (attributes.user.trace)."""
    for key in ("attributes", "user", "trace"):
        jobspec = jobspec.get(key) if isinstance(jobspec, dict) else None
    return jobspec is True or isinstance(jobspec, dict)


def tailrace_command() -> str:
    """The command; its bare name if none is found, so that the error says what is missing."""
    beside = (str(parent / "bin" / "tailrace") for parent in Path(__file__).absolute().parents)
    given = os.environ.get("TAILRACE_COMMAND")
    return given or next(filter(os.path.isfile, beside), None) or shutil.which("tailrace") or "tailrace"
