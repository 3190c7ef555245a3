"""What a module of this package is: a file format, as its FORMAT."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    import networkx as nx

GraphWriter = Callable[["nx.MultiDiGraph[Any]", TextIO], None]


@dataclass(frozen=True)
class Format:
    """A format.

    Attributes:
        write: writes a run; returns what of it the format can't hold, in words. Takes a level where `leveled`.
        what: what it is and for which tool.
        graph: of a graph format, the writer of a graph of `graphs.graph`.
        file_name: the name of its file where that is fixed.
    """

    write: Callable[..., list[str]]
    what: str
    graph: GraphWriter | None = None
    file_name: str = ""

    @property
    def leveled(self) -> bool:
        """Whether it has levels: a graph has."""
        return self.graph is not None


def graph_format(graph: GraphWriter, what: str) -> Format:
    """The format of a graph writer: a run's dataflow, of tasks where no level is given."""

    def write(run: Any, file: TextIO, level: str = "task") -> list[str]:
        from tailrace.analyzer.model import graphs

        graph(graphs.graph(run, level), file)
        return []

    return Format(write, what, graph=graph)
