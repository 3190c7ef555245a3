"""Fragments of HTML for notebooks, and lines of text for consoles, of names that others chose.

Invariants: every text is escaped by `html`, which alone makes markup of a text; control and invisible characters are
shown as escapes. An output carries its own style, which is of its own elements only, in the colours of the notebook; it
has no script and loads nothing.

No widgets: they need an extension in the notebook's server, and are empty in a notebook that was saved.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Sequence
from html import escape

from tailrace.base.text import visible

WIDTH = 80
"""Columns of a console's lines."""
_STYLE = (
    ".tailrace{font-size:13px;line-height:1.4}.tailrace table{border-collapse:collapse;margin:4px 0}"
    ".tailrace th,.tailrace td{padding:2px 10px 2px 0;text-align:left;vertical-align:top;"
    "border-bottom:1px solid rgba(128,128,128,.25);background:none;max-width:48em;overflow-wrap:anywhere}"
    ".tailrace td.n,.tailrace th.n{text-align:right;white-space:nowrap}.tailrace .t{font-weight:600;font-size:15px}"
    ".tailrace .q{opacity:.7}.tailrace .h{font-weight:600;margin-top:8px}.tailrace code{background:none}"
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
    return f'<div class="tailrace"><style>{_STYLE}</style>{element("div", title, kind="t")}{inner}</div>'


def lines(*texts: str) -> str:
    """Texts as lines of at most `WIDTH` columns, for __repr__; a longer one goes on further to the right. What a text
    is indented by stays."""
    out = []
    for text in texts:
        indent = " " * (len(text) - len(text.lstrip(" ")))
        out += textwrap.wrap(visible(text), WIDTH, subsequent_indent=indent + "  ", break_on_hyphens=False) or [""]
    return "\n".join(out)
