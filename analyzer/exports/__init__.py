"""A run as files that other tools open.

    FORMATS[name].write(run, file) -> notes      file: a text file open for writing; notes: what it can't hold, in words
    FORMATS[name].graph(graph, file)             the graph formats, for a graph of `graphs.graph`
    export(run, name, place) -> notes            the whole of it

A format is a module of this package with a FORMAT (format.py). A new one is found here and by `tailrace export`.
Every writer escapes names: a path may hold anything but NUL.
"""

from __future__ import annotations

import gzip
import os
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from tailrace.errors import QueryError, UsageError

if TYPE_CHECKING:
    from tailrace.analyzer.edges.run_protocol import AnalyzedRun
    from tailrace.analyzer.exports.format import Format

_HELPERS = ("bandwidth_counters", "checksums", "format", "lineage", "otf2_archive")
"""No formats of one text file: an OTF2 archive is a directory, which `tailrace convert` writes."""

NAMES = tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name not in _HELPERS))
"""The formats. Importing them takes a second, which a help text has no use for."""


class _Formats(Mapping[str, "Format"]):
    """The formats by name, each imported on first use."""

    def __getitem__(self, name: str) -> Format:
        if name not in NAMES:
            raise KeyError(name)
        return import_module(f"{__name__}.{name}").FORMAT

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


FORMATS = _Formats()


def export(
    run: AnalyzedRun,
    to: str,
    output: str | os.PathLike[str] | None = None,
    level: str | None = None,
    *,
    hashed: bool = False,
) -> list[str]:
    """Writes `run` in the format `to`.

    Args:
        output: a file, gzip'd when its name ends in .gz; None: standard output. The name appears when all is written.
            A folder where the format's file has a fixed name (rocrate) is one to put it in.
        level: of the graph formats, one of `dataflow.LEVELS`; default: task.
        hashed: with SHA-256 checksums of the files that are still on this machine as the run left them; of all formats
            but perfetto.

    Returns: what of the run the format can't hold, in words; empty when it holds all.

    Raises:
        QueryError: there is no such format or level, or the format has no levels, or no checksums; the run's
            names are hashed, so that no file can be found for one.
        UsageError: the output can't be written.
        RunError: the run has nothing that the format could hold, or can't be read.
    """
    if to not in FORMATS:
        raise QueryError(f"no format {to!r}; formats are {', '.join(FORMATS)}")
    form = FORMATS[to]
    if level is not None and not form.leveled:
        graphs = ", ".join(name for name, f in FORMATS.items() if f.leveled)
        raise QueryError(f"the format {to} has no levels; those that have are {graphs}")
    if hashed and not form.has_checksums:
        those = ", ".join(name for name, f in FORMATS.items() if f.has_checksums)
        raise QueryError(f"the format {to} has no checksums; those that have are {those}")
    if hashed:
        from tailrace.analyzer.insights.present_files import check

        check(run.path, run.meta)
    write = partial(form.write_as, level=level, hashed=hashed)
    if output is None:
        return write(run, sys.stdout)
    path = Path(output)
    try:
        if form.file_name and (path.is_dir() or str(output).endswith("/")):
            path.mkdir(parents=True, exist_ok=True)
            path /= form.file_name
        with _opened(path) as file:
            return write(run, file)
    except OSError as error:
        raise UsageError(f"can't write {path}: {error.strerror or error}") from error


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    from tailrace.base.published import published

    with published(path) as place:
        if path.suffix == ".gz":
            # Level 9, Python's own choice, takes four times as long for a tenth less.
            with gzip.open(place, "wt", compresslevel=4, encoding="utf-8") as file:
                yield file
        else:
            with place.open("w", encoding="utf-8") as file:
                yield file
