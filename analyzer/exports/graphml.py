"""A graph as GraphML (http://graphml.graphdrawing.org/), for yEd, Gephi, Cytoscape and networkx.read_graphml.

GraphML knows numbers, strings and booleans: lists (aliases, extents) become JSON text. XML 1.0 has no way to write most
control characters, and reads a carriage return as a newline, so they and lone surrogates are written as \\xNN or
\\uNNNN; no other character changes.
"""

from __future__ import annotations

import json
import re
from typing import TextIO

import networkx as nx

from tailrace.analyzer.exports.format import graph_format
from tailrace.analyzer.util.types import Graph

FORBIDDEN = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write(graph: Graph, file: TextIO) -> None:
    """Writes the graph; node ids and attribute values as in `text`."""
    out: Graph = nx.MultiDiGraph()
    out.graph.update({key: _value(value) for key, value in graph.graph.items()})
    for name, attributes in graph.nodes(data=True):
        out.add_node(text(name), **{key: _value(value) for key, value in attributes.items()})
    for source, target, key, attributes in graph.edges(keys=True, data=True):
        out.add_edge(text(source), text(target), key=key, **{k: _value(v) for k, v in attributes.items()})
    for line in nx.generate_graphml(out, named_key_ids=True):
        file.write(line + "\n")


def text(value: str) -> str:
    """`value` with what XML can't hold written as an escape."""
    return FORBIDDEN.sub(lambda m: f"\\x{ord(m[0]):02x}" if ord(m[0]) < 256 else f"\\u{ord(m[0]):04x}", value)


def _value(value: object) -> bool | int | float | str:
    if isinstance(value, bool | int | float):
        return value
    return text(value if isinstance(value, str) else json.dumps(value))


FORMAT = graph_format(write, "graph for yEd, Gephi, Cytoscape")
