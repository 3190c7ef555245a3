"""The formats of other tracers that are read, in the order in which a path is tried."""

from __future__ import annotations

from tailrace.analyzer.foreign import chrome, darshan, dftracer, otf2, recorder
from tailrace.analyzer.foreign.importer import Format

FORMATS: tuple[Format, ...] = (
    dftracer.FORMAT,
    darshan.FORMAT,
    recorder.FORMAT,
    otf2.FORMAT,
    chrome.FORMAT,
)


def titles() -> str:
    """The formats' names for a message."""
    *first, last = [found.title for found in FORMATS]
    return f"{', '.join(first)} or {last}" if first else last
