"""`tailrace query`: totals of a run's events, grouped, or the events themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Any, TextIO

import click
import pandas as pd

import tailrace
from tailrace.analyzer.store import loader, query, schema
from tailrace.cli.options import utf8_output
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
    "start": "Process, by when it was first seen, where several had one pid.",
}
_PATTERN = frozenset("*?[")


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

    A text filter with *, ? or [ is a pattern, and stands for itself, too; an empty text asks for events without one:

    tailrace query DIR --stage align --by path --agg sum:size --agg count --sort sum_size --limit 10
    """
    form = form or _FORMS.get(output.suffix.lower() if output else "", "table")
    if form == "parquet" and output is None:
        raise UsageError("parquet is binary: say where to write it with -o FILE")
    if columns is not None and (by is not None or aggs):
        raise UsageError("--columns asks for the events themselves, so it does not go with --by or --agg")
    run = tailrace.open(directory)
    asked = [*_pairs(pairs), *((name, value) for name, values in filters.items() for value in values)]
    where = {**_values(asked), **_times(run, since, until)}
    _write(_pieces(run, by, aggs, columns, sort, limit, where), form, output)


def _pieces(
    run: Any,
    by: str | None,
    aggs: tuple[str, ...],
    columns: str | None,
    sort: str | None,
    limit: int | None,
    where: dict[str, Any],
) -> Iterator[pd.DataFrame]:
    if columns is not None:
        yield from query.rows(run, _names(columns), sort, limit, **where)
        return
    wanted = [query.parse_aggregate(text) for text in aggs or ("count",)]
    table = query.ordered(query.aggregate(run, _names(by), wanted, **where), sort)
    yield table if limit is None else table.head(limit)


def _pairs(pairs: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Columns and values of `--where`. Raises UsageError, QueryError."""
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"--where needs COLUMN=VALUE, not {pair!r}")
        yield schema.column(name).name, value


def _values(asked: Iterable[tuple[str, str]]) -> dict[str, list[Any]]:
    """What each column may be: any of the values that were asked for, wherever they stood."""
    out: dict[str, list[Any]] = {}
    for name, value in asked:
        pattern = schema.column(name).kind == schema.TEXT and _PATTERN & set(value)
        out.setdefault(name, []).append(loader.Glob(value) if pattern else value)
    return out


def _times(run: Any, since: float | None, until: float | None) -> dict[str, int]:
    start = run.info()["t0_ns"] or 0
    bounds = {"t0": ("--since", since), "t1": ("--until", until)}
    for option, bound in bounds.values():
        if bound is not None and not isfinite(bound):
            raise UsageError(f"{option} takes a number of seconds, not {bound}")
    return {name: start + round(bound * 1e9) for name, (_, bound) in bounds.items() if bound is not None}


def _names(text: str | None) -> list[str]:
    return [name for name in (text or "").split(",") if name]


_FORMS = {".csv": "csv", ".json": "json", ".parquet": "parquet", ".pq": "parquet"}


def _write(pieces: Iterator[pd.DataFrame], form: str, output: Path | None) -> None:
    from tailrace.analyzer.util.published import published

    # What is wrong with the question is said before a file is begun.
    first = next(pieces)
    pieces = chain([first], pieces)
    if output is None:
        if form == "table":
            _render(pd.concat(pieces, ignore_index=True))
        else:
            _TEXTS[form](pieces, utf8_output())
        return
    try:
        with published(output) as place:
            if form == "parquet":
                _parquet(pieces, place)
            else:
                with place.open("w", encoding="utf-8", errors="backslashreplace") as file:
                    _TEXTS[form](pieces, file)
    except OSError as error:
        raise UsageError(f"can't write {output}: {error.strerror or error}") from error


def _render(table: pd.DataFrame) -> None:
    from tailrace.cli.tables import render

    render(list(table.columns), table.astype(object).to_numpy().tolist())


def _csv(pieces: Iterator[pd.DataFrame], file: TextIO) -> None:
    for number, piece in enumerate(pieces):
        piece.to_csv(file, index=False, header=number == 0, lineterminator="\n")


def _json(pieces: Iterator[pd.DataFrame], file: TextIO) -> None:
    between = "["
    for piece in pieces:
        if len(piece):
            file.write(between + piece.to_json(orient="records", force_ascii=False)[1:-1])
            between = ",\n"
    file.write("[]\n" if between == "[" else "]\n")


def _plain(pieces: Iterator[pd.DataFrame], file: TextIO) -> None:
    file.write(pd.concat(pieces, ignore_index=True).to_string(index=False) + "\n")


_TEXTS: dict[str, Callable[[Iterator[pd.DataFrame], TextIO], None]] = {"csv": _csv, "json": _json, "table": _plain}


def _parquet(pieces: Iterator[pd.DataFrame], place: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    first = next(pieces)
    # A column of objects is text, in pieces without one value too.
    fields = [pa.field(name, _arrow_type(first[name])) for name in first]
    with pq.ParquetWriter(place, pa.schema(fields)) as writer:
        for piece in chain([first], pieces):
            writer.write_table(pa.Table.from_pandas(piece, schema=writer.schema, preserve_index=False))


def _arrow_type(column: pd.Series[Any]) -> Any:
    import pyarrow as pa

    if pd.api.types.is_object_dtype(column):
        return pa.string()
    return pa.from_numpy_dtype(getattr(column.dtype, "numpy_dtype", column.dtype))
