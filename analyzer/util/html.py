"""HTML for notebooks: documents (document.py) and fragments of names that others chose; and lines for consoles.

Invariants: every text is escaped by `html`, which alone makes markup of a text; control and invisible characters are
shown as escapes. An output carries its own style, which is of its own elements only, in the colours of the notebook; it
has no script and loads nothing.

No widgets: they need an extension in the notebook's server, and are empty in a notebook that was saved.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from html import escape

from tailrace.analyzer.util import document as of
from tailrace.base.text import visible

WIDTH = 80
"""Columns of a console's lines."""
DEEPEST_LINE = 2
DEEPEST_NODE = 20
_STYLE = (
    ".tailrace{font-size:13px;line-height:1.4}.tailrace table{border-collapse:collapse;margin:4px 0}"
    ".tailrace th,.tailrace td{padding:2px 10px 2px 0;text-align:left;vertical-align:top;"
    "border-bottom:1px solid rgba(128,128,128,.25);background:none;max-width:48em;overflow-wrap:anywhere}"
    ".tailrace td.n,.tailrace th.n{text-align:right;white-space:nowrap}.tailrace .t{font-weight:600;font-size:15px}"
    ".tailrace .q{opacity:.7}.tailrace .h{font-weight:600;margin-top:8px}.tailrace code{background:none}"
    ".tailrace .d1{padding-left:1.5em}.tailrace .d2{padding-left:3em}"
)


class Html(str):
    """Markup, which is not escaped again."""

    __slots__ = ()


def html(value: object) -> Html:
    """A text as markup; markup stays as it is."""
    return value if isinstance(value, Html) else Html(escape(visible(str(value)), quote=True))


def element(name: str, *content: object, kind: str = "") -> Html:
    """An element with its content; kind: its class."""
    of_class = f' class="{escape(kind, quote=True)}"' if kind else ""
    return Html(f"<{name}{of_class}>{''.join(map(html, content))}</{name}>")


def table(
    head: Sequence[str], rows: Iterable[Sequence[object]], right: Collection[str] = (), left_out: int = 0
) -> Html:
    """A table; right: the columns of numbers; left_out: rows that are not shown, which a last line says."""
    kinds = ["n" if name in right else "" for name in head]
    top = element("tr", *(element("th", name, kind=kind) for name, kind in zip(head, kinds, strict=True)))
    body = [
        element("tr", *(element("td", cell, kind=kind) for cell, kind in zip(row, kinds, strict=True))) for row in rows
    ]
    rest = element("div", f"and {left_out:,} more", kind="q") if left_out > 0 else Html("")
    return Html(element("table", element("thead", top), element("tbody", *body)) + rest)


def heading(text: str) -> Html:
    """The title of a part of an output."""
    return element("div", text, kind="h")


def output(title: object, *parts: object) -> str:
    """A whole output, for _repr_html_."""
    inner = "".join(map(html, parts))
    top = element("div", title, kind="t") if title else ""
    return f'<div class="tailrace"><style>{_STYLE}</style>{top}{inner}</div>'


def whole(shown: of.Document) -> str:
    """A document, for _repr_html_."""
    return output(shown.title, *(piece for part in shown.parts for piece in _part(part)))


def _part(part: of.Part) -> Iterator[Html]:
    if isinstance(part, of.Section | of.Table) and part.title:
        yield heading(part.title.removesuffix(":"))
    if isinstance(part, of.Section):
        for inner in part.parts:
            yield from _part(inner)
    elif isinstance(part, of.Facts):
        yield table(("", ""), [(word, _cell(value)) for word, value in part.facts])
    elif isinstance(part, of.Lines):
        for depth, text in part.lines:
            yield element("div", text, kind=f"d{min(depth, DEEPEST_LINE)}" if depth else "")
    elif isinstance(part, of.LeftOut):
        yield _left_out(part)
    elif isinstance(part, of.Tree):
        indents = [Html("&nbsp;" * (4 * min(depth, DEEPEST_NODE))) for depth, _ in part.nodes]
        rows = [
            [Html(indent + _cell(cells[0])), *cells[1:]] for indent, (_, cells) in zip(indents, part.nodes, strict=True)
        ]
        yield _table(part.columns, rows)
        yield _left_out(part.left_out)
    else:
        yield from _groups(part)


def _groups(table: of.Table) -> Iterator[Html]:
    """A table; the titles of its groups are a column of their own."""
    is_titled = any(group.title for group in table.groups)
    rows: list[Sequence[object]] = []
    for group in table.groups:
        empty = ("",) * len(table.columns)
        cells = group.rows or ([empty] if group.title else [])
        rows += [((group.title if not at else "",) if is_titled else ()) + tuple(row) for at, row in enumerate(cells)]
    yield _table([*([of.Column("")] if is_titled else []), *table.columns], rows)
    for group in table.groups:
        yield _left_out(group.left_out)


def _table(columns: Sequence[of.Column], rows: Sequence[Sequence[object]]) -> Html:
    """A table without columns that are empty."""
    kept = [at for at in range(len(columns)) if any(str(row[at]) for row in rows)]
    cells = [[_cell(row[at], columns[at].number) for at in kept] for row in rows]
    head = [columns[at].head for at in kept]
    return table(head, cells, {columns[at].head for at in kept if columns[at].number}) if rows else Html("")


def _cell(value: object, is_number: bool = False) -> Html:
    if isinstance(value, of.Command):
        return element("code", value) if str(value) else Html("")
    return html(f"{value.number:,}" if isinstance(value, of.Count) and is_number else value)


def _left_out(left_out: of.LeftOut) -> Html:
    text = left_out.text()
    return element("div", text, kind="q") if text else Html("")


def lines(*texts: str) -> str:
    """Texts as lines of at most `WIDTH` columns, for __repr__; a longer one goes on further to the right. What a text
    is indented by stays."""
    out = []
    for text in texts:
        indent = " " * (len(text) - len(text.lstrip(" ")))
        out += textwrap.wrap(visible(text), WIDTH, subsequent_indent=indent + "  ", break_on_hyphens=False) or [""]
    return "\n".join(out)
