"""`tailrace compare`: how two runs, or two groups of repeated runs, differ; fails when a limit is exceeded."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

import tailrace
from tailrace.errors import QueryError, RegressionError, UsageError

ROWS = 15


class _Groups(click.Command):
    """`--` separates the groups: the directories after it are group B."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            after = args[at + 1 :]
            count = next((i for i, word in enumerate(after) if word.startswith("-")), len(after))
            of_b = [word for directory in after[:count] for word in ("--against", directory)]
            args = [*args[:at], *of_b, *after[count:]]
        return super().parse_args(ctx, args)


@click.command(
    cls=_Groups,
    epilog="tailrace compare A B compares two runs, tailrace compare A1 A2 A3 -- B1 B2 B3 two groups of repeated ones."
    " A LIMIT is [STAGE.]FIGURE>+10%, [STAGE.]FIGURE<-5, [STAGE.]FIGURE>100.",
)
@click.argument("directories", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="A... [-- B...]")
@click.option(
    "--against",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Add a run to group B. May be repeated.",
)
@click.option(
    "--fail-on",
    "limits",
    multiple=True,
    metavar="LIMIT",
    help="Exit with 1 when it is exceeded, as in io_time>+10%. May be repeated.",
)
@click.option("--all", "everything", is_flag=True, help="Print figures that do not differ, too.")
@click.option("--json", "as_json", is_flag=True, help="Print all figures, flows and files as JSON.")
def command(
    directories: tuple[Path, ...], against: tuple[Path, ...], limits: tuple[str, ...], everything: bool, as_json: bool
) -> None:
    """Compare runs: how group B differs from group A."""
    from tailrace.analyzer.insights import run_comparison as runs

    with _limit_errors_as_usage_errors():
        gates = [runs.gate(text) for text in limits]
    a, b = groups(directories, against)
    found = runs.compare(*([runs.measure(tailrace.open(path)) for path in group] for group in (a, b)))
    if as_json:
        click.echo(_json(found))
    else:
        _print(found, everything)
    with _limit_errors_as_usage_errors():
        failed = runs.check(found, gates)
    if failed:
        raise RegressionError("; ".join(failed))


@contextmanager
def _limit_errors_as_usage_errors() -> Iterator[None]:
    """Turns a fault in a limit into a usage error: its exit code must differ from that of a regression."""
    try:
        yield
    except QueryError as error:
        raise UsageError(str(error)) from error


def groups(directories: tuple[Path, ...], against: tuple[Path, ...]) -> tuple[list[Path], list[Path]]:
    """The runs of A and of B. Raises UsageError when a side has none."""
    if against:
        return list(directories), list(against)
    if len(directories) == 2:
        return [directories[0]], [directories[1]]
    raise UsageError("group B is missing: write tailrace compare A1 A2 -- B1 B2")


def _json(found: Any) -> str:
    import json

    tables = {name: getattr(found, name).to_json(orient="records") for name in ("table", "flows", "files")}
    return json.dumps({"sizes": found.sizes, **{name: json.loads(text) for name, text in tables.items()}}, indent=1)


def _print(found: Any, everything: bool) -> None:
    from tailrace.cli.tables import render

    n_a, n_b = found.sizes
    table = found.table if everything else found.table[found.table["difference"] != 0]
    several = n_a > 1 or n_b > 1
    names = ["stage", "figure", "A", "B", "difference", ""]
    rows = []
    for row in table.to_dict("records"):
        cells = [_figure(row[f"{side}_mean"], row[f"{side}_ci"], row["unit"]) for side in ("a", "b")]
        share = "" if row["share"] != row["share"] else _share(row["share"])
        sure = "" if row["sure"] or not several else "within noise"
        rows.append([row["scope"] or "(run)", row["figure"], *cells, share, sure])
    render(names, rows, title=f"A: {n_a} run{'s' * (n_a > 1)}, B: {n_b}" + " (mean +- 95 %)" * several, numbers=False)
    if len(found.flows):
        flows = [
            [r["producer"], r["consumer"], _bytes(a), _bytes(b), f"{round(b - a):+,} B"]
            for r in found.flows.head(ROWS).to_dict("records")
            for a, b in ((r["a_bytes"], r["b_bytes"]),)
        ]
        render(
            ["from", "to", "A", "B", "difference"], flows, title=_title("Flows that differ", found.flows), numbers=False
        )
    if len(found.files):
        files = [
            [r["path"], *(_bytes(r[k]) for k in ("a_read", "b_read", "a_written", "b_written")), r["only"].upper()]
            for r in found.files.head(ROWS).to_dict("records")
        ]
        heads = ["file", "read: A", "B", "written: A", "B", "only in"]
        render(heads, files, title=_title("Files that differ", found.files), numbers=False)


def _share(share: float) -> str:
    return f"{share:+.1%}" if abs(share) >= 0.0005 else f"{'+' if share > 0 else '-'}<0.1%"


def _title(text: str, table: Any) -> str:
    return text + (f" (the first {ROWS} of {len(table)})" if len(table) > ROWS else "")


def _figure(mean: float, interval: float, unit: str) -> str:
    noise = "" if interval != interval else f" +- {_amount(interval, unit)}"
    return _amount(mean, unit) + noise


def _amount(value: float, unit: str) -> str:
    from tailrace.analyzer.util.formatting import time_text

    if unit == "s":
        return time_text(value * 1e9)
    return _bytes(value) if unit == "B" else f"{value:,.6g}"


def _bytes(value: float) -> str:
    from tailrace.analyzer.util.formatting import bytes_text

    return bytes_text(round(value))
