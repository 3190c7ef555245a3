"""The report as tables on a terminal.

    summary.collect(run) -> show(data, console)

Invariants: names are printed as text, never as markup or control sequences; a table that leaves rows out says so.

The same data as a web page: html.py.
"""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tailrace.analyzer import summary
from tailrace.analyzer.util.formatting import bytes_text, count_text, shortened, time_text, visible, with_stage

TERMINAL_ROWS = 15
LONGEST_NAME = 240
"""Characters of a name or a sentence that a terminal shows."""
WIDE = 110
SHOWN_FINDINGS = 10
FINDING_STYLES = {"race": "red", "time": "yellow", "space": "cyan", "quality": "dim"}
ACTORS = (("wrote", "writers"), ("read", "readers"))
PART_WORDS = {
    "compute": "computing",
    "io": "in file I/O",
    "stream": "blocked on pipes and sockets",
    "gap": "between tasks (start-up, scheduling)",
}
STATUS_STYLES = {
    "observed": "green",
    "value only": "dim",
    "order only": "dim",
    "not observed": "yellow",
    "undeclared": "magenta",
}


def printable(name: str, length: int = LONGEST_NAME, style: str = "") -> Text:
    """A name as it is, for a terminal: neither markup nor controls are obeyed; of a long one both ends."""
    return Text(visible(shortened(name, length)), style)


def render_terminal(run: Any, console: Console) -> None:
    """Prints the report to a rich console; long tables show their first `TERMINAL_ROWS` rows and say so."""
    show(summary.collect(run), console)


def show(data: dict[str, Any], console: Console) -> None:
    """Prints what `summary.collect` returns."""
    about, numbers = data["about"], data["numbers"]
    console.print(printable(about["title"] or about["directory"], style="bold"))
    console.print(headline(numbers))
    console.print(coverage_text(data["coverage"]), style="dim", markup=False)
    for line in loss_lines(data["losses"]):
        console.print(Text.assemble(("lost: ", "yellow"), printable(line)))
    counts = data["declared"]["counts"]
    if counts:
        words = ", ".join(f"[{style}]{counts[s]} {s}[/]" for s, style in STATUS_STYLES.items() if counts.get(s))
        console.print(f"Declared dependencies: {words}", highlight=False)
    console.print(critical_text(data["critical"]), highlight=False, markup=False)
    console.print(footprint_text(data["footprint"]), highlight=False)
    _show_findings(data["findings"]["rows"], console)
    tables = (
        _stages(data, console.width),
        _waits(data, console.width),
        _flows(data),
        _files(data),
        _histories(data),
        _never_read(data),
        _declared(data),
    )
    for table in tables:
        if table is not None:
            console.print()
            console.print(table)


def headline(numbers: dict[str, Any]) -> str:
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


def critical_text(critical: dict[str, Any]) -> str:
    """What the makespan was spent on, along the critical path."""
    span = critical["makespan_ms"]
    if not span:
        return "Critical path: nothing ran."
    shares = ((critical["parts_ms"][name] / span, PART_WORDS[name]) for name in PART_WORDS)
    parts = ", ".join(f"{share:.0%} {words}" for share, words in shares if share >= 0.005)
    bound = time_text(critical["bound_ms"] * 1e6)
    text = f"Critical path: {time_text(span * 1e6)}, of it {parts}; the longest chain of work is {bound}."
    names = [visible(shortened(name, LONGEST_NAME)) for name in critical["through"]]
    return text + (f" It goes through {' -> '.join(names)}." if names else "")


def footprint_text(footprint: dict[str, Any]) -> str:
    """How much data there was at most."""
    live, held = bytes_text(footprint["peak_live_bytes"]), bytes_text(footprint["peak_held_bytes"])
    return f"Data: at most {live} in use at a time, {held} held."


