"""The report on a store as one self-contained web page, and its cells in words for the terminal, too.

    overview.collect(store) -> store.html.j2 with page.css inlined -> one file

Invariants: the page has no script, loads nothing and sends nothing; its content security policy allows only its own
style, by its hash. Names are text: the template escapes them, and characters that can't be seen are shown as escapes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2

from tailrace.analyzer.report.html import PAGE, digest
from tailrace.analyzer.runstore.overview import UNITS, unit
from tailrace.analyzer.util.formatting import bytes_text, percent_text, time_text
from tailrace.base.published import published
from tailrace.base.text import visible

_STYLE = """
table { border-collapse: collapse; font-size: 14px; }
th, td { text-align: left; padding: 5px 14px 5px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 500; white-space: nowrap; }
td { overflow-wrap: anywhere; max-width: 56ch; }
.n { text-align: right; white-space: nowrap; }
.share { display: block; width: 100%; min-width: 70px; height: 4px; margin-top: 2px; fill: var(--s0);
  background: var(--panel); }
pre { font-size: 12.5px; overflow-x: auto; background: var(--panel); padding: 10px 14px; border-radius: 6px; }
.numbers li { flex-direction: column; padding: 12px 16px 11px; }
"""
_NAMES = {
    "runs": "Runs",
    "failed": "Failed",
    "users": "Users",
    "tasks": "Tasks",
    "processes": "Processes",
    "events": "Events",
    "io_ns": "I/O time",
    "read_bytes": "Read",
    "written_bytes": "Written",
    "incomplete": "Incomplete runs",
}


_HEADS = {"io_ns": "I/O time", "wall_ns": "wall time", "cost_ns": "cost: time", "cost_bytes": "cost: bytes"}


def write_store_page(data: dict[str, Any], path: Path) -> None:
    """Writes the page for what `overview.collect` returns; it appears when it is whole. Raises OSError."""
    with published(path) as place:
        place.write_text(page_text(data), encoding="utf-8", errors="replace")


def page_text(data: dict[str, Any]) -> str:
    """The page for what `overview.collect` returns."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(PAGE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    style = (PAGE / "page.css").read_text(encoding="utf-8") + _STYLE
    return environment.get_template("store.html.j2").render(
        title=visible(data["store"]),
        style=style,
        style_hash=digest(style),
        numbers=numbers(data),
        span=" to ".join(dict.fromkeys(filter(None, (data["numbers"]["first"], data["numbers"]["last"])))),
        problems=[visible(text) for text in data["problems"]],
        sections=[_section(section) for section in data["sections"]],
    )


def numbers(data: dict[str, Any]) -> list[tuple[str, str]]:
    """The numbers of the overview: name, value in words."""
    return [(name, cell(key, data["numbers"][key] or 0)) for key, name in _NAMES.items()]


def cell(column: str, value: Any) -> str:
    """A value in words."""
    if value is None:
        return ""
    kind = unit(column)
    if kind == "time":
        return time_text(value)
    if kind == "bytes":
        return bytes_text(value)
    if kind == "share":
        return percent_text(round(value * 1_000_000), 1_000_000)
    return f"{value:,}" if isinstance(value, int) else visible(str(value))


def head(column: str) -> str:
    """The head of a column."""
    if column in _HEADS:
        return _HEADS[column]
    name, _, end = column.rpartition("_")
    return (name if end in UNITS else column).replace("_", " ")


def _section(section: dict[str, Any]) -> dict[str, Any]:
    columns, rows = section["columns"], section["rows"]
    ranked = next((at for at, name in enumerate(columns) if name in ("io_ns", "cost_ns", "reads")), None)
    most = max((row[ranked] or 0 for row in rows), default=0) if ranked is not None else 0
    return {
        **section,
        "heads": [(head(name), _is_number(name, rows, at)) for at, name in enumerate(columns)],
        "cells": [
            [
                (cell(name, row[at]), _is_number(name, rows, at), _percent(row[at], most) if at == ranked else 0)
                for at, name in enumerate(columns)
            ]
            for row in rows
        ],
    }


def _percent(value: Any, most: int) -> int:
    return round(100 * (value or 0) / most) if most else 0


def _is_number(column: str, rows: list[list[Any]], at: int) -> bool:
    return bool(unit(column)) or any(isinstance(row[at], int) for row in rows)
