"""What a module of this package is: a file format, as its FORMAT."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from tailrace.analyzer.edges.run_protocol import AnalyzedRun
    from tailrace.analyzer.util.types import Graph

RunWriter = Callable[["AnalyzedRun", TextIO], list[str]]
GraphWriter = Callable[["Graph", TextIO], None]


@dataclass(frozen=True)
class Format:
    """A format.

    Attributes:
        write: writes a run; returns what of it the format can't hold, in words.
        what: what it is and for which tool.
        graph: of a graph format, the writer of a graph of `graphs.graph`.
        file_name: the name of its file where that is fixed.
        hashed: of a format that has checksums and is no graph, `write` with those of the files that are still there.
    """

    write: RunWriter
    what: str
    graph: GraphWriter | None = None
    file_name: str = ""
    hashed: RunWriter | None = None

    @property
    def leveled(self) -> bool:
        """Whether it has levels: a graph has."""
        return self.graph is not None

    @property
    def has_checksums(self) -> bool:
        """Whether it has a place for the checksums of files."""
        return self.hashed is not None or self.graph is not None

    def write_as(self, run: AnalyzedRun, file: TextIO, level: str | None, hashed: bool) -> list[str]:
        """Writes a run at a level, which is None where the format has none, with checksums or without."""
        if self.graph is not None:
            graph = _annotated(run, level or "task")
            notes = _add_checksums(run, graph) if hashed else []
            self.graph(graph, file)
            return notes
        return (self.hashed if hashed and self.hashed else self.write)(run, file)


def graph_format(graph: GraphWriter, what: str) -> Format:
    """The format of a graph writer: a run's dataflow, of tasks where no level is given."""

    def write(run: AnalyzedRun, file: TextIO) -> list[str]:
        graph(_annotated(run, "task"), file)
        return []

    return Format(write, what, graph=graph)


def _add_checksums(run: AnalyzedRun, graph: Graph) -> list[str]:
    """Sets `sha256` of the versions of files that are nodes and still there; returns a note on the others."""
    from tailrace.analyzer.exports.checksums import Checksums
    from tailrace.analyzer.model import dataflow

    m = dataflow.model(run)
    checksums = Checksums(m)
    for version in range(len(m.versions.table)):
        node = dataflow.file_id(m, version)
        sha256 = checksums.of(version) if node in graph else None
        if sha256 is not None:
            graph.nodes[node]["sha256"] = sha256
    return checksums.notes()


def _annotated(run: AnalyzedRun, level: str) -> Graph:
    """The dataflow graph with the critical path, outcomes and lifetimes, as `tailrace graph` has it."""
    from tailrace.analyzer.insights import insights
    from tailrace.analyzer.insights.annotate import annotate
    from tailrace.analyzer.model import graphs

    graph = graphs.graph(run, level)
    annotate(graph, insights(run))
    return graph
