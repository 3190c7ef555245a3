"""The tables of the report on a terminal: of stages, regions, waits, flows, files and declared dependencies.

    TABLES: summary.collect(run), names, width -> Table.lines(width), or None where there is nothing to show

Invariants: those of terminal.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.text import Text

from tailrace.analyzer import summary
from tailrace.analyzer.model.dataflow import UNTAGGED
from tailrace.analyzer.report.names import Names, fit
from tailrace.analyzer.summary.limits import JsonObject
from tailrace.analyzer.util.formatting import bytes_text, count_text, time_text, with_stage
from tailrace.base.text import visible

WIDE = 110
"""Columns of a terminal from which on the tables have their minor columns, too."""
GAP = 2
NARROWEST = 12
"""Columns that a name keeps when a table is too wide."""
SHOWN = {
    "findings": 10,
    "flows": 6,
    "files": 4,
    "histories": 10,
    "never_read": 5,
    "declared": 8,
    "waits": 15,
    "regions": 15,
}
"""Rows that a terminal shows of each list."""
ACTORS = (("wrote", "writers"), ("read", "readers"))
STATUS_STYLES = {
    "observed": "green",
    "value only": "dim",
    "order only": "dim",
    "not observed": "yellow",
    "untraced": "dim",
    "undeclared": "magenta",
}
REGION_TIMES = ("time", "io", "unoverlapped", "unoverlapped_app")
MANAGER = "(workflow manager: {files})"
RESULTS = "(declared results: {files})"


def first_of(shown: int, total: int) -> str:
    """What a title says of rows that are left out."""
    return f" (first {shown} of {total})" if total > shown else ""


def _split(rows: list[JsonObject], folded: Callable[[JsonObject], bool]) -> tuple[list[JsonObject], list[JsonObject]]:
    """The rows that are shown, and those that are folded into one."""
    sides: tuple[list[JsonObject], list[JsonObject]] = ([], [])
    for row in rows:
        sides[folded(row)].append(row)
    return sides


@dataclass
class Table:
    """A table whose first column's head is its title.

    columns: (head, kind); kind is "number" (never shortened), "word", or "name" (shortened where the line is too long).
    rows: cells as texts, or `Text` with a style. note: a sentence below the table.
    """

    columns: Sequence[tuple[str, str]]
    names: Names
    rows: list[Sequence[str | Text]] = field(default_factory=list)
    note: str = ""

    def lines(self, width: int) -> Iterator[Text]:
        """The table in lines of `width` columns."""
        room = self._room(width)
        heads = [Text(head, "bold" if i == 0 else "dim") for i, (head, _) in enumerate(self.columns)]
        for row in (heads, *self.rows):
            line = Text()
            for i, (cell, wide, (_, kind)) in enumerate(zip(row, room, self.columns, strict=True)):
                text = cell.copy() if isinstance(cell, Text) else Text(cell)
                if kind == "name" and row is not heads:
                    text.plain = fit(text.plain, wide)
                pad = " " * (wide - cell_len(text.plain))
                line.append(" " * GAP if i else "").append(pad if kind == "number" else "").append_text(text)
                line.append("" if kind == "number" else pad)
            line.rstrip()
            yield line

    def _room(self, width: int) -> list[int]:
        """The width of each column: what its cells need, names less where that is too much for the line."""
        cells = [[head for head, _ in self.columns], *self.rows]
        needs = [max(cell_len(str(row[i])) for row in cells) for i in range(len(self.columns))]
        over = sum(needs) + GAP * (len(needs) - 1) - width
        least = [
            max(NARROWEST, cell_len(head)) if kind == "name" else wide
            for (head, kind), wide in zip(self.columns, needs, strict=True)
        ]
        while over > 0 and (flexible := [i for i, wide in enumerate(needs) if wide > least[i]]):
            needs[max(flexible, key=lambda i: needs[i])] -= 1
            over -= 1
        return needs


def _stages(data: JsonObject, names: Names, width: int) -> Table:
    """Stages in time order; the split of I/O time is left out where the terminal is narrow."""
    split = ("read", "write", "metadata") if width >= WIDE else ()
    right = ("tasks", "procs", "span", "I/O", *split, "bytes read", "written")
    table = Table(
        (("Stages", "name"), *((name, "number") for name in right)),
        names,
        note=visible(" ".join(filter(None, (data["untagged"]["text"], data["levels"])))),
    )
    for s in data["stages"]:
        times = [time_text(s[f"{name}_ms"] * 1e6) for name in ("span", "io", *split)]
        moved = (bytes_text(s["read_bytes"]), bytes_text(s["written_bytes"]))
        table.rows.append((visible(s["stage"]), str(s["tasks"]), str(s["processes"]), *times, *moved))
    return table


def _regions(data: JsonObject, names: Names, width: int) -> Table | None:
    """The program's own regions: unions over threads and processes; a dash where no region is one of computing."""
    known = data["regions"]["rows"]
    if not known:
        return None
    longest = {id(row) for row in sorted(known, key=lambda row: -row["time_ms"])[: SHOWN["regions"]]}
    rows = [row for row in known if id(row) in longest]
    moved = ("read", "written") if width >= WIDE else ()
    right = ("count", "time", "I/O", *moved, "unoverlapped I/O", "of the application")
    total = data["regions"]["total"]
    title = "Regions" + (f" (the longest {len(rows)} of {total:,})" if len(rows) < total else "")
    table = Table(((title, "name"), *((name, "number") for name in right)), names)
    still_open = sum(row["open"] for row in rows)
    if still_open:
        ends = (
            "1 region never ended; its time is"
            if still_open == 1
            else f"{still_open} regions never ended; their time is"
        )
        table.note = f"{ends} that until the last event of the process."
    for row in rows:
        times = [None if row[f"{name}_ms"] is None else row[f"{name}_ms"] * 1e6 for name in REGION_TIMES]
        shown = ["-" if time is None else time_text(time) for time in times]
        moved_text = [bytes_text(row[f"{name}_bytes"]) for name in moved]
        table.rows.append((visible(row["region"]), f"{row['count']:,}", *shown[:2], *moved_text, *shown[2:]))
    return table