def _show_findings(findings: list[dict[str, Any]], console: Console) -> None:
    if not findings:
        return
    rest = f" (the first {SHOWN_FINDINGS} of {len(findings)})" if len(findings) > SHOWN_FINDINGS else ""
    console.print(f"\n[bold]Findings, by what they cost{rest}[/bold]")
    for finding in findings[:SHOWN_FINDINGS]:
        style, title, query = FINDING_STYLES[finding["about"]], str(finding["title"]), str(finding["query"])
        console.print(Text.assemble((f"{cost_text(finding):>9} ", style), printable(title, 2 * LONGEST_NAME)))
        console.print(Text.assemble(" " * 10, printable(str(finding["advice"]))))
        console.print(f"{'':>9}", printable(query, len(query)), style="dim", highlight=False, soft_wrap=True)


def cost_text(finding: dict[str, Any]) -> str:
    """What a finding costs, in a few letters."""
    if finding["about"] in ("race", "quality"):
        return "race" if finding["about"] == "race" else "note"
    cost_ns, time = finding["cost_ns"], finding["about"] == "time" or finding["cost_ns"]
    amount = time_text(cost_ns) if time else bytes_text(finding["cost_bytes"])
    return f"up to {amount}" if finding["estimate"] and cost_ns else amount


def coverage_text(coverage: dict[str, Any]) -> str:
    """How much of what happened the trace can answer for."""
    return str(coverage["text"])


def loss_lines(losses: list[dict[str, Any]]) -> list[str]:
    """What was lost, a line a cause."""
    return [str(row["text"]) for row in losses]


