"""`tailrace query`: prints grouped totals of a run's events, or the events themselves."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from tailrace.cli.opening import open_run, strict_option
from tailrace.cli.options import scheduler_option, utf8_output
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
_PATTERN = frozenset("*?[")
NOTHING = "no event matches"


def _filters(function: Any) -> Any:
    for name, text in reversed(FILTERS.items()):
        function = click.option(f"--{name}", multiple=True, help=f"{text} May be repeated.")(function)
    return function


@click.command()
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@_filters
@click.option(
    "--where",
    "pairs",
    multiple=True,
    metavar="COLUMN=VALUE",
    help="Any other column, as in tag.try=0. May be repeated.",
)
@click.option(
    "--since", type=float, metavar="S", help="Only calls that end at or after this time, in s from the first event."
)
@click.option(
    "--until", type=float, metavar="S", help="Only calls that begin before this time, in s from the first event."
)
@click.option("--by", metavar="COLUMN[,...]", help="Group by these columns.")
@click.option(
    "--agg",
    "aggs",
    multiple=True,
    metavar="HOW[:COLUMN]",
    help="count, or sum, mean, min, max, nunique, p50, p95, p99 of a column. Default: count. May be repeated.",
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
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Output file. Default: standard output.")
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
    strict: bool,
    **filters: tuple[str, ...],
) -> None:
    """Print totals of the events of the run DIR, or the events themselves.

    A text filter with *, ? or [ is a pattern and also matches itself literally. An empty text selects events without
    a value. Sums and means of bytes and times are of system calls; --where cat=HDF5 or --by cat gives those of
    HDF5 and MPI-IO, which are recorded again as system calls. Example:

    tailrace query DIR --stage align --by path --agg sum:size --agg count --sort sum_size --limit 10
    """
    form = form or _FORMS.get(output.suffix.lower() if output else "", "table")
    if form == "parquet" and output is None:
        raise UsageError("parquet is a binary format: name the output file with -o FILE")
    if columns is not None and (by is not None or aggs):
        raise UsageError("--columns prints events and --by and --agg print totals: give one or the other")
    run = open_run(directory, strict)
    given = [*_pairs(pairs), *((name, value) for name, values in filters.items() for value in values)]
    values = _values(given)
    for name in values.get("path", ()):
        _explain(run, name)
    where = {**values, **_times(run, since, until)}
    if columns is None and output is None and _write_counts(run, _names(by), aggs, sort, limit, where, form):
        return
    keys = _names(by if columns is None else columns)
    _write(_pieces(run, by, aggs, columns, sort, limit, where), form, output, keys)


def _write_counts(
    run: Run,
    by: list[str],
    aggs: tuple[str, ...],
    sort: str | None,
    limit: int | None,
    where: dict[str, Any],
    form: str,
) -> bool:
    """Prints totals that block headers have; False where events have to be read. Without pandas, whose import takes
    longer than the answer."""
    from tailrace.analyzer.store import query

    wanted = list(dict.fromkeys(query.parse_aggregate(text) for text in aggs or ("count",)))
    rows = query.counted(run, by, wanted, **where) if form in _PLAIN_FORMS else None
    if rows is None:
        return False
    names = query.labels(by, wanted)
    if not rows or (not by and rows[0][0] == 0):
        say(NOTHING)
    rows = query.sorted_rows(rows, names, sort)[:limit]
    _PLAIN_FORMS[form](names, rows, by)
    return True


def _plain_table(names: list[str], rows: list[tuple[Any, ...]], keys: list[str]) -> None:
    from tailrace.cli.tables import render

    render(_heads(names, keys), rows)


def _plain_csv(names: list[str], rows: list[tuple[Any, ...]], keys: list[str]) -> None:
    csv.writer(utf8_output(), lineterminator="\n").writerows([names, *rows])


def _plain_json(names: list[str], rows: list[tuple[Any, ...]], keys: list[str]) -> None:
    lines = (json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False, separators=(",", ":")) for row in rows)
    # pandas, which writes all other tables, escapes slashes.
    utf8_output().write(f"[{','.join(lines)}]\n".replace("/", "\\/"))


_PLAIN_FORMS = {"table": _plain_table, "csv": _plain_csv, "json": _plain_json}


def _explain(run: Run, name: str | Glob) -> None:
    """Says on standard error which files a name means, where that is not plain. Raises QueryError where none is."""
    from tailrace.analyzer.edges import file_names
    from tailrace.analyzer.util.formatting import count_text

    if name == "" or not isinstance(name, str):
        return
    files = run.find_files(name)
    found = list(dict.fromkeys(files["found"]))
    many, shown = len(files) > 1, ", ".join(found[:5]) + (", ..." if len(found) > 5 else "")
    if len(files) and files["how"].iat[0] == file_names.LINK:
        note = f"a link to {', '.join(sorted(set(files['path'][files['ftype'] != 'lnk'])))}"
    elif len(found) > 1:
        note = f"{count_text(len(files), 'file')}: {shown}; --by path keeps them apart"
    elif many:
        note = f"{count_text(len(files), 'file')}, one after another; --by file keeps them apart"
    else:
        return
    say(f"{name} is {note}")


def _pieces(
    run: Any,
    by: str | None,
    aggs: tuple[str, ...],
    columns: str | None,
    sort: str | None,
    limit: int | None,
    where: dict[str, Any],
) -> Iterator[pd.DataFrame]:
    from tailrace.analyzer.store import query

    if columns is not None:
        some = False
        for piece in query.rows(run, _names(columns), sort, limit, **where):
            some = some or len(piece) > 0
            yield piece
        if not some and limit != 0:
            say(NOTHING)
        return
    wanted = [query.parse_aggregate(text) for text in aggs or ("count",)]
    count = query.Aggregate("count", None)
    table = query.aggregate(run, _names(by), list(dict.fromkeys([*wanted, count])), **where)
    if totals := table.attrs.get("totals"):
        from tailrace.analyzer.util.formatting import count_text

        say(
            f"{count_text(totals, 'line')} of totals (--detail) count as one call each where a figure needs each call:"
            " min, max, nunique and percentiles of sizes and times are of those lines' sums"
        )
    if left := table.attrs.get("left_out"):
        layers = ", ".join(left)
        say(f"without the calls of {layers}, whose bytes and times are in the system calls; --by cat shows them")
    if table.empty or (not by and table[count.label].iat[0] == 0):
        say(NOTHING)
    if count not in wanted:
        table = table.drop(columns="events" if count.label in _names(by) else count.label)
    table = query.ordered(table, sort)
    yield table if limit is None else table.head(limit)


def _pairs(pairs: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Columns and values of `--where`. Raises UsageError, QueryError."""
    from tailrace.analyzer.store import schema

    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"--where {pair!r} has no '=': write it as COLUMN=VALUE")
        yield schema.column(name).name, value


