"""The report's page in a cell of a notebook: in a frame that can reach neither the notebook nor the network.

Invariants: the frame is sandboxed with scripts only, so the page has an origin of its own: a fault in it can't read
the notebook's cookies, run cells or open windows. The page's own content security policy holds in it, too.
"""

from __future__ import annotations

import os
from functools import cached_property
from html import escape
from pathlib import Path

from tailrace.analyzer import summary
from tailrace.analyzer.edges.run_protocol import AnalyzedRun
from tailrace.analyzer.report import html
from tailrace.analyzer.summary.limits import JsonObject
from tailrace.analyzer.util.formatting import bytes_text
from tailrace.analyzer.util.html import lines

HEIGHT = 800
"""Of the frame, in CSS pixels."""


class InlineReport:
    """The report of a run. `text` is the page's HTML; it is made on first use, or when a path is given."""

    def __init__(self, run: AnalyzedRun, path: str | os.PathLike[str] | None = None) -> None:
        self._run = run
        self._path = None if path is None else Path(path)
        if self._path is not None:
            html.write_page(self._data, self._path)

    @cached_property
    def _data(self) -> JsonObject:
        return summary.collect(self._run)

    @cached_property
    def text(self) -> str:
        """The page."""
        return html.page_text(self._data)

    def __repr__(self) -> str:
        if self._path is not None:
            return lines(f"report of {self._run.path}, written to {self._path}")
        size = bytes_text(len(self.text.encode("utf-8", "replace")))
        return lines(f"report of {self._run.path}: {size} of HTML, shown in a notebook; report(PATH) writes it")

    def _repr_html_(self) -> str:
        # A page that was written for its own sake is not shown twice.
        if self._path is not None:
            return escape(repr(self), quote=True)
        frame = f'<iframe sandbox="allow-scripts" title="Report" width="100%" height="{HEIGHT}" style="border:0"'
        return f'{frame} srcdoc="{escape(self.text, quote=True)}"></iframe>'
