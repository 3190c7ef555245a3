"""trace(): the tasks of a Dask client's cluster are traced.

    client's process       the run directory; attached, since LocalCluster's scheduler and threads are here
    scheduler's process    TaskDeclarations
    each worker's process  TaskScopes; attached where it wasn't started traced
    each nanny's process   SealAtExit

Wrong tags raise; any other fault is one warning, and the program runs untraced.
"""

import atexit
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import distributed
from distributed import Client, Nanny, NannyPlugin

from tailrace import tags as tag_strings
from tailrace.dask.keys import StageNames
from tailrace.dask.scheduler import TaskDeclarations
from tailrace.dask.workers import Followed, TaskScopes, why_unknown, why_untraced
from tailrace.errors import TagError
from tailrace.integrations import environment
from tailrace.integrations.workflow import Workflow, seal

_log = logging.getLogger("tailrace.dask")
_PER_TASK_TAGS = ("workflow", "stage", "task", "try")
_WORKERS_END_WAIT_S = 2.0
"""How long the end of a program that nobody else seals for waits for workers of this node to end."""
C = TypeVar("C", bound=Client)


def trace(
    client: C,
    run_dir: str | Path | None = None,
    workflow: str | None = None,
    tags: Mapping[str, str | int] | None = None,
    stage: StageNames = None,
) -> C:
    """Traces the tasks of a client's cluster, and returns the client: `client = trace(Client(...))`. With an
    asynchronous client: `await trace(client)`.

    run_dir: the run directory; the workers and the scheduler must reach it. Default: that of the surrounding `tailrace
        run`, else a new one under ./tailrace-runs.
    workflow: the workflow's name. Default: the program's.
    tags: further tags of every task.
    stage: a task's stage: a mapping from key prefixes, or a callable that takes the key. Default, also when it returns
        None: the key's prefix.

    Workers that join later are traced, too. Raises TagError when a tag breaks the rules. When tracing is impossible, or
    for some workers, logs a warning.
    """
    taken = [key for key in _PER_TASK_TAGS if key in (tags or {})]
    if taken:
        raise TagError(f"tag {taken[0]!r} is set for each task: name the workflow with workflow=, stages with stage=")
    tag_strings.encode({**(tags or {}), **({} if workflow is None else {"workflow": workflow})})
    return client.sync(_traced, client, run_dir, workflow or _program_name(), tags, stage)


async def _traced(
    client: C, run_dir: str | Path | None, name: str, tags: Mapping[str, str | int] | None, stages: StageNames
) -> C:
    try:
        fault = why_unknown()
        if fault is None:
            fault = await _follow(client, run_dir, name, tags, stages)
    except Exception as error:
        fault = (
            f"{type(error).__name__}: {error}: the scheduler and the workers need this version of tailrace where they"
            " run"
        )
    if fault is not None:
        _log.warning("tailrace: this program's tasks are not traced: %s", fault)
    return client


async def _follow(
    client: Client, run_dir: str | Path | None, name: str, tags: Mapping[str, str | int] | None, stages: StageNames
) -> str | None:
    """What keeps the tasks from being traced; None when nothing does."""
    already, config = await client.run_on_scheduler(_look)
    if already is not None:
        same = run_dir is None or Path(run_dir).expanduser().resolve() == Path(already).resolve()
        return None if same else f"the cluster's tasks are traced into {already} already"
    workflow = Workflow.begin(
        "dask", distributed.__version__, name, run_dir=run_dir, attach=True, tags=tags, config=config
    )
    if workflow.directory is None:
        return None  # that was said
    followed = Followed(str(workflow.directory), workflow.name, workflow.base_tags, stages)
    await client.register_plugin(TaskDeclarations(followed))
    await client.register_plugin(SealAtExit(followed.directory))
    await client.register_plugin(TaskScopes(followed))
    if environment.is_attached():
        atexit.register(workflow.close, _WORKERS_END_WAIT_S)
    _warn_of_untraced(await client.run(why_untraced), followed.directory)
    return None


def _warn_of_untraced(faults: Mapping[str, str | None], directory: str) -> None:
    reasons: dict[str, list[str]] = {}
    for worker, fault in faults.items():
        if fault is not None:
            reasons.setdefault(fault, []).append(worker)
    for fault, workers in reasons.items():
        _log.warning(
            "tailrace: the tasks of %d of %d workers are not traced (%s): %s; start them with `tailrace run -o %s --"
            " dask worker ...`",
            len(workers),
            len(faults),
            ", ".join(workers[:3]) + (", ..." if len(workers) > 3 else ""),
            fault,
            directory,
        )


def _look(dask_scheduler: Any) -> tuple[str | None, dict[str, Any]]:
    """For run_on_scheduler: the run directory that the scheduler's tasks are declared in; the cluster."""
    plugin = dask_scheduler.plugins.get(TaskDeclarations.name)
    cluster = {
        "scheduler": dask_scheduler.address,
        "workers": len(dask_scheduler.workers),
        "threads": dask_scheduler.total_nthreads,
        "host_python": sys.executable,
    }
    return plugin.followed.directory if isinstance(plugin, TaskDeclarations) else None, cluster


def _program_name() -> str:
    script = Path(sys.argv[0]) if sys.argv else Path()
    name = script.parent.name if script.stem == "__main__" else script.stem
    return name if name not in ("", "-c", "-m") else "dask"


class SealAtExit(NannyPlugin):  # type: ignore[misc]  # distributed is not typed here
    """Seals what the workers of this node left, when their nanny's process ends."""

    name = "tailrace"
    idempotent = True

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def setup(self, nanny: Nanny) -> None:
        atexit.register(seal, Path(self.directory))
