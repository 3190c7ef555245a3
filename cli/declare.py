"""`tailrace declare`: imports a declared DAG from what a workflow manager left behind."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

import tailrace
from tailrace.analyzer.util.formatting import count_text
from tailrace.base.text import visible
from tailrace.cli.options import PATH
from tailrace.errors import UsageError

if TYPE_CHECKING:
    from tailrace.analyzer.run import Run


@click.command()
@click.argument("directory", type=PATH, metavar="RUN")
@click.option(
    "--from",
    "source",
    required=True,
    type=PATH,
    metavar="PATH",
    help="The file or folder that a workflow manager wrote.",
)
@click.option("--kind", metavar="KIND", help="What PATH is, where that can't be guessed; an unknown one lists all.")
@click.option(
    "--root",
    type=PATH,
    help="The folder of its relative paths. Default: what PATH says, else the run's working directory.",
)
@click.option("--workflow", help="The workflow tag of its tasks. Default: the run's, if it has exactly one.")
@click.option("--replace", is_flag=True, help="Remove all that earlier imports declared.")
def command(
    directory: Path, source: Path, kind: str | None, root: Path | None, workflow: str | None, replace: bool
) -> None:
    """Import a declared DAG into RUN from what a workflow manager left on disk.

    `tailrace report RUN` then compares its tasks, dependencies and files with the trace: which declared dependencies
    were observed, which were not, and which observed ones are undeclared. A task is found in the trace by its names,
    else by the files that it wrote. Importing again replaces what was imported of the same workflow.
    """
    from tailrace import hashed_names
    from tailrace.integrations import importing, managers, rundir

    run_dir = rundir.existing_run_directory(directory)
    hashed_names.refuse(run_dir, "what is imported would not be")
    importer, imported = importing.load(source, kind, managers.importers())
    if not imported.tasks:
        raise UsageError(f"{source} has no tasks")
    if replace:
        importing.forget(run_dir)
    run = tailrace.open(run_dir)
    seen = run.tasks
    seen = seen[seen["events"].notna()]
    if workflow is None:
        named = {"" if value is None else str(value) for value in seen["workflow"]}
        workflow = named.pop() if len(named) == 1 else imported.name
    given = root or imported.root
    # The run's own is a real path already, and may be any: no link of it is followed.
    cwd = str(run.meta.get("cwd") or ".")
    folder = Path(given).resolve() if given else Path(os.path.abspath(cwd))  # noqa: PTH100
    traced = {str(task) for task, of in zip(seen["task"], seen["workflow"], strict=True) if (of or "") == workflow}
    traced.discard("")
    names, by_file = importing.traced_names(imported.tasks, traced, lambda: _writers(run, workflow), folder)
    _check(run, importer.kind, workflow, set(names.values()))
    known = seen[seen["t0_ns"].notna() & (seen["workflow"].fillna("") == workflow)]
    times = {
        str(task): (int(t0), int(t1))
        for task, t0, t1 in zip(known["task"], known["t0_ns"], known["t1_ns"], strict=True)
    }
    imported = importing.with_seen_times(imported, names, times)
    importing.write(run_dir, importer.kind, imported, workflow, folder, names)
    unseen = sum(name not in traced for name in names.values())
    told = [f"{by_file:,} of them identified by the files that they wrote"] * bool(by_file)
    told += [f"{unseen:,} of them not in the trace"] * bool(unseen)
    what = f"{count_text(len(imported.tasks), 'task')} of workflow {workflow!r} declared from {importer.what}"
    click.echo(visible(", ".join([what, *told])), err=True)


def _writers(run: "Run", workflow: str) -> Mapping[str, str]:
    """Path -> the task that wrote it, of files that one task of the workflow wrote."""
    graph = run.dataflow(level="task", files="all")
    found: dict[str, set[str]] = {}
    for task, file, edge in graph.edges(data=True):
        node = graph.nodes[task]
        if edge["kind"] == "write" and node.get("task") and (node.get("workflow") or "") == workflow:
            at = graph.nodes[file]
            for path in (at["path"], *at.get("aliases", ())):
                found.setdefault(str(path), set()).add(str(node["task"]))
    return {path: tasks.pop() for path, tasks in found.items() if len(tasks) == 1}


def _check(run: "Run", kind: str, workflow: str, names: set[str]) -> None:
    """Raises UsageError where a manager's adapter has declared these tasks itself."""
    rows = run.declared_workflows
    others = sorted({str(one) for one, of in zip(rows["manager"], rows["workflow"], strict=True) if of == workflow})
    known = run.declared_tasks
    again = names & {str(task) for task, of in zip(known["task"], known["workflow"], strict=True) if of == workflow}
    if again and [other for other in others if other != kind]:
        raise UsageError(
            f"{' and '.join(others)} declared {count_text(len(again), 'task')} of workflow {workflow!r} in this run"
            f" already, as {sorted(again)[0]!r}: there is nothing to import"
        )
