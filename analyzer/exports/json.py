"""A graph as one JSON object: {"format": "tailrace-graph", "version": 1, "level", "files", "nodes": [], "edges": []}.

A node is {"id", "kind", "label", ...}, an edge {"source", "target", "kind", ...}, with the attributes that
`tailrace.analyzer.model.graphs.graph` documents; bytes and ns are integers (ns since the epoch exceed 2^53: read them
as 64-bit).
"""

from __future__ import annotations

import json
from typing import TextIO

from tailrace.analyzer.exports.format import graph_format
from tailrace.analyzer.util.types import Graph


def write(graph: Graph, file: TextIO) -> None:
    """Writes the graph, one node or edge a line; ASCII only, so that names that are not Unicode survive as escapes."""
    head = {"format": "tailrace-graph", "version": 1, **graph.graph}
    nodes = ({"id": name, **attributes} for name, attributes in graph.nodes(data=True))
    edges = ({"source": s, "target": t, **attributes} for s, t, attributes in graph.edges(data=True))
    file.write(json.dumps(head)[:-1] + ',\n"nodes": [\n')
    file.write(",\n".join(json.dumps(node) for node in nodes))
    file.write('\n],\n"edges": [\n')
    file.write(",\n".join(json.dumps(edge) for edge in edges))
    file.write("\n]}\n")


FORMAT = graph_format(write, "graph for a program")
