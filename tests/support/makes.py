"""Traced makes, and what their runs have declared."""

from pathlib import Path
from typing import Any

import tailrace
from support.commands import run_cli
from support.harm import active_environment


def traced(folder: Path, run: Path, *words: str, code: int = 0, **variables: str) -> str:
    """What a traced make in the folder says, which must end with that exit code."""
    command = ["make", "-f", "Makefile", "-f", run_cli("adapter", "make").stdout.strip(), *words]
    environment = {**active_environment(), **variables}
    done = run_cli("run", "-q", "-o", run, "--", *command, cwd=folder, env=environment)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def tasks_of(run: Path) -> dict[str, dict[str, Any]]:
    """Of each task that ran its stage, dependencies, inputs and outputs."""
    opened = tailrace.open(run)
    found: dict[str, dict[str, Any]] = {
        row["task"]: {"stage": row["stage"], "deps": [], "inputs": [], "outputs": []}
        for row in opened.declared_tasks.to_dict("records")
    }
    for row in opened.declared_deps.to_dict("records"):
        found[row["task"]]["deps"].append(row["dep"])
    for row in opened.declared_files.to_dict("records"):
        found[row["task"]]["inputs" if row["direction"] == "r" else "outputs"].append(row["path"])
    return found
