"""`tailrace report`: what a run did to its data, on the terminal or as one web page."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tailrace.base.text import visible
from tailrace.cli.lines import put_json
from tailrace.cli.opening import open_run, run_directory
from tailrace.cli.options import PATH, format_option, scheduler_option
from tailrace.errors import FindingError, UsageError
from tailrace.integrations.messages import say

if TYPE_CHECKING:
    from tailrace.analyzer.insights.finding import Finding

ANY = "any"


@click.command()
@click.argument("directory", type=PATH, metavar="DIR")
@click.option("--html", type=PATH, help="Write one self-contained page to this file instead.")
@click.option(
    "--fail-on",
    "kinds",
    multiple=True,
    metavar="finding:KIND",
    help="Exit with 1 when the run has a finding of this kind ('finding:small calls'), or about it (finding:race,"
    " finding:failure, ...); finding:any for all of these but notes and what costs under 3% of the"
    " run. May be repeated.",
)
@click.option("--all", "every", is_flag=True, help="List all findings, also those that cost under 3% of the run.")
@click.option("--after", metavar="DAY", help="Of a store: only runs that began on this day or later (2026-11-22).")
@click.option("--before", metavar="DAY", help="Of a store: only runs that began on this day or earlier.")
@format_option
@click.option("--flux-workers", type=int, metavar="N", help="Analyse with N Dask workers, started as one Flux job.")
@scheduler_option
def command(
    directory: Path,
    html: Path | None,
    kinds: tuple[str, ...],
    every: bool,
    after: str | None,
    before: str | None,
    form: str,
    flux_workers: int | None,
) -> None:
    """Show what bounds the run DIR, what to change, its stages and dataflow, and what was lost.

    In a Flux instance DIR may be the id of a traced job, here and for all commands that open a run.

    Of a store (`tailrace index`), show its runs by user, project, application, file system and day, where their I/O
    time goes, what failed, and the worst patterns.

    --format json prints what the report is made from; its keys may change from one version to the next.
    """
    from tailrace.analyzer.runstore import parts

    if html is not None and form == "json":
        raise UsageError("--html writes the page, --format json prints what is in it: give one of them")
    directory = run_directory(directory)
    if parts.is_store(directory):
        if kinds:
            raise UsageError("--fail-on goes with a run")
        _store(directory, html, form, after, before)
        return
    if after is not None or before is not None:
        raise UsageError("--after and --before go with a store")
    from tailrace.analyzer import summary

    wanted = [_gate(text) for text in kinds]
    # The workers may start in another directory.
    run = open_run(directory if flux_workers is None else directory.absolute())
    with _cluster(run.path, flux_workers):
        data = summary.collect(run)
        found = [one for one in run.findings() if any(_meets(one, kind) for kind in wanted)] if wanted else []
    _show(data, html, form, every)
    if found:
        raise FindingError(f"{run.path}: {'; '.join(f'{one.kind}: {one.title}' for one in found)}")


def _gate(text: str) -> str:
    """The kind or subject that a `--fail-on` names."""
    from tailrace.analyzer.insights.finding import RANK
    from tailrace.analyzer.insights.findings import RULES
    from tailrace.analyzer.util import nearest

    name = text.removeprefix("finding:")
    known = [ANY, *RANK, *(rule.kind for rule in RULES)]
    if name == text or name not in known:
        hint = f" (did you mean 'finding:{name}'?)" if name in known else nearest.hint(name, known)
        raise UsageError(f"--fail-on {text!r}{hint}: write finding: and {', '.join((ANY, *RANK))} or a finding's name")
    return name


def _meets(finding: Finding, kind: str) -> bool:
    any_fault = finding.about not in ("note", "quality") and not finding.small
    return kind in (finding.kind, finding.about) or (kind == ANY and any_fault)


def _show(data: dict[str, Any], html: Path | None, form: str, every: bool) -> None:
    if form == "json":
        put_json(data)
        return
    if html is None:
        from rich.console import Console

        from tailrace.analyzer.report import terminal

        terminal.show(data, Console(), every)
        return
    from tailrace.analyzer.report.html import write_page

    try:
        write_page(data, html)
    except OSError as error:
        raise UsageError(f"can't write {html}: {error.strerror}") from error
    click.echo(f"{visible(str(html))}: open it in a browser", err=True)


def _store(directory: Path, html: Path | None, form: str, after: str | None, before: str | None) -> None:
    from tailrace.analyzer.report import store_page
    from tailrace.analyzer.runstore import overview
    from tailrace.analyzer.runstore.store import Store

    data = overview.collect(Store(directory), after, before)
    if form == "json":
        put_json(data)
        return
    if html is not None:
        try:
            store_page.write_store_page(data, html)
        except OSError as error:
            raise UsageError(f"can't write {html}: {error.strerror}") from error
        click.echo(f"{visible(str(html))}: open it in a browser", err=True)
        return
    from tailrace.cli.lines import render

    for text in data["problems"]:
        say(f"incomplete: {text}")
    click.echo(", ".join(f"{name}: {value}" for name, value in store_page.numbers(data)))
    for section in data["sections"]:
        heads = [store_page.head(name) for name in section["columns"]]
        rows = [
            [store_page.cell(name, value) for name, value in zip(section["columns"], row, strict=True)]
            for row in section["rows"]
        ]
        click.echo()
        render(heads, rows, title=section["title"])


def _cluster(directory: Path, workers: int | None) -> AbstractContextManager[Any]:
    """What Dask computes with: this machine, or a Flux job of so many workers."""
    if workers is None:
        return nullcontext()
    from tailrace.flux import analysis

    # Beside the trace, which the workers must be able to read anyway.
    return analysis.cluster(workers, directory, say=say)
