"""A graph in Graphviz' DOT language (https://graphviz.org/doc/info/lang.html): `dot -Tsvg graph.dot`.

Parties are boxes, files are notes, streams are ellipses; an edge's width grows with the logarithm of its bytes. Names
go through `quoted`, which leaves nothing that DOT would read as syntax or as an escape sequence.
"""

from __future__ import annotations

import math
from typing import Any, TextIO

import networkx as nx

from tailrace.analyzer.words import bytes_text

SHAPES = {"file": "note", "fifo": "ellipse", "sock": "ellipse", "anon": "ellipse"}
STYLES = {"read": "solid", "write": "solid", "flow": "solid", "base": "dotted"}


def write(graph: nx.MultiDiGraph[Any], file: TextIO) -> None:
    """Writes the graph, laid out from left to right."""
    file.write('digraph tailrace {\n  rankdir=LR;\n  node [shape=box, style=rounded, fontname="sans-serif"];\n')
    file.write('  edge [fontname="sans-serif", fontsize=10];\n')
    for name, attributes in graph.nodes(data=True):
        file.write(f"  {quoted(name)} [{_attributes(_node(attributes))}];\n")
    for source, target, attributes in graph.edges(data=True):
        file.write(f"  {quoted(source)} -> {quoted(target)} [{_attributes(_edge(attributes))}];\n")
    file.write("}\n")


def quoted(value: str) -> str:
    """A double-quoted string of DOT that shows `value` as it is, control characters as U+FFFD."""
    shown = "".join(c if c.isprintable() else "\ufffd" for c in value)
    return '"' + shown.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _node(attributes: dict[str, Any]) -> dict[str, str]:
    if attributes["kind"] != "file":
        return {"label": str(attributes["label"])}
    label = f"{attributes['label']} @{attributes['version']}"
    shape = SHAPES.get(str(attributes["ftype"]), SHAPES["file"])
    return {"label": label, "tooltip": str(attributes["path"]), "shape": shape, "style": "solid"}


def _edge(attributes: dict[str, Any]) -> dict[str, str]:
    moved = int(attributes.get("bytes", 0))
    out = {"style": STYLES[str(attributes["kind"])], "penwidth": f"{1 + math.log10(1 + moved) / 3:.2f}"}
    if "bytes" in attributes:
        files = f", {attributes['files']} files" if attributes.get("files", 1) > 1 else ""
        out["label"] = bytes_text(moved) + files
    return out


def _attributes(values: dict[str, str]) -> str:
    return ", ".join(f"{key}={quoted(value)}" for key, value in values.items())
