"""Follows toil's leader, which issues the jobs and starts a worker for each.

    Leader.run               the workflow, from its first job's issue to its last one's end
    resolveEntryPoint        the command of a worker: here one that follows its jobs (worker.py)

At the end it declares what no worker could: which task wrote the files that another one read, since each worker knows
its own only, and the end of a job whose worker was killed.

Invariants: what toil returns and raises is what it does untraced; a fault of ours is one warning.

A worker gets another program on one machine only, where it inherits the tracing: a container or another node may not
have this Python. Dependencies are declared here: each worker would have to read what all others declared, N jobs N²
files.
"""

import logging
import shlex
import sys
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any

from toil import leader

from tailrace.integrations.hashed_declarations import RecordedName
from tailrace.integrations.isolation import Isolation
from tailrace.integrations.replacing import Replaced, replace
from tailrace.integrations.workflow import Workflow
from tailrace.toil import places

_isolated = Isolation(logging.getLogger("tailrace.toil"))
_OWN = ("jobs", "job-files", "stats", "shared")
"""Folders of a job store; its others have the workflow's files."""
_HERE = "single_machine"
# As a program's, a worker's path has no working directory, where a file may have the name of a module.
_WORKER = "import sys; sys.path[:1] = filter(None, sys.path[:1]); from tailrace.toil.worker import main; main()"
_SEALING_S = 5.0


def follow(name: str) -> None:
    """Traces the workflow that this process runs, as workflow `name`. Raises RuntimeError for a version that isn't
    known."""
    workflow: Workflow | None = None

    def run(original: Callable[..., Any], self: Any) -> Any:
        nonlocal workflow
        with _isolated("trace a workflow"):
            workflow = _begun(name, self.config)
        try:
            return original(self)
        finally:
            if workflow is not None:
                with workflow.isolated("declare how tasks ended"):
                    _finish(workflow)
                workflow.close(wait_s=_SEALING_S)

    def resolve(original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        own = workflow is not None and workflow.active and "_toil_worker" in (*arguments, *keywords.values())
        words = [sys.executable, "-c", _WORKER, workflow.name] if own and workflow is not None else []
        return shlex.join(words) if own else original(*arguments, **keywords)

    known = [
        *places.replaced(_isolated),
        Replaced(leader.Leader, "run", ("self",), run),
        Replaced(leader, "resolveEntryPoint", ("entryPoint",), resolve),
    ]
    replace(f"toil {metadata.version('toil')}", known)


def _begun(name: str, config: Any) -> Workflow | None:
    if config.batchSystem != _HERE:
        raise RuntimeError(f"the workers of the batch system {config.batchSystem} are not known to be traced")
    store = str(config.jobStore).removeprefix("file:")
    own = [f"{store}/{folder}" for folder in _OWN] if store.startswith("/") else []
    return Workflow.begin("toil", metadata.version("toil"), name, attach=True, own_directories=own, own_processes=True)


def _finish(workflow: Workflow) -> None:
    """Dependencies, and the ends of tasks without one: their worker was killed, or no other try came."""
    workflow.flush()
    lines = [line for line in workflow.declared_lines() if "task" in line]
    tasks: dict[str, dict[str, Any]] = {}
    for line in lines:
        if line["type"] == "task":
            known = tasks.setdefault(line["task"], {**line, "inputs": [], "outputs": []})
            known["inputs"] += line["inputs"]
            known["outputs"] += line["outputs"]
    _declare_dependencies(workflow, tasks)
    ended = {line["task"] for line in lines if line["type"] == "end"}
    for task in tasks.keys() - ended:
        tries = [line for line in lines if line["type"] == "try" and line["task"] == task]
        last = max((line["try"] for line in tries), default=0)
        errors = [line["error"] for line in tries if line["try"] == last and line.get("error")]
        error = errors[0] if errors else "its worker was killed"
        workflow.ended(RecordedName(task), "failed" if errors else "killed", error=error, tries=last + 1)


def _declare_dependencies(workflow: Workflow, tasks: Mapping[str, Mapping[str, Any]]) -> None:
    """By files, and by values on all tasks of a step of which a task takes something that is no file of theirs."""
    writers = {file["path"]: task for task, line in tasks.items() for file in line["outputs"]}
    of_step: dict[str, list[str]] = {}
    for task, line in tasks.items():
        for step in line.get("steps", ()):
            of_step.setdefault(step, []).append(task)
    for task, line in tasks.items():
        files = {file["path"]: writers[file["path"]] for file in line["inputs"] if file["path"] in writers}
        deps = [{"task": RecordedName(one), "via": "file", "path": RecordedName(path)}
                for path, one in files.items() if one != task]  # fmt: skip
        for step in line.get("takes", ()):
            givers = [one for one in of_step.get(step, ()) if one != task]
            if set(files.values()).isdisjoint(givers):
                deps += [{"task": RecordedName(one), "via": "future"} for one in givers]
        if deps:
            own = {key: RecordedName(line[key]) for key in ("stage", "task", "kind", "name")}
            workflow.write("task", **own, deps=deps, inputs=[], outputs=[])
