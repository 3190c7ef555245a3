"""Writing an answer row by row: tables, CSV, JSON and Parquet."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from tailrace.cli.options import utf8_output
from tailrace.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from tailrace.analyzer.store.question import Answer, Field

Rows = Iterable[Sequence[Any]]
_FORMS = {".csv": "csv", ".json": "json", ".parquet": "parquet", ".pq": "parquet"}
_ARROW = {"object": "string", "boolean": "bool_"}
_PIECE = 1 << 17
"""Rows of a row group."""


def form_of(form: str | None, output: Path | None) -> str:
    """The chosen output format, else that of the output's name. Raises UsageError."""
    form = form or _FORMS.get(output.suffix.lower() if output else "", "table")
    if form == "parquet" and output is None:
        raise UsageError("parquet is a binary format: name the output file with -o FILE")
    return form


def write(answer: Answer, form: str, output: Path | None) -> bool:
    """Writes an answer, and returns whether an event matched. Raises UsageError when the output can't be written."""
    rows = iter(answer.rows)
    first = list(islice(rows, 1))  # a fault in the query is raised before the output file is created
    rows = chain(first, rows)
    if form == "parquet":
        _published(output, lambda place: _parquet(answer.fields, rows, place))
    else:
        names = [one.name for one in answer.fields]
        heads = [f"{one.name} ({one.unit})" if one.unit else one.name for one in answer.fields]
        _write_text(heads if form == "table" and output is None else names, rows, form, output)
    return bool(first) if answer.some is None else answer.some


def write_table(table: pa.Table, form: str | None, output: Path | None) -> None:
    """Writes the answer of an SQL query. Raises UsageError."""
    form = form_of(form, output)
    if form == "parquet":
        import pyarrow.parquet as pq

        _published(output, lambda place: pq.write_table(table, place))
        return
    columns = [[_plain(value, form) for value in column.to_pylist()] for column in table.columns]
    _write_text(table.column_names, zip(*columns, strict=True), form, output)


def _plain(value: Any, form: str) -> Any:
    if isinstance(value, list | dict) and form != "json":
        return json.dumps(value, ensure_ascii=False, default=str)
    return float(value) if isinstance(value, Decimal) else value


def _published(output: Path | None, put: Callable[[Path], None]) -> None:
    from tailrace.base.published import published

    assert output is not None
    try:
        with published(output) as place:
            put(place)
    except OSError as error:
        raise UsageError(f"can't write {output}: {error.strerror or error}") from error


def _write_text(names: Sequence[str], rows: Rows, form: str, output: Path | None) -> None:
    def put(place: Path) -> None:
        with place.open("w", encoding="utf-8", errors="backslashreplace") as file:
            _TEXTS[form](names, rows, file)

    if output is not None:
        _published(output, put)
        return
    if form == "table":
        _table(names, rows, sys.stdout)
        return
    file = utf8_output()
    shown = (tuple(map(_shown_cell, row)) for row in rows) if file.isatty() else rows  # so that no name acts there
    _TEXTS[form](names, shown, file)


def _shown_cell(value: object) -> object:
    from tailrace.base.text import visible

    return visible(value) if isinstance(value, str) else value


def _table(names: Sequence[str], rows: Rows, file: TextIO) -> None:
    from tailrace.analyzer.util import terminal

    screen = terminal.standard_output() if file is sys.stdout else terminal.Screen(table_width=1 << 16)
    file.writelines(f"{line}\n" for line in terminal.table_lines(names, list(rows), None, screen))


def _csv(names: Sequence[str], rows: Rows, file: TextIO) -> None:
    csv.writer(file, lineterminator="\n").writerows(chain([names], rows))


def _csv_text(names: Sequence[str], rows: Rows, file: TextIO) -> None:
    _csv(names, (tuple(map(_as_text, row)) for row in rows), file)


def _as_text(value: object) -> object:
    """A cell that no spreadsheet runs: names of files may begin like a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def _json(names: Sequence[str], rows: Rows, file: TextIO) -> None:
    between = "["
    for row in rows:
        cells = dict(zip(names, map(_json_cell, row), strict=True))
        text = json.dumps(cells, ensure_ascii=False, separators=(",", ":"), default=str)
        file.write(between + text.replace("/", "\\/"))
        between = ",\n"
    file.write("[]\n" if between == "[" else "]\n")


def _json_cell(value: Any) -> Any:
    """Ten decimals; null for what is no number of JSON."""
    if not isinstance(value, float):
        return value
    return round(value, 10) if math.isfinite(value) else None


_TEXTS: dict[str, Callable[[Sequence[str], Rows, TextIO], None]] = {
    "csv": _csv,
    "csv-text": _csv_text,
    "json": _json,
    "table": _table,
}


def _parquet(fields: Sequence[Field], rows: Iterator[Sequence[Any]], place: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = [getattr(pa, _ARROW.get(one.dtype, one.dtype.lower()))() for one in fields]
    own = [pa.field(one.name, kind, metadata={"unit": one.unit}) for one, kind in zip(fields, kinds, strict=True)]
    with pq.ParquetWriter(place, pa.schema(own)) as writer:
        while piece := list(islice(rows, _PIECE)):
            columns = [pa.array(*one) for one in zip(zip(*piece, strict=True), kinds, strict=True)]
            writer.write_table(pa.Table.from_arrays(columns, schema=writer.schema))
