"""How far an edge of the graph can be trusted, in one word, and cycles that no time resolves.

An edge bears the first that fits of:

    unordered   it lies on a cycle of reads and writes: tasks that ran at the same time took from each other, or clocks
                disagree. The graph has it all the same; who was first is not known.
    raced       a read during which a newer version of the file began: which bytes it got is not known
    losses      a process at an end lost events: more may have passed than the edge says, or between others
    partial     a process at an end was not fully seen, or nobody knows (tailrace.analyzer.store.ledger)
    external    a read of what no traced process wrote: from before the run, or from somebody outside of it
    complete    every process at both ends is accounted for
    unknown     the run has no accounts to tell by

The tracer never samples, so no edge is an estimate by that.
"""

from __future__ import annotations

from collections.abc import Iterable

import networkx as nx

from tailrace.analyzer.util.types import Graph

CONFIDENCES = ("unordered", "raced", "losses", "partial", "external", "complete", "unknown")


def mark(out: Graph, partial: Iterable[str] | None, lossy: Iterable[str]) -> None:
    """Gives every edge but `base` and `part` its `confidence`, and the graph `cycles`: how many it has at file@version.

    Args:
        partial: nodes of which a process was not fully seen; None where the run has no accounts.
        lossy: nodes of which a process lost events.
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
            ("external", bool(out.nodes[source].get("external"))),
            ("unknown", partial is None),
        )
        attributes["confidence"] = next((word for word, fits in facts if fits), "complete")


def cycles(out: Graph) -> dict[str, int]:
    """node -> number of the cycle it is on; an activity that reads what it wrote itself is none, streams answer each
    other
    by nature and are left out."""
    g: nx.DiGraph[str] = nx.DiGraph()
    for source, target, attributes in out.edges(data=True):
        stream = any(out.nodes[end].get("ftype") in ("fifo", "sock", "anon") for end in (source, target))
        if not attributes.get("own") and not stream and attributes["kind"] != "part":
            g.add_edge(source, target)
    found = (part for part in nx.strongly_connected_components(g) if len(part) > 1)
    return {node: number for number, part in enumerate(found) for node in part}
