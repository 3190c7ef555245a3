"""`tailrace query`: prints grouped totals of the events of a run or a store, or the events themselves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tailrace.cli.opening import open_run, say_store_problems, strict_option
from tailrace.cli.options import PATH, scheduler_option
from tailrace.cli.query_output import form_of, write
from tailrace.errors import UsageError
from tailrace.integrations.messages import say

if TYPE_CHECKING:
    from tailrace.analyzer.run import Run
    from tailrace.analyzer.store.conditions import Glob
    from tailrace.analyzer.store.question import Query

# option -> (column, help); a value with *, ? or [ is a pattern
FILTERS = {
    "workflow": "Only this workflow.",
    "stage": "Only this stage.",
    "task": "Only this task.",
    "job": "Only this job of the resource manager.",
    "rank": "Only this MPI rank.",
    "name": "Only this function, as in read.",
    "cat": "Only this category, as in POSIX.",
    "path": "Only this file, by any of its names: absolute, relative, base name, before or after a rename.",
    "host": "Only this host.",
    "pid": "Only this process id.",
    "start": "Only processes that began then (ns), where a host reused the pid.",
}
NOTHING = "no event matches"


def _filters(function: Any) -> Any:
    for name, text in reversed(FILTERS.items()):
        function = click.option(f"--{name}", multiple=True, help=f"{text} May be repeated.")(function)
    return function


@click.command()
@click.argument("directory", type=PATH, metavar="DIR")
@_filters
@click.option(
    "--where",
    "pairs",
    multiple=True,
    metavar="CONDITION",
    help="A condition on any column, with = != < <= > >= and units, as in tag.try=0, 'size<4KiB', 'dur>10ms',"
    " 'name!=read'. May be repeated: values of one column that = gives are alternatives, all else must hold.",
)
@click.option(
    "--since", type=float, metavar="S", help="Only calls that end at or after this time, in s from the first event."
)
@click.option(
    "--until", type=float, metavar="S", help="Only calls that begin before this time, in s from the first event."
)
@click.option(
    "--by",
    metavar="KEY[,...]",
    help="Group by these columns, by ranges of a column (size:log2, offset:1MiB), or by time (time:1s), in which sums"
    " share a call that covers several ranges.",
)
@click.option(
    "--agg",
    "aggs",
    multiple=True,
    metavar="HOW[:COLUMN]",
    help="count, or sum, mean, min, max, nunique, p25, p50, p75, p95, p99 of a column; share: of the whole, of events"
    " or of a column's sum; rate: a column's sum per second in calls, by time per second; ratio:A/B: of two sums."
    " Default: count. May be repeated.",
)
@click.option("--columns", metavar="COLUMN[,...]", help="Print the events with these columns, not totals.")
@click.option("--sort", metavar="COLUMN", help="Sort by this column, descending; -COLUMN: ascending.")
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Print at most N rows.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "csv-text", "json", "parquet"]),
    help="Output format; csv-text: CSV for spreadsheets, with a ' before text that they would take for a formula. "
    "Default: by the ending of the output's name, else table.",
)
@click.option("-o", "--output", type=PATH, help="Output file. Default: standard output.")
@click.option("--explain", is_flag=True, help="Read nothing, and print which blocks of the trace would be read.")
@scheduler_option
@strict_option
def command(
    directory: Path,
    pairs: tuple[str, ...],
    by: str | None,
    form: str | None,
    output: Path | None,
    explain: bool,
    strict: bool,
    **options: Any,
) -> None:
    """Print totals of the events of the run or store DIR, or the events themselves.

    A text filter with *, ? or [ is a pattern and also matches itself literally. An empty text selects events without
    a value. Sums and means of bytes and times are of system calls; --where cat=HDF5 or --by cat gives those of
    HDF5 and MPI-IO, which are recorded again as system calls. Examples: bandwidth over time;
    where the bytes of a stage go; whose runs moved most bytes since Monday, in a store (`tailrace index`).

    tailrace query DIR --by time:1s,stage --agg rate:size --where dir=r

    tailrace query DIR --stage align --by path --agg sum:size --agg count --sort sum_size --limit 10

    tailrace query STORE --by user,application --agg sum:size --where 'day>=2026-11-16'
    """
    form = form_of(form, output)
    from tailrace.analyzer.runstore import parts
    from tailrace.analyzer.store import question

    filters = {name: options.pop(name) for name in FILTERS}
    stages = filters["stage"]
    if len(stages) == 1 and stages[0].startswith("(") and not parts.is_store(directory):
        filters = _of_untagged(open_run(directory, strict), stages[0], filters)
    asked = _asked(by or (), pairs, filters, options)

    if parts.is_store(directory):
        if explain:
            raise UsageError("--explain goes with a run, not with a store")
        from tailrace.analyzer.runstore.store import Store

        store = Store(directory)
        found = store.answer(asked)
        say_store_problems(store, strict)
    else:
        run = open_run(directory, strict)
        _tell_choice(run, asked)
        if explain:
            _explain(run, asked)
            return
        found = question.answer(run, asked)
    for text in found.notes:
        say(text)
    if not write(found, form, output) and asked.limit != 0:
        _say_nothing(asked)


_Filters = dict[str, tuple[str, ...]]


def _of_untagged(run: Run, stage: str, filters: _Filters) -> _Filters:
    """The filters, where the stage is one of untagged processes, "(sort)" as reports name it, with its processes in its
    place."""
    from glob import escape

    from tailrace.analyzer.model.stages import filters as filters_of

    m = run.insights().inputs.m
    if stage not in m.who["label"].tolist() or (m.who["stage"] == stage).any():
        return filters
    words = filters_of(m, stage)
    if words == ["--stage", ""] and (m.who["label"][m.who["stage"] == ""] != stage).any():
        say(f"{stage} has more processes than can be selected: these are the events of all that are untagged")
    found: _Filters = {"stage": ()}
    for option, value in zip(words[::2], words[1::2], strict=True):
        found[option[2:]] = (*found.get(option[2:], ()), escape(value))
    # What was asked for besides is narrower.
    return {**filters, **{name: values for name, values in found.items() if name == "stage" or not filters.get(name)}}


def _asked(by: str | tuple[()], pairs: tuple[str, ...], filters: _Filters, options: dict[str, Any]) -> Query:
    """The question of the options. Raises UsageError, QueryError."""
    from tailrace.analyzer.store.conditions import conditions_of
    from tailrace.analyzer.store.question import Query

    values = conditions_of(pairs, filters)
    return Query.of(by, options.pop("aggs"), values=values, sign="--", **options)


def _say_nothing(asked: Query) -> None:
    from tailrace import _native
    from tailrace.analyzer.store.conditions import texts_of
    from tailrace.analyzer.util import nearest

    known = _native.meanings()[0]
    said = [name for name in texts_of(asked.where.get("name")) if isinstance(name, str) and name not in known]
    say(NOTHING + (nearest.hint(said[0], known) if said else ""))


def _explain(run: Run, asked: Query) -> None:
    """Prints which blocks can hold an event that matches."""
    from tailrace.analyzer.store import question
    from tailrace.cli.lines import render

    found = question.reading(run, asked)
    click.echo(found.sentence())
    if found.files and not found.headers:
        render(["trace file", "blocks", "events", "bytes"], [[file, *row] for file, row in found.files.items()])


def _tell_choice(run: Run, asked: Query) -> None:
    """Says on standard error what conditions mean where that is not plain. Raises QueryError for a file that is not
    there."""
    from tailrace.analyzer.store import conditions
    from tailrace.analyzer.util.formatting import count_text

    for name in conditions.texts_of(asked.where.get("path")):
        _tell_files(run, name)
    if conditions.where(**asked.where).needs_each and (totals := run.info()["totals"]):
        say(
            f"{count_text(totals, 'line')} of totals (--detail) can't be selected by the size, time or result of a"
            " call, and are left out; --by size:log2 and dur:log2 count their calls"
        )


def _tell_files(run: Run, name: str | Glob) -> None:
    """Says on standard error which files a name means, where that is not plain. Raises QueryError where none is."""
    from tailrace.analyzer.edges import file_names
    from tailrace.analyzer.util.formatting import count_text

    if name == "" or not isinstance(name, str):
        return
    files = run.named_files(name)
    found = list(dict.fromkeys(file.found for file in files))
    many, shown = len(files) > 1, ", ".join(found[:5]) + (", ..." if len(found) > 5 else "")
    if files and files[0].how == file_names.LINK:
        note = f"a link to {', '.join(sorted({file.path for file in files if file.ftype != 'lnk'}))}"
    elif len(found) > 1:
        note = f"{count_text(len(files), 'file')}: {shown}; --by path keeps them apart"
    elif many:
        note = f"{count_text(len(files), 'file')}, one after another; --by file keeps them apart"
    else:
        return
    say(f"{name} is {note}")
