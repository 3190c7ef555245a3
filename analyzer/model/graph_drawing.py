"""A dataflow graph that notebooks draw: layers from left to right, in SVG without a program or library for it.

    DataflowGraph --shown--> the nodes that moved most --layers--> --order in a layer--> places --> SVG

An edge over several layers has a place in each of them, so that it goes between the nodes and not behind them.

A node stands right of all it gets data from, as far as there are no cycles (those edges are drawn backwards); inside of
a layer nodes are ordered by the mean place of their neighbours (Sugiyama, Tagawa and Toda 1981, "Methods for visual
understanding of hierarchical system structures", doi:10.1109/TSMC.1981.4308636), which leaves few crossings in graphs
of the size that one can read.

Invariants: names are escaped by util/html.py; the picture has no script, style sheet or reference, and the same graph
gives the same picture. At most `MOST` nodes are drawn; the picture says how many there are.

Rejected: Graphviz, a program that clusters often lack; `tailrace export --to dot` is for graphs of more than a cell's
60 nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import log10
from typing import TYPE_CHECKING, Any, TypeAlias

import networkx as nx

from tailrace.analyzer.util.formatting import bytes_text, count_text, shortened, with_stage
from tailrace.analyzer.util.html import html, lines

if TYPE_CHECKING:
    _Base = nx.MultiDiGraph[str]
else:
    _Base = nx.MultiDiGraph

MOST = 60
_WIDTH, _HEIGHT, _GAP, _ROW, _MARGIN = 150, 34, 90, 52, 12
_LANE = 16
_LETTERS = 22
_SWEEPS = 6
_COLOURS = {"stage": "#2b6cb0", "task": "#2b6cb0", "workflow": "#2b6cb0", "process": "#4a6580", "file": "#8a6d1f"}
_OTHER = "#6b6b6b"


_At: TypeAlias = "str | tuple[str, str, int]"
"""A place in a layer: a node, or where the link of two nodes passes through the layer."""


class DataflowGraph(_Base):
    """A networkx.MultiDiGraph with the nodes and edges of `graphs.graph`; notebooks draw it, `draw()` returns the SVG.

    It is drawn as it is when it is shown: with the nodes and edges that were added or removed since.
    """

    def __repr__(self) -> str:
        level = self.graph.get("level", "")
        what = f"dataflow of {level}s" if level else "dataflow"
        counts = f"{count_text(self.number_of_nodes(), 'node')} and {count_text(self.number_of_edges(), 'edge')}"
        return lines(f"{what}: a networkx.MultiDiGraph of {counts}; .draw() is its picture")

    def draw(self, most: int = MOST) -> str:
        """The graph as an SVG document, of the `most` nodes that moved most bytes."""
        return drawing(self, most)

    def _repr_svg_(self) -> str:
        return self.draw()


def drawing(graph: nx.MultiDiGraph[str], most: int = MOST) -> str:
    """A graph as SVG: layers from left to right."""
    links = _links(graph)
    shown = _most_moved(graph, links, most)
    links = {ends: amount for ends, amount in links.items() if set(ends) <= shown and ends[0] != ends[1]}
    layers = _layers([node for node in graph if node in shown], links)
    ways = _ways(layers, links)
    place, tall = _places(_ordered(layers, [pair for way in ways.values() for pair in pairwise(way)]))
    width = 2 * _MARGIN + max(len(layers), 1) * (_WIDTH + _GAP) - _GAP
    height = 2 * _MARGIN + tall + (18 if len(shown) < len(graph) else 0)
    parts = [_link([place[at] for at in ways[ends]], ends, amount) for ends, amount in links.items()]
    parts += [_node(node, graph.nodes[node], *place[node]) for node in graph if node in shown]
    if len(shown) < len(graph):
        note = f"{len(shown)} of {count_text(len(graph), 'node')}: those that moved most"
        parts.append(f'<text x="{_MARGIN}" y="{height - _MARGIN}" font-size="11" fill="#777">{html(note)}</text>')
    view = f"0 0 {width} {height:g}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view}" width="{width}" height="{height:g}" role="img"'
    title = f"<title>{html(_title(graph))}</title>"
    return f'{head} font-family="sans-serif">{title}{"".join(parts)}</svg>'


def _title(graph: nx.MultiDiGraph[str]) -> str:
    return f"Dataflow: {count_text(len(graph), 'node')}, {count_text(graph.number_of_edges(), 'edge')}"


def _links(graph: nx.MultiDiGraph[str]) -> dict[tuple[str, str], int]:
    """The bytes of all edges between two nodes."""
    links: dict[tuple[str, str], int] = {}
    for source, target, values in graph.edges(data=True):
        links[source, target] = links.get((source, target), 0) + int(values.get("bytes") or 0)
    return links


def _most_moved(graph: nx.MultiDiGraph[str], links: dict[tuple[str, str], int], most: int) -> set[str]:
    moved = dict.fromkeys(graph, 0)
    for ends, amount in links.items():
        for node in ends:
            moved[node] += amount + 1
    # sorted() keeps the graph's order among equals.
    return set(sorted(graph, key=lambda node: -moved[node])[:most])


def _layers(nodes: Sequence[str], links: Iterable[tuple[str, str]]) -> list[list[_At]]:
    """The nodes by the longest way to them, over the components of what goes in a circle."""
    plain: nx.DiGraph[str] = nx.DiGraph()
    plain.add_nodes_from(nodes)
    plain.add_edges_from(links)
    acyclic = _without_cycles(plain)
    depth: dict[str, int] = {}
    for node in nx.lexicographical_topological_sort(acyclic, key={node: i for i, node in enumerate(nodes)}.get):
        depth[node] = max((depth[before] + 1 for before in acyclic.predecessors(node)), default=0)
    # A node without predecessors stands next to the first one that uses it.
    for node in nodes:
        after = [depth[one] for one in acyclic.successors(node)]
        if after and not list(acyclic.predecessors(node)):
            depth[node] = min(after) - 1
    layers: list[list[_At]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for node in nodes:
        layers[depth[node]].append(node)
    return [layer for layer in layers if layer]


def _without_cycles(graph: nx.DiGraph[str]) -> nx.DiGraph[str]:
    """The graph without the edges that a walk over it, in the order of its nodes, meets backwards."""
    out: nx.DiGraph[str] = nx.DiGraph()
    out.add_nodes_from(graph)
    state: dict[str, int] = {}
    for root in graph:
        if root in state:
            continue
        state[root] = 1
        walk = [(root, iter(graph.successors(root)))]
        while walk:
            node, after = walk[-1]
            target = next(after, None)
            if target is None:
                state[node] = 2
                walk.pop()
            elif state.get(target) != 1:
                out.add_edge(node, target)
                if target not in state:
                    state[target] = 1
                    walk.append((target, iter(graph.successors(target))))
    return out


def _ordered(layers: list[list[_At]], links: Iterable[tuple[_At, _At]]) -> list[list[_At]]:
    """The layers, each in the order of the mean places of its neighbours to one side, in sweeps in both directions."""
    before: dict[_At, list[_At]] = {}
    after: dict[_At, list[_At]] = {}
    for source, target in links:
        after.setdefault(source, []).append(target)
        before.setdefault(target, []).append(source)
    for sweep in range(_SWEEPS):
        near = before if sweep % 2 == 0 else after
        place = {node: row - len(layer) / 2 for layer in layers for row, node in enumerate(layer)}
        for layer in layers if sweep % 2 == 0 else reversed(layers):

            def mean(node: _At, near: dict[_At, list[_At]] = near, place: dict[_At, float] = place) -> float:
                places = [place[other] for other in near.get(node, ())]
                return sum(places) / len(places) if places else place[node]

            layer.sort(key=mean)
            place.update({node: row - len(layer) / 2 for row, node in enumerate(layer)})
    return layers


def _ways(layers: list[list[_At]], links: Iterable[tuple[str, str]]) -> dict[tuple[str, str], list[_At]]:
    """Where each link goes; adds the places between nodes to the layers."""
    column = {node: at for at, layer in enumerate(layers) for node in layer}
    ways: dict[tuple[str, str], list[_At]] = {}
    for source, target in links:
        between: list[_At] = []
        for at in range(column[source] + 1, column[target]):
            between.append((source, target, at))
            layers[at].append(between[-1])
        ways[source, target] = [source, *between, target]
    return ways


def _places(layers: list[list[_At]]) -> tuple[dict[_At, tuple[float, float]], float]:
    """The upper left corner of each place, and the height of the tallest layer."""
    heights = [[_ROW if isinstance(at, str) else _LANE for at in layer] for layer in layers]
    tall = max((sum(rows) for rows in heights), default=_ROW)
    place: dict[_At, tuple[float, float]] = {}
    for column, (layer, rows) in enumerate(zip(layers, heights, strict=True)):
        y = _MARGIN + (tall - sum(rows)) / 2
        for at, row in zip(layer, rows, strict=True):
            place[at] = (_MARGIN + column * (_WIDTH + _GAP), y)
            y += row
    return place, tall


def _link(places: list[tuple[float, float]], ends: tuple[str, str], amount: int) -> str:
    thick = 1 + log10(1 + amount) / 2
    (x0, y0), (x1, y1) = places[0], places[-1]
    backwards = x1 <= x0
    at = (x0 + _WIDTH, y0 + _HEIGHT / 2)
    curve = f"M{at[0]:g},{at[1]:g}"
    stops = [(x, y + _LANE / 2) for x, y in places[1:-1]] + [(x1, y1 + _HEIGHT / 2)]
    for number, (x, y) in enumerate(stops):
        bend = _GAP if backwards else _GAP / 2
        points = [(at[0] + bend, at[1]), (x - bend, y), (x, y)]
        curve += " C" + " ".join(f"{a:g},{b:g}" for a, b in points)
        if number + 1 < len(stops):
            curve += f" H{x + _WIDTH:g}"
            at = (x + _WIDTH, y)
    dashed = ' stroke-dasharray="5 4"' if backwards else ""
    title = f"<title>{html(f'{ends[0]} to {ends[1]}: {bytes_text(amount)}')}</title>"
    line = f'<path d="{curve}" fill="none" stroke="#888" stroke-opacity="0.55" stroke-width="{thick:.2f}"{dashed}>'
    tip = f'<path d="M{x1:g},{y1 + _HEIGHT / 2:g}l-7,-4v8z" fill="#888"/>'
    if backwards or not amount:
        return f"{line}{title}</path>{tip}"
    middle = x0 + _WIDTH + _GAP / 2, (y0 + _HEIGHT / 2 + stops[0][1]) / 2 - 3 - thick / 2
    label = f'<text x="{middle[0]:g}" y="{middle[1]:g}" font-size="10" text-anchor="middle" fill="#777">'
    return f"{line}{title}</path>{tip}{label}{html(bytes_text(amount))}</text>"


def _node(node: str, values: dict[str, Any], x: float, y: float) -> str:
    kind = str(values.get("kind", ""))
    colour = _COLOURS.get(kind, _OTHER)
    label = with_stage(str(values.get("label") or node), str(values.get("stage", "")) if kind == "task" else "")
    if kind in ("file", "dataset"):
        label = label.rpartition("/")[2] or label
    corner = 4 if kind in ("stage", "task", "workflow", "process") else _HEIGHT / 2
    box = f'<rect x="{x:g}" y="{y:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="{corner:g}" fill="{colour}"/>'
    text = f'<text x="{x + _WIDTH / 2:g}" y="{y + _HEIGHT / 2 + 4:g}" font-size="12" text-anchor="middle" fill="#fff">'
    return f"<g><title>{html(node)}</title>{box}{text}{html(shortened(label, _LETTERS))}</text></g>"
