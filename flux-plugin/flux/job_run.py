"""Finds the run of a Flux job, for `tailrace report JOBID`: asks the surrounding instance by the `flux` command."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from tailrace.errors import ManagerError, RunError
from tailrace.flux.collect import find_flux
from tailrace.flux.declared_jobs import run_of

_JOB_ID = re.compile(r"(ƒ|f)[1-9A-HJ-NP-Za-km-z]{1,12}|0x[0-9a-fA-F]{1,16}|[0-9]{1,20}")
_TIMEOUT_S = 60


def is_job_id(text: str) -> bool:
    """Whether `text` has one of the forms of a Flux job id: f58, in UTF-8 or plain, decimal, hexadecimal."""
    return _JOB_ID.fullmatch(text) is not None


def find_run(job_id: str) -> Path:
    """The run directory of a job of the surrounding instance. Raises ManagerError; RunError for an untraced job."""
    flux = find_flux()
    events = [json.loads(line) for line in _ask(flux, "job", "info", job_id, "eventlog").splitlines() if line]
    # The shell's own word: a template may have parts that only it can fill.
    memos = [event.get("context", {}).get("trace") for event in events if event["name"] == "memo"]
    told = [memo["run"] for memo in memos if isinstance(memo, dict) and isinstance(memo.get("run"), str)]
    # Of an instance that failed there is no memo.
    told = told or [_ask(flux, "jobs", "-no", "{user.trace.run}", job_id).strip()]
    job: dict[str, Any] = {
        "id": _ask(flux, "job", "id", "--to=f58", job_id).strip(),
        "number": int(_ask(flux, "job", "id", "--to=dec", job_id)),
        "events": events,
        "jobspec": json.loads(_ask(flux, "job", "info", job_id, "jobspec")),
    }
    run = Path(told[-1]) if told[-1] else run_of(job)
    if run is None:
        raise RunError(f"Flux job {job_id} has no run: it was not traced (flux submit --trace)")
    return run


def _ask(flux: Path, *words: str) -> str:
    try:
        done = subprocess.run(
            [str(flux), *words], capture_output=True, check=False, timeout=_TIMEOUT_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ManagerError(f"can't ask Flux: {error}") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise ManagerError(said[-1] if said else f"`flux {' '.join(words)}` ended with {done.returncode}")
    return done.stdout.decode("utf-8", "replace")
