"""`tailrace declare`: imports a declared DAG from a WfFormat file, to be compared with what was observed."""

from pathlib import Path

import click

import tailrace
from tailrace.analyzer.util.formatting import count_text
from tailrace.errors import CoreError


@click.command()
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "--from",
    "source",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The WfFormat instance to import.",
)
@click.option(
    "--root", type=click.Path(path_type=Path), help="The folder of its files. Default: the run's working directory."
)
@click.option("--workflow", help="The workflow tag of its tasks. Default: the run's, if it has exactly one.")
@click.option("--replace", is_flag=True, help="Remove what earlier imports declared.")
def command(directory: Path, source: Path, root: Path | None, workflow: str | None, replace: bool) -> None:
    """Import a declared DAG from a WfFormat file into the run DIR.

    `tailrace report DIR` then compares its tasks, dependencies and files with the trace: which declared dependencies
    were observed, which were not, and which observed ones are undeclared. The `task` tags of the run must be the task
    ids of the instance.
    """
    from tailrace.integrations import rundir, wfformat

    run_dir = rundir.existing_run_directory(directory)
    instance = wfformat.read(source)
    run = tailrace.open(run_dir)
    seen = run.tasks
    folder = (root or Path(str(run.meta.get("cwd") or "."))).resolve()
    if workflow is None:
        named = {"" if value is None else str(value) for value in seen.loc[seen["events"].notna(), "workflow"]}
        workflow = named.pop() if len(named) == 1 else instance.name
    if replace:
        wfformat.forget(run_dir)
    lost = wfformat.declare(run_dir, instance, folder, workflow)
    if lost:
        raise CoreError(f"{lost} lines could not be written to {run_dir / 'declared'}: make room and import again")
    known = set(seen.loc[seen["events"].notna(), "task"])
    missing = sum(name not in known for name in instance.tasks)
    unseen = f", {missing:,} of them not in the trace" if missing else ""
    click.echo(f"{count_text(len(instance.tasks), 'task')} of workflow {workflow!r} declared{unseen}", err=True)
