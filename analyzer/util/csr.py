"""Directed graphs as integer arrays: order, longest path, slack and reachability, fast on a million nodes.

    edges (source, target) --build--> Graph --longest--> Longest --path, slack-->

Compressed sparse rows: the successors of node i are `target[at[i]:at[i + 1]]`. A pass over the graph takes whole
levels with numpy while they are wide, and single nodes through memoryviews of the same arrays while they are narrow,
since a chain of a million tasks would be a million numpy calls. scipy is not used, since it has no longest path.

Invariants: weights are int64 (ns, bytes), never floats, so that equal sums compare equal. Nodes on or behind a cycle
get no guessed value, they are marked (`Longest.reached` is False).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tailrace.analyzer.util.lazy import lazy
from tailrace.analyzer.util.types import Bools, Ints

if TYPE_CHECKING:
    import networkx as nx
else:
    nx = lazy("networkx")

NARROW = 48
"""A level of fewer nodes than this is processed node by node."""


@dataclass(frozen=True)
class Graph:
    """at (int64, nodes + 1), target (int64, edges), edge (int64, edges): the position of each edge in the arrays given
    to `build`."""

    at: Ints
    target: Ints
    edge: Ints

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return len(self.at) - 1

    def source(self) -> Ints:
        """The source of each edge, parallel to `target`."""
        return np.repeat(np.arange(self.nodes, dtype=np.int64), np.diff(self.at))

    def successors(self, nodes: Ints) -> tuple[Ints, Ints]:
        """Positions in `target` of all edges out of `nodes`, and for each the position in `nodes` of its source."""
        low, count = self.at[nodes], self.at[nodes + 1] - self.at[nodes]
        whose = np.repeat(np.arange(len(nodes), dtype=np.int64), count)
        first = np.cumsum(count) - count
        return np.arange(len(whose), dtype=np.int64) + (low - first)[whose], whose


@dataclass(frozen=True)
class Longest:
    """Parallel over nodes. length: the greatest sum of weights of a path that ends with the node, its own weight
    included; via: the position in `Graph.target` of that path's last edge, -1 where it begins; reached: False in and
    behind cycles, where length and via mean nothing."""

    length: Ints
    via: Ints
    reached: Bools


def build(nodes: int, source: Ints, target: Ints) -> Graph:
    """The graph of `nodes` nodes and the edges source[i] -> target[i]; parallel edges stay."""
    source = np.asarray(source, dtype=np.int64)
    at = np.zeros(nodes + 1, dtype=np.int64)
    np.cumsum(np.bincount(source, minlength=nodes), out=at[1:])
    if len(source) == 0 or bool((source[1:] >= source[:-1]).all()):
        edge = np.arange(len(source), dtype=np.int64)
    else:
        edge = np.argsort(source, kind="stable").astype(np.int64, copy=False)
    return Graph(at, np.asarray(target, dtype=np.int64)[edge], edge)


def reverse(g: Graph) -> Graph:
    """The graph with every edge reversed; its `edge` are positions in `g.target`."""
    return build(g.nodes, g.target, g.source())


def longest(g: Graph, weight: Ints, cost: Ints | None = None) -> Longest:
    """The longest path to each node.

    Args:
        weight: of each node, not negative.
        cost: of each edge, parallel to `g.target`; None means 0.
    """
    weight = np.asarray(weight, dtype=np.int64)
    walk = _Walk(g, weight, np.zeros(len(g.target), dtype=np.int64) if cost is None else cost)
    frontier = np.flatnonzero(walk.waits == 0).astype(np.int64)
    while len(frontier):
        frontier = walk.narrow(frontier) if len(frontier) < NARROW else walk.wide(frontier)
    return Longest(walk.best + weight, walk.via, walk.waits == 0)


class _Walk:
    """One pass in topological order. best: the longest path to a node, without its own weight; waits: its incoming
    edges that are not yet processed."""

    def __init__(self, g: Graph, weight: Ints, cost: Ints) -> None:
        self.g, self.weight, self.cost = g, weight, cost
        self.best = np.zeros(g.nodes, dtype=np.int64)
        self.via = np.full(g.nodes, -1, dtype=np.int64)
        self.waits = np.bincount(g.target, minlength=g.nodes).astype(np.int64)

    def wide(self, frontier: Ints) -> Ints:
        """Processes all of `frontier`; returns the nodes that became ready."""
        edges, whose = self.g.successors(frontier)
        target = self.g.target[edges]
        way = (self.best[frontier] + self.weight[frontier])[whose] + self.cost[edges]
        np.maximum.at(self.best, target, way)
        longest = way == self.best[target]
        self.via[target[longest]] = edges[longest]
        np.subtract.at(self.waits, target, 1)
        ready = target[self.waits[target] == 0]
        return np.unique(ready)

    def narrow(self, frontier: Ints) -> Ints:
        """Processes nodes one by one while few are ready; returns the ready ones that are left."""
        at, target, weight, cost = (a.data for a in (self.g.at, self.g.target, self.weight, self.cost))
        best, via, waits = self.best.data, self.via.data, self.waits.data
        stack: list[int] = frontier.tolist()
        while stack and len(stack) < 2 * NARROW:
            node = stack.pop()
            begin = best[node] + weight[node]
            for edge in range(at[node], at[node + 1]):
                following = target[edge]
                way = begin + cost[edge]
                if way > best[following] or via[following] < 0:
                    best[following], via[following] = way, edge
                waits[following] -= 1
                if waits[following] == 0:
                    stack.append(following)
        return np.array(stack, dtype=np.int64)


def path(g: Graph, found: Longest, end: int) -> list[int]:
    """The nodes of the longest path that ends with `end`, first to last."""
    out = [end]
    while (edge := int(found.via[out[-1]])) >= 0:
        out.append(int(np.searchsorted(g.at, edge, side="right")) - 1)
    return out[::-1]


def slack(g: Graph, weight: Ints, found: Longest, cost: Ints | None = None) -> Ints:
    """By how much the weight of each node could grow without lengthening the longest path; -1 where it was not
    reached."""
    back = reverse(g)
    rest = longest(back, weight, None if cost is None else cost[back.edge])
    through = found.length + rest.length - weight
    whole = int(found.length[found.reached].max(initial=0))
    return np.where(found.reached & rest.reached, whole - through, -1)


def knots(g: Graph, reached: Bools) -> Ints:
    """The cycle of each node: a number from 0, the same for all nodes that reach one another; -1 for a node on none.

    Args:
        reached: of `longest`; nodes on a cycle are not reached.
    """
    out = np.full(g.nodes, -1, dtype=np.int64)
    source = g.source()
    inside = ~reached[source] & ~reached[g.target]
    if not inside.any():
        return out
    among: nx.DiGraph[int] = nx.DiGraph()
    among.add_edges_from(zip(source[inside].tolist(), g.target[inside].tolist(), strict=True))
    parts = (
        part for part in nx.strongly_connected_components(among) if len(part) > 1 or among.has_edge(*(list(part) * 2))
    )
    for number, part in enumerate(sorted(parts, key=min)):
        out[list(part)] = number
    return out


def reachable(g: Graph, start: int) -> Bools:
    """True for every node to which a path of at least one edge leads from `start`."""
    seen = np.zeros(g.nodes, dtype=np.bool_)
    frontier = np.array([start], dtype=np.int64)
    while len(frontier):
        following = g.target[g.successors(frontier)[0]]
        frontier = np.unique(following[~seen[following]])
        seen[frontier] = True
    return seen
