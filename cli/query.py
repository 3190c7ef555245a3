"""`tailrace query`: prints grouped totals of a run's events, or the events themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tailrace.cli.opening import open_run, strict_option
from tailrace.cli.options import PATH, scheduler_option
from tailrace.cli.query_output import PLAIN_FORMS, form_of, write, write_answer
from tailrace.errors import UsageError
from tailrace.integrations.messages import say

if TYPE_CHECKING:
    import pandas as pd

    from tailrace.analyzer.run import Run
    from tailrace.analyzer.store.conditions import Glob

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
    since: float | None,
    until: float | None,
    by: str | None,
    aggs: tuple[str, ...],
    columns: str | None,
    sort: str | None,
    limit: int | None,
    form: str | None,
    output: Path | None,
    explain: bool,
    strict: bool,
    **filters: tuple[str, ...],
) -> None:
    """Print totals of the events of the run DIR, or the events themselves.

    A text filter with *, ? or [ is a pattern and also matches itself literally. An empty text selects events without
    a value. Sums and means of bytes and times are of system calls; --where cat=HDF5 or --by cat gives those of
    HDF5 and MPI-IO, which are recorded again as system calls. Examples: bandwidth over time;
    where the bytes of a stage go.

    Of a store (`tailrace index`), print totals of the accesses of all its runs, as in --by user,application
    --agg sum:bytes --where failed=true; with columns that only events have (name, dur, size), of the events of runs
    that were indexed with --events.

    tailrace query DIR --by time:1s,stage --agg rate:size --where dir=r

    tailrace query DIR --stage align --by path --agg sum:size --agg count --sort sum_size --limit 10
    """
    form = form_of(form, output)
    if columns is not None and (by is not None or aggs):
        raise UsageError("--columns prints events and --by and --agg print totals: give one or the other")
    from tailrace.analyzer.runstore import parts

    if parts.is_store(directory):
        if since is not None or until is not None or explain:
            raise UsageError("--since, --until and --explain go with a run, not with a store")
        names = {"by": _names(by), "columns": _names(columns), "aggregates": aggs, "conditions": pairs}
        _ask_store(directory, names, filters, (sort, limit), (form, output, strict))
        return
    from tailrace.analyzer.store.typed_conditions import conditions_of, texts_of, times_of

    run = open_run(directory, strict)
    filters = _of_untagged(run, filters)
    where = {**conditions_of(pairs, filters), **times_of(run.t0_ns, since, until, "--")}
    for name in texts_of(where.get("path")):
        _tell_files(run, name)
    _tell_totals(run, where)
    asked = _Asked(run, _names(by if columns is None else columns), aggs, columns is None)
    if explain:
        _explain(asked, aggs, where)
        return
    if output is None and _write_rows(asked, sort, limit, where, form):
        return
    write(_pieces(asked, sort, limit, where), form, output, asked.unit)


def _of_untagged(run: Run, filters: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """The filters, where the stage is one of untagged processes, "(sort)" as reports name it, with its processes in its
    place."""
    names = filters.get("stage", ())
    if len(names) != 1 or not (names[0].startswith("(") and names[0].endswith(")")):
        return filters
    from glob import escape

    from tailrace.analyzer.model import stages

    m = run.insights().inputs.m
    if names[0] not in m.who["label"].tolist() or (m.who["stage"] == names[0]).any():
        return filters
    words = stages.filters(m, names[0])
    if words == ["--stage", ""] and (m.who["label"][m.who["stage"] == ""] != names[0]).any():
        say(f"{names[0]} has more processes than can be selected: these are the events of all that are untagged")
    found: dict[str, tuple[str, ...]] = {"stage": ()}
    for option, value in zip(words[::2], words[1::2], strict=True):
        found[option[2:]] = (*found.get(option[2:], ()), escape(value))
    # What was asked for besides is narrower.
    return {**filters, **{name: values for name, values in found.items() if name == "stage" or not filters.get(name)}}


def _ask_store(
    place: Path,
    names: dict[str, Any],
    filters: dict[str, tuple[str, ...]],
    rows: tuple[str | None, int | None],
    how: tuple[str, Path | None, bool],
) -> None:
    """Prints totals of the accesses, or events, of all runs of a store. Raises QueryError."""
    from tailrace.analyzer.runstore.question import question
    from tailrace.analyzer.runstore.store import Store
    from tailrace.cli.opening import say_store_problems

    form, output, strict = how
    asked = question(**names, filters=filters, sort=rows[0], limit=rows[1])
    store = Store(place)
    table = store.sql(asked.sql, asked.values)
    say_store_problems(store, strict)
    if not table.num_rows:
        say(f"no {asked.row} matches")
    write_answer(table, form, output)


class _Asked:
    """What is asked of a run: groups (columns, where `totals` is False) and aggregates. Raises QueryError."""

    def __init__(self, run: Run, names: list[str], aggs: Sequence[str], totals: bool) -> None:
        from tailrace.analyzer.store import figures, group_keys, query

        self.run, self.names, self.totals = run, names, totals
        self.aggregates = list(dict.fromkeys(map(figures.parse, aggs or ("count",)))) if totals else []
        self.keys = query.keys_of(run, names) if totals else [group_keys.parse(name, None) for name in names]

    def unit(self, name: object) -> str:
        """The unit of a column of the result, "" where it has none."""
        from tailrace.analyzer.store import query

        return query.unit(str(name), self.keys, self.aggregates)


def _write_few(asked: _Asked, sort: str | None, limit: int | None, where: dict[str, Any], form: str) -> bool:
    """Prints events, where they are few; False where they are not."""
    from tailrace.analyzer.store import query

    names = list(dict.fromkeys(asked.names))
    rows = query.few(asked.run, names, sort, limit, **where)
    if rows is None:
        return False
    if not rows and limit != 0:
        _say_nothing(where)
    PLAIN_FORMS[form](names, rows, asked.unit)
    return True


def _write_rows(asked: _Asked, sort: str | None, limit: int | None, where: dict[str, Any], form: str) -> bool:
    """Prints what takes no frame of events; False where that is taken. Without pandas, whose import takes longer than
    the answer."""
    from tailrace.analyzer.store import query

    if form not in PLAIN_FORMS:
        return False
    if not asked.totals:
        return _write_few(asked, sort, limit, where, form)
    names = query.labels([key.label for key in asked.keys], asked.aggregates)
    rows: list[tuple[Any, ...]] | None = query.counted(asked.run, asked.names, asked.aggregates, **where)
    if rows is None:
        found = query.summed(asked.run, asked.names, asked.aggregates, **where)
        if found is None:
            return False
        _say_what_is_summed(found.totals, 0, found.left_out)
        rows, some = found.rows, found.some
    else:
        some = any(row[-1] for row in rows)
    if not some:
        _say_nothing(where)
    rows = query.sorted_rows(rows, names, sort)[:limit]
    PLAIN_FORMS[form](names, rows, asked.unit)
    return True


def _say_what_is_summed(totals: int, shared: int, left_out: Sequence[str]) -> None:
    """totals, shared, left_out: what query.aggregate tells beside its table."""
    from tailrace.analyzer.util.formatting import count_text

    if totals:
        say(
            f"{count_text(totals, 'line')} of totals (--detail) count as one call each where a figure needs each call:"
            " min, max, nunique and percentiles of sizes and times are of those lines' sums; ranges of sizes and"
            " times have the number of their calls, their sums are in the row without a range"
        )
    if shared:
        say(f"{count_text(shared, 'line')} of totals (--detail): bytes are spread evenly over each burst of accesses")
    if left_out:
        layers = ", ".join(left_out)
        say(f"without the calls of {layers}, whose bytes and times are in the system calls; --by cat shows them")


def _say_nothing(where: dict[str, Any]) -> None:
    from tailrace import _native
    from tailrace.analyzer.store.typed_conditions import texts_of
    from tailrace.analyzer.util import nearest

    known = _native.meanings()[0]
    said = [name for name in texts_of(where.get("name")) if isinstance(name, str) and name not in known]
    say(NOTHING + (nearest.hint(said[0], known) if said else ""))


def _explain(asked: _Asked, aggs: Sequence[str], where: dict[str, Any]) -> None:
    """Prints which blocks can hold an event that matches."""
    from tailrace.analyzer.store import asking
    from tailrace.cli.lines import render

    found = asking.reading(asked.run, asked.names, aggs, asked.totals, where)
    click.echo(found.sentence())
    if found.files and not found.headers:
        render(["trace file", "blocks", "events", "bytes"], [[file, *row] for file, row in found.files.items()])


def _tell_totals(run: Run, where: dict[str, Any]) -> None:
    """Says on standard error that a condition leaves out what has no figures of each call."""
    from tailrace.analyzer.store import conditions
    from tailrace.analyzer.util.formatting import count_text

    if conditions.where(**where).needs_each and (totals := run.info()["totals"]):
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


def _pieces(asked: _Asked, sort: str | None, limit: int | None, where: dict[str, Any]) -> Iterator[pd.DataFrame]:
    from tailrace.analyzer.store import figures, query

    if not asked.totals:
        some = False
        for piece in query.rows(asked.run, asked.names, sort, limit, **where):
            some = some or len(piece) > 0
            yield piece
        if not some and limit != 0:
            _say_nothing(where)
        return
    wanted, count = asked.aggregates, figures.COUNT
    table = query.aggregate(asked.run, asked.names, list(dict.fromkeys([*wanted, count])), **where)
    told = table.attrs
    _say_what_is_summed(told.get("totals", 0), told.get("shared", 0), told.get("left_out", ()))
    if table.empty or (not asked.names and not table.iloc[0].fillna(0).any()):
        _say_nothing(where)
    if count not in wanted:
        table = table.drop(columns=query.labels([key.label for key in asked.keys], [count])[-1])
    table = query.ordered(table, sort)
    yield table if limit is None else table.head(limit)


def _names(text: str | None) -> list[str]:
    return [name for name in (text or "").split(",") if name]
