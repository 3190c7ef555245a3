"""`tailrace demo`: traces the workflow of tailrace.parsl.demo and shows its report."""

import importlib.util
import webbrowser
from pathlib import Path

import click

import tailrace
from tailrace.analyzer.util.working_directory import working_directory
from tailrace.cli.options import PATH
from tailrace.errors import CoreError, TailraceError, UsageError
from tailrace.integrations import environment, launcher, programs, rundir
from tailrace.integrations.messages import say


@click.command()
@click.option(
    "-o",
    "--output",
    type=PATH,
    metavar="DIR",
    help="Where to put the run, the workflow's files and the page. Default: a new directory, tailrace-demo.",
)
@click.option("--open", "show", is_flag=True, help="Open the page in the web browser.")
def command(output: Path | None, show: bool) -> None:
    """Trace a small Parsl workflow on this machine and show its report.

    Six packages of Python's standard library go through seven stages on two workers. Three problems are planted in the
    workflow, and the report finds them: a race, a file that is read again and again, stages that wait for one file.
    """
    if importlib.util.find_spec("parsl") is None:
        raise UsageError("the demo needs Parsl: pip install 'tailrace[parsl]'")
    environment.library_path()  # else the workflow would run untraced, and fail at its end
    folder = _folder(output)
    files, page = folder / "files", folder / "report.html"
    files.mkdir(parents=True)
    workflow = programs.module_command("tailrace.parsl.demo")
    # The report's names are relative to the directory in which the run was started.
    with working_directory(files):
        run_dir = rundir.open_run_directory(folder / "run", workflow)
        code, summary = launcher.run_traced(workflow, run_dir)
    say(summary.describe())
    click.echo(err=True)
    if code != 0 or summary.fault is not None:
        logs = files / "runinfo"
        raise CoreError(f"the demo workflow failed (exit code {code}): {summary.fault or f'its logs are in {logs}'}")
    try:
        _report(run_dir, page)
    except (TailraceError, OSError) as error:
        raise CoreError(f"the workflow ran, but its report failed ({error}); try: tailrace report {run_dir}") from error
    click.echo(f"\nAs a page: {_short(page)}  Run: {_short(run_dir)}")
    if show:
        webbrowser.open(page.as_uri())


def _report(run_dir: Path, page: Path) -> None:
    """Shows the report of the run on the terminal and writes it to `page`."""
    from rich.console import Console

    from tailrace.analyzer import summary
    from tailrace.analyzer.report import html, terminal

    data = summary.collect(tailrace.open(run_dir))
    terminal.show(data, Console())
    html.write_page(data, page)


def _folder(output: Path | None) -> Path:
    """The directory for everything, absolute: a new one, or an empty one that the user gave."""
    if output is not None:
        if output.exists() and (not output.is_dir() or any(output.iterdir())):
            raise UsageError(f"{output} exists and is not an empty directory: give a new one")
        return output.absolute()
    candidate, number = Path("tailrace-demo").absolute(), 1
    while candidate.exists():
        number += 1
        candidate = candidate.with_name(f"tailrace-demo-{number}")
    return candidate


def _short(path: Path) -> str:
    """The path from here, where it is below this directory."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
