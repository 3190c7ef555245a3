"""What the adapters of all workflow managers share. For the author of one (docs/new-manager.md):

    from tailrace.integrations import Workflow, running            # what it tells
    from tailrace.integrations import Manager, of_distribution     # how it is found
    from tailrace.integrations import Importer, ImportedTask, ImportedWorkflow

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
    lazy_names.py   names of a package that are imported on first use
    replacing.py    functions of managers that adapters replace
    coroutines.py   the scope of a coroutine
    managers.py     the adapters that are installed
    importing.py    declared graphs after the fact, by the importers of NAME/importer.py
    wfformat.py     WfFormat instances

Nothing here depends on a workflow manager. The names are loaded on first use.
"""

from typing import TYPE_CHECKING

from tailrace.integrations.lazy_names import on_first_use

if TYPE_CHECKING:
    from tailrace.integrations.importing import ImportedTask, ImportedWorkflow, Importer
    from tailrace.integrations.managers import Manager, of_distribution, of_program
    from tailrace.integrations.workflow import Workflow, running

__all__ = [
    "ImportedTask",
    "ImportedWorkflow",
    "Importer",
    "Manager",
    "Workflow",
    "of_distribution",
    "of_program",
    "running",
]
__getattr__ = on_first_use(
    __name__,
    {
        "ImportedTask": "importing",
        "ImportedWorkflow": "importing",
        "Importer": "importing",
        "Manager": "managers",
        "Workflow": "workflow",
        "of_distribution": "managers",
        "of_program": "managers",
        "running": "workflow",
    },
)
