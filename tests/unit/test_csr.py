"""Graphs as arrays, against NetworkX."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailrace.analyzer.util import csr

Edges = list[tuple[int, int]]


@st.composite
def graphs(draw: st.DrawFn, acyclic: bool = True) -> tuple[int, Edges, list[int], list[int]]:
    """Number of nodes, edges, node weights, edge costs."""
    nodes = draw(st.integers(1, 25))
    ends = st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1))
    edges = draw(st.lists(ends, max_size=60))
    if acyclic:
        name = draw(st.permutations(range(nodes)))
        edges = [(name[min(e)], name[max(e)]) for e in edges if e[0] != e[1]]
    weights = draw(st.lists(st.integers(0, 9), min_size=nodes, max_size=nodes))
    costs = draw(st.lists(st.integers(0, 9), min_size=len(edges), max_size=len(edges)))
    return nodes, edges, weights, costs


def made(nodes: int, edges: Edges) -> csr.Graph:
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    return csr.build(nodes, ends[:, 0], ends[:, 1])


def longest_to(nodes: int, edges: Edges, weights: list[int], costs: list[int]) -> list[int]:
    """The definition: NetworkX's longest path among the ancestors of each node; weights stand on the edges."""
    g: nx.DiGraph[int] = nx.DiGraph()
    g.add_nodes_from(range(nodes))
    for (a, b), cost in zip(edges, costs, strict=True):
        way = weights[a] + cost
        if not g.has_edge(a, b) or g[a][b]["weight"] < way:
            g.add_edge(a, b, weight=way)
    out = []
    for node in range(nodes):
        among = g.subgraph(nx.ancestors(g, node) | {node}).copy()
        among.add_edge(node, "end", weight=weights[node])
        out.append(int(nx.dag_longest_path_length(among)))
    return out


@pytest.mark.parametrize("narrow", [0, 2, 1000])
class TestLongest:
    @settings(max_examples=40, deadline=None)
    @given(case=graphs())
    def test_it_is_networkx(self, narrow: int, case: tuple[int, Edges, list[int], list[int]]) -> None:
        nodes, edges, weights, costs = case
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(csr, "NARROW", narrow)
            g = made(nodes, edges)
            weight, cost = np.array(weights), np.array(costs, dtype=np.int64)[g.edge]
            found = csr.longest(g, weight, cost)
            free = csr.slack(g, weight, found, cost)
        assert found.reached.all()
        assert found.length.tolist() == longest_to(*case)
        end = int(found.length.argmax())
        way = csr.path(g, found, end)
        steps = [max(c for e, c in zip(edges, costs, strict=True) if e == step) for step in pairwise(way)]
        assert sum(weights[n] for n in way) + sum(steps) == found.length[end]
        # The slack of a node is what its weight can grow by, and not by one more.
        for node in range(nodes):
            for more in (0, 1):
                grown = [w + (int(free[node]) + more if n == node else 0) for n, w in enumerate(weights)]
                assert (max(longest_to(nodes, edges, grown, costs)) == found.length[end]) == (more == 0)

    @settings(max_examples=40, deadline=None)
    @given(case=graphs(acyclic=False))
    def test_cycles_are_reported(self, narrow: int, case: tuple[int, Edges, list[int], list[int]]) -> None:
        nodes, edges, weights, _ = case
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(csr, "NARROW", narrow)
            g = made(nodes, edges)
            found = csr.longest(g, np.array(weights))
        oracle: nx.DiGraph[int] = nx.DiGraph(edges)
        oracle.add_nodes_from(range(nodes))
        loops = [c for c in nx.strongly_connected_components(oracle) if len(c) > 1 or oracle.has_edge(*(list(c) * 2))]
        inside = set().union(*loops) if loops else set()
        behind = inside.union(*(nx.descendants(oracle, n) for n in inside)) if inside else set()
        assert set(np.flatnonzero(~found.reached).tolist()) == behind
        knot = csr.knots(g, found.reached)
        assert {frozenset(np.flatnonzero(knot == k).tolist()) for k in range(knot.max(initial=-1) + 1)} == set(
            map(frozenset, loops)
        )


@settings(max_examples=40, deadline=None)
@given(case=graphs(acyclic=False))
def test_reachable_is_networkx(case: tuple[int, Edges, list[int], list[int]]) -> None:
    nodes, edges, _, _ = case
    oracle: nx.DiGraph[int] = nx.DiGraph(edges)
    oracle.add_nodes_from(range(nodes))
    for start in range(nodes):
        wanted = set().union(*({n} | nx.descendants(oracle, n) for n in oracle.successors(start)), set())
        assert set(np.flatnonzero(csr.reachable(made(nodes, edges), start)).tolist()) == wanted


def test_a_chain_and_a_fan_of_many_nodes() -> None:
    chain = made(5000, [(i, i + 1) for i in range(4999)])
    assert csr.longest(chain, np.ones(5000, dtype=np.int64)).length[-1] == 5000
    fan = made(5001, [(0, i) for i in range(1, 5001)])
    assert csr.longest(fan, np.arange(5001)).length.max() == 5000


def test_no_edges_and_no_nodes() -> None:
    assert csr.longest(made(0, []), np.zeros(0, dtype=np.int64)).length.tolist() == []
    assert csr.longest(made(2, []), np.array([3, 4])).length.tolist() == [3, 4]
