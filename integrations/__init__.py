"""What the adapters of all workflow managers share. For the author of one (docs/new-manager.md):

    from tailrace.integrations import Workflow, running

    workflow.py     Workflow: tags, scopes and environments of tasks, and what the manager declares of them

What that is made of, and what the commands use:

    rundir.py       create or open a run directory; describe the run and its hosts in run.json
    environment.py  the environment that preloads the core and carries the tags
    launcher.py     run a command traced, then seal the journals of its dead processes
    pool.py         the same for a worker pool, for plugins (`python -m tailrace.integrations.pool`)
    declared_log.py the writer of declared lines: what a manager states about its tasks
    task_tags.py    the tags of a task's tries; names as tags
    isolation.py    steps whose exceptions end there
    messages.py     lines on stderr
    programs.py     how a module of ours is started
    wfformat.py     a declared DAG from a WfFormat file

Nothing here depends on a workflow manager. The names are loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tailrace.integrations.workflow import Workflow, running

__all__ = ["Workflow", "running"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("tailrace.integrations.workflow"), name)
    raise AttributeError(f"module 'tailrace.integrations' has no attribute {name!r}")
