"""The report on a terminal: verdict, facts, findings and data quality here, tables in terminal_tables.py.

    summary.collect(run) -> show(data, console) -> verdict, facts, findings, tables, data quality

Invariants: names are printed as text, never as markup or control sequences (names.py). No line is wider than the
terminal as long as its numbers fit. A list that leaves rows out says so, also where it folds the files of the workflow
manager into one row.

The same data as a web page: html.py.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from tailrace.analyzer import summary
from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.insights.finding import ADVISED
from tailrace.analyzer.insights.finding_list import COST_WIDTH
from tailrace.analyzer.report.names import Names, fit, names_of
from tailrace.analyzer.report.terminal_tables import GAP, SHOWN, STATUS_STYLES, TABLES, WIDE, first_of
from tailrace.analyzer.summary.limits import JsonObject
from tailrace.analyzer.util.formatting import bytes_text, count_text, shortened, time_text
from tailrace.base.text import visible

LONGEST_NAME = 240
"""Characters of a name that is not in a column of its own."""
FINDING_STYLES = {
    "failure": "bold red",
    "race": "red",
    "order": "magenta",
    "time": "yellow",
    "space": "cyan",
    "note": "dim",
    "quality": "dim",
}
LIST_ALL = "tailrace report {run} --all"
TOGETHER = re.compile(r"(?<=\d) (?=(?:[num]?s|min|h|B|[KMGTP]iB)\b)|(?<=\w) (?=\d+(?: ->|\.?$))")
"""Blanks at which a line does not break: "4.42 s", "merge 13"."""
OUTCOME_STYLES = {"failed": "bold red", "noted": "yellow"}


def render_terminal(run: AnalyzedRun, console: Console) -> None:
    """Prints the report of a run to a rich console."""
    show(summary.collect(run), console)


def show(data: JsonObject, console: Console, every: bool = False) -> None:
    """Prints what `summary.collect` returns; long tables show their first rows (`SHOWN`) and say so. every: all
    findings, also the small ones."""
    about, names, width = data["about"], names_of(data), console.width
    _print(console, Text(visible(shortened(about["title"] or about["directory"], LONGEST_NAME)), "bold"))
    if about["hashed_names"]:
        _print(console, Text(f"Names are hashed, by the key {visible(about['hashed_names'])}."))
    if data["outcome"]["text"]:
        outcome = Text(visible(data["outcome"]["text"]), OUTCOME_STYLES[data["outcome"]["level"]])
        for line in _wrapped(outcome, width):
            _print(console, line)
    for fact in (Text(verdict_text(data), "bold"), *_facts(data)):
        for line in _wrapped(fact, width):
            _print(console, line)
    findings = [row for row in data["findings"]["rows"] if row["about"] != "quality"]
    _show_findings(findings, names, console, every)
    for table in TABLES:
        made = table(data, names, width)
        if made is not None:
            _print(console, Text())
            for line in made.lines(width):
                _print(console, line)
            for line in _wrapped(Text(made.note, "dim"), width) if made.note else ():
                _print(console, line)
    _show_quality(data, names, console)
    if width < WIDE:
        left_out = "I/O by read, write, metadata" + ("; starting, processes" if data["waits"] else "")
        _print(console, Text(f"(Left out below {WIDE} columns: {left_out})", "dim"))


def _print(console: Console, line: Text) -> None:
    """One line, as it is: rich neither wraps nor cuts it."""
    console.print(line, soft_wrap=True, highlight=False)


def _wrapped(text: Text, width: int, indent: int = 2) -> Iterator[Text]:
    """A sentence as lines that break between words, not before a unit; all but the first are indented."""
    plain = text.plain
    lines = textwrap.wrap(
        TOGETHER.sub("\u00a0", plain),
        max(width, 20),
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    at = 0
    for number, line in enumerate(lines):
        words = (line if number == 0 else line[indent:]).replace("\u00a0", " ")
        at = plain.index(words, at)
        yield Text(" " * indent if number else "").append_text(text[at : at + len(words)])
        at += len(words)


# --- the facts ------------------------------------------------------------------------------------------------------


def _facts(data: JsonObject) -> Iterator[Text]:
    yield Text(f"{headline(data['numbers'])}. {footprint_text(data['footprint'])}")
    counts = data["declared"]["counts"]
    if counts:
        parts = [(f"{counts[status]} {status}", style) for status, style in STATUS_STYLES.items() if counts.get(status)]
        said = Text("Declared dependencies: ").append_text(Text(", ").join(Text(*part) for part in parts))
        orders = data["declared"]["orders"]
        by_order = [
            f"{words}: {orders[order]}" for order, words in data["declared"]["order_words"].items() if orders.get(order)
        ]
        yield said.append(f" ({', '.join(by_order)})" if by_order else "")
    yield Text(critical_text(data["critical"]))


def verdict_text(data: JsonObject) -> str:
    """The report's first sentences."""
    text = visible(names_of(data).sentence(data["verdict"]["text"]))
    return f"{text} Part of what happened was not recorded (see Data quality)." if data["losses"] else text