def _values(given: Iterable[tuple[str, str]]) -> dict[str, list[Any]]:
    """The accepted values of each column: all values given for it, by any option."""
    from tailrace.analyzer.store import conditions, schema

    out: dict[str, list[Any]] = {}
    for name, value in given:
        pattern = schema.column(name).kind == schema.TEXT and _PATTERN & set(value)
        out.setdefault(name, []).append(conditions.Glob(value) if pattern else value)
    return out


def _times(run: Any, since: float | None, until: float | None) -> dict[str, int]:
    start = run.t0_ns or 0
    bounds = {"t0": ("--since", since), "t1": ("--until", until)}
    for option, bound in bounds.values():
        if bound is not None and not isfinite(bound):
            raise UsageError(f"{option} is {bound}: give a finite number of seconds")
    return {name: start + round(bound * 1e9) for name, (_, bound) in bounds.items() if bound is not None}


def _names(text: str | None) -> list[str]:
    return [name for name in (text or "").split(",") if name]


_FORMS = {".csv": "csv", ".json": "json", ".parquet": "parquet", ".pq": "parquet"}


def _write(pieces: Iterator[pd.DataFrame], form: str, output: Path | None, keys: Sequence[str]) -> None:
    from tailrace.analyzer.util.published import published

    # A fault in the query is raised before the output file is created.
    first = next(pieces)
    pieces = chain([first], pieces)
    if output is None:
        if form == "table":
            import pandas as pd

            _render(pd.concat(pieces, ignore_index=True), keys)
        else:
            file = utf8_output()
            _TEXTS[form](map(_shown, pieces) if file.isatty() else pieces, file)
        return
    try:
        with published(output) as place:
            if form == "parquet":
                _parquet(pieces, place, keys)
            else:
                with place.open("w", encoding="utf-8", errors="backslashreplace") as file:
                    _TEXTS[form](pieces, file)
    except OSError as error:
        raise UsageError(f"can't write {output}: {error.strerror or error}") from error