def _waits(data: JsonObject, names: Names, width: int) -> Table | None:
    """Sums over the tasks of each stage: waiting for data, for predecessors, for workers; then what they ran. Unknown
    times are a dash. On a narrow terminal the time to start and to stop and the wait for other processes are left
    out, and the queues are one column."""
    rows = data["waits"][: SHOWN["waits"]]
    if not rows:
        return None
    wide = {"their queue": ("upstream",), "own queue": ("queue",), "starting": ("start",)}
    keys = {
        "wait: data": ("data",),
        "predecessors": ("order",),
        **(wide if width >= WIDE else {"queues": ("upstream", "queue")}),
        "I/O": ("io",),
        **({"processes": ("wait",)} if width >= WIDE and any(row["wait_ms"] for row in rows) else {}),
        "computing": ("compute",),
        **({"stopping": ("stop",)} if width >= WIDE and any(row["stop_ms"] for row in rows) else {}),
    }
    # The long title alone would make the table wider than a line of WIDE columns.
    title = ("Sums over tasks" if width < WIDE + 30 else "Where the tasks' time went, summed over tasks") + first_of(
        len(rows), len(data["waits"])
    )
    table = Table(((title, "name"), ("tasks", "number"), *((name, "number") for name in keys)), names)
    for row in rows:
        known = ([row[f"{name}_ms"] for name in parts if row[f"{name}_ms"] is not None] for parts in keys.values())
        shown = [time_text(sum(times) * 1e6) if times else "-" for times in known]
        table.rows.append((visible(row["stage"]), str(row["tasks"]), *shown))
    return table


def stage_name(data: JsonObject, position: int, other: str) -> str:
    """The stage at a position, or `other` for -1."""
    return str(data["stages"][position]["stage"]) if position >= 0 else other


def _flows(data: JsonObject, names: Names, width: int) -> Table | None:
    """Flows between stages, the largest first; then what concerns no stage, but untagged processes alone."""
    flows = sorted(data["flows"], key=lambda flow: -flow["bytes"])
    between, others = _split(flows, lambda flow: _of_untagged(data, flow))
    if not flows:
        return None
    shown = between[: SHOWN["flows"]]
    head = "Dataflow" + first_of(len(shown), len(between))
    kinds = ((head, "name"), ("to", "name"), ("bytes", "number"), ("files", "number"), ("largest", "name"))
    table = Table(kinds, names)
    for flow in [*shown, *others]:
        before = "(before the run, or another host)" if flow["undecided_bytes"] else "(before the run)"
        ends = stage_name(data, flow["source"], before), stage_name(data, flow["target"], summary.RESULT)
        among = ends == (UNTAGGED, UNTAGGED)
        largest = visible(names.relative(flow["largest"][0]["path"])) if flow["largest"] and not among else ""
        named = (UNTAGGED, "(among themselves)") if among else tuple(map(visible, ends))
        table.rows.append((*named, bytes_text(flow["bytes"]), str(flow["files"]), largest))
    return table


def _of_untagged(data: JsonObject, flow: JsonObject) -> bool:
    """Whether a flow has no stage at either end: the workflow manager's own."""
    ends = {stage_name(data, flow[end], "") for end in ("source", "target")}
    return UNTAGGED in ends and ends <= {UNTAGGED, ""}