def headline(numbers: JsonObject) -> str:
    """The run in one line."""
    parts = (
        count_text(numbers["stages"], "stage"),
        count_text(numbers["tasks"], "task"),
        f"{count_text(numbers['processes'], 'process', 'es')} on {count_text(numbers['hosts'], 'host')}",
        f"{bytes_text(numbers['read_bytes'])} read",
        f"{bytes_text(numbers['written_bytes'])} written",
        f"{time_text(numbers['span_ns'])}, {numbers['io_share']:.0%} of it with I/O running",
    )
    return ", ".join(parts)


def critical_text(critical: JsonObject) -> str:
    """What the makespan was spent on, along the critical path."""
    span = critical["makespan_ms"]
    if not span:
        return "Critical path: nothing ran."
    told = ("gap", "running")
    words = {name: f"{text} ({means})" if name in told else text for name, (text, means) in critical["words"].items()}
    shares = ((critical["account_ms"].get(name, 0) / span, words[name]) for name in words)
    parts = ", ".join(f"{share:.0%} {words}" for share, words in shares if share >= 0.005)
    bound = time_text(critical["bound_ms"] * 1e6)
    text = f"Critical path: {time_text(span * 1e6)}, of it {parts}; the longest chain of work is {bound}."
    names = [visible(shortened(name, LONGEST_NAME)) for name in critical["through"]]
    return text + (f" It goes through {' -> '.join(names)}." if names else "")


def footprint_text(footprint: JsonObject) -> str:
    """How much data there was at most."""
    live, kept = bytes_text(footprint["peak_live_bytes"]), bytes_text(footprint["peak_held_bytes"])
    return f"At most {live} of data in use at a time, {kept} stored."


def coverage_text(coverage: JsonObject) -> str:
    """How much of what happened is in the trace."""
    return str(coverage["text"])


def loss_lines(losses: list[JsonObject]) -> list[str]:
    """What was lost, a line a cause."""
    return [str(row["text"]) for row in losses]


# --- the findings ---------------------------------------------------------------------------------------------------


def _show_findings(findings: list[JsonObject], names: Names, console: Console, every: bool) -> None:
    large = [row for row in findings if every or not row["small"]]
    small = findings[len(large) :]
    _print_findings(large if every else large[: SHOWN["findings"]], len(large), names, console)
    if small:
        kinds = ", ".join(dict.fromkeys(str(row["kind"]) for row in small))
        cost = f"{'each ' if len(small) > 1 else ''}under {ADVISED.value:g}% of the run"
        for line in _wrapped(Text(f"{count_text(len(small), 'small thing')} ({cost}): {kinds}.", "dim"), console.width):
            _print(console, line)
        for query in names.query(LIST_ALL.format(run=names.quoted()), console.width - GAP):
            _print(console, Text(" " * GAP + query, "dim"))


def _show_quality(data: JsonObject, names: Names, console: Console) -> None:
    """How much of what happened was recorded, what it cost, and what can't be told."""
    _print(console, Text())
    lines = [Text.assemble(("Data quality: ", "bold"), (coverage_text(data["coverage"]), "dim"))]
    for text in loss_lines(data["losses"]):
        lines.append(Text.assemble(("lost: ", "yellow"), visible(shortened(text, LONGEST_NAME))))
    for row in data["findings"]["rows"]:
        if row["about"] == "quality":
            lines.append(Text(visible(shortened(names.sentence(str(row["title"])), 2 * LONGEST_NAME)) + ".", "dim"))
    for said in lines:
        for line in _wrapped(said, console.width):
            _print(console, line)


def _print_findings(shown: list[JsonObject], total: int, names: Names, console: Console) -> None:
    if not shown:
        return
    _print(console, Text())
    indent = COST_WIDTH + GAP
    head = Text("Findings, by what they cost" + first_of(len(shown), total), "bold")
    if not all(str(finding["query"]).startswith("tailrace ") for finding in shown):
        head.append(f" ({names.opening()})", "not bold dim")
    for part in _wrapped(head, console.width):
        _print(console, part)
    advised = {""}
    for finding in shown:
        cost, title = finding["cost"], str(finding["words"])
        words = f"{visible(shortened(names.sentence(title), 2 * LONGEST_NAME))}."
        words = " ".join(fit(w, console.width - indent) for w in words.split(" "))
        # Advice is the same for all of a kind; what is no fault needs none.
        if finding["kind"] not in advised and finding["about"] != "note":
            words = f"{words} {finding['advice']}"
        advised.add(finding["kind"])
        line = Text.assemble((f"{cost:>{COST_WIDTH}}", FINDING_STYLES[finding["about"]]), " " * GAP, words)
        *parts, last = _wrapped(line, console.width, indent)
        queries = names.query(str(finding["query"]), console.width - indent)
        if len(queries) == 1 and cell_len(last.plain) + GAP + cell_len(queries[0]) <= console.width:
            last.append(" " * GAP + queries.pop(), "dim")
        for part in (*parts, last, *(Text(" " * indent + query, "dim") for query in queries)):
            _print(console, part)
