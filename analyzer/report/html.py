"""The report as one self-contained web page.

    summary.collect(run) -> packed -> page.html.j2 with page.css and page/*.js inlined -> one file

Invariants: the page loads nothing and sends nothing; its content security policy allows only its own script and style,
by their hashes; names from the trace stay text. The data block is JSON that can't end its <script> element.

The same data on a terminal: terminal.py. What the scripts draw: page/, docs/report.md#the-page.

No plotting library: one costs 4 MB in each page and draws no tree of tasks. Logs are named, not quoted: a hostile trace
could put any file of the reader's into a page that is passed on.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

import jinja2

from tailrace.analyzer import summary
from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.summary.limits import JsonObject
from tailrace.base.published import published

PAGE = Path(__file__).parent / "page"
SCRIPTS = (
    "dom",
    "state",
    "copy",
    "outcomes",
    "panel",
    "tables",
    "selections",
    "overview",
    "layers",
    "sankey",
    "strips",
    "samples",
    "timeline",
    "heat",
    "rates",
    "access",
    "findings",
    "files",
    "histories",
    "start",
)
"""page/*.js in their order: each uses what those before it define."""


def write_html(run: AnalyzedRun, path: str | Path) -> None:
    """Writes the page of a run to `path` (UTF-8).

    Raises:
        OSError: the file can't be written; RunError: the trace can't be read.
    """
    write_page(summary.collect(run), Path(path))


def write_page(data: JsonObject, path: Path) -> None:
    """Writes the page for what `summary.collect` returns; it appears when it is whole. Raises OSError."""
    with published(path) as place:
        place.write_text(page_text(data), encoding="utf-8", errors="replace")


def page_text(data: JsonObject) -> str:
    """The page for what `summary.collect` returns."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(PAGE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    style, script = _unindented(PAGE / "page.css"), joined_scripts()
    return environment.get_template("page.html.j2").render(
        title=data["about"]["title"] or data["about"]["directory"] or "run",
        style=style,
        style_hash=digest(style),
        script=script,
        script_hash=digest(script),
        data=embedded(packed(data)),
    )


def joined_scripts() -> str:
    """The page's scripts as one, with a scope of its own."""
    parts = [_unindented(PAGE / f"{name}.js") for name in SCRIPTS]
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "})();\n"


def _unindented(path: Path) -> str:
    """The text without indentation, which is a tenth of the page."""
    return re.sub(r"^[ ]+", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)


def packed(data: JsonObject) -> JsonObject:
    """The data with its long lists as columns: names of keys are written once, and what the page leaves out is out."""
    out = {**data, "never_read": {k: v for k, v in data["never_read"].items() if k != "rows"}}
    for name in ("tasks", "files", "declared", "processes"):
        out[name] = {**data[name], "rows": columns(data[name]["rows"])}
    return out


def columns(rows: list[JsonObject]) -> JsonObject:
    """Rows as {"n": number of rows, "columns": {key: values}}; a row that lacks a key has null.

    Texts that come again and again are {"texts": distinct ones, "at": positions in them}.
    """
    keys = dict.fromkeys(key for row in rows for key in row)
    return {"n": len(rows), "columns": {key: _column([row.get(key) for row in rows]) for key in keys}}


def _column(values: list[object]) -> list[object] | JsonObject:
    texts = [value for value in values if isinstance(value, str)]
    if not values or len(texts) < len(values):
        return values
    place = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    return {"texts": list(place), "at": [place[text] for text in texts]} if 2 * len(place) < len(values) else values


def digest(text: str) -> str:
    """What a content security policy calls an inline script or style by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def embedded(data: object) -> str:
    """JSON that may stand inside <script>: ASCII without `<`, `>` and `&`, so no tag, comment or entity can begin."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
