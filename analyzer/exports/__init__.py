"""A run as files that other tools open.

    FORMATS[name].write(run, file) -> notes      file: a text file open for writing; notes: what it can't hold, in words
    WRITERS[name](graph, file)                   the graph formats, for a graph of `dataflow.graph`
    export(run, name, place) -> notes            the way in

Every writer escapes names: a path may hold anything but NUL.
"""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import networkx as nx

from tailrace.analyzer.exports import dot, graphml, json, openlineage, perfetto, prov, rocrate, wfformat
from tailrace.analyzer.model import dataflow
from tailrace.analyzer.util.published import published
from tailrace.errors import QueryError, UsageError

Writer = Callable[["nx.MultiDiGraph[Any]", TextIO], None]

WRITERS: dict[str, Writer] = {"graphml": graphml.write, "dot": dot.write, "json": json.write}


def _write_graph(run: Any, file: TextIO, level: str = "task", *, form: str) -> list[str]:
    WRITERS[form](dataflow.graph(run, level), file)
    return []


@dataclass(frozen=True)
class Format:
    """A format: its writer, what it is, whether it has a level, and the name of its file where that is fixed."""

    write: Callable[..., list[str]]
    what: str
    leveled: bool = False
    file_name: str = ""


FORMATS: dict[str, Format] = {
    "wfformat": Format(wfformat.write, "WfFormat 1.6, for WfCommons and WRENCH"),
    "perfetto": Format(perfetto.write, "timeline with arrows from write to read, for ui.perfetto.dev"),
    "rocrate": Format(rocrate.write, "Process Run RO-Crate, for publishing", file_name=rocrate.METADATA),
    "prov": Format(prov.write, "W3C PROV-JSON, for provenance stores"),
    "openlineage": Format(openlineage.write, "OpenLineage events, for Marquez and others"),
    "graphml": Format(partial(_write_graph, form="graphml"), "graph for yEd, Gephi, Cytoscape", leveled=True),
    "dot": Format(partial(_write_graph, form="dot"), "graph for Graphviz", leveled=True),
    "json": Format(partial(_write_graph, form="json"), "graph for a program", leveled=True),
}


def export(run: Any, to: str, output: str | os.PathLike[str] | None = None, level: str | None = None) -> list[str]:
    """Writes `run` in the format `to`.

    Args:
        output: a file, gzip'd when its name ends in .gz; None: standard output. The name appears when all is written.
            A folder where the format's file has a fixed name (rocrate) is one to put it in.
        level: of the graph formats, one of `dataflow.LEVELS`; default: task.

    Returns: what of the run the format can't hold, in words; empty when it holds all.

    Raises:
        QueryError: there is no such format or level, or the format has no levels.
        UsageError: the output can't be written.
        RunError: the run has nothing that the format could hold, or can't be read.
    """
    if to not in FORMATS:
        raise QueryError(f"no format {to!r}; formats are {', '.join(FORMATS)}")
    form = FORMATS[to]
    if level is not None and not form.leveled:
        graphs = ", ".join(name for name, f in FORMATS.items() if f.leveled)
        raise QueryError(f"the format {to} has no levels; those that have are {graphs}")
    options = {"level": level} if level is not None else {}
    if output is None:
        return form.write(run, sys.stdout, **options)
    path = Path(output)
    try:
        if form.file_name and (path.is_dir() or str(output).endswith("/")):
            path.mkdir(parents=True, exist_ok=True)
            path /= form.file_name
        with _opened(path) as file:
            return form.write(run, file, **options)
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror or error}") from error


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    with published(path) as place:
        # Level 9, Python's own choice, takes four times as long for a tenth less.
        opened: Any = partial(gzip.open, compresslevel=4) if path.suffix == ".gz" else open
        with opened(place, "wt", encoding="utf-8") as file:
            yield file
