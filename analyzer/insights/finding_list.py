"""The findings of a run as a list that consoles and notebooks show as a report does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.analyzer.util import html
from tailrace.analyzer.util.formatting import count_text

if TYPE_CHECKING:
    from tailrace.analyzer.insights.finding import Finding


COST_WIDTH = 9
"""Characters of a cost."""


class Findings(list["Finding"]):
    """The findings of a run, in order of their cost. A list; in a notebook a table with what to do about each."""

    def __repr__(self) -> str:
        if not self:
            return "no findings"
        rows = [f"{number:>3}. {_line(one)}" for number, one in enumerate(self, 1)]
        return html.lines(f"{count_text(len(self), 'finding')}:", *rows)

    def _repr_html_(self) -> str:
        if not self:
            return html.output("No findings")
        rows = [(*one.words, one.advice, html.element("code", one.query)) for one in self]
        head = ("cost", "what", "what to do", "the events behind it")
        return html.output(count_text(len(self), "finding").capitalize(), html.table(head, rows, right=("cost",)))


def _line(finding: Finding) -> str:
    cost, title = finding.words
    return f"{cost:>{COST_WIDTH}}  {title}"


def finding_text(finding: Finding) -> str:
    """A finding for a console."""
    return html.lines(_line(finding), f"  {finding.advice}", f"  {finding.query}")


def finding_html(finding: Finding) -> str:
    """A finding for a notebook."""
    evidence = html.Html("")
    if finding.evidence:
        head = list(dict.fromkeys(name for row in finding.evidence for name in row))
        evidence = html.table(head, [[row.get(name, "") for name in head] for row in finding.evidence])
    facts = [("kind", finding.kind), ("cost", finding.words[0]), ("what to do", finding.advice)]
    facts += [("doubts", "; ".join(finding.doubts))] if finding.doubts else []
    rows = [*facts, ("the events behind it", html.element("code", finding.query))]
    return html.output(finding.title, html.table(("", ""), rows), evidence)