def _table(title: str, columns: tuple[tuple[str, str], ...], total: int, shown: int) -> Table:
    rest = f" (the first {shown} of {total})" if total > shown else ""
    table = Table(title=title + rest, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for name, justify in columns:
        table.add_column(name, justify=justify, overflow="fold", no_wrap=justify == "right")  # type: ignore[arg-type]
    return table


def _stages(data: dict[str, Any], width: int) -> Table:
    """Stages in time order; the split of I/O time is left out where the terminal is narrow."""
    split = ("read", "write", "metadata") if width >= WIDE else ()
    right = ("tasks", "procs", "span", "I/O", *split, "bytes read", "written")
    columns = (("stage", "left"), *((name, "right") for name in right))
    table = _table("Stages", columns, len(data["stages"]), len(data["stages"]))
    for s in data["stages"]:
        times = [time_text(s[f"{name}_ms"] * 1e6) for name in ("span", "io", *split)]
        moved = (bytes_text(s["read_bytes"]), bytes_text(s["written_bytes"]))
        table.add_row(printable(s["stage"]), str(s["tasks"]), str(s["processes"]), *times, *moved)
    return table


def _waits(data: dict[str, Any], width: int) -> Table | None:
    """Where the tasks' time went; what nobody knows is a dash. The time to start is left out on a narrow terminal."""
    rows = data["waits"][:TERMINAL_ROWS]
    if not rows:
        return None
    start = {"starting": "start"} if width >= WIDE else {}
    names = {"on data": "data", "on order": "order", "queued": "queue", **start, "I/O": "io", "computing": "compute"}
    columns = (("stage", "left"), ("tasks", "right"), *((name, "right") for name in names))
    table = _table("Where the tasks' time went (sums over tasks)", columns, len(data["waits"]), len(rows))
    for row in rows:
        times = [row[f"{name}_ms"] for name in names.values()]
        shown = ["-" if ms is None else time_text(ms * 1e6) for ms in times]
        table.add_row(printable(row["stage"]), str(row["tasks"]), *shown)
    return table


def stage_name(data: dict[str, Any], position: int, other: str) -> str:
    """The stage at a position, or `other` for -1."""
    return str(data["stages"][position]["stage"]) if position >= 0 else other


def _flows(data: dict[str, Any]) -> Table | None:
    rows = sorted(data["flows"], key=lambda f: -f["bytes"])
    if not rows:
        return None
    columns = (("from", "left"), ("to", "left"), ("bytes", "right"), ("files", "right"), ("largest", "left"))
    table = _table("Dataflow", columns, len(rows), min(len(rows), TERMINAL_ROWS))
    for f in rows[:TERMINAL_ROWS]:
        source, target = (
            stage_name(data, f["source"], "(before the run)"),
            stage_name(data, f["target"], summary.RESULT),
        )
        largest = printable(f["largest"][0]["path"] if f["largest"] else "")
        table.add_row(printable(source), printable(target), bytes_text(f["bytes"]), str(f["files"]), largest)
    return table


def _files(data: dict[str, Any]) -> Table | None:
    rows = [row for row in data["files"]["rows"] if row["cls"] == "data"][:TERMINAL_ROWS]
    total = data["numbers"]["files"]
    if not rows:
        return None
    names = (("file", "left"), ("read", "right"), ("written", "right"), ("writers", "right"), ("readers", "right"))
    table = _table("Files by bytes moved", names, total, len(rows))
    for f in rows:
        moved = (bytes_text(f["read_bytes"]), bytes_text(f["written_bytes"]))
        table.add_row(printable(f["path"]), *moved, str(f["writers"]), str(f["readers"]))
    return table


def _histories(data: dict[str, Any]) -> Table | None:
    rows = data["histories"]["rows"]
    if not rows:
        return None
    names = (
        ("file", "left"),
        ("", "right"),
        ("how", "left"),
        ("by", "left"),
        ("written", "right"),
        ("read by", "left"),
    )
    table = _table("Files written more than once", names, len(rows), min(len(rows), TERMINAL_ROWS))
    for row in rows[:TERMINAL_ROWS]:
        path = printable(row["path"] if row["state"] == 1 else "")
        wrote, read = (printable(actors_text(row[who], row[number])) for who, number in ACTORS)
        table.add_row(path, f"@{row['state']}", row["how"], wrote, bytes_text(row["bytes"]), read)
    return table


def actors_text(actors: list[dict[str, Any]], number: int) -> str:
    """The first of several tasks, and how many more."""
    names = [str(actor["name"]) for actor in actors]
    return ", ".join(names) + (f" and {number - len(names)} more" if number > len(names) else "")


def _never_read(data: dict[str, Any]) -> Table | None:
    rows = [row for row in data["never_read"]["rows"] if not row["removed"]][:TERMINAL_ROWS]
    total = data["never_read"]["total"] - data["never_read"]["removed"]
    if not rows:
        return None
    names = (("file", "left"), ("written", "right"), ("by", "left"))
    table = _table("Written, kept and never read by anyone else", names, total, len(rows))
    for f in rows:
        table.add_row(printable(f["path"]), bytes_text(f["written_bytes"]), printable(", ".join(f["stages"])))
    return table


def task_name(row: dict[str, Any], end: str) -> str:
    """A declared task with its stage in front, unless it bears it already."""
    return with_stage(str(row[end]), str(row[f"{end}_stage"]))


def _declared(data: dict[str, Any]) -> Table | None:
    rows = [row for row in data["declared"]["rows"] if row["status"] in ("not observed", "undeclared")]
    if not rows:
        return None
    names = (
        ("from", "left"),
        ("to", "left"),
        ("declared by", "left"),
        ("status", "left"),
        ("bytes", "right"),
        ("", "left"),
    )
    table = _table("Where declared and observed differ", names, len(rows), min(len(rows), TERMINAL_ROWS))
    for row in rows[:TERMINAL_ROWS]:
        ends = [printable(task_name(row, end)) for end in ("producer", "consumer")]
        status = f"[{STATUS_STYLES[row['status']]}]{row['status']}[/]"
        order = "" if row["ordered"] else "nothing orders them"
        table.add_row(*ends, row["via"], status, bytes_text(row["bytes"]), order)
    return table
