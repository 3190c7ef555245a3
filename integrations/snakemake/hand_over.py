"""What the Snakemake that runs a workflow gives those that it starts for jobs, and what they tell it.

    driver ── environment variable (Orders) ──► spawned Snakemake ── a file in the run directory (Told) ──► driver

The driver sees a remote job end when it next asks for it, up to a minute late; who ran the job knows when it began and
ended, and why it failed. Not by lines of its own in the declared log, which would contradict the driver's. The file is
removed once it was read, and without one the driver's own times count.
"""

import base64
import contextlib
import json
import os
from collections.abc import Mapping, MutableMapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

VARIABLE = "TAILRACE_SNAKEMAKE"


@dataclass(frozen=True)
class Orders:
    """workflow: its name in this run; told: where to tell; jobids: of the driver, by task: a spawned Snakemake numbers
    its jobs anew."""

    workflow: str
    told: str
    jobids: Mapping[str, str] = field(default_factory=dict)

    def assignment(self) -> str:
        """NAME=VALUE for a shell; it has no character that a shell or a batch system's template acts on."""
        text = json.dumps(asdict(self)).encode()
        return f"{VARIABLE}={base64.urlsafe_b64encode(text).decode().rstrip('=')}"


def taken(environment: MutableMapping[str, str]) -> Orders | None:
    """The orders in `environment`, which are removed: the jobs' programs don't see them. None: there are none."""
    text = environment.pop(VARIABLE, "")
    try:
        return Orders(**json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))) if text else None
    except (ValueError, TypeError):
        return None


@dataclass(frozen=True)
class Told:
    """How a try (from 1) of a task ran, by who ran it. error: "" when it ended well."""

    task: str
    attempt: int
    t_start_ns: int
    t_end_ns: int
    error: str = ""


def tell(path: str, told: Told) -> None:
    """Adds a line. Raises OSError."""
    line = (json.dumps(asdict(told)) + "\n").encode("utf-8", "replace")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def heard(path: Path) -> dict[str, list[Told]]:
    """What was told, in order, by task; removes the file. A spawned Snakemake repeats jobs of rules with `retries`."""
    found: dict[str, list[Told]] = {}
    with contextlib.suppress(OSError, ValueError, TypeError):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            told = Told(**json.loads(line))
            found.setdefault(told.task, []).append(told)
    with contextlib.suppress(OSError):
        path.unlink()
    return found
