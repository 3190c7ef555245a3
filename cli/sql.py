"""`tailrace sql`: a query over all runs of a store."""

from __future__ import annotations

from pathlib import Path

import click

from tailrace.cli.opening import say_store_problems
from tailrace.cli.options import PATH
from tailrace.cli.query_output import form_of, write_table


@click.command()
@click.argument("store", type=PATH, metavar="STORE")
@click.argument("query", metavar="QUERY")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "csv-text", "json", "parquet"]),
    help="Output format, as of `tailrace query`. Default: by the ending of the output's name, else table.",
)
@click.option("-o", "--output", type=PATH, help="Output file. Default: standard output.")
def command(store: Path, query: str, form: str | None, output: Path | None) -> None:
    """Print the answer of the SQL QUERY over the store STORE.

    Its tables are runs, stages, tasks, processes, files, versions, edges, findings, and events of the runs that were
    indexed with --events; `run` joins them. The query sees nothing else: no file, no network. The SQL is DuckDB's,
    which has to be installed (tailrace[store]). Example:

    tailrace sql STORE "select user, count(*) as runs, sum(read_bytes) from runs group by user order by 3 desc"
    """
    from tailrace.analyzer.runstore.store import Store

    form_of(form, output)
    opened = Store(store)
    table = opened.sql(query)
    say_store_problems(opened)
    write_table(table, form, output)
