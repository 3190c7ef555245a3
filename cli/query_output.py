"""Writing the answer of a query: tables, CSV, JSON and Parquet, whole or in pieces."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from tailrace.cli.options import utf8_output
from tailrace.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Unit = Callable[[object], str]
"""The unit of a column by its name, "" where it has none."""


def heads(names: Iterable[object], unit: Unit) -> list[str]:
    """The names of columns, with their units."""
    return [f"{name} ({of})" if (of := unit(name)) else str(name) for name in names]


def _plain_table(names: list[str], rows: list[tuple[Any, ...]], unit: Unit) -> None:
    from tailrace.cli.lines import render

    render(heads(names, unit), rows)


def _plain_csv(names: list[str], rows: list[tuple[Any, ...]], unit: Unit) -> None:
    file = utf8_output()
    csv.writer(file, lineterminator="\n").writerows([names, *_for(file, rows)])


def _plain_json(names: list[str], rows: list[tuple[Any, ...]], unit: Unit) -> None:
    file = utf8_output()
    # As pandas writes all other tables: ten decimals, slashes escaped.
    cells = ([round(cell, 10) if isinstance(cell, float) else cell for cell in row] for row in _for(file, rows))
    lines = (json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False, separators=(",", ":")) for row in cells)
    file.write(f"[{','.join(lines)}]\n".replace("/", "\\/"))


def _for(file: TextIO, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows as they are; for a terminal, so that no name in them acts there."""
    return [tuple(map(_shown_cell, row)) for row in rows] if file.isatty() else rows


PLAIN_FORMS = {"table": _plain_table, "csv": _plain_csv, "json": _plain_json}


def form_of(form: str | None, output: Path | None) -> str:
    """The chosen output format, else that of the output's name. Raises UsageError."""
    form = form or _FORMS.get(output.suffix.lower() if output else "", "table")
    if form == "parquet" and output is None:
        raise UsageError("parquet is a binary format: name the output file with -o FILE")
    return form


def write_answer(table: pa.Table, form: str | None, output: Path | None) -> None:
    """Writes the answer of an SQL query. Raises UsageError."""
    import pandas as pd
    import pyarrow as pa

    form = form_of(form, output)
    if form == "parquet":
        import pyarrow.parquet as pq

        from tailrace.base.published import published

        assert output is not None
        try:
            with published(output) as place:
                pq.write_table(table, place)
        except OSError as error:
            raise UsageError(f"can't write {output}: {error.strerror or error}") from error
        return
    kinds = {pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int32Dtype(), pa.bool_(): pd.BooleanDtype()}
    frame = table.to_pandas(types_mapper=kinds.get)
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_nested(column.type) and form != "json":
            values = column.to_pylist()
            texts = [None if value is None else json.dumps(value, ensure_ascii=False, default=str) for value in values]
            frame[name] = pd.Series(texts, dtype=object)
    write(iter([frame]), form, output, lambda name: "")


_FORMS = {".csv": "csv", ".json": "json", ".parquet": "parquet", ".pq": "parquet"}


def write(pieces: Iterator[pd.DataFrame], form: str, output: Path | None, unit: Unit) -> None:
    """Writes a table that comes in pieces. Raises UsageError when the output can't be written."""
    from tailrace.base.published import published

    # A fault in the query is raised before the output file is created.
    first = next(pieces)
    pieces = chain([first], pieces)
    if output is None:
        if form == "table":
            import pandas as pd

            _render(pd.concat(pieces, ignore_index=True), unit)
        else:
            file = utf8_output()
            _TEXTS[form](map(_shown, pieces) if file.isatty() else pieces, file)
        return
    try:
        with published(output) as place:
            if form == "parquet":
                _parquet(pieces, place, unit)
            else:
                with place.open("w", encoding="utf-8", errors="backslashreplace") as file:
                    _TEXTS[form](pieces, file)
    except OSError as error:
        raise UsageError(f"can't write {output}: {error.strerror or error}") from error


def _render(table: pd.DataFrame, unit: Unit) -> None:
    from tailrace.cli.lines import render

    render(heads(table.columns, unit), table.astype(object).to_numpy().tolist())


def _shown(piece: pd.DataFrame) -> pd.DataFrame:
    """For a terminal: no name in it acts there."""
    return piece.astype(object).map(_shown_cell)


def _shown_cell(value: object) -> object:
    from tailrace.base.text import visible

    return visible(value) if isinstance(value, str) else value


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


def _parquet(pieces: Iterator[pd.DataFrame], place: Path, unit: Unit) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    first = next(pieces)
    # A column of objects is text, also in a piece where all its values are null.
    fields = [pa.field(name, _arrow_type(first[name]), metadata={"unit": unit(name)}) for name in first]
    with pq.ParquetWriter(place, pa.schema(fields)) as writer:
        for piece in chain([first], pieces):
            writer.write_table(pa.Table.from_pandas(piece, schema=writer.schema, preserve_index=False))


def _arrow_type(column: pd.Series[Any]) -> Any:
    import pandas as pd
    import pyarrow as pa

    if pd.api.types.is_object_dtype(column):
        return pa.string()
    return pa.from_numpy_dtype(getattr(column.dtype, "numpy_dtype", column.dtype))
