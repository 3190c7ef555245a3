"""`tailrace demo`: traces the workflow of tailrace.parsl.demo and shows what came out."""

import importlib.util
import subprocess
import sys
import webbrowser
from pathlib import Path

import click

from tailrace.cli.run import describe
from tailrace.errors import CoreError, UsageError
from tailrace.integrations import launcher, rundir


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where to put the run, the workflow's files and the page. Default: a new directory, tailrace-demo.",
)
@click.option("--open", "show", is_flag=True, help="Open the page in the web browser.")
def command(output: Path | None, show: bool) -> None:
    """Trace a small Parsl workflow on this machine and show what came out.

    Six packages of Python's standard library go through collect, count, merge, rank and summary, on two workers.
    """
    if importlib.util.find_spec("parsl") is None:
        raise UsageError("the demo needs Parsl: pip install 'tailrace[parsl]'")
    folder = _folder(output)
    workflow = [sys.executable, "-m", "tailrace.parsl.demo", str(folder / "files")]
    run_dir = rundir.open_run_directory(folder / "run", workflow)
    page = folder / "report.html"
    code, summary = launcher.run_traced(workflow, run_dir)
    click.echo(f"tailrace: {describe(summary)}", err=True)
    if code != 0 or summary.fault is not None:
        logs = folder / "files" / "runinfo"
        raise CoreError(f"the demo workflow failed (exit code {code}): {summary.fault or f'its logs are in {logs}'}")
    for options in ([], ["--html", str(page)]):
        report = [sys.executable, "-m", "tailrace.cli.main", "report", str(run_dir), *options]
        if subprocess.run(report, check=False).returncode != 0:
            raise CoreError(f"the workflow ran, but its report failed; try: tailrace report {run_dir}")
    click.echo(f"\nThe page: {page}\nThe run:  {run_dir}  (try: tailrace query {run_dir} --by stage --agg sum:size)")
    if show:
        webbrowser.open(page.as_uri())


def _folder(output: Path | None) -> Path:
    if output is not None:
        if output.exists() and (not output.is_dir() or any(output.iterdir())):
            raise UsageError(f"{output} exists and is not an empty directory: give a new one")
        return output.absolute()
    candidate, number = Path("tailrace-demo").absolute(), 1
    while candidate.exists():
        number += 1
        candidate = candidate.with_name(f"tailrace-demo-{number}")
    return candidate
