"""A graph in Graphviz' DOT language (https://graphviz.org/doc/info/lang.html): `dot -Tsvg graph.dot`.

Tasks, stages and processes are boxes, files are notes, datasets cylinders, streams ellipses; an edge's width grows with
the logarithm of its bytes. The critical path is brown, with its time; a failed task is filled red, with its error as a
tooltip; an edge whose `confidence` is not exact is dashed, with the reason. Names go through `quoted`, which leaves
nothing that DOT would read as syntax or as an escape sequence.
"""

from __future__ import annotations

import math
from typing import TextIO

from tailrace.analyzer.exports.format import graph_format
from tailrace.analyzer.model.outcomes import FAILED, WORDS
from tailrace.analyzer.util.formatting import bytes_text, time_text, with_stage
from tailrace.analyzer.util.types import Attributes, Graph

SHAPES = {"file": "note", "fifo": "ellipse", "sock": "ellipse", "anon": "ellipse"}
CRITICAL = "#9a4006"
FAILED_FILL = "#f6c6c9"
SURE = ("complete", "external", "unknown")
"""Confidences that leave no doubt about an edge."""
STYLES = {"read": "solid", "write": "solid", "flow": "solid", "base": "dotted", "part": "dotted"}


def write(graph: Graph, file: TextIO) -> None:
    """Writes the graph, laid out from left to right."""
    file.write('digraph tailrace {\n  rankdir=LR;\n  node [shape=box, style=rounded, fontname="sans-serif"];\n')
    file.write('  edge [fontname="sans-serif", fontsize=10];\n')
    for name, attributes in graph.nodes(data=True):
        file.write(f"  {quoted(name)} [{_attributes(_node(attributes))}];\n")
    for source, target, attributes in graph.edges(data=True):
        file.write(f"  {quoted(source)} -> {quoted(target)} [{_attributes(_edge(attributes))}];\n")
    file.write("}\n")


def quoted(*lines: str) -> str:
    """A double-quoted string of DOT that shows `lines` as they are, control characters as U+FFFD."""
    shown = ("".join(c if c.isprintable() else "\ufffd" for c in line) for line in lines)
    return '"' + "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in shown) + '"'


def _node(attributes: Attributes) -> dict[str, str | list[str]]:
    label = str(attributes["label"])
    if attributes["kind"] == "file":
        shape = SHAPES.get(str(attributes["ftype"]), SHAPES["file"])
        named = f"{label} @{attributes['version']}"
        tooltip = (
            f"{attributes['path']} sha256 {attributes['sha256']}" if "sha256" in attributes else attributes["path"]
        )
        return {"label": named, "tooltip": str(tooltip), "shape": shape, "style": "solid"}
    if attributes["kind"] == "dataset":
        tooltip = f"{attributes['path']} {attributes['dataset']}"
        return {"label": label, "tooltip": tooltip, "shape": "cylinder", "style": "solid"}
    if attributes["kind"] == "task":
        label = with_stage(label, str(attributes["stage"]))
    lines: list[str] = [label]
    out: dict[str, str] = {}
    if on_path := int(attributes.get("path_ns", 0)):
        lines.append(f"{time_text(on_path)} of the critical path")
        out = {"color": CRITICAL, "penwidth": "2"}
    if attributes.get("commands"):
        out["tooltip"] = attributes["commands"][0]
    if attributes.get("status") in FAILED:
        lines.append(WORDS[str(attributes["status"])])
        out |= {"style": "rounded,filled", "fillcolor": FAILED_FILL}
        if attributes.get("error"):
            out["tooltip"] = str(attributes["error"])
    return {"label": lines, **out}


def _edge(attributes: Attributes) -> dict[str, str | list[str]]:
    moved = int(attributes.get("bytes", 0))
    width = f"{1 + math.log10(1 + moved) / 3:.2f}"
    out: dict[str, str | list[str]] = {"style": STYLES[str(attributes["kind"])], "penwidth": width}
    words = []
    if "bytes" in attributes:
        files = f", {attributes['files']} files" if attributes.get("files", 1) > 1 else ""
        words.append(bytes_text(moved) + files)
    if attributes.get("confidence", SURE[0]) not in SURE:
        out["style"] = "dashed"
        words.append(str(attributes["confidence"]))
    if words:
        out["label"] = words
    if attributes.get("critical"):
        out["color"] = CRITICAL
    return out


def _attributes(values: dict[str, str | list[str]]) -> str:
    lines = {key: [value] if isinstance(value, str) else value for key, value in values.items()}
    return ", ".join(f"{key}={quoted(*value)}" for key, value in lines.items())


FORMAT = graph_format(write, "graph for Graphviz")
