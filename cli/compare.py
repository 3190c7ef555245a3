"""`tailrace compare`: how two runs, or two groups of repeated runs, differ; fails when a limit is exceeded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tailrace.analyzer.util.formatting import bytes_text, count_text, time_text
from tailrace.base.text import visible
from tailrace.cli.opening import open_run
from tailrace.cli.options import PATH, format_option, scheduler_option
from tailrace.errors import QueryError, RegressionError, UsageError
from tailrace.hashed_names import fingerprint_in
from tailrace.integrations.messages import say

if TYPE_CHECKING:
    import pandas as pd

    from tailrace.analyzer.insights.run_comparison import Comparison, Verdict

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
@click.argument("directories", nargs=-1, required=True, type=PATH, metavar="A... [-- B...]")
@click.option(
    "--against",
    multiple=True,
    type=PATH,
    metavar="DIR",
    help="Add a run to group B. May be repeated.",
)
@click.option(
    "--fail-on",
    "limits",
    multiple=True,
    metavar="LIMIT",
    help="Print a verdict on it, and exit with 1 when it is exceeded, as in io_time>+10%. May be repeated.",
)
@click.option(
    "--before", metavar="DAY", help="Of a store: compare the runs that began on this day or earlier (2026-11-17) ..."
)
@click.option("--after", metavar="DAY", help="... with those that began on this day or later, by application.")
@click.option("--all", "everything", is_flag=True, help="Print figures, flows and files below the noise floor, too.")
@format_option
@scheduler_option
def command(
    directories: tuple[Path, ...],
    against: tuple[Path, ...],
    limits: tuple[str, ...],
    before: str | None,
    after: str | None,
    everything: bool,
    form: str,
) -> None:
    """Compare runs: how group B differs from group A. Of a store, how its runs differ before and after a day."""
    if before is not None or after is not None:
        if before is None or after is None or len(directories) != 1 or against or limits:
            raise UsageError("--before DAY and --after DAY go together, with one store and no limit")
        _compare_store(directories[0], before, after, form)
        return
    from tailrace.analyzer.insights import run_comparison as runs
    from tailrace.analyzer.runstore import parts

    for directory in (*directories, *against):
        if parts.is_store(directory):
            raise UsageError(f"{directory} is a store: compare its runs by --before DAY --after DAY")
    with _limit_errors_as_usage_errors():
        gates = [runs.gate(text) for text in limits]
    a, b = groups(directories, against)
    opened = [[open_run(path) for path in group] for group in (a, b)]
    if len({fingerprint_in(run.meta) for group in opened for run in group}) > 1:
        say(
            "the names in these runs are hashed with different keys, or not in all of them: stages and files of one are"
            " not found in the other"
        )
    found = runs.compare(*([runs.measure(run) for run in group] for group in opened))
    with _limit_errors_as_usage_errors():
        verdicts = runs.check(found, gates)
    if form == "json":
        click.echo(_json(found, verdicts))
    else:
        _print(found, everything)
        for verdict in verdicts:
            click.echo(visible(str(verdict)))
    failed = [verdict for verdict in verdicts if verdict.exceeded]
    if failed:
        raise RegressionError("; ".join(f"{verdict.text}, exceeds {verdict.limit.text}" for verdict in failed))


def _compare_store(place: Path, before: str, after: str, form: str) -> None:
    from tailrace.analyzer.report import store_page
    from tailrace.analyzer.runstore import overview
    from tailrace.analyzer.runstore.store import Store
    from tailrace.cli.lines import put_json, render
    from tailrace.cli.opening import say_store_problems

    store = Store(place)
    rows = overview.compare(store, before, after)
    say_store_problems(store)
    if form == "json":
        put_json({"before": before, "after": after, "rows": rows})
        return
    cells = [
        [
            "(all)" if row["application"] is None else row["application"],
            store_page.head(row["figure"]),
            *(store_page.cell(row["figure"], _rounded(row[side])) for side in ("before", "after")),
            "" if row["change"] is None else _share(row["change"]),
            f"{row['runs_before']:,}, {row['runs_after']:,}",
        ]
        for row in rows
        if row["before"] or row["after"]
    ]
    if not cells:
        click.echo(f"No application has runs up to {before} and from {after} on.")
        return
    heads = ["application", "a run's", f"up to {before}", f"from {after} on", "change", "runs"]
    render(heads, cells, title="Means of a run. What changed most is first", numbers=False)


def _rounded(value: float) -> float:
    return round(value) if value >= 1 else value


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


def _json(found: Comparison, verdicts: Sequence[Verdict]) -> str:
    import json

    tables = {name: getattr(found, name).to_json(orient="records") for name in ("table", "flows", "files")}
    limits = [{"limit": v.limit.text, "figure": v.text, "exceeded": v.exceeded, "noise": v.noise} for v in verdicts]
    content = {"sizes": found.sizes, **{name: json.loads(text) for name, text in tables.items()}, "limits": limits}
    return json.dumps(content, indent=1)


def _print(found: Comparison, everything: bool) -> None:
    from tailrace.analyzer.insights.run_comparison import FLOOR_TEXT

    n_a, n_b = found.sizes
    heads = f"A: {count_text(n_a, 'run')}, B: {count_text(n_b, 'run')}"
    if found.identical and not everything:
        click.echo(f"{heads}. They are identical: every figure, flow and file is the same.")
        return
    if found.same and not everything:
        click.echo(f"{heads}. They do not differ by more than noise ({FLOOR_TEXT}); --all prints what differs.")
        return
    below = _print_figures(found, everything, heads)
    flows, files = (table if everything else table[table["notable"]] for table in (found.flows, found.files))
    _print_flows(flows)
    _print_files(files)
    below += len(found.flows) - len(flows) + len(found.files) - len(files)
    if below:
        words = f"{count_text(below, 'smaller difference')} left out, of at most {FLOOR_TEXT}, or within the noise"
        click.echo(f"{words} of the groups; --all prints them.")


def _print_figures(found: Comparison, everything: bool, heads: str) -> int:
    """Prints the figures, and says how many that differ are left out."""
    from tailrace.cli.lines import render

    several = max(found.sizes) > 1
    table = found.table if everything else found.table[found.table["notable"]]
    rows = []
    for row in table.to_dict("records"):
        cells = [_figure(row[f"{side}_mean"], row[f"{side}_ci"], row["unit"]) for side in ("a", "b")]
        share = "" if row["share"] != row["share"] else _share(row["share"])
        sure = "" if row["sure"] or not several else "within noise"
        rows.append([row["scope"] or "(run)", row["figure"], *cells, share, sure])
    if rows:
        names = ["stage", "figure", "A", "B", "difference", ""]
        render(names, rows, title=heads + " (mean +- 95 %)" * several + ". What matters most is first", numbers=False)
    return int((found.table["difference"] != 0).sum()) - int((table["difference"] != 0).sum())


def _print_flows(table: pd.DataFrame) -> None:
    from tailrace.cli.lines import render

    rows = [
        [
            row["producer"],
            row["consumer"],
            *(_bytes(row[key]) for key in ("a_bytes", "b_bytes")),
            _change(row["difference"]),
        ]
        for row in table.head(ROWS).to_dict("records")
    ]
    if rows:
        render(["from", "to", "A", "B", "difference"], rows, title=_title("Flows that differ", table), numbers=False)


def _print_files(table: pd.DataFrame) -> None:
    from tailrace.cli.lines import render

    keys = ("a_read", "b_read", "a_written", "b_written")
    rows = [
        [row["path"], *(_bytes(row[key]) for key in keys), row["only"].upper()]
        for row in table.head(ROWS).to_dict("records")
    ]
    if rows:
        heads = ["file", "read: A", "B", "written: A", "B", "only in"]
        render(heads, rows, title=_title("Files that differ", table), numbers=False)


def _change(difference: float) -> str:
    return f"{round(difference):+,} B"


def _share(share: float) -> str:
    return f"{share:+.1%}" if abs(share) >= 0.0005 else f"{'+' if share > 0 else '-'}<0.1%"


def _title(text: str, table: pd.DataFrame) -> str:
    return text + (f" (the first {ROWS} of {len(table)})" if len(table) > ROWS else "")


def _figure(mean: float, interval: float, unit: str) -> str:
    noise = "" if interval != interval else f" +- {_amount(interval, unit)}"
    return _amount(mean, unit) + noise


def _amount(value: float, unit: str) -> str:
    if unit == "s":
        return time_text(value * 1e9)
    return _bytes(value) if unit == "B" else f"{value:,.6g}"


def _bytes(value: float) -> str:
    return bytes_text(round(value))
