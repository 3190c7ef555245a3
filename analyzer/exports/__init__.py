"""Dataflow graphs as files that other tools open.

    WRITERS[format](graph, file)     format: "graphml", "dot" or "json"; file: a text file open for writing

Each writer takes what `tailrace.analyzer.dataflow.graph` returns, writes every node and edge in the graph's order, and
escapes names: a path may hold anything but NUL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TextIO

import networkx as nx

from tailrace.analyzer.exports import dot, graphml, json

Writer = Callable[["nx.MultiDiGraph[Any]", TextIO], None]

WRITERS: dict[str, Writer] = {"graphml": graphml.write, "dot": dot.write, "json": json.write}
