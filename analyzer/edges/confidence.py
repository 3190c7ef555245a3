"""The confidence of each edge of the graph, in one word, and the cycles that times don't resolve.

An edge gets the first one that applies:

    unordered   it is on a cycle of reads and writes: tasks that ran at the same time read from each other, or clocks
                disagree. The edge stays in the graph; the order of the two is unknown
    raced       a read during which a newer version of the file began: which bytes it returned is unknown
    losses      a process at an end lost events: more bytes may have moved than recorded, or between other tasks
    partial     a process at an end was not fully seen, or that is unknown (tailrace.analyzer.store.ledger)
    estimated   a flow whose bytes were divided among several writers, or may be another's (flows.py): bytes at unknown
                offsets, written at the same time, or through a mapping
    external    a read of bytes that no traced process wrote: from before the run, or from outside of it
    complete    every process at both ends is accounted for
    unknown     the run has no accounts

The tracer never samples, so no edge is a statistical estimate: what is estimated is whose of several writers a byte
was.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tailrace.analyzer.util.lazy import lazy
from tailrace.analyzer.util.types import Graph

if TYPE_CHECKING:
    import networkx as nx
else:
    nx = lazy("networkx")

CONFIDENCES = ("unordered", "raced", "losses", "partial", "estimated", "external", "complete", "unknown")


def mark(out: Graph, partial: Iterable[str] | None, lossy: Iterable[str]) -> None:
    """Sets `confidence` of every edge but `base` and `part`, and `cycles` of the graph: their number at file@version.

    Args:
        partial: nodes with a process that was not fully seen; None where the run has no accounts.
        lossy: nodes with a process that lost events.
    """
    inside = cycles(out) if out.graph.get("files") != "none" else {}
    out.graph["cycles"] = len(set(inside.values()))
    unseen, lost = set(partial or ()), set(lossy)
    for source, target, attributes in out.edges(data=True):
        if attributes["kind"] in ("base", "part"):
            continue
        ends = {source, target}
        knot = inside.get(source)
        facts = (
            ("unordered", knot is not None and knot == inside.get(target) and not attributes.get("own")),
            ("raced", bool(attributes.get("raced"))),
            ("losses", bool(ends & lost)),
            ("partial", bool(ends & unseen)),
            ("estimated", attributes["kind"] == "flow" and not attributes.get("exact", True)),
            ("external", bool(out.nodes[source].get("external"))),
            ("unknown", partial is None),
        )
        attributes["confidence"] = next((word for word, fits in facts if fits), "complete")


def cycles(out: Graph) -> dict[str, int]:
    """node -> number of its cycle. An activity that reads its own writing is no cycle; streams, which carry requests
    and answers, are left out."""
    g: nx.DiGraph[str] = nx.DiGraph()
    for source, target, attributes in out.edges(data=True):
        stream = any(out.nodes[end].get("ftype") in ("fifo", "sock", "anon") for end in (source, target))
        if not attributes.get("own") and not stream and attributes["kind"] != "part":
            g.add_edge(source, target)
    found = (part for part in nx.strongly_connected_components(g) if len(part) > 1)
    return {node: number for number, part in enumerate(found) for node in part}
