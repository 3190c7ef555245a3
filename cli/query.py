"""`tailrace query`: totals of a run's events, grouped, or the events themselves."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import pandas as pd

import tailrace
from tailrace.errors import UsageError

# option -> (column, help); a value with *, ? or [ is a pattern
FILTERS = {
    "workflow": "One run of one workflow.",
    "stage": "Step of the workflow.",
    "task": "One invocation.",
    "job": "Job of the resource manager.",
    "rank": "Rank in a parallel program.",
    "name": "Call, as in read.",
    "cat": "Layer, as in POSIX.",
    "path": "File, a pattern such as '*.nc'.",
    "host": "Node.",
    "pid": "Process.",
}
_PATTERN = frozenset("*?[")
_PATTERN_COLUMNS = frozenset({"path", "name", "stage", "task"})


def _filters(function: Any) -> Any:
    for name, text in reversed(FILTERS.items()):
        function = click.option(f"--{name}", multiple=True, help=f"{text} May be repeated.")(function)
    return function


@click.command()
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@_filters
@click.option("--where", "pairs", multiple=True, metavar="COLUMN=VALUE", help="Any other column, as in tag.try=0.")
@click.option("--since", type=float, metavar="S", help="Calls that ended at or after this many seconds into the run.")
@click.option("--until", type=float, metavar="S", help="Calls that started before this many seconds into the run.")
@click.option("--by", metavar="COLUMN[,...]", help="Group by these columns.")
@click.option(
    "--agg",
    "aggs",
    multiple=True,
    metavar="HOW[:COLUMN]",
    help="count, or sum, mean, min, max, nunique, p50, p95, p99 of a column. Default: count.",
)
@click.option("--columns", metavar="COLUMN[,...]", help="No totals: the events themselves, with these columns.")
@click.option(
    "--sort", metavar="COLUMN", help="Sort by this column of the result, largest first; -COLUMN: smallest first."
)
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="At most N rows.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json", "parquet"]),
    help="Default: by the name of the output, else table.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Where to write; default: standard output.")
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
    **filters: tuple[str, ...],
) -> None:
    """Ask the run DIR for totals of its events, or for the events.

    A text filter with *, ? or [ is a pattern; an empty value asks for events without one:

    tailrace query DIR --stage align --by path --agg sum:size --agg count --sort sum_size --limit 10
    """
    form = form or _FORMS.get(output.suffix.lower() if output else "", "table")
    if form == "parquet" and output is None:
        raise UsageError("parquet is binary: say where to write it with -o FILE")
    if columns is not None and (by is not None or aggs):
        raise UsageError("--columns asks for the events themselves, so it does not go with --by or --agg")
    run = tailrace.open(directory)
    where = {**_values(filters), **_pairs(pairs), **_times(run, since, until)}
    table = _events(run, columns, where) if columns is not None else _totals(run, by, aggs, where)
    _write(_ordered(table, sort, limit), form, output)


def _values(filters: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    return {name: [_value(name, value) for value in values] for name, values in filters.items() if values}


def _value(name: str, value: str) -> Any:
    from tailrace.analyzer.loader import Glob

    return Glob(value) if name in _PATTERN_COLUMNS and _PATTERN & set(value) else value


def _pairs(pairs: Iterable[str]) -> dict[str, Any]:
    out: dict[str, list[Any]] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"--where needs COLUMN=VALUE, not {pair!r}")
        out.setdefault(name, []).append(_value(name, value))
    return out


def _times(run: Any, since: float | None, until: float | None) -> dict[str, int]:
    start = run.info()["t0_ns"] or 0
    bounds = {"t0": since, "t1": until}
    return {name: start + round(bound * 1e9) for name, bound in bounds.items() if bound is not None}


def _names(text: str | None) -> list[str]:
    return [name for name in (text or "").split(",") if name]


def _events(run: Any, columns: str, where: dict[str, Any]) -> pd.DataFrame:
    frame: pd.DataFrame = run.events(columns=_names(columns), **where).compute(scheduler="threads")
    return frame


def _totals(run: Any, by: str | None, aggs: tuple[str, ...], where: dict[str, Any]) -> pd.DataFrame:
    from tailrace.analyzer import query

    return query.aggregate(run, _names(by), [query.parse_aggregate(text) for text in aggs or ("count",)], **where)


def _ordered(table: pd.DataFrame, sort: str | None, limit: int | None) -> pd.DataFrame:
    from tailrace.errors import QueryError

    if sort is not None:
        up, name = sort.startswith("-"), sort.removeprefix("-").replace(":", "_")
        if name not in table.columns:
            raise QueryError(f"the result has no column {name!r} to sort by; it has {', '.join(table.columns)}")
        table = table.sort_values(name, ascending=up, kind="stable", ignore_index=True)
    return table if limit is None else table.head(limit)


_FORMS = {".csv": "csv", ".json": "json", ".parquet": "parquet", ".pq": "parquet"}


def _write(table: pd.DataFrame, form: str, output: Path | None) -> None:
    try:
        if form == "parquet":
            assert output is not None
            table.to_parquet(output, index=False)
        elif form == "table" and output is None:
            from tailrace.cli.tables import render

            render(list(table.columns), table.astype(object).to_numpy().tolist())
        else:
            text = {"csv": _csv, "json": _json, "table": _plain}[form](table)
            if output is None:
                click.echo(text, nl=False)
            else:
                output.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise UsageError(f"can't write {output}: {error.strerror or error}") from error


def _csv(table: pd.DataFrame) -> str:
    return str(table.to_csv(index=False, lineterminator="\n"))


def _json(table: pd.DataFrame) -> str:
    return str(table.to_json(orient="records", force_ascii=False)) + "\n"


def _plain(table: pd.DataFrame) -> str:
    return str(table.to_string(index=False)) + "\n"
