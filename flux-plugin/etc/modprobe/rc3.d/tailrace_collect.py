"""At the end of a Flux instance: writes its job history to the runs of its traced jobs (`tailrace flux collect`).

systemd gives a broker 90 s to stop, then kills it: so this ends within $TAILRACE_COLLECT_SECONDS, default 60, and
leaves the rest for a later collect, which can read the history of a system instance when it runs again.

Found by FLUX_MODPROBE_PATH_APPEND, or in Flux's etc/flux/modprobe. It runs on rank 0, before the instance is taken
down. Without a traced job it does nothing. A failure is a line on stderr and never keeps an instance from ending.
The `tailrace` command is $TAILRACE_COMMAND, else that of this installation, else the one on PATH.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from flux.job import JournalConsumer
from flux.modprobe import task

TIME_S = 60.0
# The command gets less, to end by itself and say what it left.
REST_S = 5.0


@task("tailrace-collect", ranks="0", before=["*"])  # type: ignore[misc]
def collect(context: Any) -> None:
    """Runs `tailrace flux collect` if this instance had a traced job."""
    try:
        end = time.monotonic() + float(os.environ.get("TAILRACE_COLLECT_SECONDS") or TIME_S)
        if traced_jobs(context.handle, end):
            left = end - time.monotonic()
            words = ["flux", "collect", "--quiet", "--within={:.1f}".format(max(left - REST_S, left / 2))]
            subprocess.run([tailrace_command(), *words], timeout=left, check=True)
    except Exception as error:
        sys.stderr.write(f"tailrace: the history of this instance's jobs was not collected: {error}\n")


def traced_jobs(handle: Any, end: float) -> bool:
    """Whether a job has the jobtap plugin's event, or asks to be traced, which the shell plugin follows without it.

    Raises TimeoutError at `end` (of time.monotonic()).
    """
    consumer = JournalConsumer(handle, full=True, include_sentinel=True).start()
    try:
        while True:
            event = consumer.poll(timeout=max(end - time.monotonic(), 0.1))
            if event is None or event.is_empty():
                return False
            if event.name == "tailrace.trace" or is_request(event.jobspec):
                return True
            if time.monotonic() > end:
                raise TimeoutError("the job manager's journal is too long: run `tailrace flux collect` later")
    finally:
        consumer.stop()


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