def _render(table: pd.DataFrame, keys: Sequence[str]) -> None:
    from tailrace.cli.tables import render

    render(_heads(table.columns, keys), table.astype(object).to_numpy().tolist())


def _heads(names: Iterable[object], keys: Sequence[str]) -> list[str]:
    """The names of columns, with their units."""
    from tailrace.analyzer.store import query

    return [f"{name} ({unit})" if (unit := query.unit(str(name), keys)) else str(name) for name in names]


def _shown(piece: pd.DataFrame) -> pd.DataFrame:
    """For a terminal: no name in it acts there."""
    from tailrace.analyzer.util.formatting import visible

    shown: pd.DataFrame = piece.astype(object).map(lambda value: visible(value) if isinstance(value, str) else value)
    return shown


def _csv(pieces: Iterator[pd.DataFrame], file: TextIO) -> None:
    for number, piece in enumerate(pieces):
        piece.to_csv(file, index=False, header=number == 0, lineterminator="\n")


def _csv_text(pieces: Iterator[pd.DataFrame], file: TextIO) -> None:
    _csv((piece.apply(lambda column: column.map(_as_text)) for piece in pieces), file)


def _as_text(value: object) -> object:
    """A cell that no spreadsheet runs: names of files may begin like a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def _json(pieces: Iterator[pd.DataFrame], file: TextIO) -> None:
    between = "["
    for piece in pieces:
        if len(piece):
            file.write(between + piece.to_json(orient="records", force_ascii=False)[1:-1])
            between = ",\n"
    file.write("[]\n" if between == "[" else "]\n")


def _plain(pieces: Iterator[pd.DataFrame], file: TextIO) -> None:
    import pandas as pd

    file.write(pd.concat(pieces, ignore_index=True).to_string(index=False) + "\n")


_TEXTS: dict[str, Callable[[Iterator[pd.DataFrame], TextIO], None]] = {
    "csv": _csv,
    "csv-text": _csv_text,
    "json": _json,
    "table": _plain,
}


def _parquet(pieces: Iterator[pd.DataFrame], place: Path, keys: Sequence[str]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from tailrace.analyzer.store import query

    first = next(pieces)
    # A column of objects is text, also in a piece where all its values are null.
    fields = [
        pa.field(name, _arrow_type(first[name]), metadata={"unit": query.unit(str(name), keys)}) for name in first
    ]
    with pq.ParquetWriter(place, pa.schema(fields)) as writer:
        for piece in chain([first], pieces):
            writer.write_table(pa.Table.from_pandas(piece, schema=writer.schema, preserve_index=False))


def _arrow_type(column: pd.Series[Any]) -> Any:
    import pandas as pd
    import pyarrow as pa

    if pd.api.types.is_object_dtype(column):
        return pa.string()
    return pa.from_numpy_dtype(getattr(column.dtype, "numpy_dtype", column.dtype))
