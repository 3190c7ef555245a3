"""The history of a file for consoles and notebooks; `tailrace file` prints more of it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from tailrace.analyzer.util import html
from tailrace.analyzer.util.formatting import bytes_text, count_text, moment_text, time_text

if TYPE_CHECKING:
    from tailrace.analyzer.insights.file_history import Access, File, FileHistory, Node, Version

MOST_FILES, MOST_ACCESSES, MOST_NODES = 10, 20, 60


def text(history: FileHistory) -> str:
    """The history, some lines a file."""
    out = [f"{history.name}: {count_text(len(history.files), 'file')}"]
    for file in history.files[:MOST_FILES]:
        out.append(f"  {file.path or file.identity}: {_facts(file, history.t0_ns)}")
        for version in file.versions[-3:]:
            out.append(f"    version {version.number}: written by {_who(version.writers)}, read by")
            out[-1] += f" {_who(version.readers)}"
    hidden = len(history.files) - MOST_FILES
    out += [f"  and {hidden:,} more"] if hidden > 0 else []
    for word, nodes in (("made from", history.up), ("used for", history.down)):
        out += [f"  {word}: {count_text(len(nodes), 'line')} in its tree"] if nodes else []
    return html.lines(*out)


def markup(history: FileHistory) -> str:
    """The history as HTML: a table a file, and the trees."""
    parts = []
    for file in history.files[:MOST_FILES]:
        parts += [html.heading(file.path or file.identity), html.element("div", _facts(file, history.t0_ns), kind="q")]
        rows = [row for version in file.versions for row in _rows(version, history.t0_ns)]
        head = ("version", "", "who", "from", "to", "bytes", "calls", "pattern", "command")
        numbers = ("version", "from", "to", "bytes", "calls")
        parts.append(html.table(head, rows[:MOST_ACCESSES], numbers, len(rows) - MOST_ACCESSES))
    hidden = len(history.files) - MOST_FILES
    parts += [html.element("div", f"and {count_text(hidden, 'file')} more", kind="q")] if hidden > 0 else []
    for title, nodes in (("Made from", history.up), ("Used for", history.down)):
        if nodes:
            parts += [html.heading(title), _tree(nodes)]
    return html.output(f"{history.name}: {count_text(len(history.files), 'file')}", *parts)


def _facts(file: File, t0_ns: int | None) -> str:
    moved = f"{bytes_text(file.written_bytes)} written, {bytes_text(file.read_bytes)} read"
    lived = "" if file.lived_ns is None else f", in use for {time_text(file.lived_ns)}"
    gone = "" if file.gone_ns is None else f", removed at {moment_text(file.gone_ns, t0_ns)}"
    now = "" if file.now is None else f", now: {file.now.state}" + (f" {file.now.sha256}" if file.now.sha256 else "")
    versions = count_text(len(file.versions), "version")
    return f"{bytes_text(file.size)}, {file.kind or 'no data'}, {versions}, {moved}{lived}{gone}{now}"


def _who(accesses: list[Access]) -> str:
    names = list(dict.fromkeys(access.who for access in accesses))
    more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
    return (", ".join(names[:3]) + more) or "nobody"


def _rows(version: Version, t0_ns: int | None) -> list[tuple[object, ...]]:
    accesses = [("written by", one) for one in version.writers] + [("read by", one) for one in version.readers]
    if not accesses:
        return [(version.number, "not used", "", "", "", "", "", "", "")]
    return [
        (
            version.number,
            word,
            one.who,
            moment_text(one.begin_ns, t0_ns),
            moment_text(one.end_ns, t0_ns),
            bytes_text(one.bytes),
            f"{one.calls:,}",
            one.pattern,
            html.element("code", shlex.join(one.command)) if one.command else one.program,
        )
        for word, one in accesses
    ]


def _tree(nodes: list[Node]) -> html.Html:
    rows = []
    for node in nodes[:MOST_NODES]:
        size = "" if node.bytes is None else bytes_text(node.bytes)
        indent = html.Html("&nbsp;" * (4 * min(node.depth, 20)))
        name = html.Html(indent + html.html(node.name))
        rows.append((name, size, node.end, html.element("code", shlex.join(node.command)) if node.command else ""))
    return html.table(("", "bytes", "", "command"), rows, ("bytes",), len(nodes) - MOST_NODES)