def _files(data: JsonObject, names: Names, width: int) -> Table | None:
    rows = [row for row in data["files"]["rows"] if row["cls"] == "data"]
    manager = data["folded"]["manager"]
    if not rows:
        return None
    shown = rows[: SHOWN["files"]]
    head = "Files by bytes moved" + first_of(len(shown), data["numbers"]["files"])
    numbers = ("read", "written", "writers", "readers")
    table = Table(((head, "name"), *((name, "number") for name in numbers)), names)
    for row in shown:
        # A mapping moves what is touched, which nothing tells: at most all of it, each time.
        mapped = row["mapped_bytes"] > row["read_bytes"] + row["written_bytes"]
        read = f"{bytes_text(row['mapped_bytes'])} mapped" if mapped else bytes_text(row["read_bytes"])
        moved = (read, bytes_text(row["written_bytes"]))
        table.rows.append((visible(names.relative(row["path"])), *moved, str(row["writers"]), str(row["readers"])))
    if manager["files"]:
        sums = [bytes_text(manager[key]) for key in ("read_bytes", "written_bytes")]
        table.rows.append((MANAGER.format(files=count_text(manager["files"], "file")), *sums, "", ""))
    return table


def _histories(data: JsonObject, names: Names, width: int) -> Table | None:
    """Files written more than once, a row a state."""
    rows = data["histories"]["rows"]
    if not rows:
        return None
    shown = rows[: SHOWN["histories"]]
    head = "Files written more than once" + first_of(len(shown), len(rows))
    kinds = (
        (head, "name"),
        ("", "number"),
        ("how", "word"),
        ("by", "name"),
        ("written", "number"),
        ("read by", "name"),
    )
    table = Table(kinds, names)
    for row in shown:
        path = visible(names.relative(row["path"])) if row["state"] == 1 else ""
        wrote, read = (visible(actors_text(row[who], row[number])) for who, number in ACTORS)
        table.rows.append((path, f"@{row['state']}", row["how"], wrote, bytes_text(row["bytes"]), read))
    return table


def actors_text(actors: list[JsonObject], number: int) -> str:
    """The first of several tasks, and how many more."""
    names = [str(actor["name"]) for actor in actors]
    return ", ".join(names) + (f" and {number - len(names)} more" if number > len(names) else "")


def _never_read(data: JsonObject, names: Names, width: int) -> Table | None:
    rows = [row for row in data["never_read"]["rows"] if not row["removed"]]
    results = data["folded"]["results"]
    if not rows:
        return None
    shown = rows[: SHOWN["never_read"]]
    total = data["never_read"]["total"] - data["never_read"]["removed"]
    head = "Written, kept, never read by another task" + first_of(len(shown), total)
    table = Table(((head, "name"), ("written", "number"), ("by", "name")), names)
    for row in shown:
        by = visible(", ".join(row["stages"]))
        table.rows.append((visible(names.relative(row["path"])), bytes_text(row["written_bytes"]), by))
    if results["files"]:
        folded = RESULTS.format(files=count_text(results["files"], "file"))
        table.rows.append((folded, bytes_text(results["written_bytes"]), ""))
    return table


def task_name(row: JsonObject, end: str) -> str:
    """A declared task with its stage in front, unless the name has it already."""
    return with_stage(str(row[end]), str(row[f"{end}_stage"]))


def _declared(data: JsonObject, names: Names, width: int) -> Table | None:
    rows = [row for row in data["declared"]["rows"] if row["status"] in ("not observed", "undeclared")]
    if not rows:
        return None
    told = [finding for finding in data["findings"]["rows"] if finding["kind"].startswith("undeclared")]
    if len(rows) == 1 and rows[0]["status"] == "undeclared" and sum(finding["count"] for finding in told) == 1:
        return None  # the finding has said all of it
    shown = rows[: SHOWN["declared"]]
    kinds = (
        ("Not as declared" + first_of(len(shown), len(rows)), "name"),
        ("to", "name"),
        ("by", "word"),
        ("status", "word"),
        ("bytes", "number"),
        ("", "word"),
    )
    table = Table(kinds, names)
    for row in shown:
        ends = [visible(task_name(row, end)) for end in ("producer", "consumer")]
        status = Text(row["status"], STATUS_STYLES[row["status"]])
        order = data["declared"]["order_words"][row["order"]] if row["status"] == "undeclared" else ""
        table.rows.append((*ends, row["via"], status, bytes_text(row["bytes"]), order))
    return table


TABLES = (_stages, _regions, _waits, _flows, _files, _histories, _never_read, _declared)
"""In their order on the terminal."""
